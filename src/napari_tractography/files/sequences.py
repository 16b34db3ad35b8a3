"""Between streamlines as arrays and nibabel's sequences; for tck, trk and trx files."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import nibabel as nib
import numpy as np
from nibabel.streamlines import ArraySequence
from numpy.typing import NDArray

from ..errors import FileError
from ..geometry.grid import Grid
from ..model.stop import N_REASONS
from .streamline_arrays import StreamlineArrays

# Trk keeps columns as float32, whose whole numbers end here: larger seed indices are split in two.
LARGEST_WHOLE = 1 << 24


def sequence(streamlines: StreamlineArrays) -> ArraySequence:
    """Return nibabel's sequence of streamlines."""
    megabytes = streamlines.points.nbytes / 2**20 + 1
    return ArraySequence(streamlines.lines(), buffer_size=megabytes)


def nibabel_tractogram(
    streamlines: StreamlineArrays, columns: Mapping[str, NDArray[Any]] | None = None
) -> nib.streamlines.Tractogram:
    """Return nibabel's tractogram of streamlines, with (n_streamlines, ...) columns."""
    n = streamlines.n_streamlines
    return nib.streamlines.Tractogram(
        sequence(streamlines),
        data_per_streamline={name: c.reshape(n, -1) for name, c in (columns or {}).items()},
        affine_to_rasmm=np.eye(4),
    )


def image_size(grid: Grid) -> NDArray[np.int16]:
    """Return the (3,) int16 image size of a trk or trx header.

    Raises FileError when the image is too large for it.
    """
    if max(grid.shape) > np.iinfo(np.int16).max:
        raise FileError(
            f"A .trk or .trx header cannot hold the image size {grid.shape}; save as .tck."
        )
    return np.array(grid.shape, dtype=np.int16)


def arrays_of(lines: ArraySequence, columns: Mapping[str, Any]) -> StreamlineArrays:
    """Return the arrays of nibabel's sequence, RAS+ mm, and those columns that are ours.

    Raises ValueError when they say that they are longer than they are.
    """
    counts = np.fromiter(map(len, lines), dtype=np.int64, count=len(lines))
    if lines.total_nb_rows != counts.sum():  # before room is made for so many
        raise ValueError(f"offsets for {lines.total_nb_rows} points, {counts.sum()} are there")
    return with_columns(
        np.asarray(lines.get_data(), dtype=np.float32).reshape(-1, 3),
        np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)]),
        columns,
    )


def with_columns(
    points: NDArray[np.float32], offsets: NDArray[np.int64], columns: Mapping[str, Any]
) -> StreamlineArrays:
    """Return points and offsets with those columns that are ours."""
    n = len(offsets) - 1
    known = {name: np.asarray(values) for name, values in columns.items()}
    seed_index = _column(known.get("seed_index"), (n, 1))
    high = _column(known.get("seed_index_high"), (n, 1))
    if seed_index is not None:
        seed_index = seed_index.astype(np.int64, copy=False)
        if high is not None:
            seed_index = seed_index + LARGEST_WHOLE * high.astype(np.int64)
    reasons = _column(known.get("stop_reasons"), (n, 2))
    if reasons is not None and n and not (reasons.min() >= 0 and reasons.max() < N_REASONS):
        reasons = None  # someone else's column of that name
    lengths_mm = _column(known.get("lengths_mm"), (n, 1))
    if lengths_mm is not None and not np.isfinite(lengths_mm).all():
        lengths_mm = None  # someone else's, too: the points tell theirs
    weights = _column(known.get("weights"), (n, 1))
    return StreamlineArrays(
        points,
        offsets,
        seed_index=None if seed_index is None else seed_index[:, 0],
        stop_reasons=None if reasons is None else reasons.astype(np.uint8, copy=False),
        lengths_mm=_as_float32(lengths_mm),
        weights=_as_float32(weights),
    )


def _column(values: NDArray[Any] | None, shape: tuple[int, int]) -> NDArray[Any] | None:
    """Return a column if it is one of ours, by shape."""
    return values if values is not None and values.shape == shape else None


def _as_float32(column: NDArray[Any] | None) -> NDArray[np.float32] | None:
    return None if column is None else column[:, 0].astype(np.float32, copy=False)
