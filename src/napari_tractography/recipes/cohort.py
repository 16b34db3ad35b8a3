"""One seed in the FODs of many subjects at once, in memory that is bounded.

:class:`Cohort` reads of each FOD what lies around the streamlines, and keeps it while the seed
moves near; the streamlines are those in the whole FOD, to the bit. What subjects have in common is
in :mod:`napari_tractography.maps.cohort`. Called by the command, the plugin and scripts.
"""

from __future__ import annotations

import dataclasses
import os
import threading
from collections import Counter
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any, Self, Unpack

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..errors import InvalidParameterError, TractographyError
from ..fields.input_kind import COEFFICIENTS
from ..files.fods import FodKeywords, fod_reader
from ..files.headers import read_header
from ..files.stored_rows import StoredRows, unpacked
from ..files.subjects import subjects_of
from ..geometry.grid import Grid
from ..maps.cohort import CohortResult
from ..model.fod import Fod
from ..model.masks import resampled
from ..model.parameters import TrackingParameters
from ..model.seeds import Seeds
from ..runtime.scalars import as_float
from ..streamlines.tractogram import Tractogram
from ..tracking.cluster.cluster import Cluster
from ..tracking.engine import iter_chunks, log_warnings
from ..tracking.execution import Runner
from ..tracking.inputs import Execution, InputKeywords, TrackingInput
from ..tracking.nearby import can_track_near, track_near
from ..tracking.tables.builders import words_of
from ..tracking.tables.local import LocalTable, rings_of, rows_of_voxels, stand_in
from .recipe import Recipe
from .sources import FodSource

MEMORY_MB = 2048.0
HEARTBEAT_S = 0.02
HERE = ("auto", "cpu")  # backends of this machine


@dataclass(frozen=True, slots=True, eq=False)
class _Request:
    """What is tracked in all subjects: inputs in an FOD that each subject's takes the place of."""

    inputs: TrackingInput

    @classmethod
    def of(cls, inputs: TrackingInput) -> Self:
        """Leave out the FOD, of which the grid is that of the mask."""
        return cls(dataclasses.replace(inputs, fod=stand_in(inputs.fod.grid)))

    def in_fod(self, fod: Fod) -> TrackingInput:
        """Return the inputs in the FOD of a subject."""
        mask, own = self.inputs.mask, self.inputs.fod.grid
        if mask is not None and not own.same_space(fod.grid):
            mask = resampled(np.asarray(mask) != 0, own, fod.grid, "of the cohort")
        return dataclasses.replace(self.inputs, fod=fod, mask=mask)

    def __reduce__(self) -> tuple[Any, ...]:
        grid = self.inputs.fod.grid
        small = stand_in(Grid((1, 1, 1), grid.affine))
        return _request, (dataclasses.replace(self.inputs, fod=small), grid)


def _request(inputs: TrackingInput, grid: Grid) -> _Request:
    return _Request(dataclasses.replace(inputs, fod=stand_in(grid)))


