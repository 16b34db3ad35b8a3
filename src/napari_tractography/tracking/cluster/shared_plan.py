"""A plan as it goes to each worker, once: without seeds, and without what kernels fill.

Made by :mod:`.cluster`, turned into a plan again by :mod:`.work`.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, field, fields, is_dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...errors import BackendError
from ...fields.input_kind import BLOCKS
from .. import codes
from ..plan import Plan
from .exchange import Exchange, FiledArray


@dataclass(frozen=True, slots=True, eq=False)
class _Array:
    """An array, and whether it can be written to.

    What arrives over a network may be read-only or not, as it is unpacked, and Numba compiles a
    kernel once more for each mix of the two. Large ones may be in a file instead.
    """

    values: NDArray[Any] | FiledArray
    writeable: bool

    def restored(self) -> NDArray[Any]:
        values = self.values
        array = values.opened() if isinstance(values, FiledArray) else values
        if self.writeable and not array.flags.writeable:
            return array.copy()
        if not self.writeable:
            array = array.view()
            array.flags.writeable = False
        return array


@dataclass(slots=True, eq=False)
class SharedPlan:
    """What all seed ranges of a run have in common."""

    # table, field, settings, regions: those of a plan, see tracking.plan.Plan, with arrays that say
    # whether they can be written to. The arrays of `field` that are those of the table are empty,
    # and so are the table's own that kernels fill.
    table: Any
    field: Any
    settings: codes.Settings
    regions: Any
    _plan: Plan | None = field(default=None, repr=False)
    _making: threading.Lock = field(default_factory=threading.Lock, repr=False)

    @classmethod
    def of(cls, plan: Plan, exchange: Exchange | None = None) -> SharedPlan:
        """Take what a plan on the host has, without its seeds; large arrays go through an exchange,
        if any.

        Raises BackendError when orientations are worked out on demand.
        """
        table: Any = plan.table
        nothing = np.zeros((0, 0), np.float32)
        if table.kernel == BLOCKS:
            raise BackendError(
                "Orientations of an image are worked out where streamlines go, and not on a "
                "cluster; track it with backend = 'cpu'."
            )
        empty = dict.fromkeys(table.filled, nothing)
        packed = partial(_packed, exchange=exchange)
        field = packed(plan.field._replace(**empty, **dict.fromkeys(table.shared, nothing)))
        return cls(packed(replace(table, **empty)), field, plan.settings, packed(plan.regions))

    def __getstate__(self) -> tuple[Any, ...]:
        return self.table, self.field, self.settings, self.regions

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        self.table, self.field, self.settings, self.regions = state
        self._plan, self._making = None, threading.Lock()

    def plan(
        self,
        positions_mm: NDArray[np.float32],
        seed_directions: NDArray[np.float32],
        first_stream: int,
        streams: NDArray[np.uint32] | None = None,
    ) -> Plan:
        """Return the plan of some seeds; all plans of a worker have one table.

        Positions are (n_seeds, 3) float32, RAS+ mm, directions as many or none, `first_stream` is
        the streamline id of the first, `streams` are ids of their own. Raises NotThereError when a
        file that holds an array is not seen here, or is another one.
        """
        with self._making:
            if self._plan is None:
                self._plan = self._without_seeds()
            plan = self._plan
        return replace(
            plan,
            positions_mm=positions_mm,
            seed_directions=seed_directions,
            first_stream=first_stream,
            streams=np.zeros(0, np.uint32) if streams is None else streams,
        )

    def _without_seeds(self) -> Plan:
        table, arrays = _unpacked(self.table), _unpacked(self.field)
        table = table.unfilled()
        of_table = {name: _read_only(getattr(table, name)) for name in table.shared}
        of_table |= {name: getattr(table, name) for name in table.filled}
        nowhere = np.zeros((0, 3), np.float32)
        return Plan(
            positions_mm=nowhere,
            seed_directions=nowhere,
            table=table,
            field=arrays._replace(**of_table),
            settings=self.settings,
            regions=_unpacked(self.regions),
        )


def _packed(value: Any, exchange: Exchange | None) -> Any:
    """Mark each array of a record, and of records in it, as writeable or not."""
    if isinstance(value, np.ndarray):
        filed = None if exchange is None else exchange.filed(value)
        return _Array(value if filed is None else filed, value.flags.writeable)
    return _rebuilt(value, partial(_packed, exchange=exchange))


def _unpacked(value: Any) -> Any:
    return value.restored() if isinstance(value, _Array) else _rebuilt(value, _unpacked)


def _rebuilt(value: Any, change: Any) -> Any:
    """Return a record with each of its values changed; anything else as it is."""
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*map(change, value))
    if is_dataclass(value) and not isinstance(value, type):  # a table
        return replace(value, **{f.name: change(getattr(value, f.name)) for f in fields(value)})
    return value


def _read_only(array: NDArray[Any]) -> NDArray[Any]:
    view = array.view()
    view.flags.writeable = False
    return view
