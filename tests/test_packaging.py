"""What pyproject.toml and the Makefile promise: dependencies, their bounds, the source archive."""

from __future__ import annotations

import ast
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src" / "napari_tractography"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]

DISTRIBUTIONS = {
    "PIL": "pillow",
    "app_model": "app-model",
    "imageio_ffmpeg": "imageio-ffmpeg",
    "skimage": "scikit-image",
    "structure_tensor": "structure-tensor",
    "trx": "trx-python",
    "yaml": "pyyaml",
}
GPU = {"cupy", "cupyx", "pynvml"}  # by names, for which devices.py and arrays.py have sentences
EXTRAS = PROJECT["optional-dependencies"]


@pytest.fixture(scope="module")
def script(load_script: Callable[[str], ModuleType]) -> ModuleType:
    return load_script("minima")


def _imported_names(folder: Path = SOURCE) -> Iterator[str]:
    """Yield "package.module.name" for everything from elsewhere that is imported in a folder."""
    for path in folder.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom) and not node.level:
                names = [f"{node.module}.{alias.name}" for alias in node.names]
            else:
                continue
            yield from (n for n in names if n.partition(".")[0] not in sys.stdlib_module_names)


def _requirement(imported: str) -> str:
    """Return what pyproject.toml says of the package that a name comes from; "" for nothing."""
    package = imported.partition(".")[0]
    name = DISTRIBUTIONS.get(package, package)
    stated = [d for d in PROJECT["dependencies"] if re.split(r"[^\w-]", d)[0] == name]
    return " ".join(stated)


def test_every_python_from_the_lowest_on_is_named() -> None:
    minors = [
        int(found[1])
        for classifier in PROJECT["classifiers"]
        if (found := re.fullmatch(r"Programming Language :: Python :: 3\.(\d+)", classifier))
    ]
    assert PROJECT["requires-python"] == f">=3.{minors[0]}"
    assert minors == list(range(minors[0], minors[-1] + 1))
    page = (ROOT / "docs" / "install.md").read_text("utf-8")
    assert f"Python 3.{minors[0]} to 3.{minors[-1]}." in page


def _name_of(requirement: str) -> str:
    return re.split(r"[^\w-]", requirement)[0]


def _of_extra(extra: str) -> set[str]:
    """Return the names of the packages that an extra brings, those of other extras of ours too."""
    names: set[str] = set()
    for requirement in EXTRAS[extra]:
        others = re.fullmatch(r"napari-tractography\[(.+)\]", requirement)
        names |= set().union(*map(_of_extra, others[1].split(","))) if others else set()
        names |= set() if others else {_name_of(requirement)}
    return names


def test_all_brings_what_runs_on_any_machine(script: ModuleType) -> None:
    assert _of_extra("all") == {"napari"}.union(*map(_of_extra, script.EXTRAS))
    assert set(EXTRAS) - set(script.EXTRAS) == {"all", "cuda12", "cuda13", "dev", "docs", "test"}


def _foreign(node: ast.AST) -> set[str]:
    """Return the packages that a statement imports, by the names that they are installed by."""
    names: list[str] = []
    for found in ast.walk(node):
        if isinstance(found, ast.Import):
            names += [alias.name for alias in found.names]
        elif isinstance(found, ast.ImportFrom) and not found.level:
            names.append(str(found.module))
    packages = {name.partition(".")[0] for name in names} - set(sys.stdlib_module_names)
    return {DISTRIBUTIONS.get(name, name) for name in packages} - {"napari_tractography"}


def _blocks(tree: ast.AST) -> Iterator[tuple[str, ast.With]]:
    """Yield each ``with needs_extra(EXTRA, ...)`` of a module."""
    for node in ast.walk(tree):
        if isinstance(node, ast.With):
            call = node.items[0].context_expr
            if isinstance(call, ast.Call) and ast.unparse(call.func) == "needs_extra":
                assert isinstance(call.args[0], ast.Constant)
                yield str(call.args[0].value), node


def test_an_extra_brings_what_is_imported_for_it() -> None:
    brought: dict[str, set[str]] = {}
    for path in SOURCE.rglob("*.py"):
        for extra, block in _blocks(ast.parse(path.read_text("utf-8"))):
            brought.setdefault(extra, set()).update(_foreign(block))
    wanted = {extra: _of_extra(extra) for extra in brought}
    assert brought == wanted, "what is never imported is no dependency either"


def test_what_may_be_missing_is_imported_where_a_sentence_says_so() -> None:
    """Else by those alone who have it: workers of a cluster, and types."""
    optional = set().union(*map(_of_extra, EXTRAS)) - set(map(_name_of, PROJECT["dependencies"]))
    elsewhere = set()
    for path in SOURCE.rglob("*.py"):
        tree = ast.parse(path.read_text("utf-8"))
        told = {id(node) for _, block in _blocks(tree) for node in ast.walk(block)}
        for node in ast.walk(tree):
            if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
                told |= {id(each) for each in ast.walk(node)}
            if isinstance(node, ast.With) and "suppress(ImportError)" in ast.unparse(node.items[0]):
                told |= {id(each) for each in ast.walk(node)}
            is_import = isinstance(node, ast.Import | ast.ImportFrom)
            if is_import and id(node) not in told and _foreign(node) & optional:
                elsewhere.add(path.relative_to(SOURCE).as_posix())
    known = {"plugin/panel/measure/outputs.py"}  # a canvas for a figure, which Matplotlib has made
    assert {name for name in elsewhere if not name.startswith("tracking/cluster/")} == known


