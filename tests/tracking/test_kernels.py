"""Kernels that are yet to be compiled: WebAssembly tracks meanwhile, and the result is the same."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import threading
import time
from types import SimpleNamespace

import nibabel as nib
import numpy as np
import pytest
from plans import plan_of
from toys import random_fod

from napari_tractography.model.fod import Fod
from napari_tractography.model.parameters import TrackingParameters
from napari_tractography.model.seeds import Seeds
from napari_tractography.runtime import processes
from napari_tractography.streamlines.tractogram import Tractogram
from napari_tractography.tracking import kernels
from napari_tractography.tracking.cpu import cpu_backend as cpu
from napari_tractography.tracking.engine import iter_track
from napari_tractography.tracking.execution import Execution
from napari_tractography.tracking.report import PREPARING, STANDING_IN, Report
from napari_tractography.tracking.wasm import wasm_backend

WAIT_S = 120
SHORT = TrackingParameters(step_mm=0.5, max_length_mm=20.0)


@pytest.fixture
def fod():
    return random_fod(2, shape=(6, 6, 6))


@pytest.fixture
def seeds(fod):
    return Seeds.from_fod(fod, 60)


@pytest.fixture
def fresh_machine(monkeypatch, tmp_path):
    """A process on a machine that never compiled, whose other processes only seem to compile.

    They do when `gate` is set, so that the next chunk is the kernel's.
    """
    machine = SimpleNamespace(
        gate=threading.Event(), commands=[], killed=[], has_compiled=False, status=0
    )

    class Process:
        def __init__(self, command, **_):
            machine.commands.append(command[-1])
            self.command, self.is_killed = command[-1], False

        def wait(self, timeout=WAIT_S):
            if self.is_killed:
                return -9
            if not machine.gate.wait(timeout):
                raise subprocess.TimeoutExpired(self.command, timeout)
            machine.has_compiled = True
            return machine.status

        def kill(self):
            machine.killed.append(self.command)
            self.is_killed = True

    monkeypatch.setattr(kernels, "in_a_process", True)
    monkeypatch.setattr(processes, "POLL_SECONDS", 0.01)
    monkeypatch.setattr(processes.tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(processes.subprocess, "Popen", Process)
    monkeypatch.setattr(processes, "ASK_SECONDS", 0.01)
    monkeypatch.setattr(kernels, "_queue", kernels._Queue())
    monkeypatch.setattr(cpu, "_loaded", set())
    monkeypatch.setattr(cpu, "is_on_disk", lambda plan: machine.has_compiled)
    yield machine
    machine.gate.set()
    for thread in threading.enumerate():
        if thread.name == kernels.THREAD_NAME:
            thread.join(WAIT_S)


def blocks_tracked_by(backend, monkeypatch):
    """Return a list that gets the first seed and the one after the last of each block."""
    blocks = []
    track_range = backend.track_range

    def noted(plan, first, last, *rest):
        blocks.append((first, last))
        return track_range(plan, first, last, *rest)

    monkeypatch.setattr(backend, "track_range", noted)
    return blocks


def test_webassembly_tracks_while_the_kernel_is_compiled_and_the_kernel_the_rest(
    fresh_machine, fod, seeds, monkeypatch
):
    wanted = Tractogram.concatenate(list(cpu.iter_chunks(plan_of(fod, seeds, SHORT))))
    by_kernel = blocks_tracked_by(cpu, monkeypatch)
    report = Report()
    chunks = iter_track(fod, seeds, SHORT, backend="cpu", block=20, report=report)
    parts = [next(chunks), next(chunks)]
    assert not by_kernel
    assert report.phase == STANDING_IN
    fresh_machine.gate.set()
    assert kernels.begin(plan_of(fod, seeds, SHORT)).wait(WAIT_S)
    parts += chunks
    assert [(first, last) for first, last in by_kernel if last] == [(40, 60)]
    assert Tractogram.concatenate(parts).digest() == wanted.digest()
    assert report.reason == "asked for; 40 seeds in WebAssembly while the kernel was compiled"
    assert report.phase == ""
    assert len(fresh_machine.commands) == 1


def test_a_run_may_be_over_before_the_kernel_is_compiled(fresh_machine, fod, seeds):
    report = Report()
    found = list(iter_track(fod, seeds, SHORT, backend="cpu", report=report))
    assert sum(chunk.n_seeds for chunk in found) == len(seeds)
    assert set(report.seconds) == {"tables", "tracking"}
    assert not fresh_machine.has_compiled


def test_chunks_are_small_at_first_and_then_as_long_as_a_person_waits(
    fresh_machine, fod, seeds, monkeypatch
):
    clock = iter(np.cumsum([0.0, 0.05, 1.0, 0.001, 1.0, 4.0, 1.0]))
    monkeypatch.setattr(wasm_backend, "FIRST_BLOCK", 4)
    monkeypatch.setattr(wasm_backend, "SEEDS_AT_ONCE", 2)
    monkeypatch.setattr(
        wasm_backend, "time", SimpleNamespace(perf_counter=lambda: next(clock, 1e6))
    )
    blocks = blocks_tracked_by(wasm_backend, monkeypatch)
    plan = plan_of(fod, seeds, SHORT)
    chunks = list(wasm_backend.iter_chunks(plan, Execution(), threading.Event(), Report()))
    # As many as take a tenth of a second, at most four times as many as before.
    assert [last - first for first, last in blocks[:4]] == [4, 8, 32, 2]
    assert sum(chunk.n_seeds for chunk in chunks) == len(seeds)


def test_what_webassembly_does_not_track_waits_for_the_kernel(
    fresh_machine, fod, seeds, monkeypatch
):
    monkeypatch.setattr(wasm_backend, "MODULES", {})
    fresh_machine.gate.set()
    report = Report()
    found = list(iter_track(fod, seeds, SHORT, backend="cpu", report=report))
    assert sum(chunk.n_seeds for chunk in found) == len(seeds)
    assert report.reason == "asked for"
    assert len(fresh_machine.commands) == 1  # here it would hold up the window


def test_whoever_waits_for_the_kernel_can_give_up(fresh_machine, fod, seeds, monkeypatch):
    monkeypatch.setattr(kernels, "WAIT_SECONDS", 0.01)
    monkeypatch.setattr(wasm_backend, "MODULES", {})
    report = Report()
    chunks = iter_track(fod, seeds, SHORT, backend="cpu", report=report)
    assert [next(chunks).n_seeds for _ in range(3)] == [0, 0, 0]
    assert report.phase == PREPARING
    chunks.close()
    assert not fresh_machine.has_compiled
    (thread,) = [t for t in threading.enumerate() if t.name == kernels.THREAD_NAME]
    assert thread.daemon  # and so does not hold up the end of the program


def wait_until(is_so):
    deadline = time.monotonic() + WAIT_S
    while not is_so() and time.monotonic() < deadline:
        time.sleep(0.01)
    assert is_so()


def lmax_of(command):
    return int(command.split("lmax=")[1].split(",")[0])


def test_a_kernel_is_compiled_by_one_process_and_each_largest_degree_by_its_own(
    fresh_machine, fod, seeds, monkeypatch
):
    plans = [plan_of(fod, seeds, SHORT), plan_of(fod, seeds[:3], SHORT.replace(step_mm=0.2))]
    plans.append(plan_of(random_fod(4), seeds[:3], SHORT))
    monkeypatch.setattr(cpu, "is_on_disk", lambda plan: False)
    ended = [kernels.begin(plan) for plan in plans]
    assert ended[0] is ended[1] is not ended[2]
    assert not any(event.is_set() for event in ended)
    fresh_machine.gate.set()
    assert all(event.wait(WAIT_S) for event in ended)
    for lmax, command in zip((2, 4), sorted({*fresh_machine.commands}, key=lmax_of), strict=True):
        assert (
            f"'probabilistic', 'trilinear', lmax={lmax}, kernel='coefficients', is_asymmetric=False"
            in command
        )
    assert all(cpu.is_loaded(plan) for plan in plans)
    assert not any(kernels.is_missing(plan) for plan in plans)


def test_one_at_a_time_and_first_what_was_asked_for_last(
    fresh_machine, fod, seeds, tmp_path, monkeypatch
):
    """The guess before an FOD is there gives way to what is chosen, and comes later."""
    monkeypatch.setattr(cpu, "is_on_disk", lambda plan: False)
    begun, killed = fresh_machine.commands, fresh_machine.killed
    guess = kernels.begin(plan_of(random_fod(4), seeds[:3], SHORT))
    wait_until(lambda: len(begun) == 1)
    chosen = kernels.begin(plan_of(fod, seeds, SHORT))
    wait_until(lambda: len(begun) == 2)
    assert killed == begun[:1]
    assert not chosen.is_set()
    assert not guess.is_set()
    assert len(list(tmp_path.glob("*.compiling"))) == 1  # another program may begin the guess
    fresh_machine.gate.set()
    assert chosen.wait(WAIT_S)
    assert guess.wait(WAIT_S)
    assert [lmax_of(command) for command in begun] == [4, 2, 4]


def test_what_is_awaited_is_compiled_to_its_end_and_before_the_rest(
    fresh_machine, fod, seeds, monkeypatch
):
    monkeypatch.setattr(cpu, "is_on_disk", lambda plan: False)
    monkeypatch.setattr(kernels, "WAIT_SECONDS", 0.01)
    begun = fresh_machine.commands
    visited = kernels.begin(plan_of(random_fod(4), seeds[:3], SHORT))
    wait_until(lambda: len(begun) == 1)
    waiting = kernels.until_compiled(plan_of(fod, seeds, SHORT))
    next(waiting)
    wait_until(lambda: len(begun) == 2)
    later = kernels.begin(plan_of(random_fod(6), seeds[:3], SHORT))
    for _ in range(5):
        next(waiting)
    assert [lmax_of(command) for command in begun] == [4, 2]  # it keeps its turn
    waiting.close()  # given up
    wait_until(lambda: len(begun) == 3)
    fresh_machine.gate.set()
    assert later.wait(WAIT_S)
    assert visited.wait(WAIT_S)
    assert [lmax_of(command) for command in begun] == [4, 2, 6, 2, 4]


@pytest.mark.parametrize("how", ["exit status", "no Python"])
def test_where_the_process_fails_it_is_compiled_here(
    fresh_machine, fod, seeds, monkeypatch, caplog, how
):
    fresh_machine.status = 3
    fresh_machine.gate.set()
    if how == "no Python":
        monkeypatch.setattr(processes.subprocess, "Popen", refuse)
    plan = plan_of(fod, seeds, SHORT)
    with caplog.at_level(logging.WARNING):
        kernels.make_ready(plan)
    assert cpu.is_loaded(plan)
    assert "compiling here" in caplog.text


def test_who_waits_for_a_kernel_can_give_up(monkeypatch, fod, seeds):
    """As a panel that is closed: its thread ends, and the other process goes on."""
    monkeypatch.setattr(kernels, "is_missing", lambda plan: True)
    monkeypatch.setattr(kernels, "begin", lambda plan: threading.Event())
    monkeypatch.setattr(kernels, "WAIT_SECONDS", 0.001)
    beats = []

    def heartbeat():
        beats.append(1)
        if len(beats) == 3:
            raise InterruptedError

    with pytest.raises(InterruptedError):
        kernels.make_ready(plan_of(fod, seeds, SHORT), heartbeat)


def test_a_program_before_may_still_be_compiling(fresh_machine, fod, seeds, monkeypatch):
    plan = plan_of(fod, seeds, SHORT)
    first = kernels.begin(plan)
    while not fresh_machine.commands:
        time.sleep(0.01)
    monkeypatch.setattr(kernels, "_queue", kernels._Queue())  # as in another program
    second = kernels.begin(plan)
    assert second is not first
    fresh_machine.gate.set()
    assert first.wait(WAIT_S)
    assert second.wait(WAIT_S)
    assert len(fresh_machine.commands) == 1
    assert cpu.is_loaded(plan)


def test_a_program_that_ended_while_it_compiled_is_not_waited_for_for_ever(
    fresh_machine, fod, seeds, monkeypatch, tmp_path
):
    plan = plan_of(fod, seeds, SHORT)
    begun = kernels.begin(plan)
    while not fresh_machine.commands:
        time.sleep(0.01)
    (marker,) = tmp_path.glob("*.compiling")
    os.utime(marker, (0, 0))
    monkeypatch.setattr(kernels, "_queue", kernels._Queue())
    ended = kernels.begin(plan)
    while len(fresh_machine.commands) < 2:
        time.sleep(0.01)
    fresh_machine.gate.set()
    assert begun.wait(WAIT_S)
    assert ended.wait(WAIT_S)
    assert not list(tmp_path.iterdir())


def refuse(*_, **__):
    raise FileNotFoundError("no such file")


def test_the_command_compiles_what_the_plan_needs(fod, seeds, monkeypatch):
    compiled = []
    monkeypatch.setattr(cpu, "make_ready", compiled.append)
    parameters = SHORT.replace(algorithm="sd_stream", interpolation="nearest")
    peaks = Fod.from_peaks(np.ones((3, 3, 3, 3)), np.eye(4))
    image = Fod.from_image(np.arange(512.0).reshape(8, 8, 8), np.eye(4))
    one_way = random_fod(2, is_asymmetric=True)
    for one, kernel in (
        (fod, "coefficients"),
        (one_way, "coefficients"),
        (peaks, "vectors"),
        (image, "blocks"),
    ):
        command = kernels.COMMAND.format(
            algorithm="sd_stream",
            interpolation="nearest",
            lmax=2,
            kernel=kernel,
            is_asymmetric=one.is_asymmetric,
        )
        exec(command)
        assert cpu._kind(compiled.pop()) == cpu._kind(plan_of(one, seeds, parameters))


SHORT_COMMAND = """
import sys
import napari_tractography as nt
from napari_tractography.tracking import kernels
kernels.COMMAND = sys.argv[1] + "# {algorithm} {interpolation} {lmax} {kernel}"
fod = nt.load_fod(sys.argv[2])
parameters = nt.TrackingParameters(step_mm=0.5, max_length_mm=20.0)
assert len(nt.track(fod, nt.Seeds.from_fod(fod, 3), parameters, backend="cpu"))
"""
COMPILING = """
import os, pathlib, time
log, gate = pathlib.Path({log!r}), pathlib.Path({gate!r})
with log.open("a") as file:
    file.write("begun\\n")
