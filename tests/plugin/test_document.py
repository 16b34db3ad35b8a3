"""The document: acts, gestures and the way back, without a window, a viewer or a widget."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

from napari_tractography import Tractogram
from napari_tractography.plugin import acts, document
from napari_tractography.plugin.document import (
    BundleState,
    Document,
    Painted,
    PlacedSeeds,
    RegionState,
    Result,
    Snapshot,
)


def seeds(*places: tuple[float, float, float]) -> PlacedSeeds:
    """Seeds at places in RAS+ mm, none with values of its own."""
    return PlacedSeeds(np.array(places, float).reshape(-1, 3))


def place(doc: Document, *places: tuple[float, float, float], key: Any = None) -> None:
    """Have these seeds in the active bundle, as one act."""
    now = seeds(*places)
    text = acts.seeds_text(doc.now.bundle.seeds, now)
    doc.act(text, acts.change(seeds=now), key=key)


def lines(n: int) -> Tractogram:
    """So many straight lines."""
    return Tractogram.from_streamlines([[(0, y, 0), (1, y, 0)] for y in range(n)])


def track(doc: Document, n: int, bundle: int | None = None) -> Result:
    """Have a result of so many streamlines, as a run gives it."""
    made = Result(lines(n))
    change = acts.change(bundle, result=made, tractogram=made.whole)
    doc.act(f"Track {acts.plural(n, 'streamline')}", change)
    return made


def painted(n: int) -> RegionState:
    """A region of so many painted voxels along x."""
    voxels = np.zeros((4, 5, 6), np.uint8)
    voxels[1, 2, :n] = 1
    return RegionState(99, "Region", "include", painted=Painted.of(voxels))


def test_all_kinds_of_acts_are_undone_in_the_order_in_which_they_were_done() -> None:
    """Paint, paint again, drag a seed: Undo gives the seed back first, then the second stroke."""
    doc = Document()
    place(doc, (0, 0, 0))
    doc.act("Add region Region", acts.add_region(painted(1)))
    again = acts.change_regions([99], painted=painted(3).painted)
    doc.act("Paint Region", again)
    place(doc, (5, 0, 0))
    doc.act("Cone angle 30 degrees", acts.choose({"max_angle_deg": 30.0}))
    track(doc, 7)

    def what() -> tuple[Any, ...]:
        state = doc.now.bundle
        shown = state.regions[0].painted if state.regions else None
        return (
            None if state.tractogram is None else len(state.tractogram),
            state.chosen.get("max_angle_deg"),
            state.seeds.positions_mm[:, 0].tolist(),
            None if shown is None else int(shown.values.sum()),
        )

    told = []
    seen = [what()]
    while doc.can_undo:
        told.append(doc.last)
        doc.undo()
        seen.append(what())
    assert seen == [
        (7, 30.0, [5.0], 3),
        (None, 30.0, [5.0], 3),
        (None, None, [5.0], 3),
        (None, None, [0.0], 3),
        (None, None, [0.0], 1),
        (None, None, [0.0], None),
        (None, None, [], None),
    ]
    assert told == [
        "Track 7 streamlines", "Cone angle 30 degrees", "Move seed 1", "Paint Region",
        "Add region Region", "Place 1 seed",
    ]  # fmt: skip
    while doc.can_redo:
        doc.redo()
    assert what() == seen[0]


def test_a_drag_is_one_act_however_slow(monkeypatch: pytest.MonkeyPatch) -> None:
    """Time has nothing to do with it: from press to release is one step."""
    clock = iter(np.arange(0, 1e6, 3600.0))
    monkeypatch.setattr(document.time, "monotonic", lambda: next(clock))
    doc = Document()
    place(doc, (0, 0, 0))
    doc.hold()
    for x in range(1, 20):
        place(doc, (x, 0, 0))
    assert doc.now.bundle.seeds.positions_mm[0, 0] == 19
    doc.release()
    assert doc.last == "Move seed 1"
    doc.undo()
    assert doc.now.bundle.seeds.positions_mm.tolist() == [[0, 0, 0]]
    doc.redo()
    assert doc.now.bundle.seeds.positions_mm.tolist() == [[19, 0, 0]]


def test_a_press_without_a_move_is_no_step() -> None:
    doc = Document()
    place(doc, (0, 0, 0))
    doc.hold()
    doc.release()
    assert doc.last == "Place 1 seed"
    doc.undo()
    assert not doc.can_undo


def test_typing_is_one_act_however_slow_until_something_else_is_set(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = iter(np.arange(0, 1e6, 3600.0))
    monkeypatch.setattr(document.time, "monotonic", lambda: next(clock))
    doc = Document()

    def choose(name: str, *values: float) -> None:
        for value in values:
            change = acts.choose({name: value})
            doc.act(acts.choice_text({name: value}), change, key=("parameter", name))

    doc.hold("angle")
    assert not doc.can_undo
    choose("max_angle_deg", 3.0, 30.0)
    assert doc.can_undo
    doc.hold("length")  # and nobody said that the first box was left
    choose("max_length_mm", 1.0, 12.0)
    doc.release("angle")  # which was long ago
    choose("max_length_mm", 120.0)
    place(doc, (0, 0, 0))
    doc.undo()
    assert doc.last == "Maximum length 120 mm"
    doc.undo()
    assert doc.now.bundle.chosen == {"max_angle_deg": 30.0}
    doc.undo()
    assert doc.now.bundle.chosen == {}
    assert not doc.can_undo


def test_undo_amid_a_drag_takes_the_drag_back() -> None:
    doc = Document()
    place(doc, (0, 0, 0))
    doc.hold()
    place(doc, (4, 0, 0))
    assert doc.last == "Move seed 1"
    doc.undo()
    assert doc.now.bundle.seeds.positions_mm.tolist() == [[0, 0, 0]]
    assert not doc.is_held


def test_what_is_taken_back_is_no_step_and_leaves_redo() -> None:
    doc = Document()
    place(doc, (0, 0, 0))
    place(doc, (9, 0, 0))
    doc.undo()
    then = doc.now
    doc.hold("angle")
    doc.act("Cone angle 3 degrees", acts.choose({"max_angle_deg": 3.0}), key="angle")
    doc.take_back("length")  # which is not under way
    assert doc.now is not then
    doc.take_back("angle")
    assert doc.now is then
    assert (doc.last, doc.next, doc.is_held) == ("Place 1 seed", "Move seed 1", False)
    doc.redo()
    assert doc.now.bundle.seeds.positions_mm.tolist() == [[9, 0, 0]]


def test_values_of_one_control_that_follow_each_other_are_one_step(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = [0.0]
    monkeypatch.setattr(document.time, "monotonic", lambda: now[0])
    doc = Document()

    def turn(angle: float, after: float) -> None:
        now[0] += after
        values = {"max_angle_deg": angle}
        doc.act(acts.choice_text(values), acts.choose(values), key=("parameter", *values))

    turn(3.0, 10.0)
    turn(30.0, 0.2)  # while "30" is typed
    turn(45.0, document.SAME_SECONDS + 1)
    assert doc.last == "Cone angle 45 degrees"
    doc.undo()
    assert doc.now.bundle.chosen == {"max_angle_deg": 30.0}
    doc.undo()
    assert doc.now.bundle.chosen == {}


def test_what_changes_nothing_is_no_step_and_keeps_what_was_undone() -> None:
    doc = Document()
    doc.act("Include regions: any", acts.change(rule="any"))
    doc.undo()
    doc.act("Include regions: all", acts.change(rule="all"))
    assert not doc.can_undo
    assert doc.next == "Include regions: any"


def test_undo_of_a_run_shows_the_result_of_before_at_once() -> None:
    doc = Document()
    first = track(doc, 200)
    track(doc, 3)
    doc.undo()
    assert doc.now.bundle.result is first
    assert doc.now.bundle.tractogram is first.whole
    doc.undo()
    assert doc.now.bundle.tractogram is None


def test_a_preview_goes_with_the_seed_that_it_was_of() -> None:
    doc = Document()
    place(doc, (0, 0, 0))
    preview = Result(lines(199))
    doc.amend(acts.change(result=preview, tractogram=preview.whole))  # as Live does
    doc.undo()
    assert doc.now.bundle.tractogram is None
    doc.redo()
    assert doc.now.bundle.tractogram is preview.whole


def test_what_was_always_there_is_not_lost_by_undo() -> None:
    """Streamlines of a project that is being opened arrive while a person works already."""
    doc = Document()
    place(doc, (0, 0, 0))
    made = Result(lines(4))
    doc.amend(acts.change(result=made, tractogram=made.whole), everywhere=True)
    doc.undo()
    assert doc.now.bundle.tractogram is made.whole


def test_undo_shows_the_bundle_in_which_something_was_done() -> None:
    doc = Document()
    first = doc.now.active
    place(doc, (0, 0, 0))
    other = doc.new_id()
    doc.act("Make second", acts.insert(other, BundleState("second")))
    place(doc, (1, 0, 0))
    doc.amend(acts.activate(first))
    doc.undo()  # the seed of the second
    assert doc.now.active == other
    assert len(doc.now.bundles[first].seeds) == 1
    doc.undo()
    assert list(doc.now.bundles) == [first]
    assert doc.now.active == first


def test_several_acts_are_one_step_by_the_name_of_the_whole() -> None:
    doc = Document()
    with doc.one_step("Split off part"):
        place(doc, (0, 0, 0))
        doc.act("Make part", acts.insert(doc.new_id(), BundleState("part")))
    assert doc.last == "Split off part"
    doc.undo()
    assert not doc.can_undo
    assert len(doc.now.bundles) == 1


def test_what_is_released_within_one_step_is_part_of_it() -> None:
    """As where a bundle that is made of another becomes active."""
    doc = Document()
    with doc.one_step("Split off part"):
        place(doc, (0, 0, 0))
        doc.release()
        place(doc, (1, 0, 0))
    doc.undo()
    assert not doc.can_undo
    assert len(doc.now.bundle.seeds) == 0


def test_what_follows_an_undo_goes_on_with_nothing() -> None:
    doc = Document()
    doc.act("Cone angle 10 degrees", acts.choose({"max_angle_deg": 10.0}), key="angle")
    place(doc, (0, 0, 0))
    doc.undo()
    doc.act("Cone angle 20 degrees", acts.choose({"max_angle_deg": 20.0}), key="angle")
    doc.undo()
    assert doc.now.bundle.chosen == {"max_angle_deg": 10.0}


def test_what_is_kept_from_before_is_no_step() -> None:
    doc = Document()
    with doc.no_step:
        place(doc, (0, 0, 0))
    assert len(doc.now.bundle.seeds) == 1
    assert not doc.can_undo


def test_another_project_is_not_undone() -> None:
    doc = Document()
    place(doc, (0, 0, 0))
    doc.begin(Snapshot({7: BundleState("other")}, 7))
    assert not doc.can_undo
    assert doc.now.bundle.name == "other"


def test_steps_hold_a_bounded_number_of_bytes_of_streamlines(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Those of now count for nothing, and what steps share counts once."""
    monkeypatch.setattr(document, "RESULT_BYTES", 3 * lines(10).points.nbytes)
    doc = Document()
    for _ in range(9):
        track(doc, 10)
        place(doc, (0, 0, 0))
        place(doc, (1, 0, 0))
    steps = 0
    while doc.can_undo:
        doc.undo()
        steps += 1
    assert 9 <= steps <= 12


