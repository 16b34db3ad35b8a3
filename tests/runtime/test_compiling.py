"""Cached machine code: named by all that is compiled in, hence never out of date."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numba
import numpy as np
import pytest
from numba import njit

import napari_tractography
from napari_tractography.maps.traversal import count_passes
from napari_tractography.runtime import compiling
from napari_tractography.runtime.compiling import bound, checksum, has_code_for, sources_of
from napari_tractography.selection.kernels import mark
from napari_tractography.tracking.cpu.lanes import in_order

PACKAGE = Path(napari_tractography.__file__).parent
KERNEL = "napari_tractography.tracking.cpu.kernel"


def named(*modules: str) -> set[str]:
    return {path.relative_to(PACKAGE).as_posix() for path in sources_of(*modules)}


def test_what_a_module_imports_counts_and_what_that_imports():
    assert named("napari_tractography.maps.traversal") == {
        "maps/traversal.py",
        "runtime/compiling.py",
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


def test_functions_that_are_kept_on_the_disk_are_named_by_what_is_compiled_in():
    for function in (count_passes, in_order):
        name = function.py_func.__qualname__
        module = function.py_func.__module__
        assert name == f"{function.py_func.__name__}_{checksum(module):08x}"


def test_no_module_caches_machine_code_by_another_way():
    users = {
        path.relative_to(PACKAGE).as_posix()
        for path in PACKAGE.rglob("*.py")
        if re.search(r"cache=True", path.read_text("utf-8"))
    }
    assert users == {"runtime/compiling.py"}


FACTOR = 2


def scaled(x):
    return FACTOR * x


def test_a_bound_function_reads_other_globals_and_leaves_the_original_as_it_is():
    assert njit(bound(scaled, FACTOR=5))(3) == 15
    assert scaled(3) == 6


COUNT = """
import numpy as np
from napari_tractography.tracking.cpu import lanes
points, ordered = np.ones((8, 3), np.float32), np.zeros((8, 3), np.float32)
lanes.in_order(points, np.array([0]), np.array([2]), ordered)
print(np.count_nonzero(ordered), sum(lanes.in_order.stats.cache_hits.values()))
"""


@pytest.fixture
def copied_package(tmp_path):
    """A copy of the package, to change, and a function that runs code with it."""
    package = tmp_path / "napari_tractography"
    ignored = shutil.ignore_patterns("__pycache__", "plugin")
    shutil.copytree(PACKAGE, package, ignore=ignored)

    def run(code: str) -> list[int]:
        environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
        environment.pop("NUMBA_CACHE_DIR", None)
        command = [sys.executable, "-c", code]
        result = subprocess.run(
            command, env=environment, check=True, capture_output=True, text=True
        )
        return [int(word) for word in result.stdout.split()]

    return package, run


def test_a_change_of_another_file_that_is_compiled_in_is_noticed(copied_package):
    """`copy_numbers`, of which all numbers of two points are six."""
    package, run = copied_package
    assert run(COUNT) == [6, 0]
    memory = package / "tracking" / "cpu" / "memory.py"
    text = memory.read_text("utf-8")
    line = "cgutils.raw_memcpy(builder, pointer, taken, args[4], source.dtype.bitwidth // 8)"
    assert line in text
    memory.write_text(text.replace(line, line.replace("// 8", "// 16")), "utf-8")
    assert run(COUNT) == [3, 0]
    assert run(COUNT) == [3, 1]  # and is kept from then on


def test_code_on_disk_is_found_by_the_name_of_the_function(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Numba names the files of its cache by the qualified name: `cached` leans on that."""
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path))

    def hits(content: int) -> int:
        """Compile, or load, a function whose text is the same each time."""
        monkeypatch.setattr(compiling, "checksum", lambda *modules: content)

        def doubled(x: float) -> float:
            return x + x

        function = compiling.cached(nogil=True)(doubled)
        assert function(4) == 8
        return sum(function.stats.cache_hits.values())

    assert [hits(1), hits(1), hits(2), hits(2), hits(1)] == [0, 1, 0, 1, 1]
    names = {path.name for path in tmp_path.rglob("*.nbi")}
    assert len(names) == 2
    assert all(any(f"doubled_0000000{n}" in name for name in names) for n in (1, 2))


def test_code_that_is_just_being_put_there_is_not_there_yet(monkeypatch):
    """Windows refuses to open a file that another process is replacing."""

    def refuse() -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(mark._cache._cache_file, "_load_index", refuse)
    assert not has_code_for(mark, np.zeros((0, 2), np.int64))
