"""A page: what is in it, and how it is written.

Called by the command and the plugin, and by scripts::

    save_page("page.html", [PageBundle("CST left", tractogram)], volume=PageVolume("T1", t1, grid))
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache
from importlib.resources import files
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import FileError, InvalidParameterError, InvalidTractogramError
from ..files.paths import at_home, check_writable, written_whole
from ..geometry.grid import Grid
from ..geometry.units import MM, per_mm
from ..recipes.project import Project
from ..streamlines.joining import of_points
from ..streamlines.tractogram import Tractogram
from ..version import __version__
from .live import Live
from .packed import Packed, pack, pack_bytes, second_differences
from .provenance import told
from .slices import Slices

ENDING = ".html"
STEP_MM = 0.05  # in which points are told
STEPS_ACROSS = 2000  # at least, where that is finer: of what is no brain
MOST_STEPS = 65_535  # across a bundle: what 16 bits tell
MOST_POINTS = 2048 * 8192  # of a bundle: what the texture of any graphics card holds
GOLDEN = 0.6180339887498949
DIRECTION = "direction"
DIRECTION_MEANING = {
    True: "Red runs left-right, green anterior-posterior, blue inferior-superior.",
    False: "Red runs along x, green along y, blue along z.",
}
COLOUR = re.compile("#[0-9a-fA-F]{6}")
ANATOMY = (("L", "R"), ("P", "A"), ("I", "S")), ("Sagittal", "Coronal", "Axial")
AXES = (("", "x"), ("", "y"), ("", "z")), ("x", "y", "z")
THEMES = ("auto", "dark", "light")


@dataclass(frozen=True, slots=True)
class PageBundle:
    """A bundle as a page shows it.

    Raises InvalidParameterError when the colour is none.
    """

    name: str
    tractogram: Tractogram
    # "direction", one colour such as "#ff8800", or (n_points, 3) uint8: one for each point.
    colour: str | NDArray[np.uint8] = DIRECTION
    meaning: str = ""  # what colours of points mean: a sentence
    width: float = 2.0  # pixels
    opacity: float = 1.0  # 0 to 1
    is_visible: bool = True
    digest: str = ""  # of all its streamlines, as the recipe has it
    n_all: int | None = None  # how many there are where the tractogram is a part of them

    def __post_init__(self) -> None:
        colour = self.colour
        if isinstance(colour, str):
            if colour != DIRECTION and not COLOUR.fullmatch(colour):
                raise InvalidParameterError(
                    f"The colour of {self.name} is {colour!r}; give {DIRECTION!r}, one such as "
                    "'#ff8800', or one for each point."
                )
        elif colour.shape != (self.tractogram.n_points, 3):
            raise InvalidParameterError(
                f"The colours of {self.name} have shape {colour.shape}; give "
                f"({self.tractogram.n_points}, 3), one for each point."
            )


@dataclass(frozen=True, slots=True)
class PageVolume:
    """A volume, of which a page shows three slices."""

    name: str
    values: NDArray[Any]  # (x, y, z): on the grid
    grid: Grid
    # Values that are black and white; by default what leaves out the darkest and the brightest.
    limits: tuple[float, float] | None = None
    gamma: float = 1.0
    point_mm: Sequence[float] | None = None  # where slices cross, RAS+; by default in the middle
    are_visible: tuple[bool, bool, bool] = (True, True, True)  # the slices across x, y and z


@dataclass(frozen=True, slots=True)
class Camera:
    """From where a page looks when it is opened; RAS+ mm."""

    center_mm: tuple[float, float, float]
    forward: tuple[float, float, float]  # where the eye looks
    up: tuple[float, float, float]
    height_mm: float  # of what is seen
    width_mm: float = 0.0  # at least, however narrow the page is


def save_page(
    path: str | PathLike[str],
    bundles: Sequence[PageBundle],
    *,
    volume: PageVolume | None = None,
    project: Project | None = None,
    title: str = "",
    caption: str = "",
    camera: Camera | None = None,
    theme: str = "auto",
    every: int = 1,
    is_anatomical: bool = True,
    unit: str = MM,
    live: tuple[str, Live] | None = None,
) -> int:
    """Write an interactive page, whole or not at all; return its size in bytes.

    It opens by a double click in browsers of the last three years, and fetches nothing.

    Parameters
    ----------
    path : path-like
        Ends in .html. An older file is replaced.
    bundles : sequence of PageBundle
        In the order of the list.
    volume : PageVolume, optional
    project : Project, optional
        What makes the bundles again: it is told in the page, and can be saved from it.
    title, caption : str
        Plain text; the title is the name of the file by default.
    camera : Camera, optional
        By default all is seen from above, the front left.
    theme : str
        "dark", "light", or "auto": as the browser is set.
    every : int
        Of the streamlines of each bundle every so many-th is in the page.
    is_anatomical : bool
        Whether x, y and z are R, A and S.
    unit : str
        In which positions are told, see :mod:`napari_tractography.geometry.units`.
    live : tuple of str and Live, optional
        The name of a bundle whose seeds can be dragged in the page, and what tracks it there.

    Raises
    ------
    FileError
        When the ending is another, or the file cannot be written.
    InvalidParameterError
        When `every` is below 1, the theme is unknown, or `live` is no bundle.
    InvalidTractogramError
        When there is nothing to draw, or a bundle has too many points for a browser.
    """
    target = check_page(path, every=every, theme=theme)
    title = title or target.stem
    thinned = [_drawable(bundle, every) for bundle in bundles]
    if not any(len(each.tractogram) for each in thinned):
        raise InvalidTractogramError(
            "There are no streamlines to show in a page; give bundles with some of two points or "
            "more."
        )
    slices = (
        None
        if volume is None
        else Slices.of(volume.values, volume.grid, volume.limits, volume.gamma)
    )
    low, high = _box([each for each in thinned if each.is_visible] or thinned, slices)
    step_mm = _step_mm(thinned, high - low)
    letters, axes = ANATOMY if is_anatomical else AXES
    data = dict[str, str]()

    def stored(packed: Packed) -> dict[str, Any]:
        element = f"data-{len(data)}"
        data[element] = packed.text
        return packed.described(element)

    content: dict[str, Any] = {
        "step_mm": step_mm,
        "box_mm": [low.tolist(), high.tolist()],
        "letters": letters,
        "slices": axes,
        "is_anatomical": is_anatomical,
        "units_a_mm": per_mm(unit),
        "theme": theme,
        "camera": None if camera is None else asdict(camera),
        "bundles": [
            _bundle_content(
                each,
                n_all=len(bundle.tractogram) if bundle.n_all is None else bundle.n_all,
                step_mm=step_mm,
                is_anatomical=is_anatomical,
                stored=stored,
            )
            for each, bundle in zip(thinned, bundles, strict=True)
        ],
        "volume": None,
        "live": None,
        **told(target, project),
    }
    if volume is not None and slices is not None:
        content["volume"] = {
            "name": volume.name,
            "shape": slices.shades.shape,
            "affine": slices.grid.affine.tolist(),
            "at": slices.at(volume.point_mm),
            "visible": volume.are_visible,
            "voxels": stored(pack(slices.differences())),
        }
    if live is not None:
        name, tracking = live
        numbers = [number for number, bundle in enumerate(bundles) if bundle.name == name]
        if not numbers:
            raise InvalidParameterError(f"live is {name!r}, which none of the bundles is called.")
        parts = {
            "image": tracking.image,
            "positions": tracking.positions,
            "kernel": tracking.kernel,
            "tissues": tracking.tissues,
        }
        data |= {f"live-{part}": pack_bytes(packed) for part, packed in parts.items()}
        content["live"] = {**tracking.content, "bundle": numbers[0]}
    text = _page(title, caption, content, data)
    with written_whole(target) as temporary:
        # Names of files are any bytes: what is no UTF-8 in them is shown as on a terminal.
        temporary.write_text(text, "utf-8", "backslashreplace", newline="\n")
        return temporary.stat().st_size


def check_page(path: str | PathLike[str], *, every: int = 1, theme: str = "auto") -> Path:
    """Return where a page is to be; raise what :func:`save_page` raises of these arguments."""
    target = at_home(path)
    if target.suffix.lower() != ENDING:
        raise FileError(f"{target} does not end in {ENDING}; pages are saved as HTML.")
    if every < 1:
        raise InvalidParameterError(f"every = {every} is too few; give 1, for all, or more.")
    if theme not in THEMES:
        raise InvalidParameterError(f"theme = {theme!r} is unknown; choose {', '.join(THEMES)}.")
    check_writable(target)
    return target


# -- what is in it -------------------------------------------------------------------------------


def _drawable(bundle: PageBundle, every: int) -> PageBundle:
    """Return a bundle with every so many-th streamline, without those of one point.

    They are in such an order that the first of them are an even part of all, however many.
    """
    tractogram = bundle.tractogram
    numbers = np.arange(0, len(tractogram), every)
    numbers = numbers[np.diff(tractogram.offsets)[numbers] > 1]
    numbers = numbers[np.argsort(np.arange(len(numbers)) * GOLDEN % 1, kind="stable")]
    chosen = tractogram[numbers]
    if chosen.n_points > MOST_POINTS:
        raise InvalidTractogramError(
            f"{bundle.name} has {chosen.n_points:,} points, and a browser draws {MOST_POINTS:,}; "
            f"take every {every * -(-chosen.n_points // MOST_POINTS)}th streamline."
        )
    colour = bundle.colour
    if not isinstance(colour, str):
        colour = of_points(colour, tractogram.offsets, numbers)
    return replace(bundle, tractogram=chosen, colour=colour)


def _box(
    bundles: Sequence[PageBundle], slices: Slices | None
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the corners of the box around all that is to be seen at first, RAS+ mm."""
    found: list[NDArray[Any]] = [each.tractogram.points for each in bundles if len(each.tractogram)]
    if slices is not None:
        found.append(slices.grid.corners_mm())
    points = np.array([end(each, axis=0) for each in found for end in (np.min, np.max)], float)
    return points.min(axis=0), points.max(axis=0)


