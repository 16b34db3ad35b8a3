"""Saving: what is saved reads back, and what cannot be is told in a sentence."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import nibabel as nib
import numpy as np
import pytest
from hands import OBLIQUE, fod_layer
from napari.layers import Layer
from qtpy.QtWidgets import QFileDialog

from napari_tractography import Tractogram, load_tractogram
from napari_tractography.model.phantoms import make_phantom, phantom_seeds_mm
from napari_tractography.plugin.contributions import write_streamlines
from napari_tractography.recipes.recipe import Recipe

MIDDLE = np.zeros((1, 3))


@pytest.mark.parametrize("ending", [".trk", ".tck", ".trx", ".vtk"])
def test_what_is_saved_reads_back_at_the_same_place(
    open_model: Any, settle: Any, tmp_path: Path, monkeypatch: Any, notes: list[str], ending: str
) -> None:
    panel = open_model(make_phantom("cross", affine=OBLIQUE, lmax=4))
    panel.session.add_seeds_mm(phantom_seeds_mm("cross", affine=OBLIQUE))
    panel.run()
    settle(panel)
    path = tmp_path / f"bundle{ending}"
    monkeypatch.setattr(QFileDialog, "getSaveFileName", lambda *args: (str(path), ""))
    panel.save_button.click()
    back = load_tractogram(path)
    shown = panel.session.tractogram
    np.testing.assert_array_equal(back.offsets, shown.offsets)
    np.testing.assert_allclose(back.points, shown.points, atol=1e-3)
    assert notes == [f"info: Saved {len(shown):,} streamlines to {path}."]


def test_values_go_into_files_beside_where_that_is_chosen(
    open_model: Any, cross: Any, settle: Any, tmp_path: Path, monkeypatch: Any
) -> None:
    """As a kind of file in the dialog."""
    panel = open_model(cross)
    panel.session.add_seeds_mm(MIDDLE)
    panel.run()
    settle(panel)
    weights = np.arange(len(panel.session.tractogram), dtype=np.float32)
    weighted = panel.session.tractogram.with_weights(weights)
    monkeypatch.setattr(type(panel.session), "tractogram", weighted)
    for kind, is_there in ((0, False), (1, True)):
        path = tmp_path / f"{kind}.tck"
        monkeypatch.setattr(
            QFileDialog,
            "getSaveFileName",
            lambda *args, p=path, k=kind: (str(p), args[3].split(";;")[k]),
        )
        panel.save_button.click()
        assert (load_tractogram(path).weights is not None) == is_there
        assert (tmp_path / f"{kind}.weights.txt").exists() == is_there


def test_a_bids_sidecar_is_written_where_that_is_chosen(
    open_model: Any, tmp_path: Path, settle: Any, monkeypatch: Any, notes: list[str]
) -> None:
    """As a kind of file in the dialog; it makes the same streamlines again."""
    panel = open_model(make_phantom("cross"))
    panel.session.add_seeds_mm(MIDDLE)
    panel.run()
    settle(panel)
    path = tmp_path / "sub-1_tractogram.trk"

    def bids(*args: Any) -> tuple[str, str]:
        return str(path), next(kind for kind in args[3].split(";;") if "BIDS" in kind)

    monkeypatch.setattr(QFileDialog, "getSaveFileName", bids)
    panel.save_button.click()
    sidecar = path.with_suffix(".json")
    found = json.loads(sidecar.read_text())
    assert found["StreamlineSeeding"]["Sources"] == [{"Type": "Sphere", "Unidirectional": False}]
    recipe = Recipe.load(sidecar)
    assert recipe.backend
    assert recipe.run(backend="cpu").digest() == panel.session.tractogram.digest()
    sidecar.write_text("{}")
    path.unlink()
    panel.save_button.click()
    assert sidecar.read_text() == "{}"
    assert not path.exists()
    assert notes[-1] == f"error: {sidecar.name} is there and is no recipe; give another name."


@pytest.mark.parametrize(
    ("name", "proposed"),
    [
        ("CST left", "CST left.trk"),
        ("CST/left: v2", "CST_left_ v2.trk"),
        ("arcuate.tck", "arcuate.tck"),
        ("..", "streamlines.trk"),
    ],
)
def test_the_name_of_the_layer_is_proposed(
    open_model: Any, cross: Any, settle: Any, monkeypatch: Any, name: str, proposed: str
) -> None:
    panel = open_model(cross)
    panel.session.add_seeds_mm(MIDDLE)
    panel.run()
    settle(panel)
    panel.session.streamlines_layer.name = name
    asked = []
    monkeypatch.setattr(
        QFileDialog, "getSaveFileName", lambda *args: asked.append(args) or ("", "")
    )
    panel.save_button.click()
    assert [args[2] for args in asked] == [proposed]


@pytest.mark.parametrize(
    "name", ["no-such-folder/bundle.trk", "bundle.png", "bundle", "a-folder.trk"]
)
def test_paths_that_cannot_be_written(
    open_model: Any, cross: Any, settle: Any, tmp_path: Path, notes: list[str], name: str
) -> None:
    (tmp_path / "a-folder.trk").mkdir()
    panel = open_model(cross)
    panel.session.add_seeds_mm(MIDDLE)
    panel.run()
    settle(panel)
    panel.save(tmp_path / name)
    (note,) = notes
    assert note.startswith("error: ")
    assert Path(name).parts[0] in note
    assert [p.name for p in tmp_path.iterdir()] == ["a-folder.trk"]  # nothing half-written


def test_save_without_streamlines(open_model: Any, tmp_path: Path, notes: list[str]) -> None:
    panel = open_model()
    panel.save(tmp_path / "bundle.trk")
    assert notes == ["error: There are no streamlines to save; run tracking first."]
    assert not list(tmp_path.iterdir())


def test_a_trk_file_has_the_grid_of_the_fod_that_was_tracked(
    open_model: Any, cross: Any, settle: Any, tmp_path: Path
) -> None:
    """Whatever FOD is chosen later, and when there is none any more."""
    oblique = make_phantom("cross", affine=OBLIQUE, lmax=4)
    panel = open_model(oblique)
    panel.session.add_seeds_mm(phantom_seeds_mm("cross", affine=OBLIQUE))
    panel.run()
    settle(panel)
    other = panel.viewer.add_layer(fod_layer(cross))
    panel.data.fod_choice.value = other
    panel.save(tmp_path / "other.trk")
    for layer in (other, panel.viewer.layers[0]):
        panel.viewer.layers.remove(layer)
    assert panel.session.fod is None
    panel.save(tmp_path / "none.trk")
    for name in ("other.trk", "none.trk"):
        header = nib.streamlines.load(tmp_path / name, lazy_load=True).header
        np.testing.assert_allclose(header["voxel_to_rasmm"], OBLIQUE, atol=1e-4)
        np.testing.assert_array_equal(header["dimensions"], oblique.grid.shape)


def test_naparis_own_dialog_writes_the_grid_that_was_tracked(
    open_model: Any, cross: Any, settle: Any, tmp_path: Path
) -> None:
    oblique = make_phantom("cross", affine=OBLIQUE, lmax=4)
    panel = open_model(oblique)
    panel.session.add_seeds_mm(phantom_seeds_mm("cross", affine=OBLIQUE))
    panel.run()
    settle(panel)
    layer = panel.session.streamlines_layer
    panel.viewer.add_layer(fod_layer(cross))
    panel.data.fod_choice.value = panel.viewer.layers[-1]
    for one in (layer, Layer.create(*layer.as_layer_data_tuple())):
        data, state, _ = one.as_layer_data_tuple()
        (path,) = write_streamlines(str(tmp_path / "bundle.trk"), data, state)
        written = nib.streamlines.load(path).header["voxel_to_rasmm"]
        np.testing.assert_allclose(written, oblique.grid.affine, atol=1e-4)


def test_a_trk_file_without_a_grid_is_refused_in_words_for_people(
    open_model: Any, tmp_path: Path, notes: list[str]
) -> None:
    panel = open_model()
    layer = panel.session.ensure_streamlines_layer()
    layer.tractogram = Tractogram.from_streamlines([[(0, 0, 0), (1, 0, 0)]])
    panel.save(tmp_path / "bundle.trk")
    (note,) = notes
    assert note.startswith("error: bundle.trk cannot be saved")
    assert "reference" not in note
    assert "save them as tck or vtk" in note
    for ending in (".tck", ".vtk"):
        panel.save(tmp_path / f"bundle{ending}")
        assert len(load_tractogram(tmp_path / f"bundle{ending}")) == 1
