"""Tractograms: points and offsets, made by engine and readers, read by layer, writers, maps."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import copy
from functools import partial
from hashlib import blake2b
from os import PathLike
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..errors import FileError, InvalidTractogramError
from ..files.streamline_arrays import StreamlineArrays
from ..files.streamline_data import NO_DATA, StreamlineData, are_values
from ..files.weights import checked_weights
from ..geometry.grid import Grid
from ..geometry.polylines import lengths_mm
from ..geometry.warps import Warp, check_warp
from ..model.outcome import Outcome
from ..model.regions import listed_regions
from ..model.stop import StopReason
from ..runtime.arrays import real_numbers
from .joining import Joining, OfChosen, end_to_end, gathered, of_points
from .passing import Criteria, between, check_criteria, passing
from .warping import tell_lost, through_warp

if TYPE_CHECKING:
    from ..model.fod import Fod
    from .spatial_index import SpatialIndex

logger = logging.getLogger(__name__)

BLOCK = 1 << 20  # points that are hashed at once
SAME_LENGTH = 1e-3  # of a polyline: less is rounding, or makes no difference
KEY_BYTES = 16  # of a streamline: two of 10^9 have the same by chance once in 10^20 times


class Tractogram(Outcome):
    """Streamlines in space.

    Parameters
    ----------
    points : (n_points, 3) array_like
        Points of all streamlines, one after the other; float32, RAS+ mm, voxel centres at
        integer voxel coordinates. Arrays that have their type already are shared, not copied.
    offsets : (n_streamlines + 1,) array_like of int
        Streamline i has points ``offsets[i]`` to ``offsets[i + 1]``.
    seed_index : (n_streamlines,) array_like of int, optional
        Which seed each streamline came from; its own number by default.
    stop_reasons : (n_streamlines, 2) array_like of int, optional
        :class:`StopReason` of the first and the last point; 0 (SEED) where unknown.
    lengths_mm : (n_streamlines,) array_like, optional
        Lengths of the paths that were tracked. By default the lengths of the polylines, which
        are shorter where points were left out.
    tally : mapping of StopReason to int, optional
        How often each reason ended a half streamline or rejected a whole one, over all seeds.
    n_seeds : int
        How many seeds were tried; 0, the default, where that is unknown, as of a file.
    weights : (n_streamlines,) array_like, optional
        What each streamline stands for, such as the cross-sections of SIFT2; float32, from 0.
    short_since : StopReason, optional
        Of a run whose streamlines were all too short: what ended most of them.
    points_are_finite : bool
        Whether that is known, and need not be tested: that takes a twentieth of tracking.
    data : StreamlineData, optional
        Values per streamline, per point and of groups that other programs have put into a file.
        They go wherever the streamlines go.
    grid : Grid, optional
        Of the image that the streamlines belong to, such as that in the header of a file.

    Raises
    ------
    InvalidTractogramError
        When the arrays do not belong together or hold no real numbers, a point is not finite or a
        weight is not a number from 0.
    """

    __slots__ = (
        "_data",
        "_index",
        "_is_unchecked",
        "_lengths_mm",
        "_origin",
        "_points",
        "_polyline_mm",
        "_seed_index",
        "_stop_reasons",
        "_stored",
        "_weights",
        "grid",
        "n_seeds",
        "offsets",
        "short_since",
        "tally",
    )
    seed_index = OfChosen[NDArray[np.int64]]()
    stop_reasons = OfChosen[NDArray[np.uint8]]()
    weights = OfChosen[NDArray[np.float32] | None]()

    def __init__(
        self,
        points: ArrayLike,
        offsets: ArrayLike,
        *,
        seed_index: ArrayLike | None = None,
        stop_reasons: ArrayLike | None = None,
        lengths_mm: ArrayLike | None = None,
        tally: Mapping[StopReason, int] | None = None,
        n_seeds: int = 0,
        weights: ArrayLike | None = None,
        short_since: StopReason | None = None,
        points_are_finite: bool = False,
        data: StreamlineData = NO_DATA,
        grid: Grid | None = None,
    ) -> None:
        real = partial(real_numbers, error=InvalidTractogramError)
        self._points: NDArray[np.float32] | None = None
        self._stored: NDArray[np.float16] | None = None
        self._origin: tuple[Tractogram, NDArray[np.int64]] | None = None  # of points not made yet
        if isinstance(points, np.memmap) and points.dtype == np.float16:
            self._stored = np.asarray(points)
        else:
            self._points = real(points, np.float32, "points")
        stored = self.stored_points
        self.offsets: NDArray[np.int64] = real(offsets, np.int64, "offsets")
        if stored.ndim != 2 or stored.shape[1] != 3:
            raise InvalidTractogramError(
                f"points has shape {stored.shape}; give (n_points, 3) RAS+ mm."
            )
        if (
            self.offsets.ndim != 1
            or not self.offsets.size
            or self.offsets[0] != 0
            or self.offsets[-1] != len(stored)
            or (self.offsets[1:] < self.offsets[:-1]).any()
        ):
            raise InvalidTractogramError(
                f"offsets must rise from 0 to the number of points, {len(stored)}; "
                f"they are {self.offsets[:3]} ... {self.offsets[-1:]}."
            )
        # A file that is mapped would have to be read for it.
        self._is_unchecked: bool | None = not points_are_finite
        if not isinstance(points, np.memmap):
            self.check_finite()
        n = self.n_streamlines
        numbers = np.arange(n) if seed_index is None else seed_index
        reasons = np.zeros((n, 2), np.uint8) if stop_reasons is None else stop_reasons
        self.seed_index = real(numbers, np.int64, "seed_index")
        self.stop_reasons = real(reasons, np.uint8, "stop_reasons")
        self._lengths_mm: NDArray[np.float32] | None = (
            None if lengths_mm is None else real(lengths_mm, np.float32, "lengths_mm")
        )
        self._polyline_mm: NDArray[np.float32] | None = None  # of a file, until it is compared
        self.weights = None if weights is None else checked_weights(weights, n)
        for label, array, shape in (
            ("seed_index", self.seed_index, (n,)),
            ("stop_reasons", self.stop_reasons, (n, 2)),
            ("lengths_mm", self._lengths_mm, (n,)),
        ):
            if array is not None and array.shape != shape:
                raise InvalidTractogramError(
                    f"{label} has shape {array.shape}, but {n} streamlines need {shape}."
                )
        if not isinstance(data, StreamlineData) or not isinstance(grid, Grid | None):
            raise InvalidTractogramError(
                f"data is of type {type(data).__name__}, grid of type {type(grid).__name__}; give "
                "StreamlineData and a Grid, or leave them out."
            )
        self._data: StreamlineData | None = data
        _check_data(data, n, len(stored))
        self.grid = grid
        self._index: SpatialIndex | None = None
        self.tally: dict[StopReason, int] = dict(tally or {})
        self.n_seeds, self.short_since = int(n_seeds), short_since

    @classmethod
    def empty(cls) -> Tractogram:
        """Return a tractogram without streamlines."""
        return cls(np.empty((0, 3), np.float32), np.zeros(1, np.int64))

    @classmethod
    def from_streamlines(cls, streamlines: Iterable[ArrayLike]) -> Tractogram:
        """Make a tractogram of a sequence of (n_points, 3) arrays, RAS+ mm; refuse others."""
        return cls(*end_to_end(streamlines))

    @classmethod
    def of_arrays(cls, arrays: StreamlineArrays) -> Tractogram:
        """Make a tractogram of what files hold; nothing is copied."""
        made = cls(
            arrays.points,
            arrays.offsets,
            seed_index=arrays.seed_index,
            stop_reasons=arrays.stop_reasons,
            lengths_mm=arrays.lengths_mm,
            weights=arrays.weights,
            data=arrays.data,
            grid=arrays.grid,
        )
        made._polyline_mm = arrays.polyline_mm
        return made

    @classmethod
    def concatenate(cls, parts: Iterable[Tractogram], *, n_seeds: int | None = None) -> Tractogram:
        """Join tractograms, such as the chunks of a run, in the order of the list.

        An iterator is used up one part at a time: its points are not in memory twice. Numbers of
        seeds are added up where all parts with streamlines know theirs.

        Parameters
        ----------
        parts : iterable of Tractogram
        n_seeds : int, optional
            How many seeds an iterator will have tried in the end: memory is made for as many, and
            not in steps.

        Raises
        ------
        InvalidTractogramError
            When something else is among them.
        """
        if isinstance(parts, Tractogram):
            raise InvalidTractogramError("There is one tractogram to join; give a list of several.")
        if not isinstance(parts, Iterable):
            raise InvalidTractogramError(
                f"What is to be joined is of type {type(parts).__name__}; give a list of "
                "tractograms."
            )
        known = parts if isinstance(parts, Sequence) else ()
        joining = Joining(n_seeds, sum(getattr(part, "n_points", 0) for part in known))
        for part in parts:
            if not isinstance(part, Tractogram):
                raise InvalidTractogramError(
                    f"Among the tractograms is one of type {type(part).__name__}; of arrays of "
                    "points from_streamlines makes one."
                )
            part.check_finite()
            joining.add(part)
        columns = joining.columns()
        return cls.empty() if columns is None else cls(**columns, points_are_finite=True)

    @property
    def points(self) -> NDArray[np.float32]:
        """(n_points, 3) float32: RAS+ mm, voxel centres at integer voxel coordinates."""
        if self._points is None:
            origin = self._origin
            if origin is not None:
                base, numbers = origin
                _ = self.seed_index, self.stop_reasons, self.weights, self.data
                if base._lengths_mm is not None:
                    _ = self.lengths_mm
                self._points = gathered(base.stored_points, base.offsets, numbers)
                self._origin = None  # last: another thread may be here, too
            elif self._stored is not None:
                self._points = self._stored.astype(np.float32)
        assert self._points is not None
        return self._points

    @property
    def stored_points(self) -> NDArray[np.floating]:
        """(n_points, 3) float32 or float16: the points as they lie in memory or in a mapped file.

        Float16 of a file stays there until :attr:`points` asks for all of it.
        """
        return self.points if self._stored is None else self._stored

    @property
    def held_bytes(self) -> int:
        """Bytes of points that it holds; 0 of what was chosen of others and not asked for."""
        return sum(each.nbytes for each in (self._points, self._stored) if each is not None)

    @property
    def data(self) -> StreamlineData:
        """What other programs say of the streamlines: values and groups."""
        origin = self._origin  # before the slot, as of other columns
        if self._data is None and origin is not None:
            base, numbers = origin
            self._data = base.data.picked(
                numbers, lambda values: of_points(values, base.offsets, numbers)
            )
        return self._data or NO_DATA

    def check_finite(self) -> None:
        """Look through the points of a file that is mapped into memory, once.

        What measures, selects or saves all of them does so first.

        Raises
        ------
        InvalidTractogramError
            When a point is not finite.
        """
        if not self._is_unchecked:
            return
        stored, n_bad = self.stored_points, 0
        for first in range(0, len(stored), BLOCK):
            part = stored[first : first + BLOCK]
            # The extremes show them without a temporary as large as the points.
            if not np.isfinite((part.min(), part.max())).all():
                n_bad += int((~np.isfinite(part)).any(axis=1).sum())
        if n_bad:
            raise InvalidTractogramError(
                f"{n_bad} points are not finite; remove those streamlines."
            )
        self._is_unchecked = False

    @property
    def n_streamlines(self) -> int:
        """Number of streamlines."""
        return len(self.offsets) - 1

    @property
    def n_points(self) -> int:
        """Number of points of all streamlines."""
        return int(self.offsets[-1])

    @property
    def lengths_mm(self) -> NDArray[np.float32]:
        """(n_streamlines,) float32: lengths in mm."""
        written = self._polyline_mm
        if self._lengths_mm is None:
            self._lengths_mm = self._lengths_found()
        elif written is not None:
            stored = self.stored_points
            self._lengths_mm, n = _up_to_date(self._lengths_mm, written, stored, self.offsets)
            self._polyline_mm = None  # last: another thread may be here, too
            if n:
                logger.warning(
                    "%s of %s streamlines have other points than when their lengths were written, "
                    "as another program leaves them that cuts or scales: their lengths are now "
                    "those of their points.",
                    f"{n:,}", f"{len(self):,}",
                )  # fmt: skip
        return self._lengths_mm

    def _lengths_found(self) -> NDArray[np.float32]:
        """Return lengths that were not given: those of the others, or of the points."""
        origin = self._origin
        if origin is None:
            return lengths_mm(self.points, self.offsets)
        base, numbers = origin
        written = base._polyline_mm
        if written is None or base._lengths_mm is None:
            return base.lengths_mm[numbers]  # which are likely to be asked for again
        points = gathered(base.stored_points, base.offsets, numbers)  # and not all in a file
        return _up_to_date(base._lengths_mm[numbers], written[numbers], points, self.offsets)[0]

    def __len__(self) -> int:
        return self.n_streamlines

    def __iter__(self) -> Iterator[NDArray[np.float32]]:
        for first, last in zip(self.offsets[:-1], self.offsets[1:], strict=True):
            yield self.stored_points[first:last].astype(np.float32, copy=False)

    def __getitem__(self, index: Any) -> Tractogram:
        """Return the streamlines that an integer, a slice, a mask or an index array picks."""
        chosen = self.chosen(np.atleast_1d(np.arange(self.n_streamlines)[index]))
        _ = chosen.points  # gathered now: what was picked does not keep all the others in memory
        return chosen

    def chosen(self, numbers: ArrayLike) -> Tractogram:
        """Return some streamlines, whose points and values are gathered when first asked for.

        Until points are they keep these in memory. Meant for what passes a sphere that is moved.

        Parameters
        ----------
        numbers : (n,) array_like of int

        Raises
        ------
        InvalidTractogramError
            When they are no whole numbers, such as a mask, which is for ``tractogram[mask]``.
        """
        rows = real_numbers(numbers, np.int64, "The list of streamlines", InvalidTractogramError)
        if rows.ndim != 1 or np.asarray(numbers).dtype.kind == "b":
            raise InvalidTractogramError(
                f"Streamline numbers of type {np.asarray(numbers).dtype}, shape {rows.shape} are "
                "no list of whole numbers; give one, or tractogram[mask] of a mask."
            )
        chosen = Tractogram.__new__(Tractogram)
        for name in self.__slots__:
            setattr(chosen, name, None)  # what is picked when it is asked for
        counts = self.offsets[1:][rows] - self.offsets[:-1][rows]
        chosen.offsets = np.concatenate([[0], np.cumsum(counts)])
        origin = self._origin  # read once: it goes when another thread asks for the points
        chosen._origin = (self, rows) if origin is None else (origin[0], origin[1][rows])
        chosen.grid, chosen._is_unchecked = self.grid, self._is_unchecked
        chosen.tally, chosen.n_seeds = {}, 0  # how many seeds give just these is unknown
        return chosen

    def arrays(self) -> StreamlineArrays:
        """Return what files hold of the streamlines; nothing is copied."""
        self.check_finite()
        return StreamlineArrays(
            self.points,
            self.offsets,
            seed_index=self.seed_index,
            stop_reasons=self.stop_reasons,
            lengths_mm=self.lengths_mm,
            weights=self.weights,
            data=self.data,
            grid=self.grid,
        )

    def with_weights(self, weights: ArrayLike | None) -> Tractogram:
        """Return the same streamlines, points shared, with other weights or none.

        Parameters
        ----------
        weights : (n_streamlines,) array_like or None
            Such as :func:`~napari_tractography.files.weights.load_weights` reads.

        Raises
        ------
        InvalidTractogramError
            When there are more or fewer than streamlines, or one is not a number from 0.
        """
        _ = self.stored_points  # what was chosen stands by itself from here on
        other = copy(self)
        other.tally = dict(self.tally)
        other.weights = None if weights is None else checked_weights(weights, len(self))
        return other

    def select(self, **criteria: Unpack[Criteria]) -> Tractogram:
        """Return the streamlines that pass regions, without tracking again.

        Regions act on the whole path, also between recorded points: a streamline meets a sphere
        when a segment comes as near to the centre as the radius, and a mask when a segment passes
        a voxel of it. The tracker tests its steps, so that it may miss what is only grazed, and
        meets what straight lines miss where points are left out (`record_every`).

        Parameters
        ----------
        regions : sequence of Region
            With the roles include, exclude and end, which asks that both ends lie in end regions.
            The tracker asks it of the ends that it tracked, so that of streamlines that were
            tracked one way fewer are found here.
        include_rule : str
            "all" include regions, "any", or all "ordered" as listed, from one end to the other.
        length_mm, weight : (least, most), optional
            None for one of them is no limit.

        Raises
        ------
        InvalidParameterError
            When a region has the role stop or seed, the rule or a criterion is unknown, limits are
            no range, or there are no weights.
        """
        return self[self.select_numbers(**criteria)]

    def select_numbers(self, **criteria: Unpack[Criteria]) -> NDArray[np.int64]:
        """Return the numbers of the streamlines that :meth:`select` returns, (n,) int64, rising."""
        check_criteria(criteria)
        regions = listed_regions(criteria.get("regions", ()))
        if regions:
            self.check_finite()
        kept = passing(
            self.points,
            self.offsets,
            regions,
            criteria.get("include_rule", "all"),
            self._index,
        )
        if criteria.get("length_mm") is not None:
            kept &= between(self.lengths_mm, criteria["length_mm"], "length_mm")
        if criteria.get("weight") is not None:
            kept &= between(self.weights, criteria["weight"], "weight")
        return np.flatnonzero(kept)

    def warped(self, warp: Warp, *, grid: Grid | None = None) -> Tractogram:
        """Return the streamlines in the space that a warp leads to.

        What lies outside of the warp is cut off, as at a plane: a streamline that leaves it and
        comes back becomes several, with the same seed, weight and values, and one that lies outside
        as a whole is left out; how many is said in a warning. One without points stays as it is.
        Stop reasons of cut ends are 0 (unknown), and lengths those of the polylines. Seeds and what
        became of them stay known.

        Parameters
        ----------
        warp : Warp
            From the space of the streamlines.
        grid : Grid, optional
            Of an image in the other space, for the header of files.

        Raises
        ------
        InvalidWarpError
            When it is no warp.
        """
        check_warp(warp)
        other, n_cut, n_gone = self.through(warp, grid)
        tell_lost(len(self), n_cut, n_gone)
        return other

    def through(self, warp: Warp, grid: Grid | None = None) -> tuple[Tractogram, int, int]:
        """Return the same without a warning, how many were cut, and how many were left out."""
        pieces = through_warp(self.stored_points, self.offsets, warp)
        parents = pieces.parents
        reasons = self.stop_reasons[parents]
        reasons[~pieces.starts_whole, 0] = reasons[~pieces.ends_whole, 1] = 0
        other = Tractogram(
            pieces.points,
            pieces.offsets,
            seed_index=self.seed_index[parents],
            stop_reasons=reasons,
            tally=self.tally,
            n_seeds=self.n_seeds,
            weights=None if self.weights is None else self.weights[parents],
            short_since=self.short_since,
            points_are_finite=True,
            data=self.data.picked(parents, lambda values: values[pieces.kept]),
            grid=grid,
        )
        n_cut = len(np.unique(parents[~(pieces.starts_whole & pieces.ends_whole)]))
        return other, n_cut, len(self) - len(np.unique(parents))

    def found_in(self, other: Tractogram) -> NDArray[np.bool_]:
        """Tell which streamlines are also in another tractogram, (n_streamlines,) bool.

        The same is what has the same points, to the last bit of float32 and in the same order:
        files that keep them so do, .tck, .trx and .vtk; a .trk file rounds. ``a[a.found_in(b)]`` is
        what both have, ``a[~a.found_in(b)]`` a without b.

        Raises InvalidTractogramError when the other is none.
        """
        if not isinstance(other, Tractogram):
            raise InvalidTractogramError(
                f"The other is of type {type(other).__name__}; give a Tractogram, such as "
                "load_tractogram(path) returns."
            )
        known = set(map(_key, other))
        return np.fromiter((_key(points) in known for points in self), np.bool_, len(self))

    def spatial_index(
        self, advance: Callable[[float], None] = lambda _fraction: None
    ) -> SpatialIndex:
        """Return where the streamlines run, by cells; made once, and used by :meth:`select`.

        Meant for regions that are moved again and again. Of 1,000,000 streamlines of 130 points it
        takes 12 s of one core and a third of their memory. May be called in another thread.

        Parameters
        ----------
        advance : callable, optional
            Told what fraction is done, now and then; an exception that it raises ends the work.
        """
        if self._index is None:
            from .spatial_index import SpatialIndex  # on use: SciPy takes a while to load

            self.check_finite()
            self._index = SpatialIndex(self.points, self.offsets, advance=advance)
        return self._index

    @property
    def has_index(self) -> bool:
        """Whether :meth:`spatial_index` has been made."""
        return self._index is not None

    def digest(self) -> str:
        """Return the SHA-256 of the little-endian float32 points, then the int64 offsets.

        Equal digests mean equal streamlines, bit for bit.
        """
        sha, stored = hashlib.sha256(), self.stored_points
        for first in range(0, len(stored), BLOCK):  # of a mapped file no more is in memory
            sha.update(np.ascontiguousarray(stored[first : first + BLOCK], dtype="<f4").data)
        sha.update(self.offsets.astype("<i8", copy=False).tobytes())
        return sha.hexdigest()

    def save(
        self,
        path: str | PathLike[str],
        *,
        reference: Fod | Grid | None = None,
        data_beside: bool = False,
    ) -> None:
        """Write .trk, .tck, .trx or .vtk, whole or not at all.

        Parameters
        ----------
        path : path-like
            The ending decides the format.
        reference : Fod or Grid, optional
            The image that the streamlines belong to, by default that of :attr:`grid`. Trk and trx
            store its grid; trk cannot do without.
        data_beside : bool
            Write values that a .tck file cannot hold beside it: NAME.VALUE.tsf for each value per
            point, NAME.VALUE.txt for each per streamline. They are read with the file.

        Raises
        ------
        FileError
            When the ending is unknown, the reference is missing or the file cannot be written.
        """
        # Formats are imported on use, so that the package loads without nibabel.
        from ..files.tractograms import write_streamlines

        grid = grid_of(reference, path)
        write_streamlines(
            self.arrays(), path, self.grid if grid is None else grid, data_beside=data_beside
        )

    def __repr__(self) -> str:
        return f"Tractogram({self.n_streamlines} streamlines, {self.n_points} points)"


def grid_of(reference: Any, path: str | PathLike[str]) -> Grid | None:
    """Return the grid of what a file of streamlines belongs to.

    Raises FileError when it has none, such as the path of an image.
    """
    grid = getattr(reference, "grid", reference)
    if not isinstance(grid, Grid | None):
        kind = type(reference).__name__
        raise FileError(f"The reference of {path} is of type {kind}; give the Fod or its Grid.")
    return grid


def _key(points: NDArray[np.float32]) -> bytes:
    """Return what tells streamlines apart; of -0.0, which equals 0.0, the bits differ."""
    return blake2b((points + np.float32(0)).tobytes(), digest_size=KEY_BYTES).digest()


def _check_data(data: StreamlineData, n: int, n_points: int) -> None:
    """Raise InvalidTractogramError where values are of other streamlines, or are no numbers."""
    for values, n_rows in ((data.per_streamline, n), (data.per_point, n_points)):
        for name, array in values.items():
            if not isinstance(array, np.ndarray) or not are_values(array):
                kind = f"{array.dtype} values" if hasattr(array, "dtype") else type(array).__name__
                raise InvalidTractogramError(
                    f"{name} holds {kind}; give an array of numbers of at most 64 bits for each."
                )
            if len(array) != n_rows:
                raise InvalidTractogramError(f"{name} has {len(array)} values, not {n_rows}.")
    for name, members in data.groups.items():
        if len(members) and not 0 <= members.min() <= members.max() < n:
            raise InvalidTractogramError(
                f"The group {name} has streamline {members.max()}, but there are {n}."
            )


def _up_to_date(
    known_mm: NDArray[np.float32],
    written_mm: NDArray[np.float32],
    points: NDArray[np.floating],
    offsets: NDArray[np.int64],
) -> tuple[NDArray[np.float32], int]:
    """Return the lengths of streamlines that were saved with them, and how many are others now.

    Where a polyline is no longer as long as when it was written, its length is that of its points:
    what was known is the length of a streamline that was cut or scaled since.
    """
    found = lengths_mm(points, offsets)
    counts = np.diff(offsets)
    farthest = np.abs(points[offsets[:-1][counts > 0]]).max(initial=0.0)
    rounding = np.finfo(np.float32).eps * float(farthest) * counts
    with np.errstate(invalid="ignore"):  # of infinite lengths nothing can be told
        others = np.abs(found - written_mm) > SAME_LENGTH * written_mm + 4 * rounding
    return (np.where(others, found, known_mm) if others.any() else known_mm), int(others.sum())


def tally_from_counts(counts: NDArray[np.int64]) -> dict[StopReason, int]:
    """Turn (N_REASONS,) counts into a mapping without zeros."""
    return {reason: int(counts[reason]) for reason in StopReason if counts[reason]}


def load_tractogram(path: str | PathLike[str]) -> Tractogram:
    """Read a tractogram.

    Parameters
    ----------
    path : path-like
        .tck, .trk, .tck.gz, .trk.gz, .trx, legacy .vtk (ASCII or binary) or .vtp, of which the
        last two are RAS+ mm but where they say that they are LPS+.

    Returns
    -------
    Tractogram
        With the seed indices, stop reasons, lengths and weights of trk and trx files that
        :meth:`Tractogram.save` wrote, the values and groups of other programs, those in files
        beside a .tck file (NAME.VALUE.tsf and .txt with its timestamp), and the grid of the header;
        weights with impossible values are left out with a warning.

    Raises
    ------
    FileError
        When the file is missing, truncated, corrupt or of another format.
    """
    from ..files.tractograms import read_streamlines

    return as_read(read_streamlines(path), path)


def as_read(arrays: StreamlineArrays, path: str | PathLike[str]) -> Tractogram:
    """Return the streamlines that were read from a file.

    Raises FileError when the arrays do not belong together.
    """
    try:
        return Tractogram.of_arrays(arrays)
    except (InvalidTractogramError, OverflowError, TypeError) as error:
        raise FileError(f"{path}: {error}") from None
