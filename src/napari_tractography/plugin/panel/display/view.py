"""The View section of the panel: standard views, slices in 3-D, letters, glyphs and peaks."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from napari.layers import Layer
from qtpy.QtWidgets import QCheckBox, QWidget

from ....maps.fod_peaks import fod_peaks
from ....model.fod import Fod
from ....model.parameters import ParameterSpec
from ...layers.glyphs import MAX_GLYPHS, FodGlyphs, peaks_layer
from ...layers.planes import planes_in_view
from ...listening import Listening
from ...main_window import canvas_of, main_window
from ...session.seed_mouse import SeedMouse
from ...session.session import Session
from ...space.layer_list import insert_beside, take_out
from ...space.orientation_labels import OrientationLabels
from ...space.views import (
    FOUR_UP,
    PLANES,
    SIDES,
    SPACE,
    VIEW_HELP,
    fit_space,
    plane_in_view,
    show_view,
)
from ...timers import delayed
from ..widgets.busy_dialog import errors_shown, wait_for
from ..widgets.controls import form, on_change, parameter_controls
from ..widgets.layout import Rows, button, row, shrinkable, stack
from .four_up import CanvasFrame, FourUp
from .region_outlines import RegionOutlines
from .ruler import Ruler
from .slices import SLICES_SPEC, SlicesBox

NARROW = 48  # pixels
PEAKS_MS = 200  # after the last move of the slider

GLYPH_SPECS = (
    ParameterSpec(
        "glyph_scale", "Glyph size", 1.0,
        "Width of a usual glyph; it grows with the square root of the largest amplitude.",
        unit="voxels", minimum=0.05, maximum=20.0, increment=0.1, slider=(0.1, 4.0),
    ),
    ParameterSpec(
        "glyph_floor", "Shown from", 0.05, "Glyphs and peaks leave out smaller FOD amplitudes.",
        minimum=0.0, maximum=10.0, increment=0.01, slider=(0.0, 0.5),
    ),
)  # fmt: skip
KEPT_SPECS = (*GLYPH_SPECS, SLICES_SPEC)


class ViewSection(QWidget):  # type: ignore[misc]
    """Buttons for views, and the FOD as glyphs and peaks."""

    def __init__(self, session: Session, mouse: SeedMouse) -> None:
        super().__init__()
        self.session = session
        self.viewer = session.viewer
        self.glyphs: FodGlyphs | None = None
        self.peaks: Layer | None = None
        self.labels: OrientationLabels | None = None
        self.ruler = Ruler(session, mouse)
        self.views = {
            name: button(name, VIEW_HELP[name], partial(self.show_view, name))
            for name in (*PLANES, *SIDES)
        }
        for name in PLANES:  # that of what is in view is pressed
            self.views[name].setCheckable(True)
        for name in SIDES:
            shrinkable(self.views[name]).setMinimumWidth(NARROW)
        planes, sides = ([self.views[name] for name in names] for names in (PLANES, SIDES))
        # Above the canvas, where there is one.
        self.bar = Rows(*planes, self.ruler.button, spacing=2)
        self.slices = SlicesBox(session)
        self.four_up = FourUp(session, self.slices, mouse, self.ruler)
        for part in (self.ruler, self.four_up):
            part.setParent(self)  # so that its timers end with the panel
        self.outlines = RegionOutlines(session, self)
        self._frame: CanvasFrame | None = None  # where there is a window
        self.glyphs_box = QCheckBox("FOD glyphs")
        self.glyphs_box.setToolTip(
            "Draw the FODs of the slice in view, coloured by direction; they follow the slice. "
            f"Of more than {MAX_GLYPHS} an even part is drawn."
        )
        self.peaks_box = QCheckBox("FOD peaks")
        self.peaks_box.setToolTip("Draw the largest peaks of every voxel, coloured by direction.")
        self.controls = parameter_controls(GLYPH_SPECS)
        self.kept_controls = [*self.controls, self.slices.switch]  # of KEPT_SPECS
        self.form = form(self.controls)
        boxes = row(self.glyphs_box, self.peaks_box)
        stack(self, self.bar, row(*sides), self.slices, boxes, self.form)
        self.glyphs_box.toggled.connect(self._on_glyphs)
        self.peaks_box.toggled.connect(self._on_peaks)
        on_change(self.controls, self._on_controls)
        dims = self.viewer.dims.events
        self._listening = Listening(
            (dims.order, self._on_view),
            (dims.ndisplay, self._on_view),
            (self.viewer.layers.events.removed, self._on_removed),
        )
        self._peaks_floor = 0.0  # that the peaks were found with
        # Finding peaks takes longer than a slider moves.
        self._later = delayed(self, PEAKS_MS, self._follow_floor)

    def open(self) -> None:
        """Put the orientation labels on the canvas of the viewer, when it has one."""
        canvas = canvas_of(main_window(self.viewer))
        if canvas is not None and self.labels is None:
            self.labels = OrientationLabels(self.viewer, canvas)
            self._frame = CanvasFrame(canvas, self.bar, self.four_up.panes)
        self.ruler.open(None if self._frame is None else self._frame.canvas)
        self.views[FOUR_UP].setVisible(self._frame is not None)
        self._on_view()
        self._listening.open()
        self.slices.open()
        self.outlines.open()

    def close_section(self) -> None:
        self._listening.close()
        self.ruler.close()
        if self._frame is not None:
            self._leave_four_up()
            self._frame.close()
            self.layout().insertWidget(0, self.bar)
            self._frame = None
        if self.labels is not None:
            self.labels.close()
            self.labels = None
        self._later.stop()
        self.slices.close_section()
        self.outlines.close_section()
        self.glyphs_box.setChecked(False)

    def show_view(self, name: str) -> None:
        if name not in (FOUR_UP, *SIDES):
            self._leave_four_up()
        show_view(self.viewer, SPACE if name == FOUR_UP else name)
        if name == FOUR_UP and self._frame is not None:
            self.four_up.open()
            self._frame.divide(True)
            fit_space(self.viewer)
        self._on_view()  # also where a button of what is in view was pressed

    def _leave_four_up(self) -> None:
        if self._frame is not None and self.four_up.is_open:
            self.four_up.close()
            self._frame.divide(False)

    def _on_view(self, _event: Any = None) -> None:
        """Press the button of what is in view; slices beside 3-D go with it."""
        if self.viewer.dims.ndisplay != 3:
            self._leave_four_up()
        shown = FOUR_UP if self.four_up.is_open else plane_in_view(self.viewer)
        for name in PLANES:
            self.views[name].setChecked(name == shown)

    def move_to_mouse(self) -> None:
        """Move the crosshair, in which all slices meet, to what is under the mouse."""
        viewer, position = self.viewer, np.asarray(self.viewer.cursor.position, float)[-3:]
        if viewer.dims.ndim < 3 or len(position) < 3:
            return  # nothing is open, or the mouse was never there
        if viewer.dims.ndisplay == 3:
            planes, camera = planes_in_view(viewer), viewer.scene.camera
            sight = camera.calculate_nd_view_direction(viewer.dims.ndim, viewer.dims.displayed)
            hit = planes[-1].hit(position, np.asarray(sight)[-3:]) if planes else None
            if hit is None:
                return
            position = hit[1]
        self.four_up.shared.move_to(position)

    def fod_changed(self) -> None:
        self.slices.fod_changed()
        if self.labels is not None:  # an image that is tracked in may not know left from right
            self.labels.update()
        for box in (self.glyphs_box, self.peaks_box):
            if box.isChecked():
                box.setChecked(False)
                box.setChecked(self.session.fod is not None)

    @property
    def _shape(self) -> tuple[float, float]:
        """How large glyphs are, and from which amplitude on glyphs and peaks are drawn."""
        scale, floor = (float(control.value) for control in self.controls)
        return scale, floor

    def _on_glyphs(self, on: bool) -> None:
        fod = self.session.fod
        if self.glyphs is not None:
            glyphs, self.glyphs = self.glyphs, None
            glyphs.close()
        if on and fod is not None and self._is_worked_out(fod):
            scale, floor = self._shape
            self.glyphs = FodGlyphs(
                self.viewer, fod, self.session.space, scale=scale, min_amplitude=floor
            )
        elif on:
            self.glyphs_box.setChecked(False)

    def _on_peaks(self, on: bool) -> None:
        fod = self.session.fod
        layer, self.peaks = self.peaks, None
        take_out(self.viewer, layer)
        if on and fod is not None and self._is_worked_out(fod):
            _, self._peaks_floor = self._shape
            self.peaks = self._peaks_of(fod, self._peaks_floor)
            if self.peaks is not None:
                insert_beside(self.viewer, self.peaks)
        if on and self.peaks is None:
            self.peaks_box.setChecked(False)

    def _peaks_of(self, fod: Fod, floor: float) -> Layer | None:
        """Return the layer of the peaks of an FOD; None where that was cancelled."""
        with errors_shown():
            peaks = wait_for(
                lambda: fod_peaks(fod, min_amplitude=floor), f"Peaks of {fod.name}", self
            )
            return peaks_layer(peaks, fod.grid, self.session.space)
        return None

    def _is_worked_out(self, fod: Fod) -> bool:
        """Work out all of an image, which glyphs and peaks are of; return whether that is done."""
        if fod.blocks is None:
            return True
        with errors_shown():
            wait_for(lambda: fod.device_values, f"Working out {fod.name}", self)
            return True
        return False

    def _on_controls(self) -> None:
        if self.glyphs is not None:
            self.glyphs.set_shape(*self._shape)
        if self.peaks is not None:
            self._later.start()

    def _follow_floor(self) -> None:
        fod, (_, floor) = self.session.fod, self._shape
        if self.peaks is None or fod is None or floor == self._peaks_floor:
            return
        self._peaks_floor = floor
        now = self._peaks_of(fod, floor)
        if now is None or self.peaks is None:
            return
        self.peaks.data = now.data
        if len(now.data):
            self.peaks.edge_color = now.edge_color

    def _on_removed(self, event: Any) -> None:
        """Clear the check box of a layer that was removed."""
        if self.glyphs is not None and event.value is self.glyphs.layer:
            self.glyphs = None
            self.glyphs_box.setChecked(False)
        elif event.value is self.peaks:
            self.peaks = None
            self.peaks_box.setChecked(False)
