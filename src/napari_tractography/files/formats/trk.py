"""TrackVis' .trk files, by nibabel, which also converts from and to their corner-based voxel mm."""

from __future__ import annotations

from pathlib import Path

import nibabel as nib
import numpy as np
from nibabel.streamlines import Field, TrkFile

from ...errors import FileError
from ...grid import Grid
from .sequences import LARGEST_WHOLE, arrays_of, image_size, nibabel_tractogram
from .streamlines import StreamlineArrays


def write_trk(streamlines: StreamlineArrays, path: Path, grid: Grid | None) -> None:
    """Write points and columns.

    Raises
    ------
    FileError
        Without a grid, or when the image is too large for the header.
    """
    if grid is None:
        raise FileError(
            "A .trk file needs the image it belongs to; pass reference=fod, or save as .tck."
        )
    columns = streamlines.columns()
    if "seed_index" in columns:
        high, low = np.divmod(columns["seed_index"], LARGEST_WHOLE)
        columns["seed_index"] = low
        if high.any():
            columns["seed_index_high"] = high
    columns = {name: column.astype(np.float32) for name, column in columns.items()}
    header = {
        Field.VOXEL_TO_RASMM: grid.affine.astype(np.float32),
        Field.VOXEL_SIZES: grid.voxel_sizes_mm.astype(np.float32),
        Field.DIMENSIONS: image_size(grid),
        Field.VOXEL_ORDER: "".join(nib.aff2axcodes(grid.affine)),
    }
    TrkFile(nibabel_tractogram(streamlines, columns), header).save(path)


def read_trk(path: Path) -> StreamlineArrays:
    """Read points and columns.

    Raises
    ------
    FileError
        When fewer streamlines are there than the header says.
    """
    claimed = int(TrkFile.load(path, lazy_load=True).header[Field.NB_STREAMLINES])
    loaded = TrkFile.load(path).tractogram
    if claimed and claimed != len(loaded.streamlines):
        raise FileError(
            f"{path} is truncated: its header says {claimed} streamlines, "
            f"{len(loaded.streamlines)} are there; copy or export it again."
        )
    return arrays_of(loaded.streamlines, loaded.data_per_streamline)
