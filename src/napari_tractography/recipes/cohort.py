"""One seed in the FODs of many subjects at once, in memory that is bounded.

:class:`Cohort` reads of each FOD what lies around the streamlines, and keeps it while the seed
moves near; the streamlines are those in the whole FOD, to the bit. Subjects lie in a common space,
or each has a warp into one: the seeds go from there to it, its streamlines back. What subjects have
in common is in :mod:`napari_tractography.maps.cohort`. Called by the command, the plugin and
scripts.
"""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import os
import threading
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple, Self, Unpack

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..errors import InvalidParameterError, TractographyError
from ..fields.input_kind import COEFFICIENTS
from ..files.fods import FodKeywords, fod_reader
from ..files.headers import read_header
from ..files.stored_rows import StoredRows, unpacked
from ..files.subjects import SUBJECT, subjects_of
from ..files.volume_files import load_grid
from ..geometry.grid import Grid
from ..geometry.warps import Warp
from ..maps.cohort import CohortResult
from ..model.fod import Fod
from ..model.masks import resampled
from ..model.parameters import TrackingParameters
from ..model.regions import Region
from ..model.seeds import Seeds
from ..model.tissues import Tissues
from ..runtime.scalars import as_float
from ..streamlines.tractogram import Tractogram
from ..tracking.cluster.cluster import Cluster
from ..tracking.engine import iter_chunks, log_warnings
from ..tracking.execution import Runner
from ..tracking.inputs import Execution, InputKeywords, TrackingInput, suited
from ..tracking.nearby import can_track_near, track_near
from ..tracking.tables.builders import words_of
from ..tracking.tables.local import LocalTable, rings_of, rows_of_voxels, stand_in
from .edits import Edit
from .recipe import Recipe
from .volume_sources import located
from .warp_sources import WarpSource

logger = logging.getLogger(__name__)

MEMORY_MB = 2048.0
HEARTBEAT_S = 0.02
HERE = ("auto", "cpu")  # backends of this machine

OF_ONE = (
    "A mask or a tissue image belongs to one subject, and is not taken through warps; leave it "
    "out, or take stop and exclude regions."
)

# A pattern with {subject}; or of each subject; or what makes that of a subject's name.
Warps = str | Sequence[str | PathLike[str] | WarpSource | Warp] | Callable[[str], WarpSource]


class _Done(NamedTuple):
    """What came of a subject."""

    number: int
    tractogram: Tractogram  # in the common space
    digest: str  # in its own; "" where that is the common one


@dataclass(frozen=True, slots=True, eq=False)
class _Request:
    """What is tracked in all subjects: inputs in an FOD that each subject's takes the place of."""

    inputs: TrackingInput
    recipe: Recipe | None = None  # whose edits are made, and whose seeds are drawn after a warp

    @classmethod
    def of(cls, inputs: TrackingInput, recipe: Recipe | None = None) -> Self:
        """Leave out the FOD, of which the grid is that of the mask."""
        return cls(dataclasses.replace(inputs, fod=stand_in(inputs.fod.grid)), recipe)

    def in_fod(self, fod: Fod, there: Warp | None, placed: dict[Region, Region]) -> TrackingInput:
        """Return the inputs in the FOD of a subject, to which a warp may lead.

        Regions that were warped are in `placed`, and are not again while they are the same.
        """
        if there is not None:
            return self._warped(fod, there, placed)
        mask, own = self.inputs.mask, self.inputs.fod.grid
        if mask is not None and not own.same_space(fod.grid):
            mask = resampled(np.asarray(mask) != 0, own, fod.grid, "of the cohort")
        return dataclasses.replace(self.inputs, fod=fod, mask=mask)

    def _warped(self, fod: Fod, there: Warp, placed: dict[Region, Region]) -> TrackingInput:
        if self.recipe is not None:
            asked = dataclasses.replace(self.recipe.fod, sha256="")
            own = self.recipe.in_space_of(fod.grid, there)
            return own.read(hashed=False, fods={asked: (fod, asked)})[0]
        inputs, known = self.inputs, dict(placed)
        placed.clear()
        for region in (*inputs.regions, *(inputs.between or ())):
            placed[region] = known.get(region) or region.warped(there, fod.grid)
        ends = inputs.between
        return dataclasses.replace(
            inputs,
            fod=fod,
            seeds=inputs.seeds.warped(there),
            regions=[placed[region] for region in inputs.regions],
            between=None if ends is None else (placed[ends[0]], placed[ends[1]]),
        )

    def __reduce__(self) -> tuple[Any, ...]:
        grid = self.inputs.fod.grid
        small = stand_in(Grid((1, 1, 1), grid.affine))
        return _request, (dataclasses.replace(self.inputs, fod=small), grid, self.recipe)


