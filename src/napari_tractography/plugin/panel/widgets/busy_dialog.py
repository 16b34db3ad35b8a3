"""Waiting for work that takes a while: the window stays alive, and says what it waits for.

Called where a file is opened or saved, from the main thread.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import wait
from contextlib import contextmanager

from qtpy.QtCore import Qt
from qtpy.QtWidgets import QApplication, QProgressDialog, QWidget

from ....errors import TractographyError
from ....files.paths import GivenUpError, dropped_after
from ...background import Result, begun
from ...notices import show_error

DIALOG_AFTER_SECONDS = 0.3
POLL_SECONDS = 0.02  # between two turns of the event loop
THREAD_NAME = "tractography-waiting"


@contextmanager
def errors_shown() -> Iterator[None]:
    """Show what is refused within, and end it there; what a person cancelled ends silently.

    Also a decorator of functions.
    """
    try:
        yield
    except TractographyError as error:
        show_error(str(error))
    except GivenUpError:
        pass


def wait_for(work: Callable[[], Result], text: str, parent: QWidget) -> Result:
    """Return what `work` returns, done in a thread; the window is drawn meanwhile.

    The work touches no viewer, layer or widget. A dialog with the text appears when it takes
    longer, and the window takes no input until it is done. Raises GivenUpError when the person
    pressed Cancel; the work continues, and its result is dropped.
    """
    given_up = threading.Event()

    def work_unless_given_up() -> Result:
        with dropped_after(given_up):
            return work()

    future = begun(work_unless_given_up, THREAD_NAME)
    if not wait([future], timeout=DIALOG_AFTER_SECONDS).done:
        dialog = QProgressDialog(text, "Cancel", 0, 0, parent.window())
        dialog.setWindowModality(Qt.WindowModality.WindowModal)
        dialog.setMinimumDuration(0)
        dialog.canceled.connect(given_up.set)
        dialog.show()
        try:
            while not wait([future], timeout=POLL_SECONDS).done:
                QApplication.processEvents()
                if given_up.is_set():
                    raise GivenUpError(text)
        finally:
            dialog.close()
            dialog.deleteLater()
    return future.result()
