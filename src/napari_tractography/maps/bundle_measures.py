"""Bundles in numbers: how many, how long, how large, the mean of a scalar map, left against right.

Called by the command, the plugin and scripts.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from os import PathLike
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import InvalidParameterError
from ..geometry.grid import Grid
from ..model.fod import Fod
from ..model.sides import SIDE, SIDES, mirrored_name
from ..runtime.buffers import memory_bytes
from ..runtime.extras import needs_extra
from .chunks import Source, blocks_of, check_read_again
from .density import PassCounter
from .scalar_maps import ScalarMap

VOXEL_MM = 1.0  # of the default grid
BYTES_A_VOXEL = 13  # of what counts the streamlines in it
UNKNOWN_MEMORY = 8 << 30  # bytes, where the system does not tell how much there is
# name of a number -> what a person reads, its unit
COLUMNS = {
    "n_streamlines": ("Streamlines", ""),
    "mean_length_mm": ("Mean length", "mm"),
    "q1_length_mm": ("Lower quartile", "mm"),
    "median_length_mm": ("Median length", "mm"),
    "q3_length_mm": ("Upper quartile", "mm"),
    "volume_mm3": ("Volume", "mm³"),
    "surface_mm2": ("Surface", "mm²"),
}


@dataclass(frozen=True, slots=True)
class Spread:
    """Mean and standard deviation over streamlines; NaN where no streamline has a value."""

    mean: float
    sd: float


@dataclass(frozen=True, slots=True)
class BundleMeasures:
    """The numbers of one bundle."""

    name: str
    n_streamlines: int
    # Of the lengths; the quartiles as ``numpy.percentile``. NaN without streamlines.
    mean_length_mm: float
    q1_length_mm: float
    median_length_mm: float
    q3_length_mm: float
    volume_mm3: float  # of the voxels that a streamline passes
    # Of the triangles around these voxels (marching cubes between voxel centres, half-way). It
    # follows their steps: of a ball it is 9 % too large where voxels are cubes, in whatever axes,
    # 12 % where one edge is twice the others and 16 % where it is three times as long.
    surface_mm2: float
    grid: Grid  # the voxels: another grid has another volume and another surface
    # Of each scalar map, over the means along the streamlines.
    scalars: Mapping[str, Spread] = field(default_factory=dict)

    @property
    def numbers(self) -> dict[str, float]:
        """All numbers by name, those of the scalar maps as "FA_mean" and "FA_sd"."""
        found = {name: getattr(self, name) for name in COLUMNS}
        for name, spread in self.scalars.items():
            found |= {f"{name}_mean": spread.mean, f"{name}_sd": spread.sd}
        return found


def measure(
    source: Source, scalars: Iterable[Any] = (), *, grid: Grid | Fod | None = None, name: str = ""
) -> BundleMeasures:
    """Measure a bundle.

    Parameters
    ----------
    source : Tractogram, iterable of Tractogram or path-like
        RAS+ mm. What comes in parts is measured in parts: only lengths and means of streamlines
        are kept, 12 bytes each.
    scalars : iterable of ScalarMap, path-like or (values, affine)
    grid : Grid or Fod, optional
        Whose voxels make volume and surface; that of the first scalar map by default, and without
        one voxels of 1 mm along RAS+.
    name : str

    Raises
    ------
    InvalidParameterError
        When two scalar maps have one name or one is no list, an iterator comes without a grid, or
        streamlines lie too far apart for one.
    TractographyError
        When a file cannot be read.
    MissingPackageError
        When scikit-image is not installed.
    """
    if isinstance(scalars, str | PathLike | ScalarMap):
        raise InvalidParameterError(
            f"scalars = {scalars!r} is a single scalar map; give a list: [{scalars!r}]."
        )
    is_pair = isinstance(scalars, tuple) and len(scalars) == 2 and np.shape(scalars[1]) == (4, 4)
    if is_pair or not isinstance(scalars, Iterable):
        raise InvalidParameterError(
            f"scalars, of type {type(scalars).__name__}, are no list of scalar maps; give one, "
            "such as [(values, affine)]."
        )
    maps = [ScalarMap.of(scalar) for scalar in scalars]
    names = [each.name for each in maps]
    if len(set(names)) < len(names):
        raise InvalidParameterError(
            f"The scalar maps are called {', '.join(names)}; give each a name of its own."
        )
    if grid is None:
        grid = maps[0].grid if maps else grid_around(source)
    _meshes()  # where it is missing, before long work
    passed = PassCounter(grid, np.int32)
    target = passed.grid
    lengths: list[NDArray[np.float32]] = []
    means: list[list[NDArray[np.float64]]] = [[] for _ in maps]
    for block in blocks_of(source):
        lengths.append(block.lengths_mm)
        passed.add(block)
        for each, found in zip(maps, means, strict=True):
            found.append(each.means_along(block))
    all_lengths = np.concatenate([np.zeros(0, np.float32), *lengths]).astype(np.float64)
    quartiles = np.percentile(all_lengths, (25, 50, 75)) if len(all_lengths) else [math.nan] * 3
    inside = passed.counts > 0
    return BundleMeasures(
        name=name,
        n_streamlines=len(all_lengths),
        mean_length_mm=float(all_lengths.mean()) if len(all_lengths) else math.nan,
        q1_length_mm=float(quartiles[0]),
        median_length_mm=float(quartiles[1]),
        q3_length_mm=float(quartiles[2]),
        volume_mm3=float(inside.sum() * abs(np.linalg.det(target.affine[:3, :3]))),
        surface_mm2=surface_mm2(inside, target),
        grid=target,
        scalars={
            each.name: _spread(np.concatenate([np.zeros(0), *found]))
            for each, found in zip(maps, means, strict=True)
        },
    )


def grid_around(source: Source, voxel_mm: float = VOXEL_MM) -> Grid:
    """Return a grid along RAS+ around streamlines, voxel centres at multiples of the voxel size.

    Raises InvalidParameterError when the streamlines come from an iterator, which gives them once,
    or lie so far apart that the grid takes more memory than there is.
    """
    check_read_again(source, "A grid around them")
    low, high = np.full(3, np.inf), np.full(3, -np.inf)
    for block in blocks_of(source):
        if block.n_points:
            low = np.minimum(low, block.points.min(axis=0))
            high = np.maximum(high, block.points.max(axis=0))
    if not np.isfinite(low).all():
        low = high = np.zeros(3)
    first = np.floor(low / voxel_mm) - 1
    shape = [int(n) for n in np.ceil(high / voxel_mm) - first + 2]
    n_bytes, whole = BYTES_A_VOXEL * math.prod(shape), memory_bytes()
    if n_bytes > (whole or UNKNOWN_MEMORY):
        raise InvalidParameterError(
            f"The streamlines span {' x '.join(f'{n * voxel_mm:.0f}' for n in shape)} mm, around "
            f"which voxels of {voxel_mm:g} mm take {n_bytes / 1e9:.3g} GB of memory; give a grid, "
            "or leave out what lies far away."
        )
    affine = np.diag([voxel_mm, voxel_mm, voxel_mm, 1.0])
    affine[:3, 3] = first * voxel_mm
    return Grid(shape, affine)


def surface_mm2(inside: NDArray[np.bool_], grid: Grid) -> float:
    """Return the area of the triangles around (x, y, z) voxels; see :class:`BundleMeasures`.

    Lorensen & Cline, Marching cubes, SIGGRAPH 1987, in the version of Lewiner et al. 2003 that
    scikit-image has.
    """
    meshes = _meshes()
    found = np.argwhere(inside)
    if not len(found):
        return 0.0
    low = found.min(axis=0)
    box = inside[tuple(slice(a, b + 1) for a, b in zip(low, found.max(axis=0), strict=True))]
    corners, triangles, _, _ = meshes.marching_cubes(np.pad(box, 1).astype(np.float32), 0.5)
    return float(meshes.mesh_surface_area(grid.to_mm(corners + low - 1), triangles))


def _meshes() -> Any:
    """Return scikit-image's functions of meshes, which are loaded on use: it takes a while."""
    with needs_extra("measures", "The surface of a bundle takes"):
        from skimage import measure as meshes
    return meshes


