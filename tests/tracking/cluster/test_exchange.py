"""Arrays through a folder: what is sent, what arrives, and what is done where it does not."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from plans import plan_of
from toys import random_fod

import napari_tractography as nt
from napari_tractography.errors import BackendError
from napari_tractography.runtime.processes import unfinished_name
from napari_tractography.tracking.cluster import exchange
from napari_tractography.tracking.cluster.exchange import (
    Exchange,
    FiledArray,
    FiledTractogram,
    NotThereError,
    folder_of_this_machine,
    handed_over,
)
from napari_tractography.tracking.cluster.shared_plan import SharedPlan
from napari_tractography.tracking.cluster.work import Done

LARGE = np.arange(exchange.SMALLEST // 4, dtype=np.float32).reshape(-1, 4)


def lines(n_points: int) -> nt.Tractogram:
    random = np.random.default_rng(0)
    counts = np.array([n_points // 3, n_points - n_points // 3])
    return nt.Tractogram(
        random.normal(size=(n_points, 3)),
        np.concatenate([[0], np.cumsum(counts)]),
        seed_index=[3, 7],
        stop_reasons=[[1, 2], [3, 4]],
        lengths_mm=[5.0, 6.0],
        n_seeds=9,
    )


def test_an_array_is_opened_where_it_lies(tmp_path: Path) -> None:
    filed = Exchange(tmp_path).filed(LARGE)
    assert filed is not None
    opened = filed.opened()
    np.testing.assert_array_equal(opened, LARGE)
    assert not opened.flags.writeable
    assert isinstance(opened.base, np.memmap)
    assert Exchange(tmp_path).filed(LARGE.copy()) == filed  # the same numbers are one file
    assert len(list(tmp_path.iterdir())) == 1
    assert Exchange(tmp_path).filed(LARGE[:10]) is None  # few are sent


def test_an_array_that_is_gone_or_another_one_is_not_taken(tmp_path: Path) -> None:
    filed = Exchange(tmp_path).filed(LARGE)
    assert filed is not None
    with open(filed.path, "r+b") as file:
        file.seek(-1, os.SEEK_END)
        file.write(b"\7")
    with pytest.raises(NotThereError, match="holds something else"):
        filed.opened()
    os.truncate(filed.path, 1000)
    with pytest.raises(NotThereError, match="cannot be opened"):
        filed.opened()
    with pytest.raises(NotThereError, match="cannot be opened"):
        FiledArray(str(tmp_path / "nowhere.npy"), filed.sha256).opened()


def test_a_folder_that_cannot_be_written_is_done_without(tmp_path: Path) -> None:
    gone = Exchange(tmp_path / "gone")
    assert gone.filed(LARGE) is None
    with gone.for_a_run() as folder:
        assert folder == ""
    many = lines(100_000)
    assert handed_over(many, "") is many
    assert handed_over(many, str(tmp_path / "gone")) is many


def test_points_go_through_a_folder_that_is_gone_afterwards(tmp_path: Path) -> None:
    many = lines(100_000)
    with Exchange(tmp_path).for_a_run() as folder:
        assert handed_over(lines(100), folder) is not many
        assert not os.listdir(folder)  # few points are sent
        sent = pickle.loads(pickle.dumps(handed_over(many, folder)))
        assert isinstance(sent, FiledTractogram)
        assert len(os.listdir(folder)) == 1
        taken = sent.taken()
        assert not os.listdir(folder)
        handed_over(many, folder)  # of a task that nobody wants any more
    assert not os.listdir(tmp_path)
    assert taken.digest() == many.digest()
    for name in ("seed_index", "stop_reasons", "lengths_mm"):
        np.testing.assert_array_equal(getattr(taken, name), getattr(many, name))
    assert taken.n_seeds == 9
    with pytest.raises(BackendError, match="connect without a folder"):
        sent.taken()


def test_points_that_were_cut_short_are_refused(tmp_path: Path) -> None:
    sent = handed_over(lines(100_000), str(tmp_path))
    assert isinstance(sent, FiledTractogram)
    os.truncate(sent.path, 1000)
    with pytest.raises(BackendError, match="was cut short"):
        sent.taken()


def test_dask_is_told_how_large_results_are(tmp_path: Path) -> None:
    sizeof = pytest.importorskip("dask.sizeof", reason="Dask is not installed").sizeof
    many, n_bytes = lines(100_000), 1_200_000
    few = handed_over(many, str(tmp_path))
    sizes = [sizeof(Done(made, 9, 2, n_bytes, 1.0, "cpu")) for made in (many, few, LARGE)]
    assert n_bytes < sizes[0] < n_bytes + 1000
    assert sizes[1] < 1000  # what is in a file does not count
    assert sizes[2] >= LARGE.nbytes


@pytest.mark.skipif(sys.platform == "win32", reason="needs POSIX limits")
def test_points_are_sent_where_there_is_no_room(tmp_path: Path) -> None:
    import resource

    many = lines(100_000)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (exchange.SMALLEST // 2, before[1]))
    try:
        assert handed_over(many, str(tmp_path)) is many
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert not os.listdir(tmp_path)


@pytest.mark.skipif(sys.platform == "win32", reason="processes are not looked for there")
def test_what_a_killed_process_left_is_cleared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = subprocess.Popen([sys.executable, "-c", ""])
    done.wait()
    theirs = unfinished_name().replace(f"-{os.getpid()}-", f"-{done.pid}-")
    for name in (theirs, unfinished_name(), "something else"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "points").touch()
    monkeypatch.setattr(exchange, "MEMORY_DISK", tmp_path)
    made = folder_of_this_machine(1)
    assert made.parent == tmp_path
    assert theirs not in os.listdir(tmp_path)
    assert len(os.listdir(tmp_path)) == 3
    monkeypatch.setattr(exchange, "MEMORY_DISK", tmp_path / "gone")
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(exchange.tempfile, "tempdir", None)
    assert folder_of_this_machine(1).parent == tmp_path


def test_a_plan_in_a_folder_is_small_and_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exchange, "SMALLEST", 1024)
    fod = random_fod(8, shape=(6, 6, 6))
    plan = plan_of(fod, nt.Seeds.from_fod(fod, 10))
    whole, filed = SharedPlan.of(plan), SharedPlan.of(plan, Exchange(tmp_path))
    bytes_of_fod = plan.table.values.nbytes + plan.table.voxel_rows.nbytes
    sizes = [len(pickle.dumps(one, protocol=5)) for one in (whole, filed)]
    assert sizes[1] < sizes[0] - 0.95 * bytes_of_fod  # names of files take some bytes
    there = pickle.loads(pickle.dumps(filed)).plan(plan.positions_mm, plan.seed_directions, 0)
    np.testing.assert_array_equal(there.field.values, plan.field.values)
    np.testing.assert_array_equal(there.field.voxel_rows, plan.field.voxel_rows)
    assert isinstance(there.field.values.base, np.ndarray)
    assert not there.field.values.flags.writeable
