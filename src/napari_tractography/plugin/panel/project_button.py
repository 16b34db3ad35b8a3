"""The Project button: save, open, and restore projects; asks before something unsaved is lost."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from napari.layers import Layer
from napari.utils.notifications import show_info
from qtpy.QtCore import QTimer, Signal
from qtpy.QtGui import QGuiApplication
from qtpy.QtWidgets import QFileDialog, QMessageBox, QPushButton, QWidget

from ...errors import FileError, MissingFilesError
from ...files.servers import PROTOCOLS, allow_server, check_allowed, is_allowed, server_of
from ...recipes.bundle import Bundle
from ...recipes.mirror import midsagittal_x_mm
from ...recipes.project import ENDING, Project
from ...recipes.recipe import Recipe
from ...recipes.sources import FodSource
from ...recipes.volume_sources import VolumeSource
from ..document import BundleState, LayerRef
from ..export.projects import file_source, project_to_prove
from ..export.recipes import recipe_of
from ..layers.volume_layers import fod_grid_of, fod_of
from ..notices import show_error, show_warning
from ..session.derived_bundles import other_side
from ..session.listing import BundleList
from ..session.open_bundle import OpenBundle
from ..session.project_opening import Opening, state_of
from ..words import plural
from .project_keeper import ProjectKeeper, left_behind
from .project_layers import ProjectLayers
from .widgets.busy_dialog import errors_shown, wait_for
from .widgets.layout import button, give_menu, row, stack, wrapped
from .widgets.progress_row import ProgressRow
from .widgets.window_guard import WindowGuard

FILTER = f"Project (*{ENDING})"


class ProjectButton(QPushButton):  # type: ignore[misc]
    """A button with a menu for projects; what is unsaved is kept for a crash if `keep`.

    Its `bar` with the progress of opening, and the offer to restore, is elsewhere in the panel.
    """

    discarded = Signal()  # a person does without what is unsaved

    def __init__(self, bundles: BundleList, *, keep: bool = True) -> None:
        super().__init__("Project")
        self.bundles = bundles
        self.layers = ProjectLayers(bundles.viewer)
        self.keeper = ProjectKeeper(bundles, self, keep=keep)
        self._keep = keep
        self.opening: Opening | None = None
        self._guard = WindowGuard(self, self._is_unsaved, self.may_be_lost)
        self.setToolTip("Save all bundles in one small file, or open such a file.")
        give_menu(
            self,
            ("Save project", "Seeds, regions, parameters and edits of all bundles.", self.ask_save),
            ("Save project as...", "Under another name.", lambda: self.ask_save(is_as=True)),
            ("Open project...", "Track all bundles of a file again.", self.ask_open),
            (
                "Copy project as Python",
                "A script that makes all bundles again without a screen, to the digest.",
                self.copy_python,
            ),
        )
        self.progress = ProgressRow(
            "How far the bundles of the project have been tracked.",
            "Track no more; all bundles stay in the list.",
        )
        self.progress.cancelled.connect(self._cancel)
        self.found = wrapped("A window ended without saving.")
        self.restore = button("Restore", "Open what was kept of it.", self._restore)
        self.drop = button("Drop", "Delete what was kept of it.", self._drop)
        self.found_row = row(self.found, self.restore, self.drop, stretch_first=True)
        self.bar = QWidget()
        stack(self.bar, self.found_row, self.progress)
        self._show_found()

    def open_keeper(self) -> None:
        self.keeper.open()
        self._show_found()

    def close_keeper(self) -> None:
        self._cancel()
        self.opening = None  # its end, which is still to come, finds no widget to show it
        self.progress.finish()
        self.keeper.close()
        self._guard.watch(None)

    # -- saving --------------------------------------------------------------------------------

    def ask_save(self, *, is_as: bool = False) -> bool:
        """Save where the project was saved before, or ask where to; return whether it is saved."""
        path = None if is_as else self.keeper.path
        if path is None:
            text, _ = QFileDialog.getSaveFileName(
                self.window(), "Save project", f"study{ENDING}", FILTER
            )
            if not text:
                return False
            path = Path(text if text.endswith(ENDING) else f"{text.removesuffix('.json')}{ENDING}")
        return self.save(path)

    def save(self, path: str | Path) -> bool:
        """Save all bundles; say what cannot be saved, and return whether it is done."""
        now = self.keeper.now()  # before it is written, which takes a while
        project, left_out, prove = project_to_prove(self.bundles)
        target = Path(path)
        if not project.bundles:  # an older file stays
            for sentence in left_out:
                show_warning(sentence)
            show_error("There is nothing to save: no bundle has seeds or streamlines of a file.")
            return False
        with errors_shown():

            def write() -> None:
                prove()
                project.save(target)

            wait_for(write, f"Saving {target.name}", self)
            self.keeper.note_saved(target, now, set(project.bundles))
            for sentence in left_out:
                show_warning(sentence)
            show_info(f"Saved {plural(len(project.bundles), 'bundle')} to {target}.")
            return True
        return False

    @errors_shown()
    def copy_python(self) -> None:
        project, left_out, prove = project_to_prove(self.bundles)
        if not project.bundles:
            show_error("There are no bundles to copy: none has seeds or streamlines of a file.")
            return
        wait_for(prove, "Copying", self)
        QGuiApplication.clipboard().setText(project.as_python())
        for sentence in left_out:
            show_warning(sentence)
        n = len(project.bundles)
        digests = "its digest" if n == 1 else "their digests"
        show_info(f"Copied; it gives the {plural(n, 'bundle')} with {digests}.")

    # -- opening -------------------------------------------------------------------------------

    def ask_open(self) -> None:
        if not self.may_be_lost():
            return
        path, _ = QFileDialog.getOpenFileName(self.window(), "Open project", "", FILTER)
        if path:
            self.open_project(path)

    def open_project(self, path: str | Path, *, is_named: bool = True) -> bool:
        """Open a project in place of the bundles that there are; return whether it has begun.

        Save writes to it again if it `is_named`.
        """
        with errors_shown():
            self._open(path, is_named=is_named)
            return True
        return False

    def _open(self, path: str | Path, *, is_named: bool) -> None:
        project = self._load(path)
        if not project.bundles:
            raise FileError(f"{Path(path).name} holds no bundles.")
        self._ask_servers(project)
        layers = self.layers.fod_layers(project, self)
        self._place(project, layers)
        masks: dict[VolumeSource, Layer] = {}  # one layer for all bundles that share it
        states = [
            self._state(bundle, number, layers, masks)
            for number, bundle in enumerate(project.bundles.values())
        ]
        self.bundles.replace_all(states, project.views.get("active", ""))
        self._restore_view(project)
        self.keeper.path = None
        if is_named:
            self.keeper.note_saved(Path(path), self.keeper.now())
        fods = {source: fod_of(layer) for source, layer in layers.items()}
        self._begin(Opening(self.bundles, project, {s: f for s, f in fods.items() if f}))

    def _place(self, project: Project, layers: Mapping[FodSource, Layer]) -> None:
        """Have seeds and regions of recipes with a warp where it puts them: the window has none."""
        for bundle in project.bundles.values():
            source = bundle.source
            if isinstance(source, Recipe) and source.warp is not None:
                grid = fod_grid_of(layers[dataclasses.replace(source.fod, sha256="")])
                assert grid is not None
                warp = partial(source.in_space_of, grid)
                bundle.source = wait_for(warp, f"Warping {bundle.name}", self)

    def _load(self, path: str | Path) -> Project:
        """Read a project; of files that are gone a person is asked where they are."""
        paths: dict[str, str] = {}
        while True:
            try:
                return Project.load(path, places=paths)
            except MissingFilesError as error:
                found = self._ask_paths(error)
                if found is None:
                    raise
                paths.update(found)

    def _ask_servers(self, project: Project) -> None:
        """Ask, once a server, whether it may be contacted. Raises FileError where it may not."""
        for address in project.unasked_files():
            server = server_of(address)
            if is_allowed(address):  # since another file on it was asked about
                continue
            if not server.startswith(tuple(f"{protocol}://" for protocol in PROTOCOLS)):
                check_allowed(address)
            answer = QMessageBox.question(
                self.window(),
                "Contact a server?",
                f"The project takes {Path(address).name} from {server}. Contact that server?",
            )
            if answer != QMessageBox.StandardButton.Yes:
                raise FileError(f"{server} was not contacted, and the project was not opened.")
            allow_server(address)

    def _begin(self, opening: Opening) -> None:
        self._cancel()
        self.opening = opening
        self.progress.show_progress("", 0.0)
        opening.progressed.connect(self.progress.show_progress)
        opening.arrived.connect(self.keeper.amend_saved)
        opening.ended.connect(self._on_ended)
        opening.start()

    def _cancel(self) -> None:
        if self.opening is not None:
            self.opening.cancel()

    def _on_ended(self, opening: Opening) -> None:
        if opening is not self.opening:
            return
        self.opening = None
        self.progress.finish()
        is_whole = not (opening.problems or opening.cancelled.is_set())
        (show_info if is_whole else show_warning)(opening.summary())

    def _ask_paths(self, error: MissingFilesError) -> dict[str, str] | None:
        """Ask where files are now, one after the other."""
        paths = {}
        for missing in error.paths:
            name = Path(missing).name
            if ".zarr" in name.lower():
                text = QFileDialog.getExistingDirectory(self.window(), f"Where is {name}?")
            else:
                # Of its kind, since a file that was moved may have been renamed, too.
                known = f"Files like {name} (*{ending_of(name)});;All files (*)"
                text, _ = QFileDialog.getOpenFileName(
                    self.window(), f"Where is {name}?", name, known
                )
            if not text:
                return None
            paths[missing] = text
        return paths

    def _state(
        self,
        bundle: Bundle,
        number: int,
        layers: Mapping[FodSource, Layer],
        masks: dict[VolumeSource, Layer],
    ) -> BundleState:
        """Return a bundle as the document has it; masks that have no layer yet get one."""
        source, new_id = bundle.source, self.bundles.history.new_id
        if not isinstance(source, Recipe):
            return state_of(bundle, number, new_id)
        layer = layers[dataclasses.replace(source.fod, sha256="")]
        refs: dict[str, Any] = {}
        seed_mask = next((seed.volume for seed in source.seeds if seed.volume is not None), None)
        for what, volume in (("mask", source.mask), ("seed_mask", seed_mask)):
            if volume is None:
                continue
            if volume not in masks:
                name = f"{bundle.name} {what.replace('_', ' ')}"
                masks[volume] = self.layers.mask_layer(volume, source.folder, name, layer)
            refs[what] = LayerRef.to(masks[volume])
        if source.tissues is not None:
            refs["tissues"] = LayerRef.to(self.layers.tissue_layer(source))
        return dataclasses.replace(state_of(bundle, number, new_id, layer), **refs)

    def _restore_view(self, project: Project) -> None:
        """Look as the window did when the project was saved, as far as the file says."""
        viewer, views = self.bundles.viewer, project.views
        dims, camera = viewer.dims, viewer.scene.camera
        if len(views.get("point", ())) != dims.ndim:
            return
        dims.ndisplay = views.get("ndisplay", dims.ndisplay)
        dims.order = tuple(views.get("order", dims.order))
        dims.set_point(range(dims.ndim), views["point"])
        for name in ("center", "zoom", "angles"):
            if name in views:
                setattr(camera, name, views[name])

    # -- the other side ------------------------------------------------------------------------

    @errors_shown()
    def mirror(self) -> OpenBundle | None:
        """Make the bundle of the other side of the active one; return it, or say why not."""
        bundles, active = self.bundles, self.bundles.active
        if active.state.is_opened:
            source = file_source(active, named=False)
            created = other_side(bundles, active, source)
        else:
            created = bundles.session.prepare(self._other_side())
        return bundles.insert(created, f"Mirror {active.name}")

    def _other_side(self) -> BundleState:
        """Return the other side of the active bundle, which is tracked."""
        bundles, active = self.bundles, self.bundles.active
        request, now = bundles.session.request(), active.state
        recipe = recipe_of(request, list(bundles.viewer.layers))
        look = {"by_hand": dict(now.chosen), "seeding": dataclasses.asdict(now.seeding)}
        other = Bundle(active.name, recipe, look=look).mirrored(midsagittal_x_mm(request.fod.grid))
        source = other.source
        assert isinstance(source, Recipe)
        other.source = dataclasses.replace(source, mask=None)  # which stays: no second layer of it
        other.name = bundles.free_name(other.name)
        layers = {dataclasses.replace(source.fod, sha256=""): bundles.session.fod_layer}
        created = self._state(other, len(bundles.bundles), layers, {})
        if created.seed_mask is not None:
            seed_mask = created.seed_mask.layer_in(bundles.viewer)
            seed_mask.visible = True  # where it came to lie is to be seen
        return dataclasses.replace(
            created, mask=now.mask, style=now.style, colour=bundles.free_colour(), source=None
        )

    # -- what is unsaved -----------------------------------------------------------------------

    def may_be_lost(self) -> bool:
        """Ask what to do with what is unsaved; return whether to continue.

        Not where something had to be left out of what was saved.
        """
        if not self._is_unsaved():
            return True
        choices = QMessageBox.StandardButton
        answer = QMessageBox.question(
            self.window(),
            "Unsaved bundles",
            "Bundles have been changed since they were saved. Save them as a project?",
            choices.Save | choices.Discard | choices.Cancel,
            choices.Save,
        )
        if answer == choices.Save:
            return self.ask_save() and not self.keeper.has_unsaved
        if answer == choices.Discard:
            self.discarded.emit()
        return bool(answer == choices.Discard)

    def guard(self, window: QWidget) -> None:
        self._guard.watch(window)

    def _is_unsaved(self) -> bool:
        self.keeper.compare_voxels()
        return self.keeper.has_unsaved

    def _show_found(self) -> None:
        self.found_row.setVisible(self._keep and bool(left_behind()))

    def _restore(self) -> None:
        files = left_behind()
        if not (files and self.may_be_lost() and self.open_project(files[0], is_named=False)):
            return
        if self.keeper.autosave():  # else it stays, as all that there is on the disk
            QTimer.singleShot(0, lambda: self._delete(files[0]))

    def _drop(self) -> None:
        for file in left_behind():
            self._delete(file)

    def _delete(self, file: Path) -> None:
        file.unlink(missing_ok=True)
        self._show_found()


def ending_of(name: str) -> str:
    """Return the ending of a file, ".nii.gz" of "left.white.nii.gz"."""
    path = Path(name)
    is_packed = path.suffix == ".gz"
    return (Path(path.stem).suffix if is_packed else "") + path.suffix
