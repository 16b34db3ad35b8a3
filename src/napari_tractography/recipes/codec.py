"""Recipes as JSON: dataclasses to plain values and back, checked field by field.

Called by :mod:`.recipe`. What a file says is checked here for its types, and by the classes
themselves for its meaning; whatever is wrong with it ends in one sentence.
"""

from __future__ import annotations

import dataclasses
import json
import math
import types
import typing
from os import PathLike
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from ..errors import FileError, InvalidParameterError
from ..files.damage import readable
from ..files.formats import check_text_name
from ..files.paths import existing_file, explained, written_whole

FORMAT = "napari-tractography recipe"
# Version 2 adds the backend, the device and the number of the first seed of a sphere; version 3
# the parameters `edge` and `min_radius_mm`, and it knows no `evaluation`; version 4 the kind of
# the FOD's file, which was always "sh" before; version 5 edits, weights,
# tissues, the number to select, two regions to track between, and axes and order of peaks and
# tensors; version 6 images; version 7 seeds in each voxel, and labels of tissues;
# version 8 warps, and seeds by voxel.
FORMAT_VERSION = 8
WITHOUT_EITHER = 7  # which recipes without these are written as
READABLE_VERSIONS = (1, 2, 3, 4, 5, 6, 7, 8)
# What the parameters of earlier versions were where a file does not say.
BEFORE_VERSION_3 = {"edge": "interpolated", "min_probability": 0.005}
IN_SIDECAR = "Recipe"  # the field of a BIDS sidecar that holds one
QUOTED_CHARACTERS = 40  # of a wrong value, in messages

T = TypeVar("T")


class _MismatchError(Exception):
    """A value is not of the type of its field."""


def write_json(content: Any, path: str | PathLike[str]) -> None:
    """Write plain values as JSON, whole or not at all.

    Raises FileError when it cannot be written, or its name is that of streamlines or of a volume.
    """
    check_text_name(path)
    with written_whole(path) as temporary:
        temporary.write_text(json.dumps(content, indent=1) + "\n", "utf-8")


def recipe_content(recipe: Any) -> dict[str, Any]:
    """Return a dataclass as plain values, with the name and the version of the format."""
    content = encoded(recipe)
    has_warp = any("warp" in part for part in (content, *content.get("edits", ())))
    by_voxel = any("by" in source for source in content.get("seeds", ()))
    version = FORMAT_VERSION if has_warp or by_voxel else WITHOUT_EITHER
    return {"format": FORMAT, "format_version": version, **content}


def recipe_of(kind: type[T], content: Any, file: Path) -> T:
    """Return a dataclass of that kind of plain values; `file` is named in messages.

    Raises FileError when they are damaged, something else, or of a newer format; TractographyError
    when a value is of the right type and impossible.
    """
    content = dict(content) if isinstance(content, dict) else {}
    if content.pop("format", None) != FORMAT:
        raise FileError(
            f"{file} is no recipe; give a JSON file that `napari-tractography track` wrote."
        )
    found = content.pop("format_version", 0)
    if found not in READABLE_VERSIONS:
        raise FileError(
            f"{file} has format version {_quoted(found)}, this program knows up to "
            f"{FORMAT_VERSION}; update napari-tractography."
        )
    parameters = content.get("parameters", {})
    if found < 3 and isinstance(parameters, dict):
        content["parameters"] = {**BEFORE_VERSION_3, **parameters}
        content["parameters"].pop("evaluation", None)
    elif isinstance(parameters, dict) and parameters.get("look_back_mm") == 0:
        # `lobe_deg` took its place before version 0.1; without it, as nearly always, nothing is
        # different.
        content["parameters"] = {k: v for k, v in parameters.items() if k != "look_back_mm"}
    remedy = "write it again with `napari-tractography track`"
    return decoded(kind, content, f"{file} is a damaged recipe", remedy)


def decoded(kind: type[T], content: Any, what: str, remedy: str) -> T:
    """Return a dataclass of plain values; `what` is wrong and how to mend it are for messages.

    Raises FileError when a value is not of its field's type, or a field is unknown or missing.
    """
    try:
        return typing.cast(T, _decoded(kind, content, ""))
    except _MismatchError as error:
        raise FileError(f"{what} ({error}); {remedy}.") from None


def is_recipe(path: str | PathLike[str]) -> bool:
    """Tell whether a file is there and is a recipe, of whatever version."""
    return format_of(path) == FORMAT


