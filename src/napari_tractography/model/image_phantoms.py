"""Phantoms as images: volumes in which fibres are seen, for samples, tests and benchmarks.

The texture is noise that is smoothed along the fibres and nowhere across them (line integral
convolution, Cabral and Leedom, SIGGRAPH 1993): as fibres in micro-CT, it varies quickly across
and slowly along. The fibres are curves in closed form, so that the truth is known at every point.
Called by the plugin's sample data, the tests and the benchmarks.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..errors import InvalidParameterError
from ..geometry.grid import Grid

Points = NDArray[np.float64]

STREAK_VOX = 9.0  # half the length over which noise is averaged along a fibre
N_ALONG = 19
GRAIN_VOX = 0.6  # standard deviation of the blur across fibres: they are as thin as voxels allow
FIBRES, MATRIX = 140.0, 40.0  # mean grey values
CONTRAST = 28.0  # standard deviation of the texture, in grey values of 0 to 255
NOISE = 12.0  # and of what is added to each voxel


class Drawing(Protocol):
    """Fibres on a voxel grid."""

    @property
    def shape(self) -> tuple[int, int, int]:
        """Number of voxels along each axis."""

    @property
    def voxel_um(self) -> float:
        """Edge length of a voxel."""

    def along(self, voxels: Points, length: float) -> Points:
        """Return where fibres lead, (n, 3), after so many voxels; NaN where there is none."""


@dataclass(frozen=True, slots=True)
class Tube:
    """A thick-walled tube along the third axis, as a vessel or a ventricle.

    Fibres run as helices on cylinders. Their helix angle goes evenly from inside to outside.
    """

    shape: tuple[int, int, int] = (88, 88, 64)
    voxel_um: float = 20.0
    inner_vox: float = 14.0
    outer_vox: float = 40.0
    inside_deg: float = 60.0
    outside_deg: float = -60.0

    def depth(self, voxels: Points) -> Points:
        """Return the depth in the wall, (n,): 0 inside, 1 outside; NaN beside the wall."""
        radius = np.linalg.norm(voxels[:, :2] - self._middle, axis=1)
        depth = (radius - self.inner_vox) / (self.outer_vox - self.inner_vox)
        return np.where((depth >= 0) & (depth <= 1), depth, np.nan)

    def helix_deg(self, depth: ArrayLike) -> Points:
        """Return the helix angle at a depth in the wall, degrees."""
        return np.asarray(
            self.inside_deg + np.asarray(depth) * (self.outside_deg - self.inside_deg)
        )

    @property
    def _middle(self) -> Points:
        return (np.array(self.shape[:2]) - 1) / 2

    def along(self, voxels: Points, length: float) -> Points:
        """Follow the helix through each voxel."""
        away = voxels[:, :2] - self._middle
        angle = np.deg2rad(self.helix_deg(self.depth(voxels)))
        radius = np.maximum(np.linalg.norm(away, axis=1), 1e-9)
        turn = length * np.cos(angle) / radius
        x, y = away.T
        return np.stack(
            [
                self._middle[0] + x * np.cos(turn) - y * np.sin(turn),
                self._middle[1] + x * np.sin(turn) + y * np.cos(turn),
                voxels[:, 2] + length * np.sin(angle),
            ],
            axis=1,
        )


@dataclass(frozen=True, slots=True)
class Weave:
    """Plies of a plain weave along the first two axes, as of a fibre composite.

    Bundles (tows) of fibres pass over and under those that cross them.
    """

    shape: tuple[int, int, int] = (96, 96, 48)
    voxel_um: float = 5.0
    period_vox: float = 24.0  # between neighbouring tows
    rise_vox: float = 5.0  # of the middle of a tow above and below its ply
    ply_vox: float = 24.0
    half_width_vox: float = 10.5
    half_height_vox: float = 5.0

    def along(self, voxels: Points, length: float) -> Points:
        """Follow the wave of the tow that a voxel lies in."""
        moved = np.full_like(voxels, np.nan)
        for axis, sign in ((0, 1.0), (1, -1.0)):
            inside, number = self._tow(voxels, axis, sign)
            start = voxels[inside]
            wave = start.copy()
            wave[:, axis] += length
            side = sign * (-1.0) ** number[inside]
            wave[:, 2] += side * (self._wave(wave[:, axis]) - self._wave(start[:, axis]))
            moved[inside] = wave
        return moved

    def _wave(self, along: Points) -> Points:
        return np.asarray(self.rise_vox * np.cos(np.pi * along / self.period_vox))

    def _tow(self, voxels: Points, axis: int, sign: float) -> tuple[NDArray[np.bool_], Points]:
        """Return which voxels lie in a tow along an axis, and the number of the nearest tow."""
        across = voxels[:, 1 - axis]
        number = np.round(across / self.period_vox)
        height = voxels[:, 2] % self.ply_vox - self.ply_vox / 2
        height = height - sign * (-1.0) ** number * self._wave(voxels[:, axis])
        away = np.hypot(
            (across - number * self.period_vox) / self.half_width_vox, height / self.half_height_vox
        )
        return away < 1, number


@dataclass(frozen=True, slots=True)
class ImagePhantom:
    """An image in which fibres are seen, and the truth."""

    image: NDArray[np.uint8]  # (x, y, z) uint8
    grid: Grid  # its middle at the origin; in um
    drawing: Drawing

    @property
    def fibres(self) -> NDArray[np.bool_]:
        """(x, y, z) bool: the voxels that hold fibres."""
        return np.isfinite(_along(self.drawing, 0.0)[:, 0]).reshape(self.grid.shape)

    def directions(self, points_mm: ArrayLike) -> Points:
        """Return the direction of the fibres at (n, 3) RAS+ mm, (n, 3) units; NaN without."""
        voxels = self.grid.to_voxel(points_mm)
        half = 0.01
        units = self.drawing.along(voxels, half) - self.drawing.along(voxels, -half)
        return np.asarray(units / np.linalg.norm(units, axis=1, keepdims=True))


def make_image_phantom(name: str) -> ImagePhantom:
    """Return one of :data:`IMAGE_PHANTOMS`. Raises InvalidParameterError when it is none."""
    if name not in _DRAWINGS:
        raise InvalidParameterError(
            f"There is no image phantom {name!r}; choose one of {', '.join(_DRAWINGS)}."
        )
    return draw(_DRAWINGS[name]())


def draw(drawing: Drawing, *, seed: int = 0) -> ImagePhantom:
    """Return the image of a drawing, with texture and noise of a random seed."""
    # On use: SciPy takes a while to load.
    from scipy.ndimage import gaussian_filter, map_coordinates

    generator = np.random.default_rng(seed)
    grains = gaussian_filter(generator.standard_normal(drawing.shape), GRAIN_VOX, mode="wrap")
    voxels = np.indices(drawing.shape).reshape(3, -1).T.astype(np.float64)
    inside = np.isfinite(drawing.along(voxels, 0.0)[:, 0])
    streaks = np.zeros(int(inside.sum()))
    for length in np.linspace(-STREAK_VOX, STREAK_VOX, N_ALONG):
        points = drawing.along(voxels[inside], float(length)).T
        streaks += map_coordinates(grains, points, order=1, mode="grid-wrap")
    values = np.full(len(voxels), MATRIX)
    values[inside] = FIBRES + CONTRAST * (streaks - streaks.mean()) / streaks.std()
    values += NOISE * generator.standard_normal(len(values))
    image = np.clip(np.rint(values), 0, 255).astype(np.uint8).reshape(drawing.shape)
    size_mm = drawing.voxel_um / 1000.0
    affine = np.diag([size_mm, size_mm, size_mm, 1.0])
    affine[:3, 3] = -size_mm * (np.array(drawing.shape) - 1) / 2
    return ImagePhantom(image, Grid(drawing.shape, affine, unit="um"), drawing)


def _along(drawing: Drawing, length: float) -> Points:
    voxels = np.indices(drawing.shape).reshape(3, -1).T.astype(np.float64)
    return drawing.along(voxels, length)


_DRAWINGS: dict[str, Callable[[], Drawing]] = {"tube": Tube, "weave": Weave}

IMAGE_PHANTOMS = {
    "tube": "A thick-walled tube whose fibres turn from +60 degrees inside to -60 outside",
    "weave": "Two plies of a plain weave, whose tows pass over and under each other",
}
