"""``napari-tractography replay``: the streamlines of a recipe or a project, made again."""

from __future__ import annotations

import argparse
import re
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import FileError, InvalidParameterError, InvalidSeedsError, TractographyError
from ..files.formats import (
    check_text_name,
    default_ending,
    grid_endings,
    listed,
    tractogram_endings,
    written_tractogram_format,
)
from ..files.subjects import SUBJECT, is_pattern
from .flags import (
    add_bids_sidecar,
    add_data_beside,
    add_execution,
    add_path,
    add_warp,
    execution_of,
    warp_source,
    written_help,
)
from .progress import made_bundle, print_result, track_with_progress
from .subjects import TABLE, fod_source, made_folder, replay_subjects, sidecar_path

if TYPE_CHECKING:
    from ..recipes.bundle import Bundle
    from ..tracking.inputs import Execution

EXIT_NOT_THE_SAME = 1
FORMAT = "trk"
UNSAFE = re.compile(r"[^\w.+-]+")  # in names of files
DEVICES = re.compile(r"(con|prn|aux|nul|com\d|lpt\d)(\.|$)", re.IGNORECASE)  # of Windows
NOT_COMPARED = "tracked in another FOD, so that digests are not compared"


HELP = "make the streamlines of a recipe or a project again"
DESCRIPTION = (
    "Make the streamlines of a recipe, or of all bundles of a project, again, and "
    "compare inputs and result with what they were. Exits with 1 when streamlines are others."
)


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Add the flags of the sub-command."""
    add_path(
        parser,
        "recipe",
        "RECIPE|PROJECT",
        ".json, as `track` writes it, or .tracts.json, as a project is saved",
    )
    add_path(
        parser,
        "-o --out",
        "OUT",
        f"of a recipe: {written_help()}; of a project: folder for a tractogram of each bundle",
    )
    parser.add_argument(
        "--format",
        metavar="|".join(ending[1:] for ending in tractogram_endings()),
        help=f"of the tractograms of a project; {listed(grid_endings())} holds no streamlines of "
        f"bundles from a file without a grid, which become {default_ending()} (default {FORMAT})",
    )
    add_path(
        parser,
        "--fod",
        "FOD",
        "track in this FOD instead, such as another subject's in the same space; results are "
        "then not compared, and edits by streamline number left out. A pattern in quotes, such as "
        f'"sub-*/wmfod.nii.gz", is many subjects: then -o has {SUBJECT} in it, and what is there '
        "already is left alone",
    )
    add_path(
        parser,
        "--table",
        "OUT.csv",
        "of many subjects: a row for each bundle, with count, lengths and volume; also tells "
        f"what is done (default {TABLE})",
        default=TABLE,
    )
    add_path(
        parser,
        "--scalar",
        "IMAGE",
        f'of many subjects: scalar map for the table, such as "{SUBJECT}/fa.nii.gz"; named '
        f"by its file without {SUBJECT}, or by its folder where no more is left of the name; may "
        "be repeated",
        action="append",
        default=[],
    )
    parser.add_argument(
        "--allow-server",
        metavar="ADDRESS",
        action="append",
        default=[],
        help="server that may be contacted where RECIPE or PROJECT names images on it, such as "
        "https://example.org; may be repeated",
    )
    add_data_beside(parser)
    add_bids_sidecar(parser, "write OUT.json beside each tractogram that is tracked: the")
    add_warp(
        parser,
        "with --fod: from the space of that FOD to that of the recipe's seeds and regions, in "
        f"place of the recipe's own warp; of many subjects, with {SUBJECT} in it",
    )
    add_execution(parser)


def run(options: argparse.Namespace) -> int:
    """Track again and compare; return the exit code."""
    from ..files.servers import allow_server
    from ..recipes.project import is_project

    for address in options.allow_server:
        allow_server(address)
    with execution_of(options) as execution:
        _check_flags(options, is_project=is_project(options.recipe))
        if is_pattern(options.fod):
            return _replay_subjects(options, execution)
        if is_project(options.recipe):
            return _replay_project(options, execution)
        return _replay_recipe(options, execution)


def _check_flags(options: argparse.Namespace, *, is_project: bool) -> None:
    """Refuse flags that would be of no effect."""
    if options.format is not None and not is_project:
        raise InvalidParameterError(
            f"--format {options.format} is of projects, and {options.recipe} is a recipe; the "
            "ending of -o says the format."
        )
    if options.warp and not options.fod:
        raise InvalidParameterError(
            f"--warp {options.warp[0]} belongs to another FOD; give --fod too, or leave it out."
        )
    if not options.warp:
        warp_source(options)  # which refuses other flags of it
    for flag in ("--bids-sidecar", "--data-beside"):
        if getattr(options, flag[2:].replace("-", "_")) and not options.out:
            raise InvalidParameterError(
                f"{flag} is written beside the tractogram; give -o as well."
            )
    if is_pattern(options.fod):
        return
    unused = [f"--scalar {path}" for path in options.scalar]
    unused += [f"--table {options.table}"] if options.table != TABLE else []
    if unused:
        raise InvalidParameterError(
            f"{unused[0]} is for many subjects; give --fod a pattern such as "
            '"sub-*/wmfod.nii.gz", or use `measure` for what was made.'
        )


def _replay_subjects(options: argparse.Namespace, execution: Execution) -> int:
    from ..files.paths import check_writable
    from ..files.tractograms import check_target
    from ..recipes.bundle import Bundle
    from ..recipes.project import Project, is_project
    from ..recipes.recipe import Recipe

    if not options.out or SUBJECT not in options.out:
        wrong = (
            f"-o {options.out} would be the same for all subjects"
            if options.out
            else "-o is missing"
        )
        raise FileError(f'{wrong}; give a name with {SUBJECT} in it, such as "{SUBJECT}/tracts".')
    check_text_name(options.table)
    check_writable(options.table)
    if is_project(options.recipe):
        ending = _format_of(options)
        bundles = list(Project.load(options.recipe).bundles.values())
        names = file_names(bundle.name for bundle in bundles)
        targets = {
            bundle.name: str(Path(options.out) / (name + ending))
            for bundle, name in zip(bundles, names, strict=True)
        }
    else:
        check_target(Path(options.out).name)
        bundles = [Bundle(Path(options.recipe).stem, Recipe.load(options.recipe))]
        targets = {bundles[0].name: options.out}
    return replay_subjects(options, execution, bundles, targets)


def _replay_recipe(options: argparse.Namespace, execution: Execution) -> int:
    from ..files.paths import check_apart
    from ..files.tractograms import check_target
    from ..recipes.recipe import Recipe
    from ..tracking.report import Report

    if options.out:
        check_target(options.out)
    recipe = Recipe.load(options.recipe)
    check_apart(options.out, read=(recipe.weights.path,) if recipe.weights else ())
    if options.fod:
        recipe = recipe.on_fod(fod_source(options.fod, recipe), warp_source(options))
    sidecar = sidecar_path(options, options.out)
    inputs, source = recipe.read(hashed=sidecar is not None)
    start = time.perf_counter()
    report = Report()
    tracked = track_with_progress(options, inputs, execution, report)
    seconds = time.perf_counter() - start
    tractogram = recipe.edit(recipe.weighted(tracked))
    same = recipe.check(tractogram, report.backend)
    if not len(tracked) and not (recipe.digest and same):
        raise InvalidSeedsError(tracked.why_empty() + " Nothing was written.")
    if options.out:
        grid = tractogram.grid or inputs.fod.grid  # of a warp, or the FOD's
        tractogram.save(options.out, reference=grid, data_beside=options.data_beside)
    if sidecar is not None:
        source.with_result(tractogram, report.backend).save(sidecar, bids_sidecar=True)
    if not options.quiet:
        print_result(tracked, recipe.parameters, seconds, report)
        if recipe.edits:
            print(f"{len(tractogram)} streamlines after edits, digest {tractogram.digest()}")
        if options.fod:
            print(NOT_COMPARED)
        if recipe.digest:
            print(
                "the same streamlines as the recipe's" if same else "not the recipe's streamlines"
            )
        if options.out:
            print(f"written to {options.out}")
    return 0 if same else EXIT_NOT_THE_SAME


def _replay_project(options: argparse.Namespace, execution: Execution) -> int:
    """Make all bundles, one after the other; each is dropped from memory when it is written."""
    from ..files.paths import at_home, check_apart
    from ..recipes.project import Project

    ending = _format_of(options)
    project = Project.load(options.recipe)
    read = tuple(project.files())
    folder = None if options.out is None else made_folder(at_home(options.out))
    n_others = n_failed = 0
    for name, file_name in zip(project.bundles, file_names(project.bundles), strict=True):
        bundle = project.bundles[name]
        if options.fod and not bundle.is_tracked:
            print(f"{name}: from a file of streamlines, not tracked; left out")
            continue
        try:
            out = None if folder is None else folder / (file_name + _ending_for(bundle, ending))
            check_apart(out, read=read)  # of a bundle from a file in that folder
            n_others += not _replay_bundle(options, execution, bundle, out)
        except TractographyError as error:
            n_failed += 1
            print(f"{name}: {error}", file=sys.stderr)
        bundle.forget()  # what is written needs no memory any more
    if n_failed:
        raise FileError(f"{n_failed} of {len(project.bundles)} bundles could not be made.")
    if not options.quiet and options.fod:
        print(NOT_COMPARED)
    return EXIT_NOT_THE_SAME if n_others else 0


def _replay_bundle(
    options: argparse.Namespace, execution: Execution, bundle: Bundle, out: Path | None
) -> bool:
    """Make a bundle and write it; tell whether it is what it was, or not known to be another."""
    from ..recipes.recipe import Recipe

    grid = sidecar = None
    if options.fod and isinstance(bundle.source, Recipe):
        bundle = bundle.on_fod(fod_source(options.fod, bundle.source), warp_source(options))
    if isinstance(bundle.source, Recipe):
        inputs, tracked, backend = made_bundle(options, execution, bundle, bundle.source)
        if not len(tracked) and not bundle.is_proven:
            raise InvalidSeedsError(tracked.why_empty() + " Nothing was written.")
        grid, sidecar = inputs.fod.grid, sidecar_path(options, out)
    tractogram = bundle.tractogram()
    if out is not None:
        # Of a file, of a warp, or the FOD's.
        reference = tractogram.grid or grid
        tractogram.save(out, reference=reference, data_beside=options.data_beside)
    if sidecar is not None and isinstance(bundle.source, Recipe):
        bundle.source.with_result(tractogram, backend).save(sidecar, bids_sidecar=True)
    if not options.quiet:
        verdict = {None: "", True: ", the same as the project's", False: ", not the project's"}
        where = "" if out is None else f"; written to {out}"
        print(f"{bundle.name}: {len(tractogram)} streamlines{verdict[bundle.is_proven]}{where}")
    return bundle.is_proven is not False


def _format_of(options: argparse.Namespace) -> str:
    """Return the ending that --format names. Raises FileError when there is no such format."""
    ending = "." + (options.format or FORMAT).lstrip(".")
    if ending not in tractogram_endings():
        raise FileError(
            f"--format {options.format} is unknown; choose one of "
            f"{', '.join(name[1:] for name in tractogram_endings())}."
        )
    return str(ending)


def file_names(names: Iterable[str]) -> list[str]:
    """Return names of files, without ending, for names of bundles: safe, and no two the same."""
    taken: set[str] = set()
    found = []
    for name in names:
        wanted = UNSAFE.sub("_", name).strip("._") or "bundle"
        safe = wanted = f"bundle-{wanted}" if DEVICES.match(wanted) else wanted
        number = 1
        while safe.lower() in taken:  # some disks do not tell small from large letters
            number += 1
            safe = f"{wanted}-{number}"
        taken.add(safe.lower())
        found.append(safe)
    return found


def _ending_for(bundle: Bundle, ending: str) -> str:
    """Return the ending for a bundle: of some files there is no grid, which some formats need."""
    if bundle.is_tracked or not written_tractogram_format(ending).needs_grid:
        return ending
    return default_ending() if bundle.tractogram().grid is None else ending
