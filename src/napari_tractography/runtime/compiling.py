"""How functions are compiled by Numba, and when machine code on the disk is out of date.

Numba drops cached machine code when the file of the function has changed, but not when another file
has whose constants or functions are compiled into it. So :func:`cached` names machine code by a
checksum of every file that can be compiled in: the file of the function and, transitively, those
that it imports. :mod:`.machine_code` says where it is kept. Used by the kernels of the CPU and by
:mod:`napari_tractography.maps.traversal`.
"""

from __future__ import annotations

import ast
import inspect
import sys
import textwrap
import threading
import zlib
from collections.abc import Callable, Iterator
from copy import deepcopy
from functools import cache
from pathlib import Path
from types import FunctionType
from typing import Any, cast

from numba import njit, typeof

from .machine_code import KeptCode, KeptPart, LinkedCompiler

# Reference counting off (Numba's private `_nrt`): nothing is allocated in here, and counting every
# array that leaves a tuple took nine tenths of the time. test_kernel.py fails should it be renamed.
OPTIONS = {"nogil": True, "error_model": "numpy", "_nrt": False}
# Of functions that compiled code alone calls: without wrappers for Python, which took 13 of 36 s,
# and without machine code of their own.
WITHIN = {
    **OPTIONS,
    "no_cpython_wrapper": True,
    "no_cfunc_wrapper": True,
    "pipeline_class": LinkedCompiler,
}
compiled = njit(**WITHIN)
inlined = njit(forceinline=True, **WITHIN)


def kept(function: Callable[..., Any]) -> Any:
    """Compile a large function that kernels have in common, as :func:`inlined`, and keep its code.

    It must be the only one of its name in its file.
    """
    assert isinstance(function, FunctionType)
    dispatcher = inlined(function)
    dispatcher._cache = KeptPart(function, checksum(function.__module__))
    return dispatcher


def cached(*modules: str, **options: Any) -> Callable[[Callable[..., Any]], Any]:
    """Return a decorator that compiles a function and keeps the machine code on the disk.

    `modules` are names of those that are compiled in without being imported by the function's own;
    options are those of :func:`numba.njit`.
    """

    def decorate(function: Callable[..., Any]) -> Any:
        assert isinstance(function, FunctionType)
        dispatcher = njit(**options)(function)
        dispatcher._cache = KeptCode(function, checksum(function.__module__, *modules))
        return dispatcher

    return decorate


def has_code_for(function: Any, argument: Any) -> bool:
    """Tell whether machine code of a :func:`cached` function is kept for this first argument.

    The others are taken to have the types that they always have.
    """
    kept: KeptCode = function._cache
    return kept.has_code_for(typeof(argument), function.targetctx)


def bound(function: Callable[..., Any], **names: Any) -> FunctionType:
    """Return a copy of a plain function that reads `names` in place of its module's own.

    Compiled functions that a cached one reads must be globals: Numba pickles what a closure refers
    to into the key of its cache, and a compiled function is pickled differently in each process.
    """
    plain = cast(FunctionType, function)
    copy = FunctionType(plain.__code__, {**plain.__globals__, **names}, plain.__name__)
    copy.__qualname__, copy.__doc__ = plain.__qualname__, plain.__doc__
    return copy


def unrolled(function: FunctionType, **constants: int) -> FunctionType:
    """Return a copy of a plain function whose loops over ranges known beforehand are written out.

    Compilers do so for inner loops of constant length only. Its loops may depend on the constants
    and on each other's variables; so may conditions, which are decided where they can be.
    """
    tree = _parsed(textwrap.dedent(inspect.getsource(function)))
    definition = _Unroller(constants).visit(tree).body[0]
    definition.decorator_list = []
    code = compile(ast.fix_missing_locations(tree), inspect.getfile(function), "exec")
    names = dict(function.__globals__)
    exec(code, names)
    copy: FunctionType = names[definition.name]
    return FunctionType(copy.__code__, function.__globals__, function.__name__)


