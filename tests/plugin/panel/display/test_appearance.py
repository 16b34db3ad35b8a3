"""The Display section: what the controls do to the layer, sampling, the legend."""

from __future__ import annotations

import numpy as np
import pytest
from napari.components import ViewerModel
from qtpy.QtGui import QColor
from qtpy.QtWidgets import QColorDialog

from napari_tractography.files.streamline_data import StreamlineData
from napari_tractography.geometry.grid import Grid
from napari_tractography.model.fod import Fod
from napari_tractography.plugin.layers.volume_layers import fod_layer_data
from napari_tractography.plugin.panel.display.appearance import (
    VALUE,
    VOLUME,
    AppearanceSection,
    sampler,
)
from napari_tractography.plugin.panel.settings import kept_specs
from napari_tractography.plugin.session.session import Session
from napari_tractography.plugin.space.display import display_space_of_layer
from napari_tractography.plugin.streamlines.colours import (
    DEFAULT_COLOUR,
    MODES,
    UNKNOWN,
    Mode,
    value_colours,
)
from napari_tractography.recipes.edits import Edit
from napari_tractography.streamlines.tractogram import Tractogram

OBLIQUE = np.array([[-1.6, -1.2, 0, 30], [1.2, -1.6, 0, 5], [0, 0, 2.5, -10], [0, 0, 0, 1]])


@pytest.fixture
def session(qtbot):
    """A session whose FOD is the ramp i + 2 j + 3 k on an oblique grid, and one streamline."""
    viewer = ViewerModel()
    i, j, k = np.indices((8, 9, 10))
    fod = Fod((i + 2 * j + 3 * k + 1.0)[..., None], Grid((8, 9, 10), OBLIQUE))
    viewer._add_layer_from_data(*fod_layer_data(fod))
    session = Session(viewer)
    session.open()
    session.choose_fod(viewer.layers[0])
    t = np.linspace(1, 6, 11)
    line = fod.grid.to_mm(np.stack([t, t, t], axis=1))
    session.ensure_streamlines_layer().tractogram = Tractogram.from_streamlines([line])
    yield session
    session.close()


@pytest.fixture
def appearance(session, qtbot):
    widget = AppearanceSection(session)
    qtbot.addWidget(widget)
    return widget


def control(appearance, name):
    return next(c for c in appearance.controls if c.name == name)


def test_undo_names_what_was_chosen(appearance, session):
    control(appearance, "colour_by").value = "length"
    assert session.document.last == "Colour by length"
    control(appearance, "opacity").value = 0.5
    assert session.document.last == "Opacity"


def test_samples_are_linear_and_in_place_in_an_oblique_volume(session):
    """A ramp is its own linear interpolation: 6 t + 1 along the diagonal."""
    layer = session.viewer.layers[0]
    values = sampler(layer)(session.streamlines_layer.tractogram)
    np.testing.assert_allclose(values, 6 * np.linspace(1, 6, 11) + 1, atol=1e-3)


def test_outside_the_volume_samples_are_nan(session):
    far = Tractogram.from_streamlines([np.full((2, 3), 1e4)])
    assert np.isnan(sampler(session.viewer.layers[0])(far)).all()


def test_samples_in_the_outer_half_voxel_are_those_of_the_outer_voxel(session):
    """In a volume of one slice that is all there is."""
    layer = session.viewer.layers[0]
    grid = display_space_of_layer(layer).grid
    point = grid.to_mm([[0, 0, 0], [-0.4, 0, 0], [0, -0.4, 0], [0, 0, -0.4]])
    corner, *outside = sampler(layer)(Tractogram(point, [0, 4]))
    np.testing.assert_allclose(outside, corner, rtol=1e-5)


@pytest.mark.parametrize(
    ("name", "value"), [("width", 5.0), ("opacity", 0.4), ("slab_mm", 11.0), ("max_vertices", 5000)]
)
def test_each_control_reaches_the_layer(session, appearance, name, value):
    control(appearance, name).value = value
    assert getattr(session.streamlines_layer, name) == pytest.approx(value)


def test_every_colour_mode_can_be_chosen_and_numbers_have_a_legend(session, appearance):
    for mode in MODES:
        control(appearance, "colour_by").value = mode
        expected = "values" if mode == "seed" else mode  # the seeds that were placed
        assert session.streamlines_layer.colour_by == expected
        has_range = session.streamlines_layer.colours.limits is not None
        assert appearance.gradient.isHidden() is not has_range
        if mode == "length":
            assert has_range
            assert "mm" in appearance.legend.text()
    control(appearance, "colour_by").value = "direction"
    assert appearance.legend.text().count("■") == 3
    control(appearance, "colour_by").value = "one colour"
    assert appearance.legend.isHidden()


