"""What all tests share: the data folder beside the repository."""

from __future__ import annotations

import gc
import importlib.util
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial, wraps
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from builds import alone
from hypothesis import settings
from numba.core.dispatcher import _FunctionCompiler

from napari_tractography.runtime.machine_code import KeptCode
from napari_tractography.streamlines import compiled_loops
from napari_tractography.tracking import kernels

# No test depends on how fast the machine is.
settings.register_profile("any machine", deadline=None)
settings.load_profile("any machine")


@pytest.fixture(scope="session")
def load_script() -> Callable[[str], ModuleType]:
    """Load a file of scripts/ by its name, as a module."""

    def load(name: str) -> ModuleType:
        path = Path(__file__).resolve().parents[1] / "scripts" / f"{name}.py"
        spec = importlib.util.spec_from_file_location(f"{name}_script", path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module

    return load


@pytest.fixture(scope="module", autouse=True)
def what_is_there_stays() -> None:
    """Searches for garbage pass over what is there by now, imported or compiled: a million objects.

    They are many in tests of windows, and of what is let go.
    """
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session", autouse=True)
def coverage_sees_workers() -> Iterator[None]:
    """Lines count that run in workers of Qt, whose threads Python does not start itself."""
    if threading.gettrace() is None:
        yield
        return
    from superqt.utils import WorkerBase

    run = WorkerBase.run

    def traced(worker: Any) -> None:
        sys.settrace(threading.gettrace())
        run(worker)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(WorkerBase, "run", traced)
        yield


@pytest.fixture(scope="session")
def untraced() -> Callable[..., Callable[..., Any]]:
    """Let a function run without its lines being noted, which slows all Python code down.

    That is for what others' code does most of, over and over. Other threads are traced as before.
    """

    def rested(call: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(call)
        def run(*positional: Any, **keywords: Any) -> Any:
            trace = sys.gettrace()
            sys.settrace(None)
            try:
                return call(*positional, **keywords)
            finally:
                sys.settrace(trace)  # in the frame that it was taken from

        return run

    return rested


@pytest.fixture(scope="session", autouse=True)
def numba_compiles_untraced(untraced: Callable[..., Any]) -> Iterator[None]:
    """What is compiled is not counted, so that tracing would only slow its compiling down."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_FunctionCompiler, "compile", untraced(_FunctionCompiler.compile))
        yield


@pytest.fixture(autouse=True)
def kernels_are_compiled_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tests wait for kernels that are not on the disk, and start no processes that compile them."""
    monkeypatch.setattr(kernels, "in_a_process", False)
    monkeypatch.setattr(compiled_loops, "in_a_process", False)


@pytest.fixture(scope="session", autouse=True)
def kernels_are_compiled_once() -> Iterator[None]:
    """Of two processes that want the same kernel one compiles it, and the other waits for it."""
    load, save = KeptCode.load_overload, KeptCode.save_overload
    held: dict[str, ExitStack] = {}  # by function: one that could not be compiled is still here

    def load_or_wait(self: KeptCode, sig: Any, target_context: Any) -> Any:
        found = load(self, sig, target_context)
        if found is None and self.prefix not in held:
            held[self.prefix] = ExitStack()
            held[self.prefix].enter_context(alone(self.prefix))
            found = load(self, sig, target_context)
            if found is not None:
                held.pop(self.prefix).close()
        return found

    def save_and_go_on(self: KeptCode, sig: Any, data: Any) -> None:
        save(self, sig, data)
        held.pop(self.prefix, ExitStack()).close()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(KeptCode, "load_overload", load_or_wait)
        patch.setattr(KeptCode, "save_overload", save_and_go_on)
        yield


class Quiet(SimpleHTTPRequestHandler):
    """Serves files and says nothing."""

    def log_message(self, *_args: Any) -> None:
        """Do not write what was asked for."""


@pytest.fixture
def served(tmp_path: Path) -> Iterator[ThreadingHTTPServer]:
    """A server of the test's own folder, for this machine alone."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(tmp_path)))
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture(scope="session")
def distributions(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The wheel and the source archive, built once: "whl" and "gz" to their paths."""
    folder = tmp_path_factory.mktemp("dist")
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-d", str(folder)],
        cwd=Path(__file__).resolve().parents[1],
        check=True,
        capture_output=True,
    )
    return {path.name.rpartition(".")[2]: path for path in folder.iterdir()}


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of real data beside the repository; tests that need it skip without it."""
    folder = Path(__file__).resolve().parents[2] / "shared" / "data"
    if not folder.is_dir():
        pytest.skip(f"no data: {folder} does not exist")
    return folder
