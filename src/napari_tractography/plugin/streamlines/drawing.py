"""Streamlines as they are drawn: slab, clipping, highlight, and what lies under the cursor.

In 3-D all are drawn, or a slab of them; a 2-D slice view shows the part inside a slab around the
slice, fading away from it. The base of :mod:`.streamlines`, which says what is drawn in which
colours.
"""

from __future__ import annotations

from collections.abc import Collection
from functools import cached_property
from typing import Any

import numpy as np
from napari.utils.events import Event
from numpy.typing import ArrayLike, NDArray

from ...errors import InvalidParameterError
from ...geometry.units import length_text
from ...model.stop import StopReason
from ...streamlines.tractogram import Tractogram
from ..space.display import DisplaySpace, set_units
from ..space.extent import on_slices
from ..space.positions import position_text
from ..words import plural
from .bare_tracks import NOTHING, BareTracks, View
from .clipping import CLIPS, Clip
from .colours import Colours, single_colour
from .drawn_subset import DrawnSubset
from .polylines import crop_to_slab, nearest_piece

DEFAULT_SLAB_MM = 4.0  # without a volume; two voxels with one
PICK_PIXELS = 5.0
REASONS = {int(reason): reason.text for reason in StopReason}


class DrawnStreamlines(BareTracks):
    """Streamlines on the screen, those that are selected in front.

    Parameters
    ----------
    shown : DrawnSubset
        What to draw at first.
    slab_mm : float or None
        As in :class:`.streamlines.Streamlines`.
    **kwargs
        Further arguments of :class:`napari.layers.Tracks`.
    """

    def __init__(self, shown: DrawnSubset, *, slab_mm: float | None, **kwargs: Any) -> None:
        self._shown = shown
        self._colours: Colours = single_colour(shown.tractogram)
        self._selected = np.empty(0, dtype=np.int64)
        self._slab_mm = _slab_of(shown.space) if slab_mm is None else positive("slab_mm", slab_mm)
        self._clip = Clip()
        super().__init__(tail_length=self.tail_length, **kwargs)
        self.events.add(tractogram=Event, selected=Event, clip=Event)

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
    def slab_mm(self) -> float:
        """Thickness of the slab around the slice that a 2-D view shows, mm."""
        return self._slab_mm

    @slab_mm.setter
    def slab_mm(self, value: float) -> None:
        self._slab_mm = positive("slab_mm", value)
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
        return on_slices(self._base_extent(), self.space)

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
        return self._pick(position, view_direction, world)[1]

    def _pick(
        self, position: ArrayLike, view_direction: ArrayLike | None, world: bool
    ) -> tuple[DrawnSubset, int | None]:
        """Return what is under a position, and of what: napari asks from another thread."""
        shown = self._shown
        if not self.visible or not len(shown.xyz):
            return shown, None
        place = np.asarray(position, dtype=np.float64)
        here = np.asarray(self.world_to_data(place)) if world else place[-3:]
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
            sight = np.asarray(self.world_to_data(place + sight)) - here
        return shown, shown.on_ray(
            here[::-1], sight[-3:][::-1], within=within, slab=self._clip.slab(self.slab)
        )

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
            place = self.space.to_world(np.asarray(position, dtype=float)[None, -3:])
            coords = position_text(place[0], self.space.unit)
        told = f"{coords}: {text}" if coords else text
        return {**status, "coordinates": told, "coords": coords, "value": text}

    def _get_tooltip_text(
        self, position: ArrayLike, *, view_direction: ArrayLike | None = None, **where: Any
    ) -> str:
        shown, index = self._pick(position, view_direction, where.get("world", False))
        return "" if index is None else _described(shown.whole, index, self.space.unit)


def _described(tractogram: Tractogram, index: int, unit: str) -> str:
    text = f"streamline {index}: {length_text(tractogram.lengths_mm[index], unit)}"
    if tractogram.weights is not None:
        text += f", weight {tractogram.weights[index]:.3g}"
    codes = tractogram.stop_reasons[index].tolist()
    reasons = [REASONS[code] for code in codes if code != StopReason.SEED]
    if len(reasons) == 2 and reasons[0] == reasons[1]:
        reasons = [f"{reasons[0]} at both ends"]
    return f"{text}, {'; '.join(reasons)}" if reasons else text


def _slab_of(space: DisplaySpace) -> float:
    return (
        DEFAULT_SLAB_MM
        if space.grid is None
        else 2 * max(abs(s) for s in space.scale) / space.per_mm
    )


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
