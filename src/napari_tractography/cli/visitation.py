"""``napari-tractography visitation``: how probable it is that a streamline visits each voxel."""

from __future__ import annotations

import argparse
import math

from .flags import add_map, add_path, check_outputs

HELP = "map how probable it is that a streamline visits each voxel, with its error"
DESCRIPTION = (
    "Estimate the probability that a streamline visits each voxel, as the fraction "
    "of the streamlines of a file that do, with its Monte-Carlo standard error, "
    "sqrt(p (1 - p) / n): streamlines from independent seeds are independent trials."
)


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Add the flags of the sub-command."""
    add_map(parser)
    add_path(parser, "--error", "OUT", "also write the standard error")
    parser.add_argument(
        "--ends-only", action="store_true", help="first and last points only visit a voxel"
    )
    parser.add_argument(
        "--enough",
        type=float,
        metavar="ERROR",
        help="say how many more streamlines make no standard error larger than this",
    )
    parser.add_argument(
        "--at",
        metavar="x,y,z",
        action="append",
        default=[],
        help="print the probability there, RAS+ mm; may be repeated",
    )


def run(options: argparse.Namespace) -> int:
    """Write the maps; return the exit code."""
    from ..files.volume_files import load_grid, save_volume
    from ..maps.visitation import visitation

    read = (options.tractogram, options.template)
    check_outputs(volumes=(options.out, options.error), read=read)
    points = [_point(text) for text in options.at]
    found = visitation(options.tractogram, load_grid(options.template), ends_only=options.ends_only)
    said = [found.at(point) for point in points]
    if options.enough is not None:
        said.append(found.enough(options.enough))
    save_volume(found.probability, found.grid, options.out)
    if options.error:
        save_volume(found.standard_error, found.grid, options.error)
    for text in said:
        print(text)
    print(
        f"{found.n} streamlines visit {int((found.probability > 0).sum())} voxels, standard error "
        f"up to {found.largest_error:.2g}; written to "
        f"{', '.join(filter(None, (options.out, options.error)))}"
    )
    return 0


def _point(text: str) -> list[float]:
    from ..errors import InvalidParameterError

    try:
        numbers = [float(part) for part in text.split(",")]
    except ValueError:
        numbers = []
    if len(numbers) != 3 or not all(map(math.isfinite, numbers)):
        raise InvalidParameterError(f"--at {text} is no point; give three numbers, x,y,z [mm].")
    return numbers
