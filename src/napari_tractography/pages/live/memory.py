"""The memory that the kernel of a page works in: tables, regions and settings where it finds them.

The page unpacks it as it is; the arrays of a batch lie behind it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage

from ...errors import InvalidParameterError
from ...fields.input_kind import COEFFICIENTS
from ...streamlines.tractogram import Tractogram
from ...tracking.codes import WAY_VOXELS, Field
from ...tracking.cuda import source
from ...tracking.engine import make_plan
from ...tracking.inputs import TrackingInput
from ...tracking.plan import Plan
from ...tracking.tables.data import FodTable
from ...tracking.wasm.modules import SYMMETRIC as LMAXES
from ...tracking.wasm.modules import code_of
from ...tracking.wasm.wasm_backend import ALIGNED, BASE, POINTER, fill_rows

# What a reader can choose, besides the recipe's own.
ANGLES_DEG = (5.0, 10.0, 15.0, 20.0, 25.0, 30.0, 40.0, 50.0, 60.0, 75.0, 90.0)
THRESHOLDS = (0.0, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05)
# Arrays of a batch that the page itself reads or writes.
READ_OR_WRITTEN = (
    "positions", "next", "next_block", "tally", "totals", "line_offsets", "points"
)  # fmt: skip
SHARED = ("voxel_rows", *FodTable.filled, "sphere_points", "mask")  # by all angles
BATCH = 4  # seeds that are tracked in one go: some milliseconds
MARGIN = 4  # voxels around the streamlines, whose FOD is in the page too


@dataclass(frozen=True, slots=True)
class Live:
    """What a page takes to track a bundle."""

    content: dict[str, Any]  # addresses, and what is told
    image: bytes  # of the memory, from :data:`BASE` on
    positions: bytes  # (n_seeds, 3) float32: RAS+ mm
    kernel: bytes
    tissues: bytes = b""  # float32: their fractions around the bundle


def live_of(inputs: TrackingInput, tracked: Tractogram) -> Live:
    """Return what tracks an input in a page, in the FOD around the streamlines that it gave.

    Raises InvalidParameterError where the kernel of pages does not track it.
    """
    _check(inputs)
    plan = make_plan(inputs)
    memory = _Memory()
    batch = _batch_shapes(plan)
    around = _around(plan, tracked)
    rows = _rows(memory, plan, around)
    region_tables = {name: memory.put(getattr(plan.regions, name)) for name in source.REGION_TABLES}
    own, thresholds = inputs.parameters, _with_own(THRESHOLDS, inputs.parameters.min_probability)
    angles = _with_own(ANGLES_DEG, own.max_angle_deg)
    cones = [
        [_cone(memory, inputs, rows, angle, threshold) for threshold in (0.0, thresholds[1])]
        for angle in angles
    ]
    arrays = {
        name: memory.put(np.zeros(shape, kind), stored=False)
        for name, (shape, kind) in batch.items()
    }
    numbers = {"n_seeds": BATCH, "n_blocks": batch["block_halves"][0][0]}
    fractions = plan.regions.tissues.fractions
    region_tables["fractions"] = memory.put(fractions, stored=False)
    box = _box(plan, around) if fractions.size else None
    packed = {
        "batch": source.pack("Batch", {**arrays, **numbers}, POINTER),
        "regions": source.pack_regions(plan.regions, region_tables, POINTER),
    }
    places = {name: memory.put(structure, stored=False) for name, structure in packed.items()}
    content = {
        "base": BASE,
        "cones": cones,
        **places,
        "structures": [[places[name], packed[name].tobytes().hex()] for name in packed],
        "tissues": None
        if box is None
        else {
            "at": region_tables["fractions"],
            "shape": fractions.shape,
            "first": [part.start for part in box],
            "size": [part.stop - part.start for part in box],
        },
        "first_stream": _offset("Batch", "first_stream"),
        "n_seeds_at": _offset("Batch", "n_seeds"),
        "batch_size": BATCH,
        "arrays": {name: arrays[name] for name in READ_OR_WRITTEN},
        "n_reasons": batch["tally"][0][0],
        "angles_deg": angles,
        "thresholds": thresholds,
        "own": {
            "angle": angles.index(own.max_angle_deg),
            "floor": own.min_amplitude,
            "threshold": thresholds.index(own.min_probability),
        },
        "floor_at": _offset("Settings", "min_amplitude"),
        "threshold_at": _offset("Settings", "min_probability"),
        "floor_unit": float(plan.table.scale),
        "n_seeds": plan.n_seeds,
        "n_voxels": [len(rows[1].values), len(plan.field.values)],
        "first": plan.first_stream,
        "digest": tracked.digest(),
        "center_mm": plan.positions_mm.mean(axis=0, dtype=np.float64).tolist(),
    }
    content["bytes"] = memory.end
    positions = plan.positions_mm.astype("<f4").tobytes()
    tissues = b"" if box is None else fractions[box].astype("<f4").tobytes()
    return Live(content, bytes(memory.content), positions, code_of(plan.table.lmax), tissues)


def _offset(structure: str, member: str) -> int:
    """Return where a member is in a structure."""
    fields = source.layout(structure, POINTER).fields
    assert fields is not None
    return int(fields[member][1])


def _with_own(values: tuple[float, ...], own: float) -> list[float]:
    """Return values to choose from, rising, and the parameter's own."""
    return sorted({*values, own})


