"""Input files by path and SHA-256, and masks that are kept in text; called by the recipes."""

from __future__ import annotations

import base64
import binascii
import hashlib
import logging
import math
import zlib
from dataclasses import dataclass
from os import PathLike
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..errors import FileError, InvalidMaskError
from ..files.fods import load_mask, load_volume
from ..files.paths import existing_file
from ..grid import Grid

logger = logging.getLogger(__name__)

SHOWN_DIGITS = 12  # of a SHA-256 in messages


def sha256_of(path: str | PathLike[str]) -> str:
    """Return the SHA-256 of a file's bytes.

    Raises
    ------
    FileError
        When it cannot be read.
    """
    place = existing_file(path)
    try:
        with open(place, "rb") as stream:
            return hashlib.file_digest(stream, "sha256").hexdigest()
    except OSError as error:
        raise FileError(
            f"{place} cannot be read ({error.strerror or error}); check its permissions."
        ) from None


def located(path: str, folder: Path | None) -> Path:
    """Return where a file is: at its path, or of the same name in a folder.

    Raises
    ------
    FileError
        When it is at neither place.
    """
    wanted = Path(path)
    if folder is not None and not wanted.is_file() and (folder / wanted.name).is_file():
        return folder / wanted.name
    return existing_file(wanted)


def check_unchanged(path: Path, sha256: str, what: str) -> bool:
    """Tell whether a file has a SHA-256; warn if not. An empty one is not compared."""
    if not sha256:
        return True
    present = sha256_of(path)
    if present != sha256:
        logger.warning(
            "The %s %s is not the file of the recipe: SHA-256 %s..., then %s...",
            what, path, present[:SHOWN_DIGITS], sha256[:SHOWN_DIGITS],
        )  # fmt: skip
    return present == sha256


@dataclass(frozen=True, slots=True)
class VolumeSource:
    """A mask: a file, or its voxels.

    Attributes
    ----------
    path : str
        Absolute path of a file, or "".
    sha256 : str
        Of the file's bytes, "" if not known.
    label : int, optional
        Only voxels of this label; by default all that are not zero.
    voxels : str
        Without a file: the voxels, x fastest, as bits, compressed (zlib), in base64.
    shape, affine : tuple
        Of those voxels.
    """

    path: str = ""
    sha256: str = ""
    label: int | None = None
    voxels: str = ""
    shape: tuple[int, ...] = ()
    affine: tuple[tuple[float, ...], ...] = ()

    @classmethod
    def file(
        cls, path: str | PathLike[str], *, label: int | None = None, hashed: bool = True
    ) -> VolumeSource:
        """Name a file, with its present SHA-256 unless not `hashed`."""
        place = existing_file(path).absolute()
        return cls(path=str(place), sha256=sha256_of(place) if hashed else "", label=label)

    @classmethod
    def of_array(cls, mask: ArrayLike, grid: Grid) -> VolumeSource:
        """Hold the voxels of a mask, those that are neither zero nor NaN."""
        inside = np.nan_to_num(np.asarray(mask)) != 0
        bits = zlib.compress(np.packbits(inside.ravel(order="F")).tobytes(), 9)
        return cls(
            voxels=base64.b64encode(bits).decode("ascii"),
            shape=tuple(inside.shape),
            affine=tuple(tuple(row) for row in grid.affine.tolist()),
        )

    @property
    def name(self) -> str:
        """What to call it in messages."""
        return Path(self.path).name or "mask"

    def load(self, folder: Path | None = None) -> tuple[NDArray[np.bool_], Grid]:
        """Return the (x, y, z) bool mask and its grid; warn when the file has changed.

        Raises
        ------
        TractographyError
            When the file or the text cannot be read, or the mask is empty.
        """
        if not self.path:
            return self._decode()
        place = located(self.path, folder)
        check_unchanged(place, self.sha256, "mask")
        if self.label is None:
            return load_mask(place)
        values, grid = load_volume(place)
        inside = values == self.label
        if not inside.any():
            raise InvalidMaskError(
                f"{place.name} has no voxel with label {self.label}; choose another label."
            )
        return inside, grid

    def _decode(self) -> tuple[NDArray[np.bool_], Grid]:
        try:
            grid = Grid(self.shape, self.affine)
            packed = zlib.decompress(base64.b64decode(self.voxels, validate=True))
        except (binascii.Error, zlib.error, ValueError, TypeError) as error:
            raise FileError(
                f"The recipe's own mask is damaged ({error}); write the recipe again."
            ) from None
        n_voxels = math.prod(grid.shape)
        if len(packed) != -(-n_voxels // 8):
            raise FileError(
                f"The recipe's own mask has {len(packed)} bytes for {n_voxels} voxels and so is "
                "damaged; write the recipe again."
            )
        bits = np.unpackbits(np.frombuffer(packed, np.uint8), count=n_voxels)
        return bits.reshape(grid.shape, order="F").astype(np.bool_), grid
