"""The community's .trx files, by trx-python, which is imported on use: it takes a while to load."""

from __future__ import annotations

import shutil
import tempfile
import zipfile
from pathlib import Path

import numpy as np

from ...errors import FileError
from ...grid import Grid
from .sequences import arrays_of, image_size, sequence
from .streamlines import StreamlineArrays


def write_trx(streamlines: StreamlineArrays, path: Path, grid: Grid | None) -> None:
    """Write points and columns; without a grid the header says identity.

    Raises
    ------
    FileError
        When the image is too large for the header.
    """
    from trx.trx_file_memmap import TrxFile, save

    lines = sequence(streamlines)
    n_points, n_streamlines = len(streamlines.points), streamlines.n_streamlines
    # The format wants unsigned offsets; nibabel keeps signed ones.
    lines._offsets = lines._offsets.astype(np.uint64 if n_points >= 2**32 else np.uint32)
    image = Grid((1, 1, 1), np.eye(4)) if grid is None else grid
    trx = TrxFile()
    trx.header = {
        "VOXEL_TO_RASMM": image.affine.astype(np.float32),
        "DIMENSIONS": image_size(image),
        "NB_VERTICES": n_points,
        "NB_STREAMLINES": n_streamlines,
    }
    trx.streamlines = lines
    trx.data_per_streamline = {
        name: column.reshape(n_streamlines, -1) for name, column in streamlines.columns().items()
    }
    try:
        save(trx, str(path))
    finally:
        trx.close()


def read_trx(path: Path) -> StreamlineArrays:
    """Read points and columns.

    Unpacked first: trx-python maps a packed file for writing, which fails where it is read-only,
    and reads compressed ones wrongly.

    Raises
    ------
    FileError
        When there is no room for what it unpacks to.
    """
    from trx.trx_file_memmap import load_from_directory

    with tempfile.TemporaryDirectory(prefix="trx_") as folder:
        with zipfile.ZipFile(path) as archive:
            wanted = sum(entry.file_size for entry in archive.infolist())
            free = shutil.disk_usage(folder).free
            if wanted > free:  # a small archive may hold gigabytes
                raise FileError(
                    f"{path} unpacks to {wanted / 1e9:.1f} GB and {folder} has room for "
                    f"{free / 1e9:.1f} GB; make room there, or set TMPDIR to another folder."
                )
            archive.extractall(folder)
        trx = load_from_directory(folder)
        try:
            columns = {name: np.array(column) for name, column in trx.data_per_streamline.items()}
            return arrays_of(trx.streamlines, columns)
        finally:
            trx.close()
