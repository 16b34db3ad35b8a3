"""Tracking the TrackerYoga phantom, whose true streamlines are known; tckgen beside it.

Called by ``validate.py`` and ``looking_ahead.py``.
"""

from __future__ import annotations

import itertools
import re
import shutil
import subprocess
import tempfile
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from scipy.spatial import cKDTree

import napari_tractography as nt
import scoring
from napari_tractography.model.parameters import parameter_specs
from peers.mrtrix import run_tckgen, write_fod

BUNDLES = ("arc1", "arc2", "arc3", "cross60", "cross90")
FOD = "fod_sh8.nii.gz"
TCKGEN = ("SD_STREAM", "iFOD1", "iFOD2")
LOOKERS = ("transport", "diffusion")  # the algorithms that can look ahead
LOOK_AHEAD_MM = 1.0  # a voxel

# One setting for all bundles; the sentence under the tables says why.
SETTINGS: dict[str, Any] = {
    "step_mm": 0.1,
    "max_angle_deg": 15.0,
    "min_amplitude": 0.05,
    "gamma_noise": 0.2,
    "max_length_mm": 100.0,
}
# The same, as tckgen calls it.
SAME = {
    "step": SETTINGS["step_mm"],
    "angle": SETTINGS["max_angle_deg"],
    "cutoff": SETTINGS["min_amplitude"],
}
WHY = (
    "Settings, the same for all bundles: the tightest arc has a radius of 2.8 mm, so that a step "
    "of 0.1 mm turns by 2 degrees along it, and a cone of 15 degrees has room for that while it "
    "keeps out the other lobe where bundles cross at 60 degrees; amplitudes below 0.05, a third of "
    "the bundles' peak, are not followed; diffusion, which the floor stops rather than steers, "
    "gets little noise (`gamma_noise=0.2`). *Looking ahead* is `look_ahead_mm=1`, a voxel."
)
# Where tckgen's best settings are looked for; iFOD1 and iFOD2 with each power, too.
GRID = {"step": (0.1, 0.25), "angle": (15, 45), "cutoff": (0.05, 0.1)}
POWERS = (None, 4, 16)
EDGES = {
    "voxel": "Streamlines end where the nearest voxel holds no FOD: tckgen's rule, and our default "
    '(`edge="voxel"`).',
    "interpolated": "Streamlines run on until no voxel around holds an FOD: ours with "
    '`edge="interpolated"`, tckgen on a copy of the FOD whose empty voxels hold next to nothing, '
    "but not nothing. On so small a phantom this raises the share of valid connections, of both.",
}
PADDING = 1e-6  # first coefficient in empty voxels
SPACING_MM = 0.1  # of the points of true streamlines that are cut

Scores = dict[str, scoring.Score]


def bundles_of(folder: Path) -> dict[str, list[np.ndarray]]:
    """Return the true streamlines of each bundle; all of a bundle run the same way."""
    found = {}
    for name in BUNDLES:
        groups = scoring.split_by_direction(list(nt.load_tractogram(folder / f"{name}.vtk")))
        for letter, lines in zip("ab", groups, strict=False):
            found[f"{name}{letter}" if len(groups) > 1 else name] = lines
    return found


def ends_of(folder: Path) -> list[scoring.End]:
    """Return both ends of every bundle."""
    return [end for item in bundles_of(folder).items() for end in scoring.ends_of(*item)]


def by_bundle(
    ends: Sequence[scoring.End],
    track: Callable[[int, scoring.End], nt.Tractogram],
    starts: Sequence[int] | None = None,
) -> Scores:
    """Score what `track` gives from each end, or from those with the numbers `starts`."""
    scores: Scores = {}
    for start in range(len(ends)) if starts is None else starts:
        end = ends[start]
        found = scoring.score(track(start, end), ends, start)
        scores[end.bundle] = scores.get(end.bundle, scoring.Score()) + found
    return scores


def ours(
    fod: nt.Fod,
    ends: Sequence[scoring.End],
    n: int,
    starts: Sequence[int] | None = None,
    **changes: Any,
) -> Scores:
    """Score our streamlines from `n` seeds at each end."""
    parameters = nt.TrackingParameters().replace(**SETTINGS).replace(**changes)
    return by_bundle(
        ends,
        lambda start, end: nt.track(fod, scoring.draw_seeds(end, n, start), parameters),
        starts,
    )


def tckgen(
    image: Path,
    ends: Sequence[scoring.End],
    n: int,
    algorithm: str,
    settings: dict[str, Any],
    starts: Sequence[int] | None = None,
) -> Scores:
    """Score tckgen's streamlines from `n` seeds at each end, each tried once."""
    with tempfile.TemporaryDirectory() as scratch:

        def track(start: int, end: scoring.End) -> nt.Tractogram:
            spheres = [
                f"{x:.5f},{y:.5f},{z:.5f},{scoring.SEED_RADIUS_MM:g}" for x, y, z in end.seeds_mm
            ]
            arguments = {
                "algorithm": algorithm,
                "select": 0,
                "seeds": n,
                "nthreads": 2,
                "minlength": 0,
                "maxlength": SETTINGS["max_length_mm"],
                "seed_sphere": spheres,
                **settings,
            }
            out = Path(scratch) / "out.tck"
            return nt.load_tractogram(run_tckgen(image, out, arguments))

        return by_bundle(ends, track, starts)


