"""What one step costs, in look-ups and draws: the same in a large volume as in a small one.

Counted, not timed: a step whose work grows with the volume, the streamline or the number of seeds
fails here on any machine. See ``cpu/test_work_a_step.py`` for the kernel of the CPU.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass

import numpy as np
import pytest
from host import HostDevice, compile_for_host
from plans import plan_of
from toys import lobes

from napari_tractography.model.fod import Fod
from napari_tractography.model.parameters import TrackingParameters
from napari_tractography.model.seeds import Seeds

PARAMETERS = TrackingParameters(step_mm=0.5, max_length_mm=20.0, max_angle_deg=30.0)
CORNERS = 8


@dataclass(frozen=True)
class Work:
    """Calls for each step that was taken."""

    arrivals: float
    corners: float
    draws: float
    amplitudes: float


@pytest.fixture(scope="module")
def counted(tmp_path_factory):
    """The kernels without optimisation, which compiles soon, and with a hook in each function.

    The hook is bound here, as the C library has one of that name that does nothing.
    """
    folder = tmp_path_factory.mktemp("counted")
    flags = ("-O0", "-finstrument-functions", "-Wl,-Bsymbolic")
    return compile_for_host(folder, "-DCOUNTED", "-DLMAX=2", *flags)


def bundle(n: int) -> Fod:
    """Fibres along x in n x n x n voxels, all alike."""
    return Fod(np.broadcast_to(lobes(np.array([1.0, 0, 0]), 2), (n, n, n, 6)), np.eye(4))


def work_of(library, fod: Fod, n_seeds: int = 40, **changes: object) -> Work:
    middle = (np.array(fod.grid.shape) - 1) / 2
    seeds = Seeds.in_sphere(fod.grid.to_mm(middle), 2.0, n_seeds)
    plan = plan_of(fod, seeds, PARAMETERS.replace(**changes), on_gpu=True)
    device = HostDevice(library, plan)  # which fills the table: that takes every voxel, once
    counts = (ctypes.c_ulonglong * 4)()
    library.count_calls(counts)
    device.count(0, 0, n_seeds)
    device.write(0)
    library.count_calls(counts)
    assert all(counts)
    tracked = device.collect(0)
    n_steps = tracked.n_points - len(tracked)
    assert n_steps > 100
    return Work(*(count / n_steps for count in counts))


@pytest.mark.parametrize("algorithm", ["probabilistic", "deterministic"])
def test_a_step_in_a_large_volume_costs_what_it_does_in_a_small_one(counted, algorithm) -> None:
    """Of 26 and of 52 voxels a side; the seeds are in the middle and stay inside."""
    changes = {"algorithm": algorithm, "max_length_mm": 10.0}
    small, large = (work_of(counted, bundle(n), **changes) for n in (26, 52))
    for name in ("arrivals", "corners", "draws", "amplitudes"):
        assert getattr(large, name) == pytest.approx(getattr(small, name), rel=0.1, abs=0.1)


def test_a_step_of_a_long_line_costs_what_it_does_of_a_short_one(counted) -> None:
    fod = bundle(52)
    short, long = (work_of(counted, fod, max_length_mm=length) for length in (6.0, 24.0))
    # A start is a draw as well, which counts for more in a short line.
    assert long.arrivals <= short.arrivals
    assert long.draws <= short.draws
    assert long.amplitudes <= short.amplitudes


def test_a_step_looks_the_fod_up_once_and_draws_a_few_times(counted) -> None:
    """Eight corners, of eight coefficients at a time."""
    work = work_of(counted, bundle(26))
    assert 1.0 <= work.arrivals < 2.0
    assert work.corners <= CORNERS * work.arrivals
    # In a cone of 30 degrees about this lobe more than a third of all tries are accepted, and a
    # block of random numbers is for two.
    assert 1.0 <= work.draws < 2.0
    assert work.amplitudes < 4 * work.draws  # two tries a block, and now and then a look around


def test_a_narrow_cone_takes_no_more_draws(counted) -> None:
    wide, narrow = (work_of(counted, bundle(26), max_angle_deg=angle) for angle in (60.0, 8.0))
    assert narrow.draws <= wide.draws * 1.1
