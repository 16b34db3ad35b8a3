"""``napari-tractography profile``: a scalar map along bundles."""

from __future__ import annotations

import argparse
from typing import Any

from .flags import expanded, names_of, tractogram_help


def add_profile(commands: Any) -> None:
    """Add the sub-command to the parser of the command."""
    parser = commands.add_parser(
        "profile",
        help="average a scalar map along bundles",
        description="Average a scalar map along bundles: streamlines are oriented alike by their "
        "centroid, resampled to as many points each, and averaged point by point.",
    )
    parser.add_argument(
        "tractograms", type=expanded, nargs="+", metavar="TCK", help=tractogram_help()
    )
    parser.add_argument(
        "scalar", type=expanded, metavar="SCALAR", help="scalar map such as FA, on any grid"
    )
    parser.add_argument(
        "-o", "--out", type=expanded, required=True, metavar="OUT.csv", help="table to write"
    )
    parser.add_argument(
        "-n", "--n", type=int, default=100, metavar="N", help="how many places (default 100)"
    )
    parser.add_argument(
        "--weights",
        default="equal",
        metavar="equal|gaussian",
        help="whether streamlines count less the farther they lie from the others (default equal)",
    )
    parser.add_argument(
        "--plot",
        type=expanded,
        metavar="OUT",
        help="also draw all bundles in one plot: .png, .svg or .pdf",
    )
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Write table and plot; return the exit code."""
    from ..files.paths import check_apart, check_writable
    from ..maps.plots import check_plot_target, plot_profiles, save_plot
    from ..maps.profiles import profile
    from ..maps.scalar_maps import ScalarMap
    from ..maps.spreadsheets import profiles_table

    check_writable(options.out)
    if options.plot:
        check_plot_target(options.plot)
    read = (*options.tractograms, options.scalar)
    check_apart(options.out, options.plot, read=read)
    scalar = ScalarMap.load(options.scalar)
    found = [
        profile(path, scalar, options.n, weights=options.weights, name=name)
        for path, name in zip(options.tractograms, names_of(options.tractograms), strict=True)
    ]
    profiles_table(found).save(options.out)
    if options.plot:
        save_plot(plot_profiles(found), options.plot)
    for each in found:
        first, last = each.ends
        print(
            f"{each.name}: {scalar.name} at {len(each.mean)} places from {first} to {last}, "
            f"{each.counts.max()} streamlines"
        )
    print(f"written to {', '.join(filter(None, (options.out, options.plot)))}")
    return 0
