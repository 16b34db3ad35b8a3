"""What is on the screen as a script: Python, or one command, that gives the same digest.

A mask or a region that is as its file says is read from there. One that was painted is written
into the Python script, voxel by voxel; a command has no room for it. Called by the panel's Copy
buttons.
"""

from __future__ import annotations

import os
import re
import shlex
import sys
import textwrap
from collections.abc import Sequence
from typing import Any

import numpy as np
from napari.layers import Layer
from numpy.typing import NDArray

from ...errors import (
    InvalidFodError,
    InvalidMaskError,
    InvalidTissuesError,
    TractographyError,
)
from ...fields.readings import DEFAULT_FRAMES
from ...files.formats import has_ending
from ...files.image_files import IMAGE_ENDINGS, is_zarr, load_image_mask
from ...files.volume_files import load_mask, load_volume
from ...geometry.grid import Grid
from ...model import masks
from ...model.fod import Fod
from ...model.parameters import WITH_TISSUES, ParameterSpec, TrackingParameters, parameter_specs
from ...model.phantoms import PHANTOM_LMAX, is_phantom
from ...model.regions import Region
from ...model.tissues import Tissues
from ...recipes.edits import Edit
from ...recipes.python_code import expression, image_lines, script
from ...recipes.tractogram_sources import TractogramFile, WeightsSource
from ...recipes.volume_sources import VolumeSource
from ..layers.sources.image_layers import settings_of
from ..requests import Request
from ..run_seeding import (
    SeedBetween,
    SeedFod,
    SeedInterface,
    SeedMask,
    SeedSpheres,
    SeedVoxels,
)
from .layer_files import image_source, is_of_image, path_of

LINE = 88  # characters of a painted mask
FILES = "napari_tractography.files"


def as_python(
    request: Request,
    fod_layer: Layer,
    mask_layer: Layer | None = None,
    *,
    seed_layer: Layer | None = None,
    region_layers: Sequence[tuple[Layer, int | None]] = (),
    end_layers: Sequence[tuple[Layer, int | None]] = (),
    weights: WeightsSource | None = None,
    edits: Sequence[Edit] = (),
) -> str:
    """Return a Python script that tracks what a request asks for and prints the digest.

    Its FOD, its mask and the mask that it seeds from came from `fod_layer`, `mask_layer` and
    `seed_layer`; its regions, in their order, and the two that it tracks between from layers of
    which they are one label, or all. Streamlines get the weights, and then the edits. Raises
    InvalidFodError when the FOD did not come from a file and is no phantom.
    """
    fod = request.fod
    imports: set[str] = set()
    path, tissue = path_of(fod_layer), None
    if is_of_image(fod_layer, fod):
        image, layer = image_source(fod_layer, fod), settings_of(fod_layer).tissue
        volume = ""
        if layer is not None and image.image is not None and image.image.mask is not None:
            tissue = image.image.mask.load()[0]
            volume = _python_volume(layer, tissue, fod.grid, None, imports, on="grid")
        lines = image_lines(image, imports, tissue=volume)
    elif path is not None:
        reading = "".join(f", {name}={value!r}" for name, value in _reading(fod).items())
        lines = [f"fod = nt.load_fod({path!r}{reading})"]
    elif is_phantom(fod):
        imports.add("from napari_tractography.model.phantoms import make_phantom")
        lmax = "" if fod.lmax == PHANTOM_LMAX else f", lmax={fod.lmax}"
        lines = [f"fod = make_phantom({fod.name!r}{lmax})"]
    else:
        raise InvalidFodError(_no_file(fod_layer))
    more = ""
    if mask_layer is not None:
        assert request.mask is not None
        if tissue is not None and np.array_equal(tissue, request.mask):
            lines += ["mask = tissue"]
        else:
            reading = _python_volume(
                mask_layer, request.mask, fod.grid, None, imports, on="fod.grid"
            )
            lines += [f"mask, _ = {reading}"]
        more += ", mask=mask"
    lines += [f"parameters = nt.TrackingParameters({_arguments(request.parameters)})"]
    if request.tissues is not None:  # before seeds on its interface
        lines += [f"tissues = nt.load_tissues({_tissue_file(request.tissues)})"]
    is_between = isinstance(request.seeding, SeedBetween)
    if not is_between:
        lines += _python_seeds(request, seed_layer, imports)
    if request.regions:
        lines += ["regions = ["]
        for region, source in zip(request.regions, region_layers, strict=True):
            lines += [f"    nt.Region.{_python_region(region, *source, imports)},"]
        lines += ["]"]
        more += f", regions=regions, include_rule={request.include_rule!r}"
    if request.tissues is not None:
        more += ", tissues=tissues"
    if is_between:
        ends = zip("ab", _ends(request), end_layers, strict=True)
        lines += [f"{x} = nt.Region.{_python_region(r, *s, imports)}" for x, r, s in ends]
        lines += [f"streamlines = nt.track_between(fod, a, b, {request.select}, parameters{more})"]
    else:
        more += "" if request.select is None else f", select={request.select}"
        lines += [f"streamlines = nt.track(fod, seeds, parameters{more})"]
    if weights is not None:
        lines += [f"weights = {expression(weights, imports)}"]
        lines += ["streamlines = weights.put_on(streamlines)"]
    if edits:
        lines += [f"for edit in {expression(list(edits), imports)}:"]
        lines += ["    streamlines = edit.apply(streamlines)"]
    return script(imports, [*lines, "print(streamlines.digest())"])


