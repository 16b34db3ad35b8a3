"""Recipes: everything that makes a tractogram again, as JSON.

A recipe names its input files with their SHA-256, holds what was drawn by hand (points, painted
masks) in itself, and knows the digest of its result. Called by the command and the plugin.
"""

from __future__ import annotations

import dataclasses
import json
import logging
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from os import PathLike
from pathlib import Path
from typing import Any, Unpack

import numpy as np
from numpy.typing import NDArray

from ..errors import FileError, InvalidMaskError, InvalidSeedsError, TractographyError
from ..fields.sh import DEFAULT_FRAMES
from ..files.fods import load_fod
from ..files.paths import existing_file, written_whole
from ..fod import Fod
from ..parameters import TrackingParameters
from ..phantoms import make_phantom
from ..regions import Region
from ..seeds import Seeds
from ..tracking.engine import track_all
from ..tracking.inputs import Execution, ExecutionKeywords, TrackingInput
from ..tractogram import Tractogram
from .volumes import VolumeSource, check_unchanged, located, sha256_of

logger = logging.getLogger(__name__)

FORMAT = "napari-tractography recipe"
FORMAT_VERSION = 1
ENDING = ".json"
# What can change a bit of the result, besides the recipe.
PACKAGES = ("napari-tractography", "numpy", "numba", "dipy")


@dataclass(frozen=True, slots=True)
class FodSource:
    """Where the FOD comes from: a file, or the name of a phantom.

    Attributes
    ----------
    path : str
        Absolute path of a file; "" for a phantom.
    sha256 : str
        Of the file's bytes, "" if not known. Of .mih pairs, the header's.
    phantom : str
        Name of a phantom, or "".
    basis, frame : str
        How it is read, see :class:`~napari_tractography.fod.Fod`; frame "" is the basis's own.
    """

    path: str = ""
    sha256: str = ""
    phantom: str = ""
    basis: str = "tournier07"
    frame: str = ""

    @classmethod
    def file(
        cls,
        path: str | PathLike[str],
        *,
        basis: str = "tournier07",
        frame: str | None = None,
        hashed: bool = True,
    ) -> FodSource:
        """Name an FOD file, with its present SHA-256 unless not `hashed`."""
        place = existing_file(path).absolute()
        digest = sha256_of(place) if hashed else ""
        used = frame or DEFAULT_FRAMES.get(basis, "")
        return cls(path=str(place), sha256=digest, basis=basis, frame=used)

    def load(self, folder: Path | None = None) -> Fod:
        """Read or make the FOD; warn when the file has changed.

        Raises
        ------
        TractographyError
        """
        if self.phantom:
            return make_phantom(self.phantom).reread(basis=self.basis, frame=self.frame or None)
        place = located(self.path, folder)
        check_unchanged(place, self.sha256, "FOD")
        return load_fod(place, basis=self.basis, frame=self.frame or None)


@dataclass(frozen=True, slots=True)
class SeedSource:
    """How seeds were made; see :class:`~napari_tractography.seeds.Seeds`.

    Attributes
    ----------
    kind : str
        "sphere", "mask", "fod" or "points".
    n, random_seed : int
        How many were drawn and by which key; not of points.
    first : int
        Of a sphere: the number of its first seed among all, which decides its random numbers.
    center_mm : tuple of 3 float, radius_mm : float
        Of a sphere, RAS+ mm.
    volume : VolumeSource, optional
        Of a mask.
    positions_mm, directions : tuple of (x, y, z)
        Of points, RAS+; directions may be empty.
    """

    kind: str
    n: int = 0
    random_seed: int = 0
    center_mm: tuple[float, ...] = ()
    radius_mm: float = 0.0
    volume: VolumeSource | None = None
    positions_mm: tuple[tuple[float, ...], ...] = ()
    directions: tuple[tuple[float, ...], ...] = ()
    first: int = 0

    @classmethod
    def points(cls, seeds: Seeds) -> SeedSource:
        """Hold seeds point by point."""
        given = () if seeds.directions is None else _rows(seeds.directions)
        return cls("points", positions_mm=_rows(seeds.positions_mm), directions=given)

    def make(self, fod: Fod, folder: Path | None = None) -> Seeds:
        """Make the seeds.

        Raises
        ------
        TractographyError
        """
        if self.kind == "sphere":
            return Seeds.in_sphere(
                self.center_mm,
                self.radius_mm,
                self.n,
                random_seed=self.random_seed,
                first=self.first,
            )
        if self.kind == "mask" and self.volume is not None:
            mask, grid = self.volume.load(folder)
            return Seeds.in_mask(mask, grid, self.n, random_seed=self.random_seed)
        if self.kind == "fod":
            return Seeds.from_fod(fod, self.n, random_seed=self.random_seed)
        if self.kind == "points":
            return Seeds.at(self.positions_mm, self.directions or None)
        raise InvalidSeedsError(
            f"Seeds of the kind {self.kind!r} cannot be made; choose sphere, mask, fod or points."
        )


