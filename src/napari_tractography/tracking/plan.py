"""A run as kernels read it: input and parameters, checked and turned into arrays and numbers.

Made by :mod:`napari_tractography.tracking.engine`, read by the backends.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..arrays import DeviceArray, gpu_of, host_array, library_of, on_its_device, synchronize
from ..directions import neighbour_table
from ..fod import Fod
from ..parameters import TrackingParameters
from ..regions import INCLUDE_RULES, Region
from . import codes
from .tables.data import ConeTable, FodTable

EVALUATIONS = {"precomputed": codes.PRECOMPUTED, "direct": codes.DIRECT}
POSITIVITIES = {"clip": codes.CLIP, "softplus": codes.SOFTPLUS}
INTERPOLATIONS = {"nearest": codes.NEAREST, "trilinear": codes.TRILINEAR}
DIRECTIONS = {"both": codes.BOTH, "forward": codes.FORWARD, "backward": codes.BACKWARD}
STARTS = {
    "sampled": codes.START_SAMPLED,
    "max": codes.START_MAX,
    "given": codes.START_GIVEN,
}
ROLES = {
    "exclude": codes.ROLE_EXCLUDE,
    "stop": codes.ROLE_STOP,
    "end": codes.ROLE_END,
    "include": codes.ROLE_INCLUDE,
}
RULES = dict(zip(INCLUDE_RULES, (codes.RULE_ALL, codes.RULE_ANY, codes.RULE_ORDERED), strict=True))


@dataclass(frozen=True, slots=True, eq=False)
class Plan:
    """A run as kernels read it.

    Positions, start directions, masks and the arrays with a row for each voxel may lie on a GPU,
    see :meth:`on_host`.

    Attributes
    ----------
    positions_mm : (n_seeds, 3) float32
        RAS+ mm.
    given : (n_seeds,) int32
        Start directions as indices; zeros unless ``start="given"``.
    table, cones : FodTable, ConeTable
    field, settings, regions : NamedTuple
        What kernels read, see :mod:`napari_tractography.tracking.codes`.
    """

    positions_mm: NDArray[np.float32]
    given: NDArray[np.int32]
    table: FodTable
    cones: ConeTable
    field: codes.Field
    settings: codes.Settings
    regions: codes.Regions

    def __post_init__(self) -> None:
        object.__setattr__(self, "positions_mm", _read_only(self.positions_mm))
        object.__setattr__(self, "given", _read_only(self.given))

    @property
    def n_seeds(self) -> int:
        """Number of seeds."""
        return len(self.positions_mm)

    def on_host(self) -> Plan:
        """Return the plan with all that was given brought to the host, as the CPU reads it."""
        field, regions = self.field, self.regions
        return replace(
            self,
            positions_mm=host_array(self.positions_mm),
            given=host_array(self.given),
            field=field._replace(
                mask=_read_only(host_array(field.mask)),
                harmonics=_read_only(host_array(field.harmonics)),
            ),
            regions=regions._replace(voxels=host_array(regions.voxels)),
        )


def kernel_field(
    fod: Fod,
    table: FodTable,
    cones: ConeTable,
    mask: NDArray[np.uint8] | None,
    harmonics: NDArray[np.float32] | None = None,
) -> codes.Field:
    """Put tables, mask and, for direct evaluation, harmonics into the kernel's form."""
    neighbours, slopes, tangents = neighbour_table(table.n_directions)
    # The polynomials of a FOD in voxel axes are evaluated there.
    to_frame = fod.grid.axes.T if fod.frame == "voxel" else np.eye(3)
    return codes.Field(
        voxel_rows=_read_only(table.voxel_rows),
        quantised=table.quantised,
        alias=table.alias,
        slot_alias=table.slot_alias,
        mass_fractions=table.mass_fractions,
        patch_maxima=table.patch_maxima,
        quanta=table.quanta,
        totals=table.totals,
        directions=_read_only(table.directions),
        to_voxel=table.to_voxel,
        cone=_read_only(cones.cone),
        contained_patches=cones.contained_patches,
        two_sided=cones.two_sided,
        max_proposals=cones.max_proposals,
        mask=_read_only(np.zeros((0, 0, 0), np.uint8) if mask is None else mask),
        neighbours=neighbours,
        slopes=slopes,
        tangents=tangents,
        harmonics=_read_only(np.zeros((0, 0), np.float32) if harmonics is None else harmonics),
        lmax=fod.lmax,
        to_frame=_read_only(np.ascontiguousarray(to_frame, dtype=np.float32)),
    )


