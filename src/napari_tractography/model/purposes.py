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
    "ours AMD EPYC and Intel Xeon, 2026-11-29, the others AMD EPYC, 2026-11-26 and 27, 2 cores, "
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
        *("65 / 20", "79 / 6", "89 / 0", "87 / 3", "87 / 0", "75 / 0", "65", "81 / 2"),
    ),
    (
        "probabilistic, a floor of 0.1",
        *("62 / 19", "76 / 7", "86 / 0", "84 / 2", "86 / 0", "74 / 0", "66", "79 / 2"),
    ),
    (
        "probabilistic, not by roundness",
        *("9 / 80", "62 / 22", "88 / 0", "88 / 2", "89 / 0", "73 / 0", "64", "75 / 9"),
    ),
    (
        "probabilistic, all lobes",
        *("9 / 73", "18 / 61", "78 / 0", "76 / 2", "81 / 0", "64 / 0", "62", "60 / 15"),
    ),
    (
        "probabilistic, two voxels ahead",
        *("70 / 20", "86 / 6", "93 / 0", "91 / 2", "93 / 0", "71 / 0", "72", "86 / 2"),
    ),
    (
        "probabilistic, a voxel ahead",
        *("63 / 19", "78 / 5", "86 / 0", "79 / 3", "82 / 0", "71 / 0", "61", "78 / 2"),
    ),
    (
        "probabilistic, not ahead",
        *("42 / 20", "57 / 4", "58 / 0", "55 / 3", "61 / 0", "37 / 0", "49", "49 / 2"),
    ),
    (
        "probabilistic, as iFOD1",
        *("7 / 54", "18 / 38", "52 / 0", "51 / 3", "61 / 0", "31 / 0", "45", "40 / 11"),
    ),
    ("sd_stream", *("0 / 81", "61 / 0", "80 / 0", "77 / 1", "85 / 0", "63 / 0", "55", "67 / 8")),
    ("transport", *("80 / 11", "85 / 7", "94 / 0", "94 / 2", "94 / 0", "85 / 0", "63", "88 / 2")),
    (
        "transport, a voxel ahead",
        *("84 / 10", "88 / 7", "97 / 0", "96 / 2", "92 / 0", "88 / 0", "68", "91 / 1"),
    ),
    (
        "transport, not ahead",
        *("53 / 25", "76 / 4", "79 / 0", "75 / 3", "77 / 0", "60 / 0", "54", "71 / 2"),
    ),
    (
        "transport, in all lobes",
        *("1 / 92", "80 / 12", "95 / 0", "95 / 1", "97 / 0", "86 / 0", "63", "80 / 10"),
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
    "30 degrees they are one lobe with lmax 8. By its width, and by what lies further on along "
    "both, 90% of transport's lines are valid there and 2% invalid, where 1% and 93% are if they "
    "turn to its top, and 80% and 3% of probabilistic ones, where 7% and 80% are. At 20 degrees "
    "it is 89% and 5%, and 80% and 3%, without the noise of a scan. With it, it is 79% and 15%, "
    "and 63% and 21%: some of a crossing is not seen, where lines come out in the other bundle. Of "
    "the slanted lesion 60% should be passed."
)
