"""Images in which fibres are seen, as files have them: Zarr, TIFF, NumPy and volumes.

What can be read in part stays on the disk. A file is recognised by its SHA-256; a Zarr, and a file
too large for that, by what it holds in stated boxes. Called by the recipes, by scripts and by the
panel.
"""

from __future__ import annotations

import hashlib
import itertools
import math
import mmap
from collections.abc import Iterator, Sequence
from contextlib import suppress
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import FileError, MissingPackageError
from ..geometry.grid import Grid
from ..geometry.units import MM, VOXEL
from ..runtime.arrays import host_array, on_gpu
from ..runtime.extras import needs_extra
from .formats import has_ending, volume_endings
from .hashing import sha256_of
from .paths import at_home, existing_file
from .stored_images import check_memory
from .volume_files import load_volume

TIFF, NUMPY = (".tif", ".tiff"), (".npy",)
IMAGE_ENDINGS = (*TIFF, *NUMPY)
ZARR_MARKS = ("zarr.json", ".zgroup", ".zarray")  # one of them is in the folder of a Zarr
OME_UNITS = {"millimeter": MM, "micrometer": "um", "nanometer": "nm"}
LAST_AXES = ("zyx", "xyz")  # orders of the three axes of space
# Boxes of so many voxels along each axis, around these fractions of each, are compared.
BOX_CENTRES, BOX_VOXELS = (1 / 6, 1 / 2, 5 / 6), 16
GRID = tuple(itertools.product(BOX_CENTRES, repeat=3))
# Where an image is compared with its file if that takes long as a whole, the middle first.
SPREAD = sorted(
    itertools.product((0.1, 0.3, 0.5, 0.7, 0.9), repeat=3),
    key=lambda fractions: sum(abs(x - 0.5) for x in fractions),
)
SLAB_VOXELS = 1 << 22  # that are compared in one go
MOST_READ_VOXELS = 1 << 24  # of an image that is read in part and yet compared as a whole
MOST_BYTES = 4 << 30  # of a file whose SHA-256 is taken of all of it
MOST_COMPARED_BYTES = 512 << 20  # of an image in memory, while a window waits: under a second
MOST_CHUNKS = 1 << 22  # of an image, all of which Dask lists: seconds, and a gigabyte
MOST_PARTS = 64  # time points and channels among which an image is sought

Box = tuple[slice, slice, slice]


def is_remote(path: str | PathLike[str]) -> bool:
    """Tell whether a path is an address, such as that of a Zarr on a server."""
    return "://" in str(path)


def is_zarr(path: str | PathLike[str]) -> bool:
    """Tell whether a path leads to a Zarr: a folder that is one, an address, or a .zarr.zip."""
    if is_remote(path) or str(path).lower().endswith(".zarr.zip"):
        return True
    return any((at_home(path) / mark).is_file() for mark in ZARR_MARKS)


def zarr_of(path: str | PathLike[str]) -> Path:
    """Return the folder of the Zarr that a file of its marks, which dialogs give; else the path."""
    found = Path(path)
    if found.name in ZARR_MARKS:
        found = found.parent
        while is_zarr(found.parent):
            found = found.parent
    return found


def load_image_mask(path: str | PathLike[str]) -> tuple[NDArray[Any], Grid]:
    """Return the values of an image, (x, y, z), and a grid of its voxels, which have no size.

    Raises FileError as :func:`stored_levels`, and when it is not 3-D.
    """
    (finest, *_), _ = stored_levels(path)
    shape = without_leading_ones(finest.shape)
    if len(shape) != 3:
        raise FileError(f"{path} has shape {tuple(finest.shape)}; give a 3-D mask.")
    values = np.asarray(finest).reshape(shape).transpose()
    return values, Grid(values.shape, np.eye(4), unit=VOXEL)


def without_leading_ones(shape: Sequence[int]) -> tuple[int, ...]:
    """Return the shape of an image without time point and channel where there is one of each."""
    n = next((k for k, size in enumerate(shape) if size != 1), len(shape))
    return tuple(shape[min(n, max(len(shape) - 3, 0)) :])


def existing_image(path: str | PathLike[str]) -> Path:
    """Return the path of a file or of the folder of a Zarr. Raises FileError when there is none."""
    folder = at_home(path)
    try:
        is_folder = folder.is_dir() and is_zarr(folder)
    except (OSError, ValueError):  # a name too long for the system, a NUL character
        is_folder = False
    return folder if is_folder else existing_file(path)


