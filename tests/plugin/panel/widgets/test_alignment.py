"""What is told of volumes that are not shown where they should be, and how they are put there."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hands import OBLIQUE, fod_layer

from napari_tractography.geometry.grid import Grid
from napari_tractography.model.fod import Fod
from napari_tractography.plugin.space.display import DisplaySpace, display_space_of_layer


def test_a_volume_that_is_shown_without_its_tilt_is_named(open_model: Any, cross: Any) -> None:
    """Each is shown on its own voxels: a T1 in other axes than the FOD lies elsewhere."""
    panel = open_model(cross)
    told, rows = panel.data.alignment.tilted, panel.data.alignment.tilted_rows
    for affine, name in ((cross.grid.affine, "FA"), (OBLIQUE, "T1")):
        space = DisplaySpace.of(Grid((12, 12, 12), affine))
        panel.viewer.add_image(np.zeros((12, 12, 12)), name=name, **space.layer_kwargs)
    assert not rows.isHidden()
    assert "T1 up to" in told.text()
    assert "FA" not in told.text()
    panel.viewer.layers["T1"].visible = False
    assert rows.isHidden()
    panel.viewer.layers["T1"].visible = True
    assert not rows.isHidden()
    panel.viewer.layers.remove("T1")
    assert rows.isHidden()


def test_tilted_volumes_are_brought_onto_the_fod(open_model: Any, cross: Any) -> None:
    """A copy of each lies on it, and looks as it did; an FOD in other axes is not copied."""
    panel = open_model(cross)
    layers, space = panel.viewer.layers, DisplaySpace.of(Grid((12, 12, 12), OBLIQUE))
    values = np.random.default_rng(1).random((12, 12, 12))
    image = panel.viewer.add_image(values, name="T1", colormap="viridis", **space.layer_kwargs)
    labels = panel.viewer.add_labels(
        np.ones((12, 12, 12), int), name="tumour", **space.layer_kwargs
    )
    image.contrast_limits, labels.opacity = (0.2, 0.9), 0.4
    layers.selection.active = image
    panel.data.alignment.resample.click()
    assert [image.visible, labels.visible, panel.data.alignment.tilted_rows.isHidden()] == [
        False,
        False,
        True,
    ]
    made, region = layers["T1 on the FOD"], layers["tumour on the FOD"]
    assert layers.index(made) == layers.index(image) + 1
    assert layers.selection.active is made
    assert (made.colormap.name, tuple(made.contrast_limits)) == ("viridis", (0.2, 0.9))
    assert (region.opacity, region.data.dtype, set(np.unique(region.data))) == (0.4, int, {0, 1})
    image.visible = True
    assert "T1 up to" in panel.data.alignment.tilted.text()


def test_a_volume_with_the_axes_of_an_oblique_fod_is_moved(open_model: Any, cross: Any) -> None:
    """Each lies around its own centre: a map of part of the FOD is elsewhere, but not tilted."""
    panel = open_model(Fod(cross.coefficients, OBLIQUE))
    part = OBLIQUE.copy()
    part[:3, 3] += OBLIQUE[:3, :3] @ [2, 3, 4]
    space = DisplaySpace.of(Grid((7, 7, 7), part))
    image = panel.viewer.add_image(np.ones((7, 7, 7)), name="FA", **space.layer_kwargs)
    assert "FA up to" in panel.data.alignment.tilted.text()
    panel.data.alignment.resample.click()
    assert panel.data.alignment.tilted_rows.isHidden()
    assert image.visible
    assert "FA on the FOD" not in panel.viewer.layers
    own, fod = display_space_of_layer(image), panel.session.space
    first = (np.array(own.translate) - fod.translate) / fod.scale
    assert first == pytest.approx([4, 3, 2], abs=1e-6)


def test_an_fod_in_other_axes_than_that_in_use_is_named_but_not_copied(
    open_model: Any, cross: Any
) -> None:
    """A copy would be a map, and no FOD."""
    panel = open_model(cross)
    panel.viewer.add_layer(fod_layer(Fod(cross.coefficients, OBLIQUE, name="other")))
    assert "other up to" in panel.data.alignment.tilted.text()
    assert not panel.data.alignment.tilted_rows.isHidden()
    assert panel.data.alignment.resample.isHidden()


def test_an_fod_that_is_moved_on_the_screen_is_told_and_put_back(
    open_model: Any, cross: Any
) -> None:
    """Napari's transform tool moves the picture, which fibres and streamlines do not follow."""
    panel = open_model(cross)
    layer, moved = panel.session.fod_layer, panel.data.alignment.moved_row
    assert moved.isHidden()
    layer.affine = np.array([[1, 0, 0, 0], [0, 1, 0, 3], [0, 0, 1, 4], [0, 0, 0, 1.0]])
    assert not moved.isHidden()
    assert "by up to 5 mm" in panel.data.alignment.moved.text()
    panel.viewer.add_points(np.zeros((1, 3)))
    assert panel.data.alignment.tilted_rows.isHidden()  # which is about volumes beside the FOD
    panel.data.alignment.put_back.click()
    assert moved.isHidden()
    layer.scale, layer.translate = 2 * layer.scale, (1, 2, 3)
    assert not moved.isHidden()
    panel.data.alignment.put_back.click()
    assert moved.isHidden()
    assert tuple(layer.scale) == DisplaySpace.of(cross.grid).scale
    panel.viewer.layers.remove(layer)
    assert moved.isHidden()