def _step_mm(bundles: Sequence[PageBundle], size_mm: NDArray[np.float64]) -> float:
    """Return in which steps points are told, as coarse as they may be."""
    widest = [
        np.ptp(each.tractogram.points, axis=0).max() for each in bundles if len(each.tractogram)
    ]
    wanted = min(STEP_MM, float(size_mm.max()) / STEPS_ACROSS) or STEP_MM
    return max(wanted, float(max(widest)) / (MOST_STEPS - 1))


def _bundle_content(
    bundle: PageBundle, *, n_all: int, step_mm: float, is_anatomical: bool, stored: Any
) -> dict[str, Any]:
    tractogram, colour = bundle.tractogram, bundle.colour
    steps = np.rint(tractogram.points.astype(np.float64) / step_mm).astype(np.int64)
    low = steps.min(axis=0) if len(steps) else np.zeros(3, np.int64)
    is_direction = isinstance(colour, str) and colour == DIRECTION
    return {
        "name": bundle.name,
        "visible": bundle.is_visible,
        "colour": colour if isinstance(colour, str) else "points",
        "meaning": DIRECTION_MEANING[is_anatomical] if is_direction else bundle.meaning,
        "width": bundle.width,
        "opacity": bundle.opacity,
        "digest": bundle.digest,
        "n_all": n_all,
        "low": (low * step_mm).tolist(),
        "counts": stored(pack(np.diff(tractogram.offsets))),
        "points": stored(pack(second_differences(steps - low, tractogram.offsets))),
        "colours": None
        if isinstance(colour, str)
        else stored(pack(np.diff(colour.astype(np.int64), axis=0, prepend=0))),
    }


