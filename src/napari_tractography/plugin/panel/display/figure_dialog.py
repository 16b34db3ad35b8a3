"""What figures and movies are asked for: their options, in a dialog that remembers them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from qtpy.QtWidgets import QDialog, QDialogButtonBox, QLabel, QVBoxLayout, QWidget

from ....model.specs import ParameterSpec, specs_of
from ...export.figures import Figure
from ..widgets.controls import form, values_of

AUTOMATIC = "black or white"
LETTER_COLOURS = {
    AUTOMATIC: "",
    "black": "#000000",
    "white": "#ffffff",
    "grey": "#808080",
    "yellow": "#ffd166",
    "red": "#d62728",
}


def _figure_spec(spec: ParameterSpec) -> ParameterSpec:
    """Return what the panel calls an option of figures: it keeps all kinds of options together."""
    if spec.name == "letter_colour":
        spec = replace(spec, default=AUTOMATIC, choices=tuple(LETTER_COLOURS))
    return replace(spec, name=f"figure_{spec.name}")


FIGURE_SPECS = tuple(_figure_spec(spec) for spec in specs_of(Figure))
MOVIE_SPECS = (
    ParameterSpec(
        name="movie_seconds",
        label="Length",
        default=3.0,
        unit="s",
        minimum=0.1,
        maximum=120.0,
        increment=1.0,
        help="How long one turn takes.",
    ),
    ParameterSpec(
        name="movie_width",
        label="Width",
        default=800.0,
        unit="px",
        minimum=64.0,
        maximum=4096.0,
        increment=100.0,
        help="Pixels across; the height follows the canvas.",
    ),
    ParameterSpec(
        name="movie_letters",
        label="Letters",
        default=True,
        help="Write R, L, A, P, S, I at the edges of every picture.",
    ),
)


def figure_of(controls: Sequence[Any]) -> Figure:
    """Return the figure that controls of :data:`FIGURE_SPECS` ask for."""
    values = {name.removeprefix("figure_"): v for name, v in values_of(controls).items()}
    values["letter_colour"] = LETTER_COLOURS[values["letter_colour"]]
    return Figure(**values)


class OptionsDialog(QDialog):  # type: ignore[misc]
    """Asks for options, those of :func:`option_form`; below them are a note and the button `verb`.

    The form belongs to the caller, who keeps what was set.
    """

    def __init__(
        self, title: str, verb: str, options: QWidget, note: str, parent: QWidget | None = None
    ) -> None:
        super().__init__(parent)
        self.setWindowTitle(title)
        layout = QVBoxLayout(self)
        layout.addWidget(options)
        options.show()
        text = QLabel(note)
        text.setWordWrap(True)
        layout.addWidget(text)
        buttons = QDialogButtonBox(QDialogButtonBox.StandardButton.Cancel)
        buttons.addButton(verb, QDialogButtonBox.ButtonRole.AcceptRole)
        buttons.accepted.connect(self.accept)
        buttons.rejected.connect(self.reject)
        layout.addWidget(buttons)
        self._options = options
        self._home = parent

    def done(self, result: int) -> None:
        """End; the options go back to where they are kept."""
        self._options.hide()
        self._options.setParent(self._home)
        super().done(result)


def option_form(controls: Sequence[Any], home: QWidget) -> QWidget:
    """Return a hidden form of controls, for a dialog to show."""
    created = form(controls)
    created.setParent(home)
    created.hide()
    return created
