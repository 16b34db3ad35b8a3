"""Values of the streamlines of a .tck file, which holds points alone, in files beside it.

Of bundle.tck they are bundle.FA.tsf, MRtrix3's track scalar file, for values per point, and
bundle.cluster.txt, a number in each line, for values per streamline. That they belong together is
told by the timestamp that all of them have: what has another is not read. The format is described
in MRtrix3's manual under "Track Scalar File format". Called by :mod:`.tck`.
"""

from __future__ import annotations

import contextlib
import io
import math
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import FileError
from .damage import telling
from .paths import check_apart, quoted, unquoted, written_whole
from .track_header import track_header

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from .streamline_arrays import StreamlineArrays

SCALARS, TEXT = ".tsf", ".txt"
MAGIC = "mrtrix track scalars"
STAMP = "timestamp: "  # in headers, and in the first line of a text
REFUSED = r'[\x00-\x1f%/\\:*?"<>|]'  # in names of files, on some system


def new_timestamp() -> str:
    """Return the time as MRtrix3 writes it: seconds since the epoch."""
    seconds, nanoseconds = divmod(time.time_ns(), 10**9)
    return f"{seconds}.{nanoseconds:09d}0"


def lost_beside(streamlines: StreamlineArrays) -> list[str]:
    """Return the names of what such files cannot hold."""
    from .streamline_data import StreamlineData

    data, held = streamlines.data, _held(streamlines)
    lost = StreamlineData(
        {name: of for name, of in data.per_streamline.items() if held[TEXT].get(name) is not of},
        {name: of for name, of in data.per_point.items() if name not in held[SCALARS]},
        data.groups,
    )
    return list(lost.names())


def _held(streamlines: StreamlineArrays) -> dict[str, dict[str, NDArray[Any]]]:
    """Return the values that such files hold exactly, by ending and name."""
    import numpy as np

    data, weights = streamlines.data, streamlines.weights
    per_streamline = dict(data.per_streamline) | ({} if weights is None else {"weights": weights})
    return {
        SCALARS: {  # NaN and infinity end streamlines and the file
            name: of
            for name, of in data.per_point.items()
            if np.isfinite(of).all() and _is_exact(of, np.float64)
        },
        TEXT: {
            name: of
            for name, of in per_streamline.items()
            if of.dtype.kind == "f" or _is_exact(of, np.int64)
        },
    }


def _is_exact(values: NDArray[Any], dtype: type[np.generic]) -> bool:
    import numpy as np

    with np.errstate(over="ignore"):
        cast = values.astype(dtype)
        return np.array_equal(cast.astype(values.dtype), values) and np.array_equal(cast, values)


@contextlib.contextmanager
def written_beside(streamlines: StreamlineArrays, path: Path, timestamp: str) -> Iterator[None]:
    """Write all files beside a .tck file, and put them there when the block is left.

    Raises FileError when one cannot be written, or two have one name.
    """
    columns = [
        (path.with_name(f"{_stem(path)}.{quoted(name, REFUSED)}{part}{ending}"), column)
        for ending, named in _held(streamlines).items()
        for name, of in named.items()
        for part, column in _columns(of)
    ]
    check_apart(*(file for file, _ in columns), path)
    with contextlib.ExitStack() as stack:
        for file, column in columns:
            temporary = stack.enter_context(written_whole(file))
            if file.suffix == TEXT:
                _write_text(temporary, column, timestamp)
            else:
                _write_scalars(temporary, column, streamlines.offsets, timestamp)
        yield


def _columns(values: NDArray[Any]) -> Iterator[tuple[str, NDArray[Any]]]:
    """Yield each column of some values, and what its name has besides where there are several."""
    rows = values.reshape(len(values), math.prod(values.shape[1:]))
    for number in range(rows.shape[1]):
        yield "" if rows.shape[1] == 1 else f"_{number + 1}", rows[:, number]


def _write_text(path: Path, values: NDArray[Any], timestamp: str) -> None:
    import numpy as np

    exact = "%.9g" if values.dtype.itemsize <= 4 else "%.17g"  # digits for every number of its type
    form = exact if values.dtype.kind == "f" else "%d"
    np.savetxt(path, values, fmt=form, header=STAMP + timestamp)


