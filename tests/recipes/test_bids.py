"""A recipe as a BIDS sidecar: the fields of the proposal, and the recipe in it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import napari_tractography as nt
from napari_tractography.cli import main
from napari_tractography.errors import FileError
from napari_tractography.files.volume_files import save_volume
from napari_tractography.model.phantoms import make_phantom
from napari_tractography.recipes.bids import sidecar_of
from napari_tractography.recipes.edits import Edit
from napari_tractography.recipes.recipe import Recipe
from napari_tractography.recipes.sources import FodSource, RegionSource, SeedSource
from napari_tractography.recipes.tissue_sources import TissueSource
from napari_tractography.recipes.volume_sources import VolumeSource

# The tables of BEP046 (pull request 2333 of bids-specification, June 2026): of each object the
# fields that are required, and those that are optional.
TABLES: dict[str, tuple[set[str], set[str]]] = {
    "": (
        {"StreamlineSeeding", "StreamlinePropagation", "StreamlineTermination",
         "StreamlineAcceptanceCriteria"},
        {"Name", "Description", "URL", "StreamlineReconstructionDensity"},
    ),
    "StreamlineSeeding": ({"Sources"}, {"AcceptanceCriteria"}),
    "Sources": (
        {"Type"},
        {"Source", "SeedsPerElement", "AttemptsPerSeed", "Unidirectional", "InitialDirection"},
    ),
    "AcceptanceCriteria": ({"Metric", "Source", "Threshold"}, set()),
    "StreamlinePropagation": (
        {"Algorithm", "Interpolation", "InterpolationOrder", "Source"},
        {"AnglePerStep", "MinimumRadius", "IntegrationOrder", "StepSize", "AttemptsPerVertex"},
    ),
    "Algorithm": ({"Name"}, {"Description", "URL"}),
    "StreamlineTermination": (
        set(),
        {"AnatomicalSegmentation", "Anisotropy", "AnglePerStep", "MinimumRadius", "Masks",
         "SatisfiedAllAcceptance", "MaximumLength"},
    ),
    "Anisotropy": ({"Metric", "Source", "Threshold"}, set()),
    "StreamlineAcceptanceCriteria": (
        set(),
        {"InclusionRegions", "OrderedInclusionRegions", "ExclusionRegions", "MinimumLength",
         "MaximumLength", "AnatomicalSegmentation"},
    ),
    "StreamlineReconstructionDensity": (
        set(), {"Seeds", "GeneratedStreamlines", "AcceptedStreamlines"}
    ),
}  # fmt: skip
TYPES = {
    "Random", "Sphere", "RandomPerElement", "GridPerElement", "CountPerElement",
    "RejectionSampling", "Dynamic",
}  # fmt: skip


def check(content: Any, table: str = "") -> None:
    """Hold an object to its table, and the objects in it to theirs."""
    if isinstance(content, list):
        for one in content:
            check(one, table)
        return
    required, optional = TABLES[table]
    assert required <= set(content) <= required | optional, table
    for field, value in content.items():
        if field in TABLES:
            check(value, field)
    if table == "Sources":
        assert content["Type"] in TYPES
        assert ("Source" in content) == (content["Type"] != "Sphere")
        assert ("SeedsPerElement" in content) == content["Type"].endswith("PerElement")


def recipe(**changes: Any) -> Recipe:
    mask = VolumeSource("/data/mask.nii.gz", label=12)
    given: dict[str, Any] = {
        "fod": FodSource("/data/wmfod.mif"),
        "seeds": (SeedSource("sphere", 200, 1, (1.0, 2.0, 3.0), 4.0),),
        "parameters": nt.TrackingParameters(
            algorithm="ifod2", min_radius_mm=1.5, min_amplitude=0.1
        ),
        "mask": mask,
        "regions": (
            RegionSource("include", "a", volume=VolumeSource("/data/a.nii")),
            RegionSource("include", "b", (1.0, -2.5, 3.0), 4.0),
            RegionSource("exclude", "c", volume=mask),
            RegionSource("stop", "d", volume=mask),
        ),
    }
    return Recipe(**(given | changes))


def without_recipe(made: Recipe) -> dict[str, Any]:
    found = sidecar_of(made)
    found.pop("Recipe")
    return found


def test_all_that_is_known_is_said() -> None:
    found = without_recipe(recipe())
    check(found)
    floor = {"Metric": "amplitude of the FOD along the direction", "Source": "/data/wmfod.mif"}
    assert found["StreamlineSeeding"] == {
        "Sources": [{"Type": "Sphere", "Unidirectional": False}],
        "AcceptanceCriteria": [{**floor, "Threshold": 0.1}],
    }
    propagation = found["StreamlinePropagation"]
    assert propagation["Algorithm"]["Name"] == "ifod2"
    assert propagation["MinimumRadius"] == 1.5
    # A step of 0.5 mm on a circle of 1.5 mm.
    assert propagation["AnglePerStep"] == pytest.approx(np.degrees(2 * np.arcsin(0.5 / 3.0)))
    assert (propagation["StepSize"], propagation["IntegrationOrder"]) == (0.5, 2)
    assert (propagation["Interpolation"], propagation["Source"]) == ("Linear", "/data/wmfod.mif")
    assert found["StreamlineTermination"]["Masks"] == ["/data/mask.nii.gz:12"]
    assert found["StreamlineTermination"]["MaximumLength"] == 250
    assert found["StreamlineAcceptanceCriteria"] == {
        "ExclusionRegions": ["/data/mask.nii.gz:12"],
        "InclusionRegions": ["/data/a.nii", "1,-2.5,3,4"],
        "MinimumLength": 0,
    }
    assert found["StreamlineReconstructionDensity"] == {"Seeds": 200}


@pytest.mark.parametrize(
    ("seeds", "told"),
    [
        pytest.param(
            SeedSource("mask", 9, volume=VolumeSource("/data/m.nii")),
            {"Type": "Random", "Source": "/data/m.nii"},
            id="mask",
        ),
        pytest.param(
            SeedSource("voxels", 3, volume=VolumeSource("/data/m.nii")),
            {"Type": "RandomPerElement", "Source": "/data/m.nii", "SeedsPerElement": 3},
            id="voxels",
        ),
        pytest.param(
            SeedSource("fod", 9), {"Type": "RejectionSampling", "Source": "/data/wmfod.mif"},
            id="fod",
        ),
        pytest.param(
            SeedSource("interface", 9), {"Type": "Random", "Source": "/data/5tt.mif"},
            id="interface",
        ),
        pytest.param(
            SeedSource("points", positions_mm=((0.0, 0.0, 0.0),)), {"Type": "Sphere"}, id="points"
        ),
    ],
)  # fmt: skip
def test_each_kind_of_seed_has_a_type(seeds: SeedSource, told: dict[str, Any]) -> None:
    parameters = nt.TrackingParameters(direction="forward", interpolation="nearest")
    tissues = TissueSource("/data/5tt.mif")
    found = without_recipe(recipe(seeds=(seeds,), parameters=parameters, tissues=tissues))
    check(found)
    assert found["StreamlineSeeding"]["Sources"] == [{**told, "Unidirectional": True}]
    assert found["StreamlinePropagation"]["Interpolation"] == "Nearest"
    assert found["StreamlineTermination"]["AnatomicalSegmentation"] == "/data/5tt.mif"
    assert ("StreamlineReconstructionDensity" in found) == (seeds.kind != "voxels")


def test_what_it_has_no_field_for_is_left_out() -> None:
    """Streamlines that must pass any of some regions; a floor that is off; no seeds of its own."""
    ends = (RegionSource("include", "a", volume=VolumeSource("/data/a.nii")),) * 2
    parameters = nt.TrackingParameters(min_amplitude=0.0)
    made = recipe(
        include_rule="any", parameters=parameters, mask=None, seeds=(), between=ends, select=50,
        edits=(Edit.lengths(3, 50),),
    )  # fmt: skip
    found = without_recipe(made)
    check(found)
    assert "InclusionRegions" not in found["StreamlineAcceptanceCriteria"]
    assert set(found["StreamlineTermination"]) == {"MaximumLength"}
    assert [source["Source"] for source in found["StreamlineSeeding"]["Sources"]] == [
        "/data/a.nii"
    ] * 2
    assert found["StreamlineReconstructionDensity"] == {"AcceptedStreamlines": 50}
    assert found["Description"] == "lengths from 3 to 50 mm"
    ordered = without_recipe(recipe(include_rule="ordered"))["StreamlineAcceptanceCriteria"]
    assert ordered["OrderedInclusionRegions"] == ["/data/a.nii", "1,-2.5,3,4"]


def test_it_is_read_as_the_recipe_that_it_holds(tmp_path: Path) -> None:
    made = recipe()
    made.save(tmp_path / "a.json", bids_sidecar=True)
    assert Recipe.load(tmp_path / "a.json") == made
    (tmp_path / "b.json").write_text(json.dumps(without_recipe(made)))
    with pytest.raises(FileError, match="no recipe"):
        Recipe.load(tmp_path / "b.json")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Has a mask in it; what a command reads is named by it."""
    fod = make_phantom("letter", lmax=2)
    save_volume(np.ones(fod.grid.shape, np.uint8), fod.grid, tmp_path / "mask.nii.gz")
    Recipe(
        fod=FodSource(phantom="letter", phantom_lmax=2),
        seeds=(SeedSource("mask", 20, 7, volume=VolumeSource.file(tmp_path / "mask.nii.gz")),),
        parameters=nt.TrackingParameters(step_mm=1.0, max_length_mm=30.0),
    ).save(tmp_path / "recipe.json")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_replay_writes_it_beside_the_tractogram(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    flags = ["--backend", "cpu", "--bids-sidecar"]
    assert main(["replay", "recipe.json", "-o", "sub-1_tractogram.trx", *flags]) == 0
    found = json.loads((folder / "sub-1_tractogram.json").read_text())
    check({name: value for name, value in found.items() if name != "Recipe"})
    source = found["StreamlineSeeding"]["Sources"][0]["Source"]
    assert source == str(folder / "mask.nii.gz")
    capsys.readouterr()
    assert main(["replay", "sub-1_tractogram.json", "--backend", "cpu"]) == 0
    assert "the same streamlines as the recipe's" in capsys.readouterr().out
    assert main(["replay", "recipe.json", "-o", "recipe.trk", *flags]) == 2  # which is read
    (folder / "other.json").write_text("{}")
    assert main(["replay", "recipe.json", "-o", "other.trk", *flags]) == 2
    assert main(["replay", "recipe.json", *flags]) == 2
    assert (folder / "other.json").read_text() == "{}"
    assert not (folder / "other.trk").exists()
    project = nt.Project()
    project.add("CST", Recipe.load("recipe.json"))
    project.add("read", folder / "sub-1_tractogram.trx")
    project.save("study.tracts.json")
    assert main(["replay", "study.tracts.json", "-o", "out", *flags]) == 0
    assert sorted(path.name for path in Path("out").iterdir()) == [
        "CST.json", "CST.trk", "read.trk"
    ]  # fmt: skip
    assert Recipe.load("out/CST.json").digest == nt.load_tractogram("sub-1_tractogram.trx").digest()
