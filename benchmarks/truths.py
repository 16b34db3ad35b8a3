"""Ground truths: bundles as tubes, FODs made of them, and the scores of streamlines through them.

A bundle is a curve with a radius. Its FOD is made as a scanner would see it: a voxel is the mean of
`SUBPOINTS` cubed points, each of which has a fibre along every bundle that it lies in. Called by
``truth.py``.
"""

from __future__ import annotations

import json
import subprocess
import tempfile
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import nibabel as nib
import numpy as np
from numpy.typing import NDArray
from scipy.interpolate import CubicHermiteSpline
from scipy.spatial import cKDTree
from scipy.spatial.transform import Rotation

import napari_tractography as nt
from napari_tractography.fields.sh import sh_matrix
from peers.mrtrix import write_fod

Curve = NDArray[np.float64]

VOXEL_MM = 2.0
RADIUS_MM = 4.0
LMAX = 8
SHARPNESS = 10.0  # of the lobe along a fibre, exp(SHARPNESS (cos^2 - 1)): lmax 8 shows no sharper
SUBPOINTS = 4
SPACING_MM = 0.25  # of the points of curves
LEAST = 0.05  # what a bundle fills of a voxel that counts
FULL = 0.5  # of a voxel that is a bundle's
NOISE = 0.02  # of the largest first coefficient, on every coefficient
MARGIN_VOX = 2
NEAR_END_MM = 6.0
# Half A is to choose parameters by, B to report on: other angles to the grid, seeds and noise.
HALVES = {"A": ((10.0, 20.0, 30.0), 1), "B": ((-25.0, 13.0, 50.0), 2)}
# The diffusion of the signal of which constrained spherical deconvolution makes FODs.
B_VALUE, ALONG, ACROSS, ISOTROPIC, N_GRADIENTS = 3000.0, 1.7e-3, 0.2e-3, 0.8e-3, 64
# What FODs of bundles that are drawn are made by, and the signal-to-noise ratio of the scan.
DRAWN_KINDS = {"exact": None, "csd20": 20.0, "csd30": 30.0}
# By MRtrix3's tckmap: the density of true streamlines by their orientation. Its lobes are broad.
TOD, TOD_LINES = "tod", 1500  # of a bundle


@dataclass(frozen=True, slots=True, eq=False)
class Bundle:
    """A tube: (n, 3) points of its middle, RAS+ mm, evenly spaced, and its radius."""

    name: str
    curve: Curve
    radius_mm: float = RADIUS_MM

    @property
    def tangents(self) -> Curve:
        """Unit vectors along the curve at its points."""
        along = np.gradient(self.curve, axis=0)
        return along / np.linalg.norm(along, axis=1, keepdims=True)

    def nearest(self, points_mm: NDArray) -> tuple[NDArray, NDArray]:
        """Return how far points are from the middle, and the number of the curve's point there."""
        return cKDTree(self.curve).query(points_mm)

    def holds(self, points_mm: NDArray, more_mm: float = 0.0) -> NDArray:
        """Tell which points lie in the tube, made wider by so much, and not beyond its ends."""
        apart, at = self.nearest(points_mm)
        inside = apart <= self.radius_mm + more_mm
        for end, step in ((0, 1), (len(self.curve) - 1, -1)):
            along = (np.asarray(points_mm) - self.curve[end]) @ (self.tangents[end] * step)
            inside &= (at != end) | (along >= -SPACING_MM)
        return inside


