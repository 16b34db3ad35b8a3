"""A row of small pictures of streamlines, which turn together. Called by the sweep dialog.

One canvas of vispy with a view for each picture: napari's viewers would be heavy.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from qtpy.QtWidgets import QWidget
from vispy import scene

from ....maps.clusters import evenly_thinned
from ....streamlines.tractogram import Tractogram
from ..widgets.layout import stack

HEIGHT = 190
MAX_LINES = 300  # of a picture
LINE_WIDTH = 1.0
ROOM = 1.1  # times what the lines take, however they are turned about the vertical

Lines = tuple[NDArray[np.float32], NDArray[np.float32], NDArray[np.bool_]]


def lines_of(tractogram: Tractogram) -> Lines:
    """Return an even part of streamlines as a picture takes them; in any thread.

    Points, (n, 3) RAS+ mm, their colours by direction, (n, 4), and which are joined with the next.
    """
    n = len(tractogram)
    few = tractogram[np.unique(np.linspace(0, n - 1, min(n, MAX_LINES)).astype(np.int64))]
    points = evenly_thinned(few)
    along = np.abs(np.gradient(points, axis=1)) if len(points) else np.zeros_like(points)
    lengths = np.linalg.norm(along, axis=2, keepdims=True)
    rgb = np.divide(along, lengths, where=lengths > 0, out=np.zeros_like(along))
    colours = np.concatenate([rgb, np.ones_like(lengths)], axis=2).astype(np.float32)
    joined = np.ones(points.shape[:2], bool)
    joined[:, -1] = False
    return points.reshape(-1, 3), colours.reshape(-1, 4), joined.ravel()


class SmallPictures(QWidget):  # type: ignore[misc]
    """Pictures beside each other; turning, moving or zooming one does so with all."""

    def __init__(self) -> None:
        super().__init__()
        self.canvas = scene.SceneCanvas(keys=None, bgcolor="black", parent=self)
        self.views: list[Any] = []
        self._grid: Any = None
        self._box = np.zeros((0, 3))  # what has been shown lies in it
        stack(self, self.canvas.native)
        self.setFixedHeight(HEIGHT)

    def begin(self, n: int) -> None:
        """Make room for so many pictures, in the place of those before."""
        angles = self._angles
        if self._grid is not None:
            self._grid.parent = None
        self._box = np.zeros((0, 3))
        self._grid = self.canvas.central_widget.add_grid(spacing=4)
        self.views = [self._grid.add_view(row=0, col=k) for k in range(n)]
        for view in self.views:
            view.camera = scene.TurntableCamera(fov=0.0, **angles)
        for view in self.views[1:]:  # both ways, and so all with each other
            self.views[0].camera.link(view.camera)

    @property
    def _angles(self) -> dict[str, float]:
        """How the pictures are turned; at first they are seen from behind, right at the right."""
        if not self.views:
            return {"elevation": 15.0, "azimuth": 0.0}
        camera = self.views[0].camera
        return {"elevation": camera.elevation, "azimuth": camera.azimuth}

    def show_lines(self, number: int, lines: Lines) -> None:
        """Show streamlines in a picture; all pictures have room for those of each."""
        points, colours, joined = lines
        if not len(points):
            return
        scene.visuals.Line(
            points,
            color=colours,
            connect=joined[:-1],
            width=LINE_WIDTH,
            parent=self.views[number].scene,
        )
        box = np.concatenate([self._box, points])
        box = np.stack([box.min(axis=0), box.max(axis=0)])
        if not np.array_equal(box, self._box):
            self._box = box
            x, y, z = box[1] - box[0]
            width, height = self.views[0].size
            for view in self.views:
                view.camera.center = box.mean(axis=0)
            # The world's size of the shorter side; linked, and so that of all.
            side = min(1.0, width / height)
            self.views[0].camera.scale_factor = ROOM * max(np.hypot(x, y), z * side)
        self.canvas.update()

    def close_canvas(self) -> None:
        """Let go of what is drawn."""
        self.canvas.close()
