"""The list of bundles in the panel: its context menu, keys and colours."""

from __future__ import annotations

from typing import Any

import pytest
from qtpy.QtCore import Qt
from qtpy.QtGui import QColor
from qtpy.QtTest import QTest
from qtpy.QtWidgets import QColorDialog

from napari_tractography import Tractogram
from napari_tractography.model.phantoms import phantom_seeds_mm
from napari_tractography.plugin.panel import bundle_list
from napari_tractography.plugin.streamlines import Streamlines
from napari_tractography.plugin.streamlines.colours import rgba_of

NAMES = ["one", "two", "three"]


@pytest.fixture
def panel(open_model: Any, cross: Any) -> Any:
    """Three bundles of a seed each, of which the second is active; none is tracked."""
    panel = open_model(cross)
    panel.bundles.rename(panel.bundles.active, NAMES[0])
    panel.session.add_seeds_mm(phantom_seeds_mm("cross")[:1])
    for name in NAMES[1:]:
        panel.bundles.add(name)
        panel.session.add_seeds_mm(phantom_seeds_mm("cross")[1:])
    panel.bundles.activate(panel.bundles.bundles[1])
    return panel


def names(panel: Any) -> list[str]:
    return [bundle.name for bundle in panel.bundles.bundles]


def press(panel: Any, key: Qt.Key, *modifiers: Qt.KeyboardModifier) -> None:
    held = Qt.KeyboardModifier.NoModifier
    for modifier in modifiers:
        held |= modifier
    QTest.keyClick(panel.bundle_list.table, key, held)


def test_keys_reorder_delete_and_undo(panel: Any) -> None:
    ctrl = Qt.KeyboardModifier.ControlModifier
    press(panel, Qt.Key.Key_Up, ctrl)
    assert names(panel) == ["two", "one", "three"]
    press(panel, Qt.Key.Key_Down, ctrl)
    press(panel, Qt.Key.Key_Down, ctrl)
    assert names(panel) == ["one", "three", "two"]
    press(panel, Qt.Key.Key_Delete)
    assert names(panel) == ["one", "three"]
    press(panel, Qt.Key.Key_Z, ctrl)
    assert names(panel) == ["one", "three", "two"]
    press(panel, Qt.Key.Key_Y, ctrl)
    assert names(panel) == ["one", "three"]


def test_what_was_done_is_told_with_its_link_whatever_the_names(panel: Any) -> None:
    """A line break, as a script can have it in a name, made the link plain text."""
    panel.bundles.rename(panel.bundles.active, "left\nand <right>")
    told = panel.bundle_list.history_label
    assert "&lt;right>" in told.text()
    assert told.textFormat() == Qt.TextFormat.RichText


