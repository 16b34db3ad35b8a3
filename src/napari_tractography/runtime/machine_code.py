"""Code of compiled functions, kept for all environments and checkouts of one person.

Numba keeps it beside the sources, or by their path, so that every new environment, and every clone
of the repository, compiles for minutes. Here the name of a file says all that the machine code
in it depends on: the function, the content of what is compiled into it, the versions of Python,
Numba, llvmlite and NumPy, the processor, and the types of the arguments. So neither path nor age
of the sources matter, and processes that write at once write different files, or the same.

Functions that compiled code alone calls need no machine code: :class:`LinkedLibrary` has what LLVM
compiles into their callers, and :class:`KeptPart` keeps that of the large ones, which many kernels
have in common. Called by :mod:`.compiling`.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import pickle
import platform
import sys
from collections.abc import Iterator
from pathlib import Path
from types import FunctionType
from typing import Any

import llvmlite
import numba
import numpy as np
from llvmlite import binding
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import CompilerBase, CompileResult, DefaultPassBuilder
from numba.core.compiler_machinery import AnalysisPass, register_pass
from numba.core.serialize import dumps
from numba.core.typed_passes import AnnotateTypes

from .caches import cache_folder, prune, write_whole

ENDING = ".nbc"
FORM = 2  # of what is kept
VERSIONS = (FORM, sys.implementation.cache_tag, platform.python_version(), numba.__version__,
            llvmlite.__version__, np.__version__)  # fmt: skip
N_DIGEST = hashlib.sha256().digest_size


def folders() -> Iterator[Path]:
    """Yield the folders with machine code: the first that can be written gets what is compiled.

    That is the person's cache folder, and otherwise beside the sources. ``NUMBA_CACHE_DIR`` names
    another, and then it is that one alone.
    """
    if numba.config.CACHE_DIR:
        yield Path(numba.config.CACHE_DIR)
        return
    with contextlib.suppress(FileNotFoundError):
        yield cache_folder() / "machine-code"
    yield Path(__file__).parent / "__pycache__"


class KeptCode:
    """What a compiled function of Numba asks for machine code, and hands it to.

    The function is without a closure, which is no part of the name; `content` is a checksum of its
    file and of all that is compiled into it.
    """

    def __init__(self, function: FunctionType, content: int) -> None:
        name = function.__qualname__.replace("<locals>.", "")
        self.prefix = f"{function.__module__.rpartition('.')[2]}.{name}-{content:08x}"
        self._bytecode = function.__code__.co_code

    @property
    def cache_path(self) -> str:
        """The folder that is looked into first."""
        return str(next(folders()))

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Return the function compiled for types of arguments; None where it is not kept."""
        target_context.refresh()
        name = self._name(sig, target_context)
        for folder in folders():
            with contextlib.suppress(OSError):
                stored = (folder / name).read_bytes()
                if hashlib.sha256(stored[N_DIGEST:]).digest() != stored[:N_DIGEST]:
                    continue  # the machine stopped while it was written
                with contextlib.suppress(OSError):  # which may be read, and no more
                    os.utime(folder / name)
                return self._rebuilt(target_context, *pickle.loads(stored[N_DIGEST:]))
        return None

    @staticmethod
    def _rebuilt(target_context: Any, *reduced: Any) -> Any:
        return CompileResult._rebuild(target_context, *reduced)

    @staticmethod
    def _reduced(compiled: Any) -> Any:
        return compiled._reduce()

    def save_overload(self, sig: Any, data: Any) -> None:
        """Keep a compiled function in the first folder that takes it, if any does."""
        if data.library.has_dynamic_globals:  # addresses in this process
            return
        content = dumps(self._reduced(data))
        name = self._name(sig, data.target_context)
        for folder in folders():
            with contextlib.suppress(OSError):
                write_whole(folder / name, hashlib.sha256(content).digest() + content)
                prune(folder, f"*{ENDING}*")
                return

    def has_code_for(self, first: Any, target_context: Any) -> bool:
        """Tell whether code for a type of the first argument is kept, whatever the others are."""
        start = self._start((first,), target_context)
        return any(any(folder.glob(f"{start}*{ENDING}")) for folder in folders())

    def _start(self, arguments: tuple[Any, ...], target_context: Any) -> str:
        machine = (*VERSIONS, *target_context.codegen().magic_tuple())
        return f"{self.prefix}-{_short(machine)}-{_short(arguments[:1])}-"

    def _name(self, sig: Any, target_context: Any) -> str:
        arguments = tuple(sig if isinstance(sig, tuple) else sig.args)
        key = _short((arguments, self._bytecode))
        return f"{self._start(arguments, target_context)}{key}{ENDING}"


