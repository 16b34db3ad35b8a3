"""What the panel says of runs and results, and when it says no more."""

from __future__ import annotations

import dataclasses
import re
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hands import MANY, WAIT_MS, fod_layer, lie_still, save_fod, tracking_threads
from qtpy.QtCore import QPoint
from qtpy.QtWidgets import QLabel

from napari_tractography import Tractogram
from napari_tractography.errors import InvalidSeedsError
from napari_tractography.model.phantoms import make_phantom
from napari_tractography.model.stop import StopReason
from napari_tractography.model.tissues import Tissues
from napari_tractography.plugin.panel import results
from napari_tractography.plugin.panel.panel import TractographyPanel
from napari_tractography.plugin.panel.results import in_brief
from napari_tractography.plugin.session import runs
from napari_tractography.plugin.session.previews import FIRST_GUESS
from napari_tractography.tracking.report import PREPARING, STANDING_IN

MIDDLE = np.zeros((1, 3))


def test_seeds_and_ends_are_counted_apart(open_model: Any, cross: Any, settle: Any) -> None:
    panel = open_model(cross)
    panel.session.add_seeds_mm([[0.0, 0.0, 8.0]])  # at the rim of the bundles
    panel.set_parameters(radius_mm=6.0, n_per_seed=400, min_length_mm=40.0)
    panel.run()
    settle(panel)
    made = panel.session.tractogram
    first, seeds, ends, *_ = panel.results.label.text().split("<br>")
    lengths = made.lengths_mm
    assert first.startswith(f"<b>{len(made):,} streamlines</b>")
    assert f"({lengths.min():.1f} to {lengths.max():.1f})" in first
    assert 0 < len(made) < 400
    share = 100 * len(made) / 400
    assert seeds.startswith(f"Of 400 seeds, {len(made)} ({share:.3g} %) gave a streamline; not: ")
    numbers = [int(word) for word in seeds.split("not: ")[1].split() if word.isdigit()]
    assert sum(numbers) == 400 - len(made)
    assert "no fibre orientation at the seed" in seeds
    shares = [float(part.split(" %")[0].split()[-1]) for part in ends.split(";")]
    assert ends.startswith("Ends of the streamlines: ")
    assert "no fibre orientation" not in ends
    codes, counts = np.unique(made.stop_reasons, return_counts=True)  # as the streamlines tell
    assert dict(made.ends()) == dict(zip(codes.tolist(), counts.tolist(), strict=True))
    wanted = sorted(100 * counts / (2 * len(made)), reverse=True)[:3]
    assert shares == pytest.approx(wanted[: len(shares)], abs=0.051)  # one, beside advice


def test_anatomy_stands_before_timings(open_model: Any, cross: Any, settle: Any) -> None:
    panel = open_model(cross)
    panel.session.add_seeds_mm(MIDDLE)
    panel.run()
    settle(panel)
    lines = panel.results.label.text().split("<br>")
    assert "mean length" in lines[0]
    assert lines[1] == "Each of 40 seeds gave a streamline."
    assert "steps/s" in lines[-1]


def test_one_is_not_told_as_several(
    open_model: Any, cross: Any, settle: Any, notes: list[str], tmp_path: Path, qtbot: Any
) -> None:
    """By no label, no tooltip, no notification and no step, of one streamline of one seed."""
    panel = open_model()
    panel.data.add_fod(save_fod(cross, tmp_path / "fod.nii.gz"))
    panel.session.add_seeds_mm(MIDDLE)
    panel.set_parameters(n_per_seed=1)
    panel.run()
    settle(panel)
    said: list[str] = []

    def listen() -> None:
        said.extend(label.text() for label in panel.findChildren(QLabel))
        said.append(panel.results.progress.format())

    listen()
    layer = panel.session.streamlines_layer
    assert layer.n_all == 1
    layer.selected = [0]
    qtbot.waitUntil(lambda: "selected" in panel.selection.label.text(), timeout=WAIT_MS)
    listen()
    layer.editor.delete_selected()
    listen()
    panel.bundles.history.undo()
    listen()
    said.append(layer.summary)
    panel.export.copy_python()
    panel.save(tmp_path / "one.tck")
    assert panel.project.save(tmp_path / "one.tracts.json")
    panel.project.copy_python()
    next(c for c in panel.appearance.controls if c.name == "colour_by").value = "seed"
    listen()
    again = open_model(prepared=False)
    assert again.project.open_project(tmp_path / "one.tracts.json")
    qtbot.waitUntil(lambda: again.project.opening is None, timeout=WAIT_MS)
    texts = [re.sub("<[^>]*>", "", text) for text in [*said, *notes]]
    assert len([text for text in texts if "1 streamline" in text]) > 5
    assert [text for text in texts if "1 bundle" in text]
    assert not [text for text in texts if re.search(r"\b1 (streamlines|seeds|bundles)", text)]


