"""Seeds: where streamlines start, and in which direction where that is fixed.

Drawn from the package's own generator under purposes of their own, so that the first N of 2 N
seeds are the N seeds asked for before, on every machine. Only additions, multiplications and
comparisons are used: no library function whose last digit differs between machines.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..errors import (
    InvalidFodError,
    InvalidMaskError,
    InvalidParameterError,
    InvalidSeedsError,
    InvalidTissuesError,
    InvalidWarpError,
)
from ..geometry.grid import Grid
from ..geometry.warps import Warp, check_warp
from ..runtime.arrays import (
    DeviceArray,
    as_native,
    host_array,
    library_of,
    may_be_real,
    on_its_device,
)
from ..runtime.buffers import memory_bytes
from ..runtime.scalars import as_float, as_point, as_whole
from .interface import interface_points
from .philox import MASK_32, Purpose, philox4x32, uniforms

if TYPE_CHECKING:
    from .fod import Fod
    from .tissues import Tissues

GOLDEN = (math.sqrt(5.0) - 1.0) / 2.0
MAX_SEEDS = 2**32  # the streamline id is one 32-bit word of the random counter
TURN_MM = 0.1  # on both sides of a seed, by which a warp turns its direction
BY = ("list", "voxel")  # what seeds in a mask depend on
RANKED_AT_ONCE = 1 << 18  # voxels of rounds
FEW_SEEDS = 1 << 16  # fit into any memory; to ask for its size takes as long as to draw them
# The most that was measured while seeds are drawn (152 in a sphere, 208 in a mask, 216 in an FOD):
# numbers, counters, random words, positions.
BYTES_A_SEED = 216


class Seeds:
    """Positions, and optionally directions, at which streamlines start.

    Seed i starts streamline i: its random numbers depend on its index, not on its position; of
    those that are drawn by voxel, see :meth:`by_voxel`, on the voxel.

    Parameters
    ----------
    positions_mm : (n, 3) array_like
        RAS+ mm. An array on a GPU (CuPy, PyTorch, JAX) stays there, and is copied to the host when
        something there asks for it, and so do directions. One of float32 on the host is shared, and
        must not change; :meth:`at` copies it.
    directions : (n, 3) array_like, optional
        Start directions in RAS+ axes, of any length but zero; used when ``start="given"``.

    Raises
    ------
    InvalidSeedsError
        When there are none, or a number is not real or not finite.
    """

    __slots__ = ("_draw", "device_directions", "device_positions", "streams")

    def __init__(self, positions_mm: ArrayLike, directions: ArrayLike | None = None) -> None:
        points = as_native(positions_mm)
        if not may_be_real(points):
            raise InvalidSeedsError(
                f"The positions of seeds hold {points.dtype} values; give RAS+ mm as real numbers."
            )
        library = library_of(points)
        with on_its_device(points), np.errstate(over="ignore"):  # it is infinite then
            positions = library.atleast_2d(library.ascontiguousarray(points, dtype=np.float32))
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
        self.device_positions = DeviceArray(positions)
        self.device_directions = None if directions is None else _units(directions, len(positions))
        # Of seeds that were drawn: from a number of seeds and that of the first to those seeds.
        self._draw: Callable[[int, int], Seeds] | None = None
        # (n,) uint32: what the random numbers of each streamline depend on, where that is not its
        # index.
        self.streams: NDArray[np.uint32] | None = None

    @property
    def can_go_on(self) -> bool:
        """Whether seeds were drawn, so that there are more of the same: see :meth:`more`."""
        return self._draw is not None

    def more(self, n: int, first: int) -> Seeds:
        """Draw `n` seeds from number `first` on of the endless list that these begin.

        Seed i of spheres, masks, each voxel of a mask, FODs and interfaces does not depend on how
        many are drawn. Of several parts that were joined, the list has all parts in turn, each as
        long as it is, again and again with other seeds.

        Raises
        ------
        InvalidSeedsError
            When they are fixed points, of which there are no more.
        """
        if self._draw is None:
            raise InvalidSeedsError(
                f"These {len(self)} seeds are fixed points, of which there are no more; draw them "
                "in a sphere, in a mask, from the FOD or on the interface."
            )
        return self._draw(_count(n), first)

    def _drawn_by(self, method: str, arguments: tuple[Any, ...], key: int, first: int) -> Seeds:
        self._draw = partial(_redraw, method, arguments, key, first)
        return self

    @property
    def positions_mm(self) -> NDArray[np.float32]:
        """(n, 3) float32: where streamlines start, RAS+ mm."""
        return self.device_positions.host

    @property
    def directions(self) -> NDArray[np.float32] | None:
        """(n, 3) float32 or None: start directions, unit vectors in RAS+ axes."""
        return None if self.device_directions is None else self.device_directions.host

    @classmethod
    def at(cls, points_mm: ArrayLike, directions: ArrayLike | None = None) -> Seeds:
        """Use (n, 3) RAS+ mm positions, and optionally directions, as they are now.

        Arrays on the host are copied; those on a GPU are used, and must not change.
        """
        own = points_mm.copy() if isinstance(points_mm, np.ndarray) else points_mm
        return cls(own, directions)

    @classmethod
    def in_sphere(
        cls, center_mm: ArrayLike, radius_mm: float, n: int, *, random_seed: int = 0, first: int = 0
    ) -> Seeds:
        """Draw `n` seeds uniformly in a sphere.

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
        first : int
            Number of the first seed: seed i takes the random numbers of seed ``first + i``. With
            the number of seeds in the spheres before it, several spheres of one run do not repeat
            the same offsets.

        Raises
        ------
        InvalidSeedsError
            When the centre, the radius or a number of seeds is impossible.
        """
        ids = _ids(n, first)
        radius = as_float(radius_mm)
        if not 0 <= radius < math.inf:
            raise InvalidSeedsError(
                f"A seed radius of {radius_mm!r} mm is impossible; give a number from 0."
            )
        centre = as_point(center_mm)
        if centre is None:
            raise InvalidSeedsError(
                f"The seed centre {center_mm!r} is no point; give x, y, z in RAS+ mm."
            )
        positions = centre + radius * _in_unit_ball(ids, random_seed)
        if np.abs(positions).max() > np.finfo(np.float32).max:
            raise InvalidSeedsError(
                f"Seeds within {radius:g} mm of {centre.tolist()} lie too far out for float32; "
                "give a place and a radius of the image's size."
            )
        return cls(positions)._drawn_by("in_sphere", (centre, radius), random_seed, first)

    @classmethod
    def in_mask(
        cls,
        mask: ArrayLike,
        affine: ArrayLike | Grid,
        n: int,
        *,
        random_seed: int = 0,
        first: int = 0,
        by: str = "list",
    ) -> Seeds:
        """Draw `n` seeds uniformly in the voxels of a mask.

        Parameters
        ----------
        mask : (x, y, z) array_like
            Non-zero where seeds may lie. One on a GPU stays there: only the chosen voxels
            come to the host.
        affine : (4, 4) array_like or Grid
            Of the mask, voxel to RAS+ mm.
        n : int
            Number of seeds.
        random_seed : int
            Key of the random numbers.
        first : int
            Number of the first seed, as in :meth:`in_sphere`.
        by : str
            "list": each seed picks one of the voxels by its number, so that all are others where
            the mask changes; "voxel": see :meth:`by_voxel`.

        Raises
        ------
        InvalidMaskError
            When the mask is empty, not 3-D or of another shape than its grid.
        InvalidParameterError
            When `by` is neither.
        """
        if _checked_by(by) == "voxel":
            return cls.by_voxel(mask, affine, n, random_seed=random_seed, first=first)
        held, grid, indices = voxels_of_mask(mask, affine)
        ids = _ids(n, first)
        pick = uniforms(ids, 0, Purpose.SEED_VOXEL, random_seed)[:, 0]
        which = np.minimum((pick * len(indices)).astype(np.int64), len(indices) - 1)
        with on_its_device(held):
            chosen = host_array(indices[library_of(held).asarray(which)])
        return cls._in_voxels(grid, chosen, ids, random_seed)._drawn_by(
            "in_mask", (held, grid), random_seed, first
        )

    @classmethod
    def in_each_voxel(
        cls,
        mask: ArrayLike,
        affine: ArrayLike | Grid,
        n: int,
        *,
        random_seed: int = 0,
        first: int = 0,
        by: str = "list",
    ) -> Seeds:
        """Draw `n` seeds in each voxel of a mask; see :meth:`in_turn` and :meth:`by_voxel`.

        Parameters
        ----------
        mask, affine, random_seed, first, by
            As :meth:`in_mask` takes them.
        n : int
            Number of seeds in each voxel.

        Raises
        ------
        InvalidMaskError, InvalidSeedsError
            As :meth:`in_mask`; also when there would be more seeds in all than fit into memory.
        """
        held, grid, indices = voxels_of_mask(mask, affine)
        n_all = _count(n) * len(indices)
        draw = cls.by_voxel if _checked_by(by) == "voxel" else cls.in_turn
        return draw(held, grid, n_all, random_seed=random_seed, first=first)

    @classmethod
    def in_turn(
        cls,
        mask: ArrayLike,
        affine: ArrayLike | Grid,
        n: int,
        *,
        random_seed: int = 0,
        first: int = 0,
    ) -> Seeds:
        """Draw `n` seeds in all voxels of a mask in turn, uniformly within the voxel.

        They come in rounds, each of which has every voxel once, in the same order; the first of
        them are spread over the whole mask. Parameters and errors are those of :meth:`in_mask`.
        """
        held, grid, indices = voxels_of_mask(mask, affine)
        ids = _ids(n, first)
        chosen = host_array(indices)[voxels_in_turn(ids, len(indices))]
        return cls._in_voxels(grid, chosen, ids, random_seed)._drawn_by(
            "in_turn", (held, grid), random_seed, first
        )

    @classmethod
    def by_voxel(
        cls,
        mask: ArrayLike,
        affine: ArrayLike | Grid,
        n: int,
        *,
        random_seed: int = 0,
        first: int = 0,
    ) -> Seeds:
        """Draw `n` seeds that are functions of their voxel, not of their place in the list.

        They come in rounds, each of which has every voxel once, in an order that is drawn anew.
        What is drawn for a voxel, and its streamlines, depend on the voxel, the round and
        `random_seed`: where a mask on the same grid gains or loses a voxel, the streamlines of the
        others stay as they are, but for a few of the last round, which is not complete. Parameters
        and errors are those of :meth:`in_mask`.
        """
        held, grid, indices = voxels_of_mask(mask, affine)
        numbers = _ids(n, first)
        voxels = host_array(indices).astype(np.int64)
        chosen = np.empty(len(numbers), np.int64)
        rounds = numbers // len(voxels)
        at_once = max(1, RANKED_AT_ONCE // len(voxels))
        end = int(rounds[-1]) + 1
        for begin in range(int(rounds[0]), end, at_once):
            some = range(begin, min(begin + at_once, end))
            ranked = _ranked(voxels, some, random_seed).ravel()
            here = slice(*np.searchsorted(rounds, (some.start, some.stop)))
            chosen[here] = ranked[numbers[here] - begin * len(voxels)]
        # Rounds lie an odd number of streams apart, so that no two of a voxel have the same one.
        streams = (rounds * (math.prod(grid.shape) | 1) + chosen) & MASK_32
        seeds = cls._in_voxels(grid, chosen, streams, random_seed)
        seeds.streams = streams.astype(np.uint32)
        return seeds._drawn_by("by_voxel", (held, grid), random_seed, first)

    @classmethod
    def from_fod(cls, fod: Fod, n: int, *, random_seed: int = 0, first: int = 0) -> Seeds:
        """Draw `n` seeds with a density in proportion to the FOD's integral over directions.

        The integral is sqrt(4 pi) times the l = 0 coefficient; voxels where it is negative get
        no seeds. It is rounded to a 2^32nd of the largest, so that sums of it are exact, and the
        same on every device. Within a voxel seeds are uniform. The first has the number `first`,
        as in :meth:`in_sphere`.
        """
        if not hasattr(fod, "device_values"):
            raise InvalidFodError.of_type(fod)
        ids = _ids(n, first)
        pick = uniforms(ids, 0, Purpose.SEED_VOXEL, random_seed)[:, 0]
        values, rows = fod.device_values.native, fod.device_rows.native
        library = library_of(values)
        with on_its_device(values):
            averages = values[:, 0].astype(np.float64)
            largest = float(averages.max())
            if not largest > 0:
                raise InvalidSeedsError(
                    f"{fod.name} is nowhere positive on average; seed from a mask or from points."
                )
            weights = (averages * (averages > 0) / largest * 2.0**32).astype(np.int64)
            cumulative = library.cumsum(weights)
            targets = library.asarray((pick * float(cumulative[-1])).astype(np.int64))
            row = library.searchsorted(cumulative, targets, side="right")
            chosen = host_array(library.flatnonzero(rows >= 0)[row])
        return cls._in_voxels(fod.grid, chosen, ids, random_seed)._drawn_by(
            "from_fod", (fod,), random_seed, first
        )

    @classmethod
    def on_interface(
        cls, tissues: Tissues, n: int, *, random_seed: int = 0, first: int = 0
    ) -> Seeds:
        """Draw `n` seeds on the interface of grey and white matter, uniformly over its area.

        Parameters
        ----------
        tissues : Tissues
        n : int
        random_seed : int
            Key of the random numbers.
        first : int
            Number of the first seed, as in :meth:`in_sphere`.

        Raises
        ------
        InvalidSeedsError
            When grey and white matter do not touch.
        InvalidTissuesError
            When there is no tissue image, or the path of one instead.
        """
        if not hasattr(tissues, "fractions"):
            raise InvalidTissuesError(
                f"The tissues are of type {type(tissues).__name__}; give Tissues, such as "
                "load_tissues(path) returns."
            )
        ids = _ids(n, first)
        positions = interface_points(tissues, ids, random_seed)
        return cls(positions)._drawn_by("on_interface", (tissues,), random_seed, first)

    @classmethod
    def _in_voxels(
        cls, grid: Grid, indices: NDArray[np.int64], ids: NDArray[np.int64], random_seed: int
    ) -> Seeds:
        """Draw a seed uniformly in each of the voxels of (n,) flat indices, in C order."""
        voxels = np.stack(np.unravel_index(indices, grid.shape), axis=1)
        offsets = uniforms(ids, 0, Purpose.SEED_POSITION, random_seed)[:, :3] - 0.5
        return cls(grid.to_mm(voxels + offsets))

    @classmethod
    def concatenate(cls, parts: Iterable[Seeds]) -> Seeds:
        """Join seeds in the order of the list; directions are kept when all parts have them.

        Raises InvalidSeedsError when there are none, or something else is among them.
        """
        parts = list(parts)
        for part in parts:
            if not isinstance(part, Seeds):
                raise InvalidSeedsError(
                    f"Among the seeds is one of type {type(part).__name__}; of positions "
                    "Seeds.at(points) makes them."
                )
        if not parts:
            raise InvalidSeedsError("There are no seeds; place at least one.")
        directions = [p.directions for p in parts if p.directions is not None]
        joined = cls(
            np.concatenate([p.positions_mm for p in parts]),
            np.concatenate(directions) if len(directions) == len(parts) else None,
        )
        joined.streams = _joined_streams(parts, 0)
        if len(parts) == 1:
            joined._draw = parts[0]._draw
        elif all(part.can_go_on for part in parts):
            joined._draw = partial(_draw_parts, tuple(parts), 0)
        return joined

    def warped(self, warp: Warp) -> Seeds:
        """Return the seeds where a warp leads them, as fixed points; directions turn with it.

        Seeds that are to be drawn in a warped region come of :meth:`.Region.warped`.

        Raises
        ------
        InvalidWarpError
            When it leads one of them nowhere, or is none.
        """
        check_warp(warp)
        points = self.positions_mm.astype(np.float64)
        positions = warp.apply(points)
        turned = None
        if self.directions is not None:
            ahead, behind = (
                warp.apply(points + sign * TURN_MM * self.directions) for sign in (1.0, -1.0)
            )
            # At the edge of a field there is one side only.
            ahead, behind = (np.where(np.isfinite(p), p, positions) for p in (ahead, behind))
            turned = ahead - behind
        n_lost = int((~np.isfinite(positions)).any(axis=1).sum())
        if n_lost:
            raise InvalidWarpError(
                f"{n_lost} of {len(self)} seeds lie outside of the warp; remove them, and check "
                "that it leads from where the seeds are."
            )
        return Seeds(positions, turned)

    def __len__(self) -> int:
        return len(self.device_positions)

    def __getitem__(self, index: slice) -> Seeds:
        directions = self.device_directions
        part = Seeds(
            self.device_positions.native[index],
            None if directions is None else directions.native[index],
        )
        part.streams = None if self.streams is None else self.streams[index]
        return part

    def __repr__(self) -> str:
        suffix = "" if self.device_directions is None else " with directions"
        return f"Seeds({len(self)}{suffix})"


def _units(directions: ArrayLike, n: int) -> DeviceArray:
    """Return (n, 3) float32 unit vectors along directions. Raises InvalidSeedsError."""
    array = as_native(directions)
    if not may_be_real(array):
        raise InvalidSeedsError(f"Start directions hold {array.dtype} values; give real numbers.")
    library = library_of(array)
    with on_its_device(array):
        vectors = library.atleast_2d(library.ascontiguousarray(array, dtype=np.float64))
        usable = vectors.shape == (n, 3)
        if usable:
            x, y, z = (vectors[:, axis : axis + 1] for axis in range(3))
            norms = library.sqrt(x * x + y * y + z * z)
            usable = bool(((norms > 0) & library.isfinite(norms)).all())
        if not usable:
            raise InvalidSeedsError(
                f"Start directions have shape {vectors.shape} for {n} seeds; give one finite, "
                "non-zero vector a seed."
            )
        units = library.ascontiguousarray(vectors / norms, dtype=np.float32)
    return DeviceArray(units)


def _count(n: int) -> int:
    count = as_whole(n)
    if count is None or not 1 <= count <= MAX_SEEDS:
        raise InvalidSeedsError(f"{n!r} seeds were asked for; ask for 1 to 2^32.")
    whole = memory_bytes() if count > FEW_SEEDS else 0
    if whole and count * BYTES_A_SEED > whole:
        raise InvalidSeedsError(
            f"{count:,} seeds take {count * BYTES_A_SEED / 1e9:.1f} GB of memory and this machine "
            f"has {whole / 1e9:.1f} GB; track fewer at a time."
        )
    return count


def _ids(n: int, first: int) -> NDArray[np.int64]:
    """Return the numbers of `n` seeds from number `first` on."""
    count = _count(n)
    before = as_whole(first)
    if before is None or not 0 <= before <= MAX_SEEDS - count:
        raise InvalidSeedsError(
            f"first = {first!r} is impossible for {count} seeds; give the number of seeds "
            "before them, and at most 2^32 in all."
        )
    return np.arange(count) + before


def voxels_of_mask(mask: ArrayLike, affine: ArrayLike | Grid) -> tuple[Any, Grid, Any]:
    """Return where a mask is not zero, its grid, and the flat indices of those voxels.

    The first is (x, y, z) bool, a copy: more seeds may be drawn of it, whatever is painted next.
    Indices are (n_voxels,) int64, rising, in C order; both lie where the mask does. NaN counts as
    zero. Raises InvalidMaskError when the mask is empty, not 3-D, of no real numbers or of another
    shape than its grid.
    """
    array = as_native(mask)
    if array.ndim != 3:
        raise InvalidMaskError(f"A seed mask is 3-D, not of shape {array.shape}.")
    if not may_be_real(array):
        raise InvalidMaskError(f"The seed mask holds {array.dtype} values; give real numbers.")
    grid = affine if isinstance(affine, Grid) else Grid(array.shape, affine)
    if grid.shape != array.shape:
        raise InvalidMaskError(
            f"The seed mask has shape {array.shape} but its grid has {grid.shape}."
        )
    with on_its_device(array):
        held = (array != 0) & (array == array)
        indices = library_of(array).flatnonzero(held)
    if not len(indices):
        raise InvalidMaskError(
            f"The seed mask of shape {array.shape} is empty; paint or choose another."
        )
    return held, grid, indices


def voxels_in_turn(ids: NDArray[np.int64], n_voxels: int) -> NDArray[np.int64]:
    """Return which of so many voxels each seed is in: all of them in turn, round after round.

    From one to the next it is some 0.618 of all, the golden section, so that the first seeds are
    spread evenly over the list.
    """
    stride = max(round(n_voxels * GOLDEN), 1)
    while math.gcd(stride, n_voxels) > 1:  # else some voxels would be left out
        stride += 1
    return ids % n_voxels * stride % n_voxels


def _in_unit_ball(ids: NDArray[np.int64], random_seed: int) -> NDArray[np.float64]:
    """Return (n, 3) positions uniform in the unit ball, by rejection from the cube around it."""
    result = np.empty((len(ids), 3))
    left = np.arange(len(ids))
    draw = 0
    while len(left):
        offsets = 2.0 * uniforms(ids[left], draw, Purpose.SEED_POSITION, random_seed)[:, :3] - 1.0
        x, y, z = offsets.T
        accepted = x * x + y * y + z * z <= 1.0
        result[left[accepted]] = offsets[accepted]
        left = left[~accepted]
        draw += 1
    return result


# How seeds are drawn again, further on in their lists: functions that can be sent to other
# processes. `start` is the number in its list of the first of the seeds that are continued.


def _redraw(
    method: str, arguments: tuple[Any, ...], key: int, start: int, n: int, first: int
) -> Seeds:
    """Draw seeds by one of the methods of :class:`Seeds`, of these arguments."""
    draw: Callable[..., Seeds] = getattr(Seeds, method)
    return draw(*arguments, n, random_seed=key, first=start + first)


def _draw_parts(parts: tuple[Seeds, ...], start: int, n: int, first: int) -> Seeds:
    """Go round the parts; those that share a key begin where all of them together have ended."""
    n_round = sum(len(part) for part in parts)
    first = start + first
    rounds = range(first // n_round, (first + n - 1) // n_round + 1)
    pieces = [part.more(len(part), turn * n_round) for turn in rounds for part in parts]
    positions = np.concatenate([piece.positions_mm for piece in pieces])
    streams = _joined_streams(pieces, rounds[0] * n_round)
    begin = first - rounds[0] * n_round
    seeds = Seeds(positions[begin : begin + n])
    seeds.streams = None if streams is None else streams[begin : begin + n]
    seeds._draw = partial(_draw_parts, parts, first)
    return seeds


def _joined_streams(parts: Sequence[Seeds], first: int) -> NDArray[np.uint32] | None:
    """Return the streams of parts one after the other, the first of which has that number.

    Those that have none of their own are numbered on; None where no part has any.
    """
    if all(part.streams is None for part in parts):
        return None
    numbers = np.arange(first, first + sum(map(len, parts)), dtype=np.int64)
    found = (numbers & MASK_32).astype(np.uint32)
    begin = 0
    for part in parts:
        if part.streams is not None:
            found[begin : begin + len(part)] = part.streams
        begin += len(part)
    return found


def _ranked(voxels: NDArray[np.int64], rounds: range, random_seed: int) -> NDArray[np.int64]:
    """Return voxels in the order of each of some rounds, (n_rounds, n_voxels) flat indices."""
    counter = np.zeros((len(rounds), len(voxels), 4), np.uint64)
    counter[..., 0] = voxels & MASK_32
    counter[..., 1] = np.array(rounds, np.uint64)[:, None] + 1  # 0 is of seeds by the list
    counter[..., 2] = voxels >> 32
    counter[..., 3] = Purpose.SEED_VOXEL
    priorities = philox4x32(counter, random_seed)[..., 0]
    return voxels[np.argsort(priorities, axis=1, kind="stable")]


def _checked_by(by: str) -> str:
    if by not in BY:
        raise InvalidParameterError(f"by = {by!r} is unknown; choose one of {', '.join(BY)}.")
    return by
