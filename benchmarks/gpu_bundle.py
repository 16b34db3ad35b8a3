"""Runs as a file: FODs, seeds, parameters and the digests that the CPU backend gives.

Written where Numba and DIPY are (``python benchmarks/gpu.py --export bundle.npz``), read where
there may be nothing but NumPy and CuPy. A run in the file looks to the CUDA backend like a Plan.
"""

from __future__ import annotations

import hashlib
import json
import time
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np

from napari_tractography.fields.polynomials import polynomial_matrix
from napari_tractography.tracking.codes import Field, Regions, Settings
from napari_tractography.tracking.plan import kernel_tissues
from napari_tractography.tracking.tables.data import FodTable, empty_rows

if TYPE_CHECKING:
    from napari_tractography.model.fod import Fod

# What must agree bit for bit: name, changes to the parameters, what else is given.
EXACT: dict[str, tuple[dict[str, Any], str]] = {
    f"{algorithm}, {interpolation}, {name}": (
        {"algorithm": algorithm, "interpolation": interpolation, **changes},
        extra,
    )
    for algorithm in ("probabilistic", "deterministic", "sd_stream")
    for interpolation in ("nearest", "trilinear")
    for name, changes, extra in (
        ("plain", {}, ""),
        ("in the mask", {}, "mask"),
        ("among regions", {"record_every": 3}, "regions"),
        ("from the largest", {"start": "max", "direction": "backward"}, ""),
        ("from given directions", {"start": "given"}, ""),
        ("endpoints", {"output": "endpoints", "min_length_mm": 10.0}, ""),
        ("narrow cone", {"max_angle_deg": 10.0, "min_probability": 0.0}, ""),
        ("strict", {"min_amplitude": 0.2, "min_probability": 0.1}, ""),
    )
}
# What must agree within a tolerance: the first points, number and mean length. One way
# only, so that lines begin at their seeds.
CLOSE: dict[str, tuple[dict[str, Any], str]] = {
    f"{algorithm}, {step}": (
        {
            "algorithm": algorithm,
            "adaptive": step == "adaptive",
            "direction": "forward",
            "step_mm": 0.2,
        },
        "",
    )
    for algorithm in ("diffusion", "transport")
    for step in ("fixed", "adaptive")
}
# The comparison with the baseline: one way from the seed, 2,000 steps of 0.125 mm unless `export`
# is set otherwise.
SPEED: dict[str, Any] = {
    "step_mm": 0.125,
    "max_length_mm": 250.0,
    "interpolation": "nearest",
    "direction": "forward",
    "min_amplitude": 0.0,
    "min_probability": 0.005,
    "max_angle_deg": 45.0,
}
SPEED_CASES = {
    f"{algorithm}, {interpolation}": {"algorithm": algorithm, "interpolation": interpolation}
    for algorithm in ("probabilistic", "deterministic")
    for interpolation in ("nearest", "trilinear")
}
# Arrays that are not in the file, since backends fill them by what is.
LEFT_OUT = ("coefficients", "masses", "tissues")
KINDS: dict[str, Any] = {"field": Field, "settings": Settings, "regions": Regions}
PARTS = tuple(KINDS)
N_FIRST, TOLERANCE_MM = 8, 1e-4
N_CHECKED, N_SPEED = 2000, 409_600


@dataclass(frozen=True)
class Run:
    """A plan, and what the CPU made of it.

    Attributes
    ----------
    plan : Plan, or what looks like one
    expected : dict
        Digest, tally and lengths, or the CPU's speed.
    parameters : dict
        The tracking parameters by name.
    """

    plan: Any
    expected: dict[str, Any]
    parameters: dict[str, Any]


def with_seeds(plan: Any, positions_mm: np.ndarray) -> Any:
    """Return the plan with other seeds."""
    changed = {"positions_mm": positions_mm, "n_seeds": len(positions_mm)}
    return SimpleNamespace(**{**vars_of(plan), **changed})


def vars_of(plan: Any) -> dict[str, Any]:
    """Return the attributes of a plan of either kind."""
    names = ("positions_mm", "seed_directions", "table", "field", "settings", "regions", "n_seeds")
    names += ("first_stream", "with_tissues")
    return {name: getattr(plan, name) for name in names}


