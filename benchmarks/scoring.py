"""Scores of streamlines against ground truth: which ends of which bundles they connect.

Called by ``validate.py``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.spatial import cKDTree

from napari_tractography import Seeds, Tractogram

REACH_MM = 1.0  # a voxel of the phantom
INSIDE_MM = 1.0  # seeds lie so far inside the end
SEED_RADIUS_MM = 0.25


@dataclass(frozen=True, slots=True)
class End:
    """One end of a bundle.

    Attributes
    ----------
    bundle : str
    points_mm : (n_lines, 3) float64
        Where the true streamlines end, RAS+ mm.
    seeds_mm : (n_lines, 3) float64
        Points of the true streamlines `INSIDE_MM` from that end.
    """

    bundle: str
    points_mm: np.ndarray
    seeds_mm: np.ndarray


def split_by_direction(lines: Sequence[np.ndarray]) -> list[list[np.ndarray]]:
    """Tell apart the bundles of one file: straight ones by where they point, else one.

    Two lines belong together where their chords differ by less than 30 degrees.
    """
    groups: list[tuple[np.ndarray, list[np.ndarray]]] = []
    for line in lines:
        chord = np.asarray(line[-1], dtype=np.float64) - line[0]
        chord /= np.linalg.norm(chord)
        for axis, members in groups:
            if axis @ chord > np.cos(np.deg2rad(30)):
                members.append(np.asarray(line, dtype=np.float64))
                break
        else:
            groups.append((chord, [np.asarray(line, dtype=np.float64)]))
    return [members for _, members in groups]


def ends_of(bundle: str, lines: Sequence[np.ndarray]) -> tuple[End, End]:
    """Return both ends of a bundle whose lines all run the same way."""
    return (
        End(bundle, np.array([line[0] for line in lines]), _inside(lines)),
        End(bundle, np.array([line[-1] for line in lines]), _inside([x[::-1] for x in lines])),
    )


def _inside(lines: Sequence[np.ndarray]) -> np.ndarray:
    """Return the point of each line that lies `INSIDE_MM` from its first along the line."""
    points = []
    for line in lines:
        along = np.concatenate([[0], np.cumsum(np.linalg.norm(np.diff(line, axis=0), axis=1))])
        points.append([np.interp(INSIDE_MM, along, line[:, axis]) for axis in range(3)])
    return np.array(points)


def draw_seeds(end: End, n: int, random_seed: int) -> Seeds:
    """Draw seeds as tckgen does from one small sphere a point: a random sphere, a point in it."""
    rng = np.random.default_rng(random_seed)
    centres = end.seeds_mm[rng.integers(len(end.seeds_mm), size=n)]
    directions = rng.normal(size=(n, 3))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    radii = SEED_RADIUS_MM * rng.uniform(size=(n, 1)) ** (1 / 3)
    return Seeds.at(centres + radii * directions)


def reached(streamlines: Tractogram, ends: Sequence[End]) -> np.ndarray:
    """Return (n_streamlines, n_ends) bool: at which ends of bundles each streamline ends.

    That is with its first or last point within `REACH_MM` of where a true streamline ends.
    """
    hits = np.zeros((len(streamlines), len(ends)), bool)
    tips = [
        streamlines.points[streamlines.offsets[:-1]],
        streamlines.points[streamlines.offsets[1:] - 1],
    ]
    for column, end in enumerate(ends):
        tree = cKDTree(end.points_mm)
        for tip in tips:
            hits[:, column] |= tree.query(tip)[0] <= REACH_MM
    return hits


@dataclass(frozen=True, slots=True)
class Score:
    """Counts over the streamlines from one end or from several.

    Attributes
    ----------
    n_streamlines : int
    valid : int
        Streamlines that end at the other end of their own bundle, and at no other bundle's.
    invalid : int
        Streamlines that end at an end of another bundle.
    passing : int
        Streamlines that come near to an end of another bundle with any of their points.
    """

    n_streamlines: int = 0
    valid: int = 0
    invalid: int = 0
    passing: int = 0

    def __add__(self, other: Score) -> Score:
        return Score(
            self.n_streamlines + other.n_streamlines,
            self.valid + other.valid,
            self.invalid + other.invalid,
            self.passing + other.passing,
        )

    @property
    def valid_share(self) -> float:
        """Of all streamlines."""
        return self.valid / max(self.n_streamlines, 1)

    @property
    def invalid_share(self) -> float:
        """Of all streamlines."""
        return self.invalid / max(self.n_streamlines, 1)

    @property
    def passing_share(self) -> float:
        """Of all streamlines."""
        return self.passing / max(self.n_streamlines, 1)


def score(streamlines: Tractogram, ends: Sequence[End], start: int) -> Score:
    """Score streamlines that were seeded at ``ends[start]``."""
    hits = reached(streamlines, ends)
    own = np.array([end.bundle == ends[start].bundle for end in ends])
    other_end = own.copy()
    other_end[start] = False
    wrong = hits[:, ~own].any(axis=1)
    right = hits[:, other_end].any(axis=1) & ~wrong
    foreign = cKDTree(
        np.concatenate([end.points_mm for end, mine in zip(ends, own, strict=True) if not mine])
    )
    near = foreign.query(streamlines.points, distance_upper_bound=REACH_MM)[0] <= REACH_MM
    line_of = np.repeat(np.arange(len(streamlines)), np.diff(streamlines.offsets))
    passing = np.unique(line_of[near]).size
    return Score(len(streamlines), int(right.sum()), int(wrong.sum()), passing)
