"""One seed of a template in subjects that have nothing but warps in common with it.

Each subject is the phantom of the template, moved by a wave and a shift that are known.
"""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Callable
from pathlib import Path

import nibabel as nib
import numpy as np
import pytest
from scipy.spatial import KDTree

import napari_tractography as nt
from napari_tractography.errors import FileError, InvalidParameterError, InvalidWarpError
from napari_tractography.files.volume_files import save_volume
from napari_tractography.geometry.grid import Grid
from napari_tractography.geometry.warps import Warp
from napari_tractography.model.phantoms import drawing, fod_of_drawing
from napari_tractography.recipes.edits import Edit
from napari_tractography.recipes.sources import FodSource, RegionSource, SeedSource
from napari_tractography.recipes.volume_sources import VolumeSource
from napari_tractography.recipes.warp_sources import WarpFile, WarpSource

N_SUBJECTS, N_SEEDS = 3, 80
SIZE_VOX = 2.5  # of the waves


def moved_vox(points: np.ndarray, number: int) -> np.ndarray:
    """Return where (..., 3) voxel coordinates of the template lie in those of a subject."""
    phase = 2 * np.pi * number / N_SUBJECTS
    return points + SIZE_VOX * np.sin(points[..., ::-1] / 9 + phase)


def back_vox(points: np.ndarray, number: int) -> np.ndarray:
    found = points
    for _ in range(60):  # a contraction
        found = found + points - moved_vox(found, number)
    return found


@dataclasses.dataclass
class Case:
    """A folder with sub-N/fod.nii.gz and sub-N/warp.nii.gz, which leads to the template."""

    folder: Path
    template: nt.Fod
    place_mm: np.ndarray  # on a bundle
    parameters: nt.TrackingParameters

    @property
    def fods(self) -> str:
        return f"{self.folder}/sub-*/fod.nii.gz"

    @property
    def warps(self) -> str:
        return f"{self.folder}/{{subject}}/warp.nii.gz"

    def cohort(self, **keywords: object) -> nt.Cohort:
        given = {"warps": self.warps, "grid": self.template.grid, **keywords}
        return nt.Cohort(self.fods, **given)

    def recipe(self, **parts: object) -> nt.Recipe:
        seeds = (SeedSource("sphere", N_SEEDS, 0, tuple(self.place_mm), 3.0),)
        source = FodSource.file(self.folder / "template.nii.gz")
        whole = nt.Recipe(source, seeds, self.parameters)
        return dataclasses.replace(whole, **parts)

    def alone(self, recipe: nt.Recipe, path: str) -> nt.Tractogram:
        """Return what replay makes in a subject."""
        warp = WarpSource.file(Path(path).with_name("warp.nii.gz"))
        return recipe.on_fod(FodSource.file(path), warp).run(backend="cpu")


