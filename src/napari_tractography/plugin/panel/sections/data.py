"""The Data section of the panel: the FOD to track in and the mask to stay in, from layers or files.

Called by the panel.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from napari.layers import Layer, Vectors
from napari.utils.notifications import show_error
from qtpy.QtCore import Qt, QTimer
from qtpy.QtWidgets import QFileDialog, QLabel, QProgressBar, QWidget

from ....errors import AmbiguousKindError, TractographyError
from ....fields.kinds import KINDS
from ....fields.readings import AUTO
from ....files.fods import load_mask
from ....files.headers import FORMATS
from ....files.paths import GivenUpError
from ....fod import Fod
from ....units import per_mm, symbol
from ...export.paths import PATH_KEY
from ...layers.on_volume import SeedPoints
from ...layers.opening import FodOpening
from ...layers.sources.images import (
    image_layers,
    is_image_source,
    settings_of,
    take_image,
)
from ...layers.sources.vectors import fod_of_vectors, vectors_layers
from ...layers.spheres import Spheres
from ...layers.volumes import (
    PLACE_TOLERANCE,
    fod_grid_of,
    fod_layer_data,
    fod_layers,
    knows_affine,
    mask_layer_data,
    mask_layers,
    moved_by,
    open_fod,
    opening_of,
    put_back,
    tilted_layers,
)
from ...session.session import Session
from ...space.layer_list import insert_beside, place_of_lowest
from ...space.resampling import Resampling
from ...streamlines.layer import Streamlines
from ..widgets.busy_dialog import wait_for
from ..widgets.controls import form, layer_choice, offer_layers
from ..widgets.kind_dialog import ask_kind
from ..widgets.sections import button, row, stack
from .image import ImageSection

FOD_FILTER = "FOD, peaks, tensors (*.nii *.nii.gz *.mif *.mif.gz *.mih *.pam5)"
MASK_FILTER = f"Mask ({' '.join(f'*{ending}' for ending in FORMATS)})"
VOLUME_OPACITY = 0.3
PROGRESS_STEPS = 1000
PLACE_EVENTS = ("scale", "translate", "rotate", "shear", "affine")  # of layers


class DataSection(QWidget):  # type: ignore[misc]
    """Chooses the FOD and the mask of a session.

    Parameters
    ----------
    session : Session
    fod_changed : callable
        Called after another FOD was chosen.
    """

    def __init__(
        self, session: Session, fod_changed: Callable[[], None], parent: QWidget | None = None
    ) -> None:
        super().__init__(parent)
        self.session = session
        self._fod_changed = fod_changed
        self._followed: FodOpening | None = None
        self._opacity = {2: 1.0, 3: VOLUME_OPACITY}  # of the volume, {dimensions shown: opacity}
        layers = session.viewer.layers
        self.fod_choice = layer_choice(
            "fod",
            "FOD",
            lambda: [*fod_layers(layers), *vectors_layers(layers), *image_layers(layers)],
            "The FOD volume to track in, shown as its l = 0 map; peaks and tensors as "
            "their largest amplitude and FA. Vectors on a regular grid are taken as peaks. In any "
            "other 3-D image fibres are sought where streamlines go.",
        )
        self.mask_choice = layer_choice(
            "mask",
            "Mask",
            lambda: mask_layers(layers),
            "Streamlines stay where this layer is not zero; none tracks everywhere.",
        )
        self.open_fod = button("Open...", "Open an FOD volume from a file.")
        self.open_mask = button("Open...", "Open a mask on the FOD's grid from a file.")
        # Not aligned with the other sections: short labels leave room for file names.
        choices = form([self.fod_choice, self.mask_choice], extra=[self.open_fod, self.open_mask])
        self.kind = QLabel()
        self.kind.setWordWrap(True)
        self.kind.setToolTip(
            "What the volumes were taken for, by header and values. More > Check the FOD tells "
            "whether another basis fits better."
        )
        self.kind.setVisible(False)
        self.tilted = QLabel()
        self.tilted.setWordWrap(True)
        self.tilted.setTextFormat(Qt.TextFormat.PlainText)
        self.resample = button(
            "Resample onto the FOD",
            "Show copies on the axes of the FOD in place of these volumes, which are hidden. Masks "
            "and labels take the value of the nearest voxel, others are interpolated.",
        )
        self.resample.clicked.connect(self._resample)
        self.tilted_rows = QWidget()
        stack(self.tilted_rows, self.tilted, self.resample)
        self.tilted_rows.setVisible(False)
        self._seen: list[Layer] = []  # of which it matters whether they are visible
        self.moved = QLabel()
        self.moved.setWordWrap(True)
        self.moved.setTextFormat(Qt.TextFormat.PlainText)
        self.put_back = button("Put back", "Show the FOD where its fibres lie.")
        self.put_back.clicked.connect(self._put_back)
        self.moved_row = row(self.moved, self.put_back, stretch_first=True)
        self.moved_row.setVisible(False)
        self._placed: Layer | None = None  # whose place is followed
        self.reading = QProgressBar()
        self.reading.setRange(0, PROGRESS_STEPS)
        self.reading.setFormat("Reading: %p %")
        self.reading.setToolTip(
            "How much of the FOD file has been read. Seeds may be placed meanwhile."
        )
        self.cancel_reading = button("Cancel", "Read no more and remove the layer.")
        self.cancel_reading.clicked.connect(self._cancel_reading)
        self.reading_row = row(self.reading, self.cancel_reading, stretch_first=True)
        self.reading_row.setVisible(False)
        self.image = ImageSection(session)
        self.image.odfs.made.connect(self._take_odfs)
        self.image.scaled.connect(self._show_reading)
        self.image.scaled.connect(self._show_moved)
        stack(self, choices, self.kind, self.tilted_rows, self.moved_row, self.reading_row, self.image)
        self.fod_choice.changed.connect(self._on_fod)
        self.mask_choice.changed.connect(self._on_mask)
        self.open_fod.clicked.connect(self._open_fod)
        self.open_mask.clicked.connect(self._open_mask)

    def open(self) -> None:
        """Listen to the viewer."""
        self.session.viewer.dims.events.ndisplay.connect(self._on_ndisplay)
        self._follow_opening(self.session.opening)
        self._follow_place(self.session.fod_layer)

    def close_section(self) -> None:
        """Stop listening to the viewer."""
        self.session.viewer.dims.events.ndisplay.disconnect(self._on_ndisplay)
        self._follow_opening(None)
        self._watch_visibility([])
        self._follow_place(None)
        self.image.close_section()

    def refresh_layers(self) -> None:
        """Offer the layers that there are; without an FOD take the newest."""
        offer_layers(self.fod_choice, self.session.fod_layer)
        known = fod_grid_of(self.fod_choice.value) is not None  # not one that was removed just now
        offer_layers(self.mask_choice, self.session.mask_layer)
        self.image.refresh_layers()
        fods = fod_layers(self.session.viewer.layers)
        if not known and fods:
            self.fod_choice.value = fods[-1]
        self._on_fod(self.fod_choice.value)
        self._on_mask(self.mask_choice.value)
        self._show_tilted()

    def add_fod(self, path: str | Path, kind: str = AUTO) -> None:
        """Open an FOD volume as a layer and choose it; a large file goes on being read.

        Where a file does not look like an FOD but could be read as one, the person is asked.
        """
        try:
            data = open_fod(path, self.session.viewer, kind=kind)
        except AmbiguousKindError as error:
            self._ask_kind(path, error)
            return
        except TractographyError as error:
            show_error(str(error))
            return
        layer = self._add(data, path)
        self.fod_choice.value = layer
        opening = opening_of(layer)
        if opening is not None:  # what its volumes are is found out in its thread
            opening.refused.connect(
                lambda error: QTimer.singleShot(0, lambda: self._ask_kind(path, error))
            )

    def _ask_kind(self, path: str | Path, error: AmbiguousKindError) -> None:
        kind = ask_kind(error, self)
        if kind:
            self.add_fod(path, kind)

    def add_mask(self, path: str | Path) -> None:
        """Open a mask as a labels layer and choose it."""
        try:
            mask, grid = wait_for(lambda: load_mask(path), f"Opening {Path(path).name}", self)
        except TractographyError as error:
            show_error(str(error))
            return
        except GivenUpError:
            return
        self.mask_choice.value = self._add(mask_layer_data(mask, grid, Path(path).name), path)

    def _add(self, layer_data: Any, path: str | Path) -> Layer:
        layer = Layer.create(*layer_data)
        layer.metadata[PATH_KEY] = str(path)
        layers = self.session.viewer.layers
        layers.insert(place_of_lowest(layers, _is_above), layer)  # it would hide the others
        return layer

    def _open_fod(self) -> None:
        path, _ = QFileDialog.getOpenFileName(self, "Open an FOD volume", "", FOD_FILTER)
        if path:
            self.add_fod(path)

    def _open_mask(self) -> None:
        path, _ = QFileDialog.getOpenFileName(self, "Open a mask", "", MASK_FILTER)
        if path:
            self.add_mask(path)

    def _on_fod(self, layer: Layer | None) -> None:
        if layer is self.session.fod_layer:
            return
        if isinstance(layer, Vectors):
            self._take_vectors(layer)
            return
        if layer is not None and fod_grid_of(layer) is None and not self._take_image(layer):
            return
        self.session.choose_fod(layer)
        self.follow()
        self._fod_changed()
        if layer is not None and self.session.viewer.dims.ndisplay == 3:
            layer.opacity = self._opacity[3]

    def follow(self) -> None:
        """Show what the session tracks in, which another bundle may have brought."""
        self.image.follow()
        self._follow_opening(self.session.opening)
        self._follow_place(self.session.fod_layer)
        self._show_tilted()

    def _follow_place(self, layer: Layer | None) -> None:
        """Hear when the FOD is moved on the screen, as by napari's transform tool."""
        for name in PLACE_EVENTS:
            if self._placed is not None:
                self._placed.events[name].disconnect(self._show_moved)
            if layer is not None:
                layer.events[name].connect(self._show_moved)
        self._placed = layer
        self._show_moved()

    def _show_moved(self, _event: Any = None) -> None:
        """Say so where the FOD is not shown where its fibres lie."""
        layer, grid = self._placed, fod_grid_of(self._placed)
        gap = 0.0 if layer is None or grid is None else moved_by(layer, grid)
        is_moved = grid is not None and gap > PLACE_TOLERANCE * grid.voxel_sizes_mm.min() * per_mm(
            grid.unit
        )
        self.moved_row.setVisible(bool(is_moved))
        if layer is not None and grid is not None:
            self.moved.setText(
                f"{layer.name} was moved on the screen, by up to {gap:.3g} {symbol(grid.unit)}; "
                "its fibres, seeds and streamlines were not."
            )

    def _put_back(self) -> None:
        grid = fod_grid_of(self._placed)
        if self._placed is not None and grid is not None:
            put_back(self._placed, grid)

    def _show_tilted(self, _event: Any = None) -> None:
        """Say which volumes do not lie on the FOD where they should."""
        layers, space = self.session.viewer.layers, self.session.space
        self._watch_visibility([layer for layer in layers if knows_affine(layer)])
        found = self._tilted()
        self.tilted_rows.setVisible(bool(found))
        self.resample.setVisible(any(map(can_be_resampled, dict(found))))
        gaps = ", ".join(f"{layer.name} up to {gap:.3g}" for layer, gap in found)
        self.tilted.setText(
            f"Not where it should be on the FOD: {gaps} {symbol(space.unit)} away, as volumes are "
            "shown without their tilt."
        )

    def _tilted(self) -> list[tuple[Layer, float]]:
        fod_layer = self.session.fod_layer  # of which it is told elsewhere that it was moved
        if fod_grid_of(fod_layer) is None:
            return []
        others = [layer for layer in self.session.viewer.layers if layer is not fod_layer]
        return tilted_layers(others, self.session.space)

    def _watch_visibility(self, layers: list[Layer]) -> None:
        for layer in self._seen:
            layer.events.visible.disconnect(self._show_tilted)
        self._seen = layers
        for layer in layers:
            layer.events.visible.connect(self._show_tilted)

    def _resample(self) -> None:
        """Show copies of tilted volumes, on the axes of the FOD, in their place."""
        viewer, space = self.session.viewer, self.session.space
        for layer, _ in self._tilted():
            if not can_be_resampled(layer):
                continue
            try:
                resampling, data = Resampling.of(layer, space), layer.data
                if resampling.is_shift:
                    layer.translate = resampling.translate
                    continue
                values = wait_for(
                    partial(resampling.values, data), f"Resampling {layer.name}", self
                )
            except TractographyError as error:
                show_error(str(error))
                continue
            except GivenUpError:
                return
            if layer in viewer.layers:  # nobody removed it meanwhile
                made = resampling.copy_of(layer, values)
                insert_beside(viewer, made, viewer.layers.index(layer) + 1)
                if viewer.layers.selection.active is layer:
                    viewer.layers.selection.active = made
                layer.visible = False
        self._show_tilted()

    def _take_vectors(self, layer: Vectors) -> None:
        """Add the map of the vectors of a layer, and choose it; say why not, where it is none."""
        self.fod_choice.value = self.session.fod_layer  # until there is its map
        try:
            fod = fod_of_vectors(layer, self.session.space)
        except TractographyError as error:
            show_error(str(error))
            return
        data, attributes, kind = fod_layer_data(fod)
        made = Layer.create(data, {**attributes, "name": f"{layer.name} as peaks"}, kind)
        insert_beside(self.session.viewer, made, 0)
        self.fod_choice.value = made

    def _take_odfs(self, made: Layer) -> None:
        insert_beside(self.session.viewer, made, 0)
        self.fod_choice.value = made

    def _take_image(self, layer: Layer) -> bool:
        """Seek fibres in an image; return whether that can be, and say why not."""
        try:
            take_image(layer, settings_of(layer))
        except TractographyError as error:
            self.fod_choice.value = self.session.fod_layer
            show_error(str(error))
            return False
        return True

    def _follow_opening(self, opening: FodOpening | None) -> None:
        """Show how far the file has been read, and no other file."""
        if self._followed is not None:
            self._followed.progressed.disconnect(self._show_reading)
            self._followed.ended.disconnect(self._show_reading)
        self._followed = opening
        if opening is not None:
            opening.progressed.connect(self._show_reading)
            opening.ended.connect(self._show_reading)
        self._show_reading()

    def _show_reading(self, _event: Any = None) -> None:
        opening, fod = self.session.opening, self.session.fod
        self.kind.setVisible(fod is not None)
        if fod is not None:
            self.kind.setText(_kind_text(fod, is_image_source(self.session.fod_layer)))
        self.reading_row.setVisible(opening is not None)
        if opening is not None:
            self.reading.setValue(int(PROGRESS_STEPS * opening.progress))

    def _cancel_reading(self) -> None:
        if self.session.opening is not None:
            self.session.opening.cancel()

    def _on_mask(self, layer: Layer | None) -> None:
        self.session.mask_layer = layer

    def _on_ndisplay(self, _event: Any) -> None:
        """Make the volume translucent in 3-D; slices and 3-D each keep their own opacity."""
        layer, now = self.session.fod_layer, self.session.viewer.dims.ndisplay
        if layer is not None:
            self._opacity[5 - now] = layer.opacity
            layer.opacity = self._opacity[now]


def can_be_resampled(layer: Layer) -> bool:
    """Tell whether a volume is no FOD, which a copy would not be."""
    return fod_grid_of(layer) is None and not layer.multiscale and not getattr(layer, "rgb", False)


def _kind_text(fod: Fod, is_image: bool) -> str:
    if is_image:
        size = " x ".join(f"{n:.4g}" for n in fod.grid.voxel_sizes_mm * per_mm(fod.grid.unit))
        return f"Image, voxels of {size} {symbol(fod.grid.unit)}: fibres by its structure tensor"
    if fod.vectors is not None:
        order = f", order of {fod.vectors.order}" if fod.vectors.order else ""
        return f"{KINDS[fod.kind].text.capitalize()}{order}, {fod.vectors.axes} axes"
    return f"FOD of {KINDS[fod.kind].text}, lmax {fod.lmax}, {fod.basis}"


def _is_above(layer: Layer) -> bool:
    """Tell whether volumes lie below a layer: seeds, regions and streamlines."""
    return isinstance(layer, Streamlines | SeedPoints | Spheres)
