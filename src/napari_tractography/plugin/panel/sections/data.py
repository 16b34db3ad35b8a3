"""The Data section: the FOD to track in and the mask to stay in, from layers or files."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any, Unpack

from napari.layers import Layer, Vectors
from qtpy.QtCore import QTimer
from qtpy.QtWidgets import QFileDialog, QMessageBox, QWidget

from ....errors import AmbiguousKindError, TractographyError
from ....fields.kinds import read_kinds
from ....files.fods import FodKeywords
from ....files.formats import dialog_filter, fod_endings, has_ending, volume_endings
from ....files.image_files import IMAGE_ENDINGS, ZARR_MARKS, is_zarr, load_image_mask, zarr_of
from ....files.volume_files import load_volume, voxels_inside
from ...document import LayerRef
from ...export.layer_files import PATH_KEY
from ...layers.fod_opening import FodOpening
from ...layers.on_volume import index_of_volume
from ...layers.sources.image_layers import image_layers, settings_of, take_image
from ...layers.sources.vectors_layers import fod_of_vectors, vectors_layers
from ...layers.volume_layers import (
    fod_grid_of,
    fod_layer_data,
    fod_layers,
    mask_layer_data,
    mask_layers,
    open_fod,
    opening_of,
)
from ...listening import Listening
from ...notices import show_error
from ...session.session import Session
from ...space.display import says_sides
from ...space.layer_list import insert_beside
from ..widgets.alignment import Alignment
from ..widgets.busy_dialog import errors_shown, wait_for
from ..widgets.controls import form, layer_choice, offer_layers
from ..widgets.layout import button, show_text, stack, wrapped
from ..widgets.progress_row import ProgressRow
from .image import ImageSection

VOLUME_OPACITY = 0.3
TITLE = "What does the file hold?"


class DataSection(QWidget):  # type: ignore[misc]
    """Chooses the FOD and the mask of a session; `fod_changed` hears of another FOD.

    It is told whether that has other voxels than the one before.
    """

    def __init__(self, session: Session, fod_changed: Callable[[bool], None]) -> None:
        super().__init__()
        self.session = session
        self._fod_changed = fod_changed
        self._followed = Listening()  # to how a file is read
        self._by_itself: Layer | None = None  # an image that nobody chose
        self._opacity = {2: 1.0, 3: VOLUME_OPACITY}  # of the volume, {dimensions shown: opacity}
        layers = session.viewer.layers
        self.fod_choice = layer_choice(
            "fod",
            "FOD or image",
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
            chosen=lambda: session.chosen_input("mask"),
        )
        self.open_fod = button("Open...", "Open an FOD volume from a file.", self._open_fod)
        mask_help = "Open a mask on the FOD's grid from a file."
        self.open_mask = button("Open...", mask_help, self._open_mask)
        # Not aligned with the other sections: short labels leave room for file names.
        choices = form([self.fod_choice, self.mask_choice], extra=[self.open_fod, self.open_mask])
        self.kind = wrapped(
            tooltip="What the volumes were taken for, by header and values. More > Check the FOD "
            "tells whether another basis fits better."
        )
        self.kind.setVisible(False)
        self.mask_summary = wrapped(tooltip="How much of the volume the mask leaves to track in.")
        session.changed.connect(self._show_mask)
        self.alignment = Alignment(session)
        self.reading = ProgressRow(
            "How much of the FOD file has been read. Seeds may be placed meanwhile.",
            "Read no more and remove the layer.",
        )
        self.reading.cancelled.connect(self._cancel_reading)
        self.image = ImageSection(session)
        self.image.odfs.created.connect(self._take_odfs)
        self.image.scaled.connect(self._show_reading)
        self.image.scaled.connect(self.alignment.show_moved)
        below = self.mask_summary, self.kind, self.alignment, self.reading, self.image
        stack(self, choices, *below)
        self.fod_choice.changed.connect(self._on_fod)
        self.mask_choice.changed.connect(self._on_mask)
        self._show_mask()

    def open(self) -> None:
        self.session.viewer.dims.events.ndisplay.connect(self._on_ndisplay)
        self._follow_opening(self.session.opening)
        self.alignment.follow(self.session.fod_layer)

    def close_section(self) -> None:
        self.session.viewer.dims.events.ndisplay.disconnect(self._on_ndisplay)
        self._follow_opening(None)
        self.alignment.follow(None)
        self.image.close_section()

    def refresh_layers(self) -> None:
        """Offer the layers that there are; without an FOD take the newest."""
        offer_layers(self.fod_choice, self.session.fod_layer)
        known = fod_grid_of(self.fod_choice.value) is not None  # not one that was removed just now
        offer_layers(self.mask_choice, self.session.chosen_input("mask"), quietly=True)
        self.image.refresh_layers()
        fods = fod_layers(self.session.viewer.layers)
        again = self.session.reopened("fod", fods)
        if again is not None:
            self.fod_choice.value = again
        elif not known and self.session.takes_any_fod:
            self.fod_choice.value = fods[-1] if fods else self._only_image()
        elif self._by_itself is self.session.fod_layer and self.session.state.is_blank:
            self.fod_choice.value = next(
                (fod for fod in reversed(fods) if fod is not self._by_itself), self._by_itself
            )
        self._on_fod(self.fod_choice.value)
        if self.session.fod_layer is None:
            self.follow()  # of one that was closed nothing is said
        self.alignment.show_tilted()

    def _only_image(self) -> Layer | None:
        """Return the image, where there is but one, and nothing says that it is of a body."""
        images = image_layers(self.session.viewer.layers)
        if len(images) != 1 or says_sides(images[0]):
            return None
        try:
            take_image(images[0], settings_of(images[0]))
        except TractographyError:  # which is told to whom chooses it
            return None
        self._by_itself = images[0]
        return self._by_itself

    @errors_shown()
    def add_fod(self, path: str | Path, *, name: str = "", **reading: Unpack[FodKeywords]) -> None:
        """Open an FOD volume as a layer and choose it; a large file is read in the background.

        By itself the layer is named as the file. How that is read, is said as to `load_fod`. Where
        a file does not look like an FOD but could be read as one, the person is asked.
        """
        try:
            data = open_fod(path, self.session.viewer, **reading)
        except AmbiguousKindError as error:
            self._ask_kind(path, error)
            return
        data[1]["name"] = name or data[1]["name"]
        layer = self._add(data, path)
        self.fod_choice.value = layer
        opening = opening_of(layer)
        if opening is not None:  # what its volumes are is found out in its thread
            opening.refused.connect(
                lambda error: QTimer.singleShot(0, lambda: self._ask_kind(path, error))
            )

    def _ask_kind(self, path: str | Path, error: AmbiguousKindError) -> None:
        kind = _ask_kind(error, self)
        if kind:
            self.add_fod(path, kind=kind)

    @errors_shown()
    def add_mask(self, path: str | Path) -> None:
        """Open a mask as a labels layer and choose it; of an image in the image's own voxels."""
        path = zarr_of(path)
        name = Path(path).name
        is_image = is_zarr(path) or has_ending(path, IMAGE_ENDINGS)
        load = load_image_mask if is_image else load_volume
        values, grid = wait_for(lambda: load(path), f"Opening {name}", self)
        voxels_inside(values, name)
        data, attributes, kind = mask_layer_data(values, grid, name)
        if is_image:  # its file says nothing of where it lies
            known = {"scale", "translate", "units", "axis_labels"}
            attributes = {k: v for k, v in attributes.items() if k not in known}
            del attributes["metadata"]["affine"]
        self.mask_choice.value = self._add((data, attributes, kind), path)

    def _add(self, layer_data: Any, path: str | Path) -> Layer:
        layer = Layer.create(*layer_data)
        layer.metadata[PATH_KEY] = str(path)
        layers = self.session.viewer.layers
        layers.insert(index_of_volume(layers, layer), layer)
        return layer

    def _open_fod(self) -> None:
        known = dialog_filter("FOD, peaks, tensors", fod_endings())
        path, _ = QFileDialog.getOpenFileName(self, "Open an FOD volume", "", known)
        if path:
            self.add_fod(path)

    def _open_mask(self) -> None:
        known = dialog_filter("Mask", (*volume_endings(), *IMAGE_ENDINGS, *ZARR_MARKS))
        path, _ = QFileDialog.getOpenFileName(self, "Open a mask", "", known)
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
        other = layer is not None and not self._lies_as_before(layer)
        document = self.session.document
        step: AbstractContextManager[None] = nullcontext()
        if self.session.takes_any_fod:
            step = document.no_step  # it is taken by itself, also when undo comes back to there
        elif layer is not None and other:
            step = document.one_step(f"Track in {layer.name}")
        with step:
            self.session.choose_fod(layer)
            self.follow()
            self._fod_changed(other)
        if layer is not None and self.session.viewer.dims.ndisplay == 3:
            layer.opacity = self._opacity[3]

    def _lies_as_before(self, layer: Layer) -> bool:
        """Return whether a volume has the voxels of the one that is tracked in, if there is one."""
        before, now = fod_grid_of(self.session.fod_layer), fod_grid_of(layer)
        if before is None or now is None:  # there was none, or it was closed
            known = self.session.state.fod
            return known is None or bool(LayerRef.to(layer).is_like(known))
        return before.same_space(now)

    def follow(self) -> None:
        """Show what the session tracks in, which another bundle may have brought."""
        self._show_mask()
        self.image.follow()
        self._follow_opening(self.session.opening)
        self.alignment.follow(self.session.fod_layer)

    @errors_shown()
    def _take_vectors(self, layer: Vectors) -> None:
        """Add the map of the vectors of a layer, and choose it; say why not, where it is none."""
        self.fod_choice.value = self.session.fod_layer  # until there is its map
        fod = fod_of_vectors(layer, self.session.space)
        data, attributes, kind = fod_layer_data(fod)
        name = f"{layer.name} as peaks"
        self._take_odfs(Layer.create(data, {**attributes, "name": name}, kind))

    def _take_odfs(self, created: Layer) -> None:
        insert_beside(self.session.viewer, created, 0)
        self.fod_choice.value = created

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
        signals = () if opening is None else (opening.progressed, opening.ended)
        self._followed.switch(*((signal, self._show_reading) for signal in signals))
        self._show_reading()

    def _show_reading(self, _event: Any = None) -> None:
        opening, fod = self.session.opening, self.session.fod
        show_text(self.kind, "" if fod is None else fod.description)
        if opening is None:
            self.reading.finish()
        else:
            self.reading.show_progress("Reading", opening.progress)

    def _cancel_reading(self) -> None:
        if self.session.opening is not None:
            self.session.opening.cancel()

    def _on_mask(self, layer: Layer | LayerRef | None) -> None:
        if not isinstance(layer, LayerRef):  # closed, as it is
            self.session.choose("mask", layer)

    def _show_mask(self) -> None:
        show_text(self.mask_summary, self.session.mask_summary("mask"))

    def _on_ndisplay(self, _event: Any) -> None:
        """Make the volume translucent in 3-D; slices and 3-D each keep their own opacity."""
        layer, now = self.session.fod_layer, self.session.viewer.dims.ndisplay
        if layer is not None:
            self._opacity[5 - now] = layer.opacity
            layer.opacity = self._opacity[now]


def _ask_kind(error: AmbiguousKindError, parent: QWidget) -> str:
    """Return the kind that the person chooses among those that the error names, or ""."""
    box = QMessageBox(QMessageBox.Icon.Question, TITLE, error.question, parent=parent.window())
    kinds = read_kinds()
    buttons = {
        box.addButton(f"Read as {kinds[name].short}", QMessageBox.ButtonRole.AcceptRole): name
        for name in error.kinds
    }
    cancel = box.addButton(QMessageBox.StandardButton.Cancel)
    box.setDefaultButton(cancel)
    box.exec()
    return buttons.get(box.clickedButton(), "")
