"""The benchmarks of clusters and of streams: what they ask for, and a tiny run of each."""

from __future__ import annotations

import functools
import json
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import nibabel as nib
import numpy as np
import pytest

import napari_tractography as nt
from napari_tractography.model.phantoms import make_phantom

distributed = pytest.importorskip("distributed", reason="distributed is not installed")


@pytest.fixture
def benchmark(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], ModuleType]:
    """Return a file of benchmarks/ as a module."""
    monkeypatch.syspath_prepend(str(Path(__file__).resolve().parents[2] / "benchmarks"))

    def load(name: str) -> ModuleType:
        monkeypatch.delitem(sys.modules, name, raising=False)
        return __import__(name)

    return load


def test_processes_are_asked_for_by_number(
    benchmark: Callable[[str], ModuleType], capsys: pytest.CaptureFixture[str]
) -> None:
    scale = benchmark("scale")
    options = scale.options_of(["fod.nii.gz", "--seeds", "7", "--processes", "2", "3", "--send"])
    assert (options.fod, options.seeds, options.processes) == ("fod.nii.gz", 7, [2, 3])
    assert options.send
    with pytest.raises(SystemExit):
        scale.options_of(["--processes", "0"])
    assert "give whole numbers from 1" in capsys.readouterr().err


def test_the_table_compares_with_one_process(benchmark: Callable[[str], ModuleType]) -> None:
    scale = benchmark("scale")
    one = scale.Measured(1, 4, 10.0, 9.0, 1e6, 2_000_000, 0.5, "a")
    two = scale.Measured(2, 4, 6.0, 10.0, 1.5e6, 3_000_000, 1.0, "a")
    assert scale.table([one, two]).splitlines()[2:] == [
        "| 1 | 4 | 10.00 | 1.00 | 1.00 | 250 | 2.0 | 0.50 |",
        "| 2 | 4 | 6.00 | 1.50 | 0.75 | 500 | 3.0 | 1.00 |",
    ]


@pytest.mark.filterwarnings("ignore::ResourceWarning")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_tiny_cluster_is_measured(
    benchmark: Callable[[str], ModuleType],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    scale = benchmark("scale")
    within = functools.partial(distributed.LocalCluster, processes=False, protocol="tcp")
    monkeypatch.setattr(distributed, "LocalCluster", within)
    words = ["--seeds", "600", "--processes", "1", "--json", str(tmp_path / "t.json")]
    scale.main(words)
    assert "The digests are the same." in capsys.readouterr().out
    (run,) = json.loads((tmp_path / "t.json").read_text())
    assert (run["n_processes"], run["n_tasks"] > 0, run["steps_per_second"] > 0) == (1, True, True)


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_tiny_streams_are_written_and_read(
    benchmark: Callable[[str], ModuleType],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    dtype: str,
) -> None:
    streams = benchmark("streams")
    file = tmp_path / "whole.trx"
    words = ["--streamlines", "300", "--points", "5", "--dtype", dtype, "--file", str(file)]
    streams.main([*words, "--only", "write"])
    streams.main([*words, "--only", "read"])
    told = capsys.readouterr().out
    assert "write: 300 streamlines" in told
    assert "read: 300 streamlines opened" in told
    made = nt.load_tractogram(file)
    assert (len(made), made.n_points) == (300, 1500)


def test_threads_are_counted_up_and_compared_with_one(
    benchmark: Callable[[str], ModuleType],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    scale, threads = benchmark("scale"), benchmark("threads")
    assert threads.counts_up_to(1) == [1]
    assert threads.counts_up_to(6) == [1, 2, 4, 6]
    assert threads.counts_up_to(8) == [1, 2, 4, 8]
    fod = make_phantom("arcs")
    nib.save(nib.Nifti1Image(np.asarray(fod.coefficients), fod.grid.affine), tmp_path / "fod.nii")
    words = [str(tmp_path / "fod.nii"), "--seeds", "300", "--threads", "1", "2"]
    scale.main([*words, "--json", str(tmp_path / "t.json")])
    told = capsys.readouterr().out
    assert "DIGESTS DIFFER" not in told
    runs = json.loads((tmp_path / "t.json").read_text())
    assert [run["n_threads"] for run in runs] == [1, 2, 1, 2]
    ends, whole = runs[0], runs[2]
    assert ends["steps"] == pytest.approx(whole["steps"])
    assert whole["point_bytes"] > 5 * ends["point_bytes"]
    assert all(run["own_s"] < run["user_s"] + run["system_s"] for run in runs)
