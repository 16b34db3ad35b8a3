"""Digests of streamlines over algorithms, interpolations, starts, regions and outputs.

    python scripts/digests.py            compare with tests/digests.json; exit 1 where they differ
    python scripts/digests.py --write    write that file again, after a change that is meant

A change of the code that is not meant to change streamlines leaves every digest as it is.
"""

from __future__ import annotations

import argparse
import hashlib
import itertools
import json
import logging
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import napari_tractography as nt
from napari_tractography.model.algorithms import ALGORITHMS
from napari_tractography.model.phantoms import (
    Phantom,
    PhantomBundle,
    fod_of_drawing,
    make_phantom,
    phantom_mask,
    phantom_seeds_mm,
)

FILE = Path(__file__).resolve().parents[1] / "tests" / "digests.json"
NAMES = tuple(row.name for row in ALGORITHMS)
USERS = {
    name: {row.name for row in ALGORITHMS if name in row.own_parameters}
    for name in ("adaptive", "look_ahead_mm", "lobe_deg", "min_roundness")
}
ADAPTIVE = USERS["adaptive"]
SPREAD_MM = 3.0
# Two straight bundles that cross at 25 degrees.
NARROW = Phantom(
    "",
    (42, 18, 10),
    tuple(
        PhantomBundle(
            (np.linspace([1.5, 8.5 - rise, 4.5], [39.5, 8.5 + rise, 4.5], 160),), radius_vox=3.0
        )
        for rise in (-4.2, 4.2)
    ),
)


