"""Without a package of an extra, each way to it ends in a sentence that names the extra."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import nibabel as nib
import numpy as np
import pytest
import tifffile

import napari_tractography as nt
from napari_tractography.cli import main
from napari_tractography.errors import MissingPackageError
from napari_tractography.files.image_files import open_image
from napari_tractography.maps.plots import figure
from napari_tractography.model.phantoms import make_phantom
from napari_tractography.recipes.sources import FodSource, SeedSource
from napari_tractography.runtime.extras import needs_extra

BLOCK = np.arange(4096, dtype=np.uint8).reshape(16, 16, 16)


def told(package: str, extra: str) -> str:
    """What every sentence ends with."""
    return f'{package}, which is not installed; pip install "napari-tractography[{extra}]".'


@pytest.fixture
def without(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Have a module fail to be imported, as where it is not installed."""

    def block(module: str) -> None:
        monkeypatch.setitem(sys.modules, module, None)

    return block


def a_line() -> nt.Tractogram:
    return nt.Tractogram.from_streamlines([[[0, 0, 0], [1, 1, 1]]])


def open_tiff() -> Any:
    tifffile.imwrite("a.tif", BLOCK)
    return open_image("a.tif")


def open_zarr() -> Any:
    Path("a.zarr").mkdir()
    Path("a.zarr", "zarr.json").write_text("{}")
    return open_image("a.zarr")


def load_flirt() -> Any:
    np.savetxt("flirt.mat", np.eye(4))
    grid = nt.Grid((2, 2, 2), np.eye(4))
    return nt.load_warp("flirt.mat", fsl_ref=grid, fsl_in=grid)


@pytest.mark.parametrize(
    ("call", "module", "package", "extra"),
    [
        pytest.param(
            lambda: nt.Fod.from_image(BLOCK, np.eye(4)),
            *("structure_tensor", "structure-tensor", "images"),
            id="from_image",
        ),
        pytest.param(open_tiff, "tifffile", "tifffile", "images", id="tiff"),
        pytest.param(open_zarr, "zarr", "zarr", "zarr", id="zarr"),
        pytest.param(open_zarr, "dask.array", "dask", "zarr", id="zarr, Dask"),
        pytest.param(
            lambda: nt.measure(a_line()), "skimage", "scikit-image", "measures", id="measure"
        ),
        pytest.param(load_flirt, "nitransforms.io", "nitransforms", "warps", id="warp"),
        pytest.param(figure, "matplotlib.figure", "matplotlib", "plots", id="plot"),
        pytest.param(
            lambda: nt.cluster("local:1"), "distributed", "distributed", "dask", id="cluster"
        ),
    ],
)
def test_python_says_which_extra_is_missing(
    without: Callable[[str], None],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    call: Callable[[], Any],
    module: str,
    package: str,
    extra: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    without(module)
    with pytest.raises(MissingPackageError) as error:
        call()
    assert str(error.value).endswith(told(package, extra))


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The current folder, with an FOD, streamlines and recipes of a TIFF."""
    monkeypatch.chdir(tmp_path)
    fod = make_phantom("cross", lmax=2)
    nib.save(nib.Nifti1Image(np.asarray(fod.coefficients), fod.grid.affine), "fod.nii.gz")
    nib.save(nib.Nifti1Image(np.ones(fod.grid.shape, np.float32), fod.grid.affine), "fa.nii.gz")
    a_line().save("b.tck")
    tifffile.imwrite("a.tif", BLOCK)
    source = FodSource.of_image(nt.Fod.from_image(BLOCK.T, np.eye(4)), "a.tif")
    nt.Recipe(source, (SeedSource("sphere", 5, 0, (8.0, 8.0, 8.0), 2.0),)).save("r.json")


@pytest.mark.parametrize(
    ("words", "module", "package", "extra"),
    [
        pytest.param("measure b.tck -o t.csv", "skimage", "scikit-image", "measures", id="measure"),
        pytest.param(
            "profile b.tck fa.nii.gz -o t.csv --plot t.png",
            *("matplotlib.figure", "matplotlib", "plots"),
            id="plot",
        ),
        pytest.param(
            "track fod.nii.gz -o t.tck --seed-fod --cluster local:1",
            *("distributed", "distributed", "dask"),
            id="cluster",
        ),
        pytest.param("replay r.json -o t.tck", "tifffile", "tifffile", "images", id="tiff"),
        pytest.param(
            "replay r.json -o t.tck", "structure_tensor", "structure-tensor", "images", id="image"
        ),
    ],
)
def test_the_command_says_which_extra_is_missing(
    files: None,
    without: Callable[[str], None],
    capsys: pytest.CaptureFixture[str],
    words: str,
    module: str,
    package: str,
    extra: str,
) -> None:
    without(module)
    assert main(words.split()) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert said.endswith(told(package, extra) + "\n")
    assert not list(Path().glob("t.*"))


def test_a_package_that_cannot_be_loaded_says_why() -> None:
    said = (
        r'Plots take matplotlib, which cannot be loaded \(no libfoo\); pip install .*\[plots\]"\.'
    )
    with pytest.raises(MissingPackageError, match=said), needs_extra("plots", "Plots take"):
        raise ImportError("no libfoo", name="matplotlib.ft2font")


def test_other_errors_pass_and_so_does_what_is_there() -> None:
    with pytest.raises(ValueError, match="mine"), needs_extra("plots", "Plots take"):
        raise ValueError("mine")
    with needs_extra("images", "Images take"):
        import tifffile as found
    assert found is tifffile
