"""Whether a 4-D file holds an FOD, by its header and a sample of its voxels.

Called by :mod:`.fods` before it reads the whole, and by the plugin, which claims no file
that is something else.
"""

from __future__ import annotations

import math
from dataclasses import replace
from os import PathLike

import numpy as np
from numpy.typing import NDArray

from ..errors import AmbiguousKindError, InvalidFodError
from ..fields.input_kind import N_FIRST, UNCLEAR, InputKind, Kind
from ..fields.kinds import KINDS, SH, kinds_of_so_many, read_kinds, recognise
from ..fields.sh import FULL_COUNTS, N_FIRST_FULL
from .damage import tell_once
from .formats import listed
from .headers import check_numeric, read_header
from .stored_images import StoredImage

MAX_VOXELS = 10_000  # that are examined
# Of files with more values the first volumes alone are examined, which is quick.
MAX_VALUES = 1 << 22
CHUNK_VALUES = 1 << 20


def kind_of(path: str | PathLike[str]) -> Kind | None:
    """Return what the volumes of a 4-D file are, None where there are but zeros and NaN.

    Raises FileError when the file is missing, truncated, corrupt or of another format;
    InvalidFodError when it holds no real numbers.
    """
    return kind_of_image(read_header(path).with_volumes())


def kind_of_image(stored: StoredImage) -> Kind | None:
    """Return what the volumes of a 4-D image are; see :func:`kind_of`.

    What the header says counts before the values.
    """
    check_numeric(stored, InvalidFodError)
    if stored.declares:
        return with_order(KINDS[stored.declares], stored)
    n_volumes = _n_volumes(stored)
    values = _sample(stored, n_volumes)
    return recognise(values, n_volumes) if len(values) else None


def tracked_kind_of(stored: StoredImage) -> Kind:
    """Return which of the kinds that are tracked an image holds.

    One of nothing but zeros and NaN counts as an FOD. Raises FileError when the file is truncated
    or corrupt; InvalidFodError when it holds something else or is unclear; with what it looks like.
    """
    kind, n_volumes = kind_of_image(stored), _n_volumes(stored)
    if kind is not None and kind.name not in read_kinds():
        what = f"{n_volumes} volumes" if n_volumes > 1 else "only volume"
        kinds = kinds_of_so_many(n_volumes)
        if SH.name not in kinds and kind is not UNCLEAR:
            kinds = ()
        rest = (
            f", or read it as kind {listed(kinds)} if it is that all the same"
            if kinds
            else "; an FOD has 6, 15, 28, 45, 66, 91, ... volumes"
        )
        found = f"{stored.path.name} holds no FOD in its {what} but {kind.text}; {kind.remedy}"
        if kinds:
            question = f"{found}, or read it all the same."
            raise AmbiguousKindError(f"{found}{rest}.", kinds, question)
        raise InvalidFodError(f"{found}{rest}.")
    return kind or SH


def with_order(kind: Kind, stored: StoredImage) -> Kind:
    """Return the kind that an image is said to hold with the order of its elements, if it has one.

    Where its values do not tell, the order is that of its format, where its header names the kind,
    else the usual one.
    """
    if not isinstance(kind, InputKind) or not kind.order:
        return kind
    check_numeric(stored, InvalidFodError)
    n_volumes = _n_volumes(stored)
    values = _sample(stored, n_volumes)
    found = recognise(values, n_volumes) if len(values) else None
    if found is not None and found.name == kind.name:
        return found
    if stored.declares == kind.name:
        return replace(kind, order=kind.declared_order)
    if len(values):
        tell_once(
            stored.path,
            f"The order of the elements in {stored.path.name} is a guess, {kind.order!r}: its "
            "values do not tell; say order.",
        )
    return kind


def _n_volumes(stored: StoredImage) -> int:
    return math.prod(stored.shape[3:])


def _sample(stored: StoredImage, n_volumes: int) -> NDArray[np.float32]:
    """Return (n_voxels, n) values of voxels that are not empty."""
    n_voxels = math.prod(stored.shape[:3])
    n_first = N_FIRST_FULL if n_volumes in FULL_COUNTS else N_FIRST
    n_first = n_volumes if n_voxels * n_volumes <= MAX_VALUES else min(n_volumes, n_first)
    order = stored.order_of(4)
    is_streamed = not any(stored.flipped[3:4]) and stored.dtype != np.bool_  # it may be 3-D
    is_streamed &= len(stored.shape) <= 4
    if is_streamed and order[-1] == 3:
        with stored.opened() as numbers:
            volumes = np.empty((n_first, n_voxels), np.float32)
            for volume in volumes:
                numbers.read(volume)
        return _some_used(volumes.T)
    if is_streamed and order[0] == 3:
        return _first_used(stored, n_volumes)[:, :n_first]
    return _some_used(stored.read().reshape(n_voxels, n_volumes)[:, :n_first])


def _first_used(stored: StoredImage, n_volumes: int) -> NDArray[np.float32]:
    """Return the first voxels that are not empty, of an image that is stored voxel by voxel."""
    n_left = math.prod(stored.shape[:3])
    parts: list[NDArray[np.float32]] = []
    with stored.opened() as numbers:
        while n_left and sum(map(len, parts)) < MAX_VOXELS:
            n_rows = min(n_left, max(CHUNK_VALUES // n_volumes, 1))
            chunk = np.empty((n_rows, n_volumes), np.float32)
            numbers.read(chunk.reshape(-1))
            n_left -= n_rows
            parts.append(chunk[_are_used(chunk)])
    return np.concatenate(parts)


def _some_used(values: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return an even part of the voxels that are not empty."""
    used = np.flatnonzero(_are_used(values))
    return values[used[:: -(-len(used) // MAX_VOXELS) or 1]]


def _are_used(values: NDArray[np.float32]) -> NDArray[np.bool_]:
    used = np.zeros(len(values), np.bool_)
    for volume in values.T:
        used |= (volume != 0) & np.isfinite(volume)
    return used
