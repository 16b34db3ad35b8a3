"""The tissue image of a recipe: a file by path and SHA-256. Called by :mod:`.recipe`."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from os import PathLike
from pathlib import Path

from ..files.tissue_files import read_tissues
from ..model.tissues import FREESURFER_LABELS, Tissues, labels_of
from .volume_sources import located, named, warn_if_changed


@dataclass(frozen=True, slots=True)
class TissueSource:
    """A tissue image, see :func:`~napari_tractography.files.tissue_files.load_tissues`."""

    path: str  # absolute path of a file of five tissues, or of FreeSurfer's labels
    sha256: str = ""  # of the file's bytes, "" if not known
    # Of each tissue, where the file has labels that are not FreeSurfer's; else empty.
    labels: tuple[tuple[int, ...], ...] = ()

    @classmethod
    def file(
        cls,
        path: str | PathLike[str],
        *,
        mapping: Mapping[int, Collection[int]] | None = None,
        hashed: bool = True,
    ) -> TissueSource:
        """Name a file, with its present SHA-256 unless not `hashed`.

        The mapping is of labels that are not FreeSurfer's, as
        :func:`~napari_tractography.files.tissue_files.load_tissues` takes it. Raises FileError when
        there is no such file, or it cannot be read; InvalidTissuesError when the mapping names
        another tissue.
        """
        return cls(*named(path, hashed), () if mapping is None else labels_of(mapping))

    @property
    def mapping(self) -> Mapping[int, Collection[int]]:
        """Labels by tissue, for :func:`~napari_tractography.files.tissue_files.load_tissues`."""
        return dict(enumerate(self.labels)) if self.labels else FREESURFER_LABELS

    def read(
        self, folder: Path | None = None, *, hashed: bool = True
    ) -> tuple[Tissues, TissueSource]:
        """Read the image, once; return it, and this source with its SHA-256; see
        :meth:`.FodSource.read`.

        Raises TractographyError when the file is missing or no tissue image.
        """
        file = located(self.path, folder)
        tissues, sha256 = read_tissues(
            file, mapping=self.mapping, hashed=hashed or bool(self.sha256)
        )
        warn_if_changed(file, self.sha256, sha256, "tissue image")
        return tissues, dataclasses.replace(self, sha256=sha256)
