"""Legacy VTK files: the dialects of other programs, and one sentence for each bad file."""

from __future__ import annotations

import numpy as np
import pytest

from napari_tractography.errors import FileError
from napari_tractography.streamlines.tractogram import Tractogram, load_tractogram

VTK_POINTS = np.array([[1, 2, 3], [4, 5, 6], [7, 8, 9], [-1, -2, -3]], dtype=np.float64)


def vtk_file(path, mode, points, body, title="title SPACE=RAS"):
    header = f"# vtk DataFile Version 4.2\n{title}\n{mode}\nDATASET POLYDATA\n".encode()
    path.write_bytes(header + points + body)
    return path


@pytest.mark.parametrize(
    ("mode", "points", "body"),
    [
        pytest.param(
            "ASCII",
            b"POINTS 4 float\n1 2 3 4 5 6\n7 8 9\n\n-1 -2 -3\nMETADATA\nINFORMATION 0\n\n",
            b"VERTICES 1 2\n1 0\nLINES 2 6\n2 3 0\n2 1 2\nCELL_DATA 2\nSCALARS a float 1\n0 1\n",
            id="ascii with metadata, vertices and scalars",
        ),
        pytest.param(
            "ASCII",
            b"FIELD FieldData 1\nTIME 1 1 double\n5\npoints 4 double\n1 2 3 4 5 6 7 8 9 -1 -2 -3\n",
            b"lines 3 4\nOFFSETS vtktypeint64\n0 2 4\nCONNECTIVITY vtktypeint64\n3 0 1 2\n",
            id="ascii version 5",
        ),
        pytest.param(
            "BINARY",
            b"POINTS 4 double\n" + VTK_POINTS.astype(">f8").tobytes() + b"\n",
            b"LINES 2 6\n" + np.array([2, 3, 0, 2, 1, 2], ">i4").tobytes() + b"\nPOINT_DATA 4\n",
            id="binary doubles",
        ),
        pytest.param(
            "BINARY",
            b"POINTS 4 float\n" + VTK_POINTS.astype(">f4").tobytes(),
            b"\nLINES 3 4\nOFFSETS vtktypeint64\n"
            + np.array([0, 2, 4], ">i8").tobytes()
            + b"\nCONNECTIVITY vtktypeint64\n"
            + np.array([3, 0, 1, 2], ">i8").tobytes(),
            id="binary version 5",
        ),
    ],
)
def test_dialects_of_vtk_are_read(tmp_path, mode, points, body):
    tractogram = load_tractogram(vtk_file(tmp_path / "t.vtk", mode, points, body))
    assert tractogram.offsets.tolist() == [0, 2, 4]
    np.testing.assert_array_equal(tractogram.points, VTK_POINTS[[3, 0, 1, 2]])


def text(words, n_bytes):
    """A text as VTK writes it in binary: the first two bits say how many bytes its length has."""
    mark = {1: 3, 2: 2, 4: 1}[n_bytes]
    return (len(words) | mark << (8 * n_bytes - 2)).to_bytes(n_bytes, "big") + words


@pytest.mark.parametrize(
    ("mode", "field", "points", "body"),
    [
        pytest.param(
            "ASCII", b"FIELD FieldData 2\nnames 1 2 string\nleft%20one\nother\nn 1 1 int\n5\n",
            b"POINTS 4 float\n1 2 3 4 5 6 7 8 9 -1 -2 -3\n",
            b"LINES 3 4\nOFFSETS vtktypeint32\n0 2 4\nCONNECTIVITY vtktypeint32\n3 0 1 2\n"
            b"CELL_DATA 2\nFIELD FieldData 2\nname 1 2 string\na\nb\nMETADATA\nINFORMATION 0\n\n"
            b"fa 1 2 double\n0.25 0.5\nPOINT_DATA 4\nSCALARS x float 1\nLOOKUP_TABLE default\n"
            b"1 4 7 -1\nCOLOR_SCALARS rgb 3\n0 0 0 0 0 0 0 0 0 0 0 0\nNORMALS n float\n"
            b"1 2 3 4 5 6 7 8 9 -1 -2 -3\n",
            id="ascii",
        ),
        pytest.param(
            "BINARY",
            b"FIELD FieldData 1\nnames 1 3 string\n" + text(b"x", 1) + text(b"y" * 99, 2)
            + text(b"z" * 20_000, 4) + b"\n",
            b"POINTS 4 vtktypefloat64\n" + VTK_POINTS.astype(">f8").tobytes(),
            b"\nLINES 3 4\nOFFSETS vtktypeint32\n" + np.array([0, 2, 4], ">i4").tobytes()
            + b"\nCONNECTIVITY vtktypeint32\n" + np.array([3, 0, 1, 2], ">i4").tobytes()
            + b"\nCELL_DATA 2\nSCALARS fa double\nLOOKUP_TABLE mine\n"
            + np.array([0.25, 0.5], ">f8").tobytes() + b"\nLOOKUP_TABLE mine 1\n\0\1\2\3\n"
            + b"\nPOINT_DATA 4\nFIELD FieldData 1\nx 1 4 float\n"
            + VTK_POINTS[:, 0].astype(">f4").tobytes(),
            id="binary",
        ),
    ],
)  # fmt: skip
def test_texts_are_skipped_and_values_read(tmp_path, caplog, mode, field, points, body):
    tractogram = load_tractogram(vtk_file(tmp_path / "t.vtk", mode, field + points, body))
    assert tractogram.offsets.tolist() == [0, 2, 4]
    assert tractogram.data.per_streamline["fa"].ravel().tolist() == [0.25, 0.5]
    assert tractogram.data.per_point["x"].ravel().tolist() == [-1, 1, 4, 7]
    values = {**tractogram.data.per_streamline, **tractogram.data.per_point}
    assert all(array.dtype.isnative for array in values.values())  # as tables of pandas need them
    assert not caplog.messages


