"""Tracking in a page: the same streamlines as the CPU's, whatever a reader drags."""

from __future__ import annotations

import dataclasses
import json
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nibabel as nib
import numpy as np
import pytest
from browser import PATIENCE_S, Browser, why_none
from reading import ReadPage

import napari_tractography as nt
from napari_tractography.cli import main
from napari_tractography.errors import InvalidParameterError
from napari_tractography.model.phantoms import make_phantom, phantom_seeds_mm
from napari_tractography.model.regions import Region
from napari_tractography.model.tissues import Tissues
from napari_tractography.pages.live import live_of
from napari_tractography.pages.page import PageBundle, save_page
from napari_tractography.streamlines.tractogram import Tractogram
from napari_tractography.tracking.inputs import TrackingInput

ROOT = Path(__file__).resolve().parents[2]
in_browser = pytest.mark.skipif(bool(why_none()), reason=why_none() or "there is one")
TOLD = "document.getElementById('live-told')"


def inputs_of(lmax: int = 6, n: int = 40, **parameters: Any) -> TrackingInput:
    """One seed sphere in the phantom of arcs."""
    fod = make_phantom("arcs", lmax=lmax)
    seeds = nt.Seeds.in_sphere(phantom_seeds_mm("arcs")[0], 3.0, n)
    return TrackingInput(fod, seeds, nt.TrackingParameters.for_fod(fod, **parameters))


def tracked(inputs: TrackingInput, seeds: nt.Seeds | None = None) -> Tractogram:
    return nt.track(
        inputs.fod,
        seeds or inputs.seeds,
        inputs.parameters,
        regions=inputs.regions,
        include_rule=inputs.include_rule,
        tissues=inputs.tissues,
        backend="cpu",
    )


def written(path: Path, inputs: TrackingInput) -> Tractogram:
    """Write a page that tracks an input; return what the CPU tracks."""
    lines = tracked(inputs)
    bundle = PageBundle("arc", lines, "#ff0000")
    save_page(path, [bundle], live=("arc", live_of(inputs, lines)), theme="dark")
    return lines


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    opened = Browser(tmp_path_factory.mktemp("browser"))
    yield opened
    opened.close()


def digest_of(browser: Browser) -> str:
    """The digest of what the page has tracked, once it has."""
    ended = time.monotonic() + PATIENCE_S
    while not (found := browser.evaluate(f"{TOLD}.dataset.digest")):
        assert time.monotonic() < ended, browser.evaluate(f"{TOLD}.textContent")
        time.sleep(0.05)
    return str(found)


@in_browser
@pytest.mark.parametrize(
    ("lmax", "parameters"),
    [
        pytest.param(8, {}, id="lmax 8"),
        pytest.param(4, {}, id="lmax 4"),
        pytest.param(10, {}, id="lmax 10"),
        pytest.param(12, {}, id="lmax 12"),
        pytest.param(6, {"interpolation": "nearest"}, id="nearest"),
        pytest.param(6, {"algorithm": "sd_stream"}, id="sd_stream"),
        pytest.param(6, {"algorithm": "ifod2"}, id="ifod2"),
        pytest.param(6, {"algorithm": "deterministic"}, id="deterministic"),
        pytest.param(6, {"algorithm": "transport"}, id="transport"),
        pytest.param(6, {"algorithm": "diffusion"}, id="diffusion"),
        pytest.param(6, {"algorithm": "diffusion", "adaptive": True}, id="diffusion, adaptive"),
        pytest.param(6, {"min_probability": 0.005, "record_every": 3}, id="threshold"),
    ],
)
def test_a_page_tracks_the_streamlines_of_the_cpu(
    browser: Browser, tmp_path: Path, lmax: int, parameters: dict[str, Any]
) -> None:
    lines = written(tmp_path / "page.html", inputs_of(lmax, **parameters))
    assert len(lines)
    assert browser.open(tmp_path / "page.html") == "ready"
    assert digest_of(browser) == lines.digest()
    assert "the same as the recipe's" in browser.text("live-told")
    assert browser.complaints == []
    # The page, and the worker that it makes of its own text.
    assert [request.partition(":")[0] for request in browser.requests] == ["file", "blob"]


