"""Pictures of the phantoms that the code makes, and of the panel."""

from __future__ import annotations

from typing import Any

import numpy as np
from napari.layers import Layer
from numpy.typing import NDArray
from qtpy.QtTest import QTest

import napari_tractography as nt
from napari_tractography.model.phantoms import make_phantom, phantom_seeds_mm
from napari_tractography.plugin.layers.tubes import tubes_layer
from napari_tractography.plugin.layers.volume_layers import fod_layer_data
from napari_tractography.plugin.panel.panel import TractographyPanel
from napari_tractography.plugin.space.display import DisplaySpace
from napari_tractography.plugin.space.views import orient
from napari_tractography.plugin.streamlines.layer import Streamlines

from .canvas import NOTHING, SETTLE_MS, Picture, add_volume, finish, look_from, show_docks


def draw_arcs(viewer: Any, _fod: nt.Fod | None) -> NDArray[np.uint8]:
    fod = make_phantom("arcs")
    add_volume(viewer, fod, opacity=0.25)
    seeds = nt.Seeds.concatenate(
        [nt.Seeds.in_sphere(place, 4.0, 1500) for place in phantom_seeds_mm("arcs")]
    )
    lines = nt.track(fod, seeds, nt.TrackingParameters(min_length_mm=10.0))
    viewer.add_layer(Streamlines(lines, space=DisplaySpace.of(fod.grid), width=1.5))
    look_from(viewer, (-0.6, -0.75, 0.4))
    return finish(viewer)


def draw_tubes(viewer: Any, _fod: nt.Fod | None) -> NDArray[np.uint8]:
    fod = make_phantom("arcs")
    seeds = nt.Seeds.concatenate(
        [nt.Seeds.in_sphere(place, 4.0, 40) for place in phantom_seeds_mm("arcs")]
    )
    parameters = nt.TrackingParameters(algorithm="deterministic", min_length_mm=20.0)
    lines = nt.track(fod, seeds, parameters)
    viewer.add_layer(tubes_layer(lines, DisplaySpace.of(fod.grid)))
    orient(viewer)
    look_from(viewer, (-0.6, -0.75, 0.4))
    return finish(viewer)


def draw_lit(viewer: Any, _fod: nt.Fod | None) -> NDArray[np.uint8]:
    fod = make_phantom("arcs")
    seeds = nt.Seeds.concatenate(
        [nt.Seeds.in_sphere(place, 4.0, 300) for place in phantom_seeds_mm("arcs")]
    )
    lines = nt.track(fod, seeds, nt.TrackingParameters(min_length_mm=10.0))
    layer = Streamlines(lines, space=DisplaySpace.of(fod.grid), width=2.5)
    layer.colour = "#ff5544"
    viewer.add_layer(layer)
    orient(viewer)
    look_from(viewer, (-0.6, -0.75, 0.4))
    return finish(viewer)


def draw_panel(viewer: Any, _fod: nt.Fod | None) -> NDArray[np.uint8]:
    panel = TractographyPanel(viewer, remember=False)
    show_docks(viewer, True)
    viewer.window.add_dock_widget(panel, name="Tractography", area="right")
    viewer.add_layer(Layer.create(*fod_layer_data(make_phantom("cross"))))
    panel.session.add_seeds_mm(np.array([[0.0, 0.0, 0.0], [-18.0, 9.0, 0.0]]))
    panel.set_parameters(n_per_seed=400, radius_mm=2.0)
    panel.run()
    while panel.runs.current is not None:
        QTest.qWait(20)
    viewer.reset_view()
    QTest.qWait(SETTLE_MS)
    return np.asarray(viewer.screenshot(canvas_only=False, flash=False)[..., :3])


PICTURES = {
    "arcs": Picture(
        "arcs",
        "A phantom",
        "Bundles that cross, bend and fan, made by the code; nothing to download.",
        draw_arcs,
        needs=NOTHING,
    ),
    "lit": Picture(
        "lit",
        "Light on lines",
        "One colour: what shows the shape is light, depth and halos.",
        draw_lit,
        needs=NOTHING,
    ),
    "tubes": Picture(
        "tubes",
        "Tubes",
        "A chosen few streamlines as a surface, for figures.",
        draw_tubes,
        needs=NOTHING,
    ),
    "panel": Picture(
        "panel",
        "The panel",
        "Seeds in the hand: Shift-click places one, and with Live on streamlines follow as it is "
        "dragged.",
        draw_panel,
        needs=NOTHING,
    ),
}
