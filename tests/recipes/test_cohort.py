"""One seed in many subjects: the streamlines of each, alone, and where subjects differ."""

from __future__ import annotations

import csv
from pathlib import Path

import nibabel as nib
import numpy as np
import pytest

import napari_tractography as nt
from napari_tractography.errors import (
    FileError,
    InvalidFodError,
    InvalidParameterError,
    InvalidSeedsError,
)
from napari_tractography.geometry.grid import Grid
from napari_tractography.model.cohorts import PhantomSubject, make_cohort
from napari_tractography.recipes.edits import Edit
from napari_tractography.recipes.sources import FodSource, SeedSource

N_SUBJECTS, N_SEEDS = 6, 60
CUT = [3, 6]  # subjects with a lesion, counted from 1


@pytest.fixture(scope="module")
def subjects() -> list[PhantomSubject]:
    return make_cohort(N_SUBJECTS, lmax=6)


@pytest.fixture(scope="module")
def places_mm(subjects: list[PhantomSubject]) -> np.ndarray:
    """Before the lesion, in it and beyond it: (3, 3) RAS+ mm."""
    return np.mean([each.places_mm for each in subjects], axis=0)


@pytest.fixture(scope="module")
def seeds(places_mm: np.ndarray) -> nt.Seeds:
    return nt.Seeds.in_sphere(places_mm[0], 3.0, N_SEEDS)


@pytest.fixture(scope="module")
def parameters(subjects: list[PhantomSubject]) -> nt.TrackingParameters:
    return nt.TrackingParameters.for_fod(subjects[0].fod)


@pytest.fixture(scope="module")
def alone(
    subjects: list[PhantomSubject], seeds: nt.Seeds, parameters: nt.TrackingParameters
) -> list[nt.Tractogram]:
    """Each subject, tracked in its whole FOD."""
    return [nt.track(each.fod, seeds, parameters, backend="cpu") for each in subjects]


