"""MRtrix images: .mif, .mif.gz and .mih headers with their data file.

The format is described in MRtrix3's manual under "MRtrix image formats". Called by :mod:`.fods`.
"""

from __future__ import annotations

import gzip
import math
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import FileError
from .damage import readable
from .description import VolumeFormat

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from .stored_images import StoredImage

MAGIC = b"mrtrix image"
MAX_HEADER_BYTES = 1 << 26  # headers hold gradient tables and histories, never this much
REQUIRED = ("dim", "vox", "layout", "datatype", "file")
KINDS = {"int": "i", "uint": "u", "float": "f"}
MAX_AXES = 16  # of an image; arrays of NumPy may have 32
MAX_EXTENT = 1 << 40  # of an axis; no file system holds this much
MAX_OFFSET = 1 << 62  # in bytes, what a file can be asked for
BITS = {"int": (8, 16, 32, 64), "uint": (8, 16, 32, 64), "float": (16, 32, 64)}


def read_mif_header(path: Path) -> StoredImage:
    """Read the header of an MRtrix image.

    The axes stay in the order of the header; nothing is turned to the nearest canonical one. Raises
    FileError when an entry is missing or makes no sense.
    """
    from .stored_images import StoredImage

    entries = _entries(path)
    for key in REQUIRED:
        if key not in entries:
            raise FileError(f"{path} has no {key!r} in its header; write it again with mrconvert.")
    shape = tuple(_whole(path, "dim", text) for text in _items(entries["dim"][0]))
    if not 0 < len(shape) <= MAX_AXES or min(shape) < 1 or max(shape) > MAX_EXTENT:
        raise _bad(path, "dim", entries["dim"][0])
    order, flipped = _layout(path, entries["layout"][0], len(shape))
    slope, intercept = 1.0, 0.0
    if "scaling" in entries:
        scaling = _numbers(path, "scaling", entries["scaling"])
        if len(scaling) != 2:
            raise _bad(path, "scaling", entries["scaling"][0])
        intercept, slope = scaling
    data_path, offset = _data_file(path, entries["file"][0])
    return StoredImage(
        path=path,
        data_path=data_path,
        offset=offset,
        shape=shape,
        affine=_affine(path, entries, shape),
        dtype=_dtype(path, entries["datatype"][0]),
        order=order,
        flipped=flipped,
        slope=slope,
        intercept=intercept,
        declares=_declared(entries, shape),
    )


def _bad(path: Path, key: str, value: str) -> FileError:
    return FileError(
        f"{path} has {key} = {value!r} in its header, which makes no sense; "
        "write it again with mrconvert."
    )


def _entries(path: Path) -> dict[str, list[str]]:
    """Return the header's values by lower-case key; keys such as transform come several times."""
    opened = gzip.open if path.name.lower().endswith(".gz") else open
    with readable(path), opened(path, "rb") as stream:
        if stream.readline(64).strip() != MAGIC:
            raise FileError(
                f"{path} is no MRtrix image: it does not begin with 'mrtrix image'; "
                "rename it to its true format or convert it with mrconvert."
            )
        entries: dict[str, list[str]] = {}
        left = MAX_HEADER_BYTES
        while left > 0:
            raw = stream.readline(left)
            left -= len(raw) or left  # an empty line of bytes is the end of the file
            line = raw.split(b"#")[0].decode("utf-8", errors="replace").strip()
            if line == "END":
                return entries
            key, colon, value = line.partition(":")
            if colon:
                entries.setdefault(key.strip().lower(), []).append(value.strip())
    if path.name.lower().endswith(".mih"):  # a header on its own needs no END
        return entries
    raise FileError(f"{path} has a header without END: it is truncated; copy it again.")


def _items(text: str) -> list[str]:
    return [item for item in re.split(r"[,\s]+", text) if item]