def kernel_settings(parameters: TrackingParameters) -> codes.Settings:
    """Put the parameters into the kernel's form."""
    return codes.Settings(
        algorithm=parameters.row.code,
        interpolation=INTERPOLATIONS[parameters.interpolation],
        direction=DIRECTIONS[parameters.direction],
        start=STARTS[parameters.start],
        step=np.float32(parameters.step_mm),
        min_probability=np.float32(parameters.min_probability),
        min_amplitude=np.float32(parameters.min_amplitude),
        max_angle=np.float32(math.radians(parameters.max_angle_deg)),
        min_length=np.float32(parameters.min_length_mm),
        max_length=np.float32(parameters.max_length_mm),
        min_steps=math.ceil(parameters.min_length_mm / parameters.step_mm - 1e-6),
        max_steps=parameters.max_steps,
        record_every=parameters.record_every,
        endpoints=parameters.output == "endpoints",
        evaluation=EVALUATIONS[parameters.evaluation],
        positivity=POSITIVITIES[parameters.positivity],
        gamma=np.float32(parameters.gamma),
        gamma_noise=np.float32(parameters.gamma_noise),
        adaptive=parameters.adaptive and parameters.uses("adaptive"),
        key_0=np.uint64(parameters.random_seed & 0xFFFFFFFF),
        key_1=np.uint64(parameters.random_seed >> 32),
    )


def kernel_regions(regions: Sequence[Region], rule: str, *, on_gpu: bool = False) -> codes.Regions:
    """Flatten regions into arrays; with `on_gpu` masks stay on the GPU that the first lies on."""
    n = len(regions)
    geometry = np.zeros((n, 12), np.float32)
    extents = np.zeros((n, 4), np.int64)
    shapes = np.zeros(n, np.int32)
    masks: list[DeviceArray] = []
    used = 0
    for index, region in enumerate(regions):
        if region.device_voxels is None or region.grid is None:
            assert region.center_mm is not None
            shapes[index] = codes.SHAPE_SPHERE
            geometry[index, :3] = region.center_mm
            geometry[index, 3] = region.radius_mm**2
        else:
            shapes[index] = codes.SHAPE_MASK
            geometry[index] = region.grid.inverse[:3].ravel()
            extents[index] = (*region.grid.shape, used)
            masks.append(region.device_voxels)
            used += region.device_voxels.native.size
    roles = np.array([ROLES[region.role] for region in regions], np.int32)
    is_include = roles == codes.ROLE_INCLUDE
    return codes.Regions(
        roles=roles,
        shapes=shapes,
        orders=(np.cumsum(is_include) - 1).astype(np.int32),
        geometry=geometry,
        extents=extents,
        voxels=_one_after_the_other(masks, on_gpu),
        rule=RULES[rule],
        n_includes=int(is_include.sum()),
        n_ends=int((roles == codes.ROLE_END).sum()),
    )


def _one_after_the_other(masks: Sequence[DeviceArray], on_gpu: bool) -> Any:
    """Join masks, on the GPU that the first lies on, or else on the host."""
    if not masks:
        return np.zeros(0, np.uint8)
    home = masks[0].native if on_gpu else masks[0].host
    library = library_of(home)
    with on_its_device(home):
        near = [
            mask.native if gpu_of(mask.native) == gpu_of(home) else library.asarray(mask.host)
            for mask in masks
        ]
        voxels = library.concatenate([mask.ravel() for mask in near])
    synchronize(voxels)
    return voxels


def _read_only(array: NDArray[Any]) -> NDArray[Any]:
    """Return a read-only view of an array; one on a GPU as it is.

    Numba compiles a kernel once more for each mix of read-only and writable arrays, and inputs may
    be either: what Dask unpacks is read-only, what pickle does is not.
    """
    if not isinstance(array, np.ndarray):
        return array
    view = array.view()  # the caller's own stays as it is
    view.flags.writeable = False
    return view
