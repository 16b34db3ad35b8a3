"""Tracking in images: from the click to streamlines, memory, blocks worked out, and the truth.

Run it in a checkout, on the folder of a heart scan (heart.tif and mask.tif, a HiP-CT volume of
LADAF-2021-17 by the Human Organ Atlas, as cardiotensor's examples have it)::

    python benchmarks/image.py [HEART]

Without a heart only the volumes that are made here are measured. Speed and memory are those of a
process of its own each, with kernels that are on the disk.
"""

from __future__ import annotations

import argparse
import datetime
import os
import platform
import subprocess
import sys
import time
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import psutil
from structure_tensor import eig_special_3d, structure_tensor_3d

import napari_tractography as nt
from napari_tractography.maps.angles import Axis, helix_angles_deg, tangents
from napari_tractography.model.image_phantoms import make_image_phantom

VOXEL_MM = 0.6352
# Voxel (z, y, x) of the heart; axis of the left ventricle from base to apex, read off its slices,
# and the way to the middle of the free wall, away from the right ventricle.
BASE, APEX = np.array([105.0, 92.0, 98.0]), np.array([200.0, 92.0, 40.0])
FREE_WALL = np.array([0.0, 1.0, 1.0])
HEIGHTS = 0.25, 0.6  # of the axis, between which the wall is measured
SECTOR_DEG = 50.0  # on either side of its middle
MUSCLE = 18_500  # grey value: brighter is muscle, darker fat and what surrounds the heart
CLICK = np.array([140.0, 128.0, 100.0])  # in the free wall
DEPTHS = np.linspace(0, 1, 11)
N = 1000


@dataclass(frozen=True, slots=True)
class Rule:
    """An image that is worked out where it is read: fibres around the z axis, 2048^3 voxels."""

    shape: tuple[int, int, int] = (2048, 2048, 2048)
    dtype: str = "float32"

    def __getitem__(self, box: tuple[slice, ...]) -> np.ndarray:
        x, y, z = np.ix_(*(np.arange(s.start, s.stop, dtype=np.float32) for s in box))
        r = np.hypot(x - 1023.5, y - 1023.5)
        return np.cos(0.9 * r + 0.4 * z) + np.cos(1.1 * z) + np.cos(0.7 * r - 0.6 * z)


def zarr_by_rule(rule: Rule, edge: int = 64) -> tuple[Any, set[str]]:
    """Return a Zarr whose chunks are made by a rule when they are read, and the keys of these."""
    import zarr
    from zarr.storage import MemoryStore

    read: set[str] = set()

    class Store(MemoryStore):
        async def get(self, key: str, prototype: Any, byte_range: Any = None) -> Any:
            _, is_chunk, index = key.partition("c/")
            if not is_chunk:
                return await super().get(key, prototype, byte_range)
            read.add(key)
            firsts = (edge * int(number) for number in index.split("/"))
            chunk = rule[tuple(slice(first, first + edge) for first in firsts)]
            return prototype.buffer.from_bytes(chunk.astype("<f4").tobytes())

    array = zarr.create_array(
        Store(), shape=rule.shape, chunks=(edge,) * 3, dtype="<f4", compressors=None, filters=None
    )
    return array, read


def heart_volume(folder: Path) -> tuple[np.ndarray, np.ndarray]:
    """Return the image, (z, y, x) uint16, and its affine to mm, x, y, z."""
    import tifffile

    affine = np.zeros((4, 4))
    affine[[0, 1, 2], [2, 1, 0]] = VOXEL_MM
    affine[3, 3] = 1.0
    return tifffile.imread(folder / "heart.tif"), affine


