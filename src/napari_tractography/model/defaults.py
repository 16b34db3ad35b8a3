"""Defaults that suit an FOD: step, cone, floor and lengths from its voxel size and amplitudes.

Called by ``TrackingParameters.for_fod``; the panel and the command show :meth:`Suited.summary`.

Step, radius and lengths are in proportion to the voxel, since that is what an FOD resolves. The
numbers are those at which probabilistic streamlines join most ends of bundles that are drawn, as
``benchmarks/truth.py`` has it, while their density is as near to that of MRtrix3's iFOD2 at its own
defaults as ``benchmarks/defaults.py`` asks. What an algorithm has of its own is in its row.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Protocol
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..fields.input_kind import COEFFICIENTS, InputKind
from ..fields.kinds import SH
from ..geometry.directions import direction_set
from ..geometry.units import MM, per_mm, symbol
from . import arcs
from .algorithms import BY_NAME
from .algorithms.row import Algorithm
from .specs import ParameterSpec, specs_of

# With a tissue image, as tckgen -act: of the floor, and voxels.
WITH_TISSUES, MIN_LENGTH_WITH_TISSUES = 0.5, 2.0
STRONG_QUANTILE = 0.95  # of the voxels' largest amplitudes: about the peak of a single fibre
# Of the quantile: what tckgen's cutoff of 0.1 is in a brain template. One that does not depend on
# the scale of the FOD joins more of what is drawn: side lobes grow with the peaks.
FLOOR_FRACTION = 0.12
# What the quantile is where FODs count as scaled as MRtrix3's, of which responses give 0.5 to 1.1.
USUAL_STRONG = 0.25, 4.0
STEP_VOXELS = 0.2  # where neither the kind of FOD nor the algorithm has a step of its own
N_DIRECTIONS = 324  # 10 degrees apart: the largest amplitude is missed by a few per cent
MAX_VOXELS = 5_000  # that are read, evenly spread


class FodLike(Protocol):
    """What is asked of an FOD; see :class:`napari_tractography.model.fod.Fod`."""

    grid: Any

    input_kind: InputKind
    is_asymmetric: bool

    def overview_values(self) -> NDArray[np.float32]:
        """Return the largest amplitude of each voxel, of inputs that tell."""

    @property
    def values(self) -> NDArray[np.float32]:
        """(n_voxels, n_coefficients) float32."""

    @property
    def vectors(self) -> Any:
        """Numbers of an input that is followed by them, None of others."""

    def sample_matrix(self, unit_directions: ArrayLike) -> NDArray[np.float64]:
        """Return the matrix that gives amplitudes along unit vectors."""


@dataclass(frozen=True, slots=True)
class Suited:
    """Values that suit one FOD, and what they are made of."""

    voxel_mm: float  # geometric mean of the voxel's edges, as tckgen's voxel size
    # The 95th percentile of the voxels' largest amplitudes, in the FOD's own unit.
    strong_amplitude: float
    values: Mapping[str, float]  # tracking parameters by name
    reasons: Mapping[str, str]  # for each, how it was chosen, in a few words

    def summary(self, parameters: Any, unit: str = MM) -> str:
        """Return one sentence on which values were chosen for the FOD, and how, lengths in a unit.

        Values of the parameters that are others were set by a person, and are left out.
        """
        parts, scale = [], per_mm(unit)
        for name, value in self.values.items():
            if getattr(parameters, name) == value:
                label, shown = LABELS[name], value
                if name.endswith("_mm"):
                    label, shown = f"{label} {symbol(unit)}", value * scale
                parts.append(f"{label.format(shown)} ({self.reasons[name]})")
                if name == "min_radius_mm":
                    parts.append(f"so a cone of {parameters.max_angle_deg:.3g} degrees")
            elif name == "min_radius_mm" and _is_at_limit(parameters):
                radius, kept = value * scale, parameters.min_radius_mm * scale
                parts.append(
                    f"smallest radius {kept:.3g} {symbol(unit)} in place of {radius:.3g}, which "
                    f"no cone has at this step: it is {parameters.max_angle_deg:g} degrees"
                )
        if not parts:
            return ""
        voxel = f"{self.voxel_mm * scale:.3g} {symbol(unit)}"
        return f"Defaults for voxels of {voxel}: {', '.join(parts)}."


def has_lobes(row: Algorithm, kind: InputKind) -> bool:
    """Tell whether the FOD that an algorithm follows is known all around."""
    return kind.kernel_for(row.among_vectors) == COEFFICIENTS


def follows_fod(row: Algorithm, kind: InputKind) -> bool:
    """Tell whether an algorithm follows an FOD in what is given, and not single directions.

    It may be made of the peaks near a direction, along which it is known.
    """
    return has_lobes(row, kind) or row.among_vectors == "followed"


# Parameters that do not mean something in all that is given, and where they do.
MEANT_BY = {"look_ahead_mm": follows_fod, "lobe_deg": follows_fod, "min_roundness": has_lobes}


def has_effect(name: str, parameters: Any, kind: InputKind) -> bool:
    """Tell whether a parameter means something to the algorithm in an input of that kind."""
    is_meant = MEANT_BY.get(name)
    return parameters.uses(name) and (is_meant is None or is_meant(parameters.row, kind))


def _is_at_limit(parameters: Any) -> bool:
    """Tell whether the smallest radius is as small or as large as a cone allows at that step."""
    if parameters.min_radius_mm is None:
        return False
    cone = next(spec for spec in specs_of(type(parameters)) if spec.name == "max_angle_deg")
    return parameters.max_angle_deg in (cone.minimum, cone.maximum)


LABELS = {
    "step_mm": "step {:g}",
    "max_angle_deg": "cone {:g} degrees",
    "min_radius_mm": "smallest radius {:g}",
    "gamma": "drift {:g} per mm",
    "look_ahead_mm": "looking ahead {:g}",
    "lobe_deg": "lobes from {:g} degrees on",
    "min_roundness": "roundness {:g}",
    "min_amplitude": "minimum amplitude {:g}",
    "min_length_mm": "minimum length {:g}",
    "max_length_mm": "maximum length {:g}",
}

_suited: WeakKeyDictionary[Any, dict[str, Suited]] = WeakKeyDictionary()


def suited_to(fod: FodLike, row: Algorithm | None = None, *, with_tissues: bool = False) -> Suited:
    """Return the values that suit an FOD and an algorithm, given as its row, or its kind's own.

    They are found once, in some hundredths of a second.

    With a tissue image, which tells where streamlines may end, the floor is half as high and
    shorter lines are kept, as tckgen does.
    """
    row = row or BY_NAME[fod.input_kind.algorithm]
    of_rows = _suited.setdefault(fod, {})
    found = of_rows.get(row.name)
    if found is None:
        found = of_rows[row.name] = _find(fod, row)
    if not with_tissues:
        return found
    floor = rounded(WITH_TISSUES * found.values["min_amplitude"])
    shortest = rounded(MIN_LENGTH_WITH_TISSUES * found.voxel_mm)
    return replace(
        found,
        values={**found.values, "min_amplitude": floor, "min_length_mm": shortest},
        reasons={
            **found.reasons,
            "min_amplitude": f"half, with tissues, of {found.values['min_amplitude']:g}",
            "min_length_mm": f"{MIN_LENGTH_WITH_TISSUES:g} voxels, with tissues",
        },
    )


def _floor(fod: FodLike, row: Algorithm, strong: float) -> tuple[float, str]:
    """Return the minimum amplitude that suits an FOD, and why."""
    kind = fod.input_kind
    floor, why = kind.floor, kind.floor_reason
    is_fod = follows_fod(row, kind)
    if is_fod and kind.floor_expanded is not None:
        floor, why = kind.floor_expanded, kind.floor_expanded_reason
    if kind.is_absolute:
        return floor, why
    if row.keeps_cutoff and USUAL_STRONG[0] <= strong <= USUAL_STRONG[1]:
        why = "tckgen's cutoff, since the FOD is scaled as MRtrix3's"
    else:
        fraction = FLOOR_FRACTION * floor / SH.floor
        floor = rounded(fraction * strong, 2)
        share = f"{fraction:g} of its strong peaks, {rounded(strong, 2):g}"
        why = f"{share}; {why}" if why else share
    noise = kind.noise(fod.vectors.numbers) if is_fod and kind.noise is not None else 0.0
    return (rounded(noise, 2), kind.noise_reason) if noise > floor else (floor, why)


def _find(fod: FodLike, row: Algorithm) -> Suited:
    voxel_mm = fod.grid.voxel_mm
    strong = strong_amplitude(fod)
    kind = fod.input_kind
    floor, why = _floor(fod, row, strong)
    step = kind.step or (row.step_voxels if has_lobes(row, kind) else 0.0) or STEP_VOXELS
    shortest, longest = kind.min_length, kind.max_length
    turn = {"min_radius_mm": rounded(kind.radius * voxel_mm)}
    if row.cone_deg:
        turn = {"max_angle_deg": row.cone_deg}
    drift = {}
    if row.gamma_voxels:
        drift["gamma"] = rounded(row.gamma_voxels / voxel_mm)
    if row.look_ahead_voxels and follows_fod(row, kind):
        drift["look_ahead_mm"] = rounded(row.look_ahead_voxels * voxel_mm)
    if row.lobe_deg and follows_fod(row, kind):
        drift["lobe_deg"] = row.lobe_deg
    if row.min_roundness and has_lobes(row, kind):
        drift["min_roundness"] = row.min_roundness
    return Suited(
        voxel_mm=voxel_mm,
        strong_amplitude=strong,
        values={
            "step_mm": rounded(step * voxel_mm),
            **turn,
            **drift,
            "min_amplitude": floor,
            "min_length_mm": rounded(shortest * voxel_mm),
            "max_length_mm": rounded(longest * voxel_mm),
        },
        reasons={
            "step_mm": f"{step:g} voxel",
            "min_radius_mm": f"{kind.radius:g} voxel",
            "max_angle_deg": f"with {row.name}",
            "gamma": f"{row.gamma_voxels:g} per voxel",
            "look_ahead_mm": f"{row.look_ahead_voxels:g} voxel{'s' * (row.look_ahead_voxels > 1)}",
            "lobe_deg": f"with {row.name}",
            "min_roundness": f"with {row.name}",
            "min_amplitude": why,
            "min_length_mm": f"{shortest:g} voxels",
            "max_length_mm": f"{longest:g} voxels",
        },
    )


def reconciled(
    suited: Mapping[str, float], changes: Mapping[str, Any], cone: ParameterSpec
) -> dict[str, Any]:
    """Return suited values with a person's changes, adapted where they would contradict those.

    The cone angle, of which `cone` is known, takes the place of the radius where it is changed.
    """
    values: dict[str, Any] = {**suited, **changes}
    if "step_mm" not in changes:
        values["step_mm"] = min(values["step_mm"], changes.get("max_length_mm", math.inf))
        if changes.get("min_radius_mm") is not None:
            smallest, largest = arcs.radius_limits_mm(1.0, cone)  # in steps
            shortest, longest = (changes["min_radius_mm"] / r for r in (largest, smallest))
            values["step_mm"] = min(max(values["step_mm"], shortest), longest)
    step_mm = values["step_mm"]
    if "max_angle_deg" in suited:
        if changes.get("min_radius_mm") is not None and "max_angle_deg" not in changes:
            del values["max_angle_deg"]
    elif "min_radius_mm" not in changes:
        smallest, largest = arcs.radius_limits_mm(step_mm, cone)
        radius_mm = min(max(suited["min_radius_mm"], smallest), largest)
        values["min_radius_mm"] = None if "max_angle_deg" in changes else radius_mm
    elif changes["min_radius_mm"] is None and "max_angle_deg" not in changes:
        angle = arcs.angle_deg(suited["step_mm"], suited["min_radius_mm"])
        values["max_angle_deg"] = round(angle, 1)
    if "max_length_mm" not in changes:
        values["max_length_mm"] = max(values["max_length_mm"], values["min_length_mm"], step_mm)
    elif "min_length_mm" not in changes:
        values["min_length_mm"] = min(values["min_length_mm"], values["max_length_mm"])
    return values


def strong_amplitude(fod: FodLike) -> float:
    """Return the 95th percentile of the largest amplitude of each voxel that holds an FOD."""
    if fod.input_kind.strong is not None:
        return fod.input_kind.strong
    if fod.input_kind.amplitudes is not None:
        return float(np.quantile(fod.overview_values(), STRONG_QUANTILE))
    values = fod.values
    values = values[:: -(-len(values) // MAX_VOXELS)]
    units = direction_set(N_DIRECTIONS)
    units = units if fod.is_asymmetric else units[: N_DIRECTIONS // 2]
    matrix = fod.sample_matrix(units).astype(np.float32)
    largest = np.full(len(values), -np.inf, np.float32)
    for along in matrix:  # one direction at a time: no array of all amplitudes
        np.maximum(largest, values @ along, out=largest)
    return float(np.quantile(largest, STRONG_QUANTILE))


def rounded(value: float, digits: int = 3) -> float:
    """Return a number to so many significant digits; 0 stays 0."""
    if not value:
        return 0.0
    return round(value, digits - 1 - math.floor(math.log10(abs(value))))
