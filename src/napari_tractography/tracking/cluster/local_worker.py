"""What Dask loads first in the processes of a local cluster; named by :mod:`.connecting`."""

from __future__ import annotations

import signal
from typing import Any


def dask_setup(worker: Any) -> None:
    """Leave Ctrl-C, which a terminal sends to all processes, to the one that was started."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
