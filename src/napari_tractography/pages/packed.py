"""Whole numbers as a page holds them: small, and quick to unpack in a browser.

An array of rows and columns is folded to numbers from 0 (0, -1, 1, -2, 2 become 0, 1, 2, 3, 4) and
written as bytes, column after column, of each the lowest bytes of all rows, then the next ones, as
many as the largest number takes. That is deflated (zlib) and put into base64. Called by
:mod:`.page`; page.js unpacks.
"""

from __future__ import annotations

import base64
import zlib
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

LEVEL = 6  # of zlib: 9 takes some twenty times as long, and saves an eighth


@dataclass(frozen=True, slots=True)
class Packed:
    """Numbers that are packed, and what it takes to unpack them."""

    text: str  # base64
    rows: int
    columns: int
    planes: int  # bytes a number

    def described(self, element: str) -> dict[str, Any]:
        """Return how page.js is told of them; `element` is the id of that which holds the text."""
        return {"id": element, "rows": self.rows, "columns": self.columns, "planes": self.planes}


def pack(numbers: NDArray[Any]) -> Packed:
    """Pack (n_rows, n_columns) or (n_rows,) whole numbers between -2^30 and 2^30."""
    rows = numbers.reshape(len(numbers), -1).astype(np.int32)
    folded = ((rows << 1) ^ (rows >> 31)).astype("<u4")
    largest = int(folded.max(initial=0))
    planes = max((largest.bit_length() + 7) // 8, 1)
    as_bytes = np.ascontiguousarray(folded.T).view(np.uint8).reshape(*folded.T.shape, 4)
    content = np.ascontiguousarray(as_bytes[..., :planes].transpose(0, 2, 1)).tobytes()
    return Packed(pack_bytes(content), *rows.shape, planes)


def pack_bytes(content: bytes) -> str:
    """Return bytes, deflated, as base64."""
    return base64.b64encode(zlib.compress(content, LEVEL)).decode("ascii")


def second_differences(steps: NDArray[np.int64], offsets: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return what is to be packed of points, (n_points, 3) in steps, of two or more a streamline.

    Of the first point of each streamline that is the difference from the first of the one before,
    of the second the difference from the first, and from then on how that difference changes: what
    is left is small.
    """
    first = offsets[:-1]
    along = np.diff(steps, axis=0, prepend=0)
    along[first] = 0
    found = np.diff(along, axis=0, prepend=0)
    found[first] = np.diff(steps[first], axis=0, prepend=0)
    return found
