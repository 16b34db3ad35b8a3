"""Screenshots, figures for papers and movies, and their options. Called by the panel."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from napari.utils.notifications import show_info
from qtpy.QtCore import Qt
from qtpy.QtWidgets import QApplication, QFileDialog, QProgressDialog, QWidget

from ....model.parameters import ParameterSpec
from ...export.figures import save_figure
from ...export.movies import FRAMES_A_SECOND, turntable
from ...export.screenshots import save_screenshot
from ..widgets.busy_dialog import errors_shown
from ..widgets.controls import parameter_controls, values_of
from .figure_dialog import FIGURE_SPECS, MOVIE_SPECS, OptionsDialog, figure_of, option_form

PICTURE_SPECS = (
    ParameterSpec(
        name="picture_scale",
        label="Scale",
        default=1.0,
        unit="x",
        minimum=1.0,
        maximum=8.0,
        increment=1.0,
        help="Pixels of a screenshot for each pixel of the canvas, along each side; lines get as "
        "much wider.",
    ),
    ParameterSpec(
        name="transparent",
        label="Transparent",
        default=False,
        help="Leave the background of a screenshot out.",
    ),
    ParameterSpec(
        name="picture_letters",
        label="Letters",
        default=True,
        help="Write R, L, A, P, S, I at the edges of a screenshot.",
    ),
)
KEPT_SPECS = (*PICTURE_SPECS, *FIGURE_SPECS, *MOVIE_SPECS)


class Pictures(QWidget):  # type: ignore[misc]
    """Asks for screenshots, figures and movies, and holds their options; itself it is not shown."""

    def __init__(self, viewer: Any) -> None:
        super().__init__()
        self.viewer = viewer
        self.controls = parameter_controls(PICTURE_SPECS)
        self.figure_controls = parameter_controls(FIGURE_SPECS)
        self.movie_controls = parameter_controls(MOVIE_SPECS)
        self._form = option_form(self.controls, self)
        self._figure_form = option_form(self.figure_controls, self)
        self._movie_form = option_form(self.movie_controls, self)
        self.hide()

    @property
    def kept_controls(self) -> list[Any]:
        """All options, of :data:`KEPT_SPECS`."""
        return [*self.controls, *self.figure_controls, *self.movie_controls]

    def ask_figure(self) -> None:
        """Ask for the options of a figure and where to, and save it."""
        note = "PNG, as the canvas shows it now."
        dialog = OptionsDialog("Figure", "Save...", self._figure_form, note, self)
        if dialog.exec() != OptionsDialog.DialogCode.Accepted:
            return
        path, _ = QFileDialog.getSaveFileName(self, "Save a figure", "figure.png", "PNG (*.png)")
        if path:
            self.save_figure(path)

    @errors_shown()
    def save_figure(self, path: str | Path) -> None:
        """Save a figure of the canvas, as the options say."""
        figure = figure_of(self.figure_controls)
        save_figure(self.viewer, path, figure)
        show_info(f"Saved the figure to {path}: {figure.width_cm:g} cm at {figure.dpi:g} dpi.")

    def ask_movie(self) -> None:
        """Ask for the options of a movie and where to, and write it."""
        note = "One turn of the 3-D view, as GIF or MP4."
        dialog = OptionsDialog("Movie", "Save...", self._movie_form, note, self)
        if dialog.exec() != OptionsDialog.DialogCode.Accepted:
            return
        path, _ = QFileDialog.getSaveFileName(
            self, "Save a movie", "tractography.gif", "Movie (*.gif *.mp4)"
        )
        if path:
            self.write_movie(path)

    def write_movie(self, path: str | Path, *, n_frames: int | None = None) -> bool:
        """Write a turntable movie, with progress; return whether it was not cancelled.

        Raises FileError when the view is 2-D, or the file cannot be written.
        """
        chosen = values_of(self.movie_controls)
        n = n_frames or max(round(chosen["movie_seconds"] * FRAMES_A_SECOND), 2)
        progress = QProgressDialog("Writing the movie", "Cancel", 0, n, self.window())
        progress.setWindowModality(Qt.WindowModality.WindowModal)
        movie = turntable(
            self.viewer,
            path,
            n_frames=n,
            scale=chosen["movie_width"] / self.viewer.canvas.size[1],
            letters=chosen["movie_letters"],
        )
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
        """Ask for the options of a screenshot and where to, and save it."""
        note = "PNG, as the canvas shows it now."
        dialog = OptionsDialog("Screenshot", "Save...", self._form, note, self)
        if dialog.exec() != OptionsDialog.DialogCode.Accepted:
            return
        path, _ = QFileDialog.getSaveFileName(
            self, "Save a picture", "tractography.png", "PNG (*.png)"
        )
        if path:
            self.save(path)

    @errors_shown()
    def save(self, path: str | Path) -> None:
        """Save a picture of the canvas."""
        chosen = values_of(self.controls)
        save_screenshot(
            self.viewer,
            path,
            scale=chosen["picture_scale"],
            transparent=chosen["transparent"],
            letters=chosen["picture_letters"],
        )
        show_info(f"Saved the picture to {path}.")
