"""The Display section of the panel: colours, width, opacity and slab of the streamlines.

It applies to the session's streamlines layer, and to the next one when that is removed.
"""

from __future__ import annotations

import html
import weakref
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np
from magicgui import widgets
from napari.layers import Image, Layer
from napari.utils.colormaps import ensure_colormap
from numpy.typing import NDArray
from qtpy.QtCore import Qt
from qtpy.QtGui import QColor, QImage, QPixmap
from qtpy.QtWidgets import QLabel, QWidget

from ....geometry.units import symbol
from ....maps.angles import Axis
from ....maps.clusters import DISTANCE_MM
from ....maps.scalar_maps import ScalarMap
from ....model.parameters import ParameterSpec
from ....streamlines.tractogram import Tractogram
from ...flag import Flag
from ...notices import show_warning
from ...run_seeding import SeedSpheres
from ...session.clustering import Clustering
from ...session.open_bundle import BUNDLE_KEY, OpenBundle
from ...session.session import Session
from ...space.display import display_space_of_layer
from ...space.orientation_labels import is_anatomical
from ...streamlines.colouring import VALUES
from ...streamlines.colours import DEFAULT_COLOUR, MODES, ONE_COLOUR, rgba_of
from ...streamlines.display_parameters import LIGHT_SPEC, SLAB_SPEC, WIDTH_SPEC
from ...streamlines.layer import MAX_VERTICES, Streamlines
from ..widgets.controls import (
    form,
    label_of,
    layer_choice,
    offer_layers,
    parameter_controls,
    set_values,
    show_row,
    show_units,
    values_of,
)
from ..widgets.layout import show_text, stack
from .axis import AxisControl
from .clip_controls import ClipControls

VOLUME = "a volume"
VALUE = "a value"
NO_VALUE = "A value (choose one)"
CLUSTER = "cluster"
SEED = "seed"
BY_NUMBERS = (VOLUME, VALUE, SEED)  # that the panel gives to a layer
FOLLOWED = ("tail_width", "opacity", "tail_length", "lit", "color_by")  # events of layers


def colour_help() -> dict[str, str]:
    """Return what streamlines can be coloured by, {choice: what the colours mean}."""
    return {
        **{name: mode.help for name, mode in MODES.items()},
        CLUSTER: "streamlines that run alike have the same colour",
        VOLUME: "the values of an image along the streamline; grey without one",
        VALUE: "numbers per streamline or per point that came with the file; grey without",
    }


def display_specs() -> tuple[ParameterSpec, ...]:
    """Return the parameters of the display, with all modes of :data:`MODES` as choices."""
    meanings = "; ".join(f"{name}: {text}" for name, text in colour_help().items())
    return (
        ParameterSpec(
            "colour_by", "Colour by", "direction",
            f"What the colour of a streamline stands for. {meanings}.",
            choices=tuple(colour_help()),
        ),
        ParameterSpec(
            "colour", "Colour", QColor.fromRgbF(*DEFAULT_COLOUR).name(),
            f"The colour of all streamlines where they have {ONE_COLOUR}.",
        ),
        ParameterSpec(
            "cluster_mm", "Cluster distance", DISTANCE_MM,
            "Streamlines farther apart than this, on average along them, are in different "
            "clusters.",
            unit="mm", minimum=1.0, maximum=200.0, increment=1.0, slider=(2.0, 40.0),
            is_scaled=True,
        ),
        WIDTH_SPEC,
        ParameterSpec(
            "opacity", "Opacity", 1.0, "1 hides what is behind a line, 0 hides the line.",
            minimum=0.0, maximum=1.0, increment=0.05, slider=(0.0, 1.0),
        ),
        LIGHT_SPEC,
        SLAB_SPEC,
        ParameterSpec(
            "max_vertices", "Show at most", MAX_VERTICES,
            "Of more points an even random part of the streamlines is shown; all are kept.",
            unit="pts", minimum=1000, maximum=100_000_000, increment=100_000,
        ),
    )  # fmt: skip


