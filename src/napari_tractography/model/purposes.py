"""Which algorithm for what, and what was measured of it: for the panel and the docs.

The figures are in ``measured.json``, which ``python benchmarks/truth.py --measured`` writes.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files


@dataclass(frozen=True, slots=True)
class Purpose:
    """What a person tracks for, and the algorithm that suits it."""

    name: str  # one or two words
    algorithm: str
    help: str  # the end of the sentence that begins with the name


PURPOSES = (
    Purpose("Connections", "transport", "where bundles end and which places are joined"),
    Purpose("Density", "probabilistic", "how much of the FOD runs where"),
    Purpose("As tckgen", "ifod2", "tckgen's own default, iFOD2"),
)


@dataclass(frozen=True, slots=True)
class Shares:
    """What became of the streamlines of one FOD of a truth, in whole per cent of them."""

    valid: int
    invalid: int
    passed: int | None = None  # a lesion, of those that came to it
    open: int | None = None  # of the seeds, those from which a straight line passes it

    def __str__(self) -> str:
        return f"{self.valid} / {self.invalid}"


@dataclass(frozen=True, slots=True)
class Measured:
    """What one algorithm, at some settings, gave of each FOD of the truths, and where and when."""

    where: str
    shares: Mapping[str, Shares]  # by "truth, kind"

    @property
    def mean(self) -> Shares:
        """The mean of all FODs."""
        own = self.shares.values()
        parts = ([each.valid for each in own], [each.invalid for each in own])
        return Shares(*(round(sum(part) / len(part)) for part in parts))


MEASURED_FILE = "measured.json"
MEASURED_SEEDS = 400  # a truth
MEASURED_BY = "python benchmarks/truth.py --measured"


@cache
def measured() -> dict[str, Measured]:
    """Return what was measured, by what tracked."""
    text = files(__package__).joinpath(MEASURED_FILE).read_text("utf-8")
    return {
        name: Measured(
            row["where"], {truth: Shares(*shares) for truth, shares in row["shares"].items()}
        )
        for name, row in json.loads(text).items()
    }


MEASURED_HOW = (
    "Bundles that are drawn, as FODs by constrained spherical deconvolution of a scan with noise "
    f"(SNR 20): {MEASURED_SEEDS} seeds a truth, each tried once; ours at the settings that suit "
    "the FOD, the others at their defaults or as named. The last column is the mean of all truths, "
    "with FODs of lobes with some noise, too. Valid and invalid connections in percent of the "
    "streamlines; standard errors are up to 2.5."
)
# The table's columns: a heading and the FOD of a truth.
TABLE_COLUMNS = {
    "crossing at 20": "crossing20, csd20",
    "45": "crossing45, csd20",
    "90 degrees": "crossing90, csd20",
    "kissing": "kissing90, csd20",
    "fan": "fanning, csd20",
    "arc": "arc, csd20",
}
LESION = "shear, csd20"  # of which the table has what passes
TABLE_HEADINGS = (*TABLE_COLUMNS, "pass a slanted lesion", "mean")
TABLE_ROWS = (
    "probabilistic",
    "probabilistic, a floor of 0.1",
    "probabilistic, not by roundness",
    "probabilistic, all lobes",
    "probabilistic, two voxels ahead",
    "probabilistic, a voxel ahead",
    "probabilistic, not ahead",
    "probabilistic, as iFOD1",
    "sd_stream",
    "transport",
    "transport, a voxel ahead",
    "transport, not ahead",
    "transport, in all lobes",
    "DIPY ptt",
    "tckgen iFOD1",
    "tckgen iFOD1, power 4",
    "tckgen iFOD2",
    "tckgen iFOD2, power 4",
)


def measured_table() -> list[tuple[str, ...]]:
    """Return the table's rows: what tracked, and a figure for each of `TABLE_HEADINGS`."""
    rows = []
    for name in TABLE_ROWS:
        own = measured()[name]
        cells = [str(own.shares[truth]) for truth in TABLE_COLUMNS.values()]
        rows.append((name, *cells, str(own.shares[LESION].passed), str(own.mean)))
    return rows


def measured_where(*names: str) -> str:
    """Return the machines and days on which some of the figures were measured, or all."""
    return "; ".join(sorted({measured()[name].where for name in names or TABLE_ROWS}))


def reading() -> str:
    """Return what the table says, in words."""

    def of(name: str, truth: str) -> str:
        shares = measured()[name].shares[truth]
        return f"{shares.valid}% and {shares.invalid}%"

    at_30 = measured()["transport"].shares["crossing30, csd20"]
    way = measured()["probabilistic"].shares[LESION].open
    return (
        "Transport has most valid connections wherever bundles can be told apart. Where they cross "
        "at 30 degrees they are one lobe with lmax 8. By its width, and by what lies further on "
        f"along both, {at_30.valid}% of transport's lines are valid there and {at_30.invalid}% "
        f"invalid, where {of('transport, in all lobes', 'crossing30, csd20')} are if they turn to "
        f"its top, and {of('probabilistic', 'crossing30, csd20')} of probabilistic ones, where "
        f"{of('probabilistic, not by roundness', 'crossing30, csd20')} are. At 20 degrees it is "
        f"{of('transport', 'crossing20, exact')}, and {of('probabilistic', 'crossing20, exact')}, "
        f"without the noise of a scan. With it, it is {of('transport', 'crossing20, csd20')}, and "
        f"{of('probabilistic', 'crossing20, csd20')}: some of a crossing is not seen, where lines "
        f"come out in the other bundle. The slanted lesion should be passed by {way}%, as it is on "
        "straight lines from these seeds."
    )