def stored_levels(path: str | PathLike[str], key: str = "") -> tuple[list[Any], str]:
    """Open an image as its file has it.

    Raises FileError when it is missing, damaged or of another format; MissingPackageError when the
    package that reads it is not there, or one that its address takes.

    Parameters
    ----------
    path : path-like
        .tif, .tiff, .npy, a volume such as .nii.gz, or a Zarr, which may be an address.
    key : str
        Of a Zarr group the array; by default the finest level of its first OME-Zarr image.

    Returns
    -------
    levels : list of array_like
        The array and, of an OME-Zarr image, its coarser levels. Of Zarr arrays of Dask.
    key : str
        Of the first.
    """
    if is_zarr(path):
        return _zarr_levels(str(path if is_remote(path) else at_home(path)), key)
    file = existing_file(path)
    name = file.name.lower()
    try:
        if name.endswith(TIFF):
            return [_tiff(file)], ""
        if name.endswith(NUMPY):
            return [np.load(file, mmap_mode="r", allow_pickle=False)], ""
    except MissingPackageError:
        raise
    except Exception as error:  # whatever these libraries raise for a damaged file
        raise FileError(f"{file} cannot be read ({error}); check the file.") from error
    if has_ending(name, volume_endings()):
        return [load_volume(file)[0]], ""
    raise FileError(
        f"{file} is no image that recipes and scripts read; save it as .tif, .npy, .nii.gz or Zarr."
    )


def open_image(
    path: str | PathLike[str], key: str = "", *, index: Sequence[int] = (), axes: str = "zyx"
) -> Any:
    """Open an image as (x, y, z).

    Parameters
    ----------
    path, key
        See :func:`stored_levels`; of several levels the first is taken.
    index : sequence of int
        Time point, channel and whatever else the file has before the axes of space.
    axes : str
        In which order it has those, "zyx" or "xyz".

    Returns
    -------
    (x, y, z) array_like
        Read in part where it can be.

    Raises
    ------
    FileError
        As :func:`stored_levels`, or when index and axes are not those of an image there.
    """
    return in_space(stored_levels(path, key)[0][0], index, axes, name=Path(path).name)


def in_space(array: Any, index: Sequence[int], axes: str, *, name: str = "image") -> Any:
    """Return an array as (x, y, z); see :func:`open_image`."""
    shape = tuple(array.shape)
    leading = shape[: len(shape) - 3]
    is_there = len(index) == len(leading) and all(
        0 <= i < n for i, n in zip(index, leading, strict=True)
    )
    if axes not in LAST_AXES or not is_there or len(shape) < 3:
        raise FileError(
            f"{name} has shape {shape}, in which there is no image {tuple(index)} with axes "
            f"{axes!r}; write the recipe again."
        )
    part = array[tuple(index)] if leading else array
    return part.transpose(2, 1, 0) if axes == "zyx" else part


def image_sha256(path: str | PathLike[str], image: Any) -> str:
    """Return what tells whether an image, (x, y, z), is the same as that of a file.

    Of a file the SHA-256 of its bytes. Of a Zarr, and of a file above 4 GiB, to read all of which
    takes longer than to track in it, the SHA-256 of shape, dtype and the voxels of 27 boxes of 16 x
    16 x 16 voxels; a Zarr has the same however it is chunked and compressed. Raises FileError when
    it cannot be read.
    """
    if not is_zarr(path) and existing_file(path).stat().st_size <= MOST_BYTES:
        return sha256_of(path)
    dtype = np.dtype(image.dtype).newbyteorder("<")
    sha = hashlib.sha256(f"{tuple(image.shape)} {dtype.str}".encode())
    for voxels in _read_all(image, list(_boxes(image.shape, GRID)), str(path)):
        sha.update(np.ascontiguousarray(voxels, dtype=dtype).tobytes())
    return sha.hexdigest()


