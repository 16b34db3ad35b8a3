"""The CUDA source, and the structures that its kernels are called with.

Knows neither CuPy nor Numba: :mod:`.cuda_backend` runs the source on a GPU, and the tests compile
it for the host. Two headers are made here: ``codes.h``, the constants of Python, and
``algorithms.h``, the functions of the table of algorithms. The layout of the structures is read
from ``structs.h``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...fields.sh import MAX_LMAX, n_coefficients_of
from ...model import philox
from ...model.algorithms import ALGORITHMS
from ...model.stop import N_REASONS
from ...model.tissues import INTERFACE_WIDTH
from .. import codes
from ..tables.cone_quadrature import along_axis, turning

FOLDER = Path(__file__).parent
# No fused multiply-add: the CPU has none, and bits must agree.
OPTIONS = ("--std=c++14", "--fmad=false")
TILE = 256  # seeds that one thread adds up
WARP = 32  # lanes
AGAIN = -999  # in place of a stop reason: no direction yet
BLOCK_POINTS = 32  # of a block of the pool that points go to
NAMES = (
    "track_streamlines",
    "add_tiles",
    "scan_tiles",
    "place_streamlines",
    "gather_points",
    "write_endpoints",
)

TABLES = (
    "voxel_rows",
    "coefficients",
    "masses",
    "crossings",
    "sphere_points",
    "cone_points",
    "quadrature_points",
    "quadrature_neighbours",
    "quadrature_heights",
    "quadrature_azimuths",
    "cone_mass",
    "quadrature_mass",
    "mask",
    "allowed",
    "directions",
    "neighbours",
)
VECTOR_TABLES = ("voxel_rows", "vectors", "mask")
REGION_TABLES = ("roles", "shapes", "orders", "geometry", "extents", "voxels")


POINTER = "u8"  # on hosts and GPUs
_TYPES = {
    "int": "i4",
    "unsigned int": "u4",
    "long long": "i8",
    "float": "f4",
}


def constants() -> dict[str, Any]:
    """Return the constants that Python and the CUDA source have in common, by name.

    Those of a tuple are numbered: SINE_0, SINE_1, ...
    """
    found: dict[str, Any] = {}
    for name, value in vars(codes).items():
        if name.isupper() and isinstance(value, tuple):
            found |= {f"{name}_{k}": part for k, part in enumerate(value)}
        elif name.isupper():
            found[name] = value
    found["INTERFACE_WIDTH"] = np.float32(INTERFACE_WIDTH)
    found["LEVELS"] = codes.POINTS_AT_ONCE.bit_length() - 1  # of a sum in pairs
    found |= {row.name.upper(): row.code for row in ALGORITHMS}
    found |= {"N_REASONS": N_REASONS, "TILE": TILE, "AGAIN": AGAIN}
    found["BLOCK_POINTS"] = BLOCK_POINTS
    for name in ("MULTIPLIER_0", "MULTIPLIER_1", "WEYL_0", "WEYL_1"):
        found[name] = np.uint32(getattr(philox, name))
    return found | {"ROUNDS": philox.ROUNDS}


def codes_header() -> str:
    """Return ``codes.h``: whole numbers as one enumeration, others as macros."""
    numbers, macros = "", ""
    for name, value in constants().items():
        if isinstance(value, np.uint32):
            macros += f"#define {name} 0x{value:08X}u\n"
        elif isinstance(value, np.float32):
            macros += f"#define {name} {_float(float(value), 9)}f\n"
        elif isinstance(value, float):
            macros += f"#define {name} {_float(value, 17)}\n"
        else:
            numbers += f"    {name} = {value},\n"
    of = {
        "IS_CURVED": [row for row in ALGORITHMS if row.curved],
        "IS_ADAPTIVE": [row for row in ALGORITHMS if "adaptive" in row.own_parameters],
        "IS_FOLLOWED": [row for row in ALGORITHMS if row.among_vectors == "followed"],
    }
    for macro, rows in of.items():
        any_of = " || ".join(f"(code) == {row.name.upper()}" for row in rows)
        macros += f"#define {macro}(code) ({any_of or 'false'})\n"
    head = "// The constants of Python, see source.py.\n#pragma once\n\n"
    return f"{head}{macros}\nenum {{\n{numbers}}};\n"


def turning_header() -> str:
    """Return ``turning.h``: what turns an FOD and what it is along an axis, for each LMAX."""
    tables = ""
    for lmax in range(2, MAX_LMAX + 1, 2):
        numbers = {"TURNING": turning(lmax), "AXIS": along_axis(lmax)}
        tables += f"#if LMAX == {lmax}\n"
        for name, values in numbers.items():
            text = ", ".join(f"{_float(float(value), 9)}f" for value in np.ravel(values))
            tables += f"static __constant__ const float {name}[] = {{{text}}};\n"
        tables += "#endif\n"
    return f"// Numbers of tables/cone_quadrature.py, see source.py.\n#pragma once\n\n{tables}"


def _float(value: float, digits: int) -> str:
    """Return a number in so many digits, which C takes for one with a fraction."""
    text = f"{value:.{digits}g}"
    return text if re.search(r"[.e]", text) else f"{text}.0"


def algorithms_header() -> str:
    """Return ``algorithms.h``: the functions of the algorithms, and which one runs when."""
    sources = "\n".join(dict.fromkeys(row.cuda_source.strip() for row in ALGORITHMS))
    cases = "".join(
        "".join(f"    case {row.name.upper()}:\n" for row in rows)
        + f"        return {function}(field, settings, interpolant, state, stream);\n"
        for function, rows in groupby(
            sorted(ALGORITHMS, key=lambda row: row.cuda), key=lambda row: row.cuda
        )
    )
    at_peak = [f"algorithm == {row.name.upper()}" for row in ALGORITHMS if row.starts_at_peak]
    return f"""\
