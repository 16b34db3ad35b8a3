"""The Measure section of the panel: lengths, tables, profiles, connectomes and maps of bundles.

It measures the bundles whose eye is open, in a thread; the histogram filters the active one.
"""

from __future__ import annotations

import math
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from magicgui import widgets
from napari.layers import Image, Labels, Layer
from napari.utils.notifications import show_info
from qtpy.QtCore import Signal
from qtpy.QtGui import QShowEvent
from qtpy.QtWidgets import QFileDialog, QWidget

from ....errors import InvalidTractogramError
from ....files.formats import dialog_filter, written_volume_endings
from ....files.volume_files import save_volume
from ....geometry.grid import Grid
from ....maps.bundle_measures import grid_around
from ....maps.scalar_maps import ScalarMap, name_of
from ....model.parameters import ParameterSpec
from ....recipes.edits import BY_NUMBER, Edit, edited
from ...background import Background
from ...layers.volume_layers import fod_grid_of, mask_layers, voxels_of
from ...listening import Listening
from ...notices import show_error, show_warning
from ...session.listing import BundleList
from ...session.open_bundle import OpenBundle
from ...session.resections import Resections
from ...session.session import Session
from ..widgets.busy_dialog import errors_shown, wait_for
from ..widgets.controls import form, layer_choice, offer_layers, parameter_control, show_row
from ..widgets.layout import add_entry, button, give_menu, row, show_text, stack, wrapped
from ..widgets.progress_row import ProgressRow
from . import maps
from .histogram import LengthHistogram
from .measurements import CONNECTOME, KINDS, checked_cavity, work_of
from .outputs import CSV_HELP, PLOT_HELP, PlotView, Shown, SideBySide

CHOSEN = (
    "Streamlines of {name} were chosen by hand: they are no independent trials, and the standard "
    "error of their visitation map means little. Undo the edits for one that holds."
)
STALE = "The bundles have changed since: Measure again."
ERROR_SPEC = ParameterSpec(
    "wanted_error", "Wanted error", 0.002,
    "Of a visitation map: how large the standard error of the probability may be; what stands "
    "below says how many more streamlines that takes.",
    minimum=1e-6, maximum=0.5, increment=0.001,
)  # fmt: skip
SCALAR_HELP = "The image, such as FA, that tables and profiles average, sampled along streamlines."
LABELS_HELP = "The parcellation whose labels a connectome joins."
GRID_HELP = (
    "On whose voxels maps, volume and surface are made: by default those of the scalar map, else "
    "of the FOD, else of 1 mm."
)