def truth(fod: nt.Fod, folder: Path, n: int) -> Scores:
    """Score true streamlines, moved to run through the seeds and cut as trackers cut theirs.

    From a seed at either end to the last point before the nearest voxel holds no FOD: what a
    tracker gets that knows the true direction everywhere, and no more.
    """
    bundles, ends = bundles_of(folder), ends_of(folder)

    def track(start: int, end: scoring.End) -> nt.Tractogram:
        lines = [
            _resampled(line[:: -1 if start % 2 else 1])  # a bundle's first end, then its last
            for line in bundles[end.bundle]
        ]
        first = np.cumsum([0, *map(len, lines)])
        tree = cKDTree(np.concatenate(lines))
        cut = []
        for seed in scoring.draw_seeds(end, n, start).positions_mm:
            _, nearest = tree.query(seed)
            which = int(np.searchsorted(first, nearest, side="right")) - 1
            line = lines[which]
            path = line + (seed - line[nearest - first[which]])
            held = _hold_fod(fod, path[nearest - first[which] :])
            if held[0]:
                n_points = len(held) if held.all() else int(held.argmin())
                cut.append(path[nearest - first[which] :][:n_points])
        offsets = np.cumsum([0, *map(len, cut)])
        return nt.Tractogram(np.concatenate(cut), offsets)

    return by_bundle(ends, track)


def _resampled(line: np.ndarray) -> np.ndarray:
    along = np.concatenate([[0], np.cumsum(np.linalg.norm(np.diff(line, axis=0), axis=1))])
    places = np.arange(0, along[-1], SPACING_MM)
    return np.stack([np.interp(places, along, line[:, axis]) for axis in range(3)], axis=1)


def _hold_fod(fod: nt.Fod, points_mm: np.ndarray) -> np.ndarray:
    """Return for each point whether the nearest voxel holds an FOD."""
    voxels = np.rint(fod.grid.to_voxel(points_mm)).astype(int)
    inside = ((voxels >= 0) & (voxels < fod.grid.shape)).all(axis=1)
    held = np.zeros(len(voxels), bool)
    held[inside] = fod.support[tuple(voxels[inside].T)]
    return held


# ---------------------------------------------------------------------------------------- the table


def best_settings(image: Path, ends: Sequence[scoring.End], n: int) -> dict[str, dict[str, Any]]:
    """Return the settings of a grid at which each of tckgen's algorithms has most valid ones."""
    best = {}
    for algorithm in TCKGEN:
        tried = []
        for values in itertools.product(*GRID.values()):
            for power in POWERS if algorithm != "SD_STREAM" else (None,):
                settings = dict(zip(GRID, values, strict=True))
                if power is not None:
                    settings["power"] = power
                scores = tckgen(image, ends, n, algorithm, settings)
                tried.append((total_of(scores).valid_share, len(tried), settings))
        best[algorithm] = max(tried)[2]
    return best


