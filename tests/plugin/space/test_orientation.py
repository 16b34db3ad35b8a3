"""Left is left: from a NIfTI file through tracking to the pixels, in 2-D and 3-D.

The phantom is a letter R that stands upright in a coronal plane at the back, its foot pointing
forward. nibabel alone writes it with voxel axes that run this way or that::

    superior      B B B       a stem (blue, along z) at the left,
                  S     B     a bowl with bars (red, along x) at the top right,
                  S B B       a leg down to the right,
                  S   L       whose foot (green, along y) points forward, at the bottom right
    inferior      S     L
              left   right
"""

from __future__ import annotations

from itertools import permutations
from pathlib import Path
from typing import Any

import nibabel as nib
import numpy as np
import pytest
from hands import OBLIQUE, save_fod
from scipy.ndimage import binary_dilation, label

from napari_tractography.model.phantoms import make_phantom, phantom_lines_mm, phantom_seeds_mm
from napari_tractography.plugin.streamlines.layer import Streamlines

UPRIGHT = np.array([[2.0, 0, 0, -31], [0, 2, 0, -27], [0, 0, 2, -31], [0, 0, 0, 1]])
PLANE_VOX = 7  # of the letter, along the second axis
FOOT_VOX = 3  # of the foot, along the third
LAS = pytest.param(UPRIGHT, "LAS", id="LAS")
PIR = pytest.param(UPRIGHT, "PIR", id="PIR")
TURNED = pytest.param(OBLIQUE, "RAS", id="oblique")
TURNED_LPS = pytest.param(OBLIQUE, "LPS", id="oblique LPS")
TURNED_AIL = pytest.param(OBLIQUE, "AIL", id="oblique left-handed")
files = ("affine", "axes")


def picture_of(viewer: Any) -> np.ndarray:
    return viewer.screenshot(flash=False)[..., :3].astype(int)


def coloured(picture: np.ndarray, channel: int, margin: int = 60) -> tuple[np.ndarray, np.ndarray]:
    """Rows and columns of the pixels in which one of red, green, blue is far above the others."""
    others = np.delete(picture, channel, axis=2).max(axis=2)
    return np.nonzero(picture[..., channel] > others + margin)


@pytest.fixture
def letter(open_window: Any, settle: Any, tmp_path: Path) -> Any:
    """Open a file of the letter, track it, and hide everything but what is asked for."""

    def make(affine: np.ndarray, axes: str) -> Any:
        fod = make_phantom("letter", affine=affine, lmax=8)
        path = save_fod(fod, tmp_path / "letter.nii.gz", axes=axes)
        panel = open_window()
        panel.data.add_fod(path)
        assert "".join(nib.aff2axcodes(panel.session.fod.grid.affine)) == axes
        panel.set_parameters(n_per_seed=150, radius_mm=1.5, max_length_mm=200.0)
        panel.session.add_seeds_mm(phantom_seeds_mm("letter", affine=affine))
        panel.run()
        settle(panel)
        panel.session.seeds.layer.visible = False
        return panel

    return make


def slice_at(panel: Any, axis: int, voxel_ras: tuple[float, float, float], affine: Any) -> None:
    """Show the slice, across z, y or x of the screen, that goes through a voxel of the drawing."""
    viewer = panel.viewer
    viewer.dims.ndisplay = 2
    viewer.dims.order = (axis, *(other for other in (0, 1, 2) if other != axis))
    place = panel.session.space.to_display((affine @ [*voxel_ras, 1])[:3])[0]
    viewer.dims.set_point(axis, place[axis])


def middle_of(picture: np.ndarray) -> tuple[float, float]:
    """Row and column of the middle of what is coloured."""
    rows, columns = np.nonzero(np.ptp(picture, axis=2) > 60)
    return (rows.min() + rows.max()) / 2, (columns.min() + columns.max()) / 2