@dataclass(frozen=True, slots=True)
class RegionSource:
    """A region: a sphere, or a mask from a file or drawn by hand."""

    role: str
    name: str = ""
    center_mm: tuple[float, ...] = ()
    radius_mm: float = 0.0
    volume: VolumeSource | None = None

    @classmethod
    def of(cls, region: Region) -> RegionSource:
        """Hold a region in the recipe itself."""
        if region.voxels is None or region.grid is None:
            assert region.center_mm is not None
            centre = tuple(region.center_mm.tolist())
            return cls(region.role, region.name, centre, region.radius_mm)
        volume = VolumeSource.of_array(region.voxels, region.grid)
        return cls(region.role, region.name, volume=volume)

    def make(self, folder: Path | None = None) -> Region:
        """Make the region.

        Raises
        ------
        TractographyError
        """
        if self.volume is None:
            return Region.sphere(
                self.center_mm, self.radius_mm, self.role, name=self.name or "sphere"
            )
        mask, grid = self.volume.load(folder)
        return Region.mask(mask, grid, self.role, name=self.name or self.volume.name)


@dataclass(frozen=True, slots=True)
class Recipe:
    """Everything that makes a tractogram again.

    A cone function cannot be part of it: programs are not data.

    Attributes
    ----------
    fod : FodSource
    seeds : tuple of SeedSource
        Joined in this order.
    parameters : TrackingParameters
    mask : VolumeSource, optional
        Where streamlines may run; on the FOD's grid.
    regions : tuple of RegionSource
    include_rule : str
        As the engine takes it.
    digest : str
        :meth:`Tractogram.digest` of the result, "" if not known.
    versions : dict
        Of this package and of those that could change a result.
    folder : Path, optional
        Where the recipe was loaded from: files that are no longer at their path are sought there.
    """

    fod: FodSource
    seeds: tuple[SeedSource, ...]
    parameters: TrackingParameters = field(default_factory=TrackingParameters)
    mask: VolumeSource | None = None
    regions: tuple[RegionSource, ...] = ()
    include_rule: str = "all"
    digest: str = ""
    versions: dict[str, str] = field(default_factory=lambda: _present_versions())
    folder: Path | None = field(default=None, compare=False)

    def inputs(self) -> TrackingInput:
        """Load and make everything that tracking needs; warn when files have changed.

        Raises
        ------
        TractographyError
        """
        fod = self.fod.load(self.folder)
        mask = None
        if self.mask is not None:
            mask, grid = self.mask.load(self.folder)
            if not grid.same_space(fod.grid):
                raise InvalidMaskError(
                    f"The mask {self.mask.name} is {grid} but {fod.name} is {fod.grid}; resample "
                    "it to the FOD's grid (mrgrid mask regrid -template fod -interp nearest)."
                )
        try:
            seeds = Seeds.concatenate([source.make(fod, self.folder) for source in self.seeds])
            regions = tuple(source.make(self.folder) for source in self.regions)
        except (TypeError, ValueError) as error:
            if isinstance(error, TractographyError):
                raise
            raise FileError(
                f"The recipe's seeds or regions make no sense ({error}); write it again."
            ) from None
        return TrackingInput(fod, seeds, self.parameters, mask, regions, self.include_rule)

    def run(self, **execution: Unpack[ExecutionKeywords]) -> Tractogram:
        """Track again; warn when an input or the result is not what it was.

        Raises
        ------
        TractographyError
            When a file is gone or something is wrong with the input.
        """
        tractogram = track_all(self.inputs(), Execution(**execution))
        self.check(tractogram)
        return tractogram

    def check(self, tractogram: Tractogram) -> bool:
        """Tell whether a tractogram is the recipe's result; warn, with what may be why, if not.

        A recipe that does not know its digest is content with anything.
        """
        digest = tractogram.digest()
        if self.digest in ("", digest):
            return True
        present = _present_versions()
        others = [
            f"{name} {old} then, {present.get(name, 'absent')} now"
            for name, old in self.versions.items()
            if present.get(name) != old
        ]
        logger.warning(
            "The streamlines are not those of the recipe: digest %s, then %s%s.",
            digest, self.digest, f" ({'; '.join(others)})" if others else "",
        )  # fmt: skip
        return False

    def with_result(self, tractogram: Tractogram) -> Recipe:
        """Return the recipe with the digest of what it made."""
        return dataclasses.replace(self, digest=tractogram.digest(), versions=_present_versions())

    def save(self, path: str | PathLike[str]) -> None:
        """Write JSON, whole or not at all.

        Raises
        ------
        FileError
            When it cannot be written.
        """
        content = {"format": FORMAT, "format_version": FORMAT_VERSION, **_plain(self)}
        with written_whole(path) as temporary:
            temporary.write_text(json.dumps(content, indent=1) + "\n", "utf-8")

    @classmethod
    def load(cls, path: str | PathLike[str]) -> Recipe:
        """Read a recipe.

        Raises
        ------
        FileError
            When it is missing, damaged, something else, or of a newer format.
        InvalidParameterError
            When a parameter is out of range.
        """
        place = existing_file(path)
        content = _read_json(place)
        if not isinstance(content, dict) or content.pop("format", None) != FORMAT:
            raise FileError(
                f"{place} is no recipe; give a JSON file that `napari-tractography track` wrote."
            )
        newest = content.pop("format_version", 0)
        if newest != FORMAT_VERSION:
            raise FileError(
                f"{place} has format version {newest!r}, this program knows {FORMAT_VERSION}; "
                "update napari-tractography."
            )
        try:
            content["fod"] = FodSource(**content["fod"])
            content["seeds"] = tuple(_seed_source(s) for s in content["seeds"])
            content["regions"] = tuple(_region_source(r) for r in content.get("regions", ()))
            content["mask"] = _volume_source(content.get("mask"))
            content["parameters"] = TrackingParameters(**content["parameters"])
            return cls(**content, folder=place.absolute().parent)
        except (KeyError, TypeError, AttributeError) as error:
            raise FileError(
                f"{place} is a damaged recipe ({error}); write it again with "
                "`napari-tractography track`."
            ) from None


