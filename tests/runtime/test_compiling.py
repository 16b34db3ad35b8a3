"""Cached machine code: named by all that is compiled in, hence never out of date."""

from __future__ import annotations

import os
import pickle
import re
import subprocess
import sys
from pathlib import Path

import numba
import numpy as np
import pytest
from llvmlite import binding
from numba import njit

import napari_tractography
from napari_tractography.maps.traversal import count_passes
from napari_tractography.runtime import compiling, machine_code
from napari_tractography.runtime.compiling import bound, checksum, has_code_for, sources_of
from napari_tractography.runtime.machine_code import N_DIGEST
from napari_tractography.streamlines.compiled_loops import mark
from napari_tractography.tracking.cpu.lanes import in_order

PACKAGE = Path(napari_tractography.__file__).parent
KERNEL = "napari_tractography.tracking.cpu.kernel"


def named(*modules: str) -> set[str]:
    return {path.relative_to(PACKAGE).as_posix() for path in sources_of(*modules)}


def test_what_a_module_imports_counts_and_what_that_imports():
    assert named("napari_tractography.maps.traversal") == {
        "maps/traversal.py",
        "runtime/compiling.py",
        "runtime/machine_code.py",
        "runtime/caches.py",
    }
    kernel = named(KERNEL)
    assert {
        "tracking/codes.py",
        "geometry/directions.py",
        "model/parameters.py",
        "model/philox.py",
        "model/stop.py",
        "tracking/cpu/cells.py",
        "tracking/cpu/draw.py",
        "tracking/cpu/sphere/evaluation.py",
        "tracking/cpu/lanes.py",
        "tracking/cpu/stepping.py",
    } <= kernel
    assert "tracking/cpu/langevin.py" not in kernel
    assert "model/algorithms/diffusion.py" not in kernel
    langevin = named(KERNEL, "napari_tractography.tracking.cpu.langevin")
    assert langevin - kernel == {
        "tracking/cpu/langevin.py",
        "model/algorithms/diffusion.py",
    }


def test_imports_in_functions_and_for_type_checkers_do_not_count(tmp_path, monkeypatch):
    package = tmp_path / "toy_imports"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "here.py").write_text(
        "from typing import TYPE_CHECKING\n"
        "from . import one\n"
        "from .two import number\n"
        "import toy_imports.three\n"
        "if TYPE_CHECKING:\n    from . import four\n"
        "def late():\n    from . import five\n"
    )
    for name in ("one", "two", "three", "four", "five"):
        (package / f"{name}.py").write_text("number = 1\n")
    monkeypatch.syspath_prepend(tmp_path)
    __import__("toy_imports.here")
    found = [path.name for path in sources_of("toy_imports.here")]
    assert found == ["__init__.py", "here.py", "one.py", "three.py", "two.py"]


def test_words_do_not_count(tmp_path, monkeypatch):
    package = tmp_path / "toy_words"
    package.mkdir()
    (package / "__init__.py").write_text("")
    contents = [
        "def f(x):\n    return x + 1\n",
        '"""A module."""\n\n\ndef f(x):\n    """Return more."""\n    # More.\n    return x + 1\n',
        "def f(x):\n    return x + 2\n",
        "def f(x):\n    return '2'\n",
        "def f(x):\n    return '3'\n",
    ]
    monkeypatch.syspath_prepend(tmp_path)
    found = []
    for content in contents:
        (package / "here.py").write_text(content)
        for kept in (compiling._tree_of, compiling._code_of, compiling.checksum):
            kept.cache_clear()
        __import__("toy_words.here")
        found.append(checksum("toy_words.here"))
    assert found[0] == found[1]
    assert len(set(found)) == 4


def test_functions_that_are_kept_on_the_disk_are_named_by_what_is_compiled_in():
    for function in (count_passes, in_order):
        name, module = function.py_func.__qualname__, function.py_func.__module__
        end = f"{module.rpartition('.')[2]}.{name}-{checksum(module):08x}"
        assert function._cache.prefix == end


def test_no_module_caches_machine_code_by_another_way():
    users = {
        path.relative_to(PACKAGE).as_posix()
        for path in PACKAGE.rglob("*.py")
        if re.search(r"cache=True|= Kept(Code|Part)\(", path.read_text("utf-8"))
    }
    assert users == {"runtime/compiling.py"}


FACTOR = 2


def scaled(x):
    return FACTOR * x


def test_a_bound_function_reads_other_globals_and_leaves_the_original_as_it_is():
    assert njit(bound(scaled, FACTOR=5))(3) == 15
    assert scaled(3) == 6