def found_in(stored: Any, image: Any, name: str) -> tuple[tuple[int, ...], str] | None:
    """Return which part of a file an image, (x, y, z), is, by its shape and its voxels.

    That is index and axes, as :func:`open_image` takes them, of parts that are the same voxel by
    voxel the first; None where the file has no such image. All voxels are compared of an image in
    memory up to 512 MiB, and of any up to 2^24 voxels; of what is read in part and larger, 125
    boxes of 16 x 16 x 16 voxels all over it. Raises FileError when either cannot be read, or
    several parts are the same in all boxes.
    """
    leading = tuple(stored.shape[:-3])
    if len(stored.shape) < 3 or np.prod(leading, dtype=float) > MOST_PARTS:
        return None
    shape = tuple(int(n) for n in image.shape)
    is_whole = _is_compared_whole(image)
    found: list[tuple[tuple[int, ...], str]] = []
    for axes in LAST_AXES:
        if tuple(stored.shape[-3:]) != (shape[::-1] if axes == "zyx" else shape):
            continue
        boxes = list(_boxes(shape))
        rounds = [boxes[:1], boxes[1:]]  # most parts differ in the first box
        if is_whole:
            rounds = [[slab] for slab in _slabs(shape, 2 if axes == "zyx" else 0)]
        for index in np.ndindex(leading):
            part = in_space(stored, index, axes)
            if all(
                _same(one, other)
                for some in rounds
                for one, other in zip(
                    _read_all(part, some, name), _read_all(image, some, name), strict=True
                )
            ):
                found.append((tuple(int(i) for i in index), axes))
                if is_whole:
                    return found[0]
    if len(found) > 1:
        (one, _), (other, _) = found[:2]
        what = "in either order of axes" if one == other else f"of {list(one)} and {list(other)}"
        raise FileError(
            f"{name} holds images {what} that are the same where they were compared, and too large "
            "to compare whole; save the one that is meant as a file of its own."
        )
    return found[0] if found else None


def _is_compared_whole(image: Any) -> bool:
    """Tell whether all of an image is compared with its file: not where that takes long."""
    n_voxels = math.prod(int(n) for n in image.shape)
    owner = image
    while isinstance(owner, np.ndarray):
        owner = owner.base
    if isinstance(owner, mmap.mmap) or not (isinstance(image, np.ndarray) or on_gpu(image)):
        return n_voxels <= MOST_READ_VOXELS
    return n_voxels * int(np.dtype(image.dtype).itemsize) <= MOST_COMPARED_BYTES


