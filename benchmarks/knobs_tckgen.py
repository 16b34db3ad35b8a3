"""Each knob beside tckgen with the same option, wherever it has one; called by knobs.py.

Both programs get the same volume, seeds uniformly where it holds an FOD, step, cone angle, cutoff
and largest length, those of our defaults for the volume but for the one that is changed, and two
threads; they run in turn, and a run of a single seed is taken off each (see
:mod:`napari_tractography.tracking.speed`). Steps are counted in what comes back. With tissues that
leaves out the streamlines that are refused, whose steps take time as well: the columns of steps a
seed tell whether both accept alike. Peaks for FACT and signals for Tensor_Det are made of the FOD's
largest amplitudes; FACT draws a start direction and leaves a seed where that is not within the
angle of a peak, hence 90 degrees. SeedTest gives seeds alone, and they are counted.

There is no equivalent in tckgen of a probability threshold, nearest voxels, softplus, ``edge``,
``start``, directions, stop and end regions, a cone function, float16, `transport` and `diffusion`;
`deterministic` stands beside SD_STREAM.
"""

from __future__ import annotations

import logging
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import brain_volume
import napari_tractography as nt
from comparison import Row, ratios
from napari_tractography.fields.sh import sh_matrix
from napari_tractography.geometry.directions import direction_set
from napari_tractography.tracking.engine import warm_up
from napari_tractography.tracking.speed import Case, Ours, measure
from peers.mrtrix import MRtrix, MRtrixInput, write_image, write_mask

LEAST = 40.0  # times as fast
FAR, NEAR = 1e4, 1.0  # mm: radii of spheres that hold all, and nothing that is tracked
N_DIRECTIONS = 724  # among which the largest amplitude is looked for
PARALLEL, ACROSS, FREE = 1.7e-3, 0.3e-3, 1e-3  # mm2/s: diffusion along and across fibres, and else
N_GRADIENTS, B = 30, 1000.0  # s/mm2


@dataclass(frozen=True, slots=True)
class Beside:
    """A row: what differs from the case, for us and for tckgen."""

    name: str
    case: Case
    algorithm: str = "iFOD1"
    settings: dict[str, Any] = field(default_factory=dict)
    keywords: dict[str, Any] = field(default_factory=dict)
    options: dict[str, Any] = field(default_factory=dict)
    fod: nt.Fod | None = None  # ours, where it is another than tckgen's
    image: Path | None = None  # tckgen's, where it is another than the case's


class OursBeside(Ours):
    """This package with what a row asks for."""

    def __init__(self, row: Beside) -> None:
        super().__init__(row.name, min_length_mm=0.0, **row.settings)
        self._row = row

    def prepare(self, case: Case) -> None:
        """Do what is not measured."""
        self._case = case if self._row.fod is None else replace(case, fod=self._row.fod)
        self._parameters = case.parameters(**self._settings)
        self._track = nt.track
        warm_up(self._parameters, fod=self._case.fod)

    def run(self, n: int) -> Any:
        """Track `n` seeds; measured."""
        given = {k: v(n) if callable(v) else v for k, v in self._row.keywords.items()}
        how = {"n_threads": self._case.n_threads, "backend": "cpu"}
        return self._track(self._case.fod, self._seeds, self._parameters, **given, **how)


class OurSeeds(Ours):
    """Seeds alone, which stand for steps."""

    def prepare(self, case: Case) -> None:
        """Do what is not measured."""
        self._case = case

    def make_seeds(self, n: int) -> None:
        """Make nothing: that is measured."""

    def run(self, n: int) -> Any:
        """Draw `n` seeds; measured."""
        return self._case.seeds(n).positions_mm

    def steps(self, result: Any) -> int:
        """Count the seeds."""
        return len(result)


def case_of(fod: nt.Fod, **parameters: Any) -> Case:
    """Return an FOD with the defaults for it."""
    defaults = nt.TrackingParameters.for_fod(fod, **parameters)
    names = "step_mm", "max_angle_deg", "min_amplitude", "max_length_mm"
    return Case(fod, fod.support, **{name: getattr(defaults, name) for name in names}, n_threads=2)


