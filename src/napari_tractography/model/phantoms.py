"""Phantoms: FODs made from drawn bundles, for demonstrations, samples and tests.

A phantom is a few curves in voxel coordinates, each thickened to a bundle. Its FOD is the sum of
one sharp, axially symmetric lobe a bundle along the bundle's tangent, weighted by the fraction of
the voxel that the bundle fills. Called by the command, the plugin's sample data and the tests.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..errors import InvalidParameterError
from ..fields.kinds import SH
from ..fields.sh import MAX_LMAX, sh_matrix
from ..geometry.grid import Grid
from .fod import Fod

Curve = NDArray[np.float64]

POINT_SPACING_VOX = 0.25
VOXEL_SIZE_MM = 2.0
PHANTOM_LMAX = 8
MASK_FRACTION = 0.5  # the mask ends where bundles fill half of a voxel
N_QUADRATURE = 128  # Gauss-Legendre nodes: exact far beyond the degrees in use


@dataclass(frozen=True, slots=True)
class PhantomBundle:
    """Curves side by side, thickened."""

    # tuple of (n, 3) float64: centre lines in voxel coordinates. A voxel belongs to the nearest.
    curves: tuple[Curve, ...]
    radius_vox: float  # where the bundle fills half of a voxel
    seed_at: float = 0.5  # where along the middle curve a seed shows the bundle well, from 0 to 1


@dataclass(frozen=True, slots=True)
class Phantom:
    """A drawing: what it shows, on which grid."""

    description: str
    shape: tuple[int, int, int]
    bundles: tuple[PhantomBundle, ...]
    oblique: bool = False

    @property
    def grid(self) -> Grid:
        """The grid it is placed on by default, its middle at the origin unless oblique."""
        linear = VOXEL_SIZE_MM * (_OBLIQUE if self.oblique else np.eye(3))
        affine = np.eye(4)
        affine[:3, :3] = linear
        affine[:3, 3] = -linear @ ((np.array(self.shape) - 1) / 2)
        if self.oblique:
            affine[:3, 3] += _OBLIQUE_CENTRE_MM
        return Grid(self.shape, affine)


def make_phantom(name: str, *, affine: ArrayLike | None = None, lmax: int = PHANTOM_LMAX) -> Fod:
    """Return the FOD of one of :data:`PHANTOMS`, in the tournier07 basis.

    The bundles lie in the voxels, so that they, their directions and their streamlines turn,
    stretch and mirror with a (4, 4) affine, voxel coordinates to RAS+ mm. Raises
    InvalidParameterError when there is no such phantom or lmax is not even, from 2;
    InvalidGridError when the affine cannot be inverted.
    """
    phantom = drawing(name)
    if lmax not in range(2, MAX_LMAX + 1, 2):
        raise InvalidParameterError(f"lmax = {lmax} is no even number from 2 to {MAX_LMAX}.")
    grid = phantom.grid if affine is None else Grid(phantom.shape, affine)
    return fod_of_drawing(phantom, grid, name, lmax)


def fod_of_drawing(phantom: Phantom, grid: Grid, name: str, lmax: int = PHANTOM_LMAX) -> Fod:
    """Return the FOD of a drawing on a grid of its shape, in the tournier07 basis."""
    fractions, tangents = _fill(phantom)
    crowding = np.maximum(fractions.sum(axis=0), 1.0)
    zonal = _lobe(lmax)
    coefficients = np.zeros((*phantom.shape, zonal.size), dtype=np.float32)
    for fraction, tangent in zip(fractions, tangents, strict=True):
        used = fraction > 0
        units = tangent[used] @ grid.affine[:3, :3].T
        units /= np.linalg.norm(units, axis=1, keepdims=True)
        weight = (fraction / crowding)[used]
        coefficients[used] += weight[:, None] * zonal * sh_matrix(units, lmax, "tournier07")
    return Fod(coefficients, grid, basis="tournier07", name=name)


def is_phantom(fod: Fod) -> bool:
    """Tell whether an FOD is one that :func:`make_phantom` makes by its name and lmax alone."""
    if fod.name not in _DRAWINGS or fod.input_kind is not SH:
        return False
    grid = drawing(fod.name).grid
    return fod.grid.shape == grid.shape and np.array_equal(fod.grid.affine, grid.affine)


def phantom_mask(name: str) -> NDArray[np.bool_]:
    """Return the (x, y, z) bool mask of the bundles, on the grid of :func:`make_phantom`."""
    return np.asarray(_fill(drawing(name))[0].sum(axis=0) >= MASK_FRACTION)


def phantom_lines_mm(name: str, *, affine: ArrayLike | None = None) -> list[list[Curve]]:
    """Return the true centre lines: for each bundle its curves, each (n, 3) float64 RAS+ mm."""
    phantom = drawing(name)
    grid = phantom.grid if affine is None else Grid(phantom.shape, affine)
    return [[grid.to_mm(curve) for curve in bundle.curves] for bundle in phantom.bundles]


def phantom_seeds_mm(name: str, *, affine: ArrayLike | None = None) -> NDArray[np.float64]:
    """Return (n_bundles, 3) RAS+ mm: one point on each bundle, good to start streamlines from."""
    phantom = drawing(name)
    grid = phantom.grid if affine is None else Grid(phantom.shape, affine)
    seeds = []
    for bundle in phantom.bundles:
        curve = bundle.curves[len(bundle.curves) // 2]
        seeds.append(curve[round(bundle.seed_at * (len(curve) - 1))])
    return grid.to_mm(seeds)


def drawing(name: str) -> Phantom:
    """Return a phantom as it is drawn. Raises InvalidParameterError when there is none."""
    if name not in _DRAWINGS:
        raise InvalidParameterError(
            f"There is no phantom {name!r}; choose one of {', '.join(_DRAWINGS)}."
        )
    return _DRAWINGS[name]


def _fill(phantom: Phantom) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return what bundles fill of each voxel, (n_bundles, x, y, z), and their tangents there.

    Tangents are (n_bundles, x, y, z, 3), in voxel axes, of any length.
    """
    from scipy.spatial import cKDTree  # on use: it takes a while to load

    voxels = np.indices(phantom.shape).reshape(3, -1).T
    fractions, tangents = [], []
    for bundle in phantom.bundles:
        points = np.concatenate(bundle.curves)
        along = np.concatenate([np.gradient(curve, axis=0) for curve in bundle.curves])
        reach = bundle.radius_vox + 0.5
        distances, nearest = cKDTree(points).query(voxels, distance_upper_bound=reach)
        fraction = np.clip(reach - distances, 0.0, 1.0)  # an edge one voxel wide
        fractions.append(fraction.reshape(phantom.shape))
        tangent = along[np.minimum(nearest, len(points) - 1)]  # out of reach: any, it weighs 0
        tangents.append(tangent.reshape(*phantom.shape, 3))
    return np.array(fractions), np.array(tangents)


