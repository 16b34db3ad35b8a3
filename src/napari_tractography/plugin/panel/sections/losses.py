"""What cavities take of the bundles: a sentence for each, and lines where they come nearest."""

from __future__ import annotations

import html
from typing import Any

import numpy as np
from napari.layers import Vectors
from napari.layers.utils.color_transformations import transform_color
from qtpy.QtWidgets import QWidget

from ....maps.resection import RESEARCH_ONLY
from ...layers.on_volume import OnVolume, is_in_front
from ...session.resections import RESECTION_KEY, Resections
from ...space.layer_list import index_of_lowest, insert_beside, take_out
from ...streamlines.layer import Streamlines
from ..widgets.layout import stack, wrapped

NAME = "Margins"
WIDTH_MM = 0.8
HELP = (
    "What the bundles whose eye is open would lose to the regions with the role resect, of all "
    "bundles, and how near these come. Every streamline keeps its random numbers: it is what "
    "tracking with the cavity and without would give. Measure saves it as a table and as a map."
)


class MarginLines(OnVolume, Vectors):  # type: ignore[misc]
    """A line for each bundle, to the cavity from where it is nearest."""

    _type_string = "vectors"
    stays_in_front = True  # of streamlines


class Losses(QWidget):  # type: ignore[misc]
    """Sentences in the panel, lines in the picture, and what figures say."""

    def __init__(self, resections: Resections) -> None:
        super().__init__()
        self.resections = resections
        self._viewer = resections.session.viewer
        self.layer: MarginLines | None = None
        self.label = wrapped(tooltip=HELP, is_selectable=True)
        stack(self, self.label)
        self.hide()
        resections.changed.connect(self.refresh)

    def open(self) -> None:
        self._viewer.layers.events.removed.connect(self._on_removed)
        self.resections.open()

    def close_section(self) -> None:
        self.resections.close_section()
        self._viewer.layers.events.removed.disconnect(self._on_removed)
        self._show_lines([], [])

    def refresh(self) -> None:
        found = self.resections.found
        for layer in self._viewer.layers:
            if isinstance(layer, Streamlines):
                layer.metadata.pop(RESECTION_KEY, None)
        for bundle, lost in found.items():
            if bundle.streamlines_layer is not None:
                bundle.streamlines_layer.metadata[RESECTION_KEY] = lost
        texts = [
            f'<span style="color: {bundle.state.colour}">■</span> <b>{html.escape(each.name)}</b> '
            f"{html.escape(each.text)}"
            for bundle, each in found.items()
        ]
        self.label.setText("<br>".join([*texts, f"<i>{RESEARCH_ONLY}</i>"]))
        self.setVisible(bool(found))
        met = [(b, r.line_mm) for b, r in found.items() if r.line_mm is not None]
        self._show_lines([line for _, line in met], [bundle.state.colour for bundle, _ in met])

    def _show_lines(self, lines_mm: list[Any], colours: list[str]) -> None:
        if not lines_mm:
            take_out(self._viewer, self.layer)
            self.layer = None
            return
        space = self.resections.session.space
        ends = space.shown_at(np.concatenate(lines_mm)).reshape(-1, 2, 3)
        data = np.stack([ends[:, 0], ends[:, 1] - ends[:, 0]], axis=1)
        paint = np.concatenate([transform_color(colour) for colour in colours])
        if self.layer is not None and len(self.layer.data) != len(data):
            self._show_lines([], [])
        if self.layer is None:
            self.layer = MarginLines(
                data,
                name=NAME,
                edge_width=WIDTH_MM * space.in_proportion(1.0) * space.per_mm,
                edge_color=paint,
                vector_style="line",
                opacity=1.0,
                blending="translucent_no_depth",
            )
            self.layer.space = space
            at = index_of_lowest(self._viewer.layers, is_in_front)
            insert_beside(self._viewer, self.layer, at)
        else:
            self.layer.data = data
            self.layer.edge_color = paint

    def _on_removed(self, event: Any) -> None:
        if event.value is self.layer:
            self.layer = None
