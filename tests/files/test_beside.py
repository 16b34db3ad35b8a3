"""Values of the streamlines of a .tck file in files beside it, as MRtrix3's manual has them."""

from __future__ import annotations

import logging
import struct
from pathlib import Path

import nibabel as nib
import numpy as np
import pytest

import napari_tractography as nt
from napari_tractography.cli import main
from napari_tractography.errors import FileError
from napari_tractography.files.streamline_data import StreamlineData
from napari_tractography.files.weights import columns_of, load_weights
from napari_tractography.streamlines.tractogram import Tractogram, load_tractogram

COUNTS = (3, 0, 2, 1)
X = np.concatenate([np.arange(n, dtype=np.float32) for n in COUNTS])
FINE = X.astype(np.float64) / 3
P = [0.1, np.nan, 1, 1e-300]
HOSTILE = "../50% of a:b"


@pytest.fixture(autouse=True)
def warnings_alone(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)


def make(**per_point: np.ndarray) -> Tractogram:
    """Four streamlines along x, one of them without points."""
    data = StreamlineData(
        {
            "cluster": np.array([[7], [8], [9], [2**60 + 1]]),
            "p": np.array([0.1, np.nan, 1, 1e-300]),
        },
        {"FA": X[:, None] / 4, "fine": FINE, "two": np.c_[X, -X]} | per_point,
    )
    weights = np.array([0.5, 1, 2, 3], np.float32)
    points = np.column_stack([X, np.zeros((len(X), 2))])
    return Tractogram(points, np.cumsum([0, *COUNTS]), data=data, weights=weights)


def entries(path: Path) -> dict[str, str]:
    """Read the header of a file as the manual says: "key: value" to a line END."""
    lines = path.read_bytes().split(b"\nEND\n")[0].decode().splitlines()
    return {"": lines[0]} | dict(line.split(": ", 1) for line in lines[1:])


def write_tsf(
    path: Path, lines: list[list[float]], timestamp: str, form: str = "<f", *, has_end: bool = True
) -> None:
    """Write a track scalar file by hand, as the manual describes it, or without its end."""
    dtype = f"Float{8 * struct.calcsize(form)}{'LE' if form[0] == '<' else 'BE'}"
    head = (
        f"mrtrix track scalars\nroi: seed mask.mif\ntimestamp: {timestamp}\ndatatype: {dtype}\n"
        f"count: {len(lines)}\nfile: . 300\nEND\n"
    )
    numbers = [x for line in lines for x in (*line, float("nan"))] + [float("inf")] * has_end
    packed = b"".join(struct.pack(form, number) for number in numbers)
    path.write_bytes(head.encode().ljust(300, b"\0") + packed)


def test_values_are_written_as_the_manual_says(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    make().save(tmp_path / "a.tck", data_beside=True)
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "a.FA.tsf", "a.cluster.txt", "a.fine.tsf", "a.p.txt", "a.tck", "a.two_1.tsf",
        "a.two_2.tsf", "a.weights.txt",
    ]  # fmt: skip
    tracks, scalars = entries(tmp_path / "a.tck"), entries(tmp_path / "a.FA.tsf")
    assert scalars[""] == "mrtrix track scalars"
    assert float(tracks["timestamp"]) > 1.7e9
    assert scalars["timestamp"] == tracks["timestamp"]
    assert int(scalars["count"]) == int(tracks["count"]) == 4
    assert scalars["datatype"] == "Float32LE"
    assert entries(tmp_path / "a.fine.tsf")["datatype"] == "Float64LE"
    raw = (tmp_path / "a.FA.tsf").read_bytes()[int(scalars["file"].removeprefix(". ")) :]
    nan, inf = float("nan"), float("inf")
    expected = [0, 0.25, 0.5, nan, nan, 0, 0.25, nan, 0, nan, inf]
    np.testing.assert_array_equal(struct.unpack(f"<{len(raw) // 4}f", raw), expected)
    for name, values in (("cluster", [7, 8, 9, 2**60 + 1]), ("p", P)):
        rows = (tmp_path / f"a.{name}.txt").read_text().splitlines()
        assert rows[0] == f"# timestamp: {tracks['timestamp']}"
        np.testing.assert_array_equal([type(values[0])(row) for row in rows[1:]], values)
    theirs = nib.streamlines.load(tmp_path / "a.tck")
    assert theirs.header["timestamp"] == tracks["timestamp"]
    assert [len(line) for line in theirs.streamlines] == [3, 2, 1]
    assert not caplog.messages


