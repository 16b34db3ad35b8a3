"""Tracking: FOD, seeds and parameters in, tractograms out.

:func:`iter_track` yields chunks as they are ready, :func:`track` collects them; :func:`iter_chunks`
and :func:`track_all` are the same for the recipes, the session and the command line, which have a
:class:`.inputs.TrackingInput`. Input is checked and made into a :class:`.plan.Plan` here; what runs
it is chosen by :mod:`.backends`.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Generator, Sequence
from typing import Any, Literal, Unpack, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..arrays import as_native, gpu_of, host_array, library_of, mapped, on_its_device, synchronize
from ..directions import ConeFunction, function_cone
from ..errors import InvalidMaskError, InvalidParameterError, InvalidSeedsError
from ..fod import Fod
from ..grid import Grid
from ..parameters import TrackingParameters
from ..regions import Region, check_regions
from ..seeds import Seeds
from ..tractogram import Tractogram
from . import backends, codes
from .cpu import run as cpu
from .cuda import run as cuda
from .cuda import tables as cuda_tables
from .cuda.errors import explained_for_good
from .inputs import Execution, ExecutionKeywords, TrackingInput
from .plan import Plan, kernel_field, kernel_regions, kernel_settings
from .report import Report
from .tables.builders import build_table
from .tables.cache import fod_table
from .tables.data import FodTable

logger = logging.getLogger(__name__)

# What the panel and the command line show until the first streamlines are there.
PREPARING = "Preparing the engine; the first run on a machine takes up to a minute."


def iter_track(
    fod: Fod,
    seeds: Seeds,
    parameters: TrackingParameters | None = None,
    *,
    mask: ArrayLike | None = None,
    regions: Sequence[Region] = (),
    include_rule: str = "all",
    cone: ConeFunction | None = None,
    report: Report | None = None,
    **execution: Unpack[ExecutionKeywords],
) -> Generator[Tractogram, None, None]:
    """Track streamlines, a chunk at a time.

    Parameters
    ----------
    fod, seeds, parameters, mask, regions, include_rule, cone
        What is tracked: the fields of :class:`~napari_tractography.tracking.inputs.TrackingInput`.
    report : Report, optional
        Filled: what tracks, why, and where the time goes.
    **execution
        How: the fields of :class:`~napari_tractography.tracking.inputs.Execution`, such as
        ``backend="cpu"``. The streamlines do not depend on them.

    Yields
    ------
    Tractogram
        In seed order; their `n_seeds` add up to ``len(seeds)``. Closing the generator cancels.

    Raises
    ------
    TractographyError
        When something is wrong with the input; raised by this call, before the first chunk.
    """
    given = TrackingInput(
        fod, seeds, parameters or TrackingParameters(), mask, regions, include_rule, cone
    )
    return iter_chunks(given, Execution(**execution), report=report)


@overload
def track(
    fod: Fod,
    seeds: Seeds,
    parameters: TrackingParameters | None = None,
    *,
    mask: ArrayLike | None = None,
    regions: Sequence[Region] = (),
    include_rule: str = "all",
    cone: ConeFunction | None = None,
    device_arrays: Literal[False] = False,
    **execution: Unpack[ExecutionKeywords],
) -> Tractogram: ...


@overload
def track(
    fod: Fod,
    seeds: Seeds,
    parameters: TrackingParameters | None = None,
    *,
    mask: ArrayLike | None = None,
    regions: Sequence[Region] = (),
    include_rule: str = "all",
    cone: ConeFunction | None = None,
    device_arrays: Literal[True],
    **execution: Unpack[ExecutionKeywords],
) -> cuda.DeviceTractogram: ...


def track(
    fod: Fod,
    seeds: Seeds,
    parameters: TrackingParameters | None = None,
    *,
    mask: ArrayLike | None = None,
    regions: Sequence[Region] = (),
    include_rule: str = "all",
    cone: ConeFunction | None = None,
    device_arrays: bool = False,
    **execution: Unpack[ExecutionKeywords],
) -> Tractogram | cuda.DeviceTractogram:
    """Track streamlines and return them all; the parameters are those of :func:`iter_track`.

    A run without a single streamline logs why as a warning. With `device_arrays` they stay on the
    GPU, as CuPy arrays: see :class:`napari_tractography.tracking.cuda.run.DeviceTractogram`.
    """
    given = TrackingInput(
        fod, seeds, parameters or TrackingParameters(), mask, regions, include_rule, cone
    )
    how = Execution(**execution)
    if device_arrays:
        return backends.track_on_device(make_plan(given, on_gpu=True), how)
    return track_all(given, how)


def track_all(
    given: TrackingInput,
    execution: Execution | None = None,
    *,
    report: Report | None = None,
) -> Tractogram:
    """Track streamlines and return them all; without a single one, log why as a warning."""
    chunks = iter_chunks(given, execution, report=report)
    tractogram = Tractogram.concatenate(chunks, n_seeds=len(given.seeds))
    if not len(tractogram):
        logger.warning("%s", tractogram.why_empty())
    return tractogram


def iter_chunks(
    given: TrackingInput,
    execution: Execution | None = None,
    *,
    report: Report | None = None,
) -> Generator[Tractogram, None, None]:
    """Track streamlines, a chunk at a time; see :func:`iter_track`."""
    execution = execution or Execution()
    begun = time.perf_counter()
    plan = make_plan(given, on_gpu=backends.may_use_a_gpu(execution))
    if report is not None:
        report.seconds["tables"] = time.perf_counter() - begun
    choice = backends.choose(plan, execution)
    return backends.iter_chunks(choice, plan, execution, report=report)


def warm_up(parameters: TrackingParameters | None = None, *, lmax: int = 8) -> None:
    """Load the kernels for these parameters, and compile those that are not on the disk yet.

    The next run then starts at once. Takes less than a second; the first time on a machine, or with
    another algorithm, interpolation or largest degree of the FOD, half a minute, in a process of
    its own. Done for the CPU and, where there is one, for the GPU with most free memory.
    """
    given = parameters or TrackingParameters()
    backends.warm_up(_smallest_plan(given.algorithm, given.interpolation, lmax))


def compile_kernel(algorithm: str, interpolation: str, *, lmax: int) -> None:
    """Compile a kernel for the CPU, in this process, unless it is on the disk."""
    cpu.make_ready(_smallest_plan(algorithm, interpolation, lmax))


def _smallest_plan(algorithm: str, interpolation: str, lmax: int) -> Plan:
    """Return a plan for which the same kernel is compiled as for all of its kind."""
    fod = Fod(np.ones((2, 2, 2, (lmax + 1) * (lmax + 2) // 2)), np.eye(4))
    kind = TrackingParameters(algorithm=algorithm, interpolation=interpolation)
    return make_plan(TrackingInput(fod, Seeds.at(np.zeros(3)), kind))


def make_plan(given: TrackingInput, *, on_gpu: bool = False) -> Plan:
    """Check the input and bring it into the form that kernels read.

    Parameters
    ----------
    given : TrackingInput
    on_gpu : bool
        Whether what lies on a GPU stays there; else all of it is copied to the host.

    Raises
    ------
    TractographyError
        When something is wrong with the input, or what lies on a GPU fills it.
    """
    gpu = gpu_of(given.fod.device_values.native) if on_gpu else None
    if gpu is None:
        return _make_plan(given, build_table, on_gpu)
    with explained_for_good(f"cuda:{gpu}"):
        return _make_plan(given, cuda_tables.build_table, on_gpu)


def _make_plan(given: TrackingInput, build: Callable[..., FodTable], on_gpu: bool) -> Plan:
    fod, seeds, parameters, mask = given.fod, given.seeds, given.parameters, given.mask
    inside = check_mask(mask if on_gpu or mask is None else host_array(mask), fod)
    check_seeds(seeds, fod, parameters)
    for warning in check_regions(given.regions, fod.grid):
        logger.warning("%s", warning)
    flat = kernel_regions(given.regions, given.include_rule, on_gpu=on_gpu)
    if flat.n_includes > codes.MAX_INCLUDES:
        raise InvalidParameterError(
            f"{flat.n_includes} include regions are too many; give at most {codes.MAX_INCLUDES}."
        )
    table = fod_table(fod, build)
    allowed = reach_deg = None
    if given.cone is not None:
        allowed, reach_deg = function_cone(parameters.n_directions, given.cone)
    first: Any = np.zeros((0, 3), np.float32)
    if parameters.start == "given" and seeds.device_directions is not None:
        units = seeds.device_directions
        first = units.native if on_gpu else units.host
    return Plan(
        positions_mm=seeds.device_positions.native if on_gpu else seeds.positions_mm,
        given=first,
        table=table,
        field=kernel_field(table, parameters, inside, allowed, reach_deg),
        settings=kernel_settings(parameters, table.scale, reach_deg),
        regions=flat,
    )


def check_mask(mask: ArrayLike | None, fod: Fod) -> NDArray[np.uint8] | None:
    """Return the mask as (x, y, z) uint8, 1 inside, on the host or the GPU that it lies on.

    Raises
    ------
    InvalidMaskError
        When it has another shape than the FOD or is empty.
    """
    if mask is None:
        return None
    array = as_native(mask)
    if array.shape != fod.grid.shape:
        raise InvalidMaskError(
            f"The mask has shape {array.shape} but {fod.name} has {fod.grid.shape}; "
            "resample the mask to the FOD's grid (mrgrid mask regrid -template fod)."
        )
    with on_its_device(array):
        inside = (array != 0) & (array == array)  # NaN counts as outside
        n_inside = int(inside.sum())
        voxels: NDArray[np.uint8] = library_of(array).ascontiguousarray(inside, dtype=np.uint8)
    if not n_inside:
        raise InvalidMaskError(
            f"The mask of shape {array.shape} is empty; choose or paint another, or track without."
        )
    synchronize(voxels)
    return voxels


def check_seeds(seeds: Seeds, fod: Fod, parameters: TrackingParameters) -> None:
    """Raise when no streamline can start.

    Raises
    ------
    InvalidSeedsError
        When every seed lies outside the volume, or directions are wanted and not given.
    """
    if not len(seeds):
        raise InvalidSeedsError("There are no seeds; place at least one.")
    if not _any_inside(seeds.device_positions.native, fod.grid):
        position = ", ".join(f"{x:.1f}" for x in seeds.positions_mm[0])
        low, high = (corner.round(1).tolist() for corner in fod.grid.bounds_mm())
        raise InvalidSeedsError(
            f"All {len(seeds)} seeds lie outside {fod.name}, the first at ({position}) mm; "
            f"its volume spans {low} to {high} mm (RAS+)."
        )
    if parameters.start == "given" and seeds.device_directions is None:
        raise InvalidSeedsError(
            'start = "given" needs a direction with every seed; give Seeds.at(points, directions) '
            'or choose start = "sampled".'
        )


def _any_inside(positions: Any, grid: Grid) -> bool:
    """Tell whether any of (n, 3) RAS+ mm positions lies inside an image, on their own device."""
    with on_its_device(positions):
        inside: Any = True
        for vox, n in zip(mapped(grid.inverse, positions), grid.shape, strict=True):
            inside = inside & (vox >= -0.5) & (vox < n - 0.5)
        return bool(inside.any())
