"""``napari-tractography measure``: bundles in numbers, side by side."""

from __future__ import annotations

import argparse
import logging
import math

from .flags import add_path, check_outputs, names_of, tractogram_help, warn_of_no_value

logger = logging.getLogger(__name__)

HELP = "measure bundles: count, lengths, volume, surface, mean of scalar maps, asymmetry"
DESCRIPTION = (
    "Measure bundles, a row for each: how many streamlines, mean and quartiles of "
    "their lengths, volume and surface of the voxels that they pass, mean and standard "
    "deviation over streamlines of the mean along each of scalar maps."
)


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Add the flags of the sub-command."""
    add_path(parser, "tractograms", "TCK", tractogram_help(), nargs="+")
    add_path(
        parser,
        "--scalar",
        "IMAGE",
        "scalar map such as FA, on any grid; may be repeated",
        action="append",
        default=[],
    )
    add_path(
        parser,
        "--template",
        "IMAGE",
        "image whose voxels make volume and surface (default the first scalar map, and "
        "without one voxels of 1 mm)",
    )
    add_path(parser, "-o --out", "OUT.csv", "table to write; it is printed, too")
    add_path(
        parser,
        "--asymmetry",
        "OUT.csv",
        "also write (L - R) / (L + R) of every number, of files whose names differ in left "
        "and right alone",
    )


def run(options: argparse.Namespace) -> int:
    """Print and write the table; return the exit code."""
    from ..errors import InvalidParameterError
    from ..files.volume_files import load_grid
    from ..maps.bundle_measures import measure, sides
    from ..maps.scalar_maps import ScalarMap
    from ..maps.spreadsheets import asymmetry_table, measures_table

    read = (*options.tractograms, *options.scalar, options.template)
    check_outputs((options.out, options.asymmetry), read=read)
    names = names_of(options.tractograms)
    if options.asymmetry and not sides(names):
        raise InvalidParameterError(
            f"There is no pair of a left and a right bundle ({', '.join(names)}); --asymmetry "
            "needs names like CST_left and CST_right."
        )
    grid = load_grid(options.template) if options.template else None
    scalars = [ScalarMap.load(path) for path in options.scalar]
    found = [
        measure(path, scalars, grid=grid, name=name)
        for path, name in zip(options.tractograms, names, strict=True)
    ]
    for each in found:
        nowhere = [name for name, spread in each.scalars.items() if math.isnan(spread.mean)]
        if each.n_streamlines and not each.volume_mm3:
            logger.warning(
                "No streamline of %s passes the voxels that volume and surface are of; check that "
                "both are in the same space.",
                each.name,
            )
        for name in nowhere if each.n_streamlines else ():
            warn_of_no_value(each.name, name)
    tables = [measures_table(found)]
    if options.asymmetry:
        tables.append(asymmetry_table(found))
    print("\n\n".join(table.aligned() for table in tables))
    sizes = " x ".join(f"{size:.4g}" for size in found[0].grid.voxel_sizes_mm)
    print(f"\nvolume and surface of voxels of {sizes} mm")
    written = []
    for table, path in zip(tables, (options.out, options.asymmetry), strict=False):
        if path:
            table.save(path)
            written.append(path)
    if written:
        print(f"written to {', '.join(written)}")
    return 0
