"""A new orientation source is one file that gives SH coefficients; all else takes the Fod.

Or it is one that gives vectors, and says what its kind is called and read by: all else asks the
kind, and knows none by name. The toys: a field of unit vectors, one a voxel, as a TOM or the main
eigenvector of a tensor is; and one whose files hold two angles a voxel.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import nibabel as nib
import numpy as np
import pytest
from numpy.typing import NDArray

from napari_tractography.cli import main
from napari_tractography.errors import AmbiguousKindError, InvalidParameterError
from napari_tractography.fields import kinds
from napari_tractography.fields.input_kind import VECTORS, InputKind
from napari_tractography.fields.peaks import LOBE_LMAX, largest_lengths, lobe_coefficients
from napari_tractography.fields.sh import sh_matrix
from napari_tractography.fields.vectors import Vectors, used_rows
from napari_tractography.files.fods import load_fod
from napari_tractography.geometry.grid import Grid
from napari_tractography.maps.fod_peaks import fod_peaks
from napari_tractography.model.fod import Fod
from napari_tractography.model.parameters import TrackingParameters
from napari_tractography.model.seeds import Seeds
from napari_tractography.recipes.recipe import Recipe
from napari_tractography.tracking.engine import track

LMAX = 8
SHAPE = (20, 20, 3)
CENTRE = np.array([9.5, 9.5, 1.0])


def coefficients_of(vectors: np.ndarray) -> np.ndarray:
    """Return (x, y, z, n) SH coefficients of one smooth lobe along each of (x, y, z, 3) vectors."""
    degrees = np.concatenate([np.full(2 * deg + 1, deg) for deg in range(0, LMAX + 1, 2)])
    lobes = sh_matrix(vectors.reshape(-1, 3), LMAX, "tournier07")
    return (lobes * np.exp(-0.02 * degrees * (degrees + 1))).reshape(*vectors.shape[:3], -1)


@pytest.fixture(scope="module")
def vortex() -> tuple[Fod, np.ndarray]:
    """Fibres that run in circles around the middle of a plate, 1 mm voxels."""
    x, y, _ = np.moveaxis(np.indices(SHAPE) - CENTRE[:, None, None, None], 0, 0)
    vectors = np.stack([-y, x, np.zeros(SHAPE)], axis=-1)
    vectors /= np.linalg.norm(vectors, axis=-1, keepdims=True)
    return Fod(coefficients_of(vectors), np.eye(4), name="vortex"), vectors


@pytest.mark.parametrize("algorithm", ["probabilistic", "deterministic"])
def test_streamlines_follow_the_source(vortex: tuple[Fod, np.ndarray], algorithm: str) -> None:
    fod, _ = vortex
    radius = 6.0
    parameters = TrackingParameters(
        algorithm=algorithm, step_mm=0.2, max_angle_deg=15, max_length_mm=8, start="max"
    )
    seeds = Seeds.at(np.tile(CENTRE + np.array([radius, 0.0, 0.0]), (50, 1)))
    found = track(fod, seeds, parameters, backend="cpu")
    assert len(found) == 50
    distances = np.linalg.norm((found.points - CENTRE)[:, :2], axis=1)
    assert abs(np.median(distances) - radius) < 0.5
    along = np.abs([line[-1, 1] - line[0, 1] for line in found])
    assert np.median(along) > 5  # along the circle, not across it


def test_peaks_are_those_of_the_source(vortex: tuple[Fod, np.ndarray]) -> None:
    fod, vectors = vortex
    peaks = fod_peaks(fod, n_peaks=1)
    wanted = vectors[tuple(peaks.voxels.T)]
    assert len(wanted) == fod.n_voxels
    assert np.abs((peaks.directions * wanted).sum(axis=1)).min() > np.cos(np.radians(5))


def read_angles(
    values: Any, grid: Grid, *, axes: str | None, order: str, name: str
) -> tuple[Vectors, NDArray[np.int32], int]:
    """Return a vector for each voxel with two angles, azimuth and elevation in degrees."""
    azimuth, elevation = np.moveaxis(np.radians(np.asarray(values, np.float64)), 3, 0)
    is_used = np.isfinite(azimuth) & np.isfinite(elevation)
    flat = np.cos(elevation)
    along = np.stack([flat * np.cos(azimuth), flat * np.sin(azimuth), np.sin(elevation)], axis=-1)
    numbers = np.ascontiguousarray(along[is_used], dtype=np.float32)
    return Vectors(ANGLES, numbers, axes or "scanner"), used_rows(is_used), 0


def are_two(n_volumes: int) -> bool:
    """Tell whether so many volumes may be angles."""
    return n_volumes == 2


ANGLES = InputKind(
    "angles",
    "angles of fibres",
    short="angles",
    kernel=VECTORS,
    lmax=LOBE_LMAX,
    coefficients=lobe_coefficients,
    amplitudes=largest_lengths,
    read=read_angles,
    suits=are_two,
    floor=0.3,
    floor_reason="angles are of length 1",
)


@pytest.fixture
def angles(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file of the vortex as angles, and the one line that names their kind."""
    monkeypatch.setattr(kinds, "INPUT_KINDS", (*kinds.INPUT_KINDS, ANGLES))
    x, y, _ = np.moveaxis(np.indices(SHAPE) - CENTRE[:, None, None, None], 0, 0)
    values = np.stack([np.degrees(np.arctan2(x, -y)), np.zeros(SHAPE)], axis=-1)
    path = tmp_path / "angles.nii"
    nib.save(nib.Nifti1Image(values.astype(np.float32), np.eye(4)), path)
    return path