def _slabs(shape: Sequence[int], axis: int) -> Iterator[Box]:
    """Yield boxes that fill a volume, of whole planes across an axis."""
    thickness = max(1, SLAB_VOXELS * shape[axis] // max(math.prod(shape), 1))
    for low in range(0, shape[axis], thickness):
        box = [slice(0, n) for n in shape]
        box[axis] = slice(low, min(low + thickness, shape[axis]))
        yield box[0], box[1], box[2]


def _boxes(shape: Sequence[int], spread: Sequence[Sequence[float]] = SPREAD) -> Iterator[Box]:
    for fractions in spread:
        x, y, z = (
            max(0, int(f * n) - BOX_VOXELS // 2) for f, n in zip(fractions, shape, strict=True)
        )
        yield slice(x, x + BOX_VOXELS), slice(y, y + BOX_VOXELS), slice(z, z + BOX_VOXELS)


def _same(one: NDArray[Any], other: NDArray[Any]) -> bool:
    """Tell whether voxels are the same to a structure tensor."""
    if one.dtype == other.dtype and one.dtype.kind in "iub":
        return np.array_equal(one, other)
    one, other = (voxels.astype(np.float32, copy=False) for voxels in (one, other))
    return np.array_equal(one, other, equal_nan=True)


def _read_all(image: Any, boxes: Sequence[Box], name: str) -> list[NDArray[Any]]:
    """Read boxes: of a Dask array at once, since each time takes 10 ms, and a way to a server."""
    if len(boxes) > 1 and hasattr(image, "__dask_graph__"):
        with needs_extra("zarr", f"{name} is an array of Dask, and to read it takes"):
            import dask
        with suppress(Exception):  # told below, with the place
            parts = dask.compute(*(image[box] for box in boxes))
            return [np.asarray(host_array(part)) for part in parts]
    return [_read(image, box, name) for box in boxes]


def _read(image: Any, box: Box, name: str) -> NDArray[Any]:
    try:
        return np.asarray(host_array(image[box]))
    except Exception as error:  # whatever an array of another library raises
        low = [part.start for part in box]
        raise FileError(
            f"{name} cannot be read at voxel {low} ({error}); check the file or the connection."
        ) from error


def _tiff(file: Path) -> Any:
    with needs_extra("images", f"{file} is a TIFF, and to read it takes"):
        import tifffile

    try:
        return tifffile.memmap(file, mode="r")
    except ValueError:  # compressed, or in tiles
        return tifffile.imread(file)


def _zarr_levels(path: str, key: str) -> tuple[list[Any], str]:
    with needs_extra("zarr", f"{path} is a Zarr, and to read it takes"):
        import dask.array
        import zarr
        from zarr.storage import ZipStore
    try:
        is_archive = path.lower().endswith(".zip") and not is_remote(path)
        root = zarr.open(ZipStore(path, mode="r") if is_archive else path, mode="r")
        keys = _keys_of_levels(root, key)
        arrays = [root[name] if name else root for name in keys]
        if not all(hasattr(array, "chunks") for array in arrays):
            raise ValueError("it is a group without an image; name one of its arrays")
        for array in arrays:
            each = zip(array.shape, array.chunks, strict=True)
            if math.prod(-(-n // max(size, 1)) for n, size in each) > MOST_CHUNKS:
                raise ValueError(
                    f"shape {array.shape} in chunks of {array.chunks}, more than {MOST_CHUNKS:,}"
                )
            check_memory(Path(path), array.chunks, math.prod(array.chunks) * array.dtype.itemsize)
        levels = [dask.array.from_array(array, chunks=array.chunks, name=False) for array in arrays]
    except FileError:
        raise
    except Exception as error:  # whatever stores and codecs raise
        if is_remote(path) and isinstance(error, ImportError):  # what its protocol takes
            protocol = path.partition("://")[0].lower()
            extra = "http" if protocol == "https" else protocol
            raise MissingPackageError(
                f'{path} is out of reach ({error}); pip install "fsspec[{extra}]".'
            ) from error
        where = f"{path}, {key!r}," if key else path
        raise FileError(f"{where} cannot be read as Zarr ({error}); check it.") from error
    return levels, keys[0]


def ome_voxel_size(
    path: str | PathLike[str], shape: Sequence[int]
) -> tuple[list[float], str] | None:
    """Return how large, along x, y and z, the voxels of an image in an OME-Zarr are, and the unit.

    The image is the one of this shape, with z, y and x last; the path is that of its group, of one
    above it, or of the array. None where that does not say, or says no unit of ours.
    """
    with needs_extra("zarr", f"{path} is a Zarr, and to read it takes"):
        import zarr
    with suppress(Exception):  # whatever is not there, not OME-Zarr or damaged
        root, name = zarr.open(str(path), mode="r"), ""
        if hasattr(root, "chunks"):  # an array, as which napari opens one level
            where, _, name = str(path).replace("\\", "/").rstrip("/").rpartition("/")
            root = zarr.open(where, mode="r")
        groups = [root, *(root[key] for key in sorted(root.group_keys())[:1])]
        for group in groups:
            attributes = dict(group.attrs)
            for image in attributes.get("ome", attributes).get("multiscales", []):
                for part in image["datasets"]:
                    is_it = not name or part["path"] == name
                    if is_it and tuple(group[part["path"]].shape) == tuple(shape):
                        return _ome_size(image, part)
    return None


def _ome_size(image: dict[str, Any], part: dict[str, Any]) -> tuple[list[float], str] | None:
    axes = image["axes"][-3:]
    if [axis["name"] for axis in axes] != ["z", "y", "x"]:
        return None
    units = {OME_UNITS.get(axis.get("unit", "")) for axis in axes}
    sizes = np.ones(3)
    for step in (*part["coordinateTransformations"], *image.get("coordinateTransformations", ())):
        if step["type"] == "scale":
            sizes *= step["scale"][-3:]
    unit = units.pop()
    return None if units or unit is None or not (sizes > 0).all() else (sizes[::-1].tolist(), unit)


def _keys_of_levels(root: Any, key: str) -> list[str]:
    """Return the key of an array and of its coarser levels, as OME-Zarr names them."""
    group_path, _, _ = key.rpartition("/")
    group = root[group_path] if group_path else root
    if not key and hasattr(group, "chunks"):  # an array itself
        return [""]
    attributes = dict(group.attrs)
    images = attributes.get("ome", attributes).get("multiscales", [])
    for image in images:
        names = [f"{group_path}/{part['path']}".lstrip("/") for part in image["datasets"]]
        if not key:
            return names
        if key in names:
            return names[names.index(key) :]
    return [key]
