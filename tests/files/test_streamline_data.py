"""What other programs say of streamlines goes where they go, in each format that can hold it."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import nibabel as nib
import numpy as np
import pytest

import napari_tractography as nt
from napari_tractography.cli import main
from napari_tractography.errors import FileError, InvalidTractogramError
from napari_tractography.files.streamline_data import StreamlineData
from napari_tractography.files.weights import columns_of, load_weights
from napari_tractography.model.phantoms import make_phantom
from napari_tractography.recipes.edits import Edit
from napari_tractography.streamlines.tractogram import Tractogram, load_tractogram

GRID = nt.Grid((9, 8, 7), [[-2, 0, 0, 5], [0, 2.5, 0, -3], [0, 0, 3, 1], [0, 0, 0, 1]])


def make() -> Tractogram:
    """Four streamlines along x, one of them without points; at each point its x is kept."""
    counts = [3, 0, 2, 5]
    x = np.concatenate([np.arange(n, dtype=np.float32) for n in counts])
    data = StreamlineData(
        {"cluster": np.array([[7], [8], [9], [2**25 + 1]]), "colour": np.eye(4, 3, dtype="f4")},
        {"x": x[:, None], "part": (x[:, None] > 1).astype(np.uint8)},
        {"CST.left": np.array([0, 3]), "rest": np.array([1, 2, 3])},
        {"CST.left": {"volume": np.array([[4.5]])}},
    )
    points = np.column_stack([x, np.zeros((len(x), 2))])
    return Tractogram(points, np.cumsum([0, *counts]), data=data, grid=GRID)


def assert_same(one: Any, other: Any, names: set[str]) -> None:
    assert set(one) == set(other) == names
    for name in names:
        np.testing.assert_array_equal(one[name], other[name])


def test_a_trx_holds_all_of_it(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    make().save(tmp_path / "t.trx")
    back, data = load_tractogram(tmp_path / "t.trx"), make().data
    assert back.grid == GRID
    assert_same(back.data.per_streamline, data.per_streamline, {"cluster", "colour"})
    assert_same(back.data.per_point, data.per_point, {"x", "part"})
    assert_same(back.data.groups, data.groups, {"CST.left", "rest"})
    assert back.data.per_group["CST.left"]["volume"].tolist() == [[4.5]]
    assert not caplog.messages


def test_a_trk_holds_values_and_says_what_not(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    make().save(tmp_path / "t.trk")
    back, data = load_tractogram(tmp_path / "t.trk"), make().data
    assert back.grid.same_space(GRID)
    assert_same(back.data.per_point, data.per_point, {"x", "part"})
    np.testing.assert_array_equal(back.data.per_streamline["colour"], np.eye(4, 3))
    assert caplog.messages[:1] == [
        "t.trk cannot hold cluster exactly, the group CST.left, the group rest; .trx files can."
    ]
    make()[[0, 2, 3]].save(tmp_path / "filled.trk")  # nibabel leaves the others out
    theirs = nib.streamlines.load(tmp_path / "filled.trk").tractogram
    assert theirs.data_per_point["x"][2].ravel().tolist() == [0, 1, 2, 3, 4]


def test_a_tck_says_that_it_holds_points_alone(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    make().with_weights(np.ones(4)).save(tmp_path / "t.tck")
    assert caplog.messages == [
        "t.tck cannot hold weights, cluster (per streamline), colour (per streamline), "
        "x (per point), part (per point), the group CST.left, the group rest; .trx files can."
    ]


def test_a_vtk_holds_values(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    make().with_weights(np.ones(4)).save(tmp_path / "t.vtk")
    back, data = load_tractogram(tmp_path / "t.vtk"), make().data
    assert_same(back.data.per_streamline, data.per_streamline, {"cluster", "colour"})
    assert_same(back.data.per_point, data.per_point, {"x", "part"})
    assert caplog.messages == [
        "t.vtk cannot hold weights, the group CST.left, the group rest; .trx files can."
    ]


@pytest.mark.parametrize("ending", [".trk", ".vtk"])
def test_lost_values_are_named_where_others_have_the_same_name(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, ending: str
) -> None:
    """Such as FA along streamlines, which is held, and a number of each that is not."""
    huge = np.array([[2**62 + 1], [0]])
    data = StreamlineData({"FA": huge}, {"FA": np.ones((4, 1), np.float32)})
    Tractogram(np.ones((4, 3)), [0, 2, 4], data=data, grid=GRID).save(tmp_path / f"t{ending}")
    assert "cannot hold FA" in caplog.messages[0]


def test_numbers_too_large_for_a_trk_are_named(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    data = StreamlineData({"p": np.array([[1e300], [0.5]])}, {})
    Tractogram(np.ones((4, 3)), [0, 2, 4], data=data, grid=GRID).save(tmp_path / "t.trk")
    assert caplog.messages == ["t.trk cannot hold p exactly; .trx files can."]
    back = load_tractogram(tmp_path / "t.trk").data.per_streamline["p"]
    assert back.ravel().tolist() == [np.inf, 0.5]


@pytest.mark.parametrize("ending", [".trk", ".tck", ".trx", ".vtk"])
@pytest.mark.parametrize("numbers", [[], [1], [1, 1]])
def test_values_of_streamlines_without_points_are_no_trouble(
    tmp_path: Path, ending: str, numbers: list[int]
) -> None:
    make()[numbers].save(tmp_path / f"t{ending}", data_beside=ending == ".tck")
    back = load_tractogram(tmp_path / f"t{ending}")
    assert (len(back), back.n_points) == (len(numbers), 0)
    names = {name.removesuffix("_1") for name in back.data.per_streamline}
    assert names <= {"cluster", "colour", "colour_2", "colour_3"}
    if numbers:
        assert "colour" in names


def test_streamlines_without_points_leave_the_values_of_others(tmp_path: Path) -> None:
    nt.save_chunks([make(), make()[[1]]], tmp_path / "t.trk", reference=GRID)
    back = load_tractogram(tmp_path / "t.trk").data
    np.testing.assert_array_equal(back.per_point["x"], make().data.per_point["x"])
    np.testing.assert_array_equal(back.per_streamline["colour"], np.eye(4, 3)[[0, 1, 2, 3, 1]])


def test_more_than_a_trk_has_room_for_is_named(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    values = {f"value {k}": np.zeros((1, 1)) for k in range(9)} | {"x" * 30: np.zeros((1, 1))}
    lines = Tractogram([[0, 0, 0]], [0, 1], data=StreamlineData(values), grid=GRID)
    lines.save(tmp_path / "t.trk")
    held = load_tractogram(tmp_path / "t.trk").data.per_streamline
    lost = caplog.messages[0]
    assert 5 <= len(held) < 9
    for name in values:
        assert (name in held) != (name in lost)


def test_values_go_with_their_streamlines() -> None:
    lines = make()
    for chosen in (lines[[3, 0]], lines.chosen([3, 0])):
        data = chosen.data
        assert chosen.grid == GRID
        assert data.per_streamline["cluster"].tolist() == [[2**25 + 1], [7]]
        assert data.per_point["x"].ravel().tolist() == [0, 1, 2, 3, 4, 0, 1, 2]
        assert data.groups["CST.left"].tolist() == [0, 1]
        assert data.groups["rest"].tolist() == [0]
    again = lines.chosen([3, 0]).chosen([1])
    assert again.data.per_point["x"].ravel().tolist() == [0, 1, 2]
    assert lines.select(length_mm=(1.5, 3)).data.per_streamline["cluster"].tolist() == [[7]]


def test_values_at_cuts_lie_between_those_beside_them() -> None:
    cut = Edit.cut((2.25, 0, 0), (1, 0, 0)).apply(make())
    np.testing.assert_array_equal(cut.data.per_point["x"][:, 0], cut.points[:, 0])
    assert cut.points[-1, 0] == 2.25
    assert cut.data.per_point["part"].ravel().tolist()[-4:] == [0, 0, 1, 1]
    assert cut.data.per_streamline["cluster"].ravel().tolist() == [7, 9, 2**25 + 1]
    assert cut.grid == GRID


def test_joined_tractograms_keep_what_all_of_them_have(caplog: pytest.LogCaptureFixture) -> None:
    one = make()
    both = Tractogram.concatenate([one, one, Tractogram.empty()])
    assert both.grid == GRID
    assert not caplog.messages
    assert both.data.per_point["x"].tolist() == one.data.per_point["x"].tolist() * 2
    assert both.data.groups["CST.left"].tolist() == [0, 3, 4, 7]
    other = Tractogram([[0, 0, 0]], [0, 1], data=StreamlineData({"cluster": np.ones((1, 1))}))
    mixed = Tractogram.concatenate([other, one])
    assert mixed.data.per_streamline["cluster"].ravel().tolist() == [1, 7, 8, 9, 2**25 + 1]
    assert set(mixed.data.per_streamline) == {"cluster"}
    assert mixed.data.groups["rest"].tolist() == [2, 3, 4]
    assert "colour, part, x" in caplog.messages[0]


@pytest.mark.parametrize(
    "data",
    [
        StreamlineData({"a": np.ones((3, 1))}),
        StreamlineData({}, {"a": np.ones((3, 1))}),
        StreamlineData({}, {}, {"a": np.array([4])}),
    ],
)
def test_values_of_other_streamlines_are_refused(data: StreamlineData) -> None:
    with pytest.raises(InvalidTractogramError, match="a has"):
        Tractogram([[0, 0, 0]] * 2, [0, 2], data=data)


@pytest.mark.parametrize(
    "values",
    [
        pytest.param([1, 2], id="list"),
        pytest.param(np.array(1.0), id="one for all"),
        pytest.param(np.zeros((1, 0)), id="none each"),
        pytest.param(np.array([1j]), id="complex"),
        pytest.param(np.array(["a"]), id="text"),
        pytest.param(np.array([None]), id="objects"),
        pytest.param(np.zeros(1, np.longdouble), id="long"),
    ],
)
def test_values_that_no_file_holds_are_refused(values: Any) -> None:
    with pytest.raises(InvalidTractogramError, match=r"a holds .*; give an array of numbers"):
        Tractogram([[0, 0, 0]], [0, 1], data=StreamlineData({"a": values}))


@pytest.mark.parametrize("ending", [".trk", ".trx"])
def test_select_keeps_grid_and_values(tmp_path: Path, ending: str) -> None:
    make().save(tmp_path / f"a{ending}")
    out = tmp_path / f"b{ending}"
    assert main(["select", str(tmp_path / f"a{ending}"), "-o", str(out), "--min-length", "1"]) == 0
    back = load_tractogram(out)
    assert len(back) == 3
    assert back.grid.same_space(GRID)
    assert back.data.per_point["x"].tolist() == make().data.per_point["x"].tolist()


@pytest.mark.parametrize("ending", [".trk", ".trx", ".vtk"])
def test_select_by_a_value_and_by_groups(
    tmp_path: Path, ending: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path, out = tmp_path / f"a{ending}", tmp_path / "b.trx"
    make().save(path)
    assert "cluster" in columns_of(path)
    assert load_weights(path, "cluster").tolist()[:3] == [7, 8, 9]
    with pytest.raises(FileError, match=r"called 'colour'|3 values per streamline"):
        load_weights(path, "colour")
    by_value = ["--weights", "cluster", "--min-weight", "8.5"]
    assert main(["select", str(path), "-o", str(out), *by_value]) == 0
    assert load_tractogram(out).weights.tolist() == [9, 2**25]
    by_group = ["select", str(path), "-o", str(out), "--group", "CST.left"]
    assert main(by_group) == (0 if ending == ".trx" else 2)
    if ending == ".trx":
        assert load_tractogram(out).data.groups["rest"].tolist() == [1]
        assert main([*by_group, "--group", "absent"]) == 2
    assert main(["info", str(path)]) == 0
    assert "with cluster (per streamline), colour (per streamline)" in capsys.readouterr().out


def test_a_bundle_of_a_file_is_replayed_with_them(tmp_path: Path) -> None:
    make().save(tmp_path / "a.trk")
    project = nt.Project()
    project.add("CST", tmp_path / "a.trk")
    project.save(tmp_path / "study.tracts.json")
    assert main(["replay", str(tmp_path / "study.tracts.json"), "-o", str(tmp_path / "out")]) == 0
    back = load_tractogram(tmp_path / "out" / "CST.trk")
    assert back.grid.same_space(GRID)
    assert set(back.data.per_streamline) == {"cluster", "colour"}


def test_what_is_tracked_knows_its_grid(tmp_path: Path) -> None:
    fod = make_phantom("letter", lmax=2)
    parameters = nt.TrackingParameters(step_mm=1.0, max_length_mm=30.0)
    lines = nt.track(fod, nt.Seeds.in_sphere((10, 10, 10), 2, 5), parameters, backend="cpu")
    assert lines.grid == fod.grid
    lines.save(tmp_path / "t.trx")
    assert load_tractogram(tmp_path / "t.trx").grid.same_space(fod.grid)


@pytest.fixture(autouse=True)
def warnings_alone(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
