"""The streamlines layer: what it holds, and what lies under the cursor."""

from __future__ import annotations

from dataclasses import astuple
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from napari.components import ViewerModel
from tiny_bundles import asymmetric, cross, straight

from napari_tractography import Tractogram
from napari_tractography.errors import InvalidParameterError, InvalidTractogramError
from napari_tractography.geometry.grid import Grid
from napari_tractography.model.stop import StopReason
from napari_tractography.plugin.space.display import DisplaySpace
from napari_tractography.plugin.streamlines.layer import Streamlines
from napari_tractography.plugin.streamlines.polylines import crop_to_slab, joined_to_next

# What it holds.


def test_it_shows_and_keeps_the_tractogram_itself() -> None:
    t = cross()
    assert Streamlines(t).tractogram is t


def test_of_a_mapped_file_only_what_is_drawn_is_read(tmp_path: Path) -> None:
    points = np.memmap(tmp_path / "points", np.float16, "w+", shape=(4000, 3))
    points[:] = np.arange(12_000).reshape(-1, 3) % 512
    mapped = Tractogram(points, np.arange(0, 4001, 4))
    layer = Streamlines(mapped, max_vertices=100)
    ViewerModel(ndisplay=3).add_layer(layer)
    assert layer.summary == "showing 25 of 1,000 streamlines"
    drawn = layer._shown
    np.testing.assert_array_equal(drawn.xyz[:4], points[4 * drawn.chosen[0] :][:4])
    assert mapped._points is None


def test_data_are_number_and_position_in_order() -> None:
    data = Streamlines(cross()).data
    assert data.shape == (42, 4)
    np.testing.assert_array_equal(data[:, 0], np.repeat([0, 1], 21))
    np.testing.assert_array_equal(data[21], [1, 20, -20, 0])


def test_a_flat_bundle_still_has_a_size_to_fit_into_the_view() -> None:
    viewer = ViewerModel(ndisplay=3)
    viewer.add_layer(Streamlines(Tractogram.from_streamlines([[(5, 5, 5)]])))
    viewer.reset_view()
    assert np.isfinite(viewer.scene.camera.zoom)


def test_data_can_be_set() -> None:
    layer = Streamlines()
    layer.data = [[5, 1, 2, 3], [2, -9, 0, 0], [5, 2, 2, 3], [2, -8, 0, 0]]  # as Tracks sorts them
    assert layer.tractogram.offsets.tolist() == [0, 2, 4]
    np.testing.assert_array_equal(layer.tractogram.points[:, 2], [-9, -8, 1, 2])
    with pytest.raises(InvalidTractogramError, match="not whole"):
        layer.data = [[0.5, 1, 2, 3], [0.7, 2, 2, 3]]
    with pytest.raises(InvalidTractogramError, match=r"\(2, 3\)"):
        layer.data = np.zeros((2, 3))


def test_the_extent_is_that_of_the_points() -> None:
    extent = Streamlines(cross()).extent
    np.testing.assert_allclose(extent.data, [[0, -20, -20], [20, 20, 20]])
    np.testing.assert_allclose(extent.world, extent.data)


def test_sliders_keep_stopping_at_the_slices_of_the_volume() -> None:
    grid = Grid((10, 10, 10), np.diag([3.0, 3.0, 3.0, 1.0]))
    space = DisplaySpace.of(grid)
    viewer = ViewerModel()
    viewer.add_image(space.volume(np.zeros(grid.shape)), **space.layer_kwargs)
    before = viewer.dims.range
    line = straight((-1.2, 3, 5), (28.0, 27, 28.3))
    viewer.add_layer(Streamlines(Tractogram.from_streamlines([line]), space=space))
    assert viewer.dims.range == before


def test_an_empty_layer_later_gets_streamlines_and_loses_them() -> None:
    viewer = ViewerModel()
    layer = Streamlines()
    viewer.add_layer(layer)
    assert np.isnan(layer.extent.data).all()
    layer.tractogram = cross()
    np.testing.assert_allclose(viewer.dims.range[0][:2], (0, 20))
    layer.tractogram = Tractogram.empty()
    assert len(layer.data) == 0


def test_replacing_keeps_the_settings() -> None:
    layer = Streamlines(cross(), width=3, opacity=0.4, colour_by="length", slab_mm=7)
    layer.tractogram = asymmetric()
    assert (layer.width, layer.opacity, layer.colour_by, layer.slab_mm) == (3, 0.4, "length", 7)
    assert layer.colours.limits == (20, 20)


