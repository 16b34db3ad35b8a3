"""The wheel as people have it: installed in an environment of its own, outside the checkout.

Its dependencies are those of the environment that runs the tests, linked one by one, so that no
package index is asked and some of them can be left out.
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import sysconfig
import venv
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import nibabel as nib
import numpy as np
import pytest

import napari_tractography as nt
from napari_tractography.model.phantoms import make_phantom

HERE = Path(sysconfig.get_path("purelib"))
OWN = ("napari_tractography", "_napari_tractography", "__editable__", "_editable")
QT = ("pyqt", "pyside", "shiboken")
CUDA = ("cupy", "nvidia", "cuda")

pytestmark = [
    pytest.mark.slow,  # see test_packaging.py and test_repository.py for what is in the archives
    pytest.mark.skipif(
        sys.platform == "win32", reason="links to folders take rights that people do not have"
    ),
]


@dataclass(frozen=True)
class Environment:
    """An environment with the wheel, and a folder to be in."""

    folder: Path
    working: Path

    @property
    def programs(self) -> Path:
        return self.folder / "bin"

    def run(self, *command: str | Path, code: int = 0) -> subprocess.CompletedProcess[str]:
        """Run a program of the environment, or a text of Python; check its exit code."""
        name, *rest = map(str, command)
        words = [self.programs / "python", "-c", name] if "\n" in name else [self.programs / name]
        kept = {n: v for n, v in os.environ.items() if not n.startswith(("PYTHON", "VIRTUAL"))}
        settings = {"QT_QPA_PLATFORM": "offscreen", "HOME": str(self.working)}
        done = subprocess.run(
            [*words, *rest],
            cwd=self.working,
            env=kept | settings | {"NUMBA_CACHE_DIR": str(self.working)},
            capture_output=True,
            text=True,
        )
        assert done.returncode == code, done.stdout + done.stderr
        return done


@pytest.fixture(scope="session")
def installed(
    distributions: dict[str, Path], tmp_path_factory: pytest.TempPathFactory
) -> Callable[..., Environment]:
    """Make an environment with the wheel, without the packages whose names begin so."""

    def make(*without: str) -> Environment:
        folder = tmp_path_factory.mktemp("environment")
        venv.create(folder, with_pip=False, symlinks=True)
        environment = Environment(folder, tmp_path_factory.mktemp("elsewhere"))
        (packages,) = folder.glob("lib/python*/site-packages")
        left_out = (*OWN, *without, "__pycache__")
        for entry in HERE.iterdir():
            if not entry.name.lower().startswith(left_out):
                (packages / entry.name).symlink_to(entry)
        subprocess.run(
            [
                *(sys.executable, "-m", "pip", "--python", environment.programs / "python"),
                *("--disable-pip-version-check", "--no-input", "install", "--quiet"),
                *("--no-deps", "--no-index", distributions["whl"]),
            ],
            check=True,
            capture_output=True,
        )
        return environment

    return make


@pytest.fixture(scope="module")
def whole(installed: Callable[..., Environment]) -> Environment:
    return installed()


@pytest.fixture(scope="module")
def bare(installed: Callable[..., Environment]) -> Environment:
    """Without Qt and without CUDA."""
    return installed(*QT, *CUDA)


@pytest.fixture
def fod_file(whole: Environment) -> Path:
    fod = make_phantom("cross", lmax=2)
    path = whole.working / "fod.nii.gz"
    nib.save(nib.Nifti1Image(np.asarray(fod.coefficients), fod.grid.affine), path)
    return path


def test_it_is_not_the_checkout(whole: Environment) -> None:
    code = "import napari_tractography as nt\nprint(nt.__file__, nt.__version__)"
    path, version = whole.run(code).stdout.split()
    assert path.startswith(str(whole.folder))
    assert version == nt.__version__


def test_its_requirements_agree(whole: Environment) -> None:
    result = subprocess.run(
        [sys.executable, "-m", "pip", "--python", whole.programs / "python", "check"],
        capture_output=True,
        text=True,
    )
    of_ours = [line for line in result.stdout.splitlines() if "tractography" in line]
    assert of_ours == [], result.stdout
    assert "No broken requirements" in result.stdout or result.returncode


def test_npe2_finds_the_plugin_and_calls_it_valid(whole: Environment) -> None:
    told = whole.run("python", "-m", "npe2", "validate", "napari-tractography").stdout
    assert "is valid" in told or "valid!" in told, told


def test_napari_opens_the_sample_and_shows_the_panel_among_its_widgets(whole: Environment) -> None:
    told = whole.run(
        """
