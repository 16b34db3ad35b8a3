"""Is it so in everyone? The share of many subjects in which a place is reached, as seeds move.

The Measure section shows it once it was asked for in the More menu.
"""

from __future__ import annotations

import contextlib
import dataclasses
import glob
import math
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from napari.layers import Layer
from napari.utils.notifications import show_info
from qtpy.QtWidgets import (
    QAbstractItemView,
    QDialog,
    QDialogButtonBox,
    QFileDialog,
    QLineEdit,
    QTableWidget,
    QTableWidgetItem,
    QVBoxLayout,
    QWidget,
)

from ....errors import FileError, InvalidFodError, InvalidParameterError
from ....fields.tensors import chosen_axes
from ....files.formats import dialog_filter, fod_endings
from ....files.subjects import SUBJECT, is_pattern
from ....recipes.codec import is_recipe
from ....recipes.cohort import Cohort, named_fods
from ....recipes.recipe import ENDING
from ....recipes.sources import SeedSource
from ...export.layer_files import path_of
from ...export.recipes import recipe_of
from ...layers.on_volume import is_above_volumes
from ...layers.volume_layers import fod_of
from ...session.cohort_runs import CohortRuns, CohortStep
from ...session.session import Session
from ...space.display import DisplaySpace
from ...space.layer_list import index_of_lowest, insert_beside
from ...words import plural
from ..sections.data import DataSection
from ..widgets.busy_dialog import errors_shown, wait_for
from ..widgets.layout import (
    button,
    follow_font,
    number_item,
    row,
    select_rows,
    show_text,
    stack,
    wrapped,
)
from .maps import map_layer

TITLE = "Is it so in everyone?"
COLUMNS = ("Subject", "Likeness", "Streamlines")
SEPARATOR = ";"  # between files
ASK = (
    "FODs of the subjects, all in one space: a pattern such as {}, or files. The seeds, regions "
    "and parameters of the active bundle are then tracked in all of them whenever they change."
)
ASK_WARPS = (
    "Where they have no space in common: the warp of each subject, which leads from its space to "
    "that of the FOD which is open, with {subject} for its name. Seeds and regions are taken to "
    "each subject, and its streamlines back."
)
WARPS_HELP = "Such as /data/{subject}/to_template.mif; empty where all lie in one space."
OWN_SPACE = "{} lies in a space of its own, where these seeds are elsewhere."
TABLE_HELP = (
    "Subjects, the one that differs most first. Likeness is the overlap of its visitation map with "
    "the mean of all others, from 0 to 1. A double click opens the FOD and tracks in it, but with "
    "warps."
)


