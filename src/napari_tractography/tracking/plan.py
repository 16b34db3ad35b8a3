"""A run as kernels read it: input and parameters, checked and turned into arrays and numbers.

Made by :mod:`napari_tractography.tracking.engine`, read by the backends.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..fields.input_kind import BLOCKS, VECTORS
from ..fields.polynomials import shifts
from ..geometry.directions import CANDIDATES, direction_set, nearest_cells, neighbour_table
from ..model.parameters import SOFTPLUS_SHARPNESS, TrackingParameters
from ..model.regions import Region
from ..model.roles import INCLUDE_RULES
from ..model.tissues import N_TISSUES, Tissues
from ..runtime.arrays import DeviceArray, gpu_of, host_array, library_of, on_its_device, synchronize
from . import codes
from .cpu.vectors.field import BlockField
from .tables.blocks import BlockTable
from .tables.builders import bits_of_voxels, cone_points, sphere_points
from .tables.cone_mass import cone_mass, quadrature_mass
from .tables.cone_quadrature import cone_quadrature, turning
from .tables.data import FodTable
from .tables.table import Table
from .tables.vectors import VectorTable

POSITIVITIES = {"clip": codes.CLIP, "softplus": codes.SOFTPLUS}
EDGES = {"voxel": codes.EDGE_VOXEL, "interpolated": codes.EDGE_INTERPOLATED}
INTERPOLATIONS = {"nearest": codes.NEAREST, "trilinear": codes.TRILINEAR}
AMONG_VECTORS = {
    "": codes.AMONG_NONE,
    "drawn": codes.AMONG_DRAWN,
    "largest": codes.AMONG_LARGEST,
    "nearest": codes.AMONG_NEAREST,
    "followed": codes.AMONG_FOLLOWED,
}
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
# How far ahead a line that is among crossings looks in their plane: further on is the other bundle.
LOOK_IN_PLANE_VOXELS = 0.2
FASTEST_TURN_PER_VOXEL = 0.25  # rad, as along an arc with a radius of four voxels
RULES = dict(zip(INCLUDE_RULES, (codes.RULE_ALL, codes.RULE_ANY, codes.RULE_ORDERED), strict=True))


@dataclass(frozen=True, slots=True, eq=False)
class Plan:
    """A run as kernels read it.

    Positions, start directions, masks and the arrays with a row for each voxel may lie on a GPU,
    see :meth:`on_host`.
    """

    positions_mm: NDArray[np.float32]  # (n_seeds, 3) float32: RAS+ mm
    # (n_seeds, 3) float32: start directions that come with the seeds, RAS+; (0, 3) without.
    seed_directions: NDArray[np.float32]
    table: Table  # whose kernel follows the plan
    # field, settings, regions: what kernels read, see tracking.codes.
    field: Any  # codes.Field, codes.VectorField or BlockField, by the kernel of the table
    settings: codes.Settings
    regions: codes.Regions
    # Streamline id of seed 0, which random numbers and `seed_index` start from.
    first_stream: int = 0
    # (n_seeds,) uint32: streamline ids of random numbers that are not so, or none, (0,).
    streams: NDArray[np.uint32] = dataclasses.field(default_factory=lambda: np.zeros(0, np.uint32))

    def __post_init__(self) -> None:
        object.__setattr__(self, "positions_mm", _read_only(self.positions_mm))
        object.__setattr__(self, "seed_directions", _read_only(self.seed_directions))

    @property
    def n_seeds(self) -> int:
        """Number of seeds."""
        return len(self.positions_mm)

    def streams_of(self, first: int, last: int, first_stream: int) -> NDArray[np.uint32]:
        """Return what the random numbers of seeds `first` to `last` depend on, (n,) uint32.

        Where seeds have nothing of their own that is their number, counted from `first_stream`.
        """
        if len(self.streams):
            return self.streams[first:last].astype(np.uint32)
        return (np.arange(first, last) + first_stream).astype(np.uint32)

    @property
    def with_tissues(self) -> bool:
        """Whether there is a tissue image."""
        return self.regions.tissues.fractions.size > 0

    def on_host(self) -> Plan:
        """Return the plan with its arrays brought to the host, as the CPU reads it."""
        field, regions = self.field, self.regions
        mask, words = _with_words(host_array(field.mask))
        return replace(
            self,
            positions_mm=host_array(self.positions_mm),
            seed_directions=host_array(self.seed_directions),
            field=field._replace(mask=mask, mask_words=words),
            regions=regions._replace(voxels=host_array(regions.voxels)),
        )


def field_of(
    table: Any,
    parameters: TrackingParameters,
    mask: NDArray[np.uint8] | None = None,
    allowed: NDArray[np.uint8] | None = None,
    reach_deg: float | None = None,
) -> codes.Field | codes.VectorField | BlockField:
    """Put a table of any kernel, cone and mask into its form; see :func:`kernel_field`."""
    if table.kernel == BLOCKS:
        return block_field(table, None if mask is None else host_array(mask))
    if table.kernel == VECTORS:
        return vector_field(table, mask)
    return kernel_field(table, parameters, mask, allowed, reach_deg)


def kernel_field(
    table: FodTable,
    parameters: TrackingParameters,
    mask: NDArray[np.uint8] | None = None,
    allowed: NDArray[np.uint8] | None = None,
    reach_deg: float | None = None,
) -> codes.Field:
    """Put table, cone and mask into the kernel's form.

    Parameters
    ----------
    mask : (x, y, z) uint8, optional
    allowed : (n_directions, n_directions) uint8, optional
        Of a cone that is a function: which direction may follow which.
    reach_deg : float, optional
        Of such a cone: no direction further from the current one is allowed.
    """
    inside, words = _with_words(mask)
    n = parameters.n_directions
    no_cone = allowed is None
    angle = parameters.max_angle_deg if reach_deg is None else reach_deg
    quadrature = cone_quadrature(angle, table.lmax)
    mass = parameters.min_probability > 0
    nothing = _read_only(np.zeros(0, np.float32))
    return codes.Field(
        voxel_rows=_read_only(table.voxel_rows),
        words=_read_only(table.words),
        values=_read_only(table.values),
        change=table.change,
        coefficients=table.coefficients,
        masses=table.masses,
        crossings=table.crossings,
        to_voxel=table.to_voxel,
        shifts=tuple(shifts(table.lmax, table.is_asymmetric)),
        sphere_points=sphere_points(table.lmax, table.is_asymmetric),
        cone_points=cone_points(angle, table.lmax),
        quadrature_points=quadrature.points,
        quadrature_neighbours=quadrature.neighbours,
        quadrature_rings=quadrature.rings,
        quadrature_heights=quadrature.heights,
        quadrature_axis=quadrature.axis,
        quadrature_azimuths=quadrature.azimuths,
        turning=turning(table.lmax),
        cone_mass=cone_mass(angle, table.lmax, table.is_asymmetric) if mass else nothing,
        quadrature_mass=quadrature_mass(angle, table.lmax) if mass else nothing,
        mask=inside,
        mask_words=words,
        n_entered=_n_entered(len(table.values), inside),
        allowed=_read_only(np.zeros((0, 0), np.uint8) if allowed is None else allowed),
        allowed_words=_read_only(
            np.zeros(0, np.uint64) if allowed is None else bits_of_voxels(allowed)
        ),
        directions=_read_only(np.zeros((0, 3), np.float32) if no_cone else direction_set(n)),
        neighbours=_read_only(
            np.zeros((0, codes.N_NEIGHBOURS), np.int32) if no_cone else neighbour_table(n)[0]
        ),
        cells=_read_only(
            np.zeros((2, 0, 0, 4, CANDIDATES), np.float32) if no_cone else nearest_cells(n)
        ),
    )


def vector_field(table: VectorTable, mask: NDArray[np.uint8] | None = None) -> codes.VectorField:
    """Put the numbers of voxels and the mask into the kernel's form; see :func:`kernel_field`."""
    inside, words = _with_words(mask)
    return codes.VectorField(
        voxel_rows=_read_only(table.voxel_rows),
        words=_read_only(np.zeros((0, 2), np.uint64)),
        vectors=_read_only(table.vectors),
        to_voxel=table.to_voxel,
        mask=inside,
        mask_words=words,
        is_tensor=table.is_tensor,
    )


