"""Copied scripts give the digest of what is on the screen."""

from __future__ import annotations

import os
import shlex
import sys
from pathlib import Path
from types import SimpleNamespace

import nibabel as nib
import numpy as np
import pytest
from hands import printed_by
from napari.layers import Layer

from napari_tractography import cli
from napari_tractography.cli.command import make_parser
from napari_tractography.errors import InvalidFodError, InvalidMaskError
from napari_tractography.files.fods import load_fod
from napari_tractography.files.volume_files import load_volume
from napari_tractography.model.parameters import TrackingParameters
from napari_tractography.model.phantoms import make_phantom, phantom_mask, phantom_seeds_mm
from napari_tractography.model.regions import Region
from napari_tractography.plugin.export.copied_scripts import as_command, as_python, shell_line
from napari_tractography.plugin.export.layer_files import PATH_KEY
from napari_tractography.plugin.layers import volume_layers
from napari_tractography.plugin.layers.volume_layers import (
    fod_layer_data,
    fod_mask_of,
    mask_layer_data,
)
from napari_tractography.plugin.requests import Request
from napari_tractography.plugin.run_seeding import (
    SeedFod,
    SeedMask,
    SeedSpheres,
    SeedVoxels,
)
from napari_tractography.plugin.space.display import DisplaySpace
from napari_tractography.recipes.recipe import Recipe
from napari_tractography.streamlines.tractogram import load_tractogram
from napari_tractography.tracking.engine import track

PARAMETERS = TrackingParameters(
    step_mm=0.7,
    max_angle_deg=33.3,
    random_seed=17,
    max_length_mm=60.0,
    interpolation="nearest",
    samples=5,  # set while another algorithm was chosen
)


TWO = SeedSpheres(
    np.asarray(phantom_seeds_mm("cross"), dtype=float)[:2] + 0.123456789,
    np.array([2.5, 1.75]),
    np.array([40, 25]),
)


def asked(fod, seeding, **changes) -> Request:
    return Request(fod=fod, seeding=seeding, parameters=PARAMETERS, **changes)


def digest_of(request: Request) -> str:
    return track(
        request.fod,
        request.seeds(),
        request.parameters,
        mask=request.mask,
        regions=request.regions,
        include_rule=request.include_rule,
    ).digest()


def digest_by(command: str, out) -> str:
    assert cli.main([*shlex.split(command)[1:], "--quiet"]) == 0
    return load_tractogram(out).digest()


@pytest.fixture
def scene(tmp_path):
    """The cross phantom, its mask and labels of its halves as files and layers."""
    phantom = make_phantom("cross")
    affine = phantom.grid.affine
    inside = np.asarray(phantom_mask("cross"), dtype=np.uint8)
    halves = np.where(np.indices(inside.shape)[0] < 16, 3, 5).astype(np.int16)
    fod_path = tmp_path / "my fod.nii.gz"
    nib.Nifti1Image(phantom.coefficients, affine).to_filename(fod_path)
    fod = load_fod(fod_path)
    layers = SimpleNamespace(fod=Layer.create(*fod_layer_data(fod)))
    layers.fod.metadata[PATH_KEY] = str(fod_path)
    for name, array in (("mask", inside), ("halves", halves)):
        path = tmp_path / f"{name}.nii.gz"
        nib.Nifti1Image(array, affine).to_filename(path)
        layer = Layer.create(*mask_layer_data(array, fod.grid, name))
        layer.metadata[PATH_KEY] = str(path)
        setattr(layers, name, layer)
    layers.halves.data = DisplaySpace.of(fod.grid).volume(halves)
    return SimpleNamespace(fod=fod, mask=inside.astype(bool), halves=halves, layers=layers)


def requests(scene) -> dict[str, tuple[Request, dict]]:
    """Requests of every kind, and the layers that they came from."""
    fod, grid, layers = scene.fod, scene.fod.grid, scene.layers
    ball = Region.sphere([0.1, 4.2, -0.3], 3.3, "exclude", name="ball")
    labels = Region.mask(scene.halves, grid, "stop", label=5, name="half")
    mask = Region.mask(scene.mask, grid, "include", name="inside")
    return {
        "own radii and counts": (asked(fod, TWO, mask=scene.mask), {"mask_layer": layers.mask}),
        "mask": (asked(fod, SeedMask(scene.mask, grid, 50)), {"seed_layer": layers.mask}),
        "each voxel": (asked(fod, SeedVoxels.of(scene.mask, grid, 1)), {"seed_layer": layers.mask}),
        "FOD": (asked(fod, SeedFod(50)), {}),
        "regions": (
            asked(fod, TWO, regions=(mask, ball, labels), include_rule="any"),
            {"region_layers": ((layers.mask, None), (None, None), (layers.halves, 5))},
        ),
    }


@pytest.mark.parametrize("kind", ["own radii and counts", "mask", "each voxel", "FOD", "regions"])
def test_scripts_give_the_same_digest(scene, tmp_path, kind):
    request, layers = requests(scene)[kind]
    wanted = digest_of(request)
    assert printed_by(as_python(request, scene.layers.fod, **layers)) == wanted
    out = tmp_path / "out.tck"
    command = as_command(request, scene.layers.fod, **layers, out=str(out))
    assert "--samples" not in command  # which would say that it has no effect
    assert digest_by(command, out) == wanted
    assert Recipe.load(out.with_suffix(".json")).run().digest() == wanted


