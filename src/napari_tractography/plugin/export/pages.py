"""Interactive pages of a window: its bundles, a volume, and its view, as one HTML file.

Called by the panel and by scripts.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...errors import InvalidTractogramError
from ...pages.live import live_of
from ...pages.page import DIRECTION, Camera, PageBundle, PageVolume, check_page, save_page
from ...streamlines.tractogram import Tractogram
from ..layers.planes import plane_sources, planes_in_view
from ..requests import Request
from ..session.listing import BundleList
from ..session.open_bundle import OpenBundle
from ..space.display import DisplaySpace, display_space_of_layer
from ..space.orientation_labels import is_anatomical
from ..space.views import SLICES, plane_in_view
from ..streamlines.colours import ONE_COLOUR, hex_of
from .projects import project_to_prove

MOST_VOXELS = 2**29  # of a volume: what is larger is not read as a whole
# Of a slice, where the eye looks and what is up, x, y, z.
SIGHTS = {
    "axial": ((0.0, 0.0, -1.0), (0.0, 1.0, 0.0)),
    "coronal": ((0.0, 1.0, 0.0), (0.0, 0.0, 1.0)),
    "sagittal": ((-1.0, 0.0, 0.0), (0.0, 0.0, 1.0)),
}
ACROSS = ("sagittal", "coronal", "axial")  # x, y and z


def page_of(
    bundles: BundleList,
    path: str | Path,
    *,
    title: str = "",
    caption: str = "",
    every: int = 1,
    live: bool = False,
) -> tuple[Callable[[], int], list[str]]:
    """Return what writes the window as a page, for a thread, and why bundles' recipes are missing.

    What writes it takes no part in the window any more; it returns the size of the file in bytes.
    Streamlines are those that are drawn. With `live` the seeds of the active bundle can be dragged
    in the page. Raises TractographyError as :func:`~napari_tractography.pages.page.save_page`;
    InvalidTractogramError where the active bundle is no result of a run.
    """
    check_page(path, every=every)
    viewer = bundles.viewer
    tracked = _tracked(bundles.active) if live else None
    project, left_out, prove = project_to_prove(bundles)
    shown = [
        page_bundle for bundle in bundles.bundles if (page_bundle := _bundle(bundle)) is not None
    ]
    spaces = [bundle.layer.space for bundle in bundles.bundles if bundle.layer is not None]
    space = spaces[0] if spaces else DisplaySpace.identity()
    volume, camera = _volume(viewer), camera_of(viewer, space)
    ground = np.asarray(viewer.canvas.background_color, dtype=float).ravel()[:3]
    anatomical = is_anatomical(viewer.layers)

    def write() -> int:
        prove()
        proven = [
            replace(each, digest=project.bundles[each.name].digest)
            if each.name in project.bundles
            else each
            for each in shown
        ]
        tracking = None
        if tracked is not None:
            name, request, whole = tracked
            tracking = name, live_of(request.tracking_input(), whole)
        return save_page(
            path,
            proven,
            volume=volume,
            project=project if project.bundles else None,
            title=title,
            caption=caption,
            camera=camera,
            theme="dark" if ground.mean() < 0.5 else "light",
            every=every,
            is_anatomical=anatomical,
            unit=space.unit,
            live=tracking,
        )

    return write, left_out


def _tracked(bundle: OpenBundle) -> tuple[str, Request, Tractogram]:
    """Return the name of a bundle, and the run of which it shows the result."""
    result, layer = bundle.state.result, bundle.streamlines_layer
    request = None if result is None else result.request
    if result is None or request is None or not request.is_whole or layer is None:
        raise InvalidTractogramError(
            f"{bundle.state.name} is no result of a run, whose seeds could be dragged in a page; "
            "run tracking, or choose a bundle that was tracked."
        )
    return bundle.state.name, request, result.whole


def _bundle(bundle: OpenBundle) -> PageBundle | None:
    """Return a bundle as the window shows it, without its digest; None without streamlines."""
    layer, state = bundle.streamlines_layer, bundle.state
    if layer is None or not layer.n_shown:
        return None
    colour: str | NDArray[np.uint8] = DIRECTION
    meaning = ""
    if layer.colour_by == ONE_COLOUR:
        colour = hex_of(layer.colour)
    elif layer.colour_by != DIRECTION:
        colours = layer.colours.shown_in(layer.space.unit)
        colour, meaning = colours.rgb, colours.meaning
    return PageBundle(
        state.name,
        layer.drawn,
        colour,
        meaning,
        width=layer.width,
        opacity=float(layer.opacity),
        is_visible=bool(layer.visible),
        n_all=layer.n_all,
    )


def _volume(viewer: Any) -> PageVolume | None:
    """Return the volume whose slices are seen, or that is seen itself; None for none."""
    planes = planes_in_view(viewer)
    layers = [each.source for each in planes]
    layers += [layer for layer in plane_sources(viewer.layers)[::-1] if layer.visible]
    layers = [
        layer for layer in layers if not layer.rgb and np.prod(layer.data.shape) < MOST_VOXELS
    ]
    if not layers:
        return None
    layer = layers[0]
    space = display_space_of_layer(layer)
    assert space.grid is not None
    low, high = layer.contrast_limits
    plane = plane_in_view(viewer)
    seen = [plane not in SLICES or plane == name for name in ACROSS]
    return PageVolume(
        layer.name,
        np.asarray(space.from_volume(layer.data)),
        space.grid,
        limits=(float(low), float(high)),
        gamma=float(layer.gamma),
        point_mm=space.to_world(viewer.dims.point[-3:])[0].tolist(),
        are_visible=(seen[0], seen[1], seen[2]),
    )


def camera_of(viewer: Any, space: DisplaySpace) -> Camera:
    """Return from where a viewer looks at what is in a display space."""
    camera, dims = viewer.scene.camera, viewer.dims
    center = np.asarray(dims.point[-3:], float)
    axes = [axis - (dims.ndim - 3) for axis in dims.displayed]
    center[axes] = camera.center[-len(axes) :]
    if dims.ndisplay == 3:
        sight, top = np.empty(3), np.empty(3)
        sight[axes], top[axes] = camera.view_direction, camera.up_direction
        forward, up = sight[::-1], top[::-1]
    else:
        plane = plane_in_view(viewer) or ""
        forward, up = map(np.array, SIGHTS.get(plane, SIGHTS["axial"]))
    ways = [_as_numbers(space.world_to_display[:3, :3].T @ way) for way in (forward, up)]
    height, width = (float(n) / float(camera.zoom) / space.per_mm for n in viewer.canvas.size)
    return Camera(_as_numbers(space.to_world(center)[0]), ways[0], ways[1], height, width)


def _as_numbers(vector: NDArray[np.float64]) -> tuple[float, float, float]:
    x, y, z = map(float, vector)
    return x, y, z
