"""A bundle of the document as the window has it: its id, and the layer that shows it.

What it is, is in the document; all that is read here is read there. Made by the session.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

from ...streamlines.tractogram import Tractogram
from ...tracking.report import Report
from .. import acts
from ..document import BundleState, Document, Result
from ..listening import Listening
from ..requests import Request
from ..streamlines.editing import EditState
from ..streamlines.layer import Streamlines

BUNDLE_KEY = "bundle"  # layer.metadata[BUNDLE_KEY]: the OpenBundle whose streamlines a layer shows


@dataclass(frozen=True, slots=True, eq=False)
class Arriving:
    """Of which run streamlines are on the way."""

    request: Request
    report: Report  # what it is tracked on, as far as it is


class OpenBundle:
    """A bundle in the window, whatever becomes of it; of a state where it is in no list yet."""

    def __init__(self, document: Document, number: int, state: BundleState | None = None) -> None:
        self._document = document
        self.id = number
        self._last = document.now.bundles[number] if state is None else state
        # That shows its streamlines, or showed them: while there are none it is out of the viewer.
        self.layer: Streamlines | None = None
        self.listening = Listening()  # to that layer
        self.is_shown = False  # whether that layer is in the viewer
        # Result and edits that the layer was given last.
        self.shown: tuple[Result | None, EditState | None] = (None, None)
        # The run whose beginning the layer shows in place of the result; the result stays what it
        # was until that run ends, is given up, or what is shown of it is edited.
        self.arriving: Arriving | None = None

    @property
    def state(self) -> BundleState:
        """What it is now; what it was last where it was deleted."""
        self._last = self._document.now.bundles.get(self.id, self._last)
        return self._last

    @property
    def is_there(self) -> bool:
        """Whether it is in the list."""
        return self.id in self._document.now.bundles

    @property
    def streamlines_layer(self) -> Streamlines | None:
        """The layer of its streamlines; None where there are none."""
        return self.layer if self.is_shown else None

    def amend(self, *, everywhere: bool = False, **values: Any) -> None:
        """Note what follows by itself from what was done, see :meth:`Document.amend`."""
        self._document.amend(acts.change(self.id, **values), everywhere=everywhere)

    def take_edits(self, summary: str) -> None:
        """Take up what was edited in the layer of a bundle that is not in the list yet."""
        assert self.layer is not None
        editor = self.layer.editor
        self._last = dataclasses.replace(
            self._last, edits=editor.state, tractogram=self.layer.tractogram, summary=summary
        )
        self.shown = self._last.result, self._last.edits

    def __repr__(self) -> str:
        return f"OpenBundle({self.id}, {self.name!r})"

    @property
    def name(self) -> str:
        return self.state.name

    @property
    def tractogram(self) -> Tractogram | None:
        return self.state.tractogram
