"""Tissue images read from files."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import FileError, InvalidTissuesError
from ..model.tissues import FREESURFER_LABELS, N_TISSUES, TISSUES, Tissues


def load_tissues(
    path: str | PathLike[str], *, mapping: Mapping[int, Collection[int]] = FREESURFER_LABELS
) -> Tissues:
    """Read a tissue image.

    Parameters
    ----------
    path : path-like
        .nii, .nii.gz, .mif, .mif.gz, .mih, .mgz or .mgh: five volumes as ``5ttgen`` writes
        them, or one volume of labels.
    mapping : mapping of int to collection of int
        Of labels, see :meth:`Tissues.from_labels`.

    Raises
    ------
    FileError
        When the file is missing, damaged or of another format.
    InvalidTissuesError
        When it holds neither fractions of tissues nor labels of them.
    """
    return read_tissues(path, mapping=mapping, hashed=False)[0]


def read_tissues(
    path: str | PathLike[str], *, mapping: Mapping[int, Collection[int]], hashed: bool
) -> tuple[Tissues, str]:
    """Read a tissue image and, in the same pass, the SHA-256 of its file, "" if not `hashed`."""
    # On use: nibabel takes a while to load, and the command's help has no use for it.
    from .headers import check_numeric, grid_of, read_header, without_trailing_ones

    stored = read_header(path)
    check_numeric(stored, FileError)
    name = Path(path).name
    shape = without_trailing_ones(stored.shape, 3)
    if len(shape) > 4 or (len(shape) == 4 and shape[3] != N_TISSUES):
        raise InvalidTissuesError(
            f"{name} has shape {stored.shape}; give a tissue image of five volumes "
            f"({', '.join(TISSUES)}; 5ttgen makes one), or one volume of FreeSurfer's labels."
        )
    grid = grid_of(stored)
    dtype: Any = np.float32 if len(shape) == 4 else np.float64  # which holds every label
    values, sha256 = stored.read_hashed(dtype, hashed=hashed)
    values = values.reshape(shape)
    if len(shape) == 4:
        return Tissues(values, grid, name=name, path=str(path)), sha256
    tissues = Tissues.from_labels(values, grid, mapping=mapping, name=name, path=str(path))
    return tissues, sha256
