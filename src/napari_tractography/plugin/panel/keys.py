"""What the panel does at a key: listed in napari's Preferences, and in its command palette.

One table: the keys, the manifest's commands and a page of the docs derive from it. The panel takes
the keys when it opens, and gives them back when the last one closes.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from napari.components import ViewerModel
from napari.layers import Labels
from napari.settings import get_settings
from napari.utils.action_manager import action_manager
from napari.utils.key_bindings import coerce_keybinding
from napari.viewer import Viewer

from ..layers.region_entries import PAINTED_KEY
from ..space.views import KEYS, VIEW_HELP, VIEWS
from ..streamlines import commands
from ..streamlines.layer import Streamlines

PLUGIN = "napari-tractography"


@dataclass(frozen=True, slots=True)
class PanelCommand:
    """Something that a panel does."""

    title: str  # in the command palette
    help: str  # a sentence
    act: Callable[[Any], object]  # takes the panel
    key: str = ""  # as napari writes keys; "" for none, until a person chooses one in Preferences


def _view(name: str) -> PanelCommand:
    title = f"View: {name}"
    text = VIEW_HELP[name].rpartition(" ")[0]  # without the key
    return PanelCommand(title, text, lambda panel: panel.scene.show_view(name), KEYS[name])


def _dock(section: str, what: str) -> PanelCommand:
    return PanelCommand(
        f"Show {what}", f"Bring {what} to the front, in whichever dock that is.",
        lambda panel: panel.docks.show(section),
    )  # fmt: skip


COMMANDS = {
    "run": PanelCommand(
        "Run", "Track from every seed, into the selected bundle.",
        lambda panel: panel.run_button.click(), "Control-Enter",
    ),
    "live": PanelCommand(
        "Live", "Track again whenever a seed or a parameter changes, or no more.",
        lambda panel: panel.live.click(), "Control-Shift-L",
    ),
    "cancel": PanelCommand(
        "Cancel", "Stop tracking and keep what has arrived.",
        lambda panel: panel.cancel_button.click(),
    ),
    "undo": PanelCommand(
        "Undo", "Undo what was done last.",
        lambda panel: panel.session.document.undo(), "Control-Z",
    ),
    "redo": PanelCommand(
        "Redo", "Do again what was undone.",
        lambda panel: panel.session.document.redo(), "Control-Shift-Z",
    ),
    "seed_here": PanelCommand(
        "Seed at the crosshair", "Place a seed where all slices meet, as without a mouse.",
        lambda panel: panel.mouse.add_seed_in_slices(), "Control-Shift-D",
    ),
    "new_bundle": PanelCommand(
        "New bundle", "Make a bundle without seeds and regions.",
        lambda panel: panel.bundle_list.new.click(), "Control-Shift-B",
    ),
    "duplicate_bundle": PanelCommand(
        "Duplicate bundle", "Make a copy of the selected bundle.",
        lambda panel: panel.bundle_list.copy.click(),
    ),
    "mirror_bundle": PanelCommand(
        "Mirror bundle", "Make the bundle of the other side.",
        lambda panel: panel.bundle_list.mirror.click(),
    ),
    "sweep": PanelCommand(
        "How does it depend?", "Sweep a parameter of the selected bundle, and compare.",
        lambda panel: panel.ask_sweep(),
    ),
    "cohort": PanelCommand(
        "Is it so in everyone?", "Track from the same seeds in the FODs of many subjects.",
        lambda panel: panel.ask_cohort(),
    ),
    "colour_bundles": PanelCommand(
        "Colours of all bundles", "Give each bundle a colour of its own, or colour by direction.",
        lambda panel: panel.bundle_list.colours.click(),
    ),
    "show_only": PanelCommand(
        "Show only this bundle", "Hide the streamlines of all other bundles, or show all.",
        lambda panel: panel.bundles.show_only(panel.bundles.active),
    ),
    "pick": PanelCommand(
        "Pick streamlines", "Let clicks select streamlines, or no more.",
        lambda panel: panel.selection.pick.click(),
    ),
    "save_project": PanelCommand(
        "Save project", "Save all bundles as a project.", lambda panel: panel.project.ask_save(),
    ),
    "open_project": PanelCommand(
        "Open project...", "Open a project in place of the bundles.",
        lambda panel: panel.project.ask_open(),
    ),
    "screenshot": PanelCommand(
        "Screenshot...", "Save a picture of the canvas.", lambda panel: panel.pictures.ask(),
    ),
    "figure": PanelCommand(
        "Figure...", "Make a figure of several views.", lambda panel: panel.pictures.ask_figure(),
    ),
    "three_docks": PanelCommand(
        "Panel in three docks",
        "Have the bundles, and what shows and measures them, in docks of their own, or no more.",
        lambda panel: panel.docks.action.trigger(),
    ),
    "show_bundles": _dock("Bundles", "the bundles"),
    "show_tracking": _dock("Tracking", "tracking"),
    "show_display": _dock("Display", "the display of streamlines"),
    "show_measures": _dock("Measure", "measures"),
    **{f"view_{name.replace('-', '').lower()}": _view(name) for name in VIEWS},
    "crosshair": PanelCommand(
        "Crosshair here", "Move all slices to what is under the mouse.",
        lambda panel: panel.scene.move_to_mouse(), "Control-0",
    ),
    "ruler": PanelCommand(
        "Ruler", "Let drags measure distances, or no more.",
        lambda panel: panel.scene.ruler.button.click(), "Control-9",
    ),
}  # fmt: skip

# By viewer the panel that is open in it: weak, as it goes with its window.
_panels: weakref.WeakKeyDictionary[Any, weakref.ref[Any]] = weakref.WeakKeyDictionary()


def __getattr__(name: str) -> Any:
    """Return what the manifest names: the command of this name, as napari's palette calls it."""
    if name not in COMMANDS:
        raise AttributeError(name)
    return _of_viewer(_in_panel, name, opens=True)


