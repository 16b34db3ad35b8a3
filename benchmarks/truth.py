"""The battery: how many streamlines join the ends of true bundles, ours beside tckgen's and DIPY's.

Every contestant gets the same seeds, each tried once, the same FOD and the same scoring, without a
minimum length. FODs are lobes along the fibres with some noise (*exact*), or made by constrained
spherical deconvolution of a scan with noise (*csd*). Parameters are chosen on half A and reported
on half B, which has other angles to the grid, other seeds and other noise::

    python benchmarks/truth.py [TRUTH ...] [--half A|B] [--seeds N] [--algorithms NAME ...]
        [--kinds exact csd] [--set NAME=VALUE ...] [--data FOLDER] [--at-ends] [--why] [--md]

Without TRUTH all that are drawn here are tried, and phantomas' where the data folder has them.
tckgen and DIPY take part where they are installed.
"""

from __future__ import annotations

import argparse
import importlib.util
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import napari_tractography as nt
import truths
from peers.mrtrix import run_tckgen, write_fod

ROOT = Path(__file__).resolve().parents[1]
N_SEEDS = 600
SEED_RADIUS_MM = 0.001  # of the spheres that tckgen is given
KINDS = ("exact", "csd")

# A contestant gets what was made of a truth, and returns points, offsets and, of ours, the reasons.
Lines = tuple[np.ndarray, np.ndarray, np.ndarray | None]
Contestant = Callable[[truths.Made], Lines]

# Settings of ours beside those that `for_fod` gives; lengths and rates of a voxel.
OURS: dict[str, dict[str, Any]] = {
    "probabilistic": {},
    "probabilistic, a voxel ahead": {"look_ahead_voxels": 1.0},
    "probabilistic, two voxels ahead": {"look_ahead_voxels": 2.0},
    "probabilistic, not ahead": {"look_ahead_voxels": 0.0},
    "sd_stream": {},
    "deterministic": {},
    "ifod2": {},
    "transport": {},
    "transport, a voxel ahead": {"look_ahead_voxels": 1.0},
    "transport, not ahead": {"look_ahead_voxels": 0.0},
    "diffusion, a voxel ahead": {
        "look_ahead_voxels": 1.0,
        "gamma_voxels": 1.0,
        "gamma_noise": 0.3,
    },
}
TCKGEN: dict[str, dict[str, Any]] = {
    "tckgen iFOD1": {"algorithm": "iFOD1"},
    "tckgen iFOD1, power 4": {"algorithm": "iFOD1", "power": 4},
    "tckgen iFOD2": {"algorithm": "iFOD2"},
    "tckgen iFOD2, power 4": {"algorithm": "iFOD2", "power": 4},
    "tckgen SD_STREAM": {"algorithm": "SD_STREAM"},
}
DIPY = ("probabilistic_tracking", "deterministic_tracking", "ptt_tracking")


def parameters_of(fod: nt.Fod, settings: Mapping[str, Any]) -> nt.TrackingParameters:
    """Return the parameters of `for_fod` with changes; NAME_voxels is per voxel, or in voxels."""
    size = float(np.prod(fod.grid.voxel_sizes_mm)) ** (1 / 3)
    changes: dict[str, Any] = {"min_length_mm": 0.0}
    for name, value in settings.items():
        if name == "gamma_voxels":
            changes["gamma"] = value / size
        elif name.endswith("_voxels"):
            changes[f"{name.removesuffix('_voxels')}_mm"] = value * size
        else:
            changes[name] = value
    return nt.TrackingParameters.for_fod(fod, **changes)


def ours(settings: Mapping[str, Any]) -> Contestant:
    """Return our tracker at some settings."""

    def run(made: truths.Made) -> Lines:
        parameters = parameters_of(made.fod, settings)
        lines = nt.track(made.fod, nt.Seeds.at(made.seeds_mm), parameters, backend="cpu")
        return lines.points, lines.offsets, lines.stop_reasons

    return run


def tckgen(settings: Mapping[str, Any]) -> Contestant:
    """Return tckgen at its own defaults but for some settings."""

    def run(made: truths.Made) -> Lines:
        with tempfile.TemporaryDirectory() as scratch:
            folder = Path(scratch)
            arguments = {
                "select": 0,
                "seeds": len(made.seeds_mm),
                "nthreads": 1,
                "minlength": 0,
                "seed_sphere": [
                    f"{x:.4f},{y:.4f},{z:.4f},{SEED_RADIUS_MM:g}" for x, y, z in made.seeds_mm
                ],
                **settings,
            }
            image = write_fod(made.fod, folder / "fod.nii")
            lines = nt.load_tractogram(run_tckgen(image, folder / "out.tck", arguments))
        return lines.points, lines.offsets, None

    return run