def first_points(lines: Any) -> np.ndarray:
    """Return (n_seeds, N_FIRST, 3) float32: the first points of each seed's line, else NaN."""
    first = np.full((lines.n_seeds, N_FIRST, 3), np.nan, np.float32)
    for seed, line in zip(lines.seed_index, lines, strict=True):
        n = min(N_FIRST, len(line))
        first[seed, :n] = line[:n]
    return first


def beginnings_agree(lines: Any, expected: np.ndarray) -> bool:
    """Tell whether lines begin as they should; where one is shorter, as far as it goes."""
    apart = np.abs(first_points(lines) - expected)
    there, wanted = (np.isfinite(a[:, 0, 0]) for a in (apart, expected))
    if not wanted.any() or there.sum() < 0.98 * wanted.sum():
        return False
    furthest = np.fmax.reduce(apart[there].reshape(there.sum(), -1), axis=1)
    return bool((furthest < TOLERANCE_MM).mean() > 0.98)


def lengths_agree(lines: Any, expected: dict[str, Any]) -> bool:
    """Tell whether number and mean length are those of the same dynamics."""
    n = expected["n_streamlines"]
    if abs(len(lines) - n) > 0.02 * n:
        return False
    error = np.hypot(lines.lengths_mm.std(dtype=float), expected["sd_mm"]) / np.sqrt(n)
    return bool(abs(lines.lengths_mm.mean(dtype=float) - expected["mean_mm"]) < 4 * error)


def brain_settings(fod: Fod) -> dict[str, Any]:
    """Return what the comparison on a whole brain changes: steps and cutoff as tckgen has them."""
    half_voxel = round(float(fod.grid.voxel_sizes_mm.min()) / 2, 3)
    return {"step_mm": half_voxel, "min_amplitude": 0.1}


