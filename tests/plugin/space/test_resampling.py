"""Volumes brought onto the axes of an FOD, beside nibabel's resampling of their files."""

from __future__ import annotations

import nibabel as nib
import numpy as np
import pytest
from napari.layers import Image, Labels
from nibabel.processing import resample_from_to

from napari_tractography.errors import InvalidGridError
from napari_tractography.geometry.grid import Grid
from napari_tractography.plugin.space import resampling
from napari_tractography.plugin.space.display import DisplaySpace, display_space_of_layer
from napari_tractography.plugin.space.resampling import Resampling

SHAPE = (11, 9, 7)
STRAIGHT = np.array([[-2.0, 0, 0, 40], [0, 2.5, 0, -7], [0, 0, 3, 5], [0, 0, 0, 1]])


def turned(degrees: float, affine: np.ndarray, axis: int = 0) -> np.ndarray:
    """Return an affine turned about an axis through the origin."""
    a, b = (k for k in range(3) if k != axis)
    rotation, angle = np.eye(4), np.deg2rad(degrees)
    rotation[[a, a, b, b], [a, b, a, b]] = (
        np.cos(angle),
        -np.sin(angle),
        np.sin(angle),
        np.cos(angle),
    )
    return rotation @ affine


CASES = [
    pytest.param(turned(20, STRAIGHT), STRAIGHT, id="oblique on straight"),
    pytest.param(STRAIGHT, turned(20, STRAIGHT), id="straight on oblique"),
    pytest.param(turned(-25, STRAIGHT, 2), turned(15, STRAIGHT), id="both"),
    pytest.param(turned(10, STRAIGHT)[:, [2, 0, 1, 3]], STRAIGHT, id="axes in another order"),
]


@pytest.mark.parametrize(("own", "fod"), CASES)
@pytest.mark.parametrize("kind", [Image, Labels])
def test_values_and_places_are_nibabels(own: np.ndarray, fod: np.ndarray, kind: type) -> None:
    rng, grid = np.random.default_rng(1), Grid(SHAPE, own)
    volume = rng.random(SHAPE, np.float32) if kind is Image else rng.integers(0, 9, SHAPE, np.uint8)
    shown = DisplaySpace.of(grid)
    layer = kind(shown.volume(volume), name="T1", **shown.layer_kwargs)
    space = DisplaySpace.of(Grid((30, 30, 30), fod))
    assert space.apart(display_space_of_layer(layer)) > 1
    found = Resampling.of(layer, space)
    copy = found.copy_of(layer, found.values(layer.data))
    assert (type(copy), copy.name, copy.data.dtype) == (kind, "T1 on the FOD", volume.dtype)
    assert space.apart(display_space_of_layer(copy)) < 1e-3  # of a voxel of 2 mm: float32
    order = 1 if kind is Image else 0
    there = (found.shape[::-1], copy.metadata["affine"])
    expected = resample_from_to(nib.Nifti1Image(volume, own), there, order=order).get_fdata()
    given = np.asarray(copy.data).transpose(2, 1, 0)
    far = ~np.isclose(given, expected, atol=1e-5)
    assert far.mean() < 0.005  # where two voxels are as near, or the edge is
    assert np.count_nonzero(given) > 0.4 * volume.size


def test_the_whole_volume_is_on_the_copy() -> None:
    """Its corners come to lie on it, and nothing is larger than that takes."""
    grid = Grid(SHAPE, turned(20, STRAIGHT))
    shown = DisplaySpace.of(grid)
    layer = Image(shown.volume(np.ones(SHAPE, np.float32)), **shown.layer_kwargs)
    space = DisplaySpace.of(Grid((30, 30, 30), STRAIGHT))
    found = Resampling.of(layer, space)
    ends = [(-0.5, n - 0.5) for n in SHAPE]
    corners = grid.to_mm(np.stack(np.meshgrid(*ends), axis=-1).reshape(-1, 3))
    places = (space.shown_at(corners) - found.translate) / found.scale
    assert places.min(axis=0) == pytest.approx(-0.5, abs=0.5)
    assert places.max(axis=0) == pytest.approx(np.array(found.shape) - 0.5, abs=0.5)
    assert (places.min(axis=0) >= -0.501).all()
    assert (places.max(axis=0) <= np.array(found.shape) - 0.499).all()


def test_what_would_be_too_large_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resampling, "MOST_VOXELS", 700)
    shown = DisplaySpace.of(Grid(SHAPE, turned(20, STRAIGHT)))
    layer = Image(np.ones(SHAPE[::-1], np.float32), name="T1", **shown.layer_kwargs)
    with pytest.raises(InvalidGridError, match=r"T1 would have .* resample it to larger ones"):
        Resampling.of(layer, DisplaySpace.of(Grid((30, 30, 30), STRAIGHT)))
