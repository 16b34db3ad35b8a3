"""Where the FOD, the seeds and the regions of a recipe come from, as data.

Each source is made from what a person gave, kept as text, and read or made again. Masks are in
:mod:`.volume_sources`, images in :mod:`.image_sources`; called by :mod:`.recipe`, the command and
the plugin.
"""

from __future__ import annotations

import dataclasses
import logging
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from ..errors import FileError, InvalidSeedsError
from ..fields.kinds import SH
from ..fields.readings import AUTO, DEFAULT_FRAMES
from ..fields.tensors import chosen_axes
from ..files.fods import FodKeywords, fod_reader
from ..files.hashing import sha256_of
from ..files.image_files import existing_image, image_sha256, is_remote
from ..files.servers import allow_server, check_allowed
from ..geometry.grid import Grid
from ..geometry.warps import Warp
from ..model.fod import Fod
from ..model.phantoms import PHANTOM_LMAX, make_phantom
from ..model.regions import Region
from ..model.seeds import Seeds
from ..model.tissues import Tissues
from .image_sources import ImageReading, reading_of
from .volume_sources import VolumeSource, located, named, warn_if_changed

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class FodSource:
    """Where the FOD comes from: a file, or the name of a phantom."""

    # Absolute path of a file; "" for a phantom. Of an image also the folder or the address of a
    # Zarr.
    path: str = ""
    # Of the file's bytes, "" if not known. Of .mih pairs, the header's; of images see image_sha256.
    sha256: str = ""
    phantom: str = ""  # name of a phantom, or ""
    # basis, frame: how it is read, see Fod; frame "" is the basis's own.
    basis: str = "tournier07"
    frame: str = ""
    # What the volumes of the file are, see load_fod; once it has been read, what they were taken
    # for.
    kind: str = SH.name
    # axes, order: of inputs that have them, see the same; "" is as the file says. Once it has been
    # read, what they were taken for.
    axes: str = ""
    order: str = ""
    phantom_lmax: int | None = None  # of a phantom, its largest degree; by default 8
    # Of an image in which fibres are seen: how it is read; basis, frame, axes and order then have
    # no meaning, and `phantom` is the name of an image phantom.
    image: ImageReading | None = None

    @classmethod
    def of_phantom(cls, fod: Fod) -> FodSource:
        """Name a phantom that was made by its name and lmax alone."""
        lmax = None if fod.lmax == PHANTOM_LMAX else fod.lmax
        return cls(phantom=fod.name, basis=fod.basis, frame=fod.frame, phantom_lmax=lmax)

    @classmethod
    def file(
        cls,
        path: str | PathLike[str],
        *,
        kind: str = AUTO,
        basis: str = "tournier07",
        frame: str | None = None,
        axes: str | None = None,
        order: str | None = None,
        hashed: bool = True,
    ) -> FodSource:
        """Name an FOD file, with its present SHA-256 unless not `hashed`.

        Where the file is read anyway, :meth:`read` gives the SHA-256 in the same pass.

        Raises FileError when there is no such file, or it cannot be read.
        """
        return cls(
            *named(path, hashed),
            basis=basis,
            frame=frame or DEFAULT_FRAMES.get(basis, ""),
            kind=kind,
            axes=axes or "",
            order=order or "",
        )

    @classmethod
    def of_image(
        cls,
        fod: Fod,
        path: str | PathLike[str],
        key: str = "",
        *,
        odf_voxels: int | None = None,
        hashed: bool = True,
    ) -> FodSource:
        """Name the file of an image, and how fibres are found in it now.

        The FOD is one of :meth:`~napari_tractography.model.fod.Fod.from_image`, path and key are as
        of :func:`~napari_tractography.files.image_files.stored_levels`, and `odf_voxels` is for the
        ODFs of blocks of that image. Raises FileError when the file cannot be read, or does not
        hold that image.
        """
        location = str(path) if is_remote(path) else str(existing_image(path).absolute())
        if is_remote(path):
            allow_server(location)  # whoever names it here means it
        reading = reading_of(fod, location, key, odf_voxels=odf_voxels)
        source = cls(path=location, kind=fod.kind, image=reading)
        return dataclasses.replace(source, sha256=source.sha256_now()) if hashed else source

    def sha256_now(self, folder: Path | None = None) -> str:
        """Return the SHA-256 of the file as it is now, "" of a phantom.

        Raises FileError when it is gone or cannot be read.
        """
        if not self.path:
            return ""
        if self.image is None:
            return sha256_of(located(self.path, folder))
        location = self._location(folder)
        return image_sha256(location, self.image.open(location, ""))

    @property
    def reading_of_others(self) -> FodKeywords:
        """How FODs of other subjects are read: in its basis and frame, and in its axes if those
        were chosen.
        """
        axes = chosen_axes(self.axes, self.order)
        return {"basis": self.basis, "frame": self.frame or None, "axes": axes}

    def other(self, path: str | PathLike[str]) -> FodSource:
        """Name the file of another subject, which is read as this one is, without its SHA-256.

        Raises FileError when there is no such file.
        """
        return FodSource.file(path, **self.reading_of_others, hashed=False)

    def load(self, folder: Path | None = None) -> Fod:
        """Return the FOD; see :meth:`read`."""
        return self.read(folder, hashed=False)[0]

    def read(self, folder: Path | None = None, *, hashed: bool = True) -> tuple[Fod, FodSource]:
        """Read or make the FOD; return it, and this source with the SHA-256 and the kind.

        The file is read once; one that is no longer at its path is sought in a folder. Where it has
        changed a warning says so, and where its SHA-256 is not known it is taken if `hashed`. An
        image is not read yet, but for that. Raises TractographyError when the file is missing or no
        usable FOD, or the phantom is unknown.
        """
        if self.image is not None:
            return self._read_image(self.image, folder, hashed)
        frame = self.frame or None
        if self.phantom:
            fod = make_phantom(self.phantom, lmax=self.phantom_lmax or PHANTOM_LMAX)
            return fod.reread(basis=self.basis, frame=frame), self
        if not self.path:
            raise FileError("The recipe names neither an FOD file nor a phantom; write it again.")
        file = located(self.path, folder)
        reader = fod_reader(
            file,
            kind=self.kind,
            basis=self.basis,
            frame=frame,
            axes=self.axes or None,
            order=self.order or None,
        )
        fod, sha256 = reader.read(hashed=hashed or bool(self.sha256))
        warn_if_changed(file, self.sha256, sha256, "FOD")
        found = dataclasses.replace(self, sha256=sha256, kind=fod.kind)
        if reading := fod.vector_reading:
            found = dataclasses.replace(found, axes=reading["axes"], order=reading["order"])
        return fod, found

    def _read_image(
        self, reading: ImageReading, folder: Path | None, hashed: bool
    ) -> tuple[Fod, FodSource]:
        location = self._location(folder)
        image = reading.open(location, self.phantom)
        sha256 = self.sha256
        if location and (hashed or sha256):
            sha256 = image_sha256(location, image)
            warn_if_changed(location, self.sha256, sha256, "image")
        fod = reading.fod(image, location, Path(location).name or self.phantom, folder)
        return fod, dataclasses.replace(self, sha256=sha256)

    def _location(self, folder: Path | None) -> str:
        """Return where the file of an image is, or its address; "" of a phantom.

        Raises FileError when its server may not be contacted.
        """
        if is_remote(self.path):
            check_allowed(self.path)
        if not self.path or is_remote(self.path):
            return self.path
        return str(located(self.path, folder))