def export(path: Path, fod: Fod, **speed_settings: Any) -> None:
    """Write the runs of an FOD; tracks the small ones on the CPU.

    Parameters
    ----------
    path : Path
    fod : Fod
    **speed_settings
        Tracking parameters of the comparison with the baseline that differ from `SPEED`.
    """
    from napari_tractography.model.parameters import TrackingParameters
    from napari_tractography.model.regions import Region
    from napari_tractography.model.seeds import Seeds
    from napari_tractography.streamlines.tractogram import Tractogram
    from napari_tractography.tracking.cpu import cpu_backend as cpu
    from napari_tractography.tracking.devices import cpu_count
    from napari_tractography.tracking.engine import make_plan
    from napari_tractography.tracking.inputs import TrackingInput

    arrays: dict[str, np.ndarray] = {}

    def kept(value: Any) -> Any:
        if isinstance(value, tuple):
            value = np.array(value)
        if not isinstance(value, np.ndarray):
            return value.item() if isinstance(value, np.generic) else value
        about = f"{value.shape}{value.dtype.str}".encode()
        key = hashlib.sha256(about + np.ascontiguousarray(value).tobytes()).hexdigest()[:16]
        arrays[key] = value
        return {"array": key, "frozen": not value.flags.writeable}

    def written(plan: Any, parameters: TrackingParameters) -> dict[str, Any]:
        parts = {
            part: {
                k: kept(v) for k, v in getattr(plan, part)._asdict().items() if k not in LEFT_OUT
            }
            for part in PARTS
        }
        return {
            **parts,
            "positions": kept(plan.positions_mm),
            "seed_directions": kept(plan.seed_directions),
            "parameters": parameters.to_dict(),
        }

    rng = np.random.default_rng(0)
    checked = Seeds.from_fod(fod, N_CHECKED)
    checked = Seeds.at(checked.positions_mm, rng.normal(size=(N_CHECKED, 3)))
    where = checked.positions_mm[:: N_CHECKED // 4]
    regions = [
        Region.sphere(where[0], 3.0, "include"),
        Region.sphere(where[1], 4.0, "stop"),
        Region.mask(fod.support, fod.grid, "include"),
        Region.sphere(where[2], 3.0, "exclude"),
    ]
    runs: dict[str, Any] = {}
    for name, (changes, extra) in {**EXACT, **CLOSE}.items():
        parameters = TrackingParameters(step_mm=0.5, max_length_mm=100.0).replace(**changes)
        plan = make_plan(
            TrackingInput(
                fod,
                checked,
                parameters,
                mask=fod.support if extra == "mask" else None,
                regions=regions if extra == "regions" else (),
            )
        )
        found = Tractogram.concatenate(list(cpu.iter_chunks(plan)))
        lengths = found.lengths_mm.astype(float) if len(found) else np.zeros(1)
        runs[name] = written(plan, parameters)
        if name in CLOSE:
            runs[name]["first_points"] = kept(first_points(found))
        runs[name]["expected"] = {
            "digest": found.digest(),
            "n_streamlines": len(found),
            "mean_mm": float(lengths.mean()),
            "sd_mm": float(lengths.std()),
            "tally": {int(reason): n for reason, n in found.tally.items()},
        }
    speed_seeds = Seeds.in_mask(fod.support, fod.grid, N_SPEED)
    for name, changes in SPEED_CASES.items():
        parameters = TrackingParameters(**{**SPEED, **speed_settings, **changes})
        plan = make_plan(TrackingInput(fod, speed_seeds, parameters))
        few = replace(
            plan,
            positions_mm=plan.positions_mm[:20_000],
            seed_directions=plan.seed_directions[:20_000],
        )
        list(cpu.iter_chunks(few))
        begun = time.perf_counter()
        found = Tractogram.concatenate(list(cpu.iter_chunks(few)))
        seconds = time.perf_counter() - begun
        runs[f"speed: {name}"] = written(plan, parameters)
        runs[f"speed: {name}"]["expected"] = {
            "cpu_steps_per_s": float(found.lengths_mm.sum(dtype=float))
            / parameters.step_mm
            / seconds,
            "cpu_threads": cpu_count(),
        }
    header = {"fod": fod.name, "runs": runs}
    arrays["header"] = np.frombuffer(json.dumps(header).encode(), np.uint8)
    np.savez_compressed(path, **arrays)


def read(path: Path) -> dict[str, Run]:
    """Read the runs of a file."""
    with np.load(path, allow_pickle=False) as file:
        arrays = {name: file[name] for name in file.files}
    header = json.loads(arrays.pop("header").tobytes())
    views: dict[tuple[str, bool], np.ndarray] = {}

    def found(value: Any) -> Any:
        if isinstance(value, dict) and "array" in value:
            key = value["array"], value["frozen"]
            if key not in views:
                views[key] = arrays[key[0]].view()
                # Numba compiles again for arrays that may be written where others may not.
                views[key].flags.writeable = not value["frozen"]
            return views[key]
        return value

    rows: dict[int, tuple[np.ndarray, np.ndarray]] = {}  # by FOD
    runs = {}
    for name, stored in header["runs"].items():
        values = {k: {n: found(v) for n, v in stored[k].items()} for k in PARTS}
        fod, change = values["field"]["values"], values["field"]["change"]
        if id(fod) not in rows:
            rows[id(fod)] = empty_rows(*fod.shape, change.shape[1])
        coefficients, masses = rows[id(fod)]
        values["field"] |= {
            "coefficients": coefficients,
            "masses": masses,
            "shifts": tuple(values["field"]["shifts"]),
        }
        values["regions"]["tissues"] = kernel_tissues(None)
        parts = {part: KINDS[part](**values[part]) for part in PARTS}
        table = SimpleNamespace(
            kernel=FodTable.kernel,
            masses=masses,
            values=fod,
            lmax=len(parts["field"].shifts) - 1,
            n_bytes=coefficients.nbytes + masses.nbytes,
        )
        positions = found(stored["positions"])
        plan = SimpleNamespace(
            **parts,
            table=table,
            positions_mm=positions,
            seed_directions=found(stored["seed_directions"]),
            n_seeds=len(positions),
            first_stream=0,
            with_tissues=False,
        )
        expected = dict(stored["expected"])
        if "first_points" in stored:
            expected["first_points"] = found(stored["first_points"])
        runs[name] = Run(plan, expected, stored["parameters"])
    return runs


def amplitudes_at(field: Any, units: np.ndarray) -> np.ndarray:
    """Return the non-negative amplitudes of every voxel, (n_rows, n) float32, scaled as the table.

    Parameters
    ----------
    field : Field
    units : (n, 3) array
        Unit vectors, RAS+.
    """
    matrix = field.change[:, : field.values.shape[1]] @ polynomial_matrix(
        units, len(field.shifts) - 1
    ).T.astype(np.float32)
    return np.maximum(field.values @ matrix, 0)