def dipy(name: str) -> Contestant:
    """Return one of DIPY's trackers at its own defaults, in voxels with an FOD."""

    def run(made: truths.Made) -> Lines:
        from dipy.data import default_sphere
        from dipy.tracking import tracker
        from dipy.tracking.stopping_criterion import BinaryStoppingCriterion

        amplitudes = np.maximum(made.fod.amplitudes(default_sphere.vertices), 0).astype(np.float64)
        voxels = np.rint(made.fod.grid.to_voxel(made.seeds_mm)).astype(int)
        first = default_sphere.vertices[amplitudes[tuple(voxels.T)].argmax(axis=1)]
        lines = list(
            getattr(tracker, name)(
                made.seeds_mm,
                BinaryStoppingCriterion(made.fod.support),
                np.array(made.fod.grid.affine),
                seed_directions=first,
                sf=amplitudes,
                sphere=default_sphere,
                min_len=0,
                nbr_threads=1,
                random_seed=1,
            )
        )
        offsets = np.cumsum([0, *map(len, lines)])
        return np.concatenate([*lines, np.zeros((0, 3))]), offsets, None

    return run


def contestants(names: Sequence[str], settings: Mapping[str, Any]) -> dict[str, Contestant]:
    """Return who takes part: those whose names begin with one of `names`, or all."""
    rows: dict[str, Contestant] = {}
    for name, own in OURS.items():
        rows[name] = ours({"algorithm": name.partition(",")[0], **own, **settings})
    if shutil.which("tckgen"):
        rows |= {name: tckgen(own) for name, own in TCKGEN.items()}
    if importlib.util.find_spec("dipy.tracking.tracker") is not None:
        rows |= {f"DIPY {name.partition('_')[0]}": dipy(name) for name in DIPY}
    if not names:
        return rows
    return {name: row for name, row in rows.items() if name.startswith(tuple(names))}


def find(names: Sequence[str], data: Path) -> dict[str, truths.Truth]:
    """Return truths by name: of those drawn here and phantomas'.

    Raises
    ------
    SystemExit
        When there is none of a name.
    """
    known = truths.synthetic()
    for path in sorted((data / "phantomas").glob("*.txt")):
        known[f"phantomas-{path.stem}"] = truths.phantomas(path)
    missing = set(names) - set(known)
    if missing:
        raise SystemExit(f"There is no truth {', '.join(missing)}; there are {', '.join(known)}.")
    return {name: known[name] for name in names} if names else known


# -------------------------------------------------------------------------------------- the tables


def row_of(score: truths.Score) -> str:
    """Return one row of a truth's table, after the name."""

    def share(value: float) -> str:
        return f"{100 * value:.1f} ± {100 * score.error(value):.1f}"

    cells = [
        str(score.n_streamlines),
        share(score.valid_share),
        f"{100 * score.valid_of_seeds:.1f}",
        share(score.invalid_share),
        f"{100 * score.overlap:.0f}",
        f"{100 * score.overreach:.0f}",
    ]
    if score.met:
        cells.append(f"{100 * score.passed / score.met:.0f}")
    return " | ".join(cells)


HEADS = ("streamlines", "valid, %", "of seeds, %", "invalid, %", "overlap, %", "overreach, %")


def table(name: str, scores: Mapping[str, truths.Score]) -> str:
    """Return the table of one truth, with who is ahead below it."""
    heads = [*HEADS, *(["pass the lesion, %"] if any(s.met for s in scores.values()) else [])]
    lines = [f"### {name}", "", f"| | {' | '.join(heads)} |", "|---|" + "---:|" * len(heads)]
    lines += [f"| {label} | {row_of(score)} |" for label, score in scores.items()]
    return "\n".join([*lines, "", ahead(scores)])


def ahead(scores: Mapping[str, truths.Score]) -> str:
    """Say who has most valid streamlines, and where tckgen's best is ahead of our best."""
    best = max(scores, key=lambda label: scores[label].valid_share)
    theirs = {k: s for k, s in scores.items() if k.startswith("tckgen")}
    own = {k: s for k, s in scores.items() if not k.startswith(("tckgen", "DIPY"))}
    text = f"Most valid: {best}."
    if not theirs or not own:
        return text
    measures: dict[str, Callable[[truths.Score], float]] = {
        "valid of streamlines": lambda s: s.valid_share,
        "valid of seeds": lambda s: s.valid_of_seeds,
        "overlap": lambda s: s.overlap,
        "fewest invalid": lambda s: -s.invalid_share,
    }
    lost = [
        what
        for what, of in measures.items()
        if max(map(of, theirs.values())) > max(map(of, own.values()))
    ]
    return f"{text} tckgen is ahead in {', '.join(lost)}." if lost else f"{text} tckgen is not."


