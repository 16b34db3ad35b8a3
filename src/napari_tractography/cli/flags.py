"""Flags that several sub-commands share, and what they stand for."""

from __future__ import annotations

import argparse
import contextlib
import logging
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import FileError, InvalidParameterError, InvalidSeedsError, InvalidTractogramError
from ..fields.readings import AUTO, AXES, BASES, CHOICES, FRAMES, TENSOR_ORDERS
from ..files.formats import (
    check_text_name,
    fod_endings,
    has_ending,
    listed,
    read_tractogram_endings,
    tractogram_endings,
    written_volume_endings,
)
from ..files.paths import with_home
from ..files.subjects import SUBJECT
from ..model.parameters import parameter_specs
from ..model.roles import INCLUDE_RULES
from ..runtime.scalars import as_whole

if TYPE_CHECKING:
    from ..files.fods import FodKeywords
    from ..model.fod import Fod
    from ..recipes.sources import RegionSource
    from ..recipes.warp_sources import WarpSource
    from ..streamlines.tractogram import Tractogram
    from ..tracking.inputs import Execution

logger = logging.getLogger(__name__)

REGION_FLAGS = {
    "include": "streamlines must pass here; may be repeated",
    "exclude": "streamlines that enter are discarded; may be repeated",
    "stop": "streamlines that enter stop there; may be repeated",
    "end": "streamlines that enter stop there, those of which a tracked end lies elsewhere are "
    "discarded, so that with --direction forward the seed may lie anywhere; may be repeated",
    "resect": "a cavity, which is recorded in the recipe and changes no streamline, see `resect`; "
    "may be repeated",
}
# How arguments of the package are spelt on the command line, besides the tracking parameters.
SPELT = {
    **{
        name: f"--{name.replace('_', '-')}"
        for name in (
            "axes", "backend", "basis", "cluster", "dtype", "every", "fsl_in", "fsl_ref", "frame",
            "include_rule", "kind", "max_seeds", "memory_limit", "min_streamlines", "order",
            "select", "theme", "weights",
        )
    },
    "max_memory_mb": "--max-memory",
    "n": "--n",
    "n_threads": "--threads",
    "radius_mm": "--radius",
    "standard_error": "--enough",
    "tolerance_mm": "--compress",
}  # fmt: skip
# How a file is read, and in which kinds that means anything.
OF_KINDS = {
    "basis": "SH coefficients",
    "frame": "SH coefficients",
    "axes": "peaks and tensors",
    "order": "tensors",
}
THOUSANDS = {"k": 10**3, "m": 10**6}  # as MRtrix3 writes numbers, in either case
NUMBERS = r"[-+.\d\s]+(,[-+.\d\s]*)+"  # meant for those of a sphere, however many
# A name before its value, as messages have it; not a part of a path or of a value.
ARGUMENT = r"(?<![\w./\\'\"-])[a-z]+(?:_[a-z]+)*(?= ?= ?\S| must be of type )"


def tractogram_help() -> str:
    """Return the help of a tractogram to read: which endings it may have."""
    return f"tractogram: {listed(read_tractogram_endings())}"


def written_help() -> str:
    """Return the help of a tractogram to write: which endings it may have."""
    return f"tractogram to write: {listed(tractogram_endings())}"


def weights_help() -> str:
    """Return the help of weights."""
    return (
        "what each streamline counts: a text file of numbers, as tcksift2 writes it, or the name "
        f"of a column (data per streamline) of a {listed(read_tractogram_endings())} tractogram"
    )


def add_path(
    parser: argparse._ActionsContainer, names: str, metavar: str, help: str, **options: Any
) -> None:
    """Add an argument that is a path; `names` are those of its flag, such as "-o --out".

    A leading ~ is expanded as the shell does, which in --out=~/x it does not.
    """
    parser.add_argument(*names.split(), type=with_home, metavar=metavar, help=help, **options)


def add_data_beside(parser: argparse._ActionsContainer) -> None:
    """Add whether values are written beside a .tck file."""
    parser.add_argument(
        "--data-beside",
        action="store_true",
        help="write values that a .tck OUT cannot hold beside it: OUT.VALUE.tsf for each value per "
        "point, OUT.VALUE.txt for each per streamline; they are read with it",
    )