def _whole(path: Path, key: str, text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise _bad(path, key, text) from None


def _numbers(path: Path, key: str, values: list[str]) -> list[float]:
    try:
        return [float(item) for value in values for item in _items(value)]
    except ValueError:
        raise _bad(path, key, "; ".join(values)) from None


def _layout(path: Path, text: str, n_axes: int) -> tuple[tuple[int, ...], tuple[bool, ...]]:
    """Turn "-0,+2,+1" (sign and rank of each axis) into axes by rank, and which run backwards."""
    items = _items(text)
    if not all(re.fullmatch(r"[+-]?\d{1,9}", item) for item in items):
        raise _bad(path, "layout", text)
    ranks = [abs(int(item)) for item in items]
    if sorted(ranks) != list(range(n_axes)):
        raise _bad(path, "layout", text)
    order = tuple(ranks.index(rank) for rank in range(n_axes))
    return order, tuple(item.startswith("-") for item in items)


def _dtype(path: Path, text: str) -> np.dtype[np.generic]:
    import numpy as np

    match = re.fullmatch(r"(bit)|(c?)(float|u?int)(\d{1,4})(le|be)?", text.strip().lower())
    if match is None or (match[3] and int(match[4]) not in BITS[match[3]]):
        raise FileError(
            f"{path} has the unknown datatype {text!r}; "
            "convert it with mrconvert -datatype float32."
        )
    if match[1]:
        return np.dtype(np.bool_)
    if match[2]:
        raise FileError(
            f"{path} has complex numbers ({text}); take their real part or magnitude with mrcalc."
        )
    native = "<" if sys.byteorder == "little" else ">"
    sign = {"le": "<", "be": ">", None: native}[match[5]]
    return np.dtype(f"{sign}{KINDS[match[3]]}{int(match[4]) // 8}")


def _affine(
    path: Path, entries: dict[str, list[str]], shape: tuple[int, ...]
) -> NDArray[np.float64]:
    """Return voxel coordinates to RAS+ mm: MRtrix keeps rotation and voxel sizes apart."""
    import numpy as np

    sizes = _numbers(path, "vox", entries["vox"][:1])[:3]
    if len(sizes) < min(3, len(shape)) or not all(math.isfinite(s) and s > 0 for s in sizes):
        raise _bad(path, "vox", entries["vox"][0])
    sizes += [1.0] * (3 - len(sizes))
    extent = [*shape, 1, 1][:3]
    affine = np.eye(4)
    if "transform" in entries:
        numbers = _numbers(path, "transform", entries["transform"])
        if len(numbers) not in (12, 16) or not np.isfinite(numbers).all():
            raise _bad(path, "transform", "; ".join(entries["transform"]))
        affine[:3] = np.reshape(numbers[:12], (3, 4))
    else:  # as MRtrix3 does: the middle of the image is at the origin
        affine[:3, 3] = [-0.5 * (n - 1) * s for n, s in zip(extent, sizes, strict=True)]
    affine[:3, :3] *= sizes
    return affine


def _declared(entries: dict[str, list[str]], shape: tuple[int, ...]) -> str:
    """Return what volumes are that have a gradient or a direction each, or ""."""
    rows = {"dw_scheme": "dwi", "directions": "amplitudes"}
    found = [kind for key, kind in rows.items() if len(entries.get(key, ())) in shape[3:4]]
    return found[0] if found else ""


def _data_file(path: Path, text: str) -> tuple[Path, int]:
    """Parse "name offset", where "." is the header's own file."""
    match = re.fullmatch(r"(\S.*?)(?:\s+(\d+))?", text)
    if match is None:
        raise _bad(path, "file", text)
    name, offset = match[1], _whole(path, "file", match[2] or "0")
    if offset > MAX_OFFSET:
        raise _bad(path, "file", text)
    if name == ".":
        if offset < len(MAGIC):
            raise _bad(path, "file", text)
        return path, offset
    data_path = path.parent / name
    try:
        if data_path.is_file():
            return data_path, offset
    except (OSError, ValueError):  # a name too long for the system, a NUL character
        raise _bad(path, "file", text) from None
    raise FileError(
        f"{path} keeps its data in {data_path}, which does not exist; copy that file too."
    )


MRTRIX = VolumeFormat((".mif", ".mif.gz", ".mih"), header=read_mif_header)
