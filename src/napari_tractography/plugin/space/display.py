"""The display space: where napari draws what lives in RAS+ millimetres.

napari draws axes (z, y, x), and in 2-D it drops the rotation of an oblique affine. Volumes are
therefore shown on their own voxel grid, brought to the closest canonical (RAS) order and
reversed to z, y, x, with a diagonal scale and a translation; streamlines and seeds go through
the same transform, so that they lie on the volume exactly. Called by everything in the plugin
that puts something on the screen or takes a position from it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import nibabel as nib
import numpy as np
from numpy.typing import ArrayLike, NDArray

from ...errors import InvalidGridError
from ...geometry.grid import Grid
from ...geometry.units import MM, VOXEL, per_mm
from ...runtime.buffers import pool
from ...streamlines.compiled_loops import map_points
from ..compiled import may_loop

NAPARI_UNITS = {VOXEL: "pixel"}  # the others have the same names
NAMES = {"millimeter": "mm", "micrometer": "um", "nanometer": "nm"}  # as napari's units say them
BRAIN_VOXEL_MM = 2.0  # of which lengths on the screen were thought
BLOCK = 1 << 15  # points that are mapped at once
POSITION_DECIMALS = 6  # of what a person places, in the unit of the display
SETTINGS_KEY = "fibres"  # layer.metadata[SETTINGS_KEY]: the ImageSettings of an image source
BARE_KEY = "bare"  # layer.metadata[BARE_KEY]: whether its file says nothing of left and right
# What the sliders are called: the direction in which each axis increases.
AXIS_LABELS = ("S", "A", "R")

# With axes (z, y, x) that increase to superior, anterior and right: in 2-D anterior (or
# superior) is up and left is on the left; in 3-D the anatomy is not mirrored.
ORIENTATION = ("towards", "up", "right")

# Off-diagonal terms below this fraction of a voxel are rounding errors of file headers.
ALIGNED_TOLERANCE = 1e-6


@dataclass(frozen=True, slots=True)
class DisplaySpace:
    """How RAS+ mm and voxels of one grid map to what napari draws.

    Display coordinates are in the unit of the grid: napari reckons in the units of its layers, and
    a volume in um is to stay one.

    Make it with :meth:`of`, :meth:`identity` or :func:`display_space_of_layer`.
    """

    grid: Grid | None  # the voxel grid that is shown; None when there is no volume
    # scale, translate: size of a voxel and position of the first, in the display's unit, axes z, y,
    # x: what `add_image` takes.
    scale: tuple[float, float, float]
    translate: tuple[float, float, float]
    # Which axis of an array on `grid` runs along x, y and z of the display.
    axes: tuple[int, int, int]
    flips: tuple[bool, bool, bool]  # whether that axis runs the other way
    # (4, 4) float64: RAS+ mm to display coordinates, axes x, y, z.
    world_to_display: NDArray[np.float64] = field(compare=False, repr=False)
    unit: str = MM  # of display coordinates, see geometry.units

    @classmethod
    def of(cls, grid: Grid) -> DisplaySpace:
        """Return the space of a grid.

        For an axis-aligned affine display coordinates are RAS+ mm; for an oblique one the
        centre of the volume stays where it is in RAS+ mm.
        """
        axes, flips = _canonical_order(grid.affine)
        affine, shape = _reorder(grid, axes, flips)
        affine = _zoom(per_mm(grid.unit)) @ affine
        sizes = np.linalg.norm(affine[:3, :3], axis=0)
        if np.abs(affine[:3, :3] - np.diag(sizes)).max() <= ALIGNED_TOLERANCE * sizes.min():
            first, matrix = affine[:3, 3], np.eye(4)
        else:
            first = per_mm(grid.unit) * grid.centre_mm - sizes * (np.array(shape) - 1) / 2
            matrix = diagonal(sizes, first) @ np.linalg.inv(affine)
        to_display = matrix @ _zoom(per_mm(grid.unit))
        return cls._make(grid, sizes, first, axes, flips, to_display, grid.unit)

    @classmethod
    def identity(cls) -> DisplaySpace:
        """Return the space of streamlines without a volume: RAS+ mm, reversed to z, y, x."""
        return cls._make(None, np.ones(3), np.zeros(3), (0, 1, 2), (False,) * 3, np.eye(4))

    @classmethod
    def _make(
        cls,
        grid: Grid | None,
        sizes: NDArray[np.float64],
        first: NDArray[np.float64],
        axes: tuple[int, int, int],
        flips: tuple[bool, bool, bool],
        matrix: NDArray[np.float64],
        unit: str = MM,
    ) -> DisplaySpace:
        matrix.flags.writeable = False
        z, y, x = (float(v) for v in sizes[::-1])
        tz, ty, tx = (float(v) for v in first[::-1])
        return cls(grid, (z, y, x), (tz, ty, tx), axes, flips, matrix, unit)

    @property
    def per_mm(self) -> float:
        """How much of the display a millimetre is."""
        return per_mm(self.unit)

    def in_proportion(self, length_mm: float) -> float:
        """Return a length, mm, that is to this volume as one is to a brain of 2 mm voxels.

        Volumes in mm are taken for brains: their lengths stay as they are.
        """
        if self.grid is None or self.unit == MM:
            return length_mm
        return length_mm * float(self.grid.voxel_sizes_mm.min()) / BRAIN_VOXEL_MM

    @property
    def units(self) -> tuple[str, str, str]:
        """For napari's layers: the same on every layer, as napari reckons with them."""
        name = NAPARI_UNITS.get(self.unit, self.unit)
        return name, name, name

    @property
    def is_ras(self) -> bool:
        """Whether display coordinates are RAS+ mm."""
        return bool(np.array_equal(self.world_to_display, np.eye(4)))

    @property
    def is_tilted(self) -> bool:
        """Whether a slice on the screen has no one position R, A or S: the volume is oblique."""
        turned = self.world_to_display[:3, :3] / self.per_mm
        return bool(np.abs(turned - np.eye(3)).max() > ALIGNED_TOLERANCE)

    @property
    def shape_zyx(self) -> tuple[int, int, int] | None:
        """Number of slices along z, y and x of the volume as it is shown; None without one."""
        if self.grid is None:
            return None
        nx, ny, nz = (self.grid.shape[axis] for axis in self.axes)
        return nz, ny, nx

    @property
    def layer_kwargs(self) -> dict[str, Any]:
        """Keyword arguments for ``add_image`` and ``add_labels``: where, and the true affine."""
        return {
            "scale": self.scale,
            "translate": self.translate,
            "units": self.units,
            "axis_labels": AXIS_LABELS,
            "metadata": {} if self.grid is None else {"affine": self.grid.affine},
        }

    def volume(self, array_xyz: Any) -> Any:
        """Bring an array on ``grid``, (x, y, z, ...), to what napari shows: (z, y, x, ...).

        A view of NumPy arrays; lazy arrays stay lazy.
        """
        rest = tuple(range(3, array_xyz.ndim))
        canonical = array_xyz.transpose((*self.axes, *rest))
        reverse = tuple(slice(None, None, -1 if flip else None) for flip in self.flips)
        return canonical[reverse].transpose((2, 1, 0, *rest))

    def from_volume(self, array_zyx: Any) -> Any:
        """Undo :meth:`volume`: bring (z, y, x, ...) back to the axes of ``grid``, as a view."""
        rest = tuple(range(3, array_zyx.ndim))
        canonical = array_zyx.transpose((2, 1, 0, *rest))
        reverse = tuple(slice(None, None, -1 if flip else None) for flip in self.flips)
        back = tuple(int(i) for i in np.argsort(self.axes))
        return canonical[reverse].transpose((*back, *rest))

    def to_display_xyz(self, points_ras_mm: ArrayLike) -> NDArray[np.float32]:
        """Map (n, 3) RAS+ mm to display coordinates, axes x, y, z, float32.

        Returns the points themselves, not a copy, where :attr:`is_ras`.
        """
        points = np.asarray(points_ras_mm, dtype=np.float32).reshape(-1, 3)
        if self.is_ras:
            return points
        matrix = np.ascontiguousarray(self.world_to_display[:3], dtype=np.float32)
        mapped = pool.points(len(points))
        if may_loop(points):
            map_points(points, matrix, mapped)
            return mapped
        # Not by "@": for as many points BLAS wakes threads of its own, which then spin on the
        # processors that the next preview is to be tracked on.
        # In blocks that stay in the cache, column after column: in half the time.
        for first in range(0, len(points), BLOCK):
            x, y, z = np.ascontiguousarray(points[first : first + BLOCK].T)
            for axis, (a, b, c, shift) in enumerate(matrix):
                column = x * a
                column += y * b
                column += z * c
                column += shift
                mapped[first : first + BLOCK, axis] = column
        return mapped

    def to_display(self, points_ras_mm: ArrayLike) -> NDArray[np.float32]:
        """Map (n, 3) RAS+ mm to display coordinates, axes z, y, x, float32."""
        return self.to_display_xyz(points_ras_mm)[:, ::-1]

    def to_world(self, points_zyx: ArrayLike) -> NDArray[np.float64]:
        """Map (n, 3) display coordinates, axes z, y, x, to RAS+ mm, float64."""
        inverse = np.linalg.inv(self.world_to_display)
        points = np.asarray(points_zyx, dtype=np.float64).reshape(-1, 3)[:, ::-1]
        return np.asarray(points @ inverse[:3, :3].T + inverse[:3, 3])

    def shown_at(self, positions_mm: ArrayLike) -> NDArray[np.float64]:
        """Map (n, 3) RAS+ mm of a few positions to display coordinates, axes z, y, x, float64."""
        positions = np.asarray(positions_mm, dtype=np.float64).reshape(-1, 3)
        there = self.world_to_display
        return np.asarray((positions @ there[:3, :3].T + there[:3, 3])[:, ::-1])

    def apart(self, other: DisplaySpace) -> float:
        """Return how far apart two spaces show a position of the other's volume, at most.

        In the unit of the display; 0 where the other has no volume, or another unit.
        """
        if other.grid is None or other.unit != self.unit:
            return 0.0
        corners = other.grid.corners_mm()
        gaps = self.shown_at(corners) - other.shown_at(corners)
        return float(np.linalg.norm(gaps, axis=1).max())

    def positions_at(self, points_zyx: ArrayLike) -> NDArray[np.float64]:
        """Map (n, 3) display coordinates to RAS+ mm; the same after any number of round trips.

        They are rounded, in the unit of the display.
        """
        shown = np.round(self.to_world(points_zyx) * self.per_mm, POSITION_DECIMALS)
        return np.asarray(shown / self.per_mm + 0.0)  # no -0