def block_field(table: BlockTable, mask: NDArray[np.uint8] | None = None) -> BlockField:
    """Put the orientations of an image and the mask into the kernel's form."""
    store = table.store
    inside, words = _with_words(mask)
    return BlockField(
        voxel_rows=np.broadcast_to(np.int32(-1), store.source.grid.shape),
        words=_read_only(np.zeros((0, 2), np.uint64)),
        slots=store.slots,
        touched=np.zeros(store.shape, np.uint8),
        vectors=store.vectors,
        to_voxel=table.to_voxel,
        mask=inside,
        mask_words=words,
        block_bits=store.block_bits,
        is_tensor=False,
    )


def kernel_settings(
    parameters: TrackingParameters,
    scale: float | np.float32 = 1.0,
    reach_deg: float | None = None,
    voxel_mm: float = 1.0,
) -> codes.Settings:
    """Put the parameters into the kernel's form.

    `scale` is what the table's amplitudes are multiplied by; for `reach_deg` see
    :func:`kernel_field`.
    """
    angle = math.radians(parameters.max_angle_deg if reach_deg is None else reach_deg)
    part_mm = parameters.step_mm / parameters.parts
    lobe = math.radians(parameters.lobe_deg) if parameters.uses("lobe_deg") else 0.0
    min_roundness = parameters.min_roundness if parameters.uses("min_roundness") else 0.0
    ahead, in_plane = parameters.look_ahead_mm, LOOK_IN_PLANE_VOXELS * voxel_mm
    return codes.Settings(
        algorithm=parameters.row.code,
        interpolation=INTERPOLATIONS[parameters.interpolation],
        among_vectors=AMONG_VECTORS[parameters.row.among_vectors],
        curved=parameters.row.curved,
        parts=parameters.parts,
        direction=DIRECTIONS[parameters.direction],
        start=STARTS[parameters.start],
        step=np.float32(part_mm),
        min_probability=np.float32(parameters.min_probability),
        min_amplitude=np.float32(parameters.min_amplitude * scale),
        edge=EDGES[parameters.edge],
        cone_height=np.float32(1.0 - math.cos(angle)),
        cone_cosine=np.float32(math.cos(angle)),
        cone_sine=np.float32(math.sin(angle)),
        ring_height=np.float32(1.0 - math.cos(codes.RING * angle)),
        min_length=np.float32(parameters.min_length_mm),
        max_length=np.float32(parameters.max_length_mm),
        min_steps=math.ceil(parameters.min_length_mm / part_mm - 1e-6),
        max_steps=parameters.max_steps,
        record_every=parameters.record_every * parameters.parts,
        endpoints=parameters.output == "endpoints",
        positivity=POSITIVITIES[parameters.positivity],
        sharpness=np.float32(SOFTPLUS_SHARPNESS / scale),
        gamma=np.float32(parameters.gamma),
        gamma_noise=np.float32(parameters.gamma_noise),
        look_ahead=np.float32(ahead),
        look_in_plane=np.float32(in_plane / max(ahead, in_plane)),
        lobe_cosine=np.float32(math.cos(lobe) if lobe > 0 else 0.0),
        lobe_width=np.float32(2.0 * math.sin(0.5 * lobe)),
        cone_width=np.float32(2.0 * math.sin(0.5 * angle)),
        min_roundness=np.float32(min_roundness),
        fastest_turn=np.float32(FASTEST_TURN_PER_VOXEL / voxel_mm),
        adaptive=parameters.adaptive and parameters.uses("adaptive"),
        key_0=np.uint64(parameters.random_seed & 0xFFFFFFFF),
        key_1=np.uint64(parameters.random_seed >> 32),
    )