def sides(names: Iterable[str]) -> list[tuple[str, str]]:
    """Return the pairs of names that differ in left and right alone, left first."""
    known = list(dict.fromkeys(names))
    pairs = []
    for name in known:
        side = SIDE.search(name)
        other = mirrored_name(name)
        if side is not None and side[0] in SIDES and other in known:
            pairs.append((name, other))
    return pairs


def asymmetry(left: BundleMeasures, right: BundleMeasures) -> dict[str, float]:
    """Return (L - R) / (L + R) of each number that both bundles have; NaN where both are 0.

    1 is all on the left, -1 all on the right, 0 no difference. Raises InvalidParameterError when
    they are not what :func:`measure` returns.
    """
    for bundle in (left, right):
        if not isinstance(bundle, BundleMeasures):
            raise InvalidParameterError(
                f"Bundles are of type {type(bundle).__name__}; give what measure returns of each."
            )
    others = right.numbers
    return {
        name: (value - others[name]) / (value + others[name]) if value + others[name] else math.nan
        for name, value in left.numbers.items()
        if name in others
    }


def _spread(values: NDArray[np.float64]) -> Spread:
    known = values[~np.isnan(values)]
    if not len(known):
        return Spread(math.nan, math.nan)
    return Spread(float(known.mean()), float(known.std()))