@dataclass(frozen=True, slots=True, eq=False)
class Truth:
    """A ground truth, before an FOD is made of it.

    Attributes
    ----------
    bundles : tuple of Bundle
    lesion : callable, optional
        Tells which of (n, 3) points hold no fibres.
    seeded : callable, optional
        Tells in which of (n, 3) points seeds may lie; by default in all that bundles hold.
    """

    name: str
    bundles: tuple[Bundle, ...]
    lesion: Callable[[NDArray], NDArray] | None = None
    seeded: Callable[[NDArray], NDArray] | None = None
    voxel_mm: float = VOXEL_MM

    @property
    def kinds(self) -> tuple[str, ...]:
        """How FODs of it can be made."""
        return (*DRAWN_KINDS, TOD)

    def make(
        self,
        n_seeds: int,
        half: str = "A",
        kind: str = "exact",
        *,
        repeat: int = 0,
        at_ends: bool = False,
    ) -> Made:
        """Return an FOD of it; see :func:`make`."""
        return make(self, n_seeds, half, kind, repeat=repeat, at_ends=at_ends)

    def turned(self, degrees: Sequence[float]) -> Truth:
        """Return it at another angle to the grid."""
        turn = Rotation.from_euler("xyz", degrees, degrees=True)

        def back(test: Callable[[NDArray], NDArray] | None):
            return test and (lambda points: test(turn.inv().apply(points)))

        return Truth(
            self.name,
            tuple(Bundle(b.name, turn.apply(b.curve), b.radius_mm) for b in self.bundles),
            back(self.lesion),
            back(self.seeded),
            self.voxel_mm,
        )


# ------------------------------------------------------------------------------------- the drawing


def spaced(points: NDArray) -> Curve:
    """Return a polyline's points at even distances."""
    points = np.asarray(points, dtype=np.float64)
    along = np.concatenate([[0], np.cumsum(np.linalg.norm(np.diff(points, axis=0), axis=1))])
    places = np.linspace(0, along[-1], int(along[-1] / SPACING_MM) + 1)
    return np.stack([np.interp(places, along, points[:, k]) for k in range(3)], axis=1)


def line(degrees: float, length_mm: float = 80.0, shift: Sequence[float] = (0, 0, 0)) -> Curve:
    """Return a straight line in the plane of x and y through a point, at an angle to x."""
    angle = np.deg2rad(degrees)
    along = np.array([np.cos(angle), np.sin(angle), 0.0]) * length_mm / 2
    return spaced(np.array([-along, along]) + np.asarray(shift))


def through(points: NDArray) -> Curve:
    """Return the smooth curve through control points, as phantomas draws it."""
    points = np.asarray(points, dtype=np.float64)
    at = np.concatenate([[0], np.cumsum(np.linalg.norm(np.diff(points, axis=0), axis=1))])
    if len(points) < 3:
        return spaced(points)
    slopes = np.gradient(points, at, axis=0)
    return spaced(CubicHermiteSpline(at, points, slopes)(np.linspace(0, at[-1], 2000)))


def phantomas(path: Path) -> Truth:
    """Return the geometry of a file of phantomas."""
    fibres = json.loads(path.read_text("utf-8"))["fiber_geometries"]
    return Truth(
        f"phantomas-{path.stem}",
        tuple(
            Bundle(
                name,
                through(np.reshape(fibre["control_points"], (-1, 3))),
                fibre["radius"],
            )
            for name, fibre in fibres.items()
        ),
    )


def arc(radius_mm: float, degrees: float, leg_mm: float) -> Curve:
    """Return an arc in the plane of x and y with a straight leg at either end."""
    half = np.deg2rad(degrees / 2)
    angle = np.linspace(-half, half, 200)
    bend = radius_mm * np.stack([np.sin(angle), np.cos(angle), 0 * angle], axis=1)
    out = np.array([[-np.cos(half), -np.sin(half), 0], [np.cos(half), -np.sin(half), 0]]) * leg_mm
    return spaced(np.concatenate([[bend[0] + out[0]], bend, [bend[-1] + out[1]]]))


def kissing(degrees: float, gap_mm: float) -> tuple[Curve, Curve]:
    """Return two curves whose arms are at an angle, so far apart where they come nearest."""
    half = np.deg2rad(degrees / 2)
    x, y = 45.0 * np.cos(half), 45.0 * np.sin(half)
    points = np.array([[x, y, 0.0], [0.0, 0.0, 0.0], [x, -y, 0.0]])
    right = through(points) + np.array([gap_mm / 2, 0, 0])
    return right, right * [-1, 1, 1]


