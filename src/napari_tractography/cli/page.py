"""``napari-tractography page``: bundles as one HTML file that a reader turns and slices."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import InvalidParameterError
from ..files.formats import listed, volume_endings
from .flags import add_execution, add_path, execution_of, names_of, tractogram_help
from .progress import made_bundle

if TYPE_CHECKING:
    from ..pages.live import Live
    from ..pages.page import PageBundle, PageVolume
    from ..recipes.bundle import Bundle
    from ..recipes.project import Project
    from ..streamlines.tractogram import Tractogram
    from ..tracking.inputs import Execution

THEMES = ("auto", "dark", "light")
MEGABYTE = 10**6


HELP = "show bundles in one HTML file that a reader turns and slices"
DESCRIPTION = (
    "Write bundles, and a volume if one is given, as one HTML file: it opens by a "
    "double click in a browser, fetches nothing, and says how its streamlines are made again."
)


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Add the flags of the sub-command."""
    add_path(
        parser,
        "bundles",
        "PROJECT|BUNDLE",
        "a project, .tracts.json; or bundles, each a recipe, .json, or a "
        f"{tractogram_help()}; what has a recipe is tracked again",
        nargs="+",
    )
    add_path(parser, "-o --out", "OUT", "page to write: .html", required=True)
    add_path(
        parser, "--volume", "IMAGE", f"3-D image shown as three slices: {listed(volume_endings())}"
    )
    parser.add_argument(
        "--every", type=int, default=1, metavar="N", help="take every N-th streamline (default 1)"
    )
    parser.add_argument("--title", default="", help="heading (default the name of the page)")
    parser.add_argument("--caption", default="", help="text below the heading")
    parser.add_argument(
        "--live",
        metavar="NAME",
        help="bundle whose seeds can be dragged in the page, which tracks it: of a recipe in an "
        "FOD, by an algorithm that is the same everywhere",
    )
    parser.add_argument(
        "--theme",
        default=THEMES[0],
        metavar="|".join(THEMES),
        help="background: dark, light, or auto, as the reader's browser is set (default auto)",
    )
    add_execution(parser)


def run(options: argparse.Namespace) -> int:
    """Write the page; return the exit code."""
    from ..files.paths import check_apart
    from ..pages.page import check_page, save_page
    from ..pages.provenance import space_of

    check_page(options.out, every=options.every, theme=options.theme)
    check_apart(options.out, read=(*options.bundles, options.volume))
    project = _project(options.bundles)
    volume = None if options.volume is None else _volume(options.volume)
    if options.live is not None and options.live not in project.bundles:
        raise InvalidParameterError(
            f"--live {options.live}: no bundle is called so; give {', '.join(project.bundles)}."
        )
    live: list[Live] = []
    with execution_of(options) as execution:
        shown = [_shown(options, execution, bundle, live) for bundle in project.bundles.values()]
    is_anatomical, unit = space_of(project)
    size = save_page(
        options.out,
        shown,
        volume=volume,
        project=project,
        title=options.title,
        caption=options.caption,
        theme=options.theme,
        every=options.every,
        is_anatomical=is_anatomical,
        unit=unit,
        live=(options.live, live[0]) if live else None,
    )
    if not options.quiet:
        n = sum(-(-len(each.tractogram) // options.every) for each in shown)
        print(
            f"{n} streamlines of {len(shown)} bundle{'' if len(shown) == 1 else 's'}, "
            f"{size / MEGABYTE:.1f} MB; written to {options.out}"
        )
    return 0


def _project(paths: list[str]) -> Project:
    """Return the project that is named, or one of the bundles that are."""
    from ..recipes.codec import is_recipe
    from ..recipes.project import Project, is_project
    from ..recipes.recipe import Recipe

    projects = [path for path in paths if is_project(path)]
    if projects:
        if len(paths) > 1:
            raise InvalidParameterError(
                f"{projects[0]} is a project, which is shown alone; give it, or bundles."
            )
        return Project.load(projects[0])
    project = Project()
    for path, name in zip(paths, names_of(paths), strict=True):
        is_made = Path(path).suffix == ".json" or is_recipe(path)
        project.add(project.free_name(name), Recipe.load(path) if is_made else path)
    return project


def _shown(
    options: argparse.Namespace, execution: Execution, bundle: Bundle, live: list[Live]
) -> PageBundle:
    """Make a bundle, and return it as the page shows it; add what tracks it there to `live`."""
    from ..pages.live import live_of
    from ..pages.page import PageBundle
    from ..recipes.recipe import Recipe

    if isinstance(bundle.source, Recipe):
        inputs, tracked, _ = made_bundle(options, execution, bundle, bundle.source)
        if bundle.name == options.live:
            live.append(live_of(inputs, tracked))
    elif bundle.name == options.live:
        raise InvalidParameterError(
            f"--live {bundle.name} has no recipe, so that nothing tracks it."
        )
    tractogram = bundle.tractogram()
    display = bundle.look.get("display", {})
    display = display if isinstance(display, dict) else {}
    colour, meaning = _colour(bundle, tractogram, display.get("colormap"))
    return PageBundle(
        bundle.name,
        tractogram,
        colour,
        meaning,
        width=_number(display.get("width"), 2.0),
        opacity=_number(display.get("opacity"), 1.0),
        is_visible=bundle.visible,
        digest=bundle.digest,
    )


def _number(value: Any, default: float) -> float:
    return float(value) if isinstance(value, int | float) and value > 0 else default


def _colour(bundle: Bundle, tractogram: Tractogram, colormap: Any) -> tuple[Any, str]:
    """Return the colour of a bundle, as a page has it, and what it means."""
    from ..pages.page import COLOUR, DIRECTION

    if bundle.colour == DIRECTION or COLOUR.fullmatch(bundle.colour):
        return bundle.colour, ""
    # The window's own: napari's names of colours, and its colormaps.
    from ..plugin.streamlines.colours import DEFAULT_COLORMAP, MODES, hex_of, rgba_of

    mode = MODES.get(bundle.colour)
    if mode is None:
        return hex_of(rgba_of(bundle.colour)), ""
    colormap = colormap if isinstance(colormap, str) else DEFAULT_COLORMAP
    colours = mode.colours(tractogram, colour=rgba_of("white"), colormap=colormap, axis=None)
    return colours.rgb, colours.meaning


def _volume(path: str) -> PageVolume:
    from ..files.volume_files import load_volume
    from ..pages.page import PageVolume

    values, grid = load_volume(path)
    return PageVolume(Path(path).name, values, grid)
