"""The streamlines layer: fast static polylines in a napari viewer.

Points go to the screen as they lie in the tractogram. In 3-D all are drawn; a 2-D slice view
shows the part of the streamlines inside a slab around the slice, fading away from it. Called by
the session, the readers and scripts.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import cached_property
from typing import Any

import numpy as np
from napari.utils.events import Event
from numpy.typing import ArrayLike, NDArray

from ..errors import InvalidParameterError, InvalidTractogramError
from ..stop import StopReason
from ..tractogram import Tractogram
from .bare_tracks import NOTHING, BareTracks, View
from .colours import DEFAULT_COLORMAP, DEFAULT_COLOUR, MODES, Colours, single_colour, value_colours
from .display import UNITS, DisplaySpace
from .polylines import crop_to_slab, first_on_ray, nearest_piece
from .shown import Shown

MAX_VERTICES = 2_000_000
DEFAULT_SLAB_MM = 4.0  # without a volume; two voxels with one
PICK_PIXELS = 5.0
VALUES = "values"  # the mode of Streamlines.colour_by_values

RGBA = tuple[float, float, float, float]
Values = ArrayLike | Callable[[Tractogram], ArrayLike]


class Streamlines(BareTracks):
    """Streamlines of a tractogram in a napari viewer.

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
    """

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
        units: Any = UNITS,
        **kwargs: Any,
    ) -> None:
        space = DisplaySpace.identity() if space is None else space
        self._max_vertices = int(_positive("max_vertices", max_vertices))
        self._slab_mm = _slab_of(space) if slab_mm is None else _positive("slab_mm", slab_mm)
        self._colour: RGBA = DEFAULT_COLOUR
        self._values: Values | None = None
        self._values_meaning: dict[str, Any] = {}
        self._shown = Shown(Tractogram.empty(), space, self._max_vertices)
        self._colours: Colours = single_colour(Tractogram.empty())
        self._color_by: str = _known("colour_by", colour_by, MODES)
        super().__init__(
            name=name,
            color_by=colour_by,
            colormap=colormap,
            blending=blending,
            units=units,
            tail_width=width,
            tail_length=self.tail_length,
            **kwargs,
        )
        self.events.add(tractogram=Event)
        self.tractogram = Tractogram.empty() if tractogram is None else tractogram

    # What is shown.

    @property
    def tractogram(self) -> Tractogram:
        """The streamlines. Setting it replaces them and keeps width, opacity and colours."""
        return self._shown.whole

    @tractogram.setter
    def tractogram(self, tractogram: Tractogram) -> None:
        if self._values is not None and not callable(self._values):
            self._forget_values()  # they belonged to the streamlines before
        self._show(tractogram, self._max_vertices)

    def append(self, chunk: Tractogram) -> None:
        """Show more streamlines, such as the next chunk of a run.

        Only the chunk is coloured and transformed where colours do not depend on the other
        streamlines. Beyond ``max_vertices`` the subset is thinned to half of it, to make room.
        """
        room = self._max_vertices - len(self._shown.xyz)
        mode = MODES.get(self._color_by)
        if self._shown.chosen is None and chunk.n_points <= room and mode and not mode.number:
            added = self._coloured(chunk)
            rgba = np.concatenate([self._colours.rgba, added.rgba])
            self._shown.append(chunk)
            if added.categories != self._colours.categories:
                added = self._coloured()  # new kinds: the legend has more entries
            else:
                added = Colours(rgba, added.label, added.unit, categories=added.categories)
            self._colours = added
            self._changed()
        else:
            whole = Tractogram.concatenate([self._shown.whole, chunk])
            crowded = whole.n_points > self._max_vertices
            self._show(whole, self._max_vertices // 2 if crowded else self._max_vertices)

    def _show(self, tractogram: Tractogram, max_vertices: int) -> None:
        self._shown = Shown(tractogram, self.space, max_vertices)
        self._colours = self._coloured()
        self._changed()

    def _changed(self) -> None:
        self._mark_changed()
        self.events.tractogram()

    @property
    def space(self) -> DisplaySpace:
        """The display space of the volume underneath."""
        return self._shown.space

    @space.setter
    def space(self, space: DisplaySpace) -> None:
        self._shown.place(space)
        self._changed()

    @property
    def max_vertices(self) -> int:
        """Above this number of points a subset of the streamlines is shown."""
        return self._max_vertices

    @max_vertices.setter
    def max_vertices(self, value: int) -> None:
        self._max_vertices = int(_positive("max_vertices", value))
        self._show(self._shown.whole, self._max_vertices)

    @property
    def n_shown(self) -> int:
        """Number of streamlines drawn."""
        return len(self._shown.offsets) - 1

    @property
    def shown(self) -> str:
        """How many streamlines are drawn, in words: "showing 1,000 of 5,000 streamlines"."""
        total = self._shown.n_all
        if self._shown.chosen is None:
            return f"showing all {total:,} streamlines"
        return f"showing {self.n_shown:,} of {total:,} streamlines"

    # How it is shown.

    @property
    def width(self) -> float:
        """Width of the lines, pixels."""
        return float(self.tail_width)

    @width.setter
    def width(self, value: float) -> None:
        self.tail_width = value

    @property
    def slab_mm(self) -> float:
        """Thickness of the slab around the slice that a 2-D view shows, mm."""
        return self._slab_mm

    @slab_mm.setter
    def slab_mm(self, value: float) -> None:
        self._slab_mm = _positive("slab_mm", value)
        if self._ready and self.is_slice:
            self._view = None
            self.events.rebuild_tracks()
        self.events.tail_length()

    @property
    def tail_length(self) -> int:
        """Half of the slab in whole mm, for napari's slider; :attr:`slab_mm` is exact."""
        return max(1, round(self._slab_mm / 2))

    @tail_length.setter
    def tail_length(self, value: int) -> None:
        if value != self.tail_length:
            self.slab_mm = 2.0 * value

    @property
    def colour_modes(self) -> tuple[str, ...]:
        """What :attr:`colour_by` can be."""
        return tuple(MODES) if self._values is None else (*MODES, VALUES)

    @property
    def properties_to_color_by(self) -> list[str]:
        """What napari's combo box lists: :attr:`colour_modes`."""
        return list(self.colour_modes)

    @property
    def colour_by(self) -> str:
        """What the colours stand for, one of :attr:`colour_modes`."""
        return self._color_by

    @colour_by.setter
    def colour_by(self, mode: str) -> None:
        self.color_by = _known("colour_by", mode, self.colour_modes)

    @property
    def colour(self) -> RGBA:
        """RGBA, 0 to 1, of the mode "one colour"; setting it selects that mode."""
        return self._colour

    @colour.setter
    def colour(self, rgba: RGBA) -> None:
        r, g, b, a = (float(np.clip(v, 0, 1)) for v in rgba)
        self._colour = (r, g, b, a)
        self.colour_by = "one colour"

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
        self._values = values
        self._values_meaning = {"label": label, "unit": unit, "limits": limits}
        self.events.properties()  # the combo box has one more entry
        self.colour_by = VALUES

    def _forget_values(self) -> None:
        self._values = None
        if self._color_by == VALUES:
            self._color_by = "direction"
        self.events.properties()

    @property
    def colours(self) -> Colours:
        """The colours of the points shown, with the limits and names for a legend."""
        return self._colours

    def _coloured(self, part: Tractogram | None = None) -> Colours:
        """Return the colours of what is shown, or of a part of it."""
        drawn = self._shown.tractogram if part is None else part
        if self._color_by == VALUES and self._values is not None:
            values = self._values
            numbers = values(drawn) if callable(values) else self._shown.values_of(values)
            return value_colours(drawn, numbers, colormap=self._colormap, **self._values_meaning)
        if self._color_by == "one colour":
            return single_colour(drawn, self._colour)
        mode = MODES[self._color_by]
        if mode.number:
            return mode.number(drawn, colormap=self._colormap, limits=None)
        assert mode.plain is not None
        return mode.plain(drawn)

    def _recolor_tracks(self) -> None:
        if self._ready:
            self._colours = self._coloured()
            self._view = None

    def _coloured_points(self) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        return self._shown.xyz, self._colours.rgba

    def _make_view(self) -> View:
        shown = self._shown
        if not shown.joined.any():
            return NOTHING
        columns = [2 - axis for axis in self.displayed[::-1]]
        if not self.is_slice:
            xyz = shown.xyz if columns == [0, 1, 2] else shown.xyz[:, columns]
            near = np.broadcast_to(np.float32(0), len(xyz))
            return View(xyz, self._colours.rgba, shown.joined, near)
        across, position = self.sliced
        half = self._slab_mm / 2
        pieces = crop_to_slab(
            shown.xyz,
            self._colours.rgba,
            shown.joined,
            axis=2 - across,
            position=position,
            half_mm=half,
        )
        if not len(pieces.start):
            return NOTHING
        flat = np.zeros_like(pieces.xyz)
        flat[:, :2] = pieces.xyz[:, columns]
        depth = pieces.distance / np.float32(half)
        return View(flat, pieces.rgba, "segments", depth, pieces.start)

    # What other parts of napari ask for.

    @property
    def data(self) -> NDArray[np.float32]:
        """(n_points, 4) float32: number of the streamline and position (z, y, x) in display mm.

        Made anew each time; :attr:`tractogram` costs nothing. Setting it makes a tractogram, in
        which consecutive rows with the same number are a streamline.
        """
        whole = self._shown.whole
        rows = np.empty((whole.n_points, 4), dtype=np.float32)
        rows[:, 0] = np.repeat(np.arange(whole.n_streamlines), np.diff(whole.offsets))
        rows[:, 1:] = self.space.to_display(whole.points)
        return rows

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

        The world extent is rounded to voxel centres where there is a volume, and its step is a
        voxel: the sliders of the viewer keep stopping at the slices of the volume.
        """
        extent = self._base_extent()
        if self.space.grid is None:
            return extent
        first, step = np.array(self.space.translate), np.array(self.space.scale)
        world = first + step * np.round((extent.world - first) / step)
        return extent._replace(world=world, step=np.abs(step))

    def _get_state(self) -> dict[str, Any]:
        """State for writers: that of Tracks, with tractogram and grid in the metadata."""
        state: dict[str, Any] = self._get_base_state()
        extra = {"tractogram": self.tractogram, "grid": self.space.grid}
        state["metadata"] = {**self.metadata, **extra}
        state.update(data=self.data, tail_width=self.tail_width, tail_length=self.tail_length)
        return state

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
        streamline along the line of sight is meant.
        """
        shown = self._shown
        if not self.visible or not len(shown.xyz):
            return None
        place = np.asarray(position, dtype=np.float64)
        here = np.asarray(self.world_to_data(place)) if world else place[-3:]
        within = PICK_PIXELS * float(self.scale_factor)
        if self.is_slice or view_direction is None:
            view = self._drawn
            if view.start is None:
                return None
            pieces = view.vertices[:, :2].reshape(-1, 2, 2)
            nearest = nearest_piece(pieces, here[self.displayed[::-1]], within)
            return None if nearest is None else shown.streamline_of(int(view.start[nearest]))
        sight = np.asarray(view_direction, dtype=np.float64)
        if world:
            sight = np.asarray(self.world_to_data(place + sight)) - here
        return shown.streamline_of(
            first_on_ray(
                shown.xyz,
                shown.joined,
                origin=here[::-1],
                direction=sight[-3:][::-1],
                within=within,
            )
        )

    def describe(self, index: int) -> str:
        """Return number, length and stop reasons of a streamline in a line."""
        whole = self._shown.whole
        text = f"streamline {index}: {whole.lengths_mm[index]:.1f} mm"
        codes = whole.stop_reasons[index]
        known = [r.text for r in StopReason if r is not StopReason.SEED and (codes == r).any()]
        return f"{text}, {'; '.join(known)}" if known else text

    def _get_tooltip_text(self, position: ArrayLike, **where: Any) -> str:
        index = self.get_value(position, **where)
        return "" if index is None else self.describe(index)


def _slab_of(space: DisplaySpace) -> float:
    return DEFAULT_SLAB_MM if space.grid is None else 2 * max(abs(s) for s in space.scale)


def _positive(label: str, value: float) -> float:
    if not value > 0:
        raise InvalidParameterError(f"{label} is {value}; give a positive number.")
    return float(value)


def _known(label: str, mode: str, modes: Collection[str]) -> str:
    if mode not in modes:
        raise InvalidParameterError(f"{label} is {mode!r}; choose one of {', '.join(modes)}.")
    return mode