def test_streamlines_that_were_edited_count_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each edit makes others, which steps hold once they were shown."""
    monkeypatch.setattr(document, "RESULT_BYTES", 3 * lines(10).points.nbytes)
    doc = Document()
    whole = track(doc, 12).whole
    for n in range(9):
        edited = whole.chosen(np.arange(2, 12))
        assert edited.held_bytes == 0
        assert edited.points.nbytes == edited.held_bytes == lines(10).points.nbytes
        doc.act(f"Edit {n}", acts.change(tractogram=edited))
    steps = 0
    while doc.can_undo:
        doc.undo()
        steps += 1
    assert 2 <= steps <= 4


def test_a_result_beyond_the_bound_is_let_go_with_the_step_that_takes_it_away(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Not with the step after that one; whatever listens to the history is told."""
    monkeypatch.setattr(document, "RESULT_BYTES", lines(10).points.nbytes - 1)
    doc, said = Document(), list[bool]()
    track(doc, 10)
    place(doc, (0, 0, 0))
    doc.history_changed.connect(lambda: said.append(doc.can_undo))
    first = doc.now.active
    doc.act("Delete Bundle 1", acts.delete(first, (doc.new_id(), BundleState("Bundle 1"))))
    assert not doc.can_undo
    assert said[-1] is False


