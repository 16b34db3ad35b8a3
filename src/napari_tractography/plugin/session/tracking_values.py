"""Tracking parameters while they are chosen: some set by a person, the others suited to the FOD.

Called by the session; the panel's Tracking section shows the values and says where they come from.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict
from typing import Any

from ...errors import InvalidParameterError
from ...model.defaults import suited_to
from ...model.fod import Fod
from ...model.parameters import TrackingParameters, parameter_specs
from ...model.seeding import SeedingParameters

SPECS = {spec.name: spec for spec in parameter_specs()}
BY_FOD = tuple(spec.name for spec in parameter_specs() if spec.by_fod)
# Of these two the one that was set last counts.
INSTEAD = {"max_angle_deg": "min_radius_mm", "min_radius_mm": "max_angle_deg"}


class TrackingValues:
    """The values that a person set, and the parameters that they give with an FOD.

    Attributes
    ----------
    fod : Fod or None
        What values that nobody set are suited to; None has those of ``TrackingParameters()``.
    with_tissues : bool
        Whether a tissue image is tracked with, which suits other values.
    by_hand : dict of str to value
        What a person set. It stays when the FOD changes.
    """

    def __init__(self) -> None:
        self.fod: Fod | None = None
        self.with_tissues = False
        self.by_hand: dict[str, Any] = {}

    def set(self, values: Mapping[str, Any]) -> None:
        """Note what a person set, by parameter name; :meth:`parameters` checks it."""
        for name, value in values.items():
            other = INSTEAD.get(name)
            if other is not None and other not in values:
                self.by_hand.pop(other, None)
            self.by_hand[name] = value

    def forget(self, names: Iterable[str] = BY_FOD) -> None:
        """Let the FOD decide some values again."""
        for name in names:
            self.by_hand.pop(name, None)

    def parameters(self) -> TrackingParameters:
        """Return the parameters.

        Raises
        ------
        InvalidParameterError
            When what a person set is out of range or contradicts itself.
        """
        return self._with(self.by_hand)

    def _with(self, by_hand: Mapping[str, Any]) -> TrackingParameters:
        if self.fod is None:
            return TrackingParameters(**by_hand)
        return TrackingParameters.for_fod(self.fod, with_tissues=self.with_tissues, **by_hand)

    def default(self, name: str) -> Any:
        """Return what a parameter would be if nobody had set it, with all else as it is set."""
        others = {key: value for key, value in self.by_hand.items() if key != name}
        try:
            return getattr(self._with(others), name)
        except InvalidParameterError:  # which is told where it was set
            return SPECS[name].default

    @property
    def not_default(self) -> dict[str, Any]:
        """The default, by name, of each parameter that a person set to something else."""
        defaults = {name: self.default(name) for name in self.by_hand}
        return {name: value for name, value in defaults.items() if value != self.by_hand[name]}

    @property
    def suited(self) -> list[str]:
        """Names of the values that were chosen for the FOD."""
        if self.fod is None:
            return []
        instead = {INSTEAD[name] for name in self.by_hand if name in INSTEAD}
        return [name for name in BY_FOD if name not in self.by_hand and name not in instead]

    def summary(self) -> str:
        """Return one sentence on which values were chosen for the FOD, and how, or ""."""
        if self.fod is None:
            return ""
        try:
            parameters = self.parameters()
            suited = suited_to(self.fod, parameters.row, with_tissues=self.with_tissues)
            return suited.summary(parameters, self.fod.grid.unit)
        except InvalidParameterError:  # which is told where it was set
            return ""


def tracking_values_of(values: Mapping[str, Any], seeding: SeedingParameters) -> dict[str, Any]:
    """Return those of some values that are tracking parameters; the others are of seeding.

    Parameters
    ----------
    values : mapping of str to value
        By parameter name.
    seeding : SeedingParameters
        The present ones.

    Raises
    ------
    InvalidParameterError
        When a name is unknown, or a value of seeding out of range.
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