def summary(scores: Mapping[str, Mapping[str, truths.Score]]) -> str:
    """Return one table of all truths: valid / invalid / overlap in per cent of each contestant."""
    labels = list(next(iter(scores.values())))
    lines = [
        f"| valid / of seeds / invalid / overlap, % | {' | '.join(labels)} |",
        "|---|" + "---|" * len(labels),
    ]
    means = []
    for name, row in scores.items():
        cells = [
            100 * np.array([s.valid_share, s.valid_of_seeds, s.invalid_share, s.overlap])
            for s in row.values()
        ]
        means.append(cells)
        lines.append(f"| {name} | {' | '.join(map(_four, cells))} |")
    lines.append(f"| mean | {' | '.join(map(_four, np.mean(means, axis=0)))} |")
    return "\n".join(lines)


def _four(cells: np.ndarray) -> str:
    return " / ".join(f"{value:.0f}" for value in cells)


def lost_text(lost: Mapping[str, Counter]) -> str:
    """Return the table of where ends lie that are at no end of a bundle, and why."""
    lines = ["| ends at no end of a bundle | inside | outside |", "|---|---:|---:|"]
    for label, tally in lost.items():
        for reason in sorted({reason for reason, _ in tally}):
            name = nt.StopReason(reason).name
            lines.append(f"| {label}: {name} | {tally[reason, True]} | {tally[reason, False]} |")
    return "\n".join(lines)


def measure(
    found: Mapping[str, truths.Truth],
    rows: Mapping[str, Contestant],
    *,
    kinds: Sequence[str] = KINDS,
    n_seeds: int = N_SEEDS,
    half: str = "A",
    at_ends: bool = False,
    show: Callable[[str], object] = print,
    with_why: bool = False,
) -> dict[str, dict[str, truths.Score]]:
    """Return all scores by truth and contestant; each truth's table is shown as it comes."""
    scores: dict[str, dict[str, truths.Score]] = {}
    for name, truth in found.items():
        for kind in kinds:
            made = truths.make(truth, n_seeds, half, csd=kind == "csd", at_ends=at_ends)
            of_rows, lost = {}, {}
            for label, run in rows.items():
                points, offsets, reasons = run(made)
                of_rows[label] = truths.score(made, points, offsets, len(made.seeds_mm))
                if reasons is not None:
                    lost[label] = Counter(truths.why(made, points, offsets, reasons))
            scores[f"{name}, {kind}"] = of_rows
            show(table(f"{name}, {kind}", of_rows) + "\n")
            if with_why:
                show(lost_text(lost) + "\n")
    return scores


def value_of(text: str) -> Any:
    """Return a value of the command line as a number, or as it is."""
    try:
        return float(text) if "." in text or "e" in text else int(text)
    except ValueError:
        return text


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("truths", nargs="*", metavar="TRUTH")
    parser.add_argument("--half", choices=tuple(truths.HALVES), default="A")
    parser.add_argument("--seeds", type=int, default=N_SEEDS)
    parser.add_argument("--algorithms", nargs="*", default=[], help="beginnings of their names")
    parser.add_argument("--kinds", nargs="*", choices=KINDS, default=KINDS)
    parser.add_argument(
        "--set", nargs="*", default=[], metavar="NAME=VALUE", help="for all of ours"
    )
    parser.add_argument("--data", type=Path, default=ROOT.parent / "shared" / "data")
    parser.add_argument("--why", action="store_true", help="where and why ends are lost, too")
    parser.add_argument("--at-ends", action="store_true", help="seeds at one end of each bundle")
    parser.add_argument("--md", action="store_true", help="nothing but the table of all truths")
    options = parser.parse_args()
    settings = {name: value_of(value) for name, _, value in (x.partition("=") for x in options.set)}
    scores = measure(
        find(options.truths, options.data),
        contestants(options.algorithms, settings),
        kinds=options.kinds,
        n_seeds=options.seeds,
        half=options.half,
        at_ends=options.at_ends,
        show=(lambda text: None) if options.md else print,
        with_why=options.why,
    )
    print(summary(scores))


if __name__ == "__main__":
    main()