def format_of(path: str | PathLike[str]) -> str:
    """Return what a JSON file says it is, or "" where there is no such file."""
    try:
        content = read_json(existing_file(path))
    except FileError:
        return ""
    return str(content.get("format", "")) if isinstance(content, dict) else ""


def encoded(value: Any, name: str = "") -> Any:
    """Turn dataclasses into dicts without their empty fields, numbers of NumPy into Python's.

    Left out are also fields that are not compared, such as where a recipe was loaded from, and
    those that follow from others, which the attribute `derived_fields` names. Raises
    InvalidParameterError when a number is not finite, which no recipe that is read may have; `name`
    is its field.
    """
    if dataclasses.is_dataclass(value):
        derived = getattr(value, "derived_fields", ())
        fields = [f for f in _stored_fields(value) if f.name not in derived]
        stored = {f.name: encoded(getattr(value, f.name), f.name) for f in fields}
        return {name: v for name, v in stored.items() if v is not None and v not in ("", [])}
    if isinstance(value, tuple | list):
        return [encoded(v, name) for v in value]
    if isinstance(value, np.generic | np.ndarray):
        return encoded(value.tolist(), name)
    if isinstance(value, float) and not math.isfinite(value):
        raise InvalidParameterError(f"{name} = {value} is in no recipe; give a finite number.")
    return value


def read_json(file: Path) -> Any:
    """Read the plain values of a JSON file, of a BIDS sidecar those of the recipe in it.

    Raises FileError when it cannot be read or is no JSON.
    """
    with explained(file):
        try:
            with readable(file):
                # Windows' editors put a mark first.
                content = json.loads(file.read_text("utf-8-sig"))
        except (ValueError, RecursionError) as error:
            raise FileError(f"{file} is no JSON ({error}); give a recipe or a project.") from None
    return content.get(IN_SIDECAR, content) if isinstance(content, dict) else content


def _stored_fields(kind: Any) -> list[dataclasses.Field[Any]]:
    return [f for f in dataclasses.fields(kind) if f.compare]


def _decoded(kind: Any, value: Any, where: str) -> Any:
    """Return a value of JSON as the type of a field; `where` names the field in messages."""
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin in (types.UnionType, typing.Union):  # X | None
        (inner,) = (argument for argument in arguments if argument is not type(None))
        return None if value is None else _decoded(inner, value, where)
    if dataclasses.is_dataclass(kind):
        return _decoded_fields(kind, _checked(value, dict, "an object", where), where)
    if origin is tuple:  # tuple[X, ...]
        rows = _checked(value, list, "a list", where)
        return tuple(_decoded(arguments[0], row, f"{where}[{i}]") for i, row in enumerate(rows))
    if origin is dict:  # dict[str, X]
        named = _checked(value, dict, "an object", where)
        return {name: _decoded(arguments[1], v, _path(where, name)) for name, v in named.items()}
    if kind is Any:
        return value
    if kind is float:
        return _number(value, where)
    what = {str: "a text", int: "a whole number", bool: "true or false"}[kind]
    return _checked(value, kind, what, where)


def _decoded_fields(kind: Any, content: dict[str, Any], where: str) -> Any:
    hints = typing.get_type_hints(kind)
    fields = {field.name: field for field in _stored_fields(kind)}
    for name in content:
        if name not in fields:
            raise _MismatchError(f"unknown field {_quoted(_path(where, name))}")
    for name, field in fields.items():
        no_default = field.default is field.default_factory is dataclasses.MISSING
        if no_default and name not in content:
            raise _MismatchError(f"{_path(where, name)} is missing")
    return kind(**{n: _decoded(hints[n], v, _path(where, n)) for n, v in content.items()})


def _checked(value: Any, kind: type[T], what: str, where: str) -> T:
    # True is an int to Python, but no number in a file.
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        raise _MismatchError(f"{where} is {_quoted(value)}, not {what}")
    return value


def _number(value: Any, where: str) -> float:
    try:
        if not isinstance(value, bool) and math.isfinite(value):
            return float(value)
    except (TypeError, OverflowError):
        pass
    raise _MismatchError(f"{where} is {_quoted(value)}, not a finite number")


def _path(where: str, name: str) -> str:
    return f"{where}.{name}" if where else name


def _quoted(value: Any) -> str:
    """Return a value for a message: short, and of nested values only what they are."""
    if isinstance(value, list | dict):
        return "a list" if isinstance(value, list) else "an object"
    text = json.dumps(value)
    return text if len(text) <= QUOTED_CHARACTERS else f"{text[:QUOTED_CHARACTERS]}..."
