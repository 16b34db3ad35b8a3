"""MRtrix3's .tck files, by nibabel: points, and nothing per streamline."""

from __future__ import annotations

from pathlib import Path

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
