"""What a person might do in any order: the project that is saved then gives what was seen."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from platform import machine
from typing import Any

import nibabel as nib
import numpy as np
import pytest
from hands import WAIT_MS, save_fod
from napari.layers import Points

from napari_tractography import Project, Region, track
from napari_tractography.model.phantoms import make_phantom
from napari_tractography.model.roles import INCLUDE_RULES
from napari_tractography.model.seeding_parameters import EVERY_VOXEL
from napari_tractography.plugin.layers.region_entries import ROLE_COLOURS
from napari_tractography.plugin.layers.volume_layers import fod_layers

N_ACTIONS = 40
ROLES = list(ROLE_COLOURS)
VALUES: dict[str, list[Any]] = {
    "algorithm": ["probabilistic", "deterministic", "sd_stream"],
    "max_angle_deg": [15.0, 30.0, 45.0],
    "direction": ["both", "forward"],
    "random_seed": [0, 1, 2**32 - 1],
    "radius_mm": [0.0, 1.5],
    "n_per_seed": [1, 30],
    "n_total": [50, 400],
    "source": ["placed seeds", "placed seeds", "mask", EVERY_VOXEL, "whole FOD", "between regions"],
    "n_per_voxel": [1, 2],
    "counted": ["started", "accepted"],
    "include_rule": list(INCLUDE_RULES),
}


class Hand:
    """Does what the dice say, as the controls, the mouse and the keys would.

    Attributes
    ----------
    done : list of str
        What was done, in order: an assertion that fails says how to come there.
    """

    def __init__(self, panel: Any, dice: int, folder: Path, qtbot: Any) -> None:
        self.panel, self._folder, self._qtbot = panel, folder, qtbot
        self._rng = np.random.default_rng(dice)
        self.done: list[str] = []
        self.actions: list[Callable[[], None]] = [
            self.add_seed, self.move_seed, self.remove_seed, self.undo, self.redo,
            self.add_region, self.set_role, self.remove_region, self.set_value, self.set_value,
            self.run, self.run, self.cancel, self.wait, self.switch_live, self.add_bundle,
            self.duplicate, self.activate, self.remove_bundle, self.undo_bundles, self.rename,
            self.select, self.keep, self.cut, self.undo_edit, self.delete_layer, self.split,
            self.choose_fod, self.choose_mask, self.choose_seed_mask, self.open_lines, self.weigh,
            self.limit, self.mirror,
        ]  # fmt: skip

    def act(self) -> None:
        action = self._rng.choice(np.array(self.actions, object))
        self.done.append(action.__name__)
        action()
        self._qtbot.wait(int(self._rng.integers(0, 30)))

    def _place(self) -> np.ndarray:
        """In the bundles or a little beside them, RAS+ mm."""
        return np.array([*self._rng.uniform(-12, 12, 2), self._rng.uniform(-3, 3)])

    def _one_of(self, things: Any) -> Any:
        return things[int(self._rng.integers(len(things)))] if len(things) else None

    def add_seed(self) -> None:
        self.panel.session.add_seeds_mm(self._place()[None])

    def move_seed(self) -> None:
        session = self.panel.session
        if n := len(session.seeds.positions_mm):
            place = session.space.to_display(self._place()[None])[0]
            session.move_seed(int(self._rng.integers(n)), place)
            session.released.emit()

    def remove_seed(self) -> None:
        if n := len(self.panel.session.seeds.positions_mm):
            self.panel.session.seeds.remove([int(self._rng.integers(n))])

    def undo(self) -> None:
        self.panel.session.document.undo()

    def redo(self) -> None:
        self.panel.session.document.redo()

    def add_region(self) -> None:
        role = self._one_of(ROLES)
        self.panel.session.regions.add_region(
            Region.sphere(self._place(), float(self._rng.uniform(3, 9)), role)
        )

    def set_role(self) -> None:
        if entry := self._one_of(self.panel.session.regions.entries):
            self.panel.session.regions.set_role(entry, self._one_of(ROLES))

    def remove_region(self) -> None:
        if entry := self._one_of(self.panel.session.regions.entries):
            self.panel.session.regions.remove(entry)

    def set_value(self) -> None:
        name = self._one_of(list(VALUES))
        value = self._one_of(VALUES[name])
        self.done[-1] = f"{name}={value}"
        if name == "include_rule":
            self.panel.session.regions.set_rule(value)
        else:
            self.panel.set_parameters(**{name: value})

    def run(self) -> None:
        self.panel.run()

    def cancel(self) -> None:
        self.panel.runs.cancel()

    def wait(self) -> None:
        self._qtbot.wait(300)

    def switch_live(self) -> None:
        self.panel.live.setChecked(not self.panel.live.isChecked())

    def add_bundle(self) -> None:
        self.panel.bundles.add("")

    def duplicate(self) -> None:
        self.panel.bundles.duplicate()

    def activate(self) -> None:
        self.panel.bundles.activate(self._one_of(self.panel.bundles.bundles))

    def remove_bundle(self) -> None:
        if len(self.panel.bundles.bundles) > 1:
            self.panel.session.delete(self._one_of(self.panel.bundles.bundles))

    def undo_bundles(self) -> None:
        self.panel.bundles.history.undo()

    def rename(self) -> None:
        bundle = self._one_of(self.panel.bundles.bundles)
        self.panel.bundles.rename(bundle, f"tract {self._rng.integers(3)}")

    def _editor(self) -> Any:
        layer = self.panel.session.streamlines_layer
        return layer.editor if layer is not None and len(layer.tractogram) else None

    def select(self) -> None:
        if editor := self._editor():
            layer = self.panel.session.streamlines_layer
            editor.select(int(self._rng.integers(len(layer.tractogram))), extend=True)

    def keep(self) -> None:
        if (editor := self._editor()) and editor.n_selected:
            self._one_of([editor.keep_selected, editor.delete_selected])()

    def cut(self) -> None:
        if editor := self._editor():
            editor.cut(self._place(), self._rng.normal(size=3))

    def undo_edit(self) -> None:
        if editor := self._editor():
            self._one_of([editor.undo, editor.redo])()

    def split(self) -> None:
        if self.panel.dissection.split.isEnabled():
            self.panel.dissection.split.click()

    def choose_fod(self) -> None:
        control = self.panel.data.fod_choice
        control.value = self._one_of([layer for layer in control.choices if layer is not None])

    def choose_mask(self) -> None:
        self.panel.data.mask_choice.value = self._one_of(self.panel.data.mask_choice.choices)

    def choose_seed_mask(self) -> None:
        control = self.panel.seeds.mask_choice
        control.value = self._one_of(control.choices)

    def open_lines(self) -> None:
        self.panel.viewer.open(str(self._folder / "lines.tck"), plugin="napari-tractography")

    def weigh(self) -> None:
        if editor := self._editor():
            path = self._folder / f"weights{len(self.done)}.csv"
            np.savetxt(path, self._rng.random(len(editor.whole)))
            self.panel.dissection.read_weights(path)
            self.panel.dissection.min_weight.value = float(self._rng.choice([0.0, 0.3]))

    def limit(self) -> None:
        self.panel.set_parameters(
            min_length_mm=self._one_of([0.0, 10.0]), max_length_mm=self._one_of([30.0, 80.0])
        )

    def mirror(self) -> None:
        if self.panel.bundle_list.mirror.isEnabled():
            self.panel.bundle_list.mirror.click()

    def delete_layer(self) -> None:
        fods = fod_layers(self.panel.viewer.layers)
        layers = [each for each in self.panel.viewer.layers if each not in fods]
        if layers and self._rng.random() < 0.3:
            layer = self._one_of(layers)
            self.done[-1] += f" {'points' if isinstance(layer, Points) else layer.name}"
            self.panel.viewer.layers.remove(layer)


def shown(panel: Any) -> Counter[str]:
    """Digests of what the bundles show; two of them may have one name, or the same streamlines."""
    return Counter(
        bundle.streamlines_layer.tractogram.digest()
        for bundle in panel.bundles.bundles
        if bundle.streamlines_layer is not None and bundle.tractogram is not None
    )


SLOW = pytest.mark.slow  # more of the same


@pytest.mark.parametrize("dice", [0, 1, *(pytest.param(dice, marks=SLOW) for dice in range(2, 4))])
def test_what_is_saved_is_what_was_seen(
    dice: int, open_model: Any, cross: Any, qtbot: Any, tmp_path: Path, notes: list[str]
) -> None:
    panel = open_model(prepared=False)
    panel.data.add_fod(save_fod(cross, tmp_path / "fod.nii.gz"))
    panel.data.add_fod(
        save_fod(make_phantom("cross", lmax=4), tmp_path / "other.nii.gz", axes="LPS")
    )
    inside = np.zeros(cross.grid.shape, np.uint8)
    inside[4:-4] = 1
    nib.save(nib.Nifti1Image(inside, cross.grid.affine), tmp_path / "mask.nii.gz")
    panel.data.add_mask(tmp_path / "mask.nii.gz")
    track(cross, [[0, 0, 0], [5, 0, 0], [-4, 0, 1]]).save(tmp_path / "lines.tck")
    panel.set_parameters(max_length_mm=80.0, n_per_seed=30, n_total=400)
    hand = Hand(panel, dice, tmp_path, qtbot)
    hand.add_seed()
    for _ in range(N_ACTIONS):
        hand.act()
    panel.set_parameters(source="placed seeds")
    hand.add_seed()  # something to save
    hand.run()
    qtbot.wait(1000)
    panel.runs.cancel()  # what is asked for may take minutes
    qtbot.waitUntil(lambda: not (panel.runs.is_busy or panel.runs.working), timeout=WAIT_MS)
    seen = shown(panel)
    first, second = tmp_path / "first.tracts.json", tmp_path / "second.tracts.json"
    assert panel.project.save(first), hand.done
    bundles = Project.load(first).bundles
    told = Counter(b.source.digest for b in bundles.values() if b.source.digest)
    assert told <= seen, hand.done
    notes.clear()
    again = open_model(prepared=False)
    assert again.project.open_project(first)
    qtbot.waitUntil(lambda: again.project.opening is None, timeout=WAIT_MS)
    assert not [note for note in notes if note.startswith("error")], hand.done
    assert told <= shown(again), hand.done
    assert again.project.save(second)
    for name, bundle in Project.load(second).bundles.items():
        before = bundles[name].source
        if not before.digest and bundle.is_tracked:  # its streamlines came with the opening
            before = replace(before, digest=bundle.digest, backend="cpu", device=machine())
        assert bundle.source == before, hand.done