# -- the file ------------------------------------------------------------------------------------


def _page(title: str, caption: str, content: Mapping[str, Any], data: Mapping[str, str]) -> str:
    script, style = script_of_page(), _asset("page.css")
    # Read as data, never run; "<" is spelt so that nothing in it ends the element.
    plain = json.dumps(content, allow_nan=False).replace("<", "\\u003c")
    blocks = [f'<script type="application/json" id="page">{plain}</script>']
    blocks += [
        f'<script type="text/plain" id="{name}">{text}</script>' for name, text in data.items()
    ]
    filled = {
        "policy": policy_of(script, style, compiles=content["live"] is not None),
        "generator": html.escape(f"napari-tractography {__version__}"),
        "title": html.escape(title),
        "caption": html.escape(caption),
        "style": style,
        "script": script,
        "data": "\n".join(blocks),
    }
    return re.sub(r"\{\{(\w+)\}\}", lambda found: filled[found[1]], _asset("page.html"))


def script_of_page() -> str:
    """Return the one script of a page: three.js and our own."""
    return f"\n{_asset('three.js')}\n{_asset('page.js')}"


def policy_of(script: str, style: str, *, compiles: bool = False) -> str:
    """Return the Content-Security-Policy of a page: its script, its style, and nothing else.

    Where the script tracks, it also `compiles` WebAssembly, in a worker that it makes of its own
    text.
    """
    wasm, worker = (" 'wasm-unsafe-eval'", "worker-src blob:; ") if compiles else ("", "")
    return (
        f"default-src 'none'; script-src {_source(script)}{wasm}; {worker}"
        f"style-src {_source(style)}; connect-src 'none'; base-uri 'none'; form-action 'none'"
    )


def _source(text: str) -> str:
    digest = hashlib.sha256(text.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode('ascii')}'"


@cache
def _asset(name: str) -> str:
    return files(__package__).joinpath(name).read_text("utf-8").replace("\r\n", "\n")