class CohortSection(QWidget):  # type: ignore[misc]
    """Who differs; subjects are opened in the Data section."""

    def __init__(self, session: Session, data: DataSection) -> None:
        super().__init__()
        self.session, self.data = session, data
        self.runs = CohortRuns(session)
        self.layer: Layer | None = None
        self._rows: list[str] = []  # the file of each row
        self.note = wrapped()
        self.table = QTableWidget(0, len(COLUMNS))
        self.table.setHorizontalHeaderLabels(COLUMNS)
        self.table.setToolTip(TABLE_HELP)
        self.table.setEditTriggers(QAbstractItemView.EditTrigger.NoEditTriggers)
        select_rows(self.table)
        self.table.verticalHeader().hide()
        follow_font(self.table, self._fit)
        self._fit()
        self.table.cellDoubleClicked.connect(lambda at, _column: self.open_subject(at))
        self.save_button = button(
            "Save...",
            "Save the table as CSV, and beside it the recipe that makes it again.",
            self._ask_save,
        )
        stop_help = "Track in these subjects no more; the map stays."
        self.stop = button("Stop", stop_help, self.close_cohort)
        title, foot = wrapped(f"<b>{TITLE}</b>"), row(self.save_button, self.stop)
        stack(self, title, self.note, self.table, foot, spacing=5)
        self.runs.stepped.connect(self._on_step)
        self.runs.failed.connect(lambda text: show_text(self.note, text))
        self.hide()

    def _fit(self) -> None:
        height = self.table.verticalHeader().defaultSectionSize()
        above = self.table.horizontalHeader().sizeHint().height()
        self.table.setFixedHeight(6 * height + above + 4)

    @errors_shown()
    def ask(self) -> None:
        """Ask for the subjects, and follow the seeds in them."""
        layer = self.session.fod_layer
        path = None if layer is None else path_of(layer)
        dialog = CohortDialog(suggested_pattern(path), self.window())
        if dialog.exec() == QDialog.DialogCode.Accepted:
            self.open_cohort(dialog.fods(), dialog.warps())

    @errors_shown()
    def open_cohort(self, fods: str | Sequence[str], warps: str = "") -> None:
        """Follow the seeds in the FODs of a pattern, or in files, which may have warps."""
        fod = self.session.fod
        if fod is None:
            raise InvalidFodError("There is no FOD; open that of one subject, and place a seed.")
        cohort = Cohort(
            fods,
            warps=warps or None,
            grid=fod.grid,
            basis=fod.basis,
            frame=fod.frame,
            axes=chosen_axes(**fod.vector_reading),
        )
        self.close_cohort()
        self.table.setRowCount(0)
        self.save_button.setEnabled(False)
        self.show()
        show_text(self.note, f"{plural(len(cohort), 'subject')} to read.")
        self.session.viewer.layers.events.removed.connect(self._on_removed)
        self.runs.open(cohort)

    def close_cohort(self) -> None:
        if self.runs.cohort is not None:
            self.session.viewer.layers.events.removed.disconnect(self._on_removed)
        self.runs.close()
        self.layer = None
        self.hide()

    def _on_removed(self, event: Any) -> None:
        if event.value is self.layer:
            self.close_cohort()

    def _on_step(self, step: CohortStep) -> None:
        self._show_share(step.share)
        if step.result is None:
            show_text(self.note, f"{step.n_done} of {plural(step.n_subjects, 'subject')} tracked.")
            return
        result = step.result
        n = result.n_reached
        show_text(
            self.note,
            f"{int((n > 0).sum()):,} voxels are reached in some of "
            f"{plural(len(result), 'subject')}, {int((n == len(result)).sum()):,} in all.",
        )
        self._show_rows(step)
        self.save_button.setEnabled(True)

    def _show_share(self, share: np.ndarray) -> None:
        assert self.runs.cohort is not None
        grid = self.runs.cohort.grid
        if self.layer is not None:
            self.layer.data = np.ascontiguousarray(DisplaySpace.of(grid).volume(share))
            return
        self.layer = map_layer(share, grid, "Share of subjects")
        self.layer.contrast_limits_range = self.layer.contrast_limits = (0.0, 1.0)
        viewer = self.session.viewer
        insert_beside(viewer, self.layer, index_of_lowest(viewer.layers, is_above_volumes))

    def _show_rows(self, step: CohortStep) -> None:
        assert step.result is not None
        result, likeness = step.result, step.result.likeness
        order = np.argsort(result.ranks)
        self._rows = [result.fods[number] for number in order]
        self.table.setRowCount(len(order))
        for at, number in enumerate(order):
            like = "–" if math.isnan(likeness[number]) else f"{likeness[number]:.3f}"
            self.table.setItem(at, 0, QTableWidgetItem(result.names[number]))
            self.table.setItem(at, 1, number_item(like))
            self.table.setItem(at, 2, number_item(f"{len(result.tractograms[number]):,}"))

    def open_subject(self, at: int) -> None:
        """Track in the FOD of the subject in a row, which is opened if it is not yet."""
        path, cohort = self._rows[at], self.runs.cohort
        if cohort is not None and cohort.has_warps:
            show_info(OWN_SPACE.format(self.table.item(at, 0).text()))
            return
        for layer in self.session.viewer.layers:
            if fod_of(layer) is not None and path_of(layer) == path:
                self.data.fod_choice.value = layer
                return
        self.data.add_fod(path)

    @errors_shown()
    def _ask_save(self) -> None:
        path, _ = QFileDialog.getSaveFileName(
            self, "Save the subjects", "cohort.csv", "Table (*.csv)"
        )
        if path:
            self.save(path)

    def save(self, path: str | Path) -> None:
        """Write the table as CSV, and the recipe that makes it again beside it.

        Raises InvalidParameterError when nothing, or only a preview, has been tracked; FileError
        when something else is there, or it cannot be written.
        """
        runs = self.runs
        result, request, cohort = runs.result, runs.result_request, runs.cohort
        if cohort is None or result is None or request is None or not request.is_whole:
            raise InvalidParameterError("Not all streamlines are there yet; wait a moment.")
        beside = Path(path).with_suffix(ENDING)
        if beside.exists() and not is_recipe(beside):
            raise FileError(f"{beside} is there and is no recipe; choose another name.")
        recipe = recipe_of(
            dataclasses.replace(request, n_preview=None), list(self.session.viewer.layers)
        )

        def write() -> None:
            nonlocal recipe
            if cohort.has_warps:  # seeds went through them one by one
                points = SeedSource.points(request.seeds())
                recipe = dataclasses.replace(recipe, seeds=(points,))
            source = dataclasses.replace(recipe.fod, sha256=recipe.fod.sha256_now())
            whole = dataclasses.replace(recipe, fod=source)
            hashes = tuple(each.inputs_sha256() for each in cohort.recipes_of(whole))
            dataclasses.replace(result, inputs_sha256=hashes).save(path)
            whole.save(beside)

        wait_for(write, f"Saving {Path(path).name}", self)
        show_info(f"Saved {path} and {beside.name}.")


