"""Tracking over Dask: the same streamlines, whatever happens to the workers."""

from __future__ import annotations

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
from toys import random_fod

import napari_tractography as nt
from napari_tractography.cli import main
from napari_tractography.errors import BackendError, InvalidParameterError
from napari_tractography.phantoms import make_phantom
from napari_tractography.streaming import PartWriter
from napari_tractography.tracking.cluster.cluster import Cluster
from napari_tractography.tracking.execution import Execution
from napari_tractography.tracking.report import Report

distributed = pytest.importorskip("distributed")

# Raised by distributed and what it stands on while processes start and end, not by us.
pytestmark = [
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

WAIT_S = 60
PARAMETERS = nt.TrackingParameters(step_mm=0.5, max_length_mm=20.0, min_amplitude=0.02)


@pytest.fixture(scope="module")
def workers():
    with nt.cluster("local:2") as made:
        yield made


@pytest.fixture(scope="module")
def fod():
    return random_fod(2, shape=(6, 6, 6))


@pytest.fixture(scope="module")
def seeds(fod):
    return nt.Seeds.from_fod(fod, 3000)


@pytest.fixture(scope="module")
def here(fod, seeds):
    """What one machine tracks."""
    return nt.track(fod, seeds, PARAMETERS, backend="cpu")


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


def test_digests_are_those_of_one_machine(workers, fod, seeds, here):
    report = Report()
    chunks = list(nt.iter_track(fod, seeds, PARAMETERS, backend=workers, block=700, report=report))
    made = nt.Tractogram.concatenate(chunks)
    assert made.digest() == here.digest()
    assert made.tally == here.tally
    np.testing.assert_array_equal(made.seed_index, here.seed_index)
    assert sum(chunk.n_seeds for chunk in chunks) == len(seeds) == report.n_seeds
    assert "2 workers" in report.backend
    assert report.seconds["tracking"] > 0
    wait_until(lambda: not n_tasks(workers))  # nothing is kept for a run that is over


def test_streamlines_are_selected_as_on_one_machine(workers, fod):
    seeds = nt.Seeds.in_sphere((2, 2, 2), 1.5, 10)
    given = {"select": 300, "regions": (nt.Region.sphere((4, 4, 4), 1.0, "include"),)}
    on_cluster = nt.track(fod, seeds, PARAMETERS, backend=workers, **given)
    assert len(on_cluster) == 300
    assert on_cluster.digest() == nt.track(fod, seeds, PARAMETERS, backend="cpu", **given).digest()


def test_maps_come_back_and_streamlines_stay(workers, fod, seeds, here):
    part = functools.partial(nt.density, grid=fod.grid)
    how = Execution(block=1000)
    maps = list(workers.apply(part, fod, seeds, PARAMETERS, execution=how))
    assert len(maps) == 3
    np.testing.assert_array_equal(sum(maps), nt.density(here, fod.grid))


def test_each_task_writes_its_own_part(workers, fod, seeds, here, tmp_path):
    write = PartWriter(str(tmp_path), fod.grid)
    parts = list(workers.apply(write, fod, seeds, PARAMETERS, execution=Execution(block=1000)))
    assert sum(n for _, n in parts) == len(here)
    assert sorted(map(str, tmp_path.iterdir())) == [path for path, _ in parts]
    whole = nt.Tractogram.concatenate([nt.load_tractogram(path) for path, _ in parts])
    assert whole.digest() == here.digest()


def test_the_command_tracks_on_a_cluster(workers, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    fod = make_phantom("arcs", lmax=4)
    nib.save(nib.Nifti1Image(fod.coefficients, fod.grid.affine), "fod.nii.gz")
    words = ["track", "fod.nii.gz", "--seed-fod", "--n-seeds", "300", "--step", "1"]
    assert main([*words, "-o", "a.trx", "--quiet"]) == 0
    address = workers.client.scheduler.address
    assert main([*words, "-o", "b.trx", "--cluster", address, "--backend", "cpu"]) == 0
    assert "digest" in capsys.readouterr().out
    digests = [json.loads(Path(name).read_text())["digest"] for name in ("a.json", "b.json")]
    assert digests[0] == digests[1]


def test_what_has_to_see_the_streamlines_is_refused(workers, fod, seeds):
    with pytest.raises(InvalidParameterError, match="select"):
        workers.apply(len, fod, seeds, PARAMETERS, select=3)


def test_cancelling_leaves_no_task(workers, fod, seeds):
    chunks = nt.iter_track(fod, seeds, PARAMETERS, backend=workers, block=100)
    next(chunks)
    assert n_tasks(workers)
    chunks.close()
    wait_until(lambda: not n_tasks(workers))


def test_a_worker_that_is_killed_takes_nothing_along(workers, fod, seeds, here):
    chunks = nt.iter_track(fod, seeds, PARAMETERS, backend=workers, block=100)
    made = [next(chunks)]
    pids = workers.client.run(os.getpid)
    os.kill(next(iter(pids.values())), signal.SIGKILL)
    made += chunks
    assert nt.Tractogram.concatenate(made).digest() == here.digest()
    workers.client.wait_for_workers(2, timeout=WAIT_S)


def test_a_run_whose_workers_are_all_killed_begins_again(workers, fod, seeds, here):
    chunks = nt.iter_track(fod, seeds, PARAMETERS, backend=workers, block=100)
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


@pytest.mark.parametrize("where", ["local:0", "local:x", "nowhere"])
def test_what_is_no_address_is_refused(where):
    with pytest.raises(InvalidParameterError, match=where):
        nt.cluster(where)


def test_a_scheduler_that_does_not_answer_ends_in_a_sentence():
    with pytest.raises(BackendError, match=r"tcp://127\.0\.0\.1:9 .*; check the address"):
        nt.cluster("tcp://127.0.0.1:9", timeout_s=0.3)
