"""Files of peaks that are no single volume of them: FSL's dyads and V1, and what is read whole.

Read in one go, with the interface of :class:`napari_tractography.files.fods.FodReader`.
Called by :mod:`napari_tractography.files.fods` and, in a thread, by the plugin.
"""

from __future__ import annotations

import re
import threading
from os import PathLike
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ..errors import FileError
from ..fields.kinds import PEAKS
from ..fields.peaks import stacked
from ..fields.readings import AUTO
from ..geometry.grid import Grid
from ..model.fod import Fod
from .damage import tell_once
from .formats import whole_reading
from .hashing import sha256_of
from .headers import check_numeric, grid_of, read_header, without_trailing_ones
from .nifti import NIFTI
from .paths import GivenUpError, at_home, existing_file

NIFTI_ENDINGS = NIFTI.endings[::-1]  # which FSL writes; packed ones are the commoner
_NIFTI = "|".join(map(re.escape, NIFTI_ENDINGS))
DYADS = re.compile(rf"dyads(\d+)({_NIFTI})", re.IGNORECASE)  # bedpostx
V1 = re.compile(rf"(.*_)?V1({_NIFTI})")  # dtifit


class PeakReader:
    """Peaks in a .pam5 file, or in FSL's files of directions and the amplitudes beside them.

    With ``dyads1.nii.gz`` the other dyads and ``mean_f1samples.nii.gz`` beside it are read, with
    ``dti_V1.nii.gz`` ``dti_FA.nii.gz``; amplitudes that are not there are 1. Axes are by default
    those that the program writes. Attributes are those of
    :class:`~napari_tractography.files.fods.FodReader`. Raises FileError when the file is
    missing, damaged or of another format.
    """

    def __init__(self, path: str | PathLike[str], *, axes: str | None = None) -> None:
        self._path = existing_file(path)
        self._axes = axes
        self._whole = whole_reading(self._path)
        self.name = self._path.name
        self.grid: Grid = (self._whole.grid if self._whole else _fsl_grid)(self._path)
        self.isotropic: NDArray[np.float32] = np.zeros(self.grid.shape, np.float32)
        self.map_read, self.cancelled = threading.Event(), threading.Event()
        self.progress = 0.0

    def read(self, *, hashed: bool = False) -> tuple[Fod, str]:
        """Read the peaks; see :meth:`napari_tractography.files.fods.FodReader.read`.

        Of several files, the SHA-256 is that of the one that was named.
        """
        if self._whole:
            fod = self._whole.read(self._path, self._axes)
        else:
            fod = Fod.from_peaks(
                self._stacked(), self.grid, axes=self._axes or "fsl", name=self.name
            )
        if self.cancelled.is_set():
            raise GivenUpError(self.name)
        self.isotropic[...] = fod.overview()
        self.progress = 1.0
        self.map_read.set()
        return fod, sha256_of(self._path) if hashed else ""

    def _stacked(self) -> NDArray[np.float32]:
        parts = fsl_parts(self._path)
        if self._axes is None and not any(amplitude for _, amplitude in parts):
            tell_once(
                self._path,
                f"{self.name} is read in FSL's axes because of its name alone, as no amplitudes of "
                "FSL's lie beside it; say axes if another program wrote it.",
            )
        directions, amplitudes = [], []
        for number, (vectors, amplitude) in enumerate(parts):
            directions.append(self._volume(vectors, 4))
            if amplitude is None:
                amplitudes.append(np.ones(self.grid.shape, np.float32))
            else:
                amplitudes.append(self._volume(amplitude, 3))
            self.progress = (number + 1) / (len(parts) + 1)
        return stacked(directions, amplitudes)

    def _volume(self, path: Path, n_axes: int) -> NDArray[np.float32]:
        if self.cancelled.is_set():
            raise GivenUpError(self.name)
        stored = read_header(path)
        check_numeric(stored, FileError)
        shape = without_trailing_ones(stored.shape, n_axes)
        wanted = self.grid.shape if n_axes == 3 else (*self.grid.shape, 3)
        if shape != wanted or not grid_of(stored).same_space(self.grid):
            raise FileError(
                f"{path} has shape {stored.shape} and does not belong to {self.name}, of "
                f"{self.grid}; move it away, or put the right one there."
            )
        values: NDArray[np.float32] = stored.read(np.float32).reshape(shape)
        return values


def _fsl_grid(path: Path) -> Grid:
    """Return the voxel grid of one of FSL's files, which may be damaged or too large."""
    stored = read_header(path)
    stored.check_size()
    stored.check_memory(stored.n_bytes)
    return grid_of(stored)


def reads_peaks(path: str | PathLike[str], kind: str = AUTO) -> bool:
    """Tell whether a path is that of a file which :class:`PeakReader` reads."""
    name = at_home(path).name
    if whole_reading(name):
        return True
    return kind in (AUTO, PEAKS.name) and bool(DYADS.fullmatch(name) or V1.fullmatch(name))


def fsl_parts(path: Path) -> list[tuple[Path, Path | None]]:
    """Return FSL's files of directions that belong together, each with that of its amplitudes."""
    if DYADS.fullmatch(path.name):
        parts: list[tuple[Path, Path | None]] = []
        while (found := _beside(path, f"dyads{len(parts) + 1}")) is not None:
            parts.append((found, _beside(path, f"mean_f{len(parts) + 1}samples")))
        return parts if path in [part for part, _ in parts] else [(path, None)]
    match = V1.fullmatch(path.name)
    stem = (match and match.group(1)) or ""
    return [(path, _beside(path, f"{stem}FA"))]


def _beside(path: Path, stem: str) -> Path | None:
    candidates = (path.with_name(stem + ending) for ending in NIFTI_ENDINGS)
    return next((candidate for candidate in candidates if candidate.is_file()), None)
