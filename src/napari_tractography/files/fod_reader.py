"""An FOD volume that is read in pieces: its map first, and how far it is.

Used by :func:`.fods.load_fod`, which waits for the end, and by the plugin, which does not.
"""

from __future__ import annotations

import math
import threading
from os import PathLike

import numpy as np
from numpy.typing import NDArray

from ..errors import InvalidFodError
from ..fields.kinds import AUTO, checked_kind
from ..fod import Fod, check_fod_shape, checked_reading
from .headers import check_numeric, grid_of, read_header, without_trailing_ones
from .images import NumberStream
from .packing import pack_volumes, pack_voxels
from .recognition import check_is_fod


class FodReader:
    """An FOD volume of which the header has been read.

    Parameters
    ----------
    path : path-like
        See :func:`.fods.load_fod`.
    kind : str
        See :func:`.fods.load_fod`.
    basis, frame : str
        How to read the coefficients, see :class:`~napari_tractography.fod.Fod`.

    Attributes
    ----------
    name : str
        Of the file.
    grid : Grid
    isotropic : (x, y, z) float32
        The l = 0 coefficient of each voxel, zero in empty ones; filled by :meth:`read`.
    map_read : threading.Event
        Set when `isotropic` is complete, but for voxels of which another coefficient is NaN or
        infinite: they become zero at the end.
    cancelled : threading.Event
        Set it to end :meth:`read`.

    Raises
    ------
    FileError
        When the file is missing, truncated as far as its size tells, of another format, its
        header corrupt or its affine singular.
    InvalidFodError
        When it holds something else than an FOD.
    InvalidParameterError
        When the kind, the basis or the frame is unknown.
    """

    def __init__(
        self,
        path: str | PathLike[str],
        *,
        kind: str = AUTO,
        basis: str = "tournier07",
        frame: str | None = None,
    ) -> None:
        stored = read_header(path)
        self.name = stored.path.name
        self._shape = without_trailing_ones(stored.shape, 4)
        is_seen = checked_kind(kind) == AUTO and (len(self._shape) == 4 or bool(stored.declares))
        if not is_seen:
            check_fod_shape(self._shape, self.name)
        self._basis, self._frame = checked_reading(basis, frame)
        self.grid = grid_of(stored)
        check_numeric(stored, InvalidFodError)
        stored.check_size()  # before memory is allocated for the map
        if is_seen:
            check_is_fod(stored)  # before gigabytes are read
            check_fod_shape(self._shape, self.name)
        self._stored = stored
        self._numbers: NumberStream | None = None
        self._flat = np.zeros(math.prod(self._shape[:3]), np.float32)  # in the order of the file
        self.isotropic: NDArray[np.float32] = stored.arranged(self._flat, 3)
        self.map_read = threading.Event()
        self.cancelled = threading.Event()

    @property
    def progress(self) -> float:
        """How much of the file has been read, from 0 to 1; other threads may ask."""
        numbers = self._numbers
        return 0.0 if numbers is None else numbers.n_read / math.prod(self._shape)

    def read(self, *, hashed: bool = False) -> tuple[Fod, str]:
        """Read the coefficients.

        Of a dense array no more than a part is in memory at any time, except where the
        coefficients lie in the middle of the axes of the file, or backwards.

        Parameters
        ----------
        hashed : bool
            Whether to take the SHA-256 of the file in the same pass.

        Returns
        -------
        fod : Fod
            Named after the file.
        sha256 : str
            Of the file, "" where it was not asked for; of a .mih the header's.

        Raises
        ------
        FileError
            When the file is truncated or corrupt.
        InvalidFodError
            When no voxel is usable.
        GivenUpError
            When :attr:`cancelled` was set.
        """
        stored = self._stored
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
