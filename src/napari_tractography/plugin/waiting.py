"""Work that takes a while and ends in one piece: the window goes on, and says what it waits for.

Called where a file is opened or saved, from the main thread.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from typing import TypeVar

from qtpy.QtCore import Qt
from qtpy.QtWidgets import QApplication, QProgressDialog, QWidget

PATIENCE_SECONDS = 0.3  # before a dialog appears
TURN_SECONDS = 0.02  # between two turns of the loop of events
THREAD_NAME = "tractography-waiting"

Result = TypeVar("Result")


class GivenUpError(Exception):
    """The person would not wait."""


def wait_for(
    work: Callable[[], Result], text: str, parent: QWidget, *, can_cancel: bool = True
) -> Result:
    """Return what `work` returns, done in a thread; the window is drawn meanwhile.

    Parameters
    ----------
    work : callable
        Touches no viewer, layer or widget.
    text : str
        What the dialog says, which appears when it takes longer.
    parent : QWidget
        In the window that takes no input until it is done.
    can_cancel : bool
        Whether what the work does may be left to nobody.

    Raises
    ------
    GivenUpError
        When the person pressed Cancel; the work goes on, and what it returns is dropped.
    """
    pool = ThreadPoolExecutor(1, thread_name_prefix=THREAD_NAME)
    future = pool.submit(work)
    pool.shutdown(wait=False)
    if not wait([future], timeout=PATIENCE_SECONDS).done:
        dialog = QProgressDialog(text, "Cancel" if can_cancel else None, 0, 0, parent.window())
        dialog.setWindowModality(Qt.WindowModality.WindowModal)
        dialog.setMinimumDuration(0)
        dialog.show()
        try:
            while not wait([future], timeout=TURN_SECONDS).done:
                QApplication.processEvents()
                if can_cancel and dialog.wasCanceled():
                    raise GivenUpError(text)
        finally:
            dialog.close()
            dialog.deleteLater()
    return future.result()