def tangle(number: int, n: int = 12, reach_mm: float = 30.0) -> tuple[Bundle, ...]:
    """Return bundles that join places on a sphere, drawn by random numbers.

    Each has a radius of 2 to 5 mm and goes through up to two places inside; its bends have radii of
    9 mm and 1.5 times its own at the least. Ends lie apart.
    """
    rng = np.random.default_rng(number)
    bundles: list[Bundle] = []
    while len(bundles) < n:
        one, other = (v / np.linalg.norm(v) for v in rng.normal(size=(2, 3)))
        radius = rng.uniform(2.0, 5.0)
        inside = rng.normal(size=(rng.integers(3), 3))
        inside /= np.linalg.norm(inside, axis=1, keepdims=True)
        inside *= 0.75 * rng.random((len(inside), 1)) ** (1 / 3)  # evenly in a ball
        inside = inside[np.argsort(inside @ (other - one))]
        curve = through(reach_mm * np.array([one, 0.8 * one, *inside, 0.8 * other, other]))
        bundle = Bundle(f"{len(bundles)}", curve, radius)
        turns = np.linalg.norm(np.gradient(bundle.tangents, axis=0), axis=1)[2:-2] / SPACING_MM
        ends = [(b.curve[at], b.radius_mm) for b in bundles for at in (0, -1)]
        meet = any(
            np.linalg.norm(end - curve[at]) < radius + near + VOXEL_MM
            for end, near in ends
            for at in (0, -1)
        )
        outside = np.linalg.norm(curve, axis=1).max() > reach_mm + 1.0
        if one @ other < 0.5 and turns.max() < 1 / max(9.0, 1.5 * radius) and not (meet or outside):
            bundles.append(bundle)
    return tuple(bundles)


def synthetic() -> dict[str, Truth]:
    """Return what is drawn here, by name."""

    def crossing(*degrees: float) -> tuple[Bundle, ...]:
        return tuple(Bundle(f"{angle:g}", line(angle)) for angle in degrees)

    fan = (Bundle(n, through(np.array([[x, 43.0 - abs(x) / 4, 0], [0, 0, 0], [0, -40.0, 0]])))
           for n, x in (("left", -25.0), ("middle", 0.0), ("right", 25.0)))  # fmt: skip
    truths = [
        *(Truth(f"crossing{a}", crossing(0, a)) for a in (20, 30, 45, 60, 90)),
        Truth("crossing3", crossing(0, 60, 120)),
        *(
            Truth(f"kissing{a}", tuple(map(Bundle, ("right", "left"), kissing(a, 5.0))))
            for a in (90, 150)
        ),
        Truth("fanning", tuple(fan)),
        Truth("bending", (Bundle("bend", arc(15.0, 150.0, 15.0)),)),
        Truth("arc", (Bundle("arc", arc(7.0, 180.0, 14.0), 2.5),)),
        # Cut from one side over 6 mm, so that 0.6 of the section is left.
        Truth(
            "lesion",
            (Bundle("cut", line(0), 6.0),),
            lambda p: (np.abs(p[:, 0]) < 3.0) & (p[:, 1] > CUT_MM),
            lambda p: p[:, 0] < -20.0,
        ),
        # The same with a slanted face, 17 degrees to the bundle.
        Truth(
            "shear",
            (Bundle("cut", line(0), 6.0),),
            lambda p: (p[:, 0] < 3.0) & (p[:, 1] > CUT_MM - 0.3 * np.minimum(p[:, 0] + 3.0, 0.0)),
            lambda p: p[:, 0] < -25.0,
        ),
        # Ends at the side of another, halfway along it.
        Truth("tee", (Bundle("through", line(0)), Bundle("onto", line(90, 32, (0, -20, 0))))),
        # Twelve that cross, kiss and bend as they come.
        Truth("tangle", tangle(4)),
    ]
    return {truth.name: truth for truth in truths}


MET_MM = -23.0  # of the middle: just before lesions begin
CUT_MM = 0.1585 * 6.0  # of a disc, 0.6 lie below 0.1585 of its radius


# ----------------------------------------------------------------------------------------- the FOD


@dataclass(frozen=True, slots=True, eq=False)
class Disc:
    """The end of a tube: its centre, the unit vector along it, and its radius."""

    centre: NDArray
    axis: NDArray
    radius_mm: float
    voxel_mm: float

    def holds(self, points_mm: NDArray) -> NDArray:
        """Tell which points lie within 1.25 voxels along the bundle, and half a voxel across."""
        away = points_mm - self.centre
        along = away @ self.axis
        across = np.linalg.norm(away - along[:, None] * self.axis, axis=1)
        reach = self.radius_mm + self.voxel_mm / 2
        return (np.abs(along) <= 1.25 * self.voxel_mm) & (across <= reach)


