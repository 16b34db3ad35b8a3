"""``napari-tractography density``: how many streamlines pass each voxel."""

from __future__ import annotations

import argparse
from typing import Any

from .flags import TRACTOGRAM_HELP


def add_density(commands: Any) -> None:
    """Add the sub-command to the parser of the command."""
    parser = commands.add_parser(
        "density",
        help="map how many streamlines pass each voxel",
        description="Count the streamlines that pass each voxel, each once in every voxel that it "
        "enters. Segments are followed exactly.",
    )
    parser.add_argument("tractogram", metavar="TCK", help=TRACTOGRAM_HELP)
    parser.add_argument("-o", "--out", required=True, metavar="OUT", help=".nii or .nii.gz")
    parser.add_argument(
        "--template", required=True, metavar="IMAGE", help="image whose grid the map shall have"
    )
    parser.add_argument(
        "--ends-only",
        action="store_true",
        help="count first and last points only; for tractograms of endpoints",
    )
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Write the map; return the exit code."""
    from ..files.volumes import check_volume_target, load_grid, save_volume
    from ..maps.density import density
    from ..tractogram import load_tractogram

    check_volume_target(options.out)
    grid = load_grid(options.template)
    tractogram = load_tractogram(options.tractogram)
    counts = density(tractogram, grid, ends_only=options.ends_only)
    save_volume(counts, grid, options.out)
    print(
        f"{tractogram.n_streamlines} streamlines in {int((counts > 0).sum())} voxels, at most "
        f"{int(counts.max())} in one; written to {options.out}"
    )
    return 0
