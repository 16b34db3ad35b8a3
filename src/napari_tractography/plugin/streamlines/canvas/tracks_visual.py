"""How the canvas draws streamlines: the stock Tracks visual, with light on it in 3-D.

It needs a Qt binding, as any canvas does, so :mod:`..bare_tracks` imports it when a layer is made,
and registers itself here. With that module the only place that knows the private names of
napari's Tracks.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from napari._vispy.layers.tracks import VispyTracksLayer
from napari._vispy.utils.visual import layer_to_visual
from numpy.typing import NDArray
from vispy.gloo import gl
from vispy.scene.visuals import Compound
from vispy.visuals.filters import Filter

from .lighting import LitLines, drawn_width

ALL, NAMES, HIGHLIGHT = range(3)  # the parts of the stock visual; the last draws its graph
DIMMED_OPACITY = 0.12  # of the rest while something is highlighted
HIGHLIGHT_EXTRA_WIDTH = 1.0  # pixels
SOFTWARE = "llvmpipe", "softpipe", "swrast", "swiftshader", "software", "gdi generic"  # renderers


class _Dim(Filter):  # type: ignore[misc]
    """Makes lines grey and faint, while they are to be."""

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
        self.dim(False)

    def dim(self, is_dimmed: bool) -> None:
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
    """Draws smooth lines in a slice and lit ones in 3-D.

    OpenGL smooths lines by rims that are half transparent. They are written into the depth buffer
    and hide what should shine through them, so that in 3-D lines of short segments look dotted:
    there the light smooths them, into their halos.

    What is highlighted is drawn by the part that draws the graph of tracks: streamlines have none.
    """

    def __init__(self, layer: Any, **kwargs: Any) -> None:
        self._rest = _Dim()
        self._light, self._front_light = LitLines(), LitLines()
        self._is_lit = False
        self._renderer: str | None = None  # of OpenGL, asked for when the first frame is drawn
        self._lit_vertices: Any = None  # those whose tangents the light has
        super().__init__(layer, **kwargs)
        self.node._subvisuals[ALL].attach(self._rest)
        self.node._subvisuals[HIGHLIGHT].attach(_InFront())
        self.layer.events.lit.connect(self._on_tracks_change)
        self.layer.events.drawn_every.connect(self._on_drawn_every)
        self.layer.events.enlarged_by.connect(self._on_appearance_change)
        self.node.events.canvas_change.connect(self._on_canvas_change)

    # Light.

    def _on_canvas_change(self, event: Any) -> None:
        if event.old is not None:
            event.old.events.draw.disconnect(self._before_drawing)
        if event.new is not None:
            event.new.events.draw.connect(self._before_drawing, position="first")

    def _on_drawn_every(self) -> None:
        self.node._subvisuals[ALL].set_data(connect=self.layer.track_connex)
        self.node.update()

    def _before_drawing(self, _event: Any = None) -> None:
        """Follow what no event tells of: the background, and the scale of the depth buffer."""
        if self._renderer is None:
            self._renderer = str(gl.glGetParameter(gl.GL_RENDERER)).lower()
            self.layer.without_graphics_card = any(name in self._renderer for name in SOFTWARE)
        canvas = self.node.canvas
        if not self._is_lit or not self.node.visible or canvas is None:
            return
        to_render = self.node.get_transform("visual", "render")
        ratio = float(self.node.transforms.pixel_scale)
        for light, more in ((self._light, 0.0), (self._front_light, HIGHLIGHT_EXTRA_WIDTH)):
            light.set_background(tuple(canvas.bgcolor.rgb))
            light.set_width(ratio * self._width(more))
            light.place(to_render, canvas.physical_size, ratio)

    def _on_view_direction_change(self, view: Any = None, up: Any = None) -> None:
        if view is None or up is None:
            return
        back = np.linalg.inv(self.node.transform.matrix[:3, :3])
        for light in (self._light, self._front_light):
            light.look(view @ back, up @ back)

    def _light_lines(self) -> None:
        """Switch the light on or off, and give it what is drawn."""
        wanted = bool(self.layer.lit) and not self.layer.is_slice
        lines, front = self.node._subvisuals[ALL], self.node._subvisuals[HIGHLIGHT]
        if wanted != self._is_lit:
            self._is_lit, self._lit_vertices = wanted, None
            for visual, light in ((lines, self._light), (front, self._front_light)):
                (visual.attach if wanted else visual.detach)(light)
        view = self.layer._drawn
        if wanted and self._lit_vertices is not view.vertices:
            self._lit_vertices = view.vertices
            self._light.set_lines(view.vertices, joined_of(view))
        lines.set_data(width=self._drawn_width())

    def _width(self, more: float = 0.0) -> float:
        return float((self.layer.tail_width + more) * self.layer.enlarged_by)

    def _drawn_width(self, more: float = 0.0) -> float:
        width = self._width(more)
        return drawn_width(width) if self._is_lit else width

    # What is drawn.

    def _on_tracks_change(self) -> None:
        lines = self.node._subvisuals[ALL]
        lines.antialias = self.layer.is_slice
        super()._on_tracks_change()
        lines.set_data(pos=self.layer._drawn.vertices)  # by whatever name the base asked for them
        self._light_lines()
        self._on_graph_change()

    def _on_appearance_change(self) -> None:
        super()._on_appearance_change()
        self._light_lines()
        self._on_graph_change()

    def _on_graph_change(self) -> None:
        """Draw the highlight, and dim the rest."""
        line, view = self.node._subvisuals[HIGHLIGHT], self.layer._highlighted
        self._rest.dim(view is not None)
        line.visible = view is not None
        if view is not None:
            fading = self.node.graph_filter
            fading.use_fade = self.layer.use_fade
            fading.tail_length = self.layer.tail_length
            fading.vertex_time = self.layer._times_of(view)
            line.antialias = self.layer.is_slice
            if self._is_lit:
                self._front_light.set_lines(view.vertices, joined_of(view))
            line.set_data(
                pos=view.vertices,
                connect=view.connect,
                width=self._drawn_width(HIGHLIGHT_EXTRA_WIDTH),
                color=view.rgba,
            )
        self.node.update()

    def close(self) -> None:
        """Vispy visual is closing.

        napari has OpenGL delete what the layer had as soon as this is done, whatever context is
        current. With another than the canvas's, the next frame ended the process.
        """
        if self.node.canvas is not None:
            self.node.canvas.events.draw.disconnect(self._before_drawing)
            self.node.canvas.set_current()
        super().close()


def joined_of(view: Any) -> NDArray[np.bool_]:
    """Return which vertices of a view are joined to the next, (n,) bool."""
    if isinstance(view.connect, str):  # "segments"
        return np.asarray(np.arange(len(view.vertices)) % 2 == 0)
    return np.asarray(view.connect)


def register(layer_class: type) -> None:
    """Have napari's canvas draw the layers of a class with :class:`VispyBareTracks`.

    Where what that leans on has other names, layers look as napari's own tracks do.
    """
    replaced = ("_on_tracks_change", "_on_appearance_change", "_on_graph_change")
    if all(hasattr(VispyTracksLayer, name) for name in replaced) and hasattr(
        Compound([]), "_subvisuals"
    ):
        layer_to_visual[layer_class] = VispyBareTracks
