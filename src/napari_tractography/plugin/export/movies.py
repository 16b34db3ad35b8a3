"""Turntable movies: the view turns once around the vertical axis."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import closing, contextmanager
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

ENDINGS = (".gif", ".mp4")
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
    if target.suffix.lower() not in ENDINGS:
        raise FileError(f"{target.name} does not end in {' or '.join(ENDINGS)}; movies do.")
    if viewer.dims.ndisplay != 3:
        raise FileError(f"{target.name} would not turn: the view is 2-D; switch to 3-D first.")
    check_writable(target)
    camera = viewer.scene.camera
    direction, up = np.array(camera.view_direction), np.array(camera.up_direction)
    size = tuple(viewer.canvas.size)  # of all frames, though the layout of the window may change
    frames: list[NDArray[np.uint8]] = []
    try:
        with enlarged(viewer, scale), _off_the_screen(viewer):
            # Layers learn at a first drawing how large a pixel is.
            drawn(viewer, size, scale)
            for i in range(n_frames):
                turn = Rotation.from_rotvec(2 * np.pi * i / n_frames * np.array([1.0, 0.0, 0.0]))
                camera.set_view_direction(tuple(turn.apply(direction)), tuple(turn.apply(up)))
                picture = drawn(viewer, size, scale)
                if letters:
                    picture = lettered(picture, edge_labels(viewer), scale)
                frames.append(_cropped(picture[..., :3]))
                yield i + 1
    finally:
        camera.set_view_direction(tuple(direction), tuple(up))
    with written_whole(target) as temporary:
        if target.suffix.lower() == ".gif":
            duration = 1000 / FRAMES_A_SECOND
            imageio.imwrite(temporary, frames, extension=".gif", duration=duration, loop=0)
            return
        try:
            _encode(frames, temporary, imageio_ffmpeg.write_frames)
        except OSError as error:  # which goes on for many lines, with the encoder's command
            why = str(error).partition("\n")[0]
            raise FileError(
                f"{target} cannot be written ({why}); choose another folder or make room."
            ) from error


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


def _encode(frames: list[NDArray[np.uint8]], path: Path, write_frames: Any) -> None:
    """Write an MP4 frame by frame, by the package that carries the encoder.

    imageio's own way to it leaves the encoder's pipes open.
    """
    height, width = frames[0].shape[:2]
    writer = write_frames(str(path), (width, height), fps=FRAMES_A_SECOND)
    with closing(writer):  # else the encoder of a movie that failed keeps running
        writer.send(None)
        for frame in frames:
            writer.send(np.ascontiguousarray(frame))


def _cropped(picture: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Cut a picture evenly to whole blocks."""
    height, width = picture.shape[0] // BLOCK * BLOCK, picture.shape[1] // BLOCK * BLOCK
    top, left = (picture.shape[0] - height) // 2, (picture.shape[1] - width) // 2
    return picture[top : top + height, left : left + width]
