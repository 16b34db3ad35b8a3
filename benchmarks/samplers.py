"""Chi-square of single steps against the conditional distribution by brute force.

Called by ``validate.py``. The truth is worked out in float64 from the FOD's spherical harmonics,
without the engine's tables.
"""

from __future__ import annotations

import itertools

import numpy as np
from scipy.stats import chisquare

import napari_tractography as nt
from napari_tractography.directions import direction_set

ANGLES_DEG = (5.0, 15.0, 45.0, 90.0)
LMAXES = (2, 4, 8, 12)
POSITION_VOX = (1.3, 1.85, 2.4)
STEP_MM = 0.25
LEAST_EXPECTED = 5.0


def random_fod(lmax: int) -> nt.Fod:
    """Return random coefficients in 5 x 5 x 5 oblique voxels, falling with the degree."""
    degrees = np.concatenate([np.full(2 * deg + 1, deg) for deg in range(0, lmax + 1, 2)])
    values = np.random.default_rng(lmax).normal(size=(5, 5, 5, degrees.size)) * 0.3 / (1 + degrees)
    values[..., 0] = 1.0
    affine = np.array(
        [[-1.9, 0.5, 0.3, 11], [0.4, 2.4, -0.2, -7], [0.2, 0.6, 1.5, 3], [0, 0, 0, 1]]
    )
    return nt.Fod(values, affine)


def p_value(
    fod: nt.Fod, *, interpolation: str, max_angle_deg: float, n_draws: int, n_directions: int
) -> float:
    """Return p of `n_draws` steps in the cone around the largest amplitude but a few."""
    units = direction_set(n_directions)
    corners = [tuple(c) for c in itertools.product(*[(int(x), int(x) + 1) for x in POSITION_VOX])]
    amplitudes = np.maximum(fod.amplitudes(units).astype(np.float64), 0)
    if interpolation == "nearest":
        mixed = amplitudes[tuple(int(np.floor(x + 0.5)) for x in POSITION_VOX)]
    else:
        mixed = np.zeros(n_directions)
        for corner in corners:
            weights = [1 - abs(x - c) for x, c in zip(POSITION_VOX, corner, strict=True)]
            mixed += np.prod(weights) * amplitudes[corner]
    current = int(np.argsort(mixed)[-20])
    cosines = units.astype(np.float64) @ units[current]
    inside = cosines >= np.cos(np.deg2rad(max_angle_deg)) - 1e-7
    position = fod.grid.to_mm([POSITION_VOX])[0]
    parameters = nt.TrackingParameters(
        interpolation=interpolation,
        max_angle_deg=max_angle_deg,
        n_directions=n_directions,
        step_mm=STEP_MM,
        max_length_mm=STEP_MM,
        start="given",
        direction="forward",
        min_probability=0.0,
        min_amplitude=0.0,
    )
    seeds = nt.Seeds.at(np.tile(position, (n_draws, 1)), np.tile(units[current], (n_draws, 1)))
    lines = nt.track(fod, seeds, parameters).points.reshape(-1, 2, 3)
    drawn = np.concatenate(
        [
            np.argmax((part[:, 1] - part[:, 0]) @ units.T, axis=1)
            for part in np.array_split(lines, max(1, len(lines) // 2000))
        ]
    )
    counts = np.bincount(drawn, minlength=n_directions).astype(np.float64)
    expected = np.where(inside, mixed, 0)
    return merged_p(counts, expected / expected.sum() * len(drawn))


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
        "worked out by brute force (724 directions; 2048 for 5 and 15 degrees). Wrong samplers "
        "give 0; right ones anything between 0 and 1, below 0.001 once in a thousand.",
        "",
        "| | " + " | ".join(f"{angle:g} degrees" for angle in ANGLES_DEG) + " |",
        "|---|" + "---:|" * len(ANGLES_DEG),
    ]
    for interpolation, lmax in itertools.product(("nearest", "trilinear"), LMAXES):
        fod = random_fod(lmax)
        values = [
            p_value(
                fod,
                interpolation=interpolation,
                max_angle_deg=angle,
                n_draws=n_draws,
                n_directions=2048 if angle < 45 else 724,
            )
            for angle in ANGLES_DEG
        ]
        cells = " | ".join(f"{value:.3f}" for value in values)
        lines.append(f"| {interpolation}, lmax {lmax} | {cells} |")
    return "\n".join(lines)