def table(folder: Path, n: int, edge: str) -> str:
    """Return the table of valid and invalid connections under one rule for the edge."""
    fod, ends = nt.load_fod(folder / FOD), ends_of(folder)
    rows: dict[str, Scores] = {}
    algorithms = next(spec.choices for spec in parameter_specs() if spec.name == "algorithm")
    for algorithm in algorithms:
        rows[algorithm] = ours(fod, ends, n, algorithm=algorithm, edge=edge)
    for algorithm in LOOKERS:
        rows[f"**{algorithm}, looking ahead**"] = ours(
            fod, ends, n, algorithm=algorithm, edge=edge, look_ahead_mm=LOOK_AHEAD_MM
        )
    n_ours = len(rows)
    if shutil.which("tckgen"):
        with tempfile.TemporaryDirectory() as scratch:
            image = folder / FOD
            if edge == "interpolated":
                image = write_fod(_padded(fod), Path(scratch) / "padded.nii")
            best = best_settings(image, ends, max(n // 10, 10)) if edge == "voxel" else {}
            for algorithm in TCKGEN:
                for label, settings in (
                    ("its defaults", {}),
                    ("our settings", SAME),
                    ("its best", best.get(algorithm)),
                ):
                    if settings is None:
                        continue
                    words = "".join(f", {name} {value:g}" for name, value in settings.items())
                    label += words if label == "its best" else ""
                    rows[f"tckgen {algorithm}, {label}"] = tckgen(
                        image, ends, n, algorithm, settings
                    )
    text = f"{EDGES[edge]}\n\n{markdown(rows, n * len(ends))}\n\n{_verdict(rows, n_ours)}"
    if edge != "voxel":
        return text
    known = total_of(truth(fod, folder, n))
    return (
        f"{text}\n\nWhy so few: the phantom's bundles are two voxels wide and its FOD is empty "
        "in voxels that they fill little, so that the true streamlines themselves leave it. Moved "
        "to run through the same seeds and cut where the nearest voxel holds no FOD, they make "
        f"{100 * known.valid_share:.1f} % valid connections, "
        f"{100 * known.valid / (n * len(ends)):.1f} % of seeds: more than that is not to be had by "
        "following directions, however exactly, and SD_STREAM is near it. "
        f"{_reasons(fod, ends, n)} Lines are lost by the side of their bundles, then, not at "
        "crossings; what gains is to lead them back before they leave, see [Looking "
        "ahead](#looking-ahead)."
    )


def _reasons(fod: nt.Fod, ends: Sequence[scoring.End], n: int) -> str:
    """Say where the lines of `sd_stream` end."""
    parameters = nt.TrackingParameters(algorithm="sd_stream").replace(**SETTINGS)
    tally: Counter[nt.StopReason] = Counter()
    for start, end in enumerate(ends):
        lines = nt.track(fod, scoring.draw_seeds(end, n, start), parameters)
        tally.update(nt.StopReason(reason) for reason in lines.stop_reasons.ravel())
    empty, low = (
        100 * tally[reason] / tally.total()
        for reason in (nt.StopReason.NO_FOD, nt.StopReason.LOW_AMPLITUDE)
    )
    return (
        f"Of the ends of sd_stream's lines {empty:.0f} % are where the nearest voxel holds no FOD "
        f"and {low:.0f} % where the amplitude falls below the floor; none is near another bundle's."
    )


def markdown(rows: dict[str, Scores], n_seeds: int) -> str:
    """Return a table of scores, with a column for each bundle."""
    names = list(next(iter(rows.values())))
    lines = [
        f"| | streamlines | valid | of seeds | invalid | passes one | {' | '.join(names)} |",
        "|---|---:|---:|---:|---:|---:|" + "---:|" * len(names),
    ]
    for label, scores in rows.items():
        total = total_of(scores)
        each = " | ".join(
            f"{100 * scores[name].valid_share:.0f} / {100 * scores[name].invalid_share:.1f}"
            for name in names
        )
        lines.append(
            f"| {label} | {total.n_streamlines} | {100 * total.valid_share:.1f} % "
            f"| {100 * total.valid / n_seeds:.1f} % | {100 * total.invalid_share:.2f} % "
            f"| {100 * total.passing_share:.2f} % | {each} |"
        )
    return "\n".join(lines)


def total_of(scores: Scores) -> scoring.Score:
    """Return the score over all bundles."""
    return sum(scores.values(), scoring.Score())


def _padded(fod: nt.Fod) -> nt.Fod:
    """Return the FOD with next to nothing in its empty voxels."""
    coefficients = fod.coefficients
    coefficients[~fod.support, 0] = PADDING
    return nt.Fod(coefficients, fod.grid, basis=fod.basis, frame=fod.frame, name=fod.name)


def _verdict(rows: dict[str, Scores], n_ours: int) -> str:
    """Say which of ours have more valid and no more invalid than the best of tckgen's."""
    labels, totals = list(rows), [total_of(scores) for scores in rows.values()]
    theirs = range(n_ours, len(labels))
    if not theirs:
        return "MRtrix3 is not installed here: its rows are missing."
    best = max(theirs, key=lambda k: totals[k].valid_share)
    most = max(theirs, key=lambda k: totals[k].valid)
    winners = [
        labels[k].strip("*")
        for k in range(n_ours)
        if totals[k].valid_share > totals[best].valid_share + 2 * _error(totals[k], totals[best])
        and totals[k].valid > totals[most].valid
        and totals[k].invalid_share <= min(totals[best].invalid_share, totals[most].invalid_share)
    ]
    means = [np.mean([score.valid_share for score in scores.values()]) for scores in rows.values()]
    name, other = (labels[k].removeprefix("tckgen ") for k in (best, most))
    return (
        f"The best of tckgen's by streamline is {name}, with {100 * totals[best].valid_share:.1f} "
        f"% valid, and by seed {other}. More valid connections than the best by streamline, by "
        "more than two standard errors of the difference, and by seed, and no more invalid ones: "
        f"{'; '.join(winners) if winners else 'none of ours'}. With all bundles weighing alike, "
        "as `-select` has them, the best of tckgen's has "
        f"{100 * max(means[n_ours:]):.0f} % valid, the best of ours "
        f"{100 * max(means[:n_ours]):.0f} %."
    )


def _error(one: scoring.Score, other: scoring.Score) -> float:
    """Return the standard error of the difference of two shares of valid streamlines."""
    variances = [
        score.valid_share * (1 - score.valid_share) / max(score.n_streamlines, 1)
        for score in (one, other)
    ]
    return float(np.sqrt(sum(variances)))


def tckgen_version() -> str:
    """Return the version of tckgen, or nothing where it is not installed."""
    if not shutil.which("tckgen"):
        return ""
    text = subprocess.run(["tckgen", "-version"], capture_output=True, text=True, check=True).stdout
    found = re.search(r"tckgen (\S+)", text)
    return found[1] if found else ""
