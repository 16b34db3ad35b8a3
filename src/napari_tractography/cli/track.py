"""``napari-tractography track``: streamlines, and the recipe that makes them again.

The flags of the tracking parameters are derived from their descriptions.
"""

from __future__ import annotations

import argparse
import logging
import time
from dataclasses import replace
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import FileError, InvalidParameterError, InvalidSeedsError, TractographyError
from ..files.description import FLOAT16, FLOAT32
from ..files.formats import all_dtypes, dtype_endings, listed, tractogram_endings
from ..model.algorithms import users_of
from ..model.parameters import WITH_TISSUES, ParameterSpec, TrackingParameters, parameter_specs
from ..model.seeding_parameters import seeding_specs
from .flags import (
    REGION_FLAGS,
    add_bids_sidecar,
    add_execution,
    add_fod,
    add_path,
    add_regions,
    add_warp,
    count,
    execution_of,
    path_and_label,
    reading_of,
    region_source,
    region_sources,
    sphere_numbers,
    warn_of_reading,
    warp_source,
    written_help,
)
from .progress import chunks_with_progress, print_result

logger = logging.getLogger(__name__)

if TYPE_CHECKING:
    from ..recipes.edits import Edit
    from ..recipes.recipe import Recipe
    from ..recipes.sources import RegionSource, SeedSource
    from ..recipes.volume_sources import VolumeSource
    from ..recipes.warp_sources import WarpSource
    from ..tracking.inputs import Execution

N_SEEDS = next(spec.default for spec in seeding_specs() if spec.name == "n_per_seed")