@dataclass(frozen=True, slots=True)
class SeedSource:
    """How seeds were made; see :class:`~napari_tractography.model.seeds.Seeds`."""

    kind: str  # "sphere", "mask", "voxels", "fod", "interface" or "points"
    # n, random_seed: how many were drawn, of "voxels" in each, and by which key; not of points.
    n: int = 0
    random_seed: int = 0
    center_mm: tuple[float, ...] = ()  # of a sphere, RAS+ mm
    radius_mm: float = 0.0
    volume: VolumeSource | None = None  # the mask, of "mask" and "voxels"
    # positions_mm, directions: tuple of (x, y, z): of points, RAS+; directions may be empty.
    positions_mm: tuple[tuple[float, ...], ...] = ()
    directions: tuple[tuple[float, ...], ...] = ()
    # Of those that are drawn, the number of the first; of a sphere, how many the spheres before it
    # hold. 0 in recipes without it, whose spheres all began at number 0.
    first: int = 0
    by: str = ""  # of "mask" and "voxels": "voxel", or "" for the list; see Seeds.in_mask

    @classmethod
    def points(cls, seeds: Seeds) -> SeedSource:
        """Keep seeds point by point."""
        directions = () if seeds.directions is None else _rows(seeds.directions)
        return cls("points", positions_mm=_rows(seeds.positions_mm), directions=directions)

    def make(self, fod: Fod, folder: Path | None = None) -> Seeds:
        """Return the seeds; see :meth:`read`."""
        return self.read(fod, folder, hashed=False)[0]

    def read(
        self,
        fod: Fod,
        folder: Path | None = None,
        *,
        tissues: Tissues | None = None,
        hashed: bool = True,
    ) -> tuple[Seeds, SeedSource]:
        """Make the seeds; return them, and this source with the SHA-256 of its file.

        Those on the interface need the tissue image.

        Raises TractographyError when the kind is unknown, a file cannot be read or a number is
        impossible.
        """
        drawn = {"random_seed": self.random_seed, "first": self.first}
        if self.kind == "sphere":
            return Seeds.in_sphere(self.center_mm, self.radius_mm, self.n, **drawn), self
        if self.kind in ("mask", "voxels") and self.volume is not None:
            mask, grid, volume = self.volume.read(folder, hashed=hashed)
            draw = Seeds.in_mask if self.kind == "mask" else Seeds.in_each_voxel
            seeds = draw(mask, grid, self.n, by=self.by or "list", **drawn)
            return seeds, dataclasses.replace(self, volume=volume)
        if self.kind == "fod":
            return Seeds.from_fod(fod, self.n, **drawn), self
        if self.kind == "interface":
            if tissues is None:
                raise InvalidSeedsError(
                    "Seeds on the interface of grey and white matter need a tissue image; give "
                    "one, or seed elsewhere."
                )
            return Seeds.on_interface(tissues, self.n, **drawn), self
        if self.kind == "points":
            return Seeds.at(self.positions_mm, self.directions or None), self
        raise InvalidSeedsError(
            f"Seeds of the kind {self.kind!r} cannot be made; choose sphere, mask, voxels, "
            "fod, interface or points."
        )


