"""Tiny phantoms, and what the engine should do worked out by brute force in float64.

Nothing in here calls the engine: the FOD's amplitudes come from :meth:`Fod.amplitudes`, which other
tests compare with MRtrix3, and everything else is dot products and sums.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.spatial import cKDTree

from napari_tractography.directions import direction_set
from napari_tractography.fields.sh import sh_matrix
from napari_tractography.fod import Fod

POLE = int(direction_set(724)[:362, 2].argmax())  # the direction nearest to z

# Anisotropic, oblique, sheared and left-handed at once.
SKEWED = np.array(
    [[-1.9, 0.5, 0.3, 11.0], [0.4, 2.4, -0.2, -7.0], [0.2, 0.6, 1.5, 3.0], [0, 0, 0, 1.0]]
)


def lobes(directions: np.ndarray, lmax: int, sharpness: float = 0.02) -> np.ndarray:
    """SH coefficients (..., n) of one smooth lobe along each of (..., 3) RAS+ unit vectors."""
    shape = np.shape(directions)[:-1]
    degrees = np.concatenate([np.full(2 * deg + 1, deg) for deg in range(0, lmax + 1, 2)])
    matrix = sh_matrix(np.reshape(directions, (-1, 3)), lmax, "tournier07")
    return (matrix * np.exp(-sharpness * degrees * (degrees + 1))).reshape(*shape, -1)


def straight_fod(shape=(12, 7, 5), affine=None, direction=0, lmax=8, n_directions=724) -> Fod:
    r"""Every voxel holds one and the same lobe, along a direction of the engine's own set.

    ::

        / / / / / /      deterministic tracking from its maximum goes straight,
        / / / / / /      along a direction that is known exactly
        / / / / / /
    """
    unit = direction_set(n_directions)[direction].astype(float)
    values = np.broadcast_to(lobes(unit, lmax), (*shape, (lmax + 1) * (lmax + 2) // 2))
    return Fod(values, np.eye(4) if affine is None else affine, name="straight")


def arc_fod(shape=(16, 16, 5), affine=None, lmax=8) -> Fod:
    """Fibres run on circles around the z axis through voxel (0, 0); each lobe is RAS+.

    ::

        - - . .          voxels nearer than 2 to the axis are empty
        . . \\ .
            . \\ .
        o   . | .
    """
    affine = np.eye(4) if affine is None else np.asarray(affine)
    i, j, _ = np.indices(shape)
    radius = np.hypot(i, j)
    around = np.stack([-j, i, np.zeros(shape)], axis=-1) / np.maximum(radius, 1)[..., None]
    world = around @ affine[:3, :3].T
    world /= np.maximum(np.linalg.norm(world, axis=-1, keepdims=True), 1e-9)
    world[radius < 2] = (0, 0, 1)
    values = lobes(world, lmax)
    values[radius < 2] = 0
    return Fod(values, affine, name="arc")


def random_fod(lmax: int, *, shape=(4, 4, 4), affine=None, seed=0) -> Fod:
    """Every voxel its own random lobes on a positive floor, with negative parts; one is empty.

    ::

        * ~ *
        ~ . ~
        * ~ *
    """
    rng = np.random.default_rng(seed)
    degrees = np.concatenate([np.full(2 * deg + 1, deg) for deg in range(0, lmax + 1, 2)])
    values = rng.normal(size=(*shape, len(degrees))) / np.sqrt(degrees + 1.0)
    values[..., 0] = rng.uniform(0.3, 2.0, size=shape)
    values[0, 0, 0] = 0
    return Fod(values, np.eye(4) if affine is None else affine, name="random")


@dataclass(frozen=True)
class BruteForce:
    """The FOD of one position over all directions, in float64, by the definition."""

    units: np.ndarray  # (n_directions, 3)
    amplitudes: np.ndarray  # (n_directions,): clipped in each voxel, then interpolated

    @classmethod
    def at(cls, fod: Fod, position_mm, *, interpolation: str, n_directions: int = 724):
        units = direction_set(n_directions).astype(np.float64)
        volume = np.maximum(fod.amplitudes(units).astype(np.float64), 0.0)
        vox = np.linalg.inv(fod.grid.affine) @ np.append(position_mm, 1.0)
        if interpolation == "nearest":
            return cls(units, volume[tuple(np.round(vox[:3]).astype(int))])
        mixed = np.zeros(n_directions)
        for corner in np.ndindex(2, 2, 2):
            index = np.floor(vox[:3]).astype(int) + corner
            weight = np.prod(1.0 - np.abs(vox[:3] - index))
            if (index >= 0).all() and (index < fod.grid.shape).all():
                mixed += weight * volume[tuple(index)]
        return cls(units, mixed)

    def cone(self, current: int, max_angle_deg: float) -> np.ndarray:
        """(n_directions,) bool: the directions within the angle of direction `current`."""
        angle = np.rad2deg(np.arccos(np.clip(self.units @ self.units[current], -1, 1)))
        return angle <= max_angle_deg

    def mass_fraction(self, allowed: np.ndarray) -> float:
        """Mass of the directions in `allowed` over the whole mass."""
        return float(self.amplitudes[allowed].sum() / self.amplitudes.sum())

    def probabilities(self, allowed: np.ndarray, floor: float = 0.0) -> np.ndarray:
        """(n_directions,): the distribution of the next direction."""
        mass = np.where(allowed & (self.amplitudes >= floor), self.amplitudes, 0.0)
        return mass / mass.sum()


def directions_between(first: np.ndarray, last: np.ndarray, n_directions: int = 724) -> np.ndarray:
    """Indices of the set's directions along which (n, 3) points went to (n, 3) points."""
    moved = np.asarray(last, dtype=np.float64) - first
    moved /= np.linalg.norm(moved, axis=1, keepdims=True)
    distance, index = cKDTree(direction_set(n_directions)).query(moved)
    assert distance.max() < 1e-3, "a step was not along a direction of the set"
    return index


def polyline_angles_deg(line: np.ndarray) -> np.ndarray:
    """Angles between successive segments of one streamline."""
    moved = np.diff(np.asarray(line, dtype=np.float64), axis=0)
    moved /= np.linalg.norm(moved, axis=1, keepdims=True)
    return np.rad2deg(np.arccos(np.clip((moved[1:] * moved[:-1]).sum(axis=1), -1, 1)))
