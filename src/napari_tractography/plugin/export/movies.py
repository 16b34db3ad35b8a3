"""Turntable movies: the view turns once around the vertical axis."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from contextlib import closing, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.transform import Rotation

from ...errors import FileError
from ...files.paths import check_writable, written_whole
from ...runtime.extras import needs_extra
from ..main_window import canvas_of, main_window
from ..space.orientation_labels import edge_labels
from .screenshots import drawn, enlarged, lettered

N_FRAMES = 90
FRAMES_A_SECOND = 30
BLOCK = 16  # pixels: what video players want sizes to be multiples of


def turntable(
    viewer: Any,
    path: str | Path,
    *,
    n_frames: int = N_FRAMES,
    scale: float = 1.0,
    letters: bool = False,
) -> Generator[int, None, None]:
    """Write a movie of one turn, .gif or .mp4; yield the number of frames done after each.

    The caller, in the main thread, decides between frames whether to continue: closing the
    generator cancels and leaves no file. The camera ends where it began. `scale` is pixels a screen
    pixel; letters at the edges tell which side of the body they look to.

    Raises FileError when the ending is another, the view is 2-D or the file cannot be written;
    MissingPackageError when imageio or imageio-ffmpeg is not installed.
    """
    with needs_extra("movies", "Movies take"):
        import imageio.v3 as imageio
        import imageio_ffmpeg

    target = Path(path)
    writers = {".gif": partial(_gif, imageio), ".mp4": partial(_mp4, imageio_ffmpeg)}
    into = writers.get(target.suffix.lower())
    if into is None:
        raise FileError(f"{target.name} does not end in .gif or .mp4; movies do.")
    if viewer.dims.ndisplay != 3:
        raise FileError(f"{target.name} would not turn: the view is 2-D; switch to 3-D first.")
    check_writable(target)
    camera = viewer.scene.camera
    direction, up = np.array(camera.view_direction), np.array(camera.up_direction)
    size = tuple(viewer.canvas.size)  # of all frames, though the layout of the window may change
    with written_whole(target) as temporary:
        try:
            with enlarged(viewer, scale), _off_the_screen(viewer):
                # Layers learn at a first drawing how large a pixel is.
                shape = _cropped(drawn(viewer, size, scale)).shape
                with into(temporary, (shape[1], shape[0])) as add:
                    for i in range(n_frames):
                        angle = 2 * np.pi * i / n_frames
                        turn = Rotation.from_rotvec(np.array([angle, 0.0, 0.0])).apply
                        camera.set_view_direction(tuple(turn(direction)), tuple(turn(up)))
                        picture = drawn(viewer, size, scale)
                        if letters:
                            picture = lettered(picture, edge_labels(viewer), scale)
                        add(_cropped(picture[..., :3]))
                        yield i + 1
        finally:
            camera.set_view_direction(tuple(direction), tuple(up))


@contextmanager
def _off_the_screen(viewer: Any) -> Iterator[None]:
    """Have the canvas draw frames, and nothing on the screen meanwhile.

    napari changes the size of the canvas for each frame and changes it back: each time all would be
    drawn, and once more for the screen.
    """
    canvas = canvas_of(main_window(viewer))
    if canvas is not None:
        canvas.setUpdatesEnabled(False)
    try:
        yield
    finally:
        if canvas is not None:
            canvas.setUpdatesEnabled(True)


@contextmanager
def _gif(
    imageio: Any, path: Path, _size: tuple[int, int]
) -> Iterator[Callable[[NDArray[np.uint8]], None]]:
    """Yield what takes the frames of a GIF; its colours are chosen when all are there."""
    frames: list[NDArray[np.uint8]] = []
    yield frames.append
    imageio.imwrite(path, frames, extension=".gif", duration=1000 / FRAMES_A_SECOND, loop=0)


@contextmanager
def _mp4(
    imageio_ffmpeg: Any, path: Path, size: tuple[int, int]
) -> Iterator[Callable[[NDArray[np.uint8]], None]]:
    """Yield what encodes a frame of an MP4, which all together may be larger than the memory.

    By the package that carries the encoder: imageio's own way to it leaves its pipes open. It does
    not tell of an encoder that ends early, as on a full disk, so that the frames are counted.
    """
    n_frames = 0

    def add(frame: NDArray[np.uint8]) -> None:
        nonlocal n_frames
        try:
            writer.send(np.ascontiguousarray(frame))
        except OSError as error:  # which goes on for many lines, with the encoder's command
            raise OSError(str(error).partition("\n")[0]) from error
        n_frames += 1

    writer = imageio_ffmpeg.write_frames(str(path), size, fps=FRAMES_A_SECOND)
    with closing(writer):  # else the encoder of a movie that failed keeps running
        writer.send(None)
        yield add
    n_written = 0
    with suppress(RuntimeError):  # it is no movie
        n_written, _ = imageio_ffmpeg.count_frames_and_secs(str(path))
    if n_written != n_frames:
        raise OSError("the encoder ended early")


def _cropped(picture: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Cut a picture evenly to whole blocks."""
    height, width = picture.shape[0] // BLOCK * BLOCK, picture.shape[1] // BLOCK * BLOCK
    top, left = (picture.shape[0] - height) // 2, (picture.shape[1] - width) // 2
    return picture[top : top + height, left : left + width]
