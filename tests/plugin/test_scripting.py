"""The page on the panel from a script: its blocks run, one after the other."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import napari
import nibabel as nib
import numpy as np
import pytest
from hands import save_fod

from napari_tractography import TrackingParameters, load_fod, track
from napari_tractography.model.phantoms import make_phantom
from napari_tractography.model.seeds import Seeds

PAGE = Path(__file__).resolve().parents[2] / "docs" / "tutorials" / "scripting.md"
SEED_MM = np.array([-12.0, 4.0, 30.0])  # the page's


@pytest.fixture
def folder_with_fod(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A current folder with the wmfod.nii.gz of the page: two fibres that cross at its seed."""
    affine = np.diag([2.0, 2.0, 2.0, 1.0])
    affine[:3, 3] = SEED_MM - 2.0 * (np.array([32, 24, 10]) - 1) / 2
    save_fod(make_phantom("cross", affine=affine, lmax=6), tmp_path / "wmfod.nii.gz")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_blocks_of_the_page_run(
    make_napari_viewer: Any, folder_with_fod: Path, monkeypatch: pytest.MonkeyPatch, qtbot: Any
) -> None:
    monkeypatch.setattr(napari, "Viewer", lambda: make_napari_viewer(show=True))
    blocks = re.findall(r"^```python\n(.*?)^```", PAGE.read_text("utf-8"), flags=re.M | re.S)
    assert len(blocks) == 4
    names: dict[str, Any] = {}
    for block in blocks[:2]:
        exec(compile(block, PAGE.name, "exec"), names)  # the page is ours
    panel = names["panel"]
    saved = nib.streamlines.load(folder_with_fod / "bundle.trk").streamlines
    assert len(saved) == len(panel.session.tractogram) > 0

    fod = load_fod(folder_with_fod / "wmfod.nii.gz")
    same = track(
        fod,
        Seeds.in_sphere(SEED_MM, 2.0, 200),
        TrackingParameters.for_fod(fod, max_angle_deg=30.0),
    )
    assert panel.session.tractogram.digest() == same.digest()

    exec(compile(blocks[2], PAGE.name, "exec"), names)
    assert names["layer"].colour_by == "length"
    exec(compile(blocks[3], PAGE.name, "exec"), names)
    qtbot.waitUntil(lambda: not panel.runs.is_busy and not panel.runs.settle.isActive())
    moved = panel.session.tractogram
    assert moved.digest() != same.digest()
    np.testing.assert_allclose(
        panel.session.seeds.positions_mm, SEED_MM[None] + (0, 0, 4), atol=1e-3
    )
    panel.close_session()


def test_a_script_that_ends_with_its_window_open_ends_well() -> None:
    """Qt then deletes its objects one by one; a panel that still listened to them aborted."""
    script = """
import napari
from qtpy.QtWidgets import QApplication
viewer = napari.Viewer()
viewer.open_sample("napari-tractography", "cross")
_, panel = viewer.window.add_plugin_dock_widget("napari-tractography", "Tractography")
panel.set_parameters(n_per_seed=20)
panel.session.add_seeds_mm([[0.0, 0.0, 0.0]])
panel.run()
while panel.runs.is_busy or panel.runs.is_awaiting:
    QApplication.processEvents()
print(len(panel.session.tractogram), "streamlines")
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert (done.returncode, done.stdout.strip()) == (0, "20 streamlines"), done.stderr