def file_as_python(source: TractogramFile) -> str:
    """Return a Python script that reads streamlines from a file, edits them, prints the digest."""
    imports: set[str] = set()
    lines = [
        f"file = {expression(source, imports)}",
        "streamlines = file.edit(file.read())",
        "print(streamlines.digest())",
    ]
    return script(imports, lines)


def as_command(
    request: Request,
    fod_layer: Layer,
    mask_layer: Layer | None = None,
    *,
    seed_layer: Layer | None = None,
    region_layers: Sequence[tuple[Layer, int | None]] = (),
    end_layers: Sequence[tuple[Layer, int | None]] = (),
    out: str = "streamlines.trk",
) -> str:
    """Return a command that tracks what a request asks for; see :func:`as_python`.

    Raises InvalidFodError or InvalidMaskError when the FOD, a mask or a region is not as a file
    says; InvalidTissuesError when the tissue image is from no file, or is made of labels that are
    not FreeSurfer's.
    """
    if is_of_image(fod_layer, request.fod):
        raise InvalidFodError(
            f"{request.fod.name} is an image, in which the command does not track; use Copy as "
            "Python, or save a project and replay it."
        )
    path = path_of(fod_layer)
    if path is None:
        raise InvalidFodError(_no_file(fod_layer))
    fod, seeding = request.fod, request.seeding
    words = ["napari-tractography", "track", _no_flag(path), "-o", _no_flag(out)]
    for name, value in _reading(fod).items():
        words += [f"--{name}", value]
    if mask_layer is not None:
        assert request.mask is not None
        path = _file_of(mask_layer, request.mask, fod.grid, resampled=True)
        words += ["--mask", _no_flag(path)]
    if isinstance(seeding, SeedSpheres):
        same = len(set(seeding.n_each)) == 1
        counts = request.select is None or len(seeding.n_each) > 1  # else a number says nothing
        for point, radius, n, _ in seeding.each():  # the command numbers seeds in this order
            words += [f"--seed-sphere={_numbers(*point, radius)}" + ("" if same else f",{n}")]
        if same and counts:
            words += ["--n-seeds", str(seeding.n_each[0])]
    elif isinstance(seeding, SeedBetween):
        ends = zip(_ends(request), end_layers, strict=True)
        words += [f"--between={_command_region(region, *source)}" for region, source in ends]
    else:
        if isinstance(seeding, SeedVoxels):
            words += ["--seeds-per-voxel", str(seeding.n_per_voxel)]
        elif request.select is None:
            words += ["--n-seeds", str(seeding.n_seeds)]
        if isinstance(seeding, SeedMask | SeedVoxels):
            assert seed_layer is not None
            mask_file = _file_of(seed_layer, seeding.mask, seeding.grid)
            words += ["--seed-mask", _no_flag(mask_file)]
            words += ["--seeds-by", seeding.by] if seeding.by != "list" else []
        elif isinstance(seeding, SeedInterface):
            words += ["--seed-interface"]
        else:
            words += ["--seed-fod"]
    if request.select is not None:
        words += ["--select", str(request.select)]
    for region, source in zip(request.regions, region_layers, strict=True):
        words += [f"--{region.role}={_command_region(region, *source)}"]
    if request.regions and request.include_rule != "all":
        words += ["--include-rule", request.include_rule]
    if request.tissues is not None:
        if request.tissues.labels:
            raise InvalidTissuesError(
                f"The labels of {request.tissues.name} are not FreeSurfer's, which the command "
                "reads; use Copy as Python, or save a project and replay it."
            )
        words += ["--tissues", _no_flag(path_of_tissues(request.tissues))]
    # What the command would choose for the FOD is written out: it may be another tomorrow.
    for spec, value in _values_of(request.parameters):
        is_said = value != spec.default or spec.by_fod
        is_used = request.parameters.uses(spec.name)  # else it is left from another algorithm
        of_tissues = spec.name in WITH_TISSUES
        if not (is_said and is_used) or (of_tissues and request.tissues is None):
            continue
        if isinstance(spec.default, bool):
            words.append(spec.flag if value else f"--no-{spec.flag[2:]}")
        else:
            words += [spec.flag, str(value)]
    return shell_line(words)