until = time.monotonic() + {seconds}
while not gate.exists() and time.monotonic() < until:
    time.sleep(0.05)
"""


@pytest.mark.parametrize("n_at_once", [1, 3], ids=["in a row", "at once"])
def test_commands_that_end_early_leave_one_process_at_work(fod, tmp_path, n_at_once):
    """Three that find nothing compiled; what the first has begun is not begun by the others."""
    log, gate, path = tmp_path / "log", tmp_path / "gate", tmp_path / "fod.nii"
    nib.save(nib.Nifti1Image(np.asarray(fod.coefficients), fod.grid.affine), path)
    compiling = COMPILING.format(log=str(log), gate=str(gate), seconds=WAIT_S)
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
        "NUMBA_CACHE_DIR": str(tmp_path / "nothing compiled"),
        "TMPDIR": str(tmp_path),
        "TEMP": str(tmp_path),
    }
    words = [sys.executable, "-c", SHORT_COMMAND, compiling, str(path)]
    try:
        for _ in range(3 // n_at_once):
            begun = [subprocess.Popen(words, env=environment) for _ in range(n_at_once)]
            assert [command.wait(WAIT_S) for command in begun] == [0] * n_at_once
        wait_until(log.exists)
        (marker,) = tmp_path.glob("*.compiling")
        assert log.read_text() == "begun\n"
    finally:
        gate.touch()
    wait_until(lambda: not marker.exists())


def test_what_runs_is_marked_as_such_until_it_ends(tmp_path):
    """By the process that compiles, which may outlive the one that began it."""
    marker = tmp_path / "a marker"
    marker.touch()
    os.utime(marker, (0, 0))
    command = f"import time\nwhile os.stat({str(marker)!r}).st_mtime < 1:\n    time.sleep(0.01)"
    marked = processes.MARKING.format(command=command, marker=str(marker), seconds=0.01)
    assert not processes.run_in_a_process(marked)
    assert not marker.exists()


def test_what_is_on_the_disk_is_known_by_its_largest_degree(fod, seeds):
    plan = plan_of(fod, seeds, SHORT)
    cpu.make_ready(plan)
    assert cpu.is_on_disk(plan)
    for other in (random_fod(16), random_fod(16, is_asymmetric=True)):
        assert not cpu.is_on_disk(plan_of(other, Seeds.at(np.ones(3)), SHORT))


def test_a_process_of_its_own_finds_the_package(monkeypatch):
    """Where it was found here: on a path that was added at run time, say."""
    done = []

    def begin(command, *, env, **_):
        code = "import napari_tractography as n; print(n.__file__)"
        ran = popen([command[0], "-c", code], env=env, stdout=subprocess.PIPE, text=True)
        done.append(ran.communicate()[0].strip())
        return ran

    popen = subprocess.Popen
    monkeypatch.setattr(processes.subprocess, "Popen", begin)
    processes.run_in_a_process("")
    assert done == [sys.modules["napari_tractography"].__file__]