class AppearanceSection(QWidget):  # type: ignore[misc]
    """Controls of how the streamlines look, with a legend where colour means a number."""

    def __init__(self, session: Session) -> None:
        super().__init__()
        self.session = session
        self.controls = parameter_controls(display_specs())
        self.volume_choice = layer_choice(
            "volume",
            "Volume",
            self._volumes,
            "The image whose values colour the streamlines, sampled along them.",
        )
        self.value_choice = widgets.ComboBox(
            name="value",
            label="Value",
            choices=lambda _widget: self._value_names(),
            nullable=True,
            tooltip="The numbers that came with the streamlines' file and colour them.",
        )
        self.legend = QLabel()
        self.legend.setTextFormat(Qt.TextFormat.RichText)
        self.gradient = QLabel()
        self.clip = ClipControls(session)
        self.axis = AxisControl(session)
        colour_by, *others = self.controls
        chosen = self.axis, self.volume_choice, self.value_choice
        self.form = form([colour_by, *chosen, *others, *self.clip.controls])
        stack(self, self.form, self.gradient, self.legend)
        named = {control.name: control for control in self.controls}
        self._colour_by, self._colour = named["colour_by"], named["colour"]
        self._distance, self._slab = named["cluster_mm"], named["slab_mm"]
        self._slab_chosen = False
        self._is_showing = Flag()  # the style of another bundle, which is no act
        self._is_applying = Flag()
        # Whose look is set in napari's controls, too; weak, as layers that are removed go.
        self._followed: weakref.ref[Streamlines] | None = None
        self._heard: weakref.WeakSet[Streamlines] = weakref.WeakSet()
        self._slab.changed.connect(self._on_slab)
        self.clustering = Clustering()
        self.clustering.coloured.connect(self.show_legend)
        self.clustering.failed.connect(show_warning)
        # Weak layer, and the mode, volume or value that colours it.
        self._source: tuple[Any, ...] | None = None
        self._colour_by.changed.connect(self._show_colour)
        self._show_colour()
        for control in (*self.controls, *chosen, self.clip.choice):
            control.changed.connect(lambda _value, c=control: self._on_control(c))
        session.parameters_suited.connect(self.show_units)
        self.show_legend()

    def _show_colour(self, _value: Any = None) -> None:
        colour_by = self._colour_by.value
        if colour_by == VALUE:
            self.value_choice.reset_choices()
        about_axis = colour_by in MODES and MODES[colour_by].about_axis
        for control, is_shown in (
            (self._colour, colour_by == ONE_COLOUR),
            (self.volume_choice, colour_by == VOLUME),
            (self.value_choice, colour_by == VALUE),
            (self._distance, colour_by == CLUSTER),
            (self.axis, about_axis),
        ):
            show_row(self.form, control, is_shown)
        self.axis.use(about_axis)

    def show_units(self) -> None:
        space = self.session.space
        show_units(self.form, self.controls, space)
        label_of(self.form, self.clip.position).setText(f"Clip at ({symbol(space.unit)})")

    def open(self) -> None:
        self.clip.open()

    def close_section(self) -> None:
        self.clip.close()
        self.axis.close()
        self.clustering.stop()
        self._follow(None)
        for layer in self._heard:
            for name in FOLLOWED:
                layer.events[name].disconnect(self._on_layer_style)
        self._heard.clear()
        self._source = None

    def refresh_layers(self) -> None:
        self.value_choice.reset_choices()
        offer_layers(self.volume_choice, self.volume_choice.value)  # by any name

    def adopt(self, layer: Streamlines) -> None:
        """Give a new layer this look; its slab, made for its volume, stays until one is chosen."""
        if not self._slab_chosen:
            with self._is_showing:
                self._slab.value = layer.own_slab_mm
            self._slab_chosen = False
        self.apply_to(layer)

    @property
    def style(self) -> dict[str, Any]:
        """What the controls say, to be kept with the bundle that they are for.

        A slab that nobody chose is None, which is the layer's own.
        """
        axis = self.axis.value
        return {
            **values_of([*self.controls, self.clip.choice, self.volume_choice, self.value_choice]),
            "slab_mm": self._slab.value if self._slab_chosen else None,
            "axis": None if axis is None else axis.numbers,
        }

    def shows(self, style: Mapping[str, Any], colour: str) -> bool:
        now = self.style
        return {**now, **style, "colour": colour} == now

    def show_style(self, style: Mapping[str, Any], colour: str) -> None:
        """Show the style of another bundle, which its layer has already, and the bundle's colour.

        What :attr:`style` did not say is read off the layer.
        """
        layer = self.session.streamlines_layer
        wanted = {**_style_of(layer), **style, "colour": colour}
        is_slab_chosen = wanted.get("slab_mm") is not None
        if not is_slab_chosen:
            wanted["slab_mm"] = SLAB_SPEC.default if layer is None else layer.own_slab_mm
        self.clustering.stop()
        self._source = None
        with self._is_showing:
            set_values([*self.controls, self.clip.choice], wanted)
            self.axis.value = Axis.of_numbers(wanted.get("axis"))
            self.value_choice.reset_choices()
            for choice in (self.volume_choice, self.value_choice):
                if wanted.get(choice.name) in choice.choices:
                    choice.value = wanted.get(choice.name)
        self._slab_chosen = is_slab_chosen
        self._show_colour()
        self._follow(layer)
        if layer is not None and wanted.get("colour_by") == CLUSTER:
            self.apply_to(layer)  # its clusters are followed again
        self.show_legend()

    def _on_slab(self, _value: float) -> None:
        self._slab_chosen = True

    def _on_control(self, control: Any) -> None:
        """Give the streamlines of the active bundle what a person has set."""
        if not self._is_showing:
            self.apply()
            is_choice = isinstance(control.value, str) and control.name != "colour"
            value = control.value if is_choice else ""
            self.session.set_style(str(control.label).partition(" (")[0], self.style, value)

    def apply(self) -> None:
        layer = self.session.streamlines_layer
        if layer is not None and not self._is_showing:
            self.apply_to(layer)

    def _follow(self, layer: Streamlines | None) -> None:
        """Show what is set elsewhere, such as in napari's layer controls."""
        if layer is not None and layer not in self._heard:  # once: connecting takes long
            self._heard.add(layer)
            for name in FOLLOWED:
                layer.events[name].connect(self._on_layer_style)
        self._followed = None if layer is None else weakref.ref(layer)

    def _on_layer_style(self, event: Any) -> None:
        layer = None if self._followed is None else self._followed()
        if layer is not event.source or self._is_applying or self._is_showing:
            return
        style = {**_style_of(layer), "slab_mm": layer.slab_mm}
        if layer.colour_by not in MODES:
            style.pop("colour_by", None)
        shown = values_of(self.controls)  # without clip: a layer that a script clips is left alone
        with self._is_showing:
            changed = {n: v for n, v in style.items() if n in shown and shown[n] != v}
            set_values(self.controls, changed)
        if changed:
            self.session.set_style("Display", self.style)
        self.show_legend()

    def apply_to(self, layer: Streamlines) -> None:
        """Give a layer the look that the controls say, changing only what differs."""
        with self._is_applying:
            wanted = values_of(self.controls)
            colour_by, cluster_mm = wanted.pop("colour_by"), wanted.pop("cluster_mm")
            rgba = rgba_of(wanted.pop("colour"))
            if not self._slab_chosen:
                wanted["slab_mm"] = layer.own_slab_mm
            for name, value in wanted.items():
                if getattr(layer, name) != value:
                    setattr(layer, name, value)
            layer.axis = self.axis.value
            if colour_by != CLUSTER:
                self.clustering.stop()
            if colour_by not in BY_NUMBERS:
                self._source = None
            if colour_by in BY_NUMBERS:
                self._by_numbers(layer, colour_by)
            elif colour_by == CLUSTER:
                self.clustering.colour(layer, cluster_mm)
            elif colour_by == ONE_COLOUR:
                if (layer.colour_by, layer.colour) != (ONE_COLOUR, rgba):
                    layer.colour = rgba
            elif layer.colour_by != colour_by:
                layer.colour_by = colour_by
            self.clip.apply_to(layer)
        self.show_legend()
        self._follow(layer)

    def _by_numbers(self, layer: Streamlines, colour_by: str) -> None:
        """Colour a layer by a volume, a value or its seeds, unless that is what it shows."""
        volume, name = self.volume_choice.value, self.value_choice.value
        chosen = {VOLUME: volume, VALUE: name, SEED: None}[colour_by]
        if layer.colour_by == VALUES and self._source == (weakref.ref(layer), colour_by, chosen):
            return
        if colour_by == VOLUME:
            label = "A volume (choose one)" if volume is None else volume.name
            layer.colour_by_values(sampler(volume), label=label)
        elif colour_by == VALUE:
            layer.colour_by_values(partial(values_called, name), label=name or NO_VALUE)
        else:
            bundle = layer.metadata.get(BUNDLE_KEY, self.session.bundle)
            kinds = partial(placed_seeds, bundle)
            layer.colour_by_kinds(kinds, label="Seed", n_named=8)  # in the legend
        self._source = weakref.ref(layer), colour_by, chosen

    def show_legend(self) -> None:
        """Say what the colours of the active bundle's streamlines mean."""
        layer = self.session.streamlines_layer
        colours = None if layer is None else layer.colours.shown_in(layer.space.unit)
        if colours is not None and not is_anatomical(self.session.viewer.layers):
            colours = colours.along_axes()
        text, has_range = "", colours is not None and colours.limits is not None
        self.gradient.setVisible(has_range)
        if colours is not None and colours.limits is not None:
            low, high = colours.limits
            self.gradient.setPixmap(gradient_pixmap(colours.colormap))
            label = html.escape(colours.label)  # which may be the name of a layer
            text = f"{label}: {low:.3g} to {high:.3g} {colours.unit}".rstrip()
        elif colours is not None:
            text = "<br>".join(
                f"<font color='#{int(255 * r):02x}{int(255 * g):02x}{int(255 * b):02x}'>■</font> "
                f"{html.escape(name)}"
                for name, (r, g, b) in colours.categories
            )
        show_text(self.legend, text)

    def _value_names(self) -> list[str]:
        layer = self.session.streamlines_layer
        return [] if layer is None else sorted(numbers_by_name(layer.tractogram))

    def _volumes(self) -> list[Layer]:
        images = [la for la in self.session.viewer.layers if isinstance(la, Image) and la.ndim == 3]
        return [layer for layer in images if not (layer.rgb or layer.multiscale)]