def measure_clicks(fod: nt.Fod, click_mm: np.ndarray, radius_mm: float) -> None:
    """Track from a click, and from one beside it; print times, memory and blocks."""
    from napari_tractography.tracking.engine import compile_kernel

    compile_kernel("probabilistic", "trilinear", lmax=8, kernel="blocks")
    process = psutil.Process()
    before = process.memory_info().rss
    parameters = nt.TrackingParameters.for_fod(fod)
    first, peak, parts = None, 0, []
    begun, cpu = time.perf_counter(), time.process_time()
    for chunk in nt.iter_track(fod, nt.Seeds.in_sphere(click_mm, radius_mm, N), parameters):
        parts.append(chunk)
        if first is None and len(chunk):
            first = time.perf_counter() - begun
        peak = max(peak, process.memory_info().rss)
    whole = time.perf_counter() - begun
    if sys.platform == "linux":
        import resource

        peak = max(peak, 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
    found = nt.Tractogram.concatenate(parts)
    made, _ = fod.worked_out()
    print(
        f"click: {len(found)} streamlines of {N} seeds, mean {found.lengths_mm.mean():.3g} mm; "
        f"first after {first:.2f} s, all after {whole:.2f} s "
        f"({time.process_time() - cpu:.1f} s of processor); {fod.blocks.n_made} of {made.size} "
        f"blocks worked out; {(peak - before) / 1e6:.0f} MB above the image"
    )
    moved = nt.Seeds.in_sphere(click_mm + 0.2 * radius_mm, radius_mm, 200)
    nt.track(fod, moved, parameters)
    begun, n_made = time.perf_counter(), fod.blocks.n_made
    nt.track(fod, moved, parameters)
    milliseconds = 1e3 * (time.perf_counter() - begun)
    print(
        f"again, in what is worked out: {len(moved)} seeds in {milliseconds:.0f} ms, "
        f"{fod.blocks.n_made - n_made} blocks more"
    )


def click_heart(folder: Path) -> None:
    """Click in the free wall of the left ventricle."""
    image, affine = heart_volume(folder)
    fod = nt.Fod.from_image(image, affine, name="heart")
    measure_clicks(fod, fod.grid.to_mm(CLICK), 3.0)


def click_rule() -> None:
    """Click in a Zarr of 2048^3 voxels."""
    image, read = zarr_by_rule(Rule())
    fod = nt.Fod.from_image(image, np.diag([0.01, 0.01, 0.01, 1.0]), name="rule")
    measure_clicks(fod, np.array([12.0, 10.0, 10.0]), 0.05)
    print(f"{len(read)} of {image.nchunks} chunks of the Zarr read")


def axial_median(angles: np.ndarray) -> float:
    """Return the median of angles that are the same after 180 degrees, around their mean."""
    mean = np.angle(np.exp(2j * np.radians(angles)).mean()) / 2
    off = (angles - np.degrees(mean) + 90) % 180 - 90
    return float(np.degrees(mean) + np.median(off))


def check_tube() -> None:
    """Helix angle by depth, against the rule by which the tube was made."""
    phantom = make_image_phantom("tube")
    fod = nt.Fod.from_image(phantom.image, phantom.grid, name="tube")
    tube = phantom.drawing
    depth = tube.depth(np.argwhere(np.ones(fod.grid.shape)).astype(float)).reshape(fod.grid.shape)
    mask = (depth > 0.1) & (depth < 0.9)
    mask[..., :12] = mask[..., -12:] = False
    parameters = nt.TrackingParameters.for_fod(fod)
    lines = nt.track(fod, nt.Seeds.in_mask(mask, fod.grid, 2000), parameters)
    middle = (np.array(fod.grid.shape) - 1) / 2
    axis = Axis.of(fod.grid.to_mm([middle * (1, 1, 0), middle * (1, 1, 2)]))
    angles = helix_angles_deg(lines.points, tangents(lines), axis)
    depths = tube.depth(fod.grid.to_voxel(lines.points))
    print(f"tube: {len(lines)} streamlines; depth in the wall, helix angle, rule, off, degrees")
    for low, high in pairwise(DEPTHS):
        here = (depths >= low) & (depths < high)
        truth = float(np.mean(tube.helix_deg(depths[here])))
        found = axial_median(angles[here])
        print(f"  {(low + high) / 2:.2f}  {found:6.1f}  {truth:6.1f}  {found - truth:5.1f}")


def wall_depth(image: np.ndarray) -> np.ndarray:
    """Return the depth of the free wall's voxels, 0 inside and 1 outside; NaN elsewhere.

    A ray from the axis enters the wall where muscle begins for good, and leaves it where it ends.
    """
    from scipy.ndimage import gaussian_filter, map_coordinates

    axis = (APEX - BASE) / np.linalg.norm(APEX - BASE)
    smooth = gaussian_filter(image.astype(np.float32), 1.5)
    index = np.argwhere(np.ones(image.shape, bool)).astype(float)
    t = (index - BASE) @ axis / np.linalg.norm(APEX - BASE)
    away = index - BASE - ((index - BASE) @ axis)[:, None] * axis
    radius = np.linalg.norm(away, axis=1)
    outward = away / np.maximum(radius, 1e-9)[:, None]
    middle = FREE_WALL - (FREE_WALL @ axis) * axis
    middle /= np.linalg.norm(middle)
    chosen = np.flatnonzero(
        (t > HEIGHTS[0])
        & (t < HEIGHTS[1])
        & (outward @ middle > np.cos(np.radians(SECTOR_DEG)))
        & (radius < 70)
    )
    reach = np.arange(0, 75, 0.5)
    depth = np.full(len(index), np.nan)
    for part in np.array_split(chosen, max(1, len(chosen) // 20_000)):
        on_axis = index[part] - away[part]
        rays = on_axis[:, None] + reach[None, :, None] * outward[part][:, None]
        muscle = map_coordinates(smooth, rays.reshape(-1, 3).T, order=1).reshape(rays.shape[:2])
        muscle = muscle > MUSCLE
        last = len(reach) - 1 - np.argmax(muscle[:, ::-1], axis=1)
        gaps = np.where(
            ~muscle & (np.arange(len(reach)) < last[:, None]), np.arange(len(reach)), -1
        )
        first = gaps.max(axis=1) + 1
        inner, outer = reach[first], reach[last]
        depth[part] = (radius[part] - inner) / np.maximum(outer - inner, 1e-9)
        depth[part[(outer - inner < 10) | (depth[part] < 0) | (depth[part] > 1)]] = np.nan
    return depth.reshape(image.shape)


def check_heart(folder: Path) -> None:
    """Helix angle by depth in the free wall of the left ventricle."""
    image, affine = heart_volume(folder)
    fod = nt.Fod.from_image(image, affine, name="heart")
    depth = wall_depth(image)
    inside = np.isfinite(depth)
    parameters = nt.TrackingParameters.for_fod(fod)
    lines = nt.track(fod, nt.Seeds.in_mask(inside, fod.grid, 3000), parameters)
    axis = Axis.of(fod.grid.to_mm([BASE, APEX]))
    angles = helix_angles_deg(lines.points, tangents(lines), axis)
    depths = depth[tuple(np.rint(fod.grid.to_voxel(lines.points)).astype(int).T)]
    print(
        f"heart: {len(lines)} streamlines in {inside.sum()} voxels of the free wall; depth, helix"
    )
    for low, high in pairwise(DEPTHS):
        here = (depths >= low) & (depths < high)
        print(f"  {(low + high) / 2:.2f}  {axial_median(angles[here]):6.1f}  of {here.sum()}")


def check_package(folder: Path) -> None:
    """Directions against the package on the whole volume."""
    image, affine = heart_volume(folder)
    fod = nt.Fod.from_image(image, affine, name="heart")
    found = fod.blocks.whole()
    tensor = structure_tensor_3d(image.astype(np.float32), 1.0, 3.0).astype(np.float64)
    own = np.moveaxis(eig_special_3d(tensor)[1], 0, -1)  # x, y, z: the last axis first
    lengths = np.linalg.norm(found, axis=-1)
    used = lengths > 0.01
    cosines = np.abs((found * own).sum(axis=-1)[used]) / lengths[used]
    off = np.degrees(np.arccos(np.clip(cosines, 0, 1)))
    print(
        f"structure-tensor on the whole heart: {used.sum()} voxels of linearity above 0.01 differ "
        f"by {np.median(off):.3f} degrees, 99.9 % by at most {np.quantile(off, 0.999):.3f}, all by "
        f"at most {off.max():.2f}"
    )


PARTS = {
    "click-heart": click_heart,
    "click-rule": lambda folder: click_rule(),
    "tube": lambda folder: check_tube(),
    "heart": check_heart,
    "package": check_package,
}
WITHOUT_HEART = ("click-rule", "tube")


def main() -> None:
    """Run each part in a process of its own."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("heart", nargs="?", type=Path, help="folder with heart.tif and mask.tif")
    parser.add_argument("--only", choices=PARTS, help="one part, in this process")
    given = parser.parse_args()
    if given.only:
        PARTS[given.only](given.heart)
        return
    print(f"{datetime.date.today()}, {platform.machine()}, {os.cpu_count()} CPUs", flush=True)
    for name in PARTS if given.heart else WITHOUT_HEART:
        command = [sys.executable, __file__, *([str(given.heart)] if given.heart else [])]
        subprocess.run([*command, "--only", name], check=True)


if __name__ == "__main__":
    main()
