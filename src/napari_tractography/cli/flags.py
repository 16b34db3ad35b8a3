"""Flags that several sub-commands share, and what they stand for."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from ..errors import InvalidParameterError

if TYPE_CHECKING:
    from ..fod import Fod
    from ..tracking.inputs import Execution

TRACTOGRAM_HELP = "tractogram: .tck, .trk, .trx or .vtk"
# How the fields of Execution are spelt on the command line.
EXECUTION_FLAGS = {"n_threads": "--threads", "memory_limit": "--memory-limit"}


def add_reading(parser: argparse.ArgumentParser) -> None:
    """Add how to read an FOD volume."""
    from ..fields.kinds import AUTO, CHOICES
    from ..fields.sh import BASES, FRAMES

    parser.add_argument(
        "--kind",
        default=AUTO,
        metavar="|".join(CHOICES),
        help="what the volumes are: told by header and values, or taken for SH coefficients in "
        "any case; peaks and tensors are recognised but not tracked (default auto)",
    )
    parser.add_argument(
        "--basis", default=BASES[0], help=f"{', '.join(BASES)} (default {BASES[0]})"
    )
    parser.add_argument(
        "--frame", help=f"axes of the directions: {', '.join(FRAMES)} (default by basis)"
    )


def add_fod(parser: argparse.ArgumentParser) -> None:
    """Add the FOD and how to read it."""
    parser.add_argument("fod", metavar="FOD", help="FOD volume: .nii, .nii.gz, .mif or .mif.gz")
    add_reading(parser)


def add_execution(parser: argparse.ArgumentParser) -> None:
    """Add where to track, and how much to print of it."""
    from ..tracking.execution import MEMORY_LIMIT

    parser.add_argument(
        "--backend",
        default="auto",
        help="auto, cpu, cuda for the GPU with most free memory, cuda:N for another, or cuda:all "
        "(default auto)",
    )
    parser.add_argument("--threads", type=int, metavar="N", help="CPU threads; all by default")
    parser.add_argument(
        "--memory-limit",
        type=float,
        default=MEMORY_LIMIT,
        metavar="X",
        help="memory to use of each GPU: up to 1 a fraction of what is free, above it bytes "
        f"(default {MEMORY_LIMIT})",
    )
    parser.add_argument("--quiet", action="store_true", help="print neither progress nor summary")


def load(options: argparse.Namespace) -> Fod:
    """Read the FOD that the options name."""
    from ..files.fods import load_fod

    return load_fod(options.fod, kind=options.kind, basis=options.basis, frame=options.frame)


def execution_from(options: argparse.Namespace) -> Execution:
    """Return where and how to track.

    Raises
    ------
    InvalidParameterError
        When a number is impossible; with the name of its flag.
    """
    from ..tracking.inputs import Execution

    try:
        return Execution(
            backend=options.backend, n_threads=options.threads, memory_limit=options.memory_limit
        )
    except InvalidParameterError as error:
        message = str(error)
        for name, flag in EXECUTION_FLAGS.items():
            message = message.replace(f"{name} =", f"{flag} =")
        raise InvalidParameterError(message) from None
