"""What the kernels mass_fraction: codes, constants and the structures that they are called with.

The CUDA source holds the same codes under the same names.
"""
# mypy: ignore-errors

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .. import directions, parameters
from ..philox import Purpose
from ..stop import StopReason

MAX_PROPOSALS = 12  # draws before the cone is scanned; none in a narrow one
ALIAS_BITS = 8  # of the number of a patch
PATCH_SIZE = directions.PATCH_SIZE
SLOT_BITS = 4  # of the number of a direction in its patch
assert PATCH_SIZE == 1 << SLOT_BITS
THRESHOLD_BITS = 16 - SLOT_BITS  # of a column's mass_fraction in the alias table of a patch
MASS_UNITS = 65536  # that the mass of a voxel, of both signs, is cut into
assert parameters.MAX_DIRECTIONS <= 2 * PATCH_SIZE << ALIAS_BITS
MAX_INCLUDES = 16

PROBABILISTIC, DETERMINISTIC, DIFFUSION, TRANSPORT = 0, 1, 2, 3
PRECOMPUTED, DIRECT = 0, 1
CLIP, SOFTPLUS = 0, 1
NEAREST, TRILINEAR = 0, 1
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

PURPOSE_FORWARD = int(Purpose.FORWARD)
PURPOSE_BACKWARD = int(Purpose.BACKWARD)
PURPOSE_START = int(Purpose.START)


class Field(NamedTuple):
    """The FOD, its cones and the mask, as the kernel reads them; see tables.py."""

    voxel_rows: np.ndarray  # (x, y, z) int32
    quantised: np.ndarray  # (n_rows, n_patches, PATCH_SIZE) uint16
    alias: np.ndarray  # (n_rows, n_patches) uint32
    slot_alias: np.ndarray  # (n_rows, n_patches, PATCH_SIZE) uint16
    mass_fractions: np.ndarray  # (n_rows, n_patches) uint16
    patch_maxima: np.ndarray  # (n_rows, n_groups, PATCH_SIZE) uint16
    quanta: np.ndarray  # (n_rows,) float32
    totals: np.ndarray  # (n_rows,) float32
    directions: np.ndarray  # (n_directions, 3) float32
    to_voxel: np.ndarray  # (3, 4) float32
    cone: np.ndarray  # (n_directions + 1, n_patches) uint32; the last: all directions
    contained_patches: np.ndarray  # (n_directions + 1,) int32
    two_sided: bool
    max_proposals: int  # MAX_PROPOSALS or 0
    mask: np.ndarray  # (x, y, z) uint8, or (0, 0, 0) without a mask
    neighbours: np.ndarray  # (n_directions, N_NEIGHBOURS) int32
    slopes: np.ndarray  # (n_directions, N_NEIGHBOURS, 5) float32
    tangents: np.ndarray  # (n_directions, 2, 3) float32
    harmonics: np.ndarray  # (n_rows, n_coefficients) float32, or (0, 0) unless evaluated directly
    lmax: int
    to_frame: np.ndarray  # (3, 3) float32: RAS+ axes to those of the harmonics


class Settings(NamedTuple):
    """The tracking parameters, as numbers."""

    algorithm: int
    interpolation: int
    direction: int
    start: int
    step: np.float32
    min_probability: np.float32
    min_amplitude: np.float32
    max_angle: np.float32  # radians
    min_length: np.float32
    max_length: np.float32
    min_steps: int
    max_steps: int
    record_every: int
    endpoints: bool
    evaluation: int
    positivity: int
    gamma: np.float32
    gamma_noise: np.float32
    adaptive: bool
    key_0: np.uint64
    key_1: np.uint64


class Regions(NamedTuple):
    """Regions flattened into arrays; see regions.py."""

    roles: np.ndarray  # (n,) int32
    shapes: np.ndarray  # (n,) int32
    orders: np.ndarray  # (n,) int32: number among the include regions
    geometry: np.ndarray  # (n, 12) float32: centre and squared radius, or RAS+ mm to voxel
    extents: np.ndarray  # (n, 4) int64: shape and first voxel in `voxels`
    voxels: np.ndarray  # (n_voxels,) uint8
    rule: int
    n_includes: int
    n_ends: int


class Scratch(NamedTuple):
    """The place of one streamline, for what is done for one after the other."""

    weights: np.ndarray  # (8,) float32: of the corners
    quanta: np.ndarray  # (8,) float32: amplitude that one quantised_value of each row adds
    total: np.ndarray  # (1,) float32
    masses: np.ndarray  # (n_patches,) float32: what a cone holds of each patch
    coefficients: np.ndarray  # (n_coefficients,) float32: interpolated harmonics
    legendre: np.ndarray  # (2, lmax + 2) float32


def new_scratch(n_patches: int, lmax: int = 0) -> Scratch:
    """Allocate the scratch of one thread."""
    return Scratch(
        weights=np.zeros(8, np.float32),
        quanta=np.zeros(8, np.float32),
        total=np.zeros(1, np.float32),
        masses=np.zeros(n_patches, np.float32),
        coefficients=np.zeros((lmax + 1) * (lmax + 2) // 2, np.float32),
        legendre=np.zeros((2, lmax + 2), np.float32),
    )
