"""The ways in which an FOD file can be read: basis, frame, axes; where it holds none, axes alone.

Called by :mod:`.coherence`.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..fields.readings import AXES, BASES, DEFAULT_FRAMES, FRAMES
from ..fields.sh import sh_matrix
from ..fields.vectors import rotation_to_ras
from ..geometry.directions import direction_set
from ..model.fod import Fod

# Readings whose amplitudes differ by less, relative to the largest harmonic, are one reading:
# axes 0.05 degrees apart.
SAME_FOD = 3e-3
IDENTITY = "+x+y+z"
EXPANDED = "tournier07"  # the basis that all else is expanded to


class ReadingKey(NamedTuple):
    """One way to read the coefficients."""

    # basis, frame: as Fod takes them. Of what has neither what it is, such as "tensors in the order
    # fsl", and the axes that `load_fod(axes=...)` takes.
    basis: str
    frame: str
    # One of PERMUTATIONS: what the file's direction axes x, y, z are in truth, within the frame.
    # "+x+y+z" as they should be, "-x+y+z" with x flipped, "+y+x+z" with x and y swapped.
    axes: str

    @property
    def text(self) -> str:
        """The reading in words."""
        text = f"{self.basis}, {self.frame} axes"
        if self.axes == IDENTITY:
            return text
        names = [self.axes[k : k + 2] for k in (0, 2, 4)]
        if self.axes.replace("-", "+") == IDENTITY:
            return f"{text}, {next(n[1] for n in names if n[0] == '-')} flipped"
        return f"{text}, x y z being {' '.join(n.replace('+', '') for n in names)}"

    @property
    def n_changes(self) -> int:
        """How many characters of `axes` differ from those of an unchanged file."""
        return sum(a != b for a, b in zip(self.axes, IDENTITY, strict=True))

    @property
    def sh_basis(self) -> str:
        """The basis of the coefficients: those that all else was expanded to are ours."""
        return self.basis if self.basis in BASES else EXPANDED

    def rotation(self, fod: Fod) -> NDArray[np.float64]:
        """Return the (3, 3) matrix from RAS+ to the axes of the coefficients."""
        of_file = PERMUTATIONS[self.axes] @ rotation_to_ras(self.frame, fod.grid).T
        if self.basis in BASES:
            return np.asarray(of_file)
        assert fod.vectors is not None  # which were turned as they were read
        return np.asarray(rotation_to_ras(fod.vectors.axes, fod.grid) @ of_file)


def _signed_permutations() -> dict[str, NDArray[np.float64]]:
    """Return the 24 ways to swap and flip axes that differ for antipodally symmetric FODs.

    Keys name the true axis of each of the file's; the matrix maps true axes to the file's. Of a
    matrix and its negative, the one with fewer flips.
    """
    found: dict[str, NDArray[np.float64]] = {}
    for order in itertools.permutations(range(3)):
        for signs in itertools.product((1, -1), repeat=3):
            if signs.count(-1) > 1:
                continue
            matrix = np.zeros((3, 3))
            matrix[range(3), order] = signs
            key = "".join("+-"[s < 0] + "xyz"[k] for s, k in zip(signs, order, strict=True))
            found[key] = matrix
    return found


PERMUTATIONS = _signed_permutations()


def distinct_readings(fod: Fod) -> tuple[list[ReadingKey], list[tuple[str, ...]]]:
    """Return the readings that give different FODs, and for each the others of the same FOD, in
    words.

    The first is the one in use. Each is named by the plainest of its names.
    """
    units = direction_set(64)[:32].astype(np.float64)
    keys: list[ReadingKey] = []
    same: list[list[str]] = []
    tables: list[NDArray[np.float64]] = []
    what, in_use, frames = fod.basis, fod.frame, list(FRAMES)
    bases = sorted(BASES, key=lambda basis: basis != fod.basis)
    if reading := fod.vector_reading:
        order = reading["order"]
        what = f"{fod.input_kind.short} in the order {order}" if order else fod.input_kind.short
        bases, in_use, frames = [what], reading["axes"], list(AXES)
    axes_by_change = sorted(PERMUTATIONS, key=lambda axes: ReadingKey("", "", axes).n_changes)
    possible = [
        ReadingKey(basis, frame, axes)
        for axes, basis in itertools.product(axes_by_change, bases)
        for frame in sorted(frames, key=(in_use if basis == what else DEFAULT_FRAMES[basis]).__ne__)
    ]
    transforms = [(key.sh_basis, key.rotation(fod)) for key in possible]
    for key, table in zip(possible, turned_harmonics(units, fod.lmax, transforms), strict=True):
        for k, known in enumerate(tables):
            if np.abs(known - table).max() < SAME_FOD * np.abs(table).max():
                same[k].append(key.text)
                break
        else:
            tables.append(table)
            keys.append(key)
            same.append([])
    return keys, [tuple(others) for others in same]


def turned_harmonics(
    units: NDArray[np.float64], lmax: int, transforms: Sequence[tuple[str, NDArray[np.float64]]]
) -> NDArray[np.float64]:
    """Return the harmonics at the (n, 3) unit vectors, turned: (n_transforms, n, n_values) float64.

    A transform is a basis, and the (3, 3) rotation from RAS+ to the axes of the coefficients.
    """
    turned = np.stack([units @ rotation.T for _, rotation in transforms])
    bases = np.array([basis for basis, _ in transforms])
    tables = np.empty((*turned.shape[:2], (lmax + 1) * (lmax + 2) // 2))
    for basis in np.unique(bases):  # at once: a call of DIPY's takes longer than its hundred values
        of_basis = bases == basis
        found = sh_matrix(turned[of_basis].reshape(-1, 3), lmax, str(basis))
        tables[of_basis] = found.reshape(tables[of_basis].shape)
    return tables


def other_rotations(
    rotations: NDArray[np.float64], n_rotations: int, min_angle_deg: float
) -> NDArray[np.float64]:
    """Return (m, 3, 3) float64 rotations far from all given ones: directions as no reading has
    them.

    So many are drawn, uniformly and always the same; those within `min_angle_deg` of one of the (n,
    3, 3) orthogonal matrices are left out. A matrix and its negative count as one, as they do for
    an antipodally symmetric FOD.
    """
    quaternions = np.random.default_rng(0).normal(size=(n_rotations, 4))
    w, x, y, z = (quaternions / np.linalg.norm(quaternions, axis=1, keepdims=True)).T
    drawn = np.array(
        [
            [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
            [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
            [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
        ]
    ).transpose(2, 0, 1)
    proper = rotations * np.linalg.det(rotations)[:, None, None]
    # The trace of a rotation is 1 + 2 cos of its angle.
    cosines = (np.einsum("nij,mij->nm", drawn, proper) - 1.0) / 2.0
    return np.asarray(drawn[cosines.max(axis=1) < np.cos(np.deg2rad(min_angle_deg))])