class _Unroller(ast.NodeTransformer):
    """Writes out loops, given the values of some names."""

    def __init__(self, known: dict[str, int]) -> None:
        self.known = known

    def visit_Name(self, node: ast.Name) -> ast.expr:
        """Put the value in place of a name that has one."""
        if isinstance(node.ctx, ast.Load) and node.id in self.known:
            return ast.copy_location(ast.Constant(self.known[node.id]), node)
        return node

    def visit_For(self, node: ast.For) -> Any:
        """Write out a loop over a range that is known."""
        steps = self._value(node.iter)
        if steps is None or not isinstance(node.target, ast.Name):
            return self.generic_visit(node)
        body: list[ast.stmt] = []
        for step in steps:
            inner = _Unroller({**self.known, node.target.id: step})
            for statement in deepcopy(node.body):
                new = inner.visit(statement)
                body += new if isinstance(new, list) else [new]
        return body or ast.Pass()

    def visit_If(self, node: ast.If) -> Any:
        """Decide a condition that is known."""
        test = self._value(node.test)
        if test is None:
            return self.generic_visit(node)
        chosen = node.body if test else node.orelse
        body: list[ast.stmt] = []
        for statement in chosen:
            new = self.visit(statement)
            body += new if isinstance(new, list) else [new]
        return body or ast.Pass()

    def _value(self, node: ast.expr) -> Any:
        """Return the value of an expression of known numbers, or None."""
        names = {name.id for name in ast.walk(node) if isinstance(name, ast.Name)}
        if not names <= {*self.known, "range"}:
            return None
        code = compile(ast.Expression(deepcopy(node)), "<known>", "eval")
        return eval(code, {"range": range}, dict(self.known))


@cache
def checksum(*modules: str) -> int:
    """Return a checksum of modules and of all that they import, but for words.

    Docstrings and lines of comments do not count.
    """
    return zlib.crc32(b"\0".join(_code_of(path) for path in sources_of(*modules)))


_parsing = threading.Lock()


def _parsed(source: str | bytes) -> ast.Module:
    """Return the tree of a source; CPython 3.11 refuses what two threads parse at once."""
    with _parsing:
        return ast.parse(source)


@cache
def _tree_of(path: Path) -> ast.Module:
    return _parsed(path.read_bytes())


@cache
def _code_of(path: Path) -> bytes:
    # By lines: to dump the trees of all sources took a tenth of a second of every start.
    lines = path.read_text("utf-8").splitlines()
    for text in _texts(_tree_of(path)):
        lines[text.lineno - 1 : text.end_lineno] = [""] * (text.end_lineno - text.lineno + 1)
    return "\n".join(line for line in lines if line.strip(" ")[:1] not in ("", "#")).encode()


def _texts(node: Any) -> Iterator[Any]:
    """Yield the statements that are texts alone, as docstrings are."""
    for each in node.body:
        if isinstance(each, ast.Expr):
            if isinstance(each.value, ast.Constant) and isinstance(each.value.value, str):
                yield each
        elif isinstance(each, ast.ClassDef | ast.FunctionDef):
            yield from _texts(each)


def sources_of(*modules: str) -> tuple[Path, ...]:
    """Return the files of modules and, transitively, of what they import of their own package.

    Imports within functions and for type checkers do not count: nothing of them is compiled in.
    """
    found: dict[str, Path] = {}
    left = list(modules)
    while left:
        module = left.pop()
        path = _file_of(module)
        if path is not None and module not in found:
            found[module] = path
            left += _imports_of(module, path)
    return tuple(found[module] for module in sorted(found))


@cache
def _file_of(module: str) -> Path | None:
    """Return the file of a module of a package that is loaded; None where there is none."""
    top, *parts = module.split(".")
    folder = Path(str(sys.modules[top].__file__)).parent.joinpath(*parts)
    for path in (folder / "__init__.py", folder.with_suffix(".py")):
        if path.is_file() and (parts or path.name == "__init__.py"):
            return path
    return None


@cache
def _imports_of(module: str, path: Path) -> tuple[str, ...]:
    """Return the names that a module may import from its own package, modules or not."""
    package = module.split(".") if path.name == "__init__.py" else module.split(".")[:-1]
    names: list[str] = []
    for node in _statements(_tree_of(path)):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            start = ".".join([*base, *([node.module] if node.module else [])])
            names += [start, *(f"{start}.{alias.name}" for alias in node.names)]
    return tuple(name for name in names if name.partition(".")[0] == package[0])


def _statements(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the statements that run when a module is loaded."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.expr):
            continue
        if isinstance(child, ast.If) and ast.unparse(child.test).endswith("TYPE_CHECKING"):
            continue
        yield child
        yield from _statements(child)
