"""FreeSurfer's images, .mgz and .mgh, by nibabel, which is imported on use."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import FileError
from .damage import image_errors
from .description import VolumeFormat

if TYPE_CHECKING:
    from .stored_images import StoredImage


def read_freesurfer_header(path: Path) -> StoredImage:
    """Read the header of an image of FreeSurfer's. Raises FileError when it makes no sense."""
    from nibabel.freesurfer.mghformat import MGHHeader
    from nibabel.openers import ImageOpener

    from .stored_images import StoredImage

    try:
        with ImageOpener(path) as stream:  # nib.load leaves the file open
            header = MGHHeader.from_fileobj(stream)
        shape = tuple(map(int, header.get_data_shape()))
        affine, dtype = header.get_affine(), header.get_data_dtype()
        offset = int(header.get_data_offset())
    except image_errors() as error:
        raise FileError(
            f"{path} cannot be read as FreeSurfer's ({error}); copy or export it again."
        ) from None
    n_axes = len(shape)
    return StoredImage(
        path=path,
        data_path=path,
        offset=offset,
        shape=shape,
        affine=affine,
        dtype=dtype,
        order=tuple(range(n_axes)),
        flipped=(False,) * n_axes,
    )


FREESURFER = VolumeFormat((".mgz", ".mgh"), header=read_freesurfer_header, holds_fods=False)
