"""``napari-tractography info``: what an FOD volume or a tractogram holds."""

from __future__ import annotations

import argparse

from ..files.formats import fod_endings, has_ending, listed, read_tractogram_endings
from .flags import add_path, add_reading, load, tractogram_help

HELP = "say what an FOD volume or a tractogram holds"


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Add the flags of the sub-command."""
    add_path(
        parser,
        "fod",
        "FILE",
        f"FOD, peaks or tensors: {listed(fod_endings())}; or {tractogram_help()}",
    )
    add_reading(parser)


def run(options: argparse.Namespace) -> int:
    """Print what a file holds; return the exit code."""
    from ..fields.readings import AUTO
    from ..model.defaults import suited_to
    from ..model.parameters import TrackingParameters
    from ..streamlines.tractogram import load_tractogram

    if has_ending(options.fod, read_tractogram_endings()):
        tractogram = load_tractogram(options.fod)
        print(tractogram.summary())
        if tractogram.grid is not None:
            print(f"belongs to {tractogram.grid}")
        if tractogram.data:
            print(f"with {', '.join(tractogram.data.names())}")
        print(f"digest {tractogram.digest()}")
        return 0
    fod = load(options)
    parameters = TrackingParameters.for_fod(fod)
    values = fod.overview_values()
    sizes = " x ".join(f"{size:.4g}" for size in fod.grid.voxel_sizes_mm)
    print(f"name        {fod.name}")
    recognised = "by header and values" if options.kind == AUTO else "as given"
    print(f"kind        {fod.kind}: {fod.input_kind.text}, {recognised}")
    print(f"shape       {' x '.join(map(str, fod.grid.shape))} voxels of {sizes} mm")
    print(f"spans       {fod.grid.bounds_text()} mm (RAS+)")
    print(f"orientation {fod.grid.orientation}")
    if fod.vectors is None:
        odd = ", odd degrees too: asymmetric" if fod.is_asymmetric else ""
        n = fod.values.shape[1]
        print(f"harmonics   lmax {fod.lmax}, {n} coefficients{odd}, {fod.basis}")
        print(f"frame       {fod.frame} axes")
    else:
        if fod.n_vectors:
            print(f"{fod.input_kind.short:<11} {fod.n_vectors} a voxel at most")
        print(f"axes        {fod.vectors.axes}")
        if fod.vectors.order:
            print(f"order       {fod.vectors.order}")
    print(f"voxels      {fod.n_voxels} with an FOD, {fod.n_invalid_voxels} with NaN or infinity")
    print(f"l = 0       {values.min():.4g} to {values.max():.4g}, mean {values.mean():.4g}")
    print(f"amplitudes  {suited_to(fod).strong_amplitude:.3g} in strong peaks (95th percentile)")
    print(f"tracking    {suited_to(fod).summary(parameters)}")
    return 0
