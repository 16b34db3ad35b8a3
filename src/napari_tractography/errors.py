"""The exceptions of this package: one sentence each, with the bad value and the remedy.

Every layer raises them; the command turns them into exit code 2 and one line, the plugin into
a notification.
"""

from __future__ import annotations

from typing import Any

# A message quotes what files and people say, however much that is: of more than this, its
# beginning and its end are kept, with what is wrong and the remedy.
MOST_CHARACTERS = 800
END_CHARACTERS = 250


class TractographyError(Exception):
    """Base class: catching it catches every error that this package raises on purpose.

    Its message is one line of at most :data:`MOST_CHARACTERS` characters.
    """

    def __init__(self, message: str = "") -> None:
        super().__init__(_shortened(message))


def _shortened(message: str) -> str:
    line = " ".join(message.splitlines()) if len(message.splitlines()) > 1 else message
    if len(line) <= MOST_CHARACTERS:
        return line
    return f"{line[: MOST_CHARACTERS - END_CHARACTERS - 5]} ... {line[-END_CHARACTERS:]}"


class InvalidFodError(TractographyError, ValueError):
    """The volume is not a usable FOD: wrong dimensions, no SH count, nothing but zeros."""

    @classmethod
    def of_type(cls, value: Any) -> InvalidFodError:
        """Return the error for something that is given in place of an Fod."""
        return cls(
            f"The FOD is of type {type(value).__name__}; give an Fod, such as load_fod(path) "
            "returns."
        )


class AmbiguousKindError(InvalidFodError):
    """The volume does not look like an FOD, but may be read as one all the same.

    Attributes
    ----------
    kinds : tuple of str
        What it can be read as, by the names that ``load_fod(kind=...)`` takes.
    question : str
        The message for whom these are offered in words, beside it.
    """

    def __init__(self, message: str, kinds: tuple[str, ...] = (), question: str = "") -> None:
        super().__init__(message)
        self.kinds, self.question = kinds, question


class InvalidImageError(InvalidFodError):
    """The image cannot be read as one with fibres in it: not 3-D, flat, or of no such scale."""


class InvalidGridError(TractographyError, ValueError):
    """The affine or the shape of a voxel grid makes no sense."""


class InvalidParameterError(TractographyError, ValueError):
    """A tracking parameter is out of its range or no choice of its list."""


class InvalidSeedsError(TractographyError, ValueError):
    """There are no seeds, or none of them lies where streamlines can start."""


class InvalidMaskError(TractographyError, ValueError):
    """The mask is empty or lies on another grid."""


class InvalidTractogramError(TractographyError, ValueError):
    """Points, offsets or per-streamline data do not belong together."""


class FileError(TractographyError, OSError):
    """A file cannot be read or written, or is not what its name says."""


class BackendError(TractographyError, RuntimeError):
    """The requested backend or device cannot be used on this machine."""


class InvalidRegionError(TractographyError, ValueError):
    """A region is empty, not 3-D or no sphere."""


class InvalidWarpError(TractographyError, ValueError):
    """A warp is no map of points, or says nothing of the points that are to go through it."""


class UnfinishedError(FileError):
    """A run ended early: what is tracked in can no longer be read, or a cluster was lost.

    Attributes
    ----------
    tractogram : Tractogram
        Streamlines that were finished; chunks that were yielded before are in them when
        :func:`~napari_tractography.tracking.engine.track` raises this.
    """

    def __init__(self, message: str, tractogram: Any) -> None:
        super().__init__(message)
        self.tractogram = tractogram


class LostClusterError(UnfinishedError, BackendError):
    """The scheduler of a cluster was lost in the middle of a run."""


class MissingFilesError(FileError):
    """Files that a project names are no longer there.

    Attributes
    ----------
    paths : tuple of str
        Where they were. ``Project.load(path, places={was: is})`` takes their new places.
    """

    def __init__(self, message: str, paths: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.paths = paths


class InvalidTissuesError(TractographyError, ValueError):
    """The tissue image holds no fractions of tissues, or lies elsewhere than the FOD."""


class MissingPackageError(TractographyError, ImportError):
    """An optional package is not installed."""
