"""Pages without a browser: what is in the file, what it allows, and what is refused."""

from __future__ import annotations

import base64
import hashlib
import html.parser
import json
import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from reading import ReadPage

from napari_tractography.cli import main
from napari_tractography.errors import (
    FileError,
    InvalidParameterError,
    InvalidTractogramError,
    TractographyError,
)
from napari_tractography.geometry.grid import Grid
from napari_tractography.pages.page import PageBundle, PageVolume, save_page
from napari_tractography.recipes.project import Project
from napari_tractography.streamlines.tractogram import Tractogram

ROOT = Path(__file__).resolve().parents[2]
HOSTILE = "</script><script>document.title='run'</script><img src=x onerror=alert(1)>&amp; {{data}}"
BROWSER_ELEMENTS = {
    "html", "head", "meta", "title", "style", "body", "main", "canvas", "span", "p", "aside", "h1",
    "h2", "input", "label", "li", "output", "ul", "div", "details", "summary", "dl", "button",
    "pre", "script",
}  # fmt: skip


def walks(n: int, n_points: int = 150, *, step_mm: float = 0.5, seed: int = 0) -> Tractogram:
    """Streamlines that turn as probabilistic ones do, some 10 degrees a step."""
    random = np.random.default_rng(seed)
    lines = []
    for _ in range(n):
        ways = np.cumsum(random.normal(0, 0.12, (n_points, 3)), axis=0) + random.normal(0, 1, 3)
        ways *= step_mm / np.linalg.norm(ways, axis=1, keepdims=True)
        lines.append(np.cumsum(ways, axis=0) + random.normal(0, 20, 3))
    return Tractogram.from_streamlines(lines)


def lines_of(tractogram: Tractogram) -> list[Any]:
    return np.split(tractogram.points, tractogram.offsets[1:-1])


def matched(found: list[Any], wanted: list[Any]) -> list[int]:
    """Which of the streamlines that are wanted each one is, within half a step of 0.05 mm."""
    numbers = []
    for line in found:
        alike = [
            number
            for number, other in enumerate(wanted)
            if len(other) == len(line) and np.abs(other - line).max() < 0.025 + 1e-5
        ]
        assert len(alike) == 1
        numbers += alike
    return numbers


def test_points_are_there_to_half_a_step_and_each_streamline_once(tmp_path: Path) -> None:
    many, odd = walks(40), Tractogram.from_streamlines([[[1, 2, 3]], [[0, 0, 0], [90, -90.02, 90]]])
    save_page(tmp_path / "a.html", [PageBundle("many", many), PageBundle("odd", odd)])
    page = ReadPage(tmp_path / "a.html")
    assert page.content["step_mm"] == 0.05
    assert sorted(matched(page.streamlines(0), lines_of(many))) == list(range(40))
    assert matched(page.streamlines(1), lines_of(odd)) == [1]  # one point is no line


def test_the_first_streamlines_are_an_even_part_of_all(tmp_path: Path) -> None:
    many = walks(90, 4)
    save_page(tmp_path / "a.html", [PageBundle("many", many)])
    first = matched(ReadPage(tmp_path / "a.html").streamlines(0), lines_of(many))[:30]
    assert np.histogram(first, bins=3, range=(0, 90))[0].tolist() == pytest.approx([10] * 3, abs=2)


def test_every_takes_so_many_fewer_and_says_how_many_there_are(tmp_path: Path) -> None:
    many = walks(20, 5)
    save_page(tmp_path / "a.html", [PageBundle("many", many)], every=3)
    page = ReadPage(tmp_path / "a.html")
    found = matched(page.streamlines(0), lines_of(many))
    assert sorted(found) == [0, 3, 6, 9, 12, 15, 18]
    assert page.content["bundles"][0]["n_all"] == 20


@pytest.mark.parametrize(("scale", "step_mm"), [(1e-3, 1e-3), (1, 0.05), (1e4, 0.05)])
def test_steps_are_as_fine_as_what_is_small_takes_and_fit_16_bits(
    tmp_path: Path, scale: float, step_mm: float
) -> None:
    points = np.array([[0, 0, 0], [0.1, 0.2, 0.3], [1, 1, 1]]) * scale
    save_page(tmp_path / "a.html", [PageBundle("one", Tractogram.from_streamlines([points]))])
    page = ReadPage(tmp_path / "a.html")
    (line,) = page.streamlines(0)
    used = page.content["step_mm"]
    assert used <= max(step_mm, scale / 65_000)
    assert np.abs(line - points).max() <= used / 2 * 1.01
    assert (line.max(axis=0) - line.min(axis=0)).max() / used <= 65_535


