"""Every name of napari's and vispy's inside that the plugin uses: all of them written down here.

When one of these fails after an update of napari, the name has moved or is gone: look for what took
its place, then change the plugin and this list. The upper bound in pyproject.toml holds until then,
and without any of them the panel opens and tracks all the same: see names_gone.py.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import pkgutil
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import napari
import numpy as np
import pytest
from napari._qt.layer_controls.dynamic.widgets import qt_widget_controls_base as dynamic
from napari._qt.layer_controls.qt_layer_controls_base import QtLayerControls
from napari._qt.qt_main_window import Window, _QtMainWindow
from napari.components import LayerList, ViewerModel
from napari.layers import Labels, Layer, Points, Surface
from vispy.scene.visuals import Compound

from napari_tractography import plugin
from napari_tractography.plugin.layers import on_volume, spheres
from napari_tractography.plugin.layers.lit_surfaces import VispyLitSurface

NAMES_GONE = Path(__file__).with_name("names_gone.py")
PLUGIN = Path(__file__).resolve().parents[2] / "src" / "napari_tractography" / "plugin"
FOREIGN = ("napari", "vispy", "magicgui", "superqt", "qtpy", "PyQt6", "PySide6")

# Attributes, and of what; an instance has what its class does not.
ATTRIBUTES: dict[str, Any] = {
    "_activate_on_insert": LayerList,
    "_add_widget_controls": QtLayerControls,
    "_block_refresh": Layer,
    "_border": Points,
    "_change_ndisplay": dynamic.QtWidgetControlsBase,  # called on rows of several layers
    "_clear_extent": Layer,
    "_data_slice": Layer,
    "_face": Points,
    "_meshdata": VispyLitSurface,
    "_on_layers_change": ViewerModel,
    "_quit_app": _QtMainWindow,
    "_redo_history": Labels,
    "_reemit_child_event": LayerList,
    "_slice_input": Layer,
    "_subvisuals": Compound,
    "_task_status_manager": Window,
    "_texture_filter": VispyLitSurface,
    "_undo_history": Labels,
    "_vertex_colors": Surface,
    "_view_indices": Points,
    "_window": _QtMainWindow,
}
# Private members of theirs that classes of ours replace.
REPLACED = {
    "_extent_data",
    "_extent_data_augmented",
    "_get_layer_slicing_state",
    "_get_tooltip_text",
    "_on_appearance_change",
    "_on_graph_change",
    "_on_texture_change",
    "_on_tracks_change",
    "_on_view_direction_change",
    "_type_string",
    "_update_slice_response",
    "_update_thumbnail",
    "_view_data",
    "_view_graph",
}
# Our own, of objects other than self; _replace is of named tuples.
OF_OTHERS = {"_changed", "_drawn", "_highlighted", "_replace", "_times_of"}


@cache
def sources() -> list[tuple[Path, ast.AST]]:
    return [(path, ast.parse(path.read_text("utf-8"))) for path in PLUGIN.rglob("*.py")]


def is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__")


def private_imports() -> set[tuple[str, str]]:
    """(module, name) of every import that has a private part."""
    found = set()
    for _, tree in sources():
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(FOREIGN):
                for alias in node.names:
                    if any(map(is_private, [*(node.module or "").split("."), alias.name])):
                        found.add((str(node.module), alias.name))
    return found


def of_self(node: ast.Attribute) -> bool:
    return isinstance(node.value, ast.Name) and node.value.id in ("self", "cls")


def defined_in(tree: ast.AST) -> set[str]:
    """What code calls functions, classes and attributes."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            found.add(node.name)
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            if of_self(node):
                found.add(node.attr)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found.add(node.id)
    return found


def private_attributes() -> set[str]:
    """Private attributes that are not our own: of self those that no file of ours defines."""
    own = set().union(*(defined_in(tree) for _, tree in sources()))
    found = set()
    for _, tree in sources():
        here = defined_in(tree) | OF_OTHERS
        for node in ast.walk(tree):
            if isinstance(node, ast.Attribute) and is_private(node.attr):
                found |= {node.attr} - (own if of_self(node) else here)
            elif isinstance(node, ast.Call) and ast.unparse(node.func) in ("getattr", "hasattr"):
                name = node.args[1]
                if isinstance(name, ast.Constant) and is_private(name.value):
                    found.add(name.value)
    return found


def is_ours(owner: type) -> bool:
    return owner.__module__.startswith(plugin.__name__)