def _request(inputs: TrackingInput, grid: Grid, recipe: Recipe | None) -> _Request:
    return _Request(dataclasses.replace(inputs, fod=stand_in(grid)), recipe)


@dataclass(frozen=True, slots=True, eq=False)
class _Tracked:
    """Streamlines of a subject in its own space, and in the common one."""

    inputs: TrackingInput
    whole: Tractogram  # before edits
    brought: Tractogram
    digest: str


class _Subject:
    """The FOD of a subject, as much of it as is in memory."""

    def __init__(
        self,
        name: str,
        fod: Path | Fod,
        warp: WarpSource | Warp | None,
        reading: FodKeywords,
        folder: str,
    ) -> None:
        self.name, self._source, self.warp = name, fod, warp
        self._reading, self._folder = reading, folder
        self.sha256 = ""
        self.table: LocalTable | None = None
        self.lock = threading.Lock()
        self._whole: Fod | None = None
        self._ways: tuple[Warp, Warp] | None = None  # to the common space, and from there
        self._placed: dict[Region, Region] = {}  # the last regions, in its own space
        self._is_told = False  # whether it was said that streamlines leave the warp

    @property
    def grid(self) -> Grid:
        """The voxels of the FOD; of a file its header is read."""
        if isinstance(self._source, Fod):
            return self._source.grid
        with self._named():
            return fod_reader(self._source, look_later=True, **self._reading).grid

    @property
    def n_bytes(self) -> int:
        """Memory in bytes."""
        whole = None if isinstance(self._source, Fod) else self._whole
        return (
            (0 if whole is None else _bytes_of(whole))
            + (0 if self.table is None else self.table.n_bytes)
            + (0 if self._ways is None else self._ways[1].n_bytes)
        )

    def track(self, request: _Request, stop: NDArray[np.uint8]) -> _Tracked | None:
        """Track in the FOD of the subject; None when `stop`, (1,) uint8, was set meanwhile."""
        with self._named(), self.lock:
            inputs, whole = self._track(request, stop)
            if whole is None:
                return None
            return _Tracked(inputs, whole, *self._brought(whole, request.recipe))

    def suited(self, tissues: Tissues | None) -> TrackingParameters:
        """Return parameters that suit the FOD."""
        with self._named(), self.lock:
            fod = self._read() if self._whole is None else self._whole
            return suited(fod, None, tissues)

    @contextlib.contextmanager
    def _named(self) -> Iterator[None]:
        """Put the subject before what is wrong with it."""
        try:
            yield
        except TractographyError as error:
            error.args = (f"{self.name}: {error}",)
            raise

    def _brought(self, whole: Tractogram, recipe: Recipe | None) -> tuple[Tractogram, str]:
        """Return streamlines after edits, in the common space, and their digest before that."""
        edits: tuple[Edit, ...] = ()
        if recipe is not None:
            own = recipe.on_fod(
                recipe.fod, self.warp if isinstance(self.warp, WarpSource) else None
            )
            whole, edits = own.edit(whole), own.edits
        if self._ways is None:
            return whole, ""
        digest = whole.digest()
        if any(edit.warp is not None for edit in edits):  # which took them there
            return whole, digest
        brought, n_cut, n_gone = whole.through(self._ways[0])
        if (n_cut or n_gone) and not self._is_told:
            self._is_told = True
            logger.warning(
                "%s: of %s streamlines %s leave the warp and are cut there in maps, and %s lie "
                "outside of it.", self.name, f"{len(whole):,}", f"{n_cut:,}", f"{n_gone:,}",
            )  # fmt: skip
        return brought, digest

    def _track(
        self, request: _Request, stop: NDArray[np.uint8]
    ) -> tuple[TrackingInput, Tractogram | None]:
        if self._ways is None and self.warp is not None:
            warp = self.warp if isinstance(self.warp, Warp) else self.warp.load()
            self._ways = warp, warp.inverse()
        there = None if self._ways is None else self._ways[1]
        if self.table is None and self._whole is None:
            self._open()
        if self.table is not None:
            inputs = request.in_fod(self.table.fod, there, self._placed)
            if can_track_near(inputs):
                return inputs, track_near(self.table, inputs, stop)
        if self._whole is None:
            self._whole = self._read()
        inputs = request.in_fod(self._whole, there, self._placed)
        parts = []
        for chunk in iter_chunks(inputs, Execution("cpu", n_threads=1)):
            if stop[0]:
                return inputs, None
            parts.append(chunk)
        n_seeds = len(inputs.seeds) if inputs.select is None else None
        return inputs, Tractogram.concatenate(parts, n_seeds=n_seeds)

    def shrink(self, found: _Tracked) -> None:
        """Keep no more than what lies around streamlines that were just tracked."""
        with self.lock:
            if not isinstance(self._source, Fod) and self.table is not None:
                self._whole = None
            if self.table is not None:
                rings = rings_of(self.table.fod.grid, found.inputs.parameters)
                points = np.concatenate([found.whole.points, found.inputs.seeds.positions_mm])
                self.table.keep_near(points, rings)

    def forget(self) -> None:
        """Keep nothing but what it takes to read again, unless it is in use."""
        if self.lock.acquire(blocking=False):
            try:
                self._whole = self._ways = None
                self._placed.clear()
                if self.table is not None:
                    self.table.clear()
            finally:
                self.lock.release()

    def _read(self) -> Fod:
        if isinstance(self._source, Fod):
            return self._source
        fod, sha256 = fod_reader(self._source, **self._reading).read(hashed=not self.sha256)
        self.sha256 = self.sha256 or sha256
        return fod

    def _open(self) -> None:
        """Read the FOD once, for what is needed of all of it: where it is and how large."""
        fod = self._read()
        if fod.input_kind.kernel != COEFFICIENTS:
            self._whole = fod
            return
        self.table = LocalTable(fod, self._rows(fod))

    def _rows(self, fod: Fod) -> Callable[[NDArray[np.int64]], NDArray[np.float32]]:
        """Return what reads coefficients of voxels."""
        if not isinstance(self._source, Fod):
            stored = read_header(self._source)
            if StoredRows.can_read(stored):
                return StoredRows(stored)
        in_memory = isinstance(self._source, Fod)
        values = fod.values if in_memory else unpacked(fod.values, self._folder or None)
        words = words_of(fod.voxel_rows)
        return lambda voxels: np.asarray(values[rows_of_voxels(words, voxels)])