// The functions of the table of algorithms, see source.py.
#pragma once

{sources}

// Tell whether the start direction of an algorithm is that of the peak that it leads up to.
DEVICE bool starts_at_peak(int algorithm)
{{
    return {" || ".join(at_peak) or "false"};
}}

// Choose the next direction of a streamline.
DEVICE int next_direction(int algorithm, const Field& field, const Settings& settings,
                          Interpolant& interpolant, StreamlineState& state,
                          unsigned int stream)
{{
    switch (algorithm) {{
{cases}    }}
    return NO_FOD;
}}
"""


@cache
def generated() -> dict[str, str]:
    """Return the text of each header that is made here, by name."""
    return {
        "codes.h": codes_header(),
        "algorithms.h": algorithms_header(),
        "turning.h": turning_header(),
    }


@cache
def source(name: str = "track.cu") -> str:
    """Return a source with the headers that it includes put in their places, each once."""
    return "".join(_lines_of(name, set()))


def _lines_of(name: str, included: set[str]) -> Iterator[str]:
    included.add(name)
    text = generated().get(name) or (FOLDER / name).read_text("utf-8")
    for line in text.splitlines(keepends=True):
        include = re.match(r'#include "(\w+\.h)"$', line)
        if include is None:
            if line != "#pragma once\n":  # which compilers want in headers only
                yield line
        elif include[1] not in included:
            yield from _lines_of(include[1], included)


@cache
def layout(name: str, pointer: str = POINTER) -> np.dtype[np.void]:
    """Return the memory layout of a structure of ``structs.h``."""
    return layout_in(name, (FOLDER / "structs.h").read_text("utf-8"), pointer)


def layout_in(name: str, text: str, pointer: str = POINTER) -> np.dtype[np.void]:
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
        kind = pointer if match[2] else _TYPES[match[1]]
        members.append((match[3], kind, int(match[4])) if match[4] else (match[3], kind))
    return np.dtype(members, align=True)


def pack(name: str, values: Mapping[str, Any], pointer: str = POINTER) -> NDArray[np.void]:
    """Return a structure, () of :func:`layout`, as kernels take it; other members are zero."""
    packed = np.zeros((), layout(name, pointer))
    for member, value in values.items():
        packed[member] = value
    return packed


def pack_field(
    field: codes.Field, addresses: Mapping[str, int], pointer: str = POINTER
) -> NDArray[np.void]:
    """Return the ``Field`` of tables at these addresses; without one a table is absent."""
    nx, ny, nz = field.voxel_rows.shape
    return pack(
        "Field",
        {
            **addresses,
            "nx": nx,
            "ny": ny,
            "nz": nz,
            "n_rows": len(field.masses) - 1,
            "n_sphere_points": field.sphere_points.shape[1],
            "n_cone_points": field.cone_points.shape[1],
            "n_quadrature_points": field.quadrature_points.shape[1],
            "n_directions": len(field.directions),
            "to_voxel": np.ravel(field.to_voxel),
        },
        pointer,
    )


def pack_vector_field(
    field: codes.VectorField, addresses: Mapping[str, int], pointer: str = POINTER
) -> NDArray[np.void]:
    """Return the ``Field`` of peaks or tensors at these addresses."""
    nx, ny, nz = field.voxel_rows.shape
    return pack(
        "Field",
        {
            **addresses,
            "nx": nx,
            "ny": ny,
            "nz": nz,
            "n_rows": len(field.vectors),
            "n_numbers": field.vectors.shape[1],
            "is_tensor": field.is_tensor,
            "to_voxel": np.ravel(field.to_voxel),
        },
        pointer,
    )


def pack_settings(settings: codes.Settings) -> NDArray[np.void]:
    """Return the ``Settings``."""
    return pack("Settings", settings._asdict())


def pack_regions(
    regions: codes.Regions, addresses: Mapping[str, int], pointer: str = POINTER
) -> NDArray[np.void]:
    """Return the ``Regions`` of tables at these addresses, and the tissue image in it."""
    return pack(
        "Regions",
        {
            **addresses,
            "n_regions": len(regions.roles),
            "rule": regions.rule,
            "n_includes": regions.n_includes,
            "n_ends": regions.n_ends,
            **dict(zip(("nx", "ny", "nz"), regions.tissues.fractions.shape, strict=False)),
            "to_tissue": np.ravel(regions.tissues.to_voxel),
            "backtrack": regions.tissues.backtrack,
            "crop": regions.tissues.crop,
        },
        pointer,
    )


def degrees(lmax: int, is_asymmetric: bool) -> tuple[str, ...]:
    """Return what is defined of an FOD."""
    return (f"-DLMAX={lmax}", *(("-DASYMMETRIC=1",) if is_asymmetric else ()))


def defines(
    algorithm: int, interpolation: int, lmax: int, is_asymmetric: bool = False
) -> tuple[str, ...]:
    """Return what is defined for a kernel; `lmax` is OF_VECTORS for peaks and tensors."""
    is_vectors = lmax == codes.OF_VECTORS
    what = ("-DVECTORS", "-DLMAX=2") if is_vectors else degrees(lmax, is_asymmetric)
    return (f"-DALGORITHM={algorithm}", f"-DINTERPOLATION={interpolation}", *what)


def tracking_options(algorithm: int) -> tuple[str, ...]:
    """Return the compiler's options for the kernel of an algorithm, but for what is defined."""
    row = next(row for row in ALGORITHMS if row.code == algorithm)
    return (f"--maxrregcount={row.cuda_registers}", *OPTIONS)


