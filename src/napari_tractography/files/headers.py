"""Headers of image files: what all readers of images ask of them.

Called by :mod:`.fods` and :mod:`.volume_files`.
"""

from __future__ import annotations

from os import PathLike

from ..errors import FileError, InvalidFodError, InvalidGridError
from ..geometry.grid import Grid
from .formats import header_format
from .paths import existing_file, explained
from .stored_images import StoredImage


def read_header(path: str | PathLike[str]) -> StoredImage:
    """Read the header of an image.

    Raises FileError when the file is missing, of another format, or its header makes no sense.
    """
    file = existing_file(path)
    header = header_format(file).header
    assert header is not None
    with explained(file):
        return header(file)


def without_trailing_ones(shape: tuple[int, ...], n_axes: int) -> tuple[int, ...]:
    """Return a shape without the ones at its end, but of at least `n_axes` axes."""
    last = max((axis for axis, extent in enumerate(shape) if extent != 1), default=0)
    return shape[: max(n_axes, last + 1)]


def check_numeric(stored: StoredImage, error: type[FileError | InvalidFodError]) -> None:
    """Raise the `error` when an image does not hold real numbers."""
    if stored.dtype.kind not in "biuf":
        raise error(
            f"{stored.path} holds {stored.dtype} values (complex or colours), not real numbers; "
            "convert it, for example with mrcalc -real."
        )


def grid_of(stored: StoredImage) -> Grid:
    """Return the voxel grid of an image. Raises FileError when its affine is singular."""
    try:
        return Grid(stored.shape[:3], stored.affine)
    except InvalidGridError as error:
        raise FileError(f"{stored.path}: {error}") from None
