"""Colours of streamlines: a tractogram in, one RGBA a point out.

Pure functions of arrays; called by the streamlines layer. A new way to colour is one function
and one row of :data:`MODES`: the choices of the panel, its settings and the docs follow.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from napari.utils.colormaps import ensure_colormap
from napari.utils.colormaps.standardize_color import transform_color
from numpy.typing import ArrayLike, NDArray

from ...errors import InvalidParameterError, InvalidTractogramError
from ...geometry.units import shown_unit
from ...maps.angles import (
    Axis,
    elevations_deg,
    helix_angles_deg,
    mean_curvature_per_mm,
    tangents,
)
from ...model.stop import StopReason
from ...runtime.buffers import pool
from ...streamlines.compiled_loops import colour_directions
from ...streamlines.tractogram import Tractogram
from ..compiled import may_loop
from ..words import plural

DEFAULT_COLORMAP = "turbo"
CYCLIC_COLORMAP = "hsv"  # whose ends are alike, as -90 and 90 degrees of an axis are
DEFAULT_COLOUR = (1.0, 0.78, 0.28, 1.0)
UNKNOWN = (0.5, 0.5, 0.5, 1.0)  # a point without a direction, a value that is not finite

MOST_WEIGHTS = 0.98  # of the weights lie within the colormap
_LUT_SIZE = 1024
_BLOCK = 1 << 14  # points at a time, so that the work stays in the cache

RGB = tuple[float, float, float]
RGBA = tuple[float, float, float, float]

# Ends that are as they should be in calm colours, ends that ask for attention in warm ones.
REASON_COLOURS: dict[StopReason, RGB] = {
    StopReason.SEED: (0.55, 0.55, 0.55),
    StopReason.LEFT_IMAGE: (0.85, 0.37, 0.85),
    StopReason.LEFT_MASK: (0.35, 0.60, 1.00),
    StopReason.NO_FOD: (0.25, 0.80, 0.85),
    StopReason.LOW_AMPLITUDE: (0.30, 0.80, 0.40),
    StopReason.LOW_PROBABILITY: (0.98, 0.85, 0.25),
    StopReason.MAX_LENGTH: (1.00, 0.25, 0.25),
    StopReason.STOP_REGION: (1.00, 0.55, 0.15),
    StopReason.END_REGION: (0.95, 0.95, 0.95),
    StopReason.SHARP_TURN: (0.60, 0.40, 0.20),
    StopReason.ENTERED_CORTEX: (0.45, 0.75, 0.55),
    StopReason.ENDED_IN_DEEP_GREY: (0.45, 0.50, 0.85),
    StopReason.LEFT_DEEP_GREY: (0.65, 0.60, 0.90),
    StopReason.LEFT_TISSUES: (0.75, 0.55, 0.70),
}


def rgba_of(colour: Any) -> RGBA:
    """Return a colour as RGBA, 0 to 1, of what napari takes.

    That is a name, "#rrggbb", "#rrggbbaa", or 3 or 4 numbers from 0 to 1. Raises
    InvalidParameterError when it is none of these.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # napari warns of numbers above 1, and guesses
            rgba = transform_color(colour)
    except (ValueError, TypeError, KeyError, AttributeError, UserWarning):
        rgba = np.empty((0, 4))
    if colour is None or rgba.shape != (1, 4) or not np.isfinite(rgba).all():
        raise InvalidParameterError(
            f"colour is {colour!r}; give a name such as 'orange', '#rrggbb', or 3 or 4 numbers "
            "from 0 to 1."
        )
    r, g, b, a = rgba[0].tolist()
    return r, g, b, a


def hex_of(rgba: RGBA) -> str:
    """Return "#rrggbb" of a colour, without its opacity."""
    return "#" + "".join(f"{round(255 * part):02x}" for part in rgba[:3])


