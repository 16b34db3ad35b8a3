"""Recipes, edits and everything in them as Python that makes them again.

Called by :mod:`napari_tractography.recipes.project` and the plugin. What a script says is derived
from the dataclasses: a field that is new is in every script.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from .image_sources import says_sides
from .sources import FodSource

PUBLIC = {"Recipe", "TrackingParameters"}  # names of the package itself
WIDTH = 88
CHUNK = 70  # characters of a long text on a line


def expression(value: Any, imports: set[str], indent: int = 0, *, before: int = 0) -> str:
    """Return a value as a Python expression; lines that it needs are added to `imports`.

    A value is a dataclass of the recipes, or tuples, lists, dicts, numbers (NumPy's, too) and
    texts. It is broken where it would be longer than :data:`WIDTH`, with the indent of the line on
    which it begins, and `before` characters that stand before it there.
    """
    if isinstance(value, np.generic | np.ndarray):
        value = value.tolist()  # a script knows no `np`
    if isinstance(value, str):
        return _text(value, indent, before)
    if isinstance(value, tuple | list):
        opening, closing = "()" if isinstance(value, tuple) else "[]"
        items = [("", item) for item in value]
        if isinstance(value, tuple) and len(items) == 1:
            flat = f"({expression(value[0], imports)},)"
            if "\n" not in flat and indent + before + len(flat) <= WIDTH:
                return flat
        return _joined(opening, items, closing, imports, indent, before)
    if isinstance(value, dict):
        items = [(f"{key!r}: ", item) for key, item in value.items()]
        return _joined("{", items, "}", imports, indent, before)
    if not dataclasses.is_dataclass(value) or isinstance(value, type):
        return repr(value)
    name = type(value).__name__
    if name in PUBLIC:
        name = f"nt.{name}"
    else:
        imports.add(f"from {type(value).__module__} import {name}")
    items = [(f"{name}=", item) for name, item in _changed_fields(value)]
    return _joined(f"{name}(", items, ")", imports, indent, before)


def image_lines(source: FodSource, imports: set[str], *, tissue: str = "") -> list[str]:
    """Return the lines that make the `fod` of an image; what they need is added to `imports`.

    `tissue` is an expression for its tissue and a grid, in place of one that spells it out.
    """
    reading = source.image
    assert reading is not None
    if source.phantom:
        imports.add("from napari_tractography.model.image_phantoms import make_image_phantom")
        lines = [f"image = make_image_phantom({source.phantom!r}).image"]
    else:
        imports.add("from napari_tractography.files.image_files import open_image")
        arguments = [repr(source.path), *([repr(reading.key)] if reading.key else [])]
        arguments += [f"index={reading.index!r}"] if reading.index else []
        arguments += [f"axes={reading.axes!r}"] if reading.axes != "zyx" else []
        lines = [f"image = open_image({', '.join(arguments)})  # (x, y, z)"]
    affine = expression(reading.affine, imports, before=len("affine = "))
    kept = f"unit={reading.unit!r}" + ("" if says_sides(source.path) else ", is_anatomical=False")
    lines += [f"affine = {affine}", f"grid = nt.Grid(image.shape, affine, {kept})"]
    options = {
        "sigma_mm": reading.sigma_mm,
        "rho_mm": reading.rho_mm,
        "bright": reading.bright,
        "min_linearity": reading.min_linearity or None,
        "odf_voxels": reading.odf_voxels,
    }
    arguments = [
        f"{name}={expression(value, imports)}"
        for name, value in options.items()
        if value is not None
    ]
    if reading.mask is not None:
        tissue = tissue or f"{expression(reading.mask, imports)}.load()"
        lines += [f"tissue, _ = {tissue}"]
        arguments += ["mask=tissue"]
    return [*lines, f"fod = nt.Fod.from_image(image, grid, {', '.join(arguments)})"]


def script(imports: set[str], lines: list[str]) -> str:
    """Return a script of lines, with what they import before them."""
    head = ["import napari_tractography as nt", *sorted(imports), ""]
    return "\n".join([*head, *lines]) + "\n"


def _changed_fields(value: Any) -> list[tuple[str, Any]]:
    """Return the fields of a dataclass that are not as they are by default."""
    found = []
    derived = getattr(value, "derived_fields", ())
    for field in dataclasses.fields(value):
        if not field.compare or field.name in derived:
            continue
        item = getattr(value, field.name)
        if field.default_factory is not dataclasses.MISSING:
            same = not item and not dataclasses.is_dataclass(item)
        else:
            same = field.default is not dataclasses.MISSING and item == field.default
        if not same:
            found.append((field.name, item))
    return found


def _joined(
    opening: str,
    items: list[tuple[str, Any]],
    closing: str,
    imports: set[str],
    indent: int,
    before: int,
) -> str:
    flat = ", ".join(f"{name}{expression(item, imports)}" for name, item in items)
    line = f"{opening}{flat}{closing}"
    if "\n" not in line and indent + before + len(line) <= WIDTH:
        return line
    inner = indent + 4
    parts = [
        f"{' ' * inner}{name}{expression(item, imports, inner, before=len(name) + 1)},"
        for name, item in items
    ]
    return "\n".join([opening, *parts, f"{' ' * indent}{closing}"])


def _text(value: str, indent: int, before: int) -> str:
    if len(value) <= CHUNK or indent + before + len(value) + 2 <= WIDTH:
        return repr(value)
    inner = " " * (indent + 4)
    parts = [value[first : first + CHUNK] for first in range(0, len(value), CHUNK)]
    return "\n".join(["(", *(f"{inner}{part!r}" for part in parts), f"{' ' * indent})"])
