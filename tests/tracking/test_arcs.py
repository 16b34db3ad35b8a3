"""iFOD2: arcs against the FOD along them, in 64 bits, and lines beside those of tckgen."""

from __future__ import annotations

import os
import shutil
import subprocess

import nibabel as nib
import numpy as np
import pytest
from chi_square import ConeBins
from scipy.ndimage import map_coordinates
from scipy.stats import kstest
from toys import SKEWED, random_fod, straight_fod, tangents

from napari_tractography.geometry.directions import direction_set
from napari_tractography.model.fod import Fod
from napari_tractography.model.parameters import TrackingParameters
from napari_tractography.model.regions import Region
from napari_tractography.model.seeds import Seeds
from napari_tractography.model.stop import StopReason
from napari_tractography.tracking.engine import track

N_ARCS = 50_000
POSITION_VOX = (1.3, 1.85, 2.4)


def arcs(**changes):
    settings = {"step_mm": 0.9, "min_amplitude": 0.0, "max_length_mm": 0.9, "random_seed": 5}
    return TrackingParameters(algorithm="ifod2", **{**settings, **changes})


def even_fod(voxel_mm: float) -> Fod:
    """The same in all directions, everywhere."""
    values = np.zeros((9, 9, 9, 45))
    values[..., 0] = 1.0
    return Fod(values, np.diag([voxel_mm] * 3 + [1.0]))


def amplitudes_at(fod: Fod, positions_mm, units, interpolation):
    """(n,) amplitudes at (n, 3) RAS+ mm along (n, 3) unit vectors."""
    order = {"nearest": 0, "trilinear": 1}[interpolation]
    voxels = (positions_mm - fod.grid.affine[:3, 3]) @ np.linalg.inv(fod.grid.affine[:3, :3]).T
    volumes = np.moveaxis(fod.coefficients.astype(np.float64), 3, 0)
    mixed = [map_coordinates(one, voxels.T, order=order, mode="nearest") for one in volumes]
    return np.einsum("nc,cn->n", fod.sample_matrix(units), np.array(mixed))


def density_of_arcs(fod, start_mm, heading, parameters):
    """The density of arcs by where they end, by its definition."""
    n_parts = parameters.samples - 1

    def of(ends):
        angle = np.arccos(np.clip(ends @ heading, -1, 1))[:, None]
        side = ends - np.cos(angle) * heading
        side /= np.linalg.norm(side, axis=1, keepdims=True)
        radius = parameters.step_mm / angle
        total = np.ones(len(ends))
        for part in range(1, n_parts + 1):
            turned = angle * part / n_parts
            place = start_mm + radius * (np.sin(turned) * heading + (1 - np.cos(turned)) * side)
            units = np.cos(turned) * heading + np.sin(turned) * side
            found = amplitudes_at(fod, place, units, parameters.interpolation)
            found = np.where(found >= max(parameters.min_amplitude, 1e-9), found, 0.0)
            total *= found if part < n_parts else np.sqrt(found)
        return total ** (1 / parameters.samples)

    return of


def ends_of(lines: np.ndarray, heading: np.ndarray) -> np.ndarray:
    """Tangents at the ends of (n, 2, 3) arcs that begin along (3,) or (n, 3) unit vectors."""
    chords = np.diff(lines.astype(np.float64), axis=1)[:, 0]
    chords /= np.linalg.norm(chords, axis=1, keepdims=True)
    return 2 * (chords * heading).sum(axis=1, keepdims=True) * chords - heading


@pytest.mark.parametrize(
    ("interpolation", "changes"),
    [
        pytest.param("nearest", {}, id="nearest, as tckgen"),
        pytest.param("nearest", {"samples": 2}, id="nearest, two samples"),
        pytest.param("trilinear", {}, id="as tckgen"),
        pytest.param("trilinear", {"samples": 2}, id="two samples"),
        pytest.param("trilinear", {"samples": 6, "max_angle_deg": 90.0}, id="six samples, wide"),
        pytest.param("trilinear", {"min_amplitude": 0.15, "max_angle_deg": 30.0}, id="floor"),
    ],
)
def test_arcs_have_the_density_of_the_fod_along_them(interpolation, changes):
    fod = random_fod(8, affine=SKEWED, seed=8)
    start = fod.grid.to_mm(POSITION_VOX)
    parameters = arcs(start="given", direction="forward", interpolation=interpolation, **changes)
    units = direction_set(724).astype(np.float64)
    here = amplitudes_at(fod, np.tile(start, (len(units), 1)), units, interpolation)
    heading = units[np.argsort(here)[-12]] / np.linalg.norm(units[np.argsort(here)[-12]])
    seeds = Seeds.at(np.tile(start, (N_ARCS, 1)), np.tile(heading, (N_ARCS, 1)))
    found = track(fod, seeds, parameters)
    assert len(found) == N_ARCS
    ends = ends_of(found.points.reshape(-1, 2, 3), heading)
    bins = ConeBins(heading, parameters.max_angle_deg)
    truth = density_of_arcs(fod, start, heading, parameters)
    assert bins.p_value(ends, truth) > 1e-3
    assert bins.p_value(ends, lambda units: truth(units) ** 1.5) < 1e-6


