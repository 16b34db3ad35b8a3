"""What the panel remembers: from one session to the next, in a file that may be spoilt."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from napari.settings import get_plugin_settings

from napari_tractography.plugin.panel import settings
from napari_tractography.plugin.panel.settings import (
    PLUGIN,
    PanelSettings,
    checked,
    defaults,
    kept_specs,
)

CHANGED: dict[str, dict[str, Any]] = {
    "tracking": {"step_mm": 0.3, "algorithm": "diffusion", "adaptive": True},
    "seeding": {"n_per_seed": 123, "radius_mm": 3.5, "source": "mask"},
    "display": {"colour_by": "length", "colour": "#102030", "width": 4.5},
    "panel": {"live": True, "backend": "cpu", "n_threads": 1, "open_sections": "Data, Device"},
}


def merged(some: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    return {key: {**values, **some.get(key, {})} for key, values in defaults().items()}


@pytest.fixture
def reopen(open_model: Any, fresh_settings: Any) -> Any:
    """Make a panel as the next session of napari would, with all that is kept read anew."""

    def make() -> Any:
        fresh_settings()
        return open_model(prepared=False)

    return make


def close(panel: Any) -> None:
    panel.close_session()


def test_every_choice_comes_back(reopen: Any) -> None:
    panel = reopen()
    assert panel.settings.values == defaults()
    panel.settings.restore(CHANGED)
    close(panel)
    again = reopen()
    assert again.settings.values == merged(CHANGED)
    assert again.runs.live
    assert (again.session.backend, again.session.n_threads) == ("cpu", 1)
    titles = [section.title for section in again.settings._sections if section.header.isChecked()]
    assert titles == ["Data", "Device"]


def test_a_change_is_written_soon_and_once_for_a_moving_slider(reopen: Any, qtbot: Any) -> None:
    panel = reopen()
    file = get_plugin_settings(PLUGIN).config_path
    step = next(control for control in panel.tracking.main if control.name == "step_mm")
    for value in (0.2, 0.3, 0.4):
        step.value = value
    assert not file.exists()
    qtbot.waitUntil(file.exists)
    assert yaml.safe_load(file.read_text()) == {"tracking": {"step_mm": 0.4}}


def test_restore_defaults(reopen: Any) -> None:
    panel = reopen()
    panel.settings.restore(CHANGED)
    (entry,) = [a for a in panel.output.menu().actions() if a.text() == "Restore defaults"]
    entry.trigger()
    assert panel.settings.values == defaults()
    close(panel)
    assert reopen().settings.values == defaults()


def test_preferences_reach_a_panel_that_is_open(reopen: Any) -> None:
    panel = reopen()
    get_plugin_settings(PLUGIN).tracking.max_angle_deg = 30.0
    assert panel.settings.values["tracking"]["max_angle_deg"] == 30.0
    close(panel)
    get_plugin_settings(PLUGIN).tracking.max_angle_deg = 20.0
    assert panel.settings.values["tracking"]["max_angle_deg"] == 30.0


def test_what_is_set_in_one_panel_leaves_another_alone(open_model: Any) -> None:
    panel, other = open_model(prepared=False), open_model(prepared=False)
    panel.set_parameters(step_mm=0.3)
    close(panel)
    assert get_plugin_settings(PLUGIN).tracking.step_mm == 0.3
    assert other.settings.values == defaults()


@pytest.mark.parametrize(
    ("content", "kept"),
    [
        pytest.param("tracking: {step_mm: [", {}, id="no YAML"),
        pytest.param("just words", {}, id="not a mapping"),
        pytest.param("\x00\x01", {}, id="binary"),
        pytest.param(
            "tracking: {step_mm: -3, max_angle_deg: 30.0}\nseeding: {n_per_seed: 7}",
            {"tracking": {"max_angle_deg": 30.0}, "seeding": {"n_per_seed": 7}},
            id="a value that cannot be",
        ),
    ],
)
def test_a_spoilt_file_gives_defaults_and_is_told_once(
    reopen: Any, notes: list[str], settings_folder: Path, content: str, kept: dict[str, Any]
) -> None:
    (settings_folder / f"{PLUGIN}.yaml").write_text(content)
    panel = reopen()
    assert panel.settings.values == merged(kept)
    reopen()
    assert len(notes) == (0 if kept else 1)
    if not kept:
        assert notes[0].startswith("warning")
        assert "defaults" in notes[0]


def test_without_napari_knowing_the_plugin_nothing_is_kept(
    open_model: Any, monkeypatch: pytest.MonkeyPatch, settings_folder: Path
) -> None:
    monkeypatch.setattr(settings, "PLUGIN", "of-another-name")
    panel = open_model()
    panel.set_parameters(step_mm=0.3)
    close(panel)
    assert not list(settings_folder.glob("*.yaml"))


def test_a_panel_that_is_not_to_remember_reads_and_writes_nothing(open_model: Any) -> None:
    panel = open_model()
    memory = PanelSettings(panel, keep=False)
    memory.restore(CHANGED)
    memory.close_settings()
    assert memory.values == merged(CHANGED)
    assert memory._settings is None


def test_what_cannot_be_becomes_the_default() -> None:
    values = {"tracking": {"step_mm": "wide", "algorithm": "guess", "max_angle_deg": 20}}
    assert checked(values) == merged({"tracking": {"max_angle_deg": 20.0}})
    assert {key: {s.name for s in specs} for key, (_, specs) in kept_specs().items()} == {
        key: set(values) for key, values in defaults().items()
    }