from napari.components import ViewerModel
from npe2 import PluginManager
from qtpy.QtWidgets import QApplication
application = QApplication([])
manager = PluginManager.instance()
manager.discover()
viewer = ViewerModel()
(layer,) = viewer.open_sample("napari-tractography", "cross")
print(layer.name, layer.data.shape)
print(*[w.display_name for w in manager.get_manifest("napari-tractography").contributions.widgets])
"""
    ).stdout
    assert "cross (10, 24, 32)" in told
    assert "Tractography" in told


def test_the_command_runs_and_says_what_is_wrong(whole: Environment, fod_file: Path) -> None:
    assert nt.__version__ in whole.run("napari-tractography", "--version").stdout
    told = whole.run("napari-tractography", "info", fod_file).stdout
    assert "lmax 2" in told
    failed = whole.run("napari-tractography", "info", "nowhere.nii", code=2)
    assert failed.stderr.count("\n") == 1


def test_without_qt_and_cuda_it_reads_files(bare: Environment, fod_file: Path) -> None:
    told = bare.run("napari-tractography", "info", fod_file).stdout
    assert "lmax 2" in told
    told = bare.run(
        f"""
import sys
import napari_tractography as nt
fod = nt.load_fod({str(fod_file)!r})
try:
    nt.track(fod, nt.Seeds.at([[0, 0, 0]]), backend="cuda")
except nt.errors.BackendError as error:
    print(error)
print(len(nt.Tractogram.from_streamlines([[[0, 0, 0], [1, 1, 1]]])))
print([name for name in sys.modules if name.split(".")[0] in ("qtpy", "napari", "cupy", "PyQt6")])
"""
    ).stdout.splitlines()
    assert len(told) == 3
    assert "cuda" in told[0].lower()
    assert told[1:] == ["1", "[]"]


def test_without_qt_the_demonstration_says_what_to_install(bare: Environment) -> None:
    failed = bare.run("napari-tractography", "demo", code=2)
    assert failed.stderr.count("\n") == 1
    assert "napari-tractography[all]" in failed.stderr


def test_what_python_loads_at_the_first_import_is_little(whole: Environment) -> None:
    """Import and --help are quick because of what they leave alone."""
    heavy = {"cupy", "dipy", "h5py", "matplotlib", "napari", "nibabel", "numba", "numpy", "pandas",
             "qtpy", "scipy", "skimage", "trx"}  # fmt: skip
    for code in (
        "import sys, napari_tractography\n",
        "import sys\nfrom napari_tractography.cli import main\n"
        "try:\n    main(['--help'])\nexcept SystemExit:\n    pass\n",
    ):
        told = whole.run(code + "print('LOADED', *{n.split('.')[0] for n in sys.modules})\n")
        loaded = set(told.stdout.rpartition("LOADED")[2].split())
        assert "napari_tractography" in loaded
        assert loaded & heavy == set()


@pytest.mark.skipif(importlib.util.find_spec("twine") is None, reason="no twine to ask")
def test_an_index_would_take_wheel_and_archive(distributions: dict[str, Path]) -> None:
    told = subprocess.run(
        [sys.executable, "-m", "twine", "check", "--strict", *distributions.values()],
        capture_output=True,
        text=True,
    )
    assert told.returncode == 0, told.stdout
    assert told.stdout.count("PASSED") == 2
