"""A new orientation source is one file that gives SH coefficients; all else takes the Fod.

The toy: a field of unit vectors, one a voxel, as a TOM or the main eigenvector of a tensor is.
"""

from __future__ import annotations

import numpy as np
import pytest

from napari_tractography.fields.sh import sh_matrix
from napari_tractography.maps.fod_peaks import fod_peaks
from napari_tractography.model.fod import Fod
from napari_tractography.model.parameters import TrackingParameters
from napari_tractography.model.seeds import Seeds
from napari_tractography.tracking.engine import track

LMAX = 8
SHAPE = (20, 20, 3)
CENTRE = np.array([9.5, 9.5, 1.0])


def coefficients_of(vectors: np.ndarray) -> np.ndarray:
    """Return (x, y, z, n) SH coefficients of one smooth lobe along each of (x, y, z, 3) vectors."""
    degrees = np.concatenate([np.full(2 * deg + 1, deg) for deg in range(0, LMAX + 1, 2)])
    lobes = sh_matrix(vectors.reshape(-1, 3), LMAX, "tournier07")
    return (lobes * np.exp(-0.02 * degrees * (degrees + 1))).reshape(*vectors.shape[:3], -1)


@pytest.fixture(scope="module")
def vortex() -> tuple[Fod, np.ndarray]:
    """Fibres that run in circles around the middle of a plate, 1 mm voxels."""
    x, y, _ = np.moveaxis(np.indices(SHAPE) - CENTRE[:, None, None, None], 0, 0)
    vectors = np.stack([-y, x, np.zeros(SHAPE)], axis=-1)
    vectors /= np.linalg.norm(vectors, axis=-1, keepdims=True)
    return Fod(coefficients_of(vectors), np.eye(4), name="vortex"), vectors


@pytest.mark.parametrize("algorithm", ["probabilistic", "deterministic"])
def test_streamlines_follow_the_source(vortex: tuple[Fod, np.ndarray], algorithm: str) -> None:
    fod, _ = vortex
    radius = 6.0
    parameters = TrackingParameters(
        algorithm=algorithm, step_mm=0.2, max_angle_deg=15, max_length_mm=8, start="max"
    )
    seeds = Seeds.at(np.tile(CENTRE + np.array([radius, 0.0, 0.0]), (50, 1)))
    found = track(fod, seeds, parameters, backend="cpu")
    assert len(found) == 50
    distances = np.linalg.norm((found.points - CENTRE)[:, :2], axis=1)
    assert abs(np.median(distances) - radius) < 0.5
    along = np.abs([line[-1, 1] - line[0, 1] for line in found])
    assert np.median(along) > 5  # along the circle, not across it


def test_peaks_are_those_of_the_source(vortex: tuple[Fod, np.ndarray]) -> None:
    fod, vectors = vortex
    peaks = fod_peaks(fod, n_peaks=1)
    wanted = vectors[tuple(peaks.voxels.T)]
    assert len(wanted) == fod.n_voxels
    assert np.abs((peaks.directions * wanted).sum(axis=1)).min() > np.cos(np.radians(5))
