"""Selecting and editing streamlines with the mouse and with keys.

The keys and the plain click belong to the layer: they act while it is selected in the viewer. The
panel adds the Alt-click, which acts whatever layer is selected.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from app_model.types import KeyCode, KeyMod

from .editing import Editor

CLICK_PIXELS = 5  # a drag shorter than this is a click
EXTEND = {"Control", "Shift"}  # either adds to the selection


@dataclass(frozen=True, slots=True)
class Command:
    """Something to be done with the selected streamlines."""

    name: str  # of the button
    keys: tuple[int, ...]  # that do it while the layer is selected; none of them is napari's
    help: str  # what it does
    act: Callable[[Editor], None]
    possible: Callable[[Editor], bool]  # whether there is something to be done


COMMANDS = (
    Command(
        "Keep",
        (KeyCode.KeyK,),
        "Keep only the selected streamlines.",
        Editor.keep_selected,
        lambda editor: 0 < editor.n_selected < editor.layer.n_all,
    ),
    Command(
        "Delete",
        (KeyCode.Delete, KeyCode.Backspace),
        "Delete the selected streamlines.",
        Editor.delete_selected,
        lambda editor: editor.n_selected > 0,
    ),
    Command(
        "Invert",
        (KeyCode.KeyI,),
        "Select what is not selected.",
        Editor.invert,
        lambda editor: editor.layer.n_all > 0,
    ),
    Command(
        "Clear",
        (KeyCode.Escape,),
        "Select nothing.",
        Editor.clear,
        lambda editor: editor.n_selected > 0,
    ),
    Command(
        "Undo",
        (KeyMod.CtrlCmd | KeyCode.KeyZ,),
        "Undo the last edit.",
        Editor.undo,
        lambda editor: editor.can_undo,
    ),
    Command(
        "Redo",
        # Ctrl+Y is napari's, for 2-D and 3-D.
        (KeyMod.CtrlCmd | KeyMod.Shift | KeyCode.KeyZ,),
        "Make the edit again that was undone.",
        Editor.redo,
        lambda editor: editor.can_redo,
    ),
)


def press(command: Command) -> Callable[[Any], None]:
    """Return what the keys of a command do in a layer of streamlines."""

    def act(layer: Any) -> None:
        if command.possible(layer.editor):
            command.act(layer.editor)
        else:
            layer.editor.refused.emit(command.name)

    act.__doc__ = command.help
    act.__name__ = act.__qualname__ = f"{command.name.lower()}_streamlines"  # as napari lists it
    return act


KEYMAP = {key: press(command) for command in COMMANDS for key in command.keys}


def select_on_click(layer: Any, event: Any) -> Iterator[None]:
    """Select the streamline that is clicked: for ``layer.mouse_drag_callbacks``.

    With Control or Shift it is added to the selection, or removed from it. Drags are left to the
    camera, and presses that another callback has handled are ignored.
    """
    if event.button != 1 or event.handled or layer.mode != "pan_zoom":
        return
    pressed = np.asarray(event.pos)
    position, direction = event.position, event.view_direction
    extend = bool(EXTEND & set(event.modifiers))
    moved = 0.0
    while True:
        yield
        moved = max(moved, float(np.abs(np.asarray(event.pos) - pressed).max()))
        if event.type != "mouse_move":
            break
    if moved > CLICK_PIXELS:
        return
    number = layer.get_value(position, view_direction=direction, world=True)
    layer.editor.select(number, extend=extend)
