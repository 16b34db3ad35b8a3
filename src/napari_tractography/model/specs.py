"""What is known of one parameter besides its value: its default, unit, limits, choices and help.

:mod:`.parameters` and the options of the panel are described by :class:`ParameterSpec`.
"""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass, field
from typing import Any

from ..errors import InvalidParameterError
from ..runtime.scalars import as_float, as_whole, is_boolean, is_number
from .algorithms import ALGORITHMS, users_of
from .algorithms.row import Algorithm

LARGEST_SHOWN = 1e300  # whole numbers beyond are no floats


@dataclass(frozen=True, slots=True)
class ParameterSpec:
    """What is known about one parameter besides its value."""

    # name, label: name in code, and what a widget shows.
    name: str
    label: str
    default: Any  # its type is the parameter's type, unless `kind` says it
    help: str  # one or two sentences for tooltips, `--help` and the docs
    unit: str = ""  # "mm", "degrees" or ""
    # minimum, maximum: inclusive limits.
    minimum: float | None = None
    maximum: float | None = None
    increment: float | None = None  # what one click on a spin box adds
    # The part of the range that a slider covers; values beyond it are typed.
    slider: tuple[float, float] | tuple[()] = ()
    choices: tuple[str, ...] = ()  # all the values that a text parameter may have
    section: str = "more"  # where a panel shows it: "main" or "more"
    # The parameter's type where the default is None; None is then a value, too.
    kind: type | None = None
    # How `TrackingParameters.for_fod` chooses the value for an FOD, in a few words; "" where it is
    # the same for all.
    by_fod: str = ""
    is_scaled: bool = False

    @property
    def type(self) -> type:
        """The type of the values, None left out."""
        return self.kind or type(self.default)

    @property
    def flag(self) -> str:
        """The command's flag: the name without its unit, ``--max-angle`` for max_angle_deg."""
        if self.name == "random_seed":
            return "--seed"
        return "--" + self.name.removesuffix("_mm").removesuffix("_deg").replace("_", "-")

    def nearest(self, value: float) -> float:
        """Return a number, or the limit that it is beyond."""
        if self.minimum is not None:
            value = max(value, self.minimum)
        return value if self.maximum is None else min(value, self.maximum)

    def check(self, value: Any) -> Any:
        """Return `value` in the parameter's type.

        Raises InvalidParameterError when it has the wrong type, is out of its limits or is no
        choice.
        """
        if value is None and self.default is None:
            return None
        wanted = self.type
        unit = f" {self.unit}" if self.unit else ""
        typed: Any = None
        if wanted is int:
            typed = as_whole(value)
        elif wanted is float and is_number(value):
            typed = as_float(value)
        elif wanted is bool and is_boolean(value):
            typed = bool(value)
        elif wanted is str and isinstance(value, str):
            typed = str(value)
        if typed is None:
            raise InvalidParameterError(
                f"{self.name} must be of type {wanted.__name__}, not {value!r}."
            )
        if self.choices and typed not in self.choices:
            raise InvalidParameterError(
                f"{self.name} = {value!r} is unknown; choose one of {', '.join(self.choices)}."
            )
        if (
            self.minimum is not None
            and self.maximum is not None
            and not self.minimum <= typed <= self.maximum  # as of NaN
        ):
            is_endless = LARGEST_SHOWN <= abs(typed) < math.inf  # an int that is no float
            shown = "a number that large" if is_endless else _shown(typed)
            raise InvalidParameterError(
                f"{self.name} = {shown}{unit} is out of range; "
                f"choose {_shown(self.minimum)} to {_shown(self.maximum)}{unit}."
            )
        return typed


def _shown(number: float) -> str:
    """Return a limit or a value; of whole numbers, which may be large, every digit."""
    return str(number) if isinstance(number, int) else f"{number:g}"


def parameter(default: Any, **spec: Any) -> Any:
    """Return a dataclass field with the attributes of its :class:`ParameterSpec`."""
    return field(default=default, metadata=spec)


def _names(rows: tuple[Algorithm, ...]) -> str:
    """Return "diffusion and transport" of these."""
    *others, last = (row.name for row in rows)
    return f"{', '.join(others)} and {last}" if others else last


def specs_of(parameters: type[Any]) -> tuple[ParameterSpec, ...]:
    """Return the description of every field of a dataclass that has one, in its order."""
    specs = []
    for f in dataclasses.fields(parameters):
        if not f.metadata:
            continue
        spec = dict(f.metadata)
        users = users_of(f.name)
        if users != ALGORITHMS:  # the help begins with whom it is for
            first, rest = spec["help"][0].lower(), spec["help"][1:]
            spec["help"] = f"{_names(users).capitalize()}: {first}{rest}"
        specs.append(ParameterSpec(name=f.name, default=f.default, **spec))
    return tuple(specs)
