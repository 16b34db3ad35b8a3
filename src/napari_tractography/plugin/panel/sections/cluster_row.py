"""The row of the Device section that connects to a cluster and leaves it.

Connecting takes seconds and happens in a thread; so does leaving.
"""

from __future__ import annotations

import html
import threading
from typing import Any

from qtpy.QtCore import QTimer, Signal
from qtpy.QtWidgets import QHBoxLayout, QLabel, QLineEdit, QPushButton, QVBoxLayout, QWidget

from ....errors import TractographyError

POLL_MS = 200
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
    """An address, a button, and a line that tells what is wrong.

    Attributes
    ----------
    cluster : Cluster or None
        Connected to.
    """

    changed = Signal()  # connected, or left

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.cluster: Any = None
        self._answer: list[Any] = []  # of the thread that connects: a cluster, or an error
        self._is_wanted = threading.Event()  # cleared when the panel closes meanwhile
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
        self._poll = QTimer(self)
        self._poll.setInterval(POLL_MS)
        self._poll.timeout.connect(self._take_answer)
        self.button.clicked.connect(self._on_button)
        self.address.returnPressed.connect(self._on_button)

    @property
    def is_connecting(self) -> bool:
        """Whether an answer is still to come."""
        return bool(self._poll.isActive())

    def close_row(self) -> None:
        """Leave the cluster; one that is being connected to is left when it answers."""
        self._poll.stop()
        self._is_wanted.clear()
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
        answer: list[Any] = []
        self._answer = answer
        wanted = self._is_wanted = threading.Event()
        wanted.set()

        def work() -> None:
            try:
                made = connect(where)
            except TractographyError as error:
                made = error
            if not wanted.is_set() and not isinstance(made, TractographyError):
                made.close()
            answer.append(made)

        threading.Thread(target=work, name=THREAD_NAME, daemon=True).start()
        self._poll.start()
        self._show("")

    def _take_answer(self) -> None:
        if not self._answer:
            return
        self._poll.stop()
        made = self._answer.pop()
        if isinstance(made, TractographyError):
            self._show(str(made))
            return
        self.cluster = made
        self._show("")
        self.changed.emit()

    def _leave(self) -> None:
        left, self.cluster = self.cluster, None
        if left is not None:
            # Python waits for it at its end: processes and files are not left behind.
            threading.Thread(target=left.close, name=THREAD_NAME).start()

    def _show(self, problem: str) -> None:
        self.problem.setText(html.escape(problem, quote=False))
        self.problem.setVisible(bool(problem))
        self.address.setEnabled(self.cluster is None and not self.is_connecting)
        self.button.setEnabled(not self.is_connecting)
        connected = LEAVE if self.cluster is not None else CONNECT
        self.button.setText(CONNECTING if self.is_connecting else connected)
