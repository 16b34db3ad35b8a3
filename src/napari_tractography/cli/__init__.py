"""The command ``napari-tractography``, one file a sub-command.

Ctrl-C may come at once: next to nothing is imported before it is answered.
"""

from __future__ import annotations

import sys

from .ending import EXIT_INTERRUPTED, EXIT_TERMINATED, PROGRAM, Signals, TerminatedError

TYPE_CHECKING = False  # without typing, which takes longer than all the rest of this
if TYPE_CHECKING:
    from collections.abc import Sequence

LEFT = "files that were finished stay, and no others are left"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return its exit code."""
    signals = Signals()
    try:
        with signals:
            from .command import run  # here, since a signal may come meanwhile

            return run(arguments)
    except TerminatedError:
        print(f"{PROGRAM}: terminated; {LEFT}.", file=sys.stderr)
        return EXIT_TERMINATED
    except BaseException as error:
        # Interrupted while it is imported, NumPy raises ImportError, and much advice.
        if not (isinstance(error, KeyboardInterrupt) or signals.is_interrupted):
            raise
        print(f"{PROGRAM}: interrupted; {LEFT}.", file=sys.stderr)
        return EXIT_INTERRUPTED
