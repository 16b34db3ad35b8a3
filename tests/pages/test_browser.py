"""Pages in a real browser, without a network: what it shows, allows and says."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from browser import PATIENCE_S, Browser, why_none
from numpy.typing import NDArray
from scipy.ndimage import binary_erosion

from napari_tractography.geometry.grid import Grid
from napari_tractography.pages.page import Camera, PageBundle, PageVolume, save_page
from napari_tractography.streamlines.tractogram import Tractogram

pytestmark = pytest.mark.skipif(bool(why_none()), reason=why_none() or "there is one")

HOSTILE = (
    "</script><script>document.title='run'</script><img src=x onerror=\"document.title='run'\">"
)
NO_WEBGL = """
const before = HTMLCanvasElement.prototype.getContext;
HTMLCanvasElement.prototype.getContext = function (kind, ...rest) {
  return kind.startsWith("webgl") ? null : before.call(this, kind, ...rest);
};"""
# From above: x to the right, y up, 100 mm from the top to the bottom of the canvas.
ABOVE = Camera((0.0, 0.0, 0.0), (0.0, 0.0, -1.0), (0.0, 1.0, 0.0), 100.0)
RED, GREEN = "#ff0000", "#00ff00"


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    opened = Browser(tmp_path_factory.mktemp("browser"))
    yield opened
    opened.close()


def straight(*ends: tuple[float, float, float]) -> Tractogram:
    """One straight streamline of 41 points."""
    return Tractogram.from_streamlines([np.linspace(*ends, 41)])


# A red one to the right of the middle, along y; a green one above the middle, along x.
UPRIGHT = straight((20, -30, 0), (20, 30, 0))
LEVEL = straight((-30, 40, 0), (30, 40, 0))


@pytest.fixture
def written(tmp_path: Path) -> Path:
    """A page of both, and a volume whose slice across z is grey where x < 0."""
    values = np.zeros((20, 40, 20), np.float32)
    values[2:10, 2:38, 2:18] = 128.0
    affine = np.diag([2.0, 2.0, 2.0, 1.0])
    affine[:3, 3] = [-20, -40, -20]
    volume = PageVolume(
        "T1", values, Grid(values.shape, affine), (0.0, 255.0), are_visible=(False, False, True)
    )
    save_page(
        tmp_path / "page.html",
        [PageBundle("upright", UPRIGHT, RED, width=4), PageBundle("level", LEVEL, GREEN, width=4)],
        volume=volume,
        title="Two lines",
        camera=ABOVE,
        theme="dark",
    )
    return tmp_path / "page.html"


def canvas(browser: Browser) -> NDArray[np.int64]:
    """What is on the canvas now, (height, width, 3)."""
    width, height = browser.evaluate("[canvas.clientWidth, canvas.clientHeight]")
    return browser.picture()[:height, :width].astype(np.int64)


def place_of(
    browser: Browser, mask: Callable[[NDArray[np.int64]], NDArray[np.bool_]]
) -> list[float]:
    """The box of the pixels of a colour: left, right, bottom, top, in mm from the middle."""
    picture = canvas(browser)
    rows, columns = np.nonzero(mask(picture))
    assert len(rows), "nothing of this colour is seen"
    height, width = picture.shape[:2]
    x = (np.array([columns.min(), columns.max() + 1]) - width / 2) * 100 / height
    y = (height / 2 - np.array([rows.max() + 1, rows.min()])) * 100 / height
    return [*x.tolist(), *y.tolist()]


def red(picture: NDArray[np.int64]) -> NDArray[np.bool_]:
    return np.asarray((picture[..., 0] > 60) & (picture[..., 1:].max(axis=-1) < 30))


def green(picture: NDArray[np.int64]) -> NDArray[np.bool_]:
    return np.asarray((picture[..., 1] > 60) & (picture[..., ::2].max(axis=-1) < 30))


def grey(picture: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Where it is so all around, as beside letters it is not."""
    return np.asarray(binary_erosion((np.abs(picture - 128) < 4).all(axis=-1), iterations=2))


def changed(browser: Browser, expression: str, wanted: object = True) -> None:
    """Wait until an expression has a value."""
    ended = time.monotonic() + PATIENCE_S
    while browser.evaluate(expression) != wanted:
        assert time.monotonic() < ended, browser.evaluate(expression)
        time.sleep(0.05)


