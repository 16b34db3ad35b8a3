"""Images in which the direction of fibres is known exactly.

A sum of waves across the fibres, which is constant along them:

    straight        around an axis
    / / / / /         .---.
    / / / / /        ( --> )
    / / / / /         '---'
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

N_WAVES = 24


def straight(shape: tuple[int, int, int], along: NDArray[np.float64], seed: int = 0):
    """Return an image whose fibres run along one direction of voxel axes, (x, y, z) float32."""
    rng = np.random.default_rng(seed)
    unit = along / np.linalg.norm(along)
    places = np.stack(np.meshgrid(*map(np.arange, shape), indexing="ij"), axis=-1)
    image = np.zeros(shape)
    for _ in range(N_WAVES):
        wave = np.cross(unit, rng.normal(size=3))
        wave *= rng.uniform(0.5, 1.2) / np.linalg.norm(wave)
        image += np.cos(places @ wave + rng.uniform(0, 2 * np.pi))
    return (1000 + 100 * image).astype(np.float32)


def rings(shape: tuple[int, int, int], seed: int = 0):
    """Return an image whose fibres run around its z axis, (x, y, z) float32."""
    rng = np.random.default_rng(seed)
    x, y, z = np.meshgrid(*map(np.arange, shape), indexing="ij")
    r = np.hypot(x - (shape[0] - 1) / 2, y - (shape[1] - 1) / 2)
    image = np.zeros(shape)
    for _ in range(N_WAVES):
        angle = rng.uniform(0, 2 * np.pi)
        k = rng.uniform(0.5, 1.2)
        image += np.cos(k * (np.cos(angle) * r + np.sin(angle) * z) + rng.uniform(0, 2 * np.pi))
    return (1000 + 100 * image).astype(np.float32)
