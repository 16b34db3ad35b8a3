"""The button that saves streamlines in a file."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from napari.utils.notifications import show_info
from qtpy.QtWidgets import QFileDialog, QPushButton

from ...files.formats import (
    default_ending,
    dialog_filter,
    has_ending,
    imageless_endings,
    listed,
    tractogram_endings,
    written_tractogram_format,
)
from ...files.tck import TCK
from ...files.trk import TRK
from ...geometry.grid import Grid
from ...recipes.codec import is_recipe
from ...recipes.project import with_hashes
from ...recipes.recipe import ENDING as RECIPE_ENDING
from ...recipes.recipe import Recipe
from ..export.projects import source_of
from ..notices import show_error
from ..session.listing import BundleList
from ..session.session import Session
from ..words import plural
from .widgets.busy_dialog import errors_shown, wait_for

WITH_GRID = TRK.endings[0]  # that is proposed; every other program reads it


class SaveButton(QPushButton):  # type: ignore[misc]
    """Saves the result of a session, on the grid of the FOD in which it was tracked."""

    def __init__(self, session: Session, bundles: BundleList) -> None:
        super().__init__("Save...")
        self.session, self.bundles = session, bundles
        self.setToolTip(f"Save the streamlines as {_bare(tractogram_endings())}.")
        self.clicked.connect(self._ask)
        session.list_changed.connect(self._refresh)
        self._refresh()

    def _refresh(self) -> None:
        tractogram = self.session.tractogram
        self.setEnabled(tractogram is not None and len(tractogram) > 0)

    @property
    def _grid(self) -> Grid | None:
        """Of the file of the streamlines, or of the FOD in which they were tracked."""
        tractogram, result = self.session.tractogram, self.session.state.result
        own = None if tractogram is None else tractogram.grid
        return result.grid if own is None and result is not None else own

    @errors_shown()
    def save(
        self, path: str | Path, *, data_beside: bool = False, bids_sidecar: bool = False
    ) -> None:
        """Save the streamlines; the ending decides the format.

        With `data_beside` values that a .tck file cannot hold are written into files beside it,
        with `bids_sidecar` a .json file that says how they were made.
        """
        tractogram, grid = self.session.tractogram, self._grid
        name = Path(path).name
        if tractogram is None or not len(tractogram):
            show_error("There are no streamlines to save; run tracking first.")
            return
        is_known = has_ending(name, tractogram_endings())
        if grid is None and is_known and written_tractogram_format(name).needs_grid:
            show_error(
                f"{name} cannot be saved: a {name.lower().rpartition('.')[2]} file needs the grid "
                "of a volume, and these streamlines have none; save them as "
                f"{_bare(imageless_endings())}."
            )
            return
        sidecar = Path(path).with_suffix(RECIPE_ENDING)
        recipe: Any = None
        if bids_sidecar:
            recipe = source_of(self.bundles, self.bundles.active)
            if not isinstance(recipe, Recipe):
                show_error(f"{name} has no sidecar: how these streamlines were made is not known.")
                return
            if sidecar.exists() and not is_recipe(sidecar):
                show_error(f"{sidecar.name} is there and is no recipe; give another name.")
                return
        result = self.session.state.result
        backend = "" if result is None else result.report.backend

        def write() -> None:
            tractogram.save(path, reference=grid, data_beside=data_beside)
            if recipe is not None:
                made = with_hashes(recipe).with_result(tractogram, backend)
                made.save(sidecar, bids_sidecar=True)

        wait_for(write, f"Saving {name}", self)
        show_info(f"Saved {plural(len(tractogram), 'streamline')} to {path}.")

    def proposed_name(self) -> str:
        """Return a name for the file: the layer's, without what file systems refuse."""
        layer = self.session.streamlines_layer
        name = "" if layer is None else re.sub(r'[\x00-\x1f<>:"/\\|?*]+', "_", layer.name)
        ending = default_ending() if self._grid is None else WITH_GRID
        name = name.strip(" .") or "streamlines"
        return name if has_ending(name, tractogram_endings()) else name + ending

    def _ask(self) -> None:
        known = dialog_filter("Tractogram", tractogram_endings())
        beside = dialog_filter("MRtrix3 tracks, values in files beside", TCK.endings)
        bids = dialog_filter("Tractogram and BIDS sidecar", tractogram_endings())
        path, chosen = QFileDialog.getSaveFileName(
            self, "Save streamlines", self.proposed_name(), f"{known};;{beside};;{bids}"
        )
        if path:
            self.save(path, data_beside=chosen == beside, bids_sidecar=chosen == bids)


def _bare(endings: Iterable[str]) -> str:
    return listed(ending.lstrip(".") for ending in endings)