def _bytes_of(fod: Fod) -> int:
    numbers = fod.values if fod.vectors is None else fod.vectors.numbers
    return int(numbers.nbytes + fod.voxel_rows.nbytes)


class _Shelf:
    """Subjects whose memory is bounded together."""

    def __init__(self, max_bytes: float) -> None:
        self.max_bytes = max_bytes
        self.subjects: list[_Subject] = []
        self._lock = threading.Lock()

    @property
    def n_bytes(self) -> int:
        """Memory of all, in bytes."""
        return sum(subject.n_bytes for subject in self.subjects)

    def track(
        self, subject: _Subject, request: _Request, stop: NDArray[np.uint8]
    ) -> tuple[Tractogram, str] | None:
        """Track in one; where memory is short, that one gives up what it no longer needs.

        Those that come first keep theirs, and the last are read again each time: were it the first
        to go, all would be read again.
        """
        found = subject.track(request, stop)
        with self._lock:
            if found is not None and self.n_bytes > self.max_bytes:
                subject.shrink(found)
            for other in (subject, *self.subjects[::-1]):
                if self.n_bytes <= self.max_bytes:
                    break
                other.forget()
        return None if found is None else (found.brought, found.digest)


class Cohort:
    """Subjects in a common space, or with warps into one, in which one seed is tracked at once.

    Parameters
    ----------
    fods : str, or sequence of path-like or Fod
        A pattern such as "sub-*/wmfod.nii.gz"; or files, or FODs in memory. All in one RAS+ mm
        space, unless they have warps; grids may differ.
    warps : str, sequence, or callable, optional
        From the space of each subject to the common one, a template's, in which seeds and regions
        lie: a pattern such as "{subject}/to_template.mif", with the subject's name; or of each
        subject a file, a :class:`~napari_tractography.recipes.warp_sources.WarpSource` or a
        :class:`~napari_tractography.geometry.warps.Warp`; or what returns a WarpSource for a name.
        See :func:`~napari_tractography.files.warp_files.load_warp` for which way a file leads.
    max_memory_mb : float
        Of what is kept of them, fields of warps included, from one run to the next. Less takes
        longer: what there is no room for is read again. While a file is opened, the first time
        that it is tracked in, it is in memory as a whole, one for each thread.
    grid : Grid or Fod, optional
        Of the maps; by default that of the first subject. With warps that of an image in the
        common space, and there is no default.
    folder : path-like, optional
        For what compressed FODs are unpacked into; by default the system's for temporary files.
        Files that are not compressed are read where they are.
    **reading
        How files are read: `kind`, `basis`, `frame`, `axes` and `order` of
        :func:`~napari_tractography.files.fods.load_fod`.

    Attributes
    ----------
    names : tuple of str
        Of the subjects: what tells their paths apart.
    fods : tuple of str
        The file of each; "" of FODs in memory.
    grid : Grid
    has_warps : bool

    Raises
    ------
    FileError
        When there is no such file.
    InvalidParameterError
        When there is no FOD or something else among them, two have one name, `max_memory_mb` is not
        positive, the grid is none, there are more or fewer warps than FODs, or warps without a
        grid.
    """

    def __init__(
        self,
        fods: str | Sequence[str | PathLike[str] | Fod],
        *,
        warps: Warps | None = None,
        max_memory_mb: float = MEMORY_MB,
        grid: Grid | Fod | None = None,
        folder: str | PathLike[str] | None = None,
        **reading: Unpack[FodKeywords],
    ) -> None:
        if not as_float(max_memory_mb) > 0:
            raise InvalidParameterError(
                f"max_memory_mb = {max_memory_mb!r} is impossible; give megabytes such as 2048."
            )
        for name in sorted(set(reading) - set(FodKeywords.__annotations__)):
            raise TypeError(f"A cohort takes nothing named {name}; see help(Cohort).")
        own_grid = getattr(grid, "grid", grid)
        if not isinstance(own_grid, Grid | None):
            raise InvalidParameterError(
                f"grid = {grid!r} is of type {type(grid).__name__}; give a Grid, or an Fod for its."
            )
        found = named_fods(fods)
        if not found:
            raise InvalidParameterError("There are no subjects; give their FODs.")
        where = "" if folder is None else os.fspath(folder)
        self._reading, self._folder = reading, where
        self._shelf = _Shelf(1e6 * max_memory_mb)
        self.fods = tuple("" if isinstance(fod, Fod) else str(fod) for _, fod in found)
        self.names = tuple(name for name, _ in found)
        own = [None] * len(found) if warps is None else _warps_of(warps, self.names)
        if warps is not None and grid is None:
            raise InvalidParameterError(
                "With warps the maps lie in the space that those lead to; give the grid of an "
                "image there."
            )
        self.has_warps = warps is not None
        self._shelf.subjects = [
            _Subject(name, fod, warp, reading, where)
            for (name, fod), warp in zip(found, own, strict=True)
        ]
        self.grid = self._shelf.subjects[0].grid if own_grid is None else own_grid
        self._hashes: dict[str, str] = {}  # of files that were read on a cluster

    @classmethod
    def of_recipe(
        cls, recipe: Recipe, fods: str | Sequence[str | PathLike[str] | Fod], **keywords: Any
    ) -> Self:
        """Return a cohort whose files are read as a recipe reads its own; see the class.

        With warps the maps have by default the grid of the image that the recipe's streamlines are
        taken to (``--to-template``), or that of its FOD if it has no warp itself.

        Raises
        ------
        InvalidParameterError
            When the recipe is of an image.
        """
        if recipe.fod.image is not None:
            raise InvalidParameterError(
                "The recipe is of an image, not of an FOD; make its streamlines in each by replay."
            )
        if keywords.get("warps") is not None and keywords.get("grid") is None:
            keywords["grid"] = _common_grid(recipe)
        return cls(fods, **recipe.fod.reading_of_others, **keywords)

    def __len__(self) -> int:
        return len(self.names)

    @property
    def warp_files(self) -> tuple[str, ...]:
        """All files of warps."""
        warps = [subject.warp for subject in self._shelf.subjects]
        return tuple(
            file.path for warp in warps if isinstance(warp, WarpSource) for file in warp.files
        )

    @property
    def n_bytes(self) -> int:
        """Memory of what is kept now, in bytes."""
        return self._shelf.n_bytes

    def track(
        self,
        seeds: Seeds | ArrayLike,
        parameters: TrackingParameters | None = None,
        *,
        min_streamlines: int = 1,
        backend: str | Runner = "auto",
        n_threads: int | None = None,
        **keywords: Unpack[InputKeywords],
    ) -> CohortResult:
        """Track the same seeds by the same parameters in all subjects.

        Parameters
        ----------
        seeds
            As :func:`~napari_tractography.tracking.engine.track` takes them.
        parameters : TrackingParameters, optional
            By default those that suit the FOD of the first subject.
        min_streamlines : int
            How many streamlines of a subject must pass a voxel for it to be reached, 1 by default.
        backend : str or Cluster
            "cpu", or a cluster, whose workers see the files under the same paths: each subject is a
            task, and a worker keeps `max_memory_mb` of those that it has had.
        n_threads : int, optional
            Subjects at once on this machine; by default one a processor.
        mask, regions, include_rule, cone, tissues, select, max_seeds
            As of `track`; a mask is on :attr:`grid`, and with warps there is none, nor tissues;
            seeds then go one by one through a warp. With `select` the whole FOD of a subject is
            read, since it is not known where seeds will lie.

        Raises
        ------
        TractographyError
            When something is wrong with the input, or a file; names the subject.
        """
        given = seeds if isinstance(seeds, Seeds) else Seeds.at(seeds)
        if parameters is None:
            parameters = self._shelf.subjects[0].suited(keywords.get("tissues"))
        inputs = TrackingInput(stand_in(self.grid), given, parameters, **keywords)
        tractograms: dict[int, Tractogram] = {}
        digests: dict[int, str] = {}
        for number, tractogram, digest in filter(None, self.iter_done(inputs, backend, n_threads)):
            tractograms[number], digests[number] = tractogram, digest
        return self.result(tractograms, min_streamlines=min_streamlines, digests=digests)

    def run(
        self,
        recipe: Recipe,
        *,
        min_streamlines: int = 1,
        backend: str | Runner = "auto",
        n_threads: int | None = None,
        advance: Callable[[int], None] = lambda n_done: None,
    ) -> CohortResult:
        """Make a recipe's streamlines in all subjects, edits included; see :meth:`track`.

        Weights and edits by streamline number are left out, as they belong to other streamlines.
        `advance` is called with how many subjects are done.

        Raises
        ------
        InvalidParameterError
            When its seeds are drawn in the FOD, which are others in each subject.
        TractographyError
            As :meth:`track`.
        """
        request = _Request.of(self.inputs_of(recipe), self._without_warp(recipe))
        tractograms: dict[int, Tractogram] = {}
        digests: dict[int, str] = {}
        advance(0)
        for number, tractogram, digest in filter(None, self._iter(request, backend, n_threads)):
            tractograms[number], digests[number] = tractogram, digest
            advance(len(tractograms))
        return self.result(
            tractograms,
            min_streamlines=min_streamlines,
            recipes=self.recipes_of(recipe),
            digests=digests,
        )

    def _without_warp(self, recipe: Recipe) -> Recipe:
        """Return a recipe without the warp of its own FOD, which each subject's takes the place of.

        Raises InvalidParameterError where subjects have none.
        """
        is_warped = recipe.warp is not None or any(edit.warp for edit in recipe.edits)
        if is_warped and not self.has_warps:
            raise InvalidParameterError(
                "The recipe has a warp, which belongs to its own FOD; give that of each subject."
            )
        return dataclasses.replace(recipe, warp=None)

    def inputs_of(self, recipe: Recipe) -> TrackingInput:
        """Return what a recipe tracks, in an FOD that stands for each subject's; see :meth:`run`.

        Raises
        ------
        TractographyError
            As :meth:`run`.
        """
        if any(source.kind == "fod" for source in recipe.seeds):
            raise InvalidParameterError(
                "The recipe draws its seeds in the FOD, so that subjects would have others; place "
                "them, or make its streamlines in each by replay."
            )
        recipe = self._without_warp(recipe)
        if self.has_warps and (recipe.mask or recipe.tissues):
            raise InvalidParameterError(OF_ONE)
        asked = dataclasses.replace(recipe.fod, sha256="")
        return recipe.read(hashed=False, fods={asked: (stand_in(self.grid), recipe.fod)})[0]

    def recipes_of(self, recipe: Recipe) -> list[Recipe]:
        """Return a recipe as it is for each subject, with the SHA-256 of FODs that were read."""
        found = []
        for subject, path in zip(self._shelf.subjects, self.fods, strict=True):
            source = dataclasses.replace(recipe.fod, path="", sha256="")
            if path:
                sha256 = subject.sha256 or self._hashes.get(path, "")
                source = dataclasses.replace(recipe.fod.other(path), sha256=sha256)
            if isinstance(subject.warp, WarpSource):
                subject.warp = subject.warp.hashed()
                found.append(recipe.on_fod(source, subject.warp))
            else:
                found.append(self._without_warp(recipe).on_fod(source))
        return found

    def result(
        self,
        tractograms: dict[int, Tractogram],
        *,
        min_streamlines: int = 1,
        recipes: Sequence[Recipe] = (),
        digests: Mapping[int, str] | None = None,
    ) -> CohortResult:
        """Return what comes of the tractograms of some or all subjects, by their numbers.

        Where there are warps, `digests` are those before them, see :meth:`iter_done`.

        Raises
        ------
        InvalidParameterError
            When `min_streamlines` is no whole number from 1.
        """
        numbers = sorted(tractograms)
        known = [
            number for number in numbers
            if recipes
            and self.fods[number]
            and not isinstance(self._shelf.subjects[number].warp, Warp)
        ]  # fmt: skip
        return CohortResult(
            tuple(self.names[number] for number in numbers),
            tuple(tractograms[number] for number in numbers),
            self.grid,
            min_streamlines,
            tuple(self.fods[number] for number in numbers),
            tuple(recipes[number].inputs_sha256() if number in known else "" for number in numbers),
            digests=tuple(digests[n] for n in numbers) if digests and self.has_warps else (),
        )

    def iter_track(
        self, inputs: TrackingInput, *, backend: str | Runner = "auto", n_threads: int | None = None
    ) -> Iterator[tuple[int, Tractogram]]:
        """Track inputs in all subjects; yield the number and the tractogram of each as it is done.

        With warps tractograms are in the space that those lead to.

        Parameters
        ----------
        inputs : TrackingInput
            In any FOD, which each subject's takes the place of; a mask is on its grid.
        backend, n_threads
            As of :meth:`track`.

        Raises
        ------
        TractographyError
            As :meth:`track`.
        """
        every = self.iter_done(inputs, backend, n_threads)
        return ((number, tractogram) for number, tractogram, _ in filter(None, every))

    def iter_done(
        self, inputs: TrackingInput, backend: str | Runner = "auto", n_threads: int | None = None
    ) -> Generator[_Done | None, None, None]:
        """Track as :meth:`iter_track`, and yield the digest of the subject's own streamlines, too.

        It is "" where they need no warp. And None now and then, so that it can be closed.
        """
        return self._iter(_Request.of(inputs), backend, n_threads)

    def _iter(
        self, request: _Request, backend: str | Runner, n_threads: int | None
    ) -> Generator[_Done | None, None, None]:
        inputs = request.inputs
        if self.has_warps and (inputs.mask is not None or inputs.tissues is not None):
            raise InvalidParameterError(OF_ONE)
        log_warnings(request.inputs, inputs.between or ())
        if isinstance(backend, Cluster):
            return self._on_cluster(request, backend)
        if backend not in HERE:
            raise InvalidParameterError(
                f"backend = {backend!r} is none for a cohort; give cpu or a cluster."
            )
        return self._here(request, Execution("cpu", n_threads=n_threads).n_workers)

    def _here(self, request: _Request, n_workers: int) -> Generator[_Done | None, None, None]:
        stop = np.zeros(1, np.uint8)
        threads = ThreadPoolExecutor(n_workers, thread_name_prefix="tractography-cohort")
        try:
            left: dict[Future[tuple[Tractogram, str] | None], int] = {
                threads.submit(self._shelf.track, subject, request, stop): number
                for number, subject in enumerate(self._shelf.subjects)
            }
            while left:
                done, _ = wait(left, HEARTBEAT_S, FIRST_COMPLETED)
                for future in done:
                    found = future.result()
                    assert found is not None
                    yield _Done(left.pop(future), *found)
                if not done:
                    yield None
        finally:
            stop[0] = 1
            threads.shutdown(wait=False, cancel_futures=True)

    def _on_cluster(
        self, request: _Request, cluster: Cluster
    ) -> Generator[_Done | None, None, None]:
        warps = [subject.warp for subject in self._shelf.subjects]
        if not all(self.fods) or any(isinstance(warp, Warp) for warp in warps):
            raise InvalidParameterError(
                "FODs and warps in memory are not sent to a cluster; give files that its workers "
                "see."
            )
        more = dict(self._reading), self._folder, self._shelf.max_bytes
        calls = [
            (name, path, warp, *more)
            for name, path, warp in zip(self.names, self.fods, warps, strict=True)
        ]
        for done in cluster.each(_track_on_worker, calls, request):
            if done is None:
                yield None
                continue
            number, (found, sha256) = done
            if isinstance(found, TractographyError):
                raise found
            self._hashes[self.fods[number]] = sha256
            yield _Done(number, *found)


