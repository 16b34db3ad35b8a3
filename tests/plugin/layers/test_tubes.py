"""Tubes, paths and movies: right geometry, bounded, whole files or none."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from pathlib import Path

import imageio.v3 as imageio
import imageio_ffmpeg
import numpy as np
import pytest
from qtpy.QtTest import QTest

from napari_tractography.errors import FileError, InvalidTractogramError, MissingPackageError
from napari_tractography.plugin.export.movies import turntable
from napari_tractography.plugin.layers.tubes import (
    MAX_PATH_POINTS,
    MAX_PATHS,
    TUBE_SIDES,
    paths_layer,
    tube_mesh,
    tubes_layer,
)
from napari_tractography.plugin.space.display import DisplaySpace
from napari_tractography.streamlines.tractogram import Tractogram

SPACE = DisplaySpace.identity()


@pytest.fixture
def lines():
    """A quarter circle of radius 20 and a straight line along x."""
    t = np.linspace(0, np.pi / 2, 50)
    arc = np.stack([20 * np.cos(t), 20 * np.sin(t), np.zeros(50)], axis=1)
    straight = np.stack([np.arange(30.0), np.zeros(30), np.full(30, 5.0)], axis=1)
    return Tractogram.from_streamlines([arc, straight])


def test_rings_surround_their_points_squarely(lines):
    vertices, _ = tube_mesh(lines, SPACE, radius_mm=0.7)
    rings = vertices.reshape(-1, TUBE_SIDES, 3)[..., ::-1]
    arms = rings - lines.points[:, None]
    np.testing.assert_allclose(np.linalg.norm(arms, axis=2), 0.7, atol=1e-4)
    for first, line in zip(lines.offsets, lines, strict=False):
        along = np.gradient(line.astype(float), axis=0)
        along /= np.linalg.norm(along, axis=1, keepdims=True)
        slant = np.einsum("nsk,nk->ns", arms[first : first + len(line)], along)
        assert np.abs(slant).max() < 1e-3


def test_triangles_join_each_streamline_and_never_two(lines):
    vertices, triangles = tube_mesh(lines, SPACE, radius_mm=0.5)
    points = triangles // TUBE_SIDES
    owner = np.searchsorted(lines.offsets, points, side="right")
    assert (owner == owner[:, :1]).all()
    assert (points.max(axis=1) - points.min(axis=1) == 1).all()
    assert len(triangles) == 2 * TUBE_SIDES * (lines.n_points - len(lines))
    assert np.unique(triangles).size == len(vertices)


def test_tubes_and_paths_are_coloured_by_direction(lines):
    tubes = tubes_layer(lines, SPACE)
    red = tubes.vertex_colors[-TUBE_SIDES * 10 :]
    assert (red[:, 0] > 0.3).all()
    assert red[:, 1:3].max() < 1e-3
    paths = paths_layer(lines, SPACE)
    assert paths.nshapes == 2
    assert max(len(p) for p in paths.data) <= MAX_PATH_POINTS
    np.testing.assert_allclose(paths.data[1][0][::-1], [0, 0, 5], atol=1e-4)
    np.testing.assert_allclose(paths.data[1][-1][::-1], [29, 0, 5], atol=1e-4)


def test_too_many_are_refused_with_the_reason():
    many = Tractogram.from_streamlines([np.eye(2, 3)] * (MAX_PATHS + 1))
    with pytest.raises(InvalidTractogramError, match=f"{MAX_PATHS + 1} streamlines"):
        paths_layer(many, SPACE)
    with pytest.raises(InvalidTractogramError, match="0 streamlines"):
        paths_layer(Tractogram.empty(), SPACE)
    with pytest.raises(InvalidTractogramError, match="cannot become tubes"):
        tubes_layer(Tractogram.empty(), SPACE)


def mp4_frames(path):
    """Read by ffmpeg itself, to 64 x 64 pixels."""
    command = [imageio_ffmpeg.get_ffmpeg_exe(), "-i", str(path), "-vf", "scale=64:64"]
    command += ["-f", "rawvideo", "-pix_fmt", "rgb24", "-"]
    raw = subprocess.run(command, capture_output=True, check=True).stdout
    return list(np.frombuffer(raw, np.uint8).reshape(-1, 64, 64, 3))


@pytest.mark.parametrize("ending", ["gif", "mp4"])
def test_a_turntable_turns_once_and_comes_back(make_napari_viewer, tmp_path, lines, ending):
    viewer = make_napari_viewer(show=True)
    viewer.add_layer(tubes_layer(lines, SPACE))
    viewer.dims.ndisplay = 3
    viewer.reset_view()
    before = np.array(viewer.scene.camera.view_direction)
    path = tmp_path / f"turn.{ending}"
    assert list(turntable(viewer, path, n_frames=4)) == [1, 2, 3, 4]
    np.testing.assert_allclose(viewer.scene.camera.view_direction, before, atol=1e-6)
    frames = imageio.imread(path) if ending == "gif" else mp4_frames(path)
    assert len(frames) == 4
    assert frames[0].max() > 50
    assert np.abs(frames[0].astype(int) - frames[1]).max() > 50


def test_a_larger_movie_shows_the_same(make_napari_viewer, tmp_path, lines):
    viewer = make_napari_viewer(show=True)
    viewer.add_layer(tubes_layer(lines, SPACE))
    viewer.dims.ndisplay = 3
    viewer.reset_view()
    shares = []
    for scale in (1, 2):
        path = tmp_path / f"turn{scale}.gif"
        list(turntable(viewer, path, n_frames=1, scale=scale))
        frame = imageio.imread(path, index=0)
        shares.append(((frame.max(axis=2) > 50).mean(), frame.shape[1]))
    (small, width), (large, large_width) = shares
    assert large_width > 1.8 * width
    assert large == pytest.approx(small, rel=0.1)


def test_each_frame_of_a_movie_is_drawn_once(make_napari_viewer, tmp_path, lines):
    """Not for the screen as well, nor for the size that it changes to and back from."""
    viewer = make_napari_viewer(show=True)
    viewer.add_layer(tubes_layer(lines, SPACE))
    viewer.dims.ndisplay = 3
    QTest.qWait(50)
    drawn, canvas = [], viewer.window._qt_viewer.canvas
    canvas._scene_canvas.events.draw.connect(lambda _event: drawn.append(None))
    for _ in turntable(viewer, tmp_path / "turn.gif", n_frames=3, scale=0.5):
        QTest.qWait(20)  # as the window's dialog does
    n = len(drawn)
    assert n == 1 + 3  # and once before all of them
    QTest.qWait(50)
    assert len(drawn) > n  # the screen goes on


def test_a_cancelled_movie_leaves_no_file_and_the_camera_as_it_was(
    make_napari_viewer, tmp_path, lines
):
    viewer = make_napari_viewer(show=True)
    viewer.add_layer(tubes_layer(lines, SPACE))
    viewer.dims.ndisplay = 3
    before = np.array(viewer.scene.camera.view_direction)
    movie = turntable(viewer, tmp_path / "turn.gif", n_frames=6)
    next(movie)
    next(movie)
    movie.close()
    assert list(tmp_path.iterdir()) == []
    np.testing.assert_allclose(viewer.scene.camera.view_direction, before, atol=1e-6)


def test_a_movie_that_fails_leaves_no_file_and_no_encoder(
    make_napari_viewer, tmp_path, lines, monkeypatch
):
    """What the encoder says goes on for many lines."""
    closed = []

    class Broken:
        def __init__(self, path, *args, **kwargs):
            Path(path).write_bytes(b"half of it")

        def send(self, frame):
            if frame is not None:
                raise OSError("[Errno 32] Broken pipe\n\nFFMPEG COMMAND:\nffmpeg -y")

        def close(self):
            closed.append(self)

    monkeypatch.setattr(imageio_ffmpeg, "write_frames", Broken)
    viewer = make_napari_viewer(show=True)
    viewer.add_layer(tubes_layer(lines, SPACE))
    viewer.dims.ndisplay = 3
    with pytest.raises(FileError, match=r"turn\.mp4 cannot be written") as told:
        list(turntable(viewer, tmp_path / "turn.mp4", n_frames=2))
    assert "\n" not in str(told.value)
    assert len(closed) == 1
    assert list(tmp_path.iterdir()) == []


def test_a_movie_whose_encoder_ends_early_is_not_called_saved(
    make_napari_viewer, tmp_path, lines, monkeypatch
):
    """As on a full disk: it takes the frames, and what says where they are in the file lacks."""
    write = imageio_ffmpeg.write_frames

    def ends_early(path, *args, **kwargs):
        writer = write(path, *args, **kwargs)
        try:
            yield from writer
        finally:
            writer.close()
            with open(path, "r+b") as file:
                file.truncate(64)

    monkeypatch.setattr(imageio_ffmpeg, "write_frames", ends_early)
    viewer = make_napari_viewer(show=True)
    viewer.add_layer(tubes_layer(lines, SPACE))
    viewer.dims.ndisplay = 3
    with pytest.raises(FileError, match=r"turn\.mp4 cannot be written \(the encoder ended early\)"):
        list(turntable(viewer, tmp_path / "turn.mp4", n_frames=2))
    assert list(tmp_path.iterdir()) == []


def test_frames_of_an_mp4_are_encoded_as_they_are_drawn(
    make_napari_viewer, tmp_path, lines, monkeypatch
):
    """All of a long movie would take more memory than there is."""
    held, write = [], imageio_ffmpeg.write_frames

    def counted(path, *args, **kwargs):
        writer = write(path, *args, **kwargs)
        writer.send(None)
        with contextlib.closing(writer):
            while True:
                writer.send((yield))
                held.append(None)

    monkeypatch.setattr(imageio_ffmpeg, "write_frames", counted)
    viewer = make_napari_viewer(show=True)
    viewer.add_layer(tubes_layer(lines, SPACE))
    viewer.dims.ndisplay = 3
    for n_done in turntable(viewer, tmp_path / "turn.mp4", n_frames=3):
        assert len(held) == n_done
    assert len(mp4_frames(tmp_path / "turn.mp4")) == 3


def test_movies_that_cannot_be_are_refused(make_napari_viewer, tmp_path, lines):
    viewer = make_napari_viewer(show=True)
    viewer.add_layer(tubes_layer(lines, SPACE))
    with pytest.raises(FileError, match="2-D"):
        next(turntable(viewer, tmp_path / "turn.gif"))
    viewer.dims.ndisplay = 3
    with pytest.raises(FileError, match=r"turn\.avi"):
        next(turntable(viewer, tmp_path / "turn.avi"))
    with pytest.raises(FileError, match="does not exist"):
        next(turntable(viewer, tmp_path / "nowhere" / "turn.gif"))


@pytest.mark.parametrize("package", ["imageio", "imageio_ffmpeg"])
def test_without_its_packages_a_movie_is_refused_before_anything_turns(
    make_napari_viewer, tmp_path, monkeypatch, package
):
    monkeypatch.setitem(sys.modules, "imageio.v3" if package == "imageio" else package, None)
    viewer = make_napari_viewer()
    said = rf'{package.replace("_", "-")}, which is not .* "napari-tractography\[movies\]"\.'
    with pytest.raises(MissingPackageError, match=said):
        next(turntable(viewer, tmp_path / "turn.mp4"))
    assert list(tmp_path.iterdir()) == []
