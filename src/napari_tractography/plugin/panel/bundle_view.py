"""What the panel shows of the bundle that is active: its own values in every control.

Called by the panel, which has the controls.
"""

from __future__ import annotations

import dataclasses
from typing import Any

from ..flag import Flag
from ..session.open_bundle import OpenBundle
from ..streamlines.colours import ONE_COLOUR, WEIGHT
from ..streamlines.layer import Streamlines
from .widgets.controls import offer_layers, set_values

RUN_HELP = "Track from every seed, into the selected bundle."
NOTHING_TO_TRACK = "These streamlines were opened from a file; make a new bundle to track one."


class BundleView:
    """Follows which bundle is active, and what undo and redo make of it.

    Parameters
    ----------
    panel : TractographyPanel
        Built.

    Attributes
    ----------
    is_showing : bool
        Whether controls are being set to what the document says, which nobody chose by them.
    """

    def __init__(self, panel: Any) -> None:
        self._panel = panel
        self._session = panel.session
        self.is_showing = Flag()
        bundles = panel.bundles
        panel.session.layer_made.connect(self._on_layer_made)
        panel.session.travelled.connect(self._on_travelled)
        panel.session.result_changed.connect(self._on_result_changed)
        bundles.activated.connect(self._on_activated)
        bundles.removed.connect(panel.runs.give_up)
        bundles.followed.connect(self._on_followed)
        panel.filtering.refused.connect(panel.results.tell)

    def open(self) -> None:
        """Show what there is; a bundle without a style of its own gets that of the panel."""
        bundle = self._session.bundle
        if not bundle.state.style:
            bundle.amend(everywhere=True, style=self._panel.appearance.style)
            if bundle.state.is_blank:
                return
        self._on_activated(bundle)

    def set_colour(self, colour: str) -> None:
        """Give the active bundle one colour."""
        with self._session.document.one_step(f"Colour of {self._session.bundle.name}"):
            values = {"colour": colour, "colour_by": ONE_COLOUR}
            set_values(self._panel.appearance.controls, values)

    def show_weights(self) -> None:
        """Colour the active bundle by its weights."""
        set_values(self._panel.appearance.controls, {"colour_by": WEIGHT})

    def mirror(self) -> None:
        """Make the bundle of the other side, and track it where this one was tracked."""
        was_tracked = self._session.tractogram is not None
        was_opened = self._session.bundle.state.is_opened
        if self._panel.project.mirror() is None:
            return
        if was_opened:
            self._panel.filtering.follow()
        elif was_tracked:
            self._panel.run()

    def _on_activated(self, bundle: OpenBundle) -> None:
        """Show everything of the bundle that is active now."""
        self._show(bundle)
        self._panel.runs.switch()

    def _on_travelled(self) -> None:
        """Show everything as it was."""
        bundle, appearance = self._session.bundle, self._panel.appearance
        is_other = not appearance.shows(bundle.state.style, bundle.state.colour)
        self._show(bundle, styled=is_other)
        layer = self._session.streamlines_layer
        if layer is not None:
            if is_other:
                appearance.apply_to(layer)
            self._panel.filtering.follow()

    def _show(self, bundle: OpenBundle, *, styled: bool = True) -> None:
        panel, session = self._panel, self._session
        with self.is_showing:
            panel.fod_choice.value = session.fod_layer
            panel.data.follow()
            for choice, name in (
                (panel.mask_choice, "mask"),
                (panel.seeds.mask_choice, "seed_mask"),
                (panel.tissues.choice, "tissues"),
            ):
                offer_layers(choice, session.chosen_input(name), quietly=True)
            set_values(panel.seeding, dataclasses.asdict(bundle.state.seeding))
            if styled:
                panel.appearance.show_style(bundle.state.style, bundle.state.colour)
        panel.selection.follow()
        self._show_result(bundle)
        is_opened = bundle.state.is_opened
        panel.run_button.setEnabled(not is_opened)
        panel.live.setEnabled(not is_opened)
        panel.run_button.setToolTip(NOTHING_TO_TRACK if is_opened else RUN_HELP)

    def _show_result(self, bundle: OpenBundle) -> None:
        panel = self._panel
        panel.results.show_bundle(bundle)
        if bundle.tractogram is None and not bundle.state.summary:
            panel.show_hint()
        panel.save_button.refresh()

    def _on_result_changed(self, bundle: OpenBundle) -> None:
        if bundle is self._session.bundle and bundle.tractogram is None:
            self._show_result(bundle)

    def _on_layer_made(self, layer: Streamlines) -> None:
        if layer is self._session.streamlines_layer:
            self._panel.appearance.adopt(layer)

    def _on_followed(self, bundle: OpenBundle) -> None:
        """Show a bundle whose streamlines came from a project."""
        panel = self._panel
        if bundle is self._session.bundle:
            panel.appearance.apply()
            panel.filtering.follow()
            panel.results.show_bundle(bundle)
            panel.save_button.refresh()
