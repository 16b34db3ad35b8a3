"""The cost model: pure functions, and a file that may be lost."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from napari_tractography.tracking import costs
from napari_tractography.tracking.costs import Cost, PerformanceModel, Work, decide

CPU = Cost(start_s=0.0, upload_s_per_byte=0.0, s_per_step=1e-7, mm_per_seed=50.0)
GPU = Cost(start_s=2.0, upload_s_per_byte=1e-10, s_per_step=1e-9, mm_per_seed=50.0)


def work(n_seeds, *, started=True, n_bytes=0):
    return Work(n_seeds, step_mm=0.5, n_bytes=n_bytes, started=started)


@pytest.mark.parametrize(
    ("n_seeds", "cpu", "gpu", "takes_gpu"),
    [
        pytest.param(10, None, None, False, id="few, nothing known"),
        pytest.param(10**6, None, None, True, id="many, nothing known"),
        pytest.param(10, CPU, GPU, False, id="few"),
        pytest.param(10**6, CPU, GPU, True, id="many"),
        pytest.param(10**5, CPU, None, False, id="one second, GPU unknown"),
        pytest.param(10**6, CPU, None, True, id="ten seconds, GPU unknown"),
        pytest.param(10**6, None, GPU, True, id="many, CPU unknown"),
    ],
)
def test_costs_decide(n_seeds, cpu, gpu, takes_gpu):
    for started in (False, True):
        took, reason = decide(work(n_seeds, started=started), cpu, gpu)
        assert took is takes_gpu
        assert reason


def test_a_gpu_that_is_yet_to_start_needs_more_work():
    seeds = 150_000  # 1.5 s on the CPU
    assert decide(work(seeds, started=True), CPU, GPU)[0]
    assert not decide(work(seeds, started=False), CPU, GPU)[0]
    assert not decide(work(seeds, started=True, n_bytes=20 * 10**9), CPU, GPU)[0]


def test_a_gpu_in_use_is_taken_for_short_runs_too_where_it_is_known_to_be_faster():
    seeds = 10_000  # 0.1 s on the CPU
    assert decide(work(seeds, started=True), CPU, GPU)[0]
    assert not decide(work(seeds, started=False), CPU, GPU)[0]
    assert not decide(work(seeds, started=True), CPU, None)[0]
    least = int(costs.LEAST_SECONDS / CPU.seconds(100))  # seeds that the CPU tracks as soon
    assert not decide(work(least - 10), CPU, GPU)[0]
    assert decide(work(least + 10), CPU, GPU)[0]


def test_the_reason_names_both_times():
    assert decide(work(10**6, started=False), CPU, GPU)[1] == (
        "the CPU takes about 10 s, the GPU 2.1 s"
    )


positive = st.floats(0, 1e3)
some_cost = st.builds(
    Cost, start_s=positive, upload_s_per_byte=positive, s_per_step=positive, mm_per_seed=positive
)


@given(cpu=some_cost, gpu=some_cost, n=st.integers(1, 10**8))
def test_more_seeds_never_bring_a_run_back_to_the_cpu(cpu, gpu, n):
    """Where the GPU is faster a step; where it is slower it is never taken on its merits."""
    if gpu.s_per_step < cpu.s_per_step and decide(work(n), cpu, gpu)[0]:
        assert decide(work(2 * n), cpu, gpu)[0]
    if gpu.s_per_step >= cpu.s_per_step:
        assert not decide(work(n), cpu, gpu)[0]


def test_measurements_outlive_the_process(tmp_path):
    path = tmp_path / "deep" / "costs.json"
    model = PerformanceModel(path)
    assert model.get("a") is None
    model.learn("a", CPU)
    model.save()
    again = PerformanceModel(path)
    assert again.get("a") == CPU
    again.learn("a", GPU)
    blended = again.get("a")
    assert blended.start_s == pytest.approx(1.0)  # the newest counts half
    again.save()
    assert PerformanceModel(path).get("a") == blended
    assert [file.name for file in path.parent.iterdir()] == ["costs.json"]


@pytest.mark.parametrize(
    "content",
    [
        "",
        "[]",
        "{",
        '{"a": 5}',
        '{"a": {"start_s": 1}}',
        json.dumps({"a": {**dict.fromkeys(costs.Cost.__dataclass_fields__, 1.0), "start_s": -1}}),
        '{"a": {"start_s": "x", "upload_s_per_byte": 0, "s_per_step": 0, "mm_per_seed": 0}}',
    ],
)
def test_a_spoilt_file_is_forgotten(tmp_path, content):
    path = tmp_path / "costs.json"
    path.write_text(content)
    model = PerformanceModel(path)
    assert model.get("a") is None
    model.learn("a", CPU)
    model.save()
    assert PerformanceModel(path).get("a") == CPU


def test_where_no_file_can_be_written_costs_live_in_memory(tmp_path):
    (tmp_path / "file").write_text("")
    model = PerformanceModel(tmp_path / "file" / "costs.json")
    model.learn("a", CPU)
    model.save()
    assert model.get("a") == CPU


def test_a_file_that_is_half_written_is_not_left(tmp_path, monkeypatch):
    def refuse(*_):
        raise PermissionError("in use")

    monkeypatch.setattr(Path, "replace", refuse)
    model = PerformanceModel(tmp_path / "costs.json")
    model.learn("a", CPU)
    model.save()
    assert not list(tmp_path.iterdir())


def in_another_thread(action):
    """Do something in a thread, to its end; what it raises is raised here."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(action).result(timeout=60)


def test_another_thread_may_learn_while_costs_are_written(tmp_path, monkeypatch):
    model = PerformanceModel(tmp_path / "costs.json")
    model.learn("a", CPU)
    model.learn("b", GPU)
    asdict = costs.asdict

    def learning_meanwhile(cost):
        monkeypatch.setattr(costs, "asdict", asdict)
        in_another_thread(lambda: model.learn("c", CPU))
        return asdict(cost)

    monkeypatch.setattr(costs, "asdict", learning_meanwhile)
    model.save()
    assert model.get("c") == CPU
    assert PerformanceModel(model.path).get("b") == GPU
    model.save()
    assert PerformanceModel(model.path).get("c") == CPU


def test_another_thread_knows_the_file_while_it_is_read(tmp_path, monkeypatch):
    path = tmp_path / "costs.json"
    earlier = PerformanceModel(path)
    earlier.learn("a", CPU)
    earlier.save()
    model = PerformanceModel(path)
    read_text = Path.read_text
    seen = []

    def meanwhile():
        seen.append(model.get("a"))
        model.learn("b", GPU)

    def read_slowly(self, encoding):
        monkeypatch.setattr(Path, "read_text", read_text)
        in_another_thread(meanwhile)
        return read_text(self, encoding)

    monkeypatch.setattr(Path, "read_text", read_slowly)
    assert model.get("a") == CPU
    assert seen == [CPU]
    assert model.get("b") == GPU  # what was learnt meanwhile is not forgotten


def test_without_a_home_folder_costs_live_in_memory(monkeypatch):
    def nobody():
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr("sys.platform", "linux")
    monkeypatch.setattr(Path, "home", nobody)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    model = PerformanceModel()
    assert model.get("a") is None
    model.learn("a", CPU)
    model.save()
    assert model.get("a") == CPU