def test_colours_go_with_their_points(tmp_path: Path) -> None:
    many = walks(12, 6)
    rgb = np.random.default_rng(1).integers(0, 256, (many.n_points, 3)).astype(np.uint8)
    save_page(tmp_path / "a.html", [PageBundle("many", many, rgb, meaning="By chance.")], every=2)
    page = ReadPage(tmp_path / "a.html")
    numbers = matched(page.streamlines(0), lines_of(many))
    wanted = np.concatenate([np.split(rgb, many.offsets[1:-1])[number] for number in numbers])
    assert np.array_equal(page.colours(0), wanted)
    assert page.content["bundles"][0]["meaning"] == "By chance."


def test_a_volume_is_turned_to_ras_cropped_to_the_body_and_windowed(tmp_path: Path) -> None:
    values = np.zeros((12, 14, 16), np.float32)
    values[2:9, 3:12, 4:14] = np.linspace(50, 100, 7)[:, None, None]
    values[11, 0, 0] = 100  # a speck
    affine = np.diag([-2.0, 2, 2, 1])
    affine[:3, 3] = [20, -10, -14]  # x runs to the left
    volume = PageVolume(
        "T1", values, Grid(values.shape, affine), (0.0, 100.0), point_mm=(10.0, 0.0, 2.0)
    )
    save_page(tmp_path / "a.html", [PageBundle("one", walks(2))], volume=volume)
    page = ReadPage(tmp_path / "a.html")
    found, shades = page.content["volume"], page.voxels()
    assert shades.shape == (7, 9, 10)
    assert shades[:, 4, 4] == pytest.approx(2.55 * np.linspace(100, 50, 7), abs=0.51)
    assert np.allclose(found["affine"], [[2, 0, 0, 4], [0, 2, 0, -4], [0, 0, 2, -6], [0, 0, 0, 1]])
    assert found["at"] == [3, 2, 4]


def test_a_large_volume_is_made_coarser_where_it_lies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("napari_tractography.pages.slices.MOST_VOXELS", 1000)
    values = np.ones((20, 20, 20)) * np.linspace(1, 2, 20)
    volume = PageVolume("T1", values, Grid(values.shape, np.eye(4)), (0.0, 2.0))
    save_page(tmp_path / "a.html", [PageBundle("one", walks(2))], volume=volume)
    page = ReadPage(tmp_path / "a.html")
    assert page.voxels().shape == (10, 10, 10)
    assert np.allclose(np.diag(page.content["volume"]["affine"]), [2, 2, 2, 1])
    assert np.allclose(np.array(page.content["volume"]["affine"])[:3, 3], 0.5)


def test_a_body_in_two_parts_is_shown_whole_and_what_it_surrounds(tmp_path: Path) -> None:
    values = np.zeros((30, 24, 8))
    values[1:12, 4:20, 1:7] = values[18:29, 4:20, 1:7] = 1.0
    values[5:8, 9:15, 1:7] = 0.0
    volume = PageVolume("two", values, Grid(values.shape, np.eye(4)))
    save_page(tmp_path / "a.html", [PageBundle("one", walks(2))], volume=volume)
    seen = ReadPage(tmp_path / "a.html").voxels()[:, 8, 3] > 0
    assert seen.tolist() == [True] * 11 + [False] * 6 + [True] * 11


def test_a_volume_without_contrast_is_shown_whole(tmp_path: Path) -> None:
    values = np.zeros((4, 5, 6))
    volume = PageVolume("flat", values, Grid(values.shape, np.eye(4)))
    save_page(tmp_path / "a.html", [PageBundle("one", walks(2))], volume=volume)
    assert ReadPage(tmp_path / "a.html").voxels().shape == (4, 5, 6)


# ------------------------------------------------------------------------------ what it may run


