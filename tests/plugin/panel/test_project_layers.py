"""Layers that a project brings along: one for each mask; and masks as the project holds them."""

from __future__ import annotations

import zlib
from pathlib import Path
from typing import Any

import nibabel as nib
import numpy as np
import pytest
from hands import WAIT_MS, save_fod
from napari.layers import Image, Labels, Layer

from napari_tractography.plugin.layers.volume_layers import fod_layers, mask_layer_data
from napari_tractography.recipes import volume_sources as volumes
from napari_tractography.recipes.project import Project
from napari_tractography.recipes.recipe import Recipe
from napari_tractography.recipes.sources import FodSource, SeedSource


def digests(panel: Any) -> list[str]:
    return [bundle.tractogram.digest() for bundle in panel.bundles.bundles]


def mask_layers(panel: Any) -> list[Layer]:
    return [layer for layer in panel.viewer.layers if isinstance(layer, Labels)]


def test_masks_of_a_project_have_one_hidden_layer_each(
    open_model: Any, cross: Any, settle: Any, qtbot: Any, tmp_path: Path
) -> None:
    """Of all bundles that share one; the other side runs in the same, and none is added."""
    panel = open_model()
    panel.data.add_fod(save_fod(cross, tmp_path / "fod.nii.gz"))
    mask = Layer.create(*mask_layer_data(np.ones(cross.grid.shape), cross.grid, "everywhere"))
    panel.viewer.add_layer(mask)
    panel.data.mask_choice.value = panel.seeds.mask_choice.value = mask
    panel.set_parameters(source="mask", n_total=30)
    panel.run()
    settle(panel)
    panel.bundles.duplicate()
    wanted, path = digests(panel), tmp_path / "panel.tracts.json"
    panel.project.save(path)
    again = open_model(prepared=False)
    assert again.project.open_project(path)
    qtbot.waitUntil(lambda: again.project.opening is None, timeout=WAIT_MS)
    assert digests(again) == wanted
    (made,) = mask_layers(again)
    assert not made.visible
    assert again.session.layer_of("mask") is again.session.layer_of("seed_mask") is made
    again.bundle_list.mirror.click()
    settle(again)
    assert again.session.layer_of("mask") is made
    (mirrored,) = set(mask_layers(again)) - {made}
    assert mirrored is again.session.layer_of("seed_mask")
    assert mirrored.visible


def test_peaks_of_a_project_are_read_in_its_axes_where_the_file_is_open_in_others(
    open_model: Any, qtbot: Any, tmp_path: Path
) -> None:
    """As another tool writes them, under a name that says nothing of it."""
    peaks = np.tile(np.float32([0.6, -0.8, 0]), (12, 12, 6, 1))
    nib.save(nib.Nifti1Image(peaks, np.diag([2.0, 2, 2, 1])), tmp_path / "vectors.nii")
    source = FodSource.file(tmp_path / "vectors.nii", kind="peaks", axes="fsl")
    recipe = Recipe(source, (SeedSource("sphere", 5, 1, (11.0, 11.0, 5.0), 1.0),))
    project, path = Project(), tmp_path / "panel.tracts.json"
    project.add("one", recipe)
    project.save(path)
    panel = open_model()
    panel.data.add_fod(tmp_path / "vectors.nii")
    assert panel.session.fod.vector_reading["axes"] == "scanner"
    for _ in range(2):  # and the layer that it is read into serves again
        assert panel.project.open_project(path)
        qtbot.waitUntil(lambda: panel.project.opening is None, timeout=WAIT_MS)
        assert panel.session.fod.vector_reading["axes"] == "fsl"
        assert len(fod_layers(panel.viewer.layers)) == 2


def test_many_looks_pack_a_mask_once(
    open_model: Any, cross: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    panel = open_model(cross)
    panel.session.add_seeds_mm(np.zeros((1, 3)))
    mask = Layer.create(*mask_layer_data(np.ones(cross.grid.shape), cross.grid, "everywhere"))
    panel.viewer.add_layer(mask)
    panel.data.mask_choice.value = mask
    packed, compress = [], zlib.compress
    monkeypatch.setattr(zlib, "compress", lambda *args: packed.append(1) or compress(*args))
    monkeypatch.setattr(volumes, "_texts", {})
    panel.project.keeper.compare()
    panel.project.keeper.autosave()
    panel.bundles.duplicate()
    panel.project.keeper.compare()
    assert len(packed) == 1
    mask.data_setitem((np.array([0]), np.array([0]), np.array([0])), 0)  # as the brush does
    panel.project.keeper.autosave()
    assert len(packed) == 2


@pytest.mark.parametrize("as_what", ["mask", "region"])
def test_voxels_that_a_script_changes_in_place_are_unsaved(
    open_model: Any, cross: Any, tmp_path: Path, as_what: str
) -> None:
    """No event tells of them: they are compared before something may be lost."""
    panel = open_model(cross)
    panel.session.add_seeds_mm(np.zeros((1, 3)))
    layer = Layer.create(*mask_layer_data(np.ones(cross.grid.shape), cross.grid, "everywhere"))
    panel.viewer.add_layer(layer)
    if as_what == "mask":
        panel.data.mask_choice.value = layer
    else:
        panel.session.regions.add_labels(layer)
    keeper = panel.project.keeper
    assert panel.project.save(tmp_path / "p.tracts.json")
    keeper.compare_voxels()
    assert not keeper.has_unsaved
    layer.data[:2] = 0
    keeper.compare_voxels()
    assert keeper.has_unsaved
    assert panel.project.save(tmp_path / "p.tracts.json")
    keeper.compare_voxels()
    assert not keeper.has_unsaved
    panel.viewer.layers.remove(layer)
    keeper.compare_voxels()
    assert keeper.has_unsaved == (as_what == "region")  # which that removes


@pytest.mark.parametrize("how", ["project", "Open..."])
def test_an_fod_that_comes_later_hides_nothing(
    open_model: Any, cross: Any, qtbot: Any, tmp_path: Path, how: str
) -> None:
    path = save_fod(cross, tmp_path / "fod.nii.gz")
    first = open_model()
    first.data.add_fod(path)
    first.session.add_seeds_mm(np.zeros((1, 3)))
    assert first.project.save(tmp_path / "one.tracts.json")
    panel = open_model(cross)
    panel.session.add_seeds_mm(np.zeros((1, 3)))
    panel.session.regions.add_painting()
    if how == "project":
        assert panel.project.open_project(tmp_path / "one.tracts.json")
        qtbot.waitUntil(lambda: panel.project.opening is None, timeout=WAIT_MS)
        panel.session.regions.add_painting()
    else:
        panel.data.add_fod(path)
    layers = list(panel.viewer.layers)
    images, others = layers[:2], layers[2:]
    assert all(isinstance(layer, Image) for layer in images)
    assert panel.session.seeds.layer in others
    assert not any(isinstance(layer, Image) for layer in others)
