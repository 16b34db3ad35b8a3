"""A recipe as the JSON sidecar of a tractogram in a BIDS data set; called by :mod:`.recipe`.

The fields are those of BIDS Extension Proposal 46, diffusion tractography, as of June 2026. What a
recipe does not know is left out, and so is what the proposal has no field for: stop and end
regions, the radius of seed spheres. All of it is in the recipe itself, the field "Recipe", which no
reader of BIDS minds, and from which ``replay`` makes the streamlines again.
"""

from __future__ import annotations

from typing import Any

from ..version import __version__
from .codec import IN_SIDECAR, recipe_content
from .sources import RegionSource, SeedSource
from .volume_sources import VolumeSource

INTERPOLATIONS = {"nearest": "Nearest", "trilinear": "Linear"}
AMPLITUDE = "amplitude of the FOD along the direction"
FRACTION = "fraction of the FOD inside the cone of directions"


def sidecar_of(recipe: Any) -> dict[str, Any]:
    """Return the fields of a sidecar, with the recipe."""
    parameters, fod = recipe.parameters, recipe.fod.path or recipe.fod.phantom
    tissues = None if recipe.tissues is None else recipe.tissues.path
    floor = _metric(AMPLITUDE, fod, parameters.min_amplitude)
    regions = {
        role: [_region(region) for region in recipe.regions if region.role == role]
        for role in ("include", "exclude")
    }
    included = {"all": "InclusionRegions", "ordered": "OrderedInclusionRegions"}
    return {
        "Name": f"{parameters.algorithm} of napari-tractography {__version__}",
        **_known(Description="; ".join(edit.text for edit in recipe.edits)),
        "StreamlineSeeding": {"Sources": _seeding(recipe, fod), **_known(AcceptanceCriteria=floor)},
        "StreamlinePropagation": {
            "Algorithm": {"Name": parameters.algorithm, "Description": parameters.row.help},
            "AnglePerStep": parameters.max_angle_deg,
            **_known(MinimumRadius=parameters.min_radius_mm),
            "Interpolation": INTERPOLATIONS[parameters.interpolation],
            "InterpolationOrder": 0,  # as the proposal has it of linear
            "IntegrationOrder": 2 if parameters.row.curved else 1,
            "Source": fod,
            "StepSize": parameters.step_mm,
        },
        "StreamlineTermination": {
            **_known(
                AnatomicalSegmentation=tissues,
                Anisotropy=floor + _metric(FRACTION, fod, parameters.min_probability),
                Masks=[] if recipe.mask is None else [_volume(recipe.mask)],
            ),
            "MaximumLength": parameters.max_length_mm,
        },
        "StreamlineAcceptanceCriteria": {
            **_known(ExclusionRegions=regions["exclude"], AnatomicalSegmentation=tissues),
            **{
                field: regions["include"]
                for rule, field in included.items()
                if regions["include"] and (rule == recipe.include_rule)
            },
            "MinimumLength": parameters.min_length_mm,
        },
        **_known(StreamlineReconstructionDensity=_density(recipe)),
        IN_SIDECAR: recipe_content(recipe),
    }


def _known(**fields: Any) -> dict[str, Any]:
    """Return the fields that are not empty."""
    return {name: value for name, value in fields.items() if value not in (None, "", [], {})}


def _metric(what: str, source: str, threshold: float) -> list[dict[str, Any]]:
    """Return a threshold that streamlines end below, in a list; none where it is off."""
    return [{"Metric": what, "Source": source, "Threshold": threshold}] if threshold > 0 else []


def _volume(volume: VolumeSource) -> str:
    """Return what names a mask: a path, with the label as the command has it."""
    label = "" if volume.label is None else f":{volume.label}"
    return f"{volume.path}{label}" if volume.path else "painted; its voxels are in the recipe"


def _region(region: RegionSource) -> str:
    """Return what names a region: as a mask, or x,y,z,r in mm, as commands have spheres."""
    if region.volume is not None:
        return _volume(region.volume)
    return ",".join(f"{number:g}" for number in (*region.center_mm, region.radius_mm))


def _seeding(recipe: Any, fod: str) -> list[dict[str, Any]]:
    """Return how seeds were placed. A point is a sphere without extent: it has no file."""
    found = [_seeds(source, recipe, fod) for source in recipe.seeds]
    for region in recipe.between:
        of_mask = region.volume is not None
        found.append(
            {"Type": "Random", "Source": _region(region)} if of_mask else {"Type": "Sphere"}
        )
    unidirectional = recipe.parameters.direction != "both"
    return [{**source, "Unidirectional": unidirectional} for source in found]


def _seeds(source: SeedSource, recipe: Any, fod: str) -> dict[str, Any]:
    if source.kind == "mask" and source.volume is not None:
        return {"Type": "Random", "Source": _volume(source.volume)}
    if source.kind == "voxels" and source.volume is not None:
        each = {"SeedsPerElement": source.n}
        return {"Type": "RandomPerElement", "Source": _volume(source.volume), **each}
    if source.kind == "fod":  # as often as such an image would accept them
        return {"Type": "RejectionSampling", "Source": fod}
    if source.kind == "interface" and recipe.tissues is not None:
        return {"Type": "Random", "Source": recipe.tissues.path}
    return {"Type": "Sphere"}


def _density(recipe: Any) -> dict[str, Any]:
    """Return how many seeds or streamlines were asked for, where the recipe says it."""
    if recipe.select is not None:
        return _known(AcceptedStreamlines=recipe.select, Seeds=recipe.max_seeds)
    if any(source.kind == "voxels" for source in recipe.seeds):  # as many as the mask has, times n
        return {}
    return {"Seeds": sum(source.n or len(source.positions_mm) for source in recipe.seeds)}
