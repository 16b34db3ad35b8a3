"""What each knob costs: the speed with it beside the speed without, in one run.

A whole brain (brain_volume.py) is tracked at the defaults for it, and again with one thing changed,
in turns; of each the fastest of some repeats counts, in steps a second of processor time on one
thread, so that what else the machine does matters little. Every streamline counts, however short.
Regions, masks and tissues change no step, and the seconds are compared: what they cost is looked
at, not what they leave out. End regions alone stop streamlines, or none would end in one; their
steps are those of the same region as a stop region, which leaves out none. Steps are lengths over
the step, and of `adaptive` over the same. Where a knob leaves few steps a seed, it is the seeds
that take the time: such rows stand beside runs without the knob whose streamlines are cut to as
many steps, and say so. Counted there are steps that are tried, with those that a threshold refused
at the end of a half::

    python benchmarks/knobs.py [--n-seeds N] [--repeats N] [--only TEXT ...]
        [--tckgen [--seconds S]]

``--only`` takes the rows whose names hold one of the texts. ``--tckgen`` prints another table: what
MRtrix3's tckgen has an equivalent of, beside it, see knobs_tckgen.py.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

import brain_volume
import knobs_tckgen
import napari_tractography as nt
from napari_tractography.tracking.engine import warm_up

FAR, NEAR = 1e4, 1.0  # mm: radii of spheres that hold all, and nothing that is tracked
END = 0.2  # radius of the end region that is a sphere, of the volume's shortest side
FEW = 0.5  # of the steps without a knob
BORDER = 2  # voxels: of the FOD, which belong to the painted end region, as all outside does
BY_THRESHOLD = (nt.StopReason.LOW_AMPLITUDE, nt.StopReason.LOW_PROBABILITY)
Change = tuple[str, nt.Fod, dict[str, Any], dict[str, Any]]


def regions_of(fod: nt.Fod) -> Iterator[tuple[str, nt.Region]]:
    """Yield regions by spheres and painted: but for end regions they stop no streamline."""
    from scipy import ndimage

    shape, affine = fod.grid.shape, fod.grid.affine
    everything, corner = np.ones(shape, np.uint8), np.zeros(shape, np.uint8)
    corner[0, 0, 0] = 1
    corner_mm = affine[:3, 3]
    # Near the corner of the image, where no streamline is, or all around.
    for role in ("include", "exclude", "stop"):
        holds_all = role == "include"
        yield f"{role}, a sphere", nt.Region.sphere(corner_mm, FAR if holds_all else NEAR, role)
        yield f"{role}, painted", nt.Region.mask(everything if holds_all else corner, affine, role)
    centre = affine[:3, :3] @ (np.array(shape) / 2) + corner_mm
    side = float((np.array(shape) * fod.grid.voxel_sizes_mm).min())
    yield "end, a sphere", nt.Region.sphere(centre, END * side, "end")
    around = ~ndimage.binary_erosion(fod.support, iterations=BORDER)
    yield "end, painted", nt.Region.mask(around.astype(np.uint8), affine, "end")


def changes(fod: nt.Fod) -> Iterator[Change]:
    """Yield names, FODs, parameters and keywords; those without a change are compared with."""

    def same(name: str, **parameters: Any) -> Change:
        return name, fod, parameters, {}

    for threshold in (0.001, 0.005, 0.02, 0.05, 0.1, 0.2):
        yield same(f"min_probability {threshold:g}", min_probability=threshold)
    for floor in (0.0, 0.05, 0.2):
        yield same(f"min_amplitude {floor:g}", min_amplitude=floor)
    for angle in (5.0, 15.0, 30.0, 60.0, 90.0):
        yield same(f"max_angle_deg {angle:g}", max_angle_deg=angle)
    yield same("edge interpolated", edge="interpolated")
    yield same("nearest", interpolation="nearest")
    yield same("softplus", positivity="softplus")
    yield same("start max", start="max")
    yield same("look_ahead 0", look_ahead_mm=0.0)
    yield same("lobe 0", lobe_deg=0.0)
    yield same("look_ahead 0, lobe 0", look_ahead_mm=0.0, lobe_deg=0.0)
    yield same("min_roundness 0", min_roundness=0.0)
    yield same("direction forward", direction="forward")
    yield same("record_every 10", record_every=10)
    yield same("endpoints", output="endpoints")
    yield same("n_directions 2896", n_directions=2896)
    for role, region in regions_of(fod):
        yield role, fod, {}, {"regions": [region]}
    yield "mask", fod, {}, {"mask": np.ones(fod.grid.shape, np.uint8)}
    white = np.zeros((*fod.grid.shape, 5), np.float32)
    white[..., 2], white[~fod.support, 0], white[~fod.support, 2] = 1, 1, 0
    tissues = nt.Tissues(white, fod.grid.affine)
    yield "tissues", fod, {}, {"tissues": tissues}
    yield "tissues, backtrack", fod, {"backtrack": True}, {"tissues": tissues}
    yield "tissues, crop", fod, {"crop_at_gmwmi": True}, {"tissues": tissues}
    yield "a cone function", fod, {}, {"cone": within_45_degrees}
    for lmax in (4, 6, 10, 12):
        yield f"lmax {lmax}", brain_volume.of_degree(fod, lmax), {}, {}
    yield (
        "float16",
        nt.Fod(np.asarray(fod.coefficients).astype(np.float16), fod.grid.affine),
        {},
        {},
    )
    yield "an oblique image", brain_volume.turned(fod), {}, {}
    for algorithm in ("sd_stream", "deterministic", "transport", "diffusion", "ifod2"):
        yield same(algorithm, algorithm=algorithm)
    yield same("transport, adaptive", algorithm="transport", adaptive=True)
    directions = knobs_tckgen.largest(fod)
    peaks = nt.Fod.from_peaks(directions, fod.grid.affine)
    for algorithm in ("transport", "probabilistic", "deterministic", "sd_stream"):
        yield f"peaks, {algorithm}", peaks, {"algorithm": algorithm}, {}
    tensors = nt.Fod.from_tensors(knobs_tckgen.diffusion(directions)[0], fod.grid.affine)
    for algorithm in ("deterministic", "sd_stream"):
        yield f"tensors, {algorithm}", tensors, {"algorithm": algorithm}, {}
    image = nt.Fod.from_image(np.asarray(fod.coefficients[..., 0]), fod.grid.affine)
    yield "an image", image, {"algorithm": "deterministic"}, {}


def within_45_degrees(current: np.ndarray, candidates: np.ndarray) -> Any:
    """Tell which directions are in the cone of the defaults."""
    return candidates @ current >= np.cos(np.radians(45.0))


def measured(
    fod: nt.Fod, seeds: Any, parameters: nt.TrackingParameters, **keywords: Any
) -> tuple[float, float, float]:
    """Return the seconds of processor time, million steps, and million that a threshold refused."""
    start = time.process_time()
    found = nt.track(fod, seeds, parameters, backend="cpu", n_threads=1, **keywords)
    seconds = time.process_time() - start
    refused = sum(n for reason, n in found.tally.items() if reason in BY_THRESHOLD)
    return seconds, float(np.sum(found.lengths_mm) / parameters.step_mm / 1e6), refused / 1e6


def cut_short(
    fod: nt.Fod, seeds: Any, parameters: nt.TrackingParameters, steps: float, repeats: int
) -> tuple[float, float]:
    """Return seconds and million steps of streamlines that have so many million steps in all."""
    length_mm = parameters.step_mm * max(1e6 * steps / len(seeds), 1.0)
    cut = parameters.replace(max_length_mm=length_mm)
    return min(measured(fod, seeds, cut)[:2] for _ in range(repeats))


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--n-seeds", type=int, default=10000)
    parser.add_argument("--repeats", type=int, default=4)
    parser.add_argument("--only", nargs="+", default=[""])
    parser.add_argument("--tckgen", action="store_true", help="beside MRtrix3's tckgen")
    parser.add_argument("--seconds", type=float, default=2.0, help="of a run beside tckgen")
    options = parser.parse_args()
    if options.tckgen:
        fod, only = brain_volume.make_brain(), options.only
        knobs_tckgen.measure_all(fod, options.repeats, options.seconds, only)
        return
    fod = brain_volume.make_brain()
    rng = np.random.default_rng(1)
    voxels = np.argwhere(fod.support)
    chosen = voxels[rng.integers(0, len(voxels), options.n_seeds)]
    print("| | million steps/s | steps a seed | times as long a step |\n|---|---:|---:|---:|")
    for name, image, parameters, keywords in changes(fod):
        if not any(text in name for text in options.only):
            continue
        seeds = nt.Seeds.at(chosen @ image.grid.affine[:3, :3].T + image.grid.affine[:3, 3])
        usual = {"min_length_mm": 0.0}
        plain = nt.TrackingParameters.for_fod(fod, **usual)
        changed = nt.TrackingParameters.for_fod(image, **{**usual, **parameters})
        where = nt.Seeds.at(chosen @ fod.grid.affine[:3, :3].T + fod.grid.affine[:3, 3])
        fastest = [math.inf, math.inf]
        warm_up(changed, fod=image)
        for repeat in range(options.repeats + 1):  # the first fills tables
            without, steps_without, _ = measured(fod, where, plain)
            seconds, steps, refused = measured(image, seeds, changed, **keywords)
            if repeat:
                fastest = [min(fastest[0], without), min(fastest[1], seconds)]
        if name.startswith("end,"):
            stops = [replace(region, role="stop") for region in keywords["regions"]]
            steps = measured(image, seeds, changed, regions=stops)[1]
        elif {"regions", "mask", "tissues"} & set(keywords):
            steps = steps_without
        tried = steps
        if steps < FEW * steps_without:
            name += ", beside as many steps"
            tried = steps + refused
            fastest[0], steps_without = cut_short(fod, where, plain, tried, options.repeats)
        ratio = (fastest[1] / tried) / (fastest[0] / steps_without)
        a_seed = 1e6 * steps / options.n_seeds
        print(f"| {name} | {steps / fastest[1]:.1f} | {a_seed:.0f} | {ratio:.2f} |", flush=True)


if __name__ == "__main__":
    main()
