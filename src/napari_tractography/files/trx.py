"""The community's .trx files, by trx-python, which is imported on use: it takes a while to load."""

from __future__ import annotations

import json
import shutil
import struct
import tempfile
import zipfile
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import FileError
from .description import FLOAT16, FLOAT32, TractogramFormat

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from ..geometry.grid import Grid
    from .streamline_arrays import StreamlineArrays, StreamlineStream

COLUMNS = "dps/"  # the folder with values per streamline
MAPPED_FROM = 1 << 26  # bytes of a file: smaller ones are read at once, with their checksums
POSITIONS = ("positions.3.float32", "positions.3.float16")
LOCAL_HEADER = 30  # bytes of a zip entry before its name


def stream_trx(
    path: Path, grid: Grid | None, dtype: str
) -> AbstractContextManager[StreamlineStream]:
    """Write a file whose streamlines are appended; see :mod:`.trx_stream`."""
    from .trx_stream import stream_trx as stream

    return stream(path, grid, dtype)


def read_trx(path: Path) -> StreamlineArrays:
    """Read points and columns; those of large files are mapped into memory, not copied."""
    with zipfile.ZipFile(path) as archive:
        mapped = None if path.stat().st_size < MAPPED_FROM else _mapped(path, archive)
    return _unpacked(path) if mapped is None else mapped


def _mapped(path: Path, archive: zipfile.ZipFile) -> StreamlineArrays | None:
    """Return what an archive holds where it lies; None where its points cannot be mapped."""
    import numpy as np

    from .sequences import with_columns

    entries = {entry.filename: entry for entry in archive.infolist()}
    positions = next((name for name in POSITIONS if name in entries), None)
    offsets = next((name for name in entries if name.startswith("offsets.")), None)
    if positions is None or offsets is None:
        return None
    points = _array_in(path, entries[positions])
    if points is None:
        return None
    header = json.loads(archive.read("header.json"))
    n = int(header["NB_STREAMLINES"])

    def numbers(name: str) -> NDArray[Any]:
        found = _array_in(path, entries[name])
        return np.frombuffer(archive.read(name), _dtype_of(name)) if found is None else found

    n_points, found = points.size // 3, numbers(offsets)
    if n > len(found):  # before room is made for so many
        raise ValueError(f"{n} streamlines and {len(found)} offsets")
    starts = np.empty(n + 1, np.int64)
    starts[:n] = found[:n]  # some programs add the end, some not
    starts[n] = n_points
    columns = {name: numbers(entry).reshape(n, -1) for name, entry in _columns(archive).items()}
    return with_columns(points.reshape(n_points, 3), starts, columns)


def _array_in(path: Path, entry: zipfile.ZipInfo) -> NDArray[Any] | None:
    """Return the numbers of an entry of an archive, mapped into memory, or None.

    They can be mapped where they are not compressed and begin at a multiple of their size.
    """
    import numpy as np

    dtype = _dtype_of(entry.filename)
    first = _address(path, entry)
    if entry.compress_type != zipfile.ZIP_STORED or not entry.file_size or first % dtype.alignment:
        return None
    n, rest = divmod(entry.file_size, dtype.itemsize)
    return None if rest else np.memmap(path, dtype, "r", offset=first, shape=(n,))


def _dtype_of(name: str) -> np.dtype[Any]:
    """Return the type that the last part of an entry's name tells."""
    import numpy as np

    return np.dtype(name.rpartition(".")[2]).newbyteorder("<")


def _address(path: Path, entry: zipfile.ZipInfo) -> int:
    """Return where the content of an entry begins in the file, by the header before it."""
    with path.open("rb") as file:
        file.seek(entry.header_offset)
        n_name, n_extra = struct.unpack("<26x2H", file.read(LOCAL_HEADER))
    return int(entry.header_offset + LOCAL_HEADER + n_name + n_extra)


def _unpacked(path: Path) -> StreamlineArrays:
    """Read a file unpacked.

    trx-python maps a packed file for writing, which fails where it is read-only, and reads
    compressed ones wrongly. Raises FileError when there is no room for what it unpacks to.
    """
    import numpy as np
    from trx.trx_file_memmap import load_from_directory

    from .sequences import arrays_of

    # Windows deletes no file that is mapped, as a damaged one is while its error is raised.
    with tempfile.TemporaryDirectory(prefix="trx_", ignore_cleanup_errors=True) as folder:
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


def trx_columns(path: Path) -> list[str]:
    """Return the names of the values per streamline."""
    with zipfile.ZipFile(path) as archive:
        return sorted(_columns(archive))


def _columns(archive: zipfile.ZipFile) -> dict[str, str]:
    """Return the entries of an archive that are columns, by name."""
    return {
        entry.removeprefix(COLUMNS).split(".")[0]: entry
        for entry in archive.namelist()
        if entry.startswith(COLUMNS) and not entry.endswith("/")
    }


def trx_column(path: Path, name: str) -> NDArray[Any]:
    """Read values per streamline by their place in the archive: name.columns.dtype.

    Raises FileError when there are none of that name, or several a streamline.
    """
    import numpy as np

    with zipfile.ZipFile(path) as archive:
        found = _columns(archive)
        wanted = name or ("weights" if "weights" in found else "")
        if not wanted and len(found) == 1:
            (wanted,) = found
        if wanted not in found:
            there = ", ".join(sorted(found)) or "none"
            raise FileError(
                f"{path} has no values per streamline called {wanted or 'weights'!r}; "
                f"it has {there}."
            )
        entry = found[wanted]
        data = archive.read(entry)
    parts = Path(entry).name.split(".")
    try:
        values = np.frombuffer(data, np.dtype(parts[-1]).newbyteorder("<"))
    except (TypeError, ValueError):
        raise FileError(f"{path} holds {entry}, which are no numbers; export it again.") from None
    if len(parts) > 2 and parts[1] != "1":
        raise FileError(f"{path} holds {parts[1]} values per streamline in {wanted}; give one.")
    return values


TRX = TractogramFormat(
    (".trx",),
    read_trx,
    stream=stream_trx,
    columns=trx_columns,
    column=trx_column,
    names_image=True,
    dtypes=(FLOAT32, FLOAT16),
)
