"""TrackVis' .trk files; headers, and the way from their corner-based voxel mm, are nibabel's.

Nibabel leaves out streamlines without points, and fails where these have values, so that numbers
are read and written here. It is imported on use: it takes a while to load.
"""

from __future__ import annotations

import contextlib
import io
import logging
import math
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from ..errors import FileError
from .axes_mark import as_noted, axes_text
from .description import TractogramFormat
from .inflating import PACKED, opened

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from ..geometry.grid import Grid
    from .streamline_arrays import StreamlineArrays

logger = logging.getLogger(__name__)

HEADER_BYTES = 1000
PIECE_BYTES = 1 << 24  # that are unpacked at once
MOST_NAMES = 10  # of values per streamline, and as many per point


def write_trk(streamlines: StreamlineArrays, path: Path, grid: Grid | None) -> None:
    """Write points, columns and values.

    Raises FileError without a grid, or when the image is too large for the header.
    """
    with path.open("wb") as file:
        stream = _TrkStream(file, grid, always_split=False)
        stream.append(streamlines)
        stream.finish()


@contextlib.contextmanager
def stream_trk(path: Path, grid: Grid | None, dtype: str) -> Iterator[_TrkStream]:
    """Write a file whose streamlines are appended.

    Raises FileError as :func:`write_trk`.
    """
    with path.open("wb") as file:
        stream = _TrkStream(file, grid)
        yield stream
        stream.finish()


class _TrkStream:
    """A .trk file: one header, and parts; `always_split` writes all seed indices alike."""

    def __init__(self, file: BinaryIO, grid: Grid | None, *, always_split: bool = True) -> None:
        import nibabel as nib
        import numpy as np
        from nibabel.streamlines import Field, Tractogram, TrkFile
        from nibabel.streamlines.trk import get_affine_rasmm_to_trackvis, header_2_dtype

        from .sequences import image_size
        from .streamline_arrays import SameColumns

        if grid is None:
            raise FileError(
                "A .trk file needs the image it belongs to as its reference; give it, or save as "
                ".tck."
            )
        header = {
            Field.VOXEL_TO_RASMM: grid.affine.astype(np.float32),
            Field.VOXEL_SIZES: grid.voxel_sizes_mm.astype(np.float32),
            Field.DIMENSIONS: image_size(grid),
            Field.VOXEL_ORDER: "".join(nib.aff2axcodes(grid.affine)),
        }
        empty = io.BytesIO()
        TrkFile(Tractogram([], affine_to_rasmm=np.eye(4)), header).save(empty)
        self._header = np.frombuffer(bytearray(empty.getvalue()), header_2_dtype.newbyteorder("<"))
        self._header[0]["reserved"] = axes_text(grid).encode()
        self._to_file = get_affine_rasmm_to_trackvis(self._header[0]).astype(np.float64)
        self._file, self._always_split = file, always_split
        self._columns = SameColumns()
        self._n = self._n_empty = 0
        file.write(self._header.tobytes())

    def append(self, streamlines: StreamlineArrays) -> None:
        import numpy as np
        from nibabel.affines import apply_affine

        from .sequences import LARGEST_WHOLE

        if not streamlines.n_streamlines:  # whose header would name no columns
            return
        self._columns.check(streamlines)
        columns = streamlines.stored_columns(streamlines.points)
        if "seed_index" in columns:
            high, low = np.divmod(columns["seed_index"], LARGEST_WHOLE)
            columns["seed_index"] = low
            if self._always_split or high.any():
                columns["seed_index_high"] = high
        n, counts = streamlines.n_streamlines, np.diff(streamlines.offsets)
        data = streamlines.data
        for name in _fitting(data.per_streamline, _n_free(streamlines)):
            columns.setdefault(name, data.per_streamline[name])
        of_points = {name: data.per_point[name] for name in _fitting(data.per_point, MOST_NAMES)}
        properties = self._named("property", columns, n)
        scalars = self._named("scalar", of_points, len(streamlines.points))
        points = apply_affine(self._to_file, streamlines.points)
        heads, are_points, n_numbers = _places(counts, 3 + scalars.shape[1], properties.shape[1])
        numbers = np.empty(n_numbers, "<f4")
        numbers[are_points] = np.column_stack([points, scalars]).ravel()
        numbers.view("<i4")[heads] = counts
        last = np.append(heads[1:], n_numbers)[:, None]
        numbers[last + np.arange(-properties.shape[1], 0)] = properties
        self._file.write(numbers.data)
        self._n += n
        self._n_empty += int((counts == 0).sum())

    def _named(self, kind: str, values: Mapping[str, NDArray[Any]], n: int) -> NDArray[np.float32]:
        """Write the names of values into the header; return them side by side, (n, ...) float32."""
        import numpy as np
        from nibabel.streamlines.trk import encode_value_in_name

        names = np.zeros(MOST_NAMES, "S20")
        parts = [np.empty((n, 0), np.float32)]
        for number, name in enumerate(sorted(values)):
            width = math.prod(values[name].shape[1:])
            with np.errstate(over="ignore"):  # infinite then, as trk_lost tells
                parts.append(values[name].reshape(n, width).astype(np.float32))
            names[number] = encode_value_in_name(parts[-1].shape[1], name)
        found = np.concatenate(parts, axis=1)
        header = self._header[0]
        header[f"{kind}_name"] = names
        header["nb_scalars_per_point" if kind == "scalar" else "nb_properties_per_streamline"] = (
            found.shape[1]
        )
        return found

    def finish(self) -> None:
        from nibabel.streamlines import Field

        self._header[0][Field.NB_STREAMLINES] = self._n
        self._file.seek(0)
        self._file.write(self._header.tobytes())
        if self._n_empty:
            logger.warning(
                "%s of %s streamlines have no points: nibabel, and so DIPY, cannot open a .trk "
                "file with such; save as .trx, or leave them out (select --min-length 0.001).",
                f"{self._n_empty:,}", f"{self._n:,}",
            )  # fmt: skip


