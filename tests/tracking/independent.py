"""Tracking as the documents define it: slow, plain, one streamline after the other, in 64 bits.

Nothing of the package is in here: no tables, no kernels, no sampler, not its harmonics nor its
grid. An FOD is an array of coefficients and an affine. What the engine draws is checked against
:meth:`Reference.density`, where it ends against :meth:`Reference.end`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


def harmonics(units: np.ndarray, lmax: int) -> np.ndarray:
    """(..., n_coefficients): MRtrix3's real spherical harmonics of even degree at unit vectors.

    By the recursion of normalised Legendre functions, with cosines for m > 0 and sines for m < 0.
    """
    x, y, z = np.moveaxis(np.asarray(units, np.float64), -1, 0)
    sine, azimuth = np.hypot(x, y), np.arctan2(y, x)
    columns = {}
    start = np.full_like(z, np.sqrt(1 / (4 * np.pi)))  # of degree m
    for m in range(lmax + 1):
        before, now = np.zeros_like(z), start
        for degree in range(m, lmax + 1):
            if degree % 2 == 0:
                factor = np.sqrt(2.0) if m else 1.0
                columns[degree, m] = factor * now * np.cos(m * azimuth)
                columns[degree, -m] = factor * now * (np.sin(m * azimuth) if m else np.cos(0.0))
            a = np.sqrt((4 * (degree + 1) ** 2 - 1) / ((degree + 1) ** 2 - m**2))
            b = np.sqrt((degree**2 - m**2) / (4 * degree**2 - 1)) if degree else 0.0
            before, now = now, a * (z * now - b * before)
        start = -np.sqrt((2 * m + 3) / (2 * m + 2)) * sine * start
    order = [(degree, m) for degree in range(0, lmax + 1, 2) for m in range(-degree, degree + 1)]
    return np.stack([columns[one] for one in order], axis=-1)


def spread(axis: np.ndarray, cosine: float, n: int) -> np.ndarray:
    """(n, 3) unit vectors spread evenly over a cone: a spiral of golden angles."""
    k = np.arange(n) + 0.5
    height, turn = 1 - (1 - cosine) * k / n, k * np.pi * (3 - np.sqrt(5))
    side = np.cross(axis, np.eye(3)[np.argmin(np.abs(axis))])
    side /= np.linalg.norm(side)
    other = np.cross(axis, side)
    across = np.cos(turn)[:, None] * side + np.sin(turn)[:, None] * other
    return height[:, None] * axis + np.sqrt(1 - height**2)[:, None] * across


@dataclass(frozen=True)
class Reference:
    """An FOD, (x, y, z, n_coefficients), NaN or 0 where there is none, and how to track it."""

    coefficients: np.ndarray
    affine: np.ndarray
    step_mm: float
    max_angle_deg: float
    min_amplitude: float
    min_probability: float
    max_length_mm: float
    n_points: int = 300  # at which a cone is looked at

    @property
    def cosine(self) -> float:
        return float(np.cos(np.deg2rad(self.max_angle_deg)))

    def at(self, position: np.ndarray) -> np.ndarray | None:
        """The coefficients at a point in mm, mixed of eight voxels; None outside the image."""
        voxel = np.linalg.solve(self.affine[:3, :3], position - self.affine[:3, 3])
        if not ((voxel >= -0.5) & (voxel < np.array(self.coefficients.shape[:3]) - 0.5)).all():
            return None
        first, mixed = np.floor(voxel).astype(int), np.zeros(self.coefficients.shape[3])
        for corner in np.ndindex(2, 2, 2):
            place = first + corner
            if (place >= 0).all() and (place < self.coefficients.shape[:3]).all():
                mixed += np.prod(1 - np.abs(voxel - place)) * self.coefficients[tuple(place)]
        nearest = tuple(np.floor(voxel + 0.5).astype(int))
        return mixed if self.coefficients[nearest].any() else 0 * mixed

    def amplitudes(self, fod: np.ndarray, units: np.ndarray) -> np.ndarray:
        lmax = int((np.sqrt(8 * len(fod) + 1) - 3) / 2)
        return np.maximum(harmonics(units, lmax) @ fod, 0)

    def density(self, fod: np.ndarray, units: np.ndarray) -> np.ndarray:
        """What the next direction is drawn in proportion to, within the cone."""
        amplitudes = self.amplitudes(fod, units)
        return np.where(amplitudes >= self.min_amplitude, amplitudes, 0)

    def end(self, fod: np.ndarray | None, axis: np.ndarray) -> tuple[str, float]:
        """Why a streamline ends before a step, "" where it goes on; and how clear that is, from 0.

        Below 0.1 or so, how finely the cone is looked at decides.
        """
        if fod is None:
            return "LEFT_IMAGE", 1.0
        if not fod.any():
            return "NO_FOD", 1.0
        inside = self.amplitudes(fod, spread(axis, self.cosine, self.n_points))
        high = inside.max() / self.min_amplitude if self.min_amplitude else np.inf
        whole = self.amplitudes(fod, spread(axis, -1.0, 4 * self.n_points)).mean()
        mass = inside.mean() * (1 - self.cosine) / 2 / whole if whole else 0.0
        much = mass / self.min_probability if self.min_probability else np.inf
        if high < 1:
            return "LOW_AMPLITUDE", 1 - high
        return ("LOW_PROBABILITY", 1 - much) if much <= 1 else ("", min(high, much) - 1)

    def draw(self, fod: np.ndarray, axis: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """The next direction, by the definition: one of many, each as likely as its density."""
        units = spread(axis, self.cosine, 10 * self.n_points)
        density = self.density(fod, units)
        return units[rng.choice(len(units), p=density / density.sum())]

    def track(self, seed: np.ndarray, axis: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """The (n, 3) points of a streamline to one side, whose first step is along `axis`."""
        points, unit = [seed], axis
        while len(points) * self.step_mm <= self.max_length_mm:
            new = points[-1] + self.step_mm * unit
            fod = self.at(new)
            if fod is None:
                break
            points.append(new)
            if self.end(fod, unit)[0]:
                break
            unit = self.draw(fod, unit, rng)
        return np.array(points)