def test_a_new_mode_can_be_chosen_and_is_explained(session, qtbot, monkeypatch):
    def by_number(tractogram, *, colormap, **_):
        counts = np.diff(tractogram.offsets)
        return value_colours(tractogram, counts, label="Points", colormap=colormap)

    monkeypatch.setitem(MODES, "points", Mode("how many points", by_number, is_local=False))
    section = AppearanceSection(session)
    qtbot.addWidget(section)
    assert "points" in control(section, "colour_by").choices
    assert "points: how many points" in control(section, "colour_by").tooltip
    control(section, "colour_by").value = "points"
    assert session.streamlines_layer.colour_by == "points"
    assert section.legend.text().startswith("Points: 11 to 11")
    kept = {spec.name: spec for spec in kept_specs()["display"][1]}
    assert "points" in kept["colour_by"].choices


def test_one_colour_is_the_one_that_is_chosen(session, appearance, monkeypatch):
    layer, chosen = session.streamlines_layer, control(appearance, "colour")
    assert chosen.native.isHidden()
    control(appearance, "colour_by").value = "one colour"
    assert not chosen.native.isHidden()
    np.testing.assert_allclose(layer.colour, DEFAULT_COLOUR, atol=1 / 255)
    answers = [QColor("#ff0080"), QColor()]  # the second is Cancel
    monkeypatch.setattr(QColorDialog, "getColor", lambda *args: answers.pop(0))
    for _ in range(2):
        chosen.native.click()
        assert chosen.value == "#ff0080"
        np.testing.assert_allclose(layer.colours.rgba[0], (1, 0, 128 / 255, 1), atol=1e-6)
    chosen.value = "no colour"
    assert chosen.value == "#ff0080"
    control(appearance, "colour_by").value = "direction"
    assert chosen.native.isHidden()


def test_colouring_by_a_volume_shows_its_range(session, appearance):
    appearance.refresh_layers()
    appearance.volume_choice.value = session.viewer.layers[0]
    control(appearance, "colour_by").value = VOLUME
    assert session.streamlines_layer.colour_by == "values"
    low, high = session.streamlines_layer.colours.limits
    assert (low, high) == pytest.approx((7, 37), abs=1e-3)
    assert "7 to 37" in appearance.legend.text()


def test_the_name_of_a_volume_is_no_markup_in_the_legend(session, appearance):
    volume = session.viewer.layers[0]
    volume.name = "FA <0.2 & more"
    appearance.refresh_layers()
    control(appearance, "colour_by").value = VOLUME
    appearance.volume_choice.value = volume
    assert appearance.legend.text().startswith("FA &lt;0.2 &amp; more: ")


def test_by_a_volume_that_nobody_chose_is_grey_and_says_so(session, appearance):
    """Not in the colours, and with the legend, of what was chosen before."""
    layer, volume = session.streamlines_layer, session.viewer.layers[0]
    appearance.refresh_layers()
    control(appearance, "colour_by").value = "length"
    control(appearance, "colour_by").value = VOLUME
    np.testing.assert_array_equal(layer.colours.rgba, np.tile(UNKNOWN, (11, 1)))
    assert "choose one" in appearance.legend.text()
    assert appearance.gradient.isHidden()
    appearance.volume_choice.value = volume
    assert layer.colours.limits is not None
    session.viewer.layers.remove(volume)
    appearance.refresh_layers()
    assert layer.colours.limits is None
    assert "choose one" in appearance.legend.text()


def test_values_that_came_with_a_file_colour_points_and_streamlines(session, appearance):
    layer = session.streamlines_layer
    per_point, values = np.arange(11, dtype=np.float32)[:, None], {"p": np.array([[0.25]])}
    data = StreamlineData(values | {"rgb": np.ones((1, 3))}, {"FA": per_point})
    layer.tractogram = Tractogram(layer.tractogram.points, layer.tractogram.offsets, data=data)
    control(appearance, "colour_by").value = VALUE
    assert not appearance.value_choice.native.isHidden()
    assert [c for c in appearance.value_choice.choices if c] == ["FA", "p"]
    assert "choose one" in appearance.legend.text()
    appearance.value_choice.value = "FA"
    assert layer.colours.limits == (0, 10)
    assert appearance.legend.text().startswith("FA: 0 to 10")
    layer.tractogram = Edit.cut(layer.tractogram.points[5], (1, 0, 0)).apply(layer.tractogram)
    assert layer.colours.limits in ((0, 5), (5, 10))
    appearance.value_choice.value = "p"
    assert layer.colours.limits == (0.25, 0.25)
    assert appearance.style["value"] == "p"