_on_this_worker = _Shelf(0.0)
# With when files were written, and their sizes: they may be others by the next call.
_by_path: dict[str, tuple[list[tuple[int, int]], _Subject]] = {}
_worker_lock = threading.Lock()


def _track_on_worker(
    name: str,
    path: str,
    warp: WarpSource | None,
    reading: FodKeywords,
    folder: str,
    max_bytes: float,
    request: _Request,
) -> tuple[tuple[Tractogram, str] | TractographyError | None, str]:
    """Track in the FOD of a subject, and keep what was read of it; return its SHA-256, too.

    What is wrong is returned: Dask tries again what is raised.
    """
    bare = None if warp is None else dataclasses.replace(warp, files=())
    files = [Path(path), *(Path(part.path) for part in (warp.files if warp is not None else ()))]
    key = repr((files, bare, sorted(reading.items())))
    stats = [file.stat() if file.exists() else None for file in files]
    written = [(0, 0) if stat is None else (stat.st_mtime_ns, stat.st_size) for stat in stats]
    with _worker_lock:
        _on_this_worker.max_bytes = max_bytes
        known = _by_path.get(key)
        if known is None or known[0] != written:
            if known is not None:
                _on_this_worker.subjects.remove(known[1])
            known = _by_path[key] = written, _Subject(name, files[0], warp, reading, folder)
            _on_this_worker.subjects.append(known[1])
    subject = known[1]
    try:
        found = _on_this_worker.track(subject, request, np.zeros(1, np.uint8))
    except TractographyError as error:
        return error, ""
    return found, subject.sha256


