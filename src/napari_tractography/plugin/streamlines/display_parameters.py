"""What can be set of the display of streamlines, in napari's layer controls and in the panel."""

from __future__ import annotations

from ...model.parameters import ParameterSpec
from .clipping import CLIPS, NO_CLIP

WIDTH_SPEC = ParameterSpec(
    name="width",
    label="Width",
    default=2.0,
    unit="px",
    minimum=0.5,
    maximum=20.0,
    increment=0.5,
    slider=(0.5, 10.0),
    help="Width of the lines on the screen.",
)
LIGHT_SPEC = ParameterSpec(
    name="lit",
    label="Light in 3-D",
    default=True,
    help="Shade lines by the way they run, part those that cross by halos, and fade what "
    "is far away.",
)
SLAB_SPEC = ParameterSpec(
    name="slab_mm",
    label="Slab",
    default=4.0,
    unit="mm",
    minimum=0.1,
    maximum=500.0,
    increment=0.5,
    slider=(0.5, 40.0),
    is_scaled=True,
    help="Thickness of the slab around the slice in which a 2-D view shows streamlines, "
    "and a clipped 3-D view.",
)
CLIP_SPEC = ParameterSpec(
    name="clip",
    label="Clip in 3-D",
    default=NO_CLIP,
    choices=CLIPS,
    help="Show in 3-D only the slab around the slice in view, as thick as Slab says.",
)
CLIP_AT_SPEC = ParameterSpec(
    name="clip_at_mm",
    label="Clip at",
    default=0.0,
    unit="mm",
    minimum=-10_000.0,
    maximum=10_000.0,
    increment=1.0,
    help="Where the middle of that slab is on its axis.",
)