def test_colours_are_offered_of_volumes_of_numbers_alone(session, appearance):
    """Not of a map of direction colours, nor of a pyramid of images."""
    numbers = session.viewer.layers[0]
    session.viewer.add_image(np.zeros((4, 4, 4, 3), np.uint8), rgb=True)
    session.viewer.add_image([np.zeros((8, 8, 8)), np.zeros((4, 4, 4))], multiscale=True)
    appearance.refresh_layers()
    assert [c for c in appearance.volume_choice.choices if c is not None] == [numbers]


def test_what_is_set_in_the_layer_is_shown_and_stays(session, appearance):
    layer = session.streamlines_layer
    appearance.adopt(layer)
    layer.width, layer.lit, layer.colour_by = 3.5, False, "length"
    assert control(appearance, "width").value == 3.5
    assert control(appearance, "lit").value is False
    assert control(appearance, "colour_by").value == "length"
    control(appearance, "opacity").value = 0.5
    assert (layer.width, layer.lit, layer.colour_by) == (3.5, False, "length")


@pytest.mark.parametrize("how", ["new bundle", "after removing"])
def test_a_layer_made_anew_gets_the_same_look(open_model, cross, session, how):
    panel = open_model(cross)
    line = session.tractogram
    first = panel.session.ensure_streamlines_layer()
    first.tractogram = line
    control(panel.appearance, "width").value = 6.5
    control(panel.appearance, "colour_by").value = "length"
    if how == "new bundle":
        panel.bundles.add()
    else:
        panel.viewer.layers.remove(first)
        panel.session.document.forget()  # and with it of the layer
    fresh = panel.session.ensure_streamlines_layer()
    fresh.tractogram = line
    assert fresh is not first
    assert fresh.width == 6.5
    assert fresh.colour_by == "length"


def test_colours_by_seed_of_a_preview_are_those_of_the_placed_seeds(
    open_model, cross, qtbot, settle
):
    """Streamlines of a preview keep the numbers that they have in the full run."""
    panel = open_model(cross)
    panel.session.add_seeds_mm(np.array([[0.0, 0, 0], [8, 5, 0], [-8, 5, 0]]))
    panel.set_parameters(n_per_seed=5000)
    control(panel.appearance, "colour_by").value = "seed"
    panel.runs.start(preview=True)
    settle(panel)
    layer = panel.session.streamlines_layer
    assert 0 < layer.tractogram.n_seeds < 5000
    rgba = layer.colours.rgba[layer.tractogram.offsets[:-1]]
    owner = layer.tractogram.seed_index // 5000
    assert {len(np.unique(rgba[owner == seed], axis=0)) for seed in range(3)} == {1}
    assert len(np.unique(rgba, axis=0)) == 3


def test_colours_by_seed_are_those_of_the_placed_seeds(open_model, cross, settle):
    panel = open_model(cross)
    panel.session.add_seeds_mm(np.array([[0.0, 0, 0], [8, 5, 0], [-8, 5, 0]]))
    control(panel.appearance, "colour_by").value = "seed"
    panel.run()
    settle(panel)
    layer = panel.session.streamlines_layer
    rgba = layer.colours.rgba[layer.tractogram.offsets[:-1]]
    n_each = panel.session.state.result_request.n_each
    owner = np.searchsorted(np.cumsum(n_each), layer.tractogram.seed_index, side="right")
    assert len(np.unique(rgba, axis=0)) == 3
    for seed in range(3):
        assert len(np.unique(rgba[owner == seed], axis=0)) == 1
        assert f"Seed {seed + 1}: {(owner == seed).sum()} streamlines" in (
            panel.appearance.legend.text()
        )


def test_what_belongs_to_one_way_of_colouring_shows_with_it(open_model, cross):
    section = open_model(cross).appearance
    controls = {control.name: control for control in section.controls}
    rows = {
        "one colour": controls["colour"],
        VOLUME: section.volume_choice,
        VALUE: section.value_choice,
        "cluster": controls["cluster_mm"],
    }
    for mode in ("direction", *rows):
        controls["colour_by"].value = mode
        shown = [name for name, control in rows.items() if not control.native.isHidden()]
        assert shown == [mode] * (mode in rows)
