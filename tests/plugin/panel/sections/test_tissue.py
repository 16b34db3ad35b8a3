"""The Tissues section: an image is opened, shown, tracked with, and in what is copied."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import nibabel as nib
import numpy as np
import pytest
from matplotlib.colors import to_hex
from numba.core.event import install_recorder

import napari_tractography as nt
from napari_tractography.errors import InvalidTissuesError
from napari_tractography.model.stop import StopReason
from napari_tractography.model.tissues import CORTEX, WHITE
from napari_tractography.plugin.export.copied_scripts import as_command, as_python
from napari_tractography.plugin.export.layer_files import PATH_KEY
from napari_tractography.plugin.export.recipes import recipe_of
from napari_tractography.plugin.layers.tissue_layers import COLOURS
from napari_tractography.plugin.panel.project_layers import ProjectLayers
from napari_tractography.plugin.panel.widgets.controls import label_of
from napari_tractography.recipes.recipe import Recipe
from napari_tractography.recipes.sources import FodSource
from napari_tractography.recipes.tissue_sources import TissueSource


def save_tissues(fod: Any, path: Path, *, scale: float = 1.0) -> Path:
    """White matter on the left, cortex on the right."""
    fractions = np.zeros((*fod.grid.shape, 5), np.float32)
    fractions[:16, ..., WHITE] = scale
    fractions[16:, ..., CORTEX] = scale
    nib.save(nib.Nifti1Image(fractions, fod.grid.affine), path)
    return path


def test_the_image_is_shown_and_streamlines_are_held_to_it(
    open_model: Any, cross: Any, tmp_path: Path, settle: Any
) -> None:
    panel = open_model(cross)
    panel.session.add_seeds_mm([cross.grid.to_mm([8.0, 16.0, 2.0])])
    path = save_tissues(cross, tmp_path / "5tt.nii.gz")
    panel.tissues.add(path)
    layer = panel.viewer.layers["5tt.nii.gz"]
    assert set(np.unique(layer.data)) == {CORTEX + 1, WHITE + 1}
    assert "3 white matter" in panel.tissues.chosen.text()
    panel.viewer.dims.ndisplay = 3  # where its surfaces would hide the streamlines
    assert not layer.visible
    panel.viewer.dims.ndisplay = 2
    assert layer.visible
    panel.run()
    settle(panel)
    held = panel.session.tractogram
    assert set(held.tally) & {StopReason.ENTERED_CORTEX, StopReason.ENDED_IN_WHITE}
    shown = panel.session.state.result_request
    script = as_python(shown, panel.session.fod_layer)
    assert f"tissues = nt.load_tissues({str(path)!r})" in script
    assert "tissues=tissues" in script
    panel.tissues.choice.value = None
    panel.run()
    settle(panel)
    assert StopReason.ENTERED_CORTEX not in panel.session.tractogram.tally


def test_what_needs_a_tissue_image_is_shown_with_one(
    open_model: Any, cross: Any, tmp_path: Path
) -> None:
    panel = open_model(cross)
    names = "backtrack", "crop_at_gmwmi"
    ours = {c.name: c for c in panel.tracking.controls if c.name in names}

    def are_shown() -> list[bool]:
        form = panel.tracking.more_form
        return [not label_of(form, ours[name]).isHidden() for name in names]

    assert are_shown() == [False, False]
    panel.tissues.add(save_tissues(cross, tmp_path / "5tt.nii.gz"))
    assert are_shown() == [True, True]
    ours["backtrack"].value = True
    panel.tissues.choice.value = None
    assert are_shown() == [True, False]  # what a person set is not hidden


def test_tissues_and_regions_are_shown_without_compiling_anything(
    open_model: Any, cross: Any, tmp_path: Path
) -> None:
    """That would hold up the window: their labels have the colours that are meant for them."""
    panel = open_model(cross)
    with install_recorder("numba:compile") as compiled:
        panel.tissues.add(save_tissues(cross, tmp_path / "5tt.nii.gz"))
        tissues = panel.viewer.layers["5tt.nii.gz"]
        entry = panel.session.regions.add_painting()
        entry.layer.data_setitem(tuple(np.array([[1, 1], [2, 2], [3, 4]])), 1)
        panel.viewer.dims.ndisplay = 3
    assert not compiled.buffer
    shown = [to_hex(tissues.get_color(label)) for label in range(1, len(COLOURS) + 1)]
    assert shown == list(COLOURS)
    painted = [to_hex(entry.layer.get_color(label)) for label in (1, 2, 3)]
    assert painted == [to_hex(entry.colour)] * 3


def test_the_command_names_the_image(open_model: Any, cross: Any, tmp_path: Path) -> None:
    from hands import save_fod

    panel = open_model(cross)
    panel.session.add_seeds_mm(np.zeros((1, 3)))
    panel.session.fod_layer.metadata[PATH_KEY] = str(save_fod(cross, tmp_path / "fod.nii.gz"))
    path = save_tissues(cross, tmp_path / "5tt.nii")
    panel.tissues.add(path)
    assert f"--tissues {path}" in as_command(panel.session.request(), panel.session.fod_layer)


def test_what_is_no_tissue_image_is_refused(
    open_model: Any, cross: Any, tmp_path: Path, monkeypatch: Any
) -> None:
    told: list[str] = []
    monkeypatch.setattr(
        "napari_tractography.plugin.panel.widgets.busy_dialog.show_error", told.append
    )
    panel = open_model(cross)
    panel.tissues.add(save_tissues(cross, tmp_path / "bad.nii", scale=0.2))
    assert "add up to 0.2" in told[0]
    assert panel.session.tissues is None
    assert len(panel.viewer.layers) == 1


def test_layers_that_are_open_are_offered_and_suit_other_parameters(
    open_model: Any, cross: Any
) -> None:
    """Labels of FreeSurfer, and five volumes one after the other."""
    panel = open_model(cross)
    shape = panel.session.fod_layer.data.shape
    space = panel.session.space
    labels = np.where(np.arange(shape[2]) < 16, 2, 3) * np.ones(shape, int)
    fractions = np.zeros((5, *shape), np.float32)
    fractions[WHITE], fractions[CORTEX] = labels == 2, labels == 3
    place = {"scale": space.scale, "translate": space.translate}
    panel.viewer.add_labels(labels, name="aseg", **place)
    panel.viewer.add_image(
        fractions,
        name="5tt",
        scale=(1, *space.scale),
        translate=(0, *space.translate),
        contrast_limits=(0, 1),
    )
    panel.viewer.add_labels(labels * 0 + 7777, name="others")
    floor = panel.session.parameters.min_amplitude
    for name in ("aseg", "5tt"):
        panel.tissues.choice.value = panel.viewer.layers[name]
        tissues = panel.session.tissues
        assert tissues.grid.shape == cross.grid.shape
        np.testing.assert_allclose(tissues.grid.affine, cross.grid.affine, atol=1e-5)
        assert tissues.fractions[3, 3, 3, WHITE] == 1
        assert panel.session.parameters.min_amplitude == floor / 2
        assert "with tissues" in panel.tracking.origin.text()
        panel.tissues.choice.value = None
        assert panel.session.parameters.min_amplitude == floor


def test_what_is_chosen_in_vain_is_said_and_changes_nothing(
    open_model: Any, cross: Any, monkeypatch: Any
) -> None:
    told: list[str] = []
    monkeypatch.setattr("napari_tractography.plugin.panel.sections.tissue.show_error", told.append)
    panel = open_model(cross)
    panel.viewer.add_labels(np.full(cross.grid.shape[::-1], 7777), name="others")
    panel.tissues.choice.value = panel.viewer.layers["others"]
    assert "no label of white matter" in told[0]
    assert panel.tissues.choice.value is None
    assert panel.session.tissues is None


def test_an_image_elsewhere_is_told_when_the_fod_comes(
    open_model: Any, cross: Any, tmp_path: Path
) -> None:
    from hands import fod_layer

    panel = open_model()
    path = save_tissues(cross, tmp_path / "5tt.nii")
    image = nib.load(path)
    affine = image.affine.copy()
    affine[0, 3] += 1000
    elsewhere = tmp_path / "elsewhere.nii"
    nib.save(nib.Nifti1Image(np.asarray(image.dataobj), affine), elsewhere)
    panel.tissues.add(elsewhere)
    assert "3 white matter" in panel.tissues.chosen.text()
    panel.viewer.add_layer(fod_layer(cross))
    assert "does not overlap the FOD" in panel.tissues.chosen.text()


def test_labels_of_a_recipe_that_are_not_freesurfers_go_along(
    open_model: Any, cross: Any, tmp_path: Path
) -> None:
    from hands import save_fod

    labels = np.full(cross.grid.shape, 3, np.uint8)  # cortex in FreeSurfer's
    labels[16:] = 2
    path, mapping = tmp_path / "labels.nii.gz", {WHITE: [3], CORTEX: [2]}
    nib.save(nib.Nifti1Image(labels, cross.grid.affine), path)
    panel = open_model(cross)
    panel.session.add_seeds_mm(np.zeros((1, 3)))
    panel.session.fod_layer.metadata[PATH_KEY] = str(save_fod(cross, tmp_path / "fod.nii.gz"))
    source = TissueSource.file(path, mapping=mapping)
    layers = ProjectLayers(panel.viewer)
    layer = layers.tissue_layer(Recipe(FodSource(phantom="letter"), tissues=source))
    assert layers.tissue_layer(Recipe(FodSource(phantom="letter"), tissues=source)) is layer
    panel.tissues.refresh_layers()
    panel.tissues.choice.value = layer
    request = panel.session.request()
    wanted = nt.load_tissues(path, mapping=mapping).fractions
    np.testing.assert_array_equal(request.tissues.fractions, wanted)
    script = as_python(request, panel.session.fod_layer)
    (line,) = [line for line in script.splitlines() if line.startswith("tissues = ")]
    read = eval(line.removeprefix("tissues = "), {"nt": nt})
    np.testing.assert_array_equal(read.fractions, wanted)
    kept = recipe_of(request, list(panel.viewer.layers)).tissues
    np.testing.assert_array_equal(kept.read()[0].fractions, wanted)
    with pytest.raises(InvalidTissuesError, match=r"labels\.nii\.gz are not FreeSurfer's"):
        as_command(request, panel.session.fod_layer)
