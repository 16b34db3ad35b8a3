"""Tables of numbers in text files; called by :mod:`.weights` and the command."""

from __future__ import annotations

import io
from os import PathLike
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ..errors import FileError
from .damage import telling
from .inflating import PACKED, opened
from .paths import existing_file

# Text of numbers shrinks to a tenth; that of a single number to less, up to a size.
MOST_UNPACKED, LEAST_UNPACKED = 32, 1 << 26  # times, bytes


def load_positions(
    path: str | PathLike[str],
) -> tuple[NDArray[np.float64], NDArray[np.float64] | None]:
    """Read (n, 3) positions, RAS+ mm, and (n, 3) directions or None: a row of text for each.

    Three numbers in each row, or six, with blanks or commas between them and ``#`` before comments.
    Raises FileError when the file is missing, cannot be read or holds something else.
    """
    file = existing_file(path)
    with telling(file):
        try:
            text = text_of(file).read().decode("utf-8-sig").replace(",", " ")
            rows = np.loadtxt(io.StringIO(text), np.float64, ndmin=2)
        except ValueError as error:
            raise FileError(
                f"{file} holds no positions ({error}); give x y z in mm in each row."
            ) from None
    if not rows.size or rows.shape[1] not in (3, 6):
        raise FileError(
            f"{file} holds numbers of shape {rows.shape}; give x y z in mm in each row, and a "
            "direction after them or none."
        )
    n_bad = int((~np.isfinite(rows)).any(axis=1).sum())
    if n_bad:
        raise FileError(
            f"{file} holds NaN or infinity in {n_bad} of {len(rows)} rows; remove them."
        )
    return rows[:, :3], rows[:, 3:] if rows.shape[1] == 6 else None


def text_of(file: Path) -> io.BytesIO:
    """Return the text of a file, unpacked up to a bound. Raises FileError above it."""
    is_packed = file.name.lower().endswith(PACKED)
    most = MOST_UNPACKED * file.stat().st_size + LEAST_UNPACKED if is_packed else -2
    with opened(file) as stream:
        text = stream.read(most + 1)
    if is_packed and len(text) > most:
        raise FileError(
            f"{file} unpacks to more than {most / 1e6:.0f} MB, too much for numbers; unpack it "
            "first."
        )
    return io.BytesIO(text)