@dataclass(frozen=True, slots=True)
class Colours:
    """Colours of all points of a tractogram, and what they mean."""

    rgba: NDArray[np.float32]  # (n_points, 4) float32: between 0 and 1; may be read-only
    # label, unit: what the colour stands for.
    label: str
    unit: str = ""
    # The values of the two ends of the colormap; None where the colour is no number.
    limits: tuple[float, float] | None = None
    colormap: str = ""  # the colormap of a number, else ""
    # tuple of (str, RGB): the colours of named kinds, where the colour stands for one.
    categories: tuple[tuple[str, RGB], ...] = ()

    @property
    def rgb(self) -> NDArray[np.uint8]:
        """(n_points, 3) uint8: the colours of all points without their opacity."""
        return np.rint(255 * np.clip(self.rgba[:, :3], 0, 1)).astype(np.uint8)

    @property
    def meaning(self) -> str:
        """What the colours stand for, as a sentence."""
        if self.limits is None:
            return f"Colours: {self.label.lower()}."
        low, high = self.limits
        unit = f" {self.unit}" if self.unit else ""
        return f"Colours: {self.label.lower()}, {low:.3g} to {high:.3g}{unit} ({self.colormap})."

    def shown_in(self, unit: str) -> Colours:
        """Return the same with limits in the unit of a volume, for a legend."""
        shown, factor = shown_unit(self.unit, unit)
        if self.limits is None or shown == self.unit:
            return self
        low, high = self.limits
        return replace(self, unit=shown, limits=(low * factor, high * factor))

    def along_axes(self) -> Colours:
        """Return the same with directions named by axes, where nothing says left and right."""
        if self.categories != DIRECTIONS:
            return self
        return replace(self, categories=tuple((ALONG[name], rgb) for name, rgb in DIRECTIONS))


