"""The compiled loops over points and over runs of segments.

A run is some consecutive segments of one streamline: `firsts` the numbers of their first points,
`counts` how many, `streamlines` whose. Until the loops are compiled, once on a machine and in a
process of its own, NumPy does the same where they are called, to the bit: in :mod:`.passing`,
:mod:`.spatial_index` and, for what is drawn, in the plugin.
"""

from __future__ import annotations

import logging
import threading
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..runtime.compiling import cached, has_code_for
from ..runtime.processes import run_once_in_a_process

Int32s = NDArray[np.int32]
Int64s = NDArray[np.int64]

logger = logging.getLogger(__name__)

# Whether loops are compiled so; else they are when they are first needed, and waited for.
in_a_process = True

COMMAND = "from napari_tractography.streamlines.compiled_loops import compile_all; compile_all()"
_begun = threading.Lock()
_found = threading.Event()  # set once they are there: then nobody looks on the disk again


@cached(nogil=True, error_model="numpy")
def mark(spans: Int64s, streamlines: Int32s, found: NDArray[np.bool_]) -> None:
    """Mark the streamlines of all runs of some spans, (n, 2) int64 of first and stop."""
    for span in range(spans.shape[0]):
        for run in range(spans[span, 0], spans[span, 1]):
            found[streamlines[run]] = True


@cached(nogil=True, error_model="numpy")
def meet_sphere(
    spans: Int64s,
    firsts: NDArray[np.uint32],
    counts: Int32s,
    streamlines: Int32s,
    points: NDArray[np.float32],
    offsets: Int64s,
    centre: NDArray[np.float64],
    radius: float,
    found: NDArray[np.bool_],
) -> int:
    """Mark the streamlines with a segment that meets a sphere; return how many were tested.

    Spans are (n, 2) int64, the first run and the one after the last; `found` is (n_streamlines,)
    bool, of which those that are marked are not tested again.
    """
    tested = 0
    square_radius = radius * radius
    for span in range(spans.shape[0]):
        for run in range(spans[span, 0], spans[span, 1]):
            streamline = streamlines[run]
            if found[streamline]:
                continue
            first = np.int64(firsts[run])
            last = offsets[streamline + 1] - 1
            for segment in range(first, first + counts[run]):
                tested += 1
                end = min(segment + 1, last)
                ax = np.float64(points[segment, 0]) - centre[0]
                bx = np.float64(points[end, 0]) - centre[0]
                if min(ax, bx) > radius or max(ax, bx) < -radius:
                    continue
                ay = np.float64(points[segment, 1]) - centre[1]
                by = np.float64(points[end, 1]) - centre[1]
                if min(ay, by) > radius or max(ay, by) < -radius:
                    continue
                az = np.float64(points[segment, 2]) - centre[2]
                bz = np.float64(points[end, 2]) - centre[2]
                if min(az, bz) > radius or max(az, bz) < -radius:
                    continue
                dx, dy, dz = bx - ax, by - ay, bz - az
                square = dx * dx + dy * dy + dz * dz
                at = 0.0
                if square > 0.0:
                    at = min(max(-(ax * dx + ay * dy + az * dz) / square, 0.0), 1.0)
                x, y, z = ax + at * dx, ay + at * dy, az + at * dz
                if x * x + y * y + z * z <= square_radius:
                    found[streamline] = True
                    break
    return tested


@cached(nogil=True, error_model="numpy")
def find_runs(
    first: int,
    stop: int,
    points: NDArray[np.float32],
    offsets: Int64s,
    low: NDArray[np.float64],
    cell_mm: float,
    shape: Int64s,
    cells: Int32s,
    firsts: NDArray[np.uint32],
    counts: Int32s,
    streamlines: Int32s,
    reach: NDArray[np.float64],
) -> int:
    """Write the runs of some streamlines, each in one cell; return how many there are.

    Beyond the end of the arrays nothing is written; see :class:`.spatial_index.SpatialIndex` for
    what lies in which cell. `low`, (3,) float64, is the corner of the cells, RAS+ mm, `shape`, (3,)
    int64, how many there are; `reach`, (1,) float64, is raised to the length of the longest piece,
    mm.
    """
    n = 0
    for streamline in range(first, stop):
        begin, end = offsets[streamline], offsets[streamline + 1]
        n_segments = max(end - begin - 1, min(end - begin, 1))
        cell_before = -1
        for segment in range(begin, begin + n_segments):
            other = min(segment + 1, end - 1)
            dx = points[other, 0] - points[segment, 0]
            dy = points[other, 1] - points[segment, 1]
            dz = points[other, 2] - points[segment, 2]
            length = np.sqrt(np.float64(dx) * dx + np.float64(dy) * dy + np.float64(dz) * dz)
            pieces: Any = max(np.int64(np.ceil(length / cell_mm)), 1)
            reach[0] = max(reach[0], length / pieces)
            for piece in range(pieces):
                at = (piece + 0.5) / pieces
                x: Any = np.int64((points[segment, 0] + at * dx - low[0]) / cell_mm)
                y: Any = np.int64((points[segment, 1] + at * dy - low[1]) / cell_mm)
                z: Any = np.int64((points[segment, 2] + at * dz - low[2]) / cell_mm)
                x = min(max(x, 0), shape[0] - 1)
                y = min(max(y, 0), shape[1] - 1)
                z = min(max(z, 0), shape[2] - 1)
                cell = (x * shape[1] + y) * shape[2] + z
                if cell != cell_before:
                    if n < len(cells):
                        cells[n], firsts[n], streamlines[n] = cell, segment, streamline
                        counts[n] = 1
                    n += 1
                    cell_before = cell
                elif n <= len(cells):
                    counts[n - 1] = segment - firsts[n - 1] + 1
    return n


