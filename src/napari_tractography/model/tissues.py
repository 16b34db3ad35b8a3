"""Tissue images, for anatomically constrained tracking.

A tissue image says of every voxel what fractions of it are cortical grey matter, deep grey matter,
white matter, fluid and lesion; streamlines that end where no fibre can are then cut, tracked
again or refused (Smith, Tournier, Calamante & Connelly, "Anatomically-constrained tractography",
NeuroImage 62, 2012). It is the five-tissue-type image of MRtrix3's ``5ttgen``, or is made of
FreeSurfer's labels. The rules are those of ``tckgen -act``, see docs/tissues.md; the kernels have
them, in ``tracking/cpu/constraints/tissues.py`` and ``tracking/cuda/tissues.h``.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..errors import InvalidTissuesError
from ..geometry.grid import Grid, middle_first
from ..runtime.arrays import host_array, may_be_real, points_of
from ..runtime.scalars import as_whole

TISSUES = ("cortical grey matter", "deep grey matter", "white matter", "fluid", "lesion")
N_TISSUES = len(TISSUES)
CORTEX, DEEP, WHITE, FLUID, LESION = range(N_TISSUES)
MOST_OUTSIDE = 0.01  # of the voxels: fractions may be off in so many, as after resampling
SLACK = 0.01  # by which fractions and their sums may be off
FEWEST_FULL = 0.5  # of the voxels that are not empty: fractions add up to 1 in so many
PARTIAL_SUM = 0.05  # a sum of fractions up to here above 1 is rounding and resampling
INTERFACE_WIDTH = 0.01  # grey less white matter, below which a point counts as on the interface

# What FreeSurfer's labels (aseg.mgz, aparc+aseg.mgz, aparc.a2009s+aseg.mgz) count as; its colour
# table gives their names. Brain stem, ventral diencephalon and white-matter hypointensities are
# passed by fibres, and so white matter, as in most uses of those labels.
FREESURFER_LABELS: dict[int, Collection[int]] = {
    CORTEX: (
        3, 42,  # cerebral cortex, of aseg
        8, 47,  # cerebellar cortex
        *range(1000, 1036), *range(2000, 2036),  # aparc+aseg
        *range(11100, 11176), *range(12100, 12176),  # aparc.a2009s+aseg
    ),
    DEEP: (
        9, 10, 11, 12, 13, 48, 49, 50, 51, 52,  # thalamus, caudate, putamen, pallidum
        17, 18, 53, 54,  # hippocampus, amygdala
        26, 58,  # accumbens
    ),
    WHITE: (
        2, 41, 7, 46,  # cerebrum, cerebellum
        16, 28, 60, 85,  # brain stem, ventral diencephalon, optic chiasm
        77, 78, 79,  # hypointensities
        192, *range(250, 256),  # corpus callosum
        *range(3000, 3036), *range(4000, 4036), 5001, 5002,  # wmparc
    ),
    FLUID: (
        4, 5, 43, 44, 14, 15, 72,  # ventricles
        24, 31, 63, 30, 62,  # fluid around the brain, choroid plexus, vessels
    ),
    LESION: (
        25, 57,  # lesions
        80, 81, 82,  # hypointensities of grey matter
    ),
}  # fmt: skip


# Of white matter beyond all else, and at the least, where there is surely most of it.
CERTAIN, LEAST_WHITE = 1e-3, 0.51


class Tissues:
    """Fractions of five tissues on a voxel grid of their own.

    Parameters
    ----------
    fractions : (x, y, z, 5) array_like
        Of :data:`TISSUES`, from 0 to 1, adding up to 1 in the brain and to 0 outside. NaN is 0.
    affine : (4, 4) array_like or Grid
        Voxel to RAS+ mm; the grid need not be that of the FOD.
    name : str
        What to call it in messages.
    path : str
        The file that it was read from, or "".
    labels : tuple of tuple of int
        Of each tissue, where it was made of labels that are not FreeSurfer's; else empty.

    Attributes
    ----------
    fractions : (x, y, z, 5) float32
        Read-only.
    grid : Grid
    name, path, labels

    Raises
    ------
    InvalidTissuesError
        When the shape is another, or the numbers are no fractions of tissues.
    """

    __slots__ = ("_white_cells", "fractions", "grid", "labels", "name", "path")

    def __init__(
        self,
        fractions: ArrayLike,
        affine: ArrayLike | Grid,
        *,
        name: str = "tissues",
        path: str = "",
        labels: tuple[tuple[int, ...], ...] = (),
    ) -> None:
        image = host_array(fractions)
        if image.ndim != 4 or image.shape[3] != N_TISSUES:
            raise InvalidTissuesError(
                f"{name} has shape {image.shape}; a tissue image is 4-D with five volumes: "
                f"{', '.join(TISSUES)} (5ttgen makes one)."
            )
        if not may_be_real(image):
            raise InvalidTissuesError(f"{name} holds {image.dtype} values; give fractions.")
        with np.errstate(over="ignore"):  # it is infinite then, and refused
            values = image.astype(np.float32)
        values = np.where(np.isnan(values), np.float32(0), values)
        grid = affine if isinstance(affine, Grid) else Grid(values.shape[:3], affine)
        if grid.shape != values.shape[:3]:
            raise InvalidTissuesError(
                f"{name} has shape {values.shape} but its grid has {grid.shape}."
            )
        _check_fractions(values, name)
        # In one order, or kernels would be compiled again for files that are stored in another.
        self.fractions: NDArray[np.float32] = np.ascontiguousarray(np.clip(values, 0.0, 1.0))
        self.fractions.flags.writeable = False
        self._white_cells: NDArray[np.uint8] | None = None
        self.grid = grid
        self.name, self.path, self.labels = name, path, labels

    @classmethod
    def from_labels(
        cls,
        labels: ArrayLike,
        affine: ArrayLike | Grid,
        *,
        mapping: Mapping[int, Collection[int]] = FREESURFER_LABELS,
        name: str = "labels",
        path: str = "",
    ) -> Tissues:
        """Make a tissue image of a label volume.

        Parameters
        ----------
        labels : (x, y, z) array_like of integers
        affine : (4, 4) array_like or Grid
        mapping : mapping of int to collection of int
            By index in :data:`TISSUES`, the labels that count as that tissue; by default
            FreeSurfer's. Voxels of other labels are outside the brain.
        name, path : str

        Raises
        ------
        InvalidTissuesError
            When it is not 3-D, or holds no white or no grey matter, or the mapping names another
            tissue.
        """
        volume = host_array(labels)
        if volume.ndim != 3:
            raise InvalidTissuesError(f"{name} has shape {volume.shape}; labels are a 3-D volume.")
        if not may_be_real(volume):
            raise InvalidTissuesError(f"{name} holds {volume.dtype} values; give whole numbers.")
        fractions = np.zeros((*volume.shape, N_TISSUES), np.float32)
        of_each = labels_of(mapping)
        for tissue, members in enumerate(of_each):
            fractions[..., tissue] = np.isin(volume, members)
        is_white = fractions[..., WHITE].any()
        if not (is_white and fractions[..., (CORTEX, DEEP)].any()):
            found = np.unique(volume)
            shown = ", ".join(f"{label:g}" for label in found[:8])
            raise InvalidTissuesError(
                f"{name} has no label of {'grey' if is_white else 'white'} matter (it has "
                f"{shown}{', ...' if len(found) > 8 else ''}); give FreeSurfer's aparc+aseg, or a "
                "mapping of your labels to tissues."
            )
        own = () if of_each == labels_of(FREESURFER_LABELS) else of_each
        return cls(fractions, affine, name=name, path=path, labels=own)

    @property
    def white_cells(self) -> NDArray[np.uint8]:
        """(x + 1, y + 1, z + 1) uint8: 1 where all is white matter between eight voxels.

        They are those up to whose centre, and from whose centre on, a place lies along each axis;
        beyond the border those at the border. Each has more white matter than of anything else, and
        so has what lies between them, whatever is rounded.
        """
        if self._white_cells is None:
            cortex, deep, white, fluid, lesion = np.moveaxis(self.fractions, 3, 0)
            others = np.maximum(np.maximum(cortex + deep, fluid), lesion)
            is_white = (white > others + CERTAIN) & (white > LEAST_WHITE)
            for axis in range(3):
                last = is_white.shape[axis]
                below, above = np.arange(-1, last), np.arange(0, last + 1)
                is_white = is_white.take(below.clip(0), axis) & is_white.take(
                    above.clip(max=last - 1), axis
                )
            self._white_cells = is_white.astype(np.uint8)
            self._white_cells.flags.writeable = False
        return self._white_cells

    def at(self, points_mm: ArrayLike) -> NDArray[np.float64]:
        """Return the fractions at (n, 3) RAS+ mm points, trilinear, as (n, 5) float64.

        All are 0 outside the image, and where the nearest voxel is empty. Raises
        InvalidTissuesError when they are no points.
        """
        points = points_of(points_mm, InvalidTissuesError)
        inside = self.grid.contains(points)
        found = np.zeros((len(points), N_TISSUES))
        found[inside] = self.mixed(self.grid.to_voxel(points[inside]))[0]
        return found

    def mixed(self, vox: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the fractions at (n, 3) voxel coordinates, and their slopes, (n, 5, 3), a voxel.

        Sums over the corners in a fixed order, so that all machines have the same bits.
        """
        shape = np.array(self.grid.shape)
        first = np.floor(vox).astype(np.int64)
        part = vox - first
        values = np.zeros((len(vox), N_TISSUES))
        slopes = np.zeros((len(vox), N_TISSUES, 3))
        for k in range(8):
            far = np.array([k >> 2, (k >> 1) & 1, k & 1])
            index = np.clip(first + far, 0, shape - 1)
            here = self.fractions[tuple(index.T)].astype(np.float64)
            weights = np.where(far, part, 1.0 - part)
            values += (weights[:, 0] * weights[:, 1] * weights[:, 2])[:, None] * here
            for axis in range(3):
                others = [weights[:, other] for other in range(3) if other != axis]
                sign = 1.0 if far[axis] else -1.0
                slopes[:, :, axis] += (sign * others[0] * others[1])[:, None] * here
        nearest = np.floor(vox + 0.5).astype(np.int64)
        inside = ((nearest >= 0) & (nearest < shape)).all(axis=1)
        held = self.fractions[tuple(np.clip(nearest, 0, shape - 1).T)].any(axis=1)
        outside = ~(inside & held)
        values[outside] = 0.0
        slopes[outside] = 0.0
        return values, slopes

    def __repr__(self) -> str:
        return f"Tissues({self.name}, {self.grid})"


