"""Two formats that only tests know: ".toy" for streamlines, ".toyvol" for volumes; text both."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from napari_tractography.files import formats
from napari_tractography.files.description import TractogramFormat, VolumeFormat
from napari_tractography.files.paths import written_whole
from napari_tractography.files.stored_images import StoredImage
from napari_tractography.files.streamline_arrays import StreamlineArrays
from napari_tractography.geometry.grid import Grid

HEADER_BYTES = 512


def write_toy(streamlines: StreamlineArrays, path: Path, grid: Grid | None) -> None:
    rows = [" ".join(f"{x:.9g}" for x in line.ravel()) for line in streamlines.lines()]
    path.write_text("\n".join([f"toy {grid and grid.shape}", *rows]))


def read_toy(path: Path) -> StreamlineArrays:
    lines = [np.array(row.split(), np.float32) for row in path.read_text().split("\n")[1:]]
    offsets = np.cumsum([0, *(len(line) // 3 for line in lines)])
    return StreamlineArrays(np.concatenate(lines).reshape(-1, 3), offsets)


def column_of_toy(path: Path, name: str) -> NDArray[np.float64]:
    return np.arange(len(read_toy(path).offsets) - 1) / 4


def write_toyvol(values: NDArray[Any], grid: Grid, path: Path) -> None:
    numbers = " ".join(map(str, [*values.shape, *grid.affine.ravel()]))
    with written_whole(path) as temporary:
        data = values.astype("<f4").tobytes(order="F")
        temporary.write_bytes(f"{numbers}\n".encode().ljust(HEADER_BYTES) + data)


def read_toyvol_header(path: Path) -> StoredImage:
    numbers = path.read_bytes()[:HEADER_BYTES].split()
    shape = tuple(map(int, numbers[:-16]))
    return StoredImage(
        path=path,
        data_path=path,
        offset=HEADER_BYTES,
        shape=shape,
        affine=np.array(numbers[-16:], float).reshape(4, 4),
        dtype=np.dtype("<f4"),
        order=tuple(range(len(shape))),
        flipped=(False,) * len(shape),
    )


TOY = TractogramFormat(
    (".toy",),
    read_toy,
    write=write_toy,
    columns=lambda _: ["quarters"],
    column=column_of_toy,
    names_image=True,
)
TOYVOL = VolumeFormat((".toyvol",), header=read_toyvol_header, write=write_toyvol)


def add_toys(monkeypatch: pytest.MonkeyPatch) -> None:
    """Add both as a new format is added: in one line."""
    monkeypatch.setattr(formats, "FORMATS", (*formats.FORMATS, TOYVOL, TOY))
