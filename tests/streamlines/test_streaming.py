"""Streamlines written as they come: what is in the file, and that it is whole or not there."""

from __future__ import annotations

import errno
import json
import os
import shutil
import subprocess
import sys
import zipfile

import nibabel as nib
import numpy as np
import pytest
from trx.trx_file_memmap import load as load_trx_python

import napari_tractography as nt
from napari_tractography import Tractogram
from napari_tractography.errors import (
    FileError,
    InvalidParameterError,
    InvalidSeedsError,
    InvalidTractogramError,
    UnfinishedError,
)
from napari_tractography.files import trx as trx_module
from napari_tractography.files import trx_stream
from napari_tractography.files.tractograms import open_stream
from napari_tractography.geometry.grid import Grid
from napari_tractography.model.stop import StopReason
from napari_tractography.streamlines.streaming import SavedTractogram, compressed, save_chunks

GRID = Grid(
    (40, 50, 30),
    [[-1.9, 0.3, 0.1, 90.5], [0.4, 2.1, 0.2, -126.25], [-0.2, -0.1, 2.9, -72.0], [0, 0, 0, 1]],
)
ENDINGS = [".tck", ".trk", ".trx", ".vtk"]


def chunk(seed: int, counts=(5, 2, 40, 1)) -> nt.Tractogram:
    """Streamlines of random points, from seeds of a high number on."""
    random = np.random.default_rng(seed)
    n = len(counts)
    return nt.Tractogram(
        random.uniform(-120, 120, size=(sum(counts), 3)),
        np.concatenate([[0], np.cumsum(np.array(counts, dtype=np.int64))]),
        seed_index=2**24 - 6 + 10 * seed + np.arange(n),
        stop_reasons=random.integers(1, 9, size=(n, 2)),
        lengths_mm=random.uniform(1, 200, size=n),
        tally={StopReason.LOW_PROBABILITY: n},
        n_seeds=2 * n,
    )


@pytest.fixture
def chunks() -> list[nt.Tractogram]:
    """Three chunks; the second holds no streamline."""
    return [chunk(0), nt.Tractogram.empty(), chunk(1, (3, 7))]


@pytest.fixture
def whole(chunks) -> nt.Tractogram:
    return nt.Tractogram.concatenate(chunks)


@pytest.mark.parametrize("ending", ENDINGS)
def test_the_file_is_that_of_all_chunks_at_once(tmp_path, chunks, whole, ending):
    save_chunks(iter(chunks), tmp_path / f"a{ending}", reference=GRID)
    whole.save(tmp_path / f"b{ending}", reference=GRID)
    assert sorted(os.listdir(tmp_path)) == [f"a{ending}", f"b{ending}"]
    streamed, at_once = (nt.load_tractogram(tmp_path / f"{name}{ending}") for name in "ab")
    assert streamed.digest() == at_once.digest()
    np.testing.assert_array_equal(streamed.seed_index, at_once.seed_index)
    np.testing.assert_array_equal(streamed.stop_reasons, at_once.stop_reasons)
    np.testing.assert_array_equal(streamed.lengths_mm, at_once.lengths_mm)
    if ending == ".tck":
        assert (tmp_path / "a.tck").read_bytes() == (tmp_path / "b.tck").read_bytes()


def test_other_programs_read_them(tmp_path, chunks, whole):
    for ending in (".tck", ".trk", ".trx"):
        save_chunks(iter(chunks), tmp_path / f"t{ending}", reference=GRID)
    trk = nib.streamlines.load(tmp_path / "t.trk")
    assert trk.header["nb_streamlines"] == len(trk.streamlines) == 6
    np.testing.assert_allclose(trk.streamlines.get_data(), whole.points, rtol=0, atol=1e-4)
    trx = load_trx_python(str(tmp_path / "t.trx"))
    np.testing.assert_array_equal(trx.streamlines.get_data(), whole.points)
    np.testing.assert_array_equal(trx.streamlines._lengths, np.diff(whole.offsets))
    np.testing.assert_allclose(trx.header["VOXEL_TO_RASMM"], GRID.affine, rtol=1e-6)
    trx.close()
    tckinfo = shutil.which("tckinfo")
    if tckinfo is None:
        pytest.skip("tckinfo of MRtrix3 is not installed")
    told = subprocess.run(
        [tckinfo, "-count", tmp_path / "t.tck"], check=True, capture_output=True, text=True
    )
    assert "actual count in file: 6" in told.stdout