def rows_of(fod: nt.Fod, folder: Path) -> Iterator[Beside]:
    """Yield the rows; their files are written into a folder as they come."""
    case = case_of(fod)
    yield Beside("defaults", case)
    for floor in (0.0, 0.05, 0.2):
        name, both = f"min_amplitude {floor:g}", {"cutoff": floor}
        yield Beside(name, case, settings={"min_amplitude": floor}, options=both)
    for angle in (5.0, 15.0, 30.0, 60.0, 90.0):
        name, both = f"max_angle_deg {angle:g}", {"angle": angle}
        yield Beside(name, case, settings={"max_angle_deg": angle}, options=both)
    one_way = {"seed_unidirectional": True}
    yield Beside("direction forward", case, settings={"direction": "forward"}, options=one_way)
    shape, affine = fod.grid.shape, fod.grid.affine
    for role, radius in (("include", FAR), ("exclude", NEAR)):
        place = affine[:3, 3]  # the corner, where no streamline is
        sphere = nt.Region.sphere(place, radius, role)
        spec = {role: ",".join(map(str, (*place, radius)))}
        yield Beside(f"{role}, a sphere", case, keywords={"regions": [sphere]}, options=spec)
        voxels = np.ones(shape, np.uint8) if role == "include" else np.zeros(shape, np.uint8)
        voxels[0, 0, 0] = 1
        painted = {"regions": [nt.Region.mask(voxels, affine, role)]}
        file = {role: write_mask(voxels, fod, folder / f"{role}.nii")}
        yield Beside(f"{role}, painted", case, keywords=painted, options=file)
    mask = write_mask(fod.support, fod, folder / "support.nii")
    yield Beside("mask", case, keywords={"mask": fod.support}, options={"mask": mask})
    yield Beside(
        "select",
        case,
        keywords={"select": lambda n: n},
        options={"select": lambda n: n, "seeds": 0},
    )
    tissues = brain_volume.make_tissues(fod)
    file = {"act": write_image(tissues.fractions, fod, folder / "5tt.nii")}
    for name, settings, options in (
        ("tissues", {}, {}),
        ("tissues, backtrack", {"backtrack": True}, {"backtrack": True}),
        ("tissues, crop", {"crop_at_gmwmi": True}, {"crop_at_gmwmi": True}),
    ):
        yield Beside(name, case, "iFOD1", settings, {"tissues": tissues}, {**file, **options})
    for algorithm in ("sd_stream", "deterministic"):
        yield Beside(algorithm, case, "SD_STREAM", {"algorithm": algorithm})
    arcs = case_of(fod, algorithm="ifod2")
    yield Beside("ifod2", replace(arcs, mask=case.mask), "iFOD2", {"algorithm": "ifod2"})
    yield Beside("seeds alone", case, "SeedTest")
    directions = largest(fod)
    peaks = write_image(directions, fod, folder / "peaks.nii")
    yield Beside(
        "peaks, sd_stream, nearest, 90 degrees",
        replace(case, max_angle_deg=90.0),
        "FACT",
        {"algorithm": "sd_stream", "interpolation": "nearest"},
        fod=nt.Fod.from_peaks(directions, affine),
        image=peaks,
    )
    tensors, signals, gradients = diffusion(directions)
    np.savetxt(folder / "gradients.txt", gradients)
    yield Beside(
        "tensors, deterministic",
        case,
        "Tensor_Det",
        {"algorithm": "deterministic"},
        options={"grad": folder / "gradients.txt"},
        fod=nt.Fod.from_tensors(tensors, affine),
        image=write_image(signals, fod, folder / "signals.nii"),
    )
    for lmax in (4, 6, 10, 12):
        yield Beside(f"lmax {lmax}", case_of(brain_volume.of_degree(fod, lmax)))
    yield Beside("an oblique image", case_of(brain_volume.turned(fod)))


