"""What tests of the panel share: panels with and without a window, notifications."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from importlib.metadata import EntryPoint
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import napari.settings
import pytest
from hands import CHUNK, FEW, WAIT_MS, fod_layer, lie_still, tracking_threads
from napari._qt.qt_main_window import _QtMainWindow
from napari._qt.widgets.qt_welcome import QtWelcomeWidget
from napari._vispy import canvas
from napari.components import ViewerModel
from napari.settings._napari_settings import NapariSettings
from napari.utils.notifications import notification_manager
from npe2 import PluginManifest
from qtpy.QtCore import Qt
from qtpy.QtTest import QTest
from qtpy.QtWidgets import QApplication, QWidget

from napari_tractography.files import fods, recognition
from napari_tractography.files.stored_images import NumberStream
from napari_tractography.model.fod import Fod
from napari_tractography.model.phantoms import make_phantom
from napari_tractography.plugin.layers import fod_opening as opening
from napari_tractography.plugin.panel import project_keeper, settings
from napari_tractography.plugin.panel.panel import TractographyPanel
from napari_tractography.plugin.panel.sections import device
from napari_tractography.plugin.session import runs
from napari_tractography.streamlines.tractogram import Tractogram
from napari_tractography.tracking.inputs import Execution


@pytest.fixture(scope="session")
def cross() -> Fod:
    """Two straight bundles that cross in the middle, at the origin; 2 mm, 32 x 24 x 10."""
    return make_phantom("cross", lmax=6)


@pytest.fixture(scope="session", autouse=True)
def manifests_are_read_once() -> Iterator[None]:
    """Of napari and all plugins: each window and each panel looks for them, for 0.1 s."""
    read, known = PluginManifest._from_entrypoint, {}

    def read_once(entry_point: EntryPoint, distribution: Any = None) -> PluginManifest:
        key = entry_point.name, entry_point.value
        if key not in known:
            known[key] = read(entry_point, distribution)
        return known[key]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(PluginManifest, "_from_entrypoint", read_once)
        yield


@pytest.fixture(scope="session", autouse=True)
def napari_goes_on_at_once() -> Iterator[None]:
    """What a window and a panel do over and over, and no test looks at.

    napari searches all garbage whenever a layer goes (for drivers of Windows), writes its own
    settings to a file whenever one changes, makes classes of what manifests say of settings, asks
    of all events of Qt whether they lead to a hidden menu bar, and writes the keys of its welcome,
    which tests do not show, again after each of the 240 that it learns.
    """
    make_classes = napari.settings.plugin_configuration_generator
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(napari.settings, "plugin_configuration_generator", cache(make_classes))
        patch.setattr(canvas, "gc", SimpleNamespace(collect=lambda: 0))
        patch.setattr(NapariSettings, "_maybe_save", lambda self: None)
        patch.delattr(_QtMainWindow, "eventFilter", raising=False)
        patch.setattr(QtWelcomeWidget, "refresh", lambda self, event=None: None)
        yield


@pytest.fixture(autouse=True)
def no_look_at_gpus_and_no_warm_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Panels neither look for GPUs nor compile by themselves: both take a while."""
    monkeypatch.setattr(device, "FIND_AFTER_MS", 3_600_000)
    monkeypatch.setattr(device, "WARM_AFTER_MS", 3_600_000)


@pytest.fixture(autouse=True)
def no_key_is_held(qapp: Any) -> None:
    """Qt keeps the modifiers of the last key that a test before has clicked."""
    if QApplication.keyboardModifiers() != Qt.KeyboardModifier.NoModifier:
        QTest.keyRelease(QWidget(), Qt.Key.Key_Shift, Qt.KeyboardModifier.NoModifier)
    assert QApplication.keyboardModifiers() == Qt.KeyboardModifier.NoModifier


@pytest.fixture(autouse=True)
def files_are_read_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files count as small, however slow the machine: they are open when the call returns."""
    monkeypatch.setattr(opening, "WAIT_SECONDS", 60.0)


@pytest.fixture
def held_reading(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """Files are large: the background stops before the last numbers until the event is set."""
    monkeypatch.setattr(opening, "WAIT_SECONDS", 0.05)
    monkeypatch.setattr(recognition, "MAX_VALUES", 0)
    read, gate = NumberStream.read, threading.Event()
    check, looking = fods.tracked_kind_of, threading.local()

    def look(stored: Any) -> Any:
        looking.on = True
        try:
            return check(stored)
        finally:
            looking.on = False

    def held(self: NumberStream, values: Any) -> None:
        is_last = self.n_read + values.size >= math.prod(self._stored.shape)
        if getattr(looking, "on", False):
            is_last = False
        if is_last and threading.current_thread().name == opening.THREAD_NAME:
            assert gate.wait(60)
        read(self, values)

    monkeypatch.setattr(NumberStream, "read", held)
    monkeypatch.setattr(fods, "tracked_kind_of", look)
    yield gate
    gate.set()


@pytest.fixture
def settings_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the settings of the test are kept: not where it looks at what was written."""
    return tmp_path_factory.mktemp("settings")