def test_appending_chunks_is_the_same_as_showing_all_at_once() -> None:
    rng = np.random.default_rng(0)
    walks = [rng.normal(size=(n, 3)).cumsum(axis=0) for n in (5, 1, 9, 4, 4)]
    whole = Tractogram.from_streamlines(walks)
    for mode in ("direction", "length", "stop reason", "one colour"):
        at_once, growing = Streamlines(whole, colour_by=mode), Streamlines(colour_by=mode)
        for first in (0, 2, 4):
            growing.append(whole[first : first + 2])
        assert growing.tractogram.digest() == whole.digest()
        np.testing.assert_array_equal(growing.colours.rgba, at_once.colours.rgba)
        assert growing.colours.categories == at_once.colours.categories
        np.testing.assert_array_equal(growing.extent.data, at_once.extent.data)
        np.testing.assert_array_equal(growing._shown.joined, at_once._shown.joined)
        np.testing.assert_array_equal(growing._shown.xyz, at_once._shown.xyz)


def test_what_the_thread_of_the_status_bar_holds_does_not_change_under_it() -> None:
    layer = Streamlines(cross())
    before = layer._shown
    sizes = len(before.xyz), len(before.joined), len(before.offsets)
    layer.append(cross())
    layer.space = DisplaySpace.of(Grid((4, 4, 4), np.diag([2.0, 2, 2, 1])))
    assert (len(before.xyz), len(before.joined), len(before.offsets)) == sizes
    assert layer._shown is not before


def test_too_many_vertices_are_thinned_and_said_so() -> None:
    t = Tractogram(np.random.default_rng(0).normal(size=(1000, 3)), np.arange(0, 1001, 10))
    layer = Streamlines(t, max_vertices=300)
    assert layer.n_shown == 30
    assert layer.summary == "showing 30 of 100 streamlines"
    assert layer.tractogram is t
    assert len(layer.data) == 1000
    layer.max_vertices = 1000
    assert layer.summary == "showing all 100 streamlines"


def test_appending_beyond_the_budget_stays_within_it() -> None:
    t = Tractogram(np.random.default_rng(0).normal(size=(1000, 3)), np.arange(0, 1001, 10))
    layer = Streamlines(max_vertices=300)
    for first in range(0, 100, 10):
        layer.append(t[first : first + 10])
        assert len(layer.colours.rgba) <= 300
    assert layer.tractogram.digest() == t.digest()
    assert 15 <= layer.n_shown <= 30


def test_values_of_a_subset_are_those_of_its_streamlines() -> None:
    """Each streamline has its own number as value, per streamline and per point."""
    t = Tractogram(np.zeros((200, 3)), np.arange(0, 201, 2))
    layer = Streamlines(t, max_vertices=50, colormap="gray")
    layer.colour_by_values(np.arange(100.0), label="number", limits=(0, 99))
    per_line = layer.colours.rgba.copy()
    layer.colour_by_values(np.repeat(np.arange(100.0), 2), limits=(0, 99))
    np.testing.assert_array_equal(layer.colours.rgba, per_line)
    layer.colour_by_values(lambda shown: shown.seed_index.astype(float), limits=(0, 99))
    np.testing.assert_array_equal(layer.colours.rgba, per_line)
    assert layer.colour_by == "values"
    assert len(np.unique(per_line[:, 0])) > 20


def test_a_function_of_values_is_asked_again_and_fixed_values_are_dropped() -> None:
    layer = Streamlines(cross())
    layer.colour_by_values(lambda shown: shown.lengths_mm, label="mine")
    layer.tractogram = asymmetric()
    assert layer.colours.label == "mine"
    layer.colour_by_values(np.zeros(6))
    layer.tractogram = cross()
    assert layer.colour_by == "direction"
    assert "values" not in layer.colour_modes


def test_wrong_values_change_nothing() -> None:
    layer = Streamlines(cross())
    with pytest.raises(InvalidTractogramError, match=r"\(3,\)"):
        layer.colour_by_values(np.zeros(3))
    assert "values" not in layer.colour_modes


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        pytest.param("max_vertices", 0, id="max_vertices"),
        pytest.param("slab_mm", 0, id="slab"),
        pytest.param("slab_mm", float("nan"), id="slab nan"),
        pytest.param("colour_by", "taste", id="colour"),
    ],
)
def test_settings_that_make_no_sense_are_refused(setting: str, value: Any) -> None:
    with pytest.raises(InvalidParameterError, match=f"{setting} is '?{value}"):
        Streamlines(cross(), **{setting: value})
    with pytest.raises(InvalidParameterError, match=f"{setting} is '?{value}"):
        setattr(Streamlines(cross()), setting, value)


def test_writers_get_the_tractogram_and_the_grid() -> None:
    grid = Grid((4, 4, 4), np.diag([-2.0, 2.0, 2.0, 1.0]))
    t = cross()
    layer = Streamlines(t, space=DisplaySpace.of(grid), metadata={"mine": 1})
    data, meta, kind = layer.as_layer_data_tuple()
    assert kind == "tracks"
    assert data.shape == (42, 4)
    assert meta["metadata"]["tractogram"] is t
    assert meta["metadata"]["grid"] == grid
    assert meta["metadata"]["mine"] == 1
    assert layer.metadata == {"mine": 1}


