"""Plots of profiles, lengths, asymmetry and connectomes, by Matplotlib.

Matplotlib is optional and loaded when first used; where it is not installed, all that makes a
figure raises MissingPackageError. Figures know no screen: the command saves them, the panel shows
them.
"""

from __future__ import annotations

from collections.abc import Sequence
from io import BytesIO
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from ..errors import InvalidParameterError
from ..files.paths import check_writable, ending_of, written_whole
from ..model.sides import SIDE
from ..runtime.extras import needs_extra
from .bundle_measures import COLUMNS, BundleMeasures, asymmetry, sides
from .connectome import Connectome
from .profiles import Profile
from .sweeps import CLEAR, MEASURES, Sweep

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ENDINGS = (".png", ".svg", ".pdf")
DPI = 200
SIZE_INCHES = (5.6, 3.6)
# Told apart by people with a red-green weakness (Okabe and Ito, 2008), as in the panel.
COLOURS = ("#e69f00", "#56b4e9", "#cc79a7", "#009e73", "#d55e00", "#7a78d8", "#9ab100", "#0072b2")
BAND = 0.2  # opacity of the spread
N_BINS = 40  # of lengths
MAX_LABELS = 24  # that can be read beside a matrix
INK = "ink"  # the mark of lines that have the colour of the axes


def figure(*, size_inches: tuple[float, float] = SIZE_INCHES) -> Figure:
    """Return an empty figure."""
    with needs_extra("plots", "Plots, unlike tables and CSV files, take"):
        from matplotlib.figure import Figure
    return Figure(figsize=size_inches, layout="constrained")


def check_plot_target(path: str | PathLike[str]) -> None:
    """Check, before long work, that a plot can be made and written there.

    Raises FileError when the ending is unknown or the folder is missing or cannot be written.
    """
    figure()
    ending_of(Path(path), ENDINGS, "a plot to write")
    check_writable(path)


def save_plot(plot: Figure, path: str | PathLike[str]) -> None:
    """Write a plot, .png, .svg or .pdf, whole or not at all.

    Raises FileError when the ending is unknown or the file cannot be written.
    """
    ending = ending_of(Path(path), ENDINGS, "a plot to write")
    drawn = BytesIO()  # as Matplotlib ends with an error of its own where a disk is full
    plot.savefig(drawn, dpi=DPI, format=ending[1:])
    with written_whole(path) as temporary:
        temporary.write_bytes(drawn.getbuffer())


def plot_profiles(
    profiles: Sequence[Profile], colours: Sequence[str] = (), *, on: Figure | None = None
) -> Figure:
    """Draw profiles in one plot: lines of the means, bands of a standard deviation to each side.

    In the `colours` of the bundles, "#rrggbb", if any, on a new figure or `on` another. Raises
    InvalidParameterError when there are none.
    """
    if not profiles:
        raise InvalidParameterError("There are no profiles to draw; give at least one.")
    drawn = figure() if on is None else on
    axes: Any = drawn.subplots()
    for number, each in enumerate(profiles):
        colour = (colours or COLOURS)[number % len(colours or COLOURS)]
        percent = np.linspace(0, 100, len(each.mean))
        axes.fill_between(
            percent, each.mean - each.sd, each.mean + each.sd, color=colour, alpha=BAND, lw=0
        )
        axes.plot(percent, each.mean, color=colour, label=_literal(each.name) or None)
    axes.set_xlim(0, 100)
    ends = {each.ends for each in profiles}
    way = " to ".join(ends.pop()) if len(ends) == 1 else ""
    axes.set_xlabel(f"Along the tract [%]{f', {way}' if way else ''}")
    axes.set_ylabel(_literal(", ".join(dict.fromkeys(each.scalar for each in profiles))))
    _tidy(axes)
    if any(each.name for each in profiles):
        _legend(drawn)
    return drawn


def plot_asymmetry(
    bundles: Sequence[BundleMeasures], names: Sequence[str], *, on: Figure | None = None
) -> Figure:
    """Draw (L - R) / (L + R) of numbers of pairs of bundles, such as "volume_mm3", as bars.

    Raises InvalidParameterError when no two bundles differ in left and right alone.
    """
    by_name = {each.name: each for each in bundles}
    pairs = sides(by_name)
    if not pairs:
        raise InvalidParameterError(
            f"There is no pair of a left and a right bundle ({', '.join(by_name) or 'none'}); name "
            'them like "CST left" and "CST right".'
        )
    drawn = figure() if on is None else on
    axes: Any = drawn.subplots()
    height = 0.8 / len(names)
    for number, name in enumerate(names):
        values = [asymmetry(by_name[one], by_name[other]).get(name, np.nan) for one, other in pairs]
        bar_positions = np.arange(len(pairs)) + (number - (len(names) - 1) / 2) * height
        label = COLUMNS[name][0] if name in COLUMNS else _literal(name.replace("_", ", "))
        axes.barh(bar_positions, values, height, label=label, color=COLOURS[number % len(COLOURS)])
    without_side = [SIDE.sub("", one).strip(" _-.") or one for one, _ in pairs]
    axes.set_yticks(np.arange(len(pairs)), list(map(_literal, without_side)))
    axes.invert_yaxis()
    reach = max(0.05, 1.1 * max(abs(x) for x in axes.get_xlim()))
    axes.set_xlim(reach, -reach)  # left is on the left
    axes.axvline(0, color="black", lw=0.8, gid=INK)
    axes.set_xlabel("more left    (L - R) / (L + R)    more right")
    _tidy(axes)
    _legend(drawn)
    return drawn


