"""The Tissues section of the panel: the tissue image that streamlines are held to."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from napari.layers import Layer
from qtpy.QtWidgets import QFileDialog, QWidget

from ....errors import TractographyError
from ....files.formats import dialog_filter, volume_endings
from ....files.tissue_files import load_tissues
from ....model.tissues import TISSUES, check_tissues
from ...document import LayerRef
from ...export.layer_files import PATH_KEY
from ...layers.tissue_layers import COLOURS, shown_tissues, tissue_layer_data, tissue_layers
from ...layers.volume_layers import fod_grid_of
from ...listening import Listening
from ...notices import show_error
from ...session.session import Session
from ...space.layer_list import insert_beside
from ..widgets.busy_dialog import errors_shown, wait_for
from ..widgets.controls import form, layer_choice, offer_layers
from ..widgets.layout import button, stack, wrapped

NONE = "No tissue image: streamlines end where the FOD does."
CLOSED = "The tissue image was closed: open it again, or choose another or none."
LEGEND = ", ".join(
    f'<span style="color: {colour}">\u25a0</span> {number} {name}'
    for number, (name, colour) in enumerate(zip(TISSUES, COLOURS, strict=True), 1)
)


class TissueSection(QWidget):  # type: ignore[misc]
    """Chooses a tissue image among the layers or opens one, and holds runs to it."""

    def __init__(self, session: Session) -> None:
        super().__init__()
        self.session = session
        self.choice = layer_choice(
            "tissues",
            "Tissues",
            lambda: tissue_layers(session.viewer.layers),
            "A five-tissue-type image, as 5ttgen writes it, or FreeSurfer's labels: "
            "streamlines then end in grey matter, and those that cannot are refused; none tracks "
            "without.",
            chosen=lambda: session.chosen_input("tissues"),
        )
        self.chosen = wrapped(NONE)
        self.open_button = button("Open...", "Open a tissue image from a file.", self._ask)
        stack(self, form([self.choice], extra=[self.open_button]), self.chosen)
        self._listening = Listening(
            (session.viewer.dims.events.ndisplay, self._show_in_slices),
            (session.parameters_suited, self.refresh),
        )
        self.choice.changed.connect(self._on_choice)

    def open(self) -> None:
        self._listening.open()

    def close_section(self) -> None:
        self._listening.close()

    def refresh_layers(self) -> None:
        offer_layers(self.choice, self.session.chosen_input("tissues"), quietly=True)
        self.refresh()

    @errors_shown()
    def add(self, path: str | Path) -> None:
        """Open a tissue image, show it and track with it; say what is wrong with another file."""
        tissues = wait_for(lambda: load_tissues(path), f"Opening {Path(path).name}", self)
        grid = fod_grid_of(self.session.fod_layer)
        if grid is not None:
            check_tissues(tissues, grid)
        layer = Layer.create(*tissue_layer_data(tissues))
        layer.metadata[PATH_KEY] = str(path)
        layers, fod_layer = self.session.viewer.layers, self.session.fod_layer
        above_fod = layers.index(fod_layer) + 1 if fod_layer in layers else 0
        insert_beside(self.session.viewer, layer, above_fod)  # below all that is tracked
        self.choice.value = layer

    def refresh(self) -> None:
        """Say which image is in use, and whether it lies where the FOD does."""
        tissues = self.session.tissues
        if tissues is None:
            self.chosen.setText(NONE if self.choice.value is None else CLOSED)
            return
        text = LEGEND if shown_tissues(self.session.layer_of("tissues")) else tissues.name
        grid = fod_grid_of(self.session.fod_layer)
        if grid is not None:
            try:
                check_tissues(tissues, grid)
            except TractographyError as error:
                text = f"<b>{error}</b>"
        self.chosen.setText(text)

    def _on_choice(self, layer: Layer | LayerRef | None) -> None:
        if layer is self.session.chosen_input("tissues"):
            return
        try:
            self.session.choose("tissues", layer)
        except TractographyError as error:
            show_error(str(error))
            self.choice.value = self.session.chosen_input("tissues")
            return
        self._show_in_slices()
        self.refresh()

    def _show_in_slices(self, _event: Any = None) -> None:
        """Hide the image in 3-D, where the surfaces of tissues hide the streamlines."""
        layer = self.session.layer_of("tissues")
        if layer is not None:
            layer.visible = self.session.viewer.dims.ndisplay == 2

    def _ask(self) -> None:
        known = dialog_filter("Tissue image", volume_endings())
        path, _ = QFileDialog.getOpenFileName(self, "Open a tissue image", "", known)
        if path:
            self.add(path)
