"""The largest amplitude in each of many cones: sampled at directions spread over it, then
climbed to.

As :mod:`napari_tractography.tracking.cpu.sphere.ascent`, bit for bit. Vectors are triples of
(n,) float32, one number for each cone; coefficients are (n_coefficients, n). A cone is its axis u
and the cosine and sine of its half-angle; the cosine EVERYWHERE stands for the whole sphere.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..codes import CLIMBS, FAR, LOBES, NEAR, NOWHERE, PROMISING, STILL
from .evaluation import HALF, ONE, ZERO, Array, degrees_of, derivatives_at, values_at


def dot(a: Array, b: Array) -> Any:
    """Return the product of vectors, in the order in which it is summed everywhere."""
    return a[0] * b[0] + a[1] * b[1] + a[2] * b[2]


def normalised(vector: Array) -> Any:
    """Return vectors of length 1."""
    return vector / np.sqrt(dot(vector, vector))


def tangents(unit: Array) -> tuple[Any, Any]:
    """Return two unit vectors at right angles to unit vectors and to each other.

    After Duff et al., "Building an orthonormal basis, revisited", JCGT 6(1), 2017.
    """
    x, y, z = unit
    sign = np.where(z >= ZERO, ONE, -ONE)
    a = -ONE / (sign + z)
    b = x * y * a
    return (
        np.array([ONE + sign * x * x * a, sign * b, -ONE * sign * x]),
        np.array([b, sign + y * y * a, -ONE * y]),
    )


def turned(points: Array, unit: Array) -> Any:
    """Return directions around the z axis, turned to lie around others.

    Parameters
    ----------
    points : (3, k, 1) or (3, k, n) float32
    unit : (3, n) float32

    Returns
    -------
    (3, k, n) float32
    """
    first, second = tangents(unit)
    a, b, c = points
    return a * first[:, None] + b * second[:, None] + c * unit[:, None]


def times(h: tuple[Any, ...], vector: Array) -> Any:
    """Return the product of second derivatives, (hxx, hxy, hxz, hyz, hzz), and vectors."""
    hxx, hxy, hxz, hyz, hzz = h
    x, y, z = vector
    return (
        hxx * x + hxy * y + hxz * z,
        hxy * x - hxx * y + hyz * z,
        hxz * x + hyz * y + hzz * z,
    )


def degree_of(shifts: tuple[Array, ...]) -> Any:
    """Return the largest degree of the FOD, at least 2."""
    return np.float32(max(degrees_of(shifts)[0], 2))


def cosine_of(shifts: tuple[Array, ...], distance: Array) -> Any:
    """Return the cosine at a distance from 1, which is in units of 1 / lmax squared."""
    return ONE - distance / (degree_of(shifts) * degree_of(shifts))


def climb(
    shifts: tuple[Array, ...],
    coefficients: Array,
    u: Array,
    cosine: Array,
    sine: Array,
    start: Array,
    value: Array,
) -> tuple[Any, Any]:
    """Climb from directions, of amplitude `value`, to the peaks of their lobes within the cones.

    Newton's method on the sphere. On the border of a cone, where the amplitude still rises
    outwards, it goes along the border.

    Returns
    -------
    (3, n) and (n,) float32
        The peaks, never below where they began.
    """
    at = start.copy()
    on_border = np.zeros(at.shape[1], bool)
    left = np.arange(at.shape[1])
    far = FAR / degree_of(shifts)
    for _ in range(CLIMBS):
        if not len(left):
            break
        p, axis = at[:, left], u[:, left]
        gx, gy, gz, *h = derivatives_at(shifts, coefficients[:, left], *p)
        g = gx, gy, gz
        along = dot(g, p)
        new, size, is_stuck = _newton(p, g, h, along, far)
        outwards = on_border[left]
        if outwards.any():
            rise = dot(g, cosine * p - axis) / sine
            outwards = outwards & (rise > ZERO)
            new_there, size_there = _along_border(p, axis, g, h, along, rise, cosine, sine, far)
            new = np.where(outwards, new_there, new)
            size = np.where(outwards, size_there, size)
            is_stuck &= ~outwards
        new = normalised(new)
        along = dot(axis, new)
        beyond = outwards | (along < cosine)
        if beyond.any():
            new = np.where(beyond, cosine * axis + sine * normalised(new - along * axis), new)
        on_border[left] = beyond
        at[:, left] = np.where(is_stuck, p, new)
        left = left[~(is_stuck | (size < STILL))]
    reached = values_at(shifts, coefficients, *at)
    is_higher = reached >= value
    return np.where(is_higher, at, start), np.where(is_higher, reached, value)


def _newton(p: Array, g: Array, h: Any, along: Array, far: Array) -> tuple[Any, Any, Any]:
    """Return where a step leads, before it is made a unit vector; its square; what is stuck."""
    first, second = tangents(p)
    ga, gb = dot(g, first), dot(g, second)
    of_first = times(h, first)
    haa, hab = dot(of_first, first) - along, dot(of_first, second)
    hbb = dot(times(h, second), second) - along
    a, b, is_bent_down = _to_the_top(ga, gb, haa, hab, hbb)
    is_long = (a * a + b * b > far * far) | ~is_bent_down
    # Then as if it were bent down enough for a step no longer than `far` (Levenberg, 1944).
    half = HALF * (haa - hbb)
    largest = HALF * (haa + hbb) + np.sqrt(half * half + hab * hab)
    shift = np.where(largest > ZERO, largest, ZERO) + np.sqrt(ga * ga + gb * gb) / far
    careful_a, careful_b, _ = _to_the_top(ga, gb, haa - shift, hab, hbb - shift)
    a, b = np.where(is_long, careful_a, a), np.where(is_long, careful_b, b)
    size = a * a + b * b
    return p + a * first + b * second, size, ~(size > ZERO)


def _to_the_top(ga: Array, gb: Array, haa: Array, hab: Array, hbb: Array) -> tuple[Any, Any, Any]:
    """Return the step to the top of a quadratic function, and whether it has a top."""
    determinant = haa * hbb - hab * hab
    a = (hab * gb - hbb * ga) / determinant
    b = (hab * ga - haa * gb) / determinant
    return a, b, (haa < ZERO) & (determinant > ZERO)


def _along_border(
    p: Array,
    axis: Array,
    g: Array,
    h: Any,
    along: Array,
    rise: Array,
    cosine: Array,
    sine: Array,
    far: Array,
) -> tuple[Any, Any]:
    """Return where a step along the border of the cone leads, and its square."""
    ux, uy, uz = axis
    x, y, z = p
    across = np.stack([uy * z - uz * y, uz * x - ux * z, ux * y - uy * x]) / sine
    slope = dot(g, across)
    bend = dot(times(h, across), across) - along - rise * cosine / sine
    a = np.where(bend < ZERO, -slope / bend, np.where(slope > ZERO, far, -far))
    a = np.where(a > -far, a, -far)
    a = np.where(a < far, a, far)
    return p + a * across, a * a


def largest_in_cones(
    shifts: tuple[Array, ...],
    coefficients: Array,
    points: Array,
    u: Array,
    cosine: Array,
    sine: Array,
) -> tuple[Any, Any]:
    """Find the largest amplitude in each cone.

    Parameters
    ----------
    points : (3, k) float32
        Directions spread over the cone, around the z axis.

    Returns
    -------
    (3, n) and (n,) float32
        Where it is, and it.
    """
    directions = turned(points[:, :, None], u)
    values = values_at(shifts, coefficients, *directions)
    peak, highest = u.copy(), np.full(u.shape[1], NOWHERE)
    left = np.arange(u.shape[1])
    for _ in range(LOBES):
        best = values[:, left].argmax(0)
        value = values[best, left]
        is_promising = (value > PROMISING * highest[left]) & (value > NOWHERE)
        left, best, value = left[is_promising], best[is_promising], value[is_promising]
        if not len(left):
            break
        start = directions[:, best, left]
        top, value = climb(shifts, coefficients[:, left], u[:, left], cosine, sine, start, value)
        is_higher = value > highest[left]
        peak[:, left[is_higher]] = top[:, is_higher]
        highest[left[is_higher]] = value[is_higher]
        there = directions[:, :, left]
        near = cosine_of(shifts, NEAR)
        is_near = (dot(there, top) > near) | (dot(there, start) > near)
        values[:, left] = np.where(is_near, NOWHERE, values[:, left])  # these have been climbed
    return peak, highest