def display_space_of_layer(layer: Any) -> DisplaySpace:
    """Return the space in which a 3-D layer of an image or labels is shown.

    Where ``layer.metadata["affine"]`` is given, it is the true affine of the voxels, which the
    layer shows in closest canonical order reversed to (z, y, x), as our readers and napari-nifti
    do; the layer may place them with any scale and translation. Otherwise the layer's own transform
    leads to RAS+ mm. Raises InvalidGridError when the layer is not 3-D or its affine is not 4 x 4.
    """
    shape = tuple(int(n) for n in layer.data.shape)
    if layer.ndim != 3 or len(shape) < 3:
        raise InvalidGridError(
            f"The layer {layer.name!r} has {layer.ndim} dimensions; choose a 3-D volume."
        )
    nx, ny, nz = shape[2], shape[1], shape[0]
    placed = np.array([layer.data_to_world(p) for p in np.vstack([np.zeros(3), np.eye(3)])])
    own = np.eye(4)
    own[:3, 3] = placed[0][::-1]
    own[:3, :3] = (placed[1:] - placed[0])[::-1, ::-1].T
    known, unit = layer.metadata.get("affine"), unit_of_layer(layer) or MM
    if known is None:
        sizes = np.linalg.norm(own[:3, :3], axis=0) * np.where(np.diag(own)[:3] < 0, -1, 1)
        zoom = _zoom(per_mm(unit))
        grid = Grid((nx, ny, nz), np.linalg.inv(zoom) @ own, unit=unit)
        return DisplaySpace._make(grid, sizes, own[:3, 3], (0, 1, 2), (False,) * 3, zoom, unit)
    matrix = np.asarray(known, dtype=np.float64)
    affine = np.eye(4)
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or len(matrix) < 4:
        raise InvalidGridError(
            f"metadata['affine'] of the layer {layer.name!r} has shape {matrix.shape}; it must be "
            "4 x 4."
        )
    affine[:3, :3], affine[:3, 3] = matrix[:3, :3], matrix[:3, -1]  # 5 x 5 where there is time
    axes, flips = _canonical_order(affine)
    sizes_xyz = [0, 0, 0]
    for axis, n in zip(axes, (nx, ny, nz), strict=True):
        sizes_xyz[axis] = n
    grid = Grid(sizes_xyz, affine, unit=unit)
    canonical, _ = _reorder(grid, axes, flips)
    return DisplaySpace._make(
        grid, np.diag(own)[:3], own[:3, 3], axes, flips, own @ np.linalg.inv(canonical), unit
    )


