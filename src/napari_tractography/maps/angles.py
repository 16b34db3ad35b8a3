"""Angles of streamlines: how they turn, and how they run about an axis.

Angles about an axis describe the fibres of a heart or of a vessel.

Called by the colours of streamlines, and by scripts.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..errors import InvalidParameterError
from ..streamlines.tractogram import Tractogram

_NEAR = 1e-9  # of the length of the axis: a point on it has no side


@dataclass(frozen=True, slots=True)
class Axis:
    """A straight axis, from one end to the other, RAS+ mm.

    Which end comes first makes no difference to the angles about it.

    Raises InvalidParameterError when the ends are the same, or no positions.
    """

    start_mm: tuple[float, float, float]
    end_mm: tuple[float, float, float]

    def __post_init__(self) -> None:
        ends = np.asarray([self.start_mm, self.end_mm], dtype=np.float64)
        if ends.shape != (2, 3) or not np.isfinite(ends).all() or (ends[0] == ends[1]).all():
            raise InvalidParameterError(
                f"An axis from {self.start_mm} to {self.end_mm} mm has no direction; give two "
                "positions that differ."
            )

    @classmethod
    def of(cls, ends_mm: ArrayLike) -> Axis:
        """Return the axis between (2, 3) positions, RAS+ mm."""
        start, end = np.asarray(ends_mm, dtype=np.float64).tolist()
        return cls(tuple(start), tuple(end))

    @classmethod
    def of_numbers(cls, numbers: Any) -> Axis | None:
        """Return the axis that six numbers say, as a project keeps it; None where they say none."""
        try:
            return cls.of(np.reshape(np.asarray(numbers, dtype=np.float64), (2, 3)))
        except (TypeError, ValueError):
            return None

    @property
    def numbers(self) -> list[float]:
        """Both ends as six numbers, to be kept."""
        return [*self.start_mm, *self.end_mm]

    @property
    def direction(self) -> NDArray[np.float64]:
        """(3,) float64: from the first end to the other, of length 1."""
        along = np.subtract(self.end_mm, self.start_mm)
        return np.asarray(along / np.linalg.norm(along))

    def outwards(self, points_mm: ArrayLike) -> NDArray[np.float64]:
        """Return the vectors from the axis to (n, 3) positions, (n, 3) float64, mm."""
        away = np.asarray(points_mm, dtype=np.float64) - np.asarray(self.start_mm)
        return np.asarray(away - (away @ self.direction)[:, None] * self.direction)


def tangents(tractogram: Tractogram) -> NDArray[np.float64]:
    """Return the direction of the streamline at each point, (n_points, 3) float64 units, RAS+.

    The mean of the segments on both sides; NaN where there is none.
    """
    points = tractogram.points
    found = np.zeros((len(points), 3))
    if len(points) > 1:
        steps = np.diff(points.astype(np.float64), axis=0)
        steps[_breaks(tractogram)] = 0.0
        found[:-1] += steps
        found[1:] += steps
    norms = np.linalg.norm(found, axis=1, keepdims=True)
    return np.asarray(np.divide(found, norms, out=np.full_like(found, np.nan), where=norms > 0))


def helix_angles_deg(
    points_mm: ArrayLike, directions: ArrayLike, axis: Axis
) -> NDArray[np.float64]:
    """Return the helix angle of fibres about an axis, (n,) float64, -90 to 90 degrees.

    The angle between a fibre, seen from the axis, and the circle around it: 0 runs around, 90
    along the axis. A right-handed helix has positive angles, as fibres inside the left ventricle
    (Streeter et al., Circulation Research 24, 339, 1969). Points are (n, 3) RAS+ mm; what lies on
    the axis has no angle: NaN. Directions are (n, 3) RAS+, of any length and either sense.
    """
    outwards = axis.outwards(points_mm)
    reach = np.linalg.norm(np.subtract(axis.end_mm, axis.start_mm))
    around = np.cross(axis.direction, outwards)
    radius = np.linalg.norm(outwards, axis=1)
    units = np.asarray(directions, dtype=np.float64)
    along = units @ axis.direction
    across = np.einsum("ij,ij->i", units, around)
    angles = np.rad2deg(np.arctan2(along * radius, across))
    angles = (angles + 90.0) % 180.0 - 90.0  # either sense is the same fibre
    known = (radius > _NEAR * reach) & ((along != 0) | (across != 0))
    return np.asarray(np.where(known, angles, np.nan))


def elevations_deg(directions: ArrayLike, axis: Axis | None = None) -> NDArray[np.float64]:
    """Return how steeply fibres rise from the plane across an axis, (n,) float64, 0 to 90 degrees.

    Directions are (n, 3) RAS+, of any length and either sense; the axis is by default one from
    inferior to superior.
    """
    units = np.asarray(directions, dtype=np.float64)
    up = np.array([0.0, 0.0, 1.0]) if axis is None else axis.direction
    along = np.abs(units @ up)
    across = np.linalg.norm(units - (units @ up)[:, None] * up, axis=1)
    return np.asarray(np.where(along + across > 0, np.rad2deg(np.arctan2(along, across)), np.nan))


def mean_curvature_per_mm(tractogram: Tractogram) -> NDArray[np.float32]:
    """Return total turning angle (radians) over length (mm), (n_streamlines,) float32."""
    n = tractogram.n_streamlines
    if tractogram.n_points < 3:
        return np.zeros(n, dtype=np.float32)
    steps = np.diff(tractogram.points, axis=0).astype(np.float64)
    steps[_breaks(tractogram)] = 0.0
    length = np.linalg.norm(steps, axis=1)
    across = np.linalg.norm(np.cross(steps[:-1], steps[1:]), axis=1)
    turning = np.arctan2(across, np.einsum("ij,ij->i", steps[:-1], steps[1:]))
    turning[(length[:-1] == 0) | (length[1:] == 0)] = 0.0  # between streamlines
    line = np.repeat(np.arange(n), np.diff(tractogram.offsets))
    turned = np.bincount(line[1:-1], weights=turning, minlength=n)
    lengths = np.bincount(line[:-1], weights=length, minlength=n)
    return np.divide(turned, lengths, out=np.zeros(n), where=lengths > 0).astype(np.float32)


def _breaks(tractogram: Tractogram) -> NDArray[np.int64]:
    """Return the numbers of the segments that lead from one streamline to the next."""
    firsts = tractogram.offsets[1:-1]
    return np.asarray(firsts[(firsts > 0) & (firsts < tractogram.n_points)] - 1)
