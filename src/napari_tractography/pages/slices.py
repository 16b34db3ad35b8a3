"""A volume as a page has it: shades on a grid whose axes run to R, A and S, without what is around.

Called by :mod:`.page`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from nibabel.orientations import apply_orientation, inv_ornt_aff, io_orientation
from numpy.typing import NDArray
from scipy import ndimage

from ..geometry.grid import Grid

DARKEST, BRIGHTEST = 0.01, 0.995  # of the values, between which shades are by default
FAINT = 0.1  # of the contrast: what is darker, around the body, is left out
GAP = 3  # voxels: what the outline of the body bridges
SPECK = 0.05  # of the largest part of the body: smaller ones are no part of it
LEAST_SHADE = 8  # within the body; 0 is around it
MOST_VOXELS = 8_000_000


@dataclass(frozen=True, slots=True)
class Slices:
    """Shades of a volume, (x, y, z) uint8, 0 around the body, and their grid."""

    shades: NDArray[np.uint8]
    grid: Grid

    @classmethod
    def of(
        cls,
        values: NDArray[Any],
        grid: Grid,
        limits: tuple[float, float] | None = None,
        gamma: float = 1.0,
    ) -> Slices:
        """Return the shades of a volume between two limits, by default between its quantiles."""
        numbers = np.nan_to_num(np.asarray(values, np.float32))
        turn = io_orientation(grid.affine)
        affine = grid.affine @ inv_ornt_aff(turn, numbers.shape)
        numbers = apply_orientation(numbers, turn)
        low, high = limits or tuple(np.quantile(numbers, [DARKEST, BRIGHTEST]).tolist())
        body = _body(numbers > low + FAINT * (high - low))
        box = ndimage.find_objects(body.astype(np.uint8))[0]
        numbers, body = numbers[box], body[box]
        affine = affine @ _moved([part.start for part in box])
        every = int(np.ceil((numbers.size / MOST_VOXELS) ** (1 / 3)))
        if every > 1:
            numbers = _means(numbers, every)
            body = _means(body.astype(np.float32), every) > 0.5
            affine = affine @ _moved([(every - 1) / 2] * 3) @ np.diag([every, every, every, 1])
        span = max(high - low, 1e-12)
        shades = 255 * np.clip((numbers - low) / span, 0, 1) ** gamma
        painted = np.where(body, np.clip(np.rint(shades), LEAST_SHADE, 255), 0)
        return cls(painted.astype(np.uint8), Grid(painted.shape, affine, unit=grid.unit))

    def at(self, point_mm: Sequence[float] | None) -> list[int]:
        """Return which slices across x, y and z cross at a point, by default in the middle."""
        last = np.array(self.shades.shape) - 1
        voxel = last / 2 if point_mm is None else self.grid.to_voxel(point_mm)
        return [int(n) for n in np.clip(np.rint(voxel), 0, last)]

    def differences(self) -> NDArray[np.int64]:
        """Return how each shade differs from the one before it, x first: of 256, around 0."""
        shades = self.shades.ravel(order="F").astype(np.int64)
        return (np.diff(shades, prepend=0) + 128) % 256 - 128


def _body(bright: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return what is bright, but for specks, with what it surrounds in axial slices."""
    if not bright.any():
        return np.ones_like(bright)
    gap = min(GAP, min(bright.shape) // 8)
    body = bright
    if gap:
        padded = np.pad(bright, gap)
        inside = (slice(gap, -gap),) * 3
        body = ndimage.binary_closing(padded, iterations=gap)[inside]
    parts, n_parts = ndimage.label(body)
    if n_parts > 1:
        sizes = np.bincount(parts.ravel())
        sizes[0] = 0
        body = (sizes >= SPECK * sizes.max())[parts]
    across = np.zeros((3, 3, 1), bool)
    across[1, :, 0] = across[:, 1, 0] = True
    return np.asarray(ndimage.binary_fill_holes(body, structure=across))


def _means(values: NDArray[np.float32], every: int) -> NDArray[np.float32]:
    """Return the means of blocks of so many voxels along each axis; the rest is left out."""
    nx, ny, nz = (n // every for n in values.shape)
    kept = values[: nx * every, : ny * every, : nz * every]
    return np.asarray(kept.reshape(nx, every, ny, every, nz, every).mean(axis=(1, 3, 5)))


def _moved(voxels: Sequence[float]) -> NDArray[np.float64]:
    matrix = np.eye(4)
    matrix[:3, 3] = voxels
    return matrix