def kernel_tissues(
    tissues: Tissues | None, parameters: TrackingParameters | None = None
) -> codes.KernelTissues:
    """Put a tissue image, or none, into the kernel's form."""
    if tissues is None or parameters is None:
        nothing = np.zeros((0, 0, 0, N_TISSUES), np.float32)
        cells = _read_only(np.zeros((0, 0, 0), np.uint8))
        to_voxel = np.zeros((3, 4), np.float32)
        return codes.KernelTissues(_read_only(nothing), cells, to_voxel, False, False)
    return codes.KernelTissues(
        fractions=_read_only(tissues.fractions),
        white_cells=_read_only(tissues.white_cells),
        to_voxel=np.ascontiguousarray(tissues.grid.inverse[:3], dtype=np.float32),
        backtrack=parameters.backtrack,
        crop=parameters.crop_at_gmwmi,
    )


def kernel_regions(
    regions: Sequence[Region],
    rule: str,
    *,
    tissues: codes.KernelTissues | None = None,
    on_gpu: bool = False,
) -> codes.Regions:
    """Flatten regions into arrays; with `on_gpu` masks stay on the GPU that the first lies on.

    Cavities steer nothing and are left out.
    """
    regions = [region for region in regions if region.role in ROLES]
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
        tissues=tissues or kernel_tissues(None),
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


def _with_words(mask: NDArray[np.uint8] | None) -> tuple[NDArray[np.uint8], NDArray[np.uint64]]:
    """Return a mask and, of one on the host, its bits; there may be none."""
    if mask is None:
        mask = np.zeros((0, 0, 0), np.uint8)
    words = bits_of_voxels(mask) if isinstance(mask, np.ndarray) else np.zeros(0, np.uint64)
    return _read_only(mask), _read_only(words)


def _n_entered(n_rows: int, mask: NDArray[np.uint8]) -> int:
    """Return how many of the voxels with an FOD a mask on the host leaves, at most."""
    if not isinstance(mask, np.ndarray) or not mask.size:
        return n_rows
    return min(n_rows, int(np.count_nonzero(mask)))


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