def named_fods(fods: str | Sequence[str | PathLike[str] | Fod]) -> list[tuple[str, Path | Fod]]:
    """Return what :class:`Cohort` takes, with the names of the subjects.

    Raises FileError when a pattern matches nothing, or two of one name; InvalidParameterError when
    something else is among the FODs, or a file twice, which would count for two subjects.
    """
    if isinstance(fods, str):
        return [(subject.name, subject.fod.absolute()) for subject in subjects_of(fods)]
    if not isinstance(fods, Iterable):
        raise InvalidParameterError(
            f"The FODs are of type {type(fods).__name__}; give a list of them, or a pattern."
        )
    fods = list(fods)
    for fod in fods:
        if not isinstance(fod, str | PathLike | Fod):
            raise InvalidParameterError(
                f"Among the FODs is one of type {type(fod).__name__}; give paths, or FODs such as "
                "load_fod(path) returns."
            )
    every = [fod if isinstance(fod, Fod) else Path(os.path.abspath(fod)) for fod in fods]
    paths = Counter(fod for fod in every if isinstance(fod, Path))
    if twice := next((path for path, count in paths.items() if count > 1), None):
        raise InvalidParameterError(f"{twice} is given twice; give the FOD of each subject once.")
    return list(zip(_names_of(every), every, strict=True))


