"""What the panel remembers from one session to the next, in napari's settings of this plugin.

napari keeps them in a file of its own beside its other settings, and shows them in its
Preferences. What is kept stands in the manifest, where ``scripts/docs.py`` writes it from
:func:`kept_specs`. Called by the panel.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping, Sequence
from copy import deepcopy
from dataclasses import asdict, replace
from functools import partial
from typing import Any

import yaml  # type: ignore[import-untyped]
from napari.settings import get_plugin_settings
from qtpy.QtCore import QObject

from ...errors import InvalidParameterError
from ...model.parameters import ParameterSpec, parameter_specs
from ...model.seeding_parameters import seeding_specs
from ...tracking.devices import cpu_count
from ..acts import SPECS
from ..document import Snapshot
from ..notices import show_warning
from ..session.tracking_values import BY_FOD
from ..timers import delayed
from .display import pictures, view
from .display.appearance import display_specs
from .sections.device import BACKEND_SPEC, THREADS_SPEC
from .sections.seed import PLACED, WHOLE
from .widgets.layout import Section

logger = logging.getLogger(__name__)

PLUGIN = "napari-tractography"
WAIT_MS = 500  # after the last change, before the file is written
OF_BUNDLES = ("tracking", "seeding")  # what is kept of the work, not of the window
UNSET = object()  # what was not chosen
OF_THE_VOLUME = {"slab_mm"}  # follows the voxels of the volume that is opened

PANEL_SPECS = (
    ParameterSpec(
        "live", "Live", False, "Track again whenever a seed or a parameter changes.",
    ),
    BACKEND_SPEC,
    replace(
        THREADS_SPEC,
        default=0,
        minimum=0,
        maximum=4096,
        help="How many threads track on the CPU; 0 is one a processor.",
    ),
    ParameterSpec(
        "open_sections", "Open sections", "",
        "The sections that are unfolded, with commas; empty for those that are at first.",
    ),
    ParameterSpec(
        "three_docks", "Panel in three docks", False,
        "Have the bundles, and what shows and measures them, in docks of their own.",
    ),
    ParameterSpec(
        "kept_defaults", "Kept defaults", "",
        "Tracking parameters, with commas, that keep their default for every FOD; step, cone, "
        "floor and lengths that are at their defaults and not named here follow the FOD.",
    ),
)  # fmt: skip


def kept_specs() -> dict[str, tuple[str, Sequence[ParameterSpec]]]:
    """Return what is kept, {key in napari's settings: (title, parameters)}."""
    of_display = (*display_specs(), *view.KEPT_SPECS)
    return {
        "tracking": ("Tracking", parameter_specs()),
        "seeding": ("Seeds", seeding_specs()),
        "display": ("Display", [spec for spec in of_display if spec.name not in OF_THE_VOLUME]),
        "pictures": ("Pictures", pictures.KEPT_SPECS),
        "panel": ("Panel", PANEL_SPECS),
    }


KEYS = {"source": "seed_source"}  # the others are kept by their names; these napari cannot take

Values = dict[str, dict[str, Any]]
_warned: set[str] = set()  # problems that were shown: once is enough


def setting_name(name: str) -> str:
    return KEYS.get(name, name)


def defaults() -> Values:
    """Return what is set where nothing was kept."""
    return {
        key: {spec.name: spec.default for spec in specs} for key, (_, specs) in kept_specs().items()
    }


def checked(values: Mapping[str, Mapping[str, Any]]) -> Values:
    """Return what is kept, with the default in place of what is absent or cannot be."""
    result = defaults()
    for key, (_, specs) in kept_specs().items():
        for spec in specs:
            try:
                result[key][spec.name] = spec.check(values[key][spec.name])
            except (KeyError, TypeError, InvalidParameterError) as error:
                logger.debug("%s.%s is the default: %s", key, spec.name, error)
    return result


class PanelSettings(QObject):  # type: ignore[misc]
    """Keeps what is set in a panel that is built and not yet shown, and sets it again.

    Nothing is read or written unless `keep`.
    """

    writing = False  # some panel's own: what is set in one leaves the others alone

    def __init__(self, panel: Any, *, keep: bool = True) -> None:
        super().__init__(panel)
        self._panel = panel
        of_display = *panel.appearance.controls, *panel.scene.kept_controls
        self._controls = {
            "seeding": panel.seeds.controls,
            "display": [each for each in of_display if each.name not in OF_THE_VOLUME],
            "pictures": panel.pictures.kept_controls,
        }
        self._sections = panel.findChildren(Section)
        self._open_at_first = self._open_sections()
        self._settings = _settings() if keep else None
        self._timer = delayed(self, WAIT_MS, self._write)
        self._kept = defaults()  # what is kept, which a project that is opened does not change
        if self._settings is not None:
            self._kept = self._read()
            if self._kept["seeding"]["source"] != WHOLE:  # there is no mask yet, nor regions
                self._kept["seeding"]["source"] = PLACED
            now = panel.session.document.now
            is_new = len(now.bundles) == 1 and now.bundle.is_blank  # else they are as they are
            with panel.session.document.no_step:
                self._restore(self._kept, () if is_new else OF_BUNDLES)
        self._at_first = deepcopy(self._kept)  # for where the bundles are discarded
        for key, group in self._controls.items():
            if key not in OF_BUNDLES:
                for control in group:
                    control.changed.connect(partial(self._note_control, key, control))
        switches = [panel.live, panel.docks.action, *(each.header for each in self._sections)]
        for signal in (
            *(control.changed for control in panel.device.controls),
            *(switch.toggled for switch in switches),
        ):
            signal.connect(self._note)

    def open(self) -> None:
        """Follow what a person sets, here and in napari's Preferences."""
        if self._settings is not None:
            self._panel.session.document.changed.connect(self._on_document)
            self._settings.events.changed.connect(self._on_preferences)

    def close_section(self) -> None:
        """Keep what is set now, and follow no more."""
        if self._timer.isActive():
            self._timer.stop()
            self._write()
        if self._settings is not None:
            self._panel.session.document.changed.disconnect(self._on_document)
            self._settings.events.changed.disconnect(self._on_preferences)

    def _of_panel(self) -> dict[str, Any]:
        """Return what is set in the panel itself, and is of no bundle."""
        of_device = self._panel.device.values
        n_threads = of_device["n_threads"]
        now_open = self._open_sections()
        return {
            "live": self._panel.live.isChecked(),
            "backend": of_device["backend"],
            "n_threads": 0 if n_threads == cpu_count() else n_threads,
            "three_docks": self._panel.docks.action.isChecked(),
            "open_sections": "" if now_open == self._open_at_first else now_open,
        }

    def _restore(self, wanted: Values, left_out: Collection[str] = ()) -> None:
        if "tracking" not in left_out:
            self._panel.tracking.restore(wanted["tracking"], wanted["panel"]["kept_defaults"])
        for key, group in self._controls.items():
            for control in () if key in left_out else group:
                if control.value != wanted[key][control.name]:
                    control.value = wanted[key][control.name]
        of_panel = wanted["panel"]
        self._panel.device.set_values(of_panel["backend"], of_panel["n_threads"])
        titles = of_panel["open_sections"] or self._open_at_first
        for section in self._sections:
            section.header.setChecked(section.title in titles.split(", "))
        self._panel.live.setChecked(of_panel["live"])
        self._panel.docks.action.setChecked(of_panel["three_docks"])

    def restore_defaults(self) -> None:
        with self._panel.session.document.one_step("Restore defaults"):
            self._restore(defaults())

    def discard(self) -> None:
        """Keep nothing of what was set for the bundles: a person has discarded them."""
        self._kept.update(deepcopy({key: self._at_first[key] for key in OF_BUNDLES}))
        self._kept["panel"]["kept_defaults"] = self._at_first["panel"]["kept_defaults"]
        if self._settings is not None:
            self._timer.stop()
            self._write()

    def _open_sections(self) -> str:
        titles = [s.title for s in self._sections if s.header.isChecked()]
        return ", ".join(titles) or "none"

    def _note(self, _value: Any = None) -> None:
        """Keep what a person sets, and not what a bundle brings with it."""
        if self._settings is not None and not self._panel.is_showing:
            self._timer.start()

    def _note_control(self, key: str, control: Any, _value: Any = None) -> None:
        if not self._panel.is_showing:
            self._kept[key][control.name] = control.value
            self._note()

    def _on_document(self, before: Snapshot, now: Snapshot) -> None:
        """Keep what was set for the bundle that is active, or undone of that."""
        was = before.bundles.get(now.active) if before.active == now.active else None
        if was is None:  # another bundle is shown, such as one of a project
            return
        chosen, seeding = now.bundle.chosen, now.bundle.seeding
        names = [n for n in SPECS if chosen.get(n, UNSET) != was.chosen.get(n, UNSET)]
        of_panel = self._kept["panel"]
        kept_defaults = set(filter(None, of_panel["kept_defaults"].split(", "))) - {*names}
        for name in names:
            self._kept["tracking"][name] = chosen.get(name, SPECS[name].default)
            if name in BY_FOD and chosen.get(name, UNSET) == SPECS[name].default:
                kept_defaults.add(name)
        of_panel["kept_defaults"] = ", ".join(n for n in BY_FOD if n in kept_defaults)
        of_seeds = self._panel.seeds.kept_of(asdict(seeding))
        changed = [n for n in of_seeds if getattr(seeding, n) != getattr(was.seeding, n)]
        self._kept["seeding"].update({name: of_seeds[name] for name in changed})
        if (names or changed) and self._settings is not None:
            self._timer.start()

    def _read(self) -> Values:
        return checked(
            {
                key: {
                    spec.name: getattr(getattr(self._settings, key), setting_name(spec.name), None)
                    for spec in specs
                }
                for key, (_, specs) in kept_specs().items()
            }
        )

    def _write(self) -> None:
        self._kept["panel"].update(self._of_panel())
        PanelSettings.writing = True
        try:
            for key, values in self._kept.items():
                for name, value in values.items():
                    try:
                        kept = 0 if value is None else value  # no setting can be empty
                        setattr(getattr(self._settings, key), setting_name(name), kept)
                    except ValueError as error:  # a random seed beyond 2^31
                        logger.debug("%s.%s is not kept: %s", key, name, error)
        except OSError as error:
            _warn_once(f"Settings of the panel are not kept: {error}")
        finally:
            PanelSettings.writing = False

    def _on_preferences(self, _event: Any) -> None:
        """Take up what was set in Preferences, and leave alone what was not."""
        if PanelSettings.writing or self._timer.isActive():
            return
        before, self._kept = self._kept, self._read()
        same = {key for key in self._controls if self._kept[key] == before[key]}
        if self._kept["tracking"] == before["tracking"]:
            same.add("tracking")
        with self._panel.session.document.no_step:
            self._restore(self._kept, same)


def _settings() -> Any:
    """Return napari's settings of this plugin; None where there are none, then nothing is kept."""
    try:
        settings = get_plugin_settings(PLUGIN)
    except KeyError as error:  # installed otherwise, or switched off
        logger.debug("Settings are not kept: %s", error)
        return None
    except (AssertionError, ValueError, OSError) as error:  # a file with something else in it
        _warn_once(
            "The settings of the plugins cannot be read "
            f"({str(error)[:80]!r}); defaults are used until the file is put right or removed."
        )
        return None
    if any(not hasattr(settings, key) for key in kept_specs()):
        return None
    path = settings.config_path
    try:
        if path and path.exists():
            yaml.safe_load(path.read_text("utf-8"))
    except (OSError, ValueError, yaml.YAMLError):
        _warn_once(f"{path} cannot be read; the settings of the panel are the defaults again.")
    return settings


def _warn_once(text: str) -> None:
    if text not in _warned:
        _warned.add(text)
        show_warning(text)
