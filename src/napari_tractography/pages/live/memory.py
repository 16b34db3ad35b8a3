"""The memory that the kernel of a page works in: tables, regions and settings where it finds them.

The page unpacks it as it is; the arrays of a batch lie behind it.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib.resources import files
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage

from ...errors import InvalidParameterError
from ...fields.input_kind import COEFFICIENTS
from ...model.algorithms import ALGORITHMS
from ...streamlines.tractogram import Tractogram
from ...tracking.cuda import source
from ...tracking.engine import make_plan
from ...tracking.inputs import TrackingInput
from ...tracking.plan import Plan
from ...tracking.reference.table import fill_rows

POINTER = "u4"  # of WebAssembly
BASE = 1 << 20  # where tables begin: behind what the kernel itself keeps
ALIGNED = 64
LMAXES = (4, 6, 8)
BATCH = 16  # seeds that are tracked in one go
MARGIN = 4  # voxels around the streamlines, whose FOD is in the page too
ROWS_AT_ONCE = 2000


@dataclass(frozen=True, slots=True)
class Live:
    """What a page takes to track a bundle."""

    content: dict[str, Any]  # addresses, and what is told
    image: bytes  # of the memory, from :data:`BASE` on
    positions: bytes  # (n_seeds, 3) float32: RAS+ mm
    kernel: bytes


def live_of(inputs: TrackingInput, tracked: Tractogram) -> Live:
    """Return what tracks an input in a page, in the FOD around the streamlines that it gave.

    Raises InvalidParameterError where the kernel of pages does not track it.
    """
    _check(inputs)
    plan = make_plan(inputs)
    memory = _Memory()
    settings, batch = plan.settings, _batch_shapes(plan)
    addresses = {
        "field": _field(memory, plan, tracked),
        "settings": memory.put(source.pack("Settings", settings._asdict())),
        "regions": _regions(memory, plan),
    }
    arrays = {
        name: memory.put(np.zeros(shape, kind), stored=False)
        for name, (shape, kind) in batch.items()
    }
    numbers = {"n_seeds": BATCH, "n_blocks": batch["block_halves"][0][0]}
    packed = source.pack("Batch", {**arrays, **numbers}, POINTER)
    floor, fields = inputs.parameters.min_amplitude, source.layout("Settings", POINTER).fields
    of_batch = source.layout("Batch", POINTER).fields
    assert fields is not None
    assert of_batch is not None
    content = {
        "base": BASE,
        "bytes": memory.end,
        **addresses,
        "batch": [memory.put(packed, stored=False), packed.tobytes().hex()],
        "first_stream": of_batch["first_stream"][1],
        "n_seeds_at": of_batch["n_seeds"][1],
        "batch_size": BATCH,
        "arrays": {
            name: arrays[name]
            for name in (
                "positions",
                "next",
                "next_block",
                "tally",
                "totals",
                "line_offsets",
                "points",
            )
        },
        "n_reasons": batch["tally"][0][0],
        "floor": floor,
        "floor_at": addresses["settings"] + fields["min_amplitude"][1],
        "floor_unit": float(settings.min_amplitude) / floor if floor else 0.0,
        "n_seeds": plan.n_seeds,
        "first": plan.first_stream,
        "digest": tracked.digest(),
        "center_mm": plan.positions_mm.mean(axis=0, dtype=np.float64).tolist(),
    }
    content["bytes"] = memory.end
    lmax = plan.table.lmax
    kernel = files(__package__).joinpath(f"track_{lmax}.wasm").read_bytes()
    positions = plan.positions_mm.astype("<f4").tobytes()
    return Live(content, bytes(memory.content), positions, kernel)


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
    row = next(row for row in ALGORITHMS if row.name == inputs.parameters.algorithm)
    fod, parameters = inputs.fod, inputs.parameters
    for is_so, what in (
        (fod.input_kind.kernel != COEFFICIENTS, f"in {fod.kind}"),
        (fod.lmax not in LMAXES, f"in an FOD of lmax {fod.lmax}"),
        (not row.exact, f"by {row.name}, which is not the same everywhere"),
        (inputs.tissues is not None, "with tissues"),
        (inputs.cone is not None, "in a cone that is a function"),
        (inputs.select is not None, "until so many streamlines are selected"),
        (parameters.start == "given", "from directions that come with the seeds"),
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


def _field(memory: _Memory, plan: Plan, tracked: Tractogram) -> int:
    """Put the FOD around streamlines there, and all tables; return the address of the ``Field``."""
    field = plan.field
    kept = np.unique(field.voxel_rows[_around(plan, tracked) & (field.voxel_rows >= 0)])
    coefficients = np.zeros((len(kept) + 1, field.coefficients.shape[1]), np.uint16)
    masses = np.zeros(len(kept) + 1, np.float32)
    coefficients[-1], masses[-1] = field.coefficients[-1], field.masses[-1]  # of no voxel
    part = field._replace(values=field.values[kept], coefficients=coefficients, masses=masses)
    for first in range(0, len(kept), ROWS_AT_ONCE):
        fill_rows(part, np.arange(first, min(first + ROWS_AT_ONCE, len(kept))))
    numbers = np.full(len(field.values) + 1, -1, np.int32)
    numbers[kept] = np.arange(len(kept))
    part = part._replace(voxel_rows=numbers[field.voxel_rows])
    addresses = {name: memory.put(getattr(part, name)) for name in source.TABLES}
    return memory.put(source.pack_field(part, addresses, POINTER))


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


def _regions(memory: _Memory, plan: Plan) -> int:
    regions = plan.regions
    places = {name: memory.put(getattr(regions, name)) for name in source.REGION_TABLES}
    return memory.put(source.pack_regions(regions, places, POINTER))
