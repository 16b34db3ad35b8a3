"""Two menus at the foot of the panel: Export writes what is on the screen, and More."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from magicgui import widgets
from napari.utils.notifications import show_info
from qtpy.QtGui import QGuiApplication
from qtpy.QtWidgets import QMessageBox, QPushButton

from ...errors import InvalidFodError, InvalidTractogramError
from ...fields.kinds import read_kinds
from ...maps.coherence import Coherence, coherence
from ...maps.profiles import N_POINTS
from ...streamlines.tractogram import Tractogram
from ..export.copied_scripts import as_command, as_python, file_as_python
from ..export.layer_files import path_of
from ..export.pages import page_of
from ..export.projects import file_source, filters_of, proven_file
from ..layers.tubes import MAX_PATHS, TUBES_OF, paths_layer, tubes_layer
from ..notices import show_warning
from ..requests import Request
from ..session.derived_bundles import centroid_of_active
from ..session.listing import BundleList
from ..session.session import Session
from ..streamlines.layer import Streamlines
from ..words import plural
from .display.pictures import Pictures, asked_path, option_form
from .widgets.busy_dialog import errors_shown, wait_for
from .widgets.controls import values_of
from .widgets.layout import give_menu

FIGURE_HELP = "A figure for a paper: cm and dpi, white or no background, legend, scale."
PAGE_HELP = "Bundles, slices and view as one HTML file, which a reader turns in a browser."
EVERY_HELP = "Of the streamlines of each bundle every so many-th is in the page, which is smaller."
LIVE_HELP = (
    "The page has the FOD around the active bundle, and tracks it in the browser while a reader "
    "drags its seeds or moves angle, amplitude and probability."
)
CENTROID_HELP = "The mean course of the selected streamlines, or of all, as a streamline."
MAX_TUBES = 400
CHECK = "Check the FOD"
WHICH = "The selected streamlines, or up to {} of all,"


class ExportMenu(QPushButton):  # type: ignore[misc]
    """A button with a menu of what is written; `pictures` asks for pictures and movies."""

    def __init__(self, session: Session, bundles: BundleList, pictures: Pictures) -> None:
        super().__init__("Export")
        self.session, self.bundles = session, bundles
        self.setToolTip("Pictures, movies, pages and scripts of what is on the screen.")
        self.live = widgets.CheckBox(name="live", label="Live", tooltip=LIVE_HELP)
        self.page_controls = [
            widgets.LineEdit(
                name="title",
                label="Title",
                tooltip="Heading of the page; by default the name of its file.",
            ),
            widgets.LineEdit(name="caption", label="Caption", tooltip="Text below the heading."),
            widgets.SpinBox(
                name="every", label="Every n-th streamline", min=1, max=1000, tooltip=EVERY_HELP
            ),
            self.live,
        ]
        self.page_controls[1].native.setMinimumWidth(320)
        self._page_form = option_form(self.page_controls, self)
        tried = errors_shown()
        give_menu(
            self,
            ("Screenshot...", "A picture of the canvas, as PNG.", tried(pictures.ask)),
            ("Figure...", FIGURE_HELP, tried(pictures.ask_figure)),
            ("Movie...", "One turn of the 3-D view, as GIF or MP4.", tried(pictures.ask_movie)),
            ("Interactive page...", PAGE_HELP, tried(self.ask_page)),
            (
                "Copy as Python",
                "A script that tracks the same, to the digest.",
                tried(self.copy_python),
            ),
            ("Copy as command", "One command that tracks the same.", tried(self.copy_command)),
        )

    def copy_python(self) -> None:
        """Put a Python script of what would be tracked, or was opened, on the clipboard."""
        bundle = self.session.bundle
        if not bundle.state.is_opened:
            self._copy(as_python)
            return
        prove = partial(proven_file, file_source(bundle), bundle.tractogram)
        QGuiApplication.clipboard().setText(file_as_python(wait_for(prove, "Copying", self)))
        show_info(f"Copied; it reads {bundle.name} and gives the streamlines that are shown.")

    def copy_command(self) -> None:
        self._copy(as_command)

    def ask_page(self) -> None:
        self.live.text = f"Seeds of {self.bundles.active.name} can be dragged"
        to = "Save an interactive page", "tractography.html", "Page (*.html)"
        if path := asked_path("Interactive page", self._page_form, PAGE_HELP, to, self):
            values = values_of(self.page_controls)
            texts = {name: values[name].strip() for name in ("title", "caption")}
            self.save_page(path, **{**values, **texts})

    @errors_shown()
    def save_page(self, path: str | Path, **options: Any) -> None:
        """Write the window as a page; options are those of :func:`..export.pages.page_of`."""
        write, left_out = page_of(self.bundles, path, **options)
        size = wait_for(write, f"Saving {Path(path).name}", self)
        for sentence in left_out:
            show_warning(f"The page shows all, but the recipe in it is not whole: {sentence}")
        show_info(f"Saved the page to {path}: {size / 1e6:.1f} MB.")

    def _copy(self, script: Any) -> None:
        session = self.session
        request = session.request()
        assert session.fod_layer is not None
        message = "Copied; it gives the streamlines that Run gives."
        edited: dict[str, Any] = {}
        layer, edits = session.streamlines_layer, filters_of(session.state)
        if layer is not None and (layer.editor.is_edited or edits):
            why = self._not_edited(request, is_python=script is as_python)
            if why:
                message = f"Copied without your edits, it gives what Run gives: {why}."
            else:
                edited["edits"] = (*layer.editor.edits, *edits)
                edited["weights"] = session.state.weights
                message = f"Copied; it gives the {plural(layer.n_all, 'streamline')} that you kept."
        text = script(
            request,
            session.fod_layer,
            session.layer_of("mask"),
            seed_layer=session.seed_mask_in_use,
            region_layers=session.steering_layers(),
            end_layers=session.end_layers(),
            **edited,
        )
        QGuiApplication.clipboard().setText(text)
        show_info(message)

    def _not_edited(self, request: Request, *, is_python: bool) -> str:
        """Return why edits by hand cannot be part of the script, or ""."""
        result = self.session.state.result_request
        if not is_python:
            return "a command has no room for them, a Python script has"
        if result is not None and result.is_beginning_of(request):
            return "they were made in what had arrived of a run that ended early"
        if result is None or not result.gives_the_same_as(request):
            return "settings or seeds were changed since that run"
        return "" if result.is_whole else "they were made in a preview"


class MoreMenu(QPushButton):  # type: ignore[misc]
    """A button with a menu of layers made of streamlines, and a check of the FOD.

    `add_fod` opens a file, see :meth:`.sections.data.DataSection.add_fod`.
    """

    def __init__(self, session: Session, bundles: BundleList, add_fod: Callable[..., None]) -> None:
        super().__init__("More")
        self.session, self.bundles, self._add_fod = session, bundles, add_fod
        self.setToolTip("Tubes, paths, a centroid, a check of the FOD, and the panel itself.")
        tried, tubes = errors_shown(), f"{WHICH.format(MAX_TUBES)} as tubes, for figures."
        give_menu(
            self,
            ("Add tubes", tubes, tried(self.add_tubes)),
            ("Add editable paths", f"{WHICH.format(MAX_PATHS)} as paths.", tried(self.add_paths)),
            ("Add centroid", CENTROID_HELP, tried(self.add_centroid)),
            (
                CHECK,
                "Does another basis, frame or flip fit better? Then the file is opened so, if you "
                "like.",
                tried(self.check_fod),
            ),
        )

    def add_tubes(self) -> None:
        """Add the selected streamlines as tubes; without a selection an even part of all."""
        layer = self._layer()
        tubes = tubes_layer(_few(layer, MAX_TUBES), layer.space)
        tubes.metadata[TUBES_OF] = layer.unique_id
        tubes.events.visible.connect(lambda _event: self.session.list_changed.emit())
        self.session.viewer.add_layer(tubes)
        layer.visible = False  # lines would show through, and beside the tubes

    def add_paths(self) -> None:
        layer = self._layer()
        self.session.viewer.add_layer(paths_layer(_few(layer, MAX_PATHS), layer.space))

    def add_centroid(self) -> None:
        """Make a bundle of the centroid of the selected streamlines, or of all."""
        centroid_of_active(self.bundles, N_POINTS)

    def check_fod(self) -> None:
        fod = self.session.fod
        if fod is None:
            raise InvalidFodError("There is no FOD to check; open one or choose its layer.")
        found = wait_for(lambda: coherence(fod), "Checking the FOD", self)
        layer, better = self.session.fod_layer, found.best.keywords
        path = None if layer is None else path_of(layer)
        if found.fits or not better or path is None or fod.kind not in read_kinds():
            show_info(found.verdict)
        elif self._is_to_be_read_so(found):
            reading: Any = {"kind": fod.kind, **fod.vector_reading, **better}
            self._add_fod(path, name=f"{fod.name} as {found.best.text}", **reading)

    def _is_to_be_read_so(self, found: Coherence) -> bool:
        text = f"{found.verdict} The file can be opened again as that."
        box = QMessageBox(QMessageBox.Icon.Question, CHECK, text, parent=self.window())
        accepted = box.addButton("Open again", QMessageBox.ButtonRole.AcceptRole)
        box.addButton(QMessageBox.StandardButton.Cancel)
        box.exec()
        return box.clickedButton() is accepted

    def _layer(self) -> Streamlines:
        layer = self.session.streamlines_layer
        if layer is None or not len(layer.tractogram):
            raise InvalidTractogramError("There are no streamlines; run tracking first.")
        return layer


def _few(layer: Streamlines, most: int) -> Tractogram:
    """Return the selected streamlines; without a selection every n-th, at most `most`."""
    if layer.editor.n_selected:
        return layer.editor.selected_tractogram()
    return layer.tractogram[:: -(-len(layer.tractogram) // most)]