@pytest.fixture(scope="module")
def folder(subjects: list[PhantomSubject], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder sub-N/fod of each subject: half of them compressed, one on a larger grid."""
    place = tmp_path_factory.mktemp("cohort")
    for number, each in enumerate(subjects, 1):
        own = place / f"sub-{number}"
        own.mkdir()
        values, affine = each.fod.coefficients, each.fod.grid.affine.copy()
        if number == 2:
            values = np.pad(values, ((3, 0), (2, 1), (0, 0), (0, 0)))
            affine[:3, 3] -= affine[:3, :3] @ (3, 2, 0)
        ending = ".nii.gz" if number % 2 else ".nii"
        nib.save(nib.Nifti1Image(values, affine), own / f"fod{ending}")
    return place


@pytest.fixture
def cohort(folder: Path) -> nt.Cohort:
    return nt.Cohort(f"{folder}/sub-*/fod.nii*", folder=folder, kind="sh")


def test_each_subject_has_the_streamlines_of_its_whole_fod(
    cohort: nt.Cohort,
    folder: Path,
    seeds: nt.Seeds,
    parameters: nt.TrackingParameters,
    alone: list[nt.Tractogram],
) -> None:
    files = [folder / f"sub-{n}/fod.nii{'.gz' * (n % 2)}" for n in range(1, N_SUBJECTS + 1)]
    found = cohort.track(seeds, parameters)
    assert cohort.fods == tuple(str(file) for file in files)
    for file, own in zip(files, found.tractograms, strict=True):
        whole = nt.track(nt.load_fod(file, kind="sh"), seeds, parameters, backend="cpu")
        assert own.digest() == whole.digest()
        assert own.n_seeds == N_SEEDS
    equal = [a.digest() == b.digest() for a, b in zip(found.tractograms, alone, strict=True)]
    assert equal.count(True) >= N_SUBJECTS - 1  # on another grid digits differ
    assert cohort.track(seeds, parameters).table() == found.table()  # with what is there


def test_without_parameters_those_that_suit_the_first_subject_count(
    cohort: nt.Cohort, folder: Path, seeds: nt.Seeds
) -> None:
    first = nt.load_fod(folder / "sub-1/fod.nii.gz", kind="sh")
    wanted = cohort.track(seeds, nt.TrackingParameters.for_fod(first))
    assert sum(len(each) for each in wanted.tractograms) > 0
    found = cohort.track(seeds)
    assert [each.digest() for each in found.tractograms] == [
        each.digest() for each in wanted.tractograms
    ]


def test_the_share_is_that_of_subjects_that_are_not_cut(
    subjects: list[PhantomSubject],
    places_mm: np.ndarray,
    seeds: nt.Seeds,
    parameters: nt.TrackingParameters,
) -> None:
    found = nt.Cohort([each.fod for each in subjects]).track(seeds, parameters)
    before, _, beyond = (tuple(found.grid.nearest_voxels(place)) for place in places_mm)
    assert [n + 1 for n, each in enumerate(subjects) if each.has_lesion] == CUT
    assert found.share[before] == 1.0
    assert found.share[beyond] == pytest.approx(1 - len(CUT) / N_SUBJECTS)
    error = np.sqrt(2 / 3 * 1 / 3 / N_SUBJECTS)
    assert found.standard_error[beyond] == pytest.approx(error)
    assert found.standard_error[before] == 0
    cut = found.tractograms[CUT[0] - 1]
    assert nt.density(cut, found.grid)[beyond] == 0
    names = [row[0] for row in found.table().rows]
    assert set(names[: len(CUT)]) == {f"arcs-{number:02d}" for number in CUT}  # differ most


def test_the_map_counts_subjects_by_their_densities(
    subjects: list[PhantomSubject],
    seeds: nt.Seeds,
    parameters: nt.TrackingParameters,
    alone: list[nt.Tractogram],
) -> None:
    grid = Grid(
        (30, 31, 29), np.diag([3.0, 3.1, 2.9, 1]) + np.eye(4)[3] * [[-40], [-44], [-31], [0]]
    )
    cohort = nt.Cohort([each.fod for each in subjects], grid=grid)
    for k in (1, 5):
        found = cohort.track(seeds, parameters, min_streamlines=k)
        wanted = sum((nt.density(each, grid) >= k).astype(int) for each in alone)
        np.testing.assert_array_equal(found.n_reached, wanted)
        assert 0 < found.n_reached.max() <= N_SUBJECTS


def test_little_memory_changes_nothing_and_is_kept_to(
    folder: Path, seeds: nt.Seeds, parameters: nt.TrackingParameters, cohort: nt.Cohort
) -> None:
    wanted = cohort.track(seeds, parameters)
    for share in (0.5, 1e-6):
        small = nt.Cohort(
            list(cohort.fods), max_memory_mb=share * cohort.n_bytes / 1e6, folder=folder, kind="sh"
        )
        for _ in range(2):
            found = small.track(seeds, parameters, n_threads=1)
            assert [t.digest() for t in found.tractograms] == [
                t.digest() for t in wanted.tractograms
            ]
            held = [each.table.n_voxels for each in small._shelf.subjects if each.table]
            assert small.n_bytes <= share * cohort.n_bytes or not any(held)
    assert not any(held)


def test_a_recipe_makes_what_it_makes_in_each(
    cohort: nt.Cohort, places_mm: np.ndarray, parameters: nt.TrackingParameters
) -> None:
    source = SeedSource("sphere", N_SEEDS, 0, tuple(places_mm[0]), 3.0)
    recipe = nt.Recipe(
        FodSource.file(cohort.fods[0], kind="sh"),
        (source,),
        parameters,
        edits=(Edit.lengths(60.0),),
    )
    found = cohort.run(recipe)
    for own, path in zip(found.tractograms, cohort.fods, strict=True):
        assert own.digest() == recipe.on_fod(FodSource.file(path)).run(backend="cpu").digest()
    assert all(own.lengths_mm.min() >= 60.0 for own in found.tractograms if len(own))
    assert len(set(found.inputs_sha256)) == N_SUBJECTS
    again = nt.Cohort(list(cohort.fods), kind="sh").run(recipe)
    assert again.inputs_sha256 == found.inputs_sha256


def test_the_table_tells_what_changed(
    cohort: nt.Cohort, places_mm: np.ndarray, parameters: nt.TrackingParameters, tmp_path: Path
) -> None:
    source = SeedSource("sphere", N_SEEDS, 0, tuple(places_mm[0]), 3.0)
    found = cohort.run(nt.Recipe(FodSource.file(cohort.fods[0]), (source,), parameters))
    found.save(tmp_path / "t.csv")
    with open(tmp_path / "t.csv", encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert found.changed_since(rows) == []
    rows[1]["digest"] = "another"
    rows[2].update(digest="another", inputs_sha256="another")  # other inputs: not compared
    assert found.changed_since(rows) == [rows[1]["subject"]]


def test_a_mask_is_taken_on_each_grid(
    cohort: nt.Cohort, seeds: nt.Seeds, parameters: nt.TrackingParameters, places_mm: np.ndarray
) -> None:
    voxels = np.moveaxis(np.indices(cohort.grid.shape), 0, -1)
    mask = np.linalg.norm(cohort.grid.to_mm(voxels) - places_mm[0], axis=-1) < 12.0
    found = cohort.track(seeds, parameters, mask=mask)
    there = voxels[found.n_reached > 0]  # beyond the mask those of the last points alone
    spacing = cohort.grid.voxel_sizes_mm.max() + parameters.step_mm
    away = np.linalg.norm(cohort.grid.to_mm(there) - places_mm[0], axis=-1)
    assert 6 < away.max() < 12.0 + spacing
    reached = np.linalg.norm(found.tractograms[1].points - places_mm[0], axis=1)
    assert 6 < reached.max() < 16


def test_what_selects_or_holds_peaks_is_tracked_in_the_whole(
    subjects: list[PhantomSubject], seeds: nt.Seeds, parameters: nt.TrackingParameters
) -> None:
    fods = [each.fod for each in subjects[:2]]
    found = nt.Cohort(fods).track(seeds, parameters, select=20)
    for fod, own in zip(fods, found.tractograms, strict=True):
        whole = nt.track(fod, seeds, parameters, select=20, backend="cpu")
        assert own.digest() == whole.digest()
        assert len(own) == 20
    peaks = nt.Fod.from_peaks(np.broadcast_to([1.0, 0, 0], (9, 5, 5, 3)), np.eye(4))
    own = nt.Cohort([peaks, peaks]).track(nt.Seeds.at([4.0, 2, 2]))
    assert own.names == ("peaks-1", "peaks-2")
    assert own.tractograms[1].digest() == nt.track(peaks, nt.Seeds.at([4.0, 2, 2])).digest()


def test_what_is_wrong_is_told_with_the_subject(
    cohort: nt.Cohort, folder: Path, parameters: nt.TrackingParameters, tmp_path: Path
) -> None:
    with pytest.raises(InvalidSeedsError, match=r"^sub-._fod.*: All 1 seeds lie outside"):
        cohort.track(nt.Seeds.at([900.0, 0, 0]), parameters)
    with pytest.raises(InvalidParameterError, match="backend = 'cuda' is none for a cohort"):
        cohort.track(nt.Seeds.at([0.0, 0, 0]), backend="cuda")
    with pytest.raises(InvalidParameterError, match="min_streamlines = 0 is impossible"):
        cohort.track(nt.Seeds.at(cohort.grid.centre_mm), min_streamlines=0)
    with pytest.raises(InvalidParameterError, match="max_memory_mb = 0"):
        nt.Cohort(list(cohort.fods), max_memory_mb=0)
    nib.save(nib.Nifti1Image(np.zeros((4, 4, 4), np.float32), np.eye(4)), tmp_path / "map.nii")
    with pytest.raises(InvalidFodError, match=r"map: map.nii has shape \(.*; an FOD is 4-D"):
        nt.Cohort([tmp_path / "map.nii", cohort.fods[0]])
    with pytest.raises(InvalidParameterError, match="no subjects"):
        nt.Cohort([])
    with pytest.raises(FileError, match="matches no file"):
        nt.Cohort(f"{folder}/nowhere-*/fod.nii")
    recipe = nt.Recipe(FodSource.file(cohort.fods[0]), (SeedSource("fod", 5),), parameters)
    with pytest.raises(InvalidParameterError, match="draws its seeds in the FOD"):
        cohort.run(recipe)


def test_a_run_may_be_closed_before_its_end(
    cohort: nt.Cohort, seeds: nt.Seeds, parameters: nt.TrackingParameters
) -> None:
    inputs = nt.tracking.inputs.TrackingInput(
        nt.load_fod(cohort.fods[0], kind="sh"), seeds, parameters
    )
    runs = cohort.iter_done(inputs)
    first = next(done for done in runs if done is not None)
    runs.close()
    found = dict(cohort.iter_track(inputs))
    assert sorted(found) == list(range(N_SUBJECTS))
    assert found[first[0]].digest() == first[1].digest()


def test_what_is_no_cohort_is_told(subjects: list[PhantomSubject]) -> None:
    fod = subjects[0].fod
    with pytest.raises(InvalidParameterError, match="of type Fod; give a list of them, or a patt"):
        nt.Cohort(fod)  # type: ignore[arg-type]
    with pytest.raises(InvalidParameterError, match="Among the FODs is one of type ndarray"):
        nt.Cohort([fod, fod.coefficients])  # type: ignore[list-item]
    with pytest.raises(InvalidParameterError, match="of type str; give a Grid, or an Fod for its"):
        nt.Cohort([fod], grid="template.nii.gz")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="takes nothing named warp; see"):
        nt.Cohort([fod], warp=["warp.nii.gz"])  # type: ignore[call-arg]
    assert nt.Cohort([fod], grid=subjects[1].fod).grid is subjects[1].fod.grid
