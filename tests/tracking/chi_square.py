"""Chi-square of directions over bins of equal solid angle.

Fixed seeds: a test either always passes or always fails. Bins with fewer than five expected draws
are merged. Draws of probability zero fail at once, but for the few that rounding to half floats
lets in at the border of a floor.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.stats import chisquare
from toys import tangents

LEAST_EXPECTED = 5.0
ROUNDED = 1e-3  # fraction of draws that may lie where only rounding lets them
POINTS_A_SIDE = 24  # of each bin, where a density is integrated: 576 points a bin


@dataclass(frozen=True)
class ConeBins:
    """A cone cut into rings and sectors; 180 degrees stand for the whole sphere.

    ::

        \\  |  /      the outer ring covers as much of the sphere as the inner one
         \\ | /
    """

    axis: np.ndarray
    angle_deg: float
    n_rings: int = 6
    n_sectors: int = 12

    @property
    def height(self) -> float:
        """1 minus the cosine of the angle."""
        return 1.0 - float(np.cos(np.deg2rad(self.angle_deg)))

    def counts(self, units: np.ndarray) -> np.ndarray:
        """(n_bins,): how many of (n, 3) unit vectors fall into each bin."""
        a, b = tangents(self.axis)
        down = (1.0 - units @ self.axis) / self.height
        assert down.max() < 1.0001, "a direction outside the cone was drawn"
        ring = np.minimum((down * self.n_rings).astype(int), self.n_rings - 1)
        turn = np.arctan2(units @ b, units @ a) / (2 * np.pi) % 1.0
        sector = np.minimum((turn * self.n_sectors).astype(int), self.n_sectors - 1)
        return np.bincount(ring * self.n_sectors + sector, minlength=self.n_rings * self.n_sectors)

    def masses(self, density: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
        """(n_bins,): integrals of a density over the bins, in proportion."""
        return self.in_bins(density(self.units()))

    def in_bins(self, values: np.ndarray) -> np.ndarray:
        """(n_bins,): sums of what is known at `units`."""
        shape = (self.n_rings, POINTS_A_SIDE, self.n_sectors, POINTS_A_SIDE)
        return values.reshape(shape).sum(axis=(1, 3)).ravel()

    def units(self) -> np.ndarray:
        """(n, 3): the middles of as many parts of equal solid angle."""
        down = self._middles(self.n_rings) * self.height
        azimuth = self._middles(self.n_sectors) * 2 * np.pi
        a, b = tangents(self.axis)
        across = np.cos(azimuth)[:, None] * a + np.sin(azimuth)[:, None] * b
        radius = np.sqrt(down * (2.0 - down))[:, None, None]
        return ((1.0 - down)[:, None, None] * np.asarray(self.axis) + radius * across).reshape(
            -1, 3
        )

    @staticmethod
    def _middles(n: int) -> np.ndarray:
        return (np.arange(n * POINTS_A_SIDE) + 0.5) / (n * POINTS_A_SIDE)

    def p_value(self, units: np.ndarray, density: Callable[[np.ndarray], np.ndarray]) -> float:
        """p of Pearson's chi-square of directions that should have a density."""
        return p_value(self.counts(units), self.masses(density))


def p_value(counts: np.ndarray, masses: np.ndarray) -> float:
    """p of Pearson's chi-square of counts that should be in proportion to masses."""
    impossible = masses == 0
    n_wrong = counts[impossible].sum()
    assert n_wrong <= ROUNDED * counts.sum(), "something of probability zero was drawn"
    counts, masses = counts[~impossible], masses[~impossible]
    observed = counts.astype(np.float64)
    expected = masses / masses.sum() * observed.sum()
    rare = expected < LEAST_EXPECTED
    observed, expected = (
        np.append(values[~rare], values[rare].sum()) for values in (observed, expected)
    )
    if expected[-1] < LEAST_EXPECTED:  # too little even together: into the smallest of the others
        smallest = np.argmin(expected[:-1])
        expected[smallest] += expected[-1]
        observed[smallest] += observed[-1]
        observed, expected = observed[:-1], expected[:-1]
    assert len(expected) > 1, "one bin proves nothing"
    return float(chisquare(observed, expected).pvalue)