def _of_viewer(act: Callable[..., None], name: str, **kwargs: Any) -> Callable[..., None]:
    """Return a function of a viewer with a name and a type, for which napari asks."""

    def do(viewer: Viewer) -> None:
        act(viewer, name, **kwargs)

    do.__name__ = do.__qualname__ = name
    return do


def _in_panel(viewer: Any, name: str, *, opens: bool = False) -> None:
    """Do something in the panel of a viewer; from the palette one is opened for it."""
    viewer = getattr(viewer, "__wrapped__", viewer)  # what napari gives plugins
    known = _panels.get(viewer)
    panel = None if known is None else known()
    if panel is None and opens:
        viewer.window.add_plugin_dock_widget(PLUGIN, "Tractography")
        panel = _panels[viewer]()
    if panel is not None:
        COMMANDS[name].act(panel)


class _Binding(NamedTuple):
    """What napari lists in Preferences, with the keys that it has by default."""

    name: str
    act: Callable[..., None]
    text: str
    provider: Any  # whose keys it has: the viewer's, or those of a layer
    keys: list[Any]


def _bindings() -> Iterator[_Binding]:
    for name, command in COMMANDS.items():
        keys = [coerce_keybinding(command.key)] if command.key else []
        act, text = _of_viewer(_in_panel, name), f"Tractography: {command.title}"
        yield _Binding(f"{PLUGIN}:{name}", act, text, ViewerModel, keys)
    for each in commands.COMMANDS:
        press, text = commands.press(each), f"Streamlines: {each.name}"
        keys = [coerce_keybinding(key) for key in each.keys]
        yield _Binding(f"{PLUGIN}:{press.__name__}", press, text, Streamlines, keys)


def _of_labels(
    name: str, own: Callable[[Labels], object], held: Callable[[Labels], object]
) -> Callable[[Labels], None]:
    """Return what undo or redo does where labels are the active layer, which have one of their own.

    Theirs comes first, but for regions that are painted: it would leave the order of acts. Where
    they have nothing to undo it is the panel's, as where any other layer is active.
    """

    def press(layer: Labels) -> None:
        if held(layer) and not layer.metadata.get(PAINTED_KEY):
            own(layer)
            return
        for viewer in list(_panels):
            if layer in viewer.layers:
                _in_panel(viewer, name)

    return press


# By the command: what labels do, and what they have to do it with.
LABELS_KEYS = {
    "undo": (Labels.undo, lambda layer: getattr(layer, "_undo_history", ())),
    "redo": (Labels.redo, lambda layer: getattr(layer, "_redo_history", ())),
}
_keys_of_labels: dict[Any, Any] = {}  # as napari has them, while a panel is open


def _take_keys_of_labels() -> None:
    for name, theirs in LABELS_KEYS.items():
        key = coerce_keybinding(COMMANDS[name].key)
        _keys_of_labels[key] = Labels.class_keymap.get(key)
        Labels.bind_key(key, _of_labels(name, *theirs), overwrite=True)


def _give_keys_of_labels_back() -> None:
    while _keys_of_labels:
        Labels.bind_key(*_keys_of_labels.popitem(), overwrite=True)


def open_keys(panel: Any) -> None:
    """Take the keys for a panel that opens, as they are in Preferences, or else by default."""
    is_first = not len(_panels)
    _panels[panel.viewer] = weakref.ref(panel)
    if not is_first:
        return
    _take_keys_of_labels()
    chosen = get_settings().shortcuts.shortcuts
    for each in _bindings():
        action_manager.register_action(*each[:4])
        bound = action_manager.unbind_shortcut(each.name)  # from Preferences, as napari started
        for key in chosen.get(each.name, each.keys) if bound is None else bound:
            action_manager.bind_shortcut(each.name, key)


def close_keys(panel: Any) -> None:
    """Give the keys back with the last panel; those of the layer of streamlines stay its own.

    Preferences keep every key once one was changed, and napari warns when it starts of those whose
    plugin is not there yet: keys that are as by default are kept no more.
    """
    _panels.pop(panel.viewer, None)
    if len(_panels):
        return
    _give_keys_of_labels_back()
    chosen, shortcuts = dict(get_settings().shortcuts.shortcuts), get_settings().shortcuts
    for each in _bindings():
        if each.provider is ViewerModel:
            action_manager.unbind_shortcut(each.name)
        if chosen.get(each.name) == each.keys:
            del chosen[each.name]
    if len(chosen) < len(shortcuts.shortcuts):
        shortcuts.shortcuts = chosen