def _lobe(lmax: int) -> NDArray[np.float64]:
    """Return (n_coefficients,) factors that turn Y_lm(u) into a lobe along u with peak 1.

    The lobe is Watson's kernel exp(k (cos^2 - 1)), as sharp as `lmax` can show without ringing.
    By the Funk-Hecke theorem its coefficients are 2 pi times the integral of the kernel with
    the Legendre polynomial, times Y_lm(u).
    """
    cosines, weights = np.polynomial.legendre.leggauss(N_QUADRATURE)
    kernel = np.exp((lmax + 2) ** 2 / 10.0 * (cosines**2 - 1.0))
    degrees = np.arange(0, lmax + 1, 2)
    legendre = np.polynomial.legendre.legvander(cosines, lmax)[:, degrees]
    zonal = 2.0 * np.pi * (weights * kernel) @ legendre
    zonal /= zonal @ (2 * degrees + 1) / (4.0 * np.pi)  # amplitude at the peak
    return np.asarray(np.repeat(zonal, 2 * degrees + 1))


def _through(*corners: tuple[float, float, float]) -> Curve:
    """Return the straight pieces between points, finely sampled."""
    return _resample(np.array(corners, dtype=np.float64))


def _ellipse(
    centre: tuple[float, float, float],
    first: tuple[float, float, float],
    second: tuple[float, float, float],
    from_deg: float,
    to_deg: float,
) -> Curve:
    """Return centre + cos(t) first + sin(t) second."""
    angle = np.deg2rad(np.linspace(from_deg, to_deg, 400))[:, None]
    return _resample(
        np.array(centre) + np.cos(angle) * np.array(first) + np.sin(angle) * np.array(second)
    )


def _helix(
    centre: tuple[float, float], radius: float, z: tuple[float, float], turns: float
) -> Curve:
    """Return a right-handed helix around a line along the third axis."""
    angle = np.linspace(0.0, 2.0 * np.pi * turns, 800)
    return _resample(
        np.stack(
            [
                centre[0] + radius * np.cos(angle),
                centre[1] + radius * np.sin(angle),
                np.linspace(*z, len(angle)),
            ],
            axis=1,
        )
    )


def _resample(points: Curve) -> Curve:
    lengths = np.linalg.norm(np.diff(points, axis=0), axis=1)
    at = np.concatenate([[0.0], np.cumsum(lengths)])
    wanted = np.linspace(0.0, at[-1], int(at[-1] / POINT_SPACING_VOX) + 2)
    return np.stack([np.interp(wanted, at, points[:, k]) for k in range(3)], axis=1)


