"""What tests of the panel have in hand: affines, FODs on disk and in layers, a mouse."""

from __future__ import annotations

import contextlib
import gc
import io
import threading
import time
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import nibabel as nib
import numpy as np
from napari.layers import Layer
from qtpy.QtCore import QEvent, QPointF, Qt, QTimer
from qtpy.QtGui import QEnterEvent, QMouseEvent
from qtpy.QtTest import QTest
from qtpy.QtWidgets import QApplication, QMessageBox, QWidget

from napari_tractography.model.fod import Fod
from napari_tractography.plugin.layers.volume_layers import fod_layer_data
from napari_tractography.plugin.session.run_control import RunControl

FEW = 40  # streamlines a seed
CHUNK = 100  # streamlines, of a run made long
MANY = 20 * CHUNK
TURNS = 300  # of the loop of events, of 10 ms at least
WAIT_MS = 600_000  # the first run in an environment compiles kernels: minutes on a busy machine

OBLIQUE = np.array(
    [[1.9, -0.4, 0.5, 6], [0.6, 1.8, -0.5, -9], [-0.3, 0.7, 1.9, 14], [0, 0, 0, 1.0]]
)
LEFT_HANDED = OBLIQUE @ np.diag([-1.0, 1, 1, 1])


def printed_by(script: str) -> str:
    """What a script that was copied prints."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(script, "copied", "exec"), {})
    return printed.getvalue().strip()


def fod_layer(fod: Fod) -> Layer:
    """The layer that readers and samples make of an FOD."""
    return Layer.create(*fod_layer_data(fod))


def save_fod(fod: Fod, path: Path, *, axes: str = "RAS") -> Path:
    """Write an FOD as NIfTI with voxel axes that run to `axes`, by nibabel alone."""
    image = nib.Nifti1Image(np.asarray(fod.coefficients, np.float32), fod.grid.affine)
    now = nib.io_orientation(image.affine)
    wanted = nib.orientations.axcodes2ornt(axes)
    nib.save(image.as_reoriented(nib.orientations.ornt_transform(now, wanted)), path)
    return path


def tracking_threads() -> list[str]:
    """Names of the engine's threads."""
    return [t.name for t in threading.enumerate() if t.name.startswith("tractography")]


def is_let_go(reference: weakref.ref[Any]) -> bool:
    """Tell whether nothing holds an object once events that are under way have come.

    The loop of events turns a number of times: on a slow machine that takes longer, and is as far.
    """
    for _ in range(TURNS):
        gc.collect()
        if reference() is None:
            return True
        QTest.qWait(10)
    return False


def lie_still(panel: QWidget) -> None:
    """Let the loop of events turn until everything in the window of a panel has its place."""

    def places() -> list[Any]:
        widgets = [panel.window(), *panel.window().findChildren(QWidget)]
        return [(w.geometry(), w.isVisible()) for w in widgets]

    before, n_same = places(), 0
    while n_same < 3:
        QTest.qWait(10)
        now = places()
        n_same = n_same + 1 if now == before else 0
        before = now


def click_in_the_dialog(text: str) -> list[str]:
    """Press a button of the dialog that comes next; returns what the dialog says, when it came."""
    said: list[str] = []

    def click() -> None:
        dialog = QApplication.activeModalWidget()
        if not isinstance(dialog, QMessageBox):
            QTimer.singleShot(20, click)
            return
        said.append(dialog.text())
        (button,) = (b for b in dialog.buttons() if text in b.text())
        QTest.mouseClick(button, Qt.MouseButton.LeftButton)

    QTimer.singleShot(0, click)
    return said


class Log:
    """What the control of runs tells, in order."""

    def __init__(self, runs: RunControl) -> None:
        self.events: list[str] = []
        self.threads: set[int] = set()
        for name in ("started", "advanced", "finished", "cancelled", "kept"):
            getattr(runs, name).connect(self._noting(name))
        runs.failed.connect(lambda message, preview: self._note(f"failed: {message}"))

    def _noting(self, name: str) -> Callable[[Any], None]:
        return lambda run: self._note(name)

    def _note(self, text: str) -> None:
        self.events.append(text)
        self.threads.add(threading.get_ident())

    def count(self, name: str) -> int:
        return sum(event.startswith(name) for event in self.events)


class Mouse:
    """Sends real mouse events to the canvas of a viewer, at display positions (z, y, x) mm."""

    def __init__(self, viewer: Any) -> None:
        self._dims = viewer.dims
        self._canvas = viewer.window._qt_viewer.canvas
        self._at = QPointF(0, 0)
        QTest.qWait(30)
        viewer.screenshot(flash=False)  # layout and camera are what they will be

    def where(self, zyx: Any) -> QPointF:
        """Pixel at which a position is drawn."""
        view = self._canvas.view
        shown = [float(zyx[axis]) for axis in self._dims.displayed][::-1]
        mapped = (view.transform * view.scene.transform).map(shown)
        pixel = QPointF(*(mapped[:2] / mapped[3]))
        assert self._canvas.native.rect().contains(pixel.toPoint()), f"{zyx} is not in view"
        return pixel

    def _send(self, kind: Any, button: Any, buttons: Any, keys: Any) -> None:
        native = self._canvas.native
        event = QMouseEvent(kind, self._at, native.mapToGlobal(self._at), button, buttons, keys)
        QApplication.sendEvent(native, event)

    def press(self, zyx: Any, keys: Any = Qt.KeyboardModifier.NoModifier) -> None:
        self._at = self.where(zyx)
        left, none = Qt.MouseButton.LeftButton, Qt.MouseButton.NoButton
        self._send(QEvent.Type.MouseMove, none, none, keys)
        self._send(QEvent.Type.MouseButtonPress, left, left, keys)

    def hover(self, zyx: Any) -> None:
        """Move without a button pressed."""
        self._at = self.where(zyx)
        native, none = self._canvas.native, Qt.MouseButton.NoButton
        place = native.mapToGlobal(self._at)
        QApplication.sendEvent(native, QEnterEvent(self._at, self._at, place))
        self._send(QEvent.Type.MouseMove, none, none, Qt.KeyboardModifier.NoModifier)
        QTest.qWait(20)  # vispy drops moves in quicker succession

    def move(
        self, zyx: Any, keys: Any = Qt.KeyboardModifier.NoModifier, *, busy: bool = False
    ) -> None:
        self._at = self.where(zyx)
        left, none = Qt.MouseButton.LeftButton, Qt.MouseButton.NoButton
        self._send(QEvent.Type.MouseMove, none, left, keys)
        # vispy drops moves in quicker succession; napari tells them late to a busy window.
        wait = time.sleep if busy else lambda s: QTest.qWait(round(1000 * s))
        wait(0.02)

    def release(self, keys: Any = Qt.KeyboardModifier.NoModifier) -> None:
        left, none = Qt.MouseButton.LeftButton, Qt.MouseButton.NoButton
        self._send(QEvent.Type.MouseButtonRelease, left, none, keys)

    def click(self, zyx: Any, keys: Any = Qt.KeyboardModifier.NoModifier) -> None:
        self.press(zyx, keys)
        self.release(keys)

    def drag(
        self,
        start: Any,
        end: Any,
        keys: Any = Qt.KeyboardModifier.NoModifier,
        *,
        n: int = 5,
        busy: bool = False,
    ) -> None:
        self.press(start, keys)
        for share in np.linspace(0, 1, n + 1)[1:]:
            place = np.asarray(start) + share * (np.asarray(end) - np.asarray(start))
            self.move(place, keys, busy=busy)
        self.release(keys)