def test_each_arc_begins_along_the_tangent_at_the_end_of_the_last():
    """In an FOD that is equal in all directions they end anywhere in the cone around it."""
    fod = even_fod(2.0)
    n, n_arcs = 4000, 5
    heading = np.array([0.36, 0.48, 0.8])
    seeds = Seeds.at(np.tile([8.0, 8.0, 8.0], (n, 1)), np.tile(heading, (n, 1)))
    settings = {"start": "given", "direction": "forward", "max_length_mm": 0.9 * n_arcs}
    found = track(fod, seeds, arcs(max_angle_deg=40.0, **settings))
    lines = found.points.reshape(n, n_arcs + 1, 3)
    heading = np.tile(heading, (n, 1))
    for arc in range(n_arcs):
        ends = ends_of(lines[:, arc : arc + 2], heading)
        down = (1 - (ends * heading).sum(axis=1)) / (1 - np.cos(np.deg2rad(40.0)))
        assert kstest(down, "uniform").pvalue > 1e-3
        heading = ends


def test_points_are_an_arc_apart_and_lines_end_after_any_of_its_parts():
    fod = straight_fod((30, 9, 9))
    seeds = Seeds.in_sphere(fod.grid.centre_mm, 1.0, 200)
    found = track(fod, seeds, arcs(step_mm=1.5, max_length_mm=10.0, min_amplitude=0.1))
    parts = found.lengths_mm / 0.5
    np.testing.assert_allclose(parts, np.rint(parts), atol=1e-4)
    assert (np.rint(parts).astype(int) % 3 != 0).any()
    for line in found:
        steps = np.linalg.norm(np.diff(line.astype(float), axis=0), axis=1)
        assert steps.max() < 1.5 + 1e-5
        assert (steps > 1.3).sum() >= len(steps) - 2  # chords of whole arcs but at the ends


def test_regions_are_met_within_an_arc():
    """A slab half as thick as an arc is long stops every line that crosses it."""
    fod = straight_fod((40, 9, 9))
    axis = int(np.abs(direction_set(724)[0]).argmax())
    slab = np.zeros(fod.grid.shape, np.uint8)
    slab[(slice(None),) * axis + (fod.grid.shape[axis] // 2 + 2,)] = 1
    seeds = Seeds.at(np.tile(fod.grid.centre_mm, (300, 1)))
    region = Region.mask(slab, fod.grid, "stop")
    parameters = arcs(step_mm=2.0, max_length_mm=200.0, min_amplitude=0.1)
    found = track(fod, seeds, parameters, regions=[region])
    stopped = (found.stop_reasons == StopReason.STOP_REGION).any(axis=1)
    assert stopped.mean() > 0.9


def test_a_cone_function_is_kept_to():
    fod = even_fod(1.0)
    heading = np.array([0.0, 0.0, 1.0])
    side = tangents(heading)[0]
    seeds = Seeds.at(np.tile([4.0, 4.0, 4.0], (2000, 1)), np.tile(heading, (2000, 1)))

    def one_side(current, candidates):
        return (candidates @ current > 0.8) & (candidates @ side > 0)

    found = track(fod, seeds, arcs(start="given", direction="forward"), cone=one_side)
    ends = ends_of(found.points.reshape(-1, 2, 3), heading)
    assert (ends @ side > -0.06).all()  # half of the distance between directions of the set
    assert (ends @ heading > 0.75).all()


def test_defaults_are_those_of_tckgen():
    fod = straight_fod()
    found = TrackingParameters.for_fod(fod, algorithm="ifod2")
    assert (found.step_mm, found.max_angle_deg, found.samples) == (0.5, 45.0, 4)
    assert (found.min_length_mm, found.max_length_mm) == (5.0, 100.0)
    assert found.min_radius_mm is None
    turned = TrackingParameters.for_fod(fod, algorithm="ifod2", min_radius_mm=1.0)
    assert turned.max_angle_deg == pytest.approx(28.955, abs=0.01)
    assert TrackingParameters.for_fod(fod, algorithm="ifod2", max_angle_deg=30).max_angle_deg == 30
    assert not TrackingParameters().uses("samples")


def test_lines_are_as_long_and_as_dense_as_those_of_tckgen(shared_data, tmp_path):
    """The same seeds, each tried once, on the phantom of crossing bundles."""
    tckgen = shutil.which("tckgen")
    if tckgen is None:
        pytest.skip("tckgen of MRtrix3 is not installed")
    from napari_tractography.files.fods import load_fod

    path = shared_data / "yoga/fod_sh8.nii.gz"
    fod = load_fod(path)
    support, out = tmp_path / "support.nii", tmp_path / "lines.tck"
    nib.save(nib.Nifti1Image(fod.support.astype(np.uint8), fod.grid.affine), support)
    command = [tckgen, "-quiet", "-algorithm", "iFOD2", path, out, "-nthreads", "0"]
    command += ["-select", "0", "-seed_grid_per_voxel", support, "1"]
    subprocess.run(
        [*map(str, command)],
        check=True,
        capture_output=True,
        timeout=200,
        env=os.environ | {"MRTRIX_RNG_SEED": "1"},
    )
    theirs = list(nib.streamlines.load(out).streamlines)
    seeds = Seeds.at(fod.grid.to_mm(np.argwhere(fod.support)))
    ours = track(fod, seeds, TrackingParameters.for_fod(fod, algorithm="ifod2"))
    lengths = [np.linalg.norm(np.diff(line, axis=0), axis=1).sum() for line in theirs]
    assert float(ours.lengths_mm.mean()) == pytest.approx(np.mean(lengths), rel=0.07)
    assert len(ours) == pytest.approx(len(theirs), rel=0.1)  # starts are drawn otherwise
