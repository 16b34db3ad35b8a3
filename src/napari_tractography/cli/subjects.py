"""One recipe or project in the FODs of many subjects; called by :mod:`.replay`.

The table of results is also the record of what is done: what it names, and what is still there as
it was written, is left alone when the command runs again.
"""

from __future__ import annotations

import argparse
import csv
import dataclasses
import logging
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import FileError, InvalidParameterError, TractographyError
from ..files.subjects import SUBJECT, subjects_of
from .flags import warp_source
from .progress import made_bundle

if TYPE_CHECKING:
    from ..maps.bundle_measures import BundleMeasures
    from ..recipes.bundle import Bundle
    from ..recipes.image_sources import ImageReading
    from ..recipes.recipe import ReadFods, Recipe
    from ..recipes.sources import FodSource
    from ..tracking.inputs import Execution

logger = logging.getLogger(__name__)

TABLE = "tracts.csv"
# Columns besides the numbers: what the row is of, and what proves that it is done.
KEYS = ("subject", "bundle", "file")
PROOFS = ("digest", "inputs_sha256", "file_sha256")


def scalar_names(patterns: Sequence[str]) -> dict[str, str]:
    """Return scalar maps, with {subject} in their paths, by what they are called in the table.

    That is the name of the file without {subject}, or of its folder where nothing is left. Raises
    InvalidParameterError when two have one name.
    """
    found: dict[str, str] = {}
    for pattern in patterns:
        name = _scalar_name(pattern)
        if name in found:
            raise InvalidParameterError(
                f"--scalar {pattern} and --scalar {found[name]} would both be {name} in the "
                "table; rename one of the files."
            )
        found[name] = pattern
    return found


def _scalar_name(pattern: str) -> str:
    from ..maps.scalar_maps import name_of

    folders = [part for part in Path(pattern).parent.parts if part != Path(pattern).anchor]
    for part in (name_of(pattern), *reversed(folders)):
        if SUBJECT not in part:
            return part
        name = re.sub(rf"[._-]*{re.escape(SUBJECT)}", "", part).strip("._-")
        if name:
            return name
    return "scalar"


