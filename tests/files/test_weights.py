"""Weights of streamlines: as MRtrix3 writes them, and as .trx keeps them."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import napari_tractography as nt
from napari_tractography.errors import FileError, InvalidTractogramError
from napari_tractography.files.tractograms import write_streamlines
from napari_tractography.files.weights import columns_of, load_weights, save_weights

LINES = [[(0, 0, 0), (1, 0, 0)], [(0, 1, 0), (1, 1, 0)], [(0, 2, 0), (1, 2, 0), (2, 2, 0)]]


@pytest.fixture
def track() -> nt.Tractogram:
    return nt.Tractogram.from_streamlines(LINES)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("# command_history: tcksift2\n0.5 1.25 3e-7 \n", id="one line"),
        pytest.param("0.5\n1.25\n3e-7\n", id="a line each"),
    ],
)
def test_text_is_read_either_way(tmp_path: Path, text: str) -> None:
    (tmp_path / "w.txt").write_text(text)
    found = load_weights(tmp_path / "w.txt")
    assert found.dtype == np.float32
    assert found.tolist() == np.float32([0.5, 1.25, 3e-7]).tolist()


def test_text_is_utf_8_on_every_system_and_may_say_so(tmp_path: Path) -> None:
    """Windows' editors put a mark first; its own encoding has nothing for the second byte of Á."""
    text = "0.5\n# command_history: tcksift2 C:\\Á\\b.tck\n2\n"
    (tmp_path / "w.txt").write_text(text, "utf-8-sig")
    assert load_weights(tmp_path / "w.txt").tolist() == [0.5, 2.0]


def test_weights_are_written_to_the_last_digit(tmp_path: Path) -> None:
    values = np.random.default_rng(0).random(100).astype(np.float32)
    save_weights(values, tmp_path / "w.txt")
    assert np.array_equal(load_weights(tmp_path / "w.txt"), values)


@pytest.mark.parametrize(
    ("content", "word"),
    [
        pytest.param(b"", "one weight a streamline", id="empty"),
        pytest.param(b"1 2\n3 4\n", "shape", id="table"),
        pytest.param(b"1 2\n3\n", "one number a streamline", id="ragged"),
        pytest.param(b"one two", "one number a streamline", id="words"),
        pytest.param(b"\xff\xfe\x00\x80", "no text", id="binary"),
        pytest.param(b"1 1e39 2", "1 of 3 weights are infinite", id="beyond float32"),
        pytest.param(b"1 inf -inf", "2 of 3 weights are infinite", id="infinite"),
    ],
)
def test_what_is_no_file_of_weights_is_said(tmp_path: Path, content: bytes, word: str) -> None:
    (tmp_path / "w.txt").write_bytes(content)
    with pytest.raises(FileError, match=word):
        load_weights(tmp_path / "w.txt")


@pytest.mark.parametrize("ending", ["trx", "trk"])
def test_trx_and_trk_keep_weights(tmp_path: Path, track: nt.Tractogram, ending: str) -> None:
    path = tmp_path / f"t.{ending}"
    track.with_weights([1.5, 0.25, 3.0]).save(path, reference=nt.Grid((9, 9, 9), np.eye(4)))
    found = nt.load_tractogram(path).weights
    assert found is not None
    assert found.tolist() == [1.5, 0.25, 3.0]
    if ending == "trx":
        assert load_weights(path, "weights").tolist() == [1.5, 0.25, 3.0]
        assert load_weights(path).tolist() == [1.5, 0.25, 3.0]
        with pytest.raises(FileError, match="stop_reasons, weights"):
            load_weights(path, "sift2")


@pytest.mark.parametrize("ending", ["trx", "trk"])
@pytest.mark.parametrize("wrong", [np.nan, -1, np.inf])
def test_streamlines_with_weights_of_others_that_are_impossible_open_without_them(
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    track: nt.Tractogram,
    ending: str,
    wrong: float,
) -> None:
    path = tmp_path / f"t.{ending}"
    values = np.array([1, wrong, 2], np.float32)
    arrays = replace(track.arrays(), weights=values, lengths_mm=values + np.inf)
    write_streamlines(arrays, path, nt.Grid((9, 9, 9), np.eye(4)))
    found = nt.load_tractogram(path)
    assert found.digest() == track.digest()
    assert found.weights is None
    assert found.lengths_mm.tolist() == [1, 1, 2]
    (told,) = caplog.messages
    assert told.startswith(f"{path} is read without its weights: 1 of 3 ")


