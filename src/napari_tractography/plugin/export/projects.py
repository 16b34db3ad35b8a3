"""The bundles of a window as a project: what is saved, and what of it is not saved yet.

Called by the panel.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, replace
from functools import partial
from typing import Any

from ...errors import InvalidTractogramError, TractographyError
from ...recipes.bundle import Bundle, Source
from ...recipes.edits import Edit
from ...recipes.project import Project
from ...recipes.tractogram_sources import TractogramFile
from ...streamlines.tractogram import Tractogram
from ..document import NO_LIMITS, BundleState
from ..requests import Request
from ..session.listing import OPENED, BundleList
from ..session.open_bundle import OpenBundle
from ..streamlines.colours import ONE_COLOUR
from .recipes import recipe_of

PLAIN = (str, bool, int, float, list, type(None))  # what JSON can say of a look


def project_of(bundles: BundleList, *, proven: bool = True) -> tuple[Project, list[str]]:
    """Return the bundles of a window as a project, and a sentence on each thing that is not in it.

    It is `proven` by digests, which take a while for millions of streamlines, or a large file.
    """
    project, left_out, prove = project_to_prove(bundles)
    if proven:
        prove()
    return project, left_out


def project_to_prove(bundles: BundleList) -> tuple[Project, list[str], Callable[[], None]]:
    """Return what :func:`project_of` does, and what proves the project by digests in any thread."""
    project, left_out = Project(), list[str]()
    proofs: dict[str, Callable[[], Source]] = {}
    for bundle in bundles.bundles:
        state = bundle.state
        try:
            source, proof = _source_and_proof(bundles, bundle)
        except TractographyError as error:
            left_out.append(f"{state.name} is left out: {error}")
            continue
        if source is None:
            if not state.is_blank:
                why = bundles.session.why_impossible(bundle)
                left_out.append(f"{state.name} is left out: {why}")
            continue
        is_shown = proof is not None and state.edits is None  # what is saved gives what is shown
        if not is_shown and (since := _set_since(bundles, bundle)):
            what = "it is set now; the run whose streamlines are shown is left out, changed since"
            if state.edits is not None:
                what = "the run whose streamlines were edited; what was set since is left out"
            left_out.append(f"{state.name} is saved as {what}: {', '.join(since)}.")
        mode = str(state.style.get("colour_by", "direction"))
        created = Bundle(
            state.name,
            source,
            colour=state.colour if mode == ONE_COLOUR else mode,
            visible=state.is_visible,
            look=_plain(state),
        )
        name = project.free_name(state.name)
        project.add(name, created)
        if proof is not None:
            proofs[name] = proof
    project.views = views_of(bundles)

    def prove() -> None:
        for name, proof in proofs.items():
            project.bundles[name].source = proof()

    return project, left_out, prove


def source_of(bundles: BundleList, bundle: OpenBundle) -> Source | None:
    """Return what makes a bundle, as projects have it, without its digest; None where nothing does.

    Raises TractographyError when something has no file.
    """
    return _source_and_proof(bundles, bundle)[0]


def _source_and_proof(
    bundles: BundleList, bundle: OpenBundle
) -> tuple[Source | None, Callable[[], Source] | None]:
    """Return what makes a bundle, and what gives that with the digest of its streamlines."""
    state = bundle.state
    if state.source is not None and state.result is None:
        return state.source, None  # not made yet: as the project has it
    if state.is_opened:
        file = file_source(bundle)
        return file, partial(proven_file, file, bundle.tractogram)
    request, is_result = _request(bundles, bundle)
    if request is None:
        return None, None
    recipe = recipe_of(request, list(bundles.viewer.layers))
    if not is_result or state.tractogram is None:
        return recipe, None
    done = () if state.edits is None else state.edits.edits
    edits = (*recipe.edits, *done, *filters_of(state))
    recipe = replace(recipe, weights=state.weights, edits=edits)
    backend = "" if state.result is None else state.result.report.backend
    return recipe, partial(recipe.with_result, state.tractogram, backend)


def _request(bundles: BundleList, bundle: OpenBundle) -> tuple[Request | None, bool]:
    """Return what to save, and whether the streamlines that are shown are its result.

    That is what is set now; but of streamlines that were edited by hand what gave them.
    """
    wanted, state = bundles.session.wanted_of(bundle), bundle.state
    if bundle.arriving is not None:  # what is shown is a part of what comes, and not the result
        return wanted or bundle.arriving.request, False
    result = bundle.state.result_request
    if result is None or not result.is_whole:
        return wanted, False
    if wanted is not None and result.gives_the_same_as(wanted):
        return wanted, True  # which has the names of regions as they are now
    if wanted is not None and result.is_beginning_of(wanted):
        return replace(wanted, arrived=result.arrived), True
    if state.edits is not None or wanted is None:
        return result, True
    return wanted, False


def _set_since(bundles: BundleList, bundle: OpenBundle) -> list[str]:
    """Return in what settings differ from the run that is shown, where it is whole."""
    result, wanted = bundle.state.result_request, bundles.session.wanted_of(bundle)
    if result is None or not result.is_whole or wanted is None or bundle.arriving is not None:
        return []
    return replace(result, arrived=None).differences(wanted)


def file_source(bundle: OpenBundle, *, named: bool = True) -> TractogramFile:
    """Return streamlines that were opened as the file that they are in, and what became of them.

    Without their digest, see :func:`proven_file`. Raises InvalidTractogramError when they must be
    `named` and are in no file; FileError when the file is gone.
    """
    state = bundle.state
    if bundle.tractogram is None or (named and state.path == OPENED):
        raise InvalidTractogramError(
            "These streamlines are in no file; press Save... first, and open that."
        )
    known = TractogramFile.file(state.path, hashed=False) if named else TractogramFile(state.path)
    return replace(
        known,
        weights=state.weights,
        edits=(*(() if state.edits is None else state.edits.edits), *filters_of(state)),
    )


def proven_file(file: TractogramFile, shown: Tractogram | None) -> TractogramFile:
    """Return a file with the digest of what is shown of it; in any thread, as that takes a while.

    Where it is mapped, all of it is read.
    """
    return file if shown is None else replace(file, digest=shown.digest())


def filters_of(state: BundleState) -> tuple[Edit, ...]:
    """Return what regions, lengths and weights filter out of the streamlines shown, as edits."""
    found: tuple[Edit, ...] = ()
    regions, rule, limits = state.filtered_by
    if regions:
        found += (Edit.passing(regions, rule),)
    if limits != NO_LIMITS:
        found += (Edit.lengths(*limits),)
    if state.min_weight > 0:
        found += (Edit.weights(state.min_weight),)
    return found


def _plain(state: BundleState) -> dict[str, Any]:
    """Return everything else that makes a bundle look and be set as it is."""
    return {
        "swatch": state.colour,
        "display": {name: v for name, v in state.style.items() if isinstance(v, PLAIN)},
        "by_hand": dict(state.chosen),
        "seeding": asdict(state.seeding),
    }


def views_of(bundles: BundleList) -> dict[str, Any]:
    """Return how the window looks at the bundles."""
    viewer = bundles.viewer
    camera, dims = viewer.scene.camera, viewer.dims
    return {
        "active": bundles.active.name,
        "ndisplay": int(dims.ndisplay),
        "point": [float(x) for x in dims.point],
        "order": [int(axis) for axis in dims.order],
        "center": [float(x) for x in camera.center],
        "zoom": float(camera.zoom),
        "angles": [float(x) for x in camera.angles],
    }