def is_recipe(path: str | PathLike[str]) -> bool:
    """Tell whether a file is there and is a recipe, of whatever version."""
    try:
        content = _read_json(existing_file(path))
    except FileError:
        return False
    return isinstance(content, dict) and content.get("format") == FORMAT


def _read_json(place: Path) -> Any:
    try:
        return json.loads(place.read_text("utf-8"))
    except (ValueError, RecursionError) as error:
        raise FileError(f"{place} is no JSON ({error}); give a recipe.") from None
    except OSError as error:
        raise FileError(
            f"{place} cannot be read ({error.strerror or error}); check its permissions."
        ) from None


def _volume_source(content: dict[str, Any] | None) -> VolumeSource | None:
    return None if content is None else VolumeSource(**{k: _frozen(v) for k, v in content.items()})


def _seed_source(content: dict[str, Any]) -> SeedSource:
    volume = _volume_source(content.pop("volume", None))
    return SeedSource(**{k: _frozen(v) for k, v in content.items()}, volume=volume)


def _region_source(content: dict[str, Any]) -> RegionSource:
    volume = _volume_source(content.pop("volume", None))
    return RegionSource(**{k: _frozen(v) for k, v in content.items()}, volume=volume)


def _frozen(value: Any) -> Any:
    return tuple(_frozen(v) for v in value) if isinstance(value, list) else value


def _plain(value: Any) -> Any:
    """Turn dataclasses into dicts without their empty fields; paths of the moment stay out."""
    if dataclasses.is_dataclass(value):
        fields = {f.name: getattr(value, f.name) for f in dataclasses.fields(value) if f.compare}
        if isinstance(value, TrackingParameters):
            return fields
        return {k: _plain(v) for k, v in fields.items() if v is not None and v != "" and v != ()}
    if isinstance(value, tuple):
        return [_plain(v) for v in value]
    return value


def _rows(array: NDArray[np.float32]) -> tuple[tuple[float, ...], ...]:
    return tuple(tuple(row) for row in array.tolist())  # float32 in float64: no digit is lost


def _present_versions() -> dict[str, str]:
    found = {}
    for name in PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:  # a source tree on the path, not installed
            continue
    return found
