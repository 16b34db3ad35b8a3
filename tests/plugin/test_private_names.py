"""Every name of napari's and vispy's inside that the plugin uses: all of them written down here.

When one of these fails after an update of napari, the name has moved or is gone: look for what took
its place, then change the plugin and this list. The upper bound in pyproject.toml holds until then.
"""

from __future__ import annotations

import ast
import importlib
import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import napari
import pytest
from napari._qt.layer_controls.qt_layer_controls_base import QtLayerControls
from napari._qt.layer_controls.widgets.qt_widget_controls_base import QtWidgetControlsBase
from napari._qt.qt_main_window import Window, _QtMainWindow
from napari._vispy.layers.tracks import VispyTracksLayer
from napari.components import ViewerModel
from napari.layers import Layer, Tracks
from vispy.scene.visuals import Compound

from napari_tractography.plugin.layers.lit_surfaces import VispyLitSurface
from napari_tractography.plugin.streamlines.layer import Streamlines

PLUGIN = Path(__file__).resolve().parents[2] / "src" / "napari_tractography" / "plugin"
FOREIGN = ("napari", "vispy", "magicgui", "superqt", "qtpy")

# Attributes, and of what; an instance has what its class does not.
ATTRIBUTES: dict[str, Any] = {
    "_add_widget_controls": QtLayerControls,
    "_callbacks": QtWidgetControlsBase,
    "_colormap": Tracks,
    "_data_slice": Layer,
    "_get_base_state": Layer,
    "_master_transform": VispyTracksLayer,
    "_max_tracks_thumbnail": Tracks,
    "_meshdata": VispyLitSurface,
    "_on_layers_change": ViewerModel,
    "_qt_viewer": Window,
    "_quit_app": _QtMainWindow,
    "_slice_input": Layer,
    "_slicing_state": Layer,
    "_subvisuals": Compound,
    "_texture_filter": VispyLitSurface,
    "_thumbnail_shape": Layer,
}
# Private members of napari's that the streamlines layer replaces.
REPLACED = {
    "_extent_data",
    "_extent_data_augmented",
    "_get_layer_slicing_state",
    "_get_ndim",
    "_get_state",
    "_get_tooltip_text",
    "_recolor_tracks",
    "_type_string",
    "_update_thumbnail",
}


def sources() -> Iterator[tuple[Path, ast.AST]]:
    for path in PLUGIN.rglob("*.py"):
        yield path, ast.parse(path.read_text("utf-8"))


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


def own_names() -> set[str]:
    """What the package itself calls functions, classes and attributes."""
    found = set()
    for path in PLUGIN.parent.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.FunctionDef | ast.ClassDef):
                found.add(node.name)
            elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
                if ast.unparse(node.value) in ("self", "cls"):
                    found.add(node.attr)
            elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                found.add(node.id)
    return found


def private_attributes() -> set[str]:
    """Private attributes of whatever object that are not our own."""
    own = own_names()
    return {
        node.attr
        for _, tree in sources()
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and is_private(node.attr) and node.attr not in own
    }


@pytest.mark.parametrize(("module", "name"), sorted(private_imports()))
def test_a_private_import_is_still_there(module: str, name: str) -> None:
    assert hasattr(importlib.import_module(module), name), f"{module}.{name} is gone"


def test_there_are_private_imports_to_look_at() -> None:
    assert ("napari.layers.tracks.tracks", "_TracksSlicingState") in private_imports()


def test_every_private_attribute_is_written_down() -> None:
    assert private_attributes() == set(ATTRIBUTES)


def names_in(owner: type) -> set[str]:
    """Every name that a class and its bases define, mention or set."""
    found = set(dir(owner))
    for base in owner.__mro__[:-1]:
        try:
            tree = ast.parse(inspect.getsource(base).lstrip())
        except (OSError, TypeError, IndentationError):  # compiled, as Qt's
            continue
        found |= {
            node.attr
            for node in ast.walk(tree)
            if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store)
        }
    return found


@pytest.mark.parametrize("name", sorted(ATTRIBUTES))
def test_a_private_attribute_is_still_there(name: str) -> None:
    owner = ATTRIBUTES[name]
    assert name in names_in(owner), f"napari {napari.__version__}: {owner.__name__}.{name} is gone"


def overridden(ours: type) -> set[str]:
    """Private methods of other packages that a class of ours replaces."""
    mine = [cls for cls in ours.__mro__ if cls.__module__.startswith("napari_tractography")]
    theirs = [cls for cls in ours.__mro__ if cls not in mine and cls is not object]
    named = {name for cls in mine for name in vars(cls) if is_private(name)}
    return {name for name in named if any(name in vars(cls) for cls in theirs)}


def test_private_methods_that_are_replaced_are_still_called_so() -> None:
    assert overridden(Streamlines) - {"_abc_impl"} == REPLACED
