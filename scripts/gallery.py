"""Make the pictures of docs/gallery, and the page that shows them.

``python scripts/gallery.py`` makes all of them, ``python scripts/gallery.py arcs callosum`` some.
It needs a screen, or a virtual one: ``make gallery`` provides it. Pictures of a brain need
``../shared/data/brain`` (or ``--brain FOD``), those of measures and dissections
``../shared/data/subject`` (or ``--subject FOLDER``) and Matplotlib, that of a heart
``../shared/data/heart`` (or ``--heart FOLDER``); they are left as they are where that is absent.
What is drawn is in the folder ``pictures`` beside this file.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import imageio.v3 as imageio
import napari
from qtpy.QtTest import QTest

import napari_tractography as nt
from pictures import brain, canvas, images, phantoms, subject
from pictures.canvas import BRAIN, HEART, NOTHING, SUBJECT, Picture

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "docs" / "gallery"
DATA = ROOT.parent / "shared" / "data"
QUALITY = 84  # of JPEG

PAGE_HEAD = """\
# Gallery

Made by `make gallery` from the phantoms that the code generates, a brain FOD template, a person's
peaks and an image of a heart. Colours are directions (red left-right, green front-back, blue
up-down) unless said otherwise.
"""

ALL = {**brain.PICTURES, **subject.PICTURES, **phantoms.PICTURES, **images.PICTURES}
ORDER = (
    "brain callosum slice glyphs lengths dissection bundles heart tube weave odfs image arcs "
    "planes four_up figure lit tubes profiles asymmetry measures panel"
)
PICTURES = tuple(ALL[name] for name in ORDER.split())


def make(picture: Picture, given: Any) -> Path:
    """Draw a picture in a window of its own and write it."""
    viewer = napari.Viewer(show=True)
    try:
        viewer.theme = "dark"
        viewer.window.resize(*canvas.WINDOW)
        canvas.show_docks(viewer, False)
        QTest.qWait(canvas.SETTLE_MS)
        drawn = picture.draw(viewer, given)
    finally:
        viewer.close()
    path = FOLDER / f"{picture.name}.jpg"
    imageio.imwrite(path, drawn, quality=QUALITY)
    return path


def page() -> str:
    """Return docs/gallery/index.md."""
    parts = [
        f"\n## {picture.title}\n\n![{picture.title}]({picture.name}.jpg)\n\n{picture.caption}\n"
        for picture in PICTURES
        if (FOLDER / f"{picture.name}.jpg").exists()
    ]
    return PAGE_HEAD + "".join(parts)


def main(arguments: Sequence[str] | None = None) -> int:
    """Make the pictures that are named, or all; return the exit code."""
    names = [picture.name for picture in PICTURES]
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(names))
    parser.add_argument(
        "--brain",
        type=Path,
        default=DATA / "brain" / "fod_template.mif.gz",
        metavar="FOD",
        help="of a brain",
    )
    for name, text in ((SUBJECT, "folder of peaks and masks"), (HEART, "folder of heart.tif")):
        parser.add_argument(f"--{name}", type=Path, default=DATA / name, help=text)
    options = parser.parse_args(arguments)
    unknown = set(options.names) - set(names)
    if unknown:
        parser.error(f"{', '.join(sorted(unknown))} is no picture; choose of {', '.join(names)}.")
    FOLDER.mkdir(parents=True, exist_ok=True)
    fod = None
    for picture in PICTURES:
        if options.names and picture.name not in options.names:
            continue
        given: Any = None if picture.needs == NOTHING else getattr(options, picture.needs)
        if given is not None and not given.exists():
            print(f"{picture.name}: left as it is, {given} does not exist")
            continue
        if picture.needs == BRAIN:
            given = fod = fod or nt.load_fod(given)
        path = make(picture, given)
        print(f"{path.relative_to(ROOT)}: {path.stat().st_size / 1000:.0f} kB")
    (FOLDER / "index.md").write_text(page(), "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