def test_they_are_read_with_the_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Quietly, since the timestamp says that they belong to it."""
    make().save(tmp_path / "a.b.tck", data_beside=True)
    back, was = load_tractogram(tmp_path / "a.b.tck"), make()
    assert back.digest() == was.digest()
    assert set(back.data.per_streamline) == {"cluster", "p"}
    assert set(back.data.per_point) == {"FA", "fine", "two_1", "two_2"}
    assert back.data.per_streamline["cluster"].ravel().tolist() == [7, 8, 9, 2**60 + 1]
    np.testing.assert_array_equal(back.data.per_streamline["p"][:, 0], was.data.per_streamline["p"])
    np.testing.assert_array_equal(back.data.per_point["fine"][:, 0], FINE)
    np.testing.assert_array_equal(back.data.per_point["two_2"][:, 0], -X)
    assert back.weights.tolist() == [0.5, 1, 2, 3]
    assert columns_of(tmp_path / "a.b.tck")[:2] == ["cluster", "p"]
    assert load_weights(tmp_path / "a.b.tck").tolist() == [0.5, 1, 2, 3]
    assert main(["info", str(tmp_path / "a.b.tck")]) == 0
    out, err = capsys.readouterr()
    assert "cluster (per streamline), p (per streamline), FA (per point)" in out
    assert not err


def test_select_takes_and_writes_them(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    make().save(tmp_path / "a.tck", data_beside=True)
    flags = ["--weights", "cluster", "--min-weight", "8.5", "--data-beside"]
    assert main(["select", str(tmp_path / "a.tck"), "-o", str(tmp_path / "b.tck"), *flags]) == 0
    back = load_tractogram(tmp_path / "b.tck")
    assert back.data.per_point["FA"].ravel().tolist() == [0, 0.25, 0]
    assert back.data.per_streamline["cluster"].ravel().tolist() == [9, 2**60 + 1]
    assert not caplog.messages
    assert main(["select", str(tmp_path / "a.tck"), "-o", str(tmp_path / "c.tck")]) == 0
    assert "cannot hold weights, cluster (per streamline)" in caplog.messages[0]
    assert not list(tmp_path.glob("c.*.t*"))


def test_replay_writes_them(tmp_path: Path) -> None:
    make().save(tmp_path / "a.trx")
    project = nt.Project()
    project.add("CST", tmp_path / "a.trx")
    project.save(tmp_path / "study.tracts.json")
    flags = ["--format", "tck", "--data-beside", "-o", str(tmp_path / "out")]
    assert main(["replay", str(tmp_path / "study.tracts.json"), *flags]) == 0
    back = load_tractogram(tmp_path / "out" / "CST.tck")
    assert back.data.per_point["FA"].ravel().tolist() == (X / 4).tolist()


def test_what_they_cannot_hold_is_named(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """NaN would end a streamline there."""
    lines = make(gaps=np.where(X > 1, np.nan, X), large=np.full(len(X), 2**60 + 1))
    data = lines.data
    large = {"huge": np.full(4, 2**63 + 1, np.uint64), "weights": np.zeros((4, 2))}
    data = StreamlineData({**data.per_streamline, **large}, data.per_point, {"CST": np.arange(2)})
    lines = Tractogram(lines.points, lines.offsets, data=data, weights=lines.weights)
    lines.save(tmp_path / "a.tck", data_beside=True)
    assert caplog.messages == [
        "a.tck cannot hold huge (per streamline), weights (per streamline), gaps (per point), "
        "large (per point), the group CST; .trx files can."
    ]
    back = load_tractogram(tmp_path / "a.tck").data
    assert "gaps" not in back.per_point
    assert "huge" not in back.per_streamline


@pytest.mark.parametrize("form", ["<f", ">f", "<d", ">d"])
def test_files_of_mrtrix3_are_read(tmp_path: Path, form: str) -> None:
    path = tmp_path / "t.tck"
    make().save(path, data_beside=True)
    timestamp = entries(path)["timestamp"]
    for beside in tmp_path.glob("t.*.t*"):
        beside.unlink()
    lines = [[0.5, 2, -1], [], [3, 4], [5]]
    write_tsf(tmp_path / "t.fa.tsf", lines, timestamp, form)
    # As tcksample of MRtrix3 3.0.3 writes it, and all other commands of that kind.
    write_tsf(tmp_path / "t.md.tsf", lines, timestamp, form, has_end=False)
    found = load_tractogram(path).data.per_point
    assert found["fa"].ravel().tolist() == found["md"].ravel().tolist() == [0.5, 2, -1, 3, 4, 5]


@pytest.mark.parametrize(
    ("lines", "stamp", "told"),
    [
        pytest.param([[1, 2, 3], [], [4, 5], [6]], "1.5", "its timestamp is 1.5", id="another"),
        pytest.param([[1, 2], [3], [4, 5], [6]], "", "other numbers of points", id="points"),
        pytest.param([[1, 2, 3], [], [4, 5]], "", "other numbers of points", id="fewer"),
        pytest.param([[1, 2, 3], [], [4, np.inf], [6]], "", "damaged", id="infinite"),
        pytest.param([[1, 2, 3], [], [4, 5], [6], [7]], "", "other numbers of points", id="more"),
    ],
)
def test_what_does_not_belong_to_it_is_told_and_not_read(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, lines: list, stamp: str, told: str
) -> None:
    path = tmp_path / "t.tck"
    make().save(path, data_beside=True)
    write_tsf(tmp_path / "t.x.tsf", lines, stamp or entries(path)["timestamp"])
    assert "x" not in load_tractogram(path).data.per_point
    assert len(caplog.messages) == 1
    assert "t.x.tsf beside t.tck is not read" in caplog.messages[0]
    assert told in caplog.messages[0]


def test_those_of_an_older_file_of_that_name_are_not_read(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Though they have as many numbers."""
    make().save(tmp_path / "t.tck", data_beside=True)
    bare = make()[[3, 2, 1, 0]]
    other = Tractogram(bare.points, bare.offsets)
    other.save(tmp_path / "t.tck", data_beside=True)
    back = load_tractogram(tmp_path / "t.tck")
    assert not back.data
    assert back.weights is None
    assert len(caplog.messages) == 7
    other.save(tmp_path / "t.tck")
    assert not load_tractogram(tmp_path / "t.tck").data


