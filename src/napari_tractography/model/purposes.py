"""Which algorithm for what, and what was measured of it: for the panel and the docs.

The figures are what ``python benchmarks/truth.py --half B --seeds 400`` printed; needs nothing.
"""

from __future__ import annotations

from dataclasses import dataclass


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

MEASURED_HOW = (
    "Bundles that are drawn, as FODs by constrained spherical deconvolution of a scan with noise "
    "(SNR 20): 400 seeds a truth, each tried once; ours at the settings that suit the FOD, the "
    "others at their defaults or as named. The last column has FODs of lobes with some noise, too. "
    "Valid and invalid connections in percent of the streamlines; standard errors are up to 2.5."
)
MEASURED_WHERE = (
    "ours Intel Xeon, 2026-11-28, the others AMD EPYC, 2026-11-26 and 27, 2 cores each, "
    "`python benchmarks/truth.py --half B --seeds 400`"
)
MEASURED_COLUMNS = (
    "crossing at 20",
    "45",
    "90 degrees",
    "kissing",
    "fan",
    "arc",
    "pass a slanted lesion",
    "mean of 20 truths",
)
# By what tracked; the lesion has one figure, of which 60 would be right.
MEASURED = (
    (
        "probabilistic",
        *("8 / 71", "75 / 3", "81 / 0", "77 / 3", "82 / 0", "58 / 0", "62", "71 / 4"),
    ),
    (
        "probabilistic, not by roundness",
        *("9 / 72", "62 / 20", "81 / 0", "76 / 4", "86 / 0", "58 / 0", "63", "68 / 9"),
    ),
    (
        "probabilistic, all lobes",
        *("10 / 72", "25 / 57", "81 / 0", "76 / 3", "85 / 0", "58 / 0", "63", "62 / 14"),
    ),
    (
        "probabilistic, two voxels ahead",
        *("11 / 73", "76 / 3", "79 / 0", "79 / 3", "85 / 0", "57 / 0", "65", "73 / 4"),
    ),
    (
        "probabilistic, a voxel ahead",
        *("8 / 59", "67 / 4", "70 / 0", "69 / 5", "74 / 0", "56 / 0", "55", "63 / 4"),
    ),
    (
        "probabilistic, not ahead",
        *("7 / 46", "49 / 2", "50 / 0", "48 / 4", "59 / 0", "30 / 0", "47", "45 / 3"),
    ),
    (
        "probabilistic, as iFOD1",
        *("8 / 48", "19 / 35", "52 / 0", "49 / 3", "58 / 0", "34 / 0", "46", "39 / 10"),
    ),
    ("sd_stream", *("0 / 80", "60 / 0", "78 / 0", "75 / 1", "84 / 0", "63 / 0", "55", "66 / 8")),
    ("transport", *("2 / 92", "83 / 7", "94 / 0", "92 / 3", "95 / 0", "86 / 0", "63", "85 / 4")),
    (
        "transport, a voxel ahead",
        *("2 / 93", "87 / 7", "96 / 0", "93 / 3", "97 / 0", "91 / 0", "68", "88 / 4"),
    ),
    (
        "transport, not ahead",
        *("0 / 80", "75 / 3", "77 / 0", "71 / 4", "80 / 0", "53 / 0", "54", "68 / 4"),
    ),
    (
        "transport, in all lobes",
        *("1 / 92", "78 / 12", "94 / 0", "93 / 2", "96 / 0", "86 / 0", "63", "79 / 10"),
    ),
    ("DIPY ptt", "13 / 48", "22 / 38", "58 / 2", "54 / 2", "60 / 0", "31 / 1", "52", "44 / 13"),
    ("tckgen iFOD1", "6 / 45", "20 / 27", "46 / 0", "47 / 4", "57 / 0", "23 / 0", "45", "38 / 8"),
    (
        "tckgen iFOD1, power 4",
        *("4 / 68", "31 / 40", "70 / 0", "68 / 2", "76 / 0", "50 / 1", "49", "56 / 10"),
    ),
    ("tckgen iFOD2", "8 / 36", "9 / 29", "37 / 0", "40 / 2", "41 / 1", "25 / 1", "38", "33 / 8"),
    (
        "tckgen iFOD2, power 4",
        *("4 / 66", "21 / 48", "64 / 0", "66 / 2", "67 / 1", "52 / 3", "51", "53 / 11"),
    ),
)
READING = (
    "Transport has most valid connections wherever bundles can be told apart. Where they cross at "
    "30 degrees they are one lobe with lmax 8; by its width 73% of transport's lines are valid "
    "there and 19% invalid, where 1% and 91% are if they turn to its top, and 42% and 28% of "
    "probabilistic ones, where 11% and 66% are. At 20 degrees the same holds without the noise of "
    "a scan, 85% and 10%, 67% and 13%. With it such a lobe is hardly wider than one of one bundle; "
    "lines come out in the other, and probabilistic ones that do not look ahead, as iFOD1's, are "
    "wrong less often, since fewer of them arrive at all. Of the slanted lesion 60% should be "
    "passed."
)
