"""The command ``napari-tractography``.

Tracking flags are derived from the parameter descriptions. Mistakes in the input end with exit
code 2 and one line on standard error. The commands that need no tracking parameters are in
:mod:`.commands`.
"""

from __future__ import annotations

import argparse
import logging
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from .. import __version__
from ..benchmark.bench import add_bench
from ..errors import FileError, InvalidParameterError, InvalidSeedsError, TractographyError
from ..parameters import ParameterSpec, TrackingParameters, parameter_specs, seeding_specs
from ..regions import INCLUDE_RULES
from .shared import (
    PROGRAM,
    add_coherence,
    add_connectome,
    add_density,
    add_fod,
    add_replay,
    add_run_flags,
    load,
    print_result,
    track_with_progress,
)

if TYPE_CHECKING:
    from ..recipes.recipe import RegionSource, SeedSource

EXIT_WRONG_INPUT = 2
STEERING = {
    "include": "streamlines must pass here; may be repeated",
    "exclude": "streamlines that enter are discarded; may be repeated",
    "stop": "streamlines that enter stop there; may be repeated",
    "end": "streamlines that enter stop there, those that end elsewhere are discarded; "
    "may be repeated",
}


class _Parser(argparse.ArgumentParser):
    """Wrong flags are wrong input like any other: one line, without the usage."""

    def error(self, message: str) -> NoReturn:
        raise InvalidParameterError(f"{message}; see {self.prog} --help.")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return its exit code."""
    logging.basicConfig(format=f"{PROGRAM}: %(message)s", level=logging.WARNING)
    parser = make_parser()
    try:
        options = parser.parse_args(arguments)
        code: int = options.run(options)
        return code
    except TractographyError as error:
        print(f"{PROGRAM}: {error}", file=sys.stderr)
        return EXIT_WRONG_INPUT
    except KeyboardInterrupt:
        print(f"{PROGRAM}: interrupted; nothing was written.", file=sys.stderr)
        return 130


def make_parser() -> argparse.ArgumentParser:
    """Return the parser of all sub-commands."""
    parser = _Parser(
        prog=PROGRAM,
        description="Reproducible tractography of fibre orientation distributions.",
    )
    parser.add_argument("--version", action="version", version=f"%(prog)s {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    _add_track(commands)
    _add_info(commands)
    add_density(commands)
    add_connectome(commands)
    add_coherence(commands)
    add_replay(commands)
    add_bench(commands)
    _add_demo(commands)
    return parser


# -- track -------------------------------------------------------------------------------------


def _add_track(commands: Any) -> None:
    parser = commands.add_parser(
        "track",
        help="track streamlines and save them",
        description="Track streamlines in an FOD. A recipe, OUT with the ending .json, is written "
        "beside them, from which `replay` makes them again.",
    )
    add_fod(parser)
    parser.add_argument(
        "-o",
        "--out",
        required=True,
        dest="out",
        metavar="OUT",
        help="tractogram to write: .trk, .tck, .trx or .vtk",
    )
    parser.add_argument("--no-recipe", action="store_true", help="write no recipe beside OUT")
    parser.add_argument("--mask", metavar="IMAGE", help="stay where this image is not zero")
    seeds = parser.add_mutually_exclusive_group()
    seeds.add_argument("--seed-mask", metavar="IMAGE", help="seed where this image is not zero")
    seeds.add_argument(
        "--seed-sphere",
        metavar="x,y,z,r[,n]",
        action="append",
        help="seed in a ball: RAS+ mm, radius, and how many streamlines if not --n-seeds; may be "
        "repeated. Write --seed-sphere=-1,2,3,4 when x is negative",
    )
    seeds.add_argument(
        "--seed-fod", action="store_true", help="seed everywhere in proportion to the FOD"
    )
    n_per_seed = next(spec for spec in seeding_specs() if spec.name == "n_per_seed")
    parser.add_argument(
        "--n-seeds",
        type=int,
        default=n_per_seed.default,
        metavar="N",
        help=f"streamlines to start, in each ball if there are several "
        f"(default {n_per_seed.default})",
    )
    regions = parser.add_argument_group(
        "regions",
        "each an IMAGE, on any grid, taken where it is not zero; one label of it, IMAGE:12; or a "
        "ball x,y,z,r [mm]",
    )
    for role, text in STEERING.items():
        regions.add_argument(f"--{role}", metavar="REGION", action="append", default=[], help=text)
    regions.add_argument(
        "--include-rule",
        default="all",
        metavar="|".join(INCLUDE_RULES),
        help="which include regions a streamline must pass, ordered: as given (default all)",
    )
    add_run_flags(parser)
    group = parser.add_argument_group("tracking parameters")
    for spec in parameter_specs():
        add_parameter_flag(group, spec)
    parser.set_defaults(run=_track)


def add_parameter_flag(group: Any, spec: ParameterSpec) -> None:
    """Add the flag of one parameter to a parser."""
    unit = f" [{spec.unit}]" if spec.unit else ""
    default = f"{spec.default:g}" if isinstance(spec.default, float) else str(spec.default)
    extra: dict[str, Any] = {}
    if isinstance(spec.default, bool):
        extra["action"] = argparse.BooleanOptionalAction
    else:
        extra["type"] = type(spec.default)
        extra["metavar"] = "|".join(spec.choices) or ("N" if spec.unit == "" else spec.unit.upper())
    group.add_argument(
        spec.flag,
        dest=f"parameter_{spec.name}",
        default=None,
        help=f"{spec.help.replace('%', '%%')}{unit} (default {default})",
        **extra,
    )


def parameters_from(options: argparse.Namespace) -> TrackingParameters:
    """Return the tracking parameters that the flags stand for."""
    given = {spec.name: getattr(options, f"parameter_{spec.name}") for spec in parameter_specs()}
    return TrackingParameters(**{name: value for name, value in given.items() if value is not None})


def _track(options: argparse.Namespace) -> int:
    from ..files.tractograms import check_target
    from ..recipes.recipe import FodSource, Recipe
    from ..recipes.volumes import VolumeSource
    from ..tracking.backends import Report

    parameters = parameters_from(options)
    check_target(options.out)  # before the work, not after it
    recipe_path = None if options.no_recipe else _recipe_path(options.out)
    hashed = recipe_path is not None
    recipe = Recipe(
        fod=FodSource.file(options.fod, basis=options.basis, frame=options.frame, hashed=hashed),
        seeds=_seed_sources(options, parameters.random_seed, hashed),
        parameters=parameters,
        mask=VolumeSource.file(options.mask, hashed=hashed) if options.mask else None,
        regions=tuple(
            _region_source(role, text, hashed)
            for role in STEERING
            for text in getattr(options, role)
        ),
        include_rule=options.include_rule,
    )
    inputs = recipe.inputs()
    begun = time.perf_counter()
    report = Report()
    tractogram = track_with_progress(options, inputs, report)
    seconds = time.perf_counter() - begun
    if not len(tractogram):
        raise InvalidSeedsError(tractogram.why_empty() + " Nothing was written.")
    tractogram.save(options.out, reference=inputs.fod)
    written = [str(options.out)]
    if recipe_path is not None:
        recipe.with_result(tractogram).save(recipe_path)
        written.append(f"recipe {recipe_path}")
    if not options.quiet:
        print_result(tractogram, parameters, seconds, report)
        print(f"written to {', '.join(written)}")
    return 0


def _recipe_path(out: str) -> Path:
    """Return where the recipe of an output goes, unless something else is there already."""
    from ..recipes.recipe import ENDING, is_recipe

    path = Path(out).with_suffix(ENDING)
    if path.exists() and not is_recipe(path):
        raise FileError(
            f"{path} exists and is no recipe; give --no-recipe or another name for the output."
        )
    return path


def _seed_sources(
    options: argparse.Namespace, random_seed: int, hashed: bool
) -> tuple[SeedSource, ...]:
    from ..recipes.recipe import SeedSource
    from ..recipes.volumes import VolumeSource

    n = options.n_seeds
    if options.seed_mask:
        volume = VolumeSource.file(options.seed_mask, hashed=hashed)
        return (SeedSource("mask", n, random_seed, volume=volume),)
    if options.seed_fod:
        return (SeedSource("fod", n, random_seed),)
    if not options.seed_sphere:
        raise InvalidSeedsError(
            "There are no seeds; give --seed-mask IMAGE, --seed-sphere x,y,z,r or --seed-fod."
        )
    return tuple(
        SeedSource("sphere", own or n, random_seed, *_ball(ball, "--seed-sphere"))
        for ball, own in map(_ball_and_number, options.seed_sphere)
    )


def _region_source(role: str, text: str, hashed: bool) -> RegionSource:
    from ..recipes.recipe import RegionSource
    from ..recipes.volumes import VolumeSource

    if text.count(",") == 3 and not Path(text).exists():
        return RegionSource(role, text, *_ball(text, f"--{role}"))
    path, label = _path_and_label(text)
    return RegionSource(
        role, Path(text).name, volume=VolumeSource.file(path, label=label, hashed=hashed)
    )


def _path_and_label(text: str) -> tuple[str, int | None]:
    path, colon, label = text.rpartition(":")
    if colon and label.isdecimal() and not Path(text).exists():
        return path, int(label)
    return text, None


def _ball_and_number(text: str) -> tuple[str, int]:
    """Return the four numbers of a ball and the fifth, how many streamlines; 0 without."""
    ball, _, own = text.rpartition(",")
    if text.count(",") != 4:
        return text, 0
    if not own.strip().isdecimal() or not int(own):
        raise InvalidSeedsError(
            f"--seed-sphere {text!r} asks for {own!r} streamlines; the fifth number is how many."
        )
    return ball, int(own)


def _ball(text: str, flag: str) -> tuple[tuple[float, float, float], float]:
    try:
        x, y, z, radius = (float(number) for number in text.split(","))
    except ValueError:
        raise InvalidSeedsError(
            f"{flag} {text!r} is not four numbers; give x,y,z,r in mm such as {flag}=-12,4,30,2."
        ) from None
    return (x, y, z), radius


# -- info --------------------------------------------------------------------------------------


def _add_info(commands: Any) -> None:
    parser = commands.add_parser(
        "info",
        help="say what an FOD volume or a tractogram holds",
        description="Say what an FOD volume or a tractogram holds.",
    )
    add_fod(parser)
    parser.set_defaults(run=_info)


def _info(options: argparse.Namespace) -> int:
    from ..files.tractograms import FORMATS
    from ..tractogram import load_tractogram

    if Path(options.fod).suffix.lower() in FORMATS:
        tractogram = load_tractogram(options.fod)
        print(tractogram.summary())
        print(f"digest {tractogram.digest()}")
        return 0
    fod = load(options)
    values = fod.values[:, 0]
    sizes = " x ".join(f"{size:.4g}" for size in fod.grid.voxel_sizes_mm)
    low, high = fod.grid.bounds_mm()
    print(f"name        {fod.name}")
    print(f"shape       {' x '.join(map(str, fod.grid.shape))} voxels of {sizes} mm")
    print(f"spans       {_point(low)} to {_point(high)} mm (RAS+)")
    print(f"orientation {fod.grid.orientation}")
    print(f"harmonics   lmax {fod.lmax}, {fod.values.shape[1]} coefficients, {fod.basis}")
    print(f"frame       {fod.frame} axes")
    print(f"voxels      {fod.n_voxels} with an FOD, {fod.n_invalid_voxels} with NaN or infinity")
    print(f"l = 0       {values.min():.4g} to {values.max():.4g}, mean {values.mean():.4g}")
    return 0


def _point(point: Any) -> str:
    return "(" + ", ".join(f"{x:.1f}" for x in point) + ")"


# -- demo --------------------------------------------------------------------------------------


def _add_demo(commands: Any) -> None:
    parser = commands.add_parser(
        "demo",
        help="open napari with the plugin and streamlines on a phantom",
        description="Open napari with the plugin and streamlines on a phantom.",
    )
    parser.add_argument("--fod", metavar="FOD", help="use this FOD volume instead of the phantom")
    parser.add_argument(
        "--output",
        metavar="FOLDER",
        help="write demo.png and demo.trk there and end, instead of staying open",
    )
    parser.set_defaults(run=_demo)


def _demo(options: argparse.Namespace) -> int:
    from ..plugin.demo import run_demo  # the only command that needs a screen

    return run_demo(options.fod, None if options.output is None else Path(options.output))


if __name__ == "__main__":
    sys.exit(main())