def numbers_by_name(tractogram: Tractogram) -> dict[str, NDArray[Any]]:
    """Return what has one number a streamline or a point of other programs, by name."""
    data = tractogram.data
    of_each = ((data.per_point, tractogram.n_points), (data.per_streamline, len(tractogram)))
    return {
        name: array.reshape(n)
        for held, n in of_each
        for name, array in held.items()
        if array.size == n
    }


def values_called(name: str | None, tractogram: Tractogram) -> NDArray[Any]:
    """Return the numbers of a name, NaN at each point where there are none."""
    found = numbers_by_name(tractogram)
    return found[name] if name in found else np.full(tractogram.n_points, np.nan, np.float32)


def placed_seeds(bundle: OpenBundle, tractogram: Tractogram) -> NDArray[np.int64]:
    """Return which of the placed seeds of a bundle each streamline came from."""
    request = bundle.state.result_request if bundle.arriving is None else bundle.arriving.request
    if request is None or not isinstance(request.seeding, SeedSpheres):
        return tractogram.seed_index  # each starts from a seed of its own
    numbers = np.searchsorted(request.firsts, tractogram.seed_index, side="right") - 1
    return np.asarray(numbers, dtype=np.int64)


def _style_of(layer: Streamlines | None) -> dict[str, Any]:
    """Return what the controls are to say of a layer that came from elsewhere."""
    if layer is None:
        return {}
    names = ("width", "opacity", "lit", "max_vertices", "clip")
    style = {name: getattr(layer, name) for name in names}
    style["slab_mm"] = None if layer.slab_mm == layer.own_slab_mm else layer.slab_mm
    if layer.axis is not None:
        style["axis"] = layer.axis.numbers
    known = layer.colour_by in colour_help()
    return {**style, "colour_by": layer.colour_by} if known else style


def sampler(layer: Layer | None) -> Callable[[Tractogram], NDArray[np.float32]]:
    """Return a function that samples a 3-D image layer along streamlines, linearly.

    It gives (n_points,) float32, as :meth:`ScalarMap.at`: NaN outside the volume, or without one.
    """

    def sample(tractogram: Tractogram) -> NDArray[np.float32]:
        if layer is None:
            return np.full(tractogram.n_points, np.nan, dtype=np.float32)
        space = display_space_of_layer(layer)
        assert space.grid is not None
        volume = space.from_volume(np.asarray(layer.data))
        values = ScalarMap.from_array(volume, space.grid, layer.name).at(tractogram.points)
        return values.astype(np.float32)

    return sample


def gradient_pixmap(colormap: str) -> QPixmap:
    """Return a picture of a colormap, from its low end to its high end."""
    width, height = 180, 10
    rgba = ensure_colormap(colormap).map(np.linspace(0, 1, width))
    line = np.ascontiguousarray((255 * rgba).astype(np.uint8))
    picture = np.ascontiguousarray(np.broadcast_to(line, (height, width, 4)))
    image = QImage(picture.data, width, height, 4 * width, QImage.Format.Format_RGBA8888)
    return QPixmap.fromImage(image.copy())
