"""The command ``napari-tractography``, one file a sub-command."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from .ending import (
    EXIT_INTERRUPTED,
    EXIT_TERMINATED,
    PROGRAM,
    TerminatedError,
    ended_by_sigterm,
)

LEFT = "files that were finished stay, and no others are left"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return its exit code."""
    try:
        with ended_by_sigterm():
            from .command import run  # here, since Ctrl-C may come meanwhile

            return run(arguments)
    except KeyboardInterrupt:
        print(f"{PROGRAM}: interrupted; {LEFT}.", file=sys.stderr)
        return EXIT_INTERRUPTED
    except TerminatedError:
        print(f"{PROGRAM}: terminated; {LEFT}.", file=sys.stderr)
        return EXIT_TERMINATED
