"""Copied scripts give the digest of what is on the screen."""

from __future__ import annotations

import contextlib
import io
import shlex

import nibabel as nib
import numpy as np
import pytest
from napari.layers import Layer

from napari_tractography import cli
from napari_tractography.errors import InvalidFodError, InvalidMaskError
from napari_tractography.files.fods import load_fod
from napari_tractography.files.tractograms import load_tractogram
from napari_tractography.parameters import TrackingParameters
from napari_tractography.phantoms import make_phantom, phantom_mask, phantom_seeds_mm
from napari_tractography.plugin.runs import Request
from napari_tractography.plugin.scripts import PATH_KEY, as_command, as_python
from napari_tractography.plugin.volumes import fod_layer_data, mask_layer_data
from napari_tractography.tracking.engine import track

PARAMETERS = TrackingParameters(
    step_mm=0.7, max_angle_deg=33.3, random_seed=17, max_length_mm=60.0, interpolation="nearest"
)


@pytest.fixture
def scene(tmp_path):
    """The cross phantom and its mask as files and layers, and a request for two seeds."""
    phantom = make_phantom("cross")
    affine = phantom.grid.affine
    fod_path, mask_path = str(tmp_path / "my fod.nii.gz"), str(tmp_path / "mask.nii.gz")
    nib.Nifti1Image(phantom.coefficients, affine).to_filename(fod_path)
    inside = np.asarray(phantom_mask("cross"), dtype=bool)
    nib.Nifti1Image(inside.astype(np.uint8), affine).to_filename(mask_path)
    fod = load_fod(fod_path)
    fod_layer = Layer.create(*fod_layer_data(fod))
    fod_layer.metadata[PATH_KEY] = fod_path
    mask_layer = Layer.create(*mask_layer_data(inside, fod.grid, "mask"))
    mask_layer.metadata[PATH_KEY] = mask_path
    request = Request(
        fod=fod,
        positions_mm=np.asarray(phantom_seeds_mm("cross"), dtype=float) + 0.123456789,
        n_per_seed=40,
        radius_mm=2.5,
        parameters=PARAMETERS,
        mask=inside,
        preview=False,
        whole=True,
    )
    digest = track(fod, request.seeds(), PARAMETERS, mask=inside).digest()
    return request, fod_layer, mask_layer, digest


def test_python_gives_the_same_digest(scene):
    request, fod_layer, mask_layer, digest = scene
    script = as_python(request, fod_layer, mask_layer)
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(script, "copied", "exec"), {})
    assert printed.getvalue().strip() == digest


def test_the_command_gives_the_same_streamlines(scene, tmp_path):
    request, fod_layer, mask_layer, digest = scene
    out = tmp_path / "out.tck"
    command = as_command(request, fod_layer, mask_layer, out=str(out))
    assert cli.main([*shlex.split(command)[1:], "--quiet"]) == 0
    assert load_tractogram(out).digest() == digest


def test_phantoms_are_made_again_in_python():
    fod = make_phantom("cross")
    request = Request(
        fod=fod,
        positions_mm=np.zeros((1, 3)),
        n_per_seed=5,
        radius_mm=1.0,
        parameters=TrackingParameters(),
        mask=None,
        preview=False,
        whole=True,
    )
    script = as_python(request, Layer.create(*fod_layer_data(fod)), None)
    assert "make_phantom('cross')" in script
    compile(script, "copied", "exec")


def test_layers_without_a_file_are_named(scene):
    request, fod_layer, mask_layer, _ = scene
    del mask_layer.metadata[PATH_KEY]
    for copy in (as_python, as_command):
        with pytest.raises(InvalidMaskError, match="'mask' did not come from a file"):
            copy(request, fod_layer, mask_layer)
    del fod_layer.metadata[PATH_KEY]
    with pytest.raises(InvalidFodError, match="did not come from a file"):
        as_command(request, fod_layer, None)
