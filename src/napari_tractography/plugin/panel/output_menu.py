"""The More menu: scripts, movies, tubes and paths of what is on the screen; a check of the FOD."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from napari.utils.notifications import show_error, show_info
from qtpy.QtCore import Qt
from qtpy.QtGui import QGuiApplication
from qtpy.QtWidgets import QApplication, QFileDialog, QMenu, QProgressDialog, QPushButton, QWidget

from ...errors import InvalidFodError, InvalidTractogramError, TractographyError
from ...files.paths import GivenUpError
from ...maps.coherence import coherence
from ...tractogram import Tractogram
from ..export.edit_scripts import with_edits
from ..export.movies import N_FRAMES, turntable
from ..export.scripts import as_command, as_python
from ..layers.figures import MAX_PATHS, paths_layer, tubes_layer
from ..session.requests import Request
from ..session.session import Session
from ..streamlines.layer import Streamlines
from .widgets.busy_dialog import wait_for

MAX_TUBES = 400
WHICH = "The selected streamlines, or up to {} of all,"


class OutputMenu(QPushButton):  # type: ignore[misc]
    """A button with a menu of outputs."""

    def __init__(self, session: Session, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.session = session
        self.setText("More")
        self.setToolTip("Scripts, movies, tubes, paths, and a check of the FOD.")
        menu = QMenu(self)
        menu.setToolTipsVisible(True)
        for text, tooltip, action in (
            ("Copy as Python", "A script that tracks the same, to the digest.", self.copy_python),
            ("Copy as command", "One command that tracks the same.", self.copy_command),
            ("Movie...", "One turn of the 3-D view, as GIF or MP4.", self._movie),
            ("Add tubes", f"{WHICH.format(MAX_TUBES)} as tubes, for figures.", self.add_tubes),
            ("Add editable paths", f"{WHICH.format(MAX_PATHS)} as paths.", self.add_paths),
            ("Check the FOD", "Does another basis, frame or flip fit better?", self.check_fod),
        ):
            entry = menu.addAction(text)
            entry.setToolTip(tooltip)
            entry.triggered.connect(lambda _checked=False, action=action: self._try(action))
        self.setMenu(menu)

    def copy_python(self) -> None:
        """Put a Python script of what would be tracked on the clipboard."""
        self._copy(as_python)

    def copy_command(self) -> None:
        """Put a command of what would be tracked on the clipboard."""
        self._copy(as_command)

    def add_tubes(self) -> None:
        """Add the selected streamlines as tubes; without a selection an even part of all."""
        layer = self._layer()
        self.session.viewer.add_layer(tubes_layer(_few(layer, MAX_TUBES), layer.space))

    def add_paths(self) -> None:
        """Add the selected streamlines as paths; without a selection an even part of all."""
        layer = self._layer()
        self.session.viewer.add_layer(paths_layer(_few(layer, MAX_PATHS), layer.space))

    def check_fod(self) -> None:
        """Say whether another reading of the FOD fits better."""
        fod = self.session.fod
        if fod is None:
            raise InvalidFodError("There is no FOD to check; open one or choose its layer.")
        try:
            found = wait_for(lambda: coherence(fod), "Checking the FOD", self)
        except GivenUpError:
            return
        show_info(found.verdict)

    def write_movie(self, path: str | Path, *, n_frames: int = N_FRAMES) -> bool:
        """Write a turntable movie, with progress; return whether it was not cancelled."""
        progress = QProgressDialog("Writing the movie", "Cancel", 0, n_frames, self.window())
        progress.setWindowModality(Qt.WindowModality.WindowModal)
        movie = turntable(self.session.viewer, path, n_frames=n_frames)
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

    def _movie(self) -> None:
        path, _ = QFileDialog.getSaveFileName(
            self, "Save a movie", "tractography.gif", "Movie (*.gif *.mp4)"
        )
        if path:
            self.write_movie(path)

    def _copy(self, script: Any) -> None:
        request = self.session.request()
        assert self.session.fod_layer is not None
        text = script(
            request,
            self.session.fod_layer,
            self.session.mask_layer,
            seed_layer=self.session.seed_mask_in_use,
            region_layers=[(e.layer, e.label) for e, _ in self.session.regions.frozen()],
        )
        message = "Copied; it gives the streamlines that Run gives."
        layer = self.session.streamlines_layer
        if layer is not None and layer.editor.is_edited:
            text, message = self._edited(text, request, layer, is_python=script is as_python)
        QGuiApplication.clipboard().setText(text)
        show_info(message)

    def _edited(
        self, text: str, request: Request, layer: Streamlines, *, is_python: bool
    ) -> tuple[str, str]:
        """Return the script, with the edits by hand where possible, and a sentence on that."""
        result = self.session.result_request
        if not is_python:
            why = "a command has no room for them, a Python script has"
        elif result is None or not result.gives_the_same_as(request):
            why = "settings or seeds were changed since that run"
        elif not result.is_whole:
            why = "they were made in a preview"
        else:
            kept = layer.editor.kept
            edited = with_edits(text, kept, len(layer.editor.whole))
            if edited is not None:
                return edited, f"Copied; it gives the {len(kept):,} streamlines that you kept."
            why = "they would take too many numbers; save the streamlines instead"
        return text, f"Copied without your edits, it gives what Run gives: {why}."

    def _layer(self) -> Streamlines:
        layer = self.session.streamlines_layer
        if layer is None or not len(layer.tractogram):
            raise InvalidTractogramError("There are no streamlines; run tracking first.")
        return layer

    def _try(self, action: Any) -> None:
        try:
            action()
        except TractographyError as error:
            show_error(str(error))


def _few(layer: Streamlines, most: int) -> Tractogram:
    """Return the selected streamlines; without a selection every n-th, at most `most`."""
    if layer.editor.n_selected:
        return layer.editor.selected_tractogram()
    return layer.tractogram[:: -(-len(layer.tractogram) // most)]