class _Subject:
    """The FOD of a subject, as much of it as is in memory."""

    def __init__(self, name: str, fod: Path | Fod, reading: FodKeywords, folder: str) -> None:
        self.name, self._source = name, fod
        self._reading, self._folder = reading, folder
        self.sha256 = ""
        self.table: LocalTable | None = None
        self.lock = threading.Lock()
        self._whole: Fod | None = None

    @property
    def grid(self) -> Grid:
        """The voxels of the FOD; of a file its header is read."""
        if isinstance(self._source, Fod):
            return self._source.grid
        return fod_reader(self._source, look_later=True, **self._reading).grid

    @property
    def n_bytes(self) -> int:
        """Memory in bytes."""
        whole = None if isinstance(self._source, Fod) else self._whole
        return (0 if whole is None else _bytes_of(whole)) + (
            0 if self.table is None else self.table.n_bytes
        )

    def track(self, request: _Request, stop: NDArray[np.uint8]) -> Tractogram | None:
        """Track in the FOD of the subject; None when `stop`, (1,) uint8, was set meanwhile."""
        try:
            with self.lock:
                return self._track(request, stop)
        except TractographyError as error:
            error.args = (f"{self.name}: {error}",)
            raise

    def _track(self, request: _Request, stop: NDArray[np.uint8]) -> Tractogram | None:
        if self.table is None and self._whole is None:
            self._open()
        if self.table is not None:
            inputs = request.in_fod(self.table.fod)
            if can_track_near(inputs):
                return track_near(self.table, inputs, stop)
        if self._whole is None:
            self._whole = self._read()
        inputs = request.in_fod(self._whole)
        parts = []
        for chunk in iter_chunks(inputs, Execution("cpu", n_threads=1)):
            if stop[0]:
                return None
            parts.append(chunk)
        n_seeds = len(inputs.seeds) if inputs.select is None else None
        return Tractogram.concatenate(parts, n_seeds=n_seeds)

    def shrink(self, found: Tractogram, request: _Request) -> None:
        """Keep no more than what lies around streamlines that were just tracked."""
        with self.lock:
            if not isinstance(self._source, Fod) and self.table is not None:
                self._whole = None
            if self.table is not None:
                inputs = request.inputs
                rings = rings_of(self.table.fod.grid, inputs.parameters)
                points = np.concatenate([found.points, inputs.seeds.positions_mm])
                self.table.keep_near(points, rings)

    def forget(self) -> None:
        """Keep nothing but what it takes to read again, unless it is in use."""
        if self.lock.acquire(blocking=False):
            try:
                self._whole = None
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
    ) -> Tractogram | None:
        """Track in one; where memory is short, that one gives up what it no longer needs.

        Those that come first keep theirs, and the last are read again each time: were it the first
        to go, all would be read again.
        """
        found = subject.track(request, stop)
        with self._lock:
            if found is not None and self.n_bytes > self.max_bytes:
                subject.shrink(found, request)
            for other in (subject, *self.subjects[::-1]):
                if self.n_bytes <= self.max_bytes:
                    break
                other.forget()
        return found


