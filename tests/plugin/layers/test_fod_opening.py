"""Opening an FOD volume: the map first, the coefficients in a thread, and what can go wrong."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hands import OBLIQUE, WAIT_MS, save_fod, tracking_threads
from napari.components import ViewerModel
from napari.layers import Layer

from napari_tractography.errors import FileError, InvalidFodError
from napari_tractography.files.fods import load_fod
from napari_tractography.files.hashing import sha256_of
from napari_tractography.model.fod import Fod
from napari_tractography.model.phantoms import make_phantom
from napari_tractography.plugin.layers.fod_opening import contrast_limits
from napari_tractography.plugin.layers.volume_layers import (
    fod_grid_of,
    fod_layer_data,
    fod_layers,
    fod_of,
    mask_layers,
    open_fod,
    opening_of,
    sha256_of_fod,
)

pytestmark = pytest.mark.usefixtures("qtbot")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return save_fod(make_phantom("cross", affine=OBLIQUE, lmax=4), tmp_path / "wm.nii")


def opened(viewer: ViewerModel, path: Path) -> Layer:
    return viewer.add_layer(Layer.create(*open_fod(path, viewer)))


def by_voxel(fod: Fod, path: Path) -> Path:
    """Write an FOD as MRtrix does, the coefficients of a voxel side by side."""
    rows = "".join(f"transform: {','.join(map(str, row))}\n" for row in np.eye(4)[:3])
    header = (
        f"mrtrix image\ndim: {','.join(map(str, (*fod.grid.shape, fod.values.shape[1])))}\n"
        f"vox: 1,1,1,1\nlayout: +1,+2,+3,+0\ndatatype: Float32LE\n{rows}file: . 400\nEND\n"
    )
    numbers = np.ascontiguousarray(fod.coefficients.transpose(2, 1, 0, 3))
    path.write_bytes(header.encode().ljust(400, b"\0") + numbers.tobytes())
    return path


def test_the_map_is_shown_while_coefficients_are_read(
    held_reading: Any, path: Path, qtbot: Any, notes: list[str]
) -> None:
    viewer = ViewerModel()
    layer = opened(viewer, path)
    assert opening_of(layer) is not None
    shown = np.array(layer.data)
    held_reading.set()
    fod = load_fod(path)
    wanted = Layer.create(*fod_layer_data(fod))
    np.testing.assert_array_equal(shown, wanted.data)
    for name in ("name", "contrast_limits", "scale", "translate", "rendering"):
        assert np.all(getattr(layer, name) == getattr(wanted, name)), name
    qtbot.waitUntil(lambda: opening_of(layer) is None, timeout=WAIT_MS)
    np.testing.assert_array_equal(fod_of(layer).values, fod.values)
    assert fod_of(layer).grid == fod.grid
    read = sha256_of(path)
    path.write_bytes(b"anew")
    assert sha256_of_fod(layer) == read
    assert not notes


def test_a_file_that_is_opened_again_gives_the_fod_that_is_held(path: Path, tmp_path: Path) -> None:
    """But not where it holds other numbers, also behind the same header, or is read otherwise."""
    viewer = ViewerModel()
    fod = fod_of(opened(viewer, path))
    assert fod_of(opened(viewer, path)) is fod
    other = fod_of(viewer.add_layer(Layer.create(*open_fod(path, viewer, frame="voxel"))))
    assert other.frame == "voxel"
    header = by_voxel(fod, tmp_path / "wm.mif").read_bytes()
    (tmp_path / "wm.mif").unlink()
    numbers, text = header[400:], header[:400].rstrip(b"\0").decode()
    (tmp_path / "wm.mih").write_text(text.replace("file: . 400", "file: wm.dat"))
    (tmp_path / "wm.dat").write_bytes(numbers)
    one = fod_of(opened(viewer, tmp_path / "wm.mih"))
    assert fod_of(opened(viewer, tmp_path / "wm.mih")) is one
    (tmp_path / "wm.dat").write_bytes((2 * np.frombuffer(numbers, np.float32)).tobytes())
    two = fod_of(opened(viewer, tmp_path / "wm.mih"))
    np.testing.assert_array_equal(two.values, 2 * one.values)


def test_a_layer_that_is_being_read_counts_as_an_fod_and_not_as_a_mask(
    held_reading: Any, path: Path
) -> None:
    viewer = ViewerModel()
    layer = opened(viewer, path)
    assert fod_of(layer) is None
    assert fod_layers(viewer.layers) == [layer]
    assert mask_layers(viewer.layers) == []
    np.testing.assert_allclose(fod_grid_of(layer).affine, OBLIQUE, atol=1e-6)


def test_a_map_that_is_stored_voxel_by_voxel_fills_while_it_is_read(
    held_reading: Any, tmp_path: Path, qtbot: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("napari_tractography.files.packing.BUFFER_VALUES", 15 * 3000)
    fod = make_phantom("cross", lmax=4)
    viewer = ViewerModel()
    layer = opened(viewer, by_voxel(fod, tmp_path / "wm.mif"))
    opening = opening_of(layer)
    seen: list[float] = []
    opening.progressed.connect(seen.append)
    qtbot.waitUntil(lambda: bool(seen), timeout=WAIT_MS)
    assert 0.5 < seen[-1] < 1
    whole = np.count_nonzero(fod.isotropic())
    assert 0 < np.count_nonzero(layer.data) < whole
    held_reading.set()
    qtbot.waitUntil(lambda: not opening.is_under_way, timeout=WAIT_MS)
    assert np.count_nonzero(layer.data) == whole
    np.testing.assert_allclose(layer.contrast_limits, contrast_limits(fod.values[:, 0]), rtol=1e-6)
    np.testing.assert_array_equal(fod_of(layer).values, fod.values)


def test_what_is_found_at_the_end_is_told_and_the_layer_goes(
    held_reading: Any, path: Path, tmp_path: Path, qtbot: Any, notes: list[str]
) -> None:
    raw = bytearray(gzip.compress(path.read_bytes()))
    raw[-8] ^= 1  # the checksum
    broken = tmp_path / "broken.nii.gz"
    broken.write_bytes(raw)
    viewer = ViewerModel()
    layer = opened(viewer, broken)
    ended: list[Any] = []
    opening_of(layer).ended.connect(ended.append)
    held_reading.set()
    qtbot.waitUntil(lambda: bool(ended), timeout=WAIT_MS)
    (note,) = notes
    assert note.startswith("error: ")
    assert "broken.nii.gz" in note
    assert len(viewer.layers) == 0
    assert fod_layers([layer]) == []


@pytest.mark.parametrize("way", ["cancel", "remove the layer", "remove all layers"])
def test_reading_can_be_given_up(
    held_reading: Any, path: Path, qtbot: Any, notes: list[str], way: str
) -> None:
    viewer = ViewerModel()
    layer = opened(viewer, path)
    opening, seen = opening_of(layer), []
    opening.progressed.connect(seen.append)
    qtbot.waitUntil(lambda: bool(seen), timeout=WAIT_MS)
    if way == "cancel":
        opening.cancel()
    elif way == "remove the layer":
        viewer.layers.remove(layer)
    else:
        viewer.layers.clear()
    qtbot.waitUntil(lambda: not opening.is_under_way, timeout=WAIT_MS)
    held_reading.set()
    qtbot.waitUntil(lambda: not tracking_threads(), timeout=WAIT_MS)
    assert len(viewer.layers) == 0
    assert opening.fod is None
    assert not notes


def test_voxels_that_are_not_finite_are_told_once_and_dark(
    held_reading: Any, tmp_path: Path, qtbot: Any, notes: list[str]
) -> None:
    fod = make_phantom("cross", lmax=2)
    values = np.array(fod.coefficients)
    values[16, 12, 5] = [1, 0, 0, np.nan, 0, 0]
    odd = save_fod(Fod(fod.coefficients, fod.grid), tmp_path / "odd.nii")
    raw = odd.read_bytes()
    odd.write_bytes(raw[: -values.nbytes] + values.tobytes(order="F"))
    viewer = ViewerModel()
    layer = opened(viewer, odd)
    assert layer.data[5, 12, 16] == 1
    held_reading.set()
    qtbot.waitUntil(lambda: fod_of(layer) is not None, timeout=WAIT_MS)
    assert layer.data[5, 12, 16] == 0
    (note,) = notes
    assert note.startswith("info: odd.nii: 1 of ")


def test_small_files_are_read_when_the_call_returns(path: Path) -> None:
    layer = Layer.create(*open_fod(path))
    assert opening_of(layer) is None
    np.testing.assert_array_equal(fod_of(layer).values, load_fod(path).values)


def test_what_the_header_tells_is_raised_at_once(held_reading: Any, tmp_path: Path) -> None:
    with pytest.raises(FileError, match="nowhere"):
        open_fod(tmp_path / "nowhere.nii")
    flat = save_fod(make_phantom("cross", lmax=2), tmp_path / "cut.nii")
    flat.write_bytes(flat.read_bytes()[:-1])
    with pytest.raises(FileError, match=r"cut\.nii is truncated"):
        open_fod(flat)


def test_an_empty_volume_that_is_small_is_refused_at_once(tmp_path: Path) -> None:
    fod = make_phantom("cross", lmax=2)
    path = save_fod(fod, tmp_path / "empty.nii")
    raw = path.read_bytes()
    path.write_bytes(raw[:352] + bytes(len(raw) - 352))
    with pytest.raises(InvalidFodError, match=r"empty\.nii has no voxel"):
        open_fod(path)


def test_contrast_limits_of_a_sample_are_near_those_of_all() -> None:
    values = np.random.default_rng(0).gamma(2.0, size=2_500_000)
    low, high = contrast_limits(values)
    assert low == 0
    assert high == pytest.approx(1.5 * np.percentile(values, 99.5), rel=0.02)
    assert contrast_limits(np.zeros(3)) == (0.0, 1.5)