def regions_of(fod: nt.Fod) -> dict[str, dict[str, Any]]:
    """Return what to steer by: name -> keywords of `track`."""
    here = phantom_seeds_mm(fod.name)
    a, b = here[0] + [8.0, 0, 0], here[0] - [8.0, 0, 0]
    slab = np.zeros(fod.grid.shape, np.uint8)
    slab[:, : fod.grid.shape[1] // 2] = 1

    def ball(place: Any, role: str) -> nt.Region:
        return nt.Region.sphere(place, 6.0, role)

    return {
        "none": {},
        "mask": {"mask": phantom_mask(fod.name)},
        "all": {"regions": [ball(a, "include"), ball(b, "include")]},
        "any": {"regions": [ball(a, "include"), ball(b, "include")], "include_rule": "any"},
        "ordered": {
            "regions": [ball(b, "include"), ball(here[0], "include"), ball(a, "include")],
            "include_rule": "ordered",
        },
        "exclude": {"regions": [nt.Region.mask(slab, fod.grid, "exclude")]},
        "stop": {"regions": [ball(a, "stop")]},
        "end": {"regions": [ball(a, "end"), ball(b, "end")]},
    }


def cases(algorithms: tuple[str, ...]) -> Iterator[tuple[str, dict[str, Any], str]]:
    """Yield (name, changed parameters, name of the regions)."""
    interpolations, outputs = ("nearest", "trilinear"), ("streamlines", "endpoints")
    starts = ("sampled", "max", "given")
    steering = ("none", "mask", "all", "any", "ordered", "exclude", "stop", "end")
    for a, i, s, r, o in itertools.product(algorithms, interpolations, starts, steering, outputs):
        is_left_out = a in ADAPTIVE and o == "endpoints"  # which are the last points of the others
        if not is_left_out and (s == "sampled" or r in ("none", "ordered")):
            changes = {"algorithm": a, "interpolation": i, "start": s, "output": o}
            yield f"{a} {i} {s} {r} {o}", changes, r
    more: dict[str, dict[str, Any]] = {
        "forward": {"direction": "forward"},
        "backward": {"direction": "backward"},
        "narrow": {"max_angle_deg": 10.0},
        "wide": {"max_angle_deg": 90.0},
        "interpolated edge": {"edge": "interpolated"},
        "small cone mass": {"min_probability": 0.02},
        "softplus": {"positivity": "softplus"},
        "sparse": {"record_every": 7},
        "short": {"min_length_mm": 20.0, "max_length_mm": 30.0},
        "no floor": {"min_amplitude": 0.0},
        "seed": {"random_seed": 2**40 + 7},
    }
    for a, i in itertools.product(algorithms, interpolations):
        for name, changes in more.items():
            yield f"{a} {i} {name}", {"algorithm": a, "interpolation": i, **changes}, "none"
        lobe = {"lobe_deg": 10.0} if a in USERS["lobe_deg"] else {}
        own: dict[str, dict[str, Any]] = {
            "adaptive": {"adaptive": True},
            "ahead": {"look_ahead_mm": 2.0},
            "lobe": {"lobe_deg": 10.0},
            "lobe, ahead": {"lobe_deg": 10.0, "look_ahead_mm": 2.0},
            "round": {"min_roundness": 0.8, **lobe},
            "round, ahead": {"min_roundness": 0.8, "look_ahead_mm": 2.0, **lobe},
        }
        for name, changes in own.items():
            if all(a in USERS[field] for field in changes):
                yield f"{a} {i} {name}", {"algorithm": a, "interpolation": i, **changes}, "none"


def digests(phantom: str, algorithms: tuple[str, ...] = NAMES, n: int = 40) -> dict[str, str]:
    """Return the digest of each case, and of what the three ways to draw seeds give."""
    fod = make_phantom(phantom, lmax=6)
    random = np.random.default_rng(1)
    places = np.repeat(phantom_seeds_mm(phantom), n, axis=0)
    spread = random.uniform(-SPREAD_MM, SPREAD_MM, places.shape)
    seeds = nt.Seeds.at(places + spread, random.normal(size=places.shape))
    steering = regions_of(fod)
    found = {}
    for name, changes, region in cases(algorithms):
        parameters = nt.TrackingParameters(**{"max_length_mm": 80.0, **changes})
        result = nt.track(fod, seeds, parameters, backend="cpu", **steering[region])
        ends = hashlib.sha256(result.stop_reasons.tobytes() + result.seed_index.tobytes())
        found[f"{phantom}: {name}"] = f"{result.digest()} {ends.hexdigest()[:16]}"
    mask = phantom_mask(phantom)
    drawn = {
        "sphere": nt.Seeds.in_sphere(places[0], 3.0, 100, random_seed=3),
        "mask": nt.Seeds.in_mask(mask, fod.grid, 100, random_seed=3),
        "fod": nt.Seeds.from_fod(fod, 100, random_seed=3),
    }
    for name, some in drawn.items():
        found[f"{phantom}: seeds in {name}"] = hashlib.sha256(some.positions_mm).hexdigest()
    return found


def narrow_digests(algorithms: tuple[str, ...] = NAMES, n: int = 100) -> dict[str, str]:
    """Return those of lines among crossings, by the defaults that look at them: "narrow: ..."."""
    fod = fod_of_drawing(NARROW, NARROW.grid, "narrow", lmax=6)
    seeds = nt.Seeds.from_fod(fod, n, random_seed=3)
    found = {}
    for a, i, p in itertools.product(algorithms, ("nearest", "trilinear"), ("clip", "softplus")):
        if a in USERS["min_roundness"]:
            changes = {"algorithm": a, "interpolation": i, "positivity": p}
            parameters = nt.TrackingParameters.for_fod(fod, **changes)
            found[f"narrow: {a} {i} {p}"] = nt.track(fod, seeds, parameters, backend="cpu").digest()
    return found


def all_digests(algorithms: tuple[str, ...] = NAMES) -> dict[str, str]:
    """Return the digests of all phantoms."""
    found = narrow_digests(algorithms)
    for phantom in ("arcs", "cross"):
        found |= digests(phantom, algorithms)
    return found


def differences(found: dict[str, str], known: dict[str, str]) -> list[str]:
    """Return the names of cases that differ, or that only one side has."""
    return [name for name in {**known, **found} if found.get(name) != known.get(name)]


def main() -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--write", action="store_true", help="write the file again")
    parser.add_argument("--file", type=Path, default=FILE)
    options = parser.parse_args()
    logging.disable(logging.WARNING)  # some cases are without streamlines on purpose
    found = all_digests()
    if options.write:
        options.file.write_text(json.dumps(found, indent=1) + "\n", "utf-8")
        print(f"{len(found)} digests written to {options.file}")
        return 0
    others = differences(found, json.loads(options.file.read_text("utf-8")))
    print(f"{len(found) - len(others)} of {len(found)} digests are the same")
    for name in others:
        print(f"  differs: {name}")
    return 1 if others else 0


if __name__ == "__main__":
    sys.exit(main())
