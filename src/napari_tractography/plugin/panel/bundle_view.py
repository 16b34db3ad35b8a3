"""What the panel shows of the bundle that is active: its own values in every control.

Called by the panel, which has the controls.
"""

from __future__ import annotations

import dataclasses
from typing import Any

from ..session.bundles.state import BundleState
from ..streamlines.colours import ONE_COLOUR, WEIGHT
from ..streamlines.layer import Streamlines
from .widgets.controls import set_values

RUN_HELP = "Track from every seed, into the selected bundle."
NOTHING_TO_TRACK = "These streamlines were opened from a file; make a new bundle to track one."


class BundleView:
    """Follows which bundle is active.

    Parameters
    ----------
    panel : TractographyPanel
        Built.
    """

    def __init__(self, panel: Any) -> None:
        self._panel = panel
        self._session = panel.session
        bundles = panel.bundles
        panel.session.layer_made.connect(self._on_layer_made)
        bundles.leaving.connect(self._on_leaving)
        bundles.activated.connect(self._on_activated)
        bundles.removed.connect(panel.runs.give_up)
        bundles.followed.connect(self._on_followed)
        bundles.taken_away.connect(self._on_taken_away)
        panel.filtering.refused.connect(panel.results.tell)
        named = {control.name: control for control in panel.appearance.controls}
        named["colour"].changed.connect(lambda c: bundles.set_colour(bundles.active, c))

    def set_colour(self, colour: str) -> None:
        """Give the active bundle one colour."""
        set_values(self._panel.appearance.controls, {"colour": colour, "colour_by": ONE_COLOUR})

    def show_weights(self) -> None:
        """Colour the active bundle by its weights."""
        set_values(self._panel.appearance.controls, {"colour_by": WEIGHT})

    def mirror(self) -> None:
        """Make the bundle of the other side, and track it where this one was tracked."""
        was_tracked = self._session.tractogram is not None
        was_opened = self._session.bundle.is_opened
        if self._panel.project.mirror() is None:
            return
        if was_opened:
            self._panel.filtering.follow()
        elif was_tracked:
            self._panel.run()

    def _on_leaving(self, bundle: BundleState) -> None:
        """Note what the panel alone knows of the bundle that was active."""
        bundle.look = self._panel.appearance.look
        is_result = bundle.tractogram is not None  # else it is a hint
        bundle.text = self._panel.results.lasting if is_result else ""

    def _on_activated(self, bundle: BundleState) -> None:
        """Show everything of the bundle that is active now."""
        panel, session = self._panel, self._session
        panel.fod_choice.value = session.fod_layer
        panel.data.follow()
        panel.mask_choice.value = session.mask_layer
        panel.seeds.mask_choice.value = session.seed_mask_layer
        panel.tissues.choice.value = session.tissue_layer
        set_values(panel.seeding, dataclasses.asdict(bundle.seeding))
        panel.appearance.show_look(bundle.look, bundle.colour)
        panel.selection.follow()
        panel.runs.switch()
        self._show_result(bundle)
        is_opened = bundle.is_opened
        panel.run_button.setEnabled(not is_opened)
        panel.live.setEnabled(not is_opened)
        panel.run_button.setToolTip(NOTHING_TO_TRACK if is_opened else RUN_HELP)

    def _show_result(self, bundle: BundleState) -> None:
        panel = self._panel
        panel.results.show_bundle(bundle)
        if bundle.tractogram is None and not bundle.text:
            panel.show_hint()
        panel.save_button.refresh()

    def _on_taken_away(self, bundle: BundleState) -> None:
        if bundle is self._session.bundle:
            self._show_result(bundle)

    def _on_layer_made(self, layer: Streamlines) -> None:
        if layer is self._session.streamlines_layer:
            self._panel.appearance.adopt(layer)

    def _on_followed(self, bundle: BundleState) -> None:
        """Show a bundle whose streamlines came from a project."""
        panel = self._panel
        if bundle is self._session.bundle:
            panel.appearance.apply()
            panel.filtering.follow()
            panel.results.show_bundle(bundle)
            panel.save_button.refresh()