@dataclass(frozen=True, slots=True)
class Lesion:
    """What a lesion leaves.

    Attributes
    ----------
    before_mm, along : (3,) float64
        A place before it, and the direction to it.
    open_ways : int
        How many seeds have a straight way past it.
    far_end : int
        The number of the end behind it.
    """

    before_mm: NDArray
    along: NDArray
    open_ways: int
    far_end: int = 1


@dataclass(frozen=True, eq=False)
class Made:
    """An FOD of a truth, and what is known of it.

    Attributes
    ----------
    name : str
        Of the truth and how the FOD was made.
    fod : Fod
    filled : (n_bundles, x, y, z) float64
        What each bundle fills of a voxel.
    seeds_mm : (n, 3) float64
        Places of seeds, RAS+ mm: uniform in the bundles, each of which has as many.
    bundle_of : (n,) int
        In which bundle each seed is.
    ends : tuple
        Of all bundles, each with `holds` of points; those at one place are one.
    ends_of : tuple of (int, int)
        The numbers of the ends of each bundle.
    repeat : int
        Number of the seeds and the noise; also of the random numbers of tracking.
    least_inside : float
        What part of a valid streamline's points its bundle holds.
    tells_invalid : bool
        Whether no other ends than those of one bundle are joined.
    lesion : Lesion, optional
    """

    name: str
    fod: nt.Fod
    filled: NDArray
    seeds_mm: NDArray
    bundle_of: NDArray
    ends: tuple = ()
    ends_of: tuple[tuple[int, int], ...] = ()
    repeat: int = 0
    least_inside: float = 0.0
    tells_invalid: bool = True
    lesion: Lesion | None = None

    @cached_property
    def image(self) -> Path:
        """The FOD as tckgen reads it, in a file that goes with this object."""
        folder = tempfile.TemporaryDirectory(prefix="truth-")
        weakref.finalize(self, folder.cleanup)
        return write_fod(self.fod, Path(folder.name) / "fod.nii")

    def voxels(self, points_mm: NDArray) -> tuple[tuple[NDArray, ...], NDArray]:
        """Return the nearest voxels of points, and which of them lie in the image."""
        found = np.rint(self.fod.grid.to_voxel(points_mm)).astype(int)
        inside = ((found >= 0) & (found < self.fod.grid.shape)).all(axis=1)
        found[~inside] = 0
        return tuple(found.T), inside

    def at_ends(self, tips_mm: NDArray) -> NDArray:
        """Return (n_tips, n_ends) bool: which end each tip lies at."""
        return np.array([end.holds(tips_mm) for end in self.ends]).T


