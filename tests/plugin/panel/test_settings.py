"""What the panel remembers: from one session to the next, in a file that may be spoilt."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from napari.settings import get_plugin_settings
from qtpy.QtWidgets import QMessageBox

from napari_tractography.model.seeding_parameters import SeedingParameters
from napari_tractography.plugin.acts import SPECS
from napari_tractography.plugin.document import BundleState
from napari_tractography.plugin.panel import settings
from napari_tractography.plugin.panel.panel import TractographyPanel
from napari_tractography.plugin.panel.settings import (
    PLUGIN,
    PanelSettings,
    checked,
    defaults,
    kept_specs,
)
from napari_tractography.plugin.panel.widgets.controls import values_of
from napari_tractography.plugin.session.tracking_values import BY_FOD

CHANGED: dict[str, dict[str, Any]] = {
    "tracking": {"step_mm": 0.3, "algorithm": "diffusion", "adaptive": True},
    "seeding": {"n_per_seed": 123, "radius_mm": 3.5, "source": "whole FOD"},
    "display": {"colour_by": "length", "colour": "#102030", "width": 4.5},
    "panel": {"live": True, "backend": "cpu", "n_threads": 1, "open_sections": "Data, Device"},
}


def merged(some: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    return {key: {**values, **some.get(key, {})} for key, values in defaults().items()}


def set_all(panel: Any, memory: PanelSettings) -> None:
    """Set everything in a panel, as it was kept."""
    with panel.session.document.no_step:
        memory._restore(checked(CHANGED))


def values_in(panel: Any) -> dict[str, dict[str, Any]]:
    """What is set in a panel: the default in place of what was chosen for the FOD."""
    memory, chosen = panel.settings, panel.session.tracking.chosen
    suited = [name for name in BY_FOD if name not in chosen]
    kept_defaults = (n for n in BY_FOD if n in chosen and chosen[n] == SPECS[n].default)
    return {
        **{key: values_of(group) for key, group in memory._controls.items()},
        "tracking": {
            **values_of(panel.tracking.controls),
            **{name: SPECS[name].default for name in suited},
        },
        "seeding": panel.seeds.kept_of(values_of(panel.seeds.controls)),
        "panel": {**memory._of_panel(), "kept_defaults": ", ".join(kept_defaults)},
    }


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
    assert values_in(panel) == defaults()
    set_all(panel, panel.settings)
    close(panel)
    again = reopen()
    assert values_in(again) == merged(CHANGED)
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
    set_all(panel, panel.settings)
    (entry,) = [a for a in panel.more.menu().actions() if a.text() == "Restore defaults"]
    entry.trigger()
    assert values_in(panel) == defaults()
    close(panel)
    assert values_in(reopen()) == defaults()


def set_of(panel: Any) -> dict[str, dict[str, Any]]:
    """What is set to something else than the default."""
    first = defaults()
    return {
        key: changed
        for key, values in values_in(panel).items()
        if (changed := {n: v for n, v in values.items() if v != first[key][n]})
    }


def width_of(panel: Any) -> Any:
    return next(control for control in panel.appearance.controls if control.name == "width")


def test_nothing_of_discarded_bundles_is_kept(reopen: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """But what was set for the window is, and what is set for the bundles that follow."""
    panel = reopen()
    panel.set_parameters(radius_mm=3.5, step_mm=0.3)
    close(panel)
    panel = reopen()
    assert set_of(panel) == {"seeding": {"radius_mm": 3.5}, "tracking": {"step_mm": 0.3}}
    panel.set_parameters(n_per_seed=200_000, radius_mm=9.0, max_angle_deg=20.0, step_mm=1.0)
    width_of(panel).value = 4.5
    monkeypatch.setattr(panel.project.keeper, "compare", lambda: None)
    panel.project.keeper.has_unsaved = True
    monkeypatch.setattr(QMessageBox, "question", lambda *_: QMessageBox.StandardButton.Discard)
    assert panel.project.may_be_lost()
    panel.bundles.replace_all([BundleState()])
    panel.set_parameters(n_per_seed=77)
    close(panel)
    assert set_of(reopen()) == {
        "seeding": {"radius_mm": 3.5, "n_per_seed": 77},
        "tracking": {"step_mm": 0.3},
        "display": {"width": 4.5},
    }


def test_what_a_project_brings_is_not_kept(reopen: Any) -> None:
    """Though a person goes on to set something in it, and looks at its bundles."""
    panel = reopen()
    of_project = [
        BundleState(
            name,
            chosen={"step_mm": step_mm},
            seeding=SeedingParameters(n_per_seed=200_000),
            style={"width": 3.0},
        )
        for name, step_mm in (("one", 0.3), ("two", 0.7))
    ]
    one, two = panel.bundles.replace_all(of_project)
    panel.bundles.activate(two)
    assert set_of(panel)["seeding"] == {"n_per_seed": 200_000}
    panel.set_parameters(max_angle_deg=20.0)
    panel.bundles.activate(one)
    panel.set_parameters(radius_mm=3.5)
    close(panel)
    assert set_of(reopen()) == {
        "tracking": {"max_angle_deg": 20.0},
        "seeding": {"radius_mm": 3.5},
    }


def test_what_was_undone_is_not_kept(reopen: Any) -> None:
    panel = reopen()
    panel.session.document.forget()
    panel.set_parameters(n_per_seed=7)
    panel.set_parameters(step_mm=0.3)
    panel.session.document.undo()
    panel.session.document.undo()
    close(panel)
    assert set_of(reopen()) == {}


def test_bundles_that_are_there_stay_as_they_are_where_the_panel_is_opened_again(
    reopen: Any, fresh_settings: Any, qtbot: Any
) -> None:
    panel = reopen()
    panel.set_parameters(step_mm=0.3, n_per_seed=7)
    state = BundleState(
        path="x.tck", chosen={"step_mm": 0.7}, seeding=SeedingParameters(n_per_seed=200_000)
    )
    panel.bundles.replace_all([state])
    close(panel)
    fresh_settings()
    again = TractographyPanel(panel.viewer)
    qtbot.addWidget(again)
    assert again.session.state.chosen == {"step_mm": 0.7}
    assert again.session.seeding.n_per_seed == 200_000
    assert set_of(again)["seeding"] == {"n_per_seed": 200_000}
    close(again)
    assert set_of(reopen()) == {"tracking": {"step_mm": 0.3}, "seeding": {"n_per_seed": 7}}


def test_preferences_reach_a_panel_that_is_open(reopen: Any) -> None:
    panel = reopen()
    get_plugin_settings(PLUGIN).tracking.max_angle_deg = 30.0
    assert values_in(panel)["tracking"]["max_angle_deg"] == 30.0
    close(panel)
    get_plugin_settings(PLUGIN).tracking.max_angle_deg = 20.0
    assert values_in(panel)["tracking"]["max_angle_deg"] == 30.0


def test_what_is_set_in_one_panel_leaves_another_alone(open_model: Any) -> None:
    panel, other = open_model(prepared=False), open_model(prepared=False)
    panel.set_parameters(step_mm=0.3)
    close(panel)
    assert get_plugin_settings(PLUGIN).tracking.step_mm == 0.3
    assert values_in(other) == defaults()


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
    assert values_in(panel) == merged(kept)
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
    set_all(panel, memory)
    memory.close_section()
    assert values_in(panel) == merged(CHANGED)
    assert memory._settings is None


def test_what_cannot_be_becomes_the_default() -> None:
    values = {"tracking": {"step_mm": "wide", "algorithm": "guess", "max_angle_deg": 20}}
    assert checked(values) == merged({"tracking": {"max_angle_deg": 20.0}})
    assert {key: {s.name for s in specs} for key, (_, specs) in kept_specs().items()} == {
        key: set(values) for key, values in defaults().items()
    }
