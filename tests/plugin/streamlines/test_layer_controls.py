"""napari's layer controls of streamlines. What is private of napari is named here: when one of
these fails after an update, read how napari makes its layer controls."""

from __future__ import annotations

import numpy as np
from napari._qt.layer_controls.dynamic import qt_dynamic_layer_controls
from napari._qt.layer_controls.qt_layer_controls_container import (
    create_qt_layer_controls,
    layer_to_controls,
)
from napari._qt.layer_controls.qt_tracks_controls import QtTracksControls
from napari.layers import Tracks
from qtpy.QtWidgets import QLabel

from napari_tractography import Tractogram
from napari_tractography.plugin.streamlines.bare_tracks import BareTracks
from napari_tractography.plugin.streamlines.canvas.layer_controls import StreamlineControls
from napari_tractography.plugin.streamlines.layer import Streamlines


def test_streamlines_have_controls_of_their_own_and_tracks_keep_theirs(qtbot):
    layer = Streamlines(Tractogram.from_streamlines([np.eye(2, 3)]))
    controls = create_qt_layer_controls(layer)
    qtbot.addWidget(controls)
    assert type(controls) is StreamlineControls is layer_to_controls[BareTracks]
    assert layer_to_controls[Tracks] is QtTracksControls
    texts = {label.text() for label in controls.findChildren(QLabel)}
    wanted = {"colour by", "colormap", "width", "light in 3-D", "slab", "clip in 3-D", "opacity"}
    assert {f"{name}:" for name in wanted} <= texts
    assert not [text for text in texts if "tail" in text or "head" in text or "graph" in text]


def test_controls_set_the_layer_and_follow_it(qtbot):
    layer = Streamlines(Tractogram.from_streamlines([np.eye(2, 3)]))
    controls = create_qt_layer_controls(layer)
    qtbot.addWidget(controls)
    rows = controls.rows
    rows["width"].controls["width"].value = 3.5
    rows["slab"].controls["slab_mm"].value = 12.0
    rows["light"].controls["lit"].value = False
    rows["clip"].controls["clip"].value = "coronal"
    rows["clip"].controls["clip_at_mm"].value = 7.5
    rows["colour by"].color_by_combobox.setCurrentText("length")
    shown = layer.width, layer.slab_mm, layer.lit, layer.clip, layer.clip_at_mm, layer.colour_by
    assert shown == (3.5, 12.0, False, "coronal", 7.5, "length")
    layer.width, layer.slab_mm, layer.lit, layer.clip = 5.0, 3.0, True, "off"
    assert rows["width"].controls["width"].value == 5.0
    assert rows["slab"].controls["slab_mm"].value == 3.0
    assert rows["light"].controls["lit"].value
    assert not rows["clip"].controls["clip_at_mm"].native.isEnabled()
    for row in rows.values():
        row.disconnect_widget_controls()
    layer.width = 2.0
    assert rows["width"].controls["width"].value == 5.0


def test_no_row_needs_more_room_than_the_dock_of_other_layers_has(qtbot):
    """What is at the right was cut off, beside a layer whose controls are narrow."""
    layer = Streamlines(Tractogram.from_streamlines([np.eye(2, 3)]))
    controls = create_qt_layer_controls(layer)
    qtbot.addWidget(controls)
    clip = controls.rows["clip"]
    choice, box = (control.native for control in clip.controls.values())
    clip.widget.resize(198, 26)
    clip.widget.show()
    assert box.geometry().right() < 198
    assert choice.width() > 60


def test_several_layers_have_the_same_controls_and_are_set_together(qtbot):
    layers = [Streamlines(Tractogram.from_streamlines([np.eye(2, 3)])) for _ in range(2)]
    controls = qt_dynamic_layer_controls.QtDynamicLayerControls(layers)
    qtbot.addWidget(controls)
    texts = {label.text() for label in controls.findChildren(QLabel)}
    assert {f"{name}:" for name in ("width", "light in 3-D", "slab", "clip in 3-D")} <= texts
    assert not [text for text in texts if "tail" in text or "head" in text or "graph" in text]
    rows = {row.name: row for row in controls._controls if hasattr(row, "name")}
    rows["width"].controls["width"].value = 4.0
    rows["lit"].controls["lit"].value = False
    rows["clip"].controls["clip"].value = "axial"
    assert [(e.width, e.lit, e.clip) for e in layers] == [(4.0, False, "axial")] * 2
    controls.ndisplay = 3
    for row in controls._controls:
        row.disconnect_widget_controls()
    layers[0].width = 2.0
    assert rows["width"].controls["width"].value == 4.0
    tracks = [Tracks(np.array([[0, 0, 0, 0], [0, 1, 1, 1.0]])) for _ in range(2)]
    theirs = qt_dynamic_layer_controls.QtDynamicLayerControls(tracks)
    qtbot.addWidget(theirs)
    assert "tail length:" in {label.text() for label in theirs.findChildren(QLabel)}
