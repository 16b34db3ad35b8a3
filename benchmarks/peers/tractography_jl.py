"""The kernel of Tractography.jl as a contestant: the baseline of the endpoints-only comparison.

Written from the description of its algorithm, the "tractography Markov chain": nearest voxel; a
float32 table of 401 directions of the whole sphere a voxel; cones evaluated once into a matrix;
each step scans the directions of the voxel once for the total mass and the mass in the cone, and
once more for the cumulative sum that the random number is compared with. Output is padded to the
largest number of steps, or the two ends only.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
from numba import njit

from napari_tractography.model.fod import Fod
from napari_tractography.tracking.speed import Case

N_DIRECTIONS = 401
MIN_PROBABILITY = 0.005


@dataclass(frozen=True, slots=True)
class Paths:
    """Streamlines from their seeds in one direction.

    Attributes
    ----------
    points_mm : (n_seeds, 2, 3) or (n_seeds, max_steps + 1, 3) float32
        RAS+ mm: both ends, or all points, zeros behind the last.
    n_steps : (n_seeds,) int32
    """

    points_mm: np.ndarray
    n_steps: np.ndarray


@dataclass(frozen=True, slots=True)
class Model:
    """The tables and the settings of a run.

    Attributes
    ----------
    table : (x, y, z, n_directions) float32
        Amplitudes, not negative; zeros outside the mask.
    directions : (n_directions, 3) float32
    cone : (n_directions, n_directions) bool
    to_voxel : (3, 4) float32
    """

    table: np.ndarray
    directions: np.ndarray
    cone: np.ndarray
    to_voxel: np.ndarray
    step_mm: float
    max_steps: int

    @classmethod
    def of(
        cls,
        fod: Fod,
        mask: np.ndarray,
        *,
        step_mm: float,
        max_angle_deg: float,
        max_steps: int,
        n_directions: int = N_DIRECTIONS,
    ) -> Model:
        """Tabulate an FOD within a mask."""
        directions = whole_sphere(n_directions)
        table = np.maximum(fod.amplitudes(directions), np.float32(0))
        table[~mask] = 0
        cosines = directions.astype(np.float64) @ directions.astype(np.float64).T
        return cls(
            table=table,
            directions=directions,
            cone=cosines >= np.cos(np.deg2rad(max_angle_deg)) - 1e-7,
            to_voxel=np.ascontiguousarray(fod.grid.inverse[:3], dtype=np.float32),
            step_mm=step_mm,
            max_steps=max_steps,
        )

    def track(
        self, seeds_mm: np.ndarray, *, n_threads: int, endpoints: bool, random_seed: int = 1
    ) -> Paths:
        """Track (n, 3) seeds, RAS+ mm."""
        n = len(seeds_mm)
        points = np.zeros((n, 2 if endpoints else self.max_steps + 1, 3), np.float32)
        n_steps = np.zeros(n, np.int32)
        edges = np.linspace(0, n, 8 * n_threads + 1).astype(int)

        def run(part: int) -> None:
            first, last = edges[part], edges[part + 1]
            track_seeds(
                seeds_mm[first:last],
                first,
                random_seed,
                self.table,
                self.directions,
                self.cone,
                self.to_voxel,
                np.float32(self.step_mm),
                self.max_steps,
                np.float32(MIN_PROBABILITY),
                endpoints,
                points[first:last],
                n_steps[first:last],
            )

        with ThreadPoolExecutor(n_threads) as pool:
            list(pool.map(run, range(len(edges) - 1)))
        return Paths(points, n_steps)


def whole_sphere(n: int) -> np.ndarray:
    """Return (n, 3) float32 unit vectors, a Fibonacci lattice over the whole sphere."""
    index = np.arange(n)
    z = 1 - (2 * index + 1) / n
    azimuth = index * np.pi * (3 - np.sqrt(5))
    radius = np.sqrt(1 - z * z)
    return np.stack([radius * np.cos(azimuth), radius * np.sin(azimuth), z], 1).astype(np.float32)


@njit(nogil=True, inline="always")
def next_uniform(state):
    """Return the next number in [0, 1) of splitmix64 and its state."""
    state = state + np.uint64(0x9E3779B97F4A7C15)
    z = state
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    z = z ^ (z >> np.uint64(31))
    return np.float32(z >> np.uint64(40)) * np.float32(2.0**-24), state


@njit(nogil=True, inline="always")
def voxel_of(row, x, y, z):
    """Return one coordinate of the voxel that a point lies in."""
    return np.int64(np.floor(row[0] * x + row[1] * y + row[2] * z + row[3] + np.float32(0.5)))


@njit(nogil=True)
def draw(amplitudes, allowed, mass, uniform):
    """Return the direction at which the cumulative sum over the allowed ones passes the draw."""
    target = uniform * mass
    cumulative = np.float32(0)
    last = -1
    for j in range(amplitudes.shape[0]):
        if allowed[j] and amplitudes[j] > 0:
            last = j
            cumulative += amplitudes[j]
            if cumulative > target:
                break
    return last


@njit(nogil=True)
def masses(amplitudes, allowed):
    """Return the sum of all amplitudes and of the allowed ones."""
    total = np.float32(0)
    inside = np.float32(0)
    for j in range(amplitudes.shape[0]):
        total += amplitudes[j]
        if allowed[j]:
            inside += amplitudes[j]
    return total, inside


@njit(nogil=True)
def track_seeds(
    seeds,
    first,
    random_seed,
    table,
    directions,
    cone,
    to_voxel,
    step,
    max_steps,
    min_probability,
    endpoints,
    points,
    n_steps,
):
    """Track seeds in this thread; fill `points` and `n_steps`."""
    everywhere = np.ones(directions.shape[0], np.bool_)
    for seed in range(seeds.shape[0]):
        state = np.uint64(first + seed) * np.uint64(0xD1342543DE82EF95) + np.uint64(random_seed)
        x, y, z = seeds[seed, 0], seeds[seed, 1], seeds[seed, 2]
        points[seed, 0, 0], points[seed, 0, 1], points[seed, 0, 2] = x, y, z
        current = -1
        steps = 0
        while steps < max_steps:
            ix = voxel_of(to_voxel[0], x, y, z)
            iy = voxel_of(to_voxel[1], x, y, z)
            iz = voxel_of(to_voxel[2], x, y, z)
            inside_x = 0 <= ix < table.shape[0]
            if not (inside_x and 0 <= iy < table.shape[1] and 0 <= iz < table.shape[2]):
                break
            amplitudes = table[ix, iy, iz]
            allowed = everywhere if current < 0 else cone[current]
            total, inside = masses(amplitudes, allowed)
            if inside <= min_probability * total:
                break
            uniform, state = next_uniform(state)
            current = draw(amplitudes, allowed, inside, uniform)
            x += step * directions[current, 0]
            y += step * directions[current, 1]
            z += step * directions[current, 2]
            steps += 1
            if not endpoints:
                points[seed, steps, 0], points[seed, steps, 1] = x, y
                points[seed, steps, 2] = z
        if endpoints:
            points[seed, 1, 0], points[seed, 1, 1], points[seed, 1, 2] = x, y, z
        n_steps[seed] = steps


class TractographyJl:
    """Tractography.jl's kernel, ported to Numba; streamlines run from the seed one way only."""

    label = "Tractography.jl's kernel in Numba"

    def missing(self) -> str:
        return ""

    def prepare(self, case: Case) -> None:
        self._case = case
        self._model = Model.of(
            case.fod,
            case.mask,
            step_mm=case.step_mm,
            max_angle_deg=case.max_angle_deg,
            max_steps=int(case.max_length_mm / case.step_mm),
        )

    def make_seeds(self, n: int) -> None:
        self._seeds = self._case.seeds(n).positions_mm

    def run(self, n: int) -> Any:
        return self._model.track(self._seeds, n_threads=self._case.n_threads, endpoints=True)

    def steps(self, result: Any) -> int:
        return int(result.n_steps.sum())
