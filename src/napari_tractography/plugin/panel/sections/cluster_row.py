"""The row of the Device section that connects to a cluster and leaves it.

Connecting takes seconds and happens in a thread; so does leaving.
"""

from __future__ import annotations

import html
import threading
from functools import partial
from typing import Any

from qtpy.QtCore import Signal
from qtpy.QtWidgets import QHBoxLayout, QLabel, QLineEdit, QPushButton, QVBoxLayout, QWidget

from ....files.paths import GivenUpError
from ...background import Advance, Background
from ..widgets.layout import show_text

THREAD_NAME = "tractography-cluster"
HELP = (
    "Where the scheduler of a Dask cluster listens, tcp://HOST:8786, or local:4 for four processes "
    "on this machine; needs the extra dask. Runs are then shared by its workers; previews are "
    "tracked here."
)
CONNECT, CONNECTING, LEAVE = "Connect", "Connecting...", "Leave"


def connect(where: str) -> Any:
    """Return the cluster at an address; takes seconds."""
    from ....tracking.cluster.connecting import cluster

    return cluster(where)


class ClusterRow(QWidget):  # type: ignore[misc]
    """An address, a button, and a line that says what is wrong; `cluster` is connected, or None."""

    changed = Signal()  # connected, or left

    def __init__(self) -> None:
        super().__init__()
        self.cluster: Any = None
        self.work = Background()
        self.work.failed.connect(self._show)
        self.address = QLineEdit()
        self.address.setPlaceholderText("tcp://HOST:8786 or local:4")
        self.address.setToolTip(f"<qt>{html.escape(HELP)}</qt>")
        self.button = QPushButton(CONNECT)
        self.button.setToolTip("Connect to the cluster at this address, or leave it.")
        self.problem = QLabel()
        self.problem.setWordWrap(True)
        self.problem.setVisible(False)
        text = QLabel("Cluster")
        text.setToolTip(self.address.toolTip())
        text.setBuddy(self.address)
        row = QHBoxLayout()
        row.setContentsMargins(0, 0, 0, 0)
        for part in (text, self.address, self.button):
            row.addWidget(part)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.addLayout(row)
        layout.addWidget(self.problem)
        self.button.clicked.connect(self._on_button)
        self.address.returnPressed.connect(self._on_button)

    @property
    def is_connecting(self) -> bool:
        """Whether an answer is still to come."""
        return self.work.is_busy

    def close_row(self) -> None:
        """Leave the cluster; one that is being connected to is left when it answers."""
        self.work.cancel()
        self._leave()

    def _on_button(self) -> None:
        if self.is_connecting:
            return
        if self.cluster is not None:
            self._leave()
            self._show("")
            self.changed.emit()
            return
        where = self.address.text().strip()
        if not where:
            self._show("Give an address first, or local:2 for two processes on this machine.")
            return
        self.work.begin("Connecting", partial(_connect, where), self._take)
        self._show("")

    def _take(self, created: Any) -> None:
        self.cluster = created
        self._show("")
        self.changed.emit()

    def _leave(self) -> None:
        left, self.cluster = self.cluster, None
        if left is not None:
            # Python waits for it at its end: processes and files are not left behind.
            threading.Thread(target=left.close, name=THREAD_NAME).start()

    def _show(self, problem: str) -> None:
        show_text(self.problem, html.escape(problem, quote=False))
        self.address.setEnabled(self.cluster is None and not self.is_connecting)
        self.button.setEnabled(not self.is_connecting)
        connected = LEAVE if self.cluster is not None else CONNECT
        self.button.setText(CONNECTING if self.is_connecting else connected)


def _connect(where: str, advance: Advance) -> Any:
    created = connect(where)
    try:
        advance(1.0)
    except GivenUpError:  # the panel has closed meanwhile
        created.close()
        raise
    return created