def test_a_run_into_a_hidden_layer_shows_it(
    open_model: Any, cross: Any, settle: Any, qtbot: Any
) -> None:
    panel = open_model(cross)
    panel.session.add_seeds_mm(MIDDLE)
    panel.run_button.click()
    settle(panel)
    layer = panel.session.streamlines_layer
    layer.name = "CST left"
    layer.visible = False
    qtbot.waitUntil(shows(panel, results.HIDDEN.format("CST left")))
    panel.run_button.click()
    assert layer.visible
    settle(panel)
    qtbot.waitUntil(shows(panel, ""))
    panel.more.add_tubes()  # which are seen in place of the lines
    panel.results.refresh_notice()
    assert not panel.results.notice.text()
    tubes = panel.viewer.layers[-1]
    tubes.visible = False
    qtbot.waitUntil(shows(panel, results.HIDDEN.format("CST left")))
    layer.visible = True
    qtbot.waitUntil(shows(panel, ""))
    panel.bundles.duplicate()  # a layer that was not made here
    panel.session.streamlines_layer.visible = False
    qtbot.waitUntil(shows(panel, results.HIDDEN.format("CST left copy")))
    panel.bundle_list.toggle_eye(1)
    qtbot.waitUntil(shows(panel, ""))


def test_zero_streamlines_say_why_and_what_to_change(
    open_model: Any, cross: Any, settle: Any, notes: list[str]
) -> None:
    panel = open_model(cross)
    panel.session.add_seeds_mm([[-28.0, 20.0, 8.0]])  # in the image, on no bundle
    panel.set_parameters(radius_mm=0.5)
    panel.run()
    settle(panel)
    (note,) = notes
    assert note.startswith("warning: No streamlines from 40 seeds")
    assert ";" in note
    assert panel.results.label.text() in note
    assert not panel.save_button.isEnabled()
    assert len(panel.session.streamlines_layer.tractogram) == 0


def places(panel: TractographyPanel) -> list[QPoint]:
    """Where Run and Cancel are."""
    lie_still(panel)
    return [
        button.mapTo(panel, button.rect().topLeft())
        for button in (panel.run_button, panel.cancel_button)
    ]


@pytest.mark.parametrize(("n", "words"), [(1, "1 seed outside"), (2000, "2,000 seeds outside")])
def test_seeds_without_a_streamline_are_counted(n: int, words: str) -> None:
    tally = {StopReason.SEED_OUTSIDE_IMAGE: n}
    tractogram = Tractogram(np.empty((0, 3)), [0], tally=tally, n_seeds=n)
    assert f"not: {words} the image." in results.of_the_seeds(tractogram)


def test_run_and_cancel_stay_where_they_are(open_window: Any, cross: Any, settle: Any) -> None:
    """Whatever the result, the notice and the bar say."""
    panel = open_window(cross, size=(1280, 800))
    before = places(panel)
    panel.session.add_seeds_mm(MIDDLE)
    panel.run()
    settle(panel)
    assert places(panel) == before
    panel.results.show_text("<br>".join(["a line of the result"] * 12))
    lie_still(panel)
    assert places(panel) == before
    label = panel.results.brief
    assert label.height() >= label.heightForWidth(label.width())  # and no line is cut off
    assert label.visibleRegion().boundingRect() == label.rect()
    panel.results.show_text("")
    panel.set_parameters(step_mm=0.7)
    panel.results.refresh_notice()
    assert panel.results.notice.isVisible()
    assert places(panel) == before
    panel.results.progress.setRange(0, 0)
    assert places(panel) == before


