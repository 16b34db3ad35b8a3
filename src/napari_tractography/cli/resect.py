"""``napari-tractography resect``: what bundles would lose to a cavity, and how near it comes."""

from __future__ import annotations

import argparse

from ..errors import InvalidParameterError
from ..files.formats import listed, written_volume_endings
from .flags import (
    add_path,
    check_outputs,
    load_streamlines,
    names_of,
    path_and_label,
    region_source,
    tractogram_help,
    weights_help,
)

HELP = "tell what bundles would lose to a cavity, and how near it comes (research only)"
DESCRIPTION = (
    "Count the streamlines of bundles that enter a cavity, with the standard error "
    "of their share, and measure the least distance of each bundle from the cavity. Every "
    "streamline keeps its random numbers, so that this is what tracking with the cavity and "
    "without would give. Research only: no basis for decisions on persons."
)


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Add the flags of the sub-command."""
    add_path(parser, "tractograms", "TCK", tractogram_help(), nargs="+")
    add_path(
        parser,
        "--cavity",
        "REGION",
        "an IMAGE, on any grid, taken where it is not zero; one label of it, IMAGE:12; or a sphere "
        "x,y,z,r [mm]; may be repeated: several are one cavity",
        action="append",
        required=True,
    )
    add_path(
        parser,
        "--weights",
        "FILE|NAME",
        f"{weights_help()}; given once for each TCK, in their order, or once for all",
        action="append",
        default=[],
    )
    add_path(parser, "-o --out", "OUT.csv", "table to write; it is printed, too")
    add_path(
        parser,
        "--map",
        "OUT",
        "also write how far each voxel of the bundle is from the cavity, of one TCK: "
        f"{listed(written_volume_endings())}; NaN where no streamline passes",
    )
    add_path(parser, "--template", "IMAGE", "image whose grid the map shall have")


def run(options: argparse.Namespace) -> int:
    """Print and write the table; return the exit code."""
    from ..files.volume_files import load_grid, save_volume
    from ..maps.resection import RESEARCH_ONLY, margin_map, resection
    from ..maps.spreadsheets import resections_table

    paths, weights = options.tractograms, options.weights
    if options.map and (len(paths) > 1 or options.template is None):
        raise InvalidParameterError("--map is of one bundle and takes --template too.")
    if options.template and not options.map:
        raise InvalidParameterError(
            f"--template {options.template} has no effect without --map; give --map too."
        )
    if len(weights) not in (0, 1, len(paths)):
        raise InvalidParameterError(
            f"--weights is given {len(weights)} times for {len(paths)} tractograms; give it once, "
            "or as often."
        )
    images = (path_and_label(text)[0] for text in options.cavity)
    read = (*paths, *weights, *images, options.template)
    check_outputs((options.out,), (options.map,), read=read)
    names = names_of(paths)
    grid = load_grid(options.template) if options.map else None
    cavity = [region_source("resect", text, "--cavity").make() for text in options.cavity]
    of_each = (weights * len(paths) if len(weights) == 1 else weights) or [None] * len(paths)
    found = [
        resection(path if w is None else load_streamlines(path, w), cavity, name=name)
        for path, name, w in zip(paths, names, of_each, strict=True)
    ]
    table = resections_table(found)
    for each in found:
        print(f"{each.name} {each.text}")
    print(RESEARCH_ONLY)
    written = []
    if options.out:
        table.save(options.out)
        written.append(options.out)
    if grid is not None:
        save_volume(margin_map(paths[0], cavity, grid), grid, options.map)
        written.append(options.map)
    if written:
        print(f"written to {', '.join(written)}")
    return 0
