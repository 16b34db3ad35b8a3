"""Tracking: FOD, seeds and parameters in, tractograms out.

:func:`iter_track` yields chunks as they are ready, :func:`track` collects them; :func:`iter_chunks`
and :func:`track_all` are the same for the recipes, the session and the command line, which have a
:class:`.inputs.TrackingInput`. Input is checked and made into a :class:`.plan.Plan` here; what runs
it is chosen by :mod:`.backends`.
"""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Literal, Unpack, overload

import numpy as np
from numpy.typing import ArrayLike

from ..errors import InvalidParameterError, InvalidTissuesError, UnfinishedError
from ..fields.input_kind import BLOCKS, COEFFICIENTS, EIGENVECTORS, VECTORS
from ..fields.sh import n_coefficients_of
from ..geometry.directions import function_cone
from ..geometry.grid import Grid
from ..model.fod import Fod
from ..model.parameters import TrackingParameters
from ..model.regions import Region, check_between, check_regions, listed_regions
from ..model.seeds import Seeds
from ..model.tissues import Tissues, check_tissues
from ..runtime.arrays import gpu_of, host_array
from ..streamlines.tractogram import Tractogram
from . import backends, codes
from .cpu import cpu_backend as cpu
from .cuda import cuda_backend as cuda
from .cuda import tables as cuda_tables
from .cuda.gpu_errors import explained_for_good
from .inputs import (
    Execution,
    ExecutionKeywords,
    TrackingInput,
    TrackKeywords,
    check_backtracking,
    check_mask,
    check_seeds,
    check_step,
    sorted_out,
    suited,
)
from .plan import (
    Plan,
    field_of,
    kernel_regions,
    kernel_settings,
    kernel_tissues,
)
from .report import Report
from .selecting import iter_selected, telling_why_short
from .tables.blocks import block_table
from .tables.builders import build_table
from .tables.cache import fod_table
from .tables.data import FodTable
from .tables.table import Table
from .tables.vectors import vector_table

logger = logging.getLogger(__name__)

# By what follows them; of coefficients it depends on where they lie.
TABLES: dict[str, Callable[[Fod], Table]] = {
    VECTORS: vector_table,
    EIGENVECTORS: vector_table,
    BLOCKS: block_table,
}
# Seeds that are tracked ahead of what a person asks for, and how many at once.
AHEAD_SEEDS, AHEAD_BLOCK = 1000, 64
# What the panel and the command line show until the first streamlines are there.
PREPARING = "Preparing the engine; the first run on a machine takes a minute or so."


def iter_track(
    fod: Fod,
    seeds: Seeds | ArrayLike,
    parameters: TrackingParameters | None = None,
    *,
    report: Report | None = None,
    **keywords: Unpack[TrackKeywords],
) -> Generator[Tractogram, None, None]:
    """Track streamlines, a chunk at a time.

    Parameters
    ----------
    fod : Fod
    seeds : Seeds or (n, 3) array_like
        Positions in RAS+ mm are seeds; :class:`~napari_tractography.model.seeds.Seeds` has other
        ways.
    parameters : TrackingParameters, optional
        By default those that suit the FOD, ``TrackingParameters.for_fod(fod)``, as in panel and
        command; with tissues, ``with_tissues=True``.
    report : Report, optional
        Filled: what tracks, why, and where the time goes.
    mask, regions, include_rule, cone, tissues, select, max_seeds
        What else decides on the streamlines: fields of
        :class:`~napari_tractography.tracking.inputs.TrackingInput`.
    backend, n_threads, ...
        How: the fields of :class:`~napari_tractography.tracking.inputs.Execution`, such as
        ``backend="cpu"``. The streamlines do not depend on them.

    Yields
    ------
    Tractogram
        In seed order; their `n_seeds` add up to ``len(seeds)`` or, with `select`, to as many as
        were needed. A chunk may be empty, and of no seeds while the kernel is being compiled or a
        cluster has nothing ready, so that the caller can cancel. Closing the generator cancels.

    Raises
    ------
    TractographyError
        When something is wrong with the input; raised by this call, before the first chunk.
    """
    inputs, execution = sorted_out(fod, seeds, parameters, keywords)
    return iter_chunks(inputs, execution, report=report)


@overload
def track(
    fod: Fod,
    seeds: Seeds | ArrayLike,
    parameters: TrackingParameters | None = None,
    *,
    device_arrays: Literal[False] = False,
    **keywords: Unpack[TrackKeywords],
) -> Tractogram: ...


