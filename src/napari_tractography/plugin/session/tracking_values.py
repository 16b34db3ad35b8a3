"""Tracking parameters while they are chosen: some chosen by a person, the others suited to the FOD.

Called by the session; the panel's Tracking section shows the values and says where they come from.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from ...errors import InvalidParameterError
from ...model.defaults import suited_to
from ...model.fod import Fod
from ...model.parameters import TrackingParameters, parameter_specs
from ...model.seeding_parameters import SeedingParameters
from ..acts import INSTEAD, SPECS

BY_FOD = tuple(spec.name for spec in parameter_specs() if spec.by_fod)


@dataclass(frozen=True)
class TrackingValues:
    """The values that a person chose, and the parameters that they give with an FOD."""

    # What values that were not chosen are suited to; None has those of `TrackingParameters()`.
    fod: Fod | None = None
    with_tissues: bool = False  # whether a tissue image is tracked with, which suits other values
    # What a person chose. It stays when the FOD changes.
    chosen: Mapping[str, Any] = field(default_factory=dict)

    def parameters(self) -> TrackingParameters:
        """Return the parameters.

        Raises InvalidParameterError when what a person chose is out of range or contradicts itself.
        """
        return self._with(self.chosen)

    def _with(self, chosen: Mapping[str, Any]) -> TrackingParameters:
        if self.fod is None:
            return TrackingParameters(**chosen)
        return TrackingParameters.for_fod(self.fod, with_tissues=self.with_tissues, **chosen)

    def default(self, name: str) -> Any:
        """Return what a parameter would be if it had not been chosen, with all else as it is."""
        others = {key: value for key, value in self.chosen.items() if key != name}
        try:
            return getattr(self._with(others), name)
        except InvalidParameterError:  # which is reported where it was set
            return SPECS[name].default

    @property
    def not_default(self) -> dict[str, Any]:
        """The default, by name, of each parameter that a person set to something else."""
        defaults = {name: self.default(name) for name in self.chosen}
        return {name: value for name, value in defaults.items() if value != self.chosen[name]}

    @property
    def suited(self) -> list[str]:
        """Names of the values that were chosen for the FOD."""
        if self.fod is None:
            return []
        instead = {INSTEAD[name] for name in self.chosen if name in INSTEAD}
        return [name for name in BY_FOD if name not in self.chosen and name not in instead]

    def summary(self) -> str:
        """Return one sentence on which values were chosen for the FOD, and how, or ""."""
        if self.fod is None:
            return ""
        try:
            parameters = self.parameters()
            suited = suited_to(self.fod, parameters.row, with_tissues=self.with_tissues)
            return suited.summary(parameters, self.fod.grid.unit)
        except InvalidParameterError:  # which is reported where it was set
            return ""


def tracking_values_of(values: Mapping[str, Any], seeding: SeedingParameters) -> dict[str, Any]:
    """Return those of some named values that are tracking parameters; the others are of seeding.

    Raises InvalidParameterError when a name is unknown, or a value of seeding out of range.
    """
    now = asdict(seeding)
    for name in values:
        if name not in now and name not in SPECS:
            names = ", ".join([*now, *SPECS])
            raise InvalidParameterError(
                f"{name} is no parameter of the panel; give one of {names}."
            )
    SeedingParameters(**{name: values.get(name, value) for name, value in now.items()})
    return {name: value for name, value in values.items() if name in SPECS}
