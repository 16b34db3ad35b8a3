"""Tracking over Dask: the same streamlines, whatever happens to the workers."""

from __future__ import annotations

import csv
import functools
import json
import logging
import os
import signal
import time
from pathlib import Path

import nibabel as nib
import numpy as np
import pytest

import napari_tractography as nt
from napari_tractography.cli import main
from napari_tractography.errors import BackendError, InvalidParameterError
from napari_tractography.model.phantoms import make_phantom
from napari_tractography.streamlines.streaming import PartWriter
from napari_tractography.tracking.cluster import exchange
from napari_tractography.tracking.cluster.cluster import Cluster
from napari_tractography.tracking.cluster.exchange import Exchange, FiledArray
from napari_tractography.tracking.execution import Execution
from napari_tractography.tracking.report import Report

distributed = pytest.importorskip("distributed", reason="distributed is not installed")

# Raised by distributed and what it stands on while processes start and end, not by us.
pytestmark = [
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

WAIT_S = 180
SEEDS = ("--seed-fod", "--n-seeds", "300", "--step", "1", "--quiet")


@pytest.fixture(scope="module")
def workers():
    with nt.cluster("local:2") as made:
        folder = made.exchange.folder
        yield made
    assert not folder.exists()


@pytest.fixture
def all_is_large(workers, monkeypatch):
    """However small arrays are, they go through the folder, here and on the workers."""
    usual = exchange.SMALLEST

    def change(n_bytes: int) -> None:
        from napari_tractography.tracking.cluster import exchange

        exchange.SMALLEST = n_bytes

    monkeypatch.setattr(exchange, "SMALLEST", 1)
    workers.client.run(change, 1)
    yield
    workers.client.run(change, usual)


def n_tasks(workers: Cluster) -> int:
    """Tasks that the scheduler knows, and those that workers are still at."""
    known = workers.client.run_on_scheduler(lambda dask_scheduler: len(dask_scheduler.tasks))
    busy = workers.client.run(lambda dask_worker: dask_worker.state.executing_count)
    return known + sum(busy.values())


def wait_until(condition) -> None:
    for _ in range(10 * WAIT_S):
        if condition():
            return
        time.sleep(0.1)
    raise AssertionError("it never came to that")


def test_digests_are_those_of_one_machine(workers, fod, seeds, here, parameters):
    report = Report()
    chunks = list(nt.iter_track(fod, seeds, parameters, backend=workers, block=700, report=report))
    made = nt.Tractogram.concatenate(chunks)
    assert made.digest() == here.digest()
    assert made.tally == here.tally
    np.testing.assert_array_equal(made.seed_index, here.seed_index)
    assert sum(chunk.n_seeds for chunk in chunks) == len(seeds) == report.n_seeds
    assert "2 workers" in report.backend
    assert report.seconds["tracking"] > 0
    wait_until(lambda: not n_tasks(workers))  # nothing is kept for a run that is over


def test_streamlines_are_selected_as_on_one_machine(workers, fod, parameters):
    seeds = nt.Seeds.in_sphere((2, 2, 2), 1.5, 10)
    given = {"select": 300, "regions": (nt.Region.sphere((4, 4, 4), 1.0, "include"),)}
    on_cluster = nt.track(fod, seeds, parameters, backend=workers, **given)
    assert len(on_cluster) == 300
    assert on_cluster.digest() == nt.track(fod, seeds, parameters, backend="cpu", **given).digest()


def test_maps_come_back_and_streamlines_stay(workers, fod, seeds, here, parameters):
    part = functools.partial(nt.density, grid=fod.grid)
    how = Execution(block=1000)
    maps = list(workers.apply(part, fod, seeds, parameters, execution=how))
    assert len(maps) == 3
    np.testing.assert_array_equal(sum(maps), nt.density(here, fod.grid))


def test_each_task_writes_its_own_part(workers, fod, seeds, here, tmp_path, parameters):
    write = PartWriter(str(tmp_path), fod.grid)
    parts = list(workers.apply(write, fod, seeds, parameters, execution=Execution(block=1000)))
    assert sum(n for _, n in parts) == len(here)
    assert sorted(map(str, tmp_path.iterdir())) == [path for path, _ in parts]
    whole = nt.Tractogram.concatenate([nt.load_tractogram(path) for path, _ in parts])
    assert whole.digest() == here.digest()


def test_connectomes_of_tasks_add_up(workers, fod, seeds, here, parameters):
    labels = np.ones(fod.grid.shape, np.int32)
    labels[3:] = 2
    part = functools.partial(nt.connectome, labels=labels, affine=fod.grid)
    found = list(workers.apply(part, fod, seeds, parameters, execution=Execution(block=1000)))
    whole = nt.connectome(here, labels, fod.grid)
    assert len(found) == 3
    assert whole.counts.min() > 0
    np.testing.assert_array_equal(sum(each.counts for each in found), whole.counts)
    assert sum(each.n_assigned for each in found) == whole.n_assigned


def test_maps_of_ends_add_up(workers, fod, seeds, here, parameters):
    ends = functools.partial(nt.density, grid=fod.grid, ends_only=True)
    at_ends = parameters.replace(output="endpoints")
    found = list(workers.apply(ends, fod, seeds, at_ends, execution=Execution(block=1000)))
    assert len(found) == 3
    np.testing.assert_array_equal(sum(found), nt.density(here, fod.grid, ends_only=True))


def test_what_has_to_see_the_streamlines_is_refused(workers, fod, seeds, parameters):
    with pytest.raises(InvalidParameterError, match="select"):
        workers.apply(len, fod, seeds, parameters, select=3)


def test_cancelling_leaves_no_task(workers, fod, seeds, parameters):
    chunks = nt.iter_track(fod, seeds, parameters, backend=workers, block=100)
    next(chunks)
    assert n_tasks(workers)
    chunks.close()
    wait_until(lambda: not n_tasks(workers))


def test_a_worker_that_is_killed_takes_nothing_along(workers, fod, seeds, here, parameters):
    chunks = nt.iter_track(fod, seeds, parameters, backend=workers, block=100)
    made = [next(chunks)]
    pids = workers.client.run(os.getpid)
    os.kill(next(iter(pids.values())), signal.SIGKILL)
    made += chunks
    assert nt.Tractogram.concatenate(made).digest() == here.digest()
    workers.client.wait_for_workers(2, timeout=WAIT_S)


@pytest.mark.slow  # two that start again
def test_a_run_whose_workers_are_all_killed_begins_again(workers, fod, seeds, here, parameters):
    chunks = nt.iter_track(fod, seeds, parameters, backend=workers, block=100)
    made = [next(chunks)]
    for pid in workers.client.run(os.getpid).values():
        os.kill(pid, signal.SIGKILL)
    made += chunks
    assert nt.Tractogram.concatenate(made).digest() == here.digest()
    workers.client.wait_for_workers(2, timeout=WAIT_S)


def test_other_versions_are_named(workers, monkeypatch, caplog):
    monkeypatch.setattr(workers, "_versions", {**workers._versions, "numba": "0.1"})
    monkeypatch.setattr(workers, "_checked", set())
    with caplog.at_level(logging.WARNING):
        workers._compare_versions()
    assert "numba 0.1 here" in caplog.text
    assert "on tcp://" in caplog.text
    caplog.clear()
    workers._compare_versions()  # once is enough
    assert not caplog.text


@pytest.mark.parametrize(
    "where", ["local:0", "local:x", "local:-1", "local:2.5", "local:", "nowhere"]
)
def test_what_is_no_address_is_refused(where):
    with pytest.raises(InvalidParameterError, match=where):
        nt.cluster(where)


def test_a_scheduler_that_does_not_answer_ends_in_a_sentence():
    with pytest.raises(BackendError, match=r"tcp://127\.0\.0\.1:9 .*; check the address"):
        nt.cluster("tcp://127.0.0.1:9", timeout_s=0.3)


# ------------------------------------------------------------------------ through a folder


def bytes_sent(workers) -> int:
    """What all workers have written to sockets since this was asked first."""

    def count() -> int:
        from distributed.comm.tcp import TCP

        if not hasattr(TCP, "n_written"):
            TCP.n_written, write = 0, TCP.write

            async def counted(self, *args, **kwargs):
                n = await write(self, *args, **kwargs)
                TCP.n_written += n
                return n

            TCP.write = counted
        return TCP.n_written

    return sum(workers.client.run(count).values())


def test_neither_the_fod_nor_points_are_sent(workers, fod, parameters, all_is_large):
    """So many points that what else workers and scheduler tell each other is small beside them."""
    run = functools.partial(
        nt.track, fod, nt.Seeds.from_fod(fod, 30_000), parameters, backend=workers, block=15_000
    )
    before = bytes_sent(workers)
    made = run()
    through_a_folder = bytes_sent(workers) - before
    folder = workers.exchange.folder
    assert {path.suffix for path in folder.iterdir()} == {".npy"}  # the FOD, and nothing of the run
    workers.exchange, kept = None, workers.exchange
    try:
        before = bytes_sent(workers)
        assert run().digest() == made.digest()
        sent = bytes_sent(workers) - before
    finally:
        workers.exchange = kept
    assert sent > made.points.nbytes
    assert through_a_folder < sent / 2


def test_what_workers_do_not_see_is_sent(
    workers, fod, seeds, here, parameters, all_is_large, monkeypatch, caplog
):
    """The file is there for the client alone: under the name that workers get there is none."""
    filed = Exchange.filed

    def elsewhere(self: Exchange, array) -> FiledArray | None:
        found = filed(self, array)
        return None if found is None else FiledArray(found.path + "-elsewhere", found.sha256)

    monkeypatch.setattr(Exchange, "filed", elsewhere)
    with caplog.at_level(logging.WARNING):
        made = nt.track(fod, seeds, parameters, backend=workers, block=1500)
    assert made.digest() == here.digest()
    assert caplog.text.count("what tracking needs is sent to all") == 1


def test_a_run_that_is_cancelled_leaves_no_file(workers, fod, seeds, parameters, all_is_large):
    chunks = nt.iter_track(fod, seeds, parameters, backend=workers, block=100)
    next(chunks)
    folder = workers.exchange.folder
    assert any(path.is_dir() for path in folder.iterdir())
    chunks.close()
    assert not any(path.is_dir() for path in folder.iterdir())


# --------------------------------------------------------------------------- the command


@pytest.fixture(scope="module")
def phantom():
    return make_phantom("arcs", lmax=6)


@pytest.fixture
def folder(tmp_path, phantom, monkeypatch):
    """The current folder, with fod.nii.gz, and a.trx and its recipe, tracked here."""
    monkeypatch.chdir(tmp_path)
    save(phantom, 1.0, Path("fod.nii.gz"))
    assert main(["track", "fod.nii.gz", "-o", "a.trx", *SEEDS]) == 0
    return tmp_path


def save(fod, times, path):
    path.parent.mkdir(exist_ok=True)
    nib.save(nib.Nifti1Image(np.float32(times) * fod.coefficients, fod.grid.affine), path)


def cluster_of(workers):
    return ["--cluster", workers.client.scheduler.address, "--backend", "cpu"]


def test_the_command_tracks_on_a_cluster(workers, folder, capsys):
    through = ["--cluster-folder", str(folder)]
    words = ["track", "fod.nii.gz", "-o", "b.trx", *SEEDS[:-1], *cluster_of(workers), *through]
    assert main(words) == 0
    assert "digest" in capsys.readouterr().out
    digests = [json.loads(Path(name).read_text())["digest"] for name in ("a.json", "b.json")]
    assert digests[0] == digests[1]


def test_a_folder_that_is_not_there_is_told(workers, folder, capsys):
    words = ["track", "fod.nii.gz", "-o", "b.trx", *SEEDS, *cluster_of(workers)]
    assert main([*words, "--cluster-folder", "nowhere"]) == 2
    assert "'nowhere' is no folder; create it first" in capsys.readouterr().err
    assert not Path("b.trx").exists()


def test_many_subjects_are_those_of_one_machine(workers, folder, phantom, capsys):
    for number in (1, 2):
        save(phantom, 1 + 0.1 * number, folder / f"sub-{number}" / "wmfod.nii.gz")
    words = ["replay", "a.json", "--fod", "sub-*/wmfod.nii.gz"]
    assert main([*words, "-o", "{subject}/here.trx", "--table", "here.csv", "--quiet"]) == 0
    on_cluster = [*words, "-o", "{subject}/there.trx", "--table", "there.csv", *cluster_of(workers)]
    assert main(on_cluster) == 0
    digests = [
        [row["digest"] for row in csv.DictReader(Path(name).read_text("utf-8").splitlines())]
        for name in ("here.csv", "there.csv")
    ]
    assert digests[0] == digests[1]
    assert len(set(digests[0])) == 2
    capsys.readouterr()
    assert main(on_cluster) == 0
    assert "0 bundles of 2 subjects made, 2 were there" in capsys.readouterr().out


def test_a_cohort_is_that_of_one_machine(workers, folder, phantom):
    for number in (1, 2, 3):
        save(phantom, 1 + 0.1 * number, folder / f"sub-{number}" / "wmfod.nii")
    words = ["track", "fod.nii.gz", "-o", "s.trx", "--seed-sphere", "36,4,-4,3,50", "--quiet"]
    assert main(words) == 0
    words = ["cohort", "s.json", "--fod", "sub-*/wmfod.nii", "--quiet"]
    assert main([*words, "--table", "here.csv", "--map", "here.nii"]) == 0
    for _ in range(2):  # workers keep what they have read
        on_cluster = [*words, "--table", "there.csv", "--map", "there.nii", *cluster_of(workers)]
        assert main(on_cluster) == 0
        assert Path("there.csv").read_bytes() == Path("here.csv").read_bytes()
        assert Path("there.nii").read_bytes() == Path("here.nii").read_bytes()
    rows = list(csv.DictReader(Path("here.csv").read_text("utf-8").splitlines()))
    assert all(int(row["n_streamlines"]) > 0 for row in rows)


def test_a_cohort_with_warps_is_that_of_one_machine(workers, folder, phantom):
    """An edit is made on the worker; a warp that is written anew is read anew."""
    for number in (1, 2, 3):
        save(phantom, 1 + 0.1 * number, folder / f"sub-{number}" / "wmfod.nii")
    words = ["track", "fod.nii.gz", "-o", "s.trx", "--seed-sphere", "36,4,-4,3,50", "--quiet"]
    assert main(words) == 0
    shares = []
    for shift in (0.0, 4.0):
        for number in (1, 2, 3):
            matrix = np.eye(4)
            matrix[0, 3] = shift
            np.savetxt(folder / f"sub-{number}" / "warp.txt", matrix)
        words = ["cohort", "s.json", "--fod", "sub-*/wmfod.nii", "--quiet"]
        words += ["--warp", "{subject}/warp.txt"]
        here, there = f"here-{shift}.csv", f"there-{shift}.csv"
        assert main([*words, "--table", here]) == 0
        assert main([*words, "--table", there, *cluster_of(workers)]) == 0
        shares.append(Path(here).read_bytes())
        assert Path(there).read_bytes() == shares[-1]
    assert shares[0] != shares[1]
    one = nt.geometry.warps.Warp.affine(np.eye(4))
    with pytest.raises(InvalidParameterError, match="warps in memory are not sent"):
        nt.Cohort([folder / "sub-1" / "wmfod.nii"], warps=[one], grid=phantom.grid).track(
            nt.Seeds.at([36.0, 4, -4]), backend=workers
        )


def test_what_is_wrong_in_a_subject_is_told_from_a_worker(workers, folder, phantom):
    save(phantom, 1.0, folder / "sub-1" / "wmfod.nii")
    (folder / "sub-2").mkdir()
    (folder / "sub-2" / "wmfod.nii").write_bytes(b"no image")
    files = [folder / f"sub-{number}" / "wmfod.nii" for number in (1, 2)]
    seeds = nt.Seeds.in_sphere([36.0, 4, -4], 3.0, 10)
    with pytest.raises(nt.errors.FileError, match=r"^sub-2: "):
        nt.Cohort(files).track(seeds, backend=workers)
    with pytest.raises(InvalidParameterError, match="in memory are not sent"):
        nt.Cohort([phantom, phantom]).track(seeds, backend=workers)
