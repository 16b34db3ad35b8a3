"""Input files by path and SHA-256, and masks that are kept in text; called by the recipes."""

from __future__ import annotations

import base64
import binascii
import contextlib
import dataclasses
import hashlib
import logging
import math
import zlib
from dataclasses import dataclass
from os import PathLike
from pathlib import Path, PureWindowsPath

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..errors import FileError, InvalidMaskError
from ..files.hashing import sha256_of
from ..files.image_files import existing_image
from ..files.paths import existing_file
from ..files.stored_images import check_memory
from ..files.volume_files import read_volume, voxels_inside
from ..geometry.grid import Grid
from ..runtime.arrays import tells_apart
from .numbers import MOST_NUMBERS, inflated

logger = logging.getLogger(__name__)

SHOWN_DIGITS = 12  # of a SHA-256 in messages
MOST_TEXTS = 16  # of masks, that are remembered

_texts: dict[bytes, str] = {}  # by the SHA-256 of what they say


def located(path: str, folder: Path | None) -> Path:
    """Return where a file, or the folder of a Zarr, is: at its path, or by its name in a folder.

    Raises FileError when it is at neither place.
    """
    try:
        return existing_image(path)
    except FileError:
        if folder is not None:
            for name in names_of(path):
                with contextlib.suppress(FileError):
                    return existing_image(folder / name)
        raise


def named(path: str | PathLike[str], hashed: bool) -> tuple[str, str]:
    """Return the absolute path of a file, and its SHA-256 now; "" if not `hashed`.

    Raises FileError when there is no such file, or it cannot be read.
    """
    file = existing_file(path).absolute()
    return str(file), sha256_of(file) if hashed else ""


def names_of(path: str) -> tuple[str, ...]:
    """Return what the file of a path may be called: its name here, and that of a Windows path."""
    return tuple(dict.fromkeys((Path(path).name, PureWindowsPath(path).name)))


def warn_if_changed(path: str | Path, then: str, now: str, what: str) -> None:
    """Warn when the SHA-256 of a file is another than it was; an empty one is not compared."""
    if then and now != then:
        logger.warning(
            "The %s %s is not the file of the recipe: SHA-256 %s... now, %s... then.",
            what, path, now[:SHOWN_DIGITS], then[:SHOWN_DIGITS],
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class VolumeSource:
    """A mask: a file, or its voxels."""

    path: str = ""  # absolute path of a file, or ""
    sha256: str = ""  # of the file's bytes, "" if not known
    label: int | None = None  # only voxels of this label; by default all that are not zero
    voxels: str = ""  # without a file: the voxels, x fastest, as bits, compressed (zlib), in base64
    # shape, affine: of those voxels.
    shape: tuple[int, ...] = ()
    affine: tuple[tuple[float, ...], ...] = ()

    @classmethod
    def file(
        cls, path: str | PathLike[str], *, label: int | None = None, hashed: bool = True
    ) -> VolumeSource:
        """Name a file, with its present SHA-256 unless not `hashed`."""
        return cls(*named(path, hashed), label=label)

    @classmethod
    def of_array(cls, mask: ArrayLike, grid: Grid) -> VolumeSource:
        """Keep the voxels of a mask, those that are neither zero nor NaN."""
        values = np.asarray(mask)
        inside = (values != 0) & (values == values)
        return cls(
            voxels=_text_of(np.packbits(inside.ravel(order="F")).tobytes()),
            shape=tuple(inside.shape),
            affine=tuple(tuple(row) for row in grid.affine.tolist()),
        )

    @property
    def name(self) -> str:
        """What to call it in messages."""
        return Path(self.path).name or "mask"

    def load(self, folder: Path | None = None) -> tuple[NDArray[np.bool_], Grid]:
        """Return the (x, y, z) bool mask and its grid; see :meth:`read`."""
        return self.read(folder, hashed=False)[:2]

    def read(
        self, folder: Path | None = None, *, hashed: bool = True
    ) -> tuple[NDArray[np.bool_], Grid, VolumeSource]:
        """Read the mask, (x, y, z) bool, once; return it, its grid, and this source with the
        SHA-256.

        See :meth:`.FodSource.read`. Raises TractographyError when the file or the text cannot be
        read, or the mask is empty.
        """
        if not self.path:
            return *self._decode(), self
        file = located(self.path, folder)
        values, grid, sha256 = read_volume(file, hashed=hashed or bool(self.sha256))
        warn_if_changed(file, self.sha256, sha256, "mask")
        source = dataclasses.replace(self, sha256=sha256)
        if self.label is None:
            return voxels_inside(values, file.name), grid, source
        if not tells_apart(values.dtype, self.label):
            raise InvalidMaskError(
                f"{file.name} holds {values.dtype}, which cannot tell label {self.label} from the "
                "next; export it as integers."
            )
        inside = values == self.label
        if not inside.any():
            raise InvalidMaskError(
                f"{file.name} has no voxel with label {self.label}; choose another label."
            )
        return inside, grid, source

    def _decode(self) -> tuple[NDArray[np.bool_], Grid]:
        try:
            grid = Grid(self.shape, self.affine)
            raw = base64.b64decode(self.voxels, validate=True)
            n_voxels = math.prod(grid.shape)
            check_memory(Path("The recipe's own mask"), grid.shape, 2 * n_voxels, "crop it")
            packed = inflated(raw, min(-(-n_voxels // 8), MOST_NUMBERS))
        except FileError:
            raise
        except (binascii.Error, zlib.error, ValueError, TypeError) as error:
            raise FileError(
                f"The recipe's own mask is damaged ({error}); write the recipe again."
            ) from None
        if len(packed) != -(-n_voxels // 8):
            raise FileError(
                f"The recipe's own mask has {len(packed)} bytes for {n_voxels} voxels and so is "
                "damaged; write the recipe again."
            )
        bits = np.unpackbits(np.frombuffer(packed, np.uint8), count=n_voxels)
        return bits.view(np.bool_).reshape(grid.shape, order="F"), grid


def _text_of(bits: bytes) -> str:
    """Return bytes as text, compressed; of those that were asked for last it is remembered.

    A window asks for the masks of all its bundles after every change.
    """
    key = hashlib.sha256(bits).digest()
    text = _texts.pop(key, None)
    if text is None:
        text = base64.b64encode(zlib.compress(bits, 9)).decode("ascii")
    _texts[key] = text  # the last
    with contextlib.suppress(KeyError, StopIteration):  # another thread may have done so
        if len(_texts) > MOST_TEXTS:
            del _texts[next(iter(_texts))]
    return text
