"""The CUDA source, and the structures that its kernels are called with.

Knows neither CuPy nor Numba: :mod:`.run` runs the source on a GPU, and the tests compile it for the
host. How the structures lie in memory is read from ``codes.h``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from .. import codes

FOLDER = Path(__file__).parent
# No fused multiply-add: the CPU has none, and bits must agree.
OPTIONS = ("--std=c++14", "--fmad=false")
TILE, DETERMINISTIC = 256, 1  # as in codes.h
# Steps of a streamline that the second pass need not draw again, for at most 1 kB a seed.
MAX_LOGGED = 512
NAMES = (
    "count_streamlines",
    "add_tiles",
    "scan_tiles",
    "place_streamlines",
    "write_streamlines",
    "write_endpoints",
)

TABLES = (
    "voxel_rows",
    "quantised",
    "alias",
    "slot_alias",
    "mass_fractions",
    "patch_maxima",
    "quanta",
    "totals",
    "directions",
    "cone",
    "contained_patches",
    "mask",
    "neighbours",
    "slopes",
    "tangents",
    "harmonics",
)
REGION_TABLES = ("roles", "shapes", "orders", "geometry", "extents", "voxels")

_TYPES = {
    "int": "i4",
    "unsigned int": "u4",
    "long long": "i8",
    "float": "f4",
}


@cache
def source(name: str = "track.cu") -> str:
    """Return a source with the headers that it includes put in their places."""

    def header(match: re.Match[str]) -> str:
        return (FOLDER / match[1]).read_text("utf-8")

    text = (FOLDER / name).read_text("utf-8")
    return re.sub(r'^#include "(\w+\.h)"$', header, text, flags=re.MULTILINE)


@cache
def layout(name: str) -> np.dtype[np.void]:
    """Return the memory layout of a structure of ``codes.h``."""
    return layout_in(name, (FOLDER / "codes.h").read_text("utf-8"))


def layout_in(name: str, text: str) -> np.dtype[np.void]:
    """Return the memory layout of a structure of C source; pointers are unsigned integers."""
    text = re.sub(r"//.*", "", text)
    found = re.search(rf"struct {name} {{(.*?)}};", text, flags=re.DOTALL)
    if found is None:
        raise KeyError(name)
    members: list[Any] = []
    for declaration in filter(None, (part.strip() for part in found[1].split(";"))):
        match = re.fullmatch(r"(?:const )?([a-z ]+?)(\*?) (\w+)(?:\[(\d+)\])?", declaration)
        if match is None:
            raise ValueError(declaration)
        kind = "u8" if match[2] else _TYPES[match[1]]
        members.append((match[3], kind, int(match[4])) if match[4] else (match[3], kind))
    return np.dtype(members, align=True)


def pack(name: str, values: Mapping[str, Any]) -> NDArray[np.void]:
    """Return a structure, () of :func:`layout`, as kernels take it; what is not given is zero."""
    packed = np.zeros((), layout(name))
    for member, value in values.items():
        packed[member] = value
    return packed


def pack_field(field: codes.Field, addresses: Mapping[str, int]) -> NDArray[np.void]:
    """Return the ``Field`` of tables at these addresses; without one a table is absent."""
    nx, ny, nz = field.voxel_rows.shape
    return pack(
        "Field",
        {
            **addresses,
            "nx": nx,
            "ny": ny,
            "nz": nz,
            "n_half": len(field.directions) // 2,
            "n_patches": field.quantised.shape[1],
            "n_groups": field.patch_maxima.shape[1],
            "n_coefficients": field.harmonics.shape[1],
            "two_sided": field.two_sided,
            "max_proposals": field.max_proposals,
            "lmax": field.lmax,
            "to_voxel": np.ravel(field.to_voxel),
            "to_frame": np.ravel(field.to_frame),
        },
    )


def pack_settings(settings: codes.Settings) -> NDArray[np.void]:
    """Return the ``Settings``."""
    return pack("Settings", settings._asdict())


def pack_regions(regions: codes.Regions, addresses: Mapping[str, int]) -> NDArray[np.void]:
    """Return the ``Regions`` of tables at these addresses."""
    return pack(
        "Regions",
        {
            **addresses,
            "n": len(regions.roles),
            "rule": regions.rule,
            "n_includes": regions.n_includes,
            "n_ends": regions.n_ends,
        },
    )


def log_length(settings: codes.Settings) -> int:
    """Return how many directions of a streamline the first pass direction_log down for the second."""
    if settings.endpoints or settings.algorithm > DETERMINISTIC:
        return 0
    return min(MAX_LOGGED, settings.max_steps)


def batch_arrays(
    n: int, *, endpoints: bool, log_length: int = 0
) -> dict[str, tuple[tuple[int, ...], str]]:
    """Return shape and dtype of every array of a ``Batch`` of n seeds, but for its points."""
    n_tiles = -(-n // TILE)
    return {
        "positions": ((n, 3), "f4"),
        "given": ((n,), "i4"),
        "next": ((1,), "u4"),
        "starts": ((n,), "i4"),
        "direction_log": ((n, log_length), "u2"),
        "steps": ((n, 2), "i4"),
        "counts": ((n,), "i4"),
        "lengths": ((n,), "f4"),
        "reasons": ((n, 2), "u1"),
        "ends": ((n if endpoints else 0, 2, 3), "f4"),
        "tally": ((16,), "u8"),
        "offsets": ((n,), "i8"),
        "tile_points": ((n_tiles,), "i8"),
        "tile_lines": ((n_tiles,), "i8"),
        "totals": ((2,), "i8"),
        "line_offsets": ((n + 1,), "i8"),
        "line_lengths": ((n,), "f4"),
        "line_reasons": ((n, 2), "u1"),
        "line_sources": ((n,), "i8"),
    }
