"""What volumes are: FODs of all sorts are told from all that has as many volumes."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import scans
from scans import FROM_DIPY, Values

from napari_tractography.errors import InvalidParameterError
from napari_tractography.fields.input_kind import N_FIRST
from napari_tractography.fields.kinds import checked_kind, read_kinds, recognise
from napari_tractography.fields.readings import BASES, CHOICES, TRACKED
from napari_tractography.fields.sh import sh_matrix
from napari_tractography.model.phantoms import PHANTOMS, make_phantom

pytestmark = pytest.mark.filterwarnings("ignore:The legacy descoteaux07:PendingDeprecationWarning")

LMAXES = range(2, 17, 2)
SH_COUNTS = (6, 15, 28, 45)


def kind_of(values: Values, n_seen: int | None = None) -> str:
    used = values[(np.nan_to_num(values) != 0).any(axis=1)]
    return recognise(used[:, :n_seen], values.shape[1]).name


def rng() -> np.random.Generator:
    return np.random.default_rng(3)


def lobes(lmax: int, basis: str, n_fibres: int = 2) -> Values:
    """FODs of a few fibres in any direction, each as narrow as lmax allows."""
    units = rng().normal(size=(100, n_fibres, 3))
    units /= np.linalg.norm(units, axis=2, keepdims=True)
    rows = sh_matrix(units.reshape(-1, 3), lmax, basis).reshape(100, n_fibres, -1)
    return rows.mean(axis=1).astype(np.float32)


def stack(n: int, values: Callable[[np.random.Generator], np.ndarray]) -> Values:
    generator = rng()
    return np.stack([values(generator) for _ in range(n)], axis=1).astype(np.float32)


@pytest.mark.parametrize("basis", BASES)
@pytest.mark.parametrize("lmax", LMAXES)
def test_fods_are_told_in_every_basis_and_of_every_degree(lmax: int, basis: str) -> None:
    for n_fibres in (1, 3):
        assert kind_of(lobes(lmax, basis, n_fibres)) == "sh"
        assert kind_of(lobes(lmax, basis, n_fibres), N_FIRST) == "sh"


@pytest.mark.parametrize("lmax", [2, 4, 8, 16])
@pytest.mark.parametrize("name", PHANTOMS)
def test_phantoms_are_fods(name: str, lmax: int) -> None:
    assert kind_of(make_phantom(name, lmax=lmax).values) == "sh"


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
def test_scale_and_noise_change_nothing(scale: float) -> None:
    values = lobes(8, "tournier07")
    noise = 0.2 * rng().normal(size=values.shape) * np.sqrt(np.square(values).mean())
    assert kind_of((scale * (values + noise)).astype(np.float32)) == "sh"


@pytest.mark.parametrize("n_fibres", [1, 2])
@pytest.mark.parametrize("lmax", LMAXES)
def test_an_fod_of_the_wrong_sign_is_unclear(lmax: int, n_fibres: int) -> None:
    assert kind_of(-lobes(lmax, "tournier07", n_fibres)) == "unclear"


def test_noise_outside_the_brain_does_not_hide_an_fod() -> None:
    brain = lobes(8, "tournier07")
    background = 0.02 * rng().normal(size=(300, brain.shape[1])).astype(np.float32)
    assert kind_of(np.concatenate([brain, background])) == "sh"


@pytest.mark.parametrize("direction", [(1, 0, 0), (0, 1, 0), (0, 0, 1), (1, 0, 1), (0, 1, -1)])
@pytest.mark.parametrize("lmax", [4, 8])
def test_fibres_in_one_direction_are_an_fod(direction: tuple[int, ...], lmax: int) -> None:
    """Of a tiny crop, even if it is of a single voxel."""
    unit = np.array([direction]) / np.linalg.norm(direction)
    assert kind_of(sh_matrix(unit, lmax, "tournier07").astype(np.float32)) == "sh"


@pytest.mark.parametrize("lmax", [4, 6, 8])
def test_fods_and_odfs_of_dipy_are_told(lmax: int) -> None:
    assert kind_of(scans.csd(lmax)) == "sh"
    assert kind_of(scans.csa(lmax)) == "sh"


@pytest.mark.parametrize("order", FROM_DIPY)
def test_tensors_are_told_with_their_order(order: str) -> None:
    values = scans.tensors()[:, FROM_DIPY[order]]
    found = recognise(values, 6)
    assert found.name == "tensor"
    assert found.order == order


def test_kurtosis_is_told() -> None:
    values = scans.kurtosis()
    assert values.shape[1] == 15
    assert kind_of(values) == kind_of(values, N_FIRST) == "kurtosis"


@pytest.mark.parametrize("unit", [False, True], ids=["amplitudes", "unit vectors"])
@pytest.mark.parametrize("n", [1, 2, 3, 5])
@pytest.mark.parametrize("empty", [0.0, np.nan])
def test_peaks_are_told(n: int, unit: bool, empty: float) -> None:
    values = scans.peaks(n, unit=unit)
    values = np.where(values == 0, np.float32(empty), values)
    assert kind_of(values) == "peaks"


def test_peaks_of_which_every_voxel_lacks_some_are_told() -> None:
    values = np.pad(scans.peaks(1, unit=True), ((0, 0), (0, 6)), constant_values=np.nan)
    assert kind_of(values) == "peaks"


@pytest.mark.parametrize("n", SH_COUNTS)
def test_peaks_towards_one_side_are_no_fod(n: int) -> None:
    """Some programs flip all vectors, so that the first component is never negative."""
    values = np.pad(scans.peaks(2, unit=False), ((0, 0), (0, n - 6)))
    values[:, :3] *= np.where(values[:, :1] < 0, -1, 1)
    assert kind_of(values) not in ("sh", "tensor")


MAPS: dict[str, Callable[[np.random.Generator], np.ndarray]] = {
    "T1-weighted images": lambda g: g.normal(800, 30, 200),
    "functional images": lambda g: np.linspace(300, 900, 200) + g.normal(0, 9, 200),
    "tract probabilities": lambda g: np.where(g.random(200) < 0.1, g.random(200), 0),
}


@pytest.mark.parametrize("n", SH_COUNTS)
@pytest.mark.parametrize("name", MAPS)
def test_series_of_images_are_told(name: str, n: int) -> None:
    assert kind_of(stack(n, MAPS[name])) == "series"
    assert kind_of(stack(n, MAPS[name]), N_FIRST) == "series"


@pytest.mark.parametrize("n", [*SH_COUNTS, 7, 33])
def test_a_dwi_is_told(n: int) -> None:
    assert kind_of(scans.dwi(n)) == "series"
    assert kind_of(scans.dwi(n)[:, ::-1]) == "series"  # b = 0 is not first
    assert kind_of(np.round(scans.dwi(n))) == "series"
    assert kind_of(scans.dwi(n)[:, :1] - scans.dwi(n)) != "sh"


@pytest.mark.parametrize("n", SH_COUNTS)
def test_masks_maps_and_noise_are_no_fod(n: int) -> None:
    assert kind_of(stack(n, lambda g: g.random(200) < 0.5)) == "masks"
    assert kind_of(stack(n, lambda g: 255 * (g.random(200) < 0.5))) == "masks"
    assert kind_of(stack(n, lambda g: g.normal(size=200))) == "unclear"
    assert kind_of(stack(1, lambda g: g.random(200))) == "map"


def test_maps_without_directions_are_told() -> None:
    values = np.zeros((50, 45), np.float32)
    values[:, 0] = 1.0
    assert kind_of(values + 1e-4 * rng().normal(size=values.shape)) == "isotropic"


def test_amplitudes_along_directions_are_no_fod() -> None:
    for n in SH_COUNTS:
        units = rng().normal(size=(n, 3))
        units /= np.linalg.norm(units, axis=1, keepdims=True)
        values = scans.csd(8) @ sh_matrix(units, 8, "descoteaux07_legacy").T
        assert kind_of(values.astype(np.float32)) in ("series", "unclear")
        assert kind_of(values.clip(min=0).astype(np.float32)) == "series"


@pytest.mark.parametrize("kind", ["SH", "", "fod", "kurtosis"])
def test_an_unknown_kind_is_named(kind: str) -> None:
    with pytest.raises(InvalidParameterError, match=f"{kind!r} is unknown.*auto, sh"):
        checked_kind(kind)


def test_kinds_that_can_be_asked_for() -> None:
    assert [checked_kind(kind) for kind in CHOICES] == ["auto", "sh", "peaks", "tensor"]
    with pytest.raises(InvalidParameterError, match="kind = 'dwi' is unknown; choose one of auto,"):
        checked_kind("dwi")


def test_the_help_names_the_kinds_that_files_are_read_as() -> None:
    assert tuple(read_kinds()) == TRACKED