class CohortDialog(QDialog):  # type: ignore[misc]
    """Asks for a pattern, or files, and for warps."""

    def __init__(self, pattern: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setWindowTitle(TITLE)
        self.line = QLineEdit(pattern)
        self.line.setMinimumWidth(480)
        self.line.setPlaceholderText("sub-*/wmfod.mif")
        self.warp_line = QLineEdit()
        self.warp_line.setPlaceholderText("none")
        self.warp_line.setToolTip(WARPS_HELP)
        self.line.setAccessibleName("Files of the subjects")
        self.warp_line.setAccessibleName("Warps")
        self.found = wrapped()
        self.files = button("Files...", "Choose files of one folder.", self._ask_files)
        buttons = QDialogButtonBox.StandardButton
        self.buttons = QDialogButtonBox(buttons.Ok | buttons.Cancel)
        self.buttons.accepted.connect(self.accept)
        self.buttons.rejected.connect(self.reject)
        layout, asked = QVBoxLayout(self), row(self.line, self.files, stretch_first=True)
        ask, ask_warps = wrapped(ASK.format("sub-*/wmfod.mif")), wrapped(ASK_WARPS)
        for part in (ask, asked, ask_warps, self.warp_line, self.found, self.buttons):
            layout.addWidget(part)
        self.line.textChanged.connect(self._show_found)
        self.warp_line.textChanged.connect(self._show_found)
        self._show_found()

    def fods(self) -> str | list[str]:
        parts = [part.strip() for part in str(self.line.text()).split(SEPARATOR) if part.strip()]
        return parts[0] if len(parts) == 1 and is_pattern(parts[0]) else parts

    def warps(self) -> str:
        return str(self.warp_line.text()).strip()

    def _show_found(self) -> None:
        fods, warps = self.fods(), self.warps()
        n = len(glob.glob(fods)) if isinstance(fods, str) else sum(Path(f).exists() for f in fods)
        text, is_ready = f"{plural(n, 'file')} found.", bool(n)
        if warps and n:
            names: list[str] = []
            with contextlib.suppress(FileError):  # said when it is opened
                names = [name for name, _ in named_fods(fods)]
            is_there = [Path(warps.replace(SUBJECT, name)).is_file() for name in names]
            text = f"{plural(n, 'file')} and {plural(sum(is_there), 'warp')} found."
            is_ready = all(is_there)
        self.found.setText(text)
        self.buttons.button(QDialogButtonBox.StandardButton.Ok).setEnabled(is_ready)

    def _ask_files(self) -> None:
        known = dialog_filter("FOD, peaks, tensors", fod_endings())
        paths, _ = QFileDialog.getOpenFileNames(self, "FODs of the subjects", "", known)
        if paths:
            self.line.setText(f"{SEPARATOR} ".join(paths))


def suggested_pattern(path: str | Path | None) -> str:
    """Return a pattern for the files of all subjects, by that of one, as BIDS names them."""
    return "" if path is None else re.sub(r"(?<=sub-)[A-Za-z0-9]+", "*", str(path))
