"""``napari-tractography select``: the streamlines of a file that pass regions, without tracking."""

from __future__ import annotations

import argparse
import logging
import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import FileError, InvalidParameterError, InvalidTractogramError
from ..files.description import FLOAT16
from ..files.formats import check_text_name, grid_endings, listed, written_tractogram_format
from .flags import (
    add_data_beside,
    add_path,
    add_regions,
    add_warp,
    load_streamlines,
    path_and_label,
    region_sources,
    tractogram_help,
    warp_source,
    weights_help,
)

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from ..streamlines.tractogram import Tractogram

logger = logging.getLogger(__name__)

ROLES = {
    "include": "streamlines that pass here; may be repeated",
    "exclude": "no streamlines that pass here; may be repeated",
    "end": "streamlines with both ends in such regions, also where one is the seed of a streamline "
    "that was tracked one way; may be repeated",
}


HELP = "take the streamlines of a file that pass regions"
DESCRIPTION = (
    "Take the streamlines of a file that pass regions, or that another file holds "
    "too, or does not, without tracking again. "
    "Regions act on the whole path: a segment between two points cannot slip through a sphere."
)


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Add the flags of the sub-command."""
    add_path(parser, "tractogram", "TCK", tractogram_help())
    add_path(parser, "-o --out", "OUT", "tractogram to write, as TCK", required=True)
    add_path(
        parser,
        "--reference",
        "IMAGE",
        f"image that they belong to, after --warp if there is one; by default that in the header "
        f"of TCK, which says nothing of the space after --warp; a {listed(grid_endings())} OUT "
        "needs one",
    )
    add_regions(parser, ROLES)
    parser.add_argument(
        "--group",
        metavar="NAME",
        action="append",
        default=[],
        help="streamlines of this group of a .trx TCK; may be repeated, for those of any of them",
    )
    same = "the same has the same points, to the last bit"
    add_path(parser, "--also-in", "TCK", f"streamlines that this file holds, too; {same}")
    add_path(parser, "--not-in", "TCK", "streamlines that this file does not hold")
    limits = parser.add_argument_group("limits", "which count themselves")
    limits.add_argument("--min-length", type=float, default=0.0, metavar="MM", help="[mm]")
    limits.add_argument("--max-length", type=float, default=math.inf, metavar="MM", help="[mm]")
    limits.add_argument("--min-weight", type=float, metavar="X", help="of --weights")
    add_path(parser, "--weights", "FILE|NAME", weights_help())
    add_path(parser, "--out-weights", "OUT.txt", "weights of the streamlines taken, to write")
    add_warp(parser, "take the streamlines of the space of FILE, which are left, to the other")
    add_data_beside(parser)


def _tell_apart(path: str, other: str, *, is_wanted: bool) -> None:
    """Say that two files have no streamline in common, which may be their formats' doing.

    Raises InvalidTractogramError where only what they have in common is wanted.
    """
    apart = (
        f"{path} and {other} have no streamline in common, to the last bit of its points, which "
        f"{listed(grid_endings())} files and {FLOAT16} round; where they hold the same, take files "
        "of one format"
    )
    if is_wanted:
        raise InvalidTractogramError(f"{apart}. Nothing was written.")
    logger.warning("%s.", apart)


def _in_groups(tractogram: Tractogram, names: Sequence[str], path: str) -> NDArray[np.int64]:
    """Return the numbers of the streamlines in any of some groups, rising. Raises FileError."""
    import numpy as np

    groups = tractogram.data.groups
    for name in names:
        if name not in groups:
            there = ", ".join(groups) or "none"
            raise FileError(f"{path} has no group {name!r}; it has {there}.")
    return np.unique(np.concatenate([groups[name] for name in names]))


def run(options: argparse.Namespace) -> int:
    """Write the streamlines taken; return the exit code."""
    from ..files.paths import check_apart, check_writable
    from ..files.tractograms import check_target
    from ..files.volume_files import load_grid
    from ..files.weights import save_weights

    if not options.min_length <= options.max_length:  # also of NaN
        raise InvalidParameterError(
            f"--min-length {options.min_length:g} to --max-length {options.max_length:g} is no "
            "range; give numbers in mm, the smaller one first."
        )
    least = options.min_weight
    if least is not None and math.isnan(least):
        raise InvalidParameterError(f"--min-weight {least:g} is no number; give a weight.")
    check_target(options.out)
    if options.out_weights:
        check_writable(options.out_weights)
    others = options.also_in, options.not_in
    images = (path_and_label(text)[0] for role in ROLES for text in getattr(options, role))
    read = (options.tractogram, options.weights, options.reference, *others, *images)
    beside = None
    if options.data_beside and written_tractogram_format(options.out).write_beside is not None:
        beside = Path(options.out).with_suffix(".weights.txt")
    check_apart(options.out, options.out_weights, beside, read=(*read, *options.warp))
    if options.out_weights:
        check_text_name(options.out_weights)
    for flag, value in (
        ("--out-weights", options.out_weights), ("--min-weight", least)
    ):  # fmt: skip
        if value is not None and options.weights is None:
            raise InvalidParameterError(f"{flag} {value} needs weights; give --weights too.")
    grid = load_grid(options.reference) if options.reference else None
    warp = warp_source(options)
    if warp is not None and grid is None and written_tractogram_format(options.out).needs_grid:
        raise InvalidParameterError(
            f"After --warp {options.out} needs an image of the space that it leads to; give "
            "--reference IMAGE."
        )
    regions = [source.make() for source in region_sources(options, ROLES)]
    tractogram = load_streamlines(options.tractogram, options.weights)
    among = tractogram
    if options.group:
        among = tractogram[_in_groups(tractogram, options.group, options.tractogram)]
    for path, is_wanted in zip(others, (True, False), strict=True):
        if path is not None:
            other = load_streamlines(path, None)
            common = among.found_in(other)
            if not common.any() and not tractogram.found_in(other).any():
                _tell_apart(options.tractogram, path, is_wanted=is_wanted)
            among = among[common == is_wanted]
    chosen = among.select(
        regions=regions,
        include_rule=options.include_rule,
        length_mm=(options.min_length, options.max_length),
        weight=None if least is None else (least, math.inf),
    )
    if not len(chosen):
        raise InvalidTractogramError(
            f"None of the {len(tractogram)} streamlines of {options.tractogram} is left; give "
            "other regions or wider limits. Nothing was written."
        )
    if warp is not None:
        chosen = chosen.warped(warp.load(), grid=grid)
        if not chosen.n_points:
            raise InvalidTractogramError(
                f"No streamline of {options.tractogram} lies in the warp {warp.name}; check that "
                "it leads from their space, or give --invert-warp. Nothing was written."
            )
    chosen.save(options.out, reference=grid, data_beside=options.data_beside)
    written = [options.out]
    if options.out_weights:
        assert chosen.weights is not None
        save_weights(chosen.weights, options.out_weights)
        written.append(options.out_weights)
    print(f"{len(chosen)} of {len(tractogram)} streamlines taken; written to {', '.join(written)}")
    return 0