def _fan(
    root: tuple[float, float, float], ends: tuple[tuple[float, float, float], ...]
) -> tuple[Curve, ...]:
    """Return curves that leave the root upwards and spread to the ends."""
    start = np.array(root)
    t = np.linspace(0.0, 1.0, 200)[:, None]
    curves = []
    for end in ends:
        # A quadratic Bezier curve whose first tangent is the third axis.
        bend = np.array([start[0], start[1], (start[2] + end[2]) / 2])
        curves.append(
            _resample((1 - t) ** 2 * start + 2 * t * (1 - t) * bend + t**2 * np.array(end))
        )
    return tuple(curves)


def _turn(x_deg: float, y_deg: float, z_deg: float) -> NDArray[np.float64]:
    """Return the rotation about x, then y, then z."""
    (a, b, c), (p, q, r) = (f(np.deg2rad([x_deg, y_deg, z_deg])) for f in (np.cos, np.sin))
    about_x = np.array([[1, 0, 0], [0, a, -p], [0, p, a]])
    about_y = np.array([[b, 0, q], [0, 1, 0], [-q, 0, b]])
    about_z = np.array([[c, -r, 0], [r, c, 0], [0, 0, 1]])
    return np.asarray(about_z @ about_y @ about_x)


_OBLIQUE = _turn(24.0, -17.0, 11.0)
_OBLIQUE_CENTRE_MM = (8.0, -14.0, 21.0)

_ARCS = (
    # An arch in the coronal plane and a bowl in the sagittal one, linked like a chain.
    PhantomBundle((_ellipse((24, 26, 3), (18, 0, 0), (0, 0, 23), 0, 180),), 2.5, 0.5),
    PhantomBundle((_ellipse((24, 24, 28), (0, 18, 0), (0, 0, -19), 0, 180),), 2.5, 0.5),
    # Straight from back to front, through the arch's left leg.
    PhantomBundle((_through((7.5, 2, 12), (7.5, 45, 12)),), 2.0, 0.25),
    # A spiral, at the right in front.
    PhantomBundle((_helix((38, 38), 5.0, (2, 29), 2.0),), 1.8, 0.5),
    # A fan, at the right at the back.
    PhantomBundle(_fan((38, 7, 2), tuple((x, 7, 29) for x in np.linspace(30, 45, 7))), 1.5, 0.1),
)  # fmt: skip

_SLANT = 14.0 * np.cos(np.deg2rad(30.0)), 14.0 * np.sin(np.deg2rad(30.0))

_DRAWINGS = {
    "arcs": Phantom(
        "An arch and a bowl linked like a chain, a straight bundle through the arch's left leg, "
        "a spiral at the right in front and a fan at the right at the back",
        (48, 48, 32),
        _ARCS,
    ),
    "arcs-oblique": Phantom(
        "The same on a grid that lies obliquely in space", (48, 48, 32), _ARCS, oblique=True
    ),
    "cross": Phantom(
        "Two straight bundles that cross at 60 degrees",
        (32, 24, 10),
        tuple(
            PhantomBundle(
                (
                    _through(
                        (15.5 - _SLANT[0], 11.5 - side * _SLANT[1], 4.5),
                        (15.5 + _SLANT[0], 11.5 + side * _SLANT[1], 4.5),
                    ),
                ),
                2.5,
                0.2,
            )
            for side in (1, -1)
        ),
    ),
    # Seen from behind with left on the left it reads as an R; its foot points forward.
    "letter": Phantom(
        "The letter R in a coronal plane, with left on the left; its foot points forward and the "
        "letter stands upright",
        (32, 28, 32),
        (
            PhantomBundle((_through((8, 7, 3), (8, 7, 28)),), 1.6),
            PhantomBundle(
                (
                    np.concatenate(
                        [
                            _through((9, 7, 27.5), (15, 7, 27.5)),
                            _ellipse((15, 7, 21.5), (0, 0, 6), (6, 0, 0), 0, 180)[1:],
                            _through((15, 7, 15.5), (9, 7, 15.5))[1:],
                        ]
                    ),
                ),
                1.6,
            ),
            PhantomBundle(
                (
                    np.concatenate(
                        [
                            _through((13.5, 7, 14.5), (22, 7, 4)),
                            _through((22.5, 7.5, 3.5), (23, 9, 3), (23, 24, 3)),
                        ]
                    ),
                ),
                1.6,
                0.3,
            ),
        ),
    ),
}

PHANTOMS = {name: phantom.description for name, phantom in _DRAWINGS.items()}
