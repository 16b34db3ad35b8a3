"""Whether the bundles of a window are saved: title, autosave, and what to restore after a crash."""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

import napari.settings
from napari.layers import Layer
from qtpy.QtCore import QObject

from ...errors import TractographyError
from ...recipes.codec import write_json
from ...recipes.project import ENDING
from ...runtime.processes import may_live
from ..document import Snapshot, same_project
from ..export.projects import project_of
from ..listening import Listening
from ..session.listing import BundleList
from ..timers import delayed, repeated

logger = logging.getLogger(__name__)

FOLDER = "napari-tractography"  # beside napari's settings
AUTOSAVE_MS = 30_000
COMPARE_MS = 100  # after a change, before it is compared with what is saved
MARK = " *"  # of what is unsaved, in the title

# What was saved, and where, in viewers whose panel was closed: it may be opened again.
_closed: WeakKeyDictionary[Any, tuple[Snapshot, Path | None]] = WeakKeyDictionary()

Checksums = Mapping[Layer, int]  # of the voxels of masks, which layers alone hold


class ProjectKeeper(QObject):  # type: ignore[misc]
    """Knows what is saved, says it in the title of the window, and saves by itself for a crash.

    Nothing is written by itself unless `keep`. `path` is the project that was saved or opened last.
    """

    def __init__(self, bundles: BundleList, parent: QObject, *, keep: bool = True) -> None:
        super().__init__(parent)
        self.bundles = bundles
        self.path: Path | None = None
        self._keep = keep
        session = bundles.session
        signals = session.list_changed, session.changed, session.edited
        self._listening = Listening(*((signal, self._on_change) for signal in signals))
        self._saved: Snapshot | None = None
        self._autosaved: Snapshot | None = None
        self._checksums: WeakKeyDictionary[Layer, int] = WeakKeyDictionary()  # of what is saved
        self._has_other_voxels = False
        self._title = str(bundles.viewer.title)
        self.has_unsaved = False
        self._file: Path | None = None  # of the autosave
        self._compare = delayed(self, COMPARE_MS, self.compare)
        self._autosave = repeated(self, AUTOSAVE_MS, self.autosave)

    def open(self) -> None:
        self._listening.open()
        if self._keep:
            self._autosave.start()
        if self._saved is None:
            known = _closed.pop(self.bundles.viewer, None)
            self._saved, self.path = known or (self._now, None)
        self._compare.start()

    def close(self) -> None:
        """Follow no more; a window that closes in peace leaves no autosave."""
        self._listening.close()
        self._autosave.stop()
        self._compare.stop()
        self._forget_autosave()
        if self._saved is not None:
            _closed[self.bundles.viewer] = self._saved, self.path
        self.bundles.viewer.title = self._title

    def compare(self) -> None:
        """Find out whether something of value is unsaved, and say it in the title."""
        self._compare.stop()
        if self._saved is not None:  # of bundles that were not shown before
            self._saved = self.bundles.session.regions.settled(self._saved)
        now, saved = self._now, self._saved
        is_of_value = not all(state.is_blank for state in now.bundles.values())
        is_other = saved is None or self._has_other_voxels or not same_project(now, saved)
        self.has_unsaved = is_of_value and is_other
        name = "" if self.path is None else self.path.name.removesuffix(ENDING)
        shown = " - ".join(filter(None, [name, self._title]))
        self.bundles.viewer.title = f"{shown}{MARK if self.has_unsaved else ''}"

    def compare_voxels(self) -> None:
        """Look at the voxels of masks, too, which a script may have changed without an event."""
        found = self.bundles.session.voxel_checksums()
        known = self._checksums
        self._has_other_voxels |= any(known.get(layer, n) != n for layer, n in found.items())
        self.compare()

    def now(self) -> tuple[Snapshot, Checksums]:
        """Return what is to be saved, and checksums of what layers alone hold of it."""
        checksums = self.bundles.session.voxel_checksums()  # which takes up what scripts painted
        return self._now, checksums

    def note_saved(
        self, path: Path, saved: tuple[Snapshot, Checksums], names: Collection[str] | None = None
    ) -> None:
        """Note that a file holds what :meth:`now` returned; since then it may have changed.

        Or only some bundles of it, by their names: others that are not blank are unsaved.
        """
        now, checksums = saved
        kept = {
            number: state
            for number, state in now.bundles.items()
            if names is None or state.is_blank or state.name in names
        }
        self._saved = Snapshot(kept, now.active)
        self._checksums = WeakKeyDictionary(checksums)
        self.path, self._has_other_voxels = path, False
        self._forget_autosave()
        self.compare_voxels()

    def amend_saved(self, change: Callable[[Snapshot], Snapshot]) -> None:
        """Take up what follows by itself from what is saved, such as a project's streamlines."""
        if self._saved is not None:
            self._saved = change(self._saved)
        self._compare.start()

    def _on_change(self, *_: Any) -> None:
        if not self._compare.isActive():  # a drag changes something all the time
            self._compare.start()

    @property
    def _now(self) -> Snapshot:
        return self.bundles.history.now

    def autosave(self) -> bool:
        """Have what is unsaved, and only that, beside napari's settings; return whether it is."""
        if not self._keep:
            return False
        self.compare_voxels()
        if not self.has_unsaved:
            self._forget_autosave()
            return False
        now = self._now
        if now is self._autosaved:
            return True
        project, _ = project_of(self.bundles, proven=False)
        if not project.bundles:
            return False
        folder = autosave_folder()
        try:
            folder.mkdir(parents=True, exist_ok=True)
            file = folder / f"{os.getpid()}-{id(self):x}{ENDING}"
            write_json(project.content(folder), file)
        except (OSError, TractographyError) as error:
            logger.warning("What is unsaved could not be kept for a crash: %s", error)
            return False
        self._file, self._autosaved = file, now
        return True

    def _forget_autosave(self) -> None:
        if self._file is not None:
            with contextlib.suppress(OSError):
                self._file.unlink()
        self._file, self._autosaved = None, None


def autosave_folder() -> Path:
    """Return where unsaved projects are kept: beside napari's settings."""
    return Path(str(napari.settings.get_settings().config_path or Path.home())).parent / FOLDER


def left_behind() -> list[Path]:
    """Return what windows that did not close in peace have left, the newest first."""
    with contextlib.suppress(OSError):
        found = [f for f in autosave_folder().glob(f"*{ENDING}") if not _is_alive(f)]
        return sorted(found, key=lambda file: -file.stat().st_mtime)
    return []


def _is_alive(file: Path) -> bool:
    number = file.name.partition("-")[0]
    return not number.isdecimal() or may_live(int(number))
