"""``napari-tractography profile``: a scalar map along bundles."""

from __future__ import annotations

import argparse

from .flags import add_path, check_outputs, names_of, tractogram_help, warn_of_no_value

HELP = "average a scalar map along bundles"
DESCRIPTION = (
    "Average a scalar map along bundles: streamlines are oriented alike by their "
    "centroid, resampled to as many points each, and averaged point by point."
)


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Add the flags of the sub-command."""
    add_path(parser, "tractograms", "TCK", tractogram_help(), nargs="+")
    add_path(parser, "scalar", "SCALAR", "scalar map such as FA, on any grid")
    add_path(parser, "-o --out", "OUT.csv", "table to write", required=True)
    parser.add_argument(
        "-n", "--n", type=int, default=100, metavar="N", help="how many places (default 100)"
    )
    parser.add_argument(
        "--weights",
        default="equal",
        metavar="equal|gaussian",
        help="whether streamlines count less the farther they lie from the others (default equal)",
    )
    add_path(parser, "--plot", "OUT", "also draw all bundles in one plot: .png, .svg or .pdf")


def run(options: argparse.Namespace) -> int:
    """Write table and plot; return the exit code."""
    from ..maps.plots import plot_profiles, save_plot
    from ..maps.profiles import profile
    from ..maps.scalar_maps import ScalarMap
    from ..maps.spreadsheets import profiles_table

    read = (*options.tractograms, options.scalar)
    check_outputs((options.out,), plots=(options.plot,), read=read)
    scalar = ScalarMap.load(options.scalar)
    found = [
        profile(path, scalar, options.n, weights=options.weights, name=name)
        for path, name in zip(options.tractograms, names_of(options.tractograms), strict=True)
    ]
    profiles_table(found).save(options.out)
    if options.plot:
        save_plot(plot_profiles(found), options.plot)
    for each in found:
        if not each.counts.any():
            warn_of_no_value(each.name, scalar.name)
        first, last = each.ends
        print(
            f"{each.name}: {scalar.name} at {len(each.mean)} places from {first} to {last}, "
            f"{each.counts.max()} streamlines"
        )
    print(f"written to {', '.join(filter(None, (options.out, options.plot)))}")
    return 0
