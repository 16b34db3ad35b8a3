"""``napari-tractography connectome``: how many streamlines join each pair of labels."""

from __future__ import annotations

import argparse

from .flags import add_path, check_outputs, load_streamlines, tractogram_help, weights_help

HELP = "count the streamlines between each pair of labels"
DESCRIPTION = "Count the streamlines between each pair of labels, by their two ends."


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Add the flags of the sub-command."""
    add_path(parser, "tractogram", "TCK", tractogram_help())
    add_path(parser, "labels", "LABELS", "image of whole numbers, 0 or NaN for no label")
    add_path(parser, "-o --out", "OUT.csv", "counts to write", required=True)
    add_path(parser, "--lengths", "OUT.csv", "also write mean lengths [mm]")
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
    add_path(parser, "--weights", "FILE|NAME", f"{weights_help()}; counts are sums of weights")
    add_path(parser, "--plot", "OUT", "also draw the counts as a matrix: .png, .svg or .pdf")


def run(options: argparse.Namespace) -> int:
    """Write the tables; return the exit code."""
    from ..files.volume_files import load_volume
    from ..maps.chunks import chunks_of
    from ..maps.connectome import connectome
    from ..maps.plots import plot_connectome, save_plot

    read = (options.tractogram, options.labels, options.weights)
    check_outputs((options.out, options.lengths), plots=(options.plot,), read=read)
    labels, grid = load_volume(options.labels)
    tractogram = load_streamlines(options.tractogram, options.weights) if options.weights else None
    found = connectome(
        chunks_of(options.tractogram) if tractogram is None else tractogram,
        labels,
        grid,
        radius_mm=options.radius,
        directed=options.directed,
        weights=None if tractogram is None else tractogram.weights,
    )
    found.save_counts(options.out)
    if options.lengths:
        found.save_mean_lengths(options.lengths)
    if options.plot:
        save_plot(plot_connectome(found), options.plot)
    print(
        f"{found.n_assigned} of {found.n_assigned + found.n_unassigned} streamlines have both ends "
        f"at labels, of {len(found.labels)} in the image; written to "
        f"{', '.join(filter(None, (options.out, options.lengths, options.plot)))}"
    )
    return 0
