"""The gallery: its page shows every picture that there is, and the pictures are small."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import imageio.v3 as imageio
import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[1]
LARGEST = 300_000  # bytes


@pytest.fixture(scope="module")
def gallery() -> ModuleType:
    """scripts/gallery.py as a module."""
    sys.path.insert(0, str(ROOT / "scripts"))  # as when it is run
    spec = importlib.util.spec_from_file_location("gallery_script", ROOT / "scripts" / "gallery.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look it up
    spec.loader.exec_module(module)
    return module


def test_the_page_shows_every_picture(gallery: ModuleType) -> None:
    assert (gallery.FOLDER / "index.md").read_text("utf-8") == gallery.page(), "run `make gallery`"
    shown = {f"{picture.name}.jpg" for picture in gallery.PICTURES}
    assert {path.name for path in gallery.FOLDER.glob("*.jpg")} == shown


def test_pictures_are_small_and_not_black(gallery: ModuleType) -> None:
    paths = list(gallery.FOLDER.glob("*.jpg"))
    assert paths
    for path in paths:
        assert path.stat().st_size < LARGEST, path.name
        bright = imageio.imread(path).max(axis=2) > 100
        assert bright.mean() > 0.02, path.name


def test_a_picture_is_cut_to_what_is_drawn(gallery: ModuleType) -> None:
    canvas = gallery.canvas
    picture = np.zeros((40, 60, 3), np.uint8)
    picture[10:20, 30:50, 1] = 200
    assert canvas.drawn_box(picture) == ((10, 20), (30, 50))
    assert canvas.smaller(picture).shape == (20, 30, 3)
    np.testing.assert_array_equal(canvas.smaller(picture)[5:10, 15:25, 1], 200)


def test_a_picture_that_there_is_not_is_refused(
    gallery: ModuleType, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        gallery.main(["sunset"])
    assert "sunset is no picture; choose of brain" in capsys.readouterr().err
