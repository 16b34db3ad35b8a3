"""TrackVis' .trk files, where a disk is full while streamlines come."""

from __future__ import annotations

import io
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from napari_tractography.files import trk
from napari_tractography.files.streamline_arrays import StreamlineArrays
from napari_tractography.geometry.grid import Grid


@pytest.mark.skipif(sys.platform != "linux", reason="no file there that is always full")
def test_what_a_full_disk_did_not_take_can_be_let_go_of(monkeypatch: pytest.MonkeyPatch) -> None:
    """A buffer that someone looks into cannot be closed: Python 3.13 says so on the terminal."""
    buffers = []

    class Kept(io.BytesIO):
        def __init__(self) -> None:
            super().__init__()
            buffers.append(self)

    monkeypatch.setattr(trk, "io", SimpleNamespace(BytesIO=Kept))
    line = StreamlineArrays(np.zeros((3000, 3), np.float32), np.array([0, 3000]))
    grid = Grid((5, 5, 5), np.eye(4))
    with (
        pytest.raises(OSError, match="No space left") as caught,
        trk.stream_trk(Path("/dev/full"), grid, "float32") as stream,
    ):
        stream.append(line)
    (buffer,) = buffers
    assert caught.tb is not None  # which keeps what the writer had at hand
    buffer.close()  # a BufferError where that is a view of it