def at_rest(browser: Browser) -> None:
    """Wait until what was asked for is drawn, and all of it."""
    frame = "new Promise((done) => requestAnimationFrame(done))"
    browser.evaluate("new Promise((done) => setTimeout(done, 400))")
    browser.evaluate(f"{frame}.then(() => {frame})")


def test_lines_and_slices_are_where_they_belong_and_nothing_is_asked_for(
    browser: Browser, written: Path
) -> None:
    assert browser.open(written) == "ready"
    assert browser.evaluate("document.getElementById('status').hidden")
    at_rest(browser)
    assert place_of(browser, red) == pytest.approx([19.5, 20.5, -30, 30], abs=1.0)
    assert place_of(browser, green) == pytest.approx([-30, 30, 39.5, 40.5], abs=1.0)
    assert place_of(browser, grey) == pytest.approx([-17, -1, -37, 35], abs=1.0)
    assert [browser.text(edge) for edge in ("left", "right", "bottom", "top")] == list("LRPA")
    assert browser.evaluate("document.title") == "Two lines"
    assert browser.requests == [written.as_uri()]
    assert browser.complaints == []


def test_a_drag_turns_keys_turn_and_reset_comes_back(browser: Browser, written: Path) -> None:
    browser.open(written)
    at_rest(browser)
    first = canvas(browser)
    height, width = first.shape[:2]
    browser.drag((width // 2, height // 2 + 125), (width // 2, height // 2 - 125))
    changed(browser, "document.getElementById('top').textContent !== 'A'")
    at_rest(browser)
    turned = canvas(browser)
    assert (np.abs(turned - first).max(axis=-1) > 40).mean() > 0.002
    browser.press("r")
    changed(browser, "document.getElementById('top').textContent", "A")
    at_rest(browser)
    assert np.array_equal(canvas(browser)[4:-4, 4:-4], first[4:-4, 4:-4])  # without the focus
    for _ in range(18):  # of 5 degrees
        browser.press("ArrowRight")
    changed(browser, "document.getElementById('right').textContent !== 'R'")
    browser.press("R")
    browser.press("+")
    at_rest(browser)
    assert place_of(browser, red)[0] == pytest.approx(1.1 * 19.5, abs=1.2)


def test_eyes_hide_and_show_and_the_background_changes(browser: Browser, written: Path) -> None:
    browser.open(written)
    browser.evaluate("document.querySelectorAll('#bundles .eye')[0].click()")
    at_rest(browser)
    assert not red(canvas(browser)).any()
    assert green(canvas(browser)).any()
    browser.press("1")
    browser.press("2")
    at_rest(browser)
    assert red(canvas(browser)).any()
    assert not green(canvas(browser)).any()
    assert canvas(browser)[2, 2].tolist() == [0, 0, 0]
    browser.press("d")
    at_rest(browser)
    assert canvas(browser)[2, 2].tolist() == [255, 255, 255]


def fingers(browser: Browser, *places: list[tuple[float, float]]) -> None:
    """Put fingers on the canvas, move them from place to place, and lift them."""
    for number, place in enumerate(places):
        points = [{"x": x, "y": y, "id": k} for k, (x, y) in enumerate(place)]
        kind = "touchMove" if number else "touchStart"
        browser.call("Input.dispatchTouchEvent", type=kind, touchPoints=points)
    browser.call("Input.dispatchTouchEvent", type="touchEnd", touchPoints=[])


def test_one_finger_turns_two_move_and_zoom(browser: Browser, written: Path) -> None:
    browser.call("Emulation.setTouchEmulationEnabled", enabled=True, maxTouchPoints=2)
    browser.open(written)
    at_rest(browser)
    height, width = canvas(browser).shape[:2]
    x, y, mm = width / 2, height / 2, height / 100
    fingers(browser, [(x, y)], [(x + 314, y)])  # a quarter of a turn: 200 pixels are a radian
    at_rest(browser)
    assert place_of(browser, red) == pytest.approx([-0.5, 0.5, -30, 30], abs=1.0)
    browser.press("r")
    fingers(browser, [(x - 80, y), (x + 80, y)], [(x - 40, y), (x + 40, y)])
    at_rest(browser)
    assert place_of(browser, red) == pytest.approx([9.75, 10.25, -15, 15], abs=1.0)
    browser.press("r")
    up = 10 * mm
    fingers(browser, [(x - 80, y), (x + 80, y)], [(x - 80, y - up), (x + 80, y - up)])
    at_rest(browser)
    assert place_of(browser, red) == pytest.approx([19.5, 20.5, -20, 40], abs=1.0)
    browser.press("r")
    fingers(browser, [(x - 80, y), (x + 80, y)], [(x, y - 80), (x, y + 80)])
    at_rest(browser)
    assert place_of(browser, red) == pytest.approx([-30, 30, -20.5, -19.5], abs=1.0)
    browser.call("Emulation.setTouchEmulationEnabled", enabled=False)


def test_it_fills_the_screen_and_comes_back(browser: Browser, written: Path) -> None:
    browser.open(written)
    is_full, list_shown = "document.fullscreenElement !== null", "getComputedStyle(aside).display"
    aside = "const aside = document.querySelector('aside'); "
    browser.press("f")
    changed(browser, is_full)
    assert browser.evaluate(aside + list_shown) == "none"
    browser.press("f")
    changed(browser, is_full, False)
    assert browser.evaluate(f"{{ {aside} {list_shown} }}") == "block"


@pytest.mark.parametrize(("scheme", "shade"), [("dark", 0), ("light", 255)])
def test_by_default_it_is_dark_where_the_browser_is(
    browser: Browser, tmp_path: Path, scheme: str, shade: int
) -> None:
    save_page(tmp_path / "page.html", [PageBundle("upright", UPRIGHT, RED)], camera=ABOVE)
    media = [{"name": "prefers-color-scheme", "value": scheme}]
    browser.call("Emulation.setEmulatedMedia", features=media)
    browser.open(tmp_path / "page.html")
    at_rest(browser)
    browser.call("Emulation.setEmulatedMedia", features=[])
    assert canvas(browser)[2, 2].tolist() == [shade] * 3
    (aside,) = browser.picture()[-3:, -20:-19].mean(axis=0).tolist()
    assert (np.mean(aside) < 128) == (scheme == "dark")


def test_a_slice_is_moved_and_hidden(browser: Browser, written: Path) -> None:
    browser.open(written)
    browser.evaluate("document.querySelectorAll('#slices .eye')[0].click()")  # across x, at 0 R
    slider = "document.querySelectorAll('#slices input')[2]"
    told = "document.querySelectorAll('#slices output')[2].textContent"
    assert browser.evaluate(told) == "0 S"
    browser.evaluate(f"{slider}.value = 0; {slider}.dispatchEvent(new Event('input'))")
    assert browser.evaluate(told) == "16 I"
    browser.evaluate("document.querySelectorAll('#slices .eye')[2].click()")
    at_rest(browser)
    assert not grey(canvas(browser)).any()  # the other is seen from its edge


def test_a_screenshot_is_a_picture_of_what_is_seen(browser: Browser, written: Path) -> None:
    browser.open(written)
    browser.evaluate("""
        HTMLAnchorElement.prototype.click = function () {
          window.saved = [this.download, this.href];
        };
    """)
    browser.press("s")
    changed(browser, "Boolean(window.saved)")
    assert browser.evaluate("window.saved[0]") == "tractography.png"
    assert browser.evaluate("window.saved[1].startsWith('blob:')")


def test_names_are_text_and_no_other_script_runs(browser: Browser, tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    save_page(path, [PageBundle(HOSTILE, UPRIGHT, meaning=HOSTILE)], title="mine", caption=HOSTILE)
    assert browser.open(path) == "ready"
    assert browser.evaluate("document.querySelector('#bundles .name').textContent") == HOSTILE
    assert browser.text("caption") == HOSTILE
    assert browser.evaluate("document.images.length") == 0
    assert browser.complaints == []
    browser.evaluate("""
        const script = document.createElement("script");
        script.textContent = "document.title = 'run'";
        document.body.append(script);
    """)
    assert browser.evaluate("document.title") == "mine"
    assert (
        browser.evaluate("fetch('data:text/plain,x').then(() => 'got', () => 'refused')")
        == "refused"
    )
    assert len(browser.complaints) >= 2
    assert browser.requests[1:] == []


def test_a_file_that_is_cut_short_says_so(browser: Browser, written: Path, tmp_path: Path) -> None:
    text = written.read_text("utf-8")
    for cut, words in (
        (len(text) - 60, "cut short"),
        (text.index('id="data-1"') + 40, "cut short"),
        (text.index('id="page"') + 100, "cut short"),
    ):
        short = tmp_path / "short.html"
        short.write_text(text[:cut], "utf-8")
        assert browser.open(short) == "failed"
        assert words in browser.text("status")
    short.write_text(text[: text.index("</script>") // 2], "utf-8")  # where no script runs
    browser.call("Page.navigate", url=short.as_uri())
    changed(browser, "document.readyState", "complete")
    assert "cut short" in browser.text("status")


def test_data_that_are_damaged_are_named(browser: Browser, written: Path) -> None:
    text = written.read_text("utf-8")
    start = text.index('id="data-3">') + len('id="data-3">')
    written.write_text(text[: start + 4] + "AAAA" + text[start + 8 :], "utf-8")
    assert browser.open(written) == "failed"
    assert browser.text("status").startswith("level cannot be shown")


def test_without_webgl_it_is_a_still_picture_of_the_same(browser: Browser, written: Path) -> None:
    assert browser.open(written, before=NO_WEBGL) == "still"
    assert browser.text("status").count(".") == 1
    assert "without WebGL" in browser.text("status")
    browser.evaluate("document.getElementById('status').hidden = true")
    at_rest(browser)
    assert place_of(browser, red) == pytest.approx([19.5, 20.5, -30, 30], abs=1.0)
    assert place_of(browser, green) == pytest.approx([-30, 30, 39.5, 40.5], abs=1.0)
    assert place_of(browser, grey) == pytest.approx([-17, -1, -37, 35], abs=1.0)
    assert browser.complaints == []


def test_each_point_has_its_colour_and_directions_have_theirs(
    browser: Browser, tmp_path: Path
) -> None:
    rgb = np.repeat(np.array([[255, 0, 0], [0, 255, 0]], np.uint8), [20, 21], axis=0)
    bundles = [PageBundle("by point", UPRIGHT, rgb, width=4), PageBundle("by direction", LEVEL)]
    save_page(tmp_path / "page.html", bundles, camera=ABOVE, theme="dark")
    assert browser.open(tmp_path / "page.html") == "ready"
    at_rest(browser)
    assert place_of(browser, green) == pytest.approx([19.5, 20.5, 0, 30], abs=1.6)
    picture = canvas(browser)
    half = len(picture) // 2
    lower = np.where(np.arange(len(picture))[:, None, None] >= half, picture, 0)
    upper = picture - lower
    assert red(lower).sum() > 100
    assert red(upper).sum() > 100  # along x
    assert not red(upper[: half // 10]).any()


FAST = """
const now = performance.now.bind(performance);
performance.now = () => 1e6 + now() / 1000;"""
SLOW = """
const now = performance.now.bind(performance), before = WebGL2RenderingContext.prototype.readPixels;
let late = 0;
performance.now = () => now() + late;
WebGL2RenderingContext.prototype.readPixels = function (...rest) {
  before.apply(this, rest);
  late += 1000;
};"""


def test_where_drawing_is_slow_a_part_is_drawn_and_that_is_said(
    browser: Browser, tmp_path: Path
) -> None:
    """Of two browsers, to which pictures seem to have taken no time, or a second each."""
    levels = [straight((-30, y, 0), (30, y, 0)) for y in np.linspace(-40, 40, 500)]
    lines = Tractogram.from_streamlines(
        [line for each in levels for line in each for _ in range(16)]
    )
    save_page(tmp_path / "page.html", [PageBundle("many", lines, RED)], camera=ABOVE)
    assert browser.open(tmp_path / "page.html", before=FAST) == "ready"
    at_rest(browser)
    assert browser.text("status") == ""
    browser.open(tmp_path / "page.html", before=SLOW)
    at_rest(browser)
    n_drawn = 60 * 5000
    part = f"{np.ceil(100 * n_drawn / (lines.n_points - 1)):.0f} %"
    assert f"draws slowly, so that {part} of the streamlines are seen" in browser.text("status")
    browser.press("1")  # of nothing all is drawn
    changed(browser, "document.getElementById('status').hidden")