def _fitting(values: Mapping[str, NDArray[Any]], n_free: int) -> list[str]:
    """Return the names of values that a header has room for, up to a number of them."""
    from nibabel.streamlines.trk import encode_value_in_name

    found = []
    for name, array in values.items():
        with contextlib.suppress(ValueError):  # too long, or in other letters
            encode_value_in_name(array[0].size if len(array) else 1, name)
            found.append(name)
    return found[:n_free]


def _n_free(streamlines: StreamlineArrays) -> int:
    """Return how many values per streamline of others there is room for beside our columns."""
    ours = streamlines.columns()
    n_more = ("seed_index" in ours) + ("lengths_mm" in ours)  # split in two, and of the polylines
    return MOST_NAMES - len(ours) - n_more


def trk_lost(streamlines: StreamlineArrays) -> list[str]:
    """Return what a .trk file cannot hold, and what it rounds."""
    data = streamlines.data
    lost, rounded = [], []
    for values, n_free in (
        (data.per_streamline, _n_free(streamlines)), (data.per_point, MOST_NAMES)
    ):  # fmt: skip
        held = _fitting(values, n_free)
        lost += [name for name in values if name not in held]
        rounded += [f"{name} exactly" for name in held if _is_rounded(values[name])]
    return [*lost, *rounded, *(f"the group {name}" for name in data.groups)]


def _is_rounded(values: NDArray[Any]) -> bool:
    """Tell whether some of the values, NaN aside, are others as float32."""
    import numpy as np

    with np.errstate(over="ignore", invalid="ignore"):  # too large for it, or back for an integer
        back = values.astype(np.float32).astype(values.dtype)
    return not (back == values)[values == values].all()


def _places(
    counts: NDArray[np.int64], width: int, n_properties: int
) -> tuple[NDArray[np.int64], NDArray[np.bool_], int]:
    """Return where streamlines begin, which numbers are of points, and how many numbers there are.

    Of each streamline there is its number of points, `width` numbers a point, and its properties.
    """
    import numpy as np

    sizes = 1 + counts * width + n_properties
    ends = np.cumsum(sizes)
    heads, n_numbers = ends - sizes, int(ends[-1]) if len(ends) else 0
    of_points = np.ones(n_numbers, np.bool_)
    of_points[heads] = False
    of_points[ends[:, None] - np.arange(1, n_properties + 1)] = False
    return heads, of_points, n_numbers


def read_trk(path: Path) -> StreamlineArrays:
    """Read points, columns and values.

    Raises FileError when fewer streamlines are there than the header says.
    """
    import numpy as np
    from nibabel.affines import apply_affine
    from nibabel.streamlines import Field
    from nibabel.streamlines.trk import get_affine_trackvis_to_rasmm

    from .sequences import with_columns

    header, grid, remarks = _header(path)
    body = _numbers(path, header)
    n_scalars = int(header[Field.NB_SCALARS_PER_POINT])
    n_properties = int(header[Field.NB_PROPERTIES_PER_STREAMLINE])
    claimed, width = int(header[Field.NB_STREAMLINES]), 3 + n_scalars
    if min(n_scalars, n_properties, claimed) < 0:
        raise ValueError(f"{n_scalars} scalars, {n_properties} properties, {claimed} streamlines")
    counts = _counts(body.view(np.int32), claimed, width, n_properties)
    if claimed and claimed != len(counts):
        raise FileError(
            f"{path} is truncated: its header says {claimed} streamlines, "
            f"{len(counts)} are there; copy or export it again."
        )
    heads, of_points, n_numbers = _places(counts, width, n_properties)
    rows = body[:n_numbers][of_points].reshape(-1, width)
    last = np.append(heads[1:], n_numbers)[:, None]
    properties = np.empty((0, n_properties), np.float32)
    if len(heads):
        properties = body[last + np.arange(-n_properties, 0)]
    points = np.ascontiguousarray(rows[:, :3])
    if len(points):
        points = apply_affine(get_affine_trackvis_to_rasmm(header), points, inplace=True)
    return with_columns(
        points,
        np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)]),
        _by_name(header["property_name"], properties, "properties"),
        per_point=_by_name(header["scalar_name"], rows[:, 3:], "scalars"),
        grid=grid,
        remarks=remarks,
    )