def variant(
    field: codes.Field | codes.VectorField, settings: codes.Settings, tissues: bool
) -> tuple[str, ...]:
    """Return what is defined besides: what a kernel leaves out, see ``track.cu``."""
    cones = isinstance(field, codes.Field) and field.allowed.size > 0
    return usual(
        tissues=tissues,
        plain=settings.positivity == codes.CLIP and not cones,
        ahead=bool(settings.look_ahead > 0),
        one_lobe=bool(settings.lobe_cosine > 0) and isinstance(field, codes.Field),
    )


def usual(
    *, tissues: bool = False, plain: bool = True, ahead: bool = False, one_lobe: bool = False
) -> tuple[str, ...]:
    """Return what is defined of a variant: by default, of the one with least code."""
    given = {"TISSUES": tissues, "PLAIN": plain, "AHEAD": ahead, "ONE_LOBE": one_lobe}
    return tuple(f"-D{name}={int(value)}" for name, value in given.items())


def common_bytes(lmax: int, is_asymmetric: bool = False) -> int:
    """Return the size of ``Common`` of ``structs.h``: an FOD a lane, and what else is there."""
    return 4 * ((n_coefficients_of(lmax, is_asymmetric) + 2 + 14) * WARP + 4 * 3)


def log_length(settings: codes.Settings, tissues: codes.KernelTissues) -> int:
    """Return how many directions of a streamline are logged.

    All of them where streamlines may be taken back and tracked again; else none.
    """
    return settings.max_steps if tissues.fractions.size and tissues.backtrack else 0


