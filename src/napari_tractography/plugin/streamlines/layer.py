"""The streamlines layer: fast static polylines in a napari viewer.

Points go to the screen as they lie in the tractogram. In 3-D all are drawn; a 2-D slice view
shows the part of the streamlines inside a slab around the slice, fading away from it. Called by
the session, the readers and scripts.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ...errors import InvalidTractogramError
from ...geometry.grid import Grid
from ...maps.angles import Axis
from ...streamlines.tractogram import Tractogram
from ..space.display import AXIS_LABELS, DisplaySpace
from .colouring import VALUES, Colouring, Paint, Values
from .colours import (
    DEFAULT_COLORMAP,
    MODES,
    ONE_COLOUR,
    RGBA,
    Colours,
    kind_colours,
    rgba_of,
    value_colours,
)
from .drawing import DrawnStreamlines, known, positive
from .drawn_subset import DrawnSubset
from .editing import Editor
from .layer_data import LAYER_TYPE, LOOK_KEY, Look, TrackRows, register
from .selecting import KEYMAP, select_on_click

MAX_VERTICES = 2_000_000


class Streamlines(DrawnStreamlines):
    """Streamlines of a tractogram in a napari viewer.

    While the layer is selected in the viewer, a click selects a streamline and keys edit, as
    listed in :data:`.selecting.COMMANDS`.

    Parameters
    ----------
    tractogram : Tractogram, optional
        What to show; may be empty.
    space : DisplaySpace, optional
        The display space of the volume underneath; RAS+ mm by default.
    name : str
        Name of the layer.
    max_vertices : int
        Above this number of points an even random subset of whole streamlines is shown.
    colour_by : str
        One of :attr:`colour_modes`.
    slab_mm : float, optional
        Thickness of the slab that a 2-D slice view shows; by default two voxels of the space, or
        4 mm without a volume.
    width : float
        Width of the lines, pixels.
    **kwargs
        Further arguments of :class:`napari.layers.Tracks`, such as ``opacity``.

    Raises
    ------
    InvalidParameterError
        When a number is not positive or the colour mode is unknown.

    Attributes
    ----------
    editor : Editor
        Keeps, deletes and brings back streamlines.
    reference : Grid or None
        Of the FOD in which the streamlines were tracked, for files; None for that of the space.
    at_first : int or None
        While streamlines change quickly, as under a sphere that is dragged: so many points are
        drawn of new ones, until :meth:`refine`.
    """

    class_keymap = KEYMAP

    def __init__(
        self,
        tractogram: Tractogram | None = None,
        *,
        space: DisplaySpace | None = None,
        name: str = "Streamlines",
        max_vertices: int = MAX_VERTICES,
        colour_by: str = "direction",
        slab_mm: float | None = None,
        width: float = 2.0,
        colormap: str = DEFAULT_COLORMAP,
        blending: str = "translucent",
        units: Any = None,
        axis_labels: Any = AXIS_LABELS,
        **kwargs: Any,
    ) -> None:
        space = DisplaySpace.identity() if space is None else space
        self._max_vertices = int(positive("max_vertices", max_vertices))
        self._colouring = Colouring(known("colour_by", colour_by, MODES))
        super().__init__(
            DrawnSubset(Tractogram.empty(), space, self._max_vertices),
            slab_mm=slab_mm,
            name=name,
            color_by=colour_by,
            colormap=colormap,
            blending=blending,
            units=space.units if units is None else units,
            axis_labels=axis_labels,
            tail_width=width,
            **kwargs,
        )
        self.editor = Editor(self)
        self.reference: Grid | None = None
        self.at_first: int | None = None
        self.tractogram = Tractogram.empty() if tractogram is None else tractogram
        self.mouse_drag_callbacks.append(select_on_click)

    # What is shown.

    @property
    def tractogram(self) -> Tractogram:
        """The streamlines. Setting it replaces them and keeps width, opacity and colours."""
        return self._shown.whole

    @tractogram.setter
    def tractogram(self, tractogram: Tractogram) -> None:
        if self._colouring.drop_fixed_values():
            self.events.properties()  # the combo box has one entry less
        self._selected = np.empty(0, dtype=np.int64)
        self.editor.begin()
        self._show(tractogram, min(self._max_vertices, self.at_first or self._max_vertices))

    def refine(self) -> None:
        """Draw as many streamlines as may be, where :attr:`at_first` allowed fewer."""
        if self._shown.chosen is not None and self.at_first:
            self._show(self._shown.whole, self._max_vertices)

    def append(self, chunk: Tractogram) -> None:
        """Show more streamlines, such as the next chunk of a run.

        Only the chunk is coloured and transformed where colours do not depend on the other
        streamlines. Beyond ``max_vertices`` the subset is thinned to half of it, to make room.
        """
        self.editor.begin()
        room = self._max_vertices - len(self._shown.xyz)
        if self._shown.chosen is None and chunk.n_points <= room and self._colouring.is_local:
            shown = self._shown.with_more(chunk)
            self._changed(
                shown,
                self._colouring.of_more(shown, self._colours, chunk, colormap=self._colormap),
            )
        else:
            whole = Tractogram.concatenate([self._shown.whole, chunk])
            crowded = whole.n_points > self._max_vertices
            self._show(whole, self._max_vertices // 2 if crowded else self._max_vertices)

    def _show(self, tractogram: Tractogram, max_vertices: int) -> None:
        shown = DrawnSubset(tractogram, self.space, max_vertices)
        self._changed(shown, self._colouring.of(shown, colormap=self._colormap))

    @property
    def max_vertices(self) -> int:
        """Above this number of points a subset of the streamlines is shown."""
        return self._max_vertices

    @max_vertices.setter
    def max_vertices(self, value: int) -> None:
        self._max_vertices = int(positive("max_vertices", value))
        self._show(self._shown.whole, self._max_vertices)

    @property
    def colour_modes(self) -> tuple[str, ...]:
        """What :attr:`colour_by` can be."""
        return self._colouring.modes

    @property
    def _color_by(self) -> str:
        return self._colouring.mode

    @_color_by.setter
    def _color_by(self, mode: str) -> None:
        self._colouring.mode = mode

    @property
    def properties_to_color_by(self) -> list[str]:
        """What napari's combo box lists: :attr:`colour_modes`."""
        return list(self.colour_modes)

    @property
    def colour_by(self) -> str:
        """What the colours stand for, one of :attr:`colour_modes`."""
        return self._colouring.mode

    @colour_by.setter
    def colour_by(self, mode: str) -> None:
        self.color_by = known("colour_by", mode, self.colour_modes)

    @property
    def colour(self) -> RGBA:
        """RGBA, 0 to 1, of the mode "one colour".

        Setting it selects that mode. It takes what napari takes for a colour: a name, "#rrggbb",
        "#rrggbbaa", or 3 or 4 numbers from 0 to 1; else it raises InvalidParameterError.
        """
        return self._colouring.colour

    @colour.setter
    def colour(self, colour: ArrayLike) -> None:
        self._colouring.colour = rgba_of(colour)
        self.colour_by = ONE_COLOUR

    @property
    def axis(self) -> Axis | None:
        """About which angles are taken by the modes "elevation" and "helix angle"."""
        return self._colouring.axis

    @axis.setter
    def axis(self, axis: Axis | None) -> None:
        if axis != self._colouring.axis:
            self._colouring.axis = axis
            mode = MODES.get(self.colour_by)
            if mode is not None and mode.about_axis:
                self.colour_by = self.colour_by

    def colour_by_values(
        self,
        values: Values,
        *,
        label: str = "Value",
        unit: str = "",
        limits: tuple[float, float] | None = None,
    ) -> None:
        """Colour by a number a streamline or a point.

        Parameters
        ----------
        values : array_like or callable
            (n_streamlines,) or (n_points,) numbers of :attr:`tractogram`; or a function that
            returns such numbers for a tractogram, which is then asked again for each new one.
        label, unit : str
            What the number is.
        limits : tuple of 2 float, optional
            Values at the ends of the colormap; the smallest and the largest by default.

        Raises
        ------
        InvalidTractogramError
            When there are neither as many values as streamlines nor as many as points.
        """
        if not callable(values):
            self._shown.values_of(values)
        paint = partial(value_colours, label=label, unit=unit, limits=limits)
        self._colour_by(values, paint)

    def colour_by_kinds(self, kinds: Values, *, label: str = "Kind", n_named: int = 0) -> None:
        """Give each kind of streamline a colour of its own.

        Parameters
        ----------
        kinds : array_like or callable
            (n_streamlines,) int of :attr:`tractogram`, below 0 where unknown; or a function that
            returns them for a tractogram, which is then asked again for each new one.
        label : str
            What the kinds are.
        n_named : int
            How many kinds, the largest, are to be in the legend.

        Raises
        ------
        InvalidTractogramError
            When there are not as many kinds as streamlines.
        """
        if not callable(kinds) and np.shape(kinds) != (self._shown.n_all,):
            raise InvalidTractogramError(
                f"kinds has shape {np.shape(kinds)}; give one for each of the "
                f"{self._shown.n_all} streamlines."
            )
        self._colour_by(kinds, partial(kind_colours, label=label, n_named=n_named))

    def _colour_by(self, values: Values, paint: Paint) -> None:
        self._colouring.set_values(values, paint)
        self.events.properties()  # the combo box has one more entry
        self.colour_by = VALUES

    @property
    def colours(self) -> Colours:
        """The colours of the points shown, with the limits and names for a legend."""
        return self._colours

    def _recolor_tracks(self) -> None:
        if self._ready:
            self._colours = self._colouring.of(self._shown, colormap=self._colormap)
            self._forget_views()

    # What other parts of napari ask for.

    @property
    def data(self) -> TrackRows:
        """(n_points, 4) float32: number of the streamline and position (z, y, x) in display mm.

        Computed where the numbers are asked for: napari asks for the shape again and again.
        :attr:`tractogram` costs nothing. Setting it makes a tractogram, in which consecutive rows
        with the same number are a streamline.
        """
        return TrackRows(self._shown.whole, self.space)

    @data.setter
    def data(self, rows: ArrayLike) -> None:
        if not self._ready:
            return
        array = np.asarray(rows)
        if array.ndim != 2 or array.shape[1] != 4:
            raise InvalidTractogramError(
                f"data has shape {array.shape}; give (n_points, 4): number, z, y, x."
            )
        inner = np.flatnonzero(np.diff(array[:, 0])) + 1
        offsets = [0, *inner, len(array)] if len(array) else [0]
        self.tractogram = Tractogram(self.space.to_world(array[:, 1:]), offsets)

    def _get_state(self) -> dict[str, Any]:
        """State for writers, duplicates and key frames of films.

        Tractogram, grid and colours are in the metadata; what is not there can be set by its name.
        """
        state: dict[str, Any] = self._get_base_state()
        planes = self._clip.other_planes(self.experimental_clipping_planes)
        state["experimental_clipping_planes"] = [plane.model_dump() for plane in planes]
        grid = self.space.grid if self.reference is None else self.reference
        extra = {"tractogram": self.tractogram, "grid": grid, LOOK_KEY: self._look()}
        state["metadata"] = {**self.metadata, **extra}
        state.update(
            data=np.asarray(self.data),
            tail_width=self.tail_width,
            slab_mm=self.slab_mm,
            clip=self.clip,
            clip_at_mm=self.clip_at_mm,
            lit=self.lit,
            color_by=self.color_by,
            colormap=self.colormap,
        )
        return state

    def as_layer_data_tuple(self) -> tuple[Any, dict[str, Any], str]:
        """Return data, state and type, of which ``Layer.create`` makes a duplicate.

        The duplicate shows the same tractogram in the same colours, and is edited by itself.
        """
        data, state, _ = super().as_layer_data_tuple()
        return data, state, LAYER_TYPE

    def _look(self) -> Look:
        return Look(
            shown=self._shown,
            colouring=self._colouring,
            colours=self._colours,
            max_vertices=self._max_vertices,
        )


def _from_layer_data(
    _data: Any,
    *,
    metadata: dict[str, Any],
    tail_width: float,
    clip: str,
    clip_at_mm: float,
    lit: bool,
    color_by: str,
    **state: Any,
) -> Streamlines:
    """Return the layer that :meth:`Streamlines.as_layer_data_tuple` describes."""
    own = dict(metadata)
    look: Look = own.pop(LOOK_KEY)
    own.pop("tractogram")
    reference = own.pop("grid")
    layer = Streamlines(
        space=look.shown.space,
        max_vertices=look.max_vertices,
        width=tail_width,
        metadata=own,
        **state,
    )
    layer.reference = reference
    layer._colouring = look.colouring.copy(look.shown)
    layer._changed(look.shown, look.colours)
    layer.clip_at_mm, layer.clip, layer.lit = clip_at_mm, clip, lit
    return layer


register(_from_layer_data)
