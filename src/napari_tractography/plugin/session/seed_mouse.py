"""Seeds by the mouse: Shift-click places one, a drag moves it, Control-click removes it.

The same goes for regions that are spheres, which Control-Shift-click places.

In a slice a seed lies where the mouse is; in 3-D a click is a ray from the eye, and the seed is
placed on the first of the three planes that it meets, or where none are shown on the first bright
voxel. Called by the panel, which attaches :meth:`SeedMouse.on_press` to the viewer.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import numpy as np
from napari.layers import Labels, Layer, Points
from numpy.typing import NDArray
from qtpy.QtCore import QTimer

from ..layers.planes import planes_in_view
from .region_layers import SPHERE_RADIUS_MM
from .seed_layer import outside
from .session import Session

CLICK_PIXELS = 5  # a drag shorter than this is a click
RAY_STEP_VOXELS = 0.25
# Of the brightest value shown: voxels under the cursor that are darker count as background.
RAY_THRESHOLD = 0.2
LABELS_TOOL, OTHER_TOOL = "labels", "other"  # see SeedMouse._tool
SHIFT, CONTROL_SHIFT = {"Shift"}, {"Shift", "Control"}
NOTHING_BRIGHT = "There is nothing bright enough under the cursor; Shift-click the volume."
NO_SLICE = "There is no slice under the cursor; Shift-click one of the three."
NO_VOLUME = "There is no FOD or image to place a seed on; open one or choose it in the panel."


class SeedMouse:
    """Turns presses of the mouse into seeds and spheres.

    Where a layer is selected and one of its own tools is chosen, that tool does the work; but
    those of a labels layer, such as the brush, leave Shift-click and Control-Shift-click to this.
    `missed` takes a sentence that says why a click placed nothing.
    """

    def __init__(self, session: Session, missed: Callable[[str], None]) -> None:
        self._session = session
        self._missed = missed
        session.seeds.points_added.connect(self._settle)

    def on_press(self, viewer: Any, event: Any) -> Iterator[None]:
        """Handle a press and what follows: for ``viewer.mouse_drag_callbacks``."""
        if event.button != 1 or event.handled:  # a lasso or sphere that selects goes first
            return
        tool = self._tool(viewer)
        modifiers = set(event.modifiers)
        if tool == OTHER_TOOL:
            return
        if modifiers == CONTROL_SHIFT or (modifiers == SHIFT and tool != "add"):
            add = self.add_seed if modifiers == SHIFT else self.add_sphere
            active = viewer.layers.selection.active
            with _without_tool(active) if tool == LABELS_TOOL else nullcontext():
                yield from self._place(viewer, event, add)
            return
        if tool != "pan_zoom" or modifiers - {"Control"}:
            return
        grabbed = self._point_under(event)
        if grabbed is None:
            return
        if modifiers:
            yield from self._remove(event, *grabbed)
        else:
            yield from self._move(event, *grabbed)

    def _tool(self, viewer: Any) -> str:
        """Return the mode of the Seeds layer where that is selected, else "pan_zoom".

        Where a tool of another layer is chosen, LABELS_TOOL for a labels layer, or OTHER_TOOL.
        """
        active = viewer.layers.selection.active
        mode = str(getattr(active, "mode", "pan_zoom"))
        if active is None or mode == "pan_zoom" or active is self._session.seeds.layer:
            return mode
        return LABELS_TOOL if isinstance(active, Labels) else OTHER_TOOL

    def _point_under(self, event: Any) -> tuple[Points, int] | None:
        """Return the seed, or else the sphere, that lies under the mouse."""
        seeds = self._session.seeds.layer
        for layer in (*([] if seeds is None else [seeds]), *self._session.regions.spheres):
            if not layer.visible or not len(layer.data):
                continue
            found = layer.get_value(
                event.position,
                view_direction=event.view_direction,
                dims_displayed=list(event.dims_displayed),
                world=True,
            )
            if found is not None:
                return layer, int(found)
        return None

    def add_seed(self, position_zyx: NDArray[np.float64]) -> None:
        """Place a seed at a display position, (z, y, x), and say where it lies outside."""
        self._session.add_seed(position_zyx)
        number = len(self._session.seeds)
        if number in self._session.seeds_outside:
            self._missed(outside([number]))

    def add_seed_in_slices(self) -> None:
        """Place a seed where the slices of the viewer meet, without the mouse."""
        if self._session.fod_layer is None:
            self._missed(NO_VOLUME)
        else:
            self.add_seed(np.asarray(self._session.viewer.dims.point, dtype=float)[-3:])

    def add_sphere(self, position_zyx: NDArray[np.float64]) -> None:
        regions = self._session.regions
        radius_mm = regions.space.in_proportion(SPHERE_RADIUS_MM)
        regions.add_sphere(position_zyx, radius_mm, regions.next_role, is_inactive=True)

    def _place(
        self, viewer: Any, event: Any, add: Callable[[NDArray[np.float64]], None]
    ) -> Iterator[None]:
        position = np.asarray(event.position, dtype=float)
        direction = None if event.view_direction is None else np.asarray(event.view_direction)
        dims_displayed = list(event.dims_displayed)
        if not (yield from _is_click(event)):
            return
        found = position[-3:] if viewer.dims.ndisplay == 2 else None
        if found is None and direction is not None:
            found = self._seen(position, direction, dims_displayed)
        if found is not None:
            add(found)

    def found_under(
        self,
        position: NDArray[np.float64],
        direction: NDArray[np.float64],
        displayed: list[int],
    ) -> NDArray[np.float64] | None:
        """Return where a ray meets what 3-D shows of the volume, display (z, y, x); or None."""
        planes, volume = planes_in_view(self._session.viewer), self._session.fod_layer
        if planes:
            hit = planes[-1].hit(position[-3:], direction[-3:])
            return None if hit is None else hit[1]
        if volume is None:
            return None
        return first_bright_voxel(volume, position, direction, displayed)

    def _seen(self, *ray: Any) -> NDArray[np.float64] | None:
        """Return what :meth:`found_under` does, or say why nothing is there."""
        found = self.found_under(*ray)
        if found is None and planes_in_view(self._session.viewer):
            self._missed(NO_SLICE)
        elif found is None:
            self._missed(NO_VOLUME if self._session.fod_layer is None else NOTHING_BRIGHT)
        return found

    def _remove(self, event: Any, layer: Points, index: int) -> Iterator[None]:
        if (yield from _is_click(event)):
            self.remove(layer, index)

    def remove(self, layer: Points, index: int) -> None:
        if layer is self._session.seeds.layer:
            self._session.seeds.remove([index])
        else:
            self._session.regions.remove_layer(layer)

    def _move(self, event: Any, layer: Points, index: int) -> Iterator[None]:
        start = np.asarray(event.position, dtype=float)[-3:]
        first = np.asarray(layer.data[index] * layer.scale + layer.translate, dtype=float)
        n = len(layer.data)
        pressed = np.asarray(event.pos)
        is_drag = False
        while True:
            event.handled = True  # on the press: the camera then ignores the whole drag
            yield
            is_drag = is_drag or np.abs(np.asarray(event.pos) - pressed).max() > CLICK_PIXELS
            if not is_drag:
                if event.type == "mouse_move":
                    continue
                return  # a click
            self._session.document.hold()  # until the mouse lets go: one step
            if len(layer.data) != n or not self._session.owns(layer):
                self._session.document.release()
                return  # removed meanwhile
            # In 3-D positions lie on a plane that faces the eye: so does the way of the seed.
            moved = np.asarray(event.position, dtype=float)[-3:] - start
            self._session.move_point(layer, index, first + moved)
            if event.type != "mouse_move":
                self._session.released.emit()
                return  # moves in quick succession are dropped; the release is not

    def _settle(self, indices: list[int]) -> None:
        """Move seeds that the add tool placed in 3-D, at any depth, to the first bright voxel."""
        viewer, layer = self._session.viewer, self._session.seeds.layer
        if layer is None or viewer.dims.ndisplay == 2:
            return
        displayed = list(viewer.dims.displayed)
        camera = viewer.scene.camera
        direction = np.asarray(camera.calculate_nd_view_direction(viewer.dims.ndim, displayed))
        data = np.array(layer.data, dtype=float)
        missed = []
        for index in indices:
            position = np.zeros(viewer.dims.ndim)
            position[-3:] = data[index] * layer.scale + layer.translate
            found = self._seen(position, direction, displayed)
            if found is None:
                missed.append(index)
            else:
                self._session.move_seed(index, found)
        if missed:
            # The layer is still adding them.
            QTimer.singleShot(0, lambda: self._session.seeds.remove(missed))


def _voxel_values(data: Any, voxels: NDArray[np.intp]) -> NDArray[Any]:
    """Read some voxels of an array, of Dask and Zarr without reading the rest."""
    index = tuple(voxels.T)
    if isinstance(data, np.ndarray):
        return np.asarray(data[index])
    return np.asarray(data.vindex[index] if hasattr(data, "vindex") else np.asarray(data)[index])


@contextmanager
def _without_tool(layer: Layer) -> Iterator[None]:
    """Put the tool of a layer away, so that napari does not use it for the press under way."""
    mode = layer.mode
    layer.mode = "pan_zoom"
    try:
        yield
    finally:
        layer.mode = mode


def _is_click(event: Any) -> Generator[None, None, bool]:
    """Follow the mouse until it is released; return whether it stayed where it was pressed."""
    start = np.asarray(event.pos)
    moved = 0.0
    event.handled = True
    yield
    while True:
        moved = max(moved, float(np.abs(np.asarray(event.pos) - start).max()))
        event.handled = True
        if event.type != "mouse_move":
            return moved <= CLICK_PIXELS
        yield


def first_bright_voxel(
    layer: Layer,
    position: NDArray[np.float64],
    direction: NDArray[np.float64],
    dims_displayed: list[int],
) -> NDArray[np.float64] | None:
    """Return where a ray from the eye first meets a voxel of a 3-D image above the threshold.

    Position and direction of the ray are in the viewer's world, of which the axes in
    `dims_displayed` are shown; what is returned is display (z, y, x) mm, or None when the ray meets
    nothing.
    """
    extra = len(position) - layer.ndim
    shown = [axis - extra for axis in dims_displayed]
    near, far = layer.get_ray_intersections(position[extra:], direction[extra:], shown, world=True)
    if near is None or far is None:
        return None
    near, far = np.asarray(near, dtype=float), np.asarray(far, dtype=float)
    n_steps = max(int(np.linalg.norm(far - near) / RAY_STEP_VOXELS), 1)
    along = near + (far - near) * ((np.arange(n_steps) + 0.5) / n_steps)[:, None]
    coarse = layer.data[-1] if layer.multiscale else layer.data  # as 3-D shows it
    shape = np.array(coarse.shape)
    inside = ((along > -0.5) & (along < np.array(layer.data.shape) - 0.5)).all(axis=1)
    along = along[inside]
    voxels = np.floor((along + 0.5) * (shape / layer.data.shape)).astype(int)
    values = _voxel_values(coarse, np.clip(voxels, 0, shape - 1))
    low, high = layer.contrast_limits
    hits = np.flatnonzero(values > low + RAY_THRESHOLD * (high - low))
    if not len(hits):
        return None
    return np.asarray(layer.data_to_world(along[hits[0]]), dtype=float)[-3:]