def test_what_is_known_of_the_file_is_known_of_the_tractogram(tmp_path, chunks, whole):
    saved = save_chunks(iter(chunks), tmp_path / "t.tck")
    assert isinstance(saved, SavedTractogram)
    assert saved.digest() == whole.digest()
    assert saved.summary() == whole.summary()
    assert (saved.n_seeds, saved.n_points) == (whole.n_seeds, whole.n_points)
    np.testing.assert_array_equal(saved.stop_reasons, whole.stop_reasons)
    np.testing.assert_array_equal(saved.lengths_mm, whole.lengths_mm)
    assert (saved.ends(), saved.discarded()) == (whole.ends(), whole.discarded())


def test_seeds_that_nobody_counted_are_not_counted(tmp_path, chunks, whole):
    """As where tractograms are joined: some chunks may be of a file."""
    foreign = Tractogram.from_streamlines(list(whole)[:3])
    saved = save_chunks([*chunks, foreign, *chunks], tmp_path / "t.tck")
    assert saved.n_seeds == Tractogram.concatenate([*chunks, foreign, *chunks]).n_seeds == 0
    assert " from " not in saved.summary()


def test_the_file_may_lie_in_the_home_folder(tmp_path, chunks, monkeypatch):
    for name in ("HOME", "USERPROFILE"):
        monkeypatch.setenv(name, str(tmp_path))
    assert save_chunks(chunks, "~/t.tck").path == tmp_path / "t.tck"


