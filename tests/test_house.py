"""The house: what may import what, and what an import loads."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import napari_tractography

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src" / "napari_tractography"

TOOLKITS = {"PyQt5", "PyQt6", "PySide6", "magicgui", "napari", "qtpy", "superqt", "vispy"}
# The floors of the house, from the ground up: what a room imports lies on its own floor or below.
# A room is a folder or a file of the package's own, with all that is in it.
FLOORS = {
    room: number
    for number, rooms in enumerate(
        (
            "errors version runtime geometry",
            "fields",
            "model",
            "files",
            "streamlines",
            "tracking",
            "maps",
            "recipes",
            "pages",
            "plugin",
            "cli __main__",
        )
    )
    for room in rooms.split()
}
ROOF = ""  # the package itself, which hands on names of all rooms
KNOWING_CUPY = {"runtime.arrays"}
# The only places that load what is not written down there: names that the package hands on, and
# what a row of a table names.
LOADING_BY_NAME = {ROOF, "model.algorithms", "tracking.cpu.kernel"}


@cache
def _modules() -> dict[str, Path]:
    """All modules of the package, as "tracking.cpu" -> path; the package itself is ""."""
    return {
        ".".join(path.relative_to(SOURCE).with_suffix("").parts).removesuffix("__init__").strip("."):
        path
        for path in SOURCE.rglob("*.py")
    }  # fmt: skip


@dataclass(frozen=True)
class Import:
    """An import: our own modules as "~tracking.cpu", others by their top-level name."""

    name: str
    at_load: bool  # whether it runs when the module is loaded


def _is_type_checking(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING")


def _import_nodes(
    node: ast.AST, at_load: bool = True
) -> Iterator[tuple[ast.Import | ast.ImportFrom | ast.Call, bool]]:
    """Yield each import below `node`, and whether it runs when the module is loaded."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Import | ast.ImportFrom):
            yield child, at_load
            continue
        if isinstance(child, ast.Call) and _is_loader(child.func):
            yield child, at_load
        later = isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        yield from _import_nodes(child, at_load and not later and not _is_type_checking(child))


def _is_loader(called: ast.expr) -> bool:
    """Tell whether a function loads the module whose name it is given."""
    return ast.unparse(called).rpartition(".")[2] in {"import_module", "__import__"}


def _imports(module: str, path: Path, text: str | None = None) -> Iterator[Import]:
    """Yield all imports of a module: at its top, deferred, under TYPE_CHECKING and by name."""
    known = _modules()
    package = module.split(".") if path.name == "__init__.py" else module.split(".")[:-1]
    source = path.read_text("utf-8") if text is None else text
    for node, at_load in _import_nodes(ast.parse(source)):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.Call):
            name = node.args[0] if node.args else None
            is_plain = isinstance(name, ast.Constant) and isinstance(name.value, str)
            names = [name.value if is_plain else "?"]  # type: ignore[union-attr]
        elif node.level:
            base = [part for part in package if part][: len(package) - (node.level - 1)]
            start = ".".join(["napari_tractography", *base, *filter(None, [node.module])])
            names = [f"{start}.{alias.name}" for alias in node.names]
        else:
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        for name in names:
            first, _, rest = name.partition(".")
            if first == "napari_tractography":
                found = rest if rest in known else rest.rpartition(".")[0]
                yield Import("~" + found, at_load)
            else:
                yield Import(first, at_load)


@cache
def _all_imports() -> dict[str, list[Import]]:
    """What each module imports; read by the process that asks, not by all that collect."""
    return {name: list(_imports(name, path)) for name, path in _modules().items()}


def _room(module: str) -> str:
    return module.partition(".")[0]


def _floor(module: str) -> int:
    return len(FLOORS) if module == ROOF else FLOORS[_room(module)]


def _own(module: str) -> set[str]:
    """Return the modules of this package that a module imports, in whatever way."""
    return {found.name[1:] for found in _all_imports()[module] if found.name.startswith("~")}


def test_the_reader_of_imports_sees_them() -> None:
    assert Import("~errors", True) in _all_imports()["geometry.grid"]
    assert Import("~cli", True) in _all_imports()["__main__"]
    assert Import("numba", True) in _all_imports()["runtime.compiling"]
    text = """
from typing import TYPE_CHECKING
from importlib import import_module
if TYPE_CHECKING:
    from ..model.fod import Fod
def later():
    from ..geometry.grid import Grid
    importlib.import_module("cupy.cuda")
    import_module("cupyx")
    __import__("numba.core")
    import_module(name)
"""
    found = list(_imports("tracking.made", Path("made.py"), text))
    assert Import("~model.fod", False) in found
    assert Import("~geometry.grid", False) in found
    assert [i for i in found if i.name in {"cupy", "cupyx", "numba", "?"}] == [
        Import(name, False) for name in ("cupy", "cupyx", "numba", "?")
    ]


def test_each_room_has_its_floor() -> None:
    """Files that lie in no folder as well."""
    assert {_room(module) for module in _all_imports()} - {ROOF} == set(FLOORS)


def test_imports_point_down() -> None:
    """Deferred imports and those for types alone as well."""
    climbing = [
        f"{module} imports {name}"
        for module in _all_imports()
        for name in sorted(_own(module))
        if _floor(name) > _floor(module)
    ]
    assert climbing == []


def test_imports_go_round_in_no_circle() -> None:
    """Neither do deferred ones, nor those for types alone."""
    # The face of a package hands on names of its own modules, which do not ask for it.
    graph = {module: _own(module) - {module, ROOF} for module in _all_imports()}
    assert "errors" in list(TopologicalSorter(graph).static_order())


def test_contributions_stand_beside_the_session() -> None:
    assert not [m for m in _own("plugin.contributions") if m.startswith("plugin.session")]
    neighbours = [m for m in _all_imports() if m.startswith("plugin.session")]
    assert neighbours
    assert not [m for m in neighbours if "plugin.contributions" in _own(m)]


def test_only_the_plugin_knows_a_toolkit() -> None:
    strangers = [
        f"{module} imports {found.name}"
        for module, imports in _all_imports().items()
        for found in imports
        if found.name in TOOLKITS and not module.startswith("plugin")
    ]
    assert strangers == []


def test_cupy_is_imported_in_one_place_and_on_first_use() -> None:
    strangers = [
        f"{module} imports {found.name}"
        for module, imports in _all_imports().items()
        for found in imports
        if found.name in {"cupy", "cupyx"} and (found.at_load or module not in KNOWING_CUPY)
    ]
    assert strangers == []


def test_nothing_else_is_loaded_by_a_name_that_is_not_written_down() -> None:
    places = {
        m for m, imports in _all_imports().items() if "?" in {found.name for found in imports}
    }
    assert places == LOADING_BY_NAME


def test_importing_the_package_loads_nothing_heavy() -> None:
    code = "import sys, napari_tractography; print(*{name.split('.')[0] for name in sys.modules})"
    loaded = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True
    ).stdout.split()
    assert "napari_tractography" in loaded
    assert {*TOOLKITS, "cupy", "dipy", "nibabel", "numba", "numpy", "scipy"}.isdisjoint(loaded)


def test_public_names_lead_somewhere() -> None:
    for name in napari_tractography.__all__:
        assert getattr(napari_tractography, name) is not None
