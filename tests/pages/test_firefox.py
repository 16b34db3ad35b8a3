"""A page in Firefox: it draws, and tracks what the CPU tracks."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from firefox import Firefox, why_none

import napari_tractography as nt
from napari_tractography.model.phantoms import make_phantom, phantom_seeds_mm
from napari_tractography.pages.live import live_of
from napari_tractography.pages.page import PageBundle, save_page
from napari_tractography.tracking.inputs import TrackingInput

pytestmark = pytest.mark.skipif(bool(why_none()), reason=why_none() or "there is one")
DIGEST = "document.getElementById('live-told').dataset.digest"


@pytest.fixture
def firefox(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Firefox]:
    opened = Firefox(tmp_path_factory.mktemp("firefox"))
    yield opened
    opened.close()


def test_a_page_draws_and_tracks_and_follows_a_drag(firefox: Firefox, tmp_path: Path) -> None:
    fod = make_phantom("arcs", lmax=6)
    seeds = nt.Seeds.in_sphere(phantom_seeds_mm("arcs")[0], 3.0, 40)
    inputs = TrackingInput(fod, seeds, nt.TrackingParameters.for_fod(fod))
    lines = nt.track(fod, seeds, inputs.parameters, backend="cpu")
    live = "arc", live_of(inputs, lines)
    save_page(tmp_path / "page.html", [PageBundle("arc", lines, "#ff0000")], live=live)
    assert firefox.open(tmp_path / "page.html") == "ready"
    assert firefox.wait_for(DIGEST) == lines.digest()
    x, y = firefox.evaluate(
        "(({ left, top, width }) => [left + width / 2, top + width / 2])"
        "(document.getElementById('seed').getBoundingClientRect())"
    )
    firefox.drag((round(x), round(y)), (round(x) + 6, round(y) + 4))
    shift = np.array(json.loads(firefox.evaluate("document.getElementById('seed').dataset.shift")))
    moved = nt.Seeds.at((seeds.positions_mm + shift).astype(np.float32))
    wanted = nt.track(fod, moved, inputs.parameters, backend="cpu")
    assert firefox.wait_for(DIGEST) == wanted.digest() != lines.digest()
