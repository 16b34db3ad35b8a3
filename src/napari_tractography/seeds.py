"""Seeds: where streamlines start, and in which direction when that is given.

Drawn from the package's own generator under purposes of their own, so that the first N of 2 N
seeds are the N seeds asked for before, on every machine. Only additions, multiplications and
comparisons are used: no library function whose last digit differs between machines.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .arrays import Held, host_array, library_of, on_its_device, taken
from .errors import InvalidMaskError, InvalidSeedsError
from .grid import Grid
from .tracking.philox import Purpose, uniforms

if TYPE_CHECKING:
    from .fod import Fod

MAX_SEEDS = 2**32  # the streamline id is one 32-bit word of the random counter


class Seeds:
    """Positions, and optionally directions, at which streamlines start.

    Seed i starts streamline i: its random numbers depend on its index, not on its position.

    Parameters
    ----------
    positions_mm : (n, 3) array_like
        RAS+ mm. An array on a GPU (CuPy, PyTorch, JAX) stays there, and is copied to the host when
        something there asks for it.
    directions : (n, 3) array_like, optional
        Start directions in RAS+ axes, of any length but zero; used when ``start="given"``.

    Raises
    ------
    InvalidSeedsError
        When there are none, or a number is not finite.
    """

    __slots__ = ("directions", "held_positions")

    def __init__(self, positions_mm: ArrayLike, directions: ArrayLike | None = None) -> None:
        given = taken(positions_mm)
        library = library_of(given)
        with on_its_device(given):
            positions = library.atleast_2d(library.ascontiguousarray(given, dtype=np.float32))
            n_bad = 0
            if positions.ndim == 2:
                n_bad = int((~library.isfinite(positions)).any(axis=1).sum())
        if positions.size == 0:
            raise InvalidSeedsError("There are no seeds; place at least one.")
        if positions.ndim != 2 or positions.shape[1] != 3:
            raise InvalidSeedsError(
                f"Seeds have shape {positions.shape}; give (n, 3) positions in RAS+ mm."
            )
        if n_bad:
            raise InvalidSeedsError(f"{n_bad} seeds have NaN or infinite positions; remove them.")
        if len(positions) > MAX_SEEDS:
            raise InvalidSeedsError(f"{len(positions)} seeds are too many; give at most 2^32.")
        self.held_positions = Held(positions)
        self.directions: NDArray[np.float32] | None = None
        if directions is not None:
            units = np.atleast_2d(np.asarray(host_array(directions), dtype=np.float64))
            norms = np.linalg.norm(units, axis=-1, keepdims=True)
            if units.shape != positions.shape or not ((norms > 0) & np.isfinite(norms)).all():
                raise InvalidSeedsError(
                    f"Start directions have shape {units.shape} for {len(positions)} seeds; give "
                    "one finite, non-zero vector a seed."
                )
            self.directions = np.ascontiguousarray(units / norms, dtype=np.float32)

    @property
    def positions_mm(self) -> NDArray[np.float32]:
        """(n, 3) float32: where streamlines start, RAS+ mm."""
        return self.held_positions.host

    @classmethod
    def at(cls, points_mm: ArrayLike, directions: ArrayLike | None = None) -> Seeds:
        """Take (n, 3) RAS+ mm positions, and optionally directions, as they are."""
        return cls(points_mm, directions)

    @classmethod
    def in_sphere(
        cls, center_mm: ArrayLike, radius_mm: float, n: int, *, random_seed: int = 0
    ) -> Seeds:
        """Draw `n` seeds uniformly in a ball.

        Parameters
        ----------
        center_mm : (3,) array_like
            RAS+ mm.
        radius_mm : float
            Zero puts all seeds at the centre.
        n : int
            Number of seeds.
        random_seed : int
            Key of the random numbers.
        """
        count = _count(n)
        if not (math.isfinite(radius_mm) and radius_mm >= 0):
            raise InvalidSeedsError(
                f"A seed radius of {radius_mm} mm is impossible; give a number from 0."
            )
        centre = np.asarray(center_mm, dtype=np.float64)
        if centre.shape != (3,) or not np.isfinite(centre).all():
            raise InvalidSeedsError(
                f"The seed centre {center_mm!r} is no point; give x, y, z in RAS+ mm."
            )
        return cls(centre + radius_mm * _in_unit_ball(count, random_seed))

    @classmethod
    def in_mask(
        cls, mask: ArrayLike, affine: ArrayLike | Grid, n: int, *, random_seed: int = 0
    ) -> Seeds:
        """Draw `n` seeds uniformly in the voxels of a mask.

        Parameters
        ----------
        mask : (x, y, z) array_like
            Non-zero where seeds may lie.
        affine : (4, 4) array_like or Grid
            Of the mask, voxel to RAS+ mm.
        n : int
            Number of seeds.
        random_seed : int
            Key of the random numbers.

        Raises
        ------
        InvalidMaskError
            When the mask is empty, not 3-D or of another shape than its grid.
        """
        inside = host_array(mask)
        if inside.ndim != 3:
            raise InvalidMaskError(f"A seed mask is 3-D, not of shape {inside.shape}.")
        grid = affine if isinstance(affine, Grid) else Grid(inside.shape, affine)
        if grid.shape != inside.shape:
            raise InvalidMaskError(
                f"The seed mask has shape {inside.shape} but its grid has {grid.shape}."
            )
        voxels = np.argwhere(np.nan_to_num(inside) != 0)
        if not len(voxels):
            raise InvalidMaskError(
                f"The seed mask of shape {inside.shape} is empty; paint or choose another."
            )
        count = _count(n)
        ids = np.arange(count)
        pick = uniforms(ids, 0, Purpose.SEED_VOXEL, random_seed)[:, 0]
        chosen = voxels[np.minimum((pick * len(voxels)).astype(np.int64), len(voxels) - 1)]
        return cls(grid.to_mm(chosen + _in_unit_cube(ids, random_seed)))

    @classmethod
    def from_fod(cls, fod: Fod, n: int, *, random_seed: int = 0) -> Seeds:
        """Draw `n` seeds with a density in proportion to the FOD's integral over directions.

        The integral is sqrt(4 pi) times the l = 0 coefficient; voxels where it is negative get
        no seeds. Within a voxel seeds are uniform.
        """
        count = _count(n)
        averages = host_array(fod.held_values.nearest[:, 0])  # no more than these from a GPU
        weights = np.maximum(averages.astype(np.float64), 0.0)
        cumulative = np.cumsum(weights)
        if not cumulative[-1] > 0:
            raise InvalidSeedsError(
                f"{fod.name} is nowhere positive on average; seed from a mask or from points."
            )
        ids = np.arange(count)
        pick = uniforms(ids, 0, Purpose.SEED_VOXEL, random_seed)[:, 0] * cumulative[-1]
        chosen = np.argwhere(fod.support)[np.searchsorted(cumulative, pick, side="right")]
        return cls(fod.grid.to_mm(chosen + _in_unit_cube(ids, random_seed)))

    @classmethod
    def concatenate(cls, parts: Sequence[Seeds]) -> Seeds:
        """Join seeds in the order given; directions are kept when all parts have them."""
        if not parts:
            raise InvalidSeedsError("There are no seeds; place at least one.")
        directions = [p.directions for p in parts if p.directions is not None]
        return cls(
            np.concatenate([p.positions_mm for p in parts]),
            np.concatenate(directions) if len(directions) == len(parts) else None,
        )

    def __len__(self) -> int:
        return len(self.held_positions)

    def __getitem__(self, index: slice) -> Seeds:
        return Seeds(
            self.held_positions.nearest[index],
            None if self.directions is None else self.directions[index],
        )

    def __repr__(self) -> str:
        given = "" if self.directions is None else " with directions"
        return f"Seeds({len(self)}{given})"


def _count(n: int) -> int:
    if not 1 <= n <= MAX_SEEDS or int(n) != n:
        raise InvalidSeedsError(f"{n} seeds were asked for; ask for 1 to 2^32.")
    return int(n)


def _in_unit_cube(ids: NDArray[np.int64], random_seed: int) -> NDArray[np.float64]:
    """Return (n, 3) positions in [-0.5, 0.5)."""
    return uniforms(ids, 0, Purpose.SEED_POSITION, random_seed)[:, :3] - 0.5


def _in_unit_ball(n: int, random_seed: int) -> NDArray[np.float64]:
    """Return (n, 3) positions uniform in the unit ball, by rejection from the cube around it."""
    result = np.empty((n, 3))
    left = np.arange(n)
    draw = 0
    while len(left):
        offsets = 2.0 * uniforms(left, draw, Purpose.SEED_POSITION, random_seed)[:, :3] - 1.0
        x, y, z = offsets.T
        accepted = x * x + y * y + z * z <= 1.0
        result[left[accepted]] = offsets[accepted]
        left = left[~accepted]
        draw += 1
    return result
