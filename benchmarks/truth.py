"""The battery: how many streamlines join the ends of true bundles, ours beside tckgen's and DIPY's.

Every contestant gets the same seeds, each tried once, the same FOD and the same scoring, without a
minimum length. Truths are bundles that are drawn, whose FODs are lobes along the fibres with some
noise (*exact*), or made by constrained spherical deconvolution of a scan with noise (*csd20* and
*csd30*, by its signal-to-noise ratio); with ``--kinds tod``, of which no page tells, made by
MRtrix3's tckmap of true streamlines; and what the data folder has: TrackerYoga's phantom, as it is
and with noise, FiberCup and a person. Parameters, tckgen's too (``--tune``), are chosen on half
A and reported on half B, which has other angles to the grid or other bundles, other seeds and other
noise::

    python benchmarks/truth.py [TRUTH ...] [--half A|B] [--seeds N] [--repeats N]
        [--algorithms NAME ...] [--kinds KIND ...] [--set NAME=VALUE ...] [--data FOLDER]
        [--at-ends] [--why] [--map FOLDER] [--md] [--page OUT.md] [--processes N] [--peers FILE]
    python benchmarks/truth.py --tune [TRUTH ...] [--seeds N]
    python benchmarks/truth.py --measured [--algorithms NAME ...]

The last writes the figures of the panel and of the docs: ``make docs`` sets them in afterwards.
Without TRUTH all are tried. tckgen and DIPY take part where they are installed; they take most of
the time, so that ``--peers`` keeps their scores, and takes them from there the next time.
"""

from __future__ import annotations

import argparse
import datetime
import functools
import importlib.util
import itertools
import json
import multiprocessing
import os
import platform
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

import ground_truth
import measured_truths
import napari_tractography as nt
import truths
from napari_tractography.fields.peaks import KIND as PEAKS
from napari_tractography.files.volume_files import save_volume
from napari_tractography.maps.density import ends_by_reason
from napari_tractography.model import purposes
from napari_tractography.model.parameters import parameter_specs
from napari_tractography.tracking.speed import machine
from peers.mrtrix import run_tckgen

ROOT = Path(__file__).resolve().parents[1]
TUNED = Path(__file__).with_name("tuned.json")
MEASURED = Path(purposes.__file__).with_name(purposes.MEASURED_FILE)
N_SEEDS = 600
SEED_RADIUS_MM = 0.001  # of the spheres that tckgen is given
KINDS = (*truths.DRAWN_KINDS, "noisy", "scan", "peaks")
ALIASES = {"csd": "csd20"}
MEASURED_KINDS = ("csd20", "exact")

# A contestant gets what was made of a truth; it may sit out.
Contestant = Callable[[truths.Made], nt.Tractogram | None]
Scores = dict[str, truths.Score]
Truth = truths.Truth | measured_truths.Yoga | measured_truths.FiberCup | measured_truths.Subject

