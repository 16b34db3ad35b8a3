"""napari's Tracks layer without what a static picture does not need.

Tracks sorts the points, builds a KD-tree and looks at every vertex in Python.
:class:`BareTracks` keeps the look (visual, shader, controls) and leaves out the rest: a subclass
says what is drawn. This file, :mod:`.canvas.tracks_visual` and their test are the only places that
know the private names of napari's Tracks. The base of :class:`.layer.Streamlines`.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import napari
import numpy as np
import pandas as pd  # type: ignore[import-untyped]
from napari.layers import Tracks
from napari.utils.events import Event
from numpy.typing import NDArray

from ...errors import InvalidParameterError
from ..space.extent import forget_extent


@dataclass(frozen=True, slots=True)
class View:
    """What the visual draws."""

    # (n, 3) float32: axes as on the screen; the third is 0 in a slice view.
    vertices: NDArray[np.float32]
    rgba: NDArray[np.float32]  # (n, 4) float32: colours of the vertices
    # (n,) bool or "segments": which vertices are joined to the next; "segments" joins each even one
    # to the next.
    connect: NDArray[np.bool_] | str
    # (n,) float32: distance from the slice in units of the fading: 0 is opaque, 1 invisible.
    depth: NDArray[np.float32]
    # (n / 2,) int64: in a slice view, the point from which the segment of each drawn piece starts.
    start: NDArray[np.int64] | None = None
    source: Any = None  # what the points are points of


THUMBNAIL_POINTS = 1024
# vispy cannot draw an empty line: one transparent segment of no length.
NOTHING = View(
    np.zeros((2, 3), np.float32), np.zeros((2, 4), np.float32), "segments", np.zeros(2, np.float32)
)


class BareTracks(Tracks):  # type: ignore[misc]
    """Three-dimensional polylines that a subclass provides by ``_make_view``.

    The stock shader fades by time: vertices get minus their distance from the slice as time, and
    the present is 0.
    """

    _type_string = "tracks"  # so that napari offers the writers of tracks
    _view: View | None = None
    _highlight: View | None = None
    _lit = True
    _drawn_every = 1
    _enlarged_by = 1.0
    without_graphics_card = False  # known once something was drawn
    thumbnail: NDArray[np.uint8]
    _ready = False  # napari's constructor sets data and colours before there are any
    _is_stale = True  # whether the visual has not read the vertices that there are
    _read_axes: list[int] | None = None  # those on the screen when it did

    def __init__(self, **kwargs: Any) -> None:
        # Without a Qt binding there is no canvas, and another napari may have other classes.
        with suppress(ImportError):
            from .canvas import tracks_visual

            tracks_visual.register(BareTracks)
        with suppress(ImportError):
            from .canvas import layer_controls

            layer_controls.register(BareTracks)
        super().__init__(np.zeros((1, 4)), **kwargs)  # Tracks cannot be built empty
        self.events.add(lit=Event, drawn_every=Event, enlarged_by=Event)
        self.events.set_data.connect(self._on_sliced)
        self._ready = True

    def _make_view(self) -> View:
        raise NotImplementedError

    def _make_highlight(self) -> View | None:
        """Return what is drawn in front of the rest, which is dimmed; None when nothing is."""
        raise NotImplementedError

    def _on_displayed(self) -> None:
        """Do what a subclass has to when the axes on the screen may have changed."""

    def _coloured_points(self) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Return (n, 3) points, axes x, y, z, and their (n, 4) RGBA."""
        raise NotImplementedError

    @property
    def _drawn(self) -> View:
        view = self._view  # once: the thread of the status bar asks too
        if view is None:
            view = self._view = self._make_view()
        return view

    @property
    def _highlighted(self) -> View | None:
        if self._highlight is None:
            self._highlight = self._make_highlight()
        return self._highlight

    @property
    def _view_data(self) -> NDArray[np.float32]:
        return np.asarray(self._drawn.vertices)

    @property
    def _view_graph(self) -> None:
        return None

    def _on_sliced(self, _event: Any = None) -> None:
        """Have the visual read the vertices again when they, the slice or its axis change."""
        displayed = self.displayed
        if self._is_stale or len(displayed) == 2 or displayed != self._read_axes:
            self._read_axes = displayed
            self._is_stale = False
            self._forget_views()
            self._on_displayed()
            self.events.rebuild_tracks()
            self.events.rebuild_graph()

    def _forget_views(self) -> None:
        self._view = self._highlight = None

    def _mark_highlight_changed(self) -> None:
        self._highlight = None
        self.events.rebuild_graph()

    def _mark_changed(self) -> None:
        """Redraw, now or as soon as the layer is visible."""
        self._is_stale = True
        self._forget_views()
        forget_extent(self)
        self.refresh()
        self.events.data(value=None)

    @property
    def is_slice(self) -> bool:
        """Whether the viewer shows a 2-D slice."""
        return len(self.displayed) == 2

    @property
    def lit(self) -> bool:
        """Whether 3-D lights lines, by their tangents, and parts them by halos."""
        return self._lit

    @lit.setter
    def lit(self, is_lit: bool) -> None:
        if bool(is_lit) != self._lit:
            self._lit = bool(is_lit)
            self.events.lit()

    @property
    def drawn_every(self) -> int:
        """Of how many lines 3-D draws one, while there is no time for all."""
        return self._drawn_every

    @drawn_every.setter
    def drawn_every(self, every: int) -> None:
        if every != self._drawn_every:
            self._drawn_every = every
            self.events.drawn_every()

    @property
    def enlarged_by(self) -> float:
        """How much wider lines are drawn than they are, for a picture larger than the canvas."""
        return self._enlarged_by

    @enlarged_by.setter
    def enlarged_by(self, factor: float) -> None:
        if factor != self._enlarged_by:
            self._enlarged_by = factor
            self.events.enlarged_by()

    @property
    def displayed(self) -> list[int]:
        """The axes of (z, y, x) on the screen, the horizontal one last."""
        return self._axes()[0]

    @property
    def sliced(self) -> tuple[int, float]:
        """The axis of (z, y, x) across the slice and the position of the slice on it."""
        axis = self._axes()[1][0]
        known = getattr(self, "_data_slice", None)
        if known is None:
            return axis, float(self.world_to_data(napari.current_viewer().dims.point)[axis])
        return axis, float(known.point[axis])

    def _axes(self) -> tuple[list[int], list[int]]:
        """Return which axes of (z, y, x) are on the screen and which are not.

        Where napari no longer tells a layer: those of the window.
        """
        known = getattr(self, "_slice_input", None)
        if known is not None:
            return list(known.displayed), list(known.not_displayed)
        viewer = napari.current_viewer()
        if viewer is None:
            return [0, 1, 2], []
        shown = [axis - (viewer.dims.ndim - 3) for axis in viewer.dims.displayed]
        return shown, [axis for axis in range(3) if axis not in shown]

    @property
    def current_time(self) -> float:
        """The slice, for the shader."""
        return 0.0

    @property
    def use_fade(self) -> bool:
        """Whether lines fade away from the slice: in 2-D."""
        return self.is_slice

    @property
    def track_times(self) -> NDArray[np.float32]:
        """Minus the distance of each vertex from the slice, in units of the fading."""
        return self._times_of(self._drawn)

    def _times_of(self, view: View) -> NDArray[np.float32]:
        return view.depth * np.float32(-self.tail_length)

    @property
    def head_length(self) -> int:
        """Nothing lies after the present: the slab has one thickness on both sides."""
        return 0

    @head_length.setter
    def head_length(self, value: int) -> None:
        if self._ready and value:
            self.events.head_length()  # puts the slider back

    @property
    def track_connex(self) -> NDArray[np.bool_] | str:
        """Which vertices are joined to the next one, of the lines that are drawn."""
        joined = self._drawn.connect
        if self._drawn_every == 1 or isinstance(joined, str):
            return joined
        ends = np.flatnonzero(~joined)  # of lines
        line = np.searchsorted(ends, np.arange(len(joined)))
        return np.asarray(joined & (line % self._drawn_every == 0))

    @property
    def track_colors(self) -> NDArray[np.float32]:
        """RGBA of each vertex on the screen."""
        return self._drawn.rgba

    @property
    def track_labels(self) -> tuple[None, tuple[None, None]]:
        """No labels: the status bar says which streamline is under the cursor."""
        return None, (None, None)

    @property
    def graph(self) -> dict[int, list[int]]:
        """Empty: streamlines do not split or merge."""
        return {}

    @graph.setter
    def graph(self, graph: Any) -> None:
        if graph:
            raise InvalidParameterError("A streamlines layer has no graph; leave it empty.")

    @property
    def graph_connex(self) -> None:
        """Nothing: there is no graph."""
        return

    graph_times = graph_connex

    @property
    def features(self) -> pd.DataFrame:
        """Empty: what belongs to a streamline is in its tractogram."""
        return pd.DataFrame()

    @features.setter
    def features(self, features: Any) -> None:
        if features is not None and len(features):
            raise InvalidParameterError(
                "A streamlines layer has no features; use colour_by_values(...) to colour by a "
                "number."
            )

    def _update_thumbnail(self) -> None:
        image = np.zeros_like(self.thumbnail, dtype=np.float32)
        size = len(image)
        image[..., 3] = 1
        xyz, rgba = self._coloured_points()
        if self._ready and len(xyz):
            every = max(1, len(xyz) // THUMBNAIL_POINTS)
            points = xyz[::every, [2 - axis for axis in self.displayed[-2:]]]
            first = points.min(axis=0)
            span = max(float((points.max(axis=0) - first).max()), 1e-6)
            row, column = ((points - first) / span * (size - 1)).astype(int).T
            image[size - 1 - row, column, :3] = rgba[::every, :3]
        self.thumbnail = (image * 255).astype(np.uint8)
