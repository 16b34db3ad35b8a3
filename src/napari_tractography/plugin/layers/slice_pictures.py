"""Pictures of the slices of a volume, as its layer colours them, transparent around the body.

Called by the planes in 3-D and by the slices beside them.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from napari.layers import Image
from numpy.typing import NDArray
from scipy import ndimage

FAINT = 0.1  # of the contrast: what is darker, around the body, is left out
GAP = 1 / 40  # of a slice's longer side: half of what the outline of the body bridges,
MOST_GAP = 5  # voxels, at most
SEEN = 0.4  # of full opacity: what is more transparent is left out
SPECK = 0.05  # of the largest part of the body in a slice: smaller ones are no part of it


class SlicePictures:
    """The slices of one volume; the last one across each axis is kept."""

    def __init__(self, source: Image) -> None:
        self.source = source
        self._kept: dict[int, tuple[int, NDArray[np.uint8]]] = {}

    @property
    def appearance(self) -> tuple[Any, ...]:
        """The events of the volume after which its slices look different."""
        events = self.source.events
        return events.contrast_limits, events.colormap, events.gamma, events.data

    def forget(self) -> None:
        """Paint all anew."""
        self._kept.clear()

    def of(self, axis: int, index: int) -> NDArray[np.uint8]:
        """Return a slice across an axis (z, y, x), RGBA."""
        before = self._kept.get(axis)
        if before is None or before[0] != index:
            before = self._kept[axis] = index, self._painted(axis, index)
        return before[1]

    def seen(self, axis: int, index: int) -> NDArray[np.bool_]:
        """Return which pixels of a slice are seen."""
        return np.asarray(self.of(axis, index)[..., 3] > 255 * SEEN)

    def body_box(self) -> NDArray[np.float64]:
        """(2, 3) float64: first and last voxel of the body in the three middle slices."""
        shape = self.source.data.shape[:3]
        found = [np.array([np.zeros(3), shape]) - 0.5]
        for axis, n in enumerate(shape):
            pixels = np.argwhere(self._painted(axis, n // 2)[..., 3] > 255 * SEEN)
            if len(pixels):
                found.append(np.insert([pixels.min(0), pixels.max(0)], axis, n // 2, axis=1))
        ends = np.array(found[1:] or found)
        return np.array([ends[:, 0].min(axis=0), ends[:, 1].max(axis=0)], dtype=float)

    def _painted(self, axis: int, index: int) -> NDArray[np.uint8]:
        values = np.asarray(np.take(self.source.data, index, axis=axis))
        picture = coloured(self.source, values)
        if self.source.rgb:
            bright = picture[..., :3].max(axis=-1) > 255 * FAINT
        else:
            low, high = self.source.contrast_limits
            bright = np.nan_to_num(values.astype(np.float32)) > low + FAINT * (high - low)
        picture[..., 3] = np.rint(255 * opacity_of(bright))
        return picture


def coloured(layer: Image, values: NDArray[Any]) -> NDArray[np.uint8]:
    """Return a slice of an image as its layer colours it, RGBA, but for the layer's opacity."""
    if layer.rgb:
        rgba = np.full((*values.shape[:2], 4), 255.0, np.float32)
        scale = np.float32(1.0 if values.dtype == np.uint8 else 255.0)
        rgba[..., : values.shape[-1]] = values.astype(np.float32) * scale
    else:
        low, high = layer.contrast_limits
        numbers = np.nan_to_num(values.astype(np.float32))
        shades = np.clip((numbers - low) / max(high - low, 1e-12), 0, 1) ** layer.gamma
        rgba = 255 * layer.colormap.map(shades.ravel()).reshape(*shades.shape, 4)
    return np.asarray(np.clip(np.rint(rgba), 0, 255), dtype=np.uint8)


def opacity_of(bright: NDArray[np.bool_]) -> NDArray[np.float32]:
    """Return how opaque a slice of a body is that is bright in parts: 1 within its outline.

    Gaps of the edge are bridged, what it surrounds is filled, specks beside it are left out, and
    the outline is smooth.
    """
    gap = min(int(GAP * max(bright.shape)), MOST_GAP)
    body = bright
    if gap:
        body = ndimage.binary_closing(np.pad(bright, gap), iterations=gap)[gap:-gap, gap:-gap]
    body = ndimage.binary_fill_holes(body)
    parts, n_parts = ndimage.label(body)
    if n_parts > 1:
        sizes = np.bincount(parts.ravel())
        sizes[0] = 0
        body = (sizes >= SPECK * sizes.max())[parts]
    return np.asarray(ndimage.gaussian_filter(body.astype(np.float32), gap / 2))
