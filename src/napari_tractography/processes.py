"""Python code in a process of its own; for compiling without holding up a window.

Called by :mod:`.tracking.kernels` and :mod:`.selection.kernels`.
"""

from __future__ import annotations

import os
import subprocess
import sys


def run_in_a_process(command: str) -> str:
    """Run Python code in a Python of its own, which goes on should this one end before it.

    Returns
    -------
    str
        What went wrong; "" if nothing did, or if there is no Python that can be started by itself.
    """
    if not sys.executable or hasattr(sys, "frozen"):
        return ""
    try:
        done = subprocess.run(
            [sys.executable, "-c", command],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            creationflags=getattr(subprocess, "CREATE_NO_WINDOW", 0),  # of Windows
            check=False,
        )
    except OSError as error:
        return str(error)
    return f"exit status {done.returncode}" if done.returncode else ""