def _write_scalars(
    path: Path, values: NDArray[Any], offsets: NDArray[np.int64], timestamp: str
) -> None:
    """Write one number a point, NaN after each streamline, and infinity in the end."""
    import numpy as np

    dtype = "<f4" if _is_exact(values, np.float32) else "<f8"
    numbers = np.full(len(values) + len(offsets), np.nan, dtype)
    numbers[np.arange(len(values)) + np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))] = (
        values
    )
    numbers[-1] = np.inf
    head = (
        f"{MAGIC}\n{STAMP}{timestamp}\ndatatype: Float{32 if dtype == '<f4' else 64}LE\n"
        f"count: {len(offsets) - 1:010d}\nfile: . "
    )
    at = len(head) + len("0000\nEND\n")
    path.write_bytes(f"{head}{at:04d}\nEND\n".encode() + numbers.tobytes())


def read_beside(
    path: Path, timestamp: str, offsets: NDArray[np.int64]
) -> tuple[dict[str, NDArray[Any]], dict[str, NDArray[Any]], tuple[str, ...]]:
    """Read what lies beside a .tck file that has a timestamp.

    Returns values per streamline and per point by name, (n, 1) each, and a sentence for each file
    that has the name and does not belong to it, or cannot be read.
    """
    per_streamline: dict[str, NDArray[Any]] = {}
    per_point: dict[str, NDArray[Any]] = {}
    remarks = []
    for file, name in _files_beside(path):
        try:
            with telling(file):
                if file.suffix == SCALARS:
                    per_point[name] = _read_scalars(file, offsets, timestamp)[:, None]
                elif (values := _read_text(file, timestamp)) is not None:
                    if len(values) != len(offsets) - 1:
                        raise FileError(f"{file} has {len(values)} numbers.")
                    per_streamline[name] = values[:, None]
        except FileError as error:
            remarks.append(f"{file.name} beside {path.name} is not read: {error}")
    return per_streamline, per_point, tuple(remarks)


def _files_beside(path: Path) -> Iterator[tuple[Path, str]]:
    """Yield files that are called as values of a .tck file, and of which name the values are."""
    stem = _stem(path)
    there = {file.name: file for file in path.parent.iterdir()}
    for file_name, file in sorted(there.items()):
        if not (file_name.startswith(f"{stem}.") and file_name.endswith((SCALARS, TEXT))):
            continue
        name = file_name[len(stem) + 1 : -len(TEXT)]
        parts = name.split(".")
        others = (f"{stem}.{'.'.join(parts[:n])}.tck" for n in range(1, len(parts)))
        # Those of bundle.left.tck are not those of bundle.tck.
        if name and file.is_file() and not any(other in there for other in others):
            yield file, unquoted(name)


def _read_scalars(path: Path, offsets: NDArray[np.int64], timestamp: str) -> NDArray[np.floating]:
    import numpy as np

    with path.open("rb") as stream:
        dtype, entries = track_header(path, stream, MAGIC.encode())
        found = entries.get(b"timestamp", b"none").decode("latin-1")
        if found != timestamp:
            raise FileError(f"its timestamp is {found}, not {timestamp}.")
        n = int(offsets[-1]) + len(offsets) - 1
        raw = stream.read((n + 1) * dtype.itemsize)
    numbers = np.frombuffer(raw, dtype, len(raw) // dtype.itemsize)
    if np.isinf(numbers[n:]).all():  # which the manual asks for, and MRtrix3 3.0.3 does not write
        numbers = numbers[:n]
    is_end = np.isnan(numbers)
    ends = offsets[1:] + np.arange(len(offsets) - 1)
    if (
        len(numbers) != n
        or len(raw) % dtype.itemsize
        or not np.array_equal(np.flatnonzero(is_end), ends)
        or np.isinf(numbers).any()
    ):
        raise FileError("it is damaged, or its streamlines have other numbers of points.")
    values = numbers[~is_end]
    return values.astype(values.dtype.newbyteorder("="))


def _read_text(path: Path, timestamp: str) -> NDArray[Any] | None:
    """Read one number a line; None of a text that does not begin with a timestamp: not ours."""
    import numpy as np

    with path.open("rb") as stream:
        head = stream.readline(1024).decode("latin-1").strip()
        if not head.startswith(f"# {STAMP}"):
            return None
        if head != f"# {STAMP}{timestamp}":
            raise FileError(f"its timestamp is {head.removeprefix(f'# {STAMP}')}, not {timestamp}.")
        text = stream.read()
    dtype = np.float64 if re.search(rb"[^\s\d-]", text) else np.int64
    return np.loadtxt(io.BytesIO(text), dtype, ndmin=1) if text.strip() else np.empty(0)


def _stem(path: Path) -> str:
    """Return the name of a .tck file, or a .tck.gz file, without its ending."""
    return re.sub(r"\.tck(\.gz)?$", "", path.name, flags=re.IGNORECASE)
