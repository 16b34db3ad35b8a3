"""Where regions lie among the layers, and how spheres are seen."""

from __future__ import annotations

from typing import Any

import numpy as np

from napari_tractography.plugin.layers.spheres import Spheres


def test_spheres_are_outlines_above_streamlines_and_labels_lie_below(
    open_model: Any, cross: Any, settle: Any
) -> None:
    panel = open_model(cross)
    session, layers = panel.session, panel.viewer.layers
    sphere = session.regions.add_sphere(np.zeros(3), 5.0).layer
    session.add_seeds_mm(np.zeros((1, 3)))
    panel.run()
    settle(panel)
    painted = session.regions.add_painting().layer
    order = [painted, session.streamlines_layer, sphere, session.seeds.layer]
    assert [layer for layer in layers if layer in order] == order
    assert isinstance(sphere, Spheres)
    outline, inside = sphere.border_color[0], sphere.face_color[0]
    np.testing.assert_array_equal(outline[:3], inside[:3])
    assert outline[3] == 1
    assert inside[3] < 0.25  # what lies below is seen through it
    assert sphere.border_width[0] > 0
    assert sphere.opacity == 1
    session.regions.set_role(session.regions.entries[0], "exclude")
    assert sphere.border_color[0][0] > 0.9  # red
    panel.session.document.undo()
    sphere.add([[0.0, 0.0, 9.0]])  # by napari's own tool
    assert sphere.border_color[1].tolist() == outline.tolist()


def test_new_streamlines_lie_above_volumes_also_where_seeds_do_not(
    open_model: Any, cross: Any, settle: Any
) -> None:
    panel = open_model(cross)
    session, layers = panel.session, panel.viewer.layers
    session.add_seeds_mm(np.zeros((1, 3)))
    layers.move(layers.index(session.seeds.layer), 0)
    panel.run()
    settle(panel)
    assert list(layers) == [session.seeds.layer, session.fod_layer, session.streamlines_layer]
    first = session.streamlines_layer
    panel.bundles.add()
    session.add_seeds_mm(np.zeros((1, 3)))
    panel.run()
    settle(panel)
    assert list(layers)[2:] == [first, session.streamlines_layer]
