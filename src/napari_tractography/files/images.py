"""Images as they lie in a file: header facts, and reading the numbers in little memory.

Filled in by the header readers: :mod:`.mif` and, for NIfTI, :mod:`.headers`.
"""

from __future__ import annotations

import gzip
import math
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from ..errors import FileError
from .hashing import BLOCK_BYTES, HashedStream, sha256_of

# Numbers are converted in pieces of this many, so that reading needs no second copy of the image.
CHUNK_VALUES = 1 << 20
# Deflate cannot shrink data more than this (zlib's documentation): a larger claim is corrupt.
MAX_GZIP_RATIO = 1032


@dataclass(frozen=True, slots=True)
class StoredImage:
    """Where the numbers of an image are and what they mean.

    Attributes
    ----------
    path : Path
        The file a person named, for messages.
    data_path : Path
        The file with the numbers; its ending .gz means that it is compressed.
    offset : int
        Bytes before the first number, after decompression.
    shape : tuple of int
        Extent of each axis.
    affine : (4, 4) float64
        Voxel coordinates to RAS+ mm.
    dtype : numpy.dtype
        Of one number, with byte order; bool for single bits, packed from the highest down.
    order : tuple of int
        Axes from the fastest to the slowest.
    flipped : tuple of bool
        Which axes run backwards in the file.
    slope, intercept : float
        The value is ``slope * number + intercept``.
    """

    path: Path
    data_path: Path
    offset: int
    shape: tuple[int, ...]
    affine: NDArray[np.float64]
    dtype: np.dtype[Any]
    order: tuple[int, ...]
    flipped: tuple[bool, ...]
    slope: float = 1.0
    intercept: float = 0.0

    @property
    def scaled(self) -> bool:
        """Whether values differ from the stored numbers."""
        return (self.slope, self.intercept) != (1.0, 0.0)

    @property
    def n_bytes(self) -> int:
        """Size of the stored numbers, decompressed."""
        count = math.prod(self.shape)
        return -(-count // 8) if self.dtype == np.bool_ else count * self.dtype.itemsize

    def read(self, dtype: DTypeLike = np.float32) -> NDArray[Any]:
        """Read the values into one new array of the image's shape, of any strides.

        Raises
        ------
        FileError
            When the file is truncated or corrupt, or memory runs out.
        """
        return self._read(np.dtype(dtype), hashed=False)[0]

    def read_hashed(self, dtype: DTypeLike = np.float32) -> tuple[NDArray[Any], str]:
        """Read the values as :meth:`read` does; also return the SHA-256 of `path`.

        A file that holds its own numbers is hashed as they are read, not read again.
        """
        return self._read(np.dtype(dtype), hashed=True)

    def _read(self, dtype: np.dtype[Any], *, hashed: bool) -> tuple[NDArray[Any], str]:
        sha256 = ""
        try:
            present = self.data_path.stat().st_size
            compressed = self.data_path.name.lower().endswith(".gz")
            limit = present * MAX_GZIP_RATIO if compressed else present
            if limit < self.offset + self.n_bytes:
                raise FileError(
                    f"{self.path} is truncated: {' x '.join(map(str, self.shape))} {self.dtype} "
                    f"need {self.offset + self.n_bytes} bytes, {self.data_path.name} has "
                    f"{present}; copy or export it again."
                )
            with open(self.data_path, "rb") as file:
                source: Any = HashedStream(file) if hashed and self.data_path == self.path else file
                stream: Any = gzip.GzipFile(fileobj=source) if compressed else source
                if hashed:
                    _skip(stream, self.offset)
                else:
                    stream.seek(self.offset)
                flat = self._read_flat(stream, dtype)
                if compressed:
                    stream.read(1)  # reaching the end makes gzip verify its checksum
                if hashed:
                    sha256 = source.sha256() if source is not file else sha256_of(self.path)
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise FileError(
                f"{self.path} is truncated or corrupt ({error}); copy or export it again."
            ) from None
        except OSError as error:
            if isinstance(error, FileError):
                raise
            raise FileError(
                f"{self.path} cannot be read ({error.strerror or error}); check its permissions."
            ) from None
        except MemoryError:
            raise FileError(
                f"{self.path} of shape {self.shape} does not fit into memory; crop it first."
            ) from None
        slowest_first = self.order[::-1]
        stored = flat.reshape([self.shape[axis] for axis in slowest_first])
        image = stored.transpose([slowest_first.index(axis) for axis in range(len(self.shape))])
        return image[tuple(slice(None, None, -1 if flip else 1) for flip in self.flipped)], sha256

    def _read_flat(self, stream: IO[bytes], dtype: np.dtype[Any]) -> NDArray[Any]:
        flat = np.empty(math.prod(self.shape), dtype=dtype)
        for first in range(0, flat.size, CHUNK_VALUES):
            piece = flat[first : first + CHUNK_VALUES]
            n_bytes = (
                -(-piece.size // 8) if self.dtype == np.bool_ else piece.size * self.dtype.itemsize
            )
            raw = stream.read(n_bytes)
            if len(raw) != n_bytes:
                raise FileError(
                    f"{self.path} is truncated: its data end after "
                    f"{first * self.n_bytes // flat.size + len(raw)} of {self.n_bytes} bytes; "
                    "copy or export it again."
                )
            if self.dtype == np.bool_:
                piece[:] = np.unpackbits(np.frombuffer(raw, np.uint8), count=piece.size)
            elif self.scaled:
                numbers = np.frombuffer(raw, self.dtype).astype(np.float64)
                piece[:] = numbers * self.slope + self.intercept
            else:
                with np.errstate(over="ignore", invalid="ignore"):  # float64 beyond float32: inf
                    piece[:] = np.frombuffer(raw, self.dtype)
        return flat


def _skip(stream: Any, n_bytes: int) -> None:
    """Read so many bytes and forget them."""
    while n_bytes > 0 and (data := stream.read(min(n_bytes, BLOCK_BYTES))):
        n_bytes -= len(data)