def labels_of(mapping: Mapping[int, Collection[int]]) -> tuple[tuple[int, ...], ...]:
    """Return the labels of each of :data:`TISSUES`, as :meth:`Tissues.from_labels` takes them.

    Raises InvalidTissuesError when the mapping names another tissue, or labels that are no whole
    numbers.
    """
    wrong = "" if isinstance(mapping, Mapping) else f"is of type {type(mapping).__name__}"
    for tissue, members in () if wrong else mapping.items():
        are_labels = isinstance(members, Collection) and None not in map(as_whole, members)
        if tissue not in range(N_TISSUES) or not are_labels:
            wrong = f"has {tissue!r}: {members!r}"
    if wrong:
        raise InvalidTissuesError(
            f"The mapping {wrong}; give a list of labels for each of "
            f"{', '.join(f'{i} ({name})' for i, name in enumerate(TISSUES))}."
        )
    return tuple(tuple(int(label) for label in mapping.get(i, ())) for i in range(N_TISSUES))


def _check_fractions(values: NDArray[np.float32], name: str) -> None:
    """Raise when numbers are no fractions of tissues."""
    low, high = float(values.min()), float(values.max())
    wrong = ((values < -SLACK) | (values > 1 + SLACK)).any(axis=3)
    if wrong.mean() > MOST_OUTSIDE or not np.isfinite([low, high]).all():
        raise InvalidTissuesError(
            f"{name} holds values from {low:.4g} to {high:.4g}, which are no fractions of "
            "tissues; give a five-tissue-type image, of which all are from 0 to 1."
        )
    sums = values.sum(axis=3)
    held = sums > SLACK
    n_held = int(held.sum())
    if not n_held:
        raise InvalidTissuesError(f"{name} is empty: all its fractions are zero; give another.")
    full = np.abs(sums - 1) <= PARTIAL_SUM
    if full.sum() < FEWEST_FULL * n_held or (sums > 1 + PARTIAL_SUM).sum() > MOST_OUTSIDE * n_held:
        raise InvalidTissuesError(
            f"The five volumes of {name} add up to {float(np.median(sums[held])):.3g} in most "
            "voxels, not to 1, and so are no fractions of tissues; give a five-tissue-type image."
        )
    if not values[..., WHITE].any():
        raise InvalidTissuesError(
            f"{name} holds no white matter, its third volume is empty; check the order of the "
            f"volumes: {', '.join(TISSUES)}."
        )


def check_tissues(tissues: Tissues, grid: Grid) -> None:
    """Raise when a tissue image and an FOD cannot belong together.

    Raises InvalidTissuesError when no voxel of the tissue image that holds any tissue lies in the
    FOD's volume.
    """
    for x in middle_first(tissues.grid.shape[0]):  # previews ask at each move of a seed
        held = np.argwhere(tissues.fractions[x : x + 1].any(axis=3))
        held[:, 0] += x
        if grid.contains(tissues.grid.to_mm(held)).any():
            return
    raise InvalidTissuesError(
        f"{tissues.name} spans {tissues.grid.bounds_text()} mm and does not overlap the FOD, which "
        f"spans {grid.bounds_text()} mm (RAS+); register or resample it to the same space."
    )
