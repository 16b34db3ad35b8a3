// Headings: the tangents of streamlines whose steps are arcs. Twin of cpu/sphere/headings.py.
#pragma once

#include "structs.h"
#include "tangents.h"

// A vector mirrored in the line along another, a, of any length.
DEVICE Vector mirrored(float x, float y, float z, float ax, float ay, float az)
{
    float twice = 2.0f * (x * ax + y * ay + z * az) / (ax * ax + ay * ay + az * az);
    Vector v = {twice * ax - x, twice * ay - y, twice * az - z};
    return v;
}

DEVICE void head_on(Walk& walk)
{
    walk.hx = walk.ux;
    walk.hy = walk.uy;
    walk.hz = walk.uz;
}

// Turn the heading from the beginning of a chord, the direction, to the end.
DEVICE void bend(Walk& walk)
{
    Vector h = mirrored(walk.hx, walk.hy, walk.hz, walk.ux, walk.uy, walk.uz);
    h = normalised(h.x, h.y, h.z);
    walk.hx = h.x;
    walk.hy = h.y;
    walk.hz = h.z;
}