def test_pictures_of_rows_are_made_when_they_change_alone(
    panel: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The work of a list of hundreds of bundles: one more row is not all rows anew."""
    made: list[str] = []
    swatch = bundle_list._swatch
    monkeypatch.setattr(bundle_list, "_swatch", lambda *of: made.append(of[1]) or swatch(*of))
    panel.bundles.activate(panel.bundles.bundles[-1])
    panel.bundles.add("four")  # below the active one
    assert len(made) == 1
    panel.bundles.set_colour(panel.bundles.bundles[0], "#123456")
    assert made[1:] == ["#123456"]


def test_one_act_gives_each_bundle_its_colour_and_swatches_show_what_is_drawn(
    panel: Any, settle: Any
) -> None:
    def swatch(row: int) -> list[str]:
        picture = panel.bundle_list.table.item(row, bundle_list.COLOUR).icon().pixmap(12, 12)
        image = picture.toImage()
        return [image.pixelColor(x, 6).name() for x in (1, 6, 10)]

    for bundle in panel.bundles.bundles:
        panel.bundles.activate(bundle)
        panel.run()
        settle(panel)
    first, _, third = panel.bundles.bundles
    panel.bundles.set_colour(third, first.state.colour)  # as a file may say
    by_direction = ["#ff0000", "#00ff00", "#0000ff"]
    assert swatch(0) == swatch(1) == by_direction
    colour_by = next(c for c in panel.appearance.controls if c.name == "colour_by")

    panel.bundle_list.colours.click()
    drawn = [bundle.layer.colour for bundle in panel.bundles.bundles]
    assert len(set(drawn)) == 3
    assert all(bundle.layer.colour_by == "one colour" for bundle in panel.bundles.bundles)
    assert colour_by.value == "one colour"
    for row, bundle in enumerate(panel.bundles.bundles):
        assert swatch(row) == [bundle.state.colour] * 3
        assert rgba_of(bundle.state.colour) == bundle.layer.colour
    assert "A colour for each bundle" in panel.bundle_list.history_label.text()

    panel.session.document.undo()
    assert [bundle.layer.colour_by for bundle in panel.bundles.bundles] == ["direction"] * 3
    assert (swatch(0), colour_by.value) == (by_direction, "direction")
    panel.session.document.redo()
    panel.bundle_list.colours.click()  # each has one: back to directions
    assert [bundle.layer.colour_by for bundle in panel.bundles.bundles] == ["direction"] * 3
    colour_by.value = "length"
    assert len(set(swatch(2))) == 3
    assert swatch(2) != by_direction


def test_space_closes_and_opens_the_eye_of_a_row(panel: Any) -> None:
    active = panel.bundles.active
    panel.session.ensure_streamlines_layer()
    assert active.state.is_visible
    press(panel, Qt.Key.Key_Space)
    assert [bundle.state.is_visible for bundle in panel.bundles.bundles] == [True, False, True]
    press(panel, Qt.Key.Key_Space)
    assert active.state.is_visible


def test_the_menu_does_what_its_entries_say(panel: Any) -> None:
    def entries() -> dict[str, Any]:
        panel.menu_kept = panel.bundle_list.menu()  # it goes with its entries
        return {entry.text(): entry for entry in panel.menu_kept.actions() if entry.text()}

    first = entries()
    assert first["Move up"].isEnabled()
    assert not first["Redo"].isEnabled()
    first["Move up"].trigger()
    assert names(panel) == ["two", "one", "three"]
    assert not entries()["Move up"].isEnabled()
    entries()["Duplicate"].trigger()
    assert len(names(panel)) == 4
    entries()["Delete"].trigger()
    entries()["Undo"].trigger()
    assert len(names(panel)) == 4
    entries()["Redo"].trigger()
    assert len(names(panel)) == 3


def test_a_colour_is_taken_where_one_is_chosen(panel: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    other = panel.bundles.bundles[2]
    before, chosen = other.state.colour, [QColor(), QColor("#123456")]
    monkeypatch.setattr(QColorDialog, "getColor", lambda *args: chosen.pop(0))
    panel.bundle_list.ask_colour(other)  # it was cancelled
    assert other.state.colour == before
    panel.bundle_list.ask_colour(other)
    assert other.state.colour == "#123456"
    assert panel.bundles.active is other


@pytest.mark.parametrize("how", ["New", "Delete, of the last"])
def test_a_new_bundle_looks_as_the_one_before_it_does_now(panel: Any, how: str) -> None:
    """Not as that one did when another bundle was selected last."""
    look = {control.name: control for control in panel.appearance.controls}
    look["colour_by"].value = "length"
    panel.bundles.activate(panel.bundles.bundles[0])
    panel.bundles.activate(panel.bundles.bundles[1])
    look["colour_by"].value = "stop reason"
    if how == "New":
        panel.bundles.add()
    else:
        for bundle in (panel.bundles.bundles[0], panel.bundles.bundles[2], panel.bundles.active):
            panel.session.delete(bundle)
    assert len(panel.bundles.bundles) == (4 if how == "New" else 1)
    assert look["colour_by"].value == "stop reason"


def test_the_order_of_the_list_is_that_of_drawing_at_once(panel: Any) -> None:
    layers = panel.viewer.layers
    for bundle in panel.bundles.bundles:
        layer = panel.session.ensure_streamlines_layer(bundle)
        layer.tractogram = Tractogram.from_streamlines([[(0, 0, 0), (9, 0, 0)]])

    def drawn() -> list[str]:
        return [layer.name for layer in layers if isinstance(layer, Streamlines)]

    assert drawn() == NAMES
    panel.bundle_list.up.click()
    assert drawn() == names(panel) == ["two", "one", "three"]
    panel.bundles.move(panel.bundles.active, 2)
    assert drawn() == names(panel) == ["one", "three", "two"]
    panel.bundles.history.undo()
    assert drawn() == names(panel) == ["two", "one", "three"]
    panel.session.delete(panel.bundles.bundles[1])
    panel.bundles.history.undo()
    assert drawn() == names(panel) == ["two", "one", "three"]
    layers.move(layers.index("three"), layers.index("two"))  # in napari's list of layers
    assert drawn() == names(panel) == ["three", "two", "one"]


def test_an_edited_bundle_that_is_drawn_otherwise_has_no_other_result(panel: Any) -> None:
    layer = panel.session.ensure_streamlines_layer()
    lines = [[(0, y, 0), (9, y, 0)] for y in range(3)]
    layer.tractogram = Tractogram.from_streamlines(lines)
    layer.selected = [0]
    layer.editor.delete_selected()
    before = panel.session.state
    layer.max_vertices = 1234
    assert panel.session.state.result is before.result
    assert panel.session.state.edits is before.edits is not None
    assert panel.bundles.history.last == "Remove 1 streamline"
    panel.bundles.history.undo()
    assert panel.session.tractogram.n_streamlines == 3
