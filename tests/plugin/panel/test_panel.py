"""The panel: what it shows, what reaches the run, and that bad input is told in a sentence."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import napari.settings
import numpy as np
import pytest
from hands import (
    CHUNK,
    MANY,
    WAIT_MS,
    Mouse,
    fod_layer,
    lie_still,
    tracking_threads,
)
from qtpy.QtCore import QPoint, Qt, QTimer
from qtpy.QtWidgets import (
    QAbstractButton,
    QAbstractSpinBox,
    QComboBox,
    QDockWidget,
    QLabel,
    QSlider,
    QTableView,
    QWidget,
)

from napari_tractography import Fod, Tractogram, track
from napari_tractography.geometry.grid import Grid
from napari_tractography.model.parameters import parameter_specs
from napari_tractography.model.phantoms import make_phantom, phantom_seeds_mm
from napari_tractography.plugin.panel.docks import scrolled
from napari_tractography.plugin.panel.panel import TractographyPanel
from napari_tractography.plugin.panel.widgets.controls import set_values
from napari_tractography.plugin.panel.widgets.layout import Section, row
from napari_tractography.plugin.session import runs
from napari_tractography.plugin.session.wanted import OWN_SPECS

MIDDLE = np.zeros((1, 3))


# What reaches the run.


def test_every_control_reaches_the_run(open_model: Any, cross: Any) -> None:
    panel = open_model(cross)
    panel.session.add_seeds_mm(MIDDLE)
    panel.set_parameters(algorithm="diffusion", max_length_mm=250.0, n_per_seed=500)
    value: Any
    for spec in [*parameter_specs(), *OWN_SPECS]:
        if spec.choices:
            others = (spec.default, "diffusion")
            value = next(choice for choice in spec.choices if choice not in others)
        elif isinstance(spec.default, bool):
            value = not spec.default
        else:
            value = spec.type(min((spec.default or 1) + 2, spec.maximum))
        before = panel.session.request()
        panel.set_parameters(**{spec.name: value})
        request = panel.session.request()
        (n_per_seed,), (radius_mm,) = request.seeding.counts, request.seeding.radii_mm
        of = {"n_per_seed": n_per_seed, "radius_mm": radius_mm}
        assert of.get(spec.name, getattr(request.parameters, spec.name, None)) == value, spec.name
        seeds = request.seeds()
        assert len(seeds) == n_per_seed
        reach = np.linalg.norm(seeds.positions_mm, axis=1).max()
        assert 0.8 * radius_mm < reach <= radius_mm + 1e-5
        panel.session.document.undo()
        assert panel.session.request().parameters == before.parameters


# What it shows.


def test_it_leads_from_nothing_to_streamlines(open_model: Any, cross: Any, settle: Any) -> None:
    panel = open_model()
    hint, result = panel.seeds.hint, panel.results.label
    assert "open an FOD" in hint.text()
    assert "open an FOD" in result.text()
    panel.viewer.add_image(np.zeros((4, 4, 4)))
    assert "open an FOD" in hint.text()
    panel.viewer.add_layer(fod_layer(cross))
    assert panel.data.fod_choice.value is panel.viewer.layers[-1]
    assert "Shift-click" in hint.text()
    panel.session.add_seeds_mm(MIDDLE)
    assert hint.text().startswith("1 seed:")
    assert "press Run" in result.text()
    panel.run_button.click()
    settle(panel)
    text = result.text()
    n = len(panel.session.tractogram)
    assert f"{n:,} streamlines" in text
    assert f"mean length {panel.session.tractogram.lengths_mm.mean():.1f} mm" in text
    assert "steps/s" in text
    assert panel.session.tractogram.reasons()[0][0].text in text
    panel.seeds.clear.click()
    assert "Shift-click" in hint.text()
    assert not panel.seeds.clear.isEnabled()


def test_a_radius_that_suits_a_microscope_is_no_step(open_model: Any, cross: Any) -> None:
    """Nobody set it: undo takes back what a person did, and leaves it as it is."""
    panel = open_model(prepared=False)
    small = cross.grid.affine @ np.diag([0.005, 0.005, 0.005, 1])
    fod = Fod(cross.coefficients, Grid(cross.grid.shape, small, unit="um"))
    panel.set_parameters(n_per_seed=7)
    panel.viewer.add_layer(fod_layer(fod))
    suited = panel.session.seeding.radius_mm
    assert 0 < suited < 0.1
    assert panel.session.document.last.startswith("Streamlines per seed")
    panel.session.document.undo()
    assert not panel.session.document.can_undo
    assert panel.session.seeding.radius_mm == suited


def test_nothing_is_cut_off_at_1280_by_800(open_window: Any, cross: Any, settle: Any) -> None:
    panel = open_window(cross, size=(1280, 800))
    panel.session.add_seeds_mm(MIDDLE)
    for section in panel.findChildren(Section):
        section.header.setChecked(True)
    panel.run()
    settle(panel)
    for theme in ("dark", "light"):
        panel.viewer.theme = theme
        lie_still(panel)
        assert_nothing_is_cut_off(panel)


def test_nothing_is_cut_off_where_window_and_panel_are_as_narrow_as_can_be(
    open_window: Any, cross: Any
) -> None:
    panel = open_window(cross, size=(1024, 700))
    panel.session.add_seeds_mm(MIDDLE)
    for section in panel.findChildren(Section):
        section.header.setChecked(True)
    dock, window = panel.parentWidget(), panel.window()
    while not isinstance(dock, QDockWidget):
        dock = dock.parentWidget()
    appearance = napari.settings.get_settings().appearance
    for size in (appearance.font_size, 13):  # in Preferences
        appearance.font_size = size
        window.resize(1024, 700)
        window.resizeDocks([dock], [1], Qt.Orientation.Horizontal)
        lie_still(panel)
        assert_nothing_is_cut_off(panel)
        for button in panel.scene.bar.findChildren(QAbstractButton):
            assert button.width() >= button.sizeHint().width(), button.text()


def test_tables_have_letters_as_large_as_a_person_chose(open_window: Any, cross: Any) -> None:
    panel = open_window(cross, size=(1400, 800))
    panel.session.add_seeds_mm(MIDDLE)
    panel.session.regions.add_sphere(np.zeros(3), 5.0)
    for section in panel.findChildren(Section):
        section.header.setChecked(section.title in ("Bundles", "Seeds", "Regions"))
    appearance = napari.settings.get_settings().appearance
    tables = [table for table in panel.findChildren(QTableView) if table.isVisibleTo(panel)]
    assert len(tables) == 3
    for size in (appearance.font_size, 16, appearance.font_size):
        appearance.font_size = size
        lie_still(panel)
        for table in tables:
            assert table.font().pointSize() == table.horizontalHeader().font().pointSize() == size
            rows = table.verticalHeader()
            assert rows.sectionSize(0) >= table.fontMetrics().lineSpacing()
            last = rows.sectionViewportPosition(rows.count() - 1) + rows.sectionSize(0)
            assert last <= table.viewport().height(), table  # none is cut off


def test_what_is_wider_than_much_of_the_screen_scrolls_sideways(qtbot: Any) -> None:
    inside = QWidget()
    scroll = scrolled(row(inside))
    qtbot.addWidget(scroll)
    inside.setMinimumWidth(380)
    assert 380 < scroll.minimumSizeHint().width() < 400 + scroll.verticalScrollBar().width()
    inside.setMinimumWidth(5000)
    assert scroll.minimumSizeHint().width() < scroll.screen().availableGeometry().width() / 2
    scroll.resize(scroll.minimumSizeHint())
    scroll.show()
    qtbot.waitUntil(scroll.horizontalScrollBar().isVisible, timeout=WAIT_MS)


def test_a_seed_and_a_bundle_move_nothing_under_the_mouse(open_window: Any, cross: Any) -> None:
    panel = open_window(cross, size=(1280, 800))

    def heights(*widgets: QWidget) -> list[int]:
        lie_still(panel)
        return [widget.mapTo(panel.window(), QPoint()).y() for widget in widgets]

    headers = [section.header for section in panel.findChildren(Section)]
    before = heights(*headers)
    panel.session.add_seeds_mm(MIDDLE)
    assert heights(*headers) == before
    tools = panel.bundle_list.new, panel.bundle_list.history_label
    before = heights(*tools)
    panel.bundle_list.new.click()
    assert heights(*tools) == before


def assert_nothing_is_cut_off(panel: TractographyPanel) -> None:
    assert panel.window().height() <= 800
    assert panel.visibleRegion().boundingRect().height() == panel.height()
    for control in panel.findChildren((QComboBox, QAbstractButton, QAbstractSpinBox, QLabel)):
        if not control.isVisibleTo(panel) or not control.width():
            continue
        place = control.mapTo(panel, control.rect().topLeft())
        assert place.x() >= 0
        assert place.x() + control.width() <= panel.width()
        if isinstance(control, QAbstractButton):
            assert control.width() >= control.minimumSizeHint().width()
        elif isinstance(control, QLabel) and not control.wordWrap():
            assert control.width() >= control.sizeHint().width()
        elif isinstance(control, QAbstractSpinBox):
            text = control.text()
            room = control.findChild(QWidget, "qt_spinbox_lineedit")
            if room is not None and len(text) < 8:
                assert room.width() >= control.fontMetrics().horizontalAdvance(text)
    brief = panel.results.brief
    assert brief.height() >= brief.heightForWidth(brief.width())
    starts = {
        control.x()
        for form in panel.forms
        if form.isVisible()
        for row in range(form.layout().rowCount())
        if (control := form.layout().itemAtPosition(row, 1).widget()).isVisible()
    }
    assert len(starts) == 1  # one label column


def test_every_control_has_a_tooltip(open_model: Any, cross: Any) -> None:
    panel = open_model(cross)
    panel.show()
    bare = []
    for control in panel.findChildren((QComboBox, QAbstractButton, QAbstractSpinBox, QSlider)):
        above: Any = control
        while above is not panel and not above.toolTip():
            above = above.parentWidget()
        if above is panel:
            bare.append(control)
    assert not bare


@pytest.mark.usefixtures("long_runs")
def test_the_window_never_blocks(
    open_window: Any, cross: Any, settle: Any, monkeypatch: Any
) -> None:
    """A timer of the window goes on ticking while a run waits for it before each chunk."""
    panel = open_window(cross)
    panel.session.add_seeds_mm(MIDDLE)
    panel.set_parameters(n_per_seed=4 * CHUNK)
    slowly, ticks, n_chunks = runs.iter_chunks, threading.Semaphore(0), []

    def waiting(*args: Any, **kwargs: Any) -> Iterator[Tractogram]:
        for chunk in slowly(*args, **kwargs):
            if not ticks.acquire(timeout=30):
                raise TimeoutError
            n_chunks.append(1)
            yield chunk

    monkeypatch.setattr(runs, "iter_chunks", waiting)
    timer = QTimer()
    timer.setInterval(1)
    timer.timeout.connect(ticks.release)
    timer.start()
    panel.run_button.click()
    assert panel.runs.current is not None  # Run comes back at once
    settle(panel)
    timer.stop()
    assert len(n_chunks) == 4
    assert panel.session.tractogram.n_seeds == 4 * CHUNK


# Bad input: a notification that names the value and the remedy, and never a traceback.


def press_run(panel: TractographyPanel) -> None:
    panel.run_button.click()


def test_run_without_fod(open_model: Any, notes: list[str]) -> None:
    panel = open_model()
    press_run(panel)
    assert notes == ["error: There is no FOD or image; open one (File > Open) or choose its layer."]


def test_run_without_seeds(open_model: Any, cross: Any, notes: list[str]) -> None:
    panel = open_model(cross)
    press_run(panel)
    assert notes == ["error: There are no seeds; hold Shift and click where fibres should start."]


def test_seeds_outside_the_volume(
    open_model: Any, cross: Any, notes: list[str], settle: Any
) -> None:
    panel = open_model(cross)
    panel.session.add_seeds_mm([[500.0, 0, 0]])
    press_run(panel)
    settle(panel)
    (note,) = notes
    assert note.startswith("error: All 40 seeds lie outside cross")
    assert "-32" in note


def test_an_empty_mask(open_model: Any, cross: Any, notes: list[str], settle: Any) -> None:
    panel = open_model(cross)
    panel.session.add_seeds_mm(MIDDLE)
    panel.viewer._new_labels()
    panel.data.mask_choice.value = panel.viewer.layers[-1]
    press_run(panel)
    settle(panel)
    (note,) = notes
    assert note.startswith("error: The mask of shape (32, 24, 10) is empty")


def test_a_mask_of_another_shape(open_model: Any, cross: Any, notes: list[str]) -> None:
    panel = open_model(cross)
    panel.session.add_seeds_mm(MIDDLE)
    panel.viewer.add_labels(np.ones((3, 4, 5), int), name="small")
    panel.data.mask_choice.value = panel.viewer.layers[-1]
    press_run(panel)
    (note,) = notes
    assert note.startswith("error: The mask small has shape (5, 4, 3) but")
    assert "mrgrid" in note


def test_parameters_that_contradict_each_other(
    open_model: Any, cross: Any, notes: list[str]
) -> None:
    """Told beside the control at once, and as an error when it comes to a run."""
    panel = open_model(cross)
    panel.session.add_seeds_mm(MIDDLE)
    set_values(panel.tracking.controls, {"min_length_mm": 90.0})
    assert "Minimum length = 90 mm exceeds Maximum length = 80 mm" in panel.results.label.text()
    assert notes == []
    press_run(panel)
    assert len(notes) == 1
    assert "Minimum length = 90 mm" in notes[0]
    assert panel.runs.current is None


def test_errors_of_a_moving_hand_are_not_told_again_and_again(
    open_model: Any, cross: Any, notes: list[str], qtbot: Any, settle: Any
) -> None:
    panel = open_model(cross)
    panel.session.add_seeds_mm([[500.0, 0, 0]])
    panel.runs.settle.setInterval(3_600_000)
    panel.live.setChecked(True)
    for step in range(10):
        panel.session.move_seed(0, np.array([0.0, 0.0, 500.0 + step]))
        qtbot.wait(5)
    settle(panel)
    assert not notes
    panel.session.released.emit()
    assert "lie outside" in panel.results.label.text() or panel.runs.current is not None
    qtbot.waitUntil(lambda: bool(notes), timeout=WAIT_MS)
    settle(panel)
    assert len(notes) == 1
    assert "lie outside" in notes[0]


# Coming and going.


def start_a_long_run(panel: TractographyPanel, qtbot: Any) -> None:
    panel.session.add_seeds_mm(MIDDLE)
    panel.set_parameters(n_per_seed=50 * MANY)
    panel.run()
    qtbot.waitUntil(lambda: panel.session.streamlines_layer is not None, timeout=WAIT_MS)
    assert tracking_threads()


def by_viewer(panel: TractographyPanel) -> None:
    panel.viewer.close()


def by_dock(panel: TractographyPanel) -> None:
    panel.parentWidget().destroyOnClose()


@pytest.mark.usefixtures("long_runs")
@pytest.mark.parametrize("close", [by_viewer, by_dock])
def test_closing_during_a_run_leaves_no_thread(
    open_window: Any, cross: Any, qtbot: Any, close: Callable[[TractographyPanel], None]
) -> None:
    panel = open_window(cross)
    before = set(threading.enumerate())
    start_a_long_run(panel, qtbot)
    finished: list[Any] = []
    panel.runs.finished.connect(finished.append)
    close(panel)
    assert panel.runs.current is None
    qtbot.waitUntil(lambda: not tracking_threads(), timeout=WAIT_MS)
    qtbot.waitUntil(lambda: not panel.runs.working, timeout=WAIT_MS)
    assert not finished
    left = {t for t in set(threading.enumerate()) - before if "Dummy" not in t.name}
    assert not left


def test_a_closed_dock_lets_go_of_the_viewer_and_can_come_back(
    open_window: Any, cross: Any, qtbot: Any
) -> None:
    panel = open_window(cross)
    viewer = panel.viewer
    panel.live.setChecked(True)
    by_dock(panel)
    assert panel.mouse.on_press not in viewer.mouse_drag_callbacks
    assert not panel.runs.live
    viewer.layers.clear()
    viewer.window.add_dock_widget(panel, name="Again", area="right")
    assert viewer.mouse_drag_callbacks.count(panel.mouse.on_press) == 1
    assert panel.runs.live
    assert panel.session.fod is None


def test_two_viewers_do_not_know_of_each_other(open_model: Any, cross: Any, settle: Any) -> None:
    one, two = open_model(cross), open_model(make_phantom("letter", lmax=4))
    one.session.add_seeds_mm(MIDDLE)
    two.session.add_seeds_mm(phantom_seeds_mm("letter"))
    one.run()
    two.run()  # at the same time
    settle(one)
    settle(two)
    assert one.session.tractogram.n_seeds == 40
    assert two.session.tractogram.n_seeds == 3 * 40
    two.session.seeds.remove([0])
    assert len(one.session.seeds.positions_mm) == 1
    one.run()
    one.close_session()
    two.run()
    settle(two)
    assert two.session.tractogram.n_seeds == 2 * 40


@pytest.mark.usefixtures("long_runs")
def test_two_windows_run_at_once_and_closing_one_leaves_the_other_alone(
    open_window: Any, cross: Any, settle: Any, qtbot: Any, notes: list[str]
) -> None:
    """Each has its own mouse, run and result."""
    one, two = open_window(cross), open_window(make_phantom("letter", lmax=4))
    one.set_parameters(n_per_seed=4 * CHUNK)
    two.set_parameters(n_per_seed=50 * MANY)
    shift = Qt.KeyboardModifier.ShiftModifier
    Mouse(one.viewer).click((0, 0, 0), shift)
    Mouse(two.viewer).click(two.session.space.to_display(phantom_seeds_mm("letter"))[0], shift)
    for panel in (one, two):
        qtbot.waitUntil(lambda panel=panel: len(panel.session.seeds) == 1, timeout=WAIT_MS)
    two.run_button.click()
    one.run_button.click()
    assert one.cancel_button.isEnabled()
    for panel in (one, two):
        qtbot.waitUntil(
            lambda panel=panel: panel.session.streamlines_layer is not None, timeout=WAIT_MS
        )
    two.viewer.close()
    assert two.runs.current is None
    settle(one)
    assert one.session.tractogram.n_seeds == 4 * CHUNK
    wanted = track(cross, one.session.request().seeds(), one.session.parameters)
    assert one.session.streamlines_layer.tractogram.digest() == wanted.digest()
    qtbot.waitUntil(lambda: not tracking_threads(), timeout=WAIT_MS)
    assert not notes


def test_napari_opens_it_from_the_plugins_menu(
    make_napari_viewer: Any, settle: Any, cross: Any
) -> None:
    """napari hands plugins a proxy of the viewer, whose layers are not those of events."""
    viewer = make_napari_viewer(show=True)
    _, panel = viewer.window.add_plugin_dock_widget("napari-tractography", "Tractography")
    viewer.add_layer(fod_layer(cross))
    panel.set_parameters(n_per_seed=20)
    panel.session.add_seeds_mm(MIDDLE)
    panel.run()
    settle(panel)
    assert [layer.name for layer in viewer.layers] == ["cross", "Bundle 1", "Seeds"]
    assert panel.session.streamlines_layer is viewer.layers[1]
    panel.close_session()


def test_results_come_to_the_screen_in_the_main_thread_only(
    open_model: Any, cross: Any, settle: Any, monkeypatch: Any
) -> None:
    threads: dict[str, set[int]] = {"tracking": set(), "showing": set()}
    track = runs.iter_chunks

    def tracking(*args: Any, **kwargs: Any) -> Iterator[Tractogram]:
        threads["tracking"].add(threading.get_ident())
        yield from track(*args, **kwargs)

    monkeypatch.setattr(runs, "iter_chunks", tracking)
    panel = open_model(cross)
    panel.viewer.layers.events.inserted.connect(
        lambda event: threads["showing"].add(threading.get_ident())
    )
    panel.session.add_seeds_mm(MIDDLE)
    panel.run()
    settle(panel)
    assert threads["showing"] == {threading.get_ident()}
    assert threads["tracking"].isdisjoint(threads["showing"])