HELP = "track streamlines and save them"
DESCRIPTION = (
    "Track streamlines in an FOD. Step, cone, floor and lengths suit its voxels "
    "and amplitudes unless they are given. A recipe, OUT with the ending .json, is written "
    "beside the streamlines, from which `replay` makes them again."
)


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Add the flags of the sub-command."""
    add_fod(parser)
    add_path(parser, "-o --out", "OUT", written_help(), required=True)
    parser.add_argument(
        "--dtype",
        default=FLOAT32,
        metavar="|".join(all_dtypes()),
        help=f"points of a {listed(dtype_endings(FLOAT16))} file; float16 takes half the "
        "room and is off by up to 0.03 mm at 100 mm from the origin (default float32)",
    )
    parser.add_argument(
        "--compress",
        type=float,
        metavar="MM",
        help="leave out points within this distance of the line between those that stay",
    )
    parser.add_argument("--no-recipe", action="store_true", help="write no recipe beside OUT")
    add_bids_sidecar(parser, "write the recipe as")
    add_path(
        parser,
        "--mask",
        "IMAGE",
        "stay where this image is not zero, or in one label of it, IMAGE:12",
    )
    add_path(
        parser,
        "--tissues",
        "5TT",
        "tissue image: five volumes as 5ttgen writes them, or FreeSurfer's labels; "
        "streamlines then end in grey matter, and those that cannot are discarded",
    )
    _add_seeds(parser)
    add_regions(parser, REGION_FLAGS)
    add_warp(
        parser,
        "seeds and regions lie in another space, such as a template's, to which FILE leads from "
        "the space of the FOD; --mask and --tissues do not",
    )
    add_path(
        parser,
        "--to-template",
        "IMAGE",
        "with --warp: save streamlines in that other space, of which this is an image, and not in "
        "the FOD's",
    )
    add_execution(parser)
    group = parser.add_argument_group("tracking parameters")
    for spec in parameter_specs():
        add_parameter_flag(group, spec)


def _add_seeds(parser: argparse.ArgumentParser) -> None:
    seeds = parser.add_mutually_exclusive_group()
    add_path(
        seeds,
        "--seed-mask",
        "IMAGE",
        "seed where this image is not zero, or in one label of it, IMAGE:12",
    )
    seeds.add_argument(
        "--seed-sphere",
        metavar="x,y,z,r[,n]",
        action="append",
        help="seed in a sphere: RAS+ mm, radius, and how many streamlines if not --n-seeds; may be "
        "repeated",
    )
    add_path(
        seeds,
        "--seed-points",
        "FILE",
        "seed once at each position of a text file: x y z in mm (RAS+) in each row, and a "
        "direction after them where it is known",
    )
    seeds.add_argument(
        "--seed-fod", action="store_true", help="seed everywhere in proportion to the FOD"
    )
    seeds.add_argument(
        "--seed-interface",
        action="store_true",
        help="seed on the interface of grey and white matter of --tissues",
    )
    add_path(
        seeds,
        "--between",
        "REGION",
        "given twice: seed in each of two regions, for streamlines that end in the other, as "
        "many as --select says; a region as below",
        action="append",
    )
    parser.add_argument(
        "--n-seeds",
        type=count,
        metavar="N",
        help=f"streamlines to start, in each sphere if there are several (default {N_SEEDS})",
    )
    parser.add_argument(
        "--seeds-per-voxel",
        type=count,
        metavar="N",
        help="streamlines to start in each voxel of --seed-mask, instead of --n-seeds",
    )
    parser.add_argument(
        "--seeds-by",
        default="list",
        metavar="list|voxel",
        help="what seeds of --seed-mask depend on: their number in the list of its voxels, or, by "
        "voxel, their voxel alone, so that a mask that changes by a voxel changes the streamlines "
        "of that voxel (default list)",
    )
    parser.add_argument(
        "--select",
        type=count,
        metavar="N",
        help="draw seeds until N streamlines are accepted, instead of --n-seeds",
    )
    parser.add_argument(
        "--max-seeds",
        type=count,
        metavar="N",
        help="with --select, give up after so many seeds (default 1000 for each streamline)",
    )


def add_parameter_flag(group: Any, spec: ParameterSpec) -> None:
    """Add the flag of one parameter to a parser."""
    unit = f" [{spec.unit}]" if spec.unit else ""
    default = f"{spec.default:g}" if isinstance(spec.default, float) else str(spec.default)
    default = spec.by_fod or default
    extra: dict[str, Any] = {}
    if isinstance(spec.default, bool):
        extra["action"] = argparse.BooleanOptionalAction
    else:
        extra["type"] = spec.type
        extra["metavar"] = "|".join(spec.choices) or ("N" if spec.unit == "" else spec.unit.upper())
    group.add_argument(
        spec.flag,
        dest=f"parameter_{spec.name}",
        default=None,
        help=f"{spec.help.replace('%', '%%')}{unit} (default {default})",
        **extra,
    )


def chosen_parameters(options: argparse.Namespace) -> dict[str, Any]:
    """Return the tracking parameters among the flags; the FOD decides the others.

    Choices are taken in any case: tckgen has iFOD2 and SD_STREAM. Raises InvalidParameterError when
    a value is out of its range or is no choice.
    """
    values = {spec: getattr(options, f"parameter_{spec.name}") for spec in parameter_specs()}
    return {
        spec.name: spec.check(value.lower() if spec.choices else value)
        for spec, value in values.items()
        if value is not None
    }


def run(options: argparse.Namespace) -> int:
    """Track and write; return the exit code."""
    with execution_of(options) as execution:
        return _track(options, execution)


def _track(options: argparse.Namespace, execution: Execution) -> int:
    """Track, write streamlines as they come, and the recipe; print the result."""
    from ..files.tractograms import check_target
    from ..files.volume_files import load_grid
    from ..model.defaults import has_effect, suited_to
    from ..recipes.recipe import Recipe
    from ..recipes.sources import FodSource
    from ..recipes.tissue_sources import TissueSource
    from ..streamlines.streaming import check_points, save_chunks, warped_chunks
    from ..tracking.report import Report

    chosen = chosen_parameters(options)
    _check_counts(options)
    if options.bids_sidecar and options.no_recipe:
        raise InvalidParameterError(
            "--bids-sidecar writes the recipe into the sidecar; leave --no-recipe out."
        )
    random_seed = chosen.get("random_seed", TrackingParameters().random_seed)
    check_target(options.out)  # before the work, not after it
    check_points(options.dtype, Path(options.out).suffix.lower(), options.compress)
    recipe_path = None if options.no_recipe else _recipe_path(options.out)
    warp = warp_source(options, hashed=recipe_path is not None)
    to_template = _to_template(options, warp)
    named = Recipe(
        fod=FodSource.file(options.fod, **reading_of(options), hashed=False),
        seeds=_seed_sources(options, random_seed),
        mask=_mask_source(options.mask) if options.mask else None,
        regions=region_sources(options, REGION_FLAGS),
        include_rule=options.include_rule,
        tissues=TissueSource.file(options.tissues, hashed=False) if options.tissues else None,
        select=options.select,
        max_seeds=options.max_seeds,
        between=_ends(options),
        warp=warp,
        edits=() if to_template is None else (to_template,),
    )
    inputs, recipe = named.read(hashed=recipe_path is not None)
    warn_of_reading(options, inputs.fod)
    with_tissues, kind = inputs.tissues is not None, inputs.fod.input_kind
    parameters = TrackingParameters.for_fod(inputs.fod, with_tissues=with_tissues, **chosen)
    inputs = replace(inputs, parameters=parameters)
    recipe = replace(recipe, parameters=parameters)
    if recipe_path is not None:
        _check_shared(recipe, recipe_path, options.out)
    for spec in parameter_specs():
        if chosen.get(spec.name) and spec.name in WITH_TISSUES and not with_tissues:
            logger.warning("%s has no effect without --tissues.", spec.flag)
        if spec.name in chosen and not parameters.uses(spec.name):
            users = " and ".join(row.name for row in users_of(spec.name))
            logger.warning(
                "%s has no effect with the algorithm %s, but with %s.",
                spec.flag, parameters.algorithm, users,
            )  # fmt: skip
        elif chosen.get(spec.name) and not has_effect(spec.name, parameters, kind):
            logger.warning("%s has no effect in %s, but in FODs.", spec.flag, kind.short)
    if not options.quiet:
        suited = suited_to(inputs.fod, parameters.row, with_tissues=with_tissues)
        summary = suited.summary(parameters)
        if summary:
            print(summary)
    grid, there = inputs.fod.grid, None
    if warp is not None and to_template is not None:
        grid, there = load_grid(options.to_template), warp.load()
    report = Report()
    start = time.perf_counter()
    with chunks_with_progress(options, inputs, execution, report) as chunks:
        saved = save_chunks(
            chunks if there is None else warped_chunks(chunks, there),
            options.out,
            reference=grid,
            dtype=options.dtype,
            tolerance_mm=options.compress,
        )
    seconds = time.perf_counter() - start
    written = [str(options.out)]
    if recipe_path is not None:
        made = recipe.with_result(saved, report.backend)
        made.save(recipe_path, bids_sidecar=options.bids_sidecar)
        written.append(f"recipe {recipe_path}")
    if not options.quiet:
        print_result(saved, parameters, seconds, report)
        print(f"written to {', '.join(written)}")
    return 0


def _check_counts(options: argparse.Namespace) -> None:
    """Refuse numbers of seeds that would be of no effect, and directions that seeds lack."""
    from ..model.seeds import BY

    if options.seeds_per_voxel is not None:
        if not options.seed_mask:
            raise InvalidParameterError(
                f"--seeds-per-voxel {options.seeds_per_voxel} seeds the voxels of a mask; give "
                "--seed-mask IMAGE as well, or --n-seeds instead."
            )
        for flag in ("--n-seeds", "--select", "--max-seeds"):
            number = getattr(options, flag[2:].replace("-", "_"))
            if number is not None:
                raise InvalidParameterError(
                    f"--seeds-per-voxel {options.seeds_per_voxel} and {flag} {number} both say how "
                    "many streamlines there are; leave one out."
                )
    if options.seeds_by not in BY:
        raise InvalidParameterError(
            f"--seeds-by {options.seeds_by} is unknown; choose one of {', '.join(BY)}."
        )
    if options.seeds_by != "list" and not options.seed_mask:
        raise InvalidParameterError(
            f"--seeds-by {options.seeds_by} is of seeds in a mask; give --seed-mask IMAGE as well, "
            "or leave it out."
        )
    if options.max_seeds is not None and options.select is None:
        raise InvalidParameterError(
            f"--max-seeds {options.max_seeds} limits the seeds of --select; give --select N as "
            "well, or --n-seeds instead."
        )
    if options.seed_points and options.n_seeds is not None:
        raise InvalidParameterError(
            f"--n-seeds {options.n_seeds} has no meaning with --seed-points, one seed each; leave "
            "it out."
        )
    if (options.parameter_start or "").lower() == "given" and not options.seed_points:
        raise InvalidParameterError(
            "--start given needs a direction with every seed; give --seed-points FILE with a "
            "direction after each position, or leave it out."
        )
    if options.between and options.n_seeds is not None:
        raise InvalidParameterError(
            f"--n-seeds {options.n_seeds} has no meaning with --between, which draws seeds "
            "until --select N streamlines are accepted; leave it out."
        )
    spheres = options.seed_sphere or []
    if options.select is not None and len(spheres) < 2:  # several take turns, so many at a time
        _, own = _sphere_and_number(spheres[0]) if spheres else ("", 0)
        if own or options.n_seeds is not None:
            raise InvalidParameterError(
                f"{own or options.n_seeds} seeds have no effect with --select {options.select}, "
                "which draws seeds until then; leave --n-seeds out, or give --max-seeds as a limit."
            )


def _recipe_path(out: str) -> Path:
    """Return where the recipe of an output goes, unless something else is there already."""
    from ..recipes.codec import is_recipe
    from ..recipes.recipe import ENDING

    path = Path(out).with_suffix(ENDING)
    if path.exists() and not is_recipe(path):
        raise FileError(
            f"{path} exists and is no recipe; give --no-recipe or another name for the output."
        )
    return path


def _check_shared(recipe: Recipe, path: Path, out: str) -> None:
    """Refuse to overwrite what another tractogram of that name is made again from.

    Where no other is there the recipe is the output's own, and is overwritten with it. Raises
    FileError where a tractogram of another ending is there, and its recipe makes other streamlines.
    """
    from ..recipes.recipe import Recipe

    files = map(Path(out).with_suffix, tractogram_endings())
    others = [file.name for file in files if file != Path(out) and file.exists()]
    if not others or not path.exists():
        return
    try:
        is_same = Recipe.load(path).makes_as(recipe)
    except TractographyError:  # of a newer version, say
        is_same = False
    if not is_same:
        raise FileError(
            f"{path} is the recipe of {' and '.join(others)}, which is made otherwise; give "
            "another name for the output, or --no-recipe, or remove the older file."
        )


def _ends(options: argparse.Namespace) -> tuple[RegionSource, ...]:
    """Return the two regions to track between, or none."""
    ends = options.between or ()
    if not ends:
        return ()
    if len(ends) != 2 or not options.select:
        raise InvalidSeedsError(
            f"--between was given {len(ends)} time{'s' * (len(ends) != 1)}"
            f"{'' if options.select else ' and --select not at all'}; give it twice, for the two "
            "regions to track between, and --select N."
        )
    return tuple(region_source("include", text, "--between") for text in ends)


def _to_template(options: argparse.Namespace, warp: WarpSource | None) -> Edit | None:
    """Return what takes streamlines to the space of seeds and regions, if they are to go there."""
    from ..recipes.edits import Edit
    from ..recipes.warp_sources import WarpFile

    if options.to_template is None:
        return None
    if warp is None:
        raise InvalidParameterError(
            f"--to-template {options.to_template} has no effect without --warp; give --warp too."
        )
    return Edit.warped(warp, WarpFile.of(options.to_template, hashed=not options.no_recipe))


def _mask_source(text: str) -> VolumeSource:
    from ..recipes.volume_sources import VolumeSource

    path, label = path_and_label(text)
    return VolumeSource.file(path, label=label, hashed=False)


def _seed_sources(options: argparse.Namespace, random_seed: int) -> tuple[SeedSource, ...]:
    from ..files.text import load_positions
    from ..model.seeds import Seeds
    from ..recipes.sources import SeedSource

    n = N_SEEDS if options.n_seeds is None else options.n_seeds
    if options.between:
        return ()
    if options.seed_mask:
        volume, each = _mask_source(options.seed_mask), options.seeds_per_voxel
        by = "" if options.seeds_by == "list" else options.seeds_by
        if each is not None:
            return (SeedSource("voxels", each, random_seed, volume=volume, by=by),)
        return (SeedSource("mask", n, random_seed, volume=volume, by=by),)
    if options.seed_points:
        return (SeedSource.points(Seeds.at(*load_positions(options.seed_points))),)
    if options.seed_fod:
        return (SeedSource("fod", n, random_seed),)
    if options.seed_interface:
        if not options.tissues:
            raise InvalidSeedsError(
                "--seed-interface seeds between the grey and white matter of a tissue image; give "
                "--tissues 5TT as well."
            )
        return (SeedSource("interface", n, random_seed),)
    if not options.seed_sphere:
        raise InvalidSeedsError(
            "There are no seeds; give --seed-mask IMAGE, --seed-sphere x,y,z,r, --seed-points "
            "FILE, --seed-fod, --between REGION twice or, with --tissues, --seed-interface."
        )
    spheres = [_sphere_and_number(text) for text in options.seed_sphere]
    counts = [own or n for _, own in spheres]
    firsts = accumulate(counts, initial=0)  # the seeds of all spheres are numbered as one list
    return tuple(
        SeedSource(
            "sphere", count, random_seed, *sphere_numbers(text, "--seed-sphere"), first=first
        )
        for (text, _), count, first in zip(spheres, counts, firsts, strict=False)
    )


def _sphere_and_number(text: str) -> tuple[str, int]:
    """Return the four numbers of a sphere and the fifth, how many streamlines; 0 without."""
    sphere, _, own = text.rpartition(",")
    if text.count(",") != 4:
        return text, 0
    if not own.strip().isdecimal() or not int(own):
        raise InvalidSeedsError(
            f"--seed-sphere {text!r} asks for {own!r} streamlines; the fifth number is how many."
        )
    return sphere, int(own)
