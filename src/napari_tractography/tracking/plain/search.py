"""The largest amplitude in each of many cones: looked for at directions spread over it, then
climbed to.

As :mod:`napari_tractography.tracking.cpu.sphere.ascent`, bit for bit. Vectors are triples of
(n,) float32, one number for each cone; coefficients are (n_coefficients, n). A cone is given by its
axis u and, of its half-angle, cosine and sine; the cosine EVERYWHERE stands for the whole sphere.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..codes import CLIMBS, FAR, LOBES, NEAR, NOWHERE, PROMISING, STILL
from .evaluation import ONE, ZERO, Array, derivatives_at, values_at


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
        np.stack([ONE + sign * x * x * a, sign * b, ZERO - sign * x]),
        np.stack([b, sign + y * y * a, ZERO - y]),
    )


def turned(points: Array, unit: Array) -> Any:
    """Return directions given around the z axis, turned to lie around others.

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
    return np.stack([a * first[i] + b * second[i] + c * unit[i] for i in range(3)])


def times(h: tuple[Any, ...], vector: Array) -> Any:
    """Return the product of second derivatives, (hxx, hxy, hxz, hyz, hzz), and vectors."""
    hxx, hxy, hxz, hyz, hzz = h
    x, y, z = vector
    return (
        hxx * x + hxy * y + hxz * z,
        hxy * x - hxx * y + hyz * z,
        hxz * x + hyz * y + hzz * z,
    )


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
    for _ in range(CLIMBS):
        if not len(left):
            break
        p, axis = at[:, left], u[:, left]
        gx, gy, gz, *h = derivatives_at(shifts, coefficients[:, left], *p)
        g = gx, gy, gz
        along = dot(g, p)
        new, size, is_stuck = _newton(p, g, h, along)
        outwards = on_border[left]
        if outwards.any():
            rise = dot(g, cosine * p - axis) / sine
            outwards = outwards & (rise > ZERO)
            new_there, size_there = _along_border(p, axis, g, h, along, rise, cosine, sine)
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


def _newton(p: Array, g: Array, h: Any, along: Array) -> tuple[Any, Any, Any]:
    """Return where a step leads, before it is made a unit vector; its square; what is stuck."""
    first, second = tangents(p)
    ga, gb = dot(g, first), dot(g, second)
    of_first = times(h, first)
    haa, hab = dot(of_first, first) - along, dot(of_first, second)
    hbb = dot(times(h, second), second) - along
    determinant = haa * hbb - hab * hab
    is_newton = (haa < ZERO) & (determinant > ZERO)
    a = np.where(is_newton, (hab * gb - hbb * ga) / determinant, ga)
    b = np.where(is_newton, (hab * ga - haa * gb) / determinant, gb)
    size = a * a + b * b
    is_long = (size > FAR * FAR) | ~is_newton
    is_stuck = is_long & ~(size > ZERO)
    scale = np.where(is_long, FAR / np.sqrt(size), ONE)
    return p + scale * a * first + scale * b * second, size, is_stuck


def _along_border(
    p: Array, axis: Array, g: Array, h: Any, along: Array, rise: Array, cosine: Array, sine: Array
) -> tuple[Any, Any]:
    """Return where a step along the border of the cone leads, and its square."""
    ux, uy, uz = axis
    x, y, z = p
    across = np.stack([uy * z - uz * y, uz * x - ux * z, ux * y - uy * x]) / sine
    slope = dot(g, across)
    bend = dot(times(h, across), across) - along - rise * cosine / sine
    a = np.where(bend < ZERO, (ZERO - slope) / bend, np.where(slope > ZERO, FAR, -FAR))
    a = np.where(a > -FAR, a, -FAR)
    a = np.where(a < FAR, a, FAR)
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
        is_near = (dot(there, top) > NEAR) | (dot(there, start) > NEAR)
        values[:, left] = np.where(is_near, NOWHERE, values[:, left])  # these have been climbed
    return peak, highest