def test_of_a_result_one_line_is_seen_and_all_of_it_when_asked_for(
    open_window: Any, cross: Any, settle: Any
) -> None:
    panel = open_window(cross, size=(1280, 800))
    lie_still(panel)
    before = panel.results.height()
    panel.session.add_seeds_mm(MIDDLE)
    panel.run()
    settle(panel)
    lie_still(panel)
    shown = panel.results
    whole = shown.label.text()
    assert shown.brief.text().startswith(whole.partition("<br>")[0])
    assert shown.brief.isVisible()
    assert not shown.label.isVisible()
    assert shown.height() <= before
    shown.brief.linkActivated.emit("more")
    lie_still(panel)
    assert shown.label.isVisible()
    assert not shown.brief.isVisible()
    assert shown.label.height() >= shown.label.heightForWidth(shown.label.width())
    shown.less.linkActivated.emit("less")
    assert shown.brief.isVisible()
    assert not shown.label.isVisible()


def test_what_is_bold_is_said_at_once_and_what_is_wrong_is_said_whole() -> None:
    advised = "<b>3 streamlines</b>, mean 4 mm<br>Of 9 seeds, 3<br><b>Only 3 of 9: seed nearer.</b>"
    assert in_brief(advised).count("<br>") == 1
    assert "Only 3" in in_brief(advised)
    assert "Of 9 seeds" not in in_brief(advised)
    assert in_brief("No streamlines.<br>Lower the floor.") == "No streamlines.<br>Lower the floor."


@pytest.mark.usefixtures("long_runs")
def test_progress_and_cancel(open_window: Any, cross: Any, qtbot: Any) -> None:
    panel = open_window(cross)
    panel.session.add_seeds_mm(MIDDLE)
    panel.set_parameters(n_per_seed=50 * MANY)
    assert not panel.cancel_button.isEnabled()
    panel.run_button.click()
    assert panel.cancel_button.isEnabled()
    qtbot.waitUntil(lambda: "seeds" in panel.results.progress.text(), timeout=WAIT_MS)
    assert f"of {50 * MANY:,} seeds" in panel.results.progress.text()
    assert "so far" in panel.results.label.text()
    panel.cancel_button.click()
    assert not panel.cancel_button.isEnabled()
    assert panel.results.progress.text() == ""
    assert panel.results.label.text().startswith("Cancelled after")
    qtbot.waitUntil(lambda: not tracking_threads(), timeout=WAIT_MS)
    qtbot.waitUntil(panel.save_button.isEnabled, timeout=WAIT_MS)
    assert f"{len(panel.session.tractogram):,} streamlines" in panel.results.label.text()


# The notice.


def shows(panel: TractographyPanel, text: str) -> Callable[[], bool]:
    """Whether the notice says a text and nothing else; "" for no notice."""
    notice = panel.results.notice
    return lambda: notice.text() == text and notice.isHidden() == (not text)


def move_the_seed(panel: TractographyPanel) -> Callable[[], None]:
    panel.session.move_seed(0, np.array([0.0, 0.0, 3.0]))
    return lambda: panel.session.move_seed(0, np.zeros(3))


def change_a_parameter(panel: TractographyPanel) -> Callable[[], None]:
    before = panel.session.parameters.step_mm
    panel.set_parameters(step_mm=before + 0.2)
    return lambda: panel.set_parameters(step_mm=before)


def choose_a_mask(panel: TractographyPanel) -> Callable[[], None]:
    volume = panel.session.fod_layer
    ones = np.ones(volume.data.shape, np.uint8)
    like_it = {"scale": volume.scale, "translate": volume.translate, "affine": volume.affine}
    panel.viewer.add_labels(ones, name="mask", units=volume.units, **like_it)
    panel.data.mask_choice.value = panel.viewer.layers["mask"]

    def back() -> None:
        panel.data.mask_choice.value = None

    return back


def add_a_region(panel: TractographyPanel) -> Callable[[], None]:
    entry = panel.session.regions.add_sphere(np.zeros(3), 4.0)
    return lambda: panel.session.regions.remove(entry)


