"""How long a sphere takes that is moved over a million streamlines, by the spatial index.

Streamlines are tracked in the brain template of the data folder, by default 1,000,000 of at least
20 mm. The index is made once; then spheres of several sizes are moved from point to point along
streamlines, which is where a hand would put them, and each is answered with the numbers of the
streamlines that pass it::

    python benchmarks/filtering.py [--streamlines 1000000] [--positions 40] [--panel]

What is looked at segment by segment is counted too; without the index, all segments are. With
``--panel`` the same spheres are moved in a panel, without a screen: from the move of the region's
point to the data that the layer hands to be drawn.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np

import napari_tractography as nt
from napari_tractography.streamlines.passing import touching
from napari_tractography.streamlines.spatial_index import SpatialIndex

TEMPLATE = Path(__file__).resolve().parents[2] / "shared/data/brain/fod_template.mif.gz"
RADII_MM = (2.0, 5.0, 10.0, 20.0, 40.0)
SEEDS_PER_STREAMLINE = 1.3  # some are too short
MEBIBYTE = 2**20


def tracked(n: int) -> nt.Tractogram:
    """Return about `n` streamlines of the template."""
    fod = nt.load_fod(TEMPLATE)
    parameters = nt.TrackingParameters.for_fod(fod, min_length_mm=20.0, max_length_mm=200.0)
    found = nt.track(fod, nt.Seeds.from_fod(fod, int(SEEDS_PER_STREAMLINE * n)), parameters)
    return found[:n]


def milliseconds(index: SpatialIndex, region: nt.Region) -> tuple[float, float]:
    """Return how long one sphere takes by the clock, and how much time of processors."""
    start, start_of_processors = time.perf_counter(), time.process_time()
    np.flatnonzero(index.touched(region))
    spent = time.process_time() - start_of_processors
    return 1e3 * (time.perf_counter() - start), 1e3 * spent


def in_a_panel(tractogram: nt.Tractogram, centres: np.ndarray) -> None:
    """Move a sphere of the panel over an opened bundle; print a table."""
    from napari.components import ViewerModel
    from qtpy.QtTest import QTest
    from qtpy.QtWidgets import QApplication

    from napari_tractography.plugin.panel.panel import TractographyPanel
    from napari_tractography.plugin.streamlines.layer import Streamlines

    _application = QApplication.instance() or QApplication([])
    viewer = ViewerModel()
    panel = TractographyPanel(viewer, remember=False)
    layer = viewer.add_layer(Streamlines(tractogram))
    panel.bundles.activate(panel.bundles.of_layer(layer))
    print("\n| role | radius [mm] | median [ms] | of processors | longest | streamlines |")
    print("|---|---|---|---|---|---|")
    for role in ("include", "exclude"):
        for radius in RADII_MM:
            region = nt.Region.sphere(centres[0], radius, role)
            entry = panel.session.regions.add_region(region)
            while panel.filtering.is_busy:
                QTest.qWait(20)
            times, spent_on, counts = [], [], []
            for centre in np.asarray(panel.session.space.to_display(centres), dtype=float):
                start, start_of_processors = time.perf_counter(), time.process_time()
                panel.session.move_point(entry.layer, 0, centre)
                _ = layer.n_shown, layer.colours
                times.append(1e3 * (time.perf_counter() - start))
                spent_on.append(1e3 * (time.process_time() - start_of_processors))
                counts.append(layer.n_all)
            panel.session.regions.remove(entry)
            print(
                f"| {role} | {radius:g} | {np.median(times):.0f} | {np.median(spent_on):.0f} | "
                f"{max(times):.0f} | {np.median(counts):.0f} |"
            )
    panel.close_session()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--streamlines", type=int, default=1_000_000)
    parser.add_argument("--positions", type=int, default=40)
    parser.add_argument("--panel", action="store_true", help="move spheres in a panel, too")
    options = parser.parse_args()

    tractogram = tracked(options.streamlines)
    size = tractogram.points.nbytes / MEBIBYTE
    print(f"{len(tractogram)} streamlines, {tractogram.n_points} points ({size:.0f} MiB)")
    start, start_of_processors = time.perf_counter(), time.process_time()
    index = tractogram.spatial_index()
    seconds, spent = time.perf_counter() - start, time.process_time() - start_of_processors
    print(f"index: {seconds:.1f} s, {spent:.1f} s of processors", end=", ")
    print(f"{index.n_bytes / MEBIBYTE:.0f} MiB, cells of {index.cell_mm:g} mm")
    centres = tractogram.points[:: max(tractogram.n_points // options.positions, 1)]
    centres = centres[: options.positions].astype(np.float64)
    print(
        "\n| radius [mm] | median [ms] | of processors | longest | streamlines | segments tested |"
    )
    print("|---|---|---|---|---|---|")
    for radius in RADII_MM:
        regions = [nt.Region.sphere(centre, radius, "include") for centre in centres]
        times, spent_on, counts, tested = [], [], [], []
        for region in regions:
            by_clock, of_processors = milliseconds(index, region)
            times.append(by_clock)
            spent_on.append(of_processors)
            tested.append(index.effort.segments)
            counts.append(int(index.touched(region).sum()))
        print(
            f"| {radius:g} | {np.median(times):.0f} | {np.median(spent_on):.0f} | "
            f"{max(times):.0f} | {np.median(counts):.0f} | {np.median(tested):.0f} |"
        )
    start = time.perf_counter()
    found = touching(tractogram.points, tractogram.offsets, regions[0])
    seconds = time.perf_counter() - start
    assert np.array_equal(found, index.touched(regions[0]))
    print(f"\nwithout an index, one sphere: {seconds:.1f} s")
    if options.panel:
        in_a_panel(tractogram, centres)


if __name__ == "__main__":
    main()
