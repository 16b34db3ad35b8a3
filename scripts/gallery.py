"""Make the pictures of docs/gallery, and the page that shows them.

``python scripts/gallery.py`` makes all of them, ``python scripts/gallery.py arcs callosum`` some.
It needs a screen, or a virtual one: ``make gallery`` provides it. Pictures of a brain need
``../shared/data/brain`` (or ``--brain FOD``), those of measures and dissections
``../shared/data/subject`` (or ``--subject FOLDER``) and Matplotlib; they are left as they are where
that is absent.
"""

from __future__ import annotations

import argparse
import io
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import imageio.v3 as imageio
import napari
import numpy as np
from napari.layers import Image, Layer
from numpy.typing import NDArray
from qtpy.QtTest import QTest
from qtpy.QtWidgets import QScrollArea

import napari_tractography as nt
from napari_tractography.defaults import strong_amplitude
from napari_tractography.maps.direction_colours import direction_colours
from napari_tractography.maps.measures.plots import plot_asymmetry, plot_profiles
from napari_tractography.maps.measures.scalars import ScalarMap
from napari_tractography.phantoms import make_phantom, phantom_seeds_mm
from napari_tractography.plugin.export.figures import Figure, figure_picture
from napari_tractography.plugin.export.screenshots import canvas_picture, lettered
from napari_tractography.plugin.layers.figures import tubes_layer
from napari_tractography.plugin.layers.glyphs import FodGlyphs
from napari_tractography.plugin.layers.planes import SlicePlanes
from napari_tractography.plugin.layers.volumes import fod_layer_data
from napari_tractography.plugin.panel.panel import TractographyPanel
from napari_tractography.plugin.panel.widgets.sections import Section
from napari_tractography.plugin.space.camera import orient
from napari_tractography.plugin.space.display import DisplaySpace
from napari_tractography.plugin.space.orientation_labels import edge_labels
from napari_tractography.plugin.space.views import show_view
from napari_tractography.plugin.streamlines.layer import Streamlines

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "docs" / "gallery"
BRAIN = ROOT.parent / "shared" / "data" / "brain" / "fod_template.mif.gz"
SUBJECT = ROOT.parent / "shared" / "data" / "subject"
MEASURED: dict[str, nt.Tractogram] = {}  # bundles of the subject, once they were tracked
PLOT_DPI = 160
WINDOW = (1200, 900)
OVERSAMPLING = 2  # pixels drawn for each that is kept, along each side: smooth lines
QUALITY = 84  # of JPEG
FILLED = 0.97  # of the canvas
MARGIN = 28  # pixels around what is drawn
DARK = 24  # of 255: what is not brighter is background
SETTLE_MS = 400
FROM_LEFT_FRONT = (-0.35, -0.45, 0.85)  # where the eye looks, (z, y, x)
SLICE_MM = 8.0  # anterior
FROM_FRONT = (-0.35, -0.9, 0.25)

PAGE_HEAD = """\
# Gallery

Made by `make gallery` from the phantoms that the code generates and from a brain FOD template.
Colours are directions (red left-right, green front-back, blue up-down) unless said otherwise.
"""


@dataclass(frozen=True, slots=True)
class Picture:
    """One picture of the gallery.

    Attributes
    ----------
    name : str
        Of the file, without its ending.
    title, caption : str
    draw : callable
        Fills a viewer; takes the viewer and the FOD of a brain, or the folder of a person, and
        returns the picture.
    brain : bool
        Whether it needs a brain.
    subject : bool
        Whether it needs a subject, with peaks, FA and masks of bundles.
    """

    name: str
    title: str
    caption: str
    draw: Callable[[Any, Any], NDArray[np.uint8]]
    brain: bool = True
    subject: bool = False


def add_volume(viewer: Any, fod: nt.Fod, **look: Any) -> Layer:
    """Show an FOD's mean."""
    layer = viewer.add_layer(Layer.create(*fod_layer_data(fod)))
    for name, value in look.items():
        setattr(layer, name, value)
    orient(viewer)
    return layer