def test_a_name_may_begin_with_a_tilde(tmp_path, chunks, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert save_chunks(chunks, "~draft.tck").path.name == "~draft.tck"
    assert (tmp_path / "~draft.tck").is_file()


def test_half_the_digits_are_half_the_bytes(tmp_path, chunks, whole):
    saved = save_chunks(iter(chunks), tmp_path / "t.trx", reference=GRID, dtype="float16")
    assert saved.digest() == whole.digest()  # of what was tracked
    names = {info.filename: info for info in zipfile.ZipFile(tmp_path / "t.trx").infolist()}
    assert names["positions.3.float16"].file_size == whole.points.nbytes // 2
    back = nt.load_tractogram(tmp_path / "t.trx")
    # Half floats have 11 digits: from 64 to 128 mm they are 1/16 mm apart.
    np.testing.assert_allclose(back.points, whole.points, rtol=0, atol=1 / 32)
    np.testing.assert_array_equal(back.offsets, whole.offsets)


def test_compression_keeps_to_its_tolerance(tmp_path):
    angle = np.linspace(0, np.pi, 200)
    arc = np.stack([30 * np.cos(angle), 30 * np.sin(angle), angle], axis=1)
    lines = nt.Tractogram.from_streamlines([arc, arc + 1.0])
    fewer = compressed(lines, 0.1)
    assert 4 < fewer.n_points / 2 < 60
    np.testing.assert_array_equal(fewer.lengths_mm, lines.lengths_mm)
    for line, kept in zip(lines, fewer, strict=True):
        np.testing.assert_array_equal(kept[[0, -1]], line[[0, -1]])
        assert _distances(line, kept).max() <= 0.1 + 1e-5  # float32
    save_chunks([lines], tmp_path / "t.tck", tolerance_mm=0.1)
    assert nt.load_tractogram(tmp_path / "t.tck").digest() == fewer.digest()


def _distances(points, line) -> np.ndarray:
    """Of points from a polyline."""
    first, along = line[:-1], np.diff(line, axis=0)
    t = ((points[:, None] - first) * along).sum(-1) / (along**2).sum(-1)
    nearest = first + np.clip(t, 0, 1)[..., None] * along
    return np.linalg.norm(points[:, None] - nearest, axis=-1).min(axis=1)


@pytest.mark.parametrize("ending", ENDINGS)
@pytest.mark.parametrize("what", ["a full disk", "a key"])
def test_what_ends_the_work_leaves_the_older_file_and_nothing_else(tmp_path, chunks, ending, what):
    path = tmp_path / f"t{ending}"
    path.write_bytes(b"older")

    def broken():
        yield chunks[0]
        if what == "a key":
            raise KeyboardInterrupt
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with pytest.raises(KeyboardInterrupt if what == "a key" else FileError):
        save_chunks(broken(), path, reference=GRID)
    assert os.listdir(tmp_path) == [path.name]
    assert path.read_bytes() == b"older"


@pytest.mark.skipif(sys.platform == "win32", reason="needs POSIX limits")
@pytest.mark.parametrize("ending", [".tck", ".trk", ".trx"])
def test_a_file_that_may_not_grow_leaves_nothing(tmp_path, ending):
    """The system itself refuses to write beyond a limit, as it does on a full disk."""
    import resource

    points = np.zeros((200_000, 3), np.float32)
    large = nt.Tractogram(points, np.arange(0, len(points) + 1, 1000))
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (points.nbytes // 2, before[1]))
    try:
        with pytest.raises(FileError, match="cannot be written"):
            save_chunks([large], tmp_path / f"t{ending}", reference=GRID)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert not os.listdir(tmp_path)


def test_what_a_run_gave_that_could_not_go_on_is_kept_under_another_name(tmp_path, chunks, whole):
    (tmp_path / "t.trx").write_bytes(b"older")

    def lost():
        yield from chunks
        raise UnfinishedError("The image was lost.", nt.Tractogram.empty())

    with pytest.raises(UnfinishedError, match=r"was lost\. The 6 streamlines until then are in .*"):
        save_chunks(lost(), tmp_path / "t.trx", reference=GRID)
    assert sorted(os.listdir(tmp_path)) == ["t.trx", "unfinished-t.trx"]
    assert (tmp_path / "t.trx").read_bytes() == b"older"
    assert nt.load_tractogram(tmp_path / "unfinished-t.trx").digest() == whole.digest()
    chunks.clear()
    with pytest.raises(UnfinishedError, match=r"was lost\.$"):
        save_chunks(lost(), tmp_path / "u.trx", reference=GRID)
    assert sorted(os.listdir(tmp_path)) == ["t.trx", "unfinished-t.trx"]


def test_a_tractogram_is_no_chunks(tmp_path, whole):
    with pytest.raises(InvalidTractogramError, match="call its save"):
        save_chunks(whole, tmp_path / "a.tck")
    assert not list(tmp_path.iterdir())


def test_no_streamlines_are_no_file(tmp_path):
    with pytest.raises(InvalidSeedsError, match=r"No streamlines.* Nothing was written\."):
        save_chunks([nt.Tractogram.empty()], tmp_path / "t.trx", reference=GRID)
    assert not os.listdir(tmp_path)


@pytest.mark.parametrize("weights_first", [True, False])
@pytest.mark.parametrize("ending", [".trk", ".trx"])
def test_chunks_with_other_columns_are_refused(tmp_path, chunks, ending, weights_first):
    plain, weighted = chunks[0], chunks[0].with_weights(np.ones(len(chunks[0])))
    mixed = [weighted, plain] if weights_first else [plain, weighted]
    with pytest.raises(InvalidTractogramError, match=r"columns .*weights.*give all of them"):
        save_chunks(mixed, tmp_path / f"t{ending}", reference=GRID)
    assert not os.listdir(tmp_path)


@pytest.mark.parametrize("ending", ENDINGS)
def test_where_no_streamlines_are_appended_the_file_is_whole(tmp_path, ending, chunks):
    for name, parts in (("none", []), ("empty", chunks[1:2]), ("later", chunks[1:])):
        path = tmp_path / f"{name}{ending}"
        with open_stream(path, GRID) as append:
            for part in parts:
                append(part.arrays())
        at_once = tmp_path / f"{name}-at-once{ending}"
        nt.Tractogram.concatenate(parts).save(at_once, reference=GRID)
        assert nt.load_tractogram(path).digest() == nt.load_tractogram(at_once).digest()


def test_impossible_wishes_are_told_before_the_work(tmp_path):
    def never():
        raise AssertionError("the work was begun")
        yield

    with pytest.raises(InvalidParameterError, match=r"float8.*choose one of float32, float16"):
        save_chunks(never(), tmp_path / "t.trx", dtype="float8")
    with pytest.raises(InvalidParameterError, match=r"\.tck files hold points as float32"):
        save_chunks(never(), tmp_path / "t.tck", dtype="float16")
    with pytest.raises(InvalidParameterError, match="tolerance_mm = 0 mm is impossible"):
        save_chunks(never(), tmp_path / "t.tck", tolerance_mm=0.0)
    with pytest.raises(FileError, match="as its reference; give it"):
        save_chunks(never(), tmp_path / "t.trk")


# ------------------------------------------------------------------------------ read where it lies


def test_points_of_a_large_file_are_not_copied(tmp_path, chunks, whole, monkeypatch):
    monkeypatch.setattr(trx_module, "MAPPED_FROM", 0)
    save_chunks(iter(chunks), tmp_path / "t.trx", reference=GRID)
    back = nt.load_tractogram(tmp_path / "t.trx")
    assert back.digest() == whole.digest()
    np.testing.assert_array_equal(back.seed_index, whole.seed_index)
    np.testing.assert_array_equal(back.lengths_mm, whole.lengths_mm)
    for array in (back.points, back.seed_index, back.stop_reasons, back.lengths_mm):
        assert _is_mapped(array)
        assert array.flags.aligned


def test_half_the_digits_are_not_copied_either(tmp_path, chunks, monkeypatch):
    path = tmp_path / "t.trx"
    save_chunks(iter(chunks), path, dtype="float16")
    plain = nt.load_tractogram(path)
    monkeypatch.setattr(trx_module, "MAPPED_FROM", 0)
    back = nt.load_tractogram(path)
    assert back.digest() == plain.digest()
    part = back[::2]
    assert part.points.dtype == np.float32
    assert part.digest() == plain[::2].digest()
    assert [line.dtype for line in back] == [np.float32] * len(plain)
    np.testing.assert_array_equal(np.concatenate(list(back)), plain.points)
    weighted = back.with_weights(np.arange(len(back)))
    np.testing.assert_array_equal(weighted[2:].weights, np.arange(2, len(back)))
    for whole in (back, weighted):  # of neither were all points asked for
        assert _is_mapped(whole.stored_points)
        assert whole.stored_points.dtype == np.float16
        assert whole._points is None
    np.testing.assert_array_equal(back.points, plain.points)


def test_an_archive_that_holds_no_streamlines_is_read(tmp_path, monkeypatch):
    path = tmp_path / "t.trx"
    nt.Tractogram.empty().save(path, reference=GRID)
    monkeypatch.setattr(trx_module, "MAPPED_FROM", 0)
    assert len(nt.load_tractogram(path)) == 0


@pytest.mark.parametrize("how", ["deflated", "of trx-python"])
def test_what_cannot_be_mapped_is_read(tmp_path, chunks, whole, monkeypatch, how):
    path = tmp_path / "t.trx"
    if how == "of trx-python":
        whole.save(path, reference=GRID)
    else:
        save_chunks(iter(chunks), path)
    if how == "deflated":
        with zipfile.ZipFile(path) as stored:
            content = {name: stored.read(name) for name in stored.namelist()}
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, data in content.items():
                archive.writestr(name, data)
    plain = nt.load_tractogram(path)
    monkeypatch.setattr(trx_module, "MAPPED_FROM", 0)
    back = nt.load_tractogram(path)
    assert back.digest() == plain.digest()
    np.testing.assert_array_equal(back.offsets, whole.offsets)
    np.testing.assert_array_equal(back.seed_index, whole.seed_index)


def test_a_damaged_large_file_is_refused(tmp_path, chunks, monkeypatch):
    monkeypatch.setattr(trx_module, "MAPPED_FROM", 0)
    path = tmp_path / "t.trx"
    save_chunks(iter(chunks), path)
    with zipfile.ZipFile(path) as stored:
        content = {name: stored.read(name) for name in stored.namelist()}
    header = json.loads(content["header.json"])
    content["header.json"] = json.dumps({**header, "NB_STREAMLINES": 5}).encode()
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in content.items():
            archive.writestr(name, data)
    with pytest.raises(FileError, match="truncated or corrupt"):
        nt.load_tractogram(path)


def test_arrays_of_an_archive_begin_where_they_can_be_mapped(tmp_path, chunks):
    save_chunks(iter(chunks), tmp_path / "t.trx")
    with zipfile.ZipFile(tmp_path / "t.trx") as archive:
        arrays = [info for info in archive.infolist() if info.filename != "header.json"]
    assert len(arrays) == 6
    for info in arrays:
        assert trx_module._address(tmp_path / "t.trx", info) % trx_stream.ALIGNMENT == 0


def _is_mapped(array) -> bool:
    while array is not None and not isinstance(array, np.memmap):
        array = array.base
    return array is not None