@pytest.fixture(autouse=True)
def fresh_settings(
    monkeypatch: pytest.MonkeyPatch, settings_folder: Path
) -> Iterator[Callable[[], None]]:
    """Keep the settings of plugins in a folder of the test's own; a call reads them anew."""
    monkeypatch.setattr(napari.settings, "_CFG_PATH", str(settings_folder / "settings.yaml"))
    monkeypatch.setattr(settings, "_warned", set())
    monkeypatch.setattr(project_keeper, "autosave_folder", lambda: settings_folder / "kept")
    forget = napari.settings._clear_plugin_settings_cache
    forget()
    yield forget
    forget()


@pytest.fixture
def notes() -> Iterator[list[str]]:
    """The notifications that napari shows, as they come: "error: text"."""
    seen: list[str] = []

    def note(notification: Any) -> None:
        seen.append(f"{notification.severity}: {notification.message}")

    notification_manager.notification_ready.connect(note)
    yield seen
    notification_manager.notification_ready.disconnect(note)


@pytest.fixture
def settle(qtbot: Any) -> Callable[[TractographyPanel], None]:
    """Wait until a panel's run, if there is one, has ended."""

    def wait(panel: TractographyPanel) -> None:
        qtbot.waitUntil(lambda: not panel.runs.is_busy, timeout=WAIT_MS)

    return wait


@pytest.fixture
def long_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make runs long on any machine: small chunks with a pause after each, all of them drawn."""
    engine = runs.iter_chunks

    def slowly(given: Any, execution: Execution, **kwargs: Any) -> Iterator[Tractogram]:
        chunks = engine(given, replace(execution, block=CHUNK), **kwargs)
        try:
            for chunk in chunks:
                yield chunk
                time.sleep(0.05)
        finally:
            chunks.close()

    monkeypatch.setattr(runs, "iter_chunks", slowly)
    for name in ("REDRAW_SECONDS", "REDRAW_GROWTH", "SLOW_REDRAW_SECONDS"):
        monkeypatch.setattr(runs, name, 0.0)


@pytest.fixture
def open_model(qtbot: Any) -> Iterator[Callable[..., TractographyPanel]]:
    """Make a panel on a viewer without a window, with FODs opened; fast."""
    panels = []

    def make(*fods: Fod, prepared: bool = True) -> TractographyPanel:
        viewer = ViewerModel()
        panel = TractographyPanel(viewer)
        qtbot.addWidget(panel)
        panels.append(panel)
        if prepared:
            panel.set_parameters(n_per_seed=FEW, max_length_mm=80.0)
        for fod in fods:
            viewer.add_layer(fod_layer(fod))
        panel.session.document.forget()  # what the test does comes first
        return panel

    yield make
    while panels:
        panels.pop().close_session()
    qtbot.waitUntil(lambda: not tracking_threads(), timeout=WAIT_MS)


@pytest.fixture
def make_napari_viewer(make_napari_viewer: Any, untraced: Callable[..., Any]) -> Any:
    """napari's own: none of our lines is run before there is a viewer."""
    return untraced(make_napari_viewer)


@pytest.fixture(scope="session")
def opened_before() -> set[str]:
    """What has been opened in this process."""
    return set()


@pytest.fixture
def open_window(
    make_napari_viewer: Any,
    qtbot: Any,
    untraced: Callable[..., Any],
    opened_before: set[str],
) -> Iterator[Callable[..., TractographyPanel]]:
    """Make a panel docked in a real window, with FODs opened; only the first one is traced."""
    panels = []

    def make(*fods: Fod, size: tuple[int, int] = (1000, 700)) -> TractographyPanel:
        viewer = make_napari_viewer(show=True)
        viewer.window.resize(*size)
        panel = TractographyPanel(viewer)
        viewer.window.add_dock_widget(panel, name="Tractography", area="right")
        panels.append(panel)
        panel.set_parameters(n_per_seed=FEW, max_length_mm=80.0)
        for fod in fods:
            viewer.add_layer(fod_layer(fod))
        lie_still(panel)
        viewer.reset_view()  # into the canvas that the dock leaves
        panel.session.document.forget()  # what the test does comes first
        return panel

    yield untraced(make) if "window" in opened_before else make
    opened_before.add("window")
    while panels:
        panels.pop().close_session()
    qtbot.waitUntil(lambda: not tracking_threads(), timeout=WAIT_MS)
