"""Half-streamlines side by side, each at a step of its own: arrive, draw, step.

Lanes are known by their numbers, of which functions take those that they are for.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from ..codes import (
    ASTRAY,
    BULGE,
    CLIP,
    EDGE_VOXEL,
    EVERYWHERE,
    FIRST_PROPOSALS,
    LEFT_IMAGE,
    LEFT_MASK,
    LOOK_BLOCK,
    LOW_AMPLITUDE,
    LOW_PROBABILITY,
    MARGIN,
    MAX_LENGTH,
    MAX_PROPOSALS,
    NEAREST,
    NO_FOD,
    ONWARD,
    PROPOSALS_A_BLOCK,
    PURPOSE_START,
    TWO_PI,
    UNIT_24,
    Field,
)
from ..plan import Plan
from .drawing import chances, limit_of, points_in_cone, random_words
from .evaluation import HALF, ZERO, Array, derivatives_at, positive, values_at
from .search import dot, largest_in_cones, normalised, turned
from .table import (
    are_filled,
    are_inside,
    cells_at,
    coefficients_at,
    ensure_rows,
    mixed,
    rows_at,
    sum_of_positive,
    to_voxel,
)

PROPOSALS, MOST_PROPOSALS = 4096, 32  # of all lanes together, and of each, in one pass


class Lanes:
    """Half-streamlines, or draws of start directions.

    Parameters
    ----------
    position : (3, n) float32
        Where they are, RAS+ mm.
    direction : (3, n) float32
        Unit vectors.
    stream : (n,) int
        Streamline ids.
    purpose : (n,) int
        Of their random numbers.
    """

    def __init__(
        self, plan: Plan, position: Array, direction: Array, stream: Array, purpose: Array
    ) -> None:
        n = position.shape[1]
        self.field, self.settings = field_of(plan), plan.settings
        self.position, self.direction = position.copy(), direction.copy()
        self.stream, self.purpose = stream & 0xFFFFFFFF, purpose
        self.is_start = bool((purpose == PURPOSE_START).all())
        self.steps, self.n_proposals = np.zeros(n, np.int64), np.zeros(n, np.int64)
        self.reason = np.zeros(n, np.int64)
        self.is_going, self.is_waiting = np.ones(n, bool), np.zeros(n, bool)
        self.has_moved = np.ones(n, bool)  # since the FOD was interpolated
        self.axis = direction.astype(np.float32)  # of the lobe that each follows
        self.is_fading = np.zeros(n, bool)  # draws once more, since the FOD fades ahead
        self.bound, self.mean = np.zeros(n, np.float32), np.zeros(n, np.float32)
        self.coefficients = np.zeros((self.field.values.shape[1], n), np.float32)

    def end(self, lanes: Array, reason: Array) -> None:
        """End lanes, each for its reason or all for one."""
        self.is_going[lanes] = False
        self.reason[lanes] = reason

    # -- the FOD -------------------------------------------------------------------------------

    def arrive(self, lanes: Array) -> None:
        """Find the FOD where lanes are; some end there, and others wait for rows to be filled."""
        field, settings = self.field, self.settings
        n_coefficients = len(self.coefficients)
        rows, weights, row = self._cells(lanes)
        is_there = are_filled(field, rows)
        self.is_waiting[lanes[~is_there]] = True
        if not is_there.all():
            lanes, row = lanes[is_there], row[is_there]
            rows, weights = rows[:, is_there], weights[:, is_there]
        half_floats = field.coefficients[rows, : n_coefficients + 1].view(np.float16)
        found = mixed(half_floats.astype(np.float32), weights).T
        bound = found[n_coefficients]
        self.coefficients[:, lanes], self.bound[lanes] = found[:n_coefficients], bound
        if settings.min_probability > ZERO:
            self.mean[lanes] = mixed(field.masses[rows], weights)
        self.has_moved[lanes] = False
        has_fod = bound > ZERO
        if settings.edge == EDGE_VOXEL:
            has_fod &= row != len(field.values)
        is_high = ~(positive(settings, bound) < settings.min_amplitude)
        self.end(lanes[has_fod & ~is_high], LOW_AMPLITUDE)
        self.end(lanes[~has_fod], NO_FOD)

    def fill_rows(self, lanes: Array) -> None:
        """Fill the rows of the table that :meth:`arrive` reads."""
        ensure_rows(self.field, self._cells(lanes)[0])

    def _cells(self, lanes: Array) -> tuple[Any, Any, Any]:
        is_nearest = self.settings.interpolation == NEAREST
        return cells_at(self.field, self.position[:, lanes], is_nearest)

    def _values(self, lanes: Array, directions: Array) -> Any:
        """Return the amplitudes of lanes at (3, k, n) directions, (k, n) float32."""
        values = values_at(self.field.shifts, self.coefficients[:, lanes], *directions)
        return positive(self.settings, values)

    @property
    def _points(self) -> Any:
        return self.field.sphere_points if self.is_start else self.field.cone_points

    def find_peaks(self, lanes: Array) -> tuple[Any, Any]:
        """Return the direction of the largest amplitude in the cones of lanes, and it."""
        peak, amplitude = largest_in_cones(
            self.field.shifts,
            self.coefficients[:, lanes],
            self._points,
            self.direction[:, lanes],
            EVERYWHERE if self.is_start else self.settings.cone_cosine,
            self.settings.cone_sine,
        )
        return peak, positive(self.settings, amplitude)

    # -- drawing -------------------------------------------------------------------------------

    def draws(self, cancelled: Array) -> Iterator[Any]:
        """Draw until all lanes have ended; yield again and again those with a next direction.

        Whoever takes them lets them step, or ends them. What takes many operations however few
        lanes it is for is deferred until it is for half of them.
        """
        while not cancelled[0] and self.is_going.any():
            drawing = np.flatnonzero(self.is_going & ~self.is_waiting)
            waiting = np.flatnonzero(self.is_going & self.is_waiting)
            if len(waiting) >= len(drawing):
                self.is_waiting[:] = False
                self.fill_rows(waiting[self.has_moved[waiting]])
                yield self._after_rejections(waiting[~self.has_moved[waiting]])
            else:
                self.arrive(drawing[self.has_moved[drawing]])
                yield self._draw(drawing[(self.is_going & ~self.has_moved)[drawing]])

    def _draw(self, lanes: Array) -> Any:
        """Propose some directions of each lane; return the lanes that have a direction now.

        Some of the others have ended, some wait for their cone to be sampled, the rest propose
        again.
        """
        if not len(lanes):
            return lanes
        settings, u = self.settings, self.direction[:, lanes]
        n = np.clip(PROPOSALS // len(lanes), 2, MOST_PROPOSALS) // 2 * 2
        n_proposals = self.n_proposals[lanes]
        limit = limit_of(n_proposals)
        first, second = self.random_words(lanes, n)
        height = np.float32(2) if self.is_start else settings.cone_height
        tried = turned(points_in_cone(first, second, height), u)
        amplitude = self._values(lanes, tried)
        is_taken = amplitude >= settings.min_amplitude
        is_taken &= chances(first, second) * positive(settings, self.bound[lanes]) < amplitude
        is_taken &= n_proposals + np.arange(n)[:, None] < limit
        has_one = is_taken.any(0)
        first_taken = is_taken.argmax(0)
        blocks = np.where(has_one, first_taken // PROPOSALS_A_BLOCK + 1, n // PROPOSALS_A_BLOCK)
        n_proposals = np.minimum(n_proposals + blocks * PROPOSALS_A_BLOCK, limit)
        self.n_proposals[lanes] = n_proposals
        chosen = lanes[has_one]
        which = first_taken[has_one], np.flatnonzero(has_one)
        taken, here = tried[:, *which], amplitude[which]
        if settings.lobe_cosine > ZERO and not self.is_start:
            is_own = ~self._in_another_lobe(chosen, taken, here)
            chosen, taken, here = chosen[is_own], taken[:, is_own], here[is_own]
        if settings.look_ahead > ZERO and not self.is_start:
            is_kept = ~self._fades(chosen, taken, here)
            chosen, taken = chosen[is_kept], taken[:, is_kept]
        if settings.min_probability > ZERO and not self.is_start and len(chosen):
            is_enough = ~self._below_cone_mass(chosen)
            self.end(chosen[~is_enough], LOW_PROBABILITY)
            chosen, taken = chosen[is_enough], taken[:, is_enough]
        self.direction[:, chosen] = taken / np.sqrt(dot(taken, taken))
        self.is_waiting[lanes] = ~has_one & (n_proposals == limit)
        return chosen

    def _in_another_lobe(self, lanes: Array, directions: Array, here: Array) -> Any:
        """Tell which lanes are to draw again, since they drew from another lobe; move their axes.

        `here` are the amplitudes along what they drew.
        """
        axis = self.axis[:, lanes]

        def amplitudes(units: Array) -> Any:
            found = values_at(self.field.shifts, self.coefficients[:, lanes], *units)
            return positive(self.settings, found)

        cosine = dot(directions, axis)
        along, between = amplitudes(axis), amplitudes(normalised(directions + axis))
        asks = self.n_proposals[lanes] < MAX_PROPOSALS
        between = np.maximum(between, ZERO)
        is_other = (between * between < BULGE * along * here) & (cosine > ASTRAY)
        is_other &= asks & (cosine < self.settings.lobe_cosine)
        is_higher = asks & ~is_other & (here > along) & (cosine > ONWARD)
        self.axis[:, lanes[is_higher]] = directions[:, is_higher]
        return is_other

    def _fades(self, lanes: Array, directions: Array, here: Array) -> Any:
        """Tell which lanes are to draw once more, since the FOD fades along what they drew.

        `here` are the amplitudes, where lanes are, along these directions.
        """
        settings = self.settings
        asks = ~self.is_fading[lanes] & (self.n_proposals[lanes] < MAX_PROPOSALS)
        fades = np.zeros(len(lanes), bool)
        lanes, directions = lanes[asks], directions[:, asks]
        if not len(lanes):
            return fades
        first, second = random_words(
            settings,
            self.stream[lanes],
            self.steps[lanes],
            np.full(len(lanes), LOOK_BLOCK * PROPOSALS_A_BLOCK),
            self.purpose[lanes],
            2,
        )
        words = np.array([first[0], second[0], first[1], second[1]])
        chances = (words >> 8).astype(np.float32) * UNIT_24
        # Of the voxels around one is chosen, with its trilinear weight.
        shares = HALF if settings.interpolation == NEAREST else chances[1:]
        places = self.position[:, lanes] + settings.look_ahead * directions
        voxels = np.floor(to_voxel(self.field.to_voxel, places) + shares).astype(np.int64)
        found = coefficients_at(self.field, rows_at(self.field, voxels))
        ahead = positive(settings, values_at(self.field.shifts, found, *directions))
        fades[asks] = ~(chances[0] * here[asks] < ahead)
        self.is_fading[lanes] = fades[asks]
        return fades

    def _below_cone_mass(self, lanes: Array) -> Any:
        """Tell whether too small a fraction of the FOD is in the cones of lanes."""
        settings, points = self.settings, self.field.cone_points
        directions = turned(points[:, :, None], self.direction[:, lanes])
        values = values_at(self.field.shifts, self.coefficients[:, lanes], *directions)
        total = sum_of_positive(values)
        mass = total / np.float32(points.shape[1]) * (HALF * settings.cone_height)
        return mass <= settings.min_probability * self.mean[lanes]

    def _after_rejections(self, lanes: Array) -> Any:
        """Find out why all proposals of lanes were rejected; return those with a direction now.

        Those where no amplitude in the cone reaches the floor end; the others propose again, maybe
        with a tighter bound.
        """
        settings = self.settings
        is_clear = self.n_proposals[lanes] == FIRST_PROPOSALS
        if is_clear.any():  # mostly samples are enough
            is_clear[is_clear] = self._sample_cone(lanes[is_clear])
            lanes = lanes[~is_clear]
        if not len(lanes):
            return lanes
        peak, amplitude = self.find_peaks(lanes)
        is_high = (amplitude > ZERO) & (amplitude >= settings.min_amplitude)
        self.end(lanes[~is_high], LOW_AMPLITUDE)
        is_last = is_high & (self.n_proposals[lanes] >= MAX_PROPOSALS)
        if settings.positivity == CLIP:
            again = is_high & ~is_last
            tighter = amplitude[again] * MARGIN
            self.bound[lanes[again]] = np.minimum(self.bound[lanes[again]], tighter)
        last, peak = lanes[is_last], peak[:, is_last]
        if settings.min_probability > ZERO and not self.is_start and len(last):
            is_enough = ~self._below_cone_mass(last)
            self.end(last[~is_enough], LOW_PROBABILITY)
            last, peak = last[is_enough], peak[:, is_enough]
        self.direction[:, last] = peak
        return last

    def _sample_cone(self, lanes: Array) -> Any:
        """Sample the cones of lanes; tell for which that is enough.

        It is where an amplitude reaches the floor, and where none can: those lanes end. None can
        where the FOD, as steep as it is at the best sample, would not reach the floor at the next.
        """
        settings, n_points = self.settings, self._points.shape[1]
        directions = turned(self._points[:, :, None], self.direction[:, lanes])
        seen = self._values(lanes, directions)
        best = seen.argmax(0), np.arange(len(lanes))
        largest = seen[best]
        is_enough = (largest > ZERO) & (largest >= settings.min_amplitude)
        if self.is_start or settings.positivity != CLIP:
            return is_enough
        missing = settings.min_amplitude - largest
        there = directions[:, *best]
        g = derivatives_at(self.field.shifts, self.coefficients[:, lanes], *there)[:3]
        along = dot(g, there)
        steepness = dot(g, g) - along * along
        area = TWO_PI * settings.cone_height / np.float32(n_points)  # of the cone, for each
        is_hopeless = ~is_enough & (missing > ZERO) & (missing * missing > steepness * area)
        self.end(lanes[is_hopeless], LOW_AMPLITUDE)
        return is_enough | is_hopeless

    def random_words(self, lanes: Array, n: int) -> tuple[Any, Any]:
        """Return two random words for each of the next `n` proposals, (n, n_lanes) uint32."""
        return random_words(
            self.settings,
            self.stream[lanes],
            self.steps[lanes],
            self.n_proposals[lanes],
            self.purpose[lanes],
            n,
        )

    # -- stepping ------------------------------------------------------------------------------

    def step(self, lanes: Array) -> Any:
        """Take a step; return the lanes that did."""
        settings = self.settings
        new = self.position[:, lanes] + settings.step * self.direction[:, lanes]
        reason = outside(self.field, new)
        self.end(lanes[reason != 0], reason[reason != 0])
        moved = lanes[reason == 0]
        self.position[:, moved] = new[:, reason == 0]
        self.steps[moved] += 1
        self.n_proposals[moved] = 0
        self.is_fading[moved] = False
        self.has_moved[moved] = True
        self.end(moved[self.steps[moved] >= settings.max_steps], MAX_LENGTH)
        return moved


def field_of(plan: Plan) -> Field:
    """Return the FOD of a plan that is tracked in NumPy, which follows coefficients alone."""
    assert isinstance(plan.field, Field)
    return plan.field


def outside(field: Field, position: Array) -> Any:
    """Return why streamlines cannot go to points, 0 where they can."""
    voxels = np.floor(to_voxel(field.to_voxel, position) + HALF).astype(np.int64)
    is_inside = are_inside(field, voxels)
    reason = np.where(is_inside, 0, LEFT_IMAGE)
    if field.mask.size:
        in_mask = field.mask[tuple(np.where(is_inside, voxels, 0))] != 0
        reason[is_inside & ~in_mask] = LEFT_MASK
    return reason