ALGORITHM = next(spec for spec in parameter_specs() if spec.name == "algorithm")
DEFAULT = str(ALGORITHM.default)
DEFAULTS = {"peaks": PEAKS.algorithm}  # of FODs of a kind whose default is another
CUTOFF = 0.1  # tckgen's default
# Settings of ours beside those that `for_fod` gives; lengths and rates of a voxel.
OURS: dict[str, dict[str, Any]] = {
    **{str(name): {} for name in ALGORITHM.choices},
    "probabilistic, a voxel ahead": {"look_ahead_voxels": 1.0},
    "probabilistic, two voxels ahead": {"look_ahead_voxels": 2.0},
    "probabilistic, not ahead": {"look_ahead_voxels": 0.0},
    "probabilistic, not by roundness": {"min_roundness": 0.0},
    "probabilistic, all lobes": {"lobe_deg": 0.0},
    "probabilistic, a floor of 0.1": {"min_amplitude": CUTOFF},
    "probabilistic, as iFOD1": {"look_ahead_voxels": 0.0, "lobe_deg": 0.0, "min_amplitude": CUTOFF},
    "transport, a voxel ahead": {"look_ahead_voxels": 1.0},
    "transport, not ahead": {"look_ahead_voxels": 0.0},
    "transport, in all lobes": {"min_roundness": 0.0},
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
# What tckgen's are tuned by, one option after the other; steps in voxels.
TUNING: dict[str, dict[str, tuple[float, ...]]] = {
    "iFOD1": {
        "power": (0.5, 2, 4, 16),
        "cutoff": (0.05, 0.2),
        "angle": (10, 20, 30),
        "step": (0.25, 0.5),
    },
    "iFOD2": {"power": (0.5, 1, 4), "cutoff": (0.05, 0.2), "angle": (20, 30), "step": (0.25,)},
    "SD_STREAM": {"cutoff": (0.05, 0.2), "angle": (20, 30, 45), "step": (0.25, 0.5)},
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


def ours(settings: Mapping[str, Any], n_threads: int | None = None) -> Contestant:
    """Return our tracker at some settings."""

    def run(made: truths.Made) -> nt.Tractogram:
        parameters = parameters_of(made.fod, {"random_seed": made.repeat, **settings})
        seeds = nt.Seeds.at(made.seeds_mm)
        return nt.track(made.fod, seeds, parameters, backend="cpu", n_threads=n_threads)

    return run


def tckgen(settings: Mapping[str, Any]) -> Contestant:
    """Return tckgen at its own defaults but for some settings; steps are in voxels."""

    def run(made: truths.Made) -> nt.Tractogram:
        arguments = {
            "select": 0,
            "seeds": len(made.seeds_mm),
            "nthreads": 0,
            "minlength": 0,
            "seed_sphere": [
                f"{x:.4f},{y:.4f},{z:.4f},{SEED_RADIUS_MM:g}" for x, y, z in made.seeds_mm
            ],
            **settings,
        }
        if "step" in settings:
            arguments["step"] = settings["step"] * float(made.fod.grid.voxel_sizes_mm.mean())
        with tempfile.TemporaryDirectory() as folder:
            out = run_tckgen(made.image, Path(folder) / "out.tck", arguments, 1 + made.repeat)
            return nt.load_tractogram(out)

    return run


def tuned(algorithm: str, best: Mapping[str, Mapping[str, Any]]) -> Contestant:
    """Return tckgen at the settings that are best for each truth; it sits out where none are.

    Those for an FOD by CSD serve where there are none for the very FOD.
    """

    def run(made: truths.Made) -> nt.Tractogram | None:
        known = tuned_settings(made.name, best).get(algorithm)
        return None if known is None else tckgen({"algorithm": algorithm, **known})(made)

    return run


def tuned_settings(name: str, best: Mapping[str, Mapping[str, Any]]) -> Mapping[str, Any]:
    """Return the best settings of tckgen's algorithms for an FOD, or those by CSD of its truth."""
    return best.get(name, best.get(f"{name.partition(',')[0]}, csd20", {}))


def known_tuned() -> dict[str, dict[str, Any]]:
    """Return what `--tune` wrote."""
    found: dict[str, dict[str, Any]] = (
        json.loads(TUNED.read_text("utf-8")) if TUNED.exists() else {}
    )
    return found


@functools.lru_cache(maxsize=1)
def _dipy_amplitudes(made: truths.Made) -> np.ndarray:
    from dipy.data import default_sphere

    return np.maximum(made.fod.amplitudes(default_sphere.vertices), 0).astype(np.float64)


def dipy(name: str) -> Contestant:
    """Return one of DIPY's trackers at its own defaults, in voxels with an FOD."""

    def run(made: truths.Made) -> nt.Tractogram:
        from dipy.data import default_sphere
        from dipy.tracking import tracker
        from dipy.tracking.stopping_criterion import BinaryStoppingCriterion

        amplitudes = _dipy_amplitudes(made)
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
                random_seed=1 + made.repeat,
            )
        )
        offsets = np.cumsum([0, *map(len, lines)])
        return nt.Tractogram(np.concatenate([*lines, np.zeros((0, 3))]), offsets)

    return run