class Cohort:
    """Subjects in a common space, in which one seed is tracked at once.

    Parameters
    ----------
    fods : str, or sequence of path-like or Fod
        A pattern such as "sub-*/wmfod.nii.gz"; or files, or FODs in memory. All in one RAS+ mm
        space; grids may differ.
    max_memory_mb : float
        Of what is kept of them from one run to the next. Less takes longer: what there is no room
        for is read again. While a file is opened, the first time that it is tracked in, it is in
        memory as a whole, one for each thread.
    grid : Grid, optional
        Of the maps; by default that of the first subject.
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
    grid : Grid

    Raises
    ------
    FileError
        When there is no such file.
    InvalidParameterError
        When there is no FOD, two have one name, or `max_memory_mb` is not positive.
    """

    def __init__(
        self,
        fods: str | Sequence[str | PathLike[str] | Fod],
        *,
        max_memory_mb: float = MEMORY_MB,
        grid: Grid | None = None,
        folder: str | PathLike[str] | None = None,
        **reading: Unpack[FodKeywords],
    ) -> None:
        if not as_float(max_memory_mb) > 0:
            raise InvalidParameterError(
                f"max_memory_mb = {max_memory_mb!r} is impossible; give megabytes such as 2048."
            )
        if isinstance(fods, str):
            found: list[tuple[str, Path | Fod]] = [
                (subject.name, subject.fod.absolute()) for subject in subjects_of(fods)
            ]
        else:
            given = [fod if isinstance(fod, Fod) else Path(fod).absolute() for fod in fods]
            found = list(zip(_names_of(given), given, strict=True))
        if not found:
            raise InvalidParameterError("There are no subjects; give their FODs.")
        where = "" if folder is None else os.fspath(folder)
        self._reading, self._folder = reading, where
        self._shelf = _Shelf(1e6 * max_memory_mb)
        self._shelf.subjects = [_Subject(name, fod, reading, where) for name, fod in found]
        self._paths = tuple("" if isinstance(fod, Fod) else str(fod) for _, fod in found)
        self.names = tuple(name for name, _ in found)
        self.grid = self._shelf.subjects[0].grid if grid is None else grid
        self._hashes: dict[str, str] = {}  # of files that were read on a cluster

    @classmethod
    def of_recipe(
        cls,
        recipe: Recipe,
        fods: str | Sequence[str | PathLike[str] | Fod],
        **keywords: Any,
    ) -> Self:
        """Return a cohort whose files are read as a recipe reads its own; see the class.

        Raises
        ------
        InvalidParameterError
            When the recipe is of an image.
        """
        if recipe.fod.image is not None:
            raise InvalidParameterError(
                "The recipe is of an image, not of an FOD; make its streamlines in each by replay."
            )
        basis, frame = recipe.fod.basis, recipe.fod.frame or None
        return cls(fods, basis=basis, frame=frame, **keywords)

    def __len__(self) -> int:
        return len(self.names)

    @property
    def fods(self) -> tuple[str, ...]:
        """The file of each subject; "" of FODs in memory."""
        return self._paths

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
        seeds, parameters
            As :func:`~napari_tractography.tracking.engine.track` takes them.
            ``TrackingParameters.for_fod`` of one subject suits all that are alike.
        min_streamlines : int
            How many streamlines of a subject must pass a voxel for it to be reached, 1 by default.
        backend : str or Cluster
            "cpu", or a cluster, whose workers see the files under the same paths: each subject is a
            task, and a worker keeps `max_memory_mb` of those that it has had.
        n_threads : int, optional
            Subjects at once on this machine; by default one a processor.
        mask, regions, include_rule, cone, tissues, select, max_seeds
            As of `track`; a mask is on :attr:`grid`. With `select` the whole FOD of a subject is
            read, since it is not known where seeds will lie.

        Returns
        -------
        CohortResult

        Raises
        ------
        TractographyError
            When something is wrong with the input, or a file; names the subject.
        """
        given = seeds if isinstance(seeds, Seeds) else Seeds(seeds)
        inputs = TrackingInput(
            stand_in(self.grid), given, parameters or TrackingParameters(), **keywords
        )
        found = dict(self.iter_track(inputs, backend=backend, n_threads=n_threads))
        return self.result(found, min_streamlines=min_streamlines)

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
        inputs = self.inputs_of(recipe)
        found: dict[int, Tractogram] = {}
        advance(0)
        for number, tractogram in self.iter_track(inputs, backend=backend, n_threads=n_threads):
            found[number] = tractogram
            advance(len(found))
        recipes = self.recipes_of(recipe)
        edited = {number: recipes[number].edit(found[number]) for number in found}
        return self.result(edited, min_streamlines=min_streamlines, recipes=recipes)

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
        asked = dataclasses.replace(recipe.fod, sha256="")
        return recipe.read(hashed=False, fods={asked: (stand_in(self.grid), recipe.fod)})[0]

    def recipes_of(self, recipe: Recipe) -> list[Recipe]:
        """Return a recipe as it is for each subject, with the SHA-256 of FODs that were read."""
        found = []
        for subject, path in zip(self._shelf.subjects, self._paths, strict=True):
            source = dataclasses.replace(recipe.fod, path="", sha256="")
            if path:
                frame = recipe.fod.frame or None
                source = FodSource.file(path, basis=recipe.fod.basis, frame=frame, hashed=False)
                sha256 = subject.sha256 or self._hashes.get(path, "")
                source = dataclasses.replace(source, sha256=sha256)
            found.append(recipe.on_fod(source))
        return found

    def result(
        self,
        tractograms: dict[int, Tractogram],
        *,
        min_streamlines: int = 1,
        recipes: Sequence[Recipe] = (),
    ) -> CohortResult:
        """Return what comes of the tractograms of some or all subjects, by their numbers.

        Raises
        ------
        InvalidParameterError
            When `min_streamlines` is no whole number from 1.
        """
        numbers = sorted(tractograms)
        known = [number for number in numbers if recipes and self._paths[number]]
        return CohortResult(
            tuple(self.names[number] for number in numbers),
            tuple(tractograms[number] for number in numbers),
            self.grid,
            min_streamlines,
            tuple(self._paths[number] for number in numbers),
            tuple(recipes[number].inputs_sha256() if number in known else "" for number in numbers),
        )

    def iter_track(
        self,
        inputs: TrackingInput,
        *,
        backend: str | Runner = "auto",
        n_threads: int | None = None,
    ) -> Iterator[tuple[int, Tractogram]]:
        """Track inputs in all subjects; yield the number and the tractogram of each as it is done.

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
        return (done for done in self.iter_done(inputs, backend, n_threads) if done is not None)

    def iter_done(
        self,
        inputs: TrackingInput,
        backend: str | Runner = "auto",
        n_threads: int | None = None,
    ) -> Generator[tuple[int, Tractogram] | None, None, None]:
        """Track as :meth:`iter_track`, and yield None now and then, so that it can be closed."""
        request = _Request.of(inputs)
        log_warnings(request.inputs, inputs.between or ())
        if isinstance(backend, Cluster):
            return self._on_cluster(request, backend)
        if backend not in HERE:
            raise InvalidParameterError(
                f"backend = {backend!r} is none for a cohort; give cpu or a cluster."
            )
        return self._here(request, Execution("cpu", n_threads=n_threads).n_workers)

    def _here(
        self, request: _Request, n_workers: int
    ) -> Generator[tuple[int, Tractogram] | None, None, None]:
        stop = np.zeros(1, np.uint8)
        threads = ThreadPoolExecutor(n_workers, thread_name_prefix="tractography-cohort")
        try:
            left: dict[Future[Tractogram | None], int] = {
                threads.submit(self._shelf.track, subject, request, stop): number
                for number, subject in enumerate(self._shelf.subjects)
            }
            while left:
                done, _ = wait(left, HEARTBEAT_S, FIRST_COMPLETED)
                for future in done:
                    found = future.result()
                    assert found is not None
                    yield left.pop(future), found
                if not done:
                    yield None
        finally:
            stop[0] = 1
            threads.shutdown(wait=False, cancel_futures=True)

    def _on_cluster(
        self, request: _Request, cluster: Cluster
    ) -> Generator[tuple[int, Tractogram] | None, None, None]:
        if not all(self._paths):
            raise InvalidParameterError(
                "FODs in memory are not sent to a cluster; give files that its workers see."
            )
        more = dict(self._reading), self._folder, self._shelf.max_bytes
        calls = [(name, path, *more) for name, path in zip(self.names, self._paths, strict=True)]
        for done in cluster.each(_track_on_worker, calls, request):
            if done is None:
                yield None
                continue
            number, (found, sha256) = done
            if isinstance(found, TractographyError):
                raise found
            self._hashes[self._paths[number]] = sha256
            yield number, found


