"""Regions that steer tracking: spheres and masks, on any grid of their own.

Tested by the kernels at every step, not only at recorded points.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..errors import InvalidParameterError, InvalidRegionError, InvalidWarpError
from ..geometry.grid import Grid, middle_first
from ..geometry.warps import Warp, check_warp
from ..runtime.arrays import (
    DeviceArray,
    as_native,
    library_of,
    mapped,
    may_be_real,
    on_its_device,
    points_of,
    tells_apart,
)
from ..runtime.scalars import as_float, as_point, is_number
from .roles import ROLES
from .seeds import Seeds

MAX_RADIUS_MM = 1e9  # its square is a float32, as the kernels keep it
SAMPLE_SIZE = 1000  # points of a region, to tell whether it overlaps another
WITHIN = 0.995  # of these: the region lies in the other, but for rounding at its border
MOST_PARTS = 4  # of a voxel along each axis, where a mask of smaller ones is warped
SLAB_VOXELS = 1 << 20  # that are looked up at once


@dataclass(frozen=True, slots=True, eq=False)
class Region:
    """A sphere or a mask with a role; made by :meth:`sphere` and :meth:`mask`.

    Attributes
    ----------
    role : str
        One of :data:`ROLES`.
    center_mm : (3,) float64 or None
        Of a sphere, RAS+ mm.
    radius_mm : float
        Of a sphere.
    device_voxels : DeviceArray or None
        Of a mask, (x, y, z) uint8, 1 inside; on the host or on the GPU where it lay.
    grid : Grid or None
        Of a mask.
    name : str
        What to call it in messages.
    """

    role: str
    center_mm: NDArray[np.float64] | None
    radius_mm: float
    device_voxels: DeviceArray | None
    grid: Grid | None
    name: str

    @property
    def voxels(self) -> NDArray[np.uint8] | None:
        """(x, y, z) uint8 or None: of a mask, 1 inside."""
        return None if self.device_voxels is None else self.device_voxels.host

    @classmethod
    def sphere(
        cls, center_mm: ArrayLike, radius_mm: float, role: str, *, name: str = "sphere"
    ) -> Region:
        """Make a sphere of `radius_mm` around `center_mm`, RAS+ mm.

        Raises
        ------
        InvalidRegionError
            When the centre is no point or the radius is not positive.
        """
        centre, radius = as_point(center_mm), as_float(radius_mm)
        if centre is None:
            raise InvalidRegionError(
                f"The centre {center_mm!r} of region {name} is no point; give x, y, z in RAS+ mm."
            )
        if np.abs(centre).max() > np.finfo(np.float32).max:
            raise InvalidRegionError(
                f"The centre {center_mm!r} of region {name} is too far away for 32 bits; give "
                "x, y, z in RAS+ mm."
            )
        if not radius > 0:
            raise InvalidRegionError(
                f"Region {name} has a radius of {radius_mm!r} mm and so is empty; "
                "give a positive number."
            )
        if radius > MAX_RADIUS_MM:
            raise InvalidRegionError(
                f"Region {name} has a radius of {radius:g} mm; give at most {MAX_RADIUS_MM:g}."
            )
        return cls(_role(role), centre, radius, None, None, name)

    @classmethod
    def mask(
        cls,
        labels: ArrayLike,
        affine: ArrayLike | Grid,
        role: str,
        *,
        label: int | None = None,
        name: str = "mask",
    ) -> Region:
        """Make a region of the voxels that are not zero, or that equal `label`.

        Parameters
        ----------
        labels : (x, y, z) array_like
            An array on a GPU (CuPy, PyTorch, JAX) stays there.
        affine : (4, 4) array_like or Grid
            Of the mask itself, voxel to RAS+ mm; it need not be that of the FOD.
        role : str
            One of :data:`ROLES`.
        label : int, optional
            The region is the voxels of this label only.
        name : str
            What to call it in messages.

        Raises
        ------
        InvalidRegionError
            When it is not 3-D, has no voxel, is not of the grid's shape, the label is no number, or
            its type cannot tell that from the next.
        """
        array = as_native(labels)
        if array.ndim != 3:
            raise InvalidRegionError(f"Region {name} has shape {array.shape}; give a 3-D mask.")
        if not may_be_real(array):
            raise InvalidRegionError(
                f"Region {name} holds {array.dtype} values; give real numbers."
            )
        if label is not None and not is_number(label):
            raise InvalidRegionError(
                f"The label {label!r} of region {name} is no number; give one of the image."
            )
        if label is not None and not tells_apart(array.dtype, label):
            raise InvalidRegionError(
                f"Region {name} holds {array.dtype}, which cannot tell label {label} from the "
                "next; give integers."
            )
        with on_its_device(array):
            # NaN counts as outside.
            inside = (array != 0) & (array == array) if label is None else array == label
            is_empty = not inside.any()
            voxels = library_of(array).ascontiguousarray(inside, dtype=np.uint8)
        if is_empty:
            what = "no voxel" if label is None else f"no voxel with label {label}"
            raise InvalidRegionError(f"Region {name} has {what}; paint it or choose another label.")
        grid = affine if isinstance(affine, Grid) else Grid(array.shape, affine)
        if grid.shape != array.shape:
            raise InvalidRegionError(
                f"Region {name} has shape {array.shape} but its grid has {grid.shape}."
            )
        return cls(_role(role), None, 0.0, DeviceArray(voxels), grid, name)

    def contains(self, points_mm: ArrayLike) -> NDArray[np.bool_]:
        """Tell which of (n, 3) RAS+ mm points lie inside, as (n,) bool.

        Raises InvalidRegionError when they are no points.
        """
        points = points_of(points_mm, InvalidRegionError)
        if self.grid is None or self.voxels is None:
            assert self.center_mm is not None
            return np.asarray(((points - self.center_mm) ** 2).sum(axis=1) <= self.radius_mm**2)
        inside = self.grid.contains(points)
        voxels = self.grid.nearest_voxels(points[inside])
        inside[inside] = self.voxels[tuple(voxels.T)] != 0
        return inside

    def overlaps(self, grid: Grid) -> bool:
        """Tell whether any of the region can lie inside an image's grid."""
        if self.grid is not None and self.grid.same_space(grid):
            return True  # without testing each voxel
        if self.grid is None or self.device_voxels is None:
            assert self.center_mm is not None
            centre = self.center_mm[None]
            nearest = grid.nearest_in_boxes(centre, -0.5, np.array(grid.shape) - 0.5)
            return bool(np.linalg.norm(nearest - centre) <= self.radius_mm)
        voxels = self.device_voxels.native
        to_other = grid.inverse @ self.grid.affine
        # Half the extent of a voxel of the mask, in voxels of the other grid.
        reach = 0.5 * np.abs(to_other[:3, :3]).sum(axis=1)
        with on_its_device(voxels):
            for x in middle_first(len(voxels)):  # previews ask at each move of a seed
                held = library_of(voxels).argwhere(voxels[x : x + 1])
                shift = np.eye(4)
                shift[0, 3] = x
                near: Any = True
                centres = mapped(to_other @ shift, held)
                for vox, n, far in zip(centres, grid.shape, reach.tolist(), strict=True):
                    near = near & (vox >= -0.5 - far) & (vox <= n - 0.5 + far)
                if near.any():
                    return True
        return False

    def warped(self, warp: Warp, grid: Grid) -> Region:
        """Return the region in the space that a warp leads to.

        A sphere goes with its centre and keeps its radius. A mask becomes those voxels whose centre
        the way back leads into it; so the inverse of a file's warp is exact and quick here.

        Parameters
        ----------
        warp : Warp
            From the space of the region to that of `grid`.
        grid : Grid
            Where voxels are sought, such as the FOD's; divided where those of the mask are smaller,
            so that thin regions stay closed.

        Raises
        ------
        InvalidWarpError
            When the centre, or the whole mask, has no place there, or it is no warp.
        """
        check_warp(warp)
        if self.grid is None or self.voxels is None:
            assert self.center_mm is not None
            centre = warp.moved(self.center_mm, f"The region {self.name}")
            return Region.sphere(centre, self.radius_mm, self.role, name=self.name)
        finest = float(self.grid.voxel_sizes_mm.min())
        parts = np.clip(np.ceil(grid.voxel_sizes_mm / finest - 0.01), 1, MOST_PARTS).astype(int)
        divided = grid.divided(parts)
        inside = self._found_on(divided, warp.inverse())
        spans = [np.flatnonzero(inside.any(axis=tuple({0, 1, 2} - {axis}))) for axis in range(3)]
        if not len(spans[0]):
            raise InvalidWarpError(
                f"The region {self.name} has no voxel left on {grid} after the warp; check that "
                "it leads from the region to there, and not the other way."
            )
        box = tuple(slice(span[0], span[-1] + 1) for span in spans)
        shift = np.eye(4)
        shift[:3, 3] = [span[0] for span in spans]
        cropped = np.ascontiguousarray(inside[box])
        own = divided.beside(cropped.shape, divided.affine @ shift)
        return Region.mask(cropped, own, self.role, name=self.name)

    def _found_on(self, grid: Grid, back: Warp) -> NDArray[np.bool_]:
        """Return the voxels of a grid whose centres lead into the region, (x, y, z) bool."""
        found = np.zeros(grid.shape, np.bool_)
        thickness = max(1, SLAB_VOXELS // math.prod(grid.shape[1:]))
        for first in range(0, grid.shape[0], thickness):
            slab = found[first : first + thickness]
            voxels = np.indices(slab.shape).reshape(3, -1).T + np.array([first, 0, 0])
            slab[...] = self.contains(back.apply(grid.to_mm(voxels))).reshape(slab.shape)
        return found

    def seeds(self, n: int, *, random_seed: int = 0) -> Seeds:
        """Draw `n` seeds uniformly in the region."""
        if self.grid is None or self.device_voxels is None:
            assert self.center_mm is not None
            return Seeds.in_sphere(self.center_mm, self.radius_mm, n, random_seed=random_seed)
        return Seeds.in_mask(self.device_voxels.native, self.grid, n, random_seed=random_seed)


def check_regions(regions: Sequence[Region], grid: Grid) -> list[str]:
    """Return a warning sentence for each region that no streamline on the grid can meet.

    Raises InvalidParameterError when a region has the role "seed", which is for making seeds, not
    for tracking.
    """
    warnings = []
    for region in regions:
        if region.role == "seed":
            raise InvalidParameterError(
                f"Region {region.name} has the role seed; draw seeds in it with region.seeds(n) "
                "and pass those."
            )
        if not region.overlaps(grid):
            warnings.append(
                f"Region {region.name} ({region.role}) does not overlap the FOD; "
                "check that both are in the same space."
            )
    return warnings


def check_between(one: Region, other: Region) -> list[str]:
    """Return a warning sentence where two regions to track between overlap.

    Raises InvalidRegionError when they are the same, or one lies in the other.
    """
    fractions = []
    for start, goal in ((one, other), (other, one)):
        fractions.append(goal.contains(start.seeds(SAMPLE_SIZE).positions_mm).mean())
        if fractions[-1] > WITHIN:
            raise InvalidRegionError(
                f"Region {start.name} lies in region {goal.name}, so that nothing leads from one "
                "to the other; give two regions that lie apart."
            )
    if not any(fractions):
        return []
    return [
        f"The regions {one.name} and {other.name} overlap: what starts in both is not counted; "
        "give two regions that lie apart."
    ]


def _role(role: str) -> str:
    if role not in ROLES:
        raise InvalidParameterError(
            f"role = {role!r} is unknown; choose one of {', '.join(ROLES)}."
        )
    return role


def listed_regions(regions: Any) -> tuple[Region, ...]:
    """Return regions as they are.

    Raises InvalidRegionError when it is one region alone, or something else is among them.
    """
    if isinstance(regions, Region) or not isinstance(regions, Iterable):
        raise InvalidRegionError(
            f"The regions are of type {type(regions).__name__}; give a list of Regions."
        )
    found = tuple(regions)
    for region in found:
        if not isinstance(region, Region):
            raise InvalidRegionError(
                f"Among the regions is one of type {type(region).__name__}; give Regions, such "
                "as Region.sphere(...) makes."
            )
    return found