def test_texts_of_other_programs_are_left_alone(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    make().save(tmp_path / "t.tck", data_beside=True)
    (tmp_path / "t.notes.txt").write_text("1\n2\n3\n4\n")
    (tmp_path / "t..tsf").write_bytes(b"")
    make(FA=-X).save(tmp_path / "t.left.tck", data_beside=True)
    found = load_tractogram(tmp_path / "t.tck").data
    assert found.per_point["FA"].ravel().tolist() == (X / 4).tolist()
    assert "notes" not in found.per_streamline
    assert not caplog.messages


def test_damaged_texts_are_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    make().save(tmp_path / "t.tck", data_beside=True)
    for name, change in (("p", "0.1\n"), ("cluster", "seven\n")):
        path = tmp_path / f"t.{name}.txt"
        path.write_text(path.read_text() + change)
    found = load_tractogram(tmp_path / "t.tck")
    assert not found.data.per_streamline
    assert found.weights is not None
    assert len(caplog.messages) == 2


def test_any_name_is_a_name_of_a_file(tmp_path: Path) -> None:
    data = StreamlineData({HOSTILE: np.arange(4)}, {HOSTILE: X})
    lines = Tractogram(np.c_[X, X, X], np.cumsum([0, *COUNTS]), data=data)
    (tmp_path / "in").mkdir()
    lines.save(tmp_path / "in" / "[t].tck", data_beside=True)
    assert [path.name for path in tmp_path.iterdir()] == ["in"]
    back = load_tractogram(tmp_path / "in" / "[t].tck").data
    assert list(back.per_streamline) == list(back.per_point) == [HOSTILE]


def test_two_values_of_one_name_are_refused_and_nothing_is_written(tmp_path: Path) -> None:
    with pytest.raises(FileError, match="twice"):
        make(two_1=X).save(tmp_path / "t.tck", data_beside=True)
    assert not list(tmp_path.iterdir())


def test_no_streamlines_and_formats_that_hold_values(tmp_path: Path) -> None:
    empty = make()[[]]
    empty.save(tmp_path / "t.tck", data_beside=True)
    assert load_tractogram(tmp_path / "t.tck").data.per_point["FA"].shape == (0, 1)
    make().save(tmp_path / "u.trx", data_beside=True)
    assert len(load_tractogram(tmp_path / "u.trx").data.per_point) == 3
    assert not list(tmp_path.glob("u.*.t*"))
