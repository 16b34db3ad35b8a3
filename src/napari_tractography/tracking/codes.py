"""What kernels are called with: codes, constants and structures, for Numba and CUDA alike.

The constants of the CUDA source are generated from here, see
:func:`napari_tractography.tracking.cuda.source.codes_header`; those of the algorithms are in their
rows. Imports no Numba.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from ..geometry import directions
from ..model import parameters
from ..model.philox import Purpose
from ..model.stop import StopReason
from ..runtime.buffers import aligned

PADDING = 16  # coefficients of a voxel are filled up to a multiple: a vector
UNFILLED_BITS = 0xBC00  # in place of a bound, as a half float: -1
POINTS_AT_ONCE = 32  # directions at which kernels evaluate one FOD at once
PROPOSALS_A_BLOCK = 2  # directions that four random words are enough for
# Directions that are proposed before the cone is sampled, before its largest amplitude becomes the
# bound, and in all.
FIRST_PROPOSALS, SECOND_PROPOSALS, MAX_PROPOSALS = 32, 128, 512
LOOK_BLOCK = MAX_PROPOSALS  # of random words, for the look ahead: proposals take earlier ones
N_NEIGHBOURS = directions.N_NEIGHBOURS
MAX_INCLUDES = 16
assert all(n % PROPOSALS_A_BLOCK == 0 for n in (FIRST_PROPOSALS, SECOND_PROPOSALS, MAX_PROPOSALS))

CLIP, SOFTPLUS = 0, 1
OF_VECTORS = -1  # in place of the largest degree of the FOD, for kernels of peaks and tensors
AMONG_NONE, AMONG_DRAWN, AMONG_LARGEST, AMONG_NEAREST, AMONG_FOLLOWED = 0, 1, 2, 3, 4
ALIGNED = np.float32(0.5)  # cosine of the angle within which peaks of several voxels are summed
SWEEPS = 5  # of Jacobi's method; after three, float32 changes no more in all but rare tensors
NEAREST, TRILINEAR = 0, 1
EDGE_VOXEL, EDGE_INTERPOLATED = 0, 1
BOTH, FORWARD, BACKWARD = 0, 1, 2
START_SAMPLED, START_MAX, START_GIVEN = 0, 1, 2
ROLE_EXCLUDE, ROLE_STOP, ROLE_END, ROLE_INCLUDE = 0, 1, 2, 3
SHAPE_SPHERE, SHAPE_MASK = 0, 1
RULE_ALL, RULE_ANY, RULE_ORDERED = 0, 1, 2

SEED = int(StopReason.SEED)
LEFT_IMAGE = int(StopReason.LEFT_IMAGE)
LEFT_MASK = int(StopReason.LEFT_MASK)
NO_FOD = int(StopReason.NO_FOD)
LOW_AMPLITUDE = int(StopReason.LOW_AMPLITUDE)
LOW_PROBABILITY = int(StopReason.LOW_PROBABILITY)
MAX_LENGTH = int(StopReason.MAX_LENGTH)
STOP_REGION = int(StopReason.STOP_REGION)
END_REGION = int(StopReason.END_REGION)
EXCLUDED = int(StopReason.EXCLUDED)
NOT_INCLUDED = int(StopReason.NOT_INCLUDED)
NOT_ENDED = int(StopReason.NOT_ENDED)
TOO_SHORT = int(StopReason.TOO_SHORT)
SEED_OUTSIDE_IMAGE = int(StopReason.SEED_OUTSIDE_IMAGE)
SEED_OUTSIDE_MASK = int(StopReason.SEED_OUTSIDE_MASK)
SEED_WITHOUT_FOD = int(StopReason.SEED_WITHOUT_FOD)
SHARP_TURN = int(StopReason.SHARP_TURN)
ENTERED_CORTEX = int(StopReason.ENTERED_CORTEX)
ENDED_IN_DEEP_GREY = int(StopReason.ENDED_IN_DEEP_GREY)
LEFT_DEEP_GREY = int(StopReason.LEFT_DEEP_GREY)
LEFT_TISSUES = int(StopReason.LEFT_TISSUES)
ENTERED_FLUID = int(StopReason.ENTERED_FLUID)
ENDED_IN_WHITE = int(StopReason.ENDED_IN_WHITE)
TOO_LONG = int(StopReason.TOO_LONG)
NO_WHITE = int(StopReason.NO_WHITE)
SEED_IN_WRONG_TISSUE = int(StopReason.SEED_IN_WRONG_TISSUE)

PURPOSE_FORWARD = int(Purpose.FORWARD)
PURPOSE_BACKWARD = int(Purpose.BACKWARD)
PURPOSE_START = int(Purpose.START)
PURPOSES = 8  # times how often a half was taken back: added to the purpose

UNIT_24 = np.float32(2.0**-24)  # what 24 random bits are counted in
UNIT_20 = np.float32(2.0**-20)
MARGIN = np.float32(1.0001)  # far above rounding
# A direction that a line looks along is passed over the more often, the less of the FOD there is
# ahead of FADED times what is here. To count smaller fades, too, took the density of the brain
# template further from iFOD2's, and gained no more than to look a little further.
FADED = np.float32(2.0 / 3.0)
# Two directions are of one lobe where the square of the amplitude half way between them is at least
# BULGE times the product of theirs. An axis does not count for a line that goes further than ASTRAY
# from it; below NARROW_LMAX for directions so far from it, since the density of the brain template,
# which has lmax 4, would else leave iFOD2's.
# In a step it turns by at most STRIDE radians along each principal axis of log f.
BULGE = np.float32(1.1)
NARROW_LMAX = 6
# After so many proposals a direction of any lobe is taken, since hardly any of the cone is of the
# line's own: with a narrow cone a line follows the axis slowly, and would ask for hundreds.
LOBE_PROPOSALS = 32
ASTRAY = np.float32(math.cos(math.radians(53.0)))
STRIDE = np.float32(0.2)
NO_SLOPE = np.float32(1e-30)  # what a slope and a bend are taken for that are 0
# Of crossings, see cpu/crossings.py. What is known of a voxel: a bit for whether ways cross there,
# and by how much its lobe is wider than asked for, in steps from AS_WIDE on, 0 where the ratio of
# no plane is above that of a straight bundle by WAY_EXCESS; and whether it is among crossings,
# neither of those before that was asked; or, from NOT_SEEN on, no more than the number of the
# direction among `sphere_points` along which its FOD is largest. Below these bits are numbers of
# such directions, too, from one bundle to the other: in the first PLANE_BITS of where ways cross
# there, in the next of the crossings that it is among.
PLANE_BITS, WIDTH_BITS, AS_WIDE = 12, 24, 8
PLANE, WIDTH, WAYS_CROSS = (1 << PLANE_BITS) - 1, 15 << WIDTH_BITS, 1 << 28
OWN_BITS = WAYS_CROSS | WIDTH | PLANE
NOT_AMONG, AMONG_CROSSINGS, NOT_SEEN = 1 << 29, 2 << 29, 3 << 29
FEWEST_CROSSINGS, WIDTHS_AROUND = 2, 3  # of 27 voxels; voxels to either side
WAY_SAMPLES, WAY_STEP, WAY_PLANES = 8, 2, 6  # beside that in the voxel; voxels from one to the next
WAY_VOXELS = WAY_SAMPLES // 2 * WAY_STEP
WAY_TANGENT = np.float32(math.tan(math.radians(10.0)))
WAY_COSINE = np.float32(math.cos(math.pi / WAY_PLANES))
WAY_SINE = np.float32(math.sin(math.pi / WAY_PLANES))
WAY_COSINE_OF_TWO = np.float32(math.cos(2.0 * math.pi / WAY_PLANES))
WAY_SINE_OF_TWO = np.float32(math.sin(2.0 * math.pi / WAY_PLANES))
WAY_SHARE, WAY_EXCESS = np.float32(0.65), np.float32(0.05)
OWN_PART, WIDTH_PART = np.float32(0.12), np.float32(0.03)  # of that excess
WIDTH_STEPS = np.float32(100.0)  # in 1
TERMS = 4  # that are added side by side
SURELY = np.float32(1.001)  # above the rounding of a sum and of what it is compared with
ABOVE = np.float32(1.0 + 2.0**-9)  # so that rounding to a half float leaves it a bound
# An FOD may have this many times its largest value on `sphere_points` between them: by Bernstein's
# inequality a function of degree L that is largest, M, at one point is at least M cos(L a) at a
# distance a, which is at most 0.83 times the root of the area of a cell.
EXCESS = np.float32(1.23)
OF_A_TURN = np.float32(0.5 / math.pi)  # a radian
LN_2 = np.float32(math.log(2.0))
TWO_PI, HALF_PI = np.float32(2.0 * math.pi), np.float32(0.5 * math.pi)
LONGEST = np.float32(parameters.LONGEST_ADAPTIVE)  # adaptive step, in steps
STEEPEST = np.float32(parameters.LONGEST_ADAPTIVE / parameters.SHORTEST_ADAPTIVE)

# Of the search for the largest amplitude in a cone. One less these over lmax squared are cosines,
# of angles of some 120 and 80 degrees over lmax; lobes are 180 degrees over lmax apart or more.
NEAR, BESIDE = np.float32(2.19), np.float32(0.96)
# Of the largest amplitude: what is seen with less is not climbed. A lobe as sharp as its degree
# allows has 0.83 of its peak at half the distance of sampled directions.
PROMISING = np.float32(0.8)
# Of what an amplitude seen is above that: where a neighbour is higher by more, it is on a slope.
ABREAST = np.float32(1 / 6)
LOBES = 3  # to climb, at most
CLIMBS = 12  # steps; three or four are enough where the lobe is round
FAR = np.float32(1.12)  # longest step, radians times lmax
STILL = np.float32(1e-6)
HOPE = np.float32(0.75)  # of slope times step: half as much again as a parabola gains
SAME = np.float32(1e-9)  # square of the distance between directions that count as one
NOWHERE = np.float32(-1e30)  # below every amplitude
EVERYWHERE = np.float32(-2)  # below every cosine
ON_AXIS = np.float32(1e-6)  # distance from an axis within which any azimuth will do
N_AROUND = 6  # neighbours of a direction of the quadrature
CLIMB_PARTS = 16  # numbers of a climb, filled up

# Of arcs.
ARCS_AHEAD = 7  # arcs that are sampled, as in MRtrix3
RING = 0.5 * math.sqrt(3.0)  # of the cone angle, where six of them end
STRAIGHT = np.float32(1e-7)  # of the seventh: 1 minus the cosine of its angle
NEARLY = np.float32(0.01)  # voxels: far more than rounding moves a point of an arc

# Of diffusion and transport.
LONGEST_PART = np.float32(0.1)  # of gamma times mm
MOST_NOISE = np.float32(0.02)  # of gamma_noise^2 times that: a part turns by some 0.2 radians
LONGEST_TURN = np.float32(0.5)  # radians, of one part
FLAT = np.float32(1e-3)  # a curvature times time below which it counts as none


def _polynomial(*coefficients: float) -> tuple[np.float32, ...]:
    return tuple(np.float32(c) for c in coefficients)


# sin(pi t) / t and cos(pi t) for t from -1/2 to 1/2, as polynomials in t^2, off by 2e-7 at most.
SINE = _polynomial(0.07765591, -0.59829041, 2.55007739, -5.16771008, 3.14159264)
COSINE = _polynomial(-0.02439593, 0.23493707, -1.33521195, 4.05870915, -4.93480214, 1.0)
# The arcsine of the root of t over that root, for t from 0 to 1/2, off by 2e-8 at most.
ARCSINE = _polynomial(
    0.109673984, -0.0900862142, 0.0755397528, 0.0167313888,
    0.0464808494, 0.0748811439, 0.166669548, 1.0,
)  # fmt: skip
# exp(-t) for t from 0 to 1, and log(1 + t) / t, as polynomials; both off by 1e-7 at most.
EXP = _polynomial(
    0.000849007873, -0.0076543251, 0.0412233177, -0.166515167,
    0.499975091, -0.999998454, 0.999999984,
)  # fmt: skip
LOG = _polynomial(
    0.00512610212, -0.0290740646, 0.0775160866, -0.136022476, 0.190768807,
    -0.24835399, 0.333181217, -0.49999445, 0.999999966,
)  # fmt: skip
# (exp(t) - 1) / t for t from -1 to 1/16, off by 5e-9 of it at most.
EXPM1 = _polynomial(
    0.000132860874, 0.0013127305, 0.00828988132, 0.0416550033, 0.166665577, 0.500000027, 1.0,
)  # fmt: skip
# Of tissues, as in MRtrix3.
LOWEST_SUM = np.float32(0.5)  # of the fractions; below it is no tissue
PERTURBATION_MM = np.float32(0.001)  # over which their slope is taken
REVERTS_FROM_ONE_POINT = 3
KEPT, TRACKED_AGAIN, REFUSED = 0, 1, 2  # what becomes of a half
CROPPINGS = 10  # of the step in which the interface lies, by half each
SIXTEENTH, LIMIT = np.float32(1 / 16), np.float32(16)  # of exponents, which count up to the limit


class Field(NamedTuple):
    """The FOD, its cones and the mask, as kernels read them; see tables/."""

    voxel_rows: np.ndarray  # (x, y, z) int32
    words: np.ndarray  # (n, 2) uint64: the same, for the CPU; see tables/builders.py
    values: np.ndarray  # (n_rows, n_coefficients) float32
    change: np.ndarray  # (n_coefficients, n_padded) float32
    coefficients: np.ndarray  # (n_rows + 1, n_padded) uint16: half floats; after them, the bound
    masses: np.ndarray  # (n_rows + 1,) float32
    crossings: np.ndarray  # (n_rows + 1,) uint32: see cpu/crossings.py
    to_voxel: np.ndarray  # (3, 4) float32
    # Of lmax + 1 float32, one more of an asymmetric FOD: see fields/polynomials.py.
    shifts: tuple[np.float32, ...]
    sphere_points: np.ndarray  # (3, n) float32: of the half sphere, or of the whole, see tables/
    cone_points: np.ndarray  # (3, n) float32: directions in a cone around the z axis
    # The quadrature of the cone, for deterministic tracking; see tables/cone_quadrature.py.
    quadrature_points: np.ndarray  # (4, n) float32
    quadrature_neighbours: np.ndarray  # (4 n + 1, N_AROUND) int32
    quadrature_rings: np.ndarray  # (n_rings + 1,) int64
    quadrature_heights: np.ndarray  # (n, n_heights) float32
    quadrature_axis: np.ndarray  # (4, lmax / 2 + 1) float32
    quadrature_azimuths: np.ndarray  # (n, 2 lmax) float32
    turning: np.ndarray  # (n_numbers,) float32
    # Lower bounds of the mass in a cone, empty without a threshold; see tables/cone_mass.py.
    cone_mass: np.ndarray  # (n_numbers,) float32: of sums over cone_points
    quadrature_mass: np.ndarray  # (n_numbers,) float32: of sums over quadrature_points
    mask: np.ndarray  # (x, y, z) uint8, or (0, 0, 0) without a mask
    mask_words: np.ndarray  # (n,) uint64: the same on the CPU, a bit a voxel
    n_entered: int  # voxels that streamlines may enter, at most
    # Of a cone that is a function; else all of them are empty.
    allowed: np.ndarray  # (n_directions, n_directions) uint8: which direction may follow which
    allowed_words: np.ndarray  # (n,) uint64: the same on the CPU, a bit a pair
    directions: np.ndarray  # (n_directions, 3) float32
    neighbours: np.ndarray  # (n_directions, N_NEIGHBOURS) int32
    # Of the CPU alone: which directions may be the nearest; see geometry/directions.py.
    cells: np.ndarray  # (2, n, n, 4, CANDIDATES) float32


class VectorField(NamedTuple):
    """Peaks or tensors and the mask, as kernels that follow them read them."""

    voxel_rows: np.ndarray  # (x, y, z) int32
    words: np.ndarray  # (0, 2) uint64: FODs alone have them
    vectors: np.ndarray  # (n_rows, n) float32: see tables/vectors.py
    to_voxel: np.ndarray  # (3, 4) float32
    mask: np.ndarray  # (x, y, z) uint8, or (0, 0, 0) without a mask
    mask_words: np.ndarray  # (n,) uint64: the same on the CPU, a bit a voxel
    is_tensor: bool


class Settings(NamedTuple):
    """The tracking parameters, as numbers."""

    algorithm: int
    interpolation: int
    among_vectors: int  # how to choose among peaks
    curved: bool  # whether steps are arcs
    parts: int  # in which a step is taken; each counts as one from here on
    direction: int
    start: int
    step: np.float32
    min_probability: np.float32
    min_amplitude: np.float32  # in the unit of the table
    edge: int
    cone_height: np.float32  # 1 minus the cosine of the cone angle
    cone_cosine: np.float32
    cone_sine: np.float32
    ring_height: np.float32  # 1 minus the cosine of RING of the cone angle
    min_length: np.float32
    max_length: np.float32
    min_steps: int
    max_steps: int
    record_every: int
    endpoints: bool
    positivity: int
    sharpness: np.float32  # of softplus, for the amplitudes of the table
    gamma: np.float32
    gamma_noise: np.float32
    look_ahead: np.float32  # mm
    look_in_plane: np.float32  # as much of it counts in the plane of crossings
    lobe_cosine: np.float32  # of the angle up to which directions are of any lobe; 0 without lobes
    lobe_width: np.float32  # twice the sine of half that angle
    cone_width: np.float32  # and of half the cone's
    min_roundness: np.float32  # of a lobe along whose wide side lines turn
    fastest_turn: np.float32  # rad per mm: of the top of a wide lobe, along that side
    adaptive: bool
    key_0: np.uint64
    key_1: np.uint64


class KernelTissues(NamedTuple):
    """The tissue image; see tissues.py."""

    fractions: np.ndarray  # (x, y, z, 5) float32; of size 0 without an image
    white_cells: np.ndarray  # (x + 1, y + 1, z + 1) uint8: see Tissues.white_cells; not on a GPU
    to_voxel: np.ndarray  # (3, 4) float32
    backtrack: bool
    crop: bool


class Regions(NamedTuple):
    """Regions flattened into arrays, and the tissue image; see regions.py."""

    roles: np.ndarray  # (n,) int32
    shapes: np.ndarray  # (n,) int32
    orders: np.ndarray  # (n,) int32: number among the include regions
    geometry: np.ndarray  # (n, 12) float32: centre and squared radius, or RAS+ mm to voxel
    extents: np.ndarray  # (n, 4) int64: shape and first voxel in `voxels`
    voxels: np.ndarray  # (n_voxels,) uint8
    rule: int
    n_includes: int
    n_ends: int
    tissues: KernelTissues


class Scratch(NamedTuple):
    """Working memory of a thread: of one lane at a time, and of all lanes."""

    amplitudes: np.ndarray  # (n,) float32: at all sampled directions
    peak: np.ndarray  # (4,) float32: a direction and its amplitude
    mixed: np.ndarray  # (n_padded,) float32: coefficients
    half_floats: np.ndarray  # (n_padded,) uint16: the same as half floats
    ways: np.ndarray  # (2, n_padded) float32: see cpu/crossings.py
    way_rows: np.ndarray  # (WAY_SAMPLES,) int64
    # A direction and an amplitude for each lane; on the way there, see cpu/sphere/rings.py.
    tried: np.ndarray  # (5, n_lanes) float32
    # Unit vectors, one for each lane, and the cells of `Field.cells` in which they lie.
    located: np.ndarray  # (3, n_lanes) float32
    cells: np.ndarray  # (n_lanes,) uint32
    # Of all lanes: amplitudes at all sampled directions, and coefficients in axes turned
    # to the cone of each, about z, and about y.
    lane_amplitudes: np.ndarray  # (n, n_lanes) float32
    outstanding: np.ndarray  # (2, n) int64: numbers of those that stand out, and in which lanes
    turned: np.ndarray  # (n_padded, n_lanes) float32
    tilted: np.ndarray  # (n_padded, n_lanes) float32
    climbs: np.ndarray  # (CLIMB_PARTS, n_lanes) float32: see cpu/sphere/ascent.py
    # Further climbs, the lane of each, and its coefficients.
    climb_rows: np.ndarray  # (n_lanes, CLIMB_PARTS) float32
    more_climb_rows: np.ndarray  # (n_lanes, CLIMB_PARTS) float32
    more_climbs: np.ndarray  # (CLIMB_PARTS, n_lanes) float32
    climbers: np.ndarray  # (n_lanes,) int64
    rows: np.ndarray  # (n_lanes, n_padded) float32


def new_scratch(n_points: int, n_padded: int, n_lanes: int) -> Scratch:
    """Allocate the scratch of one thread, for so many directions at most, and so many lanes."""
    return Scratch(
        amplitudes=aligned(n_points, np.float32),
        peak=aligned(4, np.float32),
        mixed=aligned(n_padded, np.float32),
        half_floats=aligned(n_padded, np.uint16),
        ways=aligned((2, n_padded), np.float32),
        way_rows=aligned(WAY_SAMPLES, np.int64),
        tried=aligned((5, n_lanes), np.float32),
        located=aligned((3, n_lanes), np.float32),
        cells=aligned(n_lanes, np.uint32),
        lane_amplitudes=aligned((n_points, n_lanes), np.float32),
        outstanding=aligned((2, n_points), np.int64),
        turned=aligned((n_padded, n_lanes), np.float32),
        tilted=aligned((n_padded, n_lanes), np.float32),
        climbs=aligned((CLIMB_PARTS, n_lanes), np.float32),
        climb_rows=aligned((n_lanes, CLIMB_PARTS), np.float32),
        more_climb_rows=aligned((n_lanes, CLIMB_PARTS), np.float32),
        more_climbs=aligned((CLIMB_PARTS, n_lanes), np.float32),
        climbers=aligned(n_lanes, np.int64),
        rows=aligned((n_lanes, n_padded), np.float32),
    )
