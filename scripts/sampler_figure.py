"""Draw docs/images/sampler.svg: how a direction is drawn, and what comes out.

``python scripts/sampler_figure.py`` takes some seconds and needs Matplotlib. It prints p of a
chi-square test of what it draws.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray
from scipy.stats import chisquare

import napari_tractography as nt
from napari_tractography.model.phantoms import make_phantom

PICTURE = Path(__file__).resolve().parent.parent / "docs" / "images" / "sampler.svg"
CONE_DEG = 45.0
PLACE_MM = np.array(
    [0.6, 0.9, 0.0]
)  # beside the middle of the crossing, so that one fibre is larger
ALONG = np.array([1.0, 0.0, 0.0])  # between the fibres, which lie 30 degrees to either side
N_DRAWS = 200_000
N_BINS = 45
N_ACROSS, N_DOWN = 2000, 400  # points of the integral in the cone
N_TRIED = 26  # directions shown
STEP_MM = 0.2
INK, FOD, TAKEN, REJECTED, GREY = "#1c2130", "#2f6fed", "#30a46c", "#e5484d", "#b9bfca"


def draws_deg(fod: nt.Fod) -> NDArray[np.float64]:
    """Return the angles in the plane of the fibres of single steps of the program, (n,) degrees."""
    parameters = nt.TrackingParameters(
        max_angle_deg=CONE_DEG,
        step_mm=STEP_MM,
        max_length_mm=STEP_MM,
        start="given",
        direction="forward",
        min_amplitude=0.0,
    )
    seeds = nt.Seeds.at(np.tile(PLACE_MM, (N_DRAWS, 1)), np.tile(ALONG, (N_DRAWS, 1)))
    steps = np.diff(nt.track(fod, seeds, parameters).points.reshape(-1, 2, 3), axis=1)[:, 0]
    return np.asarray(np.rad2deg(np.arctan2(steps[:, 1], steps[:, 0])), dtype=np.float64)


def coefficients_at(fod: nt.Fod, place_mm: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the trilinear mean of the coefficients of the eight voxels around, in 64 bits."""
    at = fod.grid.to_voxel(place_mm[None])[0]
    low = np.floor(at).astype(int)
    mean = np.zeros(fod.coefficients.shape[3])
    for corner in np.ndindex(2, 2, 2):
        weight = np.prod(np.where(corner, at - low, 1 - (at - low)))
        mean += weight * fod.coefficients[tuple(low + corner)].astype(np.float64)
    return mean


def expected(fod: nt.Fod, edges_deg: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the probability of each bin of angles, from the spherical harmonics."""
    height = 1.0 - np.cos(np.deg2rad(CONE_DEG))
    down = (np.arange(N_DOWN) + 0.5) / N_DOWN * height  # even in solid angle
    around = (np.arange(N_ACROSS) + 0.5) / N_ACROSS * 2 * np.pi
    radius = np.sqrt(down * (2 - down))
    units = np.empty((N_DOWN, N_ACROSS, 3))
    units[..., 0] = (1 - down)[:, None]
    units[..., 1] = radius[:, None] * np.cos(around)
    units[..., 2] = radius[:, None] * np.sin(around)
    units = units.reshape(-1, 3)
    amplitudes = np.maximum(fod.sample_matrix(units) @ coefficients_at(fod, PLACE_MM), 0.0)
    angles = np.rad2deg(np.arctan2(units[:, 1], units[:, 0]))
    mass = np.histogram(angles, edges_deg, weights=amplitudes)[0]
    return np.asarray(mass / mass.sum())


def draw_tries(axes: Any, fod: nt.Fod) -> None:
    """Show the FOD in the plane of the fibres, cone, bound, and directions that are tried."""
    mean = coefficients_at(fod, PLACE_MM)

    def amplitude(angle: NDArray[np.float64]) -> NDArray[np.float64]:
        units = np.stack([np.cos(angle), np.sin(angle), np.zeros_like(angle)], axis=1)
        return np.maximum(fod.sample_matrix(units) @ mean, 0.0)

    around = np.linspace(0, 2 * np.pi, 721)
    bound = 1.08 * amplitude(around).max()
    half = np.deg2rad(CONE_DEG)
    inside = np.linspace(-half, half, 181)
    axes.fill(around, amplitude(around), color=GREY, alpha=0.45, lw=0)
    axes.fill_between(inside, 0, amplitude(inside), color=FOD, alpha=0.35, lw=0)
    axes.plot(around, amplitude(around), color=FOD, lw=1.4)
    axes.plot(inside, np.full_like(inside, bound), color=INK, lw=1.2)
    for side in (-half, half):
        axes.plot([side, side], [0, bound], color=INK, lw=1.2)
    axes.annotate(
        "", (0, 0), (np.pi, 0.55 * bound), arrowprops={"arrowstyle": "->", "color": INK, "lw": 1.6}
    )
    tried = np.random.default_rng(2).uniform(size=(N_TRIED, 2))
    angles, heights = (2 * tried[:, 0] - 1) * half, tried[:, 1] * bound
    taken = heights < amplitude(angles)
    axes.scatter(angles[taken], heights[taken], s=18, color=TAKEN, zorder=3, label="taken")
    axes.scatter(
        angles[~taken], heights[~taken], s=18, facecolors="white", edgecolors=REJECTED, zorder=3,
        label="rejected",
    )  # fmt: skip
    axes.text(half * 1.1, bound * 1.06, "cone", ha="center", color=INK)
    axes.text(0, bound * 1.04, "bound", ha="left", va="center", color=INK)
    axes.set_axis_off()
    axes.set_ylim(0, 1.02 * bound)
    axes.legend(loc="lower right", frameon=False, handletextpad=0.2)


def draw_histogram(axes: Any, angles: NDArray[np.float64], wanted: NDArray[np.float64]) -> None:
    """Show how often angles were drawn, beside how often they should be."""
    edges = np.linspace(-CONE_DEG, CONE_DEG, N_BINS + 1)
    width = edges[1] - edges[0]
    middles = (edges[:-1] + edges[1:]) / 2
    counts = np.histogram(angles, edges)[0]
    axes.bar(middles, counts / counts.sum() / width, width, color=GREY, label="drawn", lw=0)
    axes.plot(middles, wanted / width, color=FOD, lw=2, label="the FOD in the cone")
    axes.set_xlabel("angle in the plane of the fibres, degrees")
    axes.set_ylabel("density per degree")
    axes.set_xlim(-CONE_DEG, CONE_DEG)
    axes.set_xticks([-45, -30, -15, 0, 15, 30, 45])
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False)


def main() -> None:
    """Draw and test."""
    mpl.rcParams.update({"svg.hashsalt": "sampler", "svg.fonttype": "path", "font.size": 9})
    fod = make_phantom("cross")
    edges = np.linspace(-CONE_DEG, CONE_DEG, N_BINS + 1)
    angles, wanted = draws_deg(fod), expected(fod, edges)
    counts = np.histogram(angles, edges)[0]
    figure = Figure(figsize=(8.2, 3.4), facecolor="white", layout="constrained")
    draw_tries(figure.add_subplot(1, 2, 1, projection="polar"), fod)
    draw_histogram(figure.add_subplot(1, 2, 2), angles, wanted)
    PICTURE.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(PICTURE, metadata={"Date": None})
    print(f"{PICTURE.name}: p = {chisquare(counts, wanted * counts.sum()).pvalue:.3f}")


if __name__ == "__main__":
    main()
