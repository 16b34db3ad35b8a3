"""The Seeds section of the panel: what streamlines start from, how many, and a table of seeds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from napari.layers import Layer
from qtpy.QtWidgets import QWidget

from ....model.defaults import rounded
from ....model.seeding_parameters import SEED_SOURCES, seeding_specs
from ...document import LayerRef, Snapshot
from ...layers.volume_layers import mask_layers
from ...session.seed_layer import outside
from ...session.session import Session
from ...session.wanted import ends_of
from ...words import in_words, plural
from ..widgets.controls import (
    DefaultMarks,
    layer_choice,
    offer_layers,
    on_change,
    parameter_controls,
    set_values,
    show_row,
    values_of,
)
from ..widgets.layout import button, keys_here, row, stack, wrapped
from ..widgets.undo import UndoButtons
from .seed_table import SeedTable

SPECS = {spec.name: spec for spec in seeding_specs()}
PLACED, MASK, EVERY_VOXEL, WHOLE, INTERFACE, BETWEEN = SEED_SOURCES
# The rows below the source, and for which sources each is there. Between regions what is accepted
# is always counted, of every voxel what is started.
SHOWN_FOR = {
    "counted": (PLACED, MASK, WHOLE, INTERFACE),
    "n_per_seed": (PLACED,),
    "radius_mm": (PLACED,),
    "seed_mask": (MASK, EVERY_VOXEL),
    "n_per_voxel": (EVERY_VOXEL,),
    "n_total": (MASK, WHOLE, INTERFACE, BETWEEN),
    "drawn_by": (MASK, EVERY_VOXEL),
}
HINTS = {
    MASK: "Streamlines start in the voxels of the mask. {}",
    EVERY_VOXEL: "The same number of streamlines starts in every voxel of the mask. {}",
    WHOLE: "Streamlines start everywhere, more where the FOD is larger.",
    INTERFACE: "Streamlines start where grey and white matter meet.",
}
# What a person does first, where streamlines have nothing to start from.
FIRST = {
    PLACED: "Shift-click in the image",
    MASK: "choose a mask in Seeds",
    EVERY_VOXEL: "choose a mask in Seeds",
    INTERFACE: "choose a tissue image in Tissues",
    BETWEEN: "add two regions in Regions",
}
UNUSED = "The seeds that you placed are not used."


def next_step(session: Session) -> str:
    """Return what to do next, where there are no streamlines yet."""
    if session.closed_fod:
        return f"The FOD {session.closed_fod} was closed: open it again, or choose another in Data."
    steps = [] if session.fod_layer is not None else ["open an FOD or an image"]
    if not session.can_start:
        steps.append(FIRST[session.seeding.source])
    closed = session.closed_input()
    if not steps and closed is not None:
        return str(closed)
    if not steps:
        return "No streamlines yet: press Run, or switch on Live."
    return f"No streamlines yet: {', then '.join([*steps, 'Run'])}."


class SeedSection(QWidget):  # type: ignore[misc]
    """What the Seeds section holds."""

    def __init__(self, session: Session) -> None:
        super().__init__()
        self.session = session
        self.controls = parameter_controls(seeding_specs())
        named = {control.name: control for control in self.controls}
        self.source = named["source"]
        self._radius_mm: float = SPECS["radius_mm"].default
        self.mask_choice = layer_choice(
            "seed_mask",
            "Seed mask",
            lambda: mask_layers(session.viewer.layers),
            "Streamlines start where this layer is not zero; none takes the mask above.",
            chosen=lambda: session.chosen_input("seed_mask"),
        )
        self.hint = wrapped()
        self.hint.setMinimumHeight(2 * self.hint.fontMetrics().lineSpacing() + 4)
        self.clear = button("Remove all", "Remove all seeds.", session.clear_seeds)
        self.table = SeedTable(session)
        named["seed_mask"] = self.mask_choice
        self._rows = {name: named[name] for name in SHOWN_FOR}
        marked = {name: spec for name, spec in SPECS.items() if name in SHOWN_FOR}
        self._marks = DefaultMarks(
            [self.source, *self._rows.values()],
            marked,
            lambda name: set_values(self.controls, {name: self._default(name)}),
        )
        self.form = self._marks.form
        self.undo = UndoButtons(session.document)
        foot = row(self.hint, self.undo, self.clear, stretch_first=True)
        stack(self, self.form, foot, self.table, spacing=5)
        self.source.changed.connect(self.show_source)
        self.mask_choice.changed.connect(self._on_mask)
        session.seeds_changed.connect(self.show_source)
        session.parameters_suited.connect(self.show_units)
        session.regions.list_changed.connect(self.show_source)
        on_change(self.controls, self.table.viewport().update)
        on_change(self.controls, self._mark)
        self._mark()
        self.show_source()

    def show_units(self) -> None:
        space, named = self.session.space, {control.name: control for control in self.controls}
        self._marks.show_units(space)
        radius, before = named["radius_mm"], self._default("radius_mm")
        self._radius_mm = rounded(space.in_proportion(SPECS["radius_mm"].default))
        if radius.value == before != self._radius_mm:  # it was not set
            self._suit_radius(before)
            with radius.changed.blocked():  # other controls may not say yet what undo brought
                radius.value = self._radius_mm
            self.table.viewport().update()
        self._mark()

    def _suit_radius(self, before_mm: float) -> None:
        """Let seeds be as large as suits the volume, which is no step of anybody's."""
        document = self.session.document
        number, radius_mm = document.now.active, self._radius_mm

        def act(now: Snapshot) -> Snapshot:
            state = now.bundles.get(number)
            if state is None or state.seeding.radius_mm != before_mm:
                return now
            seeding = replace(state.seeding, radius_mm=radius_mm)
            return now.replace(number, seeding=seeding, source=state.source)

        document.amend(act, everywhere=True)

    def kept_of(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Return some values to keep: the default in place of one that suits the volume."""
        return {
            name: SPECS[name].default if value == self._default(name) else value
            for name, value in values.items()
        }

    def _default(self, name: str) -> Any:
        return self._radius_mm if name == "radius_mm" else SPECS[name].default

    def refresh_layers(self) -> None:
        offer_layers(self.mask_choice, self.session.chosen_input("seed_mask"), quietly=True)

    def show_source(self, _value: Any = None) -> None:
        """Show what belongs to the source that is chosen."""
        source, n = self.source.value, len(self.session.seeds)
        for name, sources in SHOWN_FOR.items():
            show_row(self.form, self._rows[name], source in sources)
        self.table.setVisible(source == PLACED)
        self.clear.setVisible(source == PLACED)
        self.clear.setEnabled(n > 0)
        self.hint.setText(in_words(self.session.fod, self._hint(source, n)))
        whole = SEED_SOURCES.index(WHOLE)
        self.source.native.setItemText(whole, in_words(self.session.fod, WHOLE))

    def _hint(self, source: str, n: int) -> str:
        if self.session.closed_fod:
            return next_step(self.session)
        if self.session.fod_layer is None:
            return "First open an FOD or an image; File > Open Sample has phantoms."
        if source != PLACED:
            return f"{self._other_hint(source)} {UNUSED if n else ''}".strip()
        if n == 0:
            return "Shift-click in the image to place a seed."
        hint = keys_here(f"{plural(n, 'seed')}: drag to move, Ctrl-click to remove.")
        return " ".join(filter(None, [hint, outside(self.session.seeds_outside)]))

    def _other_hint(self, source: str) -> str:
        if source == BETWEEN:
            ends = ends_of(self.session.state)
            if ends is None:
                return "First add two regions in Regions; select both and press From A to B."
            one, other = (end.name for end in ends)
            return f"From {one} to {other} and back; so many are accepted in all."
        if source == INTERFACE and self.session.tissues is None:
            return "First open or choose a tissue image in Tissues."
        if source in (MASK, EVERY_VOXEL) and self.session.seed_mask_in_use is None:
            return "First choose a mask, here or in Data."
        return HINTS[source].format(self.session.mask_summary("seed_mask"))

    def _mark(self) -> None:
        values = values_of(self.controls)
        defaults = {name: self._default(name) for name in SPECS}
        self._marks.mark({n: default for n, default in defaults.items() if values[n] != default})

    def _on_mask(self, layer: Layer | LayerRef | None) -> None:
        if not isinstance(layer, LayerRef):  # closed, as it is
            self.session.choose("seed_mask", layer)
