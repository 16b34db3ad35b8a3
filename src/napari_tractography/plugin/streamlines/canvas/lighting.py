"""Light on lines: shading by tangent, a depth cue, halos and smooth edges, in one pass.

A line has no normal, so that it is lit by the one of all its normals that shines most: Zöckler,
Stalling and Hege, Interactive visualization of 3D-vector fields using illuminated stream lines,
IEEE Visualization 1996. The light is fixed to the camera. Each line is drawn wider than it is; what
lies beyond its edge has the colour of the background and is pushed back with the distance, so that
it parts lines that cross and leaves those of one bundle together: Everts, Bekker, Roerdink and
Isenberg, Depth-dependent halos, IEEE TVCG 15 (2009). Called by :mod:`.tracks_visual`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from vispy.gloo import VertexBuffer
from vispy.visuals.filters import Filter

HALO = 0.5  # pixels on each side of a line
SAMPLED = 20_000  # vertices that say how deep the lines reach
HALO_DEPTH_MM = 2.5  # how far its rim lies behind the line
EDGE = 0.5  # pixels, half of the smooth edge
# Up and to one side of the eye, as fractions of the way to what is seen: what is lit from where it
# is seen has no shade.
LIGHT_UP, LIGHT_ASIDE = 0.45, 0.35
OUTLINE_SHADE = 0.4  # of the colour of a line
LIGHT_BACKGROUND = 1.5  # sum of red, green and blue
MOST_FOG = 0.5  # of the colour of the background, at the far end
COEFFICIENTS = {
    "ambient": 0.45,
    "diffuse": 0.7,
    "specular": 0.2,
    "most_fog": MOST_FOG,
    "shade": OUTLINE_SHADE,
}

_VERTEX = """
varying vec4 v_light;  // diffuse, specular, fog
varying vec4 v_line;  // the place on the line, pixels, and its direction on the screen

void light_line() {
    vec3 tangent = $tangent;
    float size = dot(tangent, tangent);
    tangent = size > 0.0 ? tangent * inversesqrt(size) : $view;
    float lt = dot($light, tangent);
    float vt = dot($view, tangent);
    float across_light = 1.0 - lt * lt;
    float shine = max(sqrt(max(across_light * (1.0 - vt * vt), 0.0)) - lt * vt, 0.0);
    shine *= shine; shine *= shine; shine *= shine; shine *= shine;  // to the power of 16
    vec2 place = gl_Position.xy / gl_Position.w;
    v_light = vec4(across_light, shine, gl_Position.z / gl_Position.w * $fog.x + $fog.y, 0.0);
    vec4 ahead = $to_render * vec4(tangent, 0.0);
    vec2 along = (ahead.xy - place * ahead.w) * $half_size;
    v_line = vec4((place + 1.0) * $half_size, along * inversesqrt(max(dot(along, along), 1e-20)));
}
"""

_FRAGMENT = """
varying vec4 v_light;
varying vec4 v_line;

