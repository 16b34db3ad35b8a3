"""Measures as tables: rows of text, the same in the window, on paper and in a CSV file.

Called by the command, the plugin and scripts.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from os import PathLike

import numpy as np
from numpy.typing import NDArray

from ..files.formats import check_text_name
from ..files.paths import written_whole
from .bundle_measures import BundleMeasures, asymmetry, sides
from .profiles import Profile
from .resection import COLUMNS as LOSSES
from .resection import Resection
from .sweeps import Sweep

DIGITS = 6  # of numbers that are not whole


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of cells, as text."""

    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]  # a number has DIGITS digits; an empty cell has none

    def text(self, delimiter: str = ",") -> str:
        """Return the table as text; pasted with tabs between cells, a spreadsheet takes it."""
        stream = io.StringIO()
        writer = csv.writer(stream, delimiter=delimiter, lineterminator="\n")
        writer.writerow(self.header)
        writer.writerows(self.rows)
        return stream.getvalue()

    def save(self, path: str | PathLike[str]) -> None:
        """Write the table as CSV, whole or not at all.

        UTF-8, but for names of files that are not: these have their own bytes. Raises FileError
        when the file cannot be written, or its name is that of streamlines or of a volume.
        """
        check_text_name(path)
        with written_whole(path) as temporary:
            temporary.write_text(self.text(), "utf-8", "surrogateescape", newline="\n")

    def aligned(self) -> str:
        """Return the table with its columns below each other, for a terminal."""
        lines = [self.header, *self.rows]
        widths = [max(len(line[k]) for line in lines) for k in range(len(self.header))]
        return "\n".join(
            "  ".join(
                [line[0].ljust(widths[0])]
                + [cell.rjust(w) for cell, w in zip(line[1:], widths[1:], strict=True)]
            ).rstrip()
            for line in lines
        )


def measures_table(bundles: Sequence[BundleMeasures]) -> Table:
    """Return a row for each bundle."""
    names = list(dict.fromkeys(name for each in bundles for name in each.numbers))
    rows = [
        (each.name, *(cell(each.numbers.get(name, math.nan)) for name in names)) for each in bundles
    ]
    return Table(("bundle", *names), tuple(rows))


def asymmetry_table(bundles: Iterable[BundleMeasures]) -> Table:
    """Return (L - R) / (L + R) of bundles whose names differ in left and right alone."""
    by_name = {each.name: each for each in bundles}
    found = [
        (f"{one} - {other}", asymmetry(by_name[one], by_name[other]))
        for one, other in sides(by_name)
    ]
    names = list(dict.fromkeys(name for _, numbers in found for name in numbers))
    rows = [
        (pair, *(cell(numbers.get(name, math.nan)) for name in names)) for pair, numbers in found
    ]
    return Table(("pair", *names), tuple(rows))


def profiles_table(profiles: Iterable[Profile]) -> Table:
    """Return a row for each place of each bundle; places are numbered from 0."""
    header = ("bundle", "scalar", "place", "mean", "sd", "n_streamlines", "x_mm", "y_mm", "z_mm")
    rows = [
        (
            each.name,
            each.scalar,
            str(place),
            cell(each.mean[place]),
            cell(each.sd[place]),
            str(each.counts[place]),
            *(cell(x) for x in each.centroid_mm[place]),
        )
        for each in profiles
        for place in range(len(each.mean))
    ]
    return Table(header, tuple(rows))


def resections_table(bundles: Iterable[Resection]) -> Table:
    """Return a row for each bundle: what it would lose to a cavity, and how near it comes.

    Errors are standard errors, of numbers and of fractions.
    """
    rows = []
    for each in bundles:
        line = np.full(6, math.nan) if each.line_mm is None else each.line_mm.ravel()
        numbers = (
            each.n_streamlines, each.n_lost, each.n_streamlines * each.standard_error, each.share,
            each.standard_error, each.weight, each.weight_lost, each.weight_share,
            each.weight_standard_error, each.margin_mm, *line.tolist(),
        )  # fmt: skip
        rows.append((each.name, *map(cell, numbers)))
    return Table(("bundle", *LOSSES), tuple(rows))


def sweep_table(found: Sweep) -> Table:
    """Return a row for each value of the parameter: what it gave, and how that differs.

    Errors are standard errors of the difference to the chosen value; `is_flat` tells the range
    around it.
    """
    names = list(found.measured)
    low, high = found.flat
    more = [each for name in names for each in (name, f"{name}_difference_error")]
    rows = []
    for k, value in enumerate(found.values.tolist()):
        pairs = [(found.measured[name][k], found.errors[name][k]) for name in names]
        flags = int(k == found.chosen), int(low <= value <= high)
        numbers = (value, *flags, found.n_seeds, int(found.n_streamlines[k]))
        rows.append(tuple(map(cell, (*numbers, *(x for pair in pairs for x in pair)))))
    header = (found.name, "is_chosen", "is_flat", "n_seeds", "n_streamlines", *more)
    return Table(header, tuple(rows))


def lengths_table(names: Sequence[str], lengths_mm: Sequence[NDArray[np.float32]]) -> Table:
    """Return a row for each streamline of each bundle: which, and how long."""
    rows = [
        (name, str(number), cell(float(length)))
        for name, lengths in zip(names, lengths_mm, strict=True)
        for number, length in enumerate(lengths)
    ]
    return Table(("bundle", "streamline", "length_mm"), tuple(rows))


def cell(value: float) -> str:
    """Return a number as text, "" for none."""
    if isinstance(value, int | np.integer):
        return str(int(value))
    return "" if math.isnan(value) else f"{value:.{DIGITS}g}"