def plot_connectome(found: Connectome, *, on: Figure | None = None) -> Figure:
    """Draw a connectome as a matrix: counts on a logarithmic scale, and none left empty."""
    drawn = figure(size_inches=(5.0, 4.4)) if on is None else on
    with needs_extra("plots", "Plots take"):
        from matplotlib.colors import LogNorm

    axes: Any = drawn.subplots()
    values = np.where(found.counts > 0, found.counts, np.nan)
    some = found.counts[found.counts > 0].tolist() or [1]
    scale = LogNorm(min(some), max(*some, 2))
    image = axes.imshow(values, cmap="viridis", interpolation="nearest", norm=scale)
    step = -(-len(found.labels) // MAX_LABELS)
    ticks = np.arange(0, len(found.labels), step)
    axes.set_xticks(ticks, found.labels[ticks], rotation=90, fontsize="x-small")
    axes.set_yticks(ticks, found.labels[ticks], fontsize="x-small")
    axes.set_xlabel("Label of the last point" if found.directed else "Label")
    axes.set_ylabel("Label of the first point" if found.directed else "Label")
    drawn.colorbar(image, label="Streamlines")
    return drawn


def plot_sweep(found: Sweep, *, on: Figure | None = None) -> Figure:
    """Draw what each value of a parameter gave: lines below each other, bars of twice the error.

    The errors are those of the difference to the chosen value, which is marked; where the answer is
    flat is shaded.
    """
    drawn = figure(size_inches=(5.6, 1.5 * len(found.measured) + 0.6)) if on is None else on
    rows: Any = drawn.subplots(len(found.measured), 1, sharex=True)
    spec = found.spec
    for number, (name, axes) in enumerate(zip(found.measured, np.ravel(rows), strict=True)):
        label, unit = MEASURES[name]
        bars = CLEAR * found.errors[name]
        axes.axvspan(*found.flat, color=COLOURS[3], alpha=BAND, lw=0)
        axes.axvline(found.values[found.chosen], color="black", lw=0.8, ls="--", gid=INK)
        axes.errorbar(
            found.values, found.measured[name], bars, color=COLOURS[number], marker="o", ms=3,
            capsize=2,
        )  # fmt: skip
        axes.set_ylabel(f"{label}\n[{unit}]" if unit else label, fontsize="small")
        _tidy(axes)
    axes.set_xlabel(f"{spec.label} [{spec.unit}]" if spec.unit else spec.label)
    return drawn


def plot_lengths(
    lengths_mm: Sequence[ArrayLike],
    names: Sequence[str],
    colours: Sequence[str] = (),
    *,
    on: Figure | None = None,
) -> Figure:
    """Draw histograms of the lengths of bundles, over each other.

    Raises InvalidParameterError when there are no streamlines.
    """
    arrays = [np.asarray(each, dtype=np.float64) for each in lengths_mm]
    if not any(len(each) for each in arrays):
        raise InvalidParameterError("There are no streamlines whose lengths could be drawn.")
    drawn = figure() if on is None else on
    axes: Any = drawn.subplots()
    bins = np.histogram_bin_edges(np.concatenate(arrays), N_BINS)
    for number, (each, name) in enumerate(zip(arrays, names, strict=True)):
        colour = (colours or COLOURS)[number % len(colours or COLOURS)]
        axes.hist(each, bins, histtype="stepfilled", color=colour, alpha=0.35)
        axes.hist(each, bins, histtype="step", color=colour, label=_literal(name))
    axes.set_xlabel("Length [mm]")
    axes.set_ylabel("Streamlines")
    _tidy(axes)
    _legend(drawn)
    return drawn


def coloured(plot: Figure, ink: str, paper: str) -> Figure:
    """Give a plot the colours of a window: `ink` for lines and letters, `paper` behind."""
    plot.set_facecolor(paper)
    for axes in plot.axes:
        axes.set_facecolor(paper)
        for spine in axes.spines.values():
            spine.set_color(ink)
        axes.tick_params(colors=ink, which="both")
        for text in (axes.xaxis.label, axes.yaxis.label, axes.title):
            text.set_color(ink)
        for line in axes.lines:
            if line.get_gid() == INK:
                line.set_color(ink)
    for legend in plot.legends:
        for text in legend.get_texts():
            text.set_color(ink)
    return plot


def _legend(drawn: Any) -> None:
    """Name what is drawn above the axes, where nothing lies below."""
    drawn.legend(loc="outside upper center", ncols=3, frameon=False, fontsize="small")


def _literal(name: str) -> str:
    """Return a name, which may be a file's, so that Matplotlib draws it: $ begins no formula."""
    return name.encode(errors="backslashreplace").decode().replace("$", r"\$")


def _tidy(axes: Any) -> None:
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