@dataclass(frozen=True, slots=True)
class RegionSource:
    """A region: a sphere, or a mask from a file or painted."""

    # role, name: as Region has them.
    role: str
    name: str = ""
    center_mm: tuple[float, ...] = ()  # of a sphere, RAS+ mm
    radius_mm: float = 0.0
    volume: VolumeSource | None = None  # of a mask

    @classmethod
    def of(cls, region: Region) -> RegionSource:
        """Keep a region, with its voxels, in the recipe itself."""
        if region.voxels is None or region.grid is None:
            assert region.center_mm is not None
            centre = tuple(region.center_mm.tolist())
            return cls(region.role, region.name, centre, region.radius_mm)
        volume = VolumeSource.of_array(region.voxels, region.grid)
        return cls(region.role, region.name, volume=volume)

    def make(self, folder: Path | None = None) -> Region:
        """Return the region; see :meth:`read`."""
        return self.read(folder, hashed=False)[0]

    def read(
        self, folder: Path | None = None, *, hashed: bool = True
    ) -> tuple[Region, RegionSource]:
        """Make the region; return it, and this source with the SHA-256 of its file.

        Raises TractographyError when a file cannot be read or the region is impossible.
        """
        if self.volume is None:
            name = self.name or "sphere"
            return Region.sphere(self.center_mm, self.radius_mm, self.role, name=name), self
        mask, grid, volume = self.volume.read(folder, hashed=hashed)
        region = Region.mask(mask, grid, self.role, name=self.name or volume.name)
        return region, dataclasses.replace(self, volume=volume)


Source = TypeVar("Source", SeedSource, RegionSource)


def warped(
    source: Source, warp: Warp, grid: Grid, folder: Path | None = None, *, hashed: bool = True
) -> tuple[Source, Source]:
    """Return a source in the space that a warp leads to, that of `grid`, and itself with SHA-256.

    See :meth:`.Region.warped` and :meth:`.Seeds.warped`; what is made from the FOD or the tissues
    is there already. Raises TractographyError when a file cannot be read, or it has no place there.
    """
    if source.volume is not None:
        mask, own, volume = source.volume.read(folder, hashed=hashed)
        _check_way(warp, own, grid, volume.name)
        region = Region.mask(mask, own, "include", name=volume.name).warped(warp, grid)
        assert region.voxels is not None
        assert region.grid is not None
        there = VolumeSource.of_array(region.voxels, region.grid)
        named = dataclasses.replace(source, volume=volume)
        return dataclasses.replace(source, volume=there), named
    if source.center_mm:
        centre = warp.moved(source.center_mm, "The centre of a sphere")
        return dataclasses.replace(source, center_mm=centre), source
    if isinstance(source, SeedSource) and source.positions_mm:
        points = Seeds.at(source.positions_mm, source.directions or None).warped(warp)
        return SeedSource.points(points), source
    return source, source


def _check_way(warp: Warp, own: Grid, grid: Grid, name: str) -> None:
    """Warn where a field lies on the grid of a mask, or of the FOD, where the other should be."""
    back = warp.inverse().grid
    is_other_way = (back is not None and back.same_space(own)) or (
        warp.grid is not None and warp.grid.same_space(grid)
    )
    if is_other_way and not own.same_space(grid):
        logger.warning(
            "The warp seems to lead the other way: its field lies on the grid of %s. Invert it "
            "(--invert-warp), or leave that out where it is inverted.",
            name if back is not None else "the FOD",
        )  # fmt: skip


def _rows(array: NDArray[np.float32]) -> tuple[tuple[float, ...], ...]:
    return tuple(tuple(row) for row in array.tolist())  # float32 in float64: no digit is lost