def contestants(
    names: Sequence[str], settings: Mapping[str, Any], n_threads: int | None = None
) -> dict[str, Contestant]:
    """Return who takes part: those whose names begin with one of `names`, or all."""
    rows: dict[str, Contestant] = {}
    for name, own in OURS.items():
        rows[name] = ours({"algorithm": name.partition(",")[0], **own, **settings}, n_threads)
    if shutil.which("tckgen"):
        rows |= {name: tckgen(own) for name, own in TCKGEN.items()}
        best = known_tuned()
        rows |= {f"tckgen {name}, tuned": tuned(name, best) for name in TUNING}
    if importlib.util.find_spec("dipy.tracking.tracker") is not None:
        rows |= {f"DIPY {name.partition('_')[0]}": dipy(name) for name in DIPY}
    if not names:
        return rows
    return {name: row for name, row in rows.items() if name.startswith(tuple(names))}


def find(names: Sequence[str], data: Path) -> dict[str, Truth]:
    """Return truths by name: those drawn here, phantomas', and those of the data folder.

    Raises
    ------
    SystemExit
        When there is none of a name.
    """
    known: dict[str, Truth] = dict(truths.synthetic())
    for path in sorted((data / "phantomas").glob("*.txt")):
        truth = truths.phantomas(path)
        known[truth.name] = truth
    known |= measured_truths.measured(data)
    missing = set(names) - set(known)
    if missing:
        raise SystemExit(f"There is no truth {', '.join(missing)}; there are {', '.join(known)}.")
    return {name: known[name] for name in names} if names else known


# -------------------------------------------------------------------------------------- tuning


def best_settings(made: truths.Made, algorithm: str) -> dict[str, Any]:
    """Return the settings at which one of tckgen's algorithms has most valid streamlines.

    Options are chosen one after the other, each with those before it at their best.
    """

    def valid(settings: Mapping[str, Any]) -> float:
        lines = tckgen({"algorithm": algorithm, **settings})(made)
        return 0.0 if lines is None else truths.score(made, lines).valid_share

    best: dict[str, Any] = {}
    most = valid(best)
    for option, values in TUNING[algorithm].items():
        tried = {value: valid({**best, option: value}) for value in values}
        value = max(tried, key=lambda value: tried[value])
        if tried[value] > most:
            best, most = {**best, option: value}, tried[value]
    return best


def tune(options: argparse.Namespace, job: tuple[str, str]) -> tuple[str, dict[str, Any]]:
    """Return the best settings of each of tckgen's algorithms for one FOD of half A."""
    name, kind = job
    made = find([name], options.data)[name].make(options.seeds, "A", kind)
    return made.name, {algorithm: best_settings(made, algorithm) for algorithm in TUNING}


# -------------------------------------------------------------------------------------- measuring


@dataclass(frozen=True, slots=True)
class Found:
    """What one FOD of a truth gave: scores by contestant, of all repeats, and our lost ends."""

    name: str
    kind: str
    scores: Scores
    lost: dict[str, list[truths.Lost]]
    grid: nt.Grid


