"""FODs, peaks and tensors in files, read in pieces: the map first, and how far it is.

:func:`load_fod` waits for the end; the plugin, which does not, takes the reader.
"""

from __future__ import annotations

import math
import threading
from os import PathLike
from typing import TypedDict, Unpack

import numpy as np
from numpy.typing import NDArray

from ..errors import InvalidFodError
from ..fields.input_kind import InputKind, Kind
from ..fields.kinds import SH, checked_kind, read_kinds
from ..fields.readings import AUTO
from ..fields.sh import check_fod_shape, checked_reading
from ..fields.vectors import check_axes, check_order
from ..model.fod import Fod
from .formats import volume_format
from .headers import check_numeric, grid_of, read_header
from .packing import pack_volumes, pack_voxels
from .paths import existing_file
from .peak_files import PeakReader, reads_peaks
from .recognition import tracked_kind_of, with_order
from .stored_images import NumberStream

# Scripts that the plugin writes import them from here.
from .volume_files import load_mask as load_mask
from .volume_files import load_volume as load_volume


def load_fod(
    path: str | PathLike[str],
    *,
    kind: str = AUTO,
    basis: str = "tournier07",
    frame: str | None = None,
    axes: str | None = None,
    order: str | None = None,
) -> Fod:
    """Read an FOD volume.

    Memory is needed for the coefficients of the used voxels and a few volumes beside; for all of
    them only where the coefficients lie in the middle of the axes of a .mif.

    Parameters
    ----------
    path : path-like
        .nii, .nii.gz, .mif, .mif.gz or .mih; 4-D, with SH coefficients, peaks or tensors along
        the last axis; .pam5, DIPY's peaks; or FSL's dyads1.nii.gz or V1.nii.gz, with which the
        other dyads and the amplitudes beside it are read, see docs/files.md.
    kind : str
        What the volumes are. "auto" tells from the header and some voxels, and refuses what is no
        FOD or unclear, with what it looks like; "sh", "peaks" and "tensor" take them for SH
        coefficients, peaks or tensors in any case.
    basis, frame : str
        How to read the coefficients, see :class:`~napari_tractography.model.fod.Fod`.
    axes : str, optional
        Of peaks and tensors: "scanner", "voxel" or "fsl", see
        :meth:`~napari_tractography.model.fod.Fod.from_peaks`. By default "scanner" for peaks but
        those of FSL and DIPY, which are in their own, and for tensors those of the program whose
        order they are in.
    order : str, optional
        Of the elements of tensors: "mrtrix", "fsl" or "dipy"; by default as their values tell.

    Returns
    -------
    Fod
        Named after the file.

    Raises
    ------
    FileError
        When the file is missing, truncated, corrupt or of another format, or its affine singular.
    InvalidFodError
        When it holds something else than an FOD.
    InvalidParameterError
        When the kind, the basis, the frame, the axes or the order is unknown.
    """
    reader = fod_reader(path, kind=kind, basis=basis, frame=frame, axes=axes, order=order)
    return reader.read(hashed=False)[0]


def fod_reader(
    path: str | PathLike[str], *, look_later: bool = False, **keywords: Unpack[FodKeywords]
) -> FodReader | PeakReader:
    """Return what reads a file in pieces; the parameters are those of :class:`FodReader`."""
    if reads_peaks(path, checked_kind(keywords.get("kind", AUTO))):
        return PeakReader(path, axes=keywords.get("axes"))
    volume_format(existing_file(path))
    return FodReader(path, look_later=look_later, **keywords)


class FodKeywords(TypedDict, total=False):
    """How a file is read, by name; see :class:`FodReader`."""

    kind: str
    basis: str
    frame: str | None
    axes: str | None
    order: str | None


