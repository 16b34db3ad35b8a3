"""Which voxels are among crossings: against the definition, and where bundles were drawn."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from kept_code import look_around_everywhere, look_around_together, scratch_for
from plans import plan_of
from toys import SKEWED, arc_fod, bundles_that_cross, straight_fod

from napari_tractography.fields.sh import sh_matrix
from napari_tractography.model.fod import Fod
from napari_tractography.model.parameters import TrackingParameters
from napari_tractography.model.seeds import Seeds
from napari_tractography.tracking import codes
from napari_tractography.tracking.cpu import cpu_backend as cpu
from napari_tractography.tracking.plan import kernel_field
from napari_tractography.tracking.tables.builders import build_table
from napari_tractography.tracking.tables.data import empty_rows


def seen_in(fod: Fod) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Where ways cross, how much wider lobes are, and what is among crossings, (x, y, z) each.

    The width is in hundredths, above what is asked for; 0 where no ways go through.
    """
    field = kernel_field(build_table(fod), TrackingParameters())
    look_around_everywhere(field, scratch_for(field))
    seen = field.crossings[fod.voxel_rows]
    assert ((seen >= codes.NOT_AMONG) & (seen < codes.NOT_SEEN)).all()
    level = ((seen & codes.WIDTH) >> codes.WIDTH_BITS).astype(int)
    width = np.where(level > 0, level - codes.AS_WIDE, 0)
    return seen & codes.WAYS_CROSS != 0, width, seen & codes.AMONG_CROSSINGS != 0


def by_definition(fod: Fod) -> tuple[np.ndarray, np.ndarray]:
    """Where ways cross, and the width, (x, y, z), in float64: tops of a fine set of directions.

    In every other voxel, as the kernel looks at no others.
    """
    values = np.nan_to_num(fod.coefficients.astype(float))
    to_voxel = fod.grid.inverse[:3, :3]

    def basis(units: np.ndarray) -> np.ndarray:
        matrix = sh_matrix(units.reshape(-1, 3), fod.lmax, "tournier07", fod.is_asymmetric)
        return matrix.reshape(*units.shape[:-1], -1)

    def amplitudes(rows: np.ndarray, matrix: np.ndarray) -> np.ndarray:
        return np.maximum((rows * matrix).sum(axis=-1), 0)

    def summed(steps: np.ndarray, matrix: np.ndarray) -> np.ndarray:
        steps = steps / np.linalg.norm(steps, axis=1, keepdims=True)
        total = np.zeros(len(voxels))
        for ahead in range(-8, 9, 2):
            there = voxels + np.floor(ahead * steps + 0.5).astype(int)
            inside = ((there >= 0) & (there < values.shape[:3])).all(axis=1)
            rows = values[tuple(np.where(inside[:, None], there, 0).T)] * inside[:, None]
            total += amplitudes(rows, matrix)
        return total

    voxels = np.argwhere(values.any(axis=-1))
    own = values[tuple(voxels.T)]
    tops = climbed(own, basis)
    of_tops = basis(tops)
    first = np.cross(tops, np.where(np.abs(tops[:, :1]) < 0.6, [[1.0, 0, 0]], [[0, 1.0, 0]]))
    first /= np.linalg.norm(first, axis=1, keepdims=True)
    second = np.cross(tops, first)
    steps = tops @ to_voxel.T
    along_top = summed(steps, of_tops)
    # The planes of the kernel begin at a tangent of its own; here they are more, between those.
    top_sum, way_sum, beside = [], [], []
    for angle in np.arange(0, 360, 15.0):
        c, s = np.cos(np.deg2rad(angle)), np.sin(np.deg2rad(angle))
        units = tops + np.tan(np.deg2rad(10)) * (c * first + s * second)
        units /= np.linalg.norm(units, axis=1, keepdims=True)
        of_units, steps = basis(units), units @ to_voxel.T
        top_sum.append(summed(steps, of_tops))
        way_sum.append(summed(steps, of_units))
        beside.append(amplitudes(own, of_units))
    top_sum, way_sum, beside = np.array(top_sum), np.array(way_sum), np.array(beside)
    half, quarter = len(top_sum) // 2, len(top_sum) // 4
    sides = np.roll(np.arange(half), quarter)
    both = [array[:half] + array[half:] for array in (top_sum, way_sum, beside)]
    across = both[1][sides] / both[0][sides]
    ratio = np.minimum(way_sum[:half] / top_sum[:half], way_sum[half:] / top_sum[half:])
    excess, wider = ratio / across - 1, both[2] / both[2][sides] - 1
    least = 0.65 * 9 * amplitudes(own, of_tops)
    enough = (np.minimum(way_sum[:half], way_sum[half:]) > least) & (along_top > least)
    excess = np.where(enough & (voxels.sum(axis=1) % 2 == 0), excess, 0)
    crosses = (excess > 0.05) & (wider > 0.12 * excess)
    best = excess.argmax(axis=0), np.arange(len(voxels))
    above = np.where(excess[best] > 0.05, 100 * (wider[best] - 0.03 * excess[best]), 0)
    found, width = np.zeros(values.shape[:3], bool), np.zeros(values.shape[:3])
    found[tuple(voxels.T)], width[tuple(voxels.T)] = crosses.any(axis=0), np.clip(above, -7, 7)
    return found, width


