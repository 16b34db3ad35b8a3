"""Streamlines and their weights from files, referred to and not copied; called by the bundles."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from os import PathLike
from pathlib import Path

from ..errors import FileError, InvalidTractogramError
from ..files.hashing import sha256_of
from ..files.weights import load_weights
from ..streamlines.tractogram import Tractogram, load_tractogram
from .edits import Edit, edited
from .volume_sources import located, named, warn_if_changed


@dataclass(frozen=True, slots=True)
class WeightsSource:
    """One weight a streamline, in a file."""

    path: str  # absolute path of a text file, as tcksift2 writes it, or of streamlines with values
    sha256: str = ""  # of the file's bytes, "" if not known
    name: str = ""  # of the values in such a file, "" for the only ones

    @classmethod
    def file(
        cls, path: str | PathLike[str], *, name: str = "", hashed: bool = True
    ) -> WeightsSource:
        """Name a file, with its present SHA-256 unless not `hashed`."""
        return cls(*named(path, hashed), name)

    def put_on(self, tractogram: Tractogram, folder: Path | None = None) -> Tractogram:
        """Return a tractogram with these weights; warn when the file has changed.

        Raises FileError when the file cannot be read or holds another number of weights.
        """
        file = located(self.path, folder)
        if self.sha256:
            warn_if_changed(file, self.sha256, sha256_of(file), "file of weights")
        try:
            return tractogram.with_weights(load_weights(file, self.name))
        except InvalidTractogramError as error:
            raise FileError(f"{file} does not fit: {error}") from None


@dataclass(frozen=True, slots=True)
class TractogramFile:
    """A tractogram in a file, and what became of it."""

    path: str  # absolute path of a file of streamlines
    sha256: str = ""  # of the file's bytes, "" if not known
    weights: WeightsSource | None = None  # of the streamlines of the file
    edits: tuple[Edit, ...] = ()  # one after the other
    digest: str = ""  # tractogram.digest of the result, "" if not known
    # Where files are sought that are no longer at their path.
    folder: Path | None = dataclasses.field(default=None, compare=False)

    @classmethod
    def file(cls, path: str | PathLike[str], *, hashed: bool = True) -> TractogramFile:
        """Name a file, with its present SHA-256 unless not `hashed`.

        Raises FileError when there is no such file, or it cannot be read.
        """
        return cls(*named(path, hashed))

    def read(self) -> Tractogram:
        """Read the streamlines with their weights, before all edits; warn when the file changed.

        Raises FileError when a file is missing or damaged, or weights do not fit.
        """
        file = located(self.path, self.folder)
        if self.sha256:
            warn_if_changed(file, self.sha256, sha256_of(file), "tractogram")
        tractogram = load_tractogram(file)
        return tractogram if self.weights is None else self.weights.put_on(tractogram, self.folder)

    def edit(self, tractogram: Tractogram) -> Tractogram:
        """Return what the edits make of the streamlines that :meth:`read` gave."""
        return edited(tractogram, self.edits, self.folder)
