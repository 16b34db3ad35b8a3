"""How does it depend? The dialog that sweeps a parameter."""

from __future__ import annotations

import csv
from contextlib import suppress
from dataclasses import replace

import numpy as np
import pytest
from hands import WAIT_MS
from qtpy.QtCore import Qt
from qtpy.QtTest import QTest
from qtpy.QtWidgets import QFileDialog

import napari_tractography as nt
from napari_tractography.errors import InvalidSeedsError
from napari_tractography.plugin.panel.measure import sweep_dialog
from napari_tractography.plugin.panel.measure.sweep_dialog import MAX_LINES, lines_of
from napari_tractography.streamlines.tractogram import Tractogram

NAME = "max_angle_deg"


@pytest.fixture
def dialog(open_model, cross, qtbot):
    """Of the cross from one seed, asked for the cone angle from 5 to 50."""
    panel = open_model(cross)
    panel.set_parameters(n_per_seed=60, max_angle_deg=20.0)
    panel.session.add_seeds_mm(np.array([[-14.4, -8.3, 0.0]]))
    found = panel.ask_sweep()
    found.parameter.setCurrentIndex(found.parameter.findData(NAME))
    found.low.setValue(5.0)
    found.high.setValue(50.0)
    found.number.setValue(3)
    yield found
    with suppress(RuntimeError):  # it has ended
        found.done(0)


def tracked(dialog, qtbot):
    dialog.start_button.click()
    qtbot.waitUntil(lambda: not dialog.work.is_busy, timeout=WAIT_MS)
    return dialog.found


def test_it_gives_what_the_library_gives(dialog, qtbot, monkeypatch, tmp_path):
    session = dialog.session
    inputs = session.request().tracking_input()
    found = tracked(dialog, qtbot)
    wanted = nt.sweep(
        inputs.fod, inputs.seeds, inputs.parameters, name=NAME, values=[5.0, 27.5, 50.0]
    )
    assert found.values.tolist() == [5.0, 20.0, 27.5, 50.0]
    for name, measured in wanted.measured.items():
        assert np.array_equal(found.measured[name], measured)
        assert np.array_equal(found.errors[name], wanted.errors[name])
    assert dialog.answer.text() == wanted.text
    assert [button.text() for button in dialog.group.buttons()][1] == "20 (now)\n60"
    assert not dialog.use_button.isEnabled()
    target = str(tmp_path / "t.csv")
    monkeypatch.setattr(QFileDialog, "getSaveFileName", lambda *_: (target, ""))
    dialog.csv.click()
    with open(target, encoding="utf-8", newline="") as stream:
        rows = list(csv.DictReader(stream))
    assert [row["is_chosen"] for row in rows] == ["0", "1", "0", "0"]


def test_what_went_wrong_is_said_in_the_dialog_until_it_is_tracked_again(dialog, qtbot, notes):
    dialog.request = replace(
        dialog.request, seeding=replace(dialog.request.seeding, counts=np.array([3]))
    )
    tracked(dialog, qtbot)
    said = "3 seeds are too few for standard errors; give at least 20."
    assert notes == [f"error: {said}"]
    assert dialog.answer.text() == said
    assert not dialog.answer.isHidden()
    assert not dialog.group.buttons()  # of values that gave nothing
    dialog.start()
    assert dialog.answer.isHidden()


def test_numbers_have_no_zeros_at_their_end(dialog):
    dialog.low.setValue(1.71)
    assert [box.text() for box in (dialog.low, dialog.high)] == ["1.71", "50"]
    dialog.parameter.setCurrentIndex(dialog.parameter.findData("n_directions"))
    assert [box.text() for box in (dialog.low, dialog.high)] == ["362", "1448"]