def _header(path: Path) -> tuple[dict[str, Any], Grid | None, tuple[str, ...]]:
    """Return nibabel's header, the grid in it, and what was guessed, in a sentence each."""
    import numpy as np
    from nibabel.streamlines import Field, TrkFile
    from nibabel.streamlines.tractogram_file import HeaderWarning
    from nibabel.streamlines.trk import header_2_dtype

    from ..errors import InvalidGridError
    from ..geometry.grid import Grid

    with opened(path) as stream:
        raw = stream.read(HEADER_BYTES)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        header = TrkFile.load(io.BytesIO(raw), lazy_load=True).header
    guesses = [each for each in caught if issubclass(each.category, HeaderWarning)]
    remarks = [f"{path.name}: {warning.message}" for warning in guesses]
    sizes = np.asarray(header[Field.VOXEL_SIZES], np.float64)
    stored = np.frombuffer(raw, header_2_dtype.newbyteorder(header[Field.ENDIANNESS]))[0]
    header[Field.NB_STREAMLINES] = stored[Field.NB_STREAMLINES]  # nibabel has counted those here
    if stored["version"] == 1 or stored[Field.VOXEL_TO_RASMM][3, 3] == 0:
        sizes = np.where(sizes > 0, sizes, 1.0)
        header[Field.VOXEL_TO_RASMM] = np.diag([*sizes, 1.0]).astype(np.float32)
        text = " x ".join(f"{size:.4g}" for size in sizes)
        remarks = [remark for remark in remarks if "vox_to_ras" not in remark] + [
            f"{path.name} does not say where its image lies (it has no vox_to_ras): voxels of "
            f"{text} mm from the origin on are a guess, and so is which side is left."
        ]
    affine = np.asarray(header[Field.VOXEL_TO_RASMM], np.float64)
    header[Field.VOXEL_SIZES] = np.where(sizes > 0, sizes, np.linalg.norm(affine[:3, :3], axis=0))
    noted = bytes(stored["reserved"]).decode("latin-1")
    try:
        grid = as_noted(Grid(header[Field.DIMENSIONS].tolist(), affine), noted)
    except InvalidGridError:
        grid = None
    return header, grid, tuple(remarks)


def _numbers(path: Path, header: Mapping[str, Any]) -> NDArray[np.float32]:
    """Return all that follows the header, mapped where the file is not packed."""
    import numpy as np
    from nibabel.streamlines import Field

    from .stored_images import check_memory

    dtype = np.dtype(f"{header[Field.ENDIANNESS]}f4")
    if not path.name.lower().endswith(PACKED):
        n, rest = divmod(path.stat().st_size - HEADER_BYTES, 4)
        if rest and not header[Field.NB_STREAMLINES]:  # else whatever follows them does not matter
            raise EOFError("the last number is cut off")
        if not n:
            return np.empty(0, np.float32)
        found: NDArray[Any] = np.memmap(path, dtype, "r", offset=HEADER_BYTES, shape=(n,))
    else:
        content = bytearray()
        with opened(path) as stream:
            while part := stream.read(PIECE_BYTES):
                content += part
                check_memory(path, (len(content) // 12, 3), 2 * len(content), "check the file")
        found = np.frombuffer(content, dtype, (len(content) - HEADER_BYTES) // 4, HEADER_BYTES)
    return found.astype(np.float32, copy=False)


def _counts(
    body: NDArray[np.int32], claimed: int, width: int, n_properties: int
) -> NDArray[np.int64]:
    """Return how many points each streamline has. Raises ValueError where that makes no sense."""
    import numpy as np

    numbers = memoryview(np.asarray(body).data)  # ten times as quick to look into
    counts: list[int] = []
    at = 0
    while at < len(numbers) and not (claimed and len(counts) == claimed):
        count = numbers[at]
        at += 1 + count * width + n_properties
        if count < 0 or at > len(numbers):
            raise ValueError(f"streamline {len(counts)} has {count} points")
        counts.append(count)
    return np.array(counts, np.int64)


def _by_name(
    names: NDArray[np.bytes_], values: NDArray[np.float32], rest: str
) -> dict[str, NDArray[np.float32]]:
    """Return values side by side by their names in the header; those without one are the `rest`."""
    from nibabel.streamlines.trk import decode_value_from_name

    found, at = {}, 0
    for raw in names.tolist():
        name, n = decode_value_from_name(raw)
        if n:
            found[name] = values[:, at : at + n]
            at += n
    if at < values.shape[1]:
        found[rest] = values[:, at:]
    return found


TRK = TractogramFormat(
    (".trk",),
    read_trk,
    write=write_trk,
    stream=stream_trk,
    lost=trk_lost,
    names_image=True,
    needs_grid=True,
    read_only=(".trk.gz",),
)
