"""Figures for papers: their size, what is around the picture, and what cannot be."""

from __future__ import annotations

import imageio.v3 as imageio
import numpy as np
import pytest
from PIL import Image as Pillow

from napari_tractography import Tractogram
from napari_tractography.errors import FileError
from napari_tractography.plugin.export.figures import Figure, figure_picture, save_figure
from napari_tractography.plugin.streamlines.layer import Streamlines

PLAIN = Figure(width_cm=5.08, dpi=150, letters=False, scale_bar=False, legend=False)


@pytest.fixture
def viewer(make_napari_viewer):
    """One red line of 100 mm to the right, in an axial slice."""
    viewer = make_napari_viewer(show=True)
    line = np.linspace([0, 0, 0], [100, 0, 0], 50)
    layer = Streamlines(Tractogram.from_streamlines([line]), width=6)
    layer.colour = "red"
    viewer.add_layer(layer)
    viewer.reset_view()
    viewer.scene.camera.zoom /= 2
    return viewer


def red(picture):
    wide = picture.astype(int)
    return (wide[..., 0] > 150) & (wide[..., 1] < 100) & (wide[..., 3] > 100)


def test_a_figure_has_the_size_and_the_resolution_that_were_asked_for(viewer, tmp_path):
    path = tmp_path / "figure.png"
    save_figure(viewer, path, PLAIN)
    with Pillow.open(path) as image:
        assert image.size[0] == 300
        assert image.info["dpi"] == pytest.approx((150, 150), abs=0.1)
    picture = imageio.imread(path)
    assert red(picture).any(axis=0).mean() > 0.97  # cut to the line
    assert (picture[~red(picture)][:, :3] > 100).mean() > 0.5  # white around it


def test_backgrounds(viewer):
    override = viewer.canvas.background_color_override
    for background, corner in (
        ("white", (255, 255, 255, 255)),
        ("black", (0, 0, 0, 255)),
        ("transparent", (0, 0, 0, 0)),
    ):
        picture = figure_picture(
            viewer, Figure(width_cm=5.08, dpi=150, background=background, crop=False)
        )
        assert tuple(picture[0, 0]) == corner
        assert red(picture).any()
        assert viewer.canvas.background_color_override == override


def test_the_scale_bar_is_as_long_as_it_says(viewer):
    """The line is 100 mm: a quarter of it is at most 25 mm, so the bar says 20 mm."""
    bare = figure_picture(viewer, PLAIN)
    with_bar = figure_picture(viewer, Figure(**{**vars_of(PLAIN), "scale_bar": True}))
    strip = with_bar[len(bare) :, : round(0.22 * bare.shape[1])]  # without the words
    line = (strip[..., :3] < 60).all(axis=-1).sum(axis=1).max()
    assert line == pytest.approx(0.2 * red(bare).any(axis=0).sum(), rel=0.08)


def vars_of(figure):
    return {name: getattr(figure, name) for name in Figure.__slots__}


def test_legend_and_letters_are_written_around_the_picture(viewer):
    layer = viewer.layers[0]
    bare = figure_picture(viewer, PLAIN)
    options = {**vars_of(PLAIN), "legend": True}
    assert figure_picture(viewer, Figure(**options)).shape == bare.shape  # one colour
    layer.colour_by = "direction"
    legend = figure_picture(viewer, Figure(**options))
    squares = legend[len(bare) :, :, :3].reshape(-1, 3)
    for colour in ((255, 0, 0), (0, 255, 0), (0, 0, 255)):
        assert (squares == colour).all(axis=1).sum() > 20
    options["letters"] = True
    lettered = figure_picture(viewer, Figure(**{**options, "letter_colour": "#00ff00"}))
    assert lettered.shape[1] == bare.shape[1]
    left = lettered[:, : lettered.shape[1] // 12, :3]
    assert (left == (0, 255, 0)).all(axis=-1).sum() > 10


@pytest.mark.parametrize(("width_cm", "dpi"), [(1, 30), (1, 300), (1.1, 30)])
def test_a_figure_too_narrow_for_its_letters_is_refused_and_the_canvas_goes_on(
    viewer, width_cm, dpi
):
    with pytest.raises(FileError, match="leave the letters out"):
        figure_picture(viewer, Figure(width_cm=width_cm, dpi=dpi))
    bare = figure_picture(viewer, Figure(width_cm=width_cm, dpi=dpi, letters=False))
    assert bare.shape[1] == round(width_cm / 2.54 * dpi)
    assert red(figure_picture(viewer, PLAIN)).any()


def test_figures_that_cannot_be_are_refused(viewer, tmp_path):
    with pytest.raises(FileError, match=r"figure\.jpg"):
        save_figure(viewer, tmp_path / "figure.jpg", PLAIN)
    with pytest.raises(FileError, match="zoom in"):
        figure_picture(viewer, Figure(width_cm=100, dpi=1200))
    viewer.layers[0].visible = False
    with pytest.raises(FileError, match="Nothing is drawn"):
        figure_picture(viewer, PLAIN)
    assert list(tmp_path.iterdir()) == []
