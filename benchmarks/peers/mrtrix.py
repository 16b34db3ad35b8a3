"""MRtrix3's tckgen as a contestant, and its files; called by the benchmarks."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import nibabel as nib
import numpy as np
from numpy.typing import NDArray

from napari_tractography.errors import BackendError
from napari_tractography.model.fod import Fod
from napari_tractography.tracking.speed import Case


class MRtrixInput:
    """The FOD and the mask of a case as files; contestants that share it write them once.

    Attributes
    ----------
    fod, mask, out : Path
        What tckgen reads and writes, there after the first `write`; removed with this object.
    """

    def __init__(self) -> None:
        self._written: Case | None = None
        self._remove: Callable[[], object] = lambda: None

    def write(self, case: Case) -> None:
        """Write a case, if it is not the one that was written last.

        Raises
        ------
        BackendError
            When MRtrix3 cannot read the FOD's basis or frame.
        """
        before = self._written
        if before is not None and case.fod is before.fod and case.mask is before.mask:
            return
        self._remove()
        folder = Path(tempfile.mkdtemp(prefix="tractography-bench-"))
        self._remove = weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
        self.fod = write_fod(case.fod, folder / "fod.nii")
        self.mask = write_mask(case.mask, case.fod, folder / "mask.nii")
        self.out = folder / "out.tck"
        self._written = case


class MRtrix:
    """MRtrix3's tckgen, as a process of its own that reads and writes files.

    Parameters
    ----------
    algorithm : str
        "iFOD1", "iFOD2", "SD_STREAM", "FACT", "Tensor_Det" or "SeedTest".
    max_angle_deg : float, optional
        Instead of the case's.
    files : MRtrixInput, optional
        Shared with other contestants.
    image : Path, optional
        What is tracked, instead of the case's FOD.
    options : dict, optional
        Of tckgen by their names, beside or instead of the case's: None leaves one out, and what can
        be called is, with the number of seeds.
    """

    def __init__(
        self,
        algorithm: str,
        *,
        max_angle_deg: float | None = None,
        files: MRtrixInput | None = None,
        image: Path | None = None,
        options: dict[str, Any] | None = None,
    ) -> None:
        self.label = f"MRtrix3 {algorithm}"
        if max_angle_deg is not None:
            self.label += f", {max_angle_deg:g} degrees"
        self._algorithm = algorithm
        self._max_angle_deg = max_angle_deg
        self._files = MRtrixInput() if files is None else files
        self._image, self._options = image, options or {}

    def missing(self) -> str:
        return "" if shutil.which("tckgen") else "tckgen is not installed"

    def prepare(self, case: Case) -> None:
        self._case = case
        self._files.write(case)

    def make_seeds(self, n: int) -> None:
        pass

    def run(self, n: int) -> Any:
        case, files = self._case, self._files
        angle = case.max_angle_deg if self._max_angle_deg is None else self._max_angle_deg
        arguments = {
            "algorithm": self._algorithm,
            "nthreads": case.n_threads,
            "step": case.step_mm,
            "angle": angle,
            "cutoff": case.min_amplitude,
            "minlength": 0,
            "maxlength": case.max_length_mm,
            "mask": files.mask,
            "seed_image": files.mask,
            "select": 0,
            "seeds": n,
        }
        arguments |= {o: v(n) if callable(v) else v for o, v in self._options.items()}
        wanted = {name: value for name, value in arguments.items() if value is not None}
        return run_tckgen(self._image or files.fod, files.out, wanted)

    def steps(self, result: Any) -> int:
        from nibabel.streamlines import load

        streamlines = load(result).streamlines
        if self._algorithm == "SeedTest":  # which takes none
            return len(streamlines)
        return int(streamlines.total_nb_rows) - len(streamlines)


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


def write_image(values: NDArray[Any], fod: Fod, path: Path) -> Path:
    """Write any volumes on the FOD's grid as NIfTI."""
    _write(values, fod, path)
    return path


def write_mask(mask: NDArray[Any], fod: Fod, path: Path) -> Path:
    """Write a mask on the FOD's grid as NIfTI."""
    _write(np.asarray(mask, dtype=np.uint8), fod, path)
    return path


def _write(volume: NDArray[Any], fod: Fod, path: Path) -> None:
    image = nib.Nifti1Image(volume, fod.grid.affine)
    image.set_sform(fod.grid.affine, code=1)
    nib.save(image, path)


def run_tckgen(
    fod: Path, out: Path, arguments: dict[str, Any], random_seed: int | None = None
) -> Path:
    """Run tckgen with ``-name value`` for each argument; return `out`.

    True is no value; a list gives the option once for each of its values, a tuple is the values of
    an option that takes several. With a random seed and no threads it gives the same again.

    Raises
    ------
    BackendError
        When it fails; with its own words.
    """
    words = ["tckgen", "-quiet", "-force"]
    for name, value in arguments.items():
        for one in value if isinstance(value, list) else [value]:
            values = one if isinstance(one, tuple) else () if one is True else (one,)
            words += [f"-{name}", *map(str, values)]
    env = None if random_seed is None else {**os.environ, "MRTRIX_RNG_SEED": str(random_seed)}
    result = subprocess.run(
        [*words, str(fod), str(out)], capture_output=True, text=True, check=False, env=env
    )
    if result.returncode:
        raise BackendError(f"tckgen failed: {' '.join(result.stderr.split())}")
    return out
