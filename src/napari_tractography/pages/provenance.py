"""How the bundles of a page are made again, and in what space they lie, as a project says it.

Called by :mod:`.page`, the command and the plugin.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from ..files.formats import has_ending, volume_endings
from ..geometry.units import MM
from ..recipes.project import ENDING, Project
from ..recipes.provenance import present_versions
from ..recipes.recipe import Recipe


def space_of(project: Project) -> tuple[bool, str]:
    """Return whether x, y and z of bundles are R, A and S, and in which unit lengths are read.

    They are not where one was tracked in an image that does not say how it lies, such as a TIFF.
    """
    sources = [bundle.source for bundle in project.bundles.values()]
    fods = [source.fod for source in sources if isinstance(source, Recipe)]
    images = [fod for fod in fods if fod.image is not None]
    is_anatomical = all(has_ending(fod.path, volume_endings()) for fod in images)
    units = {fod.image.unit for fod in images if fod.image is not None}
    return is_anatomical, units.pop() if len(units) == 1 and len(images) == len(sources) else MM


def told(target: Path, project: Project | None) -> dict[str, Any]:
    """Return what a page says of how it was made; its recipe names files as seen from there."""
    name = target.stem + ENDING
    if project is None:
        again, recipe = "Nothing is known of how these streamlines were made.", ""
    else:
        again = (
            "Save the recipe into the folder where this page was written, from where it names its "
            f'files, and run: napari-tractography replay "{name}" -o FOLDER'
        )
        recipe = json.dumps(project.content(target.absolute().parent), indent=1) + "\n"
    return {"versions": present_versions(), "again": again, "recipe": recipe, "recipe_name": name}
