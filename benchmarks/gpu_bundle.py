"""Runs as a file: FODs, seeds, parameters and the digests that the CPU backend gives.

Written where Numba and DIPY are (``python benchmarks/gpu.py --export fibercup bundle.npz``), read
where there may be nothing but NumPy and CuPy. Numbers that half floats hold are stored as half
floats; FODs are rounded to them before they are tracked.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from napari_tractography.fields.polynomials import polynomial_matrix
from napari_tractography.fields.sh import degrees_of
from napari_tractography.tracking.codes import Field, KernelTissues, Regions, Settings, VectorField
from napari_tractography.tracking.plan import Plan
from napari_tractography.tracking.tables.data import FodTable, empty_rows
from napari_tractography.tracking.tables.vectors import VectorTable

if TYPE_CHECKING:
    from napari_tractography.model.fod import Fod

DATA = Path(__file__).resolve().parents[2] / "shared" / "data"
INTERPOLATIONS = ("nearest", "trilinear")
PLAIN = ("probabilistic", "deterministic", "sd_stream")
# What must agree bit for bit: name, changes to the parameters, what else is given.
CHANGES: tuple[tuple[str, dict[str, Any], str], ...] = (
    ("plain", {}, ""),
    ("in the mask", {}, "mask"),
    ("among regions", {"record_every": 3}, "regions"),
    ("between ends", {"direction": "both"}, "ends"),
    ("from the largest", {"start": "max", "direction": "backward"}, ""),
    ("from given directions", {"start": "given"}, ""),
    ("endpoints", {"output": "endpoints", "min_length_mm": 10.0}, ""),
    ("narrow cone", {"max_angle_deg": 10.0, "min_probability": 0.0}, ""),
    ("strict", {"min_amplitude": 0.2, "min_probability": 0.1}, ""),
    ("within tissues", {}, "tissues"),
    ("cropped", {"crop_at_gmwmi": True}, "tissues"),
)
TAKEN_BACK = ("taken back", {"backtrack": True, "crop_at_gmwmi": True}, "tissues")
AHEAD = ("looking ahead", {"look_ahead_mm": 3.0}, "mask")
LOBES = ("in its lobe", {"lobe_deg": 10.0, "max_angle_deg": 60.0}, "mask")
ODD = ("of odd degrees", {}, "odd")
EXACT: dict[str, tuple[dict[str, Any], str]] = {
    f"{algorithm}, {interpolation}, {name}": (
        {"algorithm": algorithm, "interpolation": interpolation, **changes},
        extra,
    )
    for algorithm, rows in (
        ("probabilistic", (*CHANGES, TAKEN_BACK, AHEAD, LOBES, ODD, ("peaks", {}, "peaks"))),
        ("deterministic", (*CHANGES, ODD, ("peaks", {}, "peaks"), ("tensors", {}, "tensors"))),
        ("sd_stream", (*CHANGES, ODD, ("peaks", {}, "peaks"), ("tensors", {}, "tensors"))),
        ("ifod2", (*CHANGES[:3], CHANGES[6], TAKEN_BACK, ODD)),
    )
    for interpolation in INTERPOLATIONS
    for name, changes, extra in rows
}
# Diffusion and transport, whose steps may have lengths of their own.
EXACT |= {
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
# What is timed, the telling ones first: FiberCup as on the page of Tractography.jl, one way from
# the seed, 2,000 steps of 0.125 mm, from one spot, also by an FOD of lmax 12, or from everywhere;
# and a whole brain by its defaults. Numbers in a name: the probability threshold, the look ahead.
FIBERCUP: dict[str, Any] = {
    "step_mm": 0.125,
    "max_length_mm": 250.0,
    "direction": "forward",
    "min_amplitude": 0.0,
    "min_probability": 0.005,
    "max_angle_deg": 45.0,
}
SPEED: dict[str, tuple[str, dict[str, Any]]] = {
    "-".join((where, algorithm, interpolation, *map(str, threshold))): (
        where,
        {"algorithm": algorithm, "interpolation": interpolation}
        | dict(zip(("min_probability", "look_ahead_mm"), map(float, threshold), strict=False)),
    )
    for where, algorithm, interpolation, *threshold in (
        ("spot", "probabilistic", "nearest"),
        ("spot", "probabilistic", "nearest", 0),
        ("spot", "probabilistic", "trilinear"),
        ("spot", "probabilistic", "trilinear", 0),
        ("brain", "probabilistic", "trilinear"),
        ("spot", "deterministic", "nearest"),
        ("spot", "deterministic", "trilinear"),
        ("brain", "probabilistic", "trilinear", 0.005),
        ("brain", "probabilistic", "trilinear", 0, 0),
        ("spot", "sd_stream", "nearest"),
        ("spot", "sd_stream", "trilinear"),
        ("spot", "ifod2", "trilinear"),
        ("spot", "transport", "trilinear"),
        ("twelve", "probabilistic", "nearest"),
        ("twelve", "probabilistic", "trilinear"),
        ("all", "probabilistic", "nearest"),
        ("all", "probabilistic", "trilinear"),
        ("all", "deterministic", "nearest"),
        ("brain", "deterministic", "trilinear"),
    )
}
# The spot: a sphere of 1 mm in FiberCup, from which streamlines take some 560 steps.
SPOT_MM, SPOT_RADIUS_MM = (60.0, 105.0, 3.0), 0.5
# Seeds that are timed, of which the first so many are in the file: the others repeat them, as
# streamlines with random numbers of their own.
N_TIMED = {"spot": 409_600, "twelve": 409_600, "all": 409_600, "brain": 200_000}
N_STORED = {"spot": 32_768, "twelve": 32_768, "all": 32_768, "brain": 40_000}
N_CHECKED, N_EXACT = 2000, 500
DROPPED_BITS = 3  # of the ten of a brain's half floats, whose noise would fill the file
# Arrays that are not in the file, since backends fill them by what is.
LEFT_OUT = (*FodTable.filled, "tissues")


@dataclass(frozen=True)
class Run:
    """A plan, and what the CPU made of its first seeds.

    Attributes
    ----------
    plan : Plan
    expected : dict
        Digest, tally and lengths of the first `N_CHECKED` streamlines.
    parameters : dict
        The tracking parameters by name.
    n_timed : int
        Seeds to time, those of the plan over and over.
    """

    plan: Plan
    expected: dict[str, Any]
    parameters: dict[str, Any]
    n_timed: int = 0


def with_seeds(plan: Plan, n: int) -> Plan:
    """Return the plan with its first `n` seeds, over and over where there are fewer."""

    def cut(array: np.ndarray) -> np.ndarray:
        return np.resize(array, (n, 3)) if len(array) else array

    return replace(
        plan,
        positions_mm=cut(plan.positions_mm),
        seed_directions=cut(plan.seed_directions),
    )


def endpoints_of(plan: Plan) -> Plan:
    """Return the plan with the ends of streamlines for its output."""
    return replace(plan, settings=plan.settings._replace(endpoints=True))


def rounded(fod: Fod, dropped_bits: int = 0) -> Fod:
    """Return the FOD with coefficients that half floats hold, the last bits of them zero."""
    from napari_tractography.model.fod import Fod

    bits = fod.coefficients.astype(np.float16).view(np.uint16)
    half = (1 << dropped_bits) >> 1
    bits = (bits + np.uint16(half)) >> dropped_bits << dropped_bits
    return Fod(bits.view(np.float16).astype(np.float32), fod.grid, name=fod.name)


def fibercup(folder: Path = DATA / "fibercup") -> Fod:
    """Return the FOD of FiberCup, in its mask alone."""
    from napari_tractography.files.fods import load_fod
    from napari_tractography.files.volume_files import load_mask
    from napari_tractography.model.fod import Fod

    fod = load_fod(folder / "fod.nii.gz")
    mask, _ = load_mask(folder / "wm.nii.gz")
    inside = np.where(np.asarray(mask)[..., None] != 0, fod.coefficients, 0)
    return Fod(inside, fod.grid, name="FiberCup")


def vectors_of(fod: Fod) -> tuple[Fod, Fod]:
    """Return peaks and tensors on the grid of an FOD: one bundle around its middle, one across."""
    from napari_tractography.model.fod import Fod

    used = np.argwhere(np.ones(fod.grid.shape, bool))
    x, y, z = (used - (np.array(fod.grid.shape) - 1) / 2).T
    around = np.stack([-y, x, 0.3 * np.abs(z) + 0.1], axis=1)
    around /= np.linalg.norm(around, axis=1, keepdims=True)
    across = np.stack([np.cos(z / 20), np.sin(z / 20), 0.2 * np.ones_like(z)], axis=1)
    peaks = np.stack([around, 0.6 * across], axis=1).reshape(*fod.grid.shape, 2, 3)
    pairs = ((0, 0), (1, 1), (2, 2), (0, 1), (0, 2), (1, 2))
    tensors = np.stack([1.4 * around[:, i] * around[:, j] + 0.3 * (i == j) for i, j in pairs], 1)
    kept = [array.astype(np.float16).astype(np.float32) for array in (peaks, tensors)]
    return (
        Fod.from_peaks(kept[0], fod.grid),
        Fod.from_tensors(kept[1].reshape(*fod.grid.shape, 6), fod.grid),
    )


def with_degrees(fod: Fod, lmax: int) -> Fod:
    """Return the FOD with coefficients up to a larger degree, all of them zero."""
    from napari_tractography.fields.sh import n_coefficients_of
    from napari_tractography.model.fod import Fod

    more = n_coefficients_of(lmax) - fod.coefficients.shape[-1]
    wider = np.pad(fod.coefficients, ((0, 0),) * 3 + ((0, more),))
    return Fod(wider, fod.grid, name=fod.name)


def with_odd_degrees(fod: Fod) -> Fod:
    """Return an asymmetric FOD: larger upwards than downwards."""
    from napari_tractography.fields.sh import even_columns
    from napari_tractography.model.fod import Fod

    values = np.zeros((*fod.grid.shape, (fod.lmax + 1) ** 2))
    values[..., even_columns(values.shape[-1])] = fod.coefficients
    values[..., 2] = 0.5 * fod.coefficients[..., 0]  # of degree 1 and order 0
    return Fod(values, fod.grid, name=fod.name)


def tissues_of(fod: Fod) -> Any:
    """Return a tissue image on the grid of an FOD: white matter with lumps of all others in it."""
    from napari_tractography.model.tissues import CORTEX, DEEP, FLUID, LESION, WHITE, Tissues

    shape = fod.grid.shape
    lumps = np.random.default_rng(8).choice(
        (WHITE, CORTEX, DEEP, FLUID, LESION),
        size=[-(-n // 3) for n in shape],
        p=(0.66, 0.1, 0.12, 0.05, 0.07),
    )
    full = np.eye(5)[lumps].repeat(3, 0).repeat(3, 1).repeat(3, 2)
    full = full[: shape[0], : shape[1], : shape[2]]
    return Tissues((full + np.roll(full, 1, axis=1)) / 2, fod.grid, name="lumps")


def inputs_of(fod: Fod) -> Any:
    """Return what makes the tracking input of an exact run: of its changes and its extra."""
    from napari_tractography.model.parameters import TrackingParameters
    from napari_tractography.model.regions import Region
    from napari_tractography.model.seeds import Seeds
    from napari_tractography.tracking.inputs import TrackingInput

    drawn = Seeds.from_fod(fod, N_EXACT).positions_mm
    seeds = Seeds.at(drawn, np.random.default_rng(0).normal(size=(N_EXACT, 3)))
    where = drawn[:: max(N_EXACT // 4, 1)]
    peaks, tensors = vectors_of(fod)
    others = {"peaks": peaks, "tensors": tensors, "odd": rounded(with_odd_degrees(fod))}
    regions = {
        "regions": [
            Region.sphere(where[0], 20.0, "include"),
            Region.sphere(where[1], 4.0, "stop"),
            Region.mask(fod.support, fod.grid, "include"),
            Region.sphere(where[2], 3.0, "exclude"),
        ],
        "ends": [Region.sphere(place, 12.0, "end") for place in where],
    }
    tissues = tissues_of(fod)

    def given(changes: dict[str, Any], extra: str) -> TrackingInput:
        return TrackingInput(
            others.get(extra, fod),
            seeds,
            TrackingParameters(step_mm=0.5, max_length_mm=100.0).replace(**changes),
            mask=fod.support if extra == "mask" else None,
            regions=regions.get(extra, ()),
            tissues=tissues if extra == "tissues" else None,
        )

    return given


def export(
    path: Path,
    fod: Fod,
    *,
    speed: Collection[str] = (),
    exact: Collection[str] = (),
    spot_mm: Sequence[float] = SPOT_MM,
) -> None:
    """Write runs of an FOD, which half floats hold; tracks the first seeds of each on the CPU.

    Parameters
    ----------
    path : Path
    fod : Fod
    speed : collection of str
        From where the runs that are timed start: "spot", "all", "brain".
    exact : collection of str
        Of :data:`EXACT`.
    spot_mm : (3,) sequence of float
        Centre of the spot, RAS+ mm.
    """
    from napari_tractography.model.parameters import TrackingParameters
    from napari_tractography.model.seeds import Seeds
    from napari_tractography.streamlines.tractogram import Tractogram
    from napari_tractography.tracking.cpu import cpu_backend as cpu
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
        arrays[key] = as_half(value)
        return {"array": key, "dtype": value.dtype.str, "frozen": not value.flags.writeable}

    def written(run: Any, *, n_timed: int = 0) -> dict[str, Any]:
        plan = make_plan(run)
        first = with_seeds(plan, min(N_CHECKED, plan.n_seeds))
        found = Tractogram.concatenate(list(cpu.iter_chunks(first)))
        lengths = found.lengths_mm.astype(float) if len(found) else np.zeros(1)
        parts = {
            "field": plan.field,
            "settings": plan.settings,
            "regions": plan.regions,
            "tissues": plan.regions.tissues,
        }
        return {
            **{
                part: {k: kept(v) for k, v in values._asdict().items() if k not in LEFT_OUT}
                for part, values in parts.items()
            },
            "scale": kept(getattr(plan.table, "scale", None)),
            "positions": kept(plan.positions_mm),
            "seed_directions": kept(plan.seed_directions),
            "parameters": run.parameters.to_dict(),
            "n_timed": n_timed,
            "expected": {
                "digest": found.digest(),
                "n_streamlines": len(found),
                "mean_mm": float(lengths.mean()),
                "tally": {int(reason): n for reason, n in found.tally.items()},
            },
        }

    runs: dict[str, Any] = {}
    given = inputs_of(fod) if exact else None
    for name in exact:
        runs[name] = written(given(*EXACT[name]))
    for name, (where, changes) in SPEED.items():
        if where not in speed:
            continue
        if where == "brain":
            parameters = TrackingParameters.for_fod(fod, **changes)
        else:
            parameters = TrackingParameters(**{**FIBERCUP, **changes})
        if where in ("spot", "twelve"):
            seeds = Seeds.in_sphere(spot_mm, SPOT_RADIUS_MM, N_STORED[where])
        else:
            seeds = Seeds.in_mask(fod.support, fod.grid, N_STORED[where])
        tracked = with_degrees(fod, 12) if where == "twelve" else fod
        run = TrackingInput(tracked, seeds, parameters)
        runs[name] = written(run, n_timed=N_TIMED[where])
    arrays["header"] = np.frombuffer(json.dumps({"fod": fod.name, "runs": runs}).encode(), np.uint8)
    np.savez_compressed(path, **arrays)


def export_named(name: str, path: Path, data: Path = DATA) -> None:
    """Write "fibercup", with what must agree, or "brain", of the shared data in a folder."""
    if name == "brain":
        from brain_volume import TEMPLATE, make_brain

        template = data / TEMPLATE.relative_to(DATA)
        fod = make_brain(template if template.exists() else None)
        export(path, rounded(fod, DROPPED_BITS), speed=("brain",))
    else:
        fod = rounded(fibercup(data / "fibercup"))
        export(path, fod, speed=("spot", "twelve", "all"), exact=tuple(EXACT))


def as_half(array: np.ndarray) -> np.ndarray:
    """Return an array of float32 as half floats where they hold all of it; others as they are."""
    if array.dtype != np.float32:
        return array
    with np.errstate(over="ignore"):
        halves = array.astype(np.float16)
    return halves if np.array_equal(halves, array, equal_nan=True) else array


def read(*paths: Path) -> dict[str, Run]:
    """Read the runs of files: those that are timed first, the telling ones of them before all."""
    runs: dict[str, Run] = {}
    for path in paths:
        runs |= _read(path)
    order = list(SPEED)
    return dict(
        sorted(runs.items(), key=lambda item: order.index(item[0]) if item[0] in order else 99)
    )


def _read(path: Path) -> dict[str, Run]:
    with np.load(path, allow_pickle=False) as file:
        arrays = {name: file[name] for name in file.files}
    header = json.loads(arrays.pop("header").tobytes())
    views: dict[tuple[str, bool], np.ndarray] = {}

    def found(value: Any) -> Any:
        if isinstance(value, dict) and "array" in value:
            key = value["array"], value["frozen"]
            if key not in views:
                views[key] = arrays[key[0]].astype(value["dtype"])
                # Numba compiles again for arrays that may be written where others may not.
                views[key].flags.writeable = not value["frozen"]
            return views[key]
        return value

    def part(kind: Any, stored: dict[str, Any], **more: Any) -> Any:
        values = {name: found(value) for name, value in stored.items()} | more
        if kind is Settings:  # for Numba, which tells float32 from float64
            values = {n: np.float32(v) if isinstance(v, float) else v for n, v in values.items()}
            values |= {name: np.uint64(values[name]) for name in ("key_0", "key_1")}
        return kind(**values)

    rows: dict[int, dict[str, Any]] = {}  # by FOD

    def world(stored: dict[str, Any]) -> tuple[Any, Any]:
        """Return field and table."""
        if "vectors" in stored["field"]:
            field = part(VectorField, stored["field"])
            return field, VectorTable(
                field.voxel_rows, field.vectors, field.to_voxel, field.is_tensor
            )
        fod, change = (found(stored["field"][name]) for name in ("values", "change"))
        if id(fod) not in rows:
            rows[id(fod)] = empty_rows(*fod.shape, change.shape[1])
        field = part(
            Field,
            stored["field"],
            **rows[id(fod)],
            shifts=tuple(found(stored["field"]["shifts"])),
        )
        lmax, is_asymmetric = degrees_of(fod.shape[1])
        scale = np.float32(stored["scale"])
        of_table = {"lmax": lmax, "scale": scale, "is_asymmetric": is_asymmetric}
        names = [f.name for f in fields(FodTable) if f.name not in of_table]
        return field, FodTable(**{name: getattr(field, name) for name in names}, **of_table)

    runs = {}
    for name, stored in header["runs"].items():
        field, table = world(stored)
        tissues = part(KernelTissues, stored["tissues"])
        plan = Plan(
            positions_mm=found(stored["positions"]),
            seed_directions=found(stored["seed_directions"]),
            table=table,
            field=field,
            settings=part(Settings, stored["settings"]),
            regions=part(Regions, stored["regions"], tissues=tissues),
        )
        runs[name] = Run(plan, stored["expected"], stored["parameters"], stored["n_timed"])
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
