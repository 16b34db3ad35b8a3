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
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from typing import NoReturn

from ..errors import InvalidParameterError, TractographyError
from ..version import __version__
from .bench import add_bench
from .demo import add_demo
from .flags import in_flags
from .info import add_info
from .maps.coherence import add_coherence
from .maps.connectome import add_connectome
from .maps.density import add_density
from .maps.measure import add_measure
from .maps.profile import add_profile
from .maps.visitation import add_visitation
from .replay import add_replay
from .select import add_select
from .track import add_track

PROGRAM = "napari-tractography"
LEFT = "files that were finished stay, and no others are left"
EXIT_WRONG_INPUT = 2
EXIT_INTERRUPTED = 128 + 2  # as of a program that SIGINT ends
EXIT_TERMINATED = 128 + 15  # as of one that SIGTERM ends, which batch systems send
EXIT_BROKEN_PIPE = 128 + 13  # as of a program that SIGPIPE ends


class TerminatedError(BaseException):
    """SIGTERM came: whatever is under way ends as after Ctrl-C, and cleans up."""


class _Parser(argparse.ArgumentParser):
    """Wrong flags are wrong input like any other: one line, without the usage."""

    def error(self, message: str) -> NoReturn:
        raise InvalidParameterError(f"{message}; see {self.prog} --help.")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return its exit code."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper) and stream.errors == "strict":
            stream.reconfigure(errors="backslashreplace")  # names of files are any bytes
    try:
        try:
            with _ended_by_sigterm():
                return _run(arguments)
        finally:
            sys.stdout.flush()  # here, where a reader that has gone away is noticed
    except BrokenPipeError:
        # Whoever read the output, such as `head`, wants no more of it. Python would flush once
        # more on its way out, and complain: what is left goes nowhere.
        with contextlib.suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_BROKEN_PIPE
    except OSError as error:
        if error.errno != errno.ENOSPC:  # of files that are written, their writers tell
            raise
        with contextlib.suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        print(
            f"{PROGRAM}: what it prints cannot be written ({error.strerror}); make room.",
            file=sys.stderr,
        )
        return EXIT_WRONG_INPUT


def _run(arguments: Sequence[str] | None) -> int:
    logging.basicConfig(format=f"{PROGRAM}: %(message)s", level=logging.WARNING)
    logging.getLogger("nibabel.global").propagate = False  # it writes its lines itself
    options = argparse.Namespace()
    try:
        make_parser().parse_args(arguments, options)
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
    except KeyboardInterrupt:
        print(f"{PROGRAM}: interrupted; {LEFT}.", file=sys.stderr)
        return EXIT_INTERRUPTED
    except TerminatedError:
        print(f"{PROGRAM}: terminated; {LEFT}.", file=sys.stderr)
        return EXIT_TERMINATED


@contextlib.contextmanager
def _ended_by_sigterm() -> Iterator[None]:
    """Raise TerminatedError where SIGTERM comes, instead of ending at once."""
    if threading.current_thread() is not threading.main_thread():
        yield  # signals are the main thread's
        return

    def end(number: int, frame: object) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)  # cleaning up is not disturbed
        raise TerminatedError

    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def make_parser() -> argparse.ArgumentParser:
    """Return the parser of all sub-commands."""
    parser = _Parser(
        prog=PROGRAM,
        description="Reproducible tractography of fibre orientation distributions.",
    )
    parser.add_argument("--version", action="version", version=f"%(prog)s {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for add in (
        add_track,
        add_info,
        add_select,
        add_measure,
        add_profile,
        add_density,
        add_visitation,
        add_connectome,
        add_coherence,
        add_replay,
        add_bench,
        add_demo,
    ):
        add(commands)
    return parser


if __name__ == "__main__":
    sys.exit(main())
