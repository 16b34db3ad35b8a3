"""The whole brain of the benchmarks: where it lies, what it holds."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

AFFINE = np.array([[4.9, -0.3, 0.2, -30], [0.3, 5.0, -0.4, 12], [-0.2, 0.4, 5.1, 7], [0, 0, 0, 1]])


@pytest.fixture
def brain_volume(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """benchmarks/brain_volume.py as a module."""
    monkeypatch.syspath_prepend(str(Path(__file__).resolve().parents[2] / "benchmarks"))
    monkeypatch.delitem(sys.modules, "brain_volume", raising=False)
    import brain_volume

    return brain_volume


@pytest.fixture
def ramps() -> np.ndarray:
    """(9, 8, 7, 15): coefficients that rise along the axes around a bright middle voxel."""
    i, j, k = np.indices((9, 8, 7), np.float32)
    values = np.zeros((9, 8, 7, 15), np.float32)
    values[..., 0] = 10 + 0.3 * i + 0.2 * j + 0.1 * k
    values[..., 3] = 2 * i - j
    return values


def test_what_lies_in_the_middle_stays_there(
    brain_volume: ModuleType, ramps: np.ndarray, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(brain_volume, "NOISE", 0.0)
    fod = brain_volume.enlarged(ramps, AFFINE, name="ramps")
    assert fod.grid.shape == (27, 24, 21)
    np.testing.assert_allclose(
        fod.grid.voxel_sizes_mm, np.linalg.norm(AFFINE[:3, :3], axis=0) / 3, rtol=1e-6
    )
    inner = np.argwhere(np.ones(fod.grid.shape))
    i, j, k = np.linalg.solve(AFFINE, np.c_[fod.grid.to_mm(inner), np.ones(len(inner))].T)[
        :3
    ]  # voxels of the template
    between = (i > 0) & (i < 8) & (j > 0) & (j < 7) & (k > 0) & (k < 6)
    found = fod.coefficients.reshape(-1, 45)[between]
    np.testing.assert_allclose(found[:, 0], (10 + 0.3 * i + 0.2 * j + 0.1 * k)[between], rtol=1e-5)
    np.testing.assert_allclose(found[:, 3], (2 * i - j)[between], atol=1e-4)


def test_the_edges_of_the_image_stay_where_they_are(
    brain_volume: ModuleType, ramps: np.ndarray
) -> None:
    fod = brain_volume.enlarged(ramps, AFFINE, name="ramps")
    low, high = np.full(3, -0.5), np.array(fod.grid.shape) - 0.5
    np.testing.assert_allclose(
        fod.grid.to_mm(np.stack([low, high])),
        (np.array([[-0.5, -0.5, -0.5, 1], [8.5, 7.5, 6.5, 1]]) @ AFFINE.T)[:, :3],
        atol=1e-3,
    )


def test_noise_is_on_every_coefficient_of_tissue_and_nowhere_else(
    brain_volume: ModuleType,
) -> None:
    coefficients = np.zeros((20, 20, 20, 6), np.float32)
    coefficients[:10, ..., 0] = 5.0
    coefficients[10, ..., 0] = 0.9  # below a fifth of the largest: no tissue
    fod = brain_volume.noisy(coefficients, np.eye(4), name="half")
    assert fod.lmax == 8
    assert fod.n_voxels == 10 * 20 * 20
    assert not fod.support[10:].any()
    noise = fod.values - np.float32(5.0) * (np.arange(45) == 0)
    np.testing.assert_allclose(noise.std(axis=0), 0.02 * 5, rtol=0.06)
    assert abs(noise.mean()) < 1e-3
    again = brain_volume.noisy(coefficients, np.eye(4), name="half")
    np.testing.assert_array_equal(again.values, fod.values)


def test_without_the_template_a_volume_made_by_code_is_tracked(
    brain_volume: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(brain_volume, "TEMPLATE", tmp_path / "absent.nii.gz")
    monkeypatch.setattr(brain_volume.volume, "SHAPE", (20, 22, 24))
    monkeypatch.setattr(brain_volume.volume, "N_VOXELS", 2000)
    fod = brain_volume.make_brain()
    assert (fod.grid.shape, fod.n_voxels, fod.lmax) == ((20, 22, 24), 2000, 8)