class _Memory:
    """What is put behind one another, and where it lies then."""

    def __init__(self) -> None:
        self.content = bytearray()
        self.end = BASE

    def put(self, array: NDArray[Any], *, stored: bool = True) -> int:
        """Add an array, of zeros where it is not stored; return its address, 0 for an empty one."""
        if not array.size:
            return 0
        address = -(-self.end // ALIGNED) * ALIGNED
        self.end = address + array.nbytes
        if stored:
            self.content += bytes(address - BASE - len(self.content))
            self.content += np.ascontiguousarray(array).tobytes()
        return address


def _check(inputs: TrackingInput) -> None:
    """Raise InvalidParameterError where the kernel of pages does not track an input."""
    fod, parameters = inputs.fod, inputs.parameters
    for is_so, what in (
        (fod.input_kind.kernel != COEFFICIENTS, f"in {fod.kind}"),
        (fod.is_asymmetric, "in an asymmetric FOD"),
        (fod.lmax not in LMAXES, f"in an FOD of lmax {fod.lmax}"),
        (inputs.tissues is not None and parameters.backtrack, "with backtracking"),
        (inputs.cone is not None, "in a cone that is a function"),
        (inputs.select is not None, "until so many streamlines are selected"),
        (parameters.start == "given", "from directions that come with the seeds"),
        (inputs.seeds.streams is not None, "from seeds by voxel"),
        (parameters.positivity != "clip", f"with positivity {parameters.positivity}"),
        (parameters.output != "streamlines", f"with output {parameters.output}"),
    ):
        if is_so:
            raise InvalidParameterError(f"A page does not track {what}; leave live out.")


def _batch_shapes(plan: Plan) -> dict[str, tuple[tuple[int, ...], str]]:
    settings = plan.settings
    longest = -(-settings.max_steps // settings.record_every) + 1
    n_blocks = 2 * BATCH * -(-longest // source.BLOCK_POINTS)
    shapes = source.batch_arrays(BATCH, endpoints=False, n_blocks=n_blocks)
    return shapes | {"points": ((n_blocks * source.BLOCK_POINTS, 3), "f4")}


def _rows(memory: _Memory, plan: Plan, around: NDArray[np.bool_]) -> tuple[dict[str, int], Any]:
    """Put the FOD of voxels there; return the addresses, and the field of that part.

    Whether they are among crossings is found from what lies around them, which is left out.
    """
    field = plan.field
    box = np.ones((3, 3, 3), bool)
    read = ndimage.binary_dilation(around, box, iterations=WAY_VOXELS + 1)
    wide = _part(field, read)
    fill_rows(wide, plan.table.lmax)
    part = _part(wide, around)
    return {name: memory.put(getattr(part, name)) for name in SHARED}, part


def _part(field: Field, chosen: NDArray[np.bool_]) -> Field:
    """Return what of a field is of some voxels, (x, y, z) bool; its numbers are copies."""
    kept = np.unique(field.voxel_rows[chosen & (field.voxel_rows >= 0)])
    rows = np.append(kept, len(field.values))  # the last is of no voxel
    numbers = np.full(len(field.values) + 1, -1, np.int32)  # -1 is that of the last, too
    numbers[kept] = np.arange(len(kept))
    return field._replace(
        values=field.values[kept],
        voxel_rows=numbers[field.voxel_rows],
        **{name: getattr(field, name)[rows] for name in FodTable.filled},
    )


def _cone(
    memory: _Memory,
    inputs: TrackingInput,
    rows: tuple[dict[str, int], Any],
    angle: float,
    threshold: float,
) -> list[int]:
    """Put the tables of an angle there; return the addresses of the ``Field`` and ``Settings``."""
    parameters, (shared, part) = inputs.parameters, rows
    if angle != parameters.max_angle_deg:
        parameters = replace(parameters, max_angle_deg=angle, min_radius_mm=None)
    plan = make_plan(replace(inputs, parameters=replace(parameters, min_probability=threshold)))
    own = {
        name: memory.put(getattr(plan.field, name)) for name in source.TABLES if name not in SHARED
    }
    of_cone = {name: getattr(plan.field, name) for name in own}
    field = source.pack_field(part._replace(**of_cone), {**shared, **own}, POINTER)
    return [memory.put(field), memory.put(source.pack("Settings", plan.settings._asdict()))]


def _around(plan: Plan, tracked: Tractogram) -> NDArray[np.bool_]:
    """Return which voxels lie around seeds and streamlines, (x, y, z) bool."""
    to_voxel = plan.field.to_voxel.astype(np.float64)
    shape = plan.field.voxel_rows.shape
    reached = np.zeros(shape, bool)
    for points in (tracked.points, plan.positions_mm):
        voxels = np.rint(points @ to_voxel[:, :3].T + to_voxel[:, 3]).astype(np.int64)
        reached[tuple(np.clip(voxels, 0, np.array(shape) - 1).T)] = True
    box = np.ones((3, 3, 3), bool)
    return np.asarray(ndimage.binary_dilation(reached, box, iterations=MARGIN))


def _box(plan: Plan, around: NDArray[np.bool_]) -> tuple[slice, ...]:
    """Return which voxels of the tissues lie around voxels of the FOD."""
    of_fod, of_tissues = (
        np.vstack([matrix.astype(np.float64), [0, 0, 0, 1]])
        for matrix in (plan.field.to_voxel, plan.regions.tissues.to_voxel)
    )
    corners = np.stack(np.meshgrid(*[(-1, 1)] * 3), axis=-1).reshape(-1, 1, 3)
    voxels = (np.argwhere(around) + corners).reshape(-1, 3)
    to_tissues = of_tissues @ np.linalg.inv(of_fod)
    found = voxels @ to_tissues[:3, :3].T + to_tissues[:3, 3]
    last = np.array(plan.regions.tissues.fractions.shape[:3]) - 1
    low, high = (
        np.clip(edge, 0, last).astype(int)
        for edge in (np.floor(found.min(axis=0)) - 1, np.ceil(found.max(axis=0)) + 1)
    )
    return tuple(
        slice(first, end + 1) for first, end in zip(low.tolist(), high.tolist(), strict=True)
    )
