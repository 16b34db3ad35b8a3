"""Volumes whose right reading is known: FODs, noisy, turned and rewritten, and what is no FOD.

Called by ``coherence.py``.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import nibabel as nib
import numpy as np
from scipy.ndimage import binary_dilation, gaussian_filter
from scipy.spatial.transform import Rotation

import napari_tractography as nt
from napari_tractography.fields.sh import sh_matrix
from napari_tractography.geometry.directions import direction_set
from napari_tractography.maps.fod_readings import PERMUTATIONS
from napari_tractography.model.fod import Fod
from napari_tractography.model.phantoms import make_phantom

DATA = Path(__file__).resolve().parents[2] / "shared" / "data"
FILES = {
    "FiberCup": "fibercup/fod.nii.gz",
    "brain template": "brain/fod_template.mif.gz",
    "brain template as NIfTI": "reference/brain_fod_as_nifti.nii.gz",
    "yoga": "yoga/fod_sh8.nii.gz",
    "SIFT phantom": "act/fods.mif",
    "cross": "cross/fod.nii.gz",
}
PEAKS = "subject/peaks.nii.gz"
# Basis and axes in which files are written.
READINGS = (
    ("tournier07", "+x+y+z"),
    ("tournier07", "+x+z+y"),
    ("tournier07", "-x+y+z"),
    ("tournier07", "+y+z+x"),
    ("descoteaux07", "+x+y+z"),
    ("tournier07_legacy", "+x+y+z"),
    ("tournier07_legacy", "+x+z+y"),
    ("descoteaux07_legacy", "+x+y-z"),
)
# Phantom, lmax, number of gradient directions, b-value in s/mm^2, signal-to-noise ratio.
SCANS = (
    ("arcs", 6, 64, 1000.0, 20.0),
    ("arcs", 8, 64, 1000.0, 20.0),
    ("arcs", 4, 30, 1000.0, 10.0),
    ("letter", 6, 32, 1000.0, 15.0),
    ("arcs", 8, 64, 3000.0, 15.0),
    ("cross", 6, 64, 1000.0, 20.0),
)
NOISES = (0.3, 1.0, 3.0)  # of coefficients, relative to their root mean square
N_TURNS = 6
ALONG, ACROSS, TISSUE = 1.7e-3, 0.3e-3, 0.9e-3  # diffusivities, mm^2/s
SAMPLES = direction_set(724)[:362].astype(np.float64)


@dataclass(frozen=True)
class Case:
    """A volume and its right reading; the basis is None where it is no FOD."""

    group: str
    label: str
    make: Callable[[], Fod]
    basis: str | None = None
    axes: str = ""


def cases(random_seed: int) -> Iterator[Case]:
    """Yield all cases, with noise and rotations from a random seed."""
    seeds = iter(range(1000 * random_seed, 1000 * (random_seed + 1)))
    for name in FILES:
        for reading in READINGS:
            make = partial(written, partial(stored_fod, name), *reading)
            yield Case("files", f"{name}, {' '.join(reading)}", make, *reading)
    for name, lmax in (("arcs", 6), ("letter", 4), ("cross", 8), ("arcs-oblique", 8)):
        for reading in READINGS[::2]:
            make = partial(written, partial(make_phantom, name, lmax=lmax), *reading)
            yield Case("phantoms", f"{name}, lmax {lmax}, {' '.join(reading)}", make, *reading)
    for name, lmax, n, b, snr in SCANS:
        for reading in READINGS:
            phantom = partial(make_phantom, name, lmax=lmax)
            scan = partial(scanned, phantom, n, b, snr, next(seeds))
            label = f"{name}, lmax {lmax}, {n} directions, b {b:g}, SNR {snr:g}"
            make = partial(written, scan, *reading)
            yield Case("noisy scans", f"{label}, {' '.join(reading)}", make, *reading)
    for name, lmax in (("arcs", 8), ("letter", 4), ("cross", 6)):
        for level in NOISES:
            for reading in READINGS[1::2]:
                phantom = partial(make_phantom, name, lmax=lmax)
                noisy = partial(_with_noise, phantom, level, next(seeds))
                label = f"{name}, lmax {lmax}, noise {level:g}, {' '.join(reading)}"
                make = partial(written, noisy, *reading)
                yield Case("noisy coefficients", label, make, *reading)
    for turn in range(N_TURNS):
        phantom = partial(_turned, "arcs", 6, 100 * random_seed + turn)
        for reading in (*READINGS[:2], READINGS[5]):
            scan = partial(scanned, phantom, 64, 1000.0, 20.0, next(seeds))
            make = partial(written, scan, *reading)
            label = f"arcs, turn {turn}, b 1000, {' '.join(reading)}"
            yield Case("noisy scans, turned", label, make, *reading)
    yield from _no_fods(random_seed)


def _no_fods(random_seed: int) -> Iterator[Case]:
    rng = np.random.default_rng(random_seed)

    def case(label: str, make: Callable[[], Fod]) -> Case:
        return Case("no FOD", label, make)

    for n in (6, 15, 28, 45):
        yield case(f"arcs, DWI of {n}", partial(_phantom_dwi, n, rng))
        yield case(f"brain, DWI of {n}", partial(_brain_dwi, n, rng))
        for mean in (0.0, 3.0):
            yield case(f"noise of {n}, mean {mean:g}", partial(_noise, n, mean, 0.0, rng))
    for width in (1.0, 2.0):
        yield case(f"noise of 15, blurred {width:g}", partial(_noise, 15, 0.0, width, rng))
    for order in ("mrtrix", "fsl", "dipy"):
        yield case(f"arcs, tensor, {order}", partial(_phantom_tensor, order, rng))
        yield case(f"brain, tensor, {order}", partial(_brain_tensor, order, rng))
    for n in (2, 5):
        for sign in (False, True):
            label = f"brain, {n} peaks{', towards +x' if sign else ''}"
            yield case(label, partial(_brain_peaks, n, sign))


@functools.cache
def stored_fod(name: str) -> Fod:
    return nt.load_fod(_existing(FILES[name]))


def _existing(name: str) -> Path:
    if not (DATA / name).exists():
        raise FileNotFoundError(f"{DATA / name} is absent")
    return DATA / name


def written(make: Callable[[], Fod], basis: str, axes: str) -> Fod:
    """Return a tournier07 FOD written in another basis and axes, but read as before."""
    fod = make()
    source = sh_matrix(SAMPLES, fod.lmax, "tournier07")
    target = sh_matrix(SAMPLES @ PERMUTATIONS[axes].T, fod.lmax, basis)
    change = np.linalg.lstsq(target, source, rcond=None)[0].astype(np.float32)
    return Fod(fod.coefficients @ change.T, fod.grid)


def _turned(name: str, lmax: int, random_seed: int) -> Fod:
    affine = np.eye(4)
    affine[:3, :3] = 2.0 * Rotation.random(random_state=random_seed).as_matrix()
    return make_phantom(name, affine=affine, lmax=lmax)


def _tissue(fod: Fod, margin: int) -> np.ndarray:
    return binary_dilation(fod.support, iterations=margin)


def _with_noise(make: Callable[[], Fod], level: float, random_seed: int) -> Fod:
    """Add white noise to the coefficients, in the bundles and one voxel around them."""
    fod = make()
    sigma = level * np.sqrt(np.square(fod.values[:, 1:]).mean())
    noise = sigma * np.random.default_rng(random_seed).normal(size=fod.coefficients.shape)
    noisy = (fod.coefficients + noise) * _tissue(fod, 1)[..., None]
    return Fod(noisy.astype(np.float32), fod.grid)


def _degrees(lmax: int) -> np.ndarray:
    degrees = np.arange(0, lmax + 1, 2)
    return np.repeat(degrees, 2 * degrees + 1)


def _response(lmax: int, b: float) -> np.ndarray:
    """Return for each coefficient what a fibre's signal keeps of it."""
    cosines, weights = np.polynomial.legendre.leggauss(64)
    signal = np.exp(-b * (ACROSS + (ALONG - ACROSS) * cosines**2))
    legendre = np.polynomial.legendre.legvander(cosines, lmax)
    return (2.0 * np.pi * (weights * signal) @ legendre)[_degrees(lmax)]


