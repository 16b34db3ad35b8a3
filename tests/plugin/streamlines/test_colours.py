"""Colours: what they say is what the streamlines are."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from napari.utils.colormaps import ensure_colormap

from napari_tractography import Tractogram
from napari_tractography.errors import InvalidParameterError, InvalidTractogramError
from napari_tractography.model.stop import StopReason
from napari_tractography.plugin.streamlines import colours
from napari_tractography.plugin.streamlines.colours import MODES
from napari_tractography.plugin.streamlines.layer import Streamlines


def line(direction: tuple[float, float, float], n: int = 5) -> np.ndarray:
    return np.arange(n)[:, None] * np.array(direction, dtype=float)


@pytest.mark.parametrize(
    ("direction", "rgb"),
    [
        pytest.param((1, 0, 0), (1, 0, 0), id="x red"),
        pytest.param((0, -2, 0), (0, 1, 0), id="-y green"),
        pytest.param((0, 0, 0.5), (0, 0, 1), id="z blue"),
        pytest.param((3, -4, 0), (0.6, 0.8, 0), id="oblique"),
    ],
)
def test_direction_is_the_colour(
    direction: tuple[float, float, float], rgb: tuple[float, float, float]
) -> None:
    rgba = colours.direction_colours(Tractogram.from_streamlines([line(direction)])).rgba
    np.testing.assert_allclose(rgba, np.tile([*rgb, 1], (5, 1)), atol=1e-6)


def test_directions_do_not_leak_between_streamlines() -> None:
    """Two lines end to end; the jump between them is along z."""
    one, other = line((1, 0, 0)), line((0, 1, 0)) + np.array([0, 0, 50])
    rgba = colours.direction_colours(Tractogram.from_streamlines([one, [], other])).rgba
    np.testing.assert_allclose(rgba[:5, :3], np.tile([1, 0, 0], (5, 1)))
    np.testing.assert_allclose(rgba[5:, :3], np.tile([0, 1, 0], (5, 1)))


def test_a_point_and_a_standstill_are_grey() -> None:
    t = Tractogram.from_streamlines([[(1, 2, 3)], np.ones((3, 3)), line((1, 0, 0), 2)])
    rgba = colours.direction_colours(t).rgba
    np.testing.assert_allclose(rgba[:4], np.tile([0.5, 0.5, 0.5, 1], (4, 1)))


def test_directions_do_not_depend_on_the_blocks_of_the_computation(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rng = np.random.default_rng(1)
    walks = [rng.normal(size=(n, 3)).cumsum(axis=0) for n in (1, 7, 8, 2, 30, 1, 8)]
    t = Tractogram.from_streamlines(walks)
    expected = []
    for walk in walks:
        steps = np.abs(np.diff(walk.astype(np.float32), axis=0))
        both = np.vstack([steps, np.zeros((1, 3))]) + np.vstack([np.zeros((1, 3)), steps])
        norm = np.linalg.norm(both, axis=1, keepdims=True)
        expected.append(np.where(norm > 0, both / np.where(norm > 0, norm, 1), 0.5))
    for block in (1, 2, 8, 1000):
        monkeypatch.setattr(colours, "_BLOCK", block)
        rgba = colours.direction_colours(t).rgba
        np.testing.assert_allclose(rgba[:, :3], np.vstack(expected), atol=1e-5)


def test_length_runs_from_one_end_of_the_colormap_to_the_other() -> None:
    t = Tractogram.from_streamlines([line((1, 0, 0), 3), line((0, 1, 0), 11)])
    shown = colours.length_colours(t, colormap="viridis")
    assert shown.limits == (2.0, 10.0)
    assert (shown.label, shown.unit) == ("Length", "mm")
    ends = ensure_colormap("viridis").map(np.array([0.0, 1.0]))
    np.testing.assert_allclose(shown.rgba[0], ends[0], atol=1e-3)
    np.testing.assert_allclose(shown.rgba[-1], ends[1], atol=1e-3)


def test_limits_that_are_given_are_kept_and_clip() -> None:
    t = Tractogram.from_streamlines([line((1, 0, 0), 3), line((0, 1, 0), 11)])
    shown = colours.value_colours(t, t.lengths_mm, colormap="gray", limits=(0.0, 4.0))
    assert shown.limits == (0.0, 4.0)
    np.testing.assert_allclose(shown.rgba[[0, -1], 0], [0.5, 1.0], atol=2e-3)


def test_mean_curvature_of_a_circle_is_one_over_its_radius() -> None:
    angle = np.linspace(0, np.pi, 500)
    circles = [np.c_[r * np.cos(angle), r * np.sin(angle), 0 * angle] for r in (4.0, 20.0)]
    t = Tractogram.from_streamlines([circles[0], line((1, 0, 0)), circles[1], [(0, 0, 0)]])
    np.testing.assert_allclose(
        colours.mean_curvature_per_mm(t), [0.25, 0, 0.05, 0], rtol=5e-3, atol=1e-7
    )


def test_values_per_point_and_per_streamline_agree() -> None:
    t = Tractogram.from_streamlines([line((1, 0, 0), 3), line((0, 1, 0), 4)])
    per_line = colours.value_colours(t, [1.0, 2.0])
    per_point = colours.value_colours(t, [1.0] * 3 + [2.0] * 4)
    np.testing.assert_array_equal(per_line.rgba, per_point.rgba)


def test_values_that_are_no_number_are_grey_and_do_not_count() -> None:
    t = Tractogram.from_streamlines([line((1, 0, 0), 3)])
    shown = colours.value_colours(t, [np.nan, 1.0, 3.0], colormap="gray")
    assert shown.limits == (1.0, 3.0)
    np.testing.assert_allclose(shown.rgba[:, 0], [0.5, 0.0, 1.0], atol=1e-3)


@pytest.mark.parametrize("mode", ["weight", "helix angle"])
def test_where_there_is_no_value_the_legend_has_no_scale(mode: str) -> None:
    """Neither weights nor an axis: a scale from 0 to 1 would be read as if there were."""
    t = Tractogram.from_streamlines([line((1, 0, 0), 3)])
    shown = colours.MODES[mode].colours(t, colour=(1.0, 1.0, 1.0, 1.0), colormap="gray", axis=None)
    assert shown.limits is None
    ((text, rgb),) = shown.categories
    assert text.endswith("no values")
    np.testing.assert_allclose(shown.rgba[:, :3], [rgb] * 3, atol=1e-6)


def test_a_wrong_number_of_values_is_refused() -> None:
    with pytest.raises(InvalidTractogramError, match=r"\(4,\).* 1 streamlines or 3 points"):
        colours.value_colours(Tractogram.from_streamlines([line((1, 0, 0), 3)]), np.zeros(4))


def test_seeds_get_different_colours_and_streamlines_of_a_seed_the_same() -> None:
    t = Tractogram(np.zeros((6, 3)), np.arange(7), seed_index=[0, 0, 1, 2, 3, 4])
    rgb = colours.seed_colours(t).rgba[:, :3]
    np.testing.assert_array_equal(rgb[0], rgb[1])
    apart = np.linalg.norm(rgb[1:, None] - rgb[None, 1:], axis=2)
    assert apart[~np.eye(5, dtype=bool)].min() > 0.2


def test_each_half_has_the_colour_of_the_reason_at_its_end() -> None:
    reasons = [[StopReason.LEFT_MASK, StopReason.MAX_LENGTH]]
    t = Tractogram(line((1, 0, 0), 6), [0, 6], stop_reasons=reasons)
    shown = colours.stop_reason_colours(t)
    named = dict(shown.categories)
    np.testing.assert_allclose(shown.rgba[:3, :3], np.tile(named["left the mask"], (3, 1)))
    np.testing.assert_allclose(
        shown.rgba[3:, :3], np.tile(named["reached the maximum length"], (3, 1))
    )
    assert len(named) == 2


def test_every_reason_that_keeps_a_streamline_has_a_colour_of_its_own() -> None:
    kept = [reason for reason in StopReason if not reason.rejects]
    assert {*colours.REASON_COLOURS} == {*kept}
    assert len(set(colours.REASON_COLOURS.values())) == len(kept)


def test_one_colour_is_that_colour() -> None:
    t = Tractogram.from_streamlines([line((1, 0, 0), 3)])
    np.testing.assert_allclose(colours.single_colour(t, (0.1, 0.2, 0.3, 0.4)).rgba[2, 2], 0.3)


@pytest.mark.parametrize(
    ("colour", "rgba"),
    [
        pytest.param("red", (1, 0, 0, 1), id="name"),
        pytest.param("#00ff00", (0, 1, 0, 1), id="hex"),
        pytest.param("#0000ff33", (0, 0, 1, 0.2), id="hex with alpha"),
        pytest.param((0.25, 0.5, 0.75), (0.25, 0.5, 0.75, 1), id="RGB"),
        pytest.param(np.array([0.25, 0.5, 0.75, 0.5]), (0.25, 0.5, 0.75, 0.5), id="RGBA"),
    ],
)
def test_a_colour_is_what_napari_takes(colour: Any, rgba: tuple[float, ...]) -> None:
    assert colours.rgba_of(colour) == pytest.approx(rgba)
    layer = Streamlines(Tractogram.from_streamlines([line((1, 0, 0), 3)]))
    layer.colour = colour
    assert layer.colour_by == "one colour"
    np.testing.assert_allclose(layer.colours.rgba, np.tile(rgba, (3, 1)), atol=1e-6)


@pytest.mark.parametrize(
    "colour", ["rouge", "", None, 5, (1, 2), (255, 0, 0), (-1, 0, 0), (np.nan, 0, 0), ["red", "b"]]
)
def test_what_is_no_colour_is_refused(colour: Any) -> None:
    layer = Streamlines()
    before = layer.colour
    with pytest.raises(InvalidParameterError, match=r"colour is .*; give a name"):
        layer.colour = colour
    assert layer.colour == before
    assert layer.colour_by == "direction"


def by_number_of_points(tractogram: Tractogram, *, colormap: str, **_: Any) -> colours.Colours:
    counts = np.diff(tractogram.offsets)
    return colours.value_colours(tractogram, counts, label="Points", colormap=colormap)


def test_a_new_mode_is_one_row(monkeypatch: pytest.MonkeyPatch) -> None:
    mode = colours.Mode("number of points", by_number_of_points, is_local=False)
    monkeypatch.setitem(MODES, "points", mode)
    t = Tractogram.from_streamlines([line((1, 0, 0), 3), line((0, 1, 0), 5)])
    layer = Streamlines(t, colour_by="points", colormap="gray")
    assert "points" in layer.colour_modes
    np.testing.assert_allclose(layer.colours.rgba[:, 0], [0, 0, 0, 1, 1, 1, 1, 1], atol=1e-3)
    layer.append(Tractogram.from_streamlines([line((0, 1, 0), 4)]))
    np.testing.assert_allclose(layer.colours.rgba[-1, 0], 0.5, atol=1e-3)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    "tractogram",
    [
        pytest.param(Tractogram.empty(), id="empty"),
        pytest.param(Tractogram.from_streamlines([[(1, 1, 1)], [], line((1, 2, 3))]), id="small"),
    ],
)
def test_every_mode_colours_every_point(mode: str, tractogram: Tractogram) -> None:
    shown = MODES[mode].colours(tractogram, colour=colours.DEFAULT_COLOUR, colormap="turbo")
    # Limits that are the same for all streamlines, as of angles, need not wait for the others.
    is_number = shown.limits is not None or "no values" in str(shown.categories)
    assert MODES[mode].is_local is (not is_number or MODES[mode].about_axis)
    assert shown.rgba.shape == (tractogram.n_points, 4)
    assert shown.rgba.dtype == np.float32
    assert ((shown.rgba >= 0) & (shown.rgba <= 1)).all()
    assert shown.label