def choose_another_fod(panel: TractographyPanel) -> Callable[[], None]:
    first = panel.data.fod_choice.value
    panel.data.fod_choice.value = panel.viewer.add_layer(fod_layer(make_phantom("letter", lmax=4)))

    def back() -> None:
        panel.data.fod_choice.value = first

    return back


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (move_the_seed, "seeds"),
        (change_a_parameter, "parameters"),
        (choose_a_mask, "mask"),
        (add_a_region, "regions"),
        (choose_another_fod, "FOD"),
    ],
)
def test_a_result_that_no_longer_matches_is_marked_until_it_does(
    tracked: Any, qtbot: Any, change: Any, words: str
) -> None:
    panel = tracked
    panel.results.refresh_notice()
    assert shows(panel, "")()
    back = change(panel)
    qtbot.waitUntil(shows(panel, f"Changed since: {words}. Run again."))
    back()
    qtbot.waitUntil(shows(panel, ""))


@pytest.fixture
def tracked(open_model: Any, cross: Any, settle: Any) -> TractographyPanel:
    panel = open_model(cross)
    panel.session.add_seeds_mm(MIDDLE)
    panel.run()
    settle(panel)
    return panel


def test_a_result_that_cannot_be_made_again_is_marked(tracked: Any, qtbot: Any) -> None:
    """And why not."""
    tracked.session.clear_seeds()
    with pytest.raises(InvalidSeedsError) as caught:
        tracked.session.request()
    qtbot.waitUntil(shows(tracked, results.IMPOSSIBLE))
    assert tracked.results.notice.toolTip() == str(caught.value)
    assert len(tracked.session.tractogram)


def test_tissues_of_other_labels_are_others(tracked: Any) -> None:
    """Also where both are read from one file."""
    request = tracked.session.request()
    fractions = np.full((2, 2, 2, 5), 0.2)

    def with_tissues(*white: int) -> Any:
        labels = ((), (), white, (), ())
        given = Tissues(fractions, np.eye(4), path="labels.nii", labels=labels)
        return dataclasses.replace(request, tissues=given)

    assert with_tissues(1).differences(with_tissues(1)) == []
    assert with_tissues(1).differences(with_tissues(2)) == ["tissues"]


def test_the_mark_goes_when_a_run_starts(tracked: Any, settle: Any, qtbot: Any) -> None:
    panel = tracked
    panel.set_parameters(step_mm=0.7)
    qtbot.waitUntil(shows(panel, results.OUTDATED.format("parameters")))
    panel.run()
    assert shows(panel, "")()
    settle(panel)
    qtbot.wait(2 * results.NOTICE_MS)
    assert shows(panel, "")()


def test_after_a_run_without_streamlines_another_is_not_advised(
    tracked: Any, settle: Any, qtbot: Any
) -> None:
    """Those of before stay, and a run would give none again; until something else is set."""
    panel, document = tracked, tracked.session.document
    before = panel.session.tractogram
    panel.set_parameters(min_length_mm=79.0)
    qtbot.waitUntil(shows(panel, results.OUTDATED.format("parameters")))
    panel.run()
    settle(panel)
    assert panel.session.tractogram is before
    qtbot.waitUntil(shows(panel, results.FRUITLESS))
    panel.set_parameters(step_mm=0.7)
    qtbot.waitUntil(shows(panel, results.OUTDATED.format("parameters")))
    document.undo()
    qtbot.waitUntil(shows(panel, results.FRUITLESS))
    document.undo()
    qtbot.waitUntil(shows(panel, ""))
    document.redo()
    qtbot.waitUntil(shows(panel, results.FRUITLESS))


def test_before_there_is_a_result_nothing_is_marked(
    open_model: Any, cross: Any, qtbot: Any
) -> None:
    panel = open_model(cross)
    panel.session.add_seeds_mm(MIDDLE)
    panel.set_parameters(step_mm=0.7)
    panel.results.refresh_notice()
    assert shows(panel, "")()


