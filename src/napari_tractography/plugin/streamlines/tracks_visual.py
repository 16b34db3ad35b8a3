"""How the canvas draws streamlines: the stock Tracks visual, smoothed only where it helps.

It needs a Qt binding, as any canvas does, so :mod:`.bare_tracks` imports it when a layer is made,
and registers itself here. With that module the only place that knows the private names of
napari's Tracks.
"""

from __future__ import annotations

from typing import Any

from napari._vispy.layers.tracks import VispyTracksLayer
from napari._vispy.utils.visual import layer_to_visual
from vispy.visuals.filters import Filter

ALL, NAMES, HIGHLIGHT = range(3)  # the parts of the stock visual; the last draws its graph
DIMMED_OPACITY = 0.12  # of the rest while something is highlighted
HIGHLIGHT_EXTRA_WIDTH = 1.0  # pixels


class _Dim(Filter):  # type: ignore[misc]
    """Makes lines grey and faint."""

    def __init__(self) -> None:
        shader = """
            void dim() {
                if ($is_dimmed > 0.5) {
                    float grey = 0.3 + 0.1 * dot(gl_FragColor.rgb, vec3(1.0));
                    gl_FragColor = vec4(vec3(grey), $opacity * gl_FragColor.a);
                }
            }
        """
        super().__init__(fcode=shader, fhook="post", fpos=10)
        self.fshader["opacity"] = DIMMED_OPACITY
        self.is_dimmed = False

    @property
    def is_dimmed(self) -> bool:
        """Whether the lines are grey and faint."""
        return self._is_dimmed

    @is_dimmed.setter
    def is_dimmed(self, is_dimmed: bool) -> None:
        self._is_dimmed = is_dimmed
        self.fshader["is_dimmed"] = float(is_dimmed)


class _InFront(Filter):  # type: ignore[misc]
    """Draws in front of all else, and yet what is near in front of what is far."""

    def __init__(self) -> None:
        shader = """
            void bring_to_front() {
                gl_Position.z = 0.1 * gl_Position.z - 0.9 * gl_Position.w;
            }
        """
        # After the clipping planes, which take the true position.
        super().__init__(vcode=shader, vhook="post", vpos=20)


class VispyBareTracks(VispyTracksLayer):  # type: ignore[misc]
    """Draws smooth lines in a slice and hard ones in 3-D.

    The half-transparent rim and ends of a smoothed segment are written into the depth buffer and
    hide what should shine through them, so that in 3-D lines of short segments look dotted.

    What is highlighted is drawn by the part that draws the graph of tracks: streamlines have none.

    Parameters
    ----------
    layer : BareTracks
        Whose ``_highlighted`` view, fading and widths are drawn.
    **kwargs
        Of napari's visual.
    """

    def __init__(self, layer: Any, **kwargs: Any) -> None:
        self._rest = _Dim()
        super().__init__(layer, **kwargs)
        self.node._subvisuals[ALL].attach(self._rest)
        self.node._subvisuals[HIGHLIGHT].attach(_InFront())

    def _on_tracks_change(self) -> None:
        self.node._subvisuals[ALL].antialias = self.layer.is_slice
        super()._on_tracks_change()
        self._on_graph_change()

    def _on_appearance_change(self) -> None:
        super()._on_appearance_change()
        self._on_graph_change()

    def _on_graph_change(self) -> None:
        """Draw the highlight, and dim the rest."""
        line, view = self.node._subvisuals[HIGHLIGHT], self.layer._highlighted
        self._rest.is_dimmed = view is not None
        line.visible = view is not None
        if view is not None:
            fading = self.node.graph_filter
            fading.use_fade = self.layer.use_fade
            fading.tail_length = self.layer.tail_length
            fading.vertex_time = self.layer._times_of(view)
            line.antialias = self.layer.is_slice
            line.set_data(
                pos=view.vertices,
                connect=view.connect,
                width=self.layer.tail_width + HIGHLIGHT_EXTRA_WIDTH,
                color=view.rgba,
            )
        self.node.update()


def register(layer_class: type) -> None:
    """Have napari's canvas draw the layers of a class with :class:`VispyBareTracks`."""
    layer_to_visual[layer_class] = VispyBareTracks
