"""The demonstration, with its output in a folder."""

from __future__ import annotations

import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import imageio.v3 as imageio
import napari
import numpy as np
import pytest
from hands import WAIT_MS, save_fod, tracking_threads

from napari_tractography import load_fod
from napari_tractography.errors import FileError
from napari_tractography.model.phantoms import make_phantom
from napari_tractography.plugin import demo
from napari_tractography.plugin.export.screenshots import save_screenshot
from napari_tractography.plugin.layers.volume_layers import fod_of
from napari_tractography.plugin.panel.panel import TractographyPanel
from napari_tractography.plugin.streamlines.layer import Streamlines
from napari_tractography.streamlines.tractogram import load_tractogram


@pytest.fixture
def tested_viewer(make_napari_viewer: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the demonstration open the viewers that tests open, which are looked after."""
    monkeypatch.setattr(napari, "Viewer", lambda **kwargs: make_napari_viewer(show=True))
    monkeypatch.setattr(demo, "N_STREAMLINES", 400)


@pytest.mark.parametrize("own", [False, True], ids=["phantom", "own FOD"])
def test_it_leaves_a_picture_streamlines_and_a_summary(
    tested_viewer: None, tmp_path: Path, capsys: pytest.CaptureFixture[str], own: bool
) -> None:
    path = None
    if own:
        path = str(save_fod(make_phantom("cross", lmax=6), tmp_path / "wm.nii.gz", axes="LPS"))
    assert demo.run_demo(path, tmp_path / "out") == 0
    assert not tracking_threads()
    picture = imageio.imread(tmp_path / "out" / "demo.png")[..., :3].astype(int)
    strongest = picture.max(axis=2) - picture.min(axis=2)
    assert (strongest > 100).mean() > 0.02  # coloured lines, not only grey widgets
    saved = load_tractogram(tmp_path / "out" / "demo.trk")
    said = capsys.readouterr().out
    assert f"{len(saved)} streamlines" in said
    assert "steps/s" in said
    assert "demo.png" in said
    assert len(saved) > 100


def test_the_picture_waits_for_the_whole_text_however_slow_the_machine(
    tested_viewer: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ticks = iter(range(10**9))
    clock = SimpleNamespace(monotonic=lambda: next(ticks), sleep=time.sleep)
    monkeypatch.setattr(demo, "time", clock)
    monkeypatch.setattr(demo, "TIMEOUT_SECONDS", 1e9)
    heights = []

    def look(viewer: Any, picture: Path, **options: Any) -> None:
        panel = viewer.window._qt_window.findChild(TractographyPanel)
        label = panel.results.brief
        heights.append((label.height(), label.heightForWidth(label.width())))
        save_screenshot(viewer, picture, **options)

    monkeypatch.setattr(demo, "save_screenshot", look)
    assert demo.run_demo(None, tmp_path / "out") == 0
    [(height, needed)] = heights
    assert height >= needed > 10  # pixels


def test_the_window_is_there_before_a_large_fod_has_been_read(
    tested_viewer: None, held_reading: Any, tmp_path: Path, monkeypatch: Any, qtbot: Any
) -> None:
    path = save_fod(make_phantom("cross", lmax=6), tmp_path / "wm.nii")
    shown: list[Any] = []

    def streamlines(viewer: Any) -> list[Any]:
        return [layer for layer in viewer.layers if isinstance(layer, Streamlines)]

    def look() -> None:
        viewer = napari.current_viewer()
        assert [layer.name for layer in viewer.layers] == ["wm.nii"]
        assert fod_of(viewer.layers[0]) is None
        held_reading.set()
        qtbot.waitUntil(lambda: bool(streamlines(viewer)), timeout=WAIT_MS)
        qtbot.waitUntil(lambda: len(streamlines(viewer)[0].tractogram) > 100, timeout=WAIT_MS)
        shown.append(viewer)

    monkeypatch.setattr(napari, "run", look)
    assert demo.run_demo(str(path), None) == 0
    assert shown
    qtbot.waitUntil(lambda: not tracking_threads(), timeout=WAIT_MS)


def test_what_is_no_fod_opens_no_window(tmp_path: Path, monkeypatch: Any) -> None:
    for module, name in ((napari, "Viewer"), (demo, "get_qapp")):
        monkeypatch.setattr(module, name, lambda **_kwargs: pytest.fail("a window"))
    with pytest.raises(FileError, match="nowhere"):
        demo.run_demo(str(tmp_path / "nowhere.nii"), None)


def test_an_output_that_is_no_folder(tested_viewer: None, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(FileError, match="file"):
        demo.run_demo(None, tmp_path / "file")


def test_seeds_are_spread_over_the_directed_voxels() -> None:
    fod = make_phantom("letter", lmax=4)
    seeds = demo.spread_seeds_mm(fod, 12)
    assert seeds.shape == (12, 3)
    assert fod.grid.contains(seeds).all()
    gaps = np.linalg.norm(seeds[:, None] - seeds[None], axis=2)[~np.eye(12, dtype=bool)]
    assert gaps.min() >= 2.0  # mm: no voxel twice
    assert np.ptp(seeds[:, 2]) > 20.0  # from the letter's foot to its top


def test_thin_volumes_are_shown_from_above(shared_data: Path) -> None:
    assert demo.is_thin(load_fod(shared_data / "fibercup" / "fod.nii.gz").grid)
    assert not demo.is_thin(make_phantom("letter", lmax=2).grid)
