"""Writing and reading tractograms: .tck, .trk, .trx and .vtk.

Called by :meth:`napari_tractography.tractogram.Tractogram.save`, the command and the plugin.
Points are RAS+ mm with voxel centres at integer voxel coordinates on both sides; trk's own
corner-based voxel millimetres are nibabel's business.
"""

from __future__ import annotations

import struct
import tempfile
import warnings
import zipfile
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import nibabel as nib
import numpy as np
from nibabel.streamlines import ArraySequence, Field, TckFile, TrkFile
from nibabel.streamlines.tractogram_file import DataError, HeaderError
from numpy.typing import NDArray

from ..errors import FileError, InvalidTractogramError
from ..grid import Grid
from ..stop import N_REASONS
from ..tractogram import Tractogram
from .paths import check_writable, ending_of, existing_file, written_whole
from .vtk import read_vtk_lines, write_vtk_lines

if TYPE_CHECKING:
    from ..fod import Fod

# Trk keeps per-streamline numbers as float32, whose whole numbers end here: larger seed indices
# are split in two.
TRK_WHOLE = 1 << 24
# What the libraries below are known to raise on files that are not what they claim to be.
MALFORMED = (
    DataError,
    HeaderError,
    AttributeError,
    EOFError,
    KeyError,
    IndexError,
    MemoryError,
    OverflowError,
    TypeError,
    UnicodeDecodeError,
    ValueError,
    ZeroDivisionError,
    struct.error,
    zipfile.BadZipFile,
    zlib.error,
    NotImplementedError,  # zipfile: an unknown compression
)


def save_tractogram(
    tractogram: Tractogram, path: str | PathLike[str], *, reference: Fod | Grid | None = None
) -> None:
    """Write a tractogram, whole or not at all.

    Trk and trx also keep ``seed_index``, ``stop_reasons`` and ``lengths_mm`` per streamline.

    Parameters
    ----------
    tractogram : Tractogram
    path : path-like
        Ends in .tck, .trk, .trx or .vtk. An older file is replaced.
    reference : Fod or Grid, optional
        The image that the streamlines belong to, for the headers of trk, which needs it, and
        trx, which says identity without it.

    Raises
    ------
    FileError
        When the ending is unknown, the reference is missing or the file cannot be written.
    """
    wanted = Path(path)
    write = FORMATS[ending_of(wanted, FORMATS, "a tractogram")].write
    grid = getattr(reference, "grid", reference)
    if grid is not None and not isinstance(grid, Grid):
        raise FileError(
            f"The reference of {wanted} is of type {type(reference).__name__}; "
            "give the Fod or the Grid that was tracked."
        )
    empty = np.flatnonzero(np.diff(tractogram.offsets) == 0)
    if len(empty):
        raise FileError(
            f"{len(empty)} streamlines have no points, which {wanted} cannot hold; "
            "leave them out, t[np.diff(t.offsets) > 0]."
        )
    with written_whole(wanted) as temporary:
        write(tractogram, temporary, grid)


def check_target(path: str | PathLike[str]) -> None:
    """Check, before long work, that a tractogram can be written there.

    Raises
    ------
    FileError
        When the ending is unknown or the folder is missing or cannot be written.
    """
    ending_of(Path(path), FORMATS, "a tractogram")
    check_writable(path)


def load_tractogram(path: str | PathLike[str]) -> Tractogram:
    """Read a tractogram.

    Parameters
    ----------
    path : path-like
        .tck, .trk, .trx or legacy .vtk (ASCII or binary; coordinates are taken as RAS+ mm).

    Returns
    -------
    Tractogram
        With the seed indices, stop reasons and lengths of files that :func:`save_tractogram`
        wrote.

    Raises
    ------
    FileError
        When the file is missing, truncated, corrupt or of another format.
    """
    place = existing_file(path)
    read = FORMATS[ending_of(place, FORMATS, "a tractogram")].read
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # nibabel's remarks on missing header entries
            return read(place)
    except (FileError, InvalidTractogramError) as error:
        if isinstance(error, FileError):
            raise
        raise FileError(f"{place}: {error}") from None
    except MALFORMED as error:
        raise FileError(
            f"{place} is truncated or corrupt ({str(error) or type(error).__name__}); "
            "copy or export it again."
        ) from None
    except OSError as error:
        raise FileError(
            f"{place} cannot be read ({error.strerror or error}); check its permissions."
        ) from None


def _write_tck(tractogram: Tractogram, path: Path, grid: Grid | None) -> None:
    TckFile(_nibabel_tractogram(tractogram)).save(path)


def _write_trk(tractogram: Tractogram, path: Path, grid: Grid | None) -> None:
    if grid is None:
        raise FileError(
            "A .trk file needs the image it belongs to; pass reference=fod, or save as .tck."
        )
    high, low = np.divmod(tractogram.seed_index, TRK_WHOLE)
    data = {
        "seed_index": low.astype(np.float32),
        "stop_reasons": tractogram.stop_reasons.astype(np.float32),
        "lengths_mm": tractogram.lengths_mm,
    }
    if high.any():
        data["seed_index_high"] = high.astype(np.float32)
    TrkFile(_nibabel_tractogram(tractogram, data), _trk_header(grid)).save(path)


