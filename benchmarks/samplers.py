"""Chi-square of single steps against the FOD in the cone, worked out by brute force.

Called by ``validate.py``. The truth is worked out in float64 from the FOD's spherical harmonics,
without the engine's tables.
"""

from __future__ import annotations

import itertools

import numpy as np
from scipy.stats import chisquare

import napari_tractography as nt
from napari_tractography.geometry.directions import direction_set

ANGLES_DEG = (5.0, 10.0, 15.0, 30.0, 60.0, 90.0)
LMAXES = (2, 4, 8, 12)
POSITION_VOX = (1.3, 1.85, 2.4)
STEP_MM = 0.25
LEAST_EXPECTED = 5.0
# Bins of equal solid angle that the cone is cut into; points a side where each is integrated.
N_RINGS, N_SECTORS, N_POINTS = 6, 12, 24


def random_fod(lmax: int) -> nt.Fod:
    """Return random coefficients in 5 x 5 x 5 oblique voxels, falling with the degree."""
    degrees = np.concatenate([np.full(2 * deg + 1, deg) for deg in range(0, lmax + 1, 2)])
    values = np.random.default_rng(lmax).normal(size=(5, 5, 5, degrees.size)) * 0.3 / (1 + degrees)
    values[..., 0] = 1.0
    affine = np.array(
        [[-1.9, 0.5, 0.3, 11], [0.4, 2.4, -0.2, -7], [0.2, 0.6, 1.5, 3], [0, 0, 0, 1]]
    )
    return nt.Fod(values, affine)


def mixed_coefficients(fod: nt.Fod, interpolation: str) -> np.ndarray:
    """Return the FOD's (n_coefficients,) float64 at `POSITION_VOX`."""
    values = fod.coefficients.astype(np.float64)
    if interpolation == "nearest":
        return np.asarray(values[tuple(int(np.floor(x + 0.5)) for x in POSITION_VOX)])
    mixed = np.zeros(values.shape[3])
    for corner in itertools.product(*[(int(x), int(x) + 1) for x in POSITION_VOX]):
        weights = [1 - abs(x - c) for x, c in zip(POSITION_VOX, corner, strict=True)]
        mixed += np.prod(weights) * values[corner]
    return mixed


def p_value(fod: nt.Fod, *, interpolation: str, max_angle_deg: float, n_draws: int) -> float:
    """Return p of `n_draws` steps in the cone around a direction of a large amplitude."""
    mixed = mixed_coefficients(fod, interpolation)
    units = direction_set(724).astype(np.float64)
    axis = units[np.argsort(fod.sample_matrix(units) @ mixed)[-20]]
    axis /= np.linalg.norm(axis)
    position = fod.grid.to_mm([POSITION_VOX])[0]
    parameters = nt.TrackingParameters(
        interpolation=interpolation,
        max_angle_deg=max_angle_deg,
        step_mm=STEP_MM,
        max_length_mm=STEP_MM,
        start="given",
        direction="forward",
        min_probability=0.0,
        min_amplitude=0.0,
    )
    seeds = nt.Seeds.at(np.tile(position, (n_draws, 1)), np.tile(axis, (n_draws, 1)))
    lines = nt.track(fod, seeds, parameters).points.reshape(-1, 2, 3).astype(np.float64)
    steps = lines[:, 1] - lines[:, 0]
    steps /= np.linalg.norm(steps, axis=1, keepdims=True)
    # Rings of the same area, cut into sectors.
    a, b = np.linalg.svd(axis[None])[2][1:]
    height = 1.0 - np.cos(np.deg2rad(max_angle_deg))
    ring = np.minimum((1.0 - steps @ axis) / height * N_RINGS, N_RINGS - 1).astype(int)
    turn = np.arctan2(steps @ b, steps @ a) / (2 * np.pi) % 1.0
    sector = np.minimum((turn * N_SECTORS).astype(int), N_SECTORS - 1)
    counts = np.bincount(ring * N_SECTORS + sector, minlength=N_RINGS * N_SECTORS)
    down = (np.arange(N_RINGS * N_POINTS) + 0.5) / (N_RINGS * N_POINTS) * height
    azimuth = (np.arange(N_SECTORS * N_POINTS) + 0.5) / (N_SECTORS * N_POINTS) * 2 * np.pi
    across = np.cos(azimuth)[:, None] * a + np.sin(azimuth)[:, None] * b
    inside = (1 - down)[:, None, None] * axis + np.sqrt(down * (2 - down))[:, None, None] * across
    amplitudes = np.maximum(fod.sample_matrix(inside.reshape(-1, 3)) @ mixed, 0)
    shape = (N_RINGS, N_POINTS, N_SECTORS, N_POINTS)
    masses = amplitudes.reshape(shape).sum(axis=(1, 3)).ravel()
    return merged_p(counts.astype(np.float64), masses / masses.sum() * counts.sum())


def merged_p(observed: np.ndarray, expected: np.ndarray) -> float:
    """Return Pearson's p with rare bins merged; 0 where something impossible was drawn."""
    if observed[expected == 0].any():
        return 0.0
    rare = expected < LEAST_EXPECTED
    observed = np.append(observed[~rare], observed[rare].sum())
    expected = np.append(expected[~rare], expected[rare].sum())
    if expected[-1] < LEAST_EXPECTED:
        observed[-2] += observed[-1]
        expected[-2] += expected[-1]
        observed, expected = observed[:-1], expected[:-1]
    return float(chisquare(observed, expected * observed.sum() / expected.sum()).pvalue)


def sampler_table(n_draws: int) -> str:
    """Return the table of p-values."""
    lines = [
        f"p of Pearson's chi-square: {n_draws} steps from one position and one direction, in a "
        "random FOD on an oblique, left-handed grid, against the FOD restricted to the cone, "
        f"integrated over {N_RINGS * N_SECTORS} bins of the cone from the SH series in 64 bits. "
        "Wrong samplers give 0; right ones anything between 0 and 1, below 0.001 once in a "
        "thousand.",
        "",
        "| | " + " | ".join(f"{angle:g} degrees" for angle in ANGLES_DEG) + " |",
        "|---|" + "---:|" * len(ANGLES_DEG),
    ]
    for interpolation, lmax in itertools.product(("nearest", "trilinear"), LMAXES):
        fod = random_fod(lmax)
        values = [
            p_value(fod, interpolation=interpolation, max_angle_deg=angle, n_draws=n_draws)
            for angle in ANGLES_DEG
        ]
        cells = " | ".join(f"{value:.3f}" for value in values)
        lines.append(f"| {interpolation}, lmax {lmax} | {cells} |")
    return "\n".join(lines)