def blocks_for(n_seeds: int, n_points: int, settings: codes.Settings, log_length: int = 0) -> int:
    """Return how many blocks of the pool hold so many points of the streamlines of so many seeds.

    Each half of a streamline may leave room in its last block. It keeps no more points than it has
    steps, unless some are taken back, which leaves blocks behind.
    """
    if settings.endpoints:
        return 0
    blocks = 2 * n_seeds + -(-n_points // BLOCK_POINTS)
    longest = -(-settings.max_steps // settings.record_every)
    return blocks if log_length else min(blocks, 2 * n_seeds * -(-longest // BLOCK_POINTS))


def batch_arrays(
    n_seeds: int,
    *,
    endpoints: bool,
    seed_directions: bool = False,
    streams: bool = False,
    log_length: int = 0,
    n_blocks: int = 0,
) -> dict[str, tuple[tuple[int, ...], str]]:
    """Return shape and dtype of every array of a ``Batch`` of `n_seeds` seeds, but for its points.

    Those depend on whether only `endpoints` are wanted, seeds have start directions or streams,
    and on :func:`log_length` and the number of blocks of the pool that points go to.
    """
    n_tiles = -(-n_seeds // TILE)
    return {
        "positions": ((n_seeds, 3), "f4"),
        "seed_directions": ((n_seeds if seed_directions else 0, 3), "f4"),
        "streams": ((n_seeds if streams else 0,), "u4"),
        "next": ((1,), "u4"),
        "start_directions": ((n_seeds, 3), "f4"),
        "direction_log": ((n_seeds, log_length, 3), "f4"),
        "steps": ((n_seeds, 2), "i4"),
        "counts": ((n_seeds,), "i4"),
        "lengths": ((n_seeds,), "f4"),
        "reasons": ((n_seeds, 2), "u1"),
        "ends": ((n_seeds if endpoints else 0, 2, 3), "f4"),
        "tally": ((N_REASONS,), "u8"),
        "offsets": ((n_seeds,), "i8"),
        "tile_points": ((n_tiles,), "i8"),
        "tile_lines": ((n_tiles,), "i8"),
        "totals": ((3,), "i8"),
        "line_offsets": ((n_seeds + 1,), "i8"),
        "line_lengths": ((n_seeds,), "f4"),
        "line_reasons": ((n_seeds, 2), "u1"),
        "line_sources": ((n_seeds,), "i8"),
        "next_block": ((1,), "u4"),
        "pool": ((n_blocks, BLOCK_POINTS, 3), "f4"),
        "block_halves": ((n_blocks,), "i4"),
        "block_numbers": ((n_blocks,), "i4"),
        "block_before": ((n_blocks,), "i4"),
    }