def _no_flag(path: str) -> str:
    """Return a path that does not begin as a flag does."""
    return os.path.join(os.curdir, path) if path.startswith("-") else path


def shell_line(words: Sequence[str]) -> str:
    """Return the words of a command as shells take them, on Windows cmd as well as PowerShell.

    PowerShell evaluates what follows a dollar or a backtick in double quotes: such words are in
    single quotes, which are for it alone.
    """
    if sys.platform != "win32":
        return shlex.join(words)
    # Single quotes are letters to cmd; a comma without quotes makes a list in PowerShell. A
    # backslash before the closing quote would escape it.
    return " ".join(map(_quoted_on_windows, words))


def _quoted_on_windows(word: str) -> str:
    if re.fullmatch(r"[\w.:/\\-]+", word):
        return word
    if re.search("[$`]", word):
        return "'" + word.replace("'", "''") + "'"
    return '"' + re.sub(r"(\\+)$", r"\1\1", word) + '"'


def path_of_tissues(tissues: Tissues) -> str:
    """Return the file of a tissue image.

    Raises InvalidTissuesError when there is none.
    """
    if not tissues.path:
        raise InvalidTissuesError(
            f"The tissue image {tissues.name} did not come from a file, which a script could read; "
            "save it and open it from there."
        )
    return tissues.path


def _tissue_file(tissues: Tissues) -> str:
    """Return the arguments that read a tissue image."""
    of_each = {tissue: labels for tissue, labels in enumerate(tissues.labels) if labels}
    return repr(path_of_tissues(tissues)) + (f", mapping={of_each!r}" if of_each else "")


# -- seeds and regions -------------------------------------------------------------------------


def _python_seeds(request: Request, layer: Layer | None, imports: set[str]) -> list[str]:
    seeding = request.seeding
    key = f"random_seed={request.parameters.random_seed}"
    if isinstance(seeding, SeedSpheres):
        return [
            "spheres = [  # centre and radius in mm, streamlines, number of the first",
            *(f"    {sphere!r}," for sphere in seeding.each()),
            "]",
            "seeds = nt.Seeds.concatenate(",
            "    [",
            f"        nt.Seeds.in_sphere(centre, radius, n, {key}, first=first)",
            "        for centre, radius, n, first in spheres",
            "    ]",
            ")",
        ]
    if isinstance(seeding, SeedMask | SeedVoxels):
        assert layer is not None
        on = "fod.grid" if seeding.grid == request.fod.grid else ""
        if on and request.mask is not None and np.array_equal(request.mask, seeding.mask):
            volume = f"mask, {on}"
        else:
            volume = _python_volume(layer, seeding.mask, seeding.grid, None, imports, on=on)
        draw = f"in_mask(seed_mask, grid, {seeding.n_seeds}"
        if isinstance(seeding, SeedVoxels):
            draw = f"in_each_voxel(seed_mask, grid, {seeding.n_per_voxel}"
        if seeding.by != "list":
            key += f", by={seeding.by!r}"
        return [f"seed_mask, grid = {volume}", f"seeds = nt.Seeds.{draw}, {key})"]
    if isinstance(seeding, SeedInterface):
        return [f"seeds = nt.Seeds.on_interface(tissues, {seeding.n_seeds}, {key})"]
    assert isinstance(seeding, SeedFod)
    return [f"seeds = nt.Seeds.from_fod(fod, {seeding.n_seeds}, {key})"]


def _ends(request: Request) -> tuple[Region, Region]:
    assert isinstance(request.seeding, SeedBetween)
    return request.seeding.one, request.seeding.other


def _python_region(region: Region, layer: Layer, label: int | None, imports: set[str]) -> str:
    rest = f"{region.role!r}, name={region.name!r}"
    if region.voxels is None or region.grid is None:
        assert region.center_mm is not None
        return f"sphere({tuple(region.center_mm.tolist())!r}, {region.radius_mm!r}, {rest})"
    volume = _python_volume(layer, region.voxels, region.grid, label, imports)
    if label is not None and "load_volume" in volume:
        rest += f", label={label}"
    return f"mask(*{volume}, {rest})"


def _command_region(region: Region, layer: Layer, label: int | None) -> str:
    if region.voxels is None or region.grid is None:
        assert region.center_mm is not None
        return _numbers(*region.center_mm.tolist(), region.radius_mm)
    path = _file_of(layer, region.voxels, region.grid, label)
    return path if label is None else f"{path}:{label}"