def layers(fod: nt.Fod) -> Tissues:
    """Tissues on a grid of 1 mm, in steps upwards: what the arch goes through.

    ::

        cortex | deep | white | cortex
        below  | -28  |  -24  |   22 mm
    """
    affine = np.diag([1.0, 1.0, 1.0, 1.0])
    affine[:3, 3] = fod.grid.affine[:3, 3]
    z_mm = affine[2, 3] + np.arange(64.0)
    kinds = np.select([z_mm < -28, z_mm < -24, z_mm < 22], [0, 1, 2], 0)
    fractions = np.zeros((96, 96, 64, 5), np.float32)
    fractions[..., np.arange(64), kinds] = 1.0
    return Tissues(0.5 * (fractions + np.roll(fractions, 1, axis=2)), affine)


def boxed(fod: nt.Fod, role: str, low_mm: Any, high_mm: Any) -> Region:
    """A region of the voxels between two corners."""
    centres = np.moveaxis(np.indices(fod.grid.shape), 0, -1) @ fod.grid.affine[:3, :3].T
    centres += fod.grid.affine[:3, 3]
    inside = ((centres >= low_mm) & (centres <= high_mm)).all(axis=-1)
    return Region.mask(inside, fod.grid, role)


@in_browser
@pytest.mark.parametrize("crop", [False, True])
def test_tissues_are_there_around_the_bundle(browser: Browser, tmp_path: Path, crop: bool) -> None:
    inputs = inputs_of(n=60, crop_at_gmwmi=crop)
    with_tissues = dataclasses.replace(inputs, tissues=layers(inputs.fod))
    lines = written(tmp_path / "page.html", with_tissues)
    live = ReadPage(tmp_path / "page.html").content["live"]
    assert np.prod(live["tissues"]["size"]) < 0.4 * np.prod(live["tissues"]["shape"][:3])
    assert browser.open(tmp_path / "page.html") == "ready"
    assert digest_of(browser) == lines.digest() != tracked(inputs).digest()
    assert "the same as the recipe's" in browser.text("live-told")


@in_browser
def test_regions_of_all_roles_steer_streamlines(browser: Browser, tmp_path: Path) -> None:
    inputs = inputs_of(n=240)
    x, y, z = phantom_seeds_mm("arcs")[0]
    regions = (
        Region.sphere((x - 12, y + 1, z - 2), 2.5, "include"),
        boxed(inputs.fod, "include", (20, -20, -20), (60, 4, 10)),
        boxed(inputs.fod, "exclude", (30, 7, -60), (60, 60, 60)),
        Region.sphere((-39, y, -10), 2.0, "stop"),
        boxed(inputs.fod, "end", (-60, -60, -40), (60, 60, -22)),
    )
    steered = dataclasses.replace(inputs, regions=regions, include_rule="ordered")
    lines = written(tmp_path / "page.html", steered)
    for left_out in range(len(regions)):  # each matters
        rest = regions[:left_out] + regions[left_out + 1 :]
        assert tracked(dataclasses.replace(steered, regions=rest)).digest() != lines.digest()
    assert len(lines)
    browser.open(tmp_path / "page.html")
    assert digest_of(browser) == lines.digest()
    assert "the same as the recipe's" in browser.text("live-told")


@in_browser
@pytest.mark.parametrize(
    "before",
    [
        pytest.param("delete window.Worker;", id="none"),
        pytest.param("window.Worker = class { constructor() { throw 0; } };", id="forbidden"),
        pytest.param(
            "const Before = Worker; window.Worker = class extends Before {"
            "constructor() { super('data:text/javascript,'); } };",
            id="policy",
        ),
    ],
)
def test_without_a_worker_the_page_itself_tracks(
    browser: Browser, tmp_path: Path, before: str
) -> None:
    lines = written(tmp_path / "page.html", inputs_of())
    assert browser.open(tmp_path / "page.html", before=before) == "ready"
    assert digest_of(browser) == lines.digest()
    assert not [request for request in browser.requests if request.startswith("blob:")]


ANSWERS = """
    window.answers = [];
    const Before = Worker;
    window.Worker = class extends Before {
      constructor(...rest) {
        super(...rest);
        this.addEventListener("message", ({ data }) => {
          if (data.id === 6 && !window.answers.some((answer) => answer.id === 6)) drag();
          window.answers.push(data);
        });
      }
    };
    function drag() {
      const ring = document.getElementById("seed");
      ring.setPointerCapture = () => {};
      const event = (name, x) => ring.dispatchEvent(new PointerEvent(name, { clientX: x }));
      event("pointerdown", 0);
      for (let x = 1; x < 6; x++) event("pointermove", x);
      event("pointerup", 5);
    }
    new MutationObserver(() => document.documentElement.dataset.state && drag()).observe(
      document, { attributes: true, subtree: true, attributeFilter: ["data-state"] });
"""


