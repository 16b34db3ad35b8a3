"""TrackVis' .trk files: headers that say little, and a disk that is full."""

from __future__ import annotations

import gzip
import io
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from nibabel.streamlines import TrkFile

from napari_tractography.files import trk
from napari_tractography.files.streamline_arrays import StreamlineArrays
from napari_tractography.geometry.grid import Grid
from napari_tractography.streamlines.tractogram import Tractogram, load_tractogram


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


def write_without_affine(path: Path, version: int, voxel_mm: tuple[float, ...]) -> None:
    """Two points, one voxel along x apart, in the corner-based mm of TrackVis."""
    header = TrkFile._default_structarr("little")
    header["voxel_to_rasmm"] = 0
    header["version"], header["voxel_sizes"], header["dimensions"] = version, voxel_mm, (9, 8, 7)
    header["nb_streamlines"] = 1
    size = voxel_mm[0] or 1
    points = np.array([[size / 2, 1, 1], [size * 1.5, 1, 1]], "<f4")
    raw = header.tobytes() + np.int32(2).tobytes() + points.tobytes()
    path.write_bytes(gzip.compress(raw) if path.suffix == ".gz" else raw)


@pytest.mark.parametrize("name", ["t.trk", "t.trk.gz"])
@pytest.mark.parametrize(("version", "size"), [(1, 2.0), (2, 2.0), (2, 0.0)])
def test_voxels_are_as_large_as_the_header_says_where_it_has_no_affine(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, name: str, version: int, size: float
) -> None:
    write_without_affine(tmp_path / name, version, (size, 3.0, 4.0))
    back = load_tractogram(tmp_path / name)
    size = size or 1.0
    assert back.lengths_mm.tolist() == [size]
    assert back.grid == Grid((9, 8, 7), np.diag([size, 3, 4, 1]))
    (told,) = caplog.messages
    assert told.startswith(f"{name} does not say where its image lies")
    assert f"voxels of {size:g} x 3 x 4 mm" in told


def test_what_nibabel_guesses_is_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    header = TrkFile._default_structarr("little")
    header["voxel_order"] = b""
    (tmp_path / "t.trk").write_bytes(header.tobytes())
    load_tractogram(tmp_path / "t.trk")
    assert "t.trk: Voxel order is not specified, will assume 'LPS'" in caplog.messages[0]


def test_either_order_of_bytes_is_read(tmp_path: Path) -> None:
    header = TrkFile._default_structarr("big")
    header["nb_streamlines"] = 3
    lines = [np.ones((1, 3)), np.empty((0, 3)), np.full((2, 3), 2.0)]
    parts = [np.array(len(line), ">i4").tobytes() + line.astype(">f4").tobytes() for line in lines]
    (tmp_path / "t.trk").write_bytes(header.tobytes() + b"".join(parts))
    back = list(load_tractogram(tmp_path / "t.trk"))
    assert [len(line) for line in back] == [1, 0, 2]
    np.testing.assert_array_equal(back[2], lines[2] - 0.5)


@pytest.mark.parametrize("name", ["t.trk", "t.trk.gz"])
def test_what_follows_the_streamlines_does_not_matter(tmp_path: Path, name: str) -> None:
    write_without_affine(tmp_path / name, 2, (2.0, 2.0, 2.0))
    raw = (tmp_path / name).read_bytes()
    whole = gzip.decompress(raw) if name.endswith(".gz") else raw
    for rest in (b"abc", bytes(4), bytes(50)):
        content = gzip.compress(whole + rest) if name.endswith(".gz") else whole + rest
        (tmp_path / name).write_bytes(content)
        assert load_tractogram(tmp_path / name).n_points == 2


def test_a_file_that_nibabel_cannot_open_is_named_when_it_is_written(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """It leaves out streamlines without points, and then counts more values than streamlines."""
    path = tmp_path / "a.trk"
    whole = Tractogram.from_streamlines([np.ones((2, 3)), np.empty((0, 3)), np.ones((1, 3))])
    whole.save(path, reference=Grid((5, 5, 5), np.eye(4)))
    with pytest.raises(ValueError, match=r"number of values \(3\) should match"):
        TrkFile.load(path)
    assert "1 of 3 streamlines have no points: nibabel, and so DIPY" in caplog.messages[0]
    caplog.clear()
    whole[[0, 2]].save(path, reference=Grid((5, 5, 5), np.eye(4)))
    values = TrkFile.load(path).tractogram.data_per_streamline["seed_index"]
    assert values.ravel().tolist() == [0, 2]
    assert not caplog.messages
