"""Pictures of slices: opaque within the outline of the body, whatever is dark in it."""

from __future__ import annotations

import numpy as np
from napari.layers import Image
from scipy.ndimage import distance_transform_edt

from napari_tractography.plugin.layers.slice_pictures import SlicePictures, opacity_of


def speckled_disc(n=80, radius=30):
    """A disc of which half is bright, its rim is open in places, and a speck beside it."""
    rows, columns = np.ogrid[:n, :n]
    disc = (rows - n / 2) ** 2 + (columns - n / 2) ** 2 < radius**2
    bright = disc & (np.random.default_rng(0).random((n, n)) < 1 / 2)
    bright[n // 2 - 8 : n // 2 + 8, n // 2 : n // 2 + 20] = False  # a ventricle
    bright[2:4, 2:4] = True
    return disc, bright


def test_a_slice_has_no_holes_and_no_islands():
    disc, bright = speckled_disc()
    opacity = opacity_of(bright)
    depth = distance_transform_edt(disc)
    assert (opacity[depth > 4] > 0.9).all()
    away = distance_transform_edt(~disc)
    assert (opacity[away > 4] < 0.1).all()
    assert opacity[2:4, 2:4].max() < 0.1
    assert len(np.unique(np.round(opacity, 2))) > 10  # the outline is smooth


def test_parts_of_a_body_that_lie_apart_in_a_slice_are_all_seen():
    both = np.zeros((80, 80), bool)
    both[10:40, 10:40] = both[55:70, 55:70] = True
    opacity = opacity_of(both)
    assert opacity[25, 25] > 0.9
    assert opacity[62, 62] > 0.9
    assert not opacity_of(np.zeros((80, 80), bool)).any()


def test_a_slice_is_painted_again_once_it_is_forgotten():
    volume = Image(np.ones((4, 6, 8), np.float32), contrast_limits=(0, 2))
    pictures = SlicePictures(volume)
    assert len(pictures.appearance) == 4
    first = pictures.of(0, 1)
    assert first.shape == (6, 8, 4)
    assert pictures.of(0, 1) is first
    assert pictures.seen(0, 1).all()
    volume.contrast_limits = (0, 1)
    pictures.forget()
    assert pictures.of(0, 1)[2, 2, 0] == 255 > first[2, 2, 0]