@overload
def track(
    fod: Fod,
    seeds: Seeds | ArrayLike,
    parameters: TrackingParameters | None = None,
    *,
    device_arrays: Literal[True],
    **keywords: Unpack[TrackKeywords],
) -> cuda.DeviceTractogram: ...


def track(
    fod: Fod,
    seeds: Seeds | ArrayLike,
    parameters: TrackingParameters | None = None,
    *,
    device_arrays: bool = False,
    **keywords: Unpack[TrackKeywords],
) -> Tractogram | cuda.DeviceTractogram:
    """Track streamlines and return them all; of what :func:`iter_track` takes, all but `report`.

    A run without a single streamline logs why as a warning. With `device_arrays` they stay on the
    GPU, as CuPy arrays: see
    :class:`napari_tractography.tracking.cuda.cuda_backend.DeviceTractogram`.
    """
    inputs, execution = sorted_out(fod, seeds, parameters, keywords)
    if device_arrays:
        if inputs.select is not None:
            raise InvalidParameterError(
                "select takes several rounds, of which device_arrays has no room; "
                "give one or the other."
            )
        plan = make_plan(inputs, on_gpu=True)
        log_warnings(inputs)
        return backends.track_on_device(plan, execution)
    return track_all(inputs, execution)


def track_between(
    fod: Fod,
    one: Region,
    other: Region,
    n: int,
    parameters: TrackingParameters | None = None,
    *,
    mask: ArrayLike | None = None,
    regions: Sequence[Region] = (),
    tissues: Tissues | None = None,
    max_seeds: int | None = None,
    **execution: Unpack[ExecutionKeywords],
) -> Tractogram:
    """Track `n` streamlines between two regions, half of them from each.

    Seeds lie in one region; a streamline is accepted when it enters the other, and stops there.
    Of regions that overlap no streamline counts whose seed lies in both.

    Parameters
    ----------
    one, other : Region
        Of any role.
    n : int
        Seeds are drawn until so many are accepted, see :func:`iter_track`.
    regions : sequence of Region
        More of them, such as exclude regions; all include regions are to be met.
    max_seeds : int, optional
        Of each half.
    fod, parameters, mask, tissues, **execution
        As in :func:`iter_track`.

    Returns
    -------
    Tractogram
        Those from `one` first. Seeds of the second half are numbered from 0 again; their key is
        `random_seed` plus 1.
    """
    one, other = listed_regions((one, other))
    inputs = TrackingInput(
        fod,
        one.seeds(1),
        suited(fod, parameters, tissues),
        mask,
        regions,
        tissues=tissues,
        select=n,
        max_seeds=max_seeds,
        between=(one, other),
    )
    return track_all(inputs, Execution(**execution))


def track_all(
    inputs: TrackingInput,
    execution: Execution | None = None,
    *,
    report: Report | None = None,
) -> Tractogram:
    """Track streamlines and return them all; without a single one, log why as a warning.

    Raises UnfinishedError when what is tracked in can no longer be read; it has all streamlines so
    far.
    """
    unfinished: list[UnfinishedError] = []

    def readable() -> Iterator[Tractogram]:
        try:
            yield from iter_chunks(inputs, execution, report=report)
        except UnfinishedError as error:
            unfinished.append(error)

    n_seeds = len(inputs.seeds) if inputs.select is None else None
    tractogram = Tractogram.concatenate(readable(), n_seeds=n_seeds)
    for error in unfinished:
        error.tractogram = tractogram
        raise error
    if not len(tractogram):
        logger.warning("%s", tractogram.why_empty())
    return tractogram


def iter_chunks(
    inputs: TrackingInput,
    execution: Execution | None = None,
    *,
    report: Report | None = None,
) -> Generator[Tractogram, None, None]:
    """Track streamlines, a chunk at a time; see :func:`iter_track`."""
    execution = execution or Execution()
    report = Report() if report is None else report
    report.clear()
    if inputs.select is not None:  # all rounds have one mask, whatever is painted meanwhile
        inputs = replace(inputs, mask=check_mask(inputs.mask, inputs.fod))
    runs = [inputs] if inputs.between is None else inputs.halves()
    parts = [_iter_one(run, execution, report) for run in runs]  # raises here on wrong input
    log_warnings(runs[0], inputs.between or ())
    once_more = partial(_iter_chunks, execution=execution, report=Report(), first_stream=0)
    chunks = telling_why_short(runs[0], _one_after_the_other(parts), once_more)
    return _counted(chunks, report, runs[0].fod.grid)


