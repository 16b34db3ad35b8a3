"""Screenshots, figures for papers and movies, and their options."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from napari.utils.notifications import show_info
from qtpy.QtCore import Qt
from qtpy.QtWidgets import (
    QApplication,
    QDialog,
    QDialogButtonBox,
    QFileDialog,
    QProgressDialog,
    QVBoxLayout,
    QWidget,
)

from ....model.specs import ParameterSpec, specs_of
from ...export.figures import Figure, save_figure
from ...export.movies import FRAMES_A_SECOND, turntable
from ...export.screenshots import save_screenshot
from ..widgets.busy_dialog import errors_shown
from ..widgets.controls import form, parameter_controls, values_of
from ..widgets.layout import wrapped

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
        "movie_seconds", "Length", 3.0, "How long one turn takes.",
        unit="s", minimum=0.1, maximum=120.0, increment=1.0,
    ),
    ParameterSpec(
        "movie_width", "Width", 800.0, "Pixels across; the height follows the canvas.",
        unit="px", minimum=64.0, maximum=4096.0, increment=100.0,
    ),
    ParameterSpec(
        "movie_letters", "Letters", True, "Write R, L, A, P, S, I at the edges of every picture.",
    ),
)  # fmt: skip


def figure_of(controls: Sequence[Any]) -> Figure:
    """Return the figure that controls of :data:`FIGURE_SPECS` ask for."""
    values = {name.removeprefix("figure_"): v for name, v in values_of(controls).items()}
    values["letter_colour"] = LETTER_COLOURS[values["letter_colour"]]
    return Figure(**values)


class OptionsDialog(QDialog):  # type: ignore[misc]
    """Asks for options, those of :func:`option_form`, with a note below them.

    The form belongs to the parent, which keeps what was set.
    """

    def __init__(self, title: str, options: QWidget, note: str, parent: QWidget) -> None:
        super().__init__(parent)
        self.setWindowTitle(title)
        buttons = QDialogButtonBox(QDialogButtonBox.StandardButton.Cancel)
        buttons.addButton("Save...", QDialogButtonBox.ButtonRole.AcceptRole)
        buttons.accepted.connect(self.accept)
        buttons.rejected.connect(self.reject)
        layout = QVBoxLayout(self)
        for part in (options, wrapped(note), buttons):
            layout.addWidget(part)
        options.show()
        self._options, self._home = options, parent

    def done(self, result: int) -> None:
        """End; the options go back to where they are kept."""
        self._options.hide()
        self._options.setParent(self._home)
        super().done(result)


def asked_path(title: str, options: QWidget, note: str, to: tuple[str, str, str], home: Any) -> str:
    """Ask for options, and for a file by its dialog's title, its name and filter; "" for none."""
    dialog = OptionsDialog(title, options, note, home)
    if dialog.exec() != OptionsDialog.DialogCode.Accepted:
        return ""
    return str(QFileDialog.getSaveFileName(home, *to)[0])


def option_form(controls: Sequence[Any], home: QWidget) -> QWidget:
    """Return a hidden form of controls, for a dialog to show."""
    created = form(controls)
    created.setParent(home)
    created.hide()
    return created


PICTURE_SPECS = (
    ParameterSpec(
        "picture_scale", "Scale", 1.0,
        "Pixels of a screenshot for each pixel of the canvas, along each side; lines get as "
        "much wider.",
        unit="x", minimum=1.0, maximum=8.0, increment=1.0,
    ),
    ParameterSpec(
        "transparent", "Transparent", False, "Leave the background of a screenshot out.",
    ),
    ParameterSpec(
        "picture_letters", "Letters", True, "Write R, L, A, P, S, I at the edges of a screenshot.",
    ),
)  # fmt: skip
KEPT_SPECS = (*PICTURE_SPECS, *FIGURE_SPECS, *MOVIE_SPECS)
AS_SHOWN = "PNG, as the canvas shows it now."


class Pictures(QWidget):  # type: ignore[misc]
    """Asks for screenshots, figures and movies, and holds their options; itself it is not shown."""

    def __init__(self, viewer: Any) -> None:
        super().__init__()
        self.viewer = viewer
        self.controls = parameter_controls(PICTURE_SPECS)
        self.figure_controls = parameter_controls(FIGURE_SPECS)
        self.movie_controls = parameter_controls(MOVIE_SPECS)
        groups = self.controls, self.figure_controls, self.movie_controls
        self._form, self._figure_form, self._movie_form = (option_form(g, self) for g in groups)
        self.kept_controls = [control for group in groups for control in group]  # of KEPT_SPECS
        self.hide()

    def ask_figure(self) -> None:
        to = "Save a figure", "figure.png", "PNG (*.png)"
        if path := asked_path("Figure", self._figure_form, AS_SHOWN, to, self):
            self.save_figure(path)

    @errors_shown()
    def save_figure(self, path: str | Path) -> None:
        figure = figure_of(self.figure_controls)
        save_figure(self.viewer, path, figure)
        show_info(f"Saved the figure to {path}: {figure.width_cm:g} cm at {figure.dpi:g} dpi.")

    def ask_movie(self) -> None:
        note = "One turn of the 3-D view, as GIF or MP4."
        to = "Save a movie", "tractography.gif", "Movie (*.gif *.mp4)"
        if path := asked_path("Movie", self._movie_form, note, to, self):
            self.write_movie(path)

    def write_movie(self, path: str | Path, *, n_frames: int | None = None) -> bool:
        """Write a turntable movie, with progress; return whether it was not cancelled.

        Raises FileError when the view is 2-D, or the file cannot be written.
        """
        seconds, width, letters = (control.value for control in self.movie_controls)
        n = n_frames or max(round(seconds * FRAMES_A_SECOND), 2)
        progress = QProgressDialog("Writing the movie", "Cancel", 0, n, self.window())
        progress.setWindowModality(Qt.WindowModality.WindowModal)
        scale = width / self.viewer.canvas.size[1]
        movie = turntable(self.viewer, path, n_frames=n, scale=scale, letters=letters)
        try:
            for done in movie:
                progress.setValue(done)
                QApplication.processEvents()
                if progress.wasCanceled():
                    return False
        finally:
            movie.close()
            progress.close()
        show_info(f"Saved the movie to {path}.")
        return True

    def ask(self) -> None:
        to = "Save a picture", "tractography.png", "PNG (*.png)"
        if path := asked_path("Screenshot", self._form, AS_SHOWN, to, self):
            self.save(path)

    @errors_shown()
    def save(self, path: str | Path) -> None:
        scale, transparent, letters = (control.value for control in self.controls)
        save_screenshot(self.viewer, path, scale=scale, transparent=transparent, letters=letters)
        show_info(f"Saved the picture to {path}.")