def test_values_of_cells_are_those_of_lines_where_there_are_others(tmp_path):
    """Values of vertices come before those of lines, values of polygons after."""
    points = b"POINTS 4 float\n1 2 3 4 5 6 7 8 9 0 0 0\n"
    body = (
        b"VERTICES 2 4\n1 0\n1 1\nLINES 2 6\n2 0 1\n2 2 3\nPOLYGONS 1 4\n3 0 1 2\n"
        b"CELL_DATA 5\nSCALARS fa float\n-1 -2 0.25 0.5 -3\n"
    )
    read = load_tractogram(vtk_file(tmp_path / "t.vtk", "ASCII", points, body))
    assert read.offsets.tolist() == [0, 2, 4]
    assert read.data.per_streamline["fa"].ravel().tolist() == [0.25, 0.5]


def test_names_are_written_and_read_as_vtk_encodes_them(tmp_path, caplog):
    """vtkDataWriter writes what is no plain letter, a quote or a percent sign as %XX."""
    points = b"POINTS 2 float\n1 2 3 4 5 6\n"
    body = (
        b"LINES 1 3\n2 0 1\nCELL_DATA 1\nFIELD FieldData 1\nmean%20FA 1 1 float\n5\n"
        b"POINT_DATA 2\nSCALARS 50%25 float\n1 2\nVECTORS gr%C3%BCn float\n1 2 3 4 5 6\n"
    )
    read = load_tractogram(vtk_file(tmp_path / "t.vtk", "ASCII", points, body))
    assert list(read.data.per_streamline) == ["mean FA"]
    assert set(read.data.per_point) == {"50%", "grün"}
    read.save(tmp_path / "u.vtk")
    written = (tmp_path / "u.vtk").read_bytes()
    assert all(name in written for name in (b"mean%20FA 1 1", b"50%25 1 2", b"gr%C3%BCn 3 2"))
    back = load_tractogram(tmp_path / "u.vtk")
    assert back.data.per_point["grün"].tolist() == [[1, 2, 3], [4, 5, 6]]
    assert not caplog.messages


def test_what_vtk_writes_before_the_fields_does_not_hide_them(tmp_path, caplog):
    """In the order of vtkDataWriter: texture coordinates, tensors and numbers come first."""
    points = b"POINTS 2 float\n1 2 3 4 5 6\n"
    body = (
        b"LINES 1 3\n2 0 1\nPOINT_DATA 2\nTEXTURE_COORDINATES tc 2 double\n1 2 3 4\n"
        b"TENSORS6 dt float\n1 2 3 4 5 6 7 8 9 10 11 12\nGLOBAL_IDS gids vtkIdType\n0 1\n"
        b"FIELD FieldData 1\nfa 1 2 double\n0.25 0.5\n"
    )
    read = load_tractogram(vtk_file(tmp_path / "t.vtk", "ASCII", points, body)).data.per_point
    assert read["tc"].tolist() == [[1, 2], [3, 4]]
    assert read["dt"].tolist() == [[1, 2, 3, 4, 5, 6], [7, 8, 9, 10, 11, 12]]
    assert read["fa"].ravel().tolist() == [0.25, 0.5]
    assert not caplog.messages


def test_values_that_cannot_be_read_are_left_out_with_a_word(tmp_path, caplog):
    points = b"POINTS 2 float\n1 2 3 4 5 6\n"
    body = b"LINES 1 3\n2 0 1\nPOINT_DATA 2\nSCALARS a float\n1 2\nSCALARS b quad\n1 2\n"
    tractogram = load_tractogram(vtk_file(tmp_path / "t.vtk", "ASCII", points, body))
    assert tractogram.data.per_point["a"].ravel().tolist() == [1, 2]
    assert "t.vtk: values per point or per streamline cannot be read" in caplog.messages[0]


