"""Streamlines for figures: tubes, and paths that can be edited by hand.

Called by the panel for selected streamlines; both are for a chosen few.
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
from dipy.tracking.streamline import set_number_of_points
from napari.layers import Shapes, Surface
from numpy.typing import NDArray

from ...errors import InvalidTractogramError
from ...streamlines.tractogram import Tractogram
from ..space.display import DisplaySpace
from ..streamlines.colours import direction_colours
from .on_volume import OnVolume, SurfaceOnVolume

# napari's Shapes take about 10 ms a path in 3-D.
MAX_PATHS = 200
MAX_PATH_POINTS = 24
MAX_TUBE_POINTS = 200_000
TUBE_SIDES = 12
# layer.metadata[TUBES_OF]: the unique_id of the Streamlines that tubes are of.
TUBES_OF = "tubes_of"


class Paths(OnVolume, Shapes):  # type: ignore[misc]
    """Editable paths on a volume."""

    _type_string = "shapes"  # for writers and icons


class Tubes(SurfaceOnVolume):
    """Tubes on a volume."""


def paths_layer(tractogram: Tractogram, space: DisplaySpace) -> Shapes:
    """Return streamlines as a Shapes layer of editable paths.

    Each path has at most :data:`MAX_PATH_POINTS` points, evenly along the streamline.

    Raises InvalidTractogramError when there are none, or more than :data:`MAX_PATHS`.
    """
    n = len(tractogram)
    if not 1 <= n <= MAX_PATHS:
        raise InvalidTractogramError(
            f"{n} streamlines cannot become editable paths, which are slow to draw; select 1 to "
            f"{MAX_PATHS}."
        )
    paths = []
    for line in tractogram:
        count = min(len(line), MAX_PATH_POINTS)
        thinned = line if count == len(line) else set_number_of_points(line, nb_points=count)
        paths.append(space.to_display(thinned).astype(float))
    colours = [_mean_colour(line) for line in tractogram]
    layer = Paths(
        paths,
        shape_type="path",
        edge_color=np.array(colours),
        face_color="transparent",
        edge_width=0.3,
        name="Paths",
    )
    layer.space = space
    return layer


def tubes_layer(tractogram: Tractogram, space: DisplaySpace, *, radius_mm: float = 0.4) -> Surface:
    """Return streamlines as tubes, coloured by direction.

    Raises InvalidTractogramError when there are none, or more points than :data:`MAX_TUBE_POINTS`.
    """
    if not len(tractogram) or tractogram.n_points > MAX_TUBE_POINTS:
        raise InvalidTractogramError(
            f"{len(tractogram)} streamlines with {tractogram.n_points} points cannot become "
            f"tubes; select fewer, with at most {MAX_TUBE_POINTS} points in all."
        )
    vertices, triangles = tube_mesh(tractogram, space, radius_mm=radius_mm)
    colours = np.repeat(direction_colours(tractogram).rgba, TUBE_SIDES, axis=0)
    mesh = vertices, triangles
    layer = Tubes(mesh, vertex_colors=colours, shading="smooth", name="Tubes")
    layer.space = space
    return layer


def tube_mesh(
    tractogram: Tractogram, space: DisplaySpace, *, radius_mm: float
) -> tuple[NDArray[np.float32], NDArray[np.int32]]:
    """Return rings of vertices around all points, in their order, and triangles that join them.

    (n_points * TUBE_SIDES, 3) float32, display (z, y, x), and (n_triangles, 3) int32. The rings
    turn with the line as little as they can: each frame is the one before, carried along
    (parallel transport).
    """
    corners = np.linspace(0, 2 * np.pi, TUBE_SIDES, endpoint=False)
    ring = np.stack([np.cos(corners), np.sin(corners)], axis=1) * radius_mm * space.per_mm
    points = space.to_display(tractogram.points).astype(float)
    tangents = np.empty_like(points)
    for start, stop in itertools.pairwise(tractogram.offsets.tolist()):
        is_line = stop - start > 1
        tangents[start:stop] = np.gradient(points[start:stop], axis=0) if is_line else (0, 0, 1)
    tangents /= np.maximum(np.linalg.norm(tangents, axis=1, keepdims=True), 1e-12)
    normals = _carried_along(tangents, tractogram.offsets)
    frames = np.stack([normals, np.cross(tangents, normals)], axis=1)
    vertices = (points[:, None] + ring @ frames).astype(np.float32)
    inner = np.ones(max(tractogram.n_points, 1), dtype=bool)
    inner[tractogram.offsets[1:] - 1] = False  # no ring follows the last of a streamline
    starts = np.flatnonzero(inner[: tractogram.n_points])[:, None] * TUBE_SIDES
    here = np.arange(TUBE_SIDES)
    after = (here + 1) % TUBE_SIDES
    a, b = starts + here, starts + after
    c, d = a + TUBE_SIDES, b + TUBE_SIDES
    triangles = np.stack([np.stack([a, c, b], -1), np.stack([b, c, d], -1)], axis=2)
    return vertices.reshape(-1, 3), triangles.reshape(-1, 3).astype(np.int32)


def _carried_along(
    tangents: NDArray[np.float64], offsets: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Return normals that turn with their lines as little as they can; all lines at a time."""
    normals = np.empty_like(tangents)
    longest_first = np.argsort(-np.diff(offsets), kind="stable")
    starts, counts = offsets[:-1][longest_first], np.diff(offsets)[longest_first]
    starts, counts = starts[counts > 0], counts[counts > 0]
    first = tangents[starts]
    normal = np.cross(first, np.eye(3)[np.abs(first).argmin(axis=1)])
    for number in range(int(counts.max(initial=0))):
        here = starts[: np.searchsorted(-counts, -number)] + number  # of lines that go so far
        tangent, normal = tangents[here], normal[: len(here)]
        normal = normal - (normal * tangent).sum(axis=1, keepdims=True) * tangent
        normal /= np.maximum(np.linalg.norm(normal, axis=1, keepdims=True), 1e-12)
        normals[here] = normal
    return normals


def _mean_colour(line: NDArray[Any]) -> NDArray[np.float64]:
    along = np.abs(np.diff(line.astype(float), axis=0)).sum(axis=0)
    return np.append(along / max(float(along.max()), 1e-12), 1.0)
