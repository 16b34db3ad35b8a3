"""The command ``napari-tractography``: its parser, and how it ends.

One file of this folder, or of `maps`, for each sub-command; each imports what it needs when it
runs, so that ``--help`` is quick. Mistakes in the input end with exit code 2 and one line on
standard error.
"""

from __future__ import annotations

import argparse
import contextlib
import errno
import io
import logging
import os
import re
import sys
from collections.abc import Sequence
from typing import Any, NoReturn

from ..errors import InvalidParameterError, TractographyError
from ..version import __version__
from . import (
    bench,
    coherence,
    cohort,
    connectome,
    demo,
    density,
    info,
    measure,
    page,
    profile,
    replay,
    resect,
    select,
    sweep,
    track,
    visitation,
)
from .ending import PROGRAM
from .flags import in_flags
from .unknown import refuse_unknown

# Each has HELP, a DESCRIPTION where that says more, add_flags and run.
COMMANDS: tuple[Any, ...] = (
    track, info, select, measure, profile, density, visitation, connectome, resect, sweep,
    coherence, cohort, page, replay, bench, demo,
)  # fmt: skip
EXIT_WRONG_INPUT = 2
EXIT_BROKEN_PIPE = 128 + 13  # as of a program that SIGPIPE ends


class _Parser(argparse.ArgumentParser):
    """Wrong flags are wrong input like any other: one line, without the usage."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.set_defaults(parser=self)  # in what is parsed: the sub-command's
        # argparse takes -12 for a number and -12,4,30,2 for a flag; none of ours begins so.
        self._negative_number_matcher = re.compile(r"-\.?\d")

    def error(self, message: str) -> NoReturn:
        raise InvalidParameterError(f"{message}; see {self.prog} --help.")


def run(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return its exit code. Ctrl-C and SIGTERM are the caller's."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # it was closed, as by >&-
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper) and stream.errors == "strict":
            stream.reconfigure(errors="backslashreplace")  # names of files are any bytes
    try:
        try:
            return _run(arguments)
        finally:
            sys.stdout.flush()  # here, where a reader that has gone away is noticed
    except OSError as error:
        reader_left = _is_broken_pipe(error)
        if not reader_left and error.errno != errno.ENOSPC:  # of files written, their writers tell
            raise
        # Python would flush once more on its way out, and complain: what is left goes nowhere.
        with contextlib.suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if reader_left:
            return EXIT_BROKEN_PIPE
        with contextlib.suppress(OSError):  # it may be this that is full
            print(
                f"{PROGRAM}: what it prints cannot be written ({error.strerror}); make room.",
                file=sys.stderr,
            )
        return EXIT_WRONG_INPUT


def _is_broken_pipe(error: OSError) -> bool:
    """Tell whether the reader of the output, such as `head`, has closed it."""
    if isinstance(error, BrokenPipeError):
        return True
    # What Windows says of it, and, with a name, of many a file.
    return sys.platform == "win32" and error.errno == errno.EINVAL and error.filename is None


def _run(arguments: Sequence[str] | None) -> int:
    logging.basicConfig(format=f"{PROGRAM}: %(message)s", level=logging.WARNING)
    logging.getLogger("nibabel.global").propagate = False  # it writes its lines itself
    options = argparse.Namespace()
    try:
        _, unknown = make_parser().parse_known_args(arguments, options)
        refuse_unknown(unknown, options.parser)
        code: int = options.run(options)
        return code
    except TractographyError as error:
        print(f"{PROGRAM}: {in_flags(str(error), options)}", file=sys.stderr)
        return EXIT_WRONG_INPUT
    except MemoryError as error:
        print(
            f"{PROGRAM}: the memory is not enough ({error}); ask for less at a time: fewer seeds, "
            "longer steps, shorter streamlines or fewer places.",
            file=sys.stderr,
        )
        return EXIT_WRONG_INPUT


def make_parser() -> argparse.ArgumentParser:
    """Return the parser of all sub-commands."""
    parser = _Parser(
        prog=PROGRAM, description="Reproducible tractography of fibre orientation distributions."
    )
    parser.add_argument("--version", action="version", version=f"%(prog)s {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for module in COMMANDS:
        what = f"{module.HELP[0].upper()}{module.HELP[1:]}."
        own = commands.add_parser(
            module.__name__.rpartition(".")[2],
            help=module.HELP,
            description=getattr(module, "DESCRIPTION", what),
        )
        module.add_flags(own)
        own.set_defaults(run=module.run)
    return parser
