"""Vectors of N_LANES numbers, one for each streamline that a thread tracks side by side.

The operators and functions of such vectors are those of :mod:`.llvm`, and what is given here in
terms of them. Called by the other modules of the kernel.
"""
# mypy: ignore-errors

from __future__ import annotations

import numpy as np

from ...compiling import OPTIONS, cached, inlined
from .llvm import booleans_reader, copy_numbers, loader, narrowed, widened

# Streamlines side by side: two registers' worth where these are widest, so that the look-ups of
# one half hide behind those of the other (trilinear steps took a seventh less time than with 16).
N_LANES = 32
BITS_32 = np.uint64(32)

load = loader(N_LANES)
booleans_of = booleans_reader(N_LANES)


@inlined
def scaled(words, factor):
    """Multiply random words by a number below 2^31; return whole parts and the rest.

    Words are fractions of 2^32, and so is the rest; both are vectors of uint32.
    """
    product = widened(words) * np.uint64(np.uint32(factor))
    return narrowed(product >> BITS_32), narrowed(product)


@inlined
def put_points(points, cursor, x, y, z):
    """Write a point of every lane.

    Parameters
    ----------
    points : (N_LANES, n, 3) float32
    cursor : (N_LANES,) int32
        Where among the n points of its lane each is written.
    x, y, z : (N_LANES,) float32
    """
    for lane in range(N_LANES):
        at = np.uint32(cursor[lane])
        points[lane, at, 0] = x[lane]
        points[lane, at, 1] = y[lane]
        points[lane, at, 2] = z[lane]


@inlined
def copy_points(source, first, target, at, n):
    """Copy n points, from number `first` of an array on to number `at` of another on.

    Both arrays are (..., 3) float32 in C order; points are counted over all leading axes.
    """
    copy_numbers(source, 3 * first, target, 3 * at, 3 * n)


@cached(**OPTIONS)
def in_order(points, firsts, counts, ordered):
    """Copy the points of streamlines from `points` to `ordered`, in the order of their seeds.

    Parameters
    ----------
    points, ordered : (n, 3) float32
    firsts, counts : (n_seeds,) int64
        Where in `points` each streamline begins, and how many points it has.
    """
    at = 0
    for seed in range(len(counts)):
        copy_points(points, firsts[seed], ordered, at, counts[seed])
        at += counts[seed]
