"""The same phantom under other affines: streamlines must turn, stretch and mirror with it.

Called by ``validate.py``.
"""

from __future__ import annotations

import numpy as np
from scipy.spatial import cKDTree

import napari_tractography as nt
from napari_tractography.model.phantoms import make_phantom, phantom_mask

PHANTOM = "arcs"


def rotation(axis: tuple[float, float, float], degrees: float) -> np.ndarray:
    """Return the (3, 3) rotation about an axis."""
    x, y, z = np.array(axis) / np.linalg.norm(axis)
    cross = np.array([[0, -z, y], [z, 0, -x], [-y, x, 0]])
    angle = np.deg2rad(degrees)
    return np.eye(3) + np.sin(angle) * cross + (1 - np.cos(angle)) * cross @ cross


AFFINES = {
    "as drawn": np.eye(3),
    "rotated by 30 degrees about (1, 2, 3)": rotation((1, 2, 3), 30),
    "rotated by 137 degrees about (-2, 1, 1)": rotation((-2, 1, 1), 137),
    "mirrored": np.diag([-1.0, 1, 1]),
    "voxels of 1.2 x 2 x 3.1 mm, rotated": rotation((1, 1, -1), 65) @ np.diag([0.6, 1.0, 1.55]),
    "sheared, mirrored and rotated": rotation((0, 3, 1), 200)
    @ np.array([[-1.0, 0.3, 0.1], [0, 1.1, -0.2], [0, 0, 0.9]]),
}


def in_voxels(affine: np.ndarray, algorithm: str, n: int, random_seed: int) -> nt.Tractogram:
    """Track the phantom under an affine; return the streamlines in voxel coordinates."""
    fod = make_phantom(PHANTOM, affine=affine)
    mask = phantom_mask(PHANTOM)
    parameters = nt.TrackingParameters(
        algorithm=algorithm,
        start="max",
        step_mm=0.2,
        max_angle_deg=30.0,
        random_seed=random_seed,
    )
    streamlines = nt.track(fod, nt.Seeds.in_mask(mask, fod.grid, n), parameters, mask=mask)
    return nt.Tractogram(
        fod.grid.to_voxel(streamlines.points),
        streamlines.offsets,
        seed_index=streamlines.seed_index,
    )


def density(streamlines: nt.Tractogram) -> np.ndarray:
    """Return how many streamlines visit each voxel, over the phantom's grid."""
    shape = phantom_mask(PHANTOM).shape
    voxels = np.floor(streamlines.points + 0.5).astype(np.int64)
    line_of = np.repeat(np.arange(len(streamlines)), np.diff(streamlines.offsets))
    visits = np.unique(np.column_stack([line_of, voxels]), axis=0)
    result = np.zeros(shape)
    np.add.at(result, tuple(visits[:, 1:].T), 1)
    return result


def distances(a: nt.Tractogram, b: nt.Tractogram) -> np.ndarray:
    """Return for each seed in both the mean distance of its line in `a` to that in `b`, voxels."""
    lines_of_b = dict(zip(b.seed_index.tolist(), b, strict=True))
    return np.array(
        [
            cKDTree(lines_of_b[seed]).query(line)[0].mean()
            for seed, line in zip(a.seed_index.tolist(), a, strict=True)
            if seed in lines_of_b
        ]
    )


def affine_table(n: int) -> str:
    """Return the table: deterministic lines one by one, probabilistic ones as density maps."""
    mask = phantom_mask(PHANTOM)
    base = make_phantom(PHANTOM).grid.affine[:3, :3]
    reference = {
        algorithm: in_voxels(_affine(base), algorithm, n, 0)
        for algorithm in ("deterministic", "probabilistic")
    }
    again = in_voxels(_affine(base), "probabilistic", n, 1)
    maps = {"reference": density(reference["probabilistic"])}

    def correlation(streamlines: nt.Tractogram) -> float:
        return float(np.corrcoef(maps["reference"][mask], density(streamlines)[mask])[0, 1])

    lines = [
        f"The phantom `{PHANTOM}` is made again under each affine, with its fibres along the "
        f"turned bundles, and tracked from the same {n} seeds in its voxels; streamlines are "
        "brought back by the inverse affine and compared with those of the phantom as drawn. "
        "Deterministic: how far each lies from the one of the same seed, in voxels. "
        "Probabilistic: correlation of the density maps; two random seeds of "
        "the phantom as drawn give "
        f"{correlation(again):.4f}.",
        "",
        "| | distance, median | 95 % | density |",
        "|---|---:|---:|---:|",
    ]
    for label, linear in AFFINES.items():
        affine = _affine(linear @ base)
        apart = distances(in_voxels(affine, "deterministic", n, 0), reference["deterministic"])
        lines.append(
            f"| {label} | {np.median(apart):.3f} | {np.percentile(apart, 95):.3f} "
            f"| {correlation(in_voxels(affine, 'probabilistic', n, 0)):.4f} |"
        )
    return "\n".join(lines)


def _affine(linear: np.ndarray) -> np.ndarray:
    affine = np.eye(4)
    affine[:3, :3] = linear
    affine[:3, 3] = (11.0, -7.0, 3.0)
    return affine
