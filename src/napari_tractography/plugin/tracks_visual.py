"""How the canvas draws streamlines: the stock Tracks visual, smoothed only where it helps.

Importing this module tells napari's canvas about it. It needs a Qt binding, as any canvas does,
so it is imported when a layer is made. With :mod:`.bare_tracks` the only place that knows the
private names of napari's Tracks.
"""

from __future__ import annotations

from napari._vispy.layers.tracks import VispyTracksLayer
from napari._vispy.utils.visual import layer_to_visual

from .bare_tracks import BareTracks


class VispyBareTracks(VispyTracksLayer):  # type: ignore[misc]
    """Draws smooth lines in a slice and hard ones in 3-D.

    The half-transparent rim and ends of a smoothed segment are written into the depth buffer and
    hide what should shine through them, so that in 3-D lines of short segments look dotted.
    """

    def _on_tracks_change(self) -> None:
        self.node._subvisuals[0].antialias = self.layer.is_slice
        super()._on_tracks_change()


layer_to_visual[BareTracks] = VispyBareTracks
