"""MRtrix3's .tck files, by nibabel: points, and nothing per streamline."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import numpy as np
from nibabel.streamlines import TckFile

from ...grid import Grid
from .sequences import arrays_of, nibabel_tractogram
from .streamlines import StreamlineArrays


def write_tck(streamlines: StreamlineArrays, path: Path, grid: Grid | None) -> None:
    """Write points, RAS+ mm; tck files name no image."""
    TckFile(nibabel_tractogram(streamlines)).save(path)


def read_tck(path: Path) -> StreamlineArrays:
    """Read points; nibabel notices a truncated file by the missing end marker."""
    return arrays_of(TckFile.load(path).tractogram.streamlines, {})


def iter_tck(path: Path, n_streamlines: int) -> Iterator[StreamlineArrays]:
    """Yield the same as :func:`read_tck`, so many streamlines at a time."""
    lines = iter(TckFile.load(path, lazy_load=True).tractogram.streamlines)
    while block := list(islice(lines, n_streamlines)):
        counts = [len(line) for line in block]
        points = np.concatenate(block).astype(np.float32, copy=False)
        yield StreamlineArrays(points, np.concatenate([[0], np.cumsum(counts)]))
