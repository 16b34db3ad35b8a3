"""The symmetry of lobes: exact where it is known, and blind to noise and to how lobes point."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from napari_tractography.fields.readings import BASES
from napari_tractography.fields.sh import sh_matrix
from napari_tractography.maps.lobes import lobe_symmetry
from napari_tractography.model.fod import Fod


def _symmetry(fod: Fod) -> NDArray[np.float64]:
    above, below = lobe_symmetry(fod, np.arange(fod.n_voxels))
    return np.asarray(above.sum(axis=0) / below.sum(axis=0))


@pytest.mark.parametrize("basis", BASES)
def test_one_sharp_lobe_is_symmetric_in_its_basis_alone(basis: str) -> None:
    # A delta's coefficients are the harmonics themselves, but for the legacy normalisation.
    direction = np.array([[0.48, 0.6, 0.64]])
    delta = sh_matrix(direction, 4, "tournier07")[0]
    units = np.random.default_rng(3).normal(size=(300, 3))
    units /= np.linalg.norm(units, axis=1, keepdims=True)
    lobe = np.linalg.lstsq(
        sh_matrix(units, 4, basis), sh_matrix(units, 4, "tournier07") @ delta, rcond=None
    )[0]
    symmetry = _symmetry(Fod(np.broadcast_to(lobe, (4, 4, 4, 15)), np.eye(4)))
    assert np.argmax(symmetry) == BASES.index(basis)
    assert symmetry.max() == pytest.approx(1.0, abs=2e-3)  # lobes are sought on a set


@pytest.mark.parametrize("n_coefficients", [15, 45])
def test_noise_favours_no_basis(n_coefficients: int) -> None:
    noise = np.random.default_rng(0).normal(size=(16, 16, 16, n_coefficients))
    assert np.ptp(_symmetry(Fod(noise, np.eye(4)))) < 0.03
