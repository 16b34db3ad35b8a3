"""What a run tells of itself."""

from __future__ import annotations

import numpy as np
import pytest
from toys import lobes

from napari_tractography.model.fod import Fod
from napari_tractography.model.parameters import TrackingParameters
from napari_tractography.model.regions import Region
from napari_tractography.model.seeds import Seeds
from napari_tractography.model.stop import StopReason
from napari_tractography.streamlines.tractogram import Tractogram
from napari_tractography.tracking.engine import track
from napari_tractography.tracking.report import Report, advice

STRAIGHT = TrackingParameters(step_mm=0.5, max_angle_deg=20.0, max_length_mm=100.0)


def test_the_speed_leaves_out_what_is_not_tracking():
    tracked = Tractogram(np.zeros((2, 3)), [0, 2], lengths_mm=[1.9e6])

    def said(seconds, **parts):
        return Report(seconds=parts).speed(tracked, 0.5, seconds)

    assert said(2.0, tables=0.1, tracking=1.9) == "2.00 s, 2.00 million steps/s"
    assert said(10.0, tables=0.5, start=7.6, tracking=1.9) == (
        "10.00 s, of which 8.10 s to get ready and 1.90 s to track: 2.00 million steps/s"
    )
    # What the screen takes is not the engine's.
    assert said(1.0, tables=0.1, tracking=0.1) == (
        "1.00 s, of which 0.10 s to track: 38.00 million steps/s"
    )
    assert said(1.9) == "1.90 s, 2.00 million steps/s"
    assert "inf" not in said(0.0, tracking=0.0)  # a clock that stood still


def test_the_speed_says_that_it_leaves_out_streamlines_thrown_away():
    def said(**tally):
        of = {StopReason[name]: count for name, count in tally.items()}
        tracked = Tractogram(np.zeros((6, 3)), [0, 2, 4, 6], lengths_mm=[1e6] * 3, tally=of)
        return Report().speed(tracked, 1.0, 2.0)

    assert said(NOT_INCLUDED=4) == "2.00 s, 1.50 million steps/s of the streamlines kept"
    assert said(ENTERED_FLUID=1, TOO_SHORT=1).endswith(" of the streamlines kept")
    # Seeds without a streamline took no steps, and neither have other ends been thrown away.
    assert said(SEED_WITHOUT_FOD=90, LOW_AMPLITUDE=6) == "2.00 s, 1.50 million steps/s"


def test_seconds_add_up_until_another_run_begins():
    report = Report("cuda:0", "many seeds", {"upload": 1.0}, 10, 20, n_seeds=5, n_streamlines=3)
    report.add("upload", 0.5)
    report.add("tables", 2.0)
    assert report.seconds == {"upload": 1.5, "tables": 2.0}
    report.clear()
    assert report == Report("cuda:0", "many seeds")


def along_x(shape, strength=1.0):
    """Voxels of 1 mm that hold one and the same fibre, along x, as strong as `strength` says."""
    row = lobes([1.0, 0.0, 0.0], 8).reshape(-1)
    return Fod(np.broadcast_to(strength, shape)[..., None] * row, np.eye(4))


@pytest.fixture(scope="module")
def straight():
    return along_x((40, 3, 3))


def middle(fod, n=50):
    return Seeds.in_sphere(fod.grid.centre_mm, 0.4, n)


def test_a_run_that_went_well_needs_no_advice(straight):
    tractogram = track(straight, middle(straight), STRAIGHT)
    assert len(tractogram) == 50
    assert advice(tractogram, STRAIGHT) == ""


def test_a_run_that_ends_mostly_at_the_maximum_length_says_what_to_change(straight):
    parameters = STRAIGHT.replace(max_length_mm=8.0)
    text = advice(track(straight, middle(straight), parameters), parameters)
    assert text.startswith("100 % of the streamlines reached the maximum length of 8 mm")
    assert "raise the minimum amplitude (0.05) if they wander, else the maximum length" in text


@pytest.mark.parametrize(
    ("strength", "n_long", "remedy"),
    [
        pytest.param(0.0, 10, "lower the minimum length", id="too short"),
        pytest.param(0.01, 0, "or lower the minimum amplitude", id="too faint"),
    ],
)
def test_a_run_of_which_most_seeds_come_to_nothing_says_what_to_change(strength, n_long, remedy):
    """The two layers at the bottom hold fibres as long as the volume.

    Those above hold as many voxels of it as `n_long` says; the rest of them is faint or empty.
    """
    strengths = np.full((40, 3, 12), strength)
    strengths[:, :, :2] = 1
    strengths[:n_long] = 1
    fod = along_x(strengths.shape, strengths)
    seeds = Seeds.at([[4.0, 1.0, z] for z in (0, 0.2, 3, 4, 5, 6, 7, 8, 9, 10)])
    parameters = STRAIGHT.replace(min_length_mm=20.0)
    tractogram = track(fod, seeds, parameters)
    assert len(tractogram) == 2
    text = advice(tractogram, parameters)
    assert text.startswith("80 % of the seeds gave no streamline or one that ends at once")
    assert remedy in text


def test_no_more_than_99_percent_came_to_nothing_where_something_came(straight):
    x, y, z = straight.grid.centre_mm
    seeds = Seeds.at([[x, y, z]] + 299 * [[x, y, z + 500.0]])
    tractogram = track(straight, seeds, STRAIGHT)
    assert len(tractogram) == 1
    assert advice(tractogram, STRAIGHT).startswith("99 % of the seeds gave no streamline")


def test_what_a_region_discards_is_no_reason_for_advice(straight):
    x, y, z = straight.grid.centre_mm
    one = Region.sphere((x + 8, y + 0.3, z), 0.35, "include")
    tractogram = track(straight, middle(straight), STRAIGHT, regions=[one])
    assert 0 < len(tractogram) < 20
    assert advice(tractogram, STRAIGHT) == ""
