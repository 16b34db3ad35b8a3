"""Pictures of the canvas."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from imageio.v3 import imwrite

from ..errors import FileError
from ..files.paths import written_whole


def save_screenshot(
    viewer: Any, path: str | Path, *, scale: float = 1.0, canvas_only: bool = True
) -> None:
    """Write what a viewer shows as PNG, whole or not at all.

    Parameters
    ----------
    viewer : napari.Viewer
    path : path-like
        Ends in .png.
    scale : float
        Pixels a screen pixel, of the canvas alone.
    canvas_only : bool
        Leave out the window around the canvas.

    Raises
    ------
    FileError
        When the ending is another or the file cannot be written.
    """
    target = Path(path)
    if target.suffix.lower() != ".png":
        raise FileError(f"{target.name} does not end in .png; pictures are saved as PNG.")
    size = {"scale": scale} if canvas_only else {}
    picture = viewer.screenshot(canvas_only=canvas_only, flash=False, **size)
    with written_whole(target) as temporary:
        imwrite(temporary, picture, extension=".png")