@pytest.mark.parametrize("key", [Qt.Key.Key_Return, Qt.Key.Key_Enter])
def test_enter_confirms_a_number_and_tracks_where_track_has_the_focus(dialog, qtbot, key):
    for box in (dialog.low, dialog.high, dialog.number):
        box.selectAll()
        QTest.keyClicks(box, "7")
        QTest.keyClick(box, key)
        assert box.value() == 7
        assert dialog.isVisible()
        assert not dialog.work.is_busy
    QTest.keyClick(dialog.start_button, key)
    assert dialog.work.is_busy
    qtbot.waitUntil(lambda: not dialog.work.is_busy, timeout=WAIT_MS)


def test_it_ends_with_the_panel(dialog, qtbot):
    ended = []
    dialog.work.ended.connect(lambda: ended.append(True))
    dialog.start_button.click()
    assert dialog.work.is_busy
    dialog.parent().close_session()
    assert not dialog.work.is_busy
    assert not dialog.isVisible()
    assert ended


def test_a_value_is_used_as_one_step(dialog, qtbot):
    session = dialog.session
    tracked(dialog, qtbot)
    dialog.group.button(2).click()
    assert dialog.use_button.isEnabled()
    dialog.use_button.click()
    assert session.parameters.max_angle_deg == pytest.approx(27.5)
    session.document.undo()
    assert session.parameters.max_angle_deg == pytest.approx(20.0)
    assert len(session.seeds) == 1


def test_pictures_turn_together(dialog, qtbot):
    tracked(dialog, qtbot)
    views = dialog.pictures.views
    assert len(views) == 4
    lines = [type(child).__name__ for view in views for child in view.scene.children]
    assert lines.count("Line") == 4
    views[3].camera.azimuth, views[3].camera.elevation = 40.0, 25.0
    assert {(v.camera.azimuth, v.camera.elevation) for v in views} == {(40.0, 25.0)}
    tracked(dialog, qtbot)  # again: turned as it was
    assert {(v.camera.azimuth, v.camera.elevation) for v in dialog.pictures.views} == {(40.0, 25.0)}


def test_cancel_shows_nothing(dialog, qtbot):
    dialog.start()
    dialog.progress.cancel.click()
    assert not dialog.work.is_busy
    assert dialog.found is None
    assert dialog.answer.isHidden()
    assert not dialog.csv.isEnabled()


def test_what_is_impossible_is_said(dialog, qtbot, notes, open_model, cross, monkeypatch):
    def refuse(*_args, **_kwargs):
        raise InvalidSeedsError("Too few.")

    monkeypatch.setattr(sweep_dialog, "swept", refuse)
    dialog.start()
    qtbot.waitUntil(lambda: bool(notes), timeout=WAIT_MS)
    assert "Too few." in notes[-1]
    empty = open_model(cross)
    assert empty.ask_sweep() is None
    assert "no seeds" in notes[-1]


def test_whole_numbers_are_swept_as_such(open_model, cross):
    panel = open_model(cross)
    panel.set_parameters(algorithm="ifod2")
    panel.session.add_seeds_mm(np.array([[-14.4, -8.3, 0.0]]))
    found = panel.ask_sweep()
    found.parameter.setCurrentIndex(found.parameter.findData("samples"))
    assert (found.low.value(), found.high.value(), found.low.decimals()) == (2.0, 8.0, 0)
    names = [found.parameter.itemData(k) for k in range(found.parameter.count())]
    assert "random_seed" not in names
    assert "interpolation" not in names
    found.done(0)


def test_pictures_have_few_streamlines_in_the_colours_of_directions():
    straight = np.stack([np.linspace(0, 9, 20), np.zeros(20), np.zeros(20)], axis=1)
    points, colours, joined = lines_of(Tractogram.from_streamlines([straight] * 2 * MAX_LINES))
    assert len(points) == len(colours) == len(joined)
    assert np.count_nonzero(~joined) == MAX_LINES
    assert np.allclose(colours, [1, 0, 0, 1])
    assert len(lines_of(Tractogram.empty())[0]) == 0
