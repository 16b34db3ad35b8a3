"""Files of many subjects, by a pattern; called by the command and :mod:`..recipes.cohort`."""

from __future__ import annotations

import glob
from dataclasses import dataclass
from pathlib import Path

from ..errors import FileError

SUBJECT = "{subject}"  # in names of outputs, warps and scalar maps


@dataclass(frozen=True, slots=True)
class Subject:
    """A subject and the FOD of it."""

    name: str
    fod: Path


def is_pattern(fod: str | None) -> bool:
    """Tell whether a text names many files."""
    return fod is not None and glob.has_magic(fod) and not Path(fod).exists()


def subjects_of(pattern: str) -> list[Subject]:
    """Return the files that a pattern matches, with what tells them apart as their names.

    That is each folder that a wildcard matched, and of a file's name what is before its fixed end.
    Raises FileError when there are none, or two have one name.
    """
    parts = Path(pattern).parts
    found = []
    for match in sorted(glob.glob(pattern)):
        names = [
            name for part, name in zip(parts[:-1], Path(match).parts, strict=False)
            if glob.has_magic(part)
        ]  # fmt: skip
        if glob.has_magic(parts[-1]):
            fixed = parts[-1].rpartition("*")[2].rpartition("]")[2].rpartition("?")[2]
            names.append(Path(match).name.removesuffix(fixed).strip("._-"))
        found.append(Subject("_".join(names), Path(match)))
    if not found:
        raise FileError(f"{pattern} matches no file; check the path, and quote the pattern.")
    twice = {one.name for one in found if sum(one.name == other.name for other in found) > 1}
    if twice:
        raise FileError(
            f"{pattern} matches more than one FOD of {sorted(twice)[0]}; make it narrower."
        )
    return found
