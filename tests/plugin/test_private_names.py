"""Every name of napari's and vispy's inside that the plugin uses: all of them written down here.

When one of these fails after an update of napari, the name has moved or is gone: look for what took
its place, then change the plugin and this list. The upper bound in pyproject.toml holds until then.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import pkgutil
from functools import cache
from pathlib import Path
from typing import Any

import napari
import pytest
from napari._qt.layer_controls.dynamic.widgets import qt_widget_controls_base as dynamic
from napari._qt.layer_controls.qt_layer_controls_base import QtLayerControls
from napari._qt.layer_controls.widgets.qt_widget_controls_base import QtWidgetControlsBase
from napari._qt.qt_main_window import Window, _QtMainWindow
from napari._vispy.layers.tracks import VispyTracksLayer
from napari.components import LayerList, ViewerModel
from napari.layers import Layer, Points, Surface, Tracks
from vispy.geometry import MeshData
from vispy.scene.visuals import Compound

from napari_tractography import plugin
from napari_tractography.plugin.layers.lit_surfaces import VispyLitSurface

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
    "_colormap": Tracks,
    "_data_slice": Layer,
    "_face": Points,
    "_get_base_state": Layer,
    "_layer": QtWidgetControlsBase,
    "_light_direction": VispyLitSurface,
    "_master_transform": VispyTracksLayer,
    "_max_tracks_thumbnail": Tracks,
    "_meshdata": VispyLitSurface,
    "_on_layers_change": ViewerModel,
    "_qt_viewer": Window,
    "_quit_app": _QtMainWindow,
    "_reemit_child_event": LayerList,
    "_slice_input": Layer,
    "_slicing_state": Layer,
    "_subvisuals": Compound,
    "_task_status_manager": Window,
    "_texture_filter": VispyLitSurface,
    "_thumbnail_shape": Layer,
    "_vertex_colors": Surface,
    "_vertices": MeshData,
    "_view_indices": Points,
}
# Private members of theirs that classes of ours replace.
REPLACED = {
    "_extent_data",
    "_extent_data_augmented",
    "_get_layer_slicing_state",
    "_get_ndim",
    "_get_state",
    "_get_tooltip_text",
    "_on_appearance_change",
    "_on_graph_change",
    "_on_texture_change",
    "_on_tracks_change",
    "_on_view_direction_change",
    "_recolor_tracks",
    "_set_view_slice",
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
    assert ("napari.layers.tracks.tracks", "_TracksSlicingState") in private_imports()


def test_every_private_attribute_is_written_down() -> None:
    called = {"_change_ndisplay"}  # by napari alone
    assert private_attributes() | called <= set(ATTRIBUTES)
    inherited = set().union(*map(inherited_attributes, mixed_classes()))
    assert private_attributes() | called | inherited - REPLACED == set(ATTRIBUTES)


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
