"""Results of runs, in the bundles that they belong to: the part of the session that shows them."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

from psygnal import Signal

from ....geometry.grid import Grid
from ....streamlines.tractogram import Tractogram
from ....tracking.report import Report
from ...space.display import DisplaySpace
from ...space.extent import sliders_kept
from ...space.layer_list import insert_beside
from ...streamlines.layer import Streamlines
from ..requests import Arrived, Request
from ..seed_layer import SEEDS_KEY
from .state import BUNDLE_KEY, Arriving, BundleState, OfActive

FIRST_NAME = "Bundle 1"


class Results:
    """The results of a session, one a bundle; the attributes are those of the active bundle.

    Parameters
    ----------
    viewer : napari.viewer.ViewerModel

    Attributes
    ----------
    bundle : BundleState
        The bundle that is active.
    space : DisplaySpace
        Where streamlines are shown.
    """

    layer_made = Signal(object)  # Streamlines, for the results
    edited = Signal()  # the active result: streamlines were kept, deleted or brought back
    refused = Signal(str)  # the name of a command whose key found nothing to do
    result_changed = Signal(object)  # BundleState: it has other streamlines

    tractogram = OfActive[Tractogram | None]()
    result_request = OfActive[Request | None]()
    result_grid = OfActive[Grid | None]()
    seconds = OfActive[float]()
    report = OfActive[Report]()
    streamlines_layer = OfActive[Streamlines | None]()

    def __init__(self, viewer: Any) -> None:
        self.viewer = viewer
        self.bundle = BundleState(name=FIRST_NAME)
        self.space = DisplaySpace.identity()
        self.is_inserting = False  # a layer, which napari selects for a moment

    @property
    def has_edits(self) -> bool:
        """Whether streamlines of the result were deleted by hand."""
        layer = self.streamlines_layer
        return layer is not None and layer.editor.is_edited

    def show_arriving(
        self, bundle: BundleState, arriving: Arriving, part: Tractogram, *, append: bool
    ) -> None:
        """Show what has arrived of a run; the result of the bundle stays what it was.

        Parameters
        ----------
        bundle : BundleState
            Of the run.
        arriving : Arriving
            The run.
        part : Tractogram
            What has arrived, or what has since it was shown last.
        append : bool
            Whether it comes behind what is shown, not instead of it.
        """
        layer = self.ensure_streamlines_layer(bundle)
        bundle.arriving = arriving  # first: colours by seed ask for it
        with sliders_kept(self.viewer, layer):
            if append:
                layer.append(part)
            else:
                layer.tractogram = part
        layer.reference = arriving.request.fod.grid

    def keep_arrived(self, bundle: BundleState) -> None:
        """Make what is shown of a run, if that is a part, the result: no more will come of it."""
        arriving, layer = bundle.arriving, bundle.streamlines_layer
        if arriving is None:
            return
        bundle.arriving = None
        if layer is None:
            return
        whole = layer.editor.whole  # of which edits may already have left less
        _set_result(bundle, _in_part(arriving.request, whole), layer.tractogram)
        bundle.report = arriving.report
        self.result_changed.emit(bundle)

    def keep_result(
        self,
        request: Request,
        tractogram: Tractogram,
        seconds: float,
        report: Report,
        *,
        bundle: BundleState | None = None,
        is_part: bool = False,
    ) -> None:
        """Keep and show the result of a run that ended or, `is_part`, was cancelled or failed."""
        request = _in_part(request, tractogram) if is_part else request
        bundle = self.bundle if bundle is None else bundle
        layer = self.ensure_streamlines_layer(bundle)
        bundle.arriving = None
        _set_result(bundle, request, tractogram)
        bundle.seconds, bundle.report = seconds, report
        with sliders_kept(self.viewer, layer):
            layer.tractogram = tractogram
        layer.reference = bundle.result_grid
        self.result_changed.emit(bundle)

    def ensure_streamlines_layer(self, bundle: BundleState | None = None) -> Streamlines:
        """Return the layer of a bundle's streamlines, a new one below the seeds without one."""
        bundle = self.bundle if bundle is None else bundle
        layer = bundle.streamlines_layer
        if layer is None:
            layer = Streamlines(space=self.space, name=bundle.name)
            self.adopt_streamlines(bundle, layer)
            self.insert_streamlines(layer)
            self.layer_made.emit(layer)
        return layer

    def adopt_streamlines(self, bundle: BundleState, layer: Streamlines) -> None:
        """Make a layer that of a bundle, and follow its edits."""
        bundle.streamlines_layer = layer
        layer.metadata[BUNDLE_KEY] = bundle
        layer.editor.edited.disconnect()  # from a session that was closed
        layer.editor.edited.connect(partial(self._on_edited, bundle))
        layer.editor.refused.connect(self.refused.emit)

    def insert_streamlines(self, layer: Streamlines) -> None:
        """Put a layer of streamlines into the viewer, below the seeds."""
        layers = self.viewer.layers
        seeds = (i for i, other in enumerate(layers) if SEEDS_KEY in other.metadata)
        self.is_inserting = True
        try:
            insert_beside(self.viewer, layer, next(seeds, None))
        finally:
            self.is_inserting = False

    def _on_edited(self, bundle: BundleState) -> None:
        layer = bundle.streamlines_layer
        if layer is None:
            return
        self.keep_arrived(bundle)  # else the edits would be those of another result
        bundle.tractogram = layer.tractogram
        if bundle.result_request is not None:
            bundle.result_grid = bundle.result_request.fod.grid
        if bundle is self.bundle:
            self.edited.emit()
        self.result_changed.emit(bundle)

    def speed(self) -> str:
        """Return how long the last result took and how fast it was, in words."""
        if self.tractogram is None or self.result_request is None:
            return ""
        step_mm = self.result_request.parameters.step_mm
        return self.report.speed(self.tractogram, step_mm, self.seconds)


def _set_result(bundle: BundleState, request: Request, tractogram: Tractogram) -> None:
    bundle.tractogram, bundle.result_request = tractogram, request
    bundle.result_grid = request.fod.grid
    bundle.weights, bundle.min_weight = None, 0.0  # of other streamlines, as is the text
    bundle.text = ""


def _in_part(request: Request, tractogram: Tractogram) -> Request:
    """Return what gives the streamlines of a run that ended early, to be saved and told."""
    n_streamlines, n_seeds = len(tractogram), tractogram.n_seeds
    if n_streamlines == request.select if request.select else n_seeds == request.n_full:
        return request  # all was there
    return replace(request, arrived=Arrived(n_streamlines, n_seeds))