class Elements(html.parser.HTMLParser):
    """Which elements a browser finds, and the text of the title."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.title = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        if self.found and self.found[-1][0] == "title" and not self.title:
            self.title = data


@pytest.fixture
def hostile(tmp_path: Path) -> str:
    """The text of a page all of whose names are markup."""
    project = Project()
    many = walks(3)
    many.save(tmp_path / "b.tck")
    project.add(HOSTILE, tmp_path / "b.tck")
    volume = PageVolume(HOSTILE, np.ones((3, 3, 3)), Grid((3, 3, 3), np.eye(4)))
    save_page(
        tmp_path / "a.html",
        [PageBundle(HOSTILE, many, meaning=HOSTILE)],
        volume=volume,
        project=project,
        title=HOSTILE,
        caption=HOSTILE,
    )
    return (tmp_path / "a.html").read_text("utf-8")


def test_names_are_text(hostile: str) -> None:
    elements = Elements(hostile)
    assert {tag for tag, _ in elements.found} <= BROWSER_ELEMENTS
    assert elements.title == HOSTILE
    assert not [attrs for _, attrs in elements.found if "onerror" in attrs or "src" in attrs]
    (content,) = re.findall(r'<script type="application/json" id="page">(.*?)</script>', hostile)
    page = json.loads(content)
    assert page["bundles"][0]["name"] == page["volume"]["name"] == HOSTILE
    assert json.loads(page["recipe"])["bundles"][0]["name"] == HOSTILE


@pytest.mark.skipif(sys.platform != "linux", reason="names are text on other disks")
def test_names_of_files_may_be_of_any_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    walks(3).save("\udcff.tck")  # as Python has the byte 0xff, which is no UTF-8
    assert main(["page", "\udcff.tck", "-o", "\udcfe.html", "--quiet"]) == 0
    written = Path("\udcfe.html").read_text("utf-8")
    assert Elements(written).title == r"\udcfe"
    (content,) = re.findall(r'<script type="application/json" id="page">(.*?)</script>', written)
    assert json.loads(content)["bundles"][0]["name"] == "\udcff"


def test_the_policy_allows_the_one_script_and_the_one_style(hostile: str) -> None:
    elements = Elements(hostile).found
    run = [attrs for tag, attrs in elements if tag == "script" and "type" not in attrs]
    assert run == [{}]
    (policy,) = [a["content"] for _, a in elements if a.get("http-equiv")]
    assert policy is not None
    rules = dict(rule.strip().split(" ", 1) for rule in policy.split(";"))
    for element, rule in (("script", "script-src"), ("style", "style-src")):
        (text,) = re.findall(rf"<{element}>(.*?)</{element}>", hostile, flags=re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert rules.pop(rule) == f"'sha256-{digest}'"
    assert set(rules.values()) == {"'none'"}
    assert {"default-src", "connect-src", "base-uri", "form-action"} == set(rules)


def test_nothing_in_the_script_would_end_it_or_be_changed_by_reading(hostile: str) -> None:
    (text,) = re.findall(r"<script>(.*?)</script>", hostile, flags=re.DOTALL)
    assert "document.createElement" in text
    for forbidden in ("<!--", "<script", "\r", "eval(", "new Function"):
        assert forbidden not in text


def test_our_script_writes_no_markup() -> None:
    text = (ROOT / "src/napari_tractography/pages/page.js").read_text("utf-8")
    assert "textContent" in text
    for forbidden in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "fetch("):
        assert forbidden not in text


# -------------------------------------------------------------------------------------- its size


def test_a_point_takes_two_bytes_at_most(tmp_path: Path) -> None:
    """So that six bundles of 5,000 streamlines of 150 points, 9 MB, leave 5 for a volume."""
    few, many = walks(1, 2), walks(200)
    sizes = [save_page(tmp_path / "a.html", [PageBundle("one", each)]) for each in (few, many)]
    assert (sizes[1] - sizes[0]) / many.n_points < 2.0
    assert sizes[0] < 900_000  # three.js, our script and the style


# -------------------------------------------------------------------------------- what is refused


@pytest.mark.parametrize(
    ("name", "options", "error", "words"),
    [
        ("a.txt", {}, FileError, "does not end in .html"),
        ("none/a.html", {}, FileError, "does not exist"),
        ("a.html", {"every": 0}, InvalidParameterError, "every = 0"),
        ("a.html", {"theme": "pink"}, InvalidParameterError, "'pink'"),
    ],
)
def test_what_is_impossible_is_refused(
    tmp_path: Path,
    name: str,
    options: dict[str, Any],
    error: type[TractographyError],
    words: str,
) -> None:
    (tmp_path / "a.html").write_text("older")
    with pytest.raises(error, match=words):
        save_page(tmp_path / name, [PageBundle("one", walks(1))], **options)
    assert [path.name for path in tmp_path.iterdir()] == ["a.html"]
    assert (tmp_path / "a.html").read_text() == "older"


def test_a_page_of_nothing_is_refused(tmp_path: Path) -> None:
    points = Tractogram.from_streamlines([[[0, 0, 0]]])
    for bundles in ([], [PageBundle("none", Tractogram.empty())], [PageBundle("dot", points)]):
        with pytest.raises(InvalidTractogramError, match="no streamlines to show"):
            save_page(tmp_path / "a.html", bundles)
    assert not list(tmp_path.iterdir())


def test_a_bundle_that_no_browser_draws_is_refused_with_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("napari_tractography.pages.page.MOST_POINTS", 100)
    with pytest.raises(InvalidTractogramError, match="take every 3th streamline"):
        save_page(tmp_path / "a.html", [PageBundle("many", walks(3, 90))])
    save_page(tmp_path / "a.html", [PageBundle("many", walks(3, 90))], every=3)


def test_colours_that_are_none_are_refused() -> None:
    with pytest.raises(InvalidParameterError, match="'reddish'"):
        PageBundle("one", walks(1), "reddish")
    with pytest.raises(InvalidParameterError, match="one for each point"):
        PageBundle("one", walks(1), np.zeros((3, 3), np.uint8))


# ------------------------------------------------------------------------------------ the command


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with a.tck, b.tck and a project of both."""
    monkeypatch.chdir(tmp_path)
    walks(10, 20).save("a.tck")
    walks(6, 30, seed=1).save("b.tck")
    project = Project()
    project.add("first", "a.tck", colour="length")
    project.add("second", "b.tck", colour="orange", visible=False)
    project.bundles["second"].look = {"display": {"width": 3.5, "opacity": 0.5}}
    project.save("study.tracts.json")
    return tmp_path


