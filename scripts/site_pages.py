"""The interactive pages of the site's front page, made while MkDocs builds it.

Loaded by ``mkdocs build``, see ``hooks`` in mkdocs.yml.
"""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from mkdocs.structure.files import File

import napari_tractography as nt
from napari_tractography.model.phantoms import make_phantom, phantom_seeds_mm
from napari_tractography.pages.live import live_of
from napari_tractography.pages.page import Camera, PageBundle, PageVolume, save_page
from napari_tractography.recipes.sources import FodSource, SeedSource

PHANTOM = "arcs"
BUNDLES = ("Arch", "Bowl", "Straight", "Spiral", "Fan")  # in the order of their seeds
RADIUS_MM = 4.0
N_A_BUNDLE = 300
CROSSING_MM = (-32.0, 5.0, -7.0)  # where the straight bundle goes through the arch's left leg
# A seed that is dragged stays as deep as it is: seen from here, in the arch up to its top.
CAMERA = Camera((0.0, 0.0, -2.0), (0.3, -0.9, -0.3), (0.0, 0.0, 1.0), 84.0)


def on_files(files: Any, config: Any) -> Any:
    """Add the pages, which docs/index.md shows."""
    with TemporaryDirectory() as folder:
        for path in write_pages(Path(folder)):
            name = f"try/{path.name}"
            files.append(File.generated(config, name, content=path.read_text("utf-8")))
    return files


def write_pages(folder: Path) -> tuple[Path, Path]:
    """Write the sample phantom with its bundles, and a crossing of it that is tracked live."""
    fod = make_phantom(PHANTOM)
    phantom, live = folder / "phantom.html", folder / "live.html"
    recipes = [recipe_of(fod, center_mm) for center_mm in phantom_seeds_mm(PHANTOM)]
    save(
        phantom,
        dict(zip(BUNDLES, recipes, strict=True)),
        volume=PageVolume("Phantom", fod.coefficients[..., 0], fod.grid),
        title="Bundles to turn",
        caption="Five bundles of a phantom, each tracked from a seed. Drag to turn them, move the "
        "slices, show and hide bundles in the list.",
    )
    recipe = recipe_of(fod, CROSSING_MM)
    save(
        live,
        {"Crossing": recipe},
        live=("Crossing", live_of(recipe.inputs(), recipe.run())),
        camera=CAMERA,
        title="A seed to drag",
        caption="Drag the yellow ring from the crossing up to the top of the arch: streamlines "
        "follow, tracked in your browser. Then move the angle: where it is narrow, they leave the "
        "arch as it curves; where it is wide, some turn into the other bundle.",
    )
    return phantom, live


def recipe_of(fod: nt.Fod, center_mm: Any) -> nt.Recipe:
    """Return the recipe of the streamlines from a sphere in a phantom."""
    center = tuple(float(x) for x in center_mm)
    seeds = SeedSource("sphere", N_A_BUNDLE, center_mm=center, radius_mm=RADIUS_MM)
    return nt.Recipe(FodSource.of_phantom(fod), (seeds,), nt.TrackingParameters.for_fod(fod))


def save(path: Path, recipes: dict[str, nt.Recipe], **how: Any) -> None:
    """Track recipes, and write what they give as a page."""
    project, shown = nt.Project(), []
    for name, recipe in recipes.items():
        tracked = recipe.run()
        project.add(name, recipe.with_result(tracked))
        shown.append(PageBundle(name, tracked, digest=tracked.digest()))
    save_page(path, shown, project=project, **how)