class MeasureSection(QWidget):  # type: ignore[misc]
    """What is measured, and what came of it."""

    begun = Signal()  # something is about to be measured

    def __init__(self, session: Session, bundles: BundleList, resections: Resections) -> None:
        super().__init__()
        self.session, self.bundles, self.resections = session, bundles, resections
        self.measuring = Background()
        self._lengths_of: tuple[Any, tuple[Edit, ...], Any] | None = None
        self._enough: tuple[Any, float, str] | None = None  # of which map and error, and what
        self.histogram = LengthHistogram()
        self.kind = widgets.ComboBox(
            name="kind",
            label="Show",
            choices=KINDS,
            tooltip="What is measured of the bundles whose eye is open.",
        )
        layers = session.viewer.layers
        self.scalar = layer_choice(
            "scalar",
            "Scalar map",
            lambda: [x for x in mask_layers(layers) if isinstance(x, Image)],
            SCALAR_HELP,
        )
        self.labels = layer_choice(
            "labels",
            "Labels",
            lambda: [x for x in layers if isinstance(x, Labels) and x.ndim == 3],
            LABELS_HELP,
        )
        self.grid = layer_choice(
            "grid", "Voxels of", lambda: maps.grid_layers(layers), GRID_HELP, nothing="automatic"
        )
        self.error = parameter_control(ERROR_SPEC)
        self.form = form([self.kind, self.scalar, self.labels, self.grid, self.error])
        self.measure = button("Measure", "Measure the bundles whose eye is open.", self.start)
        self.add_map = button("Add map", "Add a map of the selected bundle as a layer.")
        menu = give_menu(
            self.add_map,
            *((name, tip, partial(self.start_map, name)) for name, (_, tip) in maps.MAPS.items()),
        )
        menu.addSeparator()
        tip = "Write the volume that is selected in the layer list as NIfTI."
        add_entry(menu, "Save selected map...", self._ask_map, tip)
        self.progress = ProgressRow("How many streamlines have been measured.", "Stop measuring.")
        self.note, self.visited = wrapped(), wrapped()
        self.table, self.plot = SideBySide(), PlotView()
        copy_help = "Copy the numbers, to be pasted into a spreadsheet."
        self.copy = button("Copy", copy_help, lambda: self.shown.copy())
        self.csv = button("CSV...", CSV_HELP, lambda: self.shown.ask_csv(self))
        self.picture = button("Plot...", PLOT_HELP, lambda: self.shown.ask_plot(self))
        self.outputs = row(self.copy, self.csv, self.picture)
        stack(
            self, self.histogram, self.form, row(self.measure, self.add_map), self.progress,
            self.visited, self.note, self.table, self.plot, self.outputs, spacing=5,
        )  # fmt: skip
        self.visited.hide()
        self._forget()
        self.histogram.chosen.connect(self.limit_lengths)
        self.kind.changed.connect(self._on_kind)
        self.error.changed.connect(lambda _value: self.show_visitation())
        viewer = session.viewer
        self._listening = Listening(
            (bundles.session.list_changed, self.follow),
            (viewer.cursor.events.position, self._on_cursor),
            (viewer.layers.events.removed, self._on_cursor),
        )
        self.progress.follow(self.measuring)
        self.measuring.failed.connect(show_error)
        self._show_rows()

    def _forget(self) -> None:
        """Show nothing that was measured."""
        self.shown: Any = None  # Shown, or None
        self._measured: list[Any] = []  # the tractograms of what is shown
        for each in (self.note, self.table, self.plot, self.outputs):
            each.hide()

    def open(self) -> None:
        self._listening.open()
        self.follow()

    def close_section(self) -> None:
        self.measuring.cancel()
        self.histogram.close_section()
        self._listening.close()

    def refresh_layers(self) -> None:
        for choice in (self.scalar, self.labels, self.grid):
            offer_layers(choice, choice.value)  # by any name

    def showEvent(self, event: QShowEvent) -> None:  # noqa: N802 - Qt's name
        """Show the lengths, which are not computed as long as the section is folded."""
        super().showEvent(event)
        self.follow()

    def _on_kind(self, _value: str) -> None:
        """Show what is measured now, and no more what was of another kind."""
        self._show_rows()
        self.measuring.cancel()
        self._forget()

    def _show_rows(self) -> None:
        show_row(self.form, self.labels, self.kind.value == CONNECTOME)
        show_row(self.form, self.error, maps.visitation_of(self.session.viewer.layers) is not None)

    # -- the lengths of the active bundle ------------------------------------------------------

    def follow(self, _bundle: Any = None) -> None:
        """Show the lengths of the active bundle, and whether what is shown is out of date."""
        if self.shown is not None:
            shown = [bundle.tractogram for bundle in self._bundles()]
            is_stale = list(map(id, shown)) != list(map(id, self._measured))
            if is_stale or self.note.text() == STALE:
                show_text(self.note, STALE if is_stale else self.shown.note)
        if self.isVisible():
            lengths, least, most = self._lengths()
            self.histogram.show_lengths(lengths, least, most, self.session.space.unit)

    def _lengths(self) -> tuple[Any, float, float]:
        """Return the lengths before they are limited, and the limits, in mm."""
        layer = self.session.streamlines_layer
        if layer is None or self.session.tractogram is None:
            return (), 0.0, math.inf
        before, last = _without_lengths(layer.editor.edits)
        if last is None:
            return self.session.tractogram.lengths_mm, 0.0, math.inf
        whole, known = layer.editor.whole, self._lengths_of
        if known is None or known[0] is not whole or known[1] != before:
            known = self._lengths_of = whole, before, edited(whole, before).lengths_mm
        return known[2], last.least, math.inf if last.most is None else last.most

    def limit_lengths(self, least: float, most: float) -> None:
        """Leave out shorter and longer streamlines of the active bundle, as an edit of it."""
        layer = self.session.streamlines_layer
        if layer is None or self.session.tractogram is None:
            return
        wanted, _ = _without_lengths(layer.editor.edits)
        if (least, most) != (0.0, math.inf):
            wanted = (*wanted, Edit.lengths(least, most))
        if wanted != layer.editor.edits:
            with errors_shown():
                layer.editor.edits = wanted

    # -- measuring -----------------------------------------------------------------------------

    def _bundles(self) -> list[OpenBundle]:
        return [
            bundle
            for bundle in self.bundles.bundles
            if bundle.state.is_visible and bundle.tractogram is not None and len(bundle.tractogram)
        ]

    @errors_shown()
    def start(self) -> None:
        bundles, space = self._bundles(), self.session.space
        if not bundles:
            raise InvalidTractogramError(
                "No bundle that is shown has streamlines; run tracking or open an eye in Bundles."
            )
        lines = [(each.name, each.tractogram) for each in bundles if each.tractogram is not None]
        scalar, labels = self.scalar.value, self.labels.value
        if scalar is not None:
            scalar = ScalarMap.from_array(*voxels_of(scalar, space), name_of(scalar.name))
        work = work_of(
            self.kind.value,
            lines,
            [each.state.colour for each in bundles],
            scalar=scalar,
            labels=None if labels is None else voxels_of(labels, space),
            grid=self._grid(),
            cavity=self.resections.cavity,
        )
        self.begun.emit()
        taken = [tractogram for _, tractogram in lines]
        n_total = sum(map(len, taken))
        self.measuring.begin(
            "Measuring",
            lambda advance: work(maps.Counter(advance, n_total)).plotted(),
            lambda shown: self._show(shown, taken),
        )

    def _grid(self) -> Grid | None:
        """Return the voxels that were chosen; else those of the scalar map, else of the FOD."""
        for choice in (self.grid, self.scalar):
            if choice.value is not None:
                volume, space = choice.value, self.session.space
                return fod_grid_of(volume) or voxels_of(volume, space)[1]
        return self.session.space.grid

    def _show(self, shown: Shown, taken: list[Any]) -> None:
        self.shown, self._measured = shown, taken
        show_text(self.note, shown.note)
        self.table.setVisible(shown.is_side_by_side)
        if shown.is_side_by_side:
            self.table.show_table(shown.table)
        if shown.plot is not None:
            self.plot.show_plot(shown.plot)
        self.plot.setVisible(shown.plot is not None)
        self.picture.setEnabled(shown.plot is not None)
        self.outputs.show()

    # -- maps ----------------------------------------------------------------------------------

    @errors_shown()
    def start_map(self, name: str) -> None:
        """Make a map of the active bundle, and add it as a layer."""
        bundle = self.session.bundle
        lines = bundle.tractogram
        if lines is None or not len(lines):
            raise InvalidTractogramError(
                f"{bundle.name} has no streamlines; run tracking, or select another bundle."
            )
        grid = self._grid()
        if name == maps.VISITATION and _is_chosen_by_hand(bundle):
            show_warning(CHOSEN.format(name=bundle.name))
        self.begun.emit()
        make, _ = maps.MAPS[name]
        if name == maps.MARGIN:
            make = partial(make, cavity=checked_cavity(self.resections.cavity))
        self.measuring.begin(
            "Measuring",
            lambda advance: make(
                maps.Counter(advance, len(lines)).over(lines),
                grid or grid_around(lines),
                bundle.name,
            ),
            self._add_layers,
        )

    def _add_layers(self, layers: list[Layer]) -> None:
        for layer in layers:
            self.session.viewer.add_layer(layer)
        self.show_visitation()

    def save_map(self, path: str) -> None:
        """Write the volume that is selected in the layer list as NIfTI, on its own voxels."""
        layer = self.session.viewer.layers.selection.active
        if layer not in maps.grid_layers(self.session.viewer.layers):
            raise InvalidTractogramError(
                "No map is selected; select its layer in the layer list first."
            )
        values, grid = voxels_of(layer, self.session.space)
        wait_for(lambda: save_volume(values, grid, path), f"Saving {Path(path).name}", self)
        show_info(f"Saved {layer.name} to {path}.")

    @errors_shown()
    def _ask_map(self) -> None:
        known = dialog_filter("Volume", written_volume_endings())
        path, _ = QFileDialog.getSaveFileName(self, "Save the map", "map.nii.gz", known)
        if path:
            self.save_map(path)

    def show_visitation(self) -> None:
        """Say how well the visitation map that is shown is known, here and as a whole."""
        viewer = self.session.viewer
        found = maps.visitation_of(viewer.layers)
        show_row(self.form, self.error, found is not None)
        self.visited.setVisible(found is not None)
        if found is None:
            return
        here = np.asarray(viewer.cursor.position, dtype=float)[-3:]
        wanted, known = float(self.error.value), self._enough
        if known is None or known[:2] != (found, wanted):  # it looks at every voxel
            known = self._enough = found, wanted, found.enough(wanted)
        lines = [known[2]]
        if viewer.dims.ndisplay == 2 and len(here) == 3:
            (point,) = self.session.space.to_world(here[None])
            lines.insert(0, f"<b>{found.at(point)}</b>")
        self.visited.setText("<br>".join(lines))

    def _on_cursor(self, _event: Any = None) -> None:
        if self.isVisible():
            self.show_visitation()


def _is_chosen_by_hand(bundle: OpenBundle) -> bool:
    layer = bundle.streamlines_layer
    return layer is not None and any(edit.kind in BY_NUMBER for edit in layer.editor.edits)


def _without_lengths(edits: tuple[Edit, ...]) -> tuple[tuple[Edit, ...], Edit | None]:
    """Return the edits before a last one that limits lengths, and that."""
    if edits and edits[-1].kind == "lengths":
        return edits[:-1], edits[-1]
    return edits, None
