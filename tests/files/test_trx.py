"""The community's .trx files as other programs and people leave them."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

import numpy as np
import pytest
from trx.trx_file_memmap import load as load_trx_python

from napari_tractography.errors import FileError
from napari_tractography.files import trx
from napari_tractography.files.streamline_data import StreamlineData
from napari_tractography.files.weights import columns_of, load_weights
from napari_tractography.streamlines.tractogram import Tractogram, load_tractogram

LINES = [np.arange(9.0).reshape(3, 3), np.ones((2, 3))]
BESIDE = {
    "README.md": b"made by hand",
    ".DS_Store": b"\0\1",
    "dps/.DS_Store": b"\0\1",
    "dps/": b"",
    "__MACOSX/dps/._fa.float32": b"\0\1",
    "__MACOSX/._header.json": b"{",
    "groups/CST.left.uint32": np.array([1], "<u4").tobytes(),
    "dps/fa.mean.float32": np.array([0.25, 0.5], "<f4").tobytes(),
    "dps/is_kept.bit": b"\1\0",
    "dpg/CST.left/rgb.3.uint8": b"\1\2\3",
}


def changed(path: Path, members: dict[str, bytes], without: tuple[str, ...] = ()) -> Path:
    """Write a file with more in it, or other members."""
    Tractogram.from_streamlines(LINES).save(path)
    with zipfile.ZipFile(path) as archive:
        there = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in {**there, **members}.items():
            if name not in without:
                archive.writestr(name, content)
    return path


@pytest.fixture(params=["read", "mapped"])
def either_way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "mapped":
        monkeypatch.setattr(trx, "MAPPED_FROM", 0)


@pytest.mark.usefixtures("either_way")
def test_what_else_lies_in_an_archive_does_not_matter(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = changed(tmp_path / "t.trx", BESIDE)
    back = load_tractogram(path)
    assert all(np.array_equal(a, b) for a, b in zip(back, LINES, strict=True))
    assert back.data.groups["CST.left"].tolist() == [1]
    assert back.data.per_group["CST.left"]["rgb"].tolist() == [[1, 2, 3]]
    assert back.data.per_streamline["fa.mean"].ravel().tolist() == [0.25, 0.5]
    assert back.data.per_streamline["is_kept"].ravel().tolist() == [True, False]
    assert load_weights(path, "fa.mean").tolist() == [0.25, 0.5]
    assert {"fa.mean", "is_kept"} < set(columns_of(path))
    assert not caplog.messages


@pytest.mark.usefixtures("either_way")
def test_starts_without_the_last_offset_are_read(tmp_path: Path) -> None:
    path = changed(tmp_path / "t.trx", {"offsets.uint32": np.array([0, 3], "<u4").tobytes()})
    assert load_tractogram(path).offsets.tolist() == [0, 3, 5]


@pytest.mark.usefixtures("either_way")
@pytest.mark.parametrize(
    ("members", "without"),
    [
        pytest.param({"offsets.uint32": np.array([0, 3, 4], "<u4").tobytes()}, (), id="end"),
        pytest.param({"offsets.uint32": np.array([0], "<u4").tobytes()}, (), id="few"),
        pytest.param({"groups/a.uint32": np.array([2], "<u4").tobytes()}, (), id="group"),
        pytest.param({"dps/a.float32": bytes(4)}, (), id="values"),
        pytest.param({"dpv/a.float32": bytes(8)}, (), id="at points"),
        pytest.param({"positions.3.float32": bytes(48)}, (), id="points"),
        pytest.param({}, ("positions.3.float32",), id="no points"),
        pytest.param({"header.json": json.dumps({"NB_STREAMLINES": -1}).encode()}, (), id="header"),
        pytest.param({"header.json": b" " * (2 << 20)}, (), id="large header"),
    ],
)
def test_arrays_of_another_size_are_refused(
    tmp_path: Path, members: dict[str, bytes], without: tuple[str, ...]
) -> None:
    path = changed(tmp_path / "t.trx", members, without)
    with pytest.raises(FileError, match=r"t\.trx is truncated or corrupt"):
        load_tractogram(path)


def test_values_of_other_files_come_back_whatever_their_bytes_names_and_shapes(
    tmp_path: Path,
) -> None:
    """As .vtk files have them: big-endian, several by several values, names with any letters."""
    values = np.array([0.25, 0.5], ">f4")
    tensors = np.arange(20.0).reshape(5, 2, 2)
    data = StreamlineData(
        {"fa.2": values, "a/b": values, ".50%": values},
        {"tensor": tensors},
        {"CST/left.3": np.array([1])},
        {"CST/left.3": {"rgb.4": np.array([1, 2, 3], np.uint8), "p": np.array(0.5, ">f8")}},
    )
    lines = Tractogram.from_streamlines(LINES)
    path = tmp_path / "t.trx"
    Tractogram(lines.points, lines.offsets, data=data).save(path)
    back = load_tractogram(path).data
    for name in data.per_streamline:
        assert back.per_streamline[name].ravel().tolist() == [0.25, 0.5]
        assert load_weights(path, name).tolist() == [0.25, 0.5]
    assert np.array_equal(back.per_point["tensor"], tensors.reshape(5, 4))
    assert back.groups["CST/left.3"].tolist() == [1]
    assert back.per_group["CST/left.3"]["rgb.4"].tolist() == [[1, 2, 3]]
    assert back.per_group["CST/left.3"]["p"].tolist() == [[0.5]]
    other = load_trx_python(str(path))
    found = {name: np.array(found).ravel() for name, found in other.data_per_streamline.items()}
    assert found["fa%2E2"].tolist() == found["a%2Fb"].tolist() == [0.25, 0.5]
    assert np.array_equal(other.data_per_vertex["tensor"].get_data(), tensors.reshape(5, 4))
    assert other.groups["CST%2Fleft%2E3"].tolist() == [1]
    other.close()


def test_values_that_are_no_numbers_are_named(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = changed(tmp_path / "t.trx", {"dps/name.S4": bytes(8)})
    assert load_tractogram(path).n_streamlines == 2
    assert caplog.messages == ["t.trx: dps/name.S4 holds no numbers and is left out."]
