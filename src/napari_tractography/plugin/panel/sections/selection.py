"""The Selection section of the panel: buttons for what the keys of a streamlines layer do.

It also lets the mouse reach streamlines while another layer is selected: Alt-click selects, and
the status bar says which streamline is under the cursor.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

from napari.utils.interactions import Shortcut
from qtpy.QtCore import Qt
from qtpy.QtWidgets import QApplication, QWidget

from ...listening import Listening
from ...session.session import Session
from ...streamlines.commands import COMMANDS, EXTEND, select_on_click
from ...streamlines.layer import Streamlines
from ...timers import delayed
from ...words import plural
from ..widgets.layout import button, row, stack, wrapped

BUTTONS_A_ROW = 3
HOVER_MS = 50  # without a move of the mouse; among millions of points picking takes as long
HINT = "Alt-click a streamline to select it, Alt-Shift-click to select more; or press Pick."
PICKING = "Click a streamline to select it, Shift-click to select more."


class SelectionSection(QWidget):  # type: ignore[misc]
    """What is selected, and what can be done with it.

    Of the session's streamlines, unless another streamlines layer is selected in the viewer.
    """

    def __init__(self, session: Session) -> None:
        super().__init__()
        self.session = session
        self.viewer = session.viewer
        layers = session.viewer.layers
        self._listening = Listening(
            (layers.selection.events.active, self.follow),
            (layers.events.removed, self.follow),
            (session.layer_created, self.follow),
            (session.document.history_changed, self.refresh),
            (session.viewer.events.status, self._on_status),
        )
        self.layer: Streamlines | None = None
        self._of_layer = Listening()
        self._own_status: dict[str, str] = {}  # the status that we set, as opposed to napari's
        self._hover = delayed(self, HOVER_MS, self._show_status)
        self.label = wrapped()
        self.pick = button(
            "Pick",
            "While it is pressed, a click selects a streamline and Shift-click selects more, as "
            "Alt-click does where the window manager does not take that for itself.",
            is_checkable=True,
        )
        self.pick.toggled.connect(self.refresh)
        self.buttons = {}
        for each in COMMANDS:
            keys = " or ".join(Shortcut(key).platform for key in each.keys)
            tip = f"{each.help} {keys} while the Streamlines layer is selected."
            self.buttons[each.name] = button(each.name, tip, partial(self._act, each.act))
        buttons = list(self.buttons.values())
        firsts = range(0, len(buttons), BUTTONS_A_ROW)
        stack(
            self,
            row(self.label, self.pick, stretch_first=True),
            *(row(*buttons[k : k + BUTTONS_A_ROW]) for k in firsts),
        )
        self.refresh()

    def open(self) -> None:
        self._listening.open()
        self.viewer.mouse_drag_callbacks.append(self._alt_click)
        self.follow()

    def close_section(self) -> None:
        self._listening.close()
        if self._alt_click in self.viewer.mouse_drag_callbacks:
            self.viewer.mouse_drag_callbacks.remove(self._alt_click)
        self.pick.setChecked(False)
        self._hover.stop()
        self._watch(None)

    def follow(self, _event: Any = None) -> None:
        """Act on the streamlines of the layer, or else of the bundle, that is active now."""
        active = self.viewer.layers.selection.active
        layer = active if isinstance(active, Streamlines) else self.session.streamlines_layer
        self._watch(layer if layer in self.viewer.layers else None)

    def _watch(self, layer: Streamlines | None) -> None:
        if layer is not self.layer:
            self.layer = layer
            signals = [] if layer is None else [layer.editor.changed]
            self._of_layer.switch(*((signal, self.refresh) for signal in signals))
        self.refresh()

    def refresh(self, _event: Any = None) -> None:
        """Say how many are selected, and enable what can be done."""
        editor = None if self.layer is None else self.layer.editor
        for command in COMMANDS:
            possible = editor is not None and command.possible(editor)
            self.buttons[command.name].setEnabled(possible)
        if editor is None or not editor.n_selected:
            self.label.setText(PICKING if self.pick.isChecked() else HINT)
        else:
            number, _, noun = plural(editor.layer.n_all, "streamline").partition(" ")
            self.label.setText(f"<b>{editor.n_selected:,} of {number}</b> {noun} selected")

    def _act(self, act: Any) -> None:
        if self.layer is not None:
            act(self.layer.editor)

    def _alt_click(self, viewer: Any, event: Any) -> Iterator[None]:
        layer, modifiers = self.layer, set(event.modifiers)
        if layer is None or not layer.visible:
            return
        is_picking = self.pick.isChecked() and bool(modifiers & EXTEND)  # which else place seeds
        if layer is viewer.layers.selection.active and not is_picking:
            return  # the layer itself selects
        if "Alt" not in modifiers and not self.pick.isChecked():
            return
        for _ in select_on_click(layer, event):
            event.handled = event.handled or is_picking
            yield

    def _on_status(self, _event: Any = None) -> None:
        if self.layer is not None and self.viewer.status != self._own_status:
            self._hover.start()

    def _show_status(self) -> None:
        """Say in the status bar which streamline is under the cursor, after the other layer."""
        viewer, layer = self.viewer, self.layer
        status = viewer.status
        if (
            layer is None
            or layer is viewer.layers.selection.active
            or not isinstance(status, dict)
            or QApplication.mouseButtons() != Qt.MouseButton.NoButton  # the camera moves
        ):
            return
        dims, sight = viewer.dims, None
        if dims.ndisplay == 3:
            look = viewer.scene.camera.calculate_nd_view_direction
            sight = look(dims.ndim, list(dims.displayed))
        number = layer.get_value(viewer.cursor.position, view_direction=sight, world=True)
        if number is not None:
            said = status["coordinates"].removesuffix(": ")
            text = "; ".join(filter(None, (said, layer.describe(number))))
            self._own_status = {**status, "coordinates": text}
            viewer.status = self._own_status