FILES = {
    "__init__.py": "",
    "numbers.py": "FACTOR = 2\n",
    "loops.py": """
from napari_tractography.runtime.compiling import cached
from .numbers import FACTOR

@cached(nogil=True)
def scaled(x):
    return FACTOR * x
""",
}
COUNT = """
from toy.loops import scaled
print(scaled(3), sum(scaled.stats.cache_misses.values()))
"""


@pytest.fixture
def run(tmp_path):
    """Scales 3 with a package, in a process of its own; the result, and how often it compiled."""

    def run(folder: Path, **environment: str) -> list[int]:
        path = os.pathsep.join((str(folder), str(PACKAGE.parent)))
        kept = {**os.environ, "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1"}
        kept.pop("NUMBA_CACHE_DIR", None)
        cache = str(tmp_path / "cache")
        folders = {"XDG_CACHE_HOME": cache, "LOCALAPPDATA": cache, "HOME": cache}
        result = subprocess.run(
            [sys.executable, "-c", COUNT],
            env=kept | folders | environment,
            check=True,
            capture_output=True,
            text=True,
        )
        return [int(word) for word in result.stdout.split()]

    return run


def package_in(folder: Path) -> Path:
    (folder / "toy").mkdir(parents=True)
    for name, text in FILES.items():
        (folder / "toy" / name).write_text(text)
    return folder


def test_a_change_of_another_file_that_is_compiled_in_is_noticed(tmp_path, run):
    folder = package_in(tmp_path)
    assert run(folder) == [6, 1]
    (folder / "toy" / "numbers.py").write_text("FACTOR = 3\n")
    assert run(folder) == [9, 1]
    assert run(folder) == [9, 0]  # and is kept from then on


def test_another_copy_of_a_package_compiles_nothing_again(tmp_path, run):
    """See test_algorithms.py for a kernel that tracks."""
    one, other = (package_in(tmp_path / name) for name in ("one", "other"))
    assert run(one) == [6, 1]
    loops = other / "toy" / "loops.py"  # newer, and with a comment more
    loops.write_text("# Loops.\n" + loops.read_text())
    assert run(other) == [6, 0]
    assert run(other, NUMBA_CACHE_DIR=str(tmp_path / "elsewhere")) == [6, 1]


PARTS = """
import itertools, sys
from numba.core.bytecode import FunctionIdentity
from toy.parts import inner, outer

FunctionIdentity._unique_ids = itertools.count(int(sys.argv[1]))
print(outer(3), sum(inner.stats.cache_misses.values()))
"""
PART_FILES = {
    "__init__.py": "",
    "other.py": "",
    "parts.py": """
from napari_tractography.runtime.compiling import OPTIONS, bound, cached, compiled, inlined, kept

FACTOR = 2

def helper(x):
    return FACTOR * x

twice = compiled(helper)
thrice = compiled(bound(helper, FACTOR=3))

@inlined
def around(x):
    return 100 * thrice(x)

@kept
def inner(x):
    return twice(x) + 1

@cached("toy.other", **OPTIONS)
def outer(x):
    return around(x) + inner(x)
""",
}


@pytest.fixture
def run_parts(tmp_path):
    """Calls a function with a part, numbering functions from the given number.

    Returns the result, and how often the part was compiled.
    """
    package = tmp_path / "toy"
    package.mkdir()
    for name, text in PART_FILES.items():
        (package / name).write_text(text)

    def run(first_number: int) -> list[int]:
        path = os.pathsep.join((str(tmp_path), str(PACKAGE.parent)))
        environment = {**os.environ, "PYTHONPATH": path, "NUMBA_CACHE_DIR": str(tmp_path / "kept")}
        result = subprocess.run(
            [sys.executable, "-c", PARTS, str(first_number)],
            env=environment,
            check=True,
            capture_output=True,
            text=True,
        )
        return [int(word) for word in result.stdout.split()]

    return run


def test_a_part_is_compiled_once_for_all_that_call_it(tmp_path, run_parts):
    """Also where a function in it has the name that another has in another process.

    Numba numbers functions as it compiles them: `outer`, `around`, `thrice`, `inner`, `twice`.
    """
    assert run_parts(1000) == [907, 1]
    (tmp_path / "toy" / "other.py").write_text("NEW = 1\n")
    assert run_parts(1002) == [907, 0]  # `thrice` has the number that `twice` had


