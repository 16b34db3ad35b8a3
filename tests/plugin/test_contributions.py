"""Readers, the writer and the samples, as napari calls them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import nibabel as nib
import numpy as np
import pytest
from hands import LEFT_HANDED, OBLIQUE, fod_layer, save_fod
from napari.components import ViewerModel
from napari.layers import Image, Labels
from npe2 import PluginManifest
from qtpy.QtWidgets import QFileDialog

from napari_tractography import Tractogram, load_fod
from napari_tractography.errors import FileError, InvalidFodError, TractographyError
from napari_tractography.files.formats import default_ending
from napari_tractography.files.tractograms import write_streamlines as save_arrays
from napari_tractography.geometry.grid import Grid
from napari_tractography.model.phantoms import make_phantom, phantom_lines_mm
from napari_tractography.plugin.contributions import (
    read_fod,
    read_tractogram,
    write_streamlines,
)
from napari_tractography.plugin.layers.volume_layers import fod_of, voxels_of
from napari_tractography.plugin.panel.panel import TractographyPanel
from napari_tractography.plugin.space.display import DisplaySpace
from napari_tractography.plugin.streamlines.layer import Streamlines
from napari_tractography.streamlines.tractogram import load_tractogram

PLUGIN = "napari-tractography"
ENDINGS = [".tck", ".trk", ".trx", ".vtk"]


def lines(affine: np.ndarray | None = None) -> Tractogram:
    return Tractogram.from_streamlines(
        [line for bundle in phantom_lines_mm("cross", affine=affine) for line in bundle]
    )


def test_an_fod_volume_opens_as_its_mean(make_napari_viewer: Any, tmp_path: Path) -> None:
    path = save_fod(make_phantom("cross", affine=OBLIQUE, lmax=4), tmp_path / "wm.nii.gz")
    viewer = make_napari_viewer()
    (layer,) = viewer.open(path, plugin=PLUGIN)
    assert isinstance(layer, Image)
    np.testing.assert_allclose(fod_of(layer).grid.affine, OBLIQUE, atol=1e-6)
    assert layer.data.shape == (10, 24, 32)
    np.testing.assert_allclose(layer.metadata["affine"], OBLIQUE, atol=1e-6)


def test_mrtrix_images_open_too(shared_data: Path) -> None:
    viewer = ViewerModel()
    (layer,) = viewer.open(shared_data / "brain" / "fod_template.mif.gz", plugin=PLUGIN)
    fod = load_fod(shared_data / "reference" / "brain_fod_as_nifti.nii.gz")
    assert fod_of(layer).lmax == fod.lmax == 4
    shown, wanted = np.asarray(layer.data), DisplaySpace.of(fod.grid).volume(fod.isotropic())
    np.testing.assert_allclose(shown, wanted, atol=1e-5)


@pytest.mark.parametrize(
    ("shape", "words"),
    [
        pytest.param((4, 4, 4, 7), "holds no FOD in its 7 volumes", id="no SH count"),
        pytest.param((4, 4, 4, 6, 2), "holds no FOD in its 12 volumes", id="5-D"),
    ],
)
def test_other_nifti_volumes_are_answered_by_a_sentence(
    tmp_path: Path, shape: tuple[int, ...], words: str
) -> None:
    """napari asks where a person chose this plugin."""
    (tmp_path / "text.nii").write_text("no image")
    nib.save(nib.Nifti1Image(np.ones(shape, np.float32), np.eye(4)), tmp_path / "other.nii.gz")
    for name, said in (
        ("other.nii.gz", words), ("nowhere.nii.gz", "does not exist"), ("text.nii", "text.nii")
    ):  # fmt: skip
        reader = read_fod(str(tmp_path / name))
        assert reader is not None
        with pytest.raises(TractographyError, match=said):
            reader(str(tmp_path / name))
    assert read_fod(str(tmp_path / "notes.txt")) is None


def test_a_3d_nifti_opens_as_image_or_labels(tmp_path: Path) -> None:
    """A T1 in integers is an image, a parcellation labels; both lie where their affine says."""
    rng, low = np.random.default_rng(0), np.zeros((6, 6, 6), np.int16)
    low[:3], low[3:] = 4, 900
    for name, values, kind in (
        ("fa", rng.random((6, 6, 6)).astype(np.float32), Image),
        ("t1", rng.integers(0, 255, (6, 6, 6)).astype(np.uint8), Image),
        ("labels", low, Labels),
        ("empty", np.zeros((6, 6, 6), np.uint8), Labels),
        ("mask", (low > 4).astype(np.float32), Labels),  # as FSL writes masks
    ):
        path = tmp_path / f"{name}.nii.gz"
        nib.save(nib.Nifti1Image(values, LEFT_HANDED), path)
        viewer = ViewerModel()
        (layer,) = viewer.open(str(path), plugin=PLUGIN)
        assert type(layer) is kind
        shown, grid = voxels_of(layer, DisplaySpace.identity())
        np.testing.assert_array_equal(shown, values)
        np.testing.assert_allclose(grid.affine, LEFT_HANDED, atol=1e-4)


@pytest.mark.parametrize("n", [6, 15, 28, 45])
def test_images_with_as_many_volumes_as_an_fod_are_named(tmp_path: Path, n: int) -> None:
    values = np.random.default_rng(0).uniform(300, 900, (6, 5, 4, n)).astype(np.float32)
    for name, volumes in (("dwi", values), ("masks", values > 600), ("noise", values - 600)):
        path = tmp_path / f"{name}.nii.gz"
        nib.save(nib.Nifti1Image(volumes.astype(np.float32), np.eye(4)), path)
        reader = read_fod(str(path))
        assert reader is not None
        with pytest.raises(InvalidFodError, match=f"{name}.nii.gz holds no FOD"):
            reader(str(path))
    header = f"mrtrix image\ndim: 6,5,4,{n}\nvox: 2,2,2,1\nlayout: +0,+1,+2,+3\n"
    header += "datatype: Float32LE\nfile: . 256\nEND\n"
    path = tmp_path / "dwi.mif"
    path.write_bytes(header.encode().ljust(256, b"\0") + values.tobytes(order="F"))
    reader = read_fod(str(path))
    assert reader is not None
    with pytest.raises(InvalidFodError, match=r"dwi\.mif holds no FOD"):
        reader(str(path))


def test_of_several_files_each_is_looked_at(tmp_path: Path) -> None:
    good = save_fod(make_phantom("cross", lmax=2), tmp_path / "good.nii")
    bad = tmp_path / "bad.nii"
    nib.save(nib.Nifti1Image(np.full((4, 4, 4, 6), 2.5, np.float32), np.eye(4)), bad)
    reader = read_fod([str(good), str(bad)])
    assert reader is not None
    assert len(reader([str(good)])) == 1
    with pytest.raises(InvalidFodError, match=r"bad\.nii holds no FOD"):
        reader([str(good), str(bad)])


def test_a_3d_mrtrix_image_opens_as_mask_or_image(tmp_path: Path) -> None:
    """Written by hand: 2 x 2 x 2 voxels of 3 mm, one of them set."""
    for datatype, layer_type, values in (
        ("UInt8", Labels, np.array([0, 1, 0, 0, 0, 0, 0, 0], np.uint8)),
        ("Float32LE", Image, np.array([0, 0.5, 0, 0, 0, 0, 0, 0], "<f4")),
    ):
        header = (
            "mrtrix image\ndim: 2,2,2\nvox: 3,3,3\nlayout: +0,+1,+2\n"
            f"datatype: {datatype}\ntransform: 1,0,0,5\ntransform: 0,1,0,0\n"
            "transform: 0,0,1,0\nfile: . 256\nEND\n"
        )
        path = tmp_path / f"{datatype}.mif"
        path.write_bytes(header.encode().ljust(256, b"\0") + values.tobytes())
        viewer = ViewerModel()
        (layer,) = viewer.open(path, plugin=PLUGIN)
        assert type(layer) is layer_type
        (place,) = np.argwhere(np.asarray(layer.data))
        np.testing.assert_allclose(layer.data_to_world(place)[::-1], [8, 0, 0])


def test_a_broken_mrtrix_image_says_what_is_wrong(tmp_path: Path) -> None:
    path = tmp_path / "broken.mif"
    path.write_text("mrtrix image\ndim: 2,2,2\nEND\n")
    viewer = ViewerModel()
    with pytest.raises(Exception, match=r"broken\.mif"):
        viewer.open(path, plugin=PLUGIN)


@pytest.mark.parametrize(
    "affine", [pytest.param(OBLIQUE, id="oblique"), pytest.param(LEFT_HANDED, id="left-handed")]
)
def test_streamlines_open_on_the_volume_that_is_open(
    make_napari_viewer: Any, tmp_path: Path, affine: np.ndarray
) -> None:
    fod, saved = make_phantom("cross", affine=affine, lmax=2), lines(affine)
    viewer = make_napari_viewer()
    viewer.add_layer(fod_layer(fod))
    for ending in ENDINGS:
        saved.save(tmp_path / f"a{ending}", reference=fod)
        (layer,) = viewer.open(tmp_path / f"a{ending}", plugin=PLUGIN)
        assert layer is viewer.layers[-1]
        assert type(layer) is Streamlines
        assert layer.source.path == str(tmp_path / f"a{ending}")
        assert layer.name == f"a{ending}"
        np.testing.assert_allclose(layer.tractogram.points, saved.points, atol=1e-3)
        assert layer.space == DisplaySpace.of(fod.grid)
    assert len(viewer.layers) == 1 + len(ENDINGS)


def test_streamlines_that_were_open_before_follow_the_volume(
    make_napari_viewer: Any, tmp_path: Path
) -> None:
    fod = make_phantom("cross", affine=OBLIQUE, lmax=2)
    save_fod(fod, tmp_path / "wm.nii.gz")
    lines(OBLIQUE).save(tmp_path / "a.tck")
    viewer = make_napari_viewer()
    (streamlines,) = viewer.open(tmp_path / "a.tck", plugin=PLUGIN)
    assert streamlines.space == DisplaySpace.identity()
    (image,) = viewer.open(tmp_path / "wm.nii.gz", plugin=PLUGIN)
    shown = streamlines.data[:, 1:]
    places = np.array([image.world_to_data(p) for p in shown])
    high = np.array(image.data.shape) - 0.5
    assert ((places > -0.5) & (places < high)).all()


@pytest.mark.parametrize("first", ["a.tck", "t1.nii.gz"])
@pytest.mark.parametrize("is_docked", [False, True])
def test_streamlines_lie_on_an_oblique_volume_that_is_no_fod(
    make_napari_viewer: Any, tmp_path: Path, first: str, is_docked: bool
) -> None:
    """It is shown without its tilt; regions of the panel lie where streamlines do."""
    saved = lines(OBLIQUE)
    saved.save(tmp_path / "a.tck")
    noise = np.random.default_rng(0).random((9, 9, 9)).astype(np.float32)
    nib.save(nib.Nifti1Image(noise, OBLIQUE), tmp_path / "t1.nii.gz")
    viewer = make_napari_viewer()
    panel = TractographyPanel(viewer, remember=False) if is_docked else None
    for name in (first, *({"a.tck", "t1.nii.gz"} - {first})):
        viewer.open(tmp_path / name, plugin=PLUGIN)
    if panel is not None:
        panel.close_session()
    image = next(layer for layer in viewer.layers if isinstance(layer, Image))
    streamlines = next(layer for layer in viewer.layers if isinstance(layer, Streamlines))
    shown = np.array([image.world_to_data(place) for place in streamlines.data[:, 1:]])
    voxels = nib.affines.apply_affine(np.linalg.inv(OBLIQUE), saved.points)
    np.testing.assert_allclose(shown[:, ::-1], voxels, atol=1e-3)
    assert panel is None or panel.session.space == streamlines.space


@pytest.mark.parametrize("what", ["FOD", "FA", "mask"])
def test_a_volume_that_is_opened_last_hides_nothing(
    make_napari_viewer: Any, tmp_path: Path, what: str
) -> None:
    fod = save_fod(make_phantom("cross", lmax=2), tmp_path / "wm.nii.gz")
    if what != "FOD":
        full = np.full((4, 5, 6), 0.5 if what == "FA" else 1.0, np.float32)
        nib.save(nib.Nifti1Image(full, nib.load(fod).affine), tmp_path / "wm.nii.gz")
    lines(np.eye(4)).save(tmp_path / "a.tck")
    viewer = make_napari_viewer()
    below = viewer.add_image(np.zeros((4, 4, 4)))
    (streamlines,) = viewer.open(tmp_path / "a.tck", plugin=PLUGIN)
    seeds = viewer.add_points(np.zeros((1, 3)))
    (image,) = viewer.open(tmp_path / "wm.nii.gz", plugin=PLUGIN)
    assert isinstance(image, Labels) is (what == "mask")
    assert list(viewer.layers) == [below, image, streamlines, seeds]
    top = viewer.add_image(np.zeros((4, 4, 4)))  # the person's own business
    assert viewer.layers[-1] is top


def test_an_empty_or_unreadable_tractogram_says_so(tmp_path: Path) -> None:
    Tractogram.empty().save(tmp_path / "none.tck")
    (tmp_path / "text.trk").write_text("no streamlines")
    viewer = ViewerModel()
    for name in ("none.tck", "text.trk"):
        with pytest.raises(Exception, match=name):
            viewer.open(tmp_path / name, plugin=PLUGIN)
    assert len(viewer.layers) == 0


def test_a_tractogram_whose_weights_are_impossible_opens_and_says_so(
    tmp_path: Path, notes: list[str]
) -> None:
    weights = np.full(len(lines()), -1, np.float32)
    path = tmp_path / "a.trk"
    save_arrays(replace(lines().arrays(), weights=weights), path, Grid((9, 9, 9), np.eye(4)))
    (layer,) = ViewerModel().open(path, plugin=PLUGIN)
    assert layer.tractogram.weights is None
    (told,) = notes
    assert told.startswith("warning: ")
    assert "a.trk is read without its weights" in told


def test_without_a_viewer_the_reader_gives_layers(tmp_path: Path) -> None:
    lines().save(tmp_path / "a.tck")
    (layer,) = read_tractogram(str(tmp_path / "a.tck"))([str(tmp_path / "a.tck")])
    assert type(layer) is Streamlines
    assert layer.tractogram.n_points == lines().n_points


def test_a_viewer_without_a_window_opens_streamlines(tmp_path: Path) -> None:
    lines().save(tmp_path / "a.tck")
    viewer = ViewerModel()
    (layer,) = viewer.open(tmp_path / "a.tck", plugin=PLUGIN)
    assert type(layer) is Streamlines
    assert list(viewer.layers) == [layer]


def test_napari_saves_a_streamlines_layer(tmp_path: Path) -> None:
    fod, shown = make_phantom("cross", affine=OBLIQUE, lmax=2), lines(OBLIQUE)
    viewer = ViewerModel()
    layer = Streamlines(shown, space=DisplaySpace.of(fod.grid))
    viewer.add_layer(layer)
    for ending in ENDINGS:
        path = tmp_path / f"out{ending}"
        assert layer.save(str(path), plugin=PLUGIN) == [str(path)]
        back = load_tractogram(path)
        np.testing.assert_array_equal(back.offsets, shown.offsets)
        np.testing.assert_allclose(back.points, shown.points, atol=1e-3)


TRACKS = np.array(
    [[7, 0, 1, 2, 3], [7, 1, 2, 2, 3], [7, 5, 4, 2, 3], [9, 0, 0, 0, 0], [9, 1, 0, 0, 5]], float
)


def test_plain_tracks_are_written_where_napari_shows_them(tmp_path: Path) -> None:
    """Rows are (track, time, z, y, x), in voxels of 2 mm from (100, 0, 0) on."""
    viewer = ViewerModel()
    layer = viewer.add_tracks(TRACKS, name="cells", scale=(1, 2, 2, 2), translate=(0, 0, 0, 100))
    assert layer.save(str(tmp_path / "out.tck"), plugin=PLUGIN) == [str(tmp_path / "out.tck")]
    back = load_tractogram(tmp_path / "out.tck")
    assert back.offsets.tolist() == [0, 3, 5]
    first, second = back
    np.testing.assert_allclose(first, [[106, 4, 2], [106, 4, 4], [106, 4, 8]])
    np.testing.assert_allclose(second, [[100, 0, 0], [110, 0, 0]])
    with pytest.raises(Exception, match="needs the image"):
        layer.save(str(tmp_path / "out.trk"), plugin=PLUGIN)


def test_plain_tracks_over_an_fod_are_written_in_its_space(
    make_napari_viewer: Any, tmp_path: Path
) -> None:
    fod = make_phantom("cross", affine=OBLIQUE, lmax=2)
    viewer = make_napari_viewer()
    viewer.add_layer(fod_layer(fod))
    points = np.array([[3.0, -2, 8], [4, -1, 8], [6, -1, 9]])
    shown = DisplaySpace.of(fod.grid).to_display(points)
    rows = np.column_stack([np.zeros(3), np.arange(3), shown])
    layer = viewer.add_tracks(rows, name="drawn elsewhere")
    layer.save(str(tmp_path / "out.trk"), plugin=PLUGIN)
    np.testing.assert_allclose(load_tractogram(tmp_path / "out.trk").points, points, atol=1e-3)


def test_tracks_in_a_plane_are_not_written(tmp_path: Path) -> None:
    viewer = ViewerModel()
    layer = viewer.add_tracks(TRACKS[:, :4], name="cells")
    with pytest.raises(Exception, match="cells"):
        layer.save(str(tmp_path / "out.tck"), plugin=PLUGIN)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("is_ours", [True, False], ids=["streamlines", "plain tracks"])
def test_napari_saves_layers_by_its_own_dialog(
    make_napari_viewer: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_ours: bool
) -> None:
    """File > Save Selected Layers, with the name typed; the plugin's formats are offered."""
    viewer, asked = make_napari_viewer(), []
    fod = make_phantom("cross", lmax=2)
    viewer.add_layer(fod_layer(fod))  # .trk needs an image
    if is_ours:
        layer = viewer.add_layer(Streamlines(lines(), space=DisplaySpace.of(fod.grid)))
    else:
        layer = viewer.add_tracks(TRACKS, name="cells")
    for ending in ENDINGS:
        viewer.layers.selection = {layer}
        path = tmp_path / f"typed{ending}"

        def typed(*_: Any, path: Path = path, **options: Any) -> tuple[str, str]:
            asked.append(options["filter"])
            ours = next(row for row in options["filter"].split(";;") if f"*{path.suffix}" in row)
            return str(path), ours

        monkeypatch.setattr(QFileDialog, "getSaveFileName", typed)
        viewer.window._qt_viewer._save_layers_dialog(selected=True)
        assert "Streamlines" in asked[-1]
        # napari reads meshes itself from .vtk, and wants to be told; of others there is one reader.
        (back,) = viewer.open(path, plugin=PLUGIN if ending == ".vtk" else None)
        assert type(back) is Streamlines
        assert back.name == path.name
        shown = lines().points if is_ours else DisplaySpace.of(fod.grid).to_world(TRACKS[:, 2:])
        np.testing.assert_allclose(back.tractogram.points, shown, atol=1e-3)
        viewer.layers.remove(back)


