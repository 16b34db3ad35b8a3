"""Weights of streamlines: text files as tcksift2 writes them, or a column of a .trx file.

Called by the tractograms, the recipes, the command and the plugin.
"""

from __future__ import annotations

from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..errors import FileError, InvalidTractogramError
from ..runtime.arrays import real_numbers
from .damage import telling
from .formats import check_text_name, has_ending, read_tractogram_endings, tractogram_format
from .paths import existing_file, explained, written_whole
from .sequences import named_value, named_values
from .text import text_of


def checked_weights(weights: ArrayLike, n: int) -> NDArray[np.float32]:
    """Return weights of `n` streamlines as (n,) float32.

    Raises InvalidTractogramError when there are more or fewer, or one is not a number from 0.
    """
    values = listed_weights(weights)
    if values.shape != (n,):
        raise InvalidTractogramError(
            f"weights has shape {values.shape}, but {n} streamlines need {(n,)}."
        )
    n_bad = n_impossible(values)
    if n_bad:
        raise InvalidTractogramError(
            f"{n_bad} of {n} weights are negative or not finite; give numbers from 0."
        )
    return values


def n_impossible(weights: NDArray[np.floating]) -> int:
    """Return how many weights are negative or not finite."""
    return int((~(np.isfinite(weights) & (weights >= 0))).sum())


def listed_weights(weights: Any) -> NDArray[np.float32]:
    """Return weights of any number of streamlines as float32.

    Raises InvalidTractogramError when they are no list of real numbers, such as the path of a file.
    """
    try:
        with np.errstate(over="ignore"):  # it is infinite then, and refused
            return real_numbers(weights, np.float32, "weights", InvalidTractogramError)
    except (TypeError, ValueError):
        raise InvalidTractogramError(
            f"Weights of type {type(weights).__name__} are no list of real numbers; give one a "
            "streamline, such as load_weights(path) of files.weights reads."
        ) from None


def load_weights(path: str | PathLike[str], name: str = "") -> NDArray[np.float32]:
    """Read one weight a streamline.

    Raises FileError when the file is missing, cannot be read or holds no such numbers, or infinite
    ones.

    Parameters
    ----------
    path : path-like
        A text file of numbers, on one line or many, with ``#`` before comments, as ``tcksift2``
        and ``tcksample`` write them; or streamlines with values: .trx, .trk, .vtk or .vtp.
    name : str
        Of the values per streamline in such a file; may be left out where there is one.

    Returns
    -------
    (n_streamlines,) float32
    """
    file = existing_file(path)
    with explained(file), telling(file):
        weights = _numbers(file, name).astype(np.float32)
    n_infinite = int(np.isinf(weights).sum())
    if n_infinite:  # also what is too large for 32 bits
        raise FileError(
            f"In {file} {n_infinite} of {len(weights)} weights are infinite or above 3.4e38; give "
            "smaller numbers."
        )
    return weights


def _numbers(file: Path, name: str) -> NDArray[Any]:
    """Return the numbers of a file, one a streamline."""
    if has_ending(file, read_tractogram_endings()):
        form = tractogram_format(file)
        return form.column(file, name) if form.column else named_value(form.read(file), file, name)
    if name:
        raise FileError(f"{file} has no columns, so none is called {name!r}; leave the name out.")
    try:
        # UTF-8, also where the system has another encoding, and with the mark of Windows' editors.
        values = np.loadtxt(
            text_of(file), np.float64, comments="#", delimiter=None, ndmin=1, encoding="utf-8-sig"
        )
    except UnicodeDecodeError:
        raise FileError(f"{file} is no text; give weights as tcksift2 writes them.") from None
    except ValueError as error:
        raise FileError(
            f"{file} does not hold one number a streamline ({error}); give weights as tcksift2 "
            "writes them."
        ) from None
    if values.size == 0 or (values.ndim > 1 and min(values.shape) > 1):
        raise FileError(
            f"{file} holds numbers of shape {values.shape}; give one weight a streamline."
        )
    return values.ravel()


def columns_of(path: str | PathLike[str]) -> list[str]:
    """Return the names of the values per streamline of a file of streamlines; none of others.

    Raises FileError when the file is missing, damaged or cannot be read.
    """
    file = existing_file(path)
    if not has_ending(file, read_tractogram_endings()):
        return []
    form = tractogram_format(file)
    with telling(file):
        return form.columns(file) if form.columns else sorted(named_values(form.read(file)))


def save_weights(weights: ArrayLike, path: str | PathLike[str]) -> None:
    """Write weights as text, one a line, whole or not at all; MRtrix3 reads it.

    Raises FileError when it cannot be written, or its name is that of streamlines or of a volume.
    """
    check_text_name(path)
    values = np.asarray(weights, dtype=np.float32)
    with written_whole(path) as temporary:
        np.savetxt(temporary, values, fmt="%.9g")  # enough digits for every float32
