"""``napari-tractography connectome``: how many streamlines join each pair of labels."""

from __future__ import annotations

import argparse
from typing import Any

from .flags import TRACTOGRAM_HELP


def add_connectome(commands: Any) -> None:
    """Add the sub-command to the parser of the command."""
    parser = commands.add_parser(
        "connectome",
        help="count the streamlines between each pair of labels",
        description="Count the streamlines between each pair of labels, by their two ends.",
    )
    parser.add_argument("tractogram", metavar="TCK", help=TRACTOGRAM_HELP)
    parser.add_argument("labels", metavar="LABELS", help="image of whole numbers, 0 for no label")
    parser.add_argument("-o", "--out", required=True, metavar="OUT.csv", help="counts to write")
    parser.add_argument("--lengths", metavar="OUT.csv", help="also write mean lengths [mm]")
    parser.add_argument(
        "--radius",
        type=float,
        default=0.0,
        metavar="MM",
        help="take the nearest label within this distance [mm] of an end (default 0: that of the "
        "voxel in which it lies)",
    )
    parser.add_argument(
        "--directed",
        action="store_true",
        help="rows are first points, columns last points; symmetric otherwise",
    )
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Write the tables; return the exit code."""
    from ..files.fods import load_volume
    from ..files.paths import check_writable
    from ..maps.connectome import connectome
    from ..tractogram import load_tractogram

    for path in filter(None, (options.out, options.lengths)):
        check_writable(path)
    labels, grid = load_volume(options.labels)
    tractogram = load_tractogram(options.tractogram)
    found = connectome(
        tractogram, labels, grid, radius_mm=options.radius, directed=options.directed
    )
    found.save_counts(options.out)
    if options.lengths:
        found.save_mean_lengths(options.lengths)
    print(
        f"{found.n_assigned} of {tractogram.n_streamlines} streamlines have both ends at labels, "
        f"of {len(found.labels)} in the image; written to "
        f"{', '.join(filter(None, (options.out, options.lengths)))}"
    )
    return 0