def _warps_of(warps: Warps, names: Sequence[str]) -> list[WarpSource | Warp]:
    """Return the warp of each subject."""
    if isinstance(warps, str):
        pattern = warps
        return [WarpSource.file(pattern.replace(SUBJECT, name), hashed=False) for name in names]
    if callable(warps):
        return [warps(name) for name in names]
    if len(warps) != len(names):
        raise InvalidParameterError(
            f"There are {len(warps)} warps and {len(names)} subjects; give one of each."
        )
    return [
        warp if isinstance(warp, Warp | WarpSource) else WarpSource.file(warp, hashed=False)
        for warp in warps
    ]


def _common_grid(recipe: Recipe) -> Grid:
    """Return the grid of an image in the space of a recipe's seeds, by what the recipe names."""
    image = next((edit.image for edit in recipe.edits if edit.image is not None), None)
    path = image.path if image is not None else "" if recipe.warp else recipe.fod.path
    if not path:
        raise InvalidParameterError(
            "The recipe names no image in the space that warps lead to, of which maps shall have "
            "the grid; give one."
        )
    return load_grid(located(path, recipe.folder))


def _names_of(fods: Sequence[Path | Fod]) -> list[str]:
    """Return what tells FODs apart: the parts of their paths that differ, or their names."""
    paths = [fod for fod in fods if isinstance(fod, Path)]
    parts = [path.with_name(path.name.split(".")[0]).parts for path in paths]
    differing: list[int] = []
    if parts and len({len(each) for each in parts}) == 1:
        columns = zip(*parts, strict=True)
        differing = [at for at, column in enumerate(columns) if len(set(column)) > 1]
    found = []
    for fod in fods:
        if isinstance(fod, Fod):
            found.append(fod.name)
            continue
        own = fod.with_name(fod.name.split(".")[0]).parts
        found.append("_".join(own[at] for at in differing) or own[-1])
    counts, numbers = Counter(found), Counter[str]()
    for at, name in enumerate(found):
        if counts[name] > 1:
            numbers[name] += 1
            found[at] = f"{name}-{numbers[name]}"
    return found
