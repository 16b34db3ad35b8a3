"""Marks beside controls that are not at their default: a bold label, and an arrow that resets.

So that values that suited one brain do not go unseen to the next. Used by sections of the panel.
"""

from __future__ import annotations

import html
from collections.abc import Callable, Sequence
from typing import Any

from qtpy.QtWidgets import QToolButton, QWidget

from ....fields.input_kind import InputKind
from ....geometry.units import MM
from ....model.parameters import ParameterSpec
from ...space.display import DisplaySpace
from .controls import form, label_of, show_units, value_text

ARROW = "↺"
ARROW_WIDTH = 24  # pixels, kept free where there is no arrow
AT_DEFAULT = "This is at its default."
ARROW_STYLE = "QToolButton { background: transparent; border: none; padding: 0px; }"


class DefaultMarks:
    """The form of some controls, each with a mark.

    `reset` takes the name of a control, which is to have its default again.
    """

    def __init__(
        self,
        controls: Sequence[Any],
        specs: dict[str, ParameterSpec],
        reset: Callable[[str], None],
    ) -> None:
        self._specs = specs
        self.unit = MM  # of the volume
        self._zoom = 1.0
        self._kind: InputKind | None = None  # of what is tracked in
        self._controls = {control.name: control for control in controls}
        self._marked: dict[str, tuple[bool, Any]] = {}  # as they are shown
        # By the name of a control; enabled where it is not at its default.
        self.arrows = {name: _arrow() for name in self._controls}
        self.form: QWidget = form(controls, extra=list(self.arrows.values()))
        for name, arrow in self.arrows.items():
            arrow.clicked.connect(lambda _checked=False, n=name: reset(n))
            self.mark(name, is_default=True)

    def show_units(self, space: DisplaySpace, kind: InputKind | None = None) -> None:
        """Show lengths in the unit of a volume, see :func:`.controls.show_units`.

        In the words for FODs, or for another `kind` of input.
        """
        shown = space.unit, space.in_proportion(1.0), kind
        if shown == (self.unit, self._zoom, self._kind):
            return
        self.unit, self._zoom, self._kind = shown
        self._marked.clear()
        show_units(self.form, self._controls.values(), space)
        for control in self._controls.values():
            label_of(self.form, control).setText(self._in_words(control.label))
            control.native.setToolTip(self._in_words(str(control.tooltip)))

    def _in_words(self, text: str) -> str:
        return text if self._kind is None else self._kind.in_words(text)

    def mark(self, name: str, *, is_default: bool, default: Any = None) -> None:
        """Mark a control as being at its default or not; `default` is what the arrow gives."""
        arrow, control = self.arrows[name], self._controls[name]
        if self._marked.get(name) == (is_default, default):
            return
        self._marked[name] = is_default, default
        arrow.setEnabled(not is_default)
        arrow.setText("" if is_default else ARROW)
        said = "" if is_default else f"Default: {value_text(self._specs[name], default, self.unit)}"
        arrow.setToolTip(f"{said}. Click to have it back." if said else AT_DEFAULT)
        arrow.setAccessibleName(said and f"{self._specs[name].label}: back to the default")
        label = label_of(self.form, control)
        font = label.font()
        font.setBold(not is_default)
        label.setFont(font)
        help_text = self._in_words(str(control.tooltip))
        if said:
            help_text = help_text.replace("<qt>", f"<qt><b>{html.escape(said)}.</b> ", 1)
        label.setToolTip(help_text)


def _arrow() -> QToolButton:
    created = QToolButton()
    created.setFixedWidth(ARROW_WIDTH)
    created.setStyleSheet(ARROW_STYLE)
    return created
