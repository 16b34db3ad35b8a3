"""Columns of streamlines as files name them, and what the headers of trk and trx have in common."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import FileError
from ..geometry.grid import Grid
from ..model.stop import N_REASONS
from .streamline_arrays import POLYLINES, StreamlineArrays
from .streamline_data import StreamlineData

# Trk keeps columns as float32, whose whole numbers end here: larger seed indices are split in two.
LARGEST_WHOLE = 1 << 24


def image_size(grid: Grid) -> NDArray[np.int16]:
    """Return the (3,) int16 image size of a trk or trx header.

    Raises FileError when the image is too large for it.
    """
    if max(grid.shape) > np.iinfo(np.int16).max:
        raise FileError(
            f"A .trk or .trx header cannot hold the image size {grid.shape}; save as .tck."
        )
    return np.array(grid.shape, dtype=np.int16)


def no_grid() -> Grid:
    """Return what the header of a .trx file says that belongs to no image: one voxel of 1 mm."""
    return Grid((1, 1, 1), np.eye(4))


def with_columns(
    points: NDArray[np.float32],
    offsets: NDArray[np.int64],
    columns: Mapping[str, Any],
    *,
    per_point: Mapping[str, NDArray[Any]] | None = None,
    groups: Mapping[str, NDArray[np.int64]] | None = None,
    per_group: Mapping[str, Mapping[str, NDArray[Any]]] | None = None,
    grid: Grid | None = None,
    remarks: tuple[str, ...] = (),
) -> StreamlineArrays:
    """Return points and offsets with columns: those that are ours by name, the others as data."""
    n = len(offsets) - 1
    known = {name: np.asarray(values) for name, values in columns.items()}
    seed_index = _column(known, "seed_index", (n, 1))
    if seed_index is not None:
        seed_index = seed_index.astype(np.int64, copy=False)
        high = _column(known, "seed_index_high", (n, 1))
        if high is not None:
            seed_index = seed_index + LARGEST_WHOLE * high.astype(np.int64)
    reasons = _column(known, "stop_reasons", (n, 2))
    if reasons is not None and n and not (reasons.min() >= 0 and reasons.max() < N_REASONS):
        known["stop_reasons"], reasons = reasons, None  # someone else's column of that name
    lengths_mm = _column(known, "lengths_mm", (n, 1))
    if lengths_mm is not None and not np.isfinite(lengths_mm).all():
        known["lengths_mm"], lengths_mm = lengths_mm, None  # someone else's, too
    polyline_mm = _column(known, POLYLINES, (n, 1))
    weights = _column(known, "weights", (n, 1))
    return StreamlineArrays(
        points,
        offsets,
        seed_index=None if seed_index is None else seed_index[:, 0],
        stop_reasons=None if reasons is None else reasons.astype(np.uint8, copy=False),
        lengths_mm=_as_float32(lengths_mm),
        polyline_mm=None if lengths_mm is None else _as_float32(polyline_mm),
        weights=_as_float32(weights),
        data=StreamlineData(known, per_point or {}, groups or {}, per_group or {}),
        grid=grid,
        remarks=remarks,
    )


def named_values(streamlines: StreamlineArrays) -> dict[str, NDArray[Any]]:
    """Return what has one number a streamline, by name, (n_streamlines,) each."""
    n = streamlines.n_streamlines
    values = {**streamlines.columns(), **streamlines.data.per_streamline}
    return {name: array.reshape(n) for name, array in values.items() if array.size == n}


def named_value(streamlines: StreamlineArrays, path: Path, name: str) -> NDArray[Any]:
    """Return the values of a name, of "" the weights or the only ones.

    Raises FileError when there are none of that name.
    """
    found = named_values(streamlines)
    wanted = name or ("weights" if "weights" in found or len(found) != 1 else next(iter(found)))
    if wanted not in found:
        there = ", ".join(sorted(found)) or "none"
        raise FileError(
            f"{path} has no values per streamline called {wanted!r}, one each; it has {there}."
        )
    return found[wanted]


def _column(
    columns: dict[str, NDArray[Any]], name: str, shape: tuple[int, int]
) -> NDArray[Any] | None:
    """Take a column out if it is one of ours, by name and shape."""
    values = columns.get(name)
    return columns.pop(name) if values is not None and values.shape == shape else None


def _as_float32(column: NDArray[Any] | None) -> NDArray[np.float32] | None:
    return None if column is None else column[:, 0].astype(np.float32, copy=False)