def _signal(fod: Fod, units: np.ndarray, b: float) -> np.ndarray:
    """Return (x, y, z, n) signals relative to b = 0: fibres, and isotropic tissue for the rest."""
    volume = fod.coefficients[..., 0] * np.sqrt(4.0 * np.pi)
    full = np.percentile(volume[volume > 0], 99)
    fibres = (fod.coefficients / full * _response(fod.lmax, b)) @ fod.sample_matrix(units).T
    rest = 1.0 - np.clip(volume / full, 0.0, 1.0)
    return np.clip(fibres, 0.0, None) + rest[..., None] * np.exp(-b * TISSUE)


def _gradients(n: int, rng: np.random.Generator) -> np.ndarray:
    turn = Rotation.random(random_state=int(rng.integers(1 << 30))).as_matrix()
    return direction_set(2 * n)[:n].astype(np.float64) @ turn.T


def _magnitude(signal: np.ndarray, snr: float, rng: np.random.Generator) -> np.ndarray:
    """Return the signal with Rician noise."""
    real, imaginary = rng.normal(size=(2, *signal.shape)) / snr
    return np.hypot(signal + real, imaginary)


def scanned(make: Callable[[], Fod], n: int, b: float, snr: float, random_seed: int) -> Fod:
    """Return the FOD of a noisy scan of a phantom: regularised fit, damped deconvolution."""
    fod = make()
    rng = np.random.default_rng(random_seed)
    units = _gradients(n, rng)
    tissue = _tissue(fod, 2)
    signal = _magnitude(_signal(fod, units, b)[tissue], snr, rng)
    matrix, degrees = fod.sample_matrix(units), _degrees(fod.lmax)
    smoothness = np.diag(6e-5 * (degrees * (degrees + 1.0)) ** 2)
    fit = signal @ np.linalg.solve(matrix.T @ matrix + smoothness, matrix.T).T
    response = _response(fod.lmax, b)
    coefficients = np.zeros((*fod.grid.shape, len(degrees)), np.float32)
    coefficients[tissue] = fit * response / (response**2 + (0.02 * response[0]) ** 2)
    return Fod(coefficients, fod.grid)


