"""Recipes: everything that makes a tractogram again, as JSON.

A recipe names its input files with their SHA-256, holds what was drawn by hand (points, painted
masks) in itself, and knows the digest of its result and on what it was tracked. Called by the
command and the plugin.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from os import PathLike
from pathlib import Path
from typing import Unpack

from ..errors import FileError, InvalidParameterError, InvalidRegionError, TractographyError
from ..files.hashing import sha256_of
from ..files.paths import existing_file
from ..geometry.grid import Grid
from ..geometry.warps import Warp
from ..maps.scalar_maps import name_of
from ..model.fod import Fod
from ..model.masks import mask_on
from ..model.outcome import Outcome
from ..model.parameters import TrackingParameters
from ..model.regions import Region
from ..model.seeds import Seeds
from ..streamlines.tractogram import Tractogram
from ..tracking.engine import track_all
from ..tracking.inputs import Execution, ExecutionKeywords, TrackingInput
from ..tracking.report import Report
from .bids import sidecar_of
from .codec import encoded, read_json, recipe_content, recipe_of, write_json
from .edits import BY_NUMBER, Edit, edited
from .provenance import changed_versions, device_of, present_versions, same_device
from .sources import FodSource, RegionSource, SeedSource, warped
from .tissue_sources import TissueSource
from .tractogram_sources import WeightsSource
from .volume_sources import VolumeSource
from .warp_sources import WarpSource

logger = logging.getLogger(__name__)

MOST_SOURCES = 10_000  # of seeds, and of regions: a person places hundreds

ENDING = ".json"

# FODs by where they come from, without the SHA-256; with what was learnt when they were read.
ReadFods = dict[FodSource, tuple[Fod, FodSource]]


@dataclass(frozen=True, slots=True)
class Recipe:
    """Everything that makes a tractogram again.

    A cone function cannot be part of it: programs are not data.

    Attributes
    ----------
    fod : FodSource
    seeds : tuple of SeedSource
        Joined in this order; none where it tracks between two regions.
    parameters : TrackingParameters
    mask : VolumeSource, optional
        Where streamlines may run; on the FOD's grid.
    regions : tuple of RegionSource
    include_rule : str
    tissues : TissueSource, optional
    select, max_seeds : int, optional
        As in :class:`~napari_tractography.tracking.inputs.TrackingInput`.
    between : tuple of RegionSource
        Two regions to track between, see
        :func:`~napari_tractography.tracking.engine.track_between`; or none.
    warp : WarpSource, optional
        From the space of the FOD to that of seeds and regions, those to track between as well,
        such as a template's; see :meth:`in_space_of`. Mask and tissues lie in the FOD's space. What
        is tracked does, too, unless an edit takes it elsewhere.
    weights : WeightsSource, optional
        Of the streamlines that are tracked, such as tcksift2 finds for them.
    edits : tuple of Edit
        What was kept, cut or filtered of them, one after the other.
    digest : str
        :meth:`Tractogram.digest` of the result, edits included; "" if not known.
    versions : dict
        Of this package and of those that could change a result.
    backend, device : str
        What tracked the result, such as "cpu" on "x86_64" or "cuda:0" on "NVIDIA H200"; "" if not
        known.
    folder : Path, optional
        Where the recipe was loaded from: files that are no longer at their path are sought there.
    """

    fod: FodSource
    seeds: tuple[SeedSource, ...] = ()
    parameters: TrackingParameters = field(default_factory=TrackingParameters)
    mask: VolumeSource | None = None
    regions: tuple[RegionSource, ...] = ()
    include_rule: str = "all"
    weights: WeightsSource | None = None
    edits: tuple[Edit, ...] = ()
    tissues: TissueSource | None = None
    select: int | None = None
    max_seeds: int | None = None
    between: tuple[RegionSource, ...] = ()
    warp: WarpSource | None = None
    digest: str = ""
    versions: dict[str, str] = field(default_factory=present_versions)
    backend: str = ""
    device: str = ""
    folder: Path | None = field(default=None, compare=False)

    def inputs(self) -> TrackingInput:
        """Load and make everything that tracking needs; see :meth:`read`."""
        return self.read(hashed=False)[0]

    def read(
        self, *, hashed: bool = True, fods: ReadFods | None = None
    ) -> tuple[TrackingInput, Recipe]:
        """Load and make everything that tracking needs; warn when files have changed.

        Parameters
        ----------
        hashed : bool
            Whether the SHA-256 of files are taken that are not known yet, while they are read.
        fods : dict, optional
            FODs that were read before, which are not read again; what is read is added.

        Returns
        -------
        inputs : TrackingInput
        recipe : Recipe
            This one, with the SHA-256 of its files.

        Raises
        ------
        TractographyError
            When a file is missing or damaged, or a number is impossible.
        """
        try:
            return self._read(hashed, {} if fods is None else fods)
        except TractographyError:
            raise
        except (TypeError, ValueError, OverflowError) as error:
            raise FileError(
                f"The recipe's seeds, mask or regions make no sense ({error}); write it again."
            ) from None

    def _read(self, hashed: bool, fods: ReadFods) -> tuple[TrackingInput, Recipe]:
        folder = self.folder
        for what, sources in (("seeds", self.seeds), ("regions", self.regions)):
            if len(sources) > MOST_SOURCES:
                raise FileError(
                    f"The recipe has {len(sources):,} sources of {what}, more than "
                    f"{MOST_SOURCES:,}; keep seeds as points of one source."
                )
        asked = dataclasses.replace(self.fod, sha256="")
        if asked not in fods or (hashed and not fods[asked][1].sha256):
            fod, fod_source = self.fod.read(folder, hashed=hashed)
            fods[asked] = fods[dataclasses.replace(fod_source, sha256="")] = fod, fod_source
        fod, fod_source = fods[asked]
        mask = mask_source = None
        if self.mask is not None:
            mask, grid, mask_source = self.mask.read(folder, hashed=hashed)
            mask = mask_on(mask, grid, fod.grid, self.mask.name)
        tissues = tissue_source = None
        if self.tissues is not None:
            tissues, tissue_source = self.tissues.read(folder, hashed=hashed)
        placed, named = self._in_space_of(fod.grid, hashed)
        drawn = [
            source.read(fod, folder, tissues=tissues, hashed=hashed) for source in placed.seeds
        ]
        regions = [source.read(folder, hashed=hashed) for source in placed.regions]
        ends = [source.read(folder, hashed=hashed) for source in placed.between]
        between = _pair([region for region, _ in ends])
        if self.warp is None:
            named = dataclasses.replace(
                named,
                seeds=tuple(source for _, source in drawn),
                regions=tuple(source for _, source in regions),
                between=tuple(source for _, source in ends),
            )
        inputs = TrackingInput(
            fod,
            between[0].seeds(1) if between else Seeds.concatenate([part for part, _ in drawn]),
            self.parameters,
            mask,
            tuple(region for region, _ in regions),
            self.include_rule,
            tissues=tissues,
            select=self.select,
            max_seeds=self.max_seeds,
            between=between,
        )
        recipe = dataclasses.replace(named, fod=fod_source, mask=mask_source, tissues=tissue_source)
        return inputs, recipe

    def in_space_of(self, grid: Grid, there: Warp | None = None) -> Recipe:
        """Return the recipe with seeds and regions where the warp puts them, and without it.

        By `there` if it is given, from seeds and regions to that space, and not by its own.

        It makes the same streamlines. Masks are looked up voxel by voxel of `grid`, the FOD's,
        which is divided where they are finer, and become part of the recipe; spheres go with their
        centres and keep their radius.

        Raises TractographyError when a file cannot be read, or something has no place there.
        """
        return self._in_space_of(grid, False, there)[0]

    def _in_space_of(
        self, grid: Grid, hashed: bool, there: Warp | None = None
    ) -> tuple[Recipe, Recipe]:
        """Return the same, and this recipe with the SHA-256 of what was read for it."""
        warp_source = self.warp
        if there is None:
            if self.warp is None:
                return self, self
            warp, warp_source = self.warp.read(self.folder, hashed=hashed)
            there = warp.inverse()
        go = partial(warped, warp=there, grid=grid, folder=self.folder, hashed=hashed)
        seeds = [go(source) for source in self.seeds]
        regions, between = (
            [go(source) for source in sources] for sources in (self.regions, self.between)
        )
        placed, named = (
            dataclasses.replace(
                self,
                warp=kept,
                seeds=tuple(pair[which] for pair in seeds),
                regions=tuple(pair[which] for pair in regions),
                between=tuple(pair[which] for pair in between),
            )
            for which, kept in enumerate((None, warp_source))
        )
        return placed, named

    def run(self, **execution: Unpack[ExecutionKeywords]) -> Tractogram:
        """Track and edit again; warn when an input or the result is not what it was.

        Raises
        ------
        TractographyError
            When a file is gone or something is wrong with the input.
        """
        report = Report()
        tractogram = track_all(self.inputs(), Execution(**execution), report=report)
        tractogram = self.edit(self.weighted(tractogram))
        self.check(tractogram, report.backend)
        return tractogram

    def weighted(self, tractogram: Tractogram) -> Tractogram:
        """Return streamlines as tracked, with the recipe's weights if it has any."""
        return tractogram if self.weights is None else self.weights.put_on(tractogram, self.folder)

    def edit(self, tractogram: Tractogram) -> Tractogram:
        """Return what the edits make of streamlines as tracked."""
        return edited(tractogram, self.edits, self.folder)

    def on_fod(self, fod: FodSource, warp: WarpSource | None = None) -> Recipe:
        """Return the recipe for another FOD, such as another subject's.

        The digest is not known there. Weights and edits by streamline number are left out, as they
        belong to other streamlines.

        Parameters
        ----------
        fod : FodSource
        warp : WarpSource, optional
            From the space of that FOD to that of seeds and regions: in place of the recipe's own,
            in edits as well.

        Raises
        ------
        InvalidParameterError
            When the recipe has a warp, which is of its own FOD, and no other is there.
        """
        if warp is None and (self.warp or any(edit.warp for edit in self.edits)):
            raise InvalidParameterError(
                "The recipe has a warp, which belongs to its own FOD; give that of the other "
                "FOD as well."
            )
        left_out = (*BY_NUMBER, "weights")
        edits = tuple(
            edit if edit.warp is None else dataclasses.replace(edit, warp=warp)
            for edit in self.edits
            if edit.kind not in left_out
        )
        return dataclasses.replace(self, fod=fod, warp=warp, weights=None, edits=edits, digest="")

    def check(self, tractogram: Tractogram, backend: str = "") -> bool:
        """Tell whether a tractogram is the recipe's result; warn, with what differs, if not.

        A recipe that does not know its digest accepts anything.

        Parameters
        ----------
        tractogram : Tractogram
        backend : str
            What tracked it, such as "cpu" or "cuda:0"; "" if not known.
        """
        digest = tractogram.digest()
        if self.digest in ("", digest):
            return True
        logger.warning(
            "The streamlines are not those of the recipe: digest %s now, %s then. %s.",
            digest, self.digest, ". ".join(self._differences(backend)),
        )  # fmt: skip
        return False

    def _differences(self, backend: str) -> list[str]:
        """Return sentences on what is not as it was when the recipe's result was tracked."""
        device = device_of(backend)
        where = ""
        if not self.backend:
            where = "the recipe does not say which backend tracked them"
        elif backend and not same_device(self.backend, self.device, backend, device):
            where = f"tracked by {self.backend} ({self.device}) then, by {backend} ({device}) now"
        versions = changed_versions(self.versions, present_versions(self.backend))
        if not (where or versions):
            return ["Backend, device and versions are the same"]
        return [f"What differs: {'; '.join(filter(None, [where, *versions]))}"]

    def with_result(self, tractogram: Outcome, backend: str = "") -> Recipe:
        """Return the recipe with the digest of what it made, and what made it.

        Parameters
        ----------
        tractogram : Outcome
            A Tractogram, or what is known of one that was written to a file.
        backend : str
            What tracked it, such as "cpu" or "cuda:0"; "" if not known.
        """
        return dataclasses.replace(
            self,
            digest=tractogram.digest(),
            versions=present_versions(backend),
            backend=backend,
            device=device_of(backend),
        )

    def inputs_sha256(self, maps: Mapping[str, Path] | None = None) -> str:
        """Return the SHA-256 of all that a result depends on, wherever FOD and warps lie.

        Parameters
        ----------
        maps : mapping of str to Path, optional
            Scalar maps that are measured with it, by name.

        Raises
        ------
        FileError
            When a map cannot be read.
        """
        bare = dataclasses.replace(
            self,
            fod=dataclasses.replace(self.fod, path=""),
            warp=self.warp and self.warp.without_paths(),
            edits=tuple(edit.without_paths() for edit in self.edits),
            versions={},
            backend="",
            device="",
            digest="",
        )
        # With the ending, as tables have it that were begun before maps had names of their own.
        hashes = {
            name + path.name.removeprefix(name_of(path)): sha256_of(path)
            for name, path in (maps or {}).items()
        }
        text = json.dumps([recipe_content(bare), hashes], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()

    def makes_as(self, other: Recipe) -> bool:
        """Tell whether both make the same streamlines, whatever is known of their results."""
        known = {name: getattr(self, name) for name in ("digest", "versions", "backend", "device")}
        return bool(encoded(self) == encoded(dataclasses.replace(other, **known)))

    def save(self, path: str | PathLike[str], *, bids_sidecar: bool = False) -> None:
        """Write JSON, whole or not at all.

        Parameters
        ----------
        path : path-like
        bids_sidecar : bool
            Write the fields of BIDS' proposal for tractography as well, with the recipe in
            "Recipe"; it is read as any other.

        Raises
        ------
        FileError
            When it cannot be written.
        InvalidParameterError
            When a number is not finite.
        """
        write_json(sidecar_of(self) if bids_sidecar else recipe_content(self), path)

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
        file = existing_file(path)
        return dataclasses.replace(
            recipe_of(cls, read_json(file), file), folder=file.absolute().parent
        )


def _pair(regions: list[Region]) -> tuple[Region, Region] | None:
    """Return the two regions to track between, None where there are none.

    Raises InvalidRegionError when there are more or fewer.
    """
    if not regions:
        return None
    if len(regions) != 2:
        raise InvalidRegionError(
            f"The recipe tracks between {len(regions)} regions; give two, or none."
        )
    return regions[0], regions[1]
