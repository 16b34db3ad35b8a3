"""The tracking parameters: their defaults, units, limits, choices and help texts.

The engine reads :class:`TrackingParameters`; the panel, the command's flags and the docs are
derived from the :class:`ParameterSpec` of each field, and what differs between algorithms from
the rows of :mod:`napari_tractography.tracking.algorithms`.
"""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass, field
from typing import Any

from .errors import InvalidParameterError
from .tracking.algorithms import ALGORITHMS, BY_NAME, users_of
from .tracking.algorithms.row import Algorithm

LONGEST_ADAPTIVE, SHORTEST_ADAPTIVE = 2.0, 0.2  # of the step
SOFTPLUS_SHARPNESS = 10.0  # of the positivity "softplus": log(1 + exp(10 f)) / 10
MAX_DIRECTIONS = 4096
SEED_SOURCES = ("placed seeds", "mask", "whole FOD")


@dataclass(frozen=True, slots=True)
class ParameterSpec:
    """What is known about one parameter besides its value.

    Attributes
    ----------
    name, label : str
        Name in code, and what a widget shows.
    default : Any
        Its type is the parameter's type.
    help : str
        One or two sentences for tooltips, ``--help`` and the docs.
    unit : str
        "mm", "degrees" or "".
    minimum, maximum : float or None
        Inclusive limits.
    increment : float or None
        What one click on a spin box adds.
    slider : tuple of 2 float, or empty
        The part of the range that a slider covers; values beyond it are typed.
    choices : tuple of str
        All the values that a text parameter may have.
    section : str
        Where a panel shows it: "main" or "more".
    """

    name: str
    label: str
    default: Any
    help: str
    unit: str = ""
    minimum: float | None = None
    maximum: float | None = None
    increment: float | None = None
    slider: tuple[float, float] | tuple[()] = ()
    choices: tuple[str, ...] = ()
    section: str = "more"

    @property
    def flag(self) -> str:
        """The command's flag: the name without its unit, ``--max-angle`` for max_angle_deg."""
        if self.name == "random_seed":
            return "--seed"
        return "--" + self.name.removesuffix("_mm").removesuffix("_deg").replace("_", "-")

    def check(self, value: Any) -> Any:
        """Return `value` in the parameter's type.

        Raises
        ------
        InvalidParameterError
            When it has the wrong type, is out of its limits or is no choice.
        """
        wanted = type(self.default)
        unit = f" {self.unit}" if self.unit else ""
        try:
            if isinstance(value, bool) is not (wanted is bool):
                raise TypeError
            if wanted is int and int(value) != value:
                raise ValueError
            if wanted is str and not isinstance(value, str):
                raise TypeError
            typed = wanted(value)
        except (TypeError, ValueError, OverflowError):
            raise InvalidParameterError(
                f"{self.name} must be of type {wanted.__name__}, not {value!r}."
            ) from None
        if self.choices and typed not in self.choices:
            raise InvalidParameterError(
                f"{self.name} = {value!r} is unknown; choose one of {', '.join(self.choices)}."
            )
        if (
            self.minimum is not None
            and self.maximum is not None
            and not (math.isfinite(typed) and self.minimum <= typed <= self.maximum)
        ):
            raise InvalidParameterError(
                f"{self.name} = {value:g}{unit} is out of range; "
                f"choose {self.minimum:g} to {self.maximum:g}{unit}."
            )
        return typed


def _parameter(default: Any, **spec: Any) -> Any:
    return field(default=default, metadata=spec)