def test_a_project_is_shown_as_it_looks(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["page", "study.tracts.json", "-o", "page.html", "--title", "Two"]) == 0
    assert capsys.readouterr().out.startswith("16 streamlines of 2 bundles, 0.8 MB")
    first, second = ReadPage(folder / "page.html").content["bundles"]
    assert (first["name"], first["colour"], first["visible"]) == ("first", "points", True)
    assert first["meaning"].startswith("Colours: length, ")
    assert (second["colour"], second["visible"]) == ("#ffa500", False)
    assert (second["width"], second["opacity"]) == (3.5, 0.5)


def test_the_recipe_in_a_page_makes_the_bundles_again(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["page", "a.tck", "b.tck", "-o", "page.html", "--every", "2", "--quiet"]) == 0
    page = ReadPage(folder / "page.html").content
    assert page["recipe_name"] in page["again"]
    (folder / page["recipe_name"]).write_text(page["recipe"], "utf-8")
    assert main(["replay", page["recipe_name"]]) == 0
    assert capsys.readouterr().out.count("the same as the project's") == 2
    digests = [bundle["digest"] for bundle in page["bundles"]]
    assert digests == [walks(10, 20).digest(), walks(6, 30, seed=1).digest()]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["none.tck", "-o", "page.html"], "none.tck does not exist"),
        (["a.tck", "-o", "page.htm"], "does not end in .html"),
        (["a.tck", "-o", "page.html", "--every", "0"], "--every = 0"),
        (["a.tck", "-o", "page.html", "--volume", "none.nii"], "none.nii does not exist"),
        (["a.tck", "study.tracts.json", "-o", "page.html"], "shown alone"),
        (["a.tck", "a.tck", "-o", "page.html"], "given twice"),
    ],
)
def test_the_command_says_what_is_wrong_and_writes_nothing(
    folder: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], words: str
) -> None:
    before = sorted(path.name for path in folder.iterdir())
    assert main(["page", *arguments]) == 2
    message = capsys.readouterr().err
    assert words in message
    assert message.count("\n") == 1
    assert sorted(path.name for path in folder.iterdir()) == before


# ----------------------------------------------------------------------------------- the library


@pytest.fixture(scope="module")
def script(load_script: Any) -> ModuleType:
    return load_script("three")


def test_the_library_is_the_pinned_one_with_its_licence(script: ModuleType) -> None:
    kept = script.KEPT.read_bytes()
    assert hashlib.sha256(kept).hexdigest() == script.SHA256
    assert f'"{script.VERSION.split(".")[1]}"'.encode() in kept[:500]
    assert "MIT License" in script.LICENCE.read_text("utf-8")


def test_modules_are_joined_to_one_script(script: ModuleType) -> None:
    core = "const a=1,b=2;export{a as One,b as Two};"
    module = (
        'import{One as e}from"./three.core.min.js";'
        'export{Two}from"./three.core.min.js";const x=e+1;export{x as Sum,e as One};'
    )
    joined = script.joined(core, module)
    assert "const{One:e}=core;" in joined
    assert "return{...core,Sum:x,One:e};" in joined
    assert "import" not in joined
    assert "export" not in joined
    with pytest.raises(SystemExit, match="not written as they were"):
        script.joined("const a=1;", module)
