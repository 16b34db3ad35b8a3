"""MRtrix3's tckgen as a contestant, and its files; called by the benchmarks."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import nibabel as nib
import numpy as np
from numpy.typing import NDArray

from ...errors import BackendError
from ...fod import Fod
from ..cases import Case


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

    def make_seeds(self, n: int) -> None:
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