def add_bids_sidecar(parser: argparse._ActionsContainer, what: str) -> None:
    """Add whether a BIDS sidecar is written; `what` says in the help where."""
    parser.add_argument(
        "--bids-sidecar",
        action="store_true",
        help=f"{what} fields of BIDS' proposal for tractography (BEP046), which say how they were "
        "made; it holds the recipe, too, for `replay`",
    )


def count(text: str) -> int:
    """Return a number of seeds or streamlines: 5000, 5e3 or 5k.

    Raises ValueError when it is none, which argparse tells.
    """
    power = THOUSANDS.get(text[-1:].lower(), 1)
    number = text if power == 1 else text[:-1]
    try:
        return int(number) * power
    except ValueError:
        whole = as_whole(float(number) * power)
        if whole is None:
            raise
        return whole


def in_flags(message: str, options: argparse.Namespace) -> str:
    """Return a message of the package with the flags of a sub-command for names of arguments."""
    spelt = {
        spec.name: spec.flag
        for spec in parameter_specs()
        if hasattr(options, f"parameter_{spec.name}")
    } | {
        name: flag
        for name, flag in SPELT.items()
        if hasattr(options, flag.removeprefix("--").replace("-", "_"))
    }
    return re.sub(ARGUMENT, lambda found: spelt.get(found[0], found[0]), message)


def add_reading(parser: argparse.ArgumentParser) -> None:
    """Add how to read an FOD volume."""
    parser.add_argument(
        "--kind",
        default=AUTO,
        metavar="|".join(CHOICES),
        help="what the volumes are: found by header and values, or taken for SH coefficients, "
        "peaks or tensors in any case (default auto)",
    )
    parser.add_argument(
        "--basis", default=BASES[0], help=f"{', '.join(BASES)} (default {BASES[0]})"
    )
    parser.add_argument(
        "--frame", help=f"axes of the directions: {', '.join(FRAMES)} (default by basis)"
    )
    parser.add_argument(
        "--axes",
        help=f"axes of peaks and tensors: {', '.join(AXES)} (default scanner for peaks, for "
        "tensors by order)",
    )
    parser.add_argument(
        "--order",
        help=f"of the elements of tensors: {', '.join(TENSOR_ORDERS)} (default as values tell)",
    )


def add_fod(parser: argparse.ArgumentParser) -> None:
    """Add the FOD and how to read it."""
    add_path(parser, "fod", "FOD", f"FOD, peaks or tensors: {listed(fod_endings())}")
    add_reading(parser)


def add_warp(parser: argparse.ArgumentParser, what: str) -> None:
    """Add a warp; `what` says what becomes of it."""
    group = parser.add_argument_group(
        "warp",
        "files of ITK (ANTs), FSL, MRtrix3 or FreeSurfer; a file leads from the space of the image "
        "on which another was resampled (fixed, reference) to the space of that other (moving)",
    )
    add_path(
        group,
        "--warp",
        "FILE",
        f"{what}; may be repeated, in the order of antsApplyTransforms",
        action="append",
        default=[],
    )
    group.add_argument(
        "--invert-warp", action="store_true", help="go the other way through all of --warp"
    )
    add_path(group, "--fsl-ref", "IMAGE", "of FSL's --warp: the image that was -ref")
    add_path(group, "--fsl-in", "IMAGE", "of FSL's --warp: the image that was -in")
    group.add_argument(
        "--warp-kind",
        default=AUTO,
        metavar="auto|itk|fsl|mrtrix3|lta",
        help="which program wrote --warp (default auto)",
    )


def warp_source(
    options: argparse.Namespace, *, hashed: bool = False, subject: str = ""
) -> WarpSource | None:
    """Return the warp that the options name, with a subject in its paths; None without.

    Raises InvalidParameterError when other flags of it are of no effect.
    """
    from ..recipes.warp_sources import WarpSource

    if not options.warp:
        for flag in ("--invert-warp", "--fsl-ref", "--fsl-in", "--warp-kind"):
            if getattr(options, flag[2:].replace("-", "_")) not in (None, False, AUTO):
                raise InvalidParameterError(
                    f"{flag} has no effect without --warp; give --warp too."
                )
        return None
    paths = [options.fsl_ref, options.fsl_in, *options.warp]
    fsl_ref, fsl_in, *files = (path and path.replace(SUBJECT, subject) for path in paths)
    return WarpSource.file(
        *files,
        kind=options.warp_kind,
        inverted=options.invert_warp,
        fsl_ref=fsl_ref,
        fsl_in=fsl_in,
        hashed=hashed,
    )