def test_what_a_part_calls_has_names_of_its_own(tmp_path, run_parts, monkeypatch):
    """What is internal is specialized: under its old name it would stand in for what is not."""
    run_parts(1000)
    (file,) = (tmp_path / "kept").glob("parts.inner-*")
    monkeypatch.syspath_prepend(tmp_path)
    _, code, description, *_ = pickle.loads(file.read_bytes()[N_DIGEST:])
    defined = {f.name for f in binding.parse_bitcode(code).functions if not f.is_declaration}
    others = defined - {description.llvm_func_name}
    assert any("helper" in name for name in others)
    assert all(".of." in name for name in others)


def test_where_no_cache_folder_can_be_written_code_is_kept_beside_the_sources(
    hits, tmp_path, monkeypatch
) -> None:
    monkeypatch.setattr(numba.config, "CACHE_DIR", "")
    monkeypatch.setattr(machine_code, "__file__", str(tmp_path / "package" / "machine_code.py"))
    (tmp_path / "file").write_text("")
    for name in ("XDG_CACHE_HOME", "LOCALAPPDATA", "HOME"):
        monkeypatch.setenv(name, str(tmp_path / "file"))
    assert [hits(1), hits(1)] == [0, 1]
    (kept,) = (tmp_path / "package").rglob("*.nbc")
    assert kept.parent.name == "__pycache__"
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path / "file"))
    assert [hits(1), hits(1)] == [0, 0]  # kept nowhere


@pytest.fixture
def hits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Compiles, or loads, a function whose text is the same each time, and calls it."""
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path))

    def hits(content: int, argument: float = 4) -> int:
        monkeypatch.setattr(compiling, "checksum", lambda *modules: content)

        def doubled(x: float) -> float:
            return x + x

        function = compiling.cached(nogil=True)(doubled)
        assert function(argument) == 2 * argument
        return sum(function.stats.cache_hits.values())

    return hits


def test_code_on_disk_is_found_by_what_is_compiled_in_and_by_types(hits, tmp_path) -> None:
    assert [hits(1), hits(1), hits(2), hits(2), hits(1)] == [0, 1, 0, 1, 1]
    assert len(list(tmp_path.iterdir())) == 2
    assert [hits(1, 0.5), hits(1, 0.5), hits(1)] == [0, 1, 1]


@pytest.mark.parametrize("version", ["Python", "Numba", "llvmlite", "NumPy", "processor"])
def test_code_of_other_versions_and_processors_is_not_run(hits, monkeypatch, version) -> None:
    names = ["cache_tag", "Python", "Numba", "llvmlite", "NumPy"]
    assert [hits(1), hits(1)] == [0, 1]
    if version in names:
        versions = list(machine_code.VERSIONS)
        versions[names.index(version)] += ".1"
        monkeypatch.setattr(machine_code, "VERSIONS", tuple(versions))
    else:
        codegen = type(mark.targetctx.codegen())
        monkeypatch.setattr(codegen, "magic_tuple", lambda _: ("x86_64", "another", "+avx9"))
    assert [hits(1), hits(1)] == [0, 1]


@pytest.mark.parametrize("damage", [b"", b"PK", None])
def test_a_damaged_file_is_compiled_anew(hits, tmp_path, damage) -> None:
    assert [hits(1), hits(1)] == [0, 1]
    (path,) = tmp_path.iterdir()
    path.write_bytes(path.read_bytes()[:-1] if damage is None else damage)
    assert [hits(1), hits(1)] == [0, 1]


def test_code_in_use_counts_as_new(hits, tmp_path) -> None:
    """So that what is deleted first is what nobody runs."""
    assert hits(1) == 0
    (path,) = tmp_path.iterdir()
    os.utime(path, (0, 0))
    assert hits(1) == 1
    assert path.stat().st_mtime > 1e9


def test_code_that_cannot_be_read_is_compiled(hits, monkeypatch) -> None:
    """Windows refuses to open a file that another process is replacing."""
    assert [hits(1), hits(1)] == [0, 1]

    def refuse(path: Path) -> bytes:
        raise PermissionError(13, "Permission denied", path)

    monkeypatch.setattr(Path, "read_bytes", refuse)
    assert hits(1) == 0


def test_it_is_known_whether_code_is_kept_for_a_first_argument(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path))
    spans, found = np.zeros((0, 2), np.int64), np.zeros(0, bool)
    kept = compiling.cached(nogil=True)(bound(mark.py_func))
    assert not has_code_for(kept, spans)
    kept(spans, np.zeros(0, np.int32), found)
    assert has_code_for(kept, spans)
    assert not has_code_for(kept, spans.astype(np.int32))