def brain_parameters(fod: nt.Fod, **changes: Any) -> nt.TrackingParameters:
    """Return parameters for a template of coarse voxels: smooth lines along strong peaks."""
    chosen: dict[str, Any] = {
        "step_mm": 0.25 * float(fod.grid.voxel_sizes_mm.min()),
        "max_angle_deg": 25.0,
        "min_amplitude": 0.12 * strong_amplitude(fod),
        "min_length_mm": 20.0,
    }
    return nt.TrackingParameters(**{**chosen, **changes})


def finish(viewer: Any, *, letters: bool = False) -> NDArray[np.uint8]:
    """Return the canvas, filled with what is on it and cut to that."""
    QTest.qWait(SETTLE_MS)
    rows, columns = drawn_box(canvas_picture(viewer))
    height, width = viewer.canvas.size
    reach = max(
        abs(2 * end / side - 1) for ends, side in ((rows, height), (columns, width)) for end in ends
    )
    viewer.scene.camera.zoom *= FILLED / reach  # the middle of the canvas stays
    QTest.qWait(SETTLE_MS)
    picture = smaller(canvas_picture(viewer, scale=OVERSAMPLING)[..., :3])
    (top, bottom), (left, right) = drawn_box(picture)
    picture = picture[
        max(top - MARGIN, 0) : bottom + MARGIN, max(left - MARGIN, 0) : right + MARGIN
    ]
    return lettered(picture, edge_labels(viewer), 1.0)[..., :3] if letters else picture


def drawn_box(picture: NDArray[np.uint8]) -> tuple[tuple[int, int], tuple[int, int]]:
    """Return the first and the last row, and column, that is not background."""
    drawn = picture[..., :3].max(axis=2) > DARK
    rows, columns = np.flatnonzero(drawn.any(axis=1)), np.flatnonzero(drawn.any(axis=0))
    return (int(rows[0]), int(rows[-1]) + 1), (int(columns[0]), int(columns[-1]) + 1)