def _phantom_dwi(n: int, rng: np.random.Generator) -> Fod:
    """Return n volumes of a scan, the first at b = 0."""
    fod = make_phantom("arcs")
    units = _gradients(n - 1, rng)
    signal = np.concatenate([np.ones((*fod.grid.shape, 1)), _signal(fod, units, 1000.0)], axis=-1)
    return Fod(_magnitude(signal, 20.0, rng) * _tissue(fod, 4)[..., None], fod.grid)


@functools.cache
def _peaks() -> tuple[np.ndarray, np.ndarray]:
    image = nib.load(_existing(PEAKS))
    return np.nan_to_num(np.asarray(image.dataobj, dtype=np.float32)), image.affine


def _brain_peaks(n: int, towards_x: bool) -> Fod:
    """Return n peaks a voxel, of which the file has three; the others are 0."""
    peaks, affine = _peaks()
    if towards_x:
        vectors = peaks.reshape(-1, 3)
        peaks = (vectors * np.where(vectors[:, :1] < 0, -1, 1)).reshape(peaks.shape)
    return Fod(np.pad(peaks, ((0, 0),) * 3 + ((0, 6),))[..., : 3 * n], affine)


def _tensors(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Return (x, y, z, 3, 3) tensors that have the peaks' directions, and the brain's mask."""
    peaks, _ = _peaks()
    vectors = peaks.reshape(*peaks.shape[:3], 3, 3)
    lengths = np.linalg.norm(vectors, axis=-1, keepdims=True)
    outer = np.einsum("xyzki,xyzkj->xyzij", vectors, vectors / np.maximum(lengths, 1e-9))
    outer /= np.maximum(lengths.sum(axis=3), 1e-9)[..., None]
    tensors = 0.4e-3 * np.eye(3) + 1e-3 * outer + 3e-5 * rng.normal(size=outer.shape)
    return (tensors + np.swapaxes(tensors, -1, -2)) / 2.0, lengths[..., 0, 0] > 0


def _brain_dwi(n: int, rng: np.random.Generator) -> Fod:
    tensors, brain = _tensors(rng)
    units = _gradients(n - 1, rng)
    bare = 1.0 + 0.3 * rng.random((*brain.shape, 1))
    weighted = bare * np.exp(-1000.0 * np.einsum("xyzij,ni,nj->xyzn", tensors, units, units))
    signal = _magnitude(np.concatenate([bare, weighted], axis=-1), 20.0, rng)
    return Fod(signal * brain[..., None], _peaks()[1])


ELEMENTS = {
    "mrtrix": ((0, 0), (1, 1), (2, 2), (0, 1), (0, 2), (1, 2)),
    "fsl": ((0, 0), (0, 1), (0, 2), (1, 1), (1, 2), (2, 2)),
    "dipy": ((0, 0), (0, 1), (1, 1), (0, 2), (1, 2), (2, 2)),
}


def _brain_tensor(order: str, rng: np.random.Generator) -> Fod:
    tensors, brain = _tensors(rng)
    elements = np.stack([tensors[..., i, j] for i, j in ELEMENTS[order]], axis=-1)
    return Fod(elements * brain[..., None], _peaks()[1])


def _phantom_tensor(order: str, rng: np.random.Generator) -> Fod:
    fod = make_phantom("arcs")
    units = _gradients(60, rng)
    signal = _magnitude(_signal(fod, units, 1000.0), 30.0, rng)
    factors = np.stack(
        [units[:, i] * units[:, j] * (1 + (i != j)) for i, j in ELEMENTS[order]], axis=1
    )
    elements = -np.log(np.clip(signal, 0.05, None)) / 1000.0 @ np.linalg.pinv(factors).T
    return Fod(elements * _tissue(fod, 4)[..., None], fod.grid)


def _noise(n: int, mean: float, width: float, rng: np.random.Generator) -> Fod:
    """Return n volumes of noise, blurred by a Gaussian of that width, in voxels."""
    values = rng.normal(size=(20, 20, 20, n))
    values[..., 0] += mean
    return Fod(gaussian_filter(values, (width, width, width, 0.0)), np.eye(4))
