"""Arrays that a client and its workers hand to each other as files, in a folder that both see.

What is sent over Dask is copied several times and passes the scheduler. The FOD is written once,
and all workers of a machine map the same pages into memory; points are written by a worker and read
by the client. Where a file cannot be written or is not there, arrays are sent. Called by
:mod:`.cluster`, :mod:`.cluster_run`, :mod:`.shared_plan` and :mod:`.work`.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import secrets
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...errors import BackendError, FileError
from ...files.paths import written_whole
from ...files.streamline_arrays import StreamlineArrays
from ...model.stop import StopReason
from ...runtime.buffers import pool
from ...runtime.processes import UNFINISHED, is_left_over, unfinished_name
from ...streamlines.tractogram import Tractogram

SMALLEST = 1 << 20  # bytes: smaller arrays are sent with the rest
MEMORY_DISK = Path("/dev/shm")  # of Linux
ENDING = ".npy"


class NotThereError(Exception):
    """A worker does not see a file, or another one under its name."""


@dataclass(frozen=True, slots=True)
class FiledArray:
    """An array in a file."""

    path: str  # of a .npy file
    sha256: str  # of its numbers, see sha256_of_array

    def opened(self) -> NDArray[Any]:
        """Return the array, mapped into memory, read-only.

        Raises NotThereError when there is no such file, or its numbers are others.
        """
        try:
            array = np.asarray(np.load(self.path, mmap_mode="r"))
        except (OSError, ValueError) as error:
            raise NotThereError(f"{self.path} cannot be opened ({error})") from None
        if sha256_of_array(array) != self.sha256:
            raise NotThereError(f"{self.path} holds something else")
        return array


@dataclass(frozen=True, slots=True, eq=False)
class FiledTractogram:
    """A tractogram whose points are in a file."""

    path: str  # of a file with the points, float32, one after the other
    others: StreamlineArrays  # the other arrays; no points
    tally: dict[StopReason, int]
    n_seeds: int

    def taken(self) -> Tractogram:
        """Return the tractogram, and delete the file.

        Not mapped: each mapping is an open file, of which a process may have a thousand. Raises
        BackendError when the file is not there or not whole.
        """
        points = pool.points(int(self.others.offsets[-1]))
        try:
            with open(self.path, "rb") as file:
                n = file.readinto(points.data.cast("B"))
            os.unlink(self.path)
        except OSError as error:
            raise BackendError(
                f"What a worker wrote to {self.path} cannot be read ({error.strerror or error}); "
                "connect without a folder."
            ) from error
        if n != points.nbytes:
            raise BackendError(f"{self.path} was cut short; make room there and track again.")
        tractogram = Tractogram.of_arrays(replace(self.others, points=points))
        tractogram.tally, tractogram.n_seeds = self.tally, self.n_seeds
        return tractogram


@dataclass(frozen=True, slots=True)
class Exchange:
    """A folder that a client and its workers see under one path."""

    folder: Path

    def filed(self, array: NDArray[Any]) -> FiledArray | None:
        """Write an array to a file that is named by its SHA-256; None where it is better sent."""
        if array.nbytes < SMALLEST or not array.flags.c_contiguous:
            return None
        sha256 = sha256_of_array(array)
        path = self.folder / f"{sha256}{ENDING}"
        try:
            if not path.exists():
                with written_whole(path) as temporary:
                    np.save(temporary, array)
        except FileError:
            return None
        return FiledArray(str(path), sha256)

    @contextlib.contextmanager
    def for_a_run(self) -> Iterator[str]:
        """Yield a folder for what workers write in a run, which is deleted after it.

        "" where none can be made.
        """
        try:
            folder = tempfile.mkdtemp(prefix=f"{unfinished_name()}-", dir=self.folder)
        except OSError:
            yield ""
            return
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)


def handed_over(tractogram: Tractogram, folder: str) -> Tractogram | FiledTractogram:
    """Return a tractogram to be sent: without its points where those could be written to a folder.

    That of :meth:`Exchange.for_a_run`, on a worker that may see it or not; "" for none.
    """
    if tractogram.points.nbytes < SMALLEST or not (folder and os.path.isdir(folder)):
        return tractogram
    path = Path(folder) / secrets.token_hex(8)
    try:
        tractogram.points.tofile(path)
    except OSError:  # no room
        with contextlib.suppress(OSError):
            path.unlink()
        return tractogram
    others = replace(tractogram.arrays(), points=tractogram.points[:0])
    return FiledTractogram(str(path), others, tractogram.tally, tractogram.n_seeds)


def folder_of_this_machine(n_bytes: int) -> Path:
    """Make a folder for processes of this machine, to be deleted in the end; clear older ones.

    In memory if there is room for so many bytes.
    """
    disk = Path(tempfile.gettempdir())
    with contextlib.suppress(OSError):
        if shutil.disk_usage(MEMORY_DISK).free >= n_bytes and os.access(MEMORY_DISK, os.W_OK):
            disk = MEMORY_DISK
    with contextlib.suppress(OSError):
        for left in disk.glob(f"{UNFINISHED}-*"):
            if is_left_over(left.name):
                shutil.rmtree(left, ignore_errors=True)
    return Path(tempfile.mkdtemp(prefix=f"{unfinished_name()}-", dir=disk))


def sha256_of_array(array: NDArray[Any]) -> str:
    """Return the SHA-256 of an array's type, shape and numbers; it is contiguous."""
    sha = hashlib.sha256(f"{array.dtype.str} {array.shape} ".encode())
    sha.update(array.reshape(-1).view(np.uint8).data)
    return sha.hexdigest()
