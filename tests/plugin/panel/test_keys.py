"""Keys and commands of the panel, by napari's own keymap, Preferences and palette."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module, resources
from typing import Any

import numpy as np
import pytest
import yaml
from napari.components import ViewerModel
from napari.layers import Labels
from napari.settings import get_settings
from napari.utils.key_bindings import KeymapHandler, coerce_keybinding

from napari_tractography.plugin.panel import keys
from napari_tractography.plugin.session.seed_mouse import NO_VOLUME
from napari_tractography.plugin.space.views import KEYS as VIEW_KEYS
from napari_tractography.plugin.space.views import ORDERS


@pytest.fixture(autouse=True)
def shortcuts_are_kept() -> Iterator[None]:
    """Of napari's settings, which this process has once."""
    before = dict(get_settings().shortcuts.shortcuts)
    yield
    get_settings().shortcuts.shortcuts = before


def press(viewer: Any, key: str) -> bool:
    """Do what a key does in a viewer; return whether it does something."""
    handler = KeymapHandler()
    handler.keymap_providers = [viewer]
    act = handler.active_keymap.get(coerce_keybinding(key))
    if act is not None:
        act()
    return act is not None


def press_in(viewer: Any, layer: Any, key: str) -> None:
    """Do what a key does in a viewer in which a layer is active."""
    handler = KeymapHandler()
    handler.keymap_providers = [layer, viewer]
    handler.active_keymap[coerce_keybinding(key)]()


def test_keys_act_in_the_panel_of_their_viewer_and_are_given_back(
    open_model: Any, cross: Any
) -> None:
    panel, other = open_model(cross), open_model(cross)
    assert press(panel.viewer, "Control-Shift-B")
    assert len(panel.bundles.bundles) == 2
    assert len(other.bundles.bundles) == 1
    press(panel.viewer, "Control-Z")
    assert len(panel.bundles.bundles) == 1
    press(panel.viewer, "Control-Shift-Z")
    assert len(panel.bundles.bundles) == 2
    for name, key in VIEW_KEYS.items():
        press(panel.viewer, key)
        assert panel.viewer.dims.ndisplay == (2 if name in ORDERS else 3)
    other.close_session()
    assert press(panel.viewer, "Control-1")
    panel.close_session()
    assert not press(panel.viewer, "Control-1")
    panel.open_session()
    assert press(panel.viewer, "Control-1")


def test_undo_is_the_panels_where_labels_are_active_that_have_nothing_to_undo(
    open_model: Any, cross: Any
) -> None:
    """As a mask or a tissue image is once it was opened; what is painted in it comes first."""
    panel, other = open_model(cross), open_model(cross)
    own = dict(Labels.class_keymap)
    panel.session.add_seeds_mm([[0.0, 0.0, 0.0]])
    layer = panel.viewer.add_labels(np.zeros((10, 24, 32), np.uint8), name="mask")
    layer.fill((5, 5, 5), 1)
    panel.viewer.layers.selection.active = layer

    def pressed(key: str) -> tuple[int, int]:
        press_in(panel.viewer, layer, key)
        return int(layer.data.max()), len(panel.session.seeds)

    assert pressed("Control-Z") == (0, 1)
    assert pressed("Control-Z") == (0, 0)
    assert pressed("Control-Shift-Z") == (1, 0)
    assert pressed("Control-Shift-Z") == (1, 1)
    panel.close_session()
    assert Labels.class_keymap == own
    other.close_session()
    assert all(Labels.class_keymap[key].__module__.startswith("napari.") for key in own)


def test_a_key_that_was_chosen_in_preferences_counts(open_model: Any, cross: Any) -> None:
    chosen = {"napari-tractography:new_bundle": [coerce_keybinding("Control-Alt-N")]}
    get_settings().shortcuts.shortcuts = {**get_settings().shortcuts.shortcuts, **chosen}
    panel = open_model(cross)
    assert not press(panel.viewer, "Control-Shift-B")
    press(panel.viewer, "Control-Alt-N")
    assert len(panel.bundles.bundles) == 2


def test_keys_as_by_default_are_not_kept_in_preferences(open_model: Any, cross: Any) -> None:
    """napari warns of each of them when it starts, before the plugin is there."""
    panel, shortcuts = open_model(cross), get_settings().shortcuts
    ours = {"run": "Control-Enter", "live": "Control-Alt-L"}
    kept = {f"napari-tractography:{n}": [coerce_keybinding(key)] for n, key in ours.items()}
    n_before = len(shortcuts.shortcuts)
    shortcuts.shortcuts = {**shortcuts.shortcuts, **kept}
    panel.close_session()
    assert "napari-tractography:run" not in shortcuts.shortcuts
    assert "napari-tractography:live" in shortcuts.shortcuts
    assert len(shortcuts.shortcuts) == n_before + 1


def test_a_seed_is_placed_where_the_slices_meet_without_a_mouse(
    open_model: Any, cross: Any, notes: list[str]
) -> None:
    panel = open_model()
    press(panel.viewer, "Control-Shift-D")
    assert notes == [f"warning: {NO_VOLUME}"]
    panel = open_model(cross)
    for slider, axis in zip(panel.scene.slices.sliders, range(3), strict=True):
        slider.slider.setValue(slider.slider.maximum() - 3 - axis)
    press(panel.viewer, "Control-Shift-D")
    seeds = panel.session.seeds
    meet = np.asarray(panel.viewer.dims.point)[None]
    np.testing.assert_allclose(seeds.positions_mm, panel.session.space.to_world(meet))
    assert (panel.session.document.last, len(seeds)) == ("Place 1 seed", 1)


def test_no_key_is_taken_from_napari_and_none_twice() -> None:
    ours = [coerce_keybinding(each.key) for each in keys.COMMANDS.values() if each.key]
    assert len(set(ours)) == len(ours)
    assert not [key for key in ours if key in ViewerModel.class_keymap]
    known = [key for bound in get_settings().shortcuts.shortcuts.values() for key in bound]
    assert not set(ours) & set(known)


def test_the_palette_has_each_command() -> None:
    text = resources.files("napari_tractography").joinpath("napari.yaml").read_text("utf-8")
    listed = {
        command["python_name"]: command["title"]
        for command in yaml.safe_load(text)["contributions"]["commands"]
        if ".keys:" in command["python_name"]
    }
    module = keys.__name__
    assert listed == {f"{module}:{name}": each.title for name, each in keys.COMMANDS.items()}
    for name in keys.COMMANDS:
        assert getattr(import_module(module), name).__name__ == name
    with pytest.raises(AttributeError):
        assert keys.no_command
