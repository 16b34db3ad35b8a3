"""The client of Dask: which workers there are, and whether the scheduler still answers.

Called by :mod:`.cluster` and :mod:`.cluster_run`.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Generator
from typing import Any

from ...errors import LostClusterError
from ...streamlines.tractogram import Tractogram

HEARTBEAT_S = 0.25  # without a result, after which the receiver can cancel
ANSWER_S = 8.0  # in which the scheduler tells which workers there are
RUNNING, CONNECTING = "running", "connecting"  # of Dask's states of a client


class DisconnectedError(Exception):
    """The scheduler cannot be reached at the moment."""


class Connection:
    """What a run asks of Dask's client, which is connected.

    `known` are the threads of each worker, by address, when the scheduler was asked last.
    """

    def __init__(self, client: Any) -> None:
        self.client = client
        self.known: dict[str, int] = {}
        self.address: str = client.scheduler.address

    def workers(self) -> dict[str, int]:
        """Return the threads of each worker, by address.

        Raises DisconnectedError while Dask tries to reach the scheduler again; LostClusterError
        when it is connected and does not answer, as where its process or its machine hangs.
        """
        if self.client.status != RUNNING:
            raise DisconnectedError
        try:
            self.known = self.client.sync(self.client.scheduler.ncores, callback_timeout=ANSWER_S)
        except (OSError, AttributeError) as error:  # closed, or closing
            if isinstance(error, TimeoutError) and self.client.status == RUNNING:
                raise self.lost() from error
            raise DisconnectedError from error
        return self.known

    def turns(self) -> dict[str, int]:
        """Return the number of each known worker among those of its machine, by address."""
        from distributed.comm import get_address_host

        addresses = sorted(self.known)
        by_machine = itertools.groupby(sorted(addresses, key=get_address_host), get_address_host)
        return {
            address: number
            for _, on_machine in by_machine
            for number, address in enumerate(on_machine)
        }

    def reconnected(self) -> Generator[None, None, None]:
        """Yield None now and then until the scheduler answers.

        Raises LostClusterError when Dask no longer tries to reach it.
        """
        while self.client.status == CONNECTING:
            yield None
            time.sleep(HEARTBEAT_S)
        if self.client.status != RUNNING:
            raise self.lost()

    def lost(self) -> LostClusterError:
        """Return the error that says so."""
        return LostClusterError(
            f"The cluster's scheduler at {self.address} was lost; start it and connect again.",
            Tractogram.empty(),
        )
