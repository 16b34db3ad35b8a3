"""The seeding parameters: where a person lets streamlines start, and how many.

The panel, the command and the docs are derived from them, as from those of :mod:`.parameters`.
"""

from __future__ import annotations

from dataclasses import dataclass

from .specs import ParameterSpec, parameter, specs_of

EVERY_VOXEL = "every voxel of a mask"
SEED_SOURCES = (
    "placed seeds", "mask", EVERY_VOXEL, "whole FOD", "grey-white interface", "between regions",
)  # fmt: skip
STARTED, ACCEPTED = "started", "accepted"


@dataclass(frozen=True, slots=True)
class SeedingParameters:
    """Where a person lets streamlines start, and how many.

    Raises InvalidParameterError when a value is out of its range.
    """

    source: str = parameter(
        "placed seeds",
        label="Start from",
        choices=SEED_SOURCES,
        help="Where streamlines start: around seeds that you place, anywhere in a mask, as many in "
        "every voxel of it, everywhere in proportion to the FOD, where the grey matter of the "
        "tissue image meets the white, or in one of two regions, to end in the other.",
        section="main",
    )
    counted: str = parameter(
        STARTED,
        label="Streamlines",
        choices=(ACCEPTED, STARTED),
        help="What the number counts: streamlines that start, or those that are accepted. Then "
        "seeds are drawn until there are so many, or gives up after 1,000 times as many seeds; "
        "those from all placed seeds are counted together.",
        section="main",
    )
    n_total: int = parameter(
        5000,
        label="Number",
        minimum=1,
        maximum=100_000_000,
        increment=1000,
        help="How many streamlines there are to be, from all places together.",
        section="main",
    )
    n_per_voxel: int = parameter(
        1,
        label="Streamlines per voxel",
        minimum=1,
        maximum=100_000,
        increment=1,
        help="How many streamlines start in each voxel of the mask.",
        section="main",
    )
    drawn_by: str = parameter(
        "list",
        label="Seeds by",
        choices=("list", "voxel"),
        help="What seeds in a mask depend on: their number in the list of its voxels, so that all "
        "are others where the mask changes, or their voxel alone. By voxel, a mask that changes by "
        "one voxel changes the streamlines of that voxel, and a few of the last round.",
        section="main",
    )
    n_per_seed: int = parameter(
        500,
        label="Streamlines per seed",
        minimum=1,
        maximum=10_000_000,
        increment=100,
        help="How many streamlines start in the sphere around each seed.",
        section="main",
    )
    radius_mm: float = parameter(
        2.0,
        label="Seed radius",
        unit="mm",
        minimum=0.0,
        maximum=500.0,
        increment=0.5,
        slider=(0.0, 20.0),
        help="Streamlines start anywhere within this distance of the seed.",
        section="main",
    )

    def __post_init__(self) -> None:
        for spec in seeding_specs():
            object.__setattr__(self, spec.name, spec.check(getattr(self, spec.name)))


_SEEDING_SPECS = specs_of(SeedingParameters)


def seeding_specs() -> tuple[ParameterSpec, ...]:
    """Return the description of every seeding parameter, in the order of the dataclass."""
    return _SEEDING_SPECS
