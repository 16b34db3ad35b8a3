"""The repository itself: manifest, versions, layering, set-up, and that the documents are true."""

from __future__ import annotations

import ast
import importlib.util
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from graphlib import TopologicalSorter
from pathlib import Path
from types import ModuleType

import nibabel as nib
import numpy as np
import pytest
import yaml
from dipy.reconst.shm import real_sh_tournier

import napari_tractography

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src" / "napari_tractography"
DOCUMENTS = ["README.md", "docs/quickstart.md"]

TOOLKITS = {"PyQt5", "PyQt6", "PySide6", "magicgui", "napari", "qtpy", "superqt", "vispy"}
# The floors of the house, from the ground up: what a room imports lies on its own floor or below.
# A room is what is named here with all that is in it, unless that is named itself.
FLOORS = {
    room: number
    for number, rooms in enumerate(
        (
            "version errors arrays buffers grid directions philox stop parameters "
            "tracking.algorithms",
            "fields",
            "fod",
            "files",
            "tractogram seeds regions phantoms",
            "tracking",
            "maps recipes",
            "benchmark",
            "plugin plugin.space",
            "plugin.streamlines",
            "plugin.layers",
            "plugin.session plugin.contributions",
            "plugin.export",
            "plugin.panel",
            "plugin.demo",
            "cli",
            "__main__",
        )
    )
    for room in rooms.split()
}
ROOF = ""  # the package itself, which hands on names of all rooms
MOST_FILES = 12  # of a room, without its face
MOST_LINES = 450  # of a file
KNOWING_CUPY = {"arrays"}
# The only places that load what is not written down there: names that the package hands on, and
# what a row of a table names.
LOADING_BY_NAME = {ROOF}


# ------------------------------------------------------------------------------ manifest, metadata


def test_manifest_at_the_root_shows_the_one_in_the_package() -> None:
    link = ROOT / "napari.yaml"
    assert link.is_symlink()
    assert not os.readlink(link).startswith("/")
    assert link.resolve() == SOURCE / "napari.yaml"


def test_manifest_is_valid() -> None:
    from npe2 import PluginManifest

    manifest = PluginManifest.from_file(ROOT / "napari.yaml")
    assert manifest.name == "napari-tractography"
    commands = {command.id for command in manifest.contributions.commands or ()}
    assert len(commands) == len(manifest.contributions.commands or ())


def test_manifest_names_functions_that_exist() -> None:
    from npe2 import PluginManifest

    manifest = PluginManifest.from_file(ROOT / "napari.yaml")
    manifest.validate_imports()


def test_versions_agree() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text("utf-8"))
    newest = re.search(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text("utf-8"), flags=re.M)
    assert newest is not None
    versions = {project["version"], str(citation["version"]), newest[1]}
    assert versions == {napari_tractography.__version__}


def test_wheel_holds_all_that_is_needed_at_run_time(tmp_path: Path) -> None:
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)],
        cwd=ROOT,
        check=True,
        capture_output=True,
    )
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        held = set(archive.namelist())
    wanted = {
        path.relative_to(SOURCE.parent).as_posix()
        for path in SOURCE.rglob("*")
        if path.suffix in {".py", ".yaml", ".typed", ".cu", ".cuh", ".h", ".json"}
    }
    assert wanted <= held
    assert not [name for name in held if "__pycache__" in name]
    assert any(name.endswith("licenses/LICENSE") for name in held)


# ------------------------------------------------------------------------------------ the layering


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


ALL_IMPORTS = {name: list(_imports(name, path)) for name, path in _modules().items()}


def _room(module: str) -> str:
    rooms = [room for room in FLOORS if module == room or module.startswith(room + ".")]
    return max(rooms, key=len)


def _floor(module: str) -> int:
    return len(FLOORS) if module == ROOF else FLOORS[_room(module)]


def _own(module: str) -> set[str]:
    """Return the modules of this package that a module imports, in whatever way."""
    return {found.name[1:] for found in ALL_IMPORTS[module] if found.name.startswith("~")}


