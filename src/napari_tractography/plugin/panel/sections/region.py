"""The Regions section of the panel: what streamlines must pass, or where they end."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from magicgui import widgets
from napari.layers import Labels, Layer
from napari.utils.notifications import show_info
from qtpy.QtCore import QSignalBlocker, Qt, Signal
from qtpy.QtGui import QColor, QIcon, QKeyEvent, QPixmap
from qtpy.QtWidgets import (
    QComboBox,
    QFileDialog,
    QSpinBox,
    QTableWidget,
    QTableWidgetItem,
    QWidget,
)

from ....errors import TractographyError
from ....files.formats import dialog_filter, written_volume_endings
from ....files.volume_files import save_volume
from ....geometry.units import symbol
from ....model.regions import Region
from ....model.roles import INCLUDE_RULES, ROLE_HELP
from ...export.layer_files import PATH_KEY
from ...layers.region_entries import ROLE_COLOURS, Entry
from ...layers.spheres import Spheres
from ...layers.volume_layers import mask_layers, voxels_of
from ...listening import Listening
from ...notices import show_warning
from ...session.region_layers import SPHERE_RADIUS_MM, STEERING
from ...session.session import Session
from ...space.display import DisplaySpace
from ...space.orientation_labels import axes_of
from ...space.positions import position_text
from ..widgets.controls import DecimalBox, form
from ..widgets.layout import (
    add_entry,
    button,
    follow_font,
    give_menu,
    keys_here,
    row,
    select_rows,
    show_few_rows,
    stack,
)
from ..widgets.undo import UndoButtons, make_one_step_each

MAX_ROWS = 4  # that are seen at once
TITLES = ("Region", "Role", "Size or label")
EMPTY = " (empty)"
INACTIVE = " (inactive)"
SWATCH = 10  # pixels
SPHERE_LIMITS_MM = 0.1, 500.0
RULE_HELP = (
    "Which include regions a streamline must pass: all, any, or all in the order of the list, from "
    "one end to the other."
)
BETWEEN_TEXT = "From A to B"
LONGEST_BETWEEN = 40  # characters that fit on the button
BETWEEN_HELP = (
    "Track between two regions, whatever their roles: streamlines start in one and stop in the "
    "other, half of them the other way. Select two rows; how many, Seeds says."
)
ROLES_HELP = " ".join(f"{role.capitalize()}: {ROLE_HELP[role].lower()}" for role in STEERING)


class RegionSection(QWidget):  # type: ignore[misc]
    """The table of regions, what adds to it, and the rule of the include regions.

    `run_between` tracks between the two regions that the session has chosen.
    """

    inactive_added = Signal()

    def __init__(self, session: Session, run_between: Callable[[], None]) -> None:
        super().__init__()
        self.session = session
        self._run_between = run_between
        self._shown: list[Entry] = []
        self._kinds: list[str] = []  # of the rows
        self._of_active = Listening()  # to the mode of the selected labels layer
        self.table = _Table(self.remove_selected)
        self.paint = button(
            "Paint",
            "Paint the selected region, or a new one on the FOD's grid; press again to put the "
            "brush away.",
            self._on_paint,
            is_checkable=True,
        )
        self.add_sphere = button(
            "Sphere",
            keys_here(
                "Put a sphere of a role into the middle of the view; Ctrl-Shift-click puts one of "
                "the same role under the mouse. It is inactive until it is moved or resized, its "
                "role is chosen, or Run is pressed."
            ),
        )
        self.sphere_menu = give_menu(
            self.add_sphere,
            *((r.capitalize(), ROLE_HELP[r], partial(self._add_sphere, r)) for r in STEERING),
        )
        for role, action in zip(STEERING, self.sphere_menu.actions(), strict=True):
            action.setIcon(_swatch(ROLE_COLOURS[role]))
        self.add_layer = button("Labels", "Take a labels layer, or one label of it, as a region.")
        self.menu = give_menu(self.add_layer)
        self.menu.aboutToShow.connect(self._fill_menu)
        self.save_button = button(
            "Save...",
            "Save the labels of the selected region as NIfTI, for a copied command.",
            self._save,
        )
        remove_help = "Remove the selected regions; so does Delete."
        self.remove = button("Remove", remove_help, self.remove_selected)
        self.between = button(BETWEEN_TEXT, BETWEEN_HELP, self._on_between)
        self.rule = widgets.ComboBox(
            name="include_rule", label="Include", choices=INCLUDE_RULES, tooltip=RULE_HELP
        )
        self.form = form([self.rule])
        self.undo = UndoButtons(session.document)
        created = row(self.paint, self.add_sphere, self.add_layer)
        foot = row(self.save_button, self.remove, self.undo)
        stack(self, self.table, self.form, created, self.between, foot, spacing=5)
        self.table.itemSelectionChanged.connect(self._on_selection)
        self.table.itemSelectionChanged.connect(self._go_there)
        self.rule.changed.connect(session.regions.set_rule)
        session.regions.list_changed.connect(self.refresh)
        self.refresh()

    def open(self) -> None:
        self.session.viewer.layers.selection.events.active.connect(self._on_active)
        self._on_active()

    def close_section(self) -> None:
        self.session.viewer.layers.selection.events.active.disconnect(self._on_active)
        self._of_active.switch()

    def _on_active(self, _event: Any = None) -> None:
        active = self.session.viewer.layers.selection.active
        signals = [active.events.mode] if isinstance(active, Labels) else []
        self._of_active.switch(*((signal, self.show_brush) for signal in signals))
        self.show_brush()

    def show_brush(self, _event: Any = None) -> None:
        self.paint.setChecked(self.session.regions.painted_layer is not None)

    def refresh(self) -> None:
        entries = self.session.regions.entries
        if self._shown != entries:
            added = [entry for entry in entries if entry not in self._shown]
            self._build(list(entries))
            self.table.selectionModel().clear()
            if any(entry.is_inactive for entry in added):
                self.inactive_added.emit()
        for number, entry in enumerate(entries):
            self._show(number, entry)
        self.table.setVisible(bool(entries))
        for created in (self.save_button, self.remove):
            created.setVisible(bool(entries))
        self.between.setVisible(len(entries) > 1)
        self._on_selection()
        self.show_brush()
        n_includes = sum(entry.role == "include" for entry in entries)
        self.form.setVisible(n_includes > 1)
        self.rule.value = self.session.state.rule

    def remove_selected(self) -> None:
        self.session.regions.remove(*self._selected())

    def save(self, entry: Entry, path: str | Path) -> None:
        """Save the layer of a region as NIfTI, so that commands can read it."""
        voxels, grid = voxels_of(entry.layer, self.session.space)
        save_volume(voxels, grid, path)
        entry.layer.metadata[PATH_KEY] = str(path)
        show_info(f"Saved {entry.layer.name} to {path}.")

    def _save(self) -> None:
        entry = self._selected()[0]
        known = dialog_filter("Volume", written_volume_endings())
        path, _ = QFileDialog.getSaveFileName(
            self, "Save a region", f"{entry.layer.name}.nii.gz", known
        )
        if path:
            self._try(self.save, entry, path)

    def _selected(self) -> list[Entry]:
        rows = {index.row() for index in self.table.selectionModel().selectedRows()}
        return [self._shown[number] for number in sorted(rows) if number < len(self._shown)]

    def _on_selection(self) -> None:
        chosen, ends = self._selected(), self._ends()
        self.remove.setEnabled(bool(chosen))
        self.save_button.setEnabled(len(chosen) == 1 and isinstance(chosen[0].layer, Labels))
        self.between.setEnabled(bool(ends))
        text = f"From {' to '.join(end.layer.name for end in ends)}"
        is_short = ends and len(text) <= LONGEST_BETWEEN
        self.between.setText(text if is_short else BETWEEN_TEXT)

    def _ends(self) -> list[Entry]:
        """Return the two regions of the rows that are selected, or all where there are two."""
        chosen = self._selected()
        return next((each for each in (chosen, self._shown) if len(each) == 2), [])

    def _on_between(self) -> None:
        ends = self._ends()
        names = " to ".join(end.state.name for end in ends)
        with self.session.document.one_step(f"From {names}"):
            self.session.regions.choose_between(*ends)
            self._run_between()

    def _go_there(self) -> None:
        """Turn the slices of the viewer to the middle of the region that is selected."""
        chosen = self._selected()
        regions = self.session.regions.of(chosen[0]) if len(chosen) == 1 else []
        if not regions:
            return
        dims, position = self.session.viewer.dims, middle_of(regions[0], self.session.space)
        dims.set_point(range(dims.ndim - 3, dims.ndim), position)

    # -- the table -----------------------------------------------------------------------------

    def _build(self, entries: list[Entry]) -> None:
        """Have a row for each region; those of other regions are used again where they suit."""
        before, self._kinds = self._kinds, [_kind_of(entry.layer) for entry in entries]
        self._shown, regions = entries, self.session.regions
        if self._kinds == before:
            return
        self.table.setRowCount(0)
        self.table.setRowCount(len(entries))
        for number, entry in enumerate(entries):
            name = QTableWidgetItem()
            name.setFlags(Qt.ItemFlag.ItemIsEnabled | Qt.ItemFlag.ItemIsSelectable)
            self.table.setItem(number, 0, name)
            role = QComboBox()
            role.addItems(STEERING)
            role.setToolTip(f"<qt>{ROLES_HELP}</qt>")
            role.setAccessibleName("Role")
            for chosen in (role.currentTextChanged, role.textActivated):
                chosen.connect(lambda text, n=number: regions.set_role(self._shown[n], text))
            self.table.setCellWidget(number, 1, role)
            box = _size_box() if isinstance(entry.layer, Spheres) else _label_box()
            box.valueChanged.connect(lambda value, n=number: self._on_number(n, value))
            make_one_step_each(box, self.session.document)
            self.table.setCellWidget(number, 2, box)
        reached = [
            self.table.cellWidget(n, column) for n in range(len(entries)) for column in (1, 2)
        ]
        for before, after in pairwise([self.table, *reached, self.rule.native, self.paint]):
            QWidget.setTabOrder(before, after)
        self.table.fit()

    def _show(self, number: int, entry: Entry) -> None:
        name = self.table.item(number, 0)
        regions = self.session.regions.of(entry)
        text = entry.layer.name + (INACTIVE if entry.is_inactive else "" if regions else EMPTY)
        name.setText(text)
        name.setIcon(_swatch(entry.colour))
        said = [text]
        if entry.is_inactive:
            said.append("not in use until it is moved or resized, its role is chosen, or Run")
        elif not regions:
            said.append("not in use until it is painted")
        if regions:
            axes = axes_of(self.session.viewer.layers)
            said.append(position_text(centre_mm(regions[0]), self.session.space.unit, axes))
        name.setToolTip("; ".join(said))
        role, box = self.table.cellWidget(number, 1), self.table.cellWidget(number, 2)
        with QSignalBlocker(role), QSignalBlocker(box):
            role.setCurrentText(entry.role)
            if not isinstance(entry.layer, Spheres):
                box.setValue(entry.label or 0)
            elif len(entry.layer.size):
                space = self.session.space
                box.setRange(*(space.per_mm * space.in_proportion(mm) for mm in SPHERE_LIMITS_MM))
                suffix = f" {symbol(space.unit)}"
                if box.suffix() != suffix:
                    box.setSuffix(suffix)
                radius = entry.layer.radius_mm * space.per_mm
                if round(radius, box.decimals()) != box.value():  # else what is typed stays
                    box.setValue(radius)

    def _on_number(self, number: int, value: float) -> None:
        entry = self._shown[number]
        if isinstance(entry.layer, Spheres):
            self.session.regions.set_radius(entry, float(value) / self.session.space.per_mm)
        else:
            self.session.regions.set_label(entry, int(value) or None)

    # -- adding --------------------------------------------------------------------------------

    def _on_paint(self) -> None:
        regions, chosen = self.session.regions, self._selected()
        if not self.paint.isChecked():
            regions.stop_painting()
        elif len(chosen) == 1 and isinstance(chosen[0].layer, Labels):
            self._try(regions.paint, chosen[0])
        else:
            self._try(regions.add_painting)
        self.show_brush()  # also after a refusal

    def _add_sphere(self, role: str) -> None:
        regions = self.session.regions
        regions.next_role = role
        position = view_centre(self.session.viewer)
        radius_mm = self.session.space.in_proportion(SPHERE_RADIUS_MM)
        # A cavity changes no streamline, and may be in use at once.
        regions.add_sphere(position, radius_mm, role, is_inactive=role != "resect")

    def _fill_menu(self) -> None:
        self.menu.clear()
        layers = [x for x in mask_layers(self.session.viewer.layers) if isinstance(x, Labels)]
        for layer in reversed(layers):
            take = partial(self.session.regions.add_labels, layer, is_inactive=True)
            add_entry(self.menu, layer.name, partial(self._try, take))
        if not layers:
            self.menu.addAction("No labels layer is open").setEnabled(False)

    def _try(self, action: Callable[..., object], *arguments: Any) -> None:
        try:
            action(*arguments)
        except TractographyError as error:
            show_warning(str(error))


class _Table(QTableWidget):  # type: ignore[misc]
    def __init__(self, remove: Callable[[], None]) -> None:
        super().__init__(0, len(TITLES))
        self._remove = remove
        self.setHorizontalHeaderLabels(TITLES)
        select_rows(self)
        follow_font(self, self.fit)
        self.setAccessibleName("Regions")
        self.setToolTip(
            "Regions that steer streamlines, and what each is for; the slices turn to the one "
            "that is selected."
        )
        self.verticalHeader().hide()

    def fit(self) -> None:
        self.resizeRowsToContents()
        show_few_rows(self, MAX_ROWS, self.horizontalHeader().sizeHint().height())

    def keyPressEvent(self, event: QKeyEvent) -> None:  # noqa: N802 - Qt's name
        if event.key() in (Qt.Key.Key_Delete, Qt.Key.Key_Backspace):
            self._remove()
        else:
            super().keyPressEvent(event)


def _swatch(colour: str) -> QIcon:
    swatch = QPixmap(SWATCH, SWATCH)
    swatch.fill(QColor(colour))
    return QIcon(swatch)


def _kind_of(layer: Layer) -> str:
    """Return what a row says of a region by its layer."""
    if not isinstance(layer, Spheres):
        return "label"
    return "size" if len(layer.size) else "no size"


def _size_box() -> DecimalBox:
    box = DecimalBox()
    box.setDecimals(1)
    box.setToolTip("Radius of the sphere.")
    box.setAccessibleName("Radius")
    return box


def _label_box() -> QSpinBox:
    box = QSpinBox()
    box.setRange(0, 2**31 - 1)
    box.setSpecialValueText("any label")
    box.setToolTip("The label that counts; 0 for every label.")
    box.setAccessibleName("Label")
    return box


def middle_of(region: Region, space: DisplaySpace) -> np.ndarray:
    (middle,) = np.asarray(space.to_display(centre_mm(region)[None]), dtype=float)
    return np.asarray(middle)


def centre_mm(region: Region) -> np.ndarray:
    """Return where a region is, (3,) RAS+ mm."""
    if region.center_mm is not None:
        return region.center_mm
    assert region.grid is not None
    assert region.voxels is not None
    return np.asarray(region.grid.to_mm(np.argwhere(region.voxels).mean(axis=0)))


def view_centre(viewer: Any) -> np.ndarray:
    """Return the middle of the view, as a display position (z, y, x) in mm."""
    position = np.array(viewer.dims.point, dtype=float)
    shown = list(viewer.dims.displayed)
    position[shown] = np.asarray(viewer.scene.camera.center, dtype=float)[-len(shown) :]
    return position[-3:]
