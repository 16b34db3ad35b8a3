"""``napari-tractography density``: how many streamlines pass each voxel."""

from __future__ import annotations

import argparse
import math
from pathlib import Path

from ..errors import InvalidParameterError
from .flags import add_map, add_path, check_outputs, load_streamlines, weights_help

HELP = "map how many streamlines pass each voxel"
DESCRIPTION = (
    "Count the streamlines that pass each voxel, each once in every voxel that it "
    "enters. Segments are followed exactly."
)


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Add the flags of the sub-command."""
    add_map(parser)
    parser.add_argument(
        "--ends-only",
        action="store_true",
        help="count first and last points only; for tractograms of endpoints",
    )
    add_path(parser, "--weights", "FILE|NAME", f"{weights_help()}; the map is a sum of weights")
    parser.add_argument(
        "--at-least",
        type=float,
        metavar="N",
        help="write a mask instead: voxels that N streamlines pass; with --weights, that sum",
    )
    parser.add_argument(
        "--by-reason",
        action="store_true",
        help="count ends by why streamlines ended there, of a file such as .trx that track wrote, "
        "which keeps that: a map for each reason, OUT with its name",
    )


def run(options: argparse.Namespace) -> int:
    """Write the map; return the exit code."""
    import numpy as np

    from ..files.volume_files import load_grid, save_volume
    from ..maps.chunks import chunks_of
    from ..maps.density import PassCounter

    check_outputs(volumes=(options.out,), read=(options.tractogram, options.template))
    if options.by_reason:
        return _write_by_reason(options)
    at_least, with_weights = options.at_least, options.weights is not None
    if at_least is not None:
        _check_at_least(at_least, with_weights=with_weights)
    source = options.tractogram
    if with_weights:
        source = load_streamlines(options.tractogram, options.weights)
    counter = PassCounter(
        load_grid(options.template),
        np.float64 if with_weights else np.int32,
        ends_only=options.ends_only,
    )
    for chunk in chunks_of(source):
        counter.add(chunk, chunk.weights if with_weights else None)
    counter.warn_if_outside()
    counts = counter.counts
    save_volume(counts if at_least is None else counts >= at_least, counter.grid, options.out)
    inside = counts >= (at_least or np.finfo(np.float64).tiny)
    print(
        f"{counter.n_streamlines} streamlines in {int(inside.sum())} voxels, at most "
        f"{counts.max():.6g} in one; written to {options.out}"
    )
    return 0


def _write_by_reason(options: argparse.Namespace) -> int:
    """Write a map of ends for each stop reason; return the exit code."""
    from ..files.formats import written_volume_endings
    from ..files.paths import check_apart, ending_of
    from ..files.volume_files import load_grid, save_volume
    from ..maps.density import ends_by_reason

    if options.weights is not None or options.at_least is not None:
        raise InvalidParameterError("--by-reason counts ends; leave out --weights and --at-least.")
    grid = load_grid(options.template)
    ends = ends_by_reason(options.tractogram, grid)
    ending = ending_of(Path(options.out), written_volume_endings(), "a volume to write")
    stem = options.out[: -len(ending)]
    paths = [f"{stem}_{reason.name}{ending}" for reason in ends]
    check_apart(*paths, read=(options.tractogram, options.template))
    for (reason, counts), path in zip(ends.items(), paths, strict=True):
        save_volume(counts, grid, path)
        print(
            f"{counts.sum()} ends in {(counts > 0).sum()} voxels: {reason.text}; written to {path}"
        )
    return 0


def _check_at_least(at_least: float, *, with_weights: bool) -> None:
    """Check from where on a voxel is in the mask: a number of streamlines, or a sum of weights."""
    if with_weights and not (math.isfinite(at_least) and at_least > 0):
        raise InvalidParameterError(
            f"--at-least {at_least:g} is no sum of weights; give a positive number."
        )
    if not with_weights and not (at_least >= 1 and at_least.is_integer()):
        raise InvalidParameterError(
            f"--at-least {at_least:g} is no number of streamlines; give 1 or more, whole, or "
            "--weights too."
        )
