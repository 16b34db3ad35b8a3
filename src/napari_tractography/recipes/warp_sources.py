"""The warp of a recipe: files by path and SHA-256. Called by :mod:`.recipe` and :mod:`.edits`."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path

from ..files.hashing import sha256_of
from ..files.warp_files import AUTO, load_warp
from ..geometry.warps import Warp
from .volume_sources import located, named, warn_if_changed


@dataclass(frozen=True, slots=True)
class WarpFile:
    """A file of a warp, or an image that it depends on."""

    path: str  # absolute
    sha256: str = ""  # of the file's bytes, "" if not known

    @classmethod
    def of(cls, path: str | PathLike[str], *, hashed: bool = True) -> WarpFile:
        """Name a file, with its present SHA-256 unless not `hashed`."""
        return cls(*named(path, hashed))

    def without_path(self) -> WarpFile:
        """Return what names the file by its SHA-256 alone, where that is known."""
        return dataclasses.replace(self, path="") if self.sha256 else self

    def found(self, folder: Path | None, *, hashed: bool) -> tuple[Path, WarpFile]:
        """Return where the file is, and this with its SHA-256; warn when it has changed."""
        file = located(self.path, folder)
        if not (hashed or self.sha256):
            return file, self
        sha256 = sha256_of(file)
        warn_if_changed(file, self.sha256, sha256, "file of a warp")
        return file, dataclasses.replace(self, sha256=sha256)


@dataclass(frozen=True, slots=True)
class WarpSource:
    """A warp, see :func:`~napari_tractography.files.warp_files.load_warp`."""

    files: tuple[WarpFile, ...]  # through which points go in this order
    kind: str = AUTO
    inverted: bool = False  # whether it is the way back through all of them
    # fsl_ref, fsl_in: of FSL's files, the images that were -ref and -in.
    fsl_ref: WarpFile | None = None
    fsl_in: WarpFile | None = None

    @classmethod
    def file(
        cls,
        *paths: str | PathLike[str],
        kind: str = AUTO,
        inverted: bool = False,
        fsl_ref: str | PathLike[str] | None = None,
        fsl_in: str | PathLike[str] | None = None,
        hashed: bool = True,
    ) -> WarpSource:
        """Name the files of a warp, in the order in which points go through them.

        That is the order of antsApplyTransforms. Raises FileError when one cannot be read.
        """
        images = [
            None if path is None else WarpFile.of(path, hashed=hashed) for path in (fsl_ref, fsl_in)
        ]
        files = tuple(WarpFile.of(path, hashed=hashed) for path in paths)
        return cls(files, kind, inverted, *images)

    @property
    def name(self) -> str:
        """What to call it in messages."""
        names = " ".join(Path(file.path).name for file in self.files)
        return f"the inverse of {names}" if self.inverted else names

    def without_paths(self) -> WarpSource:
        """Return what names the files by their SHA-256 alone, where that is known."""
        return dataclasses.replace(
            self,
            files=tuple(file.without_path() for file in self.files),
            fsl_ref=self.fsl_ref and self.fsl_ref.without_path(),
            fsl_in=self.fsl_in and self.fsl_in.without_path(),
        )

    def hashed(self) -> WarpSource:
        """Return this source with the SHA-256 of files of which it is not known.

        Raises FileError when one cannot be read.
        """

        def known(file: WarpFile | None) -> WarpFile | None:
            return file if file is None or file.sha256 else WarpFile.of(file.path)

        files = tuple(filter(None, map(known, self.files)))
        return dataclasses.replace(
            self, files=files, fsl_ref=known(self.fsl_ref), fsl_in=known(self.fsl_in)
        )

    def load(self, folder: Path | None = None) -> Warp:
        """Return the warp; see :meth:`read`."""
        return self.read(folder, hashed=False)[0]

    def read(self, folder: Path | None = None, *, hashed: bool = True) -> tuple[Warp, WarpSource]:
        """Read the warp; return it, and this source with the SHA-256 of its files.

        See :meth:`.FodSource.read`. Raises TractographyError when a file is missing or no warp.
        """
        found = [file.found(folder, hashed=hashed) for file in self.files]
        images = [
            (None, None) if image is None else image.found(folder, hashed=hashed)
            for image in (self.fsl_ref, self.fsl_in)
        ]
        (fsl_ref, ref_source), (fsl_in, in_source) = images
        warp = joined(
            [load_warp(path, kind=self.kind, fsl_ref=fsl_ref, fsl_in=fsl_in) for path, _ in found]
        )
        source = dataclasses.replace(
            self, files=tuple(file for _, file in found), fsl_ref=ref_source, fsl_in=in_source
        )
        return warp.inverse() if self.inverted else warp, source


def joined(warps: Sequence[Warp]) -> Warp:
    """Return warps one after the other."""
    whole = Warp([])
    for warp in warps:
        whole = whole.then(warp)
    return whole