@in_browser
def test_the_newest_place_of_seeds_ends_the_work_for_those_before(
    browser: Browser, tmp_path: Path
) -> None:
    """Dragged by five moves at once, and by five again when the first streamlines are there."""
    inputs = inputs_of(n=2000)
    written(tmp_path / "page.html", inputs)
    browser.open(tmp_path / "page.html", before=ANSWERS)
    found = digest_of(browser)
    shift = np.array(json.loads(browser.evaluate("document.getElementById('seed').dataset.shift")))
    moved = nt.Seeds.at((inputs.seeds.positions_mm + shift).astype(np.float32))
    assert found == tracked(inputs, moved).digest()
    done = "window.answers.filter((answer) => answer.isDone).map((answer) => answer.id)"
    assert browser.evaluate(done) == [11]
    first, last = browser.evaluate(
        "(({ 0: a, length, [length - 1]: b }) => [a.n_lines, b.n_lines])"
        "(window.answers.filter((answer) => answer.id === 11))"
    )
    assert 0 < first < last  # a part at first, and all in the end


@in_browser
def test_seeds_that_are_dragged_give_what_the_cpu_gives_there(
    browser: Browser, tmp_path: Path
) -> None:
    inputs = inputs_of(n=60)
    lines = written(tmp_path / "page.html", inputs)
    browser.open(tmp_path / "page.html")
    assert digest_of(browser) == lines.digest()
    x, y = browser.evaluate(
        "(({ left, top, width }) => [left + width / 2, top + width / 2])"
        "(document.getElementById('seed').getBoundingClientRect())"
    )
    browser.drag((round(x), round(y)), (round(x) + 6, round(y) + 4))
    shift = np.array(json.loads(browser.evaluate("document.getElementById('seed').dataset.shift")))
    assert 0.2 < np.linalg.norm(shift) < 6
    moved = nt.Seeds.at((inputs.seeds.positions_mm + shift).astype(np.float32))
    found, wanted = digest_of(browser), tracked(inputs, moved)
    assert found == wanted.digest() != lines.digest()
    assert browser.text("live-told").startswith(f"{len(wanted)} streamlines tracked here, digest")
    eye = "document.querySelector('#bundles .eye').getAttribute('aria-pressed')"
    assert browser.evaluate(eye) == "false"
    browser.press("r")
    assert digest_of(browser) == lines.digest()
    assert browser.evaluate(eye) == "true"


@in_browser
def test_keys_move_seeds_that_have_the_focus(browser: Browser, tmp_path: Path) -> None:
    inputs = inputs_of()
    lines = written(tmp_path / "page.html", inputs)
    browser.open(tmp_path / "page.html")
    assert digest_of(browser) == lines.digest()
    kept, n = map(int, re.findall("[0-9]+", browser.text("left-out").replace(",", "")))
    assert 0 < kept < n == int((np.abs(inputs.fod.coefficients).max(axis=-1) > 0).sum())
    browser.evaluate("document.getElementById('seed').focus()")
    browser.press("ArrowLeft")
    shift = np.array(json.loads(browser.evaluate("document.getElementById('seed').dataset.shift")))
    moved = nt.Seeds.at((inputs.seeds.positions_mm + shift).astype(np.float32))
    assert digest_of(browser) == tracked(inputs, moved).digest() != lines.digest()


@in_browser
def test_parameters_that_are_moved_give_what_the_cpu_gives(
    browser: Browser, tmp_path: Path
) -> None:
    """At least where streamlines stay within the FOD that is in the page."""
    inputs = inputs_of(min_amplitude=0.1)
    lines = written(tmp_path / "page.html", inputs)
    browser.open(tmp_path / "page.html")
    assert digest_of(browser) == lines.digest()
    changed = inputs.parameters
    for name, value, told, changes in (
        ("floor", 0.2, "0.20", {"min_amplitude": 0.2}),
        ("threshold", 4, "0.01", {"min_probability": 0.01}),
        ("angle", 2, "15°", {"max_angle_deg": 15.0, "min_radius_mm": None}),
    ):
        browser.evaluate(
            f"document.getElementById('{name}').value = {value};"
            f"document.getElementById('{name}').dispatchEvent(new Event('input'))"
        )
        assert browser.text(f"{name}-told") == told
        changed = dataclasses.replace(changed, **changes)
        wanted = tracked(dataclasses.replace(inputs, parameters=changed))
        assert digest_of(browser) == wanted.digest() != lines.digest()
        assert "the recipe's" not in browser.text("live-told")
    browser.press("r")
    assert digest_of(browser) == lines.digest()
    assert browser.text("floor-told") == "0.10"