def test_every_package_that_is_imported_is_a_dependency() -> None:
    named = {DISTRIBUTIONS.get(name, name) for name in _imported_packages(SOURCE)} - GPU
    extras = set().union(*map(_of_extra, EXTRAS))
    assert named - set(map(_name_of, PROJECT["dependencies"])) <= extras | {"napari_tractography"}


def _imported_packages(folder: Path) -> set[str]:
    return {name.partition(".")[0] for name in _imported_names(folder)}


def test_every_package_that_tests_import_is_installed_for_them() -> None:
    own = {path.stem for path in (ROOT / "tests").rglob("*.py")}
    own |= {path.stem for path in (ROOT / "benchmarks").iterdir()}
    imported = _imported_packages(ROOT / "tests") - own
    installed = {*map(_name_of, PROJECT["dependencies"]), *_of_extra("test")}
    assert {"hypothesis", "napari", "zarr"} <= imported
    missing = {name for name in imported if DISTRIBUTIONS.get(name, name) not in installed}
    assert missing <= {"cupy", "napari_tractography"}  # CuPy's name has that of CUDA in it


def test_private_interfaces_are_of_packages_with_an_upper_bound() -> None:
    private = {name for name in _imported_names() if re.search(r"\._[^_]|^numba\.core", name)}
    assert {name.partition(".")[0] for name in private} >= {"napari", "numba"}
    assert {name for name in private if "<" not in _requirement(name)} == set()


def test_every_dependency_has_a_lowest_version(script: ModuleType) -> None:
    extras = [d for name in script.EXTRAS for d in EXTRAS[name]]
    stated = [*PROJECT["dependencies"], *extras]
    assert set(script.minima(stated)) == {re.split(r"[^\w.-]", each)[0] for each in stated}


def test_what_other_systems_take_comes_after_the_lowest_version(script: ModuleType) -> None:
    """Whole numbers of NumPy 1 have 32 bits on Windows; Numba 0.62 is the last for Intel Macs."""
    lowest = script.minima(PROJECT["dependencies"])
    assert (lowest["numpy"], lowest["numba"]) == ("1.26", "0.62")
    here = {
        "numpy": "sys_platform == 'win32'",
        "numba": "sys_platform == 'darwin' and platform_machine == 'x86_64'",
    }
    stated = dict(d.split("; ") for d in PROJECT["dependencies"] if ";" in d)
    assert {re.split(r"[^\w.-]", name)[0]: marker for name, marker in stated.items()} == here


def test_the_environment_of_lowest_versions_has_the_extras(script: ModuleType) -> None:
    setup = (ROOT / "scripts" / "setup.sh").read_text("utf-8")
    installed = re.findall(r'packages=\("\.\[([\w,]+)\]" "napari\[pyqt6\]"', setup)
    assert installed == [",".join(script.EXTRAS)]


def test_the_tests_that_meet_lowest_versions_are_there() -> None:
    named = re.findall(r"tests/\S+", (ROOT / "scripts" / "lowest.sh").read_text("utf-8"))
    assert named
    assert [name for name in named if not any(ROOT.glob(name))] == []


def test_lowest_versions_are_read_whatever_else_a_requirement_says(script: ModuleType) -> None:
    requirements = ["a>=1.2,<2", "b-c[x,y]<4,>=3", "d.e >= 0.5.1 ; python_version >= '3.12'"]
    requirements += ["a>=1.5; sys_platform == 'win32'"]
    assert script.minima(requirements) == {"a": "1.2", "b-c": "3", "d.e": "0.5.1"}


def test_what_people_are_told_to_type_is_in_double_quotes() -> None:
    """To cmd on Windows single quotes are letters, and pip refuses them."""
    pages = [*SOURCE.rglob("*.py"), *(ROOT / "docs").rglob("*.md"), ROOT / "README.md"]
    single = re.compile(r"'(?:[\w-]+\[\w+\]'|sub-\*|\{subject\})")
    found = {page.name: single.findall(page.read_text("utf-8")) for page in pages}
    assert {name: texts for name, texts in found.items() if texts} == {}


@pytest.mark.parametrize("requirement", ["a", "a<2", "a; python_version >= '3.12'"])
def test_a_dependency_without_a_lowest_version_is_refused(
    script: ModuleType, requirement: str
) -> None:
    with pytest.raises(SystemExit, match="no lowest version for 'a"):
        script.minima([requirement])


def test_the_source_archive_has_all_that_building_and_testing_take(
    distributions: dict[str, Path],
) -> None:
    with tarfile.open(distributions["gz"]) as opened:
        names = {name.partition("/")[2] for name in opened.getnames()}
    wanted = {
        path.relative_to(ROOT).as_posix()
        for folder in (".ci", ".github", "scripts", "src", "tests")
        for path in (ROOT / folder).rglob("*")
        if path.is_file() and path.suffix not in {".pyc", ".nbc", ".nbi"}
    }
    assert {*wanted, "LICENSE", "README.md", "Makefile", "pyproject.toml"} <= names
    assert not [name for name in names if "__pycache__" in name or name.startswith("build/")]


@pytest.mark.skipif(shutil.which("make") is None, reason="no make on this machine")
def test_make_clean_looks_in_folders_that_exist() -> None:
    plan = subprocess.run(
        ["make", "--dry-run", "clean"], cwd=ROOT, check=True, capture_output=True, text=True
    ).stdout
    searched = re.findall(r"find (.*?) -name", plan)
    assert searched
    for folder in searched[0].split():
        assert (ROOT / folder).is_dir()
