"""Every map and measure of streamlines that have no points, one, or no length: none raises."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import napari_tractography as nt
from napari_tractography.errors import InvalidParameterError, InvalidTractogramError
from napari_tractography.maps.angles import Axis, helix_angles_deg, mean_curvature_per_mm, tangents
from napari_tractography.maps.bundle_measures import asymmetry, measure
from napari_tractography.maps.clusters import cluster
from napari_tractography.maps.likeness import distances_to_bundle, like_these
from napari_tractography.maps.plots import plot_connectome, plot_lengths
from napari_tractography.maps.scalar_maps import ScalarMap
from napari_tractography.maps.spreadsheets import lengths_table, measures_table
from napari_tractography.maps.visitation import visitation
from napari_tractography.streamlines.tractogram import Tractogram

GRID = nt.Grid((4, 4, 4), np.eye(4))
FAR = nt.Grid((4, 4, 4), [[1, 0, 0, 9], [0, 1, 0, 9], [0, 0, 1, 9], [0, 0, 0, 1]])
LABELS = np.arange(64).reshape(GRID.shape)
FA = ScalarMap(np.ones(GRID.shape, np.float32), GRID, "FA")
NONE, POINT = np.empty((0, 3)), [[1.0, 1, 1]]


@pytest.mark.parametrize(
    "lines",
    [
        pytest.param([], id="none"),
        pytest.param([NONE, NONE], id="without points"),
        pytest.param([POINT], id="one point"),
        pytest.param([POINT * 3], id="without length"),
        pytest.param([NONE, POINT, POINT * 3], id="of each"),
    ],
)
def test_there_is_a_number_or_one_sentence(lines: list) -> None:
    t = Tractogram.from_streamlines(lines)
    n, n_with_points = len(t), sum(len(line) > 0 for line in lines)
    for weights in (None, np.ones(n)):
        assert nt.density(t, GRID, weights=weights).sum() == n_with_points
        assert nt.density(t, GRID, weights=weights, ends_only=True).max() <= n_with_points
        for radius_mm, directed in itertools.product((0.0, 2.0), (False, True)):
            found = nt.connectome(
                t, LABELS, GRID, radius_mm=radius_mm, directed=directed, weights=weights
            )
            assert found.n_assigned == n_with_points
            assert not found.mean_lengths_mm.any()
    assert len(plot_connectome(found).axes) == 2  # the matrix and its scale, also of zeros
    if n:
        plot_lengths([t.lengths_mm], ["CST"])
    lengths_table(["CST"], [t.lengths_mm])
    for grid in (None, GRID):
        measured = measure(t, [FA], grid=grid, name="CST")
        assert measured.n_streamlines == n
        asymmetry(measured, measured)
    measures_table([measured])
    for weights in ("equal", "gaussian"):
        with pytest.raises(InvalidTractogramError, match="CST has no streamline with a length"):
            nt.profile(t, FA, 5, weights=weights, name="CST")
    assert len(cluster(t).labels(t)) == len(distances_to_bundle(t)) == len(FA.means_along(t)) == n
    axis = Axis((0, 0, 0), (0, 0, 1))
    directions = tangents(t)
    assert len(directions) == len(helix_angles_deg(t.points, directions, axis)) == t.n_points
    assert len(mean_curvature_per_mm(t)) == n
    for ends_only in (False, True):
        if n:
            visitation(t, GRID, ends_only=ends_only)
    for cavity in (nt.Region.sphere((9, 9, 9), 1, "resect"), nt.Region.mask(LABELS, FAR, "resect")):
        lost = nt.resection(t, cavity)
        assert (lost.n_streamlines, lost.n_lost) == (n, 0)
        assert np.isfinite(lost.margin_mm) == bool(n_with_points)
        assert lost.text
        assert np.isfinite(nt.margin_map(t, cavity, GRID)).sum() == bool(n_with_points)
    with pytest.raises(InvalidParameterError, match="no examples"):
        like_these(t, [], max_distance_mm=5.0)
    assert len(t.select(regions=[nt.Region.sphere(POINT[0], 1, "include")])) == n_with_points