def says_sides(layer: Any) -> bool:
    """Return whether a volume's file says where left and right are, as a TIFF does not."""
    return "affine" in layer.metadata and not layer.metadata.get(BARE_KEY)


def set_units(layer: Any, units: tuple[str, ...]) -> None:
    """Give a layer units of length.

    napari 0.9.2 keeps slicing a layer by the units that it had before, until its scale is set.
    """
    before = layer.units
    layer.units = units
    if layer.units != before:
        layer.scale = layer.scale


def unit_of_layer(layer: Any) -> str | None:
    """Return the unit of length of a layer; None where it has none that the display knows.

    Raises InvalidGridError when its axes have different units.
    """
    found = {NAMES.get(str(unit)) for unit in layer.units[-3:]}
    if len(found) > 1:
        names = ", ".join(map(str, layer.units))
        raise InvalidGridError(
            f"The axes of the layer {layer.name!r} have the units {names}; give all the same."
        )
    return found.pop()


def _canonical_order(
    affine: NDArray[np.float64],
) -> tuple[tuple[int, int, int], tuple[bool, bool, bool]]:
    """Return which voxel axis runs along R, A and S, and whether it runs the other way."""
    orientation = nib.io_orientation(affine)
    i, j, k = (int(np.flatnonzero(orientation[:, 0] == axis)[0]) for axis in range(3))
    is_flipped = (orientation[:, 1] < 0).tolist()
    return (i, j, k), (is_flipped[i], is_flipped[j], is_flipped[k])


def _reorder(
    grid: Grid, axes: tuple[int, int, int], flips: tuple[bool, bool, bool]
) -> tuple[NDArray[np.float64], tuple[int, int, int]]:
    """Return affine and shape of the grid after permuting and flipping its axes."""
    columns = grid.affine[:3, :3][:, axes]
    shape = (grid.shape[axes[0]], grid.shape[axes[1]], grid.shape[axes[2]])
    first = grid.affine[:3, 3].copy()
    affine = np.eye(4)
    for axis, flip in enumerate(flips):
        if flip:
            first += columns[:, axis] * (shape[axis] - 1)
        affine[:3, axis] = -columns[:, axis] if flip else columns[:, axis]
    affine[:3, 3] = first
    return affine, shape


def _zoom(factor: float) -> NDArray[np.float64]:
    return np.diag([factor, factor, factor, 1.0])


def diagonal(sizes: ArrayLike, first: ArrayLike) -> NDArray[np.float64]:
    """Return the (4, 4) matrix of voxels of these sizes, the first of which lies there."""
    matrix = np.diag([*np.asarray(sizes, dtype=np.float64), 1.0])
    matrix[:3, 3] = first
    return matrix