@in_browser
def test_what_is_damaged_is_said_and_the_rest_is_shown(browser: Browser, tmp_path: Path) -> None:
    written(tmp_path / "page.html", inputs_of())
    text = (tmp_path / "page.html").read_text("utf-8")
    start = text.index('id="live-kernel">') + len('id="live-kernel">')
    (tmp_path / "page.html").write_text(text[:start] + "AAAA" + text[start + 4 :], "utf-8")
    assert browser.open(tmp_path / "page.html") == "ready"
    assert browser.text("status").startswith("Tracking in this page is not possible here")


def test_a_bundle_that_is_not_there_is_refused(tmp_path: Path) -> None:
    inputs = inputs_of(n=5)
    lines = tracked(inputs)
    live = "other", live_of(inputs, lines)
    with pytest.raises(InvalidParameterError, match="'other'"):
        save_page(tmp_path / "page.html", [PageBundle("arc", lines)], live=live)
    assert not list(tmp_path.iterdir())


def test_webassembly_and_a_worker_are_allowed_where_they_are_there_alone(tmp_path: Path) -> None:
    lines = written(tmp_path / "live.html", inputs_of(n=5))
    save_page(tmp_path / "dead.html", [PageBundle("arc", lines)])
    policies = [
        next(line for line in ReadPage(tmp_path / name).text.splitlines() if "Policy" in line)
        for name in ("live.html", "dead.html")
    ]
    for rule in "'wasm-unsafe-eval'", "worker-src blob:":
        assert [rule in policy for policy in policies] == [True, False]


@pytest.mark.parametrize(
    ("lmax", "parameters", "words"),
    [
        (14, {}, "lmax 14"),
        (6, {"positivity": "softplus"}, "softplus"),
        (6, {"output": "endpoints"}, "endpoints"),
    ],
)
def test_what_the_kernel_of_pages_does_not_track_is_refused(
    lmax: int, parameters: dict[str, Any], words: str
) -> None:
    with pytest.raises(InvalidParameterError, match=words):
        live_of(inputs_of(lmax, n=2, **parameters), Tractogram.empty())


def test_an_asymmetric_fod_is_refused() -> None:
    inputs = inputs_of(6, n=2)
    fod = nt.Fod(np.ones((*inputs.fod.grid.shape, 49)), inputs.fod.grid)
    with pytest.raises(InvalidParameterError, match="does not track in an asymmetric FOD; leave"):
        live_of(dataclasses.replace(inputs, fod=fod), Tractogram.empty())


def test_backtracking_is_refused() -> None:
    inputs = inputs_of(n=2, backtrack=True)
    live_of(inputs, Tractogram.empty())  # of no effect without tissues
    with pytest.raises(InvalidParameterError, match="with backtracking"):
        live_of(dataclasses.replace(inputs, tissues=layers(inputs.fod)), Tractogram.empty())


def test_the_command_takes_a_bundle_with_a_recipe(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    fod = make_phantom("arcs", lmax=4)
    nib.save(nib.Nifti1Image(fod.coefficients, fod.grid.affine), "fod.nii.gz")
    sphere = ",".join(map(str, (*phantom_seeds_mm("arcs")[0], 2)))
    words = ["-o", "b.tck", f"--seed-sphere={sphere}", "--n-seeds", "9", "--quiet"]
    assert main(["track", "fod.nii.gz", *words]) == 0
    assert main(["page", "b.json", "-o", "p.html", "--live", "b"]) == 0
    live = ReadPage(tmp_path / "p.html").content["live"]
    assert (live["n_seeds"], live["digest"]) == (9, nt.load_tractogram("b.tck").digest())
    (tmp_path / "p.html").unlink()
    capsys.readouterr()
    assert main(["page", "b.tck", "-o", "p.html", "--live", "b"]) == 2
    assert "has no recipe" in capsys.readouterr().err
    assert main(["page", "b.tck", "-o", "p.html", "--live", "c"]) == 2
    assert "no bundle is called so; give b." in capsys.readouterr().err
    assert not (tmp_path / "p.html").exists()
