"""Flags that are not known, and which of ours may have been meant; called by :mod:`.command`."""

from __future__ import annotations

import argparse
import difflib
import re
from collections.abc import Sequence

from ..errors import InvalidParameterError

# Options of MRtrix3's tckgen for which ours have other names; docs/tckgen.md has them all.
OF_TCKGEN = {
    "--act": "--tissues",
    "--angle": "--max-angle",
    "--cutoff": "--min-amplitude",
    "--downsample": "--record-every",
    "--include-ordered": "--include-rule",
    "--seed-cutoff": "--min-amplitude",
    "--seed-gmwmi": "--seed-interface",
    "--seed-image": "--seed-mask",
    "--seed-random-per-voxel": "--seeds-per-voxel",
    "--seed-rejection": "--seed-fod",
    "--seed-unidirectional": "--direction",
    "--seeds": "--max-seeds",  # which says what to give where nothing is selected
}
ALIKE = 0.8  # of names that differ by a letter, an underscore or a dash


def refuse_unknown(unknown: Sequence[str], parser: argparse.ArgumentParser) -> None:
    """Raise where a sub-command does not know all arguments that its parser left, with what was
    meant.
    """
    if not unknown:
        return
    flags = set(re.findall(r"--[a-z][a-z-]*", parser.format_usage()))
    found = [word.partition("=")[0] for word in unknown if word.startswith("-")]
    pairs = [(word, ours) for word in found if (ours := _meant(word, flags))]
    hints = "".join(f"; for {word} give {ours}" for word, ours in pairs)
    raise InvalidParameterError(
        f"unrecognized arguments: {' '.join(unknown)}{hints}; see {parser.prog} --help."
    )


def _meant(word: str, flags: set[str]) -> str:
    """Return the flag that is meant by one that is not known, or ""."""
    spelt = f"--{word.lstrip('-').lower().replace('_', '-')}"
    ours = OF_TCKGEN.get(spelt, "")
    if ours in flags:
        return ours
    alike = difflib.get_close_matches(spelt, flags, 1, ALIKE)
    return alike[0] if alike else ""