def climbed(rows, basis):
    """Directions of the largest amplitudes, to a tenth of a degree."""
    height = np.arange(2000) / 2000
    azimuth = np.arange(2000) * np.pi * (3 - np.sqrt(5))
    radius = np.sqrt(1 - height**2)
    fine = np.stack([radius * np.cos(azimuth), radius * np.sin(azimuth), height], axis=1)
    best = fine[(rows @ basis(fine).T).argmax(axis=1)]
    for size in (0.03, 0.015, 0.007, 0.003, 0.0015):
        around = size * np.random.default_rng(0).normal(size=(24, 1, 3))
        near = np.concatenate([best[None], best + around])
        near /= np.linalg.norm(near, axis=-1, keepdims=True)
        best = near[(rows * basis(near)).sum(axis=-1).argmax(axis=0), np.arange(len(rows))]
    return best


@pytest.mark.parametrize("affine", [np.diag([2.0, 2.0, 2.0, 1.0]), SKEWED], ids=["cubes", "skewed"])
def test_ways_cross_where_they_do_by_definition(affine):
    fod = bundles_that_cross(16.0, affine=affine, noise=0.05)
    (wanted, wanted_width), (found, width, _) = by_definition(fod), seen_in(fod)
    assert 100 < wanted.sum() < 0.25 * fod.n_voxels
    # The definition looks in twice as many planes, so that it finds some more.
    assert (found & wanted).sum() > 0.85 * wanted.sum()
    assert (found & ~wanted).sum() < 0.05 * wanted.sum()
    both = (width != 0) & (wanted_width != 0)
    assert both.sum() > 100
    assert np.ptp(width[both]) > 10
    off = np.abs(width - wanted_width)[both]
    assert np.median(off) < 1.0
    assert (off < 3.0).mean() > 0.9


def test_what_is_among_crossings_has_crossings_and_wide_lobes_around():
    fod = bundles_that_cross(10.0, noise=0.03)
    crosses, width, among = seen_in(fod)
    has_fod = fod.coefficients.any(axis=-1)
    wide = summed_around(width, 3) > 0
    enough = summed_around(crosses.astype(int), 1) >= 2
    assert (enough & ~wide & has_fod).sum() > 5
    np.testing.assert_array_equal(among, enough & wide & has_fod)


def summed_around(numbers, n_voxels):
    """Sums over the voxels up to so many to either side."""
    padded = np.pad(numbers, n_voxels)
    n = 2 * n_voxels + 1
    return np.lib.stride_tricks.sliding_window_view(padded, (n, n, n)).sum(axis=(3, 4, 5))


@pytest.mark.parametrize("degrees", [20.0, 30.0])
def test_bundles_cross_where_they_overlap(degrees):
    fod = bundles_that_cross(degrees)
    *_, among = seen_in(fod)
    middle = slice(17, 23), slice(8, 12), slice(4, 6)
    assert among[middle].mean() > 0.9
    assert not among[:6].any()  # where they are apart
    assert not among[-6:].any()


def test_there_are_no_crossings_in_a_bundle_thick_or_bent():
    for fod in (straight_fod(shape=(24, 12, 12)), bundles_that_cross(0.0), arc_fod((20, 20, 8))):
        *_, among = seen_in(fod)
        assert not among.any()


