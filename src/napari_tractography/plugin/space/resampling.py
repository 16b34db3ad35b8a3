"""Volumes in other axes than the FOD, resampled onto its axes: copies that lie on it on the screen.

napari draws each volume on its own voxels, so that an oblique T1 is shown without its tilt (see
:mod:`.display`). Called by the Data section.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from napari.layers import Labels, Layer
from numpy.typing import NDArray
from scipy.ndimage import affine_transform

from ...errors import InvalidGridError
from .display import DisplaySpace, diagonal, display_space_of_layer

MOST_VOXELS = 1 << 28  # of a copy: 1 GB of float32
ROUNDING = 1e-3  # voxels
PLACED = ("rotate", "shear", "affine")  # what a copy has not, but for scale and translation


@dataclass(frozen=True, slots=True)
class Resampling:
    """How one volume is brought onto the axes of another; see :meth:`of`.

    Voxels are as long along each axis of the display as they were, and hold all of the volume.
    """

    shape: tuple[int, int, int]  # of the copy, (z, y, x)
    # scale, translate: where the copy lies on the screen: what napari takes.
    scale: tuple[float, float, float]
    translate: tuple[float, float, float]
    affine: NDArray[np.float64]  # (4, 4) float64: of the copy's voxels, (x, y, z), to RAS+ mm
    # (4, 4) float64: voxels of the copy to those of the volume, both (z, y, x).
    to_source: NDArray[np.float64]
    # Then each voxel takes the value of the nearest, otherwise of the eight around it.
    is_labels: bool = False

    @classmethod
    def of(cls, layer: Layer, space: DisplaySpace) -> Resampling:
        """Return that of a layer that knows its affine.

        Raises InvalidGridError where the copy would be too large, or the layer's affine makes no
        sense.
        """
        own = display_space_of_layer(layer)
        sizes = np.abs(own.scale)
        # Places on the screen, (z, y, x): from those of the volume now to where they belong.
        moved = _reversed(space.world_to_display @ np.linalg.inv(own.world_to_display))
        assert own.grid is not None
        shown = space.shown_at(own.grid.corners_mm())
        low, high = shown.min(axis=0), shown.max(axis=0)
        shape = np.ceil((high - low) / sizes - ROUNDING).astype(int)
        if shape.prod() > MOST_VOXELS:
            numbers = " x ".join(map(str, shape[::-1]))
            raise InvalidGridError(
                f"{layer.name} would have {numbers} voxels on the axes of the FOD; resample it to "
                "larger ones (mrgrid regrid -template)."
            )
        first = (low + high) / 2 - sizes * (shape - 1) / 2
        target = diagonal(sizes, first)
        affine = np.linalg.inv(space.world_to_display) @ _reversed(target)
        z, y, x = (int(n) for n in shape)
        return cls(
            (z, y, x),
            (float(sizes[0]), float(sizes[1]), float(sizes[2])),
            (float(first[0]), float(first[1]), float(first[2])),
            affine,
            np.linalg.inv(moved @ diagonal(own.scale, own.translate)) @ target,
            isinstance(layer, Labels),
        )

    @property
    def is_shift(self) -> bool:
        """Whether each voxel of the copy is one of the volume: that has the axes of the FOD."""
        return bool(np.allclose(self.to_source, np.eye(4), atol=ROUNDING))

    def values(self, volume: NDArray[Any]) -> NDArray[Any]:
        """Return those of the copy, (z, y, x): 0 outside the volume; images as float32."""
        if self.is_labels:
            order, dtype = 0, np.dtype(np.uint8) if volume.dtype == bool else volume.dtype
        else:
            order, dtype = 1, np.dtype(np.float32)
        created: NDArray[Any] = affine_transform(
            np.asarray(volume, dtype),
            self.to_source[:3, :3],
            self.to_source[:3, 3],
            self.shape,
            output=dtype,
            order=order,
            prefilter=False,
        )
        return created

    def copy_of(self, layer: Layer, values: NDArray[Any]) -> Layer:
        """Return a layer of the copy that looks as the volume does."""
        _, attributes, kind = layer.as_layer_data_tuple()
        attributes = {name: value for name, value in attributes.items() if name not in PLACED}
        attributes |= {
            "name": f"{layer.name} on the FOD",
            "scale": self.scale,
            "translate": self.translate,
            "metadata": {"affine": self.affine},
        }
        return Layer.create(values, attributes, kind)


def _reversed(matrix: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return a 4 x 4 matrix for (z, y, x) in place of (x, y, z), or the other way round."""
    order = [2, 1, 0, 3]
    return matrix[np.ix_(order, order)]
