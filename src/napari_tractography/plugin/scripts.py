"""What is on the screen as a script: Python, or one command, that gives the same digest.

Called by the panel's Copy buttons.
"""

from __future__ import annotations

import shlex
from typing import Any

from napari.layers import Layer

from ..errors import InvalidFodError, InvalidMaskError
from ..fod import DEFAULT_FRAMES, Fod
from ..parameters import TrackingParameters, parameter_specs
from ..phantoms import PHANTOMS
from .runs import Request

PATH_KEY = "path"  # layer.metadata[PATH_KEY]: the file that a layer was opened from


def as_python(request: Request, fod_layer: Layer, mask_layer: Layer | None) -> str:
    """Return a Python script that tracks what a request asks for and prints the digest.

    Raises
    ------
    InvalidFodError, InvalidMaskError
        When the FOD or the mask did not come from a file.
    """
    fod = request.fod
    lines = ["import napari_tractography as nt"]
    path = path_of(fod_layer)
    if path is not None:
        lines += ["", f"fod = nt.load_fod({path!r}{_reading(fod)})"]
    elif fod.name in PHANTOMS:
        lines += ["from napari_tractography.phantoms import make_phantom", ""]
        lines += [f"fod = make_phantom({fod.name!r})"]
    else:
        raise InvalidFodError(_no_file(fod_layer))
    mask = ""
    if mask_layer is not None:
        mask_path = path_of(mask_layer)
        if mask_path is None:
            raise InvalidMaskError(_no_file(mask_layer))
        lines.insert(1, "from napari_tractography.files.fods import load_mask")
        lines += [f"mask, _ = load_mask({mask_path!r})"]
        mask = ", mask=mask"
    lines += [
        f"parameters = nt.TrackingParameters({_arguments(request.parameters)})",
        "centres_mm = [",
        *(f"    ({x!r}, {y!r}, {z!r})," for x, y, z in request.positions_mm.tolist()),
        "]",
        "seeds = nt.Seeds.concatenate(",
        "    [",
        f"        nt.Seeds.in_sphere(centre, {request.radius_mm!r}, {request.n_per_seed}, "
        f"random_seed={request.parameters.random_seed})",
        "        for centre in centres_mm",
        "    ]",
        ")",
        f"streamlines = nt.track(fod, seeds, parameters{mask})",
        "print(streamlines.digest())",
        "",
    ]
    return "\n".join(lines)


def as_command(
    request: Request, fod_layer: Layer, mask_layer: Layer | None, *, out: str = "streamlines.trk"
) -> str:
    """Return one command that tracks what a request asks for.

    Raises
    ------
    InvalidFodError, InvalidMaskError
        When the FOD or the mask did not come from a file.
    """
    path = path_of(fod_layer)
    if path is None:
        raise InvalidFodError(_no_file(fod_layer))
    words = ["napari-tractography", "track", path, "-o", out]
    fod = request.fod
    if fod.basis != "tournier07":
        words += ["--basis", fod.basis]
    if fod.frame != DEFAULT_FRAMES[fod.basis]:
        words += ["--frame", fod.frame]
    if mask_layer is not None:
        mask_path = path_of(mask_layer)
        if mask_path is None:
            raise InvalidMaskError(_no_file(mask_layer))
        words += ["--mask", mask_path]
    for x, y, z in request.positions_mm.tolist():
        words.append(f"--seed-sphere={x!r},{y!r},{z!r},{request.radius_mm!r}")
    words += ["--n-seeds", str(request.n_per_seed)]
    for spec in parameter_specs():
        value = getattr(request.parameters, spec.name)
        if value == spec.default:
            continue
        if isinstance(spec.default, bool):
            words.append(spec.flag if value else f"--no-{spec.flag[2:]}")
        else:
            words += [spec.flag, str(value)]
    return shlex.join(words)


def path_of(layer: Layer) -> str | None:
    """Return the file that a layer was opened from, or None."""
    known: Any = layer.metadata.get(PATH_KEY) or layer.source.path
    return None if known is None else str(known)


def _reading(fod: Fod) -> str:
    text = "" if fod.basis == "tournier07" else f", basis={fod.basis!r}"
    return text if fod.frame == DEFAULT_FRAMES[fod.basis] else f"{text}, frame={fod.frame!r}"


def _arguments(parameters: TrackingParameters) -> str:
    return ", ".join(
        f"{spec.name}={getattr(parameters, spec.name)!r}"
        for spec in parameter_specs()
        if getattr(parameters, spec.name) != spec.default
    )


def _no_file(layer: Layer) -> str:
    return (
        f"The layer {layer.name!r} did not come from a file, which a script could read; save it "
        "and open it from there."
    )
