"""Files whose right reading is known, and whether ``coherence`` finds it.

FODs of the phantoms and of the data folder are given noise, turned, written in other bases and
with swapped or flipped axes; volumes that are no FOD stand beside them (see
``coherence_cases.py``). Every case is read as tournier07 in scanner axes. The answer is

- *right*: the true reading is not rejected, and the one in use is rejected if it is another; for
  a volume that is no FOD, that the voxels do not tell;
- *undecided*: neither the true reading is rejected nor the one in use, which is another, or the
  voxels do not tell;
- *wrong*: anything else.

Run it in a checkout with the data folder beside it; what is absent is skipped, with a reason::

    python benchmarks/coherence.py [--random-seed N] [--only REGEX]
"""

from __future__ import annotations

import argparse
import logging
import re
from collections import Counter, defaultdict

from coherence_cases import Case, cases
from napari_tractography.maps.coherence import Coherence, coherence
from napari_tractography.maps.fod_readings import ReadingKey

OUTCOMES = ("right", "undecided", "wrong", "skipped")


def outcome(case: Case, found: Coherence) -> str:
    """Return "right", "undecided" or "wrong"."""
    silent = "do not tell" in found.verdict
    if case.basis is None:
        return "right" if silent else "wrong"
    if silent:
        return "undecided"
    words = ReadingKey(case.basis, "scanner", case.axes).text
    (truth,) = (r for r in found.readings if words == r.text or words in r.same_as)
    if not truth.is_tied:
        return "wrong"
    return "right" if truth is found.in_use or not found.fits else "undecided"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--random-seed", type=int, default=0, help="of noise and rotations")
    parser.add_argument("--only", default="", help="regular expression that labels must contain")
    options = parser.parse_args()
    logging.disable(logging.WARNING)  # empty voxels of the template

    table: dict[str, Counter[str]] = defaultdict(Counter)
    for case in cases(options.random_seed):
        if not re.search(options.only, case.label):
            continue
        try:
            fod = case.make()
        except FileNotFoundError as error:
            table[case.group]["skipped"] += 1
            print(f"skipped    {case.label}: {error}", flush=True)
            continue
        found = coherence(fod)
        result = outcome(case, found)
        table[case.group][result] += 1
        if result != "right":
            print(f"{result:<10} {case.label}: {found.verdict}", flush=True)
    print(f"\n| | {' | '.join(OUTCOMES)} |\n|---|{'---:|' * len(OUTCOMES)}")
    for group, counts in table.items():
        print(f"| {group} | {' | '.join(str(counts[name]) for name in OUTCOMES)} |")
    total: Counter[str] = sum(table.values(), Counter())
    print(f"| all | {' | '.join(str(total[name]) for name in OUTCOMES)} |")


if __name__ == "__main__":
    main()
