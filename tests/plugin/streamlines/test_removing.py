"""Streamlines that are removed from a window; in a process of its own, which may crash."""

from __future__ import annotations

import subprocess
import sys

SCRIPT = """
import napari, numpy as np
from qtpy.QtTest import QTest
from napari_tractography.plugin.streamlines.layer import Streamlines
from napari_tractography.streamlines.tractogram import Tractogram

viewer = napari.Viewer(show=True)
viewer.add_image(np.random.default_rng(0).random((10, 24, 32)))
points = np.random.default_rng(1).random((300 * 50, 3)) * 10
lines = viewer.add_layer(Streamlines(Tractogram(points, np.arange(301) * 50)))
seeds = viewer.add_points(np.array([[5.0, 10, 10]]))
QTest.qWait(700)
for layer in (lines, seeds):
    viewer.layers.remove(layer)
del lines, seeds, layer
QTest.qWait(500)
viewer.dims.set_point(0, 3)
QTest.qWait(500)
viewer.scene.camera.zoom *= 1.5
QTest.qWait(500)
print("drawn")
viewer.close()
"""


def test_the_window_is_drawn_after_streamlines_and_points_are_removed_at_once(qapp):
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True)
    assert (done.returncode, done.stdout.strip()[-5:]) == (0, "drawn"), done.stderr[-2000:]