@cache
def mixed_classes() -> list[type]:
    """Classes of the plugin with bases of other packages that draw on the screen."""
    found = set()
    for module in pkgutil.walk_packages(plugin.__path__, f"{plugin.__name__}."):
        for each in vars(importlib.import_module(module.name)).values():
            if inspect.isclass(each) and is_ours(each) and foreign_bases(each):
                found.add(each)
    points, surface = Points(), Surface((np.zeros((3, 3)), np.array([[0, 1, 2]])))
    found.add(on_volume._with(spheres._Slicing, type(points._slicing_state)))
    found.add(on_volume._with(on_volume._Permuted, type(surface._slicing_state)))
    return sorted(found, key=lambda each: each.__qualname__)


def foreign_bases(owner: type) -> list[type]:
    return [base for base in owner.__mro__ if base.__module__.partition(".")[0] in FOREIGN]


@cache
def classes_in(module: str) -> dict[str, ast.ClassDef]:
    try:
        tree = ast.parse(inspect.getsource(importlib.import_module(module)))
    except (OSError, TypeError):  # compiled, as Qt's
        return {}
    return {node.name: node for node in ast.walk(tree) if isinstance(node, ast.ClassDef)}


def tree_of(owner: type) -> ast.AST:
    return classes_in(owner.__module__).get(owner.__name__, ast.Module([], []))


def inherited_attributes(owner: type) -> set[str]:
    """Private attributes of self that a class of ours uses and a base of others has, or sets."""
    used = {
        node.attr
        for base in filter(is_ours, owner.__mro__)
        for node in ast.walk(tree_of(base))
        if isinstance(node, ast.Attribute) and is_private(node.attr) and of_self(node)
    }
    return used & set().union(*map(names_in, foreign_bases(owner)))


@pytest.mark.parametrize(("module", "name"), sorted(private_imports()))
def test_a_private_import_is_still_there(module: str, name: str) -> None:
    assert hasattr(importlib.import_module(module), name), f"{module}.{name} is gone"


def test_there_are_private_imports_to_look_at() -> None:
    assert ("napari._vispy.layers.tracks", "VispyTracksLayer") in private_imports()


def test_every_private_attribute_is_written_down() -> None:
    called = {"_change_ndisplay"}  # by napari alone
    assert private_attributes() - REPLACED | called <= set(ATTRIBUTES)
    inherited = set().union(*map(inherited_attributes, mixed_classes()))
    assert private_attributes() - REPLACED | called | inherited - REPLACED == set(ATTRIBUTES)


@cache
def names_in(owner: type) -> frozenset[str]:
    """Every name that a class and its bases define, mention or set."""
    stored = {
        node.attr
        for base in owner.__mro__[:-1]
        if not is_ours(base)
        for node in ast.walk(tree_of(base))
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store)
    }
    return frozenset(stored).union(*(vars(base) for base in owner.__mro__ if not is_ours(base)))


@pytest.mark.parametrize("name", sorted(ATTRIBUTES))
def test_a_private_attribute_is_still_there(name: str) -> None:
    owner = ATTRIBUTES[name]
    assert name in names_in(owner), f"napari {napari.__version__}: {owner.__name__}.{name} is gone"


def overridden(ours: type) -> set[str]:
    """Private methods of other packages that a class of ours replaces."""
    named = {name for cls in filter(is_ours, ours.__mro__) for name in vars(cls)}
    theirs = set().union(*map(vars, foreign_bases(ours)))
    return {name for name in named & theirs if is_private(name)} - {"_abc_impl"}


def test_private_methods_that_are_replaced_are_still_called_so() -> None:
    classes = mixed_classes()
    assert {"Streamlines", "VispyLitSurface", "Row"} <= {each.__name__ for each in classes}
    assert set().union(*map(overridden, classes)) == REPLACED


EVERY_NAME = sorted(
    {*ATTRIBUTES, *REPLACED, *(".".join(each) for each in private_imports())}
    - {"_extent_data"}  # abstract in napari's Layer: no layer is without it
)
NEEDED = "_view_data"  # where the visual is napari's own


def hour_without(*names: str) -> str:
    """What an hour at the panel tells under a napari in which names are gone."""
    ran = subprocess.run(
        [sys.executable, "-W", "ignore", NAMES_GONE, *names], capture_output=True, text=True
    )
    assert ran.returncode == 0, ran.stderr[-3000:]
    return ran.stdout


def test_without_any_private_name_the_panel_opens_and_tracks() -> None:
    assert "drawn: True in a slice, True in 3-D" in hour_without(*set(EVERY_NAME) - {NEEDED})


@pytest.mark.slow
@pytest.mark.parametrize("name", EVERY_NAME)
def test_without_a_private_name_the_panel_opens_and_tracks(name: str) -> None:
    assert "drawn: True in a slice, True in 3-D" in hour_without(name)