def measure(
    name: str,
    truth: Truth,
    kind: str,
    rows: Mapping[str, Contestant],
    *,
    n_seeds: int = N_SEEDS,
    half: str = "A",
    repeats: int = 1,
    at_ends: bool = False,
    known: Mapping[str, truths.Score] | None = None,
) -> Found:
    """Track one FOD of a truth with all contestants whose score is not known, in each repeat."""
    known = known or {}
    scores: dict[str, list[truths.Score]] = {}
    lost: dict[str, list[truths.Lost]] = {}
    for repeat in range(repeats):
        made = truth.make(n_seeds, half, kind, repeat=repeat, at_ends=at_ends)
        for label, run in rows.items():
            lines = None if label in known else run(made)
            if lines is None:
                continue
            scores.setdefault(label, []).append(truths.score(made, lines))
            if lines.tally:
                lost.setdefault(label, []).append(truths.Lost.of(made, lines))
    pooled = {label: truths.pooled(own) for label, own in scores.items()} | dict(known)
    ordered = {label: pooled[label] for label in rows if label in pooled}
    return Found(name, kind, ordered, lost, made.fod.grid)


def measure_job(options: argparse.Namespace, job: tuple[str, str]) -> Found:
    """Do one job of a process."""
    name, kind = job
    n_threads = max(1, (os.cpu_count() or 1) // options.processes)
    kept = kept_scores(options.peers).get(peers_key(options, name, kind), {})
    return measure(
        name,
        find([name], options.data)[name],
        kind,
        contestants(options.algorithms, options.settings, n_threads),
        n_seeds=options.seeds,
        half=options.half,
        repeats=options.repeats,
        at_ends=options.at_ends,
        known={label: truths.Score(**values) for label, values in kept.items()},
    )


Kept = dict[str, dict[str, dict[str, Any]]]  # by what was measured and contestant


def kept_scores(path: Path | None) -> Kept:
    """Return the scores of tckgen and DIPY in a file; none where there is no file yet."""
    found: Kept = json.loads(path.read_text("utf-8")) if path and path.exists() else {}
    return found


def peers_key(options: argparse.Namespace, name: str, kind: str) -> str:
    """Return all that scores of tckgen and DIPY depend on."""
    parts = (f"{name}, {kind}", options.half, options.seeds, options.repeats, options.at_ends)
    return json.dumps([*parts, tuned_settings(parts[0], known_tuned())])


def keep(options: argparse.Namespace, found: Found) -> None:
    """Add the scores of tckgen and DIPY to the file."""
    kept = kept_scores(options.peers)
    kept.setdefault(peers_key(options, found.name, found.kind), {}).update(
        {
            label: asdict(score)
            for label, score in found.scores.items()
            if label.startswith(("tckgen", "DIPY"))
        }
    )
    new = options.peers.with_suffix(".new")  # others read the file meanwhile
    new.write_text(json.dumps(kept, indent=1) + "\n", "utf-8")
    new.replace(options.peers)


def done(work: Callable[[Any], Any], jobs: Sequence[Any], processes: int) -> Iterator[Any]:
    """Yield what each job gave, in order, as processes beside each other do them."""
    if processes == 1:
        yield from map(work, jobs)
        return
    with multiprocessing.get_context("spawn").Pool(processes) as pool:
        yield from pool.imap(work, jobs)
        pool.close()
        pool.join()


# -------------------------------------------------------------------------------------- the tables

CELL = "valid, % of streamlines ± binomial (± repeats) / of seeds / invalid / overlap / overreach"


def cell_of(score: truths.Score) -> str:
    """Return the figures of one contestant in one FOD."""
    valid = f"{100 * score.valid_share:.1f} ± {100 * score.error:.1f}"
    if not np.isnan(score.spread):
        valid += f" (± {100 * score.spread:.1f})"
    rest = [score.valid_of_seeds, score.invalid_share, score.overlap, score.overreach]
    if score.met:
        rest.append(score.passed_share)
    text = " / ".join([valid, *map(_percent, rest)])
    return f"{text} of {_percent(score.open_share)}" if score.met else text


def _percent(share: float) -> str:
    return "–" if np.isnan(share) else f"{100 * share:.0f}"


def table(name: str, by_kind: Mapping[str, Scores]) -> str:
    """Return the table of one truth, with who is ahead below it."""
    labels = list(dict.fromkeys(label for scores in by_kind.values() for label in scores))
    has_lesion = any(score.met for scores in by_kind.values() for score in scores.values())
    head = f"{CELL}{' / pass the lesion, of how many should' if has_lesion else ''}"
    lines = [
        f"### {name}",
        "",
        f"| {head} | {' | '.join(by_kind)} |",
        "|---|" + "---:|" * len(by_kind),
    ]
    for label in labels:
        cells = [cell_of(s[label]) if label in s else "" for s in by_kind.values()]
        is_default = label in {DEFAULTS.get(kind, DEFAULT) for kind in by_kind}
        shown = f"**{label}**" if is_default else label
        lines.append(f"| {shown} | {' | '.join(cells)} |")
    said = [
        f"- {kind}: {verdict(scores, DEFAULTS.get(kind, DEFAULT))}"
        for kind, scores in by_kind.items()
    ]
    return "\n".join([*lines, "", *said])


MEASURES: dict[str, Callable[[truths.Score], float]] = {  # the larger, the better
    "valid of streamlines": lambda s: s.valid_share,
    "valid of seeds": lambda s: s.valid_of_seeds,
    "fewest invalid": lambda s: -s.invalid_share,
    "overlap": lambda s: s.overlap,
    "what a lesion leaves": lambda s: -abs(s.passed_share - s.open_share),
}


@dataclass(frozen=True, slots=True)
class Lead:
    """By how much the best of tckgen's is ahead of our default, as shares, and of our best."""

    label: str
    by: float
    error: float
    best: str
    of_best: float

    def __str__(self) -> str:
        text = f"{self.label.removeprefix('tckgen ')} by {100 * self.by:.1f}"
        if np.isnan(self.error):  # as of overlap in a single repeat
            return text
        sure = "" if self.by > 2 * self.error else ", within two errors"
        return f"{text} ± {100 * self.error:.1f}{sure}"


def ahead(scores: Scores, default: str = DEFAULT) -> dict[str, Lead]:
    """Return in which measures the best of tckgen's is ahead of our default, or of our best.

    Our best is the default where that is not among the contestants.
    """
    theirs = {k: s for k, s in scores.items() if k.startswith("tckgen")}
    own = {k: s for k, s in scores.items() if not k.startswith(("tckgen", "DIPY"))}
    found: dict[str, Lead] = {}
    for what, of in MEASURES.items():
        values = {k: of(s) for k, s in scores.items() if not np.isnan(of(s))}
        if not values.keys() & theirs.keys() or not values.keys() & own.keys():
            continue
        label = max(values.keys() & theirs.keys(), key=lambda k: (values[k], k))
        best = max(values.keys() & own.keys(), key=lambda k: (values[k], k))
        own_label = default if default in values else best
        by = values[label] - values[own_label]
        if by > 0:
            errors = [_error(what, scores[k]) for k in (label, own_label)]
            of_best = values[label] - values[best]
            found[what] = Lead(label, by, float(np.hypot(*errors)), best, of_best)
    return found


def _error(what: str, score: truths.Score) -> float:
    """Return the standard error of a measure: the binomial one, or that of repeats if larger."""
    if what == "overlap":
        return score.overlap_spread
    if what == "what a lesion leaves":
        return truths.binomial_error(score.passed, score.met)
    if what == "fewest invalid":
        return truths.binomial_error(score.invalid, score.n_streamlines)
    n = score.n_seeds if what == "valid of seeds" else score.n_streamlines
    return float(np.nanmax([truths.binomial_error(score.valid, n), score.spread]))


def verdict(scores: Scores, default: str = DEFAULT) -> str:
    """Say who has most valid streamlines, and where tckgen's best is ahead of our default."""
    text = f"most valid: {max(scores, key=lambda label: scores[label].valid_share)}."
    if not any(label.startswith("tckgen") for label in scores):
        return text
    parts = [
        f"{what} ({lead}{'' if lead.of_best > 0 else f'; {lead.best} is not behind'})"
        for what, lead in ahead(scores, default).items()
    ]
    who = default if default in scores else "our best"
    return f"{text} tckgen is ahead of {who} in {', '.join(parts) or 'nothing'}."


def summary(found: Sequence[Found]) -> str:
    """Return one table of all truths: valid / invalid / overlap in per cent of each contestant."""
    labels = list(dict.fromkeys(label for one in found for label in one.scores))
    lines = [
        f"| valid / of seeds / invalid / overlap, % | {' | '.join(labels)} |",
        "|---|" + "---|" * len(labels),
    ]
    means: dict[str, list[np.ndarray]] = {label: [] for label in labels}
    for one in found:
        for label, s in one.scores.items():
            means[label].append(
                np.array([s.valid_share, s.valid_of_seeds, s.invalid_share, s.overlap])
            )
        cells = [_four(means[k][-1]) if k in one.scores else "" for k in labels]
        lines.append(f"| {one.name}, {one.kind} | {' | '.join(cells)} |")
    cells = [
        _four(np.ma.masked_invalid(rows).mean(axis=0).filled(np.nan)) for rows in means.values()
    ]
    lines.append(f"| mean | {' | '.join(cells)} |")
    return "\n".join(lines)


def _four(shares: np.ndarray) -> str:
    return " / ".join(map(_percent, shares))


# ------------------------------------------------------------------------------ ends that are lost


def lost_table(found: Found) -> str:
    """Return the table of where ends lie that are at no end of a bundle, and why."""
    lines = [
        f"| ends at no end of a bundle, % of all ends | all | {' | '.join(truths.PLACES)} |",
        "|---|" + "---:|" * (len(truths.PLACES) + 1),
    ]
    for label, repeats in found.lost.items():
        n_ends = sum(one.n_ends for one in repeats)
        tally = Counter(
            pair
            for one in repeats
            for pair in zip(one.reasons.tolist(), one.places.tolist(), strict=True)
        )
        every = sorted({reason for reason, _ in tally})
        for reasons, words in [(every, "all")] + [
            ([reason], nt.StopReason(reason).name) for reason in every
        ]:
            counts = [
                sum(tally[reason, place] for reason in reasons)
                for place in range(len(truths.PLACES))
            ]
            cells = [f"{100 * n / max(n_ends, 1):.1f} ({n})" for n in (sum(counts), *counts)]
            lines.append(f"| {label}: {words} | {' | '.join(cells)} |")
    return "\n".join(lines)


def write_maps(found: Found, folder: Path) -> list[Path]:
    """Write where ends lie that are at no end of a bundle, a NIfTI for each reason."""
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for label, repeats in found.lost.items():
        ends = ends_by_reason((one.tractogram() for one in repeats), found.grid)
        words = label.replace(", ", "-").replace(" ", "-")
        for reason, counts in ends.items():
            path = folder / f"{found.name}-{found.kind}-{words}-{reason.name}.nii.gz"
            save_volume(counts, found.grid, path)
            written.append(path)
    return written


# ---------------------------------------------------------------------------------------- the page


def leads_table(found: Iterable[Found]) -> str:
    """Return where tckgen is ahead of our default: a row for each FOD, a column for a measure."""
    lines = [f"| | {' | '.join(MEASURES)} |", "|---|" + "---|" * len(MEASURES)]
    for one in found:
        leads = ahead(one.scores, DEFAULTS.get(one.kind, DEFAULT))
        if leads:
            cells = [
                str(leads[what]).removeprefix("tckgen ") if what in leads else ""
                for what in MEASURES
            ]
            lines.append(f"| {one.name}, {one.kind} | {' | '.join(cells)} |")
    return "\n".join(lines)


def means_table(found: Sequence[Found]) -> str:
    """Return the means over all FODs, a row for each contestant."""
    head, _, *_, mean = summary(found).splitlines()
    labels, cells = ([x.strip() for x in row.split("|")[2:-1]] for row in (head, mean))
    numbers = [sum(label in one.scores for one in found) for label in labels]
    rows = [
        f"| {f'**{label}**' if label == DEFAULT else label} | {cell} | {n} |"
        for label, cell, n in zip(labels, cells, numbers, strict=True)
    ]
    return "\n".join(
        ["| | valid / of seeds / invalid / overlap, % | FODs |", "|---|---|---:|", *rows]
    )


HOW = """\
Every program gets the same FOD and the same seeds, {seeds} a truth{repeats} ({n_subject} times as
many in the person), each tried once, without a minimum length; tckgen draws as many from among
them. Ours are at what `TrackingParameters.for_fod` gives, or as named; **{default}** is the
default, but among peaks, in the person, where **{of_peaks}** is. tckgen and DIPY are at their own
defaults, as named, or *tuned*: at the settings with most valid streamlines for this truth on the
other half of the battery, by this very FOD or by *csd20*. A streamline is valid where it joins both
ends of one bundle, invalid where it joins ends that no bundle joins. *Overlap* is what valid ones
visit of the voxels of bundles, *overreach* what they visit outside, over the same.
Errors are binomial, of two more of each kind (Agresti and Coull 1998), so that all of 27 may be
90 % of many, and, in brackets, the standard error of the mean of repeats; that of overlap is of
repeats alone. Of two that are equal either is ahead by more than two errors once in 44 times, by
chance, and the best of eight more often.

*exact*: lobes along the fibres, with noise of 0.02 of the largest first coefficient. *csd20*,
*csd30*: constrained spherical deconvolution of a scan with a signal-to-noise ratio of 20 or 30.
*tangle* is twelve bundles between places on a sphere, drawn by random numbers;
*yoga* is TrackerYoga's phantom, seeded at one end of each bundle; *fibercup* the scanned phantom,
with bundles as tubes that were read off its white matter; *subject* the peaks of a person and the
bundles that TractSeg finds in them, which is agreement with another program, and tells no invalid
ones. A lesion leaves 60 % of a bundle's section; what should pass it is the share of seeds from
which a straight line does."""


def page(found: Sequence[Found], command: str, options: argparse.Namespace) -> str:
    """Return the page."""
    computer = machine()
    versions = [f"{name} {number}" for name, number in computer["versions"].items()]
    mrtrix = ground_truth.tckgen_version()
    versions += [f"MRtrix3 {mrtrix}"] if mrtrix else []
    more = f" in each of {options.repeats} repeats with other noise" if options.repeats > 1 else ""
    leads = leads_table(found)
    return "\n\n".join(
        [
            "# Ground truths",
            f"Written by `{command}` on {datetime.date.today().isoformat()}: "
            f"{computer['processor']}, {computer['cores']} cores, {platform.system()}; "
            f"{', '.join(versions)}.",
            HOW.format(
                seeds=options.seeds,
                repeats=more,
                n_subject=measured_truths.N_SUBJECT,
                default=DEFAULT,
                of_peaks=PEAKS.algorithm,
            ),
            "## Where tckgen is ahead of the default",
            leads if leads.count("\n") > 1 else "Nowhere.",
            "## Means",
            means_table(found),
            "## By truth",
            *(
                table(name, {one.kind: one.scores for one in kinds})
                for name, kinds in itertools.groupby(found, key=lambda one: one.name)
            ),
        ]
    )


def shares_of(score: truths.Score) -> list[int]:
    """Return valid and invalid ones, what passes a lesion and what should, in whole per cent."""
    shares = [score.valid_share, score.invalid_share]
    if score.met:
        shares += [score.passed_share, score.open_share]
    return [round(100 * share) for share in shares]


def write_measured(found: Sequence[Found]) -> None:
    """Put what was measured in the place of what the file has of the same contestants."""
    computer = machine()
    day = datetime.date.today().isoformat()
    where = f"{computer['processor'].strip()}, {computer['cores']} cores, {day}"
    rows = json.loads(MEASURED.read_text("utf-8")) if MEASURED.exists() else {}
    for label in dict.fromkeys(label for one in found for label in one.scores):
        own = [one for one in found if label in one.scores]
        shares = {f"{one.name}, {one.kind}": shares_of(one.scores[label]) for one in own}
        rows[label] = {"where": where, "shares": shares}
    lines = [f" {json.dumps(label)}: {json.dumps(rows[label])}" for label in sorted(rows)]
    MEASURED.write_text("{\n" + ",\n".join(lines) + "\n}\n", "utf-8")


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
    parser.add_argument("--seeds", type=int, default=N_SEEDS, help="of a truth, in each repeat")
    parser.add_argument("--repeats", type=int, default=1, help="with other seeds and noise")
    parser.add_argument("--algorithms", nargs="*", default=[], help="beginnings of their names")
    parser.add_argument("--kinds", nargs="*", choices=(*KINDS, truths.TOD, *ALIASES), default=KINDS)
    parser.add_argument(
        "--set", nargs="*", default=[], metavar="NAME=VALUE", help="for all of ours"
    )
    parser.add_argument("--data", type=Path, default=ROOT.parent / "shared" / "data")
    parser.add_argument("--why", action="store_true", help="where and why ends are lost, too")
    parser.add_argument("--map", type=Path, metavar="FOLDER", help="write where ends are lost")
    parser.add_argument("--at-ends", action="store_true", help="seeds at one end of each bundle")
    parser.add_argument("--md", action="store_true", help="nothing but the table of all truths")
    parser.add_argument("--page", type=Path, metavar="OUT.md", help="write a page")
    parser.add_argument("--peers", type=Path, metavar="FILE.json", help="keep others' scores")
    parser.add_argument("--tune", action="store_true", help=f"write tckgen's in {TUNED.name}")
    parser.add_argument("--measured", action="store_true", help=f"write {MEASURED.name}")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    options = parser.parse_args()
    if options.measured:
        options.half, options.seeds, options.kinds = "B", purposes.MEASURED_SEEDS, MEASURED_KINDS
        options.truths, options.set, options.repeats, options.at_ends = [], [], 1, False
    options.settings = {
        name: value_of(value) for name, _, value in (x.partition("=") for x in options.set)
    }
    kinds = {ALIASES.get(kind, kind) for kind in options.kinds}
    known = find(options.truths, options.data)
    jobs = [(name, kind) for name, truth in known.items() for kind in truth.kinds if kind in kinds]
    if options.tune:
        best = known_tuned()
        for name, settings in done(functools.partial(tune, options), jobs, options.processes):
            print(f"{name}: {settings}", flush=True)
            best[name] = settings
            TUNED.write_text(json.dumps(best, indent=1, sort_keys=True) + "\n", "utf-8")
        return
    found: list[Found] = []
    results = done(functools.partial(measure_job, options), jobs, options.processes)
    if options.peers:
        results = (keep(options, one) or one for one in results)
    for name, group in itertools.groupby(results, key=lambda one: one.name):
        own = list(group)
        found += own
        if not options.md:
            print(table(name, {one.kind: one.scores for one in own}) + "\n", flush=True)
        for one in own:
            if options.why:
                print(f"{one.name}, {one.kind}:\n\n{lost_table(one)}\n", flush=True)
            if options.map:
                print(f"{len(write_maps(one, options.map))} maps in {options.map}\n")
    print(summary(found))
    if options.measured:
        write_measured(found)
    if options.page:
        words = [
            f"--half {options.half}",
            f"--seeds {options.seeds}",
            f"--repeats {options.repeats}",
        ]
        command = " ".join(["python benchmarks/truth.py", *words, f"--page {options.page}"])
        options.page.write_text(page(found, command, options) + "\n", "utf-8")


if __name__ == "__main__":
    main()