_on_this_worker = _Shelf(0.0)
# With when the file was written, and its size: it may be another by the next call.
_by_path: dict[str, tuple[tuple[int, int], _Subject]] = {}
_worker_lock = threading.Lock()


def _track_on_worker(
    name: str,
    path: str,
    reading: FodKeywords,
    folder: str,
    max_bytes: float,
    request: _Request,
) -> tuple[Tractogram | TractographyError | None, str]:
    """Track in the FOD of a subject, and keep what was read of it; return its SHA-256, too.

    What is wrong is returned: Dask tries again what is raised.
    """
    key = repr((path, sorted(reading.items())))
    file = Path(path)
    stat = file.stat() if file.exists() else None
    written = (stat.st_mtime_ns, stat.st_size) if stat is not None else (0, 0)
    with _worker_lock:
        _on_this_worker.max_bytes = max_bytes
        known = _by_path.get(key)
        if known is None or known[0] != written:
            if known is not None:
                _on_this_worker.subjects.remove(known[1])
            known = _by_path[key] = written, _Subject(name, file, reading, folder)
            _on_this_worker.subjects.append(known[1])
    subject = known[1]
    try:
        found = _on_this_worker.track(subject, request, np.zeros(1, np.uint8))
    except TractographyError as error:
        return error, ""
    return found, subject.sha256


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