def _numbers(*values: float) -> str:
    return ",".join(repr(value) for value in values)


# -- volumes -----------------------------------------------------------------------------------


def _python_volume(
    layer: Layer,
    voxels: NDArray[Any],
    grid: Grid,
    label: int | None,
    imports: set[str],
    *,
    on: str = "",
) -> str:
    """Return an expression for (array, grid): read from the file, or, if painted, spelt out.

    `on` is an expression for the grid of a mask, which files such as TIFF do not know.
    """
    path = path_of(layer)
    if path is not None and on and _is_in_image(path, voxels):
        imports.add(f"from {FILES}.image_files import load_image_mask")
        return f"load_image_mask({path!r})[0] != 0, {on}"
    if path is not None and _is_in_file(path, voxels, grid, label):
        reader = "load_mask" if label is None else "load_volume"
        imports.add(f"from {FILES}.fods import {reader}")
        return f"{reader}({path!r})"
    imports.add("from napari_tractography.recipes.volume_sources import VolumeSource")
    source = VolumeSource.of_array(voxels, grid)
    text = "\n".join(f"    {part!r}" for part in textwrap.wrap(source.voxels, LINE))
    return (
        f"VolumeSource(  # the voxels of {layer.name!r}\n    voxels=\n{text},\n"
        f"    shape={source.shape!r},\n    affine={source.affine!r},\n).load()"
    )


def _file_of(
    layer: Layer,
    voxels: NDArray[Any],
    grid: Grid,
    label: int | None = None,
    *,
    resampled: bool = False,
) -> str:
    """Return the file of a layer; with `resampled` it may lie on another grid, as --mask may.

    Raises InvalidMaskError when there is none or it holds something else.
    """
    path = path_of(layer)
    if path is None:
        raise InvalidMaskError(
            f"The layer {layer.name!r} did not come from a file, which a command could read; save "
            "it, a region in Regions, or use Copy as Python, which contains it."
        )
    if not _is_in_file(path, voxels, grid, label, resampled=resampled):
        raise InvalidMaskError(
            f"The layer {layer.name!r} is not what {path} holds, painted since or in another order "
            "of axes; save it, a region in Regions, or use Copy as Python, which contains it."
        )
    return path


def _is_in_file(
    path: str, voxels: NDArray[Any], grid: Grid, label: int | None, *, resampled: bool = False
) -> bool:
    """Return whether a file holds a mask, voxel by voxel in the same order and position.

    Or, with `resampled`, one that becomes it on the grid.
    """
    try:
        found, where = load_mask(path) if label is None else load_volume(path)
        if resampled and not where.same_space(grid):
            found, where = masks.resampled(found, where, grid, path), grid
    except TractographyError:
        return False  # gone, or of a kind that scripts do not read
    inside = found != 0 if label is None else found == label
    same_place = where.shape == grid.shape and np.array_equal(where.affine, grid.affine)
    return same_place and np.array_equal(inside, np.nan_to_num(voxels) != 0)


def _is_in_image(path: str, voxels: NDArray[Any]) -> bool:
    """Return whether a file that does not know where its voxels lie holds those of a mask."""
    if not (is_zarr(path) or has_ending(path, IMAGE_ENDINGS)):
        return False
    try:
        found, _ = load_image_mask(path)
    except TractographyError:
        return False
    return np.array_equal(found != 0, np.nan_to_num(voxels) != 0)


def _reading(fod: Fod) -> dict[str, str]:
    """Return how the file of an FOD is read, as far as that is not by default."""
    reading = {"kind": fod.kind, **given_reading(fod)}
    if fod.basis != "tournier07":
        reading["basis"] = fod.basis
    if fod.frame != DEFAULT_FRAMES[fod.basis]:
        reading["frame"] = fod.frame
    return reading


def given_reading(fod: Fod) -> dict[str, str]:
    """Return how numbers of voxels came, as far as that is to be given: axes and order."""
    return {name: value for name, value in fod.vector_reading.items() if value}


def _arguments(parameters: TrackingParameters) -> str:
    return ", ".join(
        f"{spec.name}={value!r}" for spec, value in _values_of(parameters) if value != spec.default
    )


def _values_of(parameters: TrackingParameters) -> list[tuple[ParameterSpec, Any]]:
    """Return the values that make the parameters: of cone angle and radius the one that counts."""
    values = [(spec, getattr(parameters, spec.name)) for spec in parameter_specs()]
    derived = parameters.derived_fields
    return [(s, value) for s, value in values if value is not None and s.name not in derived]


def _no_file(layer: Layer) -> str:
    return (
        f"The layer {layer.name!r} did not come from a file, which a script could read; save it "
        "and open it from there."
    )
