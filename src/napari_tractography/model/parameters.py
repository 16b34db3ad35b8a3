"""The tracking parameters: their defaults, units, limits, choices and help texts.

The engine reads :class:`TrackingParameters`; the panel, the command's flags and the docs are
derived from the :class:`~napari_tractography.model.specs.ParameterSpec` of each field, and what
differs between algorithms from the rows of :mod:`napari_tractography.model.algorithms`. Values that
suit an FOD are found by :mod:`.defaults`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..errors import InvalidFodError, InvalidParameterError
from .algorithms import ALGORITHMS, BY_NAME, users_of
from .algorithms.row import Algorithm
from .arcs import cone_of_radius
from .specs import ParameterSpec as ParameterSpec
from .specs import parameter, specs_of

LONGEST_ADAPTIVE, SHORTEST_ADAPTIVE = 2.0, 0.2  # of the step
SOFTPLUS_SHARPNESS = 10.0  # of the positivity "softplus": log(1 + exp(10 f)) / 10
MAX_DIRECTIONS = 4096
WITH_TISSUES = ("backtrack", "crop_at_gmwmi")  # which mean something with a tissue image alone
SHORTEST_MM = 1e-6  # of steps, radii and lengths: images have voxels of micrometres and less


@dataclass(frozen=True, slots=True)
class TrackingParameters:
    """Everything about tracking that is not data; see :func:`parameter_specs` for each field.

    Raises
    ------
    InvalidParameterError
        When a value is out of its range, is no choice of its list or contradicts another.

    Notes
    -----
    Where `min_radius_mm` is set, `max_angle_deg` becomes the angle that follows from it and the
    step. It may be left at its default or be that angle already; any other contradicts the radius.
    """

    algorithm: str = parameter(
        "probabilistic",
        label="Algorithm",
        choices=tuple(row.name for row in ALGORITHMS),
        help="How the next direction is chosen: "
        + "; ".join(f"{row.name} {row.help}" for row in ALGORITHMS)
        + ". For connections take transport, for density probabilistic or ifod2, for what tckgen "
        "gives ifod2, probabilistic or sd_stream.",
        by_fod="probabilistic, and transport for peaks",
        section="main",
    )
    step_mm: float = parameter(
        0.5,
        label="Step",
        unit="mm",
        minimum=SHORTEST_MM,
        maximum=10.0,
        increment=0.05,
        slider=(0.05, 2.0),
        help="Distance between successive points; a fifth to a third of a voxel suits most data.",
        section="main",
        by_fod="a fifth of the voxel size, or what suits the algorithm: 0.275 if probabilistic",
    )
    max_angle_deg: float = parameter(
        45.0,
        label="Cone angle",
        unit="degrees",
        minimum=1.0,
        maximum=90.0,
        increment=1.0,
        slider=(1.0, 90.0),
        help="Largest angle between one step and the next: the half-angle of the cone in which "
        "the next direction is sought. It is per step, so smaller steps bend more per mm.",
        section="main",
        by_fod="from the step and the smallest radius, or what suits the algorithm",
    )
    min_radius_mm: float | None = parameter(
        None,
        label="Smallest radius",
        kind=float,
        unit="mm",
        minimum=SHORTEST_MM,
        maximum=1000.0,
        increment=0.05,
        help="The tightest circle that a streamline can follow, set instead of the cone angle: "
        "the angle is then 2 asin(step / (2 radius)), so that another step leaves the radius as "
        "it is.",
        section="main",
        by_fod="half the voxel size, unless a cone suits the algorithm",
    )
    min_length_mm: float = parameter(
        0.0,
        label="Minimum length",
        unit="mm",
        minimum=0.0,
        maximum=2000.0,
        increment=5.0,
        help="Shorter streamlines are discarded.",
        section="main",
        by_fod="5 times the voxel size",
    )
    max_length_mm: float = parameter(
        250.0,
        label="Maximum length",
        unit="mm",
        minimum=SHORTEST_MM,
        maximum=2000.0,
        increment=10.0,
        help="A streamline that reaches this length, both halves together, is cut there and kept.",
        section="main",
        by_fod="100 times the voxel size",
    )
    min_probability: float = parameter(
        0.0,
        label="Probability threshold",
        minimum=0.0,
        maximum=1.0,
        increment=0.001,
        slider=(0.0, 0.1),
        help="A streamline stops where the fraction of the FOD inside the cone is at or below "
        "this. 0 switches it off. An FOD that is equal in all directions has the fraction (1 - "
        "cos(angle)) / 2 in the cone: 0.004 at 7 degrees, 0.05 at 26, 0.15 at 45.",
        section="main",
    )
    min_amplitude: float = parameter(
        0.05,
        label="Minimum amplitude",
        minimum=0.0,
        maximum=1e6,
        increment=0.01,
        slider=(0.0, 0.5),
        help="Directions with a smaller FOD amplitude are never followed, and a streamline stops "
        "where its cone holds no other; 0 switches the floor off. In the FOD's own unit, as "
        "tckgen's -cutoff.",
        section="main",
        by_fod="0.12 of the FOD's strong peaks; for peaks half of that, but for transport and "
        "diffusion; for ifod2 0.1, as tckgen's, where the FOD is scaled as MRtrix3's",
    )
    interpolation: str = parameter(
        "trilinear",
        label="Interpolation",
        choices=("nearest", "trilinear"),
        help="Where the FOD between voxel centres comes from: the nearest voxel, or the weighted "
        "mean of the eight around.",
        section="main",
    )
    edge: str = parameter(
        "voxel",
        label="Edge",
        choices=("voxel", "interpolated"),
        help="Where the FOD ends: voxel, a streamline ends where the nearest voxel holds no FOD, "
        "as tckgen's do; interpolated, it runs on as long as any of the eight voxels around holds "
        "one, up to a voxel further. Of no effect with nearest interpolation.",
    )
    direction: str = parameter(
        "both",
        label="Direction",
        choices=("both", "forward", "backward"),
        help="Whether a streamline runs from its seed along the start direction, against it, or "
        "both ways.",
    )
    start: str = parameter(
        "sampled",
        label="Start",
        choices=("sampled", "max", "given"),
        help="The first direction: drawn from the FOD at the seed, its largest amplitude, or the "
        "direction given with the seed.",
    )
    record_every: int = parameter(
        1,
        label="Keep every",
        minimum=1,
        maximum=10000,
        increment=1,
        help="Keep every k-th point counted from the seed, and both ends.",
    )
    output: str = parameter(
        "streamlines",
        label="Output",
        choices=("streamlines", "endpoints"),
        help="Whole streamlines, or their two ends only.",
    )
    backtrack: bool = parameter(
        False,
        label="Backtrack",
        help="With a tissue image, take a streamline that ends where no fibre can back a few steps "
        "and track it again from there, instead of refusing it. Of no effect without one.",
    )
    crop_at_gmwmi: bool = parameter(
        False,
        label="Crop at the cortex",
        help="With a tissue image, cut streamlines that end in cortical grey matter where they "
        "enter it, at the interface of grey and white matter. Of no effect without one.",
    )
    n_directions: int = parameter(
        724,
        label="Directions",
        minimum=32,
        maximum=MAX_DIRECTIONS,
        increment=2,
        help="Size of the set of directions on which cone functions and maps are tabulated; "
        "even. Tracking itself is continuous.",
    )
    positivity: str = parameter(
        "clip",
        label="Positivity",
        choices=("clip", "softplus"),
        help="How negative FOD amplitudes become non-negative: clipped at zero, or by "
        f"softplus with sharpness {SOFTPLUS_SHARPNESS:g}.",
    )
    gamma: float = parameter(
        2.0,
        label="Drift",
        unit="1/mm",
        minimum=0.0,
        maximum=1 / SHORTEST_MM,
        increment=0.1,
        help="How fast the direction turns up the gradient of the logarithm of the FOD. Steps may "
        "be of any size; from about 2 on streamlines hardly depend on it.",
        by_fod="2, and 1 per voxel for transport",
    )
    gamma_noise: float = parameter(
        0.2,
        label="Noise",
        minimum=0.0,
        maximum=100.0,
        increment=0.1,
        help="Amplitude of the noise on the direction; with 1 directions come to be "
        "distributed as the FOD, and most lines end below the floor within a few voxels; below 1 "
        "they are distributed more narrowly, as the FOD to the power 1 / noise^2.",
    )
    look_ahead_mm: float = parameter(
        0.0,
        label="Look ahead",
        unit="mm",
        minimum=0.0,
        maximum=100.0,
        increment=0.1,
        slider=(0.0, 5.0),
        help="How far ahead the FOD counts as well, which keeps lines in their bundle, away from "
        "its edge: a direction along which it fades so much further on is drawn once more by "
        "probabilistic tracking, its mirror image in the lobe first where lines keep to one, and "
        "transport and diffusion turn to where it is larger there. 0 takes the FOD at the point "
        "alone. Transport and diffusion do without it with nearest interpolation.",
        by_fod="1.4 voxels, half of one for transport, 0 for diffusion",
    )
    lobe_deg: float = parameter(
        0.0,
        label="Lobe",
        unit="degrees",
        minimum=0.0,
        maximum=45.0,
        increment=1.0,
        help="Keeps lines in their lobe of the FOD, which those of bundles that cross come near: "
        "directions this far from its axis and less count in any case, others where the FOD half "
        "way to the axis is well above the mean of what it is at both ends, as within one lobe. "
        "The axis turns to the top of the lobe as the line goes on. Smaller is stricter; 0 takes "
        "all directions of the cone.",
        by_fod="8",
    )
    min_roundness: float = parameter(
        0.0,
        label="Roundness",
        minimum=0.0,
        maximum=1.0,
        increment=0.05,
        help="Keeps lines in their bundle where two cross at so small an angle that their lobes of "
        "the FOD are one, wide in the plane of both: in a lobe less round than this, lines do not "
        "turn along its wide side, and probabilistic ones draw directions no further along it from "
        "their axis than `lobe_deg`, without which it means nothing to them. The roundness is the "
        "curvature of the logarithm of the FOD along that side over that across, 1 of a single "
        "bundle. Where what lies further on tells that two bundles cross, all lobes are wide, in "
        "the plane of the bundles; there lines turn to what is a fifth of a voxel ahead alone, or "
        "to `look_ahead_mm` where that is less. 0 turns in all lobes.",
        by_fod="0.7",
    )
    samples: int = parameter(
        4,
        label="Samples",
        minimum=2,
        maximum=10,
        increment=1,
        help="At how many points of each step the FOD is sampled, both ends counted.",
    )
    adaptive: bool = parameter(
        False,
        label="Adaptive step",
        help="Shorten the step to a fifth where the FOD is steep and double it where it is flat.",
    )
    random_seed: int = parameter(
        0,
        label="Random seed",
        minimum=0,
        maximum=2**63 - 1,
        increment=1,
        help="The same number gives the same streamlines, for any number of threads.",
        section="main",
    )

    def __post_init__(self) -> None:
        for spec in parameter_specs():
            object.__setattr__(self, spec.name, spec.check(getattr(self, spec.name)))
        if self.n_directions % 2:
            raise InvalidParameterError(
                f"n_directions = {self.n_directions} is odd; an antipodally symmetric set has "
                f"an even size such as {self.n_directions + 1}."
            )
        if self.min_radius_mm is not None:
            angle = cone_of_radius(
                self.step_mm, self.min_radius_mm, _SPECS["max_angle_deg"], self.max_angle_deg
            )
            object.__setattr__(self, "max_angle_deg", angle)
        if self.max_length_mm < self.step_mm:
            raise InvalidParameterError(
                f"max_length_mm = {self.max_length_mm:g} mm is shorter than one step of "
                f"{self.step_mm:g} mm; raise it or take smaller steps."
            )
        if self.min_length_mm > self.max_length_mm:
            raise InvalidParameterError(
                f"min_length_mm = {self.min_length_mm:g} mm exceeds max_length_mm = "
                f"{self.max_length_mm:g} mm; lower the minimum or raise the maximum."
            )

    @property
    def row(self) -> Algorithm:
        """What is known of the algorithm."""
        return BY_NAME[self.algorithm]

    def uses(self, parameter: str) -> bool:
        """Tell whether a parameter means something to the algorithm."""
        return self.row in users_of(parameter)

    @property
    def derived_fields(self) -> frozenset[str]:
        """Names of fields that follow from others, and are not written down."""
        return frozenset(() if self.min_radius_mm is None else ("max_angle_deg",))

    @property
    def max_steps(self) -> int:
        """Number of steps, or parts, of the longest streamline, both halves together."""
        shortest = SHORTEST_ADAPTIVE if self.adaptive and self.uses("adaptive") else 1.0
        return int(self.parts * self.max_length_mm / (self.step_mm * shortest) + 1e-6)

    @property
    def parts(self) -> int:
        """Number of parts in which a step is taken."""
        return self.samples - 1 if self.row.curved else 1

    @classmethod
    def for_fod(cls, fod: Any, *, with_tissues: bool = False, **changes: Any) -> TrackingParameters:
        """Return parameters that suit an FOD's voxel size and amplitudes.

        What is chosen, and why, is in :mod:`napari_tractography.model.defaults`.

        Parameters
        ----------
        fod : Fod
        with_tissues : bool
            Whether a tissue image is tracked with: the floor is then half as high, and shorter
            streamlines are kept.
        **changes
            Fields to keep at these values. A cone angle takes the place of the smallest radius,
            and the limits of the length give way to each other.

        Raises
        ------
        InvalidParameterError
            When a name is no parameter, a value is out of range or two contradict each other.
        InvalidFodError
            When it is no FOD, such as the path of one.
        """
        # On use: needs NumPy, which the command's help does not.
        from .defaults import reconciled, suited_to

        if not hasattr(fod, "input_kind"):
            raise InvalidFodError.of_type(fod)
        _check_names(changes)
        checked = {name: _SPECS[name].check(value) for name, value in changes.items()}
        row = BY_NAME[checked.setdefault("algorithm", fod.input_kind.algorithm)]
        values = suited_to(fod, row, with_tissues=with_tissues).values
        suited = {name: _SPECS[name].nearest(v) for name, v in values.items()}
        return cls(**reconciled(suited, checked, _SPECS["max_angle_deg"]))

    def replace(self, **changes: Any) -> TrackingParameters:
        """Return a copy with some fields changed.

        Of cone angle and smallest radius the one among `changes` counts from then on. Where the
        step changes and the radius stays, the angle is computed again.

        Raises
        ------
        InvalidParameterError
            When a name is no parameter or a value is out of range.
        """
        _check_names(changes)
        if "max_angle_deg" in changes:
            changes.setdefault("min_radius_mm", None)
        elif changes.get("min_radius_mm", self.min_radius_mm) is not None:
            changes["max_angle_deg"] = _SPECS["max_angle_deg"].default  # as if it were not set
        return dataclasses.replace(self, **changes)

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as plain numbers and strings, ready for JSON.

        Without the cone angle where the smallest radius is set: another step in the dictionary
        then gives another angle, and contradicts none.
        """
        fields = dataclasses.asdict(self)
        return {name: value for name, value in fields.items() if name not in self.derived_fields}


_TRACKING_SPECS = specs_of(TrackingParameters)
_SPECS = {spec.name: spec for spec in _TRACKING_SPECS}


def parameter_specs() -> tuple[ParameterSpec, ...]:
    """Return the description of every tracking parameter, in the order of the dataclass."""
    return _TRACKING_SPECS


def _check_names(changes: Mapping[str, Any]) -> None:
    unknown = set(changes) - set(_SPECS)
    if unknown:
        raise InvalidParameterError(
            f"{', '.join(sorted(unknown))} is no tracking parameter; there are {', '.join(_SPECS)}."
        )
