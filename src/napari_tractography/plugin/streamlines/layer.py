"""The streamlines layer: fast static polylines in a napari viewer.

Points go to the screen as they lie in the tractogram. In 3-D all are drawn; a 2-D slice view
shows the part of the streamlines inside a slab around the slice, fading away from it. Called by
the session, the readers and scripts.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from functools import cached_property, partial
from typing import Any

import numpy as np
from napari.utils.colormaps import AVAILABLE_COLORMAPS
from napari.utils.events import Event
from numpy.typing import ArrayLike, NDArray

from ...errors import InvalidParameterError, InvalidTractogramError
from ...geometry.grid import Grid
from ...geometry.units import length_text
from ...maps.angles import Axis
from ...model.stop import StopReason
from ...streamlines.tractogram import Tractogram
from ..space.display import AXIS_LABELS, DisplaySpace, set_units
from ..space.extent import on_slices
from ..space.positions import position_text
from ..words import plural
from .bare_tracks import NOTHING, BareTracks, View
from .clipping import CLIPS, Clip
from .colouring import VALUES, Colouring, Paint, Values
from .colours import (
    DEFAULT_COLORMAP,
    MODES,
    ONE_COLOUR,
    RGBA,
    Colours,
    kind_colours,
    rgba_of,
    single_colour,
    value_colours,
)
from .commands import KEYMAP, select_on_click
from .display_parameters import SLAB_SPEC
from .drawn_subset import DrawnSubset
from .editing import Editor
from .layer_data import DUPLICATE_KEY, LAYER_TYPE, DuplicateState, TrackRows, register
from .polylines import Pieces, crop_to_slab, first_on_ray, nearest_piece

MAX_VERTICES = 2_000_000
PICK_PIXELS = 5.0
# What napari knows of tracks, and streamlines have not.
OF_TRACKS = (
    "properties",
    "features",
    "graph",
    "colormaps_dict",
    "tail_length",
    "head_length",
    "hide_completed_tracks",
)
REASONS = {int(reason): reason.text for reason in StopReason}


class Streamlines(BareTracks):
    """Streamlines of a tractogram in a napari viewer.

    While the layer is selected in the viewer, a click selects a streamline and keys edit, as
    listed in :data:`.commands.COMMANDS`.

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
        known("colormap", colormap, AVAILABLE_COLORMAPS)
        self._colouring = Colouring(known("colour_by", colour_by, MODES), colormap)
        self._shown = DrawnSubset(Tractogram.empty(), space, self._max_vertices)
        self._colours: Colours = single_colour(self._shown.tractogram)
        self._selected = np.empty(0, dtype=np.int64)
        self._slab_mm = self.own_slab_mm if slab_mm is None else positive("slab_mm", slab_mm)
        self._clip = Clip()
        super().__init__(
            tail_length=self.tail_length,
            name=name,
            color_by=colour_by,
            colormap=colormap,
            blending=blending,
            units=space.units if units is None else units,
            axis_labels=axis_labels,
            tail_width=width,
            **kwargs,
        )
        self.events.add(tractogram=Event, selected=Event, clip=Event)
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
            more = self._shown.with_more(chunk)
            self._changed(more, self._colouring.of_more(more, self._colours, chunk))
        else:
            whole = Tractogram.concatenate([self._shown.whole, chunk])
            crowded = whole.n_points > self._max_vertices
            self._show(whole, self._max_vertices // 2 if crowded else self._max_vertices)

    def _show(self, tractogram: Tractogram, max_vertices: int) -> None:
        shown = DrawnSubset(tractogram, self.space, max_vertices)
        self._changed(shown, self._colouring.of(shown))

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
    def properties_to_color_by(self) -> list[str]:
        """What napari's combo box lists: :attr:`colour_modes`."""
        return list(self.colour_modes)

    @property
    def colour_by(self) -> str:
        """What the colours stand for, one of :attr:`colour_modes`."""
        return self._colouring.mode

    @colour_by.setter
    def colour_by(self, mode: str) -> None:
        self._colouring.mode = known("colour_by", mode, self.colour_modes)
        self._recolour()
        self.events.color_by()

    # As napari's controls call it.
    color_by = colour_by

    @property
    def colormap(self) -> str:
        """Name of the colormap of the modes that have numbers, one of napari's."""
        return self._colouring.colormap

    @colormap.setter
    def colormap(self, name: str) -> None:
        self._colouring.colormap = known("colormap", name, AVAILABLE_COLORMAPS)
        self._recolour()
        self.events.colormap()

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

    def _recolour(self) -> None:
        if self._ready:
            self._colours = self._colouring.of(self._shown)
            self._forget_views()

    def _changed(self, shown: DrawnSubset, colours: Colours) -> None:
        """Draw something else."""
        self._shown, self._colours = shown, colours
        self._mark_changed()
        self.events.tractogram()

    @property
    def space(self) -> DisplaySpace:
        """The display space of the volume underneath."""
        return self._shown.space

    @space.setter
    def space(self, space: DisplaySpace) -> None:
        set_units(self, space.units)
        self._changed(self._shown.placed(space), self._colours)

    @property
    def drawn(self) -> Tractogram:
        """The streamlines that are drawn, all or an even subset."""
        return self._shown.tractogram

    @property
    def drawn_points(self) -> NDArray[np.float32]:
        """(n_points, 3) float32: the points of the streamlines that are drawn, x, y, z."""
        return self._shown.xyz

    @property
    def n_shown(self) -> int:
        """Number of streamlines drawn."""
        return len(self._shown.offsets) - 1

    @property
    def n_all(self) -> int:
        """Number of streamlines, drawn or not."""
        return self._shown.n_all

    @property
    def summary(self) -> str:
        """How many streamlines are drawn: "showing 1,000 of 5,000 streamlines"."""
        total = self._shown.n_all
        if self._shown.chosen is None:
            return f"showing all {plural(total, 'streamline')}"
        return f"showing {self.n_shown:,} of {plural(total, 'streamline')}"

    # How it is shown.

    @property
    def width(self) -> float:
        """Width of the lines, pixels."""
        return float(self.tail_width)

    @width.setter
    def width(self, value: float) -> None:
        self.tail_width = value

    @property
    def own_slab_mm(self) -> float:
        """What :attr:`slab_mm` is by default: two voxels of the space, or 4 mm without voxels.

        To three digits, which a box has room for.
        """
        if self.space.grid is None:
            return float(SLAB_SPEC.default)
        return float(f"{2 * max(map(abs, self.space.scale)) / self.space.per_mm:.3g}")

    @property
    def slab_mm(self) -> float:
        """Thickness of the slab around the slice that a 2-D view shows, mm; None for its own."""
        return self._slab_mm

    @slab_mm.setter
    def slab_mm(self, value: float | None) -> None:
        self._slab_mm = self.own_slab_mm if value is None else positive("slab_mm", value)
        if self._ready and self.is_slice:
            self._forget_views()
            self.events.rebuild_tracks()
        self._on_displayed()  # the slab of 3-D has the same thickness
        self.events.tail_length()

    @property
    def slab(self) -> float:
        """The same in the unit of the display."""
        return self._slab_mm * self.space.per_mm

    @property
    def clip(self) -> str:
        """Across which axis a slab is cut out in 3-D, one of :data:`.clipping.CLIPS`."""
        return self._clip.name

    @clip.setter
    def clip(self, name: str) -> None:
        self._clip.name = known("clip", name, CLIPS)
        self._on_displayed()
        self.events.clip()

    @property
    def clip_at_mm(self) -> float:
        """Where the middle of that slab is on its axis of the display, in its unit."""
        return self._clip.at_mm

    @clip_at_mm.setter
    def clip_at_mm(self, value: float) -> None:
        self._clip.at_mm = float(value)
        self._on_displayed()
        self.events.clip()

    def _on_displayed(self) -> None:
        if self._ready:
            self._clip.place(self.experimental_clipping_planes, self.displayed, self.slab)

    @property
    def tail_length(self) -> int:
        """Half of the slab in whole units, for napari's slider; :attr:`slab_mm` is exact."""
        return max(1, round(self.slab / 2))

    @tail_length.setter
    def tail_length(self, value: int) -> None:
        if value != self.tail_length:
            self.slab_mm = 2.0 * value / self.space.per_mm

    def _coloured_points(self) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        return self._shown.xyz, self._colours.rgba

    def _make_view(self) -> View:
        shown = self._shown
        return self._view_of(shown.xyz, self._colours.rgba, shown.joined)

    def _make_highlight(self) -> View | None:
        shown = self._shown
        if not len(self._selected):
            return None
        points = shown.points_of(self._selected)
        return self._view_of(shown.xyz[points], self._colours.rgba[points], shown.joined[points])

    def _view_of(
        self, xyz: NDArray[np.float32], rgba: NDArray[np.float32], joined: NDArray[np.bool_]
    ) -> View:
        if not joined.any():
            return NOTHING
        columns = [2 - axis for axis in self.displayed[::-1]]
        if not self.is_slice:
            near = np.broadcast_to(np.float32(0), len(xyz))
            return View(xyz if columns == [0, 1, 2] else xyz[:, columns], rgba, joined, near)
        across, position = self.sliced
        half = self.slab / 2
        pieces = crop_to_slab(xyz, rgba, joined, axis=2 - across, position=position, half_mm=half)
        if not len(pieces.start):
            return NOTHING
        flat = np.zeros_like(pieces.xyz)
        flat[:, :2] = pieces.xyz[:, columns]
        depth = pieces.distance / np.float32(half)
        return View(flat, pieces.rgba, "segments", depth, pieces.start, self._shown)

    def pieces_near(self, across: int, position: float) -> Pieces:
        """Return what lies in the slab around a slice across an axis of (z, y, x)."""
        shown, half = self._shown, self.slab / 2
        found = shown.blocks.near_slice(2 - across, position, half)
        is_near = np.zeros(len(shown.xyz), dtype=bool)
        is_near[found] = True
        is_near[1:] |= is_near[:-1] & shown.joined[:-1]  # the ends of their last segments
        near = np.flatnonzero(is_near)
        pieces = crop_to_slab(
            shown.xyz[near],
            self._colours.rgba[near],
            shown.joined[near] & np.append(np.diff(near) == 1, False),
            axis=2 - across,
            position=position,
            half_mm=half,
        )
        return replace(pieces, start=near[pieces.start])

    # What is selected.

    @property
    def selected(self) -> NDArray[np.int64]:
        """(n_selected,) int64, rising: numbers of the selected streamlines, which stand out.

        Setting it takes any integers; a new tractogram selects nothing.
        """
        return self._selected

    @selected.setter
    def selected(self, numbers: ArrayLike) -> None:
        chosen = np.unique(np.asarray(numbers, dtype=np.int64))
        n = self._shown.n_all
        if len(chosen) and not (chosen[0] >= 0 and chosen[-1] < n):
            raise InvalidParameterError(
                f"selected holds {chosen[0]} to {chosen[-1]}; give numbers from 0 to {n - 1}."
            )
        if not np.array_equal(chosen, self._selected):
            self._selected = chosen
            self._mark_highlight_changed()
            self.events.selected()

    # Where it is.

    @property
    def _extent_data(self) -> NDArray[np.float64]:
        return self._shown.bounds[:, ::-1]

    @property
    def _extent_data_augmented(self) -> NDArray[np.float64]:
        # A flat bundle gets a thickness: napari divides by it to fit the view.
        return np.asarray(self._extent_data + np.array([[-0.5], [0.5]]))

    @cached_property
    def extent(self) -> Any:
        """Extent in data and in world coordinates.

        Where there is a volume, the sliders of the viewer keep stopping at its slices.
        """
        return on_slices(BareTracks.extent.func(self), self.space)

    # What lies under the cursor.

    def get_value(
        self,
        position: ArrayLike,
        *,
        view_direction: ArrayLike | None = None,
        dims_displayed: list[int] | None = None,
        world: bool = False,
    ) -> int | None:
        """Return the number of the streamline within a few pixels of a position, or None.

        The parameters are those of :meth:`napari.layers.Layer.get_value`. In 3-D the foremost
        streamline along the line of sight is returned.
        """
        return self._pick(position, view_direction, world)[1]

    def place_under(
        self, position: ArrayLike, view_direction: ArrayLike
    ) -> NDArray[np.float64] | None:
        """Return the point of the streamline under the mouse in 3-D, display (z, y, x); or None."""
        number = self.get_value(position, view_direction=view_direction, world=True)
        if number is None:
            return None
        shown = np.asarray(self.space.to_display(self.tractogram[number].points), dtype=float)
        ahead = np.asarray(view_direction, dtype=float)[-3:]
        ahead = ahead / np.linalg.norm(ahead)
        beside = shown - np.asarray(position, dtype=float)[-3:]
        beside = beside - np.outer(beside @ ahead, ahead)
        return np.asarray(shown[int(np.linalg.norm(beside, axis=1).argmin())])

    def _pick(
        self, position: ArrayLike, view_direction: ArrayLike | None, world: bool
    ) -> tuple[DrawnSubset, int | None]:
        """Return what is under a position, and of what: napari asks from another thread."""
        shown = self._shown
        if not self.visible or not len(shown.xyz):
            return shown, None
        at = np.asarray(position, dtype=np.float64)
        here = np.asarray(self.world_to_data(at)) if world else at[-3:]
        within = PICK_PIXELS * float(self.scale_factor)
        if self.is_slice or view_direction is None:
            view = self._drawn
            if view.start is None:
                return shown, None
            shown = view.source
            pieces = view.vertices[:, :2].reshape(-1, 2, 2)
            nearest = nearest_piece(pieces, here[self.displayed[::-1]], within)
            point = None if nearest is None else int(view.start[nearest])
            return shown, shown.streamline_of(point)
        sight = np.asarray(view_direction, dtype=np.float64)
        if world:
            sight = np.asarray(self.world_to_data(at + sight)) - here
        point = first_on_ray(
            shown.xyz,
            shown.joined,
            origin=here[::-1],
            direction=sight[-3:][::-1],
            within=within,
            blocks=shown.blocks,
            slab=self._clip.slab(self.slab),
        )
        return shown, shown.streamline_of(point)

    def describe(self, index: int) -> str:
        """Return number, length and stop reasons of a streamline in a line."""
        return _described(self._shown.whole, index, self.space.unit)

    def get_status(
        self,
        position: ArrayLike | None = None,
        *,
        view_direction: ArrayLike | None = None,
        dims_displayed: list[int] | None = None,
        world: bool = False,
        value: Any | None = None,
    ) -> dict[str, str]:
        """Return what the status bar says: where the mouse is, and which streamline is there."""
        status: dict[str, str] = super().get_status(None)
        if position is None:
            return status
        shown, index = self._pick(position, view_direction, world)
        text = "" if index is None else _described(shown.whole, index, self.space.unit)
        coords = ""
        if view_direction is None:  # in 3-D the mouse is on a line of sight
            at = self.space.to_world(np.asarray(position, dtype=float)[None, -3:])
            coords = position_text(at[0], self.space.unit, self.axis_labels[::-1])
        both = ": ".join(filter(None, (coords, text)))
        return {**status, "coordinates": both, "coords": coords, "value": text}

    def _get_tooltip_text(
        self, position: ArrayLike, *, view_direction: ArrayLike | None = None, **where: Any
    ) -> str:
        shown, index = self._pick(position, view_direction, where.get("world", False))
        return "" if index is None else _described(shown.whole, index, self.space.unit)

    # What other parts of napari ask for.

    @property
    def data(self) -> TrackRows:
        """(n_points, 4) float32: number of the streamline and position (z, y, x) in display mm.

        Computed where the numbers are asked for: napari asks for the shape again and again.
        :attr:`tractogram` costs nothing. Setting it makes a tractogram, in which rows with the same
        number are a streamline, by rising number as in Tracks.
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
        numbers = array[:, 0]
        if not np.array_equal(np.floor(numbers), numbers):
            raise InvalidTractogramError(
                "data has numbers of streamlines that are not whole; give whole ones."
            )
        array = array[np.argsort(numbers, kind="stable")]
        inner = np.flatnonzero(np.diff(array[:, 0])) + 1
        offsets = [0, *inner, len(array)] if len(array) else [0]
        self.tractogram = Tractogram(self.space.to_world(array[:, 1:]), offsets)

    def as_layer_data_tuple(self) -> tuple[Any, dict[str, Any], str]:
        """Return data, state and type: for writers, duplicates and key frames of films.

        Tractogram, grid and colours are in the metadata; what is not there can be set by its name.
        Of the tuple ``Layer.create`` makes a duplicate, which shows the same tractogram in the same
        colours, and is edited by itself.
        """
        data, state, _ = super().as_layer_data_tuple()
        for name in OF_TRACKS:
            state.pop(name, None)
        planes = self._clip.other_planes(self.experimental_clipping_planes)
        state["experimental_clipping_planes"] = [plane.model_dump() for plane in planes]
        grid = self.space.grid if self.reference is None else self.reference
        own = DuplicateState(self._shown, self._colouring, self._colours, self._max_vertices)
        extra = {"tractogram": self.tractogram, "grid": grid, DUPLICATE_KEY: own}
        state["metadata"] = {**self.metadata, **extra}
        state.update(slab_mm=self.slab_mm, clip=self.clip, clip_at_mm=self.clip_at_mm, lit=self.lit)
        return data, state, LAYER_TYPE


def _described(tractogram: Tractogram, index: int, unit: str) -> str:
    text = f"streamline {index}: {length_text(tractogram.lengths_mm[index], unit)}"
    if tractogram.weights is not None:
        text += f", weight {tractogram.weights[index]:.3g}"
    codes = tractogram.stop_reasons[index].tolist()
    reasons = [REASONS[code] for code in codes if code != StopReason.SEED]
    if len(reasons) == 2 and reasons[0] == reasons[1]:
        reasons = [f"{reasons[0]} at both ends"]
    return f"{text}, {'; '.join(reasons)}" if reasons else text


def positive(label: str, value: float) -> float:
    """Return a positive number, or refuse it by its name."""
    if not value > 0:
        raise InvalidParameterError(f"{label} is {value}; give a positive number.")
    return float(value)


def known(label: str, mode: str, modes: Collection[str]) -> str:
    """Return one of the modes, or refuse it by its name."""
    if mode not in modes:
        raise InvalidParameterError(f"{label} is {mode!r}; choose one of {', '.join(modes)}.")
    return mode


def _from_layer_data(
    _data: Any, *, metadata: dict[str, Any], tail_width: float, color_by: str, **state: Any
) -> Streamlines:
    """Return the layer that :meth:`Streamlines.as_layer_data_tuple` describes."""
    own = {name: value for name, value in metadata.items() if name != "tractogram"}
    as_before: DuplicateState = own.pop(DUPLICATE_KEY)
    reference = own.pop("grid")
    later = {name: state.pop(name) for name in ("clip_at_mm", "clip", "lit")}
    shown, limit = as_before.shown, as_before.max_vertices
    layer = Streamlines(
        space=shown.space, max_vertices=limit, width=tail_width, metadata=own, **state
    )
    layer.reference = reference
    layer._colouring = as_before.colouring.copy(shown)
    layer._changed(shown, as_before.colours)
    for name, value in later.items():
        setattr(layer, name, value)
    return layer


register(_from_layer_data)
