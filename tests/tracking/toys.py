"""Tiny phantoms, and what the engine should do worked out by brute force in float64.

Nothing in here calls the engine: the FOD's amplitudes come from :meth:`Fod.amplitudes`, which other
tests compare with MRtrix3, and everything else is dot products and sums.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.spatial import cKDTree

from napari_tractography.fields.polynomials import shifts
from napari_tractography.fields.sh import sh_matrix
from napari_tractography.geometry.directions import direction_set
from napari_tractography.model.fod import Fod

POLE = int(direction_set(724)[:362, 2].argmax())  # the direction nearest to z

# Anisotropic, oblique, sheared and left-handed at once.
SKEWED = np.array(
    [[-1.9, 0.5, 0.3, 11.0], [0.4, 2.4, -0.2, -7.0], [0.2, 0.6, 1.5, 3.0], [0, 0, 0, 1.0]]
)


def degrees_of(lmax: int, is_asymmetric: bool = False) -> np.ndarray:
    """The degree of each coefficient."""
    every = np.arange(0, lmax + 1, 1 if is_asymmetric else 2)
    return np.repeat(every, 2 * every + 1)


def lobes(
    directions: np.ndarray, lmax: int, sharpness: float = 0.02, *, is_asymmetric: bool = False
) -> np.ndarray:
    """SH coefficients (..., n) of one smooth lobe along each of (..., 3) RAS+ unit vectors.

    Of all degrees it is a lobe to one side, with nothing to the other.
    """
    shape = np.shape(directions)[:-1]
    degrees = degrees_of(lmax, is_asymmetric)
    matrix = sh_matrix(np.reshape(directions, (-1, 3)), lmax, "tournier07", is_asymmetric)
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


def random_fod(
    lmax: int, *, shape=(4, 4, 4), affine=None, seed=0, is_asymmetric: bool = False
) -> Fod:
    """Every voxel its own random lobes on a positive floor, with negative parts; one is empty.

    ::

        * ~ *
        ~ . ~
        * ~ *
    """
    rng = np.random.default_rng(seed)
    degrees = degrees_of(lmax, is_asymmetric)
    values = rng.normal(size=(*shape, len(degrees))) / np.sqrt(degrees + 1.0)
    values[..., 0] = rng.uniform(0.3, 2.0, size=shape)
    values[0, 0, 0] = 0
    return Fod(values, np.eye(4) if affine is None else affine, name="random")


def crossing_fod(
    *, shape=(4, 4, 4), affine=None, seed=0, lmax=8, is_asymmetric: bool = False
) -> Fod:
    """Every voxel three lobes, along directions of its own, the weakest half as strong.

    ::

        * X *
        X * X
    """
    rng = np.random.default_rng(seed)
    units = rng.normal(size=(*shape, 3, 3))
    units /= np.linalg.norm(units, axis=-1, keepdims=True)
    weights = rng.uniform(0.5, 1.0, size=(*shape, 3, 1))
    values = (lobes(units, lmax, is_asymmetric=is_asymmetric) * weights).sum(axis=-2)
    return Fod(values, np.eye(4) if affine is None else affine, name="crossings")


def bundles_that_cross(
    degrees: float,
    lmax: int = 8,
    *,
    affine=None,
    is_asymmetric: bool = False,
    seed=0,
    noise: float = 0.01,
) -> Fod:
    r"""Two straight bundles that cross in the middle, 6 voxels thick, and some noise.

    ::

        = = _     _ = =      elsewhere there is no FOD
            = = = =
        = = ‾     ‾ = =
    """
    shape = np.array([40, 20, 10])
    affine = np.diag([2.0, 2.0, 2.0, 1.0]) if affine is None else np.asarray(affine)
    middle = (shape - 1) / 2
    away = (np.moveaxis(np.indices(shape), 0, -1) - middle) @ affine[:3, :3].T
    thick = 3.0 * np.linalg.norm(affine[:3, 1])
    along = affine[:3, 0] / np.linalg.norm(affine[:3, 0])
    beside = affine[:3, 1] - (affine[:3, 1] @ along) * along
    beside /= np.linalg.norm(beside)
    values = 0.0
    for angle in np.deg2rad([-degrees / 2, degrees / 2]):
        unit = np.cos(angle) * along + np.sin(angle) * beside
        lobe = lobes(unit, lmax, is_asymmetric=is_asymmetric)
        if is_asymmetric:
            lobe = lobe + lobes(-unit, lmax, is_asymmetric=True)
        inside = np.linalg.norm(np.cross(away, unit), axis=-1) < thick
        values = values + inside[..., None] * lobe
    numbers = np.random.default_rng(seed).normal(size=values.shape)
    values = values + noise * numbers * (values[..., :1] > 0)
    return Fod(values, affine, name="two bundles")


@dataclass(frozen=True)
class BruteForce:
    """The FOD at one position, in float64, by the definition: interpolated, then clipped."""

    fod: Fod
    coefficients: np.ndarray  # (n_coefficients,): in the FOD's own basis

    @classmethod
    def at(cls, fod: Fod, position_mm, *, interpolation: str) -> BruteForce:
        vox = (np.linalg.inv(fod.grid.affine) @ np.append(position_mm, 1.0))[:3]
        first = np.floor(vox if interpolation == "trilinear" else vox + 0.5).astype(int)
        mixed = np.zeros(fod.values.shape[1])
        for corner in np.ndindex(2, 2, 2) if interpolation == "trilinear" else [(0, 0, 0)]:
            index = first + corner
            if (index >= 0).all() and (index < fod.grid.shape).all():
                row = fod.voxel_rows[tuple(index)]
                weight = np.prod(1.0 - np.abs(vox - index)) if interpolation == "trilinear" else 1
                mixed += weight * fod.values[row].astype(np.float64) * (row >= 0)
        return cls(fod, mixed)

    def raw(self, units: np.ndarray) -> np.ndarray:
        """(n,): amplitudes along (n, 3) unit vectors, RAS+, without any positivity."""
        return self.fod.sample_matrix(units) @ self.coefficients

    def amplitudes(self, units: np.ndarray) -> np.ndarray:
        """(n,): amplitudes along (n, 3) unit vectors, clipped at 0."""
        return np.maximum(self.raw(units), 0.0)

    def peak(self, axis: np.ndarray, max_angle_deg: float) -> tuple[np.ndarray, float]:
        """The direction of the largest amplitude in a cone, by ever finer looks; and that."""
        best, spread = axis, max_angle_deg
        for n in (10_000, 500, 500):
            units = cone_points(best, spread, n)
            units = units[units @ axis >= np.cos(np.deg2rad(max_angle_deg)) - 1e-12]
            units = np.concatenate([best[None], units])
            amplitudes = self.raw(units)
            best = units[np.argmax(amplitudes)]
            spread *= 0.04
        return best, float(amplitudes.max())


def tangents(axis: np.ndarray) -> np.ndarray:
    """(2, 3): two unit vectors at right angles to a unit vector and to each other."""
    return np.linalg.svd(np.asarray(axis, dtype=np.float64)[None])[2][1:]


def cone_points(axis: np.ndarray, angle_deg: float, n: int) -> np.ndarray:
    """(n, 3) unit vectors spread evenly over the cone around an axis, in float64."""
    index = np.arange(n)
    z = 1.0 - (1.0 - np.cos(np.deg2rad(angle_deg))) * (index + 0.5) / n
    azimuth = index * np.pi * (3.0 - np.sqrt(5.0))
    a, b = tangents(axis)
    across = np.cos(azimuth)[:, None] * a + np.sin(azimuth)[:, None] * b
    return z[:, None] * np.asarray(axis) + np.sqrt(1.0 - z * z)[:, None] * across


def convolved(numbers, coefficients, units, lmax, is_asymmetric=False):
    """(n_fods, n): what tables/cone_mass.py has the numbers of, along (n, 3) unit vectors."""
    x, y, z = units.T
    value, at, k = np.zeros((len(coefficients), len(units))), 0, 1
    of_orders = shifts(lmax).astype(np.float64)
    sums = [(lmax, m) for m in range(lmax + 1)]
    sums += [(lmax - 1, m) for m in range(lmax)] if is_asymmetric else []
    for largest, m in sums:
        shift = of_orders[m]
        across = (x + 1j * y) ** m * (z if (largest - m) % 2 else 1.0)
        for power in range((largest - m) // 2, -1, -1):
            factor = np.polyval(numbers[k : k + power + 1], z * z - shift)
            for part in (across.real, across.imag) if m else (across.real,):
                value += coefficients[:, at, None] * (factor * part)
                at += 1
            k += power + 1
    assert k == len(numbers)
    return value


def unit_steps(first: np.ndarray, last: np.ndarray) -> np.ndarray:
    """(n, 3) unit vectors along which (n, 3) points went to (n, 3) points."""
    moved = np.asarray(last, dtype=np.float64) - first
    return moved / np.linalg.norm(moved, axis=1, keepdims=True)


def polyline_angles_deg(line: np.ndarray) -> np.ndarray:
    """Angles between successive segments of one streamline."""
    moved = np.diff(np.asarray(line, dtype=np.float64), axis=0)
    moved /= np.linalg.norm(moved, axis=1, keepdims=True)
    return np.rad2deg(np.arccos(np.clip((moved[1:] * moved[:-1]).sum(axis=1), -1, 1)))


def random_tensors(rng, shape) -> tuple[np.ndarray, np.ndarray]:
    """(x, y, z, 6) in MRtrix3's order, and (x, y, z, 3, 3), positive definite."""
    roots = rng.normal(size=(*shape, 3, 3))
    full = 1e-3 * (roots @ np.swapaxes(roots, -1, -2) + 0.1 * np.eye(3))
    places = ([0, 1, 2, 0, 0, 1], [0, 1, 2, 1, 2, 2])
    return full[..., places[0], places[1]], full


def random_vectors(kind: str, shape=(7, 6, 5)) -> Fod:
    """Peaks or tensors to all sides, some voxels without."""
    rng = np.random.default_rng(11)
    if kind == "tensor":
        return Fod.from_tensors(random_tensors(rng, shape)[0], SKEWED)
    peaks = rng.normal(size=(*shape, 3, 3))
    peaks[rng.random(shape) < 0.1] = np.nan
    peaks[..., 2, :][rng.random(shape) < 0.5] = 0.0
    return Fod.from_peaks(peaks, SKEWED)


def farthest_deg(points: np.ndarray, probes: np.ndarray) -> float:
    """The largest angle from any probe to the nearest of the points."""
    chord = cKDTree(points).query(probes)[0].max()
    return float(np.degrees(2 * np.arcsin(chord / 2)))
