"""What is not shown where it should be: volumes without their tilt, and an FOD moved by hand."""

from __future__ import annotations

from functools import partial
from typing import Any

from napari.layers import Layer
from qtpy.QtWidgets import QWidget

from ....errors import TractographyError
from ....files.paths import GivenUpError
from ....geometry.units import per_mm, symbol
from ...layers.volume_layers import (
    POSITION_TOLERANCE,
    fod_grid_of,
    knows_affine,
    moved_by,
    put_back,
    tilted_layers,
)
from ...listening import Listening
from ...notices import show_error
from ...session.session import Session
from ...space.layer_list import insert_beside
from ...space.resampling import Resampling
from .busy_dialog import wait_for
from .layout import button, row, stack, wrapped

# Of layers, as by napari's transform tool.
TRANSFORM_EVENTS = ("scale", "translate", "rotate", "shear", "affine")


class Alignment(QWidget):  # type: ignore[misc]
    """Says which volumes are not shown where they should be, and puts them there."""

    def __init__(self, session: Session) -> None:
        super().__init__()
        self._session = session
        self._fod_layer: Layer | None = None  # whose position is followed
        self._of_fod, self._of_volumes = Listening(), Listening()
        # Whatever layers are called.
        self.tilted, self.moved = wrapped(is_plain=True), wrapped(is_plain=True)
        self.resample = button(
            "Resample onto the FOD",
            "Show copies on the axes of the FOD in place of these volumes, which are hidden. Masks "
            "and labels take the value of the nearest voxel, others are interpolated.",
            self._resample,
        )
        self.put_back = button("Put back", "Show the FOD where its fibres lie.", self._put_back)
        self.tilted_rows = QWidget()
        stack(self.tilted_rows, self.tilted, self.resample)
        self.moved_row = row(self.moved, self.put_back, stretch_first=True)
        stack(self, self.tilted_rows, self.moved_row)
        self.show_moved()
        self.show_tilted()

    def follow(self, fod_layer: Layer | None) -> None:
        """Tell of an FOD and what lies beside it; of none without one."""
        if fod_layer is self._fod_layer:
            return
        self._fod_layer = fod_layer
        events = [] if fod_layer is None else [fod_layer.events[n] for n in TRANSFORM_EVENTS]
        self._of_fod.switch(*((event, self.show_moved) for event in events))
        self.show_moved()
        self.show_tilted()

    def show_moved(self, _event: Any = None) -> None:
        """Say so where the FOD is not shown where its fibres lie."""
        layer, grid, is_moved = self._fod_layer, fod_grid_of(self._fod_layer), False
        if layer is not None and grid is not None:
            gap, voxel = moved_by(layer, grid), float(grid.voxel_sizes_mm.min())
            is_moved = gap > POSITION_TOLERANCE * voxel * per_mm(grid.unit)
            self.moved.setText(
                f"{layer.name} was moved on the screen, by up to {gap:.3g} {symbol(grid.unit)}; "
                "its fibres, seeds and streamlines were not."
            )
        self._show(self.moved_row, is_moved)

    def show_tilted(self, _event: Any = None) -> None:
        """Say which volumes do not lie on the FOD where they should."""
        layers = [] if self._fod_layer is None else self._session.viewer.layers
        seen = [layer for layer in layers if knows_affine(layer)]
        self._of_volumes.switch(*((layer.events.visible, self.show_tilted) for layer in seen))
        found = self._tilted()
        self._show(self.tilted_rows, bool(found))
        self.resample.setVisible(any(can_be_resampled(layer) for layer, _ in found))
        gaps = ", ".join(f"{layer.name} up to {gap:.3g}" for layer, gap in found)
        self.tilted.setText(
            f"Not where it should be on the FOD: {gaps} {symbol(self._session.space.unit)} away, "
            "as volumes are shown without their tilt."
        )

    def _show(self, part: QWidget, is_shown: bool) -> None:
        part.setVisible(is_shown)
        self.setHidden(self.moved_row.isHidden() and self.tilted_rows.isHidden())  # with its gap

    def _tilted(self) -> list[tuple[Layer, float]]:
        if fod_grid_of(self._fod_layer) is None:
            return []
        others = [layer for layer in self._session.viewer.layers if layer is not self._fod_layer]
        return tilted_layers(others, self._session.space)

    def _resample(self) -> None:
        """Show copies of tilted volumes, on the axes of the FOD, in their place."""
        layers, space = self._session.viewer.layers, self._session.space
        for layer in (layer for layer, _ in self._tilted() if can_be_resampled(layer)):
            try:
                resampling = Resampling.of(layer, space)
                if resampling.is_shift:
                    layer.translate = resampling.translate
                    continue
                work = partial(resampling.values, layer.data)
                values = wait_for(work, f"Resampling {layer.name}", self)
            except TractographyError as error:
                show_error(str(error))
                continue
            except GivenUpError:
                break
            if layer in layers:  # it was not removed meanwhile
                created = resampling.copy_of(layer, values)
                insert_beside(self._session.viewer, created, layers.index(layer) + 1)
                if layers.selection.active is layer:
                    layers.selection.active = created
                layer.visible = False
        self.show_tilted()

    def _put_back(self) -> None:
        grid = fod_grid_of(self._fod_layer)
        if self._fod_layer is not None and grid is not None:
            put_back(self._fod_layer, grid)


def can_be_resampled(layer: Layer) -> bool:
    """Return whether a volume is no FOD, which a copy would not be."""
    return fod_grid_of(layer) is None and not layer.multiscale and not getattr(layer, "rgb", False)
