"""The tracking parameters in the panel: controls, and a line on what was chosen for the FOD.

Called by the panel, which puts the two forms in the sections Tracking and More parameters.
"""

from __future__ import annotations

import html
from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import Any

from qtpy.QtCore import Qt
from qtpy.QtGui import QShowEvent
from qtpy.QtWidgets import QDialog, QLabel, QScrollArea, QToolButton, QWidget

from ....errors import TractographyError
from ....model import purposes
from ....model.arcs import radius_mm
from ....model.defaults import has_effect
from ....model.fod import Fod
from ....model.parameters import WITH_TISSUES, TrackingParameters
from ....model.purposes import PURPOSES, Purpose
from ...acts import SPECS
from ...flag import Flag
from ...session.session import Session
from ...session.tracking_values import BY_FOD
from ...words import in_words
from ..widgets.controls import DefaultMarks, parameter_controls, set_values, show_row
from ..widgets.layout import button, row, stack, wrapped


class PurposeRow(QWidget):  # type: ignore[misc]
    """A button for each purpose, pressed where its algorithm is chosen, and one for the figures.

    `choose` is called with the name of an algorithm, by which `buttons` has the buttons.
    """

    def __init__(self, choose: Callable[[str], None]) -> None:
        super().__init__()
        self.buttons = {each.algorithm: self._button(each, choose) for each in PURPOSES}
        self.figures = QToolButton()
        self.figures.setText("?")
        self.figures.setToolTip("What was measured of each algorithm, where the truth is known.")
        self.figures.setAccessibleName("What was measured")
        self.figures.clicked.connect(lambda: measured_dialog(self).open())
        stack(self, row(*self.buttons.values(), self.figures))

    def show_algorithm(self, name: str) -> None:
        for algorithm, each in self.buttons.items():
            each.setChecked(algorithm == name)

    def _button(self, purpose: Purpose, choose: Callable[[str], None]) -> QWidget:
        help = f"{purpose.name}: {purpose.help} ({purpose.algorithm})."
        created = button(purpose.name, help, partial(choose, purpose.algorithm), is_checkable=True)
        created.setAutoDefault(False)
        return created


class _Whole(QDialog):  # type: ignore[misc]
    """As large as what is in its scroll area, where the screen has room."""

    def showEvent(self, event: QShowEvent) -> None:  # noqa: N802 - Qt's name
        """Qt would give it two thirds of the screen at most."""
        super().showEvent(event)
        scroll = self.findChild(QScrollArea)
        inside, screen = scroll.widget(), self.screen().availableGeometry()
        bar = scroll.verticalScrollBar().sizeHint().width()
        width = inside.minimumSizeHint().width() + bar
        height = inside.heightForWidth(width) + bar
        self.resize(min(width, screen.width()), min(height, round(0.9 * screen.height())))


def measured_dialog(parent: QWidget) -> QDialog:
    dialog = _Whole(parent)
    dialog.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
    dialog.setWindowTitle("Which algorithm for what")
    for_what = "".join(
        f"<li><b>{each.name}</b>, {each.help}: {each.algorithm}</li>" for each in PURPOSES
    )
    own = {each.algorithm for each in PURPOSES}
    lines = [
        _line("th", "valid / invalid, %", purposes.TABLE_HEADINGS),
        *(_line("th" if n in own else "td", n, cells) for n, *cells in purposes.measured_table()),
    ]
    table = QLabel(f"<table cellpadding=4>{''.join(lines)}</table>")
    where = f"{purposes.measured_where()}, {purposes.MEASURED_BY}"
    how = wrapped(f"{purposes.reading()}<br><br>{purposes.MEASURED_HOW} ({where})")
    inside, scroll = QWidget(), QScrollArea()
    layout = stack(inside, wrapped(f"<ul>{for_what}</ul>"), table, how, spacing=8)
    layout.setContentsMargins(12, 12, 12, 12)
    scroll.setWidget(inside)
    scroll.setWidgetResizable(True)
    scroll.setFrameShape(QScrollArea.Shape.NoFrame)
    stack(dialog, scroll)
    return dialog


def _line(tag: str, name: str, cells: Collection[str]) -> str:
    of_cells = "".join(f"<{tag} align=center>{html.escape(cell)}</{tag}>" for cell in cells)
    return f"<tr><{tag} align=left>{html.escape(name)}</{tag}>{of_cells}</tr>"


NOT_SUITED = "Step, cone, floor and lengths follow the FOD once one is open."
NONE_SUITED = "Step, cone, floor and lengths are as you set them."
SUIT, SUIT_HELP = "Suit the FOD", "Choose step, cone, floor and lengths for the FOD again."
# The algorithm, which says what a person tracks for, stays.
SUITED_AGAIN = tuple(name for name in BY_FOD if name != "algorithm")
# Parameters that mean something between voxels only, and those that need a gradient in space.
BETWEEN_VOXELS, OF_GRADIENTS = ("edge",), ("look_ahead_mm",)
# Of cones that are given as functions, by scripts; the panel shows it where it was changed.
OF_SCRIPTS = "n_directions"