class ResultsTable:
    """The table of results, a row for each bundle of each subject, kept on the disk.

    A file that is there is read; raises FileError when it is another table.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.rows: dict[tuple[str, str], dict[str, str]] = {}
        if not path.exists():
            return
        try:
            with path.open(encoding="utf-8", errors="surrogateescape", newline="") as file:
                reader = csv.DictReader(file)
                rows, header = list(reader), reader.fieldnames
        except (OSError, csv.Error) as error:
            raise FileError(f"{path} cannot be read ({error}); give another --table.") from None
        if header is not None and not {*KEYS, *PROOFS} <= set(header):  # None: an empty file
            raise FileError(f"{path} is another table; give another --table.")
        # DictReader: None for cells that a row lacks, and under None those that it has besides.
        if any(None in row or None in row.values() for row in rows):
            raise FileError(
                f"{path} has a row that is longer or shorter than its header; remove that row, "
                "or give another --table."
            )
        self.rows = {(row["subject"], row["bundle"]): row for row in rows}

    def has(self, subject: str, bundle: str, inputs: str, out: Path) -> bool:
        """Tell whether a row was made of these inputs and its file is as it was written."""
        from ..files.hashing import sha256_of

        row = self.rows.get((subject, bundle))
        return (
            row is not None
            and row["inputs_sha256"] == inputs
            and row["file"] == str(out)
            and out.is_file()
            and row["file_sha256"] == sha256_of(out)
        )

    def add(self, row: dict[str, str]) -> None:
        """Take a row and write the table, whole or not at all."""
        from ..maps.spreadsheets import Table

        self.rows[row["subject"], row["bundle"]] = row
        names = dict.fromkeys(name for each in self.rows.values() for name in each)
        numbers = [name for name in names if name not in (*KEYS, *PROOFS)]
        header = (*KEYS, *numbers, *PROOFS)
        rows = tuple(
            tuple(self.rows[key].get(name, "") for name in header) for key in sorted(self.rows)
        )
        Table(header, rows).save(self.path)


def replay_subjects(
    options: argparse.Namespace,
    execution: Execution,
    bundles: Sequence[Bundle],
    targets: dict[str, str],
) -> int:
    """Make bundles that are tracked in the FOD of each subject; return the exit code.

    Targets are the file of each bundle, by its name, with {subject} in it. Raises FileError when
    some could not be made, after all others.
    """
    from ..files.hashing import sha256_of
    from ..maps.spreadsheets import cell
    from ..recipes.recipe import Recipe

    subjects = subjects_of(options.fod)
    scalars = scalar_names(options.scalar)
    table = ResultsTable(Path(options.table))
    tracked = [bundle for bundle in bundles if bundle.is_tracked]
    n_there = n_failed = 0
    for subject in subjects:
        fods: ReadFods = {}  # so that the FOD is read once for all, and only if it is needed
        hashes: dict[ImageReading | None, str] = {}  # of the FOD, or of a part of an image
        for bundle in tracked:
            assert isinstance(bundle.source, Recipe)
            who = f"{subject.name}: {bundle.name}"
            out = Path(targets[bundle.name].replace(SUBJECT, subject.name))
            maps = {
                name: Path(path.replace(SUBJECT, subject.name)) for name, path in scalars.items()
            }
            try:
                source = fod_source(subject.fod, bundle.source)
                if source.image not in hashes:
                    hashes[source.image] = source.sha256_now()
                warp = warp_source(options, subject=subject.name, hashed=True)
                source = dataclasses.replace(source, sha256=hashes[source.image])
                transferred = bundle.on_fod(source, warp)
                assert isinstance(transferred.source, Recipe)
                inputs = transferred.source.inputs_sha256(maps)
                if table.has(subject.name, bundle.name, inputs, out):
                    n_there += 1
                    continue
                transferred.fods = fods
                measures = _track_and_write(options, execution, transferred, out, maps)
            except TractographyError as error:
                print(f"{who}: {error}", file=sys.stderr)
                n_failed += 1
                continue
            keys = subject.name, bundle.name, str(out)
            proofs = transferred.digest, inputs, sha256_of(out)
            table.add(
                {
                    **dict(zip(KEYS, keys, strict=True)),
                    **{name: cell(number) for name, number in measures.numbers.items()},
                    **dict(zip(PROOFS, proofs, strict=True)),
                }
            )
            if not options.quiet:
                print(f"{who}: {measures.n_streamlines} streamlines; written to {out}")
    n_all = len(subjects) * len(tracked)
    if not options.quiet:
        print(
            f"{n_all - n_there - n_failed} bundles of {len(subjects)} subjects made, {n_there} "
            f"were there; table {table.path}"
        )
    if n_failed:
        raise FileError(f"{n_failed} of {n_all} bundles could not be made; the others are there.")
    return 0


def _track_and_write(
    options: argparse.Namespace,
    execution: Execution,
    bundle: Bundle,
    out: Path,
    maps: dict[str, Path],
) -> BundleMeasures:
    from ..maps.bundle_measures import measure
    from ..maps.scalar_maps import ScalarMap
    from ..recipes.recipe import Recipe

    assert isinstance(bundle.source, Recipe)
    inputs, tracked, backend = made_bundle(options, execution, bundle, bundle.source)
    if not len(tracked):  # a row of the table like any other
        logger.warning("%s: %s", out, tracked.why_empty())
    tractogram = bundle.tractogram()
    scalars = [dataclasses.replace(ScalarMap.load(path), name=name) for name, path in maps.items()]
    grid = tractogram.grid or inputs.fod.grid  # of a warp, or the subject's own
    measures = measure(tractogram, scalars, grid=grid, name=bundle.name)
    made_folder(out.parent, parents=True)
    sidecar = sidecar_path(options, out)
    tractogram.save(out, reference=grid, data_beside=options.data_beside)
    if sidecar is not None:
        assert isinstance(bundle.source, Recipe)
        bundle.source.with_result(tractogram, backend).save(sidecar, bids_sidecar=True)
    return measures


def made_folder(folder: Path, *, parents: bool = False) -> Path:
    """Return a folder that is there from now on. Raises FileError when it cannot be made."""
    try:
        folder.mkdir(parents=parents, exist_ok=True)
    except OSError as error:
        raise FileError(
            f"{folder} cannot be made a folder ({error.strerror or error}); choose another."
        ) from None
    return folder


def sidecar_path(options: argparse.Namespace, out: str | Path | None) -> Path | None:
    """Return where the BIDS sidecar of a tractogram goes; None where there is none.

    Raises FileError when something else is there already.
    """
    from ..files.paths import check_apart
    from ..recipes.codec import is_recipe
    from ..recipes.recipe import ENDING

    if out is None or not options.bids_sidecar:
        return None
    path = Path(out).with_suffix(ENDING)
    check_apart(path, read=(options.recipe,))
    if path.exists() and not is_recipe(path):
        raise FileError(f"{path} exists and is no recipe; give another name for the output.")
    return path


def fod_source(path: str | Path, recipe: Recipe) -> FodSource:
    """Return an FOD that is to be read as a recipe's, or as its image."""
    from ..files.image_files import existing_image, is_remote
    from ..files.servers import allow_server

    if recipe.fod.image is not None:
        if is_remote(path):
            allow_server(str(path))
        location = str(path) if is_remote(path) else str(existing_image(path).absolute())
        return dataclasses.replace(recipe.fod, path=location, sha256="", phantom="")
    return recipe.fod.other(path)