void shade_line() {
    vec2 away = gl_FragCoord.xy - v_line.xy;
    float across = abs(away.x * v_line.w - away.y * v_line.z);
    if (across > $half_width + $rim_width) { discard; }
    float inside = clamp($half_width + 0.5 - across, 0.0, 1.0);
    float rim = min(across / $half_width, 1.0);
    float round_off = mix(1.0, sqrt(1.0 - rim * rim), $roundness);
    float lit = $ambient + $diffuse * v_light.x * round_off;
    vec3 colour = gl_FragColor.rgb * lit + $specular * v_light.y * round_off * round_off;
    colour = mix(colour, $background, clamp(v_light.z, 0.0, $most_fog));
    vec3 halo = mix($background, $shade * colour, $outlined);
    gl_FragColor.rgb = mix(halo, colour, inside);
    gl_FragDepth = gl_FragCoord.z + $push * max(across - $half_width, 0.0);
}
"""


class LitLines(Filter):  # type: ignore[misc]
    """Lights the lines of a vispy LineVisual that draws by "gl"; attached while there is light."""

    def __init__(self) -> None:
        # After the clipping planes, which discard; before what dims and what comes to the front.
        super().__init__(_VERTEX, "post", 15, _FRAGMENT, "post", 8)
        self._tangents = VertexBuffer(np.zeros((2, 3), np.float32))
        self.vshader["tangent"] = self._tangents
        self.vshader["to_render"] = np.eye(4, dtype=np.float32)
        self.vshader["half_size"] = (1.0, 1.0)
        self.vshader["fog"] = (0.0, 0.0)
        for name, value in COEFFICIENTS.items():
            self.fshader[name] = value
        self.fshader["push"], self.fshader["rim_width"] = 0.0, HALO + EDGE
        self._bounds = np.zeros((2, 3))
        self._view = np.array([0.0, 0.0, -1.0])
        self.set_background((0.0, 0.0, 0.0))
        self.set_width(1.0)
        self.look(self._view, np.array([0.0, 1.0, 0.0]))

    def set_lines(self, vertices: NDArray[np.float32], joined: NDArray[np.bool_]) -> None:
        """Take the vertices that are drawn, (n, 3) xyz, and which are joined to the next."""
        self._tangents.set_data(tangents(vertices, joined))
        some = vertices[:: max(len(vertices) // SAMPLED, 1)]
        self._bounds = np.array([some.min(axis=0), some.max(axis=0)], float)

    def look(self, view: NDArray[np.float64], up: NDArray[np.float64]) -> None:
        """Turn with the camera: view and up, (3,) float64, are directions xyz of the vertices."""
        self._view = np.asarray(view, float) / max(float(np.linalg.norm(view)), 1e-12)
        # The cross product leads to the left or to the right: so does the light, as good.
        side = np.cross(self._view, up)
        light = -self._view + LIGHT_UP * np.asarray(up, float) - LIGHT_ASIDE * side
        self.vshader["view"] = tuple(self._view)
        self.vshader["light"] = tuple(light / np.linalg.norm(light))

    def place(self, to_render: Any, size: Sequence[float], pixel_ratio: float) -> None:
        """Say where the lines are drawn, in a framebuffer of a size in pixels.

        The transform of vispy's leads from the vertices to what is drawn, and is linear in
        homogeneous coordinates; the framebuffer has `pixel_ratio` pixels for each of the screen.
        """
        matrix = np.asarray(to_render.map(np.eye(4)), np.float32)
        self.vshader["to_render"] = matrix
        self.vshader["half_size"] = (size[0] / 2, size[1] / 2)
        middle = self._bounds.mean(axis=0)
        corners = np.array(np.meshgrid(*self._bounds.T)).reshape(3, -1).T
        depths = (corners - middle) @ self._view
        near, far = float(depths.min()), max(float(depths.max()), float(depths.min()) + 1e-3)
        ends = middle + np.array([[near], [far]]) * self._view
        mapped = np.column_stack([ends, np.ones(2)]) @ matrix
        first, last = (float(z) for z in mapped[:, 2] / mapped[:, 3])
        deep = MOST_FOG / (last - first) if last != first else 0.0
        self.vshader["fog"] = (deep, -first * deep)
        window_per_mm = 0.5 * (last - first) / (far - near)
        rim = (HALO + EDGE) * pixel_ratio
        self.fshader["rim_width"] = rim
        self.fshader["push"] = window_per_mm * HALO_DEPTH_MM / rim

    def set_background(self, rgb: tuple[float, float, float]) -> None:
        """Say what far lines fade into.

        Halos have that colour, too, unless it is light: lines would look pale in white halos over
        the dark slices of a volume, and get outlines of their own colour instead.
        """
        self.fshader["background"] = rgb
        self.fshader["outlined"] = float(sum(rgb) > LIGHT_BACKGROUND)

    def set_width(self, width: float) -> None:
        """Say how wide lines are without their halo, pixels of the framebuffer."""
        self.fshader["half_width"] = max(width, 0.5) / 2
        self.fshader["roundness"] = float(np.clip((width - 1.5) / 3.0, 0.0, 0.9))


def drawn_width(width: float) -> float:
    """Return how wide OpenGL has to draw a line for its smooth edge and its halo, pixels.

    It measures widths along rows or columns of pixels, so that an oblique line is narrower. Thin
    lines, of which there may be many, are not widened for all of that: it would take long.
    """
    oblique: float = min(1.1 + 0.06 * max(width - 2.0, 0.0), math.sqrt(2.0))
    return (width + 2 * (HALO + EDGE)) * oblique


def tangents(vertices: NDArray[np.float32], joined: NDArray[np.bool_]) -> NDArray[np.float32]:
    """Return (n, 3) float32 directions of polylines at their vertices, of any length.

    The sum of the segments on both sides of a vertex; zero where there are none. A line leads from
    a vertex that is `joined`, (n,) bool, to the next.
    """
    n = len(vertices)
    sums = np.zeros((n, 3), np.float32)
    if n < 2:
        return sums
    np.subtract(vertices[2:], vertices[:-2], out=sums[1:-1])
    ends = np.flatnonzero(~joined[:-1])  # in one pass but for the ends, of which there are few
    last, first = np.append(ends, n - 1), np.append(0, ends + 1)
    has_before = (last > 0) & joined[last - 1]
    has_after = (first < n - 1) & joined[first]
    sums[last] = sums[first] = 0
    sums[last[has_before]] += vertices[last[has_before]] - vertices[last[has_before] - 1]
    sums[first[has_after]] += vertices[first[has_after] + 1] - vertices[first[has_after]]
    return sums