class TrackingSection(QWidget):  # type: ignore[misc]
    """Controls of the tracking parameters of a session.

    A control that a person changes keeps its value; the others show what suits the FOD. `failed` is
    called with a sentence when what was set is impossible, `changed` after something was set.
    `main_form`, of the controls most used, is in this widget, `more_form` elsewhere; `arrows`, by
    the name of a parameter, give a value that a person set its default again.
    """

    def __init__(
        self, session: Session, failed: Callable[[str], None], changed: Callable[[], None]
    ) -> None:
        super().__init__()
        self.session = session
        self._failed, self._changed = failed, changed
        self._is_showing = Flag()  # values of the session, which is no act
        self.main = parameter_controls(s for s in SPECS.values() if s.section == "main")
        self.more = parameter_controls(s for s in SPECS.values() if s.section == "more")
        self.controls = [*self.main, *self.more]
        self._marks = [
            DefaultMarks(controls, SPECS, lambda name: self._forget([name]))
            for controls in (self.main, self.more)
        ]
        self.main_form, self.more_form = (marks.form for marks in self._marks)
        self.arrows = {n: arrow for marks in self._marks for n, arrow in marks.arrows.items()}
        self._seen = set(SPECS)  # the rows that are shown
        self.origin = wrapped(NOT_SUITED)
        self.reset = button(SUIT, SUIT_HELP, lambda: self._forget(SUITED_AGAIN))
        self.purposes = PurposeRow(lambda name: self._choose("algorithm", name))
        stack(self, self.purposes, self.main_form, self.origin, row(self.reset))
        for control in self.controls:
            control.changed.connect(lambda value, name=control.name: self._choose(name, value))
        session.parameters_suited.connect(self.show_values)
        self.show_values()

    def set(self, values: Mapping[str, Any]) -> None:
        """Set parameters by name, as a person does.

        Raises InvalidParameterError when a value is out of range or contradicts another; then
        nothing changes.
        """
        self.session.set_by_hand(values, if_possible=True)
        self.show_values()
        self._changed()

    def show_values(self) -> None:
        """Show the session's values, and where they come from."""
        tracking, parameters = self.session.tracking, self.session.parameters
        chosen, fod = tracking.chosen, tracking.fod
        values = {**parameters.to_dict(), **chosen}
        if values.get("min_radius_mm") is not None or "max_angle_deg" not in values:
            values["max_angle_deg"] = round(parameters.max_angle_deg, 2)
        if values.get("min_radius_mm") is None:
            values["min_radius_mm"] = radius_of(parameters)
        defaults = tracking.not_default
        with self._is_showing:
            for marks in self._marks:
                marks.show_units(self.session.space, None if fod is None else fod.input_kind)
            set_values(self.controls, values)
        for marks in self._marks:
            marks.mark(defaults)
        self.purposes.show_algorithm(parameters.algorithm)
        seen = {
            name
            for name in SPECS
            if means_something(
                name, parameters, tracking.with_tissues, fod=fod, is_set=name in defaults
            )
        }
        for form, controls in ((self.main_form, self.main), (self.more_form, self.more)):
            for control in controls:
                if control.name in seen ^ self._seen:
                    show_row(form, control, control.name in seen)
        self._seen = seen
        summary, is_open = self._say(tracking.summary()), fod is not None
        lines = [html.escape(summary, quote=False) or (NONE_SUITED if is_open else NOT_SUITED)]
        labels = [self._say(SPECS[n].label).lower() for n in SPECS if n in seen and n in defaults]
        if labels:
            lines.append(f"<b>Set by you: {', '.join(labels)}.</b>")
        self.origin.setText("<br>".join(lines))
        self.reset.setText(self._say(SUIT))
        self.reset.setToolTip(self._say(SUIT_HELP))
        self.reset.setEnabled(is_open and any(name in chosen for name in SUITED_AGAIN))

    def _say(self, text: str) -> str:
        return in_words(self.session.tracking.fod, text)

    def restore(self, values: Mapping[str, Any], kept_defaults: str = "") -> None:
        """Set what was kept, and nothing else."""
        named = kept_defaults.split(", ")
        wanted = {n: v for n, v in values.items() if v != SPECS[n].default or n in named}
        if wanted.get("min_radius_mm") is not None:
            wanted.pop("max_angle_deg", None)
        if wanted != self.session.tracking.chosen:
            self._attempt(lambda: self.session.restore_by_hand(wanted))

    def _choose(self, name: str, value: Any) -> None:
        if not self._is_showing:
            self._attempt(lambda: self.session.set_by_hand({name: value}))

    def _forget(self, names: Collection[str]) -> None:
        self._attempt(lambda: self.session.forget_by_hand(names))

    def _attempt(self, change: Callable[[], None]) -> None:
        try:
            change()
        except TractographyError as error:
            self._failed(str(error))
            return
        finally:
            self.show_values()
        self._changed()


def radius_of(parameters: TrackingParameters) -> float:
    return float(f"{radius_mm(parameters.step_mm, parameters.max_angle_deg):.3g}")


def means_something(
    name: str,
    parameters: TrackingParameters,
    with_tissues: bool,
    *,
    fod: Fod | None = None,
    is_set: bool = False,
) -> bool:
    """Return whether a parameter has an effect beside the others, so that a person should see it.

    It `is_set` where a person gave it another value than its default.
    """
    if fod is not None and not has_effect(name, parameters, fod.input_kind):
        return False
    if parameters.interpolation == "nearest":
        follows_gradient = parameters.uses("gamma")
        if name in BETWEEN_VOXELS or (name in OF_GRADIENTS and follows_gradient):
            return False
    if name == OF_SCRIPTS:
        return is_set
    if name in WITH_TISSUES and not with_tissues:
        return is_set and parameters.uses(name)
    return parameters.uses(name)
