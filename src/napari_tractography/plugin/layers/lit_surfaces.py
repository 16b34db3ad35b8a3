"""How the canvas draws our surfaces: light from the camera, and slices with sharp edges.

napari lights a surface from a side that depends on the orientation of the camera; in ours that is
from behind. It needs a Qt binding, as any canvas does, so it is imported when a layer is made.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from napari._vispy.layers.surface import VispySurfaceLayer
from napari._vispy.utils.visual import layer_to_visual
from vispy.gloo import VertexBuffer
from vispy.visuals.filters import Filter
from vispy.visuals.shaders import Function

from .slice_pictures import SEEN

LIGHT_UP, LIGHT_ASIDE = 0.45, 0.35  # of the way to what is seen
AMBIENT, DIFFUSE, SPECULAR, SHININESS = 0.42, 0.62, 0.18, 40.0


# How much a surface faces the eye, 0 to 1, where its rim is whole and where it ends; and how opaque
# the rest is.
RIM, FADED, INSIDE = 0.25, 0.5, 0.12


class VispyLitSurface(VispySurfaceLayer):  # type: ignore[misc]
    """Lights a surface from beside the camera, on whatever side that is."""

    _light = np.ones(3)  # until the camera is known

    def _on_view_direction_change(self, view: Any = None, up: Any = None) -> None:
        if view is not None and up is not None:
            # The way that the light goes, from above and one side of the eye.
            light = np.asarray(view, float) - LIGHT_UP * np.asarray(up, float)
            self._light = light + LIGHT_ASIDE * np.cross(view, up)
        light_filter = self.node.shading_filter
        mesh = getattr(self, "_meshdata", None)  # none in a slice
        if light_filter is not None and mesh is not None and mesh.get_vertices() is not None:
            light_filter.ambient_light = (1.0, 1.0, 1.0, AMBIENT)
            light_filter.diffuse_light = (1.0, 1.0, 1.0, DIFFUSE)
            light_filter.specular_light = (1.0, 1.0, 1.0, SPECULAR)
            light_filter.shininess = SHININESS
            light_filter.light_dir = self._light


class _Cut(Filter):  # type: ignore[misc]
    """Leaves out what is transparent, so that it hides nothing behind it."""

    def __init__(self) -> None:
        super().__init__(
            fcode=f"""
            void cut() {{
                if (gl_FragColor.a < {SEEN}) {{ discard; }}
                gl_FragColor.a = 1.0;
            }}
            """,
            fhook="post",
            fpos=6,  # after the texture, before the opacity of the layer
        )


class VispySlices(VispySurfaceLayer):  # type: ignore[misc]
    """Draws textures interpolated, and nothing where they are transparent."""

    def __init__(self, layer: Any, **kwargs: Any) -> None:
        super().__init__(layer, **kwargs)
        self.node.attach(_Cut())

    def _on_texture_change(self) -> None:
        super()._on_texture_change()
        textured = getattr(self, "_texture_filter", None)
        if textured is not None:
            texture = textured.fshader["u_texture"].value
            wanted = "linear" if self.layer.is_smooth else "nearest"
            texture.interpolation = wanted
            texture.wrapping = "clamp_to_edge"


class _Rim(Filter):  # type: ignore[misc]
    """Makes a surface opaque where it turns away from the eye, and faint where it faces it."""

    def __init__(self) -> None:
        vertex = Function(
            """
            varying float v_facing;
            void note_facing() { v_facing = abs(dot(normalize($normal), $sight)); }
            """
        )
        fragment = Function(
            f"""
            varying float v_facing;
            void show_rim() {{
                gl_FragColor.a *= mix({INSIDE}, 1.0, 1.0 - smoothstep({RIM}, {FADED}, v_facing));
            }}
            """
        )
        self._normals = VertexBuffer(np.zeros((0, 3), np.float32))
        vertex["normal"] = self._normals
        super().__init__(vcode=vertex, fcode=fragment)
        self.look((0.0, 0.0, 1.0))

    def look(self, sight: Any) -> None:
        """Take another direction of sight, (x, y, z)."""
        self.vshader["sight"] = tuple(float(x) for x in sight)

    def follow(self, mesh: Any) -> None:
        """Take the normals of a mesh, which in slices is empty."""
        if mesh.get_vertices() is not None:
            self._normals.set_data(mesh.get_vertex_normals(indexed="faces"), convert=True)


class VispyRims(VispySurfaceLayer):  # type: ignore[misc]
    """Draws the rims of surfaces, seen from wherever the camera is."""

    def __init__(self, layer: Any, **kwargs: Any) -> None:
        self._rim = _Rim()
        super().__init__(layer, **kwargs)
        self._follow()
        self.node.attach(self._rim)
        self.node.events.data_updated.connect(self._follow)

    def _follow(self, _event: Any = None) -> None:
        self._rim.follow(self.node.mesh_data)

    def _on_view_direction_change(self, view: Any = None, up: Any = None) -> None:
        super()._on_view_direction_change(view, up)
        if view is not None:
            self._rim.look(np.asarray(view, float) / np.linalg.norm(view))


def register(layer_class: type, visual: type) -> None:
    """Have napari's canvas draw the layers of a class with one of the classes above."""
    layer_to_visual[layer_class] = visual
