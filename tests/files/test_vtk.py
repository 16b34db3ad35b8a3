"""Legacy VTK files: the dialects of other programs, and one sentence for each bad file."""

from __future__ import annotations

import numpy as np
import pytest

from napari_tractography.errors import FileError
from napari_tractography.streamlines.tractogram import Tractogram, load_tractogram

VTK_POINTS = np.array([[1, 2, 3], [4, 5, 6], [7, 8, 9], [-1, -2, -3]], dtype=np.float64)


def vtk_file(path, mode, points, body, title="title"):
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
