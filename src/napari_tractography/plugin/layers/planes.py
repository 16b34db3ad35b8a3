"""Three planes: the axial, coronal and sagittal slice of a volume in 3-D.

They lie at the slices of the viewer, in the colours of the volume's own layer, and follow both.
Drawn as a surface of three rectangles, so that streamlines and planes hide each other where they
pass in front. Called by the View section of the panel.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from napari.layers import Image, Layer
from numpy.typing import NDArray
from superqt.utils import qthrottled

from ..listening import Listening
from ..space.display import DisplaySpace, display_space_of_layer, set_units
from ..space.layer_list import index_of_lowest, insert_beside
from ..streamlines.layer import Streamlines
from .on_volume import SurfaceOnVolume, is_above_volumes
from .slice_pictures import SlicePictures

UPDATE_MS = 30
MARGIN = 2  # pixels between the slices of one texture, so that none runs into the next
NAME = "Slices"
# layer.metadata[WITHIN_KEY]: whether an image is meant to be seen in 3-D among the slices.
WITHIN_KEY = "seen_within"


class SliceSurface(SurfaceOnVolume):
    """The rectangles of three slices, in voxels of the volume."""

    visual = "VispySlices"
    is_smooth = True
    planes: SlicePlanes  # that the layer is of


class SlicePlanes:
    """The slices of one volume in 3-D, in place of it and of all others, which would veil them."""

    def __init__(self, viewer: Any, source: Image) -> None:
        self.viewer = viewer
        self.source = source
        self.space: DisplaySpace = display_space_of_layer(source)
        self._shape = tuple(int(n) for n in source.data.shape[:3])
        self.pictures = SlicePictures(source)
        self._corners, size = _atlas(self._shape)
        self._texture = np.zeros((*size, 4), np.uint8)
        faces = np.array([[0, 1, 2], [0, 2, 3]])
        # In the viewer until it is removed there or by close.
        self.layer = SliceSurface(
            (self._vertices(), np.concatenate([faces + 4 * axis for axis in range(3)])),
            vertex_colors=np.ones((12, 4), np.float32),
            texture=self._painted(),
            texcoords=_texture_corners(self._corners, self._shape, size),
            name=f"{NAME} of {source.name}",
            shading="none",
            scale=self.space.scale,
            translate=self.space.translate,
            visible=viewer.dims.ndisplay == 3,
        )
        self.layer.space, self.layer.planes = self.space, self
        self._take_units()
        self._hidden: dict[Layer, bool] = {}  # and whether they are seen in slices
        # Seeds and regions are drawn after slices, so that they are seen behind them, too.
        insert_beside(viewer, self.layer, index_of_lowest(viewer.layers, is_above_volumes))
        if viewer.dims.ndisplay == 3:
            self._hide()
        self.update = qthrottled(self._update, timeout=UPDATE_MS)
        dims, layers = viewer.dims.events, viewer.layers.events
        self._listening = Listening(
            *((event, self._on_slice) for event in (dims.point, dims.ndim)),
            *((event, self._on_appearance) for event in self.pictures.appearance),
            (source.events.units, self._take_units),
            (dims.ndisplay, self._on_ndisplay),
            (layers.inserted, self._on_inserted),
            (layers.removed, self._on_removed),
        )
        self._listening.open()
        viewer.mouse_drag_callbacks.append(self._drag_callback)  # seeds under the mouse go first

    @property
    def indices(self) -> tuple[int, ...]:
        """The slice across each axis (z, y, x) of the volume that is shown."""
        point = np.asarray(self.viewer.dims.point[-3:], float)
        voxel = np.round((point - self.space.translate) / np.asarray(self.space.scale)).astype(int)
        return tuple(int(i) for i in np.clip(voxel, 0, np.array(self._shape) - 1))

    def close(self) -> None:
        """Take the slices off the screen, and show the volume again."""
        if self.layer in self.viewer.layers:
            self.viewer.layers.remove(self.layer)
        else:
            self._disconnect()

    # Following the viewer and the volume.

    def _on_removed(self, event: Any) -> None:
        if event.value is self.layer:
            self._disconnect()
        elif event.value is self.source:
            self.close()

    def _disconnect(self) -> None:
        self.update.cancel()
        self._listening.close()
        if self._drag_callback in self.viewer.mouse_drag_callbacks:
            self.viewer.mouse_drag_callbacks.remove(self._drag_callback)
        self._show_again()

    def _take_units(self, _event: Any = None) -> None:
        """Have the units of the volume: pixels, too, where it says no size of its voxels.

        napari warns of layers that differ, and then draws them without.
        """
        set_units(self.layer, self.source.units)

    def _on_slice(self, _event: Any = None) -> None:
        self.update()

    def _on_appearance(self, _event: Any = None) -> None:
        self.pictures.forget()
        self.update()

    def _on_ndisplay(self, _event: Any = None) -> None:
        is_space = self.viewer.dims.ndisplay == 3
        self.layer.visible = is_space
        if is_space:
            self._hide()
            self.update()
        else:
            self._show_again()

    def _on_inserted(self, event: Any) -> None:
        if self.viewer.dims.ndisplay == 3:
            self._hide(event.value)

    def _hide(self, *layers: Layer) -> None:
        """Hide volumes, by default all, which are seen again in slices if they were."""
        for layer in layers or self.viewer.layers:
            is_volume = isinstance(layer, Image) and layer.ndim >= 3
            if is_volume and not layer.metadata.get(WITHIN_KEY):
                self._hidden[layer] = layer.visible
                layer.visible = False

    def hides(self, layer: Layer) -> bool:
        """Return whether it is for the planes that a volume is hidden."""
        return self._hidden.get(layer, False)

    def show_in_slices(self, layer: Layer) -> None:
        """Have a hidden volume seen again in slices."""
        self._hidden[layer] = True

    def _show_again(self) -> None:
        for layer, was_visible in self._hidden.items():
            if was_visible:
                layer.visible = True
        self._hidden.clear()

    def _update(self) -> None:
        if self.viewer.dims.ndisplay == 3 and self.layer in self.viewer.layers:
            self.layer._texture = self._painted()  # one redraw, when all belongs together
            self.layer.vertices = self._vertices()
            self.layer.events.texture(value=self.layer.texture)

    # Rectangles and their pictures.

    def _vertices(self) -> NDArray[np.float32]:
        """(12, 3) float32: corners of the axial, coronal and sagittal slice, voxels (z, y, x)."""
        last = np.array(self._shape) - 0.5
        vertices = np.empty((3, 4, 3), np.float32)
        for axis, index in enumerate(self.indices):
            down, along = (other for other in range(3) if other != axis)
            vertices[axis, :, axis] = index
            vertices[axis, :, down] = [-0.5, -0.5, last[down], last[down]]
            vertices[axis, :, along] = [-0.5, last[along], last[along], -0.5]
        return vertices.reshape(-1, 3)

    def _painted(self) -> NDArray[np.uint8]:
        """Return the texture of all three slices; only slices that changed are painted."""
        texture = self._texture.copy()
        for axis, index in enumerate(self.indices):
            picture = self.pictures.of(axis, index)
            row, column = self._corners[axis]
            texture[row : row + picture.shape[0], column : column + picture.shape[1]] = picture
        return texture

    def seen_points(self) -> NDArray[np.float64]:
        """(n, 3) float64: positions of what is seen of the slices, display (z, y, x)."""
        found = []
        for axis, index in enumerate(self.indices):
            pixels = np.argwhere(self.pictures.seen(axis, index))
            found.append(np.insert(pixels, axis, index, axis=1))
        return np.asarray(np.concatenate(found) * self.space.scale + self.space.translate)

    # Dragging.

    def hit(
        self, position: NDArray[np.float64], direction: NDArray[np.float64]
    ) -> tuple[int, NDArray[np.float64]] | None:
        """Return the axis of the first plane that a ray meets, and where; None for none.

        The ray goes from the eye; position and direction, (3,) float64, are display mm (z, y, x).
        """
        scale = np.asarray(self.space.scale, float)
        start, way = (position - self.space.translate) / scale, direction / scale
        found: list[tuple[float, int]] = []
        for axis, index in enumerate(self.indices):
            if abs(way[axis]) < 1e-9:
                continue
            t = (index - start[axis]) / way[axis]
            voxel = np.round(start + t * way).astype(int)
            is_inside = ((voxel >= 0) & (voxel < self._shape)).all()
            if is_inside and self.pictures.seen(axis, index)[tuple(np.delete(voxel, axis))]:
                found.append((float(t), axis))
        if not found:
            return None
        t, axis = min(found)
        return axis, position + t * direction

    def _drag_callback(self, viewer: Any, event: Any) -> Any:
        """Move the plane under the mouse across itself: Ctrl and drag."""
        if viewer.dims.ndisplay != 3 or set(event.modifiers) != {"Control"} or event.handled:
            return
        if event.view_direction is None or not self.layer.visible:
            return
        active = viewer.layers.selection.active
        if isinstance(active, Streamlines):
            position, sight = event.position, event.view_direction
            if active.get_value(position, view_direction=sight, world=True) is not None:
                return  # Ctrl-click adds it to those that are selected
        sight = np.asarray(event.view_direction, float)[-3:]
        first = self.hit(np.asarray(event.position, float)[-3:], sight)
        if first is None:
            return
        axis, _ = first
        extra = viewer.dims.ndim - 3
        across = np.eye(3)[axis]
        steep = 1.0 - float(sight[axis]) ** 2  # of the axis in the plane of the screen
        pressed = np.asarray(event.position, float)[-3:]
        begin = float(viewer.dims.point[extra + axis])
        event.handled = True  # on the press: the camera then ignores the whole drag
        yield
        while event.type == "mouse_move":
            event.handled = True
            moved = np.asarray(event.position, float)[-3:] - pressed
            # On the screen the way of the plane is foreshortened by what it goes along the sight.
            way = (moved @ across) / max(steep, 0.05)
            viewer.dims.set_point(extra + axis, begin + way)
            yield


def _atlas(shape: tuple[int, ...]) -> tuple[tuple[tuple[int, int], ...], tuple[int, int]]:
    """Return where the slices begin in one texture, (row, column), and its size."""
    nz, ny, nx = shape
    corners = ((MARGIN, MARGIN), (MARGIN, nx + 2 * MARGIN), (MARGIN, 2 * nx + 3 * MARGIN))
    return corners, (max(ny, nz) + 2 * MARGIN, 2 * nx + ny + 4 * MARGIN)


def _texture_corners(
    corners: tuple[tuple[int, int], ...], shape: tuple[int, ...], size: tuple[int, int]
) -> NDArray[np.float32]:
    """Return where the corners of the rectangles are in the texture, 0 to 1, (12, 2) float32.

    napari turns textures upside down: their first row is at 1.
    """
    found = np.empty((3, 4, 2), np.float32)
    for axis, (row, column) in enumerate(corners):
        height, width = (n for other, n in enumerate(shape) if other != axis)
        rows = np.array([row, row, row + height, row + height]) / size[0]
        columns = np.array([column, column + width, column + width, column]) / size[1]
        found[axis] = np.stack([columns, 1 - rows], axis=1)
    return found.reshape(-1, 2)


def planes_in_view(viewer: Any) -> list[SlicePlanes]:
    """Return the slices that a viewer in 3-D shows."""
    if viewer.dims.ndisplay != 3:
        return []
    return [e.planes for e in viewer.layers if isinstance(e, SliceSurface) and e.visible]


def plane_sources(layers: Any) -> list[Layer]:
    """Return the layers whose slices can be shown: 3-D images."""
    return [
        layer
        for layer in layers
        if isinstance(layer, Image) and layer.ndim == 3 and not layer.multiscale
    ]
