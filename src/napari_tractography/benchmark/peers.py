"""Who takes part in the speed comparison: our engine and other programs, under one interface.

Called by :mod:`.bench`. A peer that is not installed says so and is skipped.
"""

from __future__ import annotations

import importlib
import importlib.util
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ..errors import BackendError
from ..parameters import TrackingParameters

if TYPE_CHECKING:
    from ..fod import Fod
    from ..seeds import Seeds

BASELINE = Path(__file__).resolve().parents[2] / "benchmarks" / "tractography_jl.py"


@dataclass(frozen=True, slots=True)
class Case:
    """What everybody tracks.

    Attributes
    ----------
    fod : Fod
    mask : (x, y, z) bool
        Where streamlines start and stay.
    step_mm, max_angle_deg, min_amplitude, max_length_mm : float
        As in :class:`TrackingParameters`.
    n_threads : int
    """

    fod: Fod
    mask: NDArray[np.bool_]
    step_mm: float = 0.125
    max_angle_deg: float = 45.0
    min_amplitude: float = 0.05
    max_length_mm: float = 250.0
    n_threads: int = 2

    def seeds(self, n: int) -> Seeds:
        """Return `n` seeds, uniform in the mask."""
        from ..seeds import Seeds

        return Seeds.in_mask(self.mask, self.fod.grid, n)

    def parameters(self, **changes: Any) -> TrackingParameters:
        """Return the same settings as parameters of our engine."""
        return TrackingParameters(
            step_mm=self.step_mm,
            max_angle_deg=self.max_angle_deg,
            min_amplitude=self.min_amplitude,
            max_length_mm=self.max_length_mm,
        ).replace(**changes)


class Contestant(Protocol):
    """One program with one algorithm.

    Attributes
    ----------
    label : str
        What the table calls it.
    """

    label: str

    def missing(self) -> str:
        """Return why it cannot take part here, or ""."""

    def prepare(self, case: Case) -> None:
        """Do what is not measured: load, tabulate, compile."""

    def ready(self, n: int) -> None:
        """Make the inputs of a run with `n` seeds; not measured."""

    def run(self, n: int) -> Any:
        """Track `n` seeds; measured."""

    def steps(self, result: Any) -> int:
        """Count the steps in what a run returned; not measured."""


class Ours:
    """This package."""

    def __init__(self, label: str, **settings: Any) -> None:
        self.label = label
        self._settings = settings

    def missing(self) -> str:
        return ""

    def prepare(self, case: Case) -> None:
        from ..tracking.engine import track  # compiled code is loaded only by those who measure

        self._case = case
        self._parameters = case.parameters(**self._settings)
        self._track = track

    def ready(self, n: int) -> None:
        self._seeds = self._case.seeds(n)

    def run(self, n: int) -> Any:
        return self._track(
            self._case.fod,
            self._seeds,
            self._parameters,
            mask=self._case.mask,
            n_threads=self._case.n_threads,
            backend="cpu",
        )

    def steps(self, result: Any) -> int:
        return round(float(result.lengths_mm.sum(dtype=np.float64)) / self._case.step_mm)


class MRtrix:
    """MRtrix3's tckgen, as a process of its own that reads and writes files."""

    def __init__(self, algorithm: str) -> None:
        self.label = f"MRtrix3 {algorithm}"
        self._algorithm = algorithm

    def missing(self) -> str:
        return "" if shutil.which("tckgen") else "tckgen is not installed"

    def prepare(self, case: Case) -> None:
        self._case = case
        self._folder = tempfile.TemporaryDirectory(prefix="tractography-bench-")
        self._fod = write_fod(case.fod, Path(self._folder.name) / "fod.nii")
        self._mask = write_mask(case.mask, case.fod, Path(self._folder.name) / "mask.nii")

    def ready(self, n: int) -> None:
        pass

    def run(self, n: int) -> Any:
        case = self._case
        out = Path(self._folder.name) / "out.tck"
        arguments = {
            "algorithm": self._algorithm,
            "nthreads": case.n_threads,
            "step": case.step_mm,
            "angle": case.max_angle_deg,
            "cutoff": case.min_amplitude,
            "minlength": 0,
            "maxlength": case.max_length_mm,
            "mask": self._mask,
            "seed_image": self._mask,
            "select": 0,
            "seeds": n,
        }
        return run_tckgen(self._fod, out, arguments)

    def steps(self, result: Any) -> int:
        from nibabel.streamlines import load

        streamlines = load(result).streamlines
        return int(streamlines.total_nb_rows) - len(streamlines)


class Dipy:
    """DIPY's compiled trackers on amplitudes over its default sphere, 362 directions."""

    def __init__(self, function: str) -> None:
        self.label = f"DIPY {function}"
        self._function = function

    def missing(self) -> str:
        if importlib.util.find_spec("dipy.tracking.tracker") is None:
            return "this DIPY has no dipy.tracking.tracker"
        return ""

    def prepare(self, case: Case) -> None:
        from dipy.data import default_sphere
        from dipy.tracking.stopping_criterion import BinaryStoppingCriterion

        self._case = case
        self._sphere = default_sphere
        self._sf = positive_amplitudes(case.fod, default_sphere.vertices).astype(np.float64)
        self._stop = BinaryStoppingCriterion(case.mask)
        self._track = getattr(importlib.import_module("dipy.tracking.tracker"), self._function)

    def ready(self, n: int) -> None:
        positions = self._case.seeds(n).positions_mm.astype(np.float64)
        # With directions given it need not look for peaks in Python first, which is not tracking.
        voxels = np.rint(self._case.fod.grid.to_voxel(positions)).astype(np.int64)
        largest = self._sf[tuple(voxels.T)].argmax(axis=1)
        self._seeds = positions, self._sphere.vertices[largest]

    def run(self, n: int) -> Any:
        positions, directions = self._seeds
        return list(
            self._track(
                positions,
                self._stop,
                np.array(self._case.fod.grid.affine),
                seed_directions=directions,
                sf=self._sf,
                sphere=self._sphere,
                min_len=0,
                max_len=self._case.max_length_mm,
                step_size=self._case.step_mm,
                max_angle=self._case.max_angle_deg,
                nbr_threads=self._case.n_threads,
                random_seed=1,
            )
        )

    def steps(self, result: Any) -> int:
        return sum(len(line) - 1 for line in result)


