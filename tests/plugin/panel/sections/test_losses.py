"""What cavities take of bundles, in the panel, in the picture and in figures."""

from __future__ import annotations

import numpy as np
import pytest
from hands import WAIT_MS
from qtpy.QtTest import QTest

from napari_tractography import Region, Tractogram, resection
from napari_tractography.maps.resection import RESEARCH_ONLY
from napari_tractography.plugin.export.figures import _captions
from napari_tractography.plugin.export.projects import project_of
from napari_tractography.plugin.panel.measure import maps
from napari_tractography.plugin.panel.measure.measurements import RESECTION
from napari_tractography.plugin.panel.sections.losses import NAME


def shown(qtbot, panel):
    """Wait for what is lost now; return it by the name of the bundle."""
    resections = panel.losses.resections
    QTest.qWait(0)

    def is_known() -> bool:
        """Tell whether nothing is under way, nor due after what was."""
        if not resections.work.is_busy:
            resections.update()
        return not resections.work.is_busy

    qtbot.waitUntil(is_known, timeout=WAIT_MS)
    return {bundle.name: found for bundle, found in resections.found.items()}


def run_from(panel, settle, at_mm):
    panel.session.seeds.add(panel.session.space.shown_at([at_mm]))
    panel.run()
    settle(panel)
    assert len(panel.session.tractogram)


def lines_of(panel):
    return [layer for layer in panel.viewer.layers if layer.name == NAME]


@pytest.fixture
def tracked(open_model, cross, settle):
    panel = open_model(cross)
    run_from(panel, settle, (-14.4, -8.3, 0.0))
    return panel


def test_each_bundle_says_what_it_loses_and_the_run_stays_as_it_was(tracked, qtbot):
    panel = tracked
    session = panel.session
    before, changes = session.tractogram, []
    session.changed.connect(lambda: changes.append(1))
    assert panel.losses.isHidden()
    cavity = Region.sphere((17.0, 10.0, 0.0), 3.0, "resect", name="tumour")
    session.regions.add_region(cavity)
    found = shown(qtbot, panel)
    wanted = resection(before, cavity, name="Bundle 1")
    assert found["Bundle 1"].text == wanted.text
    assert wanted.n_lost
    assert wanted.text in panel.losses.label.text()
    assert RESEARCH_ONLY in panel.losses.label.text()
    assert not panel.losses.isHidden()
    assert not lines_of(panel)
    assert not changes
    assert session.changes() == []
    assert _captions(panel.viewer) == [f"Bundle 1 {wanted.text}.", RESEARCH_ONLY]
    session.regions.set_role(session.regions.entries[0], "exclude")
    assert shown(qtbot, panel) == {}
    assert changes
    assert session.changes() == ["regions"]
    assert _captions(panel.viewer) == []
    assert panel.losses.isHidden()


def test_a_line_shows_the_margin_and_follows(tracked, qtbot):
    panel = tracked
    session = panel.session
    session.regions.add_region(Region.sphere((17.0, 10.0, 0.0), 1.0, "resect", name="a"))
    session.regions.add_region(Region.sphere((4.0, 16.0, 0.0), 1.0, "resect", name="b"))
    session.regions.remove(session.regions.entries[0])
    found = shown(qtbot, panel)["Bundle 1"]
    assert found.n_lost == 0
    assert found.margin_mm > 1
    (layer,) = lines_of(panel)
    start, along = layer.data[0]
    ends = session.space.shown_at(found.line_mm)
    np.testing.assert_allclose([start, start + along], ends, atol=1e-4)
    session.regions.set_radius(session.regions.entries[0], 3.0)
    nearer = shown(qtbot, panel)["Bundle 1"]
    assert nearer.margin_mm == pytest.approx(found.margin_mm - 2.0, abs=1e-4)
    assert lines_of(panel) == [layer]
    session.document.undo()
    assert shown(qtbot, panel)["Bundle 1"].margin_mm == pytest.approx(found.margin_mm)
    panel.close_session()
    assert not lines_of(panel)
    panel.open_session()
    assert shown(qtbot, panel)["Bundle 1"].margin_mm == pytest.approx(found.margin_mm)
    assert len(lines_of(panel)) == 1
    session.regions.remove(*session.regions.entries)
    assert shown(qtbot, panel) == {}
    assert not lines_of(panel)