def test_old_steps_are_forgotten() -> None:
    doc = Document()
    for x in range(document.MAX_STEPS + 50):
        place(doc, (x, 0, 0))
    steps = 0
    while doc.can_undo:
        doc.undo()
        steps += 1
    assert steps == document.MAX_STEPS


def test_the_only_bundle_that_is_deleted_leaves_a_blank_one() -> None:
    doc = Document()
    first = doc.now.active
    place(doc, (0, 0, 0))
    doc.act("Delete Bundle 1", acts.delete(first, (doc.new_id(), BundleState("Bundle 1"))))
    assert first not in doc.now.bundles
    assert doc.now.bundle.is_blank
    doc.undo()
    assert list(doc.now.bundles) == [first]
    assert len(doc.now.bundle.seeds) == 1


def test_bundles_are_moved_and_the_one_beside_a_deleted_one_becomes_active() -> None:
    doc = Document()
    for number in (11, 12, 13):
        doc.act("Make", acts.insert(number, BundleState(str(number))))
    first = next(iter(doc.now.bundles))
    assert list(doc.now.bundles) == [first, 11, 12, 13]
    doc.act("Move 13", acts.move(13, 1))
    assert list(doc.now.bundles) == [first, 13, 11, 12]
    doc.act("Delete 13", acts.delete(13, (doc.new_id(), BundleState())))
    assert doc.now.active == 11
    doc.undo()
    doc.undo()
    assert list(doc.now.bundles) == [first, 11, 12, 13]