def direction_colours(tractogram: Tractogram, **_: Any) -> Colours:
    """Colour by direction: |x|, |y|, |z| of the segments in RAS+ as red, green, blue.

    A point takes the mean of the segments on its two sides.
    """
    points, offsets = tractogram.points, tractogram.offsets
    n = len(points)
    rgba = pool.points(n + n // 3 + 1).reshape(-1)[: 4 * n].reshape(n, 4)
    if may_loop(points):
        colour_directions(points, offsets, np.array(UNKNOWN, np.float32), rgba)
        return Colours(rgba, "Direction", categories=DIRECTIONS)
    rgba[:, 3] = 1
    inner = offsets[1:-1]
    between = inner[(inner > 0) & (inner < n)]  # points that no segment leads to
    for first in range(0, n, _BLOCK):
        last = min(first + _BLOCK, n)
        near = points[max(first - 1, 0) : last + 1]  # with the neighbours on both sides
        steps = np.zeros((last - first + 1, 3), dtype=np.float32)
        inside = steps[int(first == 0) : len(steps) - int(last == n)]
        np.abs(np.subtract(near[1:], near[:-1], out=inside), out=inside)
        begin, end = np.searchsorted(between, (first, last), side="left")
        stop = end + int(end < len(between) and between[end] == last)
        steps[between[begin:stop] - first] = 0
        along = np.ascontiguousarray((steps[:-1] + steps[1:]).T)  # columns: twice as fast
        norm = np.sqrt((along * along).sum(axis=0))
        still = norm == 0
        norm[still] = 1
        np.divide(along, norm, out=rgba[first:last, :3].T)
        rgba[first:last][still] = UNKNOWN
    return Colours(rgba, "Direction", categories=DIRECTIONS)


ALONG = {
    "left-right": "along x",
    "anterior-posterior": "along y",
    "inferior-superior": "along z",
}
DIRECTIONS: tuple[tuple[str, RGB], ...] = (
    ("left-right", (1.0, 0.0, 0.0)),
    ("anterior-posterior", (0.0, 1.0, 0.0)),
    ("inferior-superior", (0.0, 0.0, 1.0)),
)


def _by_number(
    label: str, unit: str, numbers: Callable[[Tractogram], ArrayLike]
) -> Callable[..., Colours]:
    """Return a function that colours by a number of each streamline."""

    def colours(tractogram: Tractogram, *, colormap: str = DEFAULT_COLORMAP, **_: Any) -> Colours:
        values = numbers(tractogram)
        return value_colours(tractogram, values, label=label, unit=unit, colormap=colormap)

    return colours


length_colours = _by_number("Length", "mm", lambda tractogram: tractogram.lengths_mm)


def weight_colours(
    tractogram: Tractogram, *, colormap: str = DEFAULT_COLORMAP, **_: Any
) -> Colours:
    """Colour by the weight of each streamline; grey where there are none."""
    weights, limits = tractogram.weights, None
    if weights is None:
        weights = np.full(len(tractogram), np.nan, np.float32)
    elif len(weights):  # a few are many times as large as the others
        limits = 0.0, float(np.quantile(weights, MOST_WEIGHTS)) or 1.0
    return value_colours(tractogram, weights, label="Weight", colormap=colormap, limits=limits)


def elevation_colours(
    tractogram: Tractogram, *, axis: Axis | None = None, colormap: str = DEFAULT_COLORMAP, **_: Any
) -> Colours:
    """Colour by how steeply the streamline rises along the axis, degrees."""
    angles = elevations_deg(tangents(tractogram), axis)
    return value_colours(
        tractogram, angles, label="Elevation", unit="°", colormap=colormap, limits=(0.0, 90.0)
    )


def helix_colours(
    tractogram: Tractogram, *, axis: Axis | None = None, colormap: str = DEFAULT_COLORMAP, **_: Any
) -> Colours:
    """Colour by the helix angle about the axis, degrees, cyclic; grey without an axis."""
    colormap = CYCLIC_COLORMAP if colormap == DEFAULT_COLORMAP else colormap
    angles = np.full(tractogram.n_points, np.nan)
    if axis is not None:
        angles = helix_angles_deg(tractogram.points, tangents(tractogram), axis)
    label = "Helix angle" if axis is not None else "Helix angle (draw the axis)"
    return value_colours(
        tractogram, angles, label=label, unit="°", colormap=colormap, limits=(-90.0, 90.0)
    )


def seed_colours(tractogram: Tractogram, **_: Any) -> Colours:
    """Give the streamlines of each seed a colour of its own, far from those of its neighbours."""
    return kind_colours(tractogram, tractogram.seed_index, label="Seed")


def kind_colours(
    tractogram: Tractogram, kinds: ArrayLike, *, label: str, n_named: int = 0, **_: Any
) -> Colours:
    """Give each kind of streamline a colour of its own, far from those of its neighbours.

    Kinds are (n_streamlines,) int; below 0 is unknown, and grey. The label is what they are, and
    the largest `n_named` are in the legend. Raises InvalidTractogramError when there are not as
    many kinds as streamlines.
    """
    kind = np.asarray(kinds)
    if kind.shape != (tractogram.n_streamlines,):
        raise InvalidTractogramError(
            f"kinds has shape {kind.shape}; give one for each of the "
            f"{tractogram.n_streamlines} streamlines."
        )
    rgba = np.ones((len(kind), 4), dtype=np.float32)
    rgba[:, :3] = _hues(kind)
    rgba[~(kind >= 0)] = UNKNOWN  # NaN too
    named: tuple[tuple[str, RGB], ...] = ()
    if n_named:
        found, counts = np.unique(kind[kind >= 0], return_counts=True)
        largest = np.argsort(-counts, kind="stable")[:n_named]
        columns = found[largest], counts[largest], _hues(found[largest])
        named = tuple(
            (f"{label} {number + 1:.0f}: {plural(count, 'streamline')}", (r, g, b))
            for number, count, (r, g, b) in zip(*(c.tolist() for c in columns), strict=True)
        )
    return Colours(np.repeat(rgba, np.diff(tractogram.offsets), axis=0), label, categories=named)


def _hues(kind: NDArray[np.integer]) -> NDArray[np.float64]:
    """RGB of kinds, hues a golden section apart: consecutive ones never come close."""
    hue = (kind * 0.6180339887498949) % 1.0
    bow = np.abs((hue[:, None] * 6 + np.array([0, 4, 2])) % 6 - 3) - 1  # hue to RGB
    return np.asarray(0.25 + 0.75 * np.clip(bow, 0, 1))


def stop_reason_colours(tractogram: Tractogram, **_: Any) -> Colours:
    """Colour each half of a streamline by why its end was reached."""
    counts = np.diff(tractogram.offsets)
    table = np.tile(np.array(UNKNOWN, dtype=np.float32), (len(StopReason), 1))
    for reason, colour in REASON_COLOURS.items():
        table[reason, :3] = colour
    nth = np.arange(tractogram.n_points) - np.repeat(tractogram.offsets[:-1], counts)
    second = nth * 2 >= np.repeat(counts, counts)
    first_and_last = np.repeat(tractogram.stop_reasons, counts, axis=0)
    codes = np.where(second, first_and_last[:, 1], first_and_last[:, 0])
    present = [r for r in StopReason if (tractogram.stop_reasons == r).any()]
    return Colours(
        table[codes],
        "Stop reason",
        categories=tuple((r.text, REASON_COLOURS.get(r, UNKNOWN[:3])) for r in present),
    )


def single_colour(tractogram: Tractogram, colour: RGBA = DEFAULT_COLOUR, **_: Any) -> Colours:
    """Give all streamlines one RGBA colour."""
    rgba = np.broadcast_to(np.array(colour, dtype=np.float32), (tractogram.n_points, 4))
    return Colours(rgba, "One colour")


def value_colours(
    tractogram: Tractogram,
    values: ArrayLike,
    *,
    label: str = "Value",
    unit: str = "",
    colormap: str = DEFAULT_COLORMAP,
    limits: tuple[float, float] | None = None,
) -> Colours:
    """Colour by (n_streamlines,) or (n_points,) numbers, which label and unit name in the legend.

    What is not finite is grey; where nothing is finite the legend says so. The ends of the
    colormap, one of napari's or vispy's, are the limits, or else the smallest and the largest.
    Raises InvalidTractogramError when there are neither as many values as streamlines nor as
    points.
    """
    number = np.asarray(values, dtype=np.float32)
    per_streamline = number.shape == (tractogram.n_streamlines,)
    if not per_streamline and number.shape != (tractogram.n_points,):
        raise InvalidTractogramError(
            f"values has shape {number.shape}; give one number for each of the "
            f"{tractogram.n_streamlines} streamlines or {tractogram.n_points} points."
        )
    finite = np.isfinite(number)
    if limits is None:
        known = number[finite] if finite.any() else np.array([0.0, 1.0])
        limits = float(known.min()), float(known.max())
    low, high = limits
    table = np.vstack(
        [ensure_colormap(colormap).map(np.linspace(0, 1, _LUT_SIZE)), [UNKNOWN]]
    ).astype(np.float32)
    span = high - low
    position = (number - np.float32(low)) / np.float32(span) if span else np.full_like(number, 0.5)
    position = np.where(finite, np.clip(position, 0, 1) * (_LUT_SIZE - 1) + 0.5, _LUT_SIZE)
    rgba = np.clip(table, 0, 1)[position.astype(np.intp)]
    if per_streamline:
        rgba = np.repeat(rgba, np.diff(tractogram.offsets), axis=0)
    if not finite.any():  # a scale would be read as if there were numbers
        return Colours(rgba, label, unit, categories=((f"{label}: no values", UNKNOWN[:3]),))
    return Colours(rgba, label, unit, (float(low), float(high)), colormap)


@dataclass(frozen=True, slots=True)
class Mode:
    """One way to colour streamlines."""

    help: str  # what the colours mean, for tooltips and docs: a sentence without its full stop
    # Of a tractogram the colours of all points. A person chose the colour, for what has one, and
    # the colormap, for what is a number, and drew the axis, for angles about it: all are keywords.
    colours: Callable[..., Colours]
    # Whether the colour of a streamline does not depend on the other streamlines: then only new
    # ones are coloured while a run shows more and more.
    is_local: bool = True
    about_axis: bool = False  # whether it goes by the axis that a person draws


ONE_COLOUR, DEFAULT_MODE = "one colour", "direction"
WEIGHT = "weight"
ELEVATION, HELIX = "elevation", "helix angle"

MODES: dict[str, Mode] = {
    DEFAULT_MODE: Mode(
        "red left-right, green anterior-posterior, blue inferior-superior", direction_colours
    ),
    ELEVATION: Mode(
        "angle from the plane across the axis, or the axial plane without one",
        elevation_colours,
        about_axis=True,
    ),
    HELIX: Mode(
        "helix angle about the axis, right-handed positive; grey without an axis",
        helix_colours,
        about_axis=True,
    ),
    "length": Mode("length of the streamline, mm", length_colours, is_local=False),
    "mean curvature": Mode(
        "turning angle over length of the streamline, 1/mm",
        _by_number("Mean curvature", "1/mm", mean_curvature_per_mm),
        is_local=False,
    ),
    WEIGHT: Mode(
        "weight of the streamline, such as SIFT2 gives; grey without",
        weight_colours,
        is_local=False,
    ),
    "seed": Mode("a colour for each seed", seed_colours),
    "stop reason": Mode("why each end of the streamline was reached", stop_reason_colours),
    ONE_COLOUR: Mode("the colour that you choose", single_colour),
}
