"""Runs in images as projects, recipes and scripts; ODFs of blocks made in the panel."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import dask.array
import numpy as np
import pytest
import tifffile
import zarr
from hands import printed_by
from napari.layers import Image, Labels, Layer
from tubes import IN_WALL, choose, draw_tube, image_layer

from napari_tractography import Project, cli
from napari_tractography.model.image_phantoms import ImagePhantom
from napari_tractography.plugin.contributions import sample_tube
from napari_tractography.plugin.export.layer_files import PATH_KEY
from napari_tractography.plugin.export.projects import project_of
from napari_tractography.plugin.layers.sources.image_layers import settings_of
from napari_tractography.plugin.space.orientation_labels import is_anatomical


@pytest.fixture(scope="module")
def tube() -> ImagePhantom:
    """A small tube of 20 um voxels, its middle at the origin."""
    return draw_tube()


def run_once(panel: Any, settle: Any, where: tuple[float, ...] = IN_WALL) -> str:
    """Track a few streamlines in the wall; return their digest."""
    panel.set_parameters(n_per_seed=8)
    panel.session.add_seeds_mm(np.array([where]))
    panel.run_button.click()
    settle(panel)
    assert len(panel.session.tractogram) == 8
    return str(panel.session.tractogram.digest())


def copied(panel: Any) -> str:
    """Return what Copy as Python gives."""
    from qtpy.QtGui import QGuiApplication

    panel.export.copy_python()
    return str(QGuiApplication.clipboard().text())


@pytest.mark.parametrize("kind", ["tif", "ome-zarr", "zarr array of a script", "sample"])
def test_a_run_in_an_image_is_kept_and_made_again(
    open_model: Any, tube: ImagePhantom, settle: Any, tmp_path: Path, qtbot: Any, kind: str,
    notes: list[str],
) -> None:  # fmt: skip
    """As a project, from the command, as a script, and opened again in another panel."""
    panel = open_model()
    layer = layer_of(tube, kind, tmp_path)
    choose(panel, layer)
    image = panel.data.image
    if kind != "sample":
        inside = Labels(np.ascontiguousarray(tube.fibres.T.astype(np.uint8)), name="tissue")
        inside.translate, inside.units = layer.translate, layer.units
        inside.scale = layer.scale  # last: napari slices by the units that it had before
        panel.viewer.add_layer(inside)
        image.tissue.value = inside
    image.controls[1].box.setValue(2.5)
    fibres = "bright or dark" if kind == "sample" else "bright"
    image.controls[2].value = fibres
    qtbot.waitUntil(lambda: settings_of(layer).rho_vox == 2.5)
    digest = run_once(panel, settle, (0.55, 0.0, 0.0) if kind == "sample" else IN_WALL)
    script = copied(panel)
    assert "nt.Fod.from_image(" in script
    assert printed_by(script) == digest
    path = tmp_path / "p.tracts.json"
    assert panel.project.save(path)
    (bundle,) = Project.load(path).bundles.values()
    assert bundle.digest == digest
    assert bundle.source.fod.image.rho_mm == pytest.approx(0.05)
    assert bool(bundle.source.fod.sha256) == (kind != "sample")
    assert cli.main(["replay", str(path), "--quiet"]) == 0
    other = open_model()
    assert other.project.open_project(path)
    qtbot.waitUntil(lambda: other.project.opening is None, timeout=60_000)
    assert notes[-1].startswith("info: 1 of 1 bundle has the digest")
    assert other.session.tractogram.digest() == digest
    shown = other.session.fod_layer
    assert not is_anatomical([layer])
    assert not is_anatomical([shown])
    assert settings_of(shown).rho_vox == pytest.approx(2.5)
    assert other.data.image.controls[2].value == fibres
    assert (other.data.image.tissue.value is None) == (kind == "sample")
    np.testing.assert_allclose(shown.extent.world, layer.extent.world, atol=1e-3)
    assert shown.multiscale == ("zarr" in kind)  # coarser levels that the file has as well


def test_a_run_within_a_mask_goes_on_when_its_project_was_opened(
    open_model: Any, tube: ImagePhantom, settle: Any, tmp_path: Path, qtbot: Any
) -> None:
    """The mask comes back beside the image of 20 um voxels, though recipes keep it in mm."""
    panel = open_model()
    layer = layer_of(tube, "tif", tmp_path)
    choose(panel, layer)
    inside = np.ones(layer.data.shape, np.uint8)
    mask = Labels(inside, name="inside", scale=layer.scale, units=layer.units)
    mask.translate = layer.translate
    panel.viewer.add_layer(mask)
    panel.data.mask_choice.value = mask
    digest = run_once(panel, settle)
    assert panel.project.save(tmp_path / "p.tracts.json")
    other = open_model()
    assert other.project.open_project(tmp_path / "p.tracts.json")
    qtbot.waitUntil(lambda: other.project.opening is None, timeout=60_000)
    assert other.session.layer_of("mask") is not None
    assert other.session.layer_of("mask").units == other.session.fod_layer.units
    assert other.session.is_result_current
    other.run()
    settle(other)
    assert other.session.tractogram.digest() == digest


def layer_of(tube: ImagePhantom, kind: str, folder: Path) -> Image:
    """The image as a layer of a file, as readers and scripts give them."""
    if kind == "sample":
        (found,) = sample_tube()
        return Layer.create(*found)
    if kind == "tif":
        tifffile.imwrite(folder / "tube.tif", tube.image.T)
        layer = image_layer(tube)
        layer.metadata[PATH_KEY] = str(folder / "tube.tif")
        return layer
    path = ome_zarr(folder / "tube.ome.zarr", tube.image)
    if kind == "ome-zarr":
        levels = [dask.array.from_zarr(str(path), component=name) for name in ("s0", "s1")]
        layer = image_layer(tube, data=levels, multiscale=True)
        layer.metadata[PATH_KEY] = str(path)
        return layer
    return image_layer(tube, data=dask.array.from_zarr(zarr.open(path, mode="r")["s0"]))


def ome_zarr(path: Path, image: np.ndarray) -> Path:
    """Write an image of 20 um voxels with a coarser level, as OME-Zarr 0.5 has it."""
    root = zarr.open_group(path, mode="w")
    coarse = image.T[: 2 * (image.shape[2] // 2)].reshape(-1, 2, *image.T.shape[1:]).mean(axis=1)
    levels = {"s0": image.T, "s1": coarse[:, ::2, ::2].astype(image.dtype)}
    datasets = []
    for number, (name, level) in enumerate(levels.items()):
        root.create_array(name, shape=level.shape, chunks=(16, 16, 16), dtype=level.dtype)[:] = (
            level
        )
        scale = {"type": "scale", "scale": [20.0 * 2**number] * 3}
        datasets.append({"path": name, "coordinateTransformations": [scale]})
    axes = [{"name": a, "type": "space", "unit": "micrometer"} for a in "zyx"]
    images = [{"version": "0.5", "name": "tube", "axes": axes, "datasets": datasets}]
    root.attrs["ome"] = {"version": "0.5", "multiscales": images}
    return path


def test_an_image_without_a_file_is_asked_to_be_saved(
    open_model: Any, tube: ImagePhantom, settle: Any
) -> None:
    panel = open_model()
    choose(panel, image_layer(tube))
    run_once(panel, settle)
    project, left_out = project_of(panel.bundles)
    assert not project.bundles
    (sentence,) = left_out
    assert "did not come from a file" in sentence
    assert "save it as .tif or Zarr, and open it from there." in sentence


def test_odfs_of_an_image_are_made_chosen_and_kept(
    open_model: Any, tube: ImagePhantom, settle: Any, tmp_path: Path, qtbot: Any
) -> None:
    panel = open_model()
    layer = layer_of(tube, "tif", tmp_path)
    choose(panel, layer)
    odfs = panel.data.image.odfs
    odfs.size.value = 4
    odfs.make.click()
    assert odfs.is_busy
    assert not odfs.make.isEnabled()
    qtbot.waitUntil(lambda: not odfs.is_busy, timeout=60_000)
    made = panel.session.fod_layer
    assert made is not layer
    assert panel.session.fod.kind == "sh"
    assert panel.session.fod.grid.shape == (12, 12, 5)
    assert panel.session.space.unit == "um"
    assert panel.data.image.isHidden()
    assert panel.scene.slices.source is layer  # finer than the map of the ODFs
    digest = run_once(panel, settle)
    script = copied(panel)
    assert "odf_voxels=4)" in script
    assert printed_by(script) == digest
    path = tmp_path / "p.tracts.json"
    assert panel.project.save(path)
    assert cli.main(["replay", str(path), "--quiet"]) == 0


def test_odfs_that_are_given_up_leave_no_layer(
    open_model: Any, tube: ImagePhantom, qtbot: Any
) -> None:
    panel = open_model()
    choose(panel, image_layer(tube))
    before = list(panel.viewer.layers)
    odfs = panel.data.image.odfs
    odfs.make.click()
    odfs.progress.cancel.click()
    assert not odfs.is_busy
    assert odfs.make.isEnabled()
    qtbot.waitUntil(
        lambda: not any(t.name.startswith("tractography-odfs") for t in threading.enumerate()),
        timeout=60_000,
    )
    qtbot.wait(200)
    assert list(panel.viewer.layers) == before


@pytest.mark.parametrize("kind", ["tif", "zarr", "painted"])
def test_a_mask_of_a_file_is_named_and_a_drawn_one_written_once(
    open_model: Any, tube: ImagePhantom, settle: Any, tmp_path: Path, kind: str
) -> None:
    """The same as tissue, as mask and as what streamlines start in."""
    panel = open_model()
    choose(panel, layer_of(tube, "tif", tmp_path))
    noise = np.random.default_rng(1).random(tube.fibres.shape) > 0.02  # that takes much text
    inside = (tube.fibres & noise).T.astype(np.uint8)
    if kind == "painted":
        panel.data.mask_choice.value = panel.viewer.add_labels(inside, name="painted")
    else:
        path = tmp_path / f"mask.{kind}"
        tifffile.imwrite(path, inside) if kind == "tif" else zarr.save(str(path), inside)
        panel.data.add_mask(path)
    layer = panel.data.mask_choice.value
    panel.data.image.tissue.value = layer
    panel.data.image._take()
    panel.seeds.source.value = "mask"
    panel.set_parameters(n_total=8, max_length_mm=0.5)
    panel.run_button.click()
    settle(panel)
    script = copied(panel)
    assert script.count("VolumeSource(  #") == (kind == "painted")
    assert script.count("load_image_mask(") == (kind != "painted")
    assert printed_by(script) == panel.session.tractogram.digest()
    layer.data[10, 24, 8] = 1 - layer.data[10, 24, 8]  # painted since
    layer.refresh()
    panel.data.image._take()
    assert "load_image_mask(" not in copied(panel)
    panel.data.image.tissue.value = None
    panel.data.image._take()
    assert copied(panel).count("VolumeSource(  #") == 1