def test_the_reader_of_imports_sees_them() -> None:
    assert Import("~errors", True) in ALL_IMPORTS["grid"]
    assert Import("numba", True) in ALL_IMPORTS["tracking.cpu.kernel"]
    text = """
from typing import TYPE_CHECKING
from importlib import import_module
if TYPE_CHECKING:
    from ..fod import Fod
def later():
    from ..grid import Grid
    importlib.import_module("cupy.cuda")
    import_module("cupyx")
    __import__("numba.core")
    import_module(name)
"""
    found = list(_imports("tracking.made", Path("made.py"), text))
    assert Import("~fod", False) in found
    assert Import("~grid", False) in found
    assert [i for i in found if i.name in {"cupy", "cupyx", "numba", "?"}] == [
        Import(name, False) for name in ("cupy", "cupyx", "numba", "?")
    ]


def test_imports_point_down() -> None:
    """Deferred imports and those for types alone as well."""
    climbing = [
        f"{module} imports {name}"
        for module in ALL_IMPORTS
        for name in sorted(_own(module))
        if _floor(name) > _floor(module)
    ]
    assert climbing == []


def test_imports_go_round_in_no_circle() -> None:
    """Neither do deferred ones, nor those for types alone."""
    # The face of a package hands on names of its own modules, which do not ask for it.
    graph = {module: _own(module) - {module, ROOF} for module in ALL_IMPORTS}
    assert "errors" in list(TopologicalSorter(graph).static_order())


def test_contributions_stand_beside_the_session() -> None:
    assert not [name for name in _own("plugin.contributions") if _room(name) == "plugin.session"]
    neighbours = [m for m in ALL_IMPORTS if m.startswith("plugin.session")]
    assert neighbours
    assert not [m for m in neighbours if "plugin.contributions" in _own(m)]


def test_a_room_can_be_taken_in_at_a_glance() -> None:
    crowded = {
        str(folder.relative_to(SOURCE)): len(files)
        for folder in SOURCE.rglob("*")
        if len(files := [p for p in folder.glob("*.py") if p.name != "__init__.py"]) > MOST_FILES
    }
    assert crowded == {}


def test_files_are_short() -> None:
    suffixes = {".py", ".cu", ".h"}
    found = [p for p in SOURCE.rglob("*") if p.suffix in suffixes]
    long = {
        str(path.relative_to(ROOT)): n
        for path in [*found, *(ROOT / "tests").rglob("*.py"), *(ROOT / "benchmarks").glob("*.py")]
        if (n := len(path.read_text("utf-8").splitlines())) > MOST_LINES
    }
    assert len(found) > 100
    assert long == {}


def test_only_the_plugin_knows_a_toolkit() -> None:
    strangers = [
        f"{module} imports {found.name}"
        for module, imports in ALL_IMPORTS.items()
        for found in imports
        if found.name in TOOLKITS and not module.startswith("plugin")
    ]
    assert strangers == []


def test_cupy_is_imported_in_one_place_and_on_first_use() -> None:
    strangers = [
        f"{module} imports {found.name}"
        for module, imports in ALL_IMPORTS.items()
        for found in imports
        if found.name in {"cupy", "cupyx"} and (found.at_load or module not in KNOWING_CUPY)
    ]
    assert strangers == []


def test_nothing_else_is_loaded_by_a_name_that_is_not_written_down() -> None:
    places = {m for m, imports in ALL_IMPORTS.items() if "?" in {found.name for found in imports}}
    assert places == LOADING_BY_NAME


def test_importing_the_package_loads_nothing_heavy() -> None:
    code = "import sys, napari_tractography; print(*{name.split('.')[0] for name in sys.modules})"
    loaded = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True
    ).stdout.split()
    assert "napari_tractography" in loaded
    assert {*TOOLKITS, "cupy", "dipy", "nibabel", "numba", "scipy"}.isdisjoint(loaded)


def test_public_names_lead_somewhere() -> None:
    for name in napari_tractography.__all__:
        assert getattr(napari_tractography, name) is not None


# --------------------------------------------------------------------------------- what is written


def _own_files() -> Iterator[Path]:
    yield from (path for path in ROOT.iterdir() if path.is_file())
    for folder in (".ci", "benchmarks", "docs", "examples", "scripts", "src", "tests"):
        yield from (
            path
            for path in (ROOT / folder).rglob("*")
            if path.is_file() and "__pycache__" not in path.parts
        )