@cached(nogil=True, error_model="numpy")
def colour_directions(
    points: NDArray[np.float32],
    offsets: Int64s,
    of_still: NDArray[np.float32],
    rgba: NDArray[np.float32],
) -> None:
    """Write the colours of points by the direction of the segments on their two sides.

    `rgba` is (n_points, 4) float32; `of_still`, (4,) float32, is for points where nothing moves.
    """
    for streamline in range(len(offsets) - 1):
        begin, end = offsets[streamline], offsets[streamline + 1]
        before_x = before_y = before_z = np.float32(0.0)
        for i in range(begin, end):
            x = y = z = np.float32(0.0)
            if i + 1 < end:
                x = abs(points[i + 1, 0] - points[i, 0])
                y = abs(points[i + 1, 1] - points[i, 1])
                z = abs(points[i + 1, 2] - points[i, 2])
            red, green, blue = before_x + x, before_y + y, before_z + z
            before_x, before_y, before_z = x, y, z
            norm = np.sqrt(red * red + green * green + blue * blue)
            if norm == 0.0:
                for channel in range(4):
                    rgba[i, channel] = of_still[channel]
            else:
                rgba[i, 0], rgba[i, 1], rgba[i, 2] = red / norm, green / norm, blue / norm
                rgba[i, 3] = np.float32(1.0)


@cached(nogil=True, error_model="numpy")
def map_points(
    points: NDArray[np.float32], matrix: NDArray[np.float32], mapped: NDArray[np.float32]
) -> None:
    """Write where a (3, 4) matrix maps points."""
    for i in range(len(points)):
        x, y, z = points[i, 0], points[i, 1], points[i, 2]
        for axis in range(3):
            a, b, c, shift = matrix[axis, 0], matrix[axis, 1], matrix[axis, 2], matrix[axis, 3]
            mapped[i, axis] = x * a + y * b + z * c + shift


def are_ready(*, begin: bool = True) -> bool:
    """Tell whether the loops can be called at once; where not, begin to compile them if wanted."""
    if _found.is_set():
        return True
    if not _are_missing():
        _found.set()
        return True
    if not in_a_process:
        return True  # compiled when they are called
    if begin and _begun.acquire(blocking=False):  # once: should it fail, NumPy answers
        threading.Thread(target=_compile, name="selection-compiling", daemon=True).start()
    return False


def _are_missing() -> bool:
    spans, points = np.zeros((0, 2), np.int64), np.zeros((0, 3), np.float32)
    wanted = (
        (mark, spans),
        (meet_sphere, spans),
        (find_runs, 0),
        (colour_directions, points),
        (map_points, points),
    )
    return not all(loop.signatures or has_code_for(loop, argument) for loop, argument in wanted)


def compile_all() -> None:
    """Compile all loops, in this process, unless they are on the disk."""
    spans, points, offsets = np.zeros((0, 2), np.int64), np.zeros((0, 3), np.float32), np.zeros(1)
    runs = np.zeros(0, np.uint32), np.zeros(0, np.int32), np.zeros(0, np.int32)
    offsets, found = offsets.astype(np.int64), np.zeros(0, bool)
    mark(spans, runs[2], found)
    meet_sphere(spans, *runs, points, offsets, np.zeros(3), 1.0, found)
    shape, reach = np.ones(3, np.int64), np.zeros(1)
    find_runs(0, 0, points, offsets, np.zeros(3), 4.0, shape, np.zeros(0, np.int32), *runs, reach)
    none = np.zeros((0, 4), np.float32)
    colour_directions(points, offsets, np.zeros(4, np.float32), none)
    map_points(points, np.zeros((3, 4), np.float32), points)


def _compile() -> None:
    problem = run_once_in_a_process(COMMAND, _are_missing)
    if problem:
        logger.warning(
            "Compiling in a process of its own failed (%s); NumPy is used instead.", problem
        )