class Cuslines:
    """The Numba tracker of cuslines (GPUStreamlines); it ends half streamlines at 501 points."""

    label = "cuslines, Numba"

    def missing(self) -> str:
        return "" if importlib.util.find_spec("cuslines") else "cuslines is not installed"

    def prepare(self, case: Case) -> None:
        import numba
        from dipy.data import default_sphere

        module = importlib.import_module("cuslines.numba")
        numba.set_num_threads(case.n_threads)
        self._case = case
        sizes = case.fod.grid.voxel_sizes_mm
        self._tracker = module.CPUTracker(
            module.CPUProbDirectionGetter(),
            positive_amplitudes(case.fod, default_sphere.vertices),
            case.mask.astype(np.float32),
            0.5,
            default_sphere.vertices,
            default_sphere.edges,
            sphere_symm=True,
            max_angle=np.deg2rad(case.max_angle_deg),
            step_size=case.step_mm / float(np.mean(sizes)),
            rng_seed=1,
        )

    def ready(self, n: int) -> None:
        self._seeds = self._case.fod.grid.to_voxel(self._case.seeds(n).positions_mm)

    def run(self, n: int) -> Any:
        propagator = self._tracker.seed_propagator
        propagator.propagate(self._seeds)
        return propagator.sline_lens[: propagator.nSlines].copy()

    def steps(self, result: Any) -> int:
        return int((result - 1).sum())


class TractographyJl:
    """Tractography.jl's kernel, ported to Numba as a baseline; in a checkout's benchmarks/ only."""

    label = "Tractography.jl's kernel in Numba"

    def missing(self) -> str:
        return "" if BASELINE.is_file() else "benchmarks/tractography_jl.py comes with a checkout"

    def prepare(self, case: Case) -> None:
        spec = importlib.util.spec_from_file_location("tractography_jl", BASELINE)
        if spec is None or spec.loader is None:
            raise BackendError(f"{BASELINE} cannot be imported; restore it from the repository.")
        module = importlib.util.module_from_spec(spec)
        sys.modules[spec.name] = module  # dataclasses look their module up
        spec.loader.exec_module(module)
        self._case = case
        self._model = module.Model.of(
            case.fod,
            case.mask,
            step_mm=case.step_mm,
            max_angle_deg=case.max_angle_deg,
            max_steps=int(case.max_length_mm / case.step_mm),
        )

    def ready(self, n: int) -> None:
        self._seeds = self._case.seeds(n).positions_mm

    def run(self, n: int) -> Any:
        return self._model.track(self._seeds, n_threads=self._case.n_threads, endpoints=True)

    def steps(self, result: Any) -> int:
        return int(result.n_steps.sum())


def positive_amplitudes(fod: Fod, unit_directions: NDArray[Any]) -> NDArray[np.float32]:
    """Return (x, y, z, n) float32 amplitudes, clipped at zero."""
    return np.maximum(fod.amplitudes(unit_directions), np.float32(0))


def write_fod(fod: Fod, path: Path) -> Path:
    """Write an FOD as MRtrix3 reads it, tournier07 in scanner axes.

    Raises
    ------
    BackendError
        When it is in another basis or frame.
    """
    if (fod.basis, fod.frame) != ("tournier07", "scanner"):
        raise BackendError(
            f"{fod.name} is {fod.basis} in {fod.frame} axes; MRtrix3 reads tournier07 in scanner "
            "axes, so leave it out of the comparison."
        )
    _write(fod.coefficients, fod, path)
    return path


def write_mask(mask: NDArray[Any], fod: Fod, path: Path) -> Path:
    """Write a mask on the FOD's grid as NIfTI."""
    _write(np.asarray(mask, dtype=np.uint8), fod, path)
    return path


def _write(volume: NDArray[Any], fod: Fod, path: Path) -> None:
    import nibabel as nib

    image = nib.Nifti1Image(volume, fod.grid.affine)
    image.set_sform(fod.grid.affine, code=1)
    nib.save(image, path)


def run_tckgen(fod: Path, out: Path, arguments: dict[str, Any]) -> Path:
    """Run tckgen with ``-name value`` for each argument; return `out`.

    True is no value; a list gives the option once for each of its values.

    Raises
    ------
    BackendError
        When it fails; with its own words.
    """
    words = ["tckgen", "-quiet", "-force"]
    for name, value in arguments.items():
        for one in value if isinstance(value, list) else [value]:
            words += [f"-{name}"] if one is True else [f"-{name}", str(one)]
    result = subprocess.run(
        [*words, str(fod), str(out)], capture_output=True, text=True, check=False
    )
    if result.returncode:
        raise BackendError(f"tckgen failed: {' '.join(result.stderr.split())}")
    return out
