"""How far transport is to look ahead: chosen on some lines, and tried on others and in a brain.

Called by ``validate.py``.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import nibabel as nib
import numpy as np
from scipy.ndimage import binary_dilation

import ground_truth
import napari_tractography as nt
from napari_tractography.fields.sh import sh_matrix
from peers.mrtrix import run_tckgen, write_fod

FAR_VOX = (0.0, 0.25, 0.5, 1.0, 2.0)
NOISE = 0.02  # of the largest first coefficient, on all coefficients

# Of the brain.
TRACTS = ("AF_left", "CC", "CG_left", "CST_left", "FX_left", "IFO_left", "OR_left", "UF_left")
LMAX, BLUR = 8, 0.02  # of the lobe of a peak: degree l is damped by exp(-BLUR l (l + 1))
SEED_RADIUS_MM = 0.01
INSIDE = 0.9  # of a valid streamline's points
N_STARTS_TCKGEN = 400  # seeds of one run: each is an argument


@dataclass(frozen=True, slots=True)
class Tract:
    """One end of a bundle in a brain.

    Attributes
    ----------
    seeds_mm : (n, 3) float64
        In the mask of that end.
    other_end, around : (x, y, z) bool
        The mask of the other end, and of the bundle, dilated by one and by two voxels.
    """

    seeds_mm: np.ndarray
    other_end: np.ndarray
    around: np.ndarray


def grid_text() -> str:
    """Return which settings of tckgen are tried, in words."""
    words = [
        f"{name} {', '.join(f'{value:g}' for value in values)}"
        for name, values in ground_truth.GRID.items()
    ]
    powers = ", ".join(str(power) for power in ground_truth.POWERS if power)
    return f"{'; '.join(words)}; iFOD1 and iFOD2 with `-power` as it is, {powers}"


def text(yoga: Path, subject: Path, n: int) -> str:
    """Return the section: a table, and what was chosen by which column."""
    exact = nt.load_fod(yoga / ground_truth.FOD)
    ends = ground_truth.ends_of(yoga)
    halves = {"first": range(0, len(ends), 2), "other": range(1, len(ends), 2)}
    noisy = noisy_copy(exact)
    fod = fod_of_peaks(subject / "peaks.nii.gz")
    tracts = tracts_of(subject / "bundles", fod, max(n * 2 // 5, 10))
    suited = nt.TrackingParameters.for_fod(fod, algorithm="transport", min_length_mm=0.0)
    voxel_mm = float(fod.grid.voxel_sizes_mm.mean())
    rows: dict[str, list[str]] = {}
    for far in FAR_VOX:
        label = f"transport, {far:g} voxel" if far else "transport, not looking ahead"
        cells = [
            _share(
                ground_truth.total_of(
                    ground_truth.ours(
                        one,
                        ends,
                        n,
                        half,
                        algorithm="transport",
                        look_ahead_mm=far * ground_truth.LOOK_AHEAD_MM,
                    )
                )
            )
            for one, half in (
                (exact, halves["first"]),
                (exact, halves["other"]),
                (noisy, halves["other"]),
            )
        ]
        parameters = suited.replace(look_ahead_mm=far * voxel_mm)
        rows[label] = [
            *cells,
            brain_share(fod, tracts, lambda tract, p=parameters: nt.track(fod, _seeds(tract), p)),
        ]
    if shutil.which("tckgen"):
        with tempfile.TemporaryDirectory() as scratch:
            folder = Path(scratch)
            noisy_image = write_fod(noisy, folder / "noisy.nii")
            brain_image = write_fod(fod, folder / "brain.nii")
            for algorithm in ground_truth.TCKGEN:

                def theirs(tract: Tract, algorithm: str = algorithm) -> nt.Tractogram:
                    return _tckgen(
                        brain_image, folder / "out.tck", tract, algorithm, suited.max_length_mm
                    )

                rows[f"tckgen {algorithm}, its defaults"] = [
                    *(
                        _share(
                            ground_truth.total_of(
                                ground_truth.tckgen(image, ends, n, algorithm, {}, half)
                            )
                        )
                        for image, half in (
                            (yoga / ground_truth.FOD, halves["first"]),
                            (yoga / ground_truth.FOD, halves["other"]),
                            (noisy_image, halves["other"]),
                        )
                    ),
                    brain_share(fod, tracts, theirs),
                ]
    lines = [
        "| | phantom, from first ends | phantom, from other ends | with noise, from other ends "
        "| brain |",
        "|---|---:|---:|---:|---:|",
        *(f"| {label} | {' | '.join(cells)} |" for label, cells in rows.items()),
    ]
    return "\n\n".join(
        [
            "With `look_ahead_mm` transport and diffusion turn to where the FOD is larger so much "
            "further on, see [Concepts](concepts.md#transport-and-diffusion). Valid "
            "connections in per cent of streamlines, invalid ones after the stroke; at the "
            "settings of the table above, which were chosen before, without looking ahead.",
            "\n".join(lines),
            "How far was chosen from the first ends of the phantom's bundles and in the brain: on "
            "the phantom two voxels are best, in the brain they lose, and a voxel is the longest "
            "of these lengths that gains in both. The other ends and the copy with noise had no "
            "part in it. The gain on the phantom does not hang on the choice: a quarter of a voxel "
            "is enough for it.",
            f"*With noise*: Gaussian, {NOISE:g} of the largest first coefficient, on every "
            "coefficient of the phantom's voxels with an FOD. *Brain*: the peaks of a person, as "
            f"lobes of lmax {LMAX} on a grid of {voxel_mm:g} mm, with the parameters of `for_fod` "
            "and tckgen at its own defaults, without a minimum length, both up to "
            f"{suited.max_length_mm:g} mm; {len(tracts[0].seeds_mm)} seeds in the mask of "
            f"each end of eight bundles ({', '.join(TRACTS)}), as TractSeg segments them. A "
            "streamline is valid there when an end lies within a voxel of the mask of the bundle's "
            f"other end and {100 * INSIDE:g} % of its points within two voxels of the bundle's: "
            "agreement with another program, not truth, and the share is small since most fibres "
            "of an end belong to other bundles.",
        ]
    )


def cost_text(path: Path, n: int) -> str:
    """Return what looking ahead does to density: a table of a whole brain."""
    fod = nt.load_fod(path)
    seeds = nt.Seeds.from_fod(fod, n)
    voxel_mm = float(np.prod(fod.grid.voxel_sizes_mm)) ** (1 / 3)
    suited = nt.TrackingParameters.for_fod(fod)
    settings = {"probabilistic": suited}
    for far in (0.0, 0.5, 1.0):
        label = f"transport, {far:g} voxel" if far else "transport, not looking ahead"
        settings[label] = suited.replace(algorithm="transport", look_ahead_mm=far * voxel_mm)
    lines = [
        "| | density, r with probabilistic | visits in the most visited twentieth | at the maximum "
        "length |",
        "|---|---:|---:|---:|",
    ]
    drawn: np.ndarray | None = None
    for label, parameters in settings.items():
        streamlines = nt.track(fod, seeds, parameters)
        visits = np.asarray(nt.density(streamlines, fod.grid), dtype=float)[fod.support]
        drawn = visits if drawn is None else drawn
        most = np.sort(visits)[-(len(visits) // 20) :].sum() / visits.sum()
        at_maximum = (streamlines.stop_reasons == nt.StopReason.MAX_LENGTH).any(axis=1).mean()
        lines.append(
            f"| {label} | {np.corrcoef(visits, drawn)[0, 1]:.2f} | {100 * most:.0f} % "
            f"| {100 * at_maximum:.1f} % |"
        )
    return "\n\n".join(
        [
            f"What it costs: lines that are led back run together. A whole brain, {n} seeds drawn "
            f"from the FOD ({path.name}), parameters of `for_fod`. For connections from a place it "
            "gains; density it distorts, so that it is not the default.",
            "\n".join(lines),
        ]
    )


def _share(total: Any) -> str:
    return f"{100 * total.valid_share:.1f} / {100 * total.invalid_share:.2f}"


def noisy_copy(fod: nt.Fod, random_seed: int = 12) -> nt.Fod:
    """Return the FOD with noise in the voxels that hold one."""
    coefficients = fod.coefficients
    noise = np.random.default_rng(random_seed).normal(size=coefficients[fod.support].shape)
    coefficients[fod.support] += NOISE * fod.values[:, 0].max() * noise
    return nt.Fod(coefficients, fod.grid, basis=fod.basis, frame=fod.frame, name="noisy")


# ---------------------------------------------------------------------------------------- the brain


def fod_of_peaks(path: Path) -> nt.Fod:
    """Return an FOD of a lobe along each peak of a volume, as high as the peak is long."""
    image = nib.load(path)
    volume = np.nan_to_num(np.asarray(image.dataobj, dtype=np.float64))
    peaks = volume.reshape(*volume.shape[:3], -1, 3)
    degrees = np.repeat(*np.array([(degree, 2 * degree + 1) for degree in range(0, LMAX + 1, 2)]).T)
    damping = np.exp(-BLUR * degrees * (degrees + 1))
    top = sh_matrix(np.array([[0.0, 0.0, 1.0]]), LMAX, "tournier07")[0]
    damping /= top @ (damping * top)  # the lobe is 1 high
    coefficients = np.zeros((*volume.shape[:3], len(degrees)), np.float32)
    for number in range(peaks.shape[3]):
        peak = peaks[..., number, :]
        length = np.linalg.norm(peak, axis=-1)
        there = length > 0
        units = peak[there] / length[there][:, None]
        coefficients[there] += (
            length[there][:, None] * damping * sh_matrix(units, LMAX, "tournier07")
        )
    return nt.Fod(coefficients, image.affine, basis="tournier07", name="peaks")


def tracts_of(folder: Path, fod: nt.Fod, n: int) -> list[Tract]:
    """Return both ends of each bundle of a folder of masks."""
    rng = np.random.default_rng(1)
    tracts = []
    for name in TRACTS:
        whole, begin, end = (
            np.asarray(nib.load(folder / f"{name}{part}.nii.gz").dataobj) > 0
            for part in ("", "_b", "_e")
        )
        for here, there in ((begin, end), (end, begin)):
            voxels = np.argwhere(here & whole & fod.support)
            chosen = voxels[rng.integers(len(voxels), size=n)]
            tracts.append(
                Tract(
                    fod.grid.to_mm(chosen + rng.uniform(-0.5, 0.5, chosen.shape)),
                    binary_dilation(there),
                    binary_dilation(whole, iterations=2),
                )
            )
    return tracts


def brain_share(fod: nt.Fod, tracts: list[Tract], track: Callable[[Tract], nt.Tractogram]) -> str:
    """Return the share of valid streamlines from all ends, in per cent."""
    n_valid = n_streamlines = 0
    for tract in tracts:
        streamlines = track(tract)
        points, offsets = streamlines.points, streamlines.offsets
        at_end = _in(tract.other_end, fod, points)
        arrives = at_end[offsets[:-1]] | at_end[offsets[1:] - 1]
        inside = np.add.reduceat(_in(tract.around, fod, points), offsets[:-1], dtype=float)
        n_valid += int((arrives & (inside >= INSIDE * np.diff(offsets))).sum())
        n_streamlines += len(streamlines)
    return f"{100 * n_valid / n_streamlines:.1f}"


def _in(mask: np.ndarray, fod: nt.Fod, points_mm: np.ndarray) -> np.ndarray:
    voxels = np.rint(fod.grid.to_voxel(points_mm)).astype(int)
    inside = ((voxels >= 0) & (voxels < mask.shape)).all(axis=1)
    found = np.zeros(len(voxels), bool)
    found[inside] = mask[tuple(voxels[inside].T)]
    return found


def _seeds(tract: Tract) -> nt.Seeds:
    return nt.Seeds.at(tract.seeds_mm)


def _tckgen(
    image: Path, out: Path, tract: Tract, algorithm: str, max_length_mm: float
) -> nt.Tractogram:
    """Track from as many points as there are seeds, drawn from the first of them."""
    spheres = [
        f"{x:.4f},{y:.4f},{z:.4f},{SEED_RADIUS_MM:g}"
        for x, y, z in tract.seeds_mm[:N_STARTS_TCKGEN]
    ]
    arguments = {
        "algorithm": algorithm,
        "select": 0,
        "seeds": len(tract.seeds_mm),
        "nthreads": 2,
        "minlength": 0,
        "maxlength": max_length_mm,
        "seed_sphere": spheres,
    }
    return nt.load_tractogram(run_tckgen(image, out, arguments))