@pytest.mark.parametrize("read", [load_weights, columns_of, nt.load_tractogram])
def test_a_file_that_may_not_be_read_is_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, read: Callable[[Path], object]
) -> None:
    path = tmp_path / "t.trx"
    path.touch()

    def refuse(*_arguments: object) -> None:  # as the system does, but not of root
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))

    monkeypatch.setattr(zipfile, "ZipFile", refuse)
    with pytest.raises(FileError, match=r"t\.trx cannot be read \(Permission denied\); check"):
        read(path)


def test_a_column_of_a_damaged_archive_is_one_sentence(tmp_path: Path) -> None:
    path = tmp_path / "t.trx"
    name = "dps/weights.float32"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_LZMA) as archive:
        archive.writestr(name, np.ones(2000, np.float32).tobytes())
        archive.writestr("header.json", "{}")
    content = bytearray(path.read_bytes())
    first = content.index(name.encode()) + len(name) + 20
    content[first : first + 12] = bytes(byte ^ 0xFF for byte in content[first : first + 12])
    path.write_bytes(content)
    with pytest.raises(FileError, match="truncated or corrupt"):
        load_weights(path)
    with pytest.raises(FileError, match="truncated or corrupt"):
        nt.load_tractogram(path)


def test_columns_of_trx_files_by_trx_python(tmp_path: Path, track: nt.Tractogram) -> None:
    from trx.trx_file_memmap import load, save

    track.save(tmp_path / "t.trx", reference=nt.Grid((9, 9, 9), np.eye(4)))
    trx = load(str(tmp_path / "t.trx"))
    column = np.array([[2.0], [4.0], [8.0]], np.float64)
    trx.data_per_streamline = {"sift2": column}
    save(trx, str(tmp_path / "sift.trx"))
    trx.close()
    assert load_weights(tmp_path / "sift.trx").tolist() == [2, 4, 8]


@pytest.mark.parametrize(
    "weights",
    [
        pytest.param([1.0, 2.0], id="too few"),
        pytest.param([1.0, 2.0, -1.0], id="negative"),
        pytest.param([1.0, 2.0, np.nan], id="nan"),
    ],
)
def test_weights_that_do_not_fit_are_refused(track: nt.Tractogram, weights) -> None:
    with pytest.raises(InvalidTractogramError, match="weights"):
        track.with_weights(weights)


def test_weights_go_with_their_streamlines(track: nt.Tractogram) -> None:
    weighted = track.with_weights([1.0, 2.0, 3.0])
    assert track.weights is None
    assert weighted[[2, 0]].weights.tolist() == [3.0, 1.0]
    joined = nt.Tractogram.concatenate([weighted, weighted[:1]])
    assert joined.weights.tolist() == [1.0, 2.0, 3.0, 1.0]
    assert nt.Tractogram.concatenate([weighted, track]).weights is None
    assert weighted.digest() == track.digest()


@pytest.mark.skipif(shutil.which("tcksift2") is None, reason="MRtrix3's tcksift2 is not installed")
def test_what_tcksift2_writes_is_read(tmp_path: Path, shared_data: Path) -> None:
    source = shared_data / "act" / "fods.mif"
    fod = nt.load_fod(source)
    track = nt.track(fod, nt.Seeds.from_fod(fod, 400), nt.TrackingParameters.for_fod(fod))
    track.save(tmp_path / "t.tck")
    subprocess.run(
        ["tcksift2", "-quiet", "-nthreads", "1", "t.tck", str(source), "w.txt"],
        cwd=tmp_path, check=True, capture_output=True,
    )  # fmt: skip
    weights = load_weights(tmp_path / "w.txt")
    assert len(weights) == len(track)
    assert weights.min() >= 0
    assert np.unique(weights).size > 10
    text = (tmp_path / "w.txt").read_text()
    numbers = [float(word) for line in text.splitlines() if not line.startswith("#")
               for word in line.split()]  # fmt: skip
    assert np.allclose(weights, numbers)
