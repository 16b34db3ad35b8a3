"""Tensors in the orders and axes of three programs; their ODFs."""

from __future__ import annotations

import numpy as np
import pytest

from napari_tractography.errors import InvalidFodError, InvalidParameterError
from napari_tractography.fields.sh import sh_matrix
from napari_tractography.fields.tensors import (
    KIND,
    ODF_LMAX,
    fractional_anisotropy,
    odf,
    odf_coefficients,
)
from napari_tractography.geometry.directions import direction_set
from napari_tractography.model.fod import Fod
from napari_tractography.model.stop import StopReason

FULL = np.array([[3.0, 0.4, 0.2], [0.4, 2.0, 0.1], [0.2, 0.1, 1.0]]) * 1e-3
XX, YY, ZZ, XY, XZ, YZ = (FULL[i, j] for i, j in ((0, 0), (1, 1), (2, 2), (0, 1), (0, 2), (1, 2)))
OBLIQUE = np.array([[1.6, -1.2, 0, 5], [1.2, 1.6, 0, 6], [0, 0, 2, 7], [0, 0, 0, 1.0]])
ORDERS = {
    "mrtrix": (XX, YY, ZZ, XY, XZ, YZ),
    "fsl": (XX, XY, XZ, YY, YZ, ZZ),
    "dipy": (XX, XY, YY, XZ, YZ, ZZ),
}


@pytest.mark.parametrize("order", ORDERS)
def test_elements_are_put_in_one_order(order):
    fod = Fod.from_tensors(np.reshape(ORDERS[order], (1, 1, 1, 6)), np.eye(4), order=order,
                           axes="scanner")  # fmt: skip
    np.testing.assert_allclose(fod.vectors.numbers, [ORDERS["mrtrix"]], rtol=1e-6)


@pytest.mark.parametrize(
    ("order", "flip"), [("mrtrix", None), ("fsl", (-1, 1, 1)), ("dipy", (1, 1, 1))]
)
def test_each_program_writes_its_own_axes(order, flip):
    """The affine is right-handed: FSL's x is turned round."""
    fod = Fod.from_tensors(np.reshape(ORDERS[order], (1, 1, 1, 6)), OBLIQUE, order=order)
    rotation = np.eye(3) if flip is None else OBLIQUE[:3, :3] / 2 @ np.diag(flip)
    expected = rotation @ FULL @ rotation.T
    places = ([0, 1, 2, 0, 0, 1], [0, 1, 2, 1, 2, 2])
    np.testing.assert_allclose(fod.vectors.numbers, [expected[places]], rtol=1e-5, atol=1e-8)


def prolate(ratio: float) -> np.ndarray:
    return np.array([[1.7, 1.7 * ratio, 1.7 * ratio, 0, 0, 0]], np.float32) * 1e-3


def test_the_odf_is_that_of_solid_angles_with_the_fa_as_its_largest_amplitude():
    """(d' D^-1 d)^(-3/2), normalised, is 1 / (4 pi) times the root of det D."""
    units = direction_set(4000).astype(np.float64)
    elements = np.array([ORDERS["mrtrix"]])
    closed = np.einsum("ni,ij,nj->n", units, np.linalg.inv(FULL), units) ** -1.5
    found = odf(elements, units)[0]
    np.testing.assert_allclose(found / found.mean(), closed / closed.mean(), rtol=1e-6)
    assert closed.mean() == pytest.approx(np.sqrt(np.linalg.det(FULL)), rel=1e-3)
    assert found.max() == pytest.approx(fractional_anisotropy(elements)[0], rel=2e-3)


@pytest.mark.parametrize(("ratio", "fa", "error"), [(0.3, 0.64, 0.002), (0.2, 0.77, 0.01),
                                                    (0.1, 0.89, 0.06)])  # fmt: skip
def test_the_error_of_the_expansion_is_as_stated(ratio, fa, error):
    units = direction_set(2000)[:1000].astype(np.float64)
    exact = odf(prolate(ratio), units)
    expanded = odf_coefficients(prolate(ratio)) @ sh_matrix(units, ODF_LMAX, "tournier07").T
    assert exact.max() == pytest.approx(fa, abs=0.01)
    assert np.abs(expanded - exact).max() < error * exact.max()
    assert expanded.min() > 0


def test_a_fibre_that_fades_is_told_by_its_fa():
    said = KIND.in_words(StopReason.LOW_AMPLITUDE.text)
    assert said == "the fibre fades: FA below the minimum amplitude"


def test_what_is_no_tensor_is_refused():
    good = np.tile(ORDERS["mrtrix"], (3, 1, 1, 1))
    with pytest.raises(InvalidFodError, match=r"t has shape \(3, 1, 1, 5\); give tensors as"):
        Fod.from_tensors(good[..., :5], np.eye(4), name="t")
    negative = good.copy()
    negative[:2, ..., 1] *= -1
    with pytest.raises(InvalidFodError, match="negative diagonal in 2 of 3 voxels; choose another"):
        Fod.from_tensors(negative, np.eye(4))
    with pytest.raises(InvalidParameterError, match="order = 'afni' is unknown"):
        Fod.from_tensors(good, np.eye(4), order="afni")
    with pytest.raises(InvalidFodError, match="no voxel with a tensor"):
        Fod.from_tensors(np.zeros_like(good), np.eye(4))


def test_a_few_broken_tensors_count_as_empty():
    some = np.tile(ORDERS["mrtrix"], (4, 1, 1, 1))
    some[0, ..., 0] = -1e-3
    some[1, ..., 3] = np.nan
    some[2, ..., 0] = 1e39  # beyond float32
    fod = Fod.from_tensors(some, np.eye(4))
    assert (fod.n_voxels, fod.n_invalid_voxels) == (1, 3)
    assert np.isfinite(fod.vectors.numbers).all()


def test_the_overview_is_the_fa():
    fod = Fod.from_tensors(np.concatenate([prolate(1.0), prolate(0.2)])[:, None, None], np.eye(4))
    values = 1.7e-3 * np.array([1.0, 0.2, 0.2])
    spread = np.sqrt(1.5 * np.square(values - values.mean()).sum() / np.square(values).sum())
    np.testing.assert_allclose(fod.overview().ravel(), [0, spread], atol=1e-3)