def add_map(parser: argparse.ArgumentParser) -> None:
    """Add streamlines, the map that is made of them, and the grid that it has."""
    add_path(parser, "tractogram", "TCK", tractogram_help())
    add_path(parser, "-o --out", "OUT", listed(written_volume_endings()), required=True)
    add_path(parser, "--template", "IMAGE", "image whose grid the map shall have", required=True)


def check_outputs(
    tables: Sequence[str | None] = (),
    volumes: Sequence[str | None] = (),
    plots: Sequence[str | None] = (),
    *,
    read: Iterable[str | None] = (),
) -> None:
    """Check, before long work, that files can be written, and none over another or what is read.

    Those that are None are not asked for. Raises FileError; MissingPackageError where plots cannot
    be made.
    """
    from ..files.paths import check_apart, check_writable
    from ..files.volume_files import check_volume_target

    for table in filter(None, tables):
        check_writable(table)
    for volume in filter(None, volumes):
        check_volume_target(volume)
    for plot in filter(None, plots):
        from ..maps.plots import check_plot_target

        check_plot_target(plot)
    check_apart(*tables, *volumes, *plots, read=read)
    for table in filter(None, tables):
        check_text_name(table)


def add_execution(parser: argparse.ArgumentParser) -> None:
    """Add where to track, and how much to print of it."""
    from ..tracking.execution import MEMORY_LIMIT

    parser.add_argument(
        "--backend",
        default="auto",
        help="auto, cpu, cuda for the GPU with most free memory, cuda:N for another, or cuda:all "
        "(default auto)",
    )
    parser.add_argument(
        "--cluster",
        metavar="ADDRESS|local:N",
        help="track on the workers of a Dask cluster: tcp://HOST:8786 of its scheduler, or N "
        "processes on this machine; --backend and --threads are then those of each task",
    )
    add_path(
        parser,
        "--cluster-folder",
        "FOLDER",
        "that this machine and all workers of --cluster see under one path: the FOD and the "
        "streamlines go through it and are not sent",
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

    fod = load_fod(options.fod, **reading_of(options))
    warn_of_reading(options, fod)
    return fod


def reading_of(options: argparse.Namespace) -> FodKeywords:
    """Return how the options say that the FOD is read."""
    return {
        "kind": options.kind,
        "basis": options.basis,
        "frame": options.frame,
        "axes": options.axes,
        "order": options.order,
    }


def warn_of_reading(options: argparse.Namespace, fod: Fod) -> None:
    """Tell which flags say nothing of the FOD that was read, as --frame of peaks, which have axes.

    Who gives one means that directions lie otherwise than they were read.
    """
    had = fod.vector_reading
    used = {name for name, value in had.items() if value} if had else {"basis", "frame"}
    for name, what in OF_KINDS.items():
        value = getattr(options, name)
        if name not in used and value and value != BASES[0]:
            logger.warning(
                "%s %s has no effect in %s, but in %s.",
                SPELT[name],
                value,
                fod.input_kind.short,
                what,
            )


def load_streamlines(path: str, weights: str | None) -> Tractogram:
    """Read a tractogram, with weights if a flag names any; without, it has none.

    Raises FileError when a file is missing or damaged, or weights do not fit.
    """
    from ..files.weights import load_weights
    from ..streamlines.tractogram import load_tractogram

    tractogram = load_tractogram(path)
    if weights is None:
        return tractogram
    in_file = has_ending(path, read_tractogram_endings()) and not os.path.exists(weights)
    try:
        return tractogram.with_weights(
            load_weights(path, weights) if in_file else load_weights(weights)
        )
    except InvalidTractogramError as error:
        raise FileError(f"{weights} does not fit {path}: {error}") from None


def warn_of_no_value(bundle: str, scalar: str) -> None:
    """Tell that a bundle has no value in a scalar map, of which a table says nothing."""
    logger.warning(
        "No streamline of %s has a value in %s; check that both are in the same space.",
        bundle,
        scalar,
    )


@contextlib.contextmanager
def execution_of(options: argparse.Namespace) -> Iterator[Execution]:
    """Yield where and how to track; a cluster that was connected to is left again.

    Raises InvalidParameterError when a number is impossible, or there is a folder without a
    cluster; BackendError when no scheduler answers.
    """
    from ..tracking.inputs import Execution

    execution = Execution(
        backend=options.backend,
        n_threads=options.threads,
        memory_limit=options.memory_limit,
    )
    if options.cluster_folder and not options.cluster:
        raise InvalidParameterError(
            f"--cluster-folder {options.cluster_folder} is for a cluster; give --cluster too."
        )
    if not options.cluster:
        yield execution
        return
    from ..tracking.cluster.connecting import cluster

    with contextlib.suppress(ImportError):  # the next call raises it
        import distributed

        logging.getLogger(distributed.__name__).setLevel(logging.CRITICAL)  # we tell what matters
    with cluster(
        options.cluster, worker_backend=options.backend, folder=options.cluster_folder
    ) as workers:
        yield replace(execution, backend=workers)


def add_regions(parser: argparse.ArgumentParser, roles: Mapping[str, str]) -> None:
    """Add a flag for each role, with its help, and the rule of include regions."""
    regions = parser.add_argument_group(
        "regions",
        "each an IMAGE, on any grid, taken where it is not zero; one label of it, IMAGE:12; or a "
        "sphere x,y,z,r [mm]",
    )
    for role, text in roles.items():
        regions.add_argument(
            f"--{role}", type=with_home, metavar="REGION", action="append", default=[], help=text
        )
    regions.add_argument(
        "--include-rule",
        default="all",
        metavar="|".join(INCLUDE_RULES),
        help="which include regions a streamline must pass, ordered: in the order of the flags "
        "(default all)",
    )


def region_sources(
    options: argparse.Namespace, roles: Mapping[str, str]
) -> tuple[RegionSource, ...]:
    """Return the regions that the options name, by role."""
    return tuple(region_source(role, text) for role in roles for text in getattr(options, role))


def region_source(role: str, text: str, flag: str = "") -> RegionSource:
    """Return the region that a flag, by default its role's, names: an image, a label, a sphere."""
    from ..recipes.sources import RegionSource
    from ..recipes.volume_sources import VolumeSource

    is_sphere = text.count(",") == 3 or re.fullmatch(NUMBERS, text)
    if is_sphere and not os.path.exists(text):
        return RegionSource(role, text, *sphere_numbers(text, flag or f"--{role}"))
    path, label = path_and_label(text)
    return RegionSource(
        role, Path(text).name, volume=VolumeSource.file(path, label=label, hashed=False)
    )


def path_and_label(text: str) -> tuple[str, int | None]:
    """Return the image that a flag names and one label of it, or None for all of them."""
    path, colon, label = text.rpartition(":")
    if colon and label.isdecimal() and not os.path.exists(text):
        return path, int(label)
    return text, None


def sphere_numbers(text: str, flag: str) -> tuple[tuple[float, float, float], float]:
    """Return centre and radius, in mm, of "x,y,z,r". Raises InvalidSeedsError."""
    try:
        x, y, z, radius = (float(number) for number in text.split(","))
    except ValueError:
        raise InvalidSeedsError(
            f"{flag} {text!r} is not four numbers; give x,y,z,r in mm such as -12,4,30,2."
        ) from None
    return (x, y, z), radius


def names_of(paths: Sequence[str]) -> list[str]:
    """Return a name for each of some files: without folder and ending, where that tells them apart.

    Raises InvalidParameterError when a file is named twice.
    """
    if len(set(paths)) < len(paths):
        raise InvalidParameterError("A tractogram is given twice; give each once.")
    names = [Path(re.sub(r"\.gz$", "", path, flags=re.IGNORECASE)).stem for path in paths]
    return names if len(set(names)) == len(names) else list(paths)
