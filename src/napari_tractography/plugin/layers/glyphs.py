"""The FOD itself on the screen: glyphs of the slice in view, and peaks as vectors.

Called by the panel. Glyphs follow the slice; there are never more than :data:`MAX_GLYPHS`. They are
finer where they are large on the screen.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any

import numpy as np
from napari.layers import Layer, Vectors
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.spatial import ConvexHull
from superqt.utils import qthrottled

from ...geometry.directions import direction_set
from ...geometry.grid import Grid
from ...maps.fod_peaks import Peaks as FodPeaks
from ...model.fod import Fod
from ..background import Background
from ..listening import Listening
from ..space.display import DisplaySpace
from ..space.layer_list import index_of_lowest, insert_beside
from .on_volume import OnVolume, SurfaceOnVolume, is_above_volumes

MAX_GLYPHS = 1500
FIRST, GROWTH = 150, 4  # glyphs that are drawn at once, and how many times as many next
# {pixels of a voxel on the screen: directions of a glyph}: finer where it is seen, and where it
# leaves room. Below 642 a narrow lobe may fall between the directions.
FINENESS = {0.0: 362, 16.0: 642, 48.0: 1442, 120.0: 2562}
NEAR_PIXELS = 16.0  # of a voxel, from which only glyphs in view are made
MAX_VERTICES = 700_000
GLYPH_DIRECTIONS = 642
CUT_DIRECTIONS = 96  # of a glyph that a slice beside 3-D cuts
GLYPH_SPAN = 0.5  # voxels: radius of a glyph of usual size
USUAL_QUANTILE = 0.5  # of the largest amplitudes of the voxels in view
FLAT_LIGHT, FLAT_AMBIENT = 0.6, 0.5  # of glyphs in a slice, as seen from the eye
LARGEST_GLYPH = 1.6  # of the usual size; a few voxels are far stronger than all others
UPDATE_MS = 60
VIEW_STEP = 4  # voxels
PEAK_LENGTH_VOXELS = 0.8

Mesh = tuple[NDArray[np.float32], NDArray[np.int32], NDArray[np.float32]]  # with its colours


@lru_cache(maxsize=len(FINENESS))
def glyph_sphere(
    n_directions: int = GLYPH_DIRECTIONS,
) -> tuple[NDArray[np.float32], NDArray[np.int32]]:
    """Return directions (n, 3) and triangles (m, 3), which look outwards, of one glyph."""
    units = direction_set(n_directions)
    triangles = ConvexHull(units.astype(float)).simplices.astype(np.int32)
    a, b, c = (units[triangles[:, i]] for i in range(3))
    inward = (np.cross(b - a, c - a) * a).sum(axis=1) < 0
    triangles[inward] = triangles[inward][:, ::-1]
    return units, triangles


def glyph_mesh(
    fod: Fod,
    space: DisplaySpace,
    voxels: NDArray[np.int64],
    *,
    scale: float = 1.0,
    min_amplitude: float = 0.0,
    flat_axis: int | None = None,
    n_directions: int = GLYPH_DIRECTIONS,
    usual: float | None = None,
) -> tuple[NDArray[np.float32], NDArray[np.int32], NDArray[np.float32]]:
    """Return the glyphs of some (n, 3) voxels with an FOD, shown in a space, as one mesh.

    At the scale 1 a glyph of usual size is as wide as a voxel; its largest amplitude is `usual`, by
    default that of these voxels, and others grow with the square root of theirs. Amplitudes below
    `min_amplitude` count as zero. Glyphs are flattened along `flat_axis`, (z, y, x), for a slice
    view, and shaded as if they were not.

    Returns (n_vertices, 3) float32 vertices, display mm, (z, y, x); (n_triangles, 3) int32; and
    (n_vertices, 4) float32 colours: |x|, |y|, |z| of the direction in RAS+ as red, green and blue.
    """
    units, triangles = glyph_sphere(n_directions)
    amplitudes = _amplitudes(fod, voxels, n_directions, min_amplitude)
    largest = amplitudes.max(axis=1, initial=0.0)
    usual = _usual(largest) if usual is None else usual
    # Sizes go with the square root of the largest amplitude: a weak FOD would be a speck.
    size = np.minimum(np.sqrt(largest / usual), LARGEST_GLYPH)
    amplitudes *= (usual * size / np.maximum(largest, 1e-20))[:, None]
    radius = scale * GLYPH_SPAN * float(fod.grid.voxel_sizes_mm.min()) / usual
    turned = (units @ space.world_to_display[:3, :3].T)[:, ::-1]
    centres = space.to_display(fod.grid.to_mm(voxels))
    shape = (len(voxels), len(units), 3)
    offsets: NDArray[Any] = (radius * amplitudes)[:, :, None] * turned
    colours = np.ones((len(voxels), len(units), 4), np.float32)
    colours[..., :3] = np.abs(units) / np.abs(units).max(axis=1, keepdims=True)
    faces = triangles
    if flat_axis is not None:
        # The nearest last, which is drawn on top. The far half too: it is seen beside the near.
        height = turned[triangles][:, :, flat_axis].mean(axis=1)
        faces = triangles[np.argsort(height, kind="stable")]
        facing = _facing(offsets, triangles, flat_axis)
        colours[..., :3] *= (FLAT_AMBIENT + FLAT_LIGHT * facing)[..., None]
        np.minimum(colours, 1.0, out=colours)
        offsets[..., flat_axis] = 0.0
    vertices = np.broadcast_to(centres[:, None], shape) + offsets
    first = (np.arange(len(voxels), dtype=np.int32) * len(units))[:, None, None]
    return (
        np.asarray(vertices.reshape(-1, 3), dtype=np.float32),
        (faces[None] + first).reshape(-1, 3),
        colours.reshape(-1, 4),
    )


def _amplitudes(
    fod: Fod, voxels: NDArray[np.int64], n_directions: int, floor: float
) -> NDArray[np.float32]:
    """Return the amplitudes of voxels along the directions of a glyph, zero below the floor."""
    units, _ = glyph_sphere(n_directions)
    rows = fod.voxel_rows[tuple(voxels.T)]
    amplitudes = fod.values[rows] @ fod.sample_matrix(units).T.astype(np.float32)
    amplitudes[amplitudes < max(floor, 0.0)] = 0.0
    return np.asarray(amplitudes, dtype=np.float32)


def _usual(largest: NDArray[np.float32]) -> float:
    """Return a usual one among the largest amplitudes of voxels."""
    some = largest[largest > 0]
    return float(np.quantile(some, USUAL_QUANTILE)) if len(some) else 1.0


def _facing(
    offsets: NDArray[np.float32], triangles: NDArray[np.int32], axis: int
) -> NDArray[np.float32]:
    """Return how much the surface of each glyph faces the eye at its vertices, (n, m) 0 to 1."""
    n_vertices = offsets.shape[1]
    a, b, c = (offsets[:, triangles[:, i]] for i in range(3))
    normals = np.cross(b - a, c - a)
    corner = csr_array(
        (
            np.ones(triangles.size, np.float32),
            (triangles.T.ravel(), np.tile(np.arange(len(triangles)), 3)),
        ),
        shape=(n_vertices, len(triangles)),
    )
    sums = np.stack([(corner @ normals[..., i].T).T for i in range(3)], axis=-1)
    length = np.linalg.norm(sums, axis=-1)
    return np.asarray(np.abs(sums[..., axis]) / np.maximum(length, 1e-20), np.float32)


class Glyphs(SurfaceOnVolume):
    """The mesh of the glyphs, in voxels of the volume."""

    enlarged_by = 1.0  # for a picture that is larger than the canvas, and shows as much
    glyphs: FodGlyphs  # that the layer is of

    def show(self, mesh: Mesh) -> None:
        """Show other glyphs, with one redraw."""
        vertices, triangles, colours = mesh
        if hasattr(self, "_vertex_colors"):
            self._vertex_colors = colours
            self.data = vertices, triangles
        else:
            self.vertex_colors = None  # as many as vertices, or none
            self.data = vertices, triangles
            self.vertex_colors = colours


class Peaks(OnVolume, Vectors):  # type: ignore[misc]
    """Peaks, in voxels of the volume."""

    _type_string = "vectors"


class FodGlyphs:
    """Glyphs of the slice in view, kept up to date while slicing; see :func:`glyph_mesh`."""

    def __init__(
        self,
        viewer: Any,
        fod: Fod,
        space: DisplaySpace,
        *,
        scale: float = 1.0,
        min_amplitude: float = 0.05,
    ) -> None:
        self.viewer, self.fod, self.space = viewer, fod, space
        self.scale, self.min_amplitude = scale, min_amplitude
        self.n_shown = 0  # glyphs that are drawn,
        self.n_in_slice = 0  # of so many voxels with an FOD in the slice
        self._drawn_for: tuple[Any, ...] = ()
        self.layer: Any = None  # Glyphs: in the viewer until removed there or by `close`
        self.work = Background()  # on those that are not drawn yet
        draw, voxels = self._drawing()
        vertices, triangles, colours = draw(voxels[:FIRST])
        self.layer = Glyphs(
            (vertices, triangles),
            vertex_colors=colours,
            name="FOD glyphs",
            shading="smooth",
            scale=space.scale,  # in voxels: sliders keep the steps of the volume
            translate=space.translate,
        )
        self.layer.space, self.layer.glyphs = space, self
        self._draw_more(draw, voxels, FIRST)
        insert_beside(viewer, self.layer, index_of_lowest(viewer.layers, is_above_volumes))
        self.update = qthrottled(self._update, timeout=UPDATE_MS)
        dims, camera = viewer.dims.events, viewer.scene.camera.events
        events = dims.current_step, dims.ndisplay, dims.order, camera.zoom, camera.center
        self._listening = Listening(
            *((event, self._on_view) for event in events),
            (viewer.layers.events.removed, self._on_removed),
        )
        self._listening.open()

    def set_shape(self, scale: float, min_amplitude: float) -> None:
        """Set size and floor with one redraw."""
        self.scale, self.min_amplitude = scale, min_amplitude
        self._update()

    def close(self) -> None:
        """Take the glyphs off the screen."""
        if self.layer in self.viewer.layers:
            self.viewer.layers.remove(self.layer)
        else:
            self._disconnect()

    def _on_removed(self, event: Any) -> None:
        if event.value is self.layer:
            self._disconnect()

    def _disconnect(self) -> None:
        self.update.cancel()
        self.work.cancel()
        self._listening.close()

    def _on_view(self, _event: Any = None) -> None:
        if self._view_of_camera() != self._drawn_for or _event.type not in ("zoom", "center"):
            self.update()

    def _view_of_camera(self) -> tuple[Any, ...]:
        """Return what glyphs depend on of the camera: how fine they are, and which are in view."""
        viewer, camera = self.viewer, self.viewer.scene.camera
        sizes = np.abs(self.space.scale)
        pixels = float(camera.zoom) * float(sizes.min())
        finest = [n for least, n in FINENESS.items() if pixels >= least][-1]
        if viewer.dims.ndisplay == 3 or pixels < NEAR_PIXELS:
            return (finest, None)
        shown = [axis - (viewer.dims.ndim - 3) for axis in viewer.dims.order[-2:]]
        enlarged_by = 1.0 if self.layer is None else self.layer.enlarged_by
        half = np.asarray(viewer.canvas.size, float) * enlarged_by / (2 * float(camera.zoom))
        middle = np.asarray(camera.center[-2:], float)
        box = []
        for axis, centre, reach in zip(shown, middle, half, strict=True):
            ends = centre + np.array([-reach, reach]) - self.space.translate[axis]
            low, high = np.sort(ends / self.space.scale[axis])
            # In steps of a few voxels, so that not every move of the mouse computes them again.
            low, high = np.floor(low / VIEW_STEP), np.ceil(high / VIEW_STEP)
            box.append((axis, int(low) * VIEW_STEP, int(high) * VIEW_STEP))
        return (finest, tuple(box))

    def _update(self) -> None:
        """Draw the glyphs in the middle at once, and the others as they come."""
        draw, voxels = self._drawing()
        self.layer.show(draw(voxels[:FIRST]))
        self._draw_more(draw, voxels, FIRST)

    def _draw_more(
        self, draw: Callable[[NDArray[np.int64]], Mesh], voxels: NDArray[np.int64], n: int
    ) -> None:
        self.work.cancel()
        if n < len(voxels):
            n *= GROWTH

            def show(mesh: Mesh) -> None:
                self.layer.show(mesh)
                self._draw_more(draw, voxels, n)

            self.work.begin("Glyphs", lambda _advance: draw(voxels[:n]), show)

    def finish(self) -> None:
        """Draw all glyphs before this returns, as for a picture."""
        self.update.cancel()
        self.work.cancel()
        draw, voxels = self._drawing()
        self.layer.show(draw(voxels))

    def cut(self, along: int, up: int, places: NDArray[np.float64]) -> NDArray[np.uint8]:
        """Return what a slice cuts of the glyphs, each within its voxel, (rows, columns, 4) uint8.

        `along` and `up` are its axes, of (z, y, x); `places`, (rows, columns, 3), where its pixels
        are, display (z, y, x).
        """
        picture = np.zeros((*places.shape[:2], 4), np.uint8)
        rows, size = self.space.volume(self.fod.voxel_rows), np.asarray(self.space.scale)
        at = (places - self.space.translate) / size
        voxels = np.rint(at).astype(int)
        inside = ((voxels >= 0) & (voxels < rows.shape)).all(axis=-1)
        row = np.full(inside.shape, -1)
        row[inside] = rows[tuple(voxels[inside].T)]
        seen = row >= 0
        if not seen.any():
            return picture
        known, nth = np.unique(row[seen], return_inverse=True)
        angles = np.linspace(0, 2 * np.pi, CUT_DIRECTIONS, endpoint=False)
        turned = np.zeros((CUT_DIRECTIONS, 3))
        turned[:, along], turned[:, up] = np.cos(angles), np.sin(angles)
        units = turned[:, ::-1] @ np.linalg.inv(self.space.world_to_display[:3, :3]).T
        units /= np.linalg.norm(units, axis=1, keepdims=True)
        coefficients, floor = self.fod.values[known], max(self.min_amplitude, 0.0)
        sphere, _ = glyph_sphere(min(FINENESS.values()))
        whole = (coefficients @ self.fod.sample_matrix(sphere).T.astype(np.float32)).max(axis=1)
        amplitudes = coefficients @ self.fod.sample_matrix(units).T.astype(np.float32)
        amplitudes[amplitudes < floor] = 0.0
        largest = np.where(whole < floor, 0.0, whole)
        grown = np.minimum(np.sqrt(largest / _usual(largest)), LARGEST_GLYPH)
        radii = (self.scale * GLYPH_SPAN * grown / np.maximum(largest, 1e-20))[:, None] * amplitudes
        aside = (at - voxels)[seen][:, [along, up]] * size[[along, up]] / np.abs(size).min()
        turn = np.arctan2(aside[:, 1], aside[:, 0]) / (2 * np.pi) * CUT_DIRECTIONS
        direction = np.rint(turn).astype(int) % CUT_DIRECTIONS
        colours = np.abs(units) / np.abs(units).max(axis=1, keepdims=True)
        rgba = np.zeros((len(aside), 4), np.uint8)
        within = np.hypot(*aside.T) <= radii[nth, direction]
        rgba[within, :3] = np.rint(255 * colours[direction[within]])
        rgba[within, 3] = 255
        picture[seen] = rgba
        return picture

    def _drawing(self) -> tuple[Callable[[NDArray[np.int64]], Mesh], NDArray[np.int64]]:
        """Return what makes the mesh of some voxels, and the voxels, those in the middle first."""
        axis = self.viewer.dims.order[-3:][0] - (self.viewer.dims.ndim - 3)
        position = self.viewer.dims.point[-3:][axis]
        self._drawn_for = finest, box = self._view_of_camera()
        voxels = self._voxels(axis, position, box)
        flat = axis if self.viewer.dims.ndisplay == 2 else None
        fits = [n for n in FINENESS.values() if n <= finest and n * len(voxels) <= MAX_VERTICES]
        n_directions = fits[-1] if fits else min(FINENESS.values())
        largest = _amplitudes(self.fod, voxels, n_directions, self.min_amplitude).max(axis=1)
        draw = partial(
            _mesh_in_voxels,
            self.fod,
            self.space,
            scale=self.scale,
            min_amplitude=self.min_amplitude,
            flat_axis=flat,
            n_directions=n_directions,
            usual=_usual(largest),
            position=position,
        )
        shown = [other - (self.viewer.dims.ndim - 3) for other in self.viewer.dims.order[-2:]]
        places = self.space.to_display(self.fod.grid.to_mm(voxels))[:, shown]
        middle = np.asarray(self.viewer.scene.camera.center[-2:], float)
        nearest = np.argsort(((places - middle) ** 2).sum(axis=1), kind="stable")
        return draw, voxels[nearest]

    def _voxels(self, axis: int, position: float, box: Any = None) -> NDArray[np.int64]:
        """Return the voxels to draw: those of the slice in view, thinned evenly to the limit."""
        rows = self.space.volume(self.fod.voxel_rows)
        index = round((position - self.space.translate[axis]) / self.space.scale[axis])
        if not 0 <= index < rows.shape[axis]:
            self.n_shown = self.n_in_slice = 0
            return np.empty((0, 3), np.int64)
        in_slice = np.take(rows, index, axis=axis)
        self.n_in_slice = int((in_slice >= 0).sum())
        if box is not None:
            in_view = np.zeros(rows.shape, dtype=bool)
            parts = [slice(None)] * 3
            for shown, low, high in box:
                parts[shown] = slice(max(low, 0), max(high + 1, 0))
            in_view[tuple(parts)] = True
            in_slice = np.where(np.take(in_view, index, axis=axis), in_slice, -1)
        stride = 1
        while (in_slice[::stride, ::stride] >= 0).sum() > MAX_GLYPHS:
            stride += 1
        chosen = in_slice[::stride, ::stride]
        chosen = chosen[chosen >= 0]
        self.n_shown = len(chosen)
        return np.asarray(np.argwhere(self.fod.support)[np.sort(chosen)], dtype=np.int64)


def _mesh_in_voxels(
    fod: Fod,
    space: DisplaySpace,
    voxels: NDArray[np.int64],
    *,
    position: float,
    flat_axis: int | None,
    **how: Any,
) -> Mesh:
    """Return a mesh as :func:`glyph_mesh`, in voxels; flat ones lie at a position of the slice."""
    vertices, triangles, colours = glyph_mesh(fod, space, voxels, flat_axis=flat_axis, **how)
    if flat_axis is not None and len(vertices):
        vertices[:, flat_axis] = position  # exactly in the slice, or napari leaves them out
    if not len(vertices):  # a surface cannot be empty: one triangle of no size
        vertices = np.zeros((3, 3), np.float32)
        triangles = np.array([[0, 1, 2]], np.int32)
        colours = np.zeros((3, 4), np.float32)
    in_voxels = (vertices - space.translate) / space.scale
    return in_voxels.astype(np.float32), triangles, colours


def peaks_layer(peaks: FodPeaks, grid: Grid, space: DisplaySpace) -> Layer:
    """Return the peaks of an FOD on a grid as a vectors layer, coloured by direction.

    Lengths are in proportion to amplitudes, a usual one being most of a voxel; those of an
    asymmetric FOD are half as long and begin in the middle of the voxel.
    """
    usual = float(np.quantile(peaks.amplitudes, USUAL_QUANTILE)) if len(peaks.amplitudes) else 1.0
    lengths = np.minimum(peaks.amplitudes / usual, LARGEST_GLYPH / GLYPH_SPAN / 2)
    lengths *= PEAK_LENGTH_VOXELS * grid.voxel_sizes_mm.min()
    turned = (peaks.directions @ space.world_to_display[:3, :3].T)[:, ::-1]
    vectors = np.empty((len(lengths), 2, 3), np.float32)
    vectors[:, 1] = turned * lengths[:, None]
    vectors[:, 0] = space.to_display(grid.to_mm(peaks.voxels))
    if peaks.is_one_way:
        vectors[:, 1] /= 2
    else:
        vectors[:, 0] -= vectors[:, 1] / 2
    vectors[:, 0] -= np.asarray(space.translate, dtype=np.float32)
    vectors /= np.asarray(space.scale, dtype=np.float32)  # in voxels, as the volume
    colours = np.ones((len(lengths), 4), np.float32)
    colours[:, :3] = np.abs(peaks.directions)
    layer = Peaks(
        vectors,
        name="FOD peaks",
        edge_color=colours if len(colours) else "white",  # napari takes no empty ones
        edge_width=0.12,
        opacity=1.0,
        length=1.0,
        vector_style="line",
        scale=space.scale,
        translate=space.translate,
    )
    layer.space = space
    return layer