def log_warnings(inputs: TrackingInput, ends: Sequence[Region] = ()) -> None:
    """Log what is likely to be a mistake: once a run, whatever rounds and previews it has."""
    grid = inputs.fod.grid
    warnings = check_step(inputs.parameters, grid) + check_regions(inputs.regions, grid)
    for warning in warnings + (check_between(*ends) if ends else []):
        logger.warning("%s", warning)


def _one_after_the_other(
    parts: Sequence[Generator[Tractogram, None, None]],
) -> Generator[Tractogram, None, None]:
    for part in parts:
        with contextlib.closing(part):
            yield from part


def _iter_one(
    inputs: TrackingInput, execution: Execution, report: Report
) -> Generator[Tractogram, None, None]:
    chunks = _iter_chunks(inputs, execution, report, 0)
    if inputs.select is not None:

        def track(seeds: Seeds, first: int) -> Generator[Tractogram, None, None]:
            return _iter_chunks(replace(inputs, seeds=seeds), execution, report, first)

        chunks = iter_selected(inputs, track)
    return chunks


def _iter_chunks(
    inputs: TrackingInput, execution: Execution, report: Report, first_stream: int
) -> Generator[Tractogram, None, None]:
    """Track seeds, the first of which has that number."""
    begun = time.perf_counter()
    plan = make_plan(inputs, on_gpu=backends.may_use_a_gpu(execution))
    plan = replace(plan, first_stream=first_stream)
    report.add("tables", time.perf_counter() - begun)
    choice = backends.choose(plan, execution)
    return backends.iter_chunks(choice, plan, execution, report=report)


def _counted(
    chunks: Generator[Tractogram, None, None], report: Report, grid: Grid
) -> Generator[Tractogram, None, None]:
    """Pass chunks on with their grid, and count seeds and streamlines."""
    with contextlib.closing(chunks):
        for chunk in chunks:
            chunk.grid = grid
            report.n_seeds += chunk.n_seeds
            report.n_streamlines += len(chunk)
            yield chunk


def warm_up(
    parameters: TrackingParameters | None = None,
    *,
    lmax: int = 8,
    fod: Fod | None = None,
    heartbeat: Callable[[], object] = lambda: None,
) -> None:
    """Load the kernels for these parameters, and compile those that are not on the disk yet.

    With an FOD, of which what it holds and its degree count, in place of `lmax`.

    The next run then starts at once. Takes less than a second; the first time on a machine, or with
    another algorithm, interpolation or largest degree of the FOD, half a minute, in a process of
    its own. Done for the CPU and, where there is one, for the GPU with most free memory.
    `heartbeat` is called now and then while another process compiles; an exception that it raises
    ends the wait.
    """
    chosen = (parameters or TrackingParameters()) if fod is None else suited(fod, parameters)
    kernel = COEFFICIENTS if fod is None else kernel_of(fod, chosen)
    if fod is not None and kernel == COEFFICIENTS:
        lmax = fod.lmax
    is_asymmetric = fod is not None and fod.is_asymmetric
    plan = _smallest_plan(chosen.algorithm, chosen.interpolation, lmax, kernel, is_asymmetric)
    backends.warm_up(plan, heartbeat)


def track_ahead(
    fod: Fod, parameters: TrackingParameters, heartbeat: Callable[[], object] = lambda: None
) -> int:
    """Track streamlines all over an FOD for the CPU, and drop them; return of how many seeds.

    What is found out of a voxel when a line first comes near, its largest amplitude and whether
    bundles cross there, takes far longer than to track through it: of the first streamlines at a
    place in a brain nine tenths of the time. After this most of it is known.

    Parameters
    ----------
    fod : Fod
        Nothing is done for inputs that are not followed by coefficients.
    parameters : TrackingParameters
        Of which algorithm and interpolation count; all else is as for the FOD.
    heartbeat : callable
        Called before the first seed and every few seeds, in this thread; it may wait, and an
        exception that it raises ends this.
    """
    if kernel_of(fod, parameters) != COEFFICIENTS:
        return 0
    heartbeat()
    seeds = Seeds.in_mask(fod.support, fod.grid, AHEAD_SEEDS)
    usual = TrackingParameters.for_fod(
        fod,
        algorithm=parameters.algorithm,
        interpolation=parameters.interpolation,
        output="endpoints",
    )
    plan = make_plan(TrackingInput(fod, seeds, usual))
    chunks = cpu.iter_chunks(plan, Execution(n_threads=1, block=AHEAD_BLOCK))
    n_seeds = 0
    with contextlib.closing(chunks):
        for chunk in chunks:
            n_seeds += chunk.n_seeds
            heartbeat()
    return n_seeds