def _write_trx(tractogram: Tractogram, path: Path, grid: Grid | None) -> None:
    from trx.trx_file_memmap import TrxFile, save

    data: dict[str, NDArray[Any]] = {}
    if tractogram.n_streamlines:  # trx cannot hold columns without rows
        data = {
            "seed_index": tractogram.seed_index,
            "stop_reasons": tractogram.stop_reasons,
            "lengths_mm": tractogram.lengths_mm,
        }
    streamlines = _sequence(tractogram)
    # The format wants unsigned offsets; nibabel keeps signed ones.
    wide = tractogram.n_points >= 2**32
    streamlines._offsets = streamlines._offsets.astype(np.uint64 if wide else np.uint32)
    header = _trk_header(Grid((1, 1, 1), np.eye(4)) if grid is None else grid)
    trx = TrxFile()
    trx.header = {
        "VOXEL_TO_RASMM": header[Field.VOXEL_TO_RASMM],
        "DIMENSIONS": header[Field.DIMENSIONS],
        "NB_VERTICES": tractogram.n_points,
        "NB_STREAMLINES": tractogram.n_streamlines,
    }
    trx.streamlines = streamlines
    trx.data_per_streamline = {
        name: values.reshape(tractogram.n_streamlines, -1) for name, values in data.items()
    }
    try:
        save(trx, str(path))
    finally:
        trx.close()


def _write_vtk(tractogram: Tractogram, path: Path, grid: Grid | None) -> None:
    write_vtk_lines(path, tractogram.points, tractogram.offsets)


def _read_tck(path: Path) -> Tractogram:
    loaded = TckFile.load(path).tractogram  # finds truncation by itself: there is an end marker
    return _from_sequence(loaded.streamlines, {})


def _read_trk(path: Path) -> Tractogram:
    claimed = int(TrkFile.load(path, lazy_load=True).header[Field.NB_STREAMLINES])
    loaded = TrkFile.load(path).tractogram
    if claimed and claimed != len(loaded.streamlines):
        raise FileError(
            f"{path} is truncated: its header says {claimed} streamlines, "
            f"{len(loaded.streamlines)} are there; copy or export it again."
        )
    return _from_sequence(loaded.streamlines, loaded.data_per_streamline)


def _read_trx(path: Path) -> Tractogram:
    from trx.trx_file_memmap import load_from_directory

    # Unpacked first: trx-python maps a packed file for writing, which fails where it is
    # read-only, and reads compressed ones wrongly.
    with tempfile.TemporaryDirectory(prefix="trx_") as folder:
        with zipfile.ZipFile(path) as archive:
            archive.extractall(folder)
        trx = load_from_directory(folder)
        try:
            data = {name: np.array(values) for name, values in trx.data_per_streamline.items()}
            return _from_sequence(trx.streamlines, data)
        finally:
            trx.close()


def _read_vtk(path: Path) -> Tractogram:
    return Tractogram(*read_vtk_lines(path))


@dataclass(frozen=True, slots=True)
class TractogramFormat:
    """How one kind of file is written and read."""

    write: Callable[[Tractogram, Path, Grid | None], None]
    read: Callable[[Path], Tractogram]


FORMATS = {
    ".tck": TractogramFormat(_write_tck, _read_tck),
    ".trk": TractogramFormat(_write_trk, _read_trk),
    ".trx": TractogramFormat(_write_trx, _read_trx),
    ".vtk": TractogramFormat(_write_vtk, _read_vtk),
}


def _sequence(tractogram: Tractogram) -> ArraySequence:
    return ArraySequence(iter(tractogram), buffer_size=tractogram.points.nbytes / 2**20 + 1)


def _nibabel_tractogram(
    tractogram: Tractogram, data: Mapping[str, NDArray[Any]] | None = None
) -> nib.streamlines.Tractogram:
    return nib.streamlines.Tractogram(
        _sequence(tractogram),
        data_per_streamline={
            name: values.reshape(tractogram.n_streamlines, -1)
            for name, values in (data or {}).items()
            if tractogram.n_streamlines
        },
        affine_to_rasmm=np.eye(4),
    )


def _trk_header(grid: Grid) -> dict[str, Any]:
    if max(grid.shape) > np.iinfo(np.int16).max:
        raise FileError(
            f"A .trk or .trx header cannot hold the image size {grid.shape}; save as .tck."
        )
    return {
        Field.VOXEL_TO_RASMM: grid.affine.astype(np.float32),
        Field.VOXEL_SIZES: grid.voxel_sizes_mm.astype(np.float32),
        Field.DIMENSIONS: np.array(grid.shape, dtype=np.int16),
        Field.VOXEL_ORDER: "".join(nib.aff2axcodes(grid.affine)),
    }


def _from_sequence(streamlines: ArraySequence, data: Mapping[str, Any]) -> Tractogram:
    counts = np.fromiter(map(len, streamlines), dtype=np.int64, count=len(streamlines))
    offsets = np.concatenate([[0], np.cumsum(counts)])
    points = np.asarray(streamlines.get_data(), dtype=np.float32).reshape(-1, 3)
    n = len(counts)
    known = {name: np.asarray(values) for name, values in data.items()}
    seed_index = _column(known.get("seed_index"), (n, 1))
    high = _column(known.get("seed_index_high"), (n, 1))
    if seed_index is not None and high is not None:
        seed_index = seed_index.astype(np.int64) + TRK_WHOLE * high.astype(np.int64)
    reasons = _column(known.get("stop_reasons"), (n, 2))
    if reasons is not None and not ((reasons >= 0) & (reasons < N_REASONS)).all():
        reasons = None  # someone else's column of that name
    lengths_mm = _column(known.get("lengths_mm"), (n, 1))
    return Tractogram(
        points,
        offsets,
        seed_index=None if seed_index is None else seed_index[:, 0],
        stop_reasons=reasons,
        lengths_mm=None if lengths_mm is None else lengths_mm[:, 0],
    )


def _column(values: NDArray[Any] | None, shape: tuple[int, int]) -> NDArray[Any] | None:
    """Return a per-streamline table if it is one of ours, by shape."""
    return values if values is not None and values.shape == shape else None
