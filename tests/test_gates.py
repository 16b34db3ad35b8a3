"""What every test has to be: a test that can fail."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parent
# Calls that fail by themselves, by the last part of their names; whatever has "assert" in its name
# as well.
CHECKS = {"raises", "warns", "fail", "waitUntil", "waitSignal", "waitSignals"}

Function = ast.FunctionDef | ast.AsyncFunctionDef


def _called(node: ast.AST) -> set[str]:
    calls = (each for each in ast.walk(node) if isinstance(each, ast.Call))
    return {ast.unparse(call.func).rpartition(".")[2] for call in calls}


def _can_fail(node: ast.AST) -> bool:
    """Tell whether there is an assertion within a function itself."""
    called = _called(node)
    return (
        any(isinstance(each, ast.Assert) for each in ast.walk(node))
        or bool(called & CHECKS)
        or any("assert" in name for name in called)
    )


def _functions(tree: ast.AST) -> list[Function]:
    return [node for node in ast.walk(tree) if isinstance(node, Function)]


def without_assertion(text: str) -> list[str]:
    """Return the tests of a file that assert nothing, nor call or take what does."""
    functions = _functions(ast.parse(text))
    helpers = {f.name for f in functions if not f.name.startswith("test_") and _can_fail(f)}
    return [
        function.name
        for function in functions
        if function.name.startswith("test_")
        and not _can_fail(function)
        and not (_called(function) | {each.arg for each in function.args.args}) & helpers
    ]


def _files() -> Iterator[Path]:
    yield from (path for path in TESTS.rglob("test_*.py") if "__pycache__" not in path.parts)


def test_every_test_asserts_something() -> None:
    found = {
        str(path.relative_to(TESTS)): names
        for path in _files()
        if (names := without_assertion(path.read_text("utf-8")))
    }
    assert found == {}


@pytest.mark.parametrize(
    ("body", "is_a_test"),
    [
        ("    run()", False),
        ("    x == 1", False),
        ("    assert run()", True),
        ("    with pytest.raises(ValueError):\n        run()", True),
        ("    np.testing.assert_array_equal(a, b)", True),
        ("    qtbot.waitUntil(lambda: run())", True),
        ("    checks(run())", True),
        ("    looks(run())", False),
    ],
)
def test_a_test_that_cannot_fail_is_noticed(body: str, is_a_test: bool) -> None:
    helpers = "def checks(x):\n    assert x\n\n\ndef looks(x):\n    return x\n\n\n"
    found = without_assertion(f"{helpers}def test_it(qtbot):\n{body}\n")
    assert found == ([] if is_a_test else ["test_it"])
