"""What a run tells of itself."""

from __future__ import annotations

from napari_tractography.tracking.report import Report


def test_the_speed_leaves_out_what_is_not_tracking():
    def said(seconds, **parts):
        return Report(seconds=parts).speed(3.8e6, seconds)

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


def test_another_backend_begins_anew_but_for_the_tables():
    report = Report("cuda:0", "many seeds", {"tables": 2.0, "upload": 1.0}, 10, 20)
    report.begin("cpu", "cuda:0 failed")
    assert report == Report("cpu", "cuda:0 failed", {"tables": 2.0})
