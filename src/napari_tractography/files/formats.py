"""The formats of files, each of which is described in its own; all lists of endings come from here.

A new format is one file of this folder with a :class:`.VolumeFormat` or a
:class:`.TractogramFormat`, and its name in :data:`FORMATS`. Loaded by the command's help: nothing
heavy is imported. What asks for endings does so when it needs them, and keeps no list.
"""

from __future__ import annotations

from collections.abc import Iterable
from os import PathLike
from pathlib import Path
from typing import TypeVar

from ..errors import FileError
from .description import TractogramFormat, VolumeFormat, WholeReading
from .freesurfer import FREESURFER
from .mif import MRTRIX
from .nifti import NIFTI
from .pam5 import PAM5
from .paths import ending_of
from .tck import TCK
from .trk import TRK
from .trx import TRX
from .vtk import VTK
from .vtp import VTP

PAIRED = (".hdr", ".img", ".hdr.gz", ".img.gz")  # NIfTI of two files, and Analyze

Format = TypeVar("Format", VolumeFormat, TractogramFormat)
# In the order in which people are told them.
FORMATS: tuple[VolumeFormat | TractogramFormat, ...] = (
    NIFTI,
    MRTRIX,
    FREESURFER,
    PAM5,
    TCK,
    TRK,
    TRX,
    VTK,
    VTP,
)


def volume_formats() -> tuple[VolumeFormat, ...]:
    """Return the formats of FODs, peaks, tensors and volumes."""
    return tuple(form for form in FORMATS if isinstance(form, VolumeFormat))


def tractogram_formats() -> tuple[TractogramFormat, ...]:
    """Return the formats of streamlines."""
    return tuple(form for form in FORMATS if isinstance(form, TractogramFormat))


def fod_endings() -> tuple[str, ...]:
    """Return the endings of files in which FODs, peaks and tensors are looked for."""
    return _endings(form for form in volume_formats() if form.holds_fods)


def volume_endings() -> tuple[str, ...]:
    """Return the endings of masks, labels and scalar maps."""
    return _endings(form for form in volume_formats() if form.header is not None)


def written_volume_endings() -> tuple[str, ...]:
    """Return the endings of volumes that can be written."""
    return _endings(form for form in volume_formats() if form.write is not None)


def tractogram_endings() -> tuple[str, ...]:
    """Return the endings of streamlines that can be written."""
    return _endings(tractogram_formats())


def read_tractogram_endings() -> tuple[str, ...]:
    """Return the endings of streamlines that can be read."""
    return tuple(_read_formats())


def default_ending() -> str:
    """Return the ending of streamlines for a name that has none: it takes no image."""
    return next(
        form.endings[0] for form in tractogram_formats() if form.endings and not form.needs_grid
    )


def grid_endings() -> tuple[str, ...]:
    """Return the endings of streamlines that cannot be written without an image."""
    return _endings(form for form in tractogram_formats() if form.needs_grid)


def imageless_endings() -> tuple[str, ...]:
    """Return the endings of streamlines that name no image."""
    return _endings(form for form in tractogram_formats() if not form.names_image)


def dtype_endings(dtype: str) -> tuple[str, ...]:
    """Return the endings of streamlines whose points may be of a type."""
    return _endings(form for form in tractogram_formats() if dtype in form.dtypes)


def all_dtypes() -> tuple[str, ...]:
    """Return the types of points that some format of streamlines holds, the usual one first."""
    return tuple(dict.fromkeys(dtype for form in tractogram_formats() for dtype in form.dtypes))


def volume_format(path: str | PathLike[str]) -> VolumeFormat:
    """Return the format of a volume by the ending of its name.

    Raises FileError when it has none of the endings.
    """
    _check_whole(path)
    return _format_of(path, volume_formats(), "a volume")


def header_format(path: str | PathLike[str]) -> VolumeFormat:
    """Return the format of a volume that has a header of its own, as :func:`volume_format`."""
    _check_whole(path)
    return _format_of(path, (form for form in volume_formats() if form.header), "a volume")


def whole_reading(path: str | PathLike[str]) -> WholeReading | None:
    """Return how a library reads a file whole; None for all files of which none does."""
    readings = (form.whole for form in volume_formats() if has_ending(path, form.endings))
    return next(readings, None)


def written_volume_format(path: str | PathLike[str]) -> VolumeFormat:
    """Return the format of a volume to write, as :func:`volume_format`."""
    return _format_of(path, (form for form in volume_formats() if form.write), "a volume to write")


def tractogram_format(path: str | PathLike[str]) -> TractogramFormat:
    """Return the format of streamlines to read by the ending of their file's name.

    Raises FileError when it has none of the endings.
    """
    by_ending = _read_formats()
    return by_ending[ending_of(Path(path), by_ending, "a tractogram")]


def written_tractogram_format(path: str | PathLike[str]) -> TractogramFormat:
    """Return the format of streamlines to write, as :func:`tractogram_format`."""
    return _format_of(path, tractogram_formats(), "a tractogram to write")


def has_ending(path: str | PathLike[str], endings: Iterable[str]) -> bool:
    """Tell whether the name of a file has one of some endings, in any case."""
    return str(path).lower().endswith(tuple(endings))


def check_text_name(path: str | PathLike[str]) -> None:
    """Refuse a name of streamlines or of a volume for a file of text.

    A shell makes the name of a file that shall be kept of `-o *.tck`. Raises FileError.
    """
    if has_ending(path, (*read_tractogram_endings(), *volume_endings())):
        raise FileError(
            f"{path} ends like streamlines or a volume, but text is to be written there; give "
            "another name, which ends in .csv, .txt or .json."
        )


def dialog_filter(what: str, endings: Iterable[str]) -> str:
    """Return the filter of a file dialog: "Tractogram (*.tck *.trk)"."""
    return f"{what} ({' '.join(f'*{ending}' for ending in endings)})"


def listed(endings: Iterable[str]) -> str:
    """Return endings, or other names, as a sentence has them: ".tck, .trk or .vtk"."""
    *others, last = endings
    return f"{', '.join(others)} or {last}" if others else last


def _check_whole(path: str | PathLike[str]) -> None:
    """Refuse one file of a pair, with what makes one of both.

    A recipe proves files one by one, and which side is left in Analyze is anyone's guess.
    """
    if has_ending(path, PAIRED):
        stem = str(path).removesuffix(".gz").rpartition(".")[0]
        raise FileError(
            f"{path} is one of two files, .hdr and .img; make one of both, such as by mrconvert "
            f"{path} {stem}.nii.gz, and check which side is left: Analyze does not say it."
        )


def _format_of(path: str | PathLike[str], formats: Iterable[Format], what: str) -> Format:
    by_ending = {ending: form for form in formats for ending in form.endings}
    return by_ending[ending_of(Path(path), by_ending, what)]


def _read_formats() -> dict[str, TractogramFormat]:
    return {end: form for form in tractogram_formats() for end in (*form.endings, *form.read_only)}


def _endings(formats: Iterable[VolumeFormat | TractogramFormat]) -> tuple[str, ...]:
    return tuple(ending for form in formats for ending in form.endings)