def test_what_a_thread_tracked_before_does_not_count():
    """Lanes keep the corners of their cells, which nearest voxels have none of."""
    fod = bundles_that_cross(25.0)
    nearest, trilinear = (
        TrackingParameters.for_fod(fod, algorithm="transport", interpolation=name)
        for name in ("nearest", "trilinear")
    )
    seeds = Seeds.in_sphere((0.0, 0.0, 0.0), 20.0, 200)
    never, buffers = np.zeros(1, np.uint8), cpu.ThreadBuffers()

    def tracked(parameters, buffers):
        """Return the streamlines, and what was found of voxels whose rows are filled."""
        plan = plan_of(bundles_that_cross(25.0), seeds, parameters)
        plan.field.crossings[:] = codes.NOT_AMONG  # of rows that are not filled
        return cpu.track_range(plan, 0, plan.n_seeds, never, buffers)[0], plan.field.crossings

    alone, found = tracked(nearest, cpu.ThreadBuffers())
    assert (found & codes.AMONG_CROSSINGS != 0).any()
    tracked(trilinear, buffers)
    again, found_again = tracked(nearest, buffers)
    assert again.digest() == alone.digest()
    np.testing.assert_array_equal(found_again, found)
    turning = trilinear.replace(min_roundness=0.0)  # in all lobes, wherever it is
    alone, _ = tracked(turning, cpu.ThreadBuffers())
    tracked(trilinear, buffers)
    assert tracked(turning, buffers)[0].digest() == alone.digest()


def test_threads_that_look_at_once_find_the_same():
    """One may fill a row, or write what it found, between two looks of another."""
    fod = bundles_that_cross(25.0)
    field = kernel_field(build_table(fod), TrackingParameters())
    alone = look_around_everywhere(field, scratch_for(field))
    assert 0.02 < alone.mean() < 0.5
    scratches, known = [scratch_for(field) for _ in range(2)], field.crossings.copy()
    with ThreadPoolExecutor(2) as pool:
        for _ in range(200):
            anew = field._replace(**empty_rows(*field.values.shape, field.change.shape[1]))
            is_here = np.zeros(2, np.bool_)
            jobs = [
                pool.submit(look_around_together, anew, scratch, is_here, number)
                for number, scratch in enumerate(scratches)
            ]
            for job in jobs:
                np.testing.assert_array_equal(job.result(), alone)
            left = anew.crossings < codes.NOT_SEEN  # else a row was filled once more
            wrong = (anew.crossings ^ known) & codes.OWN_BITS != 0
            assert left.mean() > 0.9
            assert not wrong[left].any()


@pytest.mark.parametrize("affine", [None, SKEWED], ids=["cubes", "skewed"])
def test_the_plane_of_crossings_is_that_of_the_bundles(affine):
    """Which is that of the first two axes of voxels, in which the bundles are drawn."""
    fod = bundles_that_cross(22.0, affine=affine)
    field = kernel_field(build_table(fod), TrackingParameters())
    among = look_around_everywhere(field, scratch_for(field))
    seen = field.crossings[:-1]
    crosses = seen & codes.WAYS_CROSS != 0
    along = fod.grid.affine[:3, 0] / np.linalg.norm(fod.grid.affine[:3, 0])
    beside = fod.grid.affine[:3, 1] - (fod.grid.affine[:3, 1] @ along) * along
    beside /= np.linalg.norm(beside)

    def off_deg(numbers):
        """Angles between the plane's direction and that from one bundle to the other."""
        cosines = np.abs(field.sphere_points[:, numbers].T @ beside)
        return np.degrees(np.arccos(np.minimum(cosines, 1.0)))

    own = off_deg(seen[crosses] & codes.PLANE)
    around = off_deg(seen[among] >> codes.PLANE_BITS & codes.PLANE)
    assert np.median(own) < 15.0
    assert np.median(around) < 12.0
    assert (around < 30.0).mean() > 0.9


@pytest.mark.parametrize("n_coefficients", [91, 81], ids=["lmax 12", "asymmetric, lmax 8"])
def test_numbers_of_directions_have_room(n_coefficients):
    fod = Fod(np.ones((2, 2, 2, n_coefficients)), np.eye(4))
    field = kernel_field(build_table(fod), TrackingParameters())
    assert 1000 < field.sphere_points.shape[1] <= codes.PLANE + 1
