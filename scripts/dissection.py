"""Dissect three bundles on each side of a person's brain, and prove that they are made again.

Pyramidal tract, arcuate fascicle and inferior fronto-occipital fascicle, seeded in their masks:
streamlines must reach both ends (AND), and neither cross the midline nor enter what the bundle
keeps away from (NOT). The right side is the left one mirrored. The project is saved, opened again,
and everything is tracked again::

    python scripts/dissection.py ../shared/data/subject [-o study.tracts.json]

The folder holds ``peaks.nii.gz``, and ``bundles/NAME.nii.gz`` with ``NAME_b`` and ``NAME_e`` for
the two ends of a bundle, as TractSeg writes them. Called by ``scripts/gallery.py``, too.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np

import napari_tractography as nt
from napari_tractography.files.volume_files import load_mask
from napari_tractography.recipes.mirror import midsagittal_x_mm
from napari_tractography.recipes.sources import FodSource, RegionSource, SeedSource
from napari_tractography.recipes.volume_sources import VolumeSource

ENDING = ".tracts.json"
BUNDLES = {"CST": "#ffc747", "AF": "#56b4e9", "IFO": "#e0609a"}
OTHER_SIDE = {"CST": "#e8743b", "AF": "#4d8fd1", "IFO": "#8f8df0"}
N_SEEDS = 8_000
FAR_MM = 12.0  # from the mask of a bundle: what strays so far belongs to another


def study(subject: Path, n_seeds: int = N_SEEDS) -> nt.Project:
    """Return the project, not tracked yet."""
    project = nt.Project()
    fod = FodSource.file(subject / "peaks.nii.gz", kind="peaks", hashed=False)
    made = fod.load()
    parameters = nt.TrackingParameters.for_fod(made, min_length_mm=30.0, max_length_mm=220.0)
    x_mm = midsagittal_x_mm(made.grid)
    for name, colour in BUNDLES.items():
        folder = subject / "bundles"
        whole, begin, end = (folder / f"{name}_left{part}.nii.gz" for part in ("", "_b", "_e"))
        recipe = nt.Recipe(
            fod,
            (SeedSource("mask", n_seeds, volume=VolumeSource.file(whole, hashed=False)),),
            parameters,
            regions=(
                RegionSource("include", "begin", volume=VolumeSource.file(begin, hashed=False)),
                RegionSource("include", "end", volume=VolumeSource.file(end, hashed=False)),
                RegionSource.of(far_from(whole, x_mm)),
            ),
        )
        left = project.add(f"{name} left", recipe, colour=colour)
        project.add(f"{name} right", left.mirrored(x_mm)).colour = OTHER_SIDE[name]
    return project


def far_from(mask: Path, x_mm: float) -> nt.Region:
    """Return what a bundle of the left side keeps away from: the right side, and what is far."""
    from scipy.ndimage import distance_transform_edt

    inside, grid = load_mask(mask)
    far = distance_transform_edt(inside == 0, sampling=grid.voxel_sizes_mm) > FAR_MM
    places = grid.to_mm(np.argwhere(np.ones(grid.shape)))[:, 0].reshape(grid.shape)
    return nt.Region.mask(far | (places > x_mm), grid, "exclude", name="not this bundle")


def main(arguments: Sequence[str] | None = None) -> int:
    """Track, save, open, track again; return 0 where all digests agree."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("subject", type=Path, help="the folder with the peaks and the masks")
    parser.add_argument("-o", "--out", type=Path, metavar=f"NAME{ENDING}")
    parser.add_argument("--n-seeds", type=int, default=N_SEEDS)
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        path = options.out or Path(folder) / f"study{ENDING}"
        project = study(options.subject, options.n_seeds)
        known = {name: b.tractogram().digest() for name, b in project.bundles.items()}
        project.save(path)
        print(f"{path.name}: {path.stat().st_size / 1000:.0f} kB")
        same = True
        for name, bundle in nt.Project.load(path).bundles.items():
            found = bundle.tractogram()
            is_same = found.digest() == known[name]
            same = same and is_same
            found_text = f"{len(found):6} streamlines, {found.lengths_mm.mean():5.1f} mm"
            print(f"{name:10} {found_text}, {known[name][:12]} {'again' if is_same else 'differs'}")
    return 0 if same else 1


if __name__ == "__main__":
    sys.exit(main())