class FodReader:
    """An FOD volume of which the header has been read.

    Parameters are those of :func:`load_fod`, whose errors it raises; with `look_later` it is
    :meth:`read` that finds out what the volumes are, which takes up to a second, and raises.
    """

    def __init__(
        self,
        path: str | PathLike[str],
        *,
        kind: str = AUTO,
        basis: str = "tournier07",
        frame: str | None = None,
        axes: str | None = None,
        order: str | None = None,
        look_later: bool = False,
    ) -> None:
        stored = read_header(path).with_volumes()
        self.name = stored.path.name
        self._shape = stored.shape
        is_seen = checked_kind(kind) == AUTO and (len(self._shape) >= 4 or bool(stored.declares))
        if not is_seen and kind in (AUTO, SH.name):
            check_fod_shape(self._shape, self.name)
        self._basis, self._frame = checked_reading(basis, frame)
        if axes:  # whatever the volumes are: a name is right or wrong
            check_axes(axes)
        if order:
            check_order(order)
        self.grid = grid_of(stored)
        check_numeric(stored, InvalidFodError)
        stored.check_size()  # before memory is allocated for the map
        stored.check_memory(math.prod(self._shape[:3]) * np.dtype(np.float32).itemsize)
        self._kind: Kind = SH if kind == AUTO else read_kinds()[kind]
        self._axes, self._order = axes, order or ""
        self._stored = stored
        self._is_to_be_seen = is_seen
        if not look_later:
            self._recognise()
        self._numbers: NumberStream | None = None
        self._flat = np.zeros(math.prod(self._shape[:3]), np.float32)  # in the order of the file
        # (x, y, z) float32: the l = 0 coefficient of each voxel, zero in empty ones, or what else
        # its kind shows; filled by `read`.
        self.isotropic: NDArray[np.float32] = stored.arranged(self._flat, 3)
        # Set when `isotropic` is complete, but for voxels of which another coefficient is NaN or
        # infinite: they become zero at the end.
        self.map_read = threading.Event()
        self.cancelled = threading.Event()  # set it to end `read`

    @property
    def progress(self) -> float:
        """How much of the file has been read, from 0 to 1; other threads may ask."""
        numbers = self._numbers
        return 0.0 if numbers is None else numbers.n_read / math.prod(self._shape)

    def _recognise(self) -> None:
        """Look what the volumes are, once; raise where it is nothing that is tracked."""
        if self._is_to_be_seen:
            self._kind = tracked_kind_of(self._stored)  # before gigabytes are read
            self._is_to_be_seen = False
        elif not self._order:
            self._kind = with_order(self._kind, self._stored)
        self._order = self._order or self._kind.order
        if self._kind is SH:
            check_fod_shape(self._shape, self.name)

    def read(self, *, hashed: bool = False) -> tuple[Fod, str]:
        """Read the coefficients; return the FOD, named after the file, and its SHA-256 if that is
        asked for.

        The SHA-256 is taken in the same pass, of a .mih that of the header. Of a dense array no
        more than a part is in memory at any time, except where the coefficients lie in the middle
        of the axes of the file, or backwards. Raises FileError when the file is truncated or
        corrupt; InvalidFodError when no voxel is usable, or, with `look_later`, when it holds
        something else; GivenUpError when :attr:`cancelled` was set.
        """
        self._recognise()
        stored = self._stored
        if self._kind is not SH:
            return self._read_vectors(hashed=hashed)
        order = stored.order_of(4)
        reading = {"basis": self._basis, "frame": self._frame, "name": self.name}
        with stored.opened(hashed=hashed, cancelled=self.cancelled) as numbers:
            self._numbers = numbers
            is_streamed = not stored.flipped[3] and stored.dtype != np.bool_
            if is_streamed and order[-1] == 3:
                packed = pack_volumes(numbers, stored, self._flat, self.map_read)
            elif is_streamed and order[0] == 3:
                packed = pack_voxels(numbers, stored, self._flat)
            else:
                packed = None
                stored.check_memory(math.prod(self._shape) * np.dtype(np.float32).itemsize)
                flat = np.empty(math.prod(self._shape), np.float32)
                numbers.read(flat)
        if packed is not None:
            fod = Fod.of_voxels(
                packed.values, packed.rows, self.grid, n_invalid=packed.n_invalid, **reading
            )
        else:
            fod = Fod(stored.arranged(flat, 4), self.grid, **reading)
            self.isotropic[...] = fod.isotropic()
        self.map_read.set()
        return fod, numbers.sha256

    def _read_vectors(self, *, hashed: bool) -> tuple[Fod, str]:
        """Read an input that is followed by numbers of its voxels; see :meth:`read`."""
        stored = self._stored
        stored.check_memory(math.prod(stored.shape) * np.dtype(np.float32).itemsize)
        flat = np.empty(math.prod(stored.shape), np.float32)
        with stored.opened(hashed=hashed, cancelled=self.cancelled) as numbers:
            self._numbers = numbers
            numbers.read(flat)
        values = stored.arranged(flat, len(stored.shape))
        values = values.reshape(*stored.shape[:3], -1)  # peaks may be (x, y, z, k, 3)
        assert isinstance(self._kind, InputKind)
        fod = Fod.of_input(
            self._kind,
            values,
            self.grid,
            axes=self._axes or None,
            order=self._order,
            name=self.name,
        )
        self.isotropic[...] = fod.overview()
        self.map_read.set()
        return fod, numbers.sha256
