"""The button that saves streamlines in a file. Called by the panel."""

from __future__ import annotations

import re
from pathlib import Path

from napari.utils.notifications import show_error, show_info
from qtpy.QtWidgets import QFileDialog, QPushButton, QWidget

from ...errors import TractographyError
from ...files.paths import GivenUpError
from ...files.tractograms import FORMATS
from ..session.session import Session
from ..words import plural
from .widgets.busy_dialog import wait_for


class SaveButton(QPushButton):  # type: ignore[misc]
    """Asks where to, and saves the result of a session.

    Parameters
    ----------
    session : Session
        Its result is saved, on the grid of the FOD in which it was tracked.
    """

    def __init__(self, session: Session, parent: QWidget | None = None) -> None:
        super().__init__("Save...", parent)
        self.session = session
        self.setToolTip("Save the streamlines as tck, trk, trx or vtk.")
        self.clicked.connect(self._ask)
        self.refresh()

    def refresh(self) -> None:
        """Be enabled where there are streamlines."""
        tractogram = self.session.tractogram
        self.setEnabled(tractogram is not None and len(tractogram) > 0)

    def save(self, path: str | Path) -> None:
        """Save the streamlines; the ending decides the format."""
        tractogram, grid = self.session.tractogram, self.session.result_grid
        name = Path(path).name
        if tractogram is None or not len(tractogram):
            show_error("There are no streamlines to save; run tracking first.")
            return
        if grid is None and name.lower().endswith(".trk"):
            show_error(
                f"{name} cannot be saved: a trk file needs the grid of a volume, and these "
                "streamlines have none; save them as tck or vtk."
            )
            return
        try:
            wait_for(lambda: tractogram.save(path, reference=grid), f"Saving {name}", self)
        except GivenUpError:
            return
        except TractographyError as error:
            show_error(str(error))
            return
        show_info(f"Saved {plural(len(tractogram), 'streamline')} to {path}.")

    def proposed_name(self) -> str:
        """Return a name for the file: the layer's, without what file systems refuse."""
        layer = self.session.streamlines_layer
        name = "" if layer is None else re.sub(r'[\x00-\x1f<>:"/\\|?*]+', "_", layer.name)
        ending = ".tck" if self.session.result_grid is None else ".trk"
        name = name.strip(" .") or "streamlines"
        return name if name.lower().endswith(tuple(FORMATS)) else name + ending

    def _ask(self) -> None:
        endings = " ".join(f"*{ending}" for ending in FORMATS)
        path, _ = QFileDialog.getSaveFileName(
            self, "Save streamlines", self.proposed_name(), f"Tractogram ({endings})"
        )
        if path:
            self.save(path)