@dataclass(frozen=True, slots=True)
class TrackingParameters:
    """Everything about tracking that is not data; see :func:`parameter_specs` for each field.

    Raises
    ------
    InvalidParameterError
        When a value is out of its range, is no choice of its list or contradicts another.
    """

    algorithm: str = _parameter(
        "probabilistic",
        label="Algorithm",
        choices=tuple(row.name for row in ALGORITHMS),
        help="How the next direction is chosen: "
        + "; ".join(f"{row.name} {row.help}" for row in ALGORITHMS)
        + ".",
        section="main",
    )
    step_mm: float = _parameter(
        0.5,
        label="Step",
        unit="mm",
        minimum=0.01,
        maximum=10.0,
        increment=0.05,
        slider=(0.05, 2.0),
        help="Distance between successive points; a quarter to a half of a voxel suits most data.",
        section="main",
    )
    max_angle_deg: float = _parameter(
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
    )
    min_probability: float = _parameter(
        0.005,
        label="Probability threshold",
        minimum=0.0,
        maximum=1.0,
        increment=0.001,
        slider=(0.0, 0.1),
        help="A streamline stops where the fraction of the FOD inside the cone is at or below "
        "this.",
        section="main",
    )
    min_amplitude: float = _parameter(
        0.05,
        label="Minimum amplitude",
        minimum=0.0,
        maximum=10.0,
        increment=0.01,
        slider=(0.0, 0.5),
        help="Directions with a smaller FOD amplitude are never followed, and a streamline stops "
        "where its cone holds no other; 0 switches the floor off. In the FOD's own unit, as "
        "tckgen's -cutoff.",
        section="main",
    )
    interpolation: str = _parameter(
        "trilinear",
        label="Interpolation",
        choices=("nearest", "trilinear"),
        help="Where the FOD between voxel centres comes from: the nearest voxel, or the weighted "
        "mean of the eight around.",
        section="main",
    )
    direction: str = _parameter(
        "both",
        label="Direction",
        choices=("both", "forward", "backward"),
        help="Whether a streamline runs from its seed along the start direction, against it, or "
        "both ways.",
    )
    start: str = _parameter(
        "sampled",
        label="Start",
        choices=("sampled", "max", "given"),
        help="The first direction: drawn from the FOD at the seed, its largest amplitude, or the "
        "direction given with the seed.",
    )
    min_length_mm: float = _parameter(
        0.0,
        label="Minimum length",
        unit="mm",
        minimum=0.0,
        maximum=2000.0,
        increment=5.0,
        help="Shorter streamlines are discarded.",
    )
    max_length_mm: float = _parameter(
        250.0,
        label="Maximum length",
        unit="mm",
        minimum=0.01,
        maximum=2000.0,
        increment=10.0,
        help="A streamline that reaches this length, both halves together, is cut there and kept.",
    )
    record_every: int = _parameter(
        1,
        label="Keep every",
        minimum=1,
        maximum=10000,
        increment=1,
        help="Keep every k-th point counted from the seed, and both ends.",
    )
    output: str = _parameter(
        "streamlines",
        label="Output",
        choices=("streamlines", "endpoints"),
        help="Whole streamlines, or their two ends only.",
    )
    n_directions: int = _parameter(
        724,
        label="Directions",
        minimum=32,
        maximum=MAX_DIRECTIONS,
        increment=2,
        help="Size of the full, antipodally symmetric set of directions on which the FOD is "
        "tabulated; even.",
    )
    positivity: str = _parameter(
        "clip",
        label="Positivity",
        choices=("clip", "softplus"),
        help="How negative FOD amplitudes become non-negative: clipped at zero, or by "
        f"softplus with sharpness {SOFTPLUS_SHARPNESS:g}.",
    )
    gamma: float = _parameter(
        1.0,
        label="Drift",
        unit="1/mm",
        minimum=0.0,
        maximum=100.0,
        increment=0.1,
        help="How fast the direction turns up the gradient of the logarithm of the FOD.",
    )
    gamma_noise: float = _parameter(
        1.0,
        label="Noise",
        minimum=0.0,
        maximum=100.0,
        increment=0.1,
        help="Amplitude of the noise on the direction; with 1 directions come to be "
        "distributed as the FOD, below 1 more narrowly.",
    )
    adaptive: bool = _parameter(
        False,
        label="Adaptive step",
        help="Shorten the step to a fifth where the FOD is steep and double it where it is flat.",
    )
    evaluation: str = _parameter(
        "precomputed",
        label="Evaluation",
        choices=("precomputed", "direct"),
        help="Take the FOD and its gradient from the table of "
        "directions, or evaluate the spherical harmonics at each step.",
    )
    random_seed: int = _parameter(
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
        if self.max_length_mm < self.step_mm:
            raise InvalidParameterError(
                f"max_length_mm = {self.max_length_mm:g} mm is shorter than one step of "
                f"{self.step_mm:g} mm; raise it or take smaller steps."
            )
        if self.evaluation == "direct" and not self.uses("evaluation"):
            raise InvalidParameterError(
                f"evaluation = 'direct' is for {_names(users_of('evaluation'))}, not for "
                f"{self.algorithm} tracking; choose precomputed."
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
    def max_steps(self) -> int:
        """Number of steps of the longest streamline, both halves together."""
        shortest = SHORTEST_ADAPTIVE if self.adaptive and self.uses("adaptive") else 1.0
        return int(self.max_length_mm / (self.step_mm * shortest) + 1e-6)

    def replace(self, **changes: Any) -> TrackingParameters:
        """Return a copy with some fields changed.

        Raises
        ------
        InvalidParameterError
            When a name is no parameter or a value is out of range.
        """
        unknown = set(changes) - {spec.name for spec in parameter_specs()}
        if unknown:
            raise InvalidParameterError(
                f"{', '.join(sorted(unknown))} is no tracking parameter; "
                f"there are {', '.join(s.name for s in parameter_specs())}."
            )
        return dataclasses.replace(self, **changes)

    def to_dict(self) -> dict[str, Any]:
        """Return all fields as plain numbers and strings, ready for JSON."""
        return dataclasses.asdict(self)


@dataclass(frozen=True, slots=True)
class SeedingParameters:
    """Where a person lets streamlines start, and how many.

    Raises
    ------
    InvalidParameterError
        When a value is out of its range.
    """

    source: str = _parameter(
        "placed seeds",
        label="Start from",
        choices=SEED_SOURCES,
        help="Where streamlines start: around seeds that you place, in a mask, or everywhere in "
        "proportion to the FOD.",
        section="main",
    )
    n_total: int = _parameter(
        5000,
        label="Streamlines",
        minimum=1,
        maximum=100_000_000,
        increment=1000,
        help="How many streamlines start in the mask or in the whole FOD.",
        section="main",
    )
    n_per_seed: int = _parameter(
        500,
        label="Streamlines per seed",
        minimum=1,
        maximum=10_000_000,
        increment=100,
        help="How many streamlines start in the sphere around each seed.",
        section="main",
    )
    radius_mm: float = _parameter(
        2.0,
        label="Seed radius",
        unit="mm",
        minimum=0.0,
        maximum=500.0,
        increment=0.5,
        slider=(0.0, 20.0),
        help="Streamlines start anywhere within this distance of the seed.",
        section="main",
    )

    def __post_init__(self) -> None:
        for spec in seeding_specs():
            object.__setattr__(self, spec.name, spec.check(getattr(self, spec.name)))


def _names(rows: tuple[Algorithm, ...]) -> str:
    """Return "diffusion and transport" of these."""
    *others, last = (row.name for row in rows)
    return f"{', '.join(others)} and {last}" if others else last


def _specs_of(parameters: type[Any]) -> tuple[ParameterSpec, ...]:
    specs = []
    for f in dataclasses.fields(parameters):
        spec = dict(f.metadata)
        users = users_of(f.name)
        if users != ALGORITHMS:  # the help begins with whom it is for
            first, rest = spec["help"][0].lower(), spec["help"][1:]
            spec["help"] = f"{_names(users).capitalize()}: {first}{rest}"
        specs.append(ParameterSpec(name=f.name, default=f.default, **spec))
    return tuple(specs)


_TRACKING_SPECS = _specs_of(TrackingParameters)
_SEEDING_SPECS = _specs_of(SeedingParameters)


def parameter_specs() -> tuple[ParameterSpec, ...]:
    """Return the description of every tracking parameter, in the order of the dataclass."""
    return _TRACKING_SPECS


def seeding_specs() -> tuple[ParameterSpec, ...]:
    """Return the description of every seeding parameter, in the order of the dataclass."""
    return _SEEDING_SPECS
