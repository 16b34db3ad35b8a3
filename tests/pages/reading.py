"""What a page holds, read again in Python as its script reads it."""

from __future__ import annotations

import base64
import json
import re
import zlib
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray


class ReadPage:
    """A page that was written."""

    def __init__(self, path: Path) -> None:
        self.text = path.read_text("utf-8")
        self.content: dict[str, Any] = json.loads(self.block("page"))

    def block(self, name: str) -> str:
        """Return the text of an element of data."""
        (found,) = re.findall(rf'<script type="[a-z/]+" id="{name}">(.*?)</script>', self.text)
        return str(found)

    def numbers(self, packed: dict[str, Any]) -> NDArray[np.int64]:
        """Return numbers that were packed, (n_rows, n_columns)."""
        content = np.frombuffer(
            zlib.decompress(base64.b64decode(self.block(packed["id"]))), np.uint8
        )
        planes = content.reshape(packed["columns"], packed["planes"], packed["rows"]).astype(
            np.int64
        )
        folded = sum(planes[:, plane] << (8 * plane) for plane in range(packed["planes"]))
        return np.asarray(np.where(folded % 2, -(folded + 1) // 2, folded // 2)).T

    def streamlines(self, number: int) -> list[NDArray[np.float64]]:
        """Return the streamlines of a bundle, RAS+ mm."""
        bundle = self.content["bundles"][number]
        numbers, found, start, row = self.numbers(bundle["points"]), [], 0, 0
        for count in self.numbers(bundle["counts"])[:, 0]:
            start = start + numbers[row]
            ways = np.cumsum(numbers[row + 1 : row + count], axis=0)
            steps = np.concatenate([[start], start + np.cumsum(ways, axis=0)])
            found.append(steps * self.content["step_mm"] + bundle["low"])
            row += count
        return found

    def colours(self, number: int) -> NDArray[np.int64]:
        """Return the colours of the points of a bundle."""
        return np.cumsum(self.numbers(self.content["bundles"][number]["colours"]), axis=0)

    def voxels(self) -> NDArray[np.int64]:
        """Return the shades of the volume, (x, y, z)."""
        volume = self.content["volume"]
        shades = np.cumsum(self.numbers(volume["voxels"])[:, 0]) % 256
        return np.asarray(shades.reshape(volume["shape"], order="F"))