def test_the_slab_is_two_voxels_in_three_digits() -> None:
    for voxel_mm, slab_mm in ((2.0, 4.0), (5.25817, 10.5), (0.6352, 1.27)):
        space = DisplaySpace.of(Grid((4, 4, 4), np.diag([voxel_mm] * 3 + [1])))
        assert Streamlines(cross(), space=space).slab_mm == slab_mm


def test_it_listens_to_the_names_of_naparis_controls() -> None:
    layer = Streamlines(cross(), slab_mm=6)
    layer.color_by = "length"
    assert layer.colours.label == "Length"
    assert layer.tail_length == 3
    layer.tail_length = 5
    assert layer.slab_mm == 10


def test_a_streamline_is_described_by_number_length_and_reasons() -> None:
    t = Tractogram(
        straight((0, 0, 0), (12.34, 0, 0), 2),
        [0, 2],
        stop_reasons=[[StopReason.SEED, StopReason.LEFT_MASK]],
    )
    assert Streamlines(t).describe(0) == "streamline 0: 12.3 mm, left the mask"


# What lies under the cursor.


def test_the_streamline_under_the_cursor_in_a_slice() -> None:
    viewer = ViewerModel()
    layer = Streamlines(cross(), slab_mm=4)
    viewer.add_layer(layer)
    viewer.dims.set_point(0, 0)
    layer.scale_factor = 0.2  # mm a pixel
    where = {"view_direction": None, "dims_displayed": [1, 2], "world": True}
    assert layer.get_value((0, 0.5, -7.0), **where) == 0
    assert layer.get_value((0, 15.0, 0.0), **where) is None  # the other one, 20 mm above
    status = layer.get_status((0, 15.0, 0.0), **where)
    assert status["coordinates"] == status["coords"]  # and nothing after them
    viewer.dims.set_point(0, 20)
    assert layer.get_value((20, 15.0, 0.5), **where) == 1
    layer.visible = False
    assert layer.get_value((20, 15.0, 0.5), **where) is None


def test_the_foremost_streamline_under_the_cursor_in_3d() -> None:
    viewer = ViewerModel(ndisplay=3)
    layer = Streamlines(cross())
    viewer.add_layer(layer)
    layer.scale_factor = 0.2
    where = {"dims_displayed": [0, 1, 2], "world": True}
    down, up = np.array([-1.0, 0, 0]), np.array([1.0, 0, 0])
    assert layer.get_value((50, 0.3, 0.3), view_direction=down, **where) == 1
    assert layer.get_value((50, 0.3, 0.3), view_direction=up, **where) == 0
    assert layer.get_value((50, 0.3, 9.0), view_direction=down, **where) == 0
    assert layer.get_value((50, 9.0, 9.0), view_direction=down, **where) is None


def test_picking_in_a_subset_tells_the_number_in_the_whole() -> None:
    lines = [straight((-5, 10.0 * i, 0), (5, 10.0 * i, 0), 5) for i in range(40)]
    viewer = ViewerModel()
    layer = Streamlines(Tractogram.from_streamlines(lines), max_vertices=50)
    viewer.add_layer(layer)
    viewer.dims.set_point(0, 0)
    layer.scale_factor = 0.1
    found = [layer.get_value((0, 10.0 * i, 1.0), world=True) for i in range(40)]
    assert {i: i for i in range(40) if found[i] is not None} == {
        i: value for i, value in enumerate(found) if value is not None
    }
    assert sum(value is not None for value in found) == layer.n_shown == 10


def test_pieces_near_a_slice_are_those_of_all_points_of_any_axis():
    rng = np.random.default_rng(0)
    lengths = [1, 2, 17, 33, 64, 200]
    lines = [np.cumsum(rng.normal(size=(n, 3)), axis=0).astype(np.float32) for n in lengths]
    layer = Streamlines(Tractogram.from_streamlines(lines), slab_mm=1.5)
    for across in range(3):
        pieces = layer.pieces_near(across, 0.7)
        whole = crop_to_slab(
            layer.drawn_points,
            layer.colours.rgba,
            joined_to_next(np.cumsum([0, *lengths])),
            axis=2 - across,
            position=0.7,
            half_mm=0.75,
        )
        assert 10 < len(pieces.start) < sum(lengths)
        for one, other in zip(astuple(pieces), astuple(whole), strict=True):
            np.testing.assert_array_equal(one, other)
    assert not len(layer.pieces_near(0, 1e4).start)