def test_a_name_without_an_ending_gets_one(tmp_path: Path) -> None:
    """As napari's dialog proposes it, which asks about the name alone before it is replaced."""
    layer = ViewerModel().add_layer(Streamlines(lines()))
    whole = tmp_path / "bundle.tck"
    data, state, _ = layer.as_layer_data_tuple()
    assert write_streamlines(str(tmp_path / "bundle"), data, state) == [str(whole)]
    assert load_tractogram(whole).digest() == lines().digest()
    with pytest.raises(FileError, match=r"bundle\.tck is there already"):
        write_streamlines(str(tmp_path / "bundle"), data, state)
    assert layer.save(str(tmp_path / "other"), plugin=PLUGIN) == [str(tmp_path / "other.tck")]
    (writer,) = PluginManifest.from_distribution(PLUGIN).contributions.writers
    assert writer.filename_extensions == ENDINGS
    assert ENDINGS[0] == default_ending()


def test_a_sample_that_is_opened_last_hides_nothing(make_napari_viewer: Any) -> None:
    viewer = make_napari_viewer()
    streamlines, seeds = viewer.add_layer(Streamlines(lines())), viewer.add_points(np.zeros((1, 3)))
    (sample,) = viewer.open_sample(PLUGIN, "cross")
    assert list(viewer.layers) == [sample, streamlines, seeds]


