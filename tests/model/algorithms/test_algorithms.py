"""The table of algorithms, and that an algorithm is its row and its two functions."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import napari_tractography
from napari_tractography.model.algorithms import ALGORITHMS, BY_CODE, read_rows, users_of
from napari_tractography.model.parameters import TrackingParameters, parameter_specs
from napari_tractography.tracking.cuda import source

HERE = Path(__file__).parent
TRACKING = HERE.parents[1] / "tracking"  # whose helpers the program shares
CODES = {
    "probabilistic": 0,
    "deterministic": 1,
    "diffusion": 2,
    "transport": 3,
    "sd_stream": 4,
    "ifod2": 5,
}


def test_codes_never_change():
    """What was measured of an algorithm's speed is kept by its code."""
    assert {row.name: row.code for row in ALGORITHMS} == CODES


def test_choices_and_help_of_the_parameters_are_those_of_the_rows():
    specs = {spec.name: spec for spec in parameter_specs()}
    assert specs["algorithm"].choices == tuple(row.name for row in ALGORITHMS)
    for row in ALGORITHMS:
        assert f"{row.name} {row.help}" in specs["algorithm"].help
        assert TrackingParameters(algorithm=row.name).row is row
        assert set(row.own_parameters) <= specs.keys()
    assert specs["gamma"].help.startswith("Diffusion and transport: how fast")
    assert specs["gamma_noise"].help.startswith("Diffusion: amplitude")
    assert specs["step_mm"].help.startswith("Distance")


def test_a_parameter_means_something_to_those_who_name_it_or_else_to_all():
    assert [row.name for row in users_of("adaptive")] == ["diffusion", "transport"]
    assert users_of("step_mm") == ALGORITHMS
    assert TrackingParameters(algorithm="transport").uses("gamma")
    assert not TrackingParameters(algorithm="transport").uses("gamma_noise")
    assert not TrackingParameters(algorithm="deterministic").uses("gamma")
    assert TrackingParameters(algorithm="deterministic").uses("max_angle_deg")


def test_each_function_of_the_rows_is_in_the_cuda_source():
    text = source.source()
    for row in BY_CODE.values():
        assert f"case {row.name.upper()}:" in text
        assert f"DEVICE int {row.cuda}(" in text


ROW = """
from napari_tractography.model.algorithms.row import Algorithm
ROW = Algorithm(name={name!r}, code=5, help="", cpu="", cuda="", cuda_source="")
"""


def rows_of(folder: Path, monkeypatch, package: str, **rows: str):
    (folder / package).mkdir()
    for file, name in rows.items():
        (folder / package / f"{file}.py").write_text(ROW.format(name=name))
    monkeypatch.syspath_prepend(folder)
    return read_rows([str(folder / package)], package)


def test_two_rows_with_one_code_are_refused(tmp_path, monkeypatch):
    assert [row.name for row in rows_of(tmp_path, monkeypatch, "single", ann="ann")] == ["ann"]
    with pytest.raises(ValueError, match="ann and bob have the same code 5"):
        rows_of(tmp_path, monkeypatch, "double", ann="ann", bob="bob")


def test_a_row_by_another_name_than_its_file_is_refused(tmp_path, monkeypatch):
    with pytest.raises(ValueError, match=r"algorithms/ann.py is named 'bob'"):
        rows_of(tmp_path, monkeypatch, "misnamed", ann="bob")


@pytest.fixture(
    scope="module", params=["trilinear", pytest.param("nearest", marks=pytest.mark.slow)]
)
def reports(tmp_path_factory, request):
    """What two processes report, each of a copy of the package that has the toy algorithm."""
    if shutil.which("g++") is None:
        pytest.skip("no g++ to compile the CUDA source with")
    found = []
    for _ in range(2):
        folder = tmp_path_factory.mktemp("straight_ahead")
        package = shutil.copytree(
            Path(napari_tractography.__file__).parent,
            folder / "napari_tractography",
            ignore=shutil.ignore_patterns("__pycache__", "plugin"),
        )
        shutil.copy(HERE / "straight_ahead.py", package / "model" / "algorithms")
        shared = (folder, TRACKING, TRACKING / "cuda")
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, shared))}
        environment.pop("NAPARI_TRACTOGRAPHY_BACKEND", None)
        command = [sys.executable, HERE / "track_straight_ahead.py", folder, request.param]
        run = subprocess.run(command, env=environment, capture_output=True, text=True)
        assert run.returncode == 0, run.stderr
        found.append(json.loads(run.stdout))
    return found


def test_an_algorithm_is_one_file_with_its_row_and_its_functions(reports):
    report, _ = reports
    assert report["bend_mm"] < 1e-5
    assert report["n_steps"] > 500
    assert {"LEFT_IMAGE", "MAX_LENGTH"} <= set(report["reasons"])


def test_both_its_functions_give_the_same_bits(reports):
    report, _ = reports
    assert report["host"] == report["cpu"]


def test_a_process_with_another_copy_finds_its_machine_code_on_the_disk(reports):
    one, other = reports
    assert one["compiled"] + one["from_the_cache"] == 1  # by a process that it has started
    assert (other["compiled"], other["from_the_cache"]) == (0, 1)
    assert other["cpu"] == one["cpu"]