def test_a_preview_that_is_left_alone_is_marked_as_one(
    open_model: Any, cross: Any, settle: Any, qtbot: Any
) -> None:
    panel = open_model(cross)
    panel.session.add_seeds_mm(MIDDLE)
    panel.set_parameters(n_per_seed=3 * FIRST_GUESS)
    panel.runs.settle.setInterval(3_600_000)
    panel.live.setChecked(True)
    settle(panel)
    assert f"preview of {FIRST_GUESS:,}" in panel.results.label.text()
    assert shows(panel, "")()  # all are about to be tracked
    panel.live.setChecked(False)
    assert shows(panel, f"A preview: Run tracks all {3 * FIRST_GUESS:,}.")()
    panel.run()
    settle(panel)
    panel.results.refresh_notice()
    assert "preview" not in panel.results.label.text()
    assert shows(panel, "")()


def test_a_preview_that_is_all_there_is_is_not_called_a_preview(
    open_model: Any, cross: Any, settle: Any
) -> None:
    panel = open_model(cross)
    panel.session.add_seeds_mm(MIDDLE)
    panel.live.setChecked(True)
    settle(panel)
    assert panel.session.state.result_request.is_preview
    assert "preview" not in panel.results.label.text()
    panel.live.setChecked(False)
    assert shows(panel, "")()


@pytest.mark.parametrize(
    ("phase", "said"), [(PREPARING, results.PREPARING), (STANDING_IN, results.SLOWER)]
)
@pytest.mark.parametrize("end", ["cancelled", "finished", "given up"])
def test_no_word_of_preparing_stays_when_that_is_over(
    open_model: Any,
    cross: Any,
    settle: Any,
    qtbot: Any,
    monkeypatch: Any,
    end: str,
    phase: str,
    said: str,
) -> None:
    panel = open_model(cross)
    panel.session.add_seeds_mm(MIDDLE)
    gate, track = threading.Event(), runs.iter_chunks

    def slow(*args: Any, **kwargs: Any) -> Iterator[Tractogram]:
        kwargs["report"].phase = phase
        gate.wait(60)
        if end == "finished":
            yield from track(*args, **kwargs)

    def given_up(run: runs.Run) -> Tractogram:
        run.report.phase = phase
        gate.wait(60)
        run.cancelled.set()
        return Tractogram.empty()

    monkeypatch.setattr(results, "PREPARING_SECONDS", 0.0)
    monkeypatch.setattr(runs, "iter_chunks", slow)
    monkeypatch.setattr(runs, "preview_of", given_up)
    panel.runs.start(preview=end == "given up")
    qtbot.waitUntil(shows(panel, said))
    assert panel.results.progress.maximum() == 0  # busy
    is_amber = "#f2b632" in panel.results.notice.styleSheet()
    assert is_amber == (phase == PREPARING)
    if end == "cancelled":
        panel.cancel_button.click()
    gate.set()
    settle(panel)
    qtbot.waitUntil(shows(panel, ""))
    assert panel.results.progress.maximum() > 0
    assert not panel.cancel_button.isEnabled()
    assert "engine" not in panel.results.label.text()
    qtbot.waitUntil(lambda: not panel.runs.working, timeout=WAIT_MS)


@pytest.mark.parametrize("theme", ["dark", "light"])
def test_notices_take_one_line_and_can_be_read(open_window: Any, cross: Any, theme: str) -> None:
    panel = open_window(cross, size=(1280, 800))
    panel.viewer.theme = theme
    notice = panel.results.notice
    for text in (
        results.outdated(["number of streamlines"]),
        results.outdated(["FOD", "seeds", "parameters"]),
        results.outdated(None),
        results.WAITING,
        results.FRUITLESS,
        results.PREPARING,
        results.PREVIEW.format(20_000_000),
        results.HIDDEN.format("Streamlines"),
    ):
        notice.setText(text)
        notice.setVisible(True)
        lie_still(panel)
        assert notice.heightForWidth(notice.width()) <= notice.minimumHeight()
        assert notice.height() == notice.minimumHeight()
        picture = notice.grab().toImage()
        colours = [picture.pixelColor(x, picture.height() // 2) for x in range(picture.width())]
        assert min(colour.lightness() for colour in colours) < 60  # the letters
        assert colours[3].lightness() > 120  # the ground