@pytest.mark.parametrize("name", ["arcs", "cross", "letter"])
def test_samples_open(name: str) -> None:
    viewer = ViewerModel()
    viewer.open_sample(PLUGIN, name)
    (layer,) = viewer.layers
    assert fod_of(layer).name == name


def test_peaks_open_as_their_largest_amplitude(tmp_path: Path) -> None:
    peaks = np.random.default_rng(4).normal(size=(5, 6, 7, 6)).astype(np.float32)
    peaks[..., :3] *= 2 / np.linalg.norm(peaks[..., :3], axis=3, keepdims=True)
    peaks[..., 3:] /= np.linalg.norm(peaks[..., 3:], axis=3, keepdims=True)
    peaks[0] = np.nan
    path = tmp_path / "peaks.nii.gz"
    nib.save(nib.Nifti1Image(peaks, np.eye(4)), path)
    viewer = ViewerModel()
    (layer,) = viewer.open(path, plugin=PLUGIN)
    assert fod_of(layer).kind == "peaks"
    expected = np.full((5, 6, 7), 2.0)
    expected[0] = 0.0
    np.testing.assert_allclose(layer.data, expected.transpose(2, 1, 0), rtol=1e-5)


def test_what_is_opened_lies_the_right_way_round_and_smooth_before_the_panel_is(
    make_napari_viewer: Any, tmp_path: Path
) -> None:
    fa = np.random.default_rng(0).random((8, 9, 10), np.float32)
    nib.save(nib.Nifti1Image(fa, np.eye(4)), tmp_path / "fa.nii.gz")
    viewer = make_napari_viewer()
    (layer,) = viewer.open(tmp_path / "fa.nii.gz", plugin=PLUGIN)
    assert str(viewer.scene.camera.orientation[1].value) == "up"
    assert layer.interpolation2d == "linear"
    viewer.dims.order = (1, 0, 2)
    assert str(viewer.scene.camera.orientation[0].value) == "away"


def test_what_is_opened_beside_the_image_of_a_cell_does_not_turn_that(
    make_napari_viewer: Any, tmp_path: Path
) -> None:
    viewer = make_napari_viewer()
    viewer.add_image(np.random.default_rng(0).random((8, 9, 10)))
    before = viewer.scene.camera.orientation
    nib.save(nib.Nifti1Image(np.ones((8, 9, 10), np.float32), np.eye(4)), tmp_path / "b.nii.gz")
    viewer.open(tmp_path / "b.nii.gz", plugin=PLUGIN)
    assert viewer.scene.camera.orientation == before