def test_a_kind_of_its_own_is_followed_as_the_same_peaks_are(angles: Path) -> None:
    fod = load_fod(angles, kind="angles")
    assert fod.kind == "angles"
    assert fod.vectors is not None
    assert "1 angles a voxel" in repr(fod)
    same = Fod.from_peaks(fod.dense(fod.vectors.numbers), np.eye(4))
    parameters = TrackingParameters.for_fod(fod)
    assert parameters.min_amplitude == pytest.approx(1.2 * ANGLES.floor)  # of length 1
    seeds = Seeds.at(np.tile(CENTRE + np.array([6.0, 0.0, 0.0]), (20, 1)))
    found, wanted = (track(one, seeds, parameters, backend="cpu") for one in (fod, same))
    assert len(found) == 20
    assert found.digest() == wanted.digest()
    np.testing.assert_array_equal(fod_peaks(fod).directions, fod_peaks(same).directions)


def test_the_command_and_recipes_know_a_new_kind_by_its_file_alone(
    angles: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "lines.tck"
    assert main(["info", str(angles), "--kind", "angles"]) == 0
    told = capsys.readouterr().out
    assert "kind        angles: angles of fibres, as given" in told
    assert "angles      1 a voxel at most" in told
    assert "axes        scanner" in told
    how = ["--kind", "angles", "--seed-sphere=15.5,9.5,1,1", "--n-seeds", "20", "--backend", "cpu"]
    assert main(["track", str(angles), "-o", str(out), *how]) == 0
    recipe = Recipe.load(tmp_path / "lines.json")
    assert (recipe.fod.kind, recipe.fod.axes, recipe.fod.order) == ("angles", "scanner", "")
    assert len(recipe.run(backend="cpu")) > 0


def test_what_may_be_of_a_new_kind_is_offered_as_such(angles: Path) -> None:
    with pytest.raises(AmbiguousKindError, match="read it as kind angles") as raised:
        load_fod(angles)
    assert raised.value.kinds == ("angles",)


def test_a_file_that_its_kind_recognises_needs_no_name(
    angles: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = replace(ANGLES, recognise=lambda sample: known if sample.n_volumes == 2 else None)
    monkeypatch.setattr(kinds, "INPUT_KINDS", (known, *kinds.INPUT_KINDS))
    assert load_fod(angles).kind == "angles"


def test_a_kind_that_nobody_named_is_refused() -> None:
    with pytest.raises(InvalidParameterError, match=r"'angles' is unknown.*sh, peaks, tensor"):
        kinds.checked_kind("angles")


def test_the_panel_tells_what_it_is(angles: Path) -> None:
    assert load_fod(angles, kind="angles").description == "Angles of fibres, scanner axes"