def test_no_file_names_a_registry_or_one_persons_folders() -> None:
    # Where packages come from is for each machine to say. Spelt so that this file passes too.
    forbidden = [
        "pypi" + ".org",
        "python" + "hosted",
        "anaconda" + ".org",
        "ghcr" + ".io",
        "docker" + ".io",
        "index" + "-url",
        "find" + "-links",
        "/" + "work/",
        "/" + "home/",
    ]
    found = []
    for path in _own_files():
        try:
            text = path.read_text("utf-8")
        except UnicodeDecodeError:
            continue  # a picture
        found += [f"{path.relative_to(ROOT)}: {word}" for word in forbidden if word in text]
    assert found == []


@pytest.fixture(scope="module")
def docs_script() -> ModuleType:
    """scripts/docs.py as a module."""
    spec = importlib.util.spec_from_file_location("docs_script", ROOT / "scripts" / "docs.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_pages_derived_from_the_code_are_up_to_date(docs_script: ModuleType) -> None:
    assert docs_script.stale_pages() == [], "run `make docs`"


def test_stale_page_is_noticed(docs_script: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    assert docs_script.stale_pages(tmp_path) == list(docs_script.PAGES)
    for name, write in docs_script.PAGES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(write(), "utf-8")
    (tmp_path / "docs" / "parameters.md").write_text("# Parameters\n")
    assert docs_script.stale_pages(tmp_path) == ["docs/parameters.md"]


def test_links_lead_somewhere(docs_script: ModuleType) -> None:
    assert docs_script.broken_links() == []


def test_broken_links_are_noticed(docs_script: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text(
        "# Here we are\n[a](#here-we-are) [b](#there) [c](README.md) [d](gone.md) [e](https://x)\n"
    )
    assert docs_script.broken_links(tmp_path) == ["README.md: #there", "README.md: gone.md"]


def _blocks(document: str, language: str) -> list[str]:
    text = (ROOT / document).read_text("utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```", text, flags=re.M | re.S)


@pytest.fixture
def folder_with_fod(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A current folder with the wmfod.nii.gz of the documents: fibres along x, everywhere."""
    coefficients, _, _ = real_sh_tournier(8, np.array([np.pi / 2]), np.array([0.0]), legacy=False)
    volume = np.broadcast_to(coefficients.astype(np.float32), (25, 25, 25, 45))
    affine = np.diag([2.0, 2.0, 2.0, 1.0])
    affine[:3, 3] = np.array([-12.0, 4.0, 30.0]) - 24.0  # the documents' seed in the middle
    nib.save(nib.Nifti1Image(volume, affine), tmp_path / "wmfod.nii.gz")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("document", DOCUMENTS)
def test_python_of_the_documents_runs(document: str, folder_with_fod: Path) -> None:
    exec("\n".join(_blocks(document, "python")), {})  # the documents are ours
    streamlines = nib.streamlines.load(folder_with_fod / "bundle.trk").streamlines
    assert len(streamlines) == 1000
    extent = np.ptp(streamlines.get_data(), axis=0)
    assert extent[0] > 40  # along the fibres from end to end of the 50 mm


@pytest.mark.parametrize("document", DOCUMENTS)
def test_commands_of_the_documents_run(document: str, folder_with_fod: Path) -> None:
    lines = "".join(_blocks(document, "sh")).replace("\\\n", " ").splitlines()
    commands = [shlex.split(line) for line in lines if line.startswith("napari-tractography ")]
    commands = [words[1:] for words in commands if words[1] != "demo"]  # which opens a window
    assert commands
    for words in commands:
        result = subprocess.run(
            [Path(sys.executable).with_name("napari-tractography"), *words],
            capture_output=True,
            text=True,
        )
        assert result.returncode == 0, result.stderr
    assert len(nib.streamlines.load(folder_with_fod / "bundle.tck").streamlines) == 1000


# ------------------------------------------------------------------------------------- the set-up

needs_make = pytest.mark.skipif(shutil.which("make") is None, reason="no make on this machine")
needs_linux = pytest.mark.skipif(sys.platform != "linux", reason="system packages are Debian's")


def _plan_of_make(*arguments: str) -> str:
    """Return what make would do, without doing it."""
    return subprocess.run(
        ["make", "--dry-run", *arguments], cwd=ROOT, check=True, capture_output=True, text=True
    ).stdout


@needs_make
@pytest.mark.parametrize("document", [*DOCUMENTS, "CONTRIBUTING.md", "docs/install.md"])
def test_make_knows_every_target_of_the_documents(document: str) -> None:
    text = (ROOT / document).read_text("utf-8")
    targets = set(re.findall(r"(?:^|`|python3 )make ([a-z-]+)", text, flags=re.M))
    for target in targets:
        assert _plan_of_make(target)
    assert targets or document == "docs/quickstart.md"


@needs_make
def test_demo_takes_a_path_with_spaces() -> None:
    assert '--fod "my data/fod.nii.gz"' in _plan_of_make("demo", "FOD=my data/fod.nii.gz")
    assert "--fod" not in _plan_of_make("demo")


def test_continuous_integration_calls_make_test_and_nothing_else() -> None:
    script = ROOT / ".ci" / "run"
    assert os.access(script, os.X_OK)
    lines = [line for line in script.read_text("utf-8").splitlines() if not line.startswith("#")]
    assert lines == [
        "set -euo pipefail",
        'cd "$(dirname "${BASH_SOURCE[0]}")/.."',
        "exec make test",
    ]


@pytest.fixture
def bare_checkout(tmp_path: Path) -> Path:
    """A copy of what set-up reads, without an environment."""
    shutil.copytree(ROOT / "scripts", tmp_path / "scripts")
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    return tmp_path


def _set_up(checkout: Path, purpose: str, **environment: str) -> subprocess.CompletedProcess[str]:
    bash = shutil.which("bash")
    assert bash is not None
    return subprocess.run(
        [bash, checkout / "scripts" / "setup.sh", purpose],
        env={"PATH": os.environ["PATH"], **environment},
        capture_output=True,
        text=True,
    )


def test_set_up_names_the_python_that_will_not_do(bare_checkout: Path) -> None:
    result = _set_up(bare_checkout, "demo", SKIP_SYSTEM_CHECK="1", PYTHON="/nowhere/python2")
    assert result.returncode == 1
    assert result.stderr == "setup: PYTHON=/nowhere/python2 is no Python 3.11 or newer.\n"
    assert not (bare_checkout / ".venv").exists()


@needs_linux
def test_set_up_names_what_is_missing_where_it_may_not_install(
    bare_checkout: Path, tmp_path: Path
) -> None:
    programs = tmp_path / "bin"  # a machine with next to nothing, and no apt
    programs.mkdir()
    for name in ("dirname", "uname", "cat"):
        (programs / name).symlink_to(str(shutil.which(name)))
    (programs / "ldconfig").write_text("#!/bin/sh\necho '\tlibEGL.so.1 (libc6,x86-64) => x'\n")
    (programs / "ldconfig").chmod(0o755)
    result = _set_up(bare_checkout, "test", PATH=str(programs))
    assert result.returncode == 1
    assert result.stderr.count("\n") == 1
    named = set(result.stderr.partition("screen: ")[2].partition(". Those")[0].split())
    assert {"libgl1", "libxcb-cursor0", "libxkbcommon-x11-0", "xvfb", "xauth", "g++"} <= named
    assert "libegl1" not in named
    assert not (bare_checkout / ".venv").exists()


@needs_linux
def test_set_up_wants_no_virtual_screen_where_there_is_a_real_one(
    bare_checkout: Path, tmp_path: Path
) -> None:
    programs = tmp_path / "bin"
    programs.mkdir()
    for name in ("dirname", "uname", "cat"):
        (programs / name).symlink_to(str(shutil.which(name)))
    (programs / "ldconfig").write_text("#!/bin/sh\n")
    (programs / "ldconfig").chmod(0o755)
    result = _set_up(bare_checkout, "demo", PATH=str(programs), DISPLAY=":0")
    assert "libgl1" in result.stderr
    assert "xvfb" not in result.stderr
    assert "g++" not in result.stderr