def smaller(picture: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Average each square of pixels that were drawn for one."""
    k = OVERSAMPLING
    height, width = picture.shape[0] // k, picture.shape[1] // k
    squares = picture[: height * k, : width * k].reshape(height, k, width, k, 3)
    return np.asarray(np.rint(squares.mean(axis=(1, 3), dtype=np.float32)), dtype=np.uint8)


def look_from(viewer: Any, direction_zyx: Sequence[float]) -> None:
    """Turn to 3-D and look along a direction, superior up."""
    show_view(viewer, "3-D")
    viewer.scene.camera.set_view_direction(tuple(direction_zyx), (1.0, 0.0, 0.0))


def draw_brain(viewer: Any, fod: nt.Fod | None) -> NDArray[np.uint8]:
    assert fod is not None
    seeds = nt.Seeds.from_fod(fod, 60_000)
    lines = nt.track(fod, seeds, brain_parameters(fod, algorithm="deterministic"))
    layer = Streamlines(lines, space=DisplaySpace.of(fod.grid), width=1.2, opacity=0.8)
    viewer.add_layer(layer)
    orient(viewer)
    look_from(viewer, FROM_LEFT_FRONT)
    return finish(viewer)


def draw_callosum(viewer: Any, fod: nt.Fod | None) -> NDArray[np.uint8]:
    assert fod is not None
    parameters = brain_parameters(fod, algorithm="deterministic", max_length_mm=150.0)
    lines = nt.track(fod, midline_seeds(fod), parameters)
    viewer.add_layer(Streamlines(lines, space=DisplaySpace.of(fod.grid), width=1.2))
    orient(viewer)
    look_from(viewer, FROM_FRONT)
    return finish(viewer)


def midline_seeds(fod: nt.Fod) -> nt.Seeds:
    """Seed where fibres cross between the hemispheres: the strongest left-right peaks at x = 0."""
    across = fod.amplitudes(np.array([[1.0, 0.0, 0.0]]))[..., 0]
    x_mm = fod.grid.to_mm(np.argwhere(np.ones(fod.grid.shape)))[:, 0].reshape(fod.grid.shape)
    near = np.abs(x_mm) < float(fod.grid.voxel_sizes_mm[0])
    return nt.Seeds.in_mask(near & (across > strong_amplitude(fod)), fod.grid, 8000)


def draw_slice(viewer: Any, fod: nt.Fod | None) -> NDArray[np.uint8]:
    assert fod is not None
    add_volume(viewer, fod)
    parameters = brain_parameters(fod, algorithm="deterministic")
    lines = nt.track(fod, nt.Seeds.from_fod(fod, 60_000), parameters)
    space = DisplaySpace.of(fod.grid)
    viewer.add_layer(Streamlines(lines, space=space, width=2.0, slab_mm=6.0))
    show_view(viewer, "coronal")
    viewer.dims.set_point(1, SLICE_MM)
    return finish(viewer, letters=True)


def draw_glyphs(viewer: Any, fod: nt.Fod | None) -> NDArray[np.uint8]:
    assert fod is not None
    add_volume(viewer, fod, opacity=0.5, interpolation2d="linear")
    show_view(viewer, "coronal")
    viewer.dims.set_point(1, SLICE_MM)
    floor = 0.1 * strong_amplitude(fod)
    FodGlyphs(viewer, fod, DisplaySpace.of(fod.grid), scale=1.2, min_amplitude=floor)
    return finish(viewer, letters=True)


def draw_lengths(viewer: Any, fod: nt.Fod | None) -> NDArray[np.uint8]:
    assert fod is not None
    lines = nt.track(
        fod,
        nt.Seeds.from_fod(fod, 40_000),
        brain_parameters(fod, algorithm="deterministic", min_length_mm=60.0),
    )
    layer = Streamlines(lines, space=DisplaySpace.of(fod.grid), width=1.2, colour_by="length")
    viewer.add_layer(layer)
    orient(viewer)
    show_view(viewer, "3-D")
    viewer.scene.camera.set_view_direction((-1.0, 0.0, 0.0), (0.0, 1.0, 0.0))
    return finish(viewer, letters=True)


def draw_arcs(viewer: Any, _fod: nt.Fod | None) -> NDArray[np.uint8]:
    fod = make_phantom("arcs")
    add_volume(viewer, fod, opacity=0.25)
    seeds = nt.Seeds.concatenate(
        [nt.Seeds.in_sphere(place, 4.0, 1500) for place in phantom_seeds_mm("arcs")]
    )
    lines = nt.track(fod, seeds, nt.TrackingParameters(min_length_mm=10.0))
    viewer.add_layer(Streamlines(lines, space=DisplaySpace.of(fod.grid), width=1.5))
    look_from(viewer, (-0.6, -0.75, 0.4))
    return finish(viewer)


def draw_tubes(viewer: Any, _fod: nt.Fod | None) -> NDArray[np.uint8]:
    fod = make_phantom("arcs")
    seeds = nt.Seeds.concatenate(
        [nt.Seeds.in_sphere(place, 4.0, 40) for place in phantom_seeds_mm("arcs")]
    )
    parameters = nt.TrackingParameters(algorithm="deterministic", min_length_mm=20.0)
    lines = nt.track(fod, seeds, parameters)
    viewer.add_layer(tubes_layer(lines, DisplaySpace.of(fod.grid)))
    orient(viewer)
    look_from(viewer, (-0.6, -0.75, 0.4))
    return finish(viewer)


def measured_bundles(subject: Path) -> dict[str, nt.Tractogram]:
    """Return three bundles on each side of a subject, as scripts/measures.py tracks them."""
    if not MEASURED:
        from measures import subject_bundles  # the script beside this one

        MEASURED.update(subject_bundles(subject))
    return MEASURED


def draw_profiles(_viewer: Any, subject: Path) -> NDArray[np.uint8]:
    from measures import COLOURS

    fa = ScalarMap.load(subject / "fa.nii.gz")
    profiles = [nt.profile(t, fa, name=name) for name, t in measured_bundles(subject).items()]
    return plot_picture(plot_profiles(profiles, COLOURS))


def draw_asymmetry(_viewer: Any, subject: Path) -> NDArray[np.uint8]:
    from measures import NUMBERS

    fa = ScalarMap.load(subject / "fa.nii.gz")
    found = [nt.measure(t, [fa], name=name) for name, t in measured_bundles(subject).items()]
    return plot_picture(plot_asymmetry(found, NUMBERS))


def draw_measures(viewer: Any, subject: Path) -> NDArray[np.uint8]:
    from measures import COLOURS

    fa = ScalarMap.load(subject / "fa.nii.gz")
    space = DisplaySpace.of(fa.grid)
    shown = np.ascontiguousarray(space.volume(fa.values))
    viewer.add_image(shown, name="fa.nii.gz", **space.layer_kwargs)
    panel = TractographyPanel(viewer, remember=False)
    viewer.window.add_dock_widget(panel, name="Tractography", area="right")
    for (name, lines), colour in zip(measured_bundles(subject).items(), COLOURS, strict=True):
        layer = Streamlines(lines, space=space, name=name, width=1.2)
        layer.colour = (*(int(colour[k : k + 2], 16) / 255 for k in (1, 3, 5)), 1.0)
        viewer.add_layer(layer)
        panel.bundles.set_colour(panel.bundles.of_layer(layer), colour)
    for section in panel.findChildren(Section):
        section.header.setChecked(section.title == "Measure")
    orient(viewer)
    look_from(viewer, FROM_LEFT_FRONT)
    panel.measure.scalar.value = viewer.layers["fa.nii.gz"]
    panel.measure.kind.value = "Profiles"
    panel.measure.start()
    while panel.measure.measuring.is_busy:
        QTest.qWait(20)
    viewer.reset_view()
    look_from(viewer, FROM_LEFT_FRONT)
    QTest.qWait(SETTLE_MS)
    scroll = panel.findChild(QScrollArea)
    scroll.verticalScrollBar().setValue(scroll.verticalScrollBar().maximum())
    QTest.qWait(SETTLE_MS)
    return np.asarray(viewer.screenshot(canvas_only=False, flash=False)[..., :3])


def plot_picture(plot: Any) -> NDArray[np.uint8]:
    """Return a plot as pixels."""
    stream = io.BytesIO()
    plot.savefig(stream, format="png", dpi=PLOT_DPI)
    return np.asarray(imageio.imread(stream.getvalue())[..., :3])


def draw_lit(viewer: Any, _fod: nt.Fod | None) -> NDArray[np.uint8]:
    fod = make_phantom("arcs")
    seeds = nt.Seeds.concatenate(
        [nt.Seeds.in_sphere(place, 4.0, 300) for place in phantom_seeds_mm("arcs")]
    )
    lines = nt.track(fod, seeds, nt.TrackingParameters(min_length_mm=10.0))
    layer = Streamlines(lines, space=DisplaySpace.of(fod.grid), width=2.5)
    layer.colour = "#ff5544"
    viewer.add_layer(layer)
    orient(viewer)
    look_from(viewer, (-0.6, -0.75, 0.4))
    return finish(viewer)


def draw_planes(viewer: Any, fod: nt.Fod | None) -> NDArray[np.uint8]:
    add_midline_and_planes(viewer, fod)
    look_from(viewer, FROM_LEFT_FRONT)
    return finish(viewer)


def draw_figure(viewer: Any, fod: nt.Fod | None) -> NDArray[np.uint8]:
    add_midline_and_planes(viewer, fod)
    look_from(viewer, (-0.5, 0.0, 0.85))
    QTest.qWait(SETTLE_MS)
    return figure_picture(viewer, Figure(width_cm=10.0, dpi=200.0))[..., :3]


def add_midline_and_planes(viewer: Any, fod: nt.Fod | None) -> None:
    """Show streamlines from the midline, and three slices in the colours of directions."""
    assert fod is not None
    space = DisplaySpace.of(fod.grid)
    colours = np.ascontiguousarray(space.volume((255 * direction_colours(fod)).astype(np.uint8)))
    volume = Image(colours, rgb=True, name="FOD directions", **space.layer_kwargs)
    viewer.add_layer(volume)
    parameters = brain_parameters(fod, algorithm="deterministic", max_length_mm=150.0)
    lines = nt.track(fod, midline_seeds(fod), parameters)
    viewer.add_layer(Streamlines(lines[::3], space=space))
    orient(viewer)
    viewer.dims.point = [-20.0, -25.0, -2.0]
    SlicePlanes(viewer, volume)
    viewer.dims.ndisplay = 3


def draw_panel(viewer: Any, _fod: nt.Fod | None) -> NDArray[np.uint8]:
    panel = TractographyPanel(viewer, remember=False)
    show_docks(viewer, True)
    viewer.window.add_dock_widget(panel, name="Tractography", area="right")
    viewer.add_layer(Layer.create(*fod_layer_data(make_phantom("cross"))))
    panel.session.add_seeds_mm(np.array([[0.0, 0.0, 0.0], [-18.0, 9.0, 0.0]]))
    panel.set_parameters(n_per_seed=400, radius_mm=2.0)
    panel.run()
    while panel.runs.current is not None:
        QTest.qWait(20)
    viewer.reset_view()
    QTest.qWait(SETTLE_MS)
    return np.asarray(viewer.screenshot(canvas_only=False, flash=False)[..., :3])


def dissected(viewer: Any, subject: Path) -> TractographyPanel:
    """Return a panel with three bundles a side, tracked, saved, opened again and proved."""
    from dissection import study  # beside this file, on the path while it runs as a script

    panel = TractographyPanel(viewer, remember=False)
    dock = viewer.window.add_dock_widget(panel, name="Tractography", area="right")
    dock.setVisible(False)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "study.tracts.json"
        project = study(subject)
        known = {name: bundle.tractogram().digest() for name, bundle in project.bundles.items()}
        project.save(path)
        if not panel.project.open_project(path):
            raise SystemExit(f"{path} could not be opened.")
        while panel.project.opening is not None:
            QTest.qWait(50)
    shown = {b.name: b.streamlines_layer.tractogram.digest() for b in panel.bundles.bundles}
    if shown != known:
        raise SystemExit("The project that was opened is not the one that was saved.")
    return panel


def draw_dissection(viewer: Any, subject: Path) -> NDArray[np.uint8]:
    panel = dissected(viewer, subject)
    for bundle in panel.bundles.bundles:
        bundle.streamlines_layer.width = 1.2
    for layer in viewer.layers:
        layer.visible = isinstance(layer, Streamlines)
    look_from(viewer, FROM_LEFT_FRONT)
    picture = finish(viewer)
    panel.close_session()
    return picture


def draw_bundles(viewer: Any, subject: Path) -> NDArray[np.uint8]:
    viewer.window.resize(1280, 800)
    panel = dissected(viewer, subject)
    show_docks(viewer, True)
    panel.parentWidget().setVisible(True)
    for layer in viewer.layers:
        layer.visible = isinstance(layer, Streamlines)
    look_from(viewer, FROM_LEFT_FRONT)
    viewer.fit_to_view()
    QTest.qWait(2 * SETTLE_MS)
    panel.results.refresh_notice()
    return np.asarray(viewer.screenshot(canvas_only=False, flash=False)[..., :3])


PICTURES = (
    Picture(
        "brain",
        "A whole brain",
        "Deterministic streamlines from everywhere, more where the FOD is larger.",
        draw_brain,
    ),
    Picture(
        "callosum",
        "From the midline",
        "Streamlines from where fibres cross between the hemispheres, seen from the front.",
        draw_callosum,
    ),
    Picture(
        "slice",
        "A coronal slice",
        "The parts of the streamlines within 3 mm of the slice, fading with the distance; left is "
        "on the left.",
        draw_slice,
    ),
    Picture(
        "glyphs",
        "The FOD itself",
        "Glyphs of the same slice, as long as the FOD is large in each direction.",
        draw_glyphs,
    ),
    Picture(
        "lengths",
        "Lengths",
        "Streamlines longer than 60 mm from above, coloured by their length.",
        draw_lengths,
    ),
    Picture(
        "dissection",
        "A dissection",
        "Three bundles on each side of a person: pyramidal tract, arcuate and inferior "
        "fronto-occipital fascicle, by AND and NOT regions; saved as a project of kilobytes, "
        "opened, tracked again and proved by digests.",
        draw_dissection,
        brain=False,
        subject=True,
    ),
    Picture(
        "bundles",
        "The list of bundles",
        "The same in the window.",
        draw_bundles,
        brain=False,
        subject=True,
    ),
    Picture(
        "arcs",
        "A phantom",
        "Bundles that cross, bend and fan, made by the code; nothing to download.",
        draw_arcs,
        brain=False,
    ),
    Picture(
        "planes",
        "Three planes",
        "Streamlines from the midline among an axial, a coronal and a sagittal slice of the "
        "directions of the FOD.",
        draw_planes,
    ),
    Picture(
        "figure",
        "A figure",
        "As **Figure...** saves it: 10 cm wide on white, with letters, scale bar and legend.",
        draw_figure,
    ),
    Picture(
        "lit",
        "Light on lines",
        "One colour: what shows the shape is light, depth and halos.",
        draw_lit,
        brain=False,
    ),
    Picture(
        "tubes",
        "Tubes",
        "A chosen few streamlines as a surface, for figures.",
        draw_tubes,
        brain=False,
    ),
    Picture(
        "profiles",
        "FA along three bundles a side",
        "Mean and standard deviation of FA along arcuate fasciculus, corticospinal tract and "
        "inferior fronto-occipital fasciculus of one person, `python scripts/measures.py`. The "
        "right side was tracked with the masks of the left one, mirrored.",
        draw_profiles,
        brain=False,
        subject=True,
    ),
    Picture(
        "asymmetry",
        "Left against right",
        "(L - R) / (L + R) of the same bundles: streamlines from as many seeds, volume, mean FA.",
        draw_asymmetry,
        brain=False,
        subject=True,
    ),
    Picture(
        "measures",
        "Measures in the window",
        "The same bundles in napari: lengths with handles that filter, and profiles.",
        draw_measures,
        brain=False,
        subject=True,
    ),
    Picture(
        "panel",
        "The panel",
        "Seeds in the hand: Shift-click places one, and with Live on streamlines follow as it is "
        "dragged.",
        draw_panel,
        brain=False,
    ),
)


def show_docks(viewer: Any, shown: bool) -> None:
    """Show or hide what napari puts around the canvas."""
    qt = viewer.window._qt_viewer
    for dock in (qt.dockLayerList, qt.dockLayerControls):
        dock.setVisible(shown)


def make(picture: Picture, given: nt.Fod | Path | None) -> Path:
    """Draw a picture in a window of its own and write it."""
    viewer = napari.Viewer(show=True)
    try:
        viewer.theme = "dark"
        viewer.window.resize(*WINDOW)
        show_docks(viewer, False)
        QTest.qWait(SETTLE_MS)
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
    parser.add_argument("--brain", type=Path, default=BRAIN, metavar="FOD", help="of a brain")
    parser.add_argument("--subject", type=Path, default=SUBJECT, help="folder of peaks and masks")
    options = parser.parse_args(arguments)
    unknown = set(options.names) - set(names)
    if unknown:
        parser.error(f"{', '.join(sorted(unknown))} is no picture; choose of {', '.join(names)}.")
    fod = nt.load_fod(options.brain) if options.brain.exists() else None
    FOLDER.mkdir(parents=True, exist_ok=True)
    for picture in PICTURES:
        if options.names and picture.name not in options.names:
            continue
        if picture.brain and fod is None:
            print(f"{picture.name}: left as it is, {options.brain} does not exist")
            continue
        if picture.subject and not options.subject.exists():
            print(f"{picture.name}: left as it is, {options.subject} does not exist")
            continue
        path = make(picture, options.subject if picture.subject else fod)
        print(f"{path.relative_to(ROOT)}: {path.stat().st_size / 1000:.0f} kB")
    (FOLDER / "index.md").write_text(page(), "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
