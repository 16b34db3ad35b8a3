"""Controls of the three planes in 3-D, and of the direction-encoded background."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
from napari.layers import Image, Layer
from napari.utils.notifications import show_info
from numpy.typing import NDArray
from qtpy.QtWidgets import QWidget

from ....errors import TractographyError
from ....maps.direction_colours import direction_colours
from ....model.parameters import ParameterSpec
from ...flag import Flag
from ...layers.planes import SlicePlanes, plane_sources
from ...layers.sources.image_layers import OF_IMAGE_KEY
from ...layers.spheres import is_of_named_spheres
from ...layers.volume_layers import FADED, voxels_of
from ...listening import Listening
from ...session.session import Session
from ...space.layer_list import insert_beside
from ...timers import delayed
from ..widgets.busy_dialog import errors_shown, wait_for
from ..widgets.controls import form, layer_choice, parameter_control, show_row
from ..widgets.layout import button, row, stack
from .clip_controls import SliceControl

PLANES = ("Axial", "Coronal", "Sagittal")  # across the axes (z, y, x)
PLANE_HELP = "The slice in this plane, also of 2-D views."
FA_NAME = re.compile(r"(^|[^a-z])fa([^a-z]|$)", re.IGNORECASE)
MAP_NAME = "FOD directions"
SLICES_SPEC = ParameterSpec(
    name="slices_in_3d",
    label="Slices in 3-D",
    default=True,
    help="Show three slices of a volume as planes in 3-D, in place of the volume. Move them by the "
    "sliders, or hold Ctrl (Cmd on a Mac) and drag one in the image.",
)
MAP_KEY = "direction_colours_of"  # in the metadata of the layer: the name of the FOD


class SlicesBox(QWidget):  # type: ignore[misc]
    """Switches the planes on and off, and says of which volume and where they are."""

    def __init__(self, session: Session) -> None:
        super().__init__()
        self.session = session
        self.viewer = session.viewer
        self.planes: SlicePlanes | None = None
        self._is_following = Flag()
        self._is_asked_for = False
        self._removed: SlicePlanes | None = None  # with their layer
        self._recheck_later = delayed(self, 0, self._on_planes_removed)  # when all layers are gone
        self.switch = parameter_control(SLICES_SPEC)
        self.box = self.switch.native
        self.box.setText(SLICES_SPEC.label)  # it says itself what it is
        self.colours_button = button(
            "Direction colours",
            "<qt>A map of where the fibres of the FOD run: red left-right, green front-back, blue "
            "up-down. Bright as an open FA map on the same grid says, or else as the FOD is "
            "large.</qt>",
            self.show_direction_colours,
        )
        self.choice = layer_choice(
            "slices_of",
            "Slices of",
            lambda: plane_sources(self.viewer.layers),
            "The volume whose slices are shown: automatic is the FOD, or else the uppermost one.",
            nothing="automatic",
        )

        def slider(axis: int, plane: str) -> SliceControl:
            return SliceControl(session, plane.lower(), plane, PLANE_HELP, lambda: axis)

        self.sliders = [slider(axis, plane) for axis, plane in enumerate(PLANES)]
        self.form = form([self.choice, *self.sliders])
        stack(self, row(self.box, self.colours_button), self.form)
        of_dims, of_layers = self.viewer.dims.events, self.viewer.layers.events
        self._listening = Listening(
            *((event, self._on_slice) for event in (of_dims.point, of_dims.range, of_dims.ndim)),
            (of_dims.ndisplay, self.follow),
            (of_layers.removed, self._on_layers),
            (of_layers.inserted, self._on_layers),
            (of_layers.renamed, self._on_layers),
        )
        self.box.toggled.connect(self._on_box)
        self.choice.changed.connect(self.follow)
        self._show_rows()

    def open(self) -> None:
        self.choice.reset_choices()
        self._listening.open()
        self._on_slice()
        self.follow()  # the viewer may be in 3-D

    def close_section(self) -> None:
        self._recheck_later.stop()
        self._listening.close()
        self._close_planes()

    def _on_slice(self, _event: Any = None) -> None:
        for slider in self.sliders:
            slider.show()

    @property
    def source(self) -> Layer | None:
        """The volume to show: the one that is chosen, the FOD, or the uppermost; None for none.

        Those that a person has hidden are left alone, unless slices were asked for since.
        """
        sources = plane_sources(self.viewer.layers)
        if self.choice.value in sources:
            return self.choice.value
        fod_layer = self.session.fod_layer
        image = None if fod_layer is None else fod_layer.metadata.get(OF_IMAGE_KEY)
        for layer in (image, fod_layer, *reversed(sources)):
            if layer in sources and (self._is_asked_for or self._is_seen(layer)):
                return layer
        return None

    def _is_seen(self, layer: Layer) -> bool:
        return bool(layer.visible) or (self.planes is not None and self.planes.hides(layer))

    def follow(self, _event: Any = None) -> None:
        """Show the slices that are wanted, and no others; they are made when 3-D is first seen."""
        if self._is_following:
            return
        is_wanted = self.box.isChecked() and (self.viewer.dims.ndisplay == 3 or self.planes)
        source = self.source if is_wanted else None
        if source is (None if self.planes is None else self.planes.source):
            return
        with self._is_following:
            self._close_planes()
            if source is not None:
                self.planes = SlicePlanes(self.viewer, source)
                self._on_slice()

    def fod_changed(self) -> None:
        self._close_planes()
        self.follow()

    def _on_layers(self, event: Any) -> None:
        if is_of_named_spheres(event):
            return
        self.choice.reset_choices()
        planes = self.planes
        if planes is None or planes.layer in self.viewer.layers:
            self.follow()
            return
        self._removed, self.planes = planes, None
        self._recheck_later.start()

    def _on_planes_removed(self) -> None:
        """Show others, or none where a person removed their layer and not all that there was."""
        removed, self._removed = self._removed, None
        if removed is not None and removed.source in self.viewer.layers:
            self.box.setChecked(False)
        self.follow()

    def _on_box(self, on: bool) -> None:
        self._is_asked_for = on
        self.follow()
        self._show_rows()
        if on and self.source is None:
            show_info("There is no volume to show slices of yet; open one.")

    def _close_planes(self) -> None:
        planes, self.planes = self.planes, None
        if planes is not None:
            planes.close()

    def _show_rows(self) -> None:
        for control in (self.choice, *self.sliders):
            show_row(self.form, control, self.box.isChecked())

    @errors_shown()
    def show_direction_colours(self) -> None:
        """Add the direction-encoded colour map of the FOD, above its own layer."""
        fod, space = self.session.fod, self.session.space
        fod_layer = self.session.fod_layer
        if fod is None or fod_layer is None:
            show_info("There is no FOD to colour; open one, or wait until it is read.")
            return
        weights, weighted_by = self._fa()
        rgb = wait_for(lambda: direction_colours(fod, weights), "Colouring the FOD", self)
        kwargs = space.layer_kwargs
        kwargs["metadata"][MAP_KEY] = fod_layer.name
        layer = Image(
            np.ascontiguousarray(space.volume(_faded(rgb))),
            rgb=True,
            name=MAP_NAME if weighted_by is None else f"{MAP_NAME}, by {weighted_by.name}",
            blending="translucent_no_depth",
            interpolation2d="linear",
            visible=self.viewer.dims.ndisplay == 2,
            **kwargs,
        )
        with self._is_following:
            self._put(layer, fod_layer)
        if self.viewer.dims.ndisplay == 3:
            self.box.setChecked(True)
        self.follow()
        if self.planes is not None:
            self.planes.show_in_slices(layer)

    def _put(self, layer: Image, fod_layer: Layer) -> None:
        """Put the map above the FOD, in place of the one before, and choose it."""
        layers = self.viewer.layers
        for before in [each for each in layers if each.metadata.get(MAP_KEY) == fod_layer.name]:
            layers.remove(before)
        insert_beside(self.viewer, layer, layers.index(fod_layer) + 1)
        self.choice.reset_choices()
        self.choice.value = layer

    def _fa(self) -> tuple[NDArray[Any] | None, Layer | None]:
        """Return an open FA map on the grid of the FOD, (x, y, z), and its layer."""
        for layer in plane_sources(self.viewer.layers):
            if layer.rgb or not FA_NAME.search(layer.name):
                continue
            try:
                values, grid = voxels_of(layer, self.session.space)
            except TractographyError:
                continue
            wanted, space = self.session.space.grid, self.session.space
            if wanted is None or grid.shape != wanted.shape:
                continue
            is_bare = layer.metadata.get("affine") is None
            if np.allclose(grid.affine, wanted.affine, atol=1e-3) or (
                is_bare and np.allclose(layer.scale, space.scale)
            ):
                return values, layer
        return None, None


def _faded(rgb: NDArray[np.float32]) -> NDArray[np.uint8]:
    """Return colours from 0 to 1 as RGBA that fades where it is dark: no black box on white."""
    alpha = np.minimum(rgb.max(axis=-1, keepdims=True) / FADED, 1.0)
    return np.asarray(np.rint(255 * np.concatenate([rgb, alpha], axis=-1)), dtype=np.uint8)
