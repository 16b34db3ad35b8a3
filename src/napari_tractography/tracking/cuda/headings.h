// Headings: the tangents of streamlines whose steps are arcs. Twin of cpu/sphere/headings.py.
#pragma once

#include "structs.h"
#include "tangents.h"

// A vector mirrored in the line along another, a, of any length.
DEVICE Vector mirrored(float x, float y, float z, float ax, float ay, float az)
{
    float twice = divided(2.0f * (x * ax + y * ay + z * az), ax * ax + ay * ay + az * az);
    Vector v = {twice * ax - x, twice * ay - y, twice * az - z};
    return v;
}

// Turn from the chord of a part of an arc to that of the next.
DEVICE void turn_within_arc(StreamlineState& state)
{
    Vector u = mirrored(state.ux, state.uy, state.uz, state.hx, state.hy, state.hz);
    face(state, u.x, u.y, u.z);
}

DEVICE void head_on(StreamlineState& state)
{
    state.hx = state.ux;
    state.hy = state.uy;
    state.hz = state.uz;
}

// Turn the heading from the beginning of a chord, the direction, to the end.
DEVICE void bend(StreamlineState& state)
{
    Vector h = mirrored(state.hx, state.hy, state.hz, state.ux, state.uy, state.uz);
    h = normalised(h.x, h.y, h.z);
    state.hx = h.x;
    state.hy = h.y;
    state.hz = h.z;
}
