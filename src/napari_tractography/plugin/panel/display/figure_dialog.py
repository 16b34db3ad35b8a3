"""What figures and movies are asked for: their options, in a dialog that remembers them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from qtpy.QtWidgets import QDialog, QDialogButtonBox, QLabel, QVBoxLayout, QWidget

from ....parameters import ParameterSpec
from ...export.figures import BACKGROUNDS, Figure
from ..widgets.controls import form, values_of

_DEFAULT = Figure()
AUTOMATIC = "black or white"
LETTER_COLOURS = {
    AUTOMATIC: "",
    "black": "#000000",
    "white": "#ffffff",
    "grey": "#808080",
    "yellow": "#ffd166",
    "red": "#d62728",
}

FIGURE_SPECS = (
    ParameterSpec(
        name="figure_width_cm",
        label="Width",
        default=_DEFAULT.width_cm,
        unit="cm",
        minimum=1.0,
        maximum=100.0,
        increment=0.5,
        help="Width on paper; a column of a journal is about 8.5 cm, a page 17 cm.",
    ),
    ParameterSpec(
        name="figure_dpi",
        label="Resolution",
        default=_DEFAULT.dpi,
        unit="dpi",
        minimum=30.0,
        maximum=1200.0,
        increment=50.0,
        help="Pixels an inch; journals ask for 300.",
    ),
    ParameterSpec(
        name="figure_background",
        label="Background",
        default=_DEFAULT.background,
        choices=BACKGROUNDS,
        help="What is behind everything.",
    ),
    ParameterSpec(
        name="figure_crop",
        label="Crop to content",
        default=_DEFAULT.crop,
        help="Cut the figure to what is drawn; otherwise it is the whole canvas.",
    ),
    ParameterSpec(
        name="figure_letters",
        label="Letters",
        default=_DEFAULT.letters,
        help="Write R, L, A, P, S, I beside the picture.",
    ),
    ParameterSpec(
        name="figure_letter_colour",
        label="Letter colour",
        default=AUTOMATIC,
        choices=tuple(LETTER_COLOURS),
        help="The colour of the letters.",
    ),
    ParameterSpec(
        name="figure_scale_bar",
        label="Scale bar",
        default=_DEFAULT.scale_bar,
        help="Draw a bar of so many mm, in slices and in 3-D without perspective.",
    ),
    ParameterSpec(
        name="figure_legend",
        label="Legend",
        default=_DEFAULT.legend,
        help="Say what the colours of the streamlines mean.",
    ),
)

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
    """Asks for options.

    Parameters
    ----------
    title, verb : str
        Of the window, and of the button that goes on.
    options : QWidget
        Of :func:`option_form`; it belongs to the caller, who keeps what was set.
    note : str
        A sentence below them.
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
    made = form(controls)
    made.setParent(home)
    made.hide()
    return made