@pytest.mark.parametrize(files, [LAS, PIR, TURNED_LPS, TURNED_AIL])
def test_left_is_left(letter: Any, affine: np.ndarray, axes: str) -> None:
    panel = letter(affine, axes)
    viewer = panel.viewer
    viewer.layers[0].visible = False  # streamlines alone

    # Coronal: the foot begins at the lower right, the bars are at the top.
    slice_at(panel, 1, (16, PLANE_VOX + 1, 16), affine)
    picture = picture_of(viewer)
    row, column = middle_of(picture)
    green, red = coloured(picture, 1), coloured(picture, 0)
    assert min(len(green[0]), len(red[0])) > 30
    assert green[1].mean() > column + 20
    assert green[0].mean() > row + 20
    assert red[0].mean() < row

    # Axial, through the foot: it lies right of the stem, and points forward, which is up.
    slice_at(panel, 0, (16, PLANE_VOX, FOOT_VOX), affine)
    picture = picture_of(viewer)
    green, blue = coloured(picture, 1), coloured(picture, 2)
    assert min(len(green[0]), len(blue[0])) > 30
    assert np.median(green[1]) > np.median(blue[1]) + 20
    assert np.median(green[0]) < np.median(blue[0]) - 20

    # Sagittal, through the foot: it is at the bottom, and points forward, which is to the right.
    slice_at(panel, 2, (23, PLANE_VOX, FOOT_VOX), affine)
    picture = picture_of(viewer)
    green = coloured(picture, 1)
    assert len(green[0]) > 300
    assert green[0].mean() > picture.shape[0] / 2 + 20
    assert green[1].mean() > picture.shape[1] / 2 + 5

    # 3-D, entered from that view and brought home: seen from the right, as there.
    viewer.dims.ndisplay = 3
    viewer.reset_view()
    picture = picture_of(viewer)
    green = coloured(picture, 1)
    assert green[0].mean() > middle_of(picture)[0] + 20
    assert green[1].mean() > coloured(picture, 0)[1].mean() + 20

    # 3-D from behind, as in the coronal slice, and from the front: left is on the right.
    viewer.dims.order = (0, 1, 2)
    for direction, side in (((0.0, 1.0, 0.0), 1), ((0.0, -1.0, 0.0), -1)):
        viewer.scene.camera.set_view_direction(direction, (1.0, 0.0, 0.0))
        picture = picture_of(viewer)
        row, column = middle_of(picture)
        green, red = coloured(picture, 1), coloured(picture, 0)
        assert min(len(green[0]), len(red[0])) > 30
        assert (green[1].mean() - column) * side > 20
        assert green[0].mean() > row + 20
        assert red[0].mean() < row


def test_3d_is_never_a_mirror_image(open_window: Any, cross: Any) -> None:
    """Whichever view it is entered from: right, front and up keep their handedness."""
    viewer = open_window(cross).viewer
    viewer.dims.ndisplay = 3
    canvas = viewer.window._qt_viewer.canvas
    signs = {}
    for order in permutations(range(3)):
        viewer.dims.order = order
        picture_of(viewer)  # the camera follows with the next frame
        to_canvas = canvas.view.transform * canvas.view.scene.transform
        ends = []
        for point in np.vstack([np.zeros(3), np.eye(3)]):
            mapped = to_canvas.map([point[axis] for axis in viewer.dims.displayed[::-1]])
            ends.append(mapped[:3] / mapped[3])
        signs[order] = np.sign(np.linalg.det(np.array(ends[1:]) - ends[0]))
    assert set(signs.values()) == {signs[0, 1, 2]}


@pytest.mark.parametrize(files, [LAS, TURNED, TURNED_AIL])
def test_streamlines_lie_on_the_bright_voxels(letter: Any, affine: np.ndarray, axes: str) -> None:
    """Pixel by pixel: where there are lines there is volume, and they run along its middle."""
    panel = letter(affine, axes)
    viewer, lines = panel.viewer, panel.session.streamlines_layer
    assert isinstance(lines, Streamlines)
    lines.colour = (1.0, 0.0, 0.0, 1.0)
    lines.width = 1
    lines.slab_mm = 2.0  # in a thinner one lines across the slice are hardly a pixel, or none
    volume = viewer.layers[0]
    volume.contrast_limits = (0.0, 0.25 * volume.contrast_limits[1])
    for view, voxel in (
        ("axial", (16, PLANE_VOX, 12)),
        ("coronal", (16, PLANE_VOX, 16)),
        ("sagittal", (23, PLANE_VOX, FOOT_VOX)),
        ("3-D", None),
    ):
        if voxel is None:
            viewer.dims.order = (0, 1, 2)
            viewer.dims.ndisplay = 3
            viewer.scene.camera.set_view_direction((-0.5, 0.7, -0.3), (1.0, 0.0, 0.0))
            volume.opacity = 1.0
        else:
            slice_at(panel, ("axial", "coronal", "sagittal").index(view), voxel, affine)
        lines.visible = False
        bright = picture_of(viewer).min(axis=2) > 100
        lines.visible = True
        red = np.zeros(bright.shape, bool)
        red[coloured(picture_of(viewer), 0, 100)] = True
        assert red.sum() > 50, view
        assert bright.mean() < 0.2, view
        on = (red & binary_dilation(bright, iterations=2)).sum() / red.sum()
        assert on > 0.93, view
        if view == "axial":  # two blobs, stem and leg: each has its lines in the middle
            blobs, n = label(bright)
            assert n == 2
            voxel_pixels = 2.0 * viewer.scene.camera.zoom
            for number in (1, 2):
                inside = red & binary_dilation(blobs == number, iterations=2)
                assert inside.sum() > 20
                middles = [np.argwhere(m).mean(axis=0) for m in (inside, blobs == number)]
                assert np.linalg.norm(middles[0] - middles[1]) < 0.75 * voxel_pixels
    true = np.concatenate([line for b in phantom_lines_mm("letter", affine=affine) for line in b])
    distance = [np.linalg.norm(true - p, axis=1).min() for p in lines.tractogram.points[::50]]
    assert np.mean(distance) < 3.0  # mm: bundles are 1.6 voxels of 2 mm wide
