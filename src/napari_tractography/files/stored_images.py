"""Images as they lie in a file: header facts, and reading the numbers in little memory.

Made by the formats that have a header; read by :mod:`.fods` and :mod:`.volume_files`.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from ..errors import FileError
from ..runtime.buffers import memory_bytes
from .damage import readable
from .hashing import BLOCK_BYTES, HashedStream, sha256_of
from .inflating import PACKED, GzipStream
from .paths import GivenUpError

# Numbers are converted in pieces of this many, so that reading needs no second copy of the image.
CHUNK_VALUES = 1 << 20
# Deflate cannot shrink data more than this (zlib's documentation): a larger claim is corrupt.
MAX_GZIP_RATIO = 1032


@dataclass(frozen=True, slots=True)
class StoredImage:
    """Where the numbers of an image are and what they mean."""

    path: Path  # the file a person named, for messages
    data_path: Path  # the file with the numbers; its ending .gz or .mgz means that it is compressed
    offset: int  # bytes before the first number, after decompression
    shape: tuple[int, ...]  # extent of each axis
    affine: NDArray[np.float64]  # (4, 4) float64: voxel coordinates to RAS+ mm
    # Of one number, with byte order; bool for single bits, packed from the highest down.
    dtype: np.dtype[Any]
    order: tuple[int, ...]  # axes from the fastest to the slowest
    flipped: tuple[bool, ...]  # which axes run backwards in the file
    # slope, intercept: the value is `slope * number + intercept`.
    slope: float = 1.0
    intercept: float = 0.0
    # What the header says of the volumes: the name of one of fields.kinds.KINDS, or "", as mostly.
    declares: str = ""

    @property
    def scaled(self) -> bool:
        """Whether values differ from the stored numbers."""
        return (self.slope, self.intercept) != (1.0, 0.0)

    @property
    def is_compressed(self) -> bool:
        """Whether the numbers lie in a gzip stream."""
        return self.data_path.name.lower().endswith(PACKED)

    @property
    def n_bytes(self) -> int:
        """Size of the stored numbers, decompressed."""
        count = math.prod(self.shape)
        return -(-count // 8) if self.dtype == np.bool_ else count * self.dtype.itemsize

    def read(self, dtype: DTypeLike = np.float32) -> NDArray[Any]:
        """Read the values into one new array of the image's shape, of any strides.

        Raises FileError when the file is truncated or corrupt, or memory runs out.
        """
        return self.read_hashed(dtype, hashed=False)[0]

    def read_hashed(
        self, dtype: DTypeLike = np.float32, *, hashed: bool = True
    ) -> tuple[NDArray[Any], str]:
        """Read the values as :meth:`read` does; also return the SHA-256 of `path`, or ""."""
        self.check_memory(math.prod(self.shape) * np.dtype(dtype).itemsize)
        with self.opened(hashed=hashed) as numbers:
            flat = np.empty(math.prod(self.shape), dtype=np.dtype(dtype))
            numbers.read(flat)
        return self.arranged(flat, len(self.shape)), numbers.sha256

    def with_volumes(self) -> StoredImage:
        """Return the image without axes of extent 1 beside that of its volumes, (x, y, z, 1, n)."""
        others = [axis for axis in range(3, len(self.shape)) if self.shape[axis] > 1]
        kept = [*range(min(3, len(self.shape))), *(others or range(3, len(self.shape))[:1])]
        if len(kept) == len(self.shape):
            return self
        return replace(
            self,
            shape=tuple(self.shape[axis] for axis in kept),
            order=tuple(kept.index(axis) for axis in self.order if axis in kept),
            flipped=tuple(self.flipped[axis] for axis in kept),
        )

    def order_of(self, n_axes: int) -> tuple[int, ...]:
        """Return the first `n_axes` axes from the fastest to the slowest."""
        return tuple(axis for axis in self.order if axis < n_axes)

    def arranged(self, flat: NDArray[Any], n_axes: int) -> NDArray[Any]:
        """View (n,) values that lie as in the file as an array of the first `n_axes` axes."""
        slowest_first = self.order_of(n_axes)[::-1]
        stored = flat.reshape([self.shape[axis] for axis in slowest_first])
        image = stored.transpose([slowest_first.index(axis) for axis in range(n_axes)])
        return image[tuple(slice(None, None, -1 if f else 1) for f in self.flipped[:n_axes])]

    def check_size(self) -> None:
        """Check that the file is large enough for its numbers, before memory is allocated.

        Raises FileError when it is not, or its size is unknown.
        """
        with self._errors():
            present = self.data_path.stat().st_size
        limit = present * MAX_GZIP_RATIO if self.is_compressed else present
        if limit < self.offset + self.n_bytes:
            raise FileError(
                f"{self.path} is truncated: {' x '.join(map(str, self.shape))} {self.dtype} "
                f"need {self.offset + self.n_bytes} bytes, {self.data_path.name} has "
                f"{present}; copy or export it again."
            )

    def check_memory(self, n_bytes: int) -> None:
        """Check that what is to be kept of the image fits, see :func:`check_memory`."""
        check_memory(self.path, self.shape, n_bytes)

    @contextmanager
    def opened(
        self, *, hashed: bool = False, cancelled: threading.Event | None = None
    ) -> Iterator[NumberStream]:
        """Open the file for reading all its numbers in order, piece by piece.

        With `hashed` the SHA-256 of `path` is known after the block, of a file that holds its own
        numbers taken as they are read. Once `cancelled` is set, reading ends with a GivenUpError.
        Raises FileError when the file is truncated or corrupt, or memory runs out, also in the
        block.
        """
        self.check_size()
        with self._errors(), open(self.data_path, "rb") as file:
            source: Any = HashedStream(file) if hashed and self.data_path == self.path else file
            stream: Any = GzipStream(source) if self.is_compressed else source
            left = self.offset
            while left > 0 and (data := stream.read(min(left, BLOCK_BYTES))):
                left -= len(data)
            numbers = NumberStream(self, stream, cancelled)
            yield numbers
            if self.is_compressed and numbers.n_read == math.prod(self.shape):
                stream.verify()
            if hashed:
                numbers.sha256 = source.sha256() if source is not file else sha256_of(self.path)

    @contextmanager
    def _errors(self) -> Iterator[None]:
        """Turn what goes wrong while the file is read into a FileError."""
        try:
            with readable(self.path):
                yield
        except MemoryError:
            raise FileError(
                f"{self.path} of shape {self.shape} does not fit into memory; crop it first."
            ) from None


def check_memory(
    path: Path,
    shape: tuple[int, ...],
    n_bytes: int,
    remedy: str = "crop it first (mrgrid FILE crop)",
) -> None:
    """Check that what is to be kept of a file fits into the memory of this machine.

    A few megabytes of a compressed file may hold gigabytes, and a system out of memory ends
    programs without a word. Raises FileError when it is more than there is in all.
    """
    whole = memory_bytes()
    if whole and n_bytes > whole:
        raise FileError(
            f"{path} of shape {' x '.join(map(str, shape))} takes "
            f"{n_bytes / 1e9:.1f} GB of memory and this machine has {whole / 1e9:.1f} GB; "
            f"{remedy}, or use a larger machine."
        )


class NumberStream:
    """The numbers of an image one after the other, converted to values as they are read.

    Made by :meth:`StoredImage.opened`.
    """

    def __init__(
        self, stored: StoredImage, stream: IO[bytes], cancelled: threading.Event | None
    ) -> None:
        self.n_read = 0  # numbers that have been read; another thread may read it
        self.sha256 = ""  # of the file, when all is read and it was asked for
        self._stored = stored
        self._stream: Any = stream
        self._cancelled = cancelled

    def read(self, values: NDArray[Any]) -> None:
        """Fill a contiguous (n,) array with the next n values.

        Single bits, which are packed into bytes, are read all at once. Raises FileError when the
        file ends before; GivenUpError when reading was cancelled.
        """
        stored = self._stored
        plain = not stored.scaled and stored.dtype == values.dtype != np.bool_
        for first in range(0, values.size, CHUNK_VALUES):
            if self._cancelled is not None and self._cancelled.is_set():
                raise GivenUpError(stored.path.name)
            piece = values[first : first + CHUNK_VALUES]
            if plain:
                self._fill(piece)
            elif stored.dtype == np.bool_:
                raw = np.empty(-(-piece.size // 8), np.uint8)
                self._fill(raw)
                piece[:] = np.unpackbits(raw, count=piece.size)
            else:
                numbers = np.empty(piece.size, stored.dtype)
                self._fill(numbers)
                if stored.scaled:
                    piece[:] = numbers.astype(np.float64) * stored.slope + stored.intercept
                else:
                    with np.errstate(over="ignore", invalid="ignore"):  # float64 beyond float32
                        piece[:] = numbers
            self.n_read += piece.size

    def _fill(self, numbers: NDArray[Any]) -> None:
        """Fill an array with the next bytes of the file."""
        raw = memoryview(numbers.view(np.uint8).data)
        n = 0
        while n < len(raw) and (more := self._stream.readinto(raw[n:])):
            n += more
        if n < len(raw):
            stored = self._stored
            done = self.n_read * stored.n_bytes // math.prod(stored.shape) + n
            raise FileError(
                f"{stored.path} is truncated: its data end after {done} of {stored.n_bytes} "
                "bytes; copy or export it again."
            )