def test_a_mask_on_another_grid_is_named_by_its_file(scene, tmp_path, monkeypatch):
    """The command resamples it as the window does; a script holds it as it is used."""
    monkeypatch.setattr(volume_layers, "show_warning", lambda text: None)
    grid, half = scene.fod.grid, np.diag([0.5, 0.5, 0.5, 1.0])
    half[:3, 3] = -0.25
    values = np.repeat(np.repeat(np.repeat(scene.mask, 2, 0), 2, 1), 2, 2).astype(np.uint8)
    values[len(values) // 2 :] = 0
    path = tmp_path / "fine.nii.gz"
    nib.save(nib.Nifti1Image(values, grid.affine @ half), path)
    layer = Layer.create(*mask_layer_data(*load_volume(path), "fine"))
    layer.metadata[PATH_KEY] = str(path)
    request = asked(scene.fod, TWO, mask=fod_mask_of(layer, DisplaySpace.of(grid)))
    wanted = digest_of(request)
    assert wanted != digest_of(asked(scene.fod, TWO, mask=scene.mask))
    out = tmp_path / "out.tck"
    command = as_command(request, scene.layers.fod, layer, out=str(out))
    assert str(path) in command
    assert digest_by(command, out) == wanted
    assert printed_by(as_python(request, scene.layers.fod, layer)) == wanted
    layer.data[:] = 1
    painted = asked(scene.fod, TWO, mask=fod_mask_of(layer, DisplaySpace.of(grid)))
    with pytest.raises(InvalidMaskError, match="save it"):
        as_command(painted, scene.layers.fod, layer)


def test_on_windows_a_command_is_quoted_for_cmd_and_powershell(monkeypatch):
    """Microsoft's rules: double quotes keep a word whole, and 2 n backslashes before one are n."""
    monkeypatch.setattr("sys.platform", "win32")
    words = ["track", "C:\\my data\\é.nii", "-o", "D:\\b.tck", "--seed-sphere=-1.5,2,3,1", "x y\\"]
    line = shell_line(words)
    assert line == (r'track "C:\my data\é.nii" -o D:\b.tck "--seed-sphere=-1.5,2,3,1" "x y\\"')
    assert shell_line(["it's $(calc) `n.nii"]) == "'it''s $(calc) `n.nii'"


@pytest.mark.skipif(sys.platform == "win32", reason="links are for administrators there")
def test_paths_that_begin_as_flags_do_are_no_flags(scene, monkeypatch):
    fod_layer, mask_layer = scene.layers.fod, scene.layers.mask
    names = []
    for layer in (fod_layer, mask_layer):
        path = Path(layer.metadata[PATH_KEY])
        monkeypatch.chdir(path.parent)
        names.append(f"-{path.name}")
        os.symlink(path, names[-1])
        layer.metadata[PATH_KEY] = names[-1]
    request = asked(scene.fod, TWO, mask=scene.mask)
    command = as_command(request, fod_layer, mask_layer, out="-out.tck")
    options = make_parser().parse_args(shlex.split(command)[1:])
    assert [options.fod, options.out, options.mask] == [
        os.path.join(".", name) for name in (names[0], "-out.tck", names[1])
    ]


@pytest.mark.parametrize("painted", ["never saved", "since it was opened"])
def test_what_was_painted_is_held_in_python_and_refused_in_a_command(scene, painted):
    """A file that is no longer what the layer shows would give other streamlines."""
    layer = scene.layers.mask
    if painted == "never saved":
        del layer.metadata[PATH_KEY]
    scene.mask[12:20] = False
    seeds = asked(scene.fod, SeedMask(scene.mask, scene.fod.grid, 60))
    region = Region.mask(scene.mask, scene.fod.grid, "exclude", name="painted")
    for request, layers in (
        (asked(scene.fod, TWO, mask=scene.mask), {"mask_layer": layer}),
        (seeds, {"seed_layer": layer}),
        (asked(scene.fod, TWO, regions=(region,)), {"region_layers": ((layer, None),)}),
    ):
        script = as_python(request, scene.layers.fod, **layers)
        assert printed_by(script) == digest_of(request)
        with pytest.raises(InvalidMaskError, match=r"'mask'.*save it"):
            as_command(request, scene.layers.fod, **layers)


def test_phantoms_are_made_again_in_python():
    fod = make_phantom("cross")
    request = asked(fod, SeedFod(5))
    script = as_python(request, Layer.create(*fod_layer_data(fod)))
    assert "make_phantom('cross')" in script
    assert printed_by(script) == digest_of(request)


def test_an_fod_without_a_file_is_named(scene):
    del scene.layers.fod.metadata[PATH_KEY]
    with pytest.raises(InvalidFodError, match="did not come from a file"):
        as_command(asked(scene.fod, TWO), scene.layers.fod)


def test_scripts_say_how_peaks_are_read(tmp_path):
    peaks = np.random.default_rng(2).normal(size=(6, 6, 6, 6)).astype(np.float32)
    path = tmp_path / "dyads.nii.gz"
    nib.Nifti1Image(peaks, np.diag([2.0, 2.0, 2.0, 1.0])).to_filename(path)
    fod = load_fod(path, kind="peaks", axes="fsl")
    layer = Layer.create(*fod_layer_data(fod))
    layer.metadata[PATH_KEY] = str(path)
    request = asked(fod, SeedFod(60))
    wanted = digest_of(request)
    out = tmp_path / "out.tck"
    assert printed_by(as_python(request, layer)) == wanted
    assert digest_by(as_command(request, layer, out=str(out)), out) == wanted