class LinkedLibrary(JITCodeLibrary):  # type: ignore[misc]
    """The code of a function that compiled code alone calls, as LLVM's bitcode.

    Numba makes machine code of each such function, which nothing runs, and optimizes each together
    with all that it calls, again and again on the way up; that took a fifth of the time.
    """

    @property
    def codegen(self) -> Any:
        """What makes machine code has no variables of these functions."""
        return _WithoutEnvironments

    def get_pointer_to_function(self, name: str) -> int:
        """Return 0: Python does not call the function."""
        return 0

    def finalize(self) -> None:
        """Link what the function calls."""
        self._raise_if_finalized()
        for library in dict.fromkeys(self._linking_libraries):
            self._final_module.link_in(library._get_module_for_linking(), preserve=True)
        self._finalize_dynamic_globals()
        self._finalized = True


class _WithoutEnvironments:
    @staticmethod
    def set_env(name: str, environment: Any) -> None:
        """Do nothing: Numba's environments are for Python's objects, of which there are none."""


@register_pass(mutates_CFG=False, analysis_only=True)
class _IntoLinkedLibrary(AnalysisPass):  # type: ignore[misc]
    """Has Numba put the code of a function into a :class:`LinkedLibrary`."""

    _name = "into_linked_library"

    def __init__(self) -> None:
        AnalysisPass.__init__(self)

    def run_pass(self, state: Any) -> bool:
        """Make the library; the code itself is not changed."""
        state.library = LinkedLibrary(state.targetctx.codegen(), state.func_id.func_qualname)
        return False


class LinkedCompiler(CompilerBase):  # type: ignore[misc]
    """Compiles a function that compiled code alone calls; a `pipeline_class` of Numba."""

    def define_pipelines(self) -> list[Any]:
        """Return Numba's passes and one more."""
        passes = DefaultPassBuilder.define_nopython_pipeline(self.state)
        passes.add_pass_after(_IntoLinkedLibrary, AnnotateTypes)
        passes.finalize()
        return [passes]


class KeptPart(KeptCode):
    """What a function with a :class:`LinkedLibrary` asks for its code, and hands it to.

    Whatever it calls is its own, by a name of its own, too: another function can have the same name
    in another process, and LLVM specializes what is internal, such as for the constants that it is
    called with here. A kernel that calls a function of that name would be given it, wherever it
    comes from.
    """

    @staticmethod
    def _reduced(compiled: Any) -> Any:
        library, own = compiled.library, compiled.fndesc.llvm_func_name
        library._ensure_finalized()
        module = library._final_module.clone()
        for function in module.functions:
            if not function.is_declaration and function.name != own:
                function.linkage = "internal"
                function.name = f"{function.name}.of.{_short(own)}"
        compiled.fndesc.typemap = compiled.fndesc.calltypes = None
        code = module.as_bitcode()
        return library.name, code, compiled.fndesc, compiled.environment, compiled.signature

    @staticmethod
    def _rebuilt(target_context: Any, *reduced: Any) -> Any:
        name, code, description, environment, signature = reduced
        library = LinkedLibrary(target_context.codegen(), name)
        library._final_module = binding.parse_bitcode(code)
        library._finalize_dynamic_globals()
        library._finalized = True
        return CompileResult(
            target_context=target_context,
            typing_context=target_context.typing_context,
            library=library,
            environment=environment,
            entry_point=target_context.get_executable(library, description, environment),
            fndesc=description,
            type_annotation=None,
            signature=signature,
            objectmode=False,
            lifted=(),
            typing_error=None,
            call_helper=None,
            metadata=None,
            reload_init=[],
            referenced_envs=[],
        )


def _short(value: object) -> str:
    return hashlib.sha256(repr(value).encode()).hexdigest()[:16]