def largest(fod: nt.Fod) -> NDArray[np.float32]:
    """Return (x, y, z, 3) vectors along the largest amplitudes, as long as they are large."""
    units = direction_set(N_DIRECTIONS)
    rows = fod.voxel_rows[fod.support]
    amplitudes = (fod.values @ sh_matrix(units, fod.lmax, fod.basis).T.astype(np.float32))[rows]
    found = np.zeros((*fod.grid.shape, 3), np.float32)
    found[fod.support] = units[amplitudes.argmax(axis=1)] * amplitudes.max(axis=1)[:, None]
    return found


def diffusion(
    directions: NDArray[np.float32],
) -> tuple[NDArray[np.float32], NDArray[np.float32], NDArray[np.float64]]:
    """Return tensors around directions, the signals that they give, and the gradients of those."""
    length = np.linalg.norm(directions, axis=-1, keepdims=True)
    is_fibre = length[..., 0] > 0
    units = np.divide(directions, length, out=np.zeros_like(directions), where=length > 0)
    pairs = ((0, 0), (1, 1), (2, 2), (0, 1), (0, 2), (1, 2))
    tensors = np.zeros((*is_fibre.shape, 6), np.float32)
    for number, (i, j) in enumerate(pairs):
        tensors[..., number] = (PARALLEL - ACROSS) * units[..., i] * units[..., j]
        tensors[..., number] += (i == j) * np.where(is_fibre, ACROSS, FREE)
    gradients = np.zeros((N_GRADIENTS + 1, 4))
    rng = np.random.default_rng(0)
    around = rng.standard_normal((N_GRADIENTS, 3))
    gradients[1:, :3] = around / np.linalg.norm(around, axis=1, keepdims=True)
    gradients[1:, 3] = B
    signals = np.empty((*is_fibre.shape, N_GRADIENTS + 1), np.float32)
    for number, (*g, b) in enumerate(gradients.tolist()):
        terms = np.array([(1 if i == j else 2) * g[i] * g[j] for i, j in pairs], np.float32)
        signals[..., number] = 1000 * np.exp(np.float32(-b) * (tensors @ terms))
    tensors[~is_fibre] = 0
    return tensors, signals, gradients


def measure_all(
    fod: nt.Fod, repeats: int, seconds: float, only: Sequence[str] = ("",)
) -> list[dict[str, Any]]:
    """Measure, print the table as it grows and return its rows."""
    logging.disable(logging.WARNING)  # a warm-up of one seed may well find nothing, and says so
    if missing := MRtrix("iFOD1").missing():
        raise SystemExit(missing)
    print(
        "| | ours, million steps/s | tckgen | million steps/s | ratio | per processor second "
        "| steps a seed | of tckgen |\n|---|---:|---|---:|---:|---:|---:|---:|"
    )
    found, files = [], MRtrixInput()
    with tempfile.TemporaryDirectory(prefix="tractography-bench-") as folder:
        for row in rows_of(fod, Path(folder)):
            if not any(text in row.name for text in only):
                continue
            options = {"mask": None, **row.options}  # a mask is a knob of its own
            peer = MRtrix(row.algorithm, files=files, image=row.image, options=options)
            ours = OurSeeds(row.name) if row.algorithm == "SeedTest" else OursBeside(row)
            speeds = measure(row.case, [ours, peer], repeats=repeats, seconds=seconds)
            (ratio,) = ratios(speeds, [Row(row.name, ours.label, peer.label, LEAST)])
            found.append(ratio)
            mine, theirs = speeds
            words = " ".join(f"-{name}" for name, value in row.options.items() if value is not None)
            if ratio["skipped"]:
                print(f"| {row.name} | | {row.algorithm} {words} | {ratio['skipped']} | | | | |")
                continue
            print(
                f"| {row.name} | {mine.steps_per_s / 1e6:.2f} | {row.algorithm} {words} "
                f"| {theirs.steps_per_s / 1e6:.3f} | {ratio['ratio']:.1f}x "
                f"| {ratio['ratio_per_cpu_s']:.1f}x | {mine.steps_per_seed:.0f} "
                f"| {theirs.steps_per_seed:.0f} |",
                flush=True,
            )
    missed = [one for one in found if not one["skipped"] and one["ratio"] < LEAST]
    for one in missed:
        print(f"missed: {one['what']}: {one['ratio']:.1f}x of {LEAST:g}x")
    return found