def make(
    truth: Truth,
    n_seeds: int,
    half: str = "A",
    kind: str = "exact",
    *,
    repeat: int = 0,
    at_ends: bool = False,
) -> Made:
    """Return the FOD of a truth: its lobes with some noise, by CSD of a noisy scan, or by tckmap.

    With `at_ends` seeds lie within `NEAR_END_MM` of the first end of each bundle. Another `repeat`
    has other seeds and other noise.
    """
    degrees, number = HALVES[half]
    truth = truth.turned(degrees)
    rng = np.random.default_rng([number, repeat] if repeat else number)
    size, bundles = truth.voxel_mm, truth.bundles
    corners = np.concatenate([b.curve for b in bundles])
    reach = max(b.radius_mm for b in bundles) + MARGIN_VOX * size
    low, high = corners.min(axis=0) - reach, corners.max(axis=0) + reach
    shape = tuple(int(n) for n in np.ceil((high - low) / size))
    affine = np.diag([size, size, size, 1.0])
    affine[:3, 3] = low
    places = (np.arange(SUBPOINTS) + 0.5) / SUBPOINTS - 0.5
    offsets = np.stack(np.meshgrid(places, places, places, indexing="ij"), -1).reshape(-1, 3)
    voxels = np.indices(shape).reshape(3, -1).T
    near = np.zeros(len(voxels), bool)
    for bundle in bundles:
        near |= bundle.nearest(voxels * size + low)[0] < bundle.radius_mm + size
    points = (voxels[near][:, None] + offsets) * size + low
    held, fibres = [], []
    for bundle in bundles:
        flat = points.reshape(-1, 3)
        inside = bundle.holds(flat)
        if truth.lesion is not None:
            inside &= ~truth.lesion(flat)
        held.append(inside.reshape(points.shape[:2]))
        fibres.append(bundle.tangents[bundle.nearest(flat)[1]].reshape(points.shape))
    share = np.array(held) / np.maximum(np.sum(held, axis=0), 1) / SUBPOINTS**3
    filled = np.zeros((len(bundles), *shape))
    filled.reshape(len(bundles), -1)[:, near] = np.mean(held, axis=2)
    snr = DRAWN_KINDS.get(kind)
    coefficients = np.zeros((*shape, (LMAX + 1) * (LMAX + 2) // 2), np.float32)
    there = filled.max(axis=0) >= LEAST
    chosen = there.reshape(-1)[near]
    mixed = share[:, chosen], np.array(fibres)[:, chosen]
    if kind == TOD:
        coefficients = _mapped(true_streamlines(truth, TOD_LINES, rng), shape, affine)
    else:
        coefficients[there] = _deconvolved(*mixed, snr, rng) if snr else _lobes(*mixed, rng)
    fod = nt.Fod(coefficients, affine, basis="tournier07", name=truth.name)
    seeds = []
    for k, inside in enumerate(held):
        own = points[inside]
        if truth.seeded is not None:
            own = own[truth.seeded(own)]
        elif at_ends:
            at = bundles[k].nearest(own)[1]
            own = own[at * SPACING_MM < NEAR_END_MM]
        n = (n_seeds + len(bundles) - 1 - k) // len(bundles)
        jitter = rng.uniform(-0.5, 0.5, (n, 3)) * size / SUBPOINTS
        seeds.append(own[rng.integers(len(own), size=n)] + jitter)
    ends, numbers = ends_of(bundles, size)
    lesion = None
    if truth.lesion is not None:
        middle = len(bundles[0].curve) // 2
        along = bundles[0].tangents[middle]
        ways = np.arange(len(bundles[0].curve)) * SPACING_MM
        ahead = np.concatenate(seeds)[:, None] + ways[:, None] * along
        is_closed = truth.lesion(ahead.reshape(-1, 3)).reshape(ahead.shape[:2]).any(axis=1)
        n_open = int((~is_closed).sum())
        lesion = Lesion(bundles[0].curve[middle] + MET_MM * along, along, n_open)
    return Made(
        f"{truth.name}, {kind}",
        fod,
        filled,
        np.concatenate(seeds),
        np.repeat(np.arange(len(seeds)), [len(own) for own in seeds]),
        ends,
        numbers,
        repeat,
        lesion=lesion,
    )


def ends_of(
    bundles: Sequence[Bundle], voxel_mm: float
) -> tuple[tuple[Disc, ...], tuple[tuple[int, int], ...]]:
    """Return the ends of all bundles, those at one place as one, and their numbers by bundle."""
    ends: list[Disc] = []
    numbers = []
    for bundle in bundles:
        pair = []
        for at in (0, -1):
            centre = bundle.curve[at]
            known = [
                k for k, end in enumerate(ends) if np.linalg.norm(end.centre - centre) < voxel_mm
            ]
            if not known:
                ends.append(Disc(centre, bundle.tangents[at], bundle.radius_mm, voxel_mm))
            pair.append(known[0] if known else len(ends) - 1)
        numbers.append((pair[0], pair[1]))
    return tuple(ends), tuple(numbers)


def _lobes(share: NDArray, fibres: NDArray, rng: np.random.Generator) -> NDArray:
    """Return the coefficients of sharp lobes along all fibres, with noise."""
    cosines, weights = np.polynomial.legendre.leggauss(128)
    degrees = np.arange(0, LMAX + 1, 2)
    legendre = np.polynomial.legendre.legvander(cosines, LMAX)[:, degrees]
    zonal = (weights * np.exp(SHARPNESS * (cosines**2 - 1))) @ legendre
    zonal /= zonal @ (2 * degrees + 1) / (4 * np.pi)
    damping = np.repeat(zonal, 2 * degrees + 1)
    total = 0.0
    for part, along in zip(share, fibres, strict=True):
        matrix = sh_matrix(along.reshape(-1, 3), LMAX, "tournier07")
        total = total + np.einsum("vp,vpc->vc", part, matrix.reshape(*part.shape, -1))
    coefficients = total * damping
    noise = rng.normal(size=coefficients.shape)
    return np.asarray(coefficients + NOISE * coefficients[:, 0].max() * noise, np.float32)


def _deconvolved(share: NDArray, fibres: NDArray, snr: float, rng: np.random.Generator) -> NDArray:
    """Return FODs by constrained spherical deconvolution (DIPY's) of a scan with Rician noise."""
    from dipy.core.gradients import gradient_table
    from dipy.reconst.csdeconv import ConstrainedSphericalDeconvModel
    from dipy.reconst.shm import real_sh_descoteaux

    from napari_tractography.geometry.directions import direction_set

    gradients = direction_set(2 * N_GRADIENTS)[:N_GRADIENTS]
    table = gradient_table(
        np.concatenate([[0.0], np.full(N_GRADIENTS, B_VALUE)]),
        bvecs=np.concatenate([[[0.0, 0.0, 0.0]], gradients]),
    )
    rest = 1 - share.sum(axis=(0, 2))
    signal = rest[:, None] * np.exp(-B_VALUE * ISOTROPIC) * np.ones((1, N_GRADIENTS))
    for part, along in zip(share, fibres, strict=True):
        cosines = along @ gradients.T
        decay = np.exp(-B_VALUE * (ACROSS + (ALONG - ACROSS) * cosines**2))
        signal += np.einsum("vp,vpg->vg", part, decay)
    scan = np.concatenate([np.ones((len(signal), 1)), signal], axis=1)
    noise = rng.normal(size=(2, *scan.shape)) / snr
    scan = np.hypot(scan + noise[0], noise[1])
    model = ConstrainedSphericalDeconvModel(
        table, (np.array([ALONG, ACROSS, ACROSS]), 1.0), sh_order_max=LMAX
    )
    found = model.fit(scan).shm_coeff  # descoteaux07, legacy
    sphere = direction_set(724)[:362]
    theta, phi = np.arccos(sphere[:, 2]), np.arctan2(sphere[:, 1], sphere[:, 0])
    basis = real_sh_descoteaux(LMAX, theta, phi, legacy=True)[0]
    ours = np.linalg.pinv(sh_matrix(sphere, LMAX, "tournier07"))
    return np.asarray(found @ basis.T @ ours.T, np.float32)


def true_streamlines(truth: Truth, n: int, rng: np.random.Generator) -> list[NDArray]:
    """Return `n` streamlines of each bundle, beside its curve, without what a lesion holds."""
    lines = []
    for bundle in truth.bundles:
        tangents, sides = bundle.tangents, []
        side = np.eye(3)[np.abs(tangents[0]).argmin()]
        for tangent in tangents:  # as they turn with the curve, but not about it
            side = side - side @ tangent * tangent
            side = side / np.linalg.norm(side)
            sides.append((side, np.cross(tangent, side)))
        across = np.array(sides)
        radius, angle = bundle.radius_mm * np.sqrt(rng.random(n)), 2 * np.pi * rng.random(n)
        places = np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=1)
        for place in places:
            points = bundle.curve + place @ across
            gone = np.zeros(len(points), bool) if truth.lesion is None else truth.lesion(points)
            parts = np.split(np.arange(len(points)), np.flatnonzero(np.diff(gone)) + 1)
            lines += [points[part] for part in parts if len(part) > 1 and not gone[part[0]]]
    return lines


def _mapped(lines: Sequence[NDArray], shape: tuple[int, ...], affine: NDArray) -> NDArray:
    """Return the track orientation density of streamlines, by MRtrix3's tckmap."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        nt.Tractogram(
            np.concatenate(lines).astype(np.float32), np.cumsum([0, *map(len, lines)])
        ).save(folder / "lines.tck")
        nib.save(nib.Nifti1Image(np.zeros(shape, np.uint8), affine), folder / "grid.nii")
        words = ["tckmap", "-quiet", "-tod", str(LMAX), "-template"]
        paths = [str(folder / name) for name in ("grid.nii", "lines.tck", "tod.nii")]
        subprocess.run([*words, *paths], check=True)
        return np.asarray(nib.load(folder / "tod.nii").dataobj, np.float32)


# --------------------------------------------------------------------------------------- the score


@dataclass(frozen=True, slots=True)
class Score:
    """What became of seeds.

    Attributes
    ----------
    n_seeds, n_streamlines : int
    valid : int
        Streamlines that join both ends of one bundle.
    invalid : int
        Streamlines that join ends that no bundle joins.
    overlap, overreach : float
        Voxels that valid streamlines visit, in bundles and outside, over those of bundles.
    passed, met : int
        Of a lesion: streamlines that come to the far end, and those that come to its plane.
    open_ways : int
        Seeds from which a straight line passes it.
    tells_invalid : bool
        Whether invalid ones can be told.
    spread, overlap_spread : float
        Standard errors of `valid_share` and of `overlap` as repeats differ; not numbers of a single
        one.
    """

    n_seeds: int
    n_streamlines: int
    valid: int
    invalid: int
    overlap: float
    overreach: float
    passed: int = 0
    met: int = 0
    open_ways: int = 0
    tells_invalid: bool = True
    spread: float = float("nan")
    overlap_spread: float = float("nan")

    @property
    def valid_share(self) -> float:
        """Of streamlines."""
        return self.valid / max(self.n_streamlines, 1)

    @property
    def valid_of_seeds(self) -> float:
        """Of seeds."""
        return self.valid / max(self.n_seeds, 1)

    @property
    def invalid_share(self) -> float:
        """Of streamlines; not a number where invalid ones cannot be told."""
        return self.invalid / max(self.n_streamlines, 1) if self.tells_invalid else float("nan")

    @property
    def passed_share(self) -> float:
        """Of those that come to a lesion; not a number without one."""
        return self.passed / self.met if self.met else float("nan")

    @property
    def open_share(self) -> float:
        """What part should pass a lesion."""
        return self.open_ways / max(self.n_seeds, 1)

    @property
    def error(self) -> float:
        """Standard error of `valid_share`, of one repeat."""
        return binomial_error(self.valid, self.n_streamlines)


def binomial_error(count: int, n: int) -> float:
    """Return the standard error of `count` of `n` as a share.

    That of two more of each kind, by Agresti and Coull (1998): all of 27 may be 90 % of many.
    """
    share = (count + 2) / (n + 4)
    return float(np.sqrt(share * (1 - share) / (n + 4)))


def pooled(scores: Sequence[Score]) -> Score:
    """Return the score of repeats as one: sums of counts, means of overlap and overreach."""

    def total(name: str) -> int:
        return sum(getattr(score, name) for score in scores)

    def spread(name: str) -> float:
        shares = [getattr(score, name) for score in scores]
        n = len(shares)
        return float(np.std(shares, ddof=1) / np.sqrt(n)) if n > 1 else np.nan

    counts = ("n_seeds", "n_streamlines", "valid", "invalid", "passed", "met", "open_ways")
    return replace(
        scores[0],
        **{name: total(name) for name in counts},
        overlap=float(np.mean([score.overlap for score in scores])),
        overreach=float(np.mean([score.overreach for score in scores])),
        spread=spread("valid_share"),
        overlap_spread=spread("overlap"),
    )


def score(made: Made, lines: nt.Tractogram) -> Score:
    """Score streamlines."""
    points, offsets = lines.points, lines.offsets
    n = len(lines)
    first, last = (made.at_ends(points[at]) for at in (offsets[:-1], offsets[1:] - 1))
    where, inside = made.voxels(points)
    valid = np.zeros(n, bool)
    for k, (one, other) in enumerate(made.ends_of):
        joined = (first[:, one] & last[:, other]) | (first[:, other] & last[:, one])
        if made.least_inside and n:
            held = (made.filled[k][where] >= FULL) & inside
            share = np.add.reduceat(held, offsets[:-1], dtype=float) / np.diff(offsets)
            joined &= share >= made.least_inside
        valid |= joined
    invalid = first.any(axis=1) & last.any(axis=1) & ~valid
    of_valid = inside & np.repeat(valid, np.diff(offsets))
    visited = np.zeros(made.fod.grid.shape, bool)
    visited[tuple(axis[of_valid] for axis in where)] = True
    most = made.filled.max(axis=0)
    bundles = most >= FULL
    passed = met = n_open = 0
    if made.lesion is not None:
        n_open = made.lesion.open_ways
        along = (points - made.lesion.before_mm) @ made.lesion.along
        met = int((np.maximum.reduceat(along, offsets[:-1]) > 0).sum()) if n else 0
        passed = int((first | last)[:, made.lesion.far_end].sum())
    return Score(
        len(made.seeds_mm),
        n,
        int(valid.sum()),
        int(invalid.sum()),
        float((visited & bundles).sum() / bundles.sum()),
        float((visited & (most <= 0)).sum() / bundles.sum()),
        passed,
        met,
        n_open,
        made.tells_invalid,
    )


# ---------------------------------------------------------------------------- ends that are lost

# Where they lie, by voxels.
PLACES = (
    "in its bundle",
    "in its bundle, at the FOD's edge",
    "beside it",
    "beside it, at the FOD's edge",
    "past its end",
    "in another bundle",
)


@dataclass(frozen=True, slots=True)
class Lost:
    """Ends of streamlines that lie at no end of a bundle.

    Attributes
    ----------
    points_mm : (n, 3) float32
    reasons : (n,) uint8
        Why streamlines ended there.
    places : (n,) int
        Which of `PLACES` they are in, seen from the bundle of the seed.
    n_ends : int
        Of all streamlines, lost or not.
    """

    points_mm: NDArray
    reasons: NDArray
    places: NDArray
    n_ends: int

    @classmethod
    def of(cls, made: Made, lines: nt.Tractogram) -> Lost:
        """Return those of our streamlines."""
        at = np.stack([lines.offsets[:-1], lines.offsets[1:] - 1], axis=1).ravel()
        tips = lines.points[at]
        lost = ~made.at_ends(tips).any(axis=1)
        own = np.repeat(made.bundle_of[lines.seed_index], 2)[lost]
        places = _places(made, tips[lost], own)
        return cls(tips[lost], lines.stop_reasons.ravel()[lost], places, len(at))

    def tractogram(self) -> nt.Tractogram:
        """Return each as a streamline of its own, of which the other end is the seed's."""
        reasons = np.stack([self.reasons, np.zeros_like(self.reasons)], axis=1)
        return nt.Tractogram(
            self.points_mm, np.arange(len(self.points_mm) + 1), stop_reasons=reasons
        )


def _places(made: Made, tips_mm: NDArray, own: NDArray) -> NDArray:
    """Return which of `PLACES` tips are in, whose seeds are in the bundles `own`."""
    where, inside = made.voxels(tips_mm)
    held = (made.filled[(slice(None), *where)] >= FULL) & inside
    in_own = held[own, np.arange(len(own))]
    padded = np.pad(made.fod.support, 1)
    edge = np.zeros(len(own), bool)
    for axis in range(3):
        for step in (0, 2):
            beside = [axis_of + 1 for axis_of in where]
            beside[axis] = where[axis] + step
            edge |= ~padded[tuple(beside)]
    edge |= ~inside
    past = np.zeros(len(own), bool)
    for k, pair in enumerate(made.ends_of):
        mine = own == k
        if not mine.any():
            continue
        centres = made.fod.grid.to_mm(np.argwhere(made.filled[k] >= FULL))
        nearest = centres[cKDTree(centres).query(tips_mm[mine])[1]]
        past[mine] = np.any([made.ends[end].holds(nearest) for end in pair], axis=0)
    return np.select([in_own, held.any(axis=0), past], [0 + edge, 5, 4], 2 + edge)