@pytest.mark.parametrize(
    ("mode", "points"),
    [
        ("ASCII", b""),
        ("ASCII", b"POINTS 0 float\n"),
        ("BINARY", b"POINTS 0 float\n\n"),
        ("BINARY", b"POINTS 0 double\nLINES 0 0\n"),
        ("ASCII", b"LINES 1 0\nOFFSETS vtktypeint64\n0\nCONNECTIVITY vtktypeint64\n\n"),
    ],
)
def test_files_without_lines_are_empty(tmp_path, mode, points):
    assert len(load_tractogram(vtk_file(tmp_path / "t.vtk", mode, points, b""))) == 0


@pytest.mark.parametrize(
    ("title", "to_ras"),
    [
        ("3D Slicer output. SPACE=LPS", [-1, -1, 1]),
        ("3D Slicer output. SPACE=RAS", [1, 1, 1]),
        ("vtk output", [1, 1, 1]),
    ],
)
def test_a_title_that_names_the_space_is_heeded(tmp_path, title, to_ras):
    points = b"POINTS 4 double\n" + VTK_POINTS.astype(">f8").tobytes() + b"\n"
    body = b"LINES 1 5\n" + np.array([4, 0, 1, 2, 3], ">i4").tobytes()
    tractogram = load_tractogram(vtk_file(tmp_path / "t.vtk", "BINARY", points, body, title))
    np.testing.assert_array_equal(tractogram.points, VTK_POINTS * to_ras)


@pytest.mark.parametrize(
    ("title", "is_said"),
    [
        pytest.param("vtk output", False, id="VTK's own"),
        pytest.param("3D Slicer output. SPACE=LPS", True, id="Slicer"),
        pytest.param("Data values for Tracks", True, id="tckconvert"),
    ],
)
def test_axes_that_are_a_guess_are_told(tmp_path, caplog, title, is_said):
    points, body = b"POINTS 2 float\n1 2 3 4 5 6\n", b"LINES 1 3\n2 0 1\n"
    load_tractogram(vtk_file(tmp_path / "t.vtk", "ASCII", points, body, title))
    assert [message.partition(":")[0] for message in caplog.messages] == (
        [] if is_said else ["t.vtk does not say which way its axes run"]
    )


def test_our_title_says_that_x_runs_to_the_right(tmp_path):
    """3D Slicer mirrors what does not say so."""
    Tractogram.from_streamlines([VTK_POINTS]).save(tmp_path / "t.vtk")
    assert b"SPACE=RAS" in (tmp_path / "t.vtk").read_bytes().split(b"\n")[1]


@pytest.mark.parametrize(
    ("points", "body", "message"),
    [
        pytest.param(b"POINTS 2 float\n1 2 3 4 5\n", b"", "5 of 6 numbers", id="too few points"),
        pytest.param(b"POINTS 1 float\n1 2 3 4\n", b"", "goes on after", id="too many points"),
        pytest.param(b"POINTS 1 float\n1 2 x\n", b"", "x", id="no number"),
        pytest.param(b"POINTS 1 quad\n1 2 3\n", b"", "number type", id="unknown type"),
        pytest.param(b"POINTS many float\n", b"", "no count", id="no count"),
        pytest.param(b"POINTS 1 float\n1 2 3\n", b"", "no lines", id="no lines"),
        pytest.param(b"POINTS 1 float\n1 2 3\n", b"LINES 1 2\n1 7\n", "point 7 of 1", id="index"),
        pytest.param(b"POINTS 1 float\n1 2 3\n", b"LINES 2 2\n1 0\n", "add up", id="lines"),
        pytest.param(b"POINTS 1 float\nnan 2 3\n", b"LINES 1 2\n1 0\n", "finite", id="NaN"),
        pytest.param(b"CELLS 3 4\n", b"", "unknown section 'CELLS'", id="unknown section"),
    ],
)
def test_bad_vtk_is_named(tmp_path, points, body, message):
    path = vtk_file(tmp_path / "bad.vtk", "ASCII", points, body)
    with pytest.raises(FileError, match=message) as caught:
        load_tractogram(path)
    assert "bad.vtk" in str(caught.value)


@pytest.mark.parametrize(
    "text",
    ["", "<VTKFile>", "# vtk DataFile Version 3.0\nt\nBINARY\nDATASET UNSTRUCTURED_GRID\n",
     "# vtk DataFile Version 3.0\nt\nMORSE\nDATASET POLYDATA\n"],
)  # fmt: skip
def test_other_vtk_files_are_refused(tmp_path, text):
    (tmp_path / "t.vtk").write_text(text)
    with pytest.raises(FileError, match="no usable legacy VTK polydata"):
        load_tractogram(tmp_path / "t.vtk")