@pytest.mark.parametrize(
    ("taken", "wanted", "name"),
    [
        ([], "", "Bundle 1"),
        (["Bundle 1"], "", "Bundle 2"),
        (["CST left", "CST right"], "", "Bundle 3"),  # counts bundles that are there
        (["Bundle 7"], "", "Bundle 2"),
        (["x", "Bundle 3"], "", "Bundle 4"),
        (["AF"], "CST", "CST"),
        (["AF"], "AF", "AF 2"),
        (["AF", "AF 2"], "AF 2", "AF 3"),
    ],
)
def test_a_new_bundle_is_numbered_by_the_bundles_that_are_there(
    taken: list[str], wanted: str, name: str
) -> None:
    assert acts.free_name(taken, wanted) == name


def test_of_radius_and_angle_the_one_that_was_chosen_last_counts() -> None:
    doc = Document()
    doc.act("Angle", acts.choose({"max_angle_deg": 30.0}))
    doc.act("Radius", acts.choose({"min_radius_mm": 1.0}))
    assert doc.now.bundle.chosen == {"min_radius_mm": 1.0}
    doc.act("Suit the FOD", acts.forget_chosen(["min_radius_mm"]))
    assert doc.now.bundle.chosen == {}


def test_removing_an_end_forgets_which_regions_were_tracked_between() -> None:
    doc = Document()
    for number in (5, 6, 7):
        doc.act("Add", acts.add_region(RegionState(number, f"{number}", "include")))
    doc.act("From 5 to 6", acts.change(between=(5, 6)))
    doc.act("Remove 7", acts.remove_regions([7]))
    assert doc.now.bundle.between == (5, 6)
    doc.act("Remove 6", acts.remove_regions([6]))
    assert doc.now.bundle.between is None
    assert [region.id for region in doc.now.bundle.regions] == [5]


def test_what_is_painted_is_kept_and_comes_back() -> None:
    voxels = np.zeros((6, 7, 8), np.uint8)
    voxels[2:4, 3, 5:] = 2
    voxels[3, 6, 1] = 1
    kept = Painted.of(voxels)
    voxels[0] = 9  # the layer is painted further
    assert kept.values.nbytes == 2 * 4 * 7
    again = kept.written(voxels)
    assert (again[2:4, 3, 5:] == 2).all()
    assert again.sum() == 2 * 3 * 2 + 1
    assert kept.equals(Painted.of(again))
    assert not kept.equals(Painted.of(voxels))
    nothing = Painted.of(np.zeros((3, 3, 3), np.uint8))
    assert not nothing.written(np.ones((3, 3, 3), np.uint8)).any()


def test_heavy_things_are_shared_between_snapshots() -> None:
    doc = Document()
    doc.act("Add", acts.add_region(painted(2)))
    track(doc, 5)
    before = doc.now.bundle
    place(doc, (1, 2, 3))
    after = doc.now.bundle
    assert after.regions is before.regions
    assert after.result is before.result
    assert dataclasses.replace(after, seeds=before.seeds).tractogram is before.tractogram


def test_one_streamline_is_one_streamline() -> None:
    assert acts.plural(1, "streamline") == "1 streamline"
    assert acts.plural(2000, "streamline") == "2,000 streamlines"


def test_what_was_done_before_comes_before_all_steps() -> None:
    """Such as edits that a project says, of bundles that arrive while others are worked on."""
    doc = Document()
    doc.act("Rename", acts.change(name="mine"))
    doc.precede("Edit", acts.change(summary="unedited"))
    assert [doc.now.bundle.name, doc.now.bundle.summary] == ["mine", ""]
    doc.undo()
    assert (doc.last, doc.now.bundle.summary) == ("Edit", "")
    doc.undo()
    assert [doc.now.bundle.name, doc.now.bundle.summary] == ["Bundle 1", "unedited"]
    assert not doc.can_undo
    doc.redo()
    doc.redo()
    assert [doc.now.bundle.name, doc.now.bundle.summary] == ["mine", ""]
    doc.precede("Nothing", lambda now: now)
    doc.undo()
    doc.undo()
    assert not doc.can_undo