@pytest.fixture(scope="module")
def case(tmp_path_factory: pytest.TempPathFactory) -> Case:
    folder = tmp_path_factory.mktemp("warped")
    phantom = drawing("arcs")
    template = fod_of_drawing(phantom, phantom.grid, "template", 6)
    image = nib.Nifti1Image(template.coefficients, template.grid.affine)
    nib.save(image, folder / "template.nii.gz")
    for number in range(N_SUBJECTS):
        own = folder / f"sub-{number + 1}"
        own.mkdir()
        bundles = tuple(
            dataclasses.replace(
                bundle, curves=tuple(moved_vox(curve, number) for curve in bundle.curves)
            )
            for bundle in phantom.bundles
        )
        affine = phantom.grid.affine.copy()
        affine[:3, 3] += 30.0 * number
        grid = Grid(phantom.grid.shape, affine)
        fod = fod_of_drawing(dataclasses.replace(phantom, bundles=bundles), grid, "own", 6)
        nib.save(nib.Nifti1Image(fod.coefficients, affine), own / "fod.nii.gz")
        voxels = np.moveaxis(np.indices(grid.shape), 0, -1).astype(float)
        there = template.grid.to_mm(back_vox(voxels, number))
        nib.save(nib.Nifti1Image(there.astype(np.float32), affine), own / "warp.nii.gz")
    curve = phantom.bundles[0].curves[0]
    place = template.grid.to_mm(curve[len(curve) // 3])
    return Case(folder, template, place, nt.TrackingParameters.for_fod(template))


def warp_of(case: Case, path: str) -> Warp:
    return nt.load_warp(Path(path).with_name("warp.nii.gz"))


def test_shares_are_one_where_the_phantom_is(case: Case) -> None:
    seeds = nt.Seeds.in_sphere(case.place_mm, 3.0, N_SEEDS)
    there = nt.track(case.template, seeds, case.parameters, backend="cpu")
    wanted = nt.density(there, case.template.grid) >= 12
    assert wanted.sum() > 30
    found = case.cohort().track(seeds, case.parameters)
    assert (found.share[wanted] == 1).mean() > 0.95
    assert found.likeness.min() > 0.7
    known = KDTree(there.points)
    for own in found.tractograms:  # in the template
        assert np.quantile(known.query(own.points)[0], 0.9) < 2.0
    shifts = [Warp.affine(shift_of(case, path)) for path in case.cohort().fods]
    shifted = case.cohort(warps=shifts).track(seeds, case.parameters)
    assert (shifted.share[wanted] == 1).mean() < 0.6  # the waves are not undone


def shift_of(case: Case, path: str) -> np.ndarray:
    matrix = np.eye(4)
    matrix[:3, 3] = case.template.grid.affine[:3, 3] - nt.load_fod(path).grid.affine[:3, 3]
    return matrix


def ends(case: Case) -> tuple[RegionSource, RegionSource]:
    """Two spheres on a streamline of the template, 20 mm apart."""
    points = nt.track(case.template, nt.Seeds.at(case.place_mm), case.parameters).points
    far = points[np.abs(np.linalg.norm(points - case.place_mm, axis=1) - 20.0).argmin()]
    one, other = (
        RegionSource("include", "", tuple(np.asarray(at, float).tolist()), 4.0)
        for at in (case.place_mm, far)
    )
    return one, other


def region_file(case: Case) -> RegionSource:
    """A mask in the template, beyond the place of the seeds, which stops streamlines."""
    grid = case.template.grid
    voxels = np.moveaxis(np.indices(grid.shape), 0, -1)
    far = np.linalg.norm(grid.to_mm(voxels) - case.place_mm, axis=-1) > 15.0
    save_volume(far.astype(np.uint8), grid, case.folder / "far.nii.gz")
    volume = VolumeSource.file(case.folder / "far.nii.gz")
    return RegionSource("stop", "far", volume=volume)


def seed_mask(case: Case) -> SeedSource:
    grid = case.template.grid
    voxels = np.moveaxis(np.indices(grid.shape), 0, -1)
    near = np.linalg.norm(grid.to_mm(voxels) - case.place_mm, axis=-1) < 3.0
    save_volume(near.astype(np.uint8), grid, case.folder / "near.nii.gz")
    volume = VolumeSource.file(case.folder / "near.nii.gz")
    return SeedSource("mask", N_SEEDS, volume=volume)


@pytest.mark.parametrize(
    "parts",
    [
        pytest.param(lambda case: {}, id="sphere"),
        pytest.param(
            lambda case: {
                "seeds": (seed_mask(case),),
                "regions": (region_file(case),),
                "edits": (Edit.lengths(8.0),),
            },
            id="masks and an edit",
        ),
        pytest.param(lambda case: {"select": 20}, id="select"),
        pytest.param(lambda case: {"seeds": (), "select": 12, "between": ends(case)}, id="between"),
    ],
)
def test_digests_are_those_of_replay(
    case: Case, parts: Callable[[Case], dict[str, object]]
) -> None:
    recipe = case.recipe(**parts(case))
    cohort = nt.Cohort.of_recipe(recipe, case.fods, warps=case.warps)
    assert cohort.grid == case.template.grid
    found = cohort.run(recipe)
    table = found.table()
    digests = {row[0]: row[table.header.index("digest")] for row in table.rows}
    for name, path, brought in zip(cohort.names, cohort.fods, found.tractograms, strict=True):
        own = case.alone(recipe, path)
        assert len(own) > 10
        assert digests[name] == own.digest()
        there = own.warped(warp_of(case, path))
        assert brought.digest() == there.digest()
    if recipe.between:  # regions that are given go through the warps as those of a recipe do
        inputs = recipe.read(hashed=False)[0]
        by_inputs = {number: digest for number, _, digest in filter(None, cohort.iter_done(inputs))}
        assert tuple(by_inputs[number] for number in sorted(by_inputs)) == found.digests
    mean = np.mean([nt.density(own, cohort.grid) > 0 for own in found.tractograms], axis=0)
    np.testing.assert_allclose(found.share, mean)
    again = nt.Cohort.of_recipe(recipe, case.fods, warps=case.warps, max_memory_mb=1e-6)
    for _ in range(2):
        assert again.run(recipe).table() == table


def test_a_recipe_with_a_warp_is_made_with_those_of_subjects(case: Case) -> None:
    """Its own is that of the first subject; an edit takes streamlines to the template."""
    first = case.folder / "sub-1"
    warp = WarpSource.file(first / "warp.nii.gz")
    image = WarpFile.of(case.folder / "template.nii.gz")
    for edits in ((), (Edit.warped(warp, image),)):
        recipe = case.recipe(fod=FodSource.file(first / "fod.nii.gz"), warp=warp, edits=edits)
        with pytest.raises(InvalidParameterError, match=r"a warp.* that of each subject"):
            nt.Cohort.of_recipe(recipe, case.fods).run(recipe)
        cohort = case.cohort()
        found = cohort.run(recipe)
        for path, brought, digest in zip(
            cohort.fods, found.tractograms, found.digests, strict=True
        ):
            own = case.alone(recipe, path)
            assert digest == own.digest()
            there = own if edits else own.warped(warp_of(case, path))
            assert brought.digest() == there.digest()
        assert len(set(found.inputs_sha256)) == N_SUBJECTS
        if edits:
            assert nt.Cohort.of_recipe(recipe, case.fods, warps=case.warps).grid == cohort.grid
        else:
            with pytest.raises(InvalidParameterError, match="names no image in the space"):
                nt.Cohort.of_recipe(recipe, case.fods, warps=case.warps)


def test_warps_may_be_given_in_any_way(case: Case) -> None:
    seeds = nt.Seeds.in_sphere(case.place_mm, 3.0, 20)
    region = nt.Region.sphere(case.place_mm, 12.0, "include")
    cohort = case.cohort()
    wanted = cohort.track(seeds, case.parameters, regions=[region])
    assert len(wanted.tractograms[1]) > 10
    files = [Path(path).with_name("warp.nii.gz") for path in cohort.fods]
    sources = {name: WarpSource.file(file) for name, file in zip(cohort.names, files, strict=True)}
    for warps in (
        files,
        list(sources.values()),
        [nt.load_warp(file) for file in files],
        sources.__getitem__,
    ):
        found = case.cohort(warps=warps).track(seeds, case.parameters, regions=[region])
        assert found.table() == wanted.table()
    fods = [nt.load_fod(path) for path in cohort.fods]
    found = nt.Cohort(fods, warps=files, grid=cohort.grid).track(
        seeds, case.parameters, regions=[region]
    )
    np.testing.assert_array_equal(found.share, wanted.share)
    alone = nt.track(
        fods[1],
        seeds.warped(nt.load_warp(files[1]).inverse()),
        case.parameters,
        regions=[region.warped(nt.load_warp(files[1]).inverse(), fods[1].grid)],
        backend="cpu",
    )
    assert wanted.digests[1] == alone.digest()


def test_a_region_is_warped_once_while_the_seed_moves(
    case: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    warped, calls = nt.Region.warped, []

    def counted(region: nt.Region, warp: Warp, grid: Grid) -> nt.Region:
        calls.append(region)
        return warped(region, warp, grid)

    monkeypatch.setattr(nt.Region, "warped", counted)
    region = nt.Region.sphere(case.place_mm, 12.0, "include")
    points = nt.track(case.template, nt.Seeds.at(case.place_mm), case.parameters).points
    beyond = points[np.abs(np.linalg.norm(points - case.place_mm, axis=1) - 12.0).argmin()]
    other = nt.Region.sphere(beyond, 6.0, "stop")
    cohort = case.cohort()
    for radius_mm in (3.0, 2.0):
        seeds = nt.Seeds.in_sphere(case.place_mm, radius_mm, 10)
        first = cohort.track(seeds, case.parameters, regions=[region])
    assert len(calls) == N_SUBJECTS
    found = cohort.track(seeds, case.parameters, regions=[region, other])
    assert len(calls) == 2 * N_SUBJECTS
    assert all(one != two for one, two in zip(found.digests, first.digests, strict=True))
    assert cohort.track(seeds, case.parameters, regions=[region]).digests == first.digests


def test_memory_holds_the_fields_and_gives_them_up(case: Case) -> None:
    seeds = nt.Seeds.in_sphere(case.place_mm, 3.0, 20)
    cohort = case.cohort()
    before = cohort.track(seeds, case.parameters)
    fields = N_SUBJECTS * 12 * int(np.prod(case.template.grid.shape))
    assert cohort.n_bytes > fields
    small = case.cohort(max_memory_mb=fields / 1e6)
    for _ in range(2):
        assert small.track(seeds, case.parameters, n_threads=1).table() == before.table()
        assert small.n_bytes <= fields


def test_what_leaves_a_warp_is_cut_and_told_once_with_the_subject(
    case: Case, caplog: pytest.LogCaptureFixture
) -> None:
    cohort = case.cohort()
    warps = []
    for path in cohort.fods:
        image = nib.load(Path(path).with_name("warp.nii.gz"))
        positions, grid = image.get_fdata(), Grid(image.shape[:3], image.affine)
        far = np.linalg.norm(positions - case.place_mm, axis=-1) > 15.0
        positions[far] = np.nan
        warps.append(Warp.field(positions, grid))
    seeds = nt.Seeds.in_sphere(case.place_mm, 3.0, 20)
    small = case.cohort(warps=warps)
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            found = small.track(seeds, case.parameters)
    assert sum("sub-2" in text and "leave the warp" in text for text in caplog.messages) == 1
    at = np.concatenate([own.points for own in found.tractograms])
    assert np.linalg.norm(at - case.place_mm, axis=1).max() < 15.5
    assert found.digests == cohort.track(seeds, case.parameters).digests


def test_what_is_wrong_is_told(case: Case) -> None:
    with pytest.raises(InvalidParameterError, match="give the grid of an image there"):
        case.cohort(grid=None)
    with pytest.raises(InvalidParameterError, match="1 warps and 3 subjects"):
        case.cohort(warps=[f"{case.folder}/sub-1/warp.nii.gz"])
    with pytest.raises(FileError, match=r"sub-1/gone\.nii"):
        case.cohort(warps=f"{case.folder}/{{subject}}/gone.nii")
    cohort = case.cohort()
    mask = np.ones(case.template.grid.shape, np.bool_)
    with pytest.raises(InvalidParameterError, match="mask or a tissue image belongs to one"):
        cohort.track(nt.Seeds.at(case.place_mm), mask=mask)
    with pytest.raises(InvalidParameterError, match="mask or a tissue image belongs to one"):
        cohort.run(case.recipe(mask=VolumeSource.of_array(mask, case.template.grid)))
    with pytest.raises(InvalidWarpError, match=r"^sub-.: .*lie outside of the warp"):
        cohort.track(nt.Seeds.at([900.0, 0, 0]), case.parameters)