def compile_kernel(
    algorithm: str,
    interpolation: str,
    *,
    lmax: int,
    kernel: str = COEFFICIENTS,
    is_asymmetric: bool = False,
) -> None:
    """Compile a kernel for the CPU, in this process, unless it is on the disk."""
    cpu.make_ready(_smallest_plan(algorithm, interpolation, lmax, kernel, is_asymmetric))


def _smallest_plan(
    algorithm: str, interpolation: str, lmax: int, kernel: str, is_asymmetric: bool
) -> Plan:
    """Return a plan for which the same kernel is compiled as for all of its kind."""
    if kernel == BLOCKS:
        fod = Fod.from_image(np.arange(216.0).reshape(6, 6, 6), np.eye(4))
    elif kernel in (VECTORS, EIGENVECTORS):
        fod = Fod.from_peaks(np.ones((2, 2, 2, 3)), np.eye(4))
    else:
        fod = Fod(np.ones((2, 2, 2, n_coefficients_of(lmax, is_asymmetric))), np.eye(4))
    kind = TrackingParameters(algorithm=algorithm, interpolation=interpolation)
    return make_plan(TrackingInput(fod, Seeds.at(np.zeros(3)), kind))


def make_plan(inputs: TrackingInput, *, on_gpu: bool = False) -> Plan:
    """Check the input and bring it into the form that kernels read.

    `on_gpu`, what lies on a GPU stays there; else all of it is copied to the host. Raises
    TractographyError when something is wrong with the input, or what lies on a GPU fills it.
    """
    is_made = inputs.fod.input_kind.kernel != COEFFICIENTS  # from what lies on the host
    gpu = gpu_of(inputs.fod.device_values.native) if on_gpu and not is_made else None
    if gpu is None:
        return _make_plan(inputs, build_table, on_gpu)
    with explained_for_good(f"cuda:{gpu}"):
        return _make_plan(inputs, cuda_tables.build_table, on_gpu)


def _make_plan(inputs: TrackingInput, build: Callable[..., FodTable], on_gpu: bool) -> Plan:
    fod, seeds, parameters, mask = inputs.fod, inputs.seeds, inputs.parameters, inputs.mask
    inside = check_mask(mask if on_gpu or mask is None else host_array(mask), fod)
    check_seeds(inputs)
    check_step(parameters, fod.grid)
    check_regions(inputs.regions, fod.grid)
    if inputs.tissues is not None:
        check_tissues(inputs.tissues, fod.grid)
        check_backtracking(parameters)
    tissues = kernel_tissues(inputs.tissues, parameters)
    flat = kernel_regions(inputs.regions, inputs.include_rule, tissues=tissues, on_gpu=on_gpu)
    if flat.n_includes > codes.MAX_INCLUDES:
        raise InvalidParameterError(
            f"{flat.n_includes} include regions are too many; give at most {codes.MAX_INCLUDES}."
        )
    kernel = kernel_of(fod, parameters)
    if kernel != COEFFICIENTS:
        if inputs.tissues is not None:
            raise InvalidTissuesError(
                f"Tissues are for FODs, and {fod.name} holds {fod.kind}; track without a tissue "
                "image, or an FOD."
            )
        if inputs.cone is not None:
            raise InvalidParameterError(
                f"A cone that is a function is for FODs, and {fod.name} holds {fod.kind}; give "
                "max_angle_deg or min_radius_mm."
            )
    table: Table = fod_table(fod, TABLES.get(kernel, build))
    allowed = reach_deg = None
    if inputs.cone is not None:
        allowed, reach_deg = function_cone(parameters.n_directions, inputs.cone)
    first: Any = np.zeros((0, 3), np.float32)
    if parameters.start == "given" and seeds.device_directions is not None:
        units = seeds.device_directions
        first = units.native if on_gpu else units.host
    return Plan(
        positions_mm=seeds.device_positions.native if on_gpu else seeds.positions_mm,
        seed_directions=first,
        streams=np.zeros(0, np.uint32) if seeds.streams is None else seeds.streams,
        table=table,
        field=field_of(table, parameters, inside, allowed, reach_deg),
        settings=kernel_settings(parameters, table.scale, reach_deg, fod.grid.voxel_mm),
        regions=flat,
    )


def kernel_of(fod: Fod, parameters: TrackingParameters) -> str:
    """Return what follows an FOD by an algorithm.

    What has a gradient to follow needs coefficients, and so may what draws.
    """
    return fod.input_kind.kernel_for(parameters.row.among_vectors)