def test_painting_counts_while_the_brush_is_down(tracked, qtbot):
    panel = tracked
    regions = panel.session.regions
    entry = regions.add_painting("resect")
    regions.begin_stroke(entry.layer)
    space = panel.session.space
    vox = np.round(
        (space.shown_at([[17.0, 10.0, 0.0]])[0] - entry.layer.translate) / entry.layer.scale
    ).astype(int)
    entry.layer.data_setitem(tuple(np.array([x, x + 1]) for x in vox), 1)
    during = shown(qtbot, panel)["Bundle 1"].n_lost
    assert during > 0
    regions.end_stroke(entry.layer)
    assert shown(qtbot, panel)["Bundle 1"].n_lost == during
    panel.session.document.undo()
    assert shown(qtbot, panel) == {}


def test_a_cavity_is_for_all_bundles_whose_eye_is_open(tracked, qtbot, settle):
    panel = tracked
    panel.session.regions.add_region(Region.sphere((17.0, 10.0, 0.0), 3.0, "resect", name="t"))
    panel.session.regions.add_region(Region.sphere((-24.0, -14.0, 0.0), 2.0, "stop", name="s"))
    first = panel.bundles.active
    panel.bundles.add("Across")
    run_from(panel, settle, (-14.4, 8.3, 0.0))
    found = shown(qtbot, panel)
    assert set(found) == {"Bundle 1", "Across"}
    assert found["Across"].share < 0.3 < found["Bundle 1"].share
    panel.bundles.set_visible(first, False)
    assert set(shown(qtbot, panel)) == {"Across"}


def test_measure_gives_table_and_map(tracked, qtbot, notes):
    panel = tracked
    measure = panel.measure
    measure.kind.value = RESECTION
    measure.start()
    assert "no cavity" in notes[-1]
    panel.session.regions.add_region(Region.sphere((17.0, 10.0, 0.0), 3.0, "resect", name="t"))
    found = shown(qtbot, panel)["Bundle 1"]
    measure.start()
    qtbot.waitUntil(lambda: measure.shown is not None, timeout=WAIT_MS)
    row = dict(zip(measure.shown.table.header, measure.shown.table.rows[0], strict=True))
    assert (row["bundle"], row["n_lost"], row["margin_mm"]) == ("Bundle 1", str(found.n_lost), "0")
    assert measure.note.text() == RESEARCH_ONLY
    measure.start_map(maps.MARGIN)
    name = "Bundle 1 margin"
    qtbot.waitUntil(lambda: name in panel.viewer.layers, timeout=WAIT_MS)
    values = panel.viewer.layers[name].data
    assert np.nanmin(values) == 0
    assert np.isnan(values).any()


def test_projects_keep_cavities_of_tracked_and_of_opened_bundles(tracked, qtbot, tmp_path):
    panel = tracked
    panel.session.regions.add_region(Region.sphere((17.0, 10.0, 0.0), 3.0, "resect", name="t"))
    before = panel.session.tractogram.digest()
    before_path = tmp_path / "b.tck"
    panel.session.tractogram.save(before_path)
    panel.viewer.open(str(before_path), plugin="napari-tractography")
    assert panel.session.state.is_opened
    panel.session.regions.add_region(Region.sphere((0.0, 12.0, 0.0), 2.0, "resect", name="o"))
    project, left_out = project_of(panel.bundles)
    assert not left_out
    one, other = (bundle.source for bundle in project.bundles.values())
    assert [(r.role, r.name) for r in one.regions] == [("resect", "t")]
    assert one.run().digest() == one.digest == before
    assert [(r.role, r.name) for r in other.edits[0].regions] == [("resect", "o")]
    assert len(other.edit(Tractogram.from_streamlines([np.zeros((2, 3))]))) == 1
