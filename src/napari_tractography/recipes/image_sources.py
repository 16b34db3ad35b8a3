"""Images as recipes name them: which file, which part of it, and how fibres are found in it.

Called by :mod:`.sources`, of which an image is a kind.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..errors import FileError, InvalidFodError, InvalidMaskError
from ..fields.structure_tensors import ImageSource
from ..files.formats import has_ending, volume_endings
from ..files.image_files import found_in, open_image, stored_levels
from ..geometry.grid import Grid
from ..model.fod import Fod
from ..model.image_phantoms import make_image_phantom
from .numbers import MOST_NUMBERS
from .volume_sources import VolumeSource


@dataclass(frozen=True, slots=True)
class ImageReading:
    """How an image is read, and how fibres are found in it.

    See :func:`~napari_tractography.files.image_files.open_image` and
    :meth:`~napari_tractography.model.fod.Fod.from_image`.
    """

    affine: tuple[tuple[float, ...], ...]  # voxel coordinates to RAS+ mm
    sigma_mm: float
    rho_mm: float
    unit: str = "mm"
    key: str = ""  # of an array in a Zarr group
    index: tuple[int, ...] = ()
    axes: str = "zyx"
    bright: bool | None = None
    min_linearity: float = 0.0
    mask: VolumeSource | None = None  # the tissue, on the grid of the image
    odf_voxels: int | None = None

    @classmethod
    def of(
        cls,
        image: ImageSource,
        *,
        key: str = "",
        index: tuple[int, ...] = (),
        axes: str = "zyx",
        odf_voxels: int | None = None,
    ) -> ImageReading:
        """Return how fibres are found in an image now; the mask is kept voxel by voxel.

        Raises InvalidMaskError when the mask is too large for that.
        """
        if image.mask is not None and math.prod(image.grid.shape) > 8 * MOST_NUMBERS:
            raise InvalidMaskError(
                f"The tissue mask of {image.name} has {math.prod(image.grid.shape):,} voxels, too "
                "many to be part of a recipe; set it to zero in the image itself, or crop both."
            )
        mask = None if image.mask is None else VolumeSource.of_array(image.mask, image.grid)
        return cls(
            tuple(tuple(row) for row in image.grid.affine.tolist()),
            image.sigma_mm,
            image.rho_mm,
            image.grid.unit,
            key,
            index,
            axes,
            image.bright,
            image.min_linearity,
            mask,
            odf_voxels,
        )

    def open(self, path: str, phantom: str) -> Any:
        """Return the image, (x, y, z), of a file or of an image phantom."""
        if phantom:
            return make_image_phantom(phantom).image
        return open_image(path, self.key, index=self.index, axes=self.axes)

    def fod(self, image: Any, path: str, name: str, folder: Path | None) -> Fod:
        """Return the fibres of an image, (x, y, z), of a file, or of a phantom without one."""
        return Fod.from_image(
            image,
            Grid(image.shape, self.affine, unit=self.unit, is_anatomical=says_sides(path)),
            self.sigma_mm,
            self.rho_mm,
            bright=self.bright,
            mask=None if self.mask is None else self.mask.load(folder)[0],
            min_linearity=self.min_linearity,
            odf_voxels=self.odf_voxels,
            name=name,
        )


def says_sides(path: str) -> bool:
    """Return whether an image file says where left and right are, as a NIfTI and no TIFF does."""
    return has_ending(path, volume_endings())


def reading_of(
    fod: Fod, path: str, key: str = "", *, odf_voxels: int | None = None
) -> ImageReading:
    """Return how the image of an FOD is read from a file that holds it.

    Raises FileError when the file cannot be read, or holds another image; InvalidFodError when the
    FOD is of no image.
    """
    image = source_of_image(fod)
    levels, key = stored_levels(path, key)
    part = found_in(levels[0], image.image, Path(path).name)
    if part is None:
        raise FileError(
            f"{Path(path).name} does not hold the image {fod.name} as it is shown; save it as .tif "
            "or Zarr, and open it from there."
        )
    return ImageReading.of(image, key=key, index=part[0], axes=part[1], odf_voxels=odf_voxels)


def source_of_image(fod: Fod) -> ImageSource:
    """Return the image of an FOD, and how fibres are found in it.

    Raises InvalidFodError when the FOD is of no image.
    """
    if fod.blocks is None or not isinstance(fod.blocks.source, ImageSource):
        raise InvalidFodError(f"{fod.name} holds {fod.kind} and is no image; name its own file.")
    return fod.blocks.source
