// Arcs, drawn by the FOD along them. Twin of cpu/arcs.py, where the method is explained.
#pragma once

#include "headings.h"
#include "probabilistic.h"

// What comes of an arc: 0 or a reason against it, and the chord of its first part.
struct Arc {
    int reason;
    Vector chord;
};

// Half the angle of which the cosine is 1 - down, in radians.
DEVICE float half_angle(float down)
{
    float square = 0.5f * down;  // of the sine of half the angle
    bool beyond = square > 0.5f;
    square = beyond ? 1.0f - square : square;
    float angle = ARCSINE_0;
    angle = angle * square + ARCSINE_1;
    angle = angle * square + ARCSINE_2;
    angle = angle * square + ARCSINE_3;
    angle = angle * square + ARCSINE_4;
    angle = angle * square + ARCSINE_5;
    angle = angle * square + ARCSINE_6;
    angle = angle * square + ARCSINE_7;
    angle = angle * sqrtf(square);
    return beyond ? HALF_PI - angle : angle;
}

// Find the largest bound of the voxels around a box that holds every arc: no amplitude that an arc
// may meet exceeds it. Tell whether all of them hold an FOD.
DEVICE float bound_around(const Field& field, const Settings& settings,
                          const StreamlineState& state, bool& is_full)
{
    bool is_nearest = settings.interpolation == NEAREST;
    float length = settings.step * (float)settings.parts, more = is_nearest ? 0.5f : 0.0f;
    float v[3];
    to_voxel(field.to_voxel, state.x, state.y, state.z, v[0], v[1], v[2]);
    int first[3], last[3];
#pragma unroll
    for (int axis = 0; axis < 3; axis++) {
        const float* row = field.to_voxel + 4 * axis;
        float reach = sqrtf(row[0] * row[0] + row[1] * row[1] + row[2] * row[2]) * length + NEARLY;
        first[axis] = floor_to_int(v[axis] - reach + more);
        last[axis] = floor_to_int(v[axis] + reach + more) + (is_nearest ? 0 : 1);
    }
    float largest = 0.0f;
    is_full = true;
    for (int ix = first[0]; ix <= last[0]; ix++)
        for (int iy = first[1]; iy <= last[1]; iy++)
            for (int iz = first[2]; iz <= last[2]; iz++) {
                bool inside = ix >= 0 && iy >= 0 && iz >= 0 && ix < field.nx && iy < field.ny &&
                              iz < field.nz;
                int row = inside ? field.voxel_rows[voxel_index(field, ix, iy, iz)] : -1;
                if (row < 0) {
                    is_full = false;
                    continue;
                }
                float bound =
                    from_half(field.coefficients[(long long)row * N_PADDED + N_COEFFICIENTS]);
                largest = bound > largest ? bound : largest;
            }
    return MARGIN * largest;
}

// Try an arc: its amplitudes are to reach the floor, their product over the bounds `least`.
DEVICE Arc try_arc(const Field& field, const Settings& settings, const StreamlineState& state,
                   const Tangents& axes, float bound, float down, Turn azimuth, float least)
{
    float hx = state.ux, hy = state.uy, hz = state.uz, sharpness = sharpness_of(settings);
    float nx = azimuth.cosine * axes.ax + azimuth.sine * axes.bx;
    float ny = azimuth.cosine * axes.ay + azimuth.sine * axes.by;
    float nz = azimuth.cosine * axes.az + azimuth.sine * axes.bz;
    // Each part turns by twice the angle between its chord and the tangents at its ends.
    float angle = half_angle(down) / (float)settings.parts;
    Turn half = turn_of(angle / TWO_PI);
    float turn_cosine = 1.0f - 2.0f * half.sine * half.sine;
    float turn_sine = 2.0f * half.sine * half.cosine;
    float shortening = half.sine / angle;
    // Chord, tangent and position, along the heading and across.
    float p = shortening * half.cosine, q = shortening * half.sine;
    Arc arc = {LOW_AMPLITUDE, {p * hx + q * nx, p * hy + q * ny, p * hz + q * nz}};
    float s = turn_cosine, t = turn_sine, along = p, across = q, density = 1.0f;
    float tx = hx, ty = hy, tz = hz;
    Fod fod;
    Interpolant interpolant;
    interpolant.cell[0] = interpolant.cell[1] = interpolant.cell[2] = -2147483647;
#pragma unroll 1
    for (int part = 0; part < settings.parts; part++) {
        if (part) {
            float next = p * turn_cosine - q * turn_sine;
            q = p * turn_sine + q * turn_cosine;
            p = next;
            next = s * turn_cosine - t * turn_sine;
            t = s * turn_sine + t * turn_cosine;
            s = next;
            along = along + p;
            across = across + q;
        }
        tx = s * hx + t * nx;
        ty = s * hy + t * ny;
        tz = s * hz + t * nz;
        float vx, vy, vz;
        to_voxel(field.to_voxel, state.x + settings.step * (along * hx + across * nx),
                 state.y + settings.step * (along * hy + across * ny),
                 state.z + settings.step * (along * hz + across * nz), vx, vy, vz);
        int ix = nearest_voxel(vx), iy = nearest_voxel(vy), iz = nearest_voxel(vz);
        arc.reason = LEFT_IMAGE;
        if (ix < 0 || iy < 0 || iz < 0 || ix >= field.nx || iy >= field.ny || iz >= field.nz)
            return arc;
        arc.reason = NO_FOD;
        if (settings.edge == EDGE_VOXEL && field.voxel_rows[voxel_index(field, ix, iy, iz)] < 0)
            return arc;
        arc.reason = LOW_AMPLITUDE;
        mix(field, settings, interpolant, fod, vx, vy, vz);
        float amplitude = positive(sharpness, value_at(fod, tx, ty, tz));
        if (below_cutoff(settings, amplitude)) return arc;
        float ratio = amplitude / bound;
        density = density * (part == settings.parts - 1 ? sqrtf(ratio) : ratio);
        if (!(density > least)) return arc;
    }
    Cone cone = cone_of(field, state);
    if (may_follow(cone, index_of(cone), tx, ty, tz)) arc.reason = 0;
    return arc;
}

// Look at seven arcs: 0, or the reason to stop.
DEVICE int sample_arcs(const Field& field, const Settings& settings, const StreamlineState& state,
                       const Tangents& axes, float bound, bool is_full)
{
    bool none = true;
#pragma unroll 1
    for (int k = 0; k < ARCS_AHEAD; k++) {
        if (!none && is_full) continue;
        Turn azimuth = turn_of((float)k / (float)(ARCS_AHEAD - 1) - 0.5f);
        float down = k ? settings.ring_height : STRAIGHT;
        int reason = try_arc(field, settings, state, axes, bound, down, azimuth, -1.0f).reason;
        if (reason == NO_FOD || reason == LEFT_IMAGE) return reason;
        none = none && reason != 0;
    }
    return none ? LOW_AMPLITUDE : 0;
}

// Take the next part of an arc, or draw the next arc; see the table of algorithms. AGAIN where
// proposals are rejected.
DEVICE int arc_direction(const Field& field, const Settings& settings, Interpolant& interpolant,
                         StreamlineState& state, unsigned int stream)
{
    if (state.steps % settings.parts) {
        Vector u = mirrored(state.ux, state.uy, state.uz, state.hx, state.hy, state.hz);
        face(state, u.x, u.y, u.z);
        return 0;
    }
    face(state, state.hx, state.hy, state.hz);
    Tangents axes = tangents_of(state.ux, state.uy, state.uz);
    if (state.n_proposals == 0) {
        if (is_in_doubt(field, settings, interpolant, state)) {
            state.task = WEIGH;
            return AGAIN;
        }
        bool is_full;
        state.bound =
            positive(sharpness_of(settings), bound_around(field, settings, state, is_full));
        int reason = sample_arcs(field, settings, state, axes, state.bound, is_full);
        if (reason) return reason;
    }
    Words words =
        philox_block(stream, (unsigned int)state.steps, state.n_proposals / PROPOSALS_A_BLOCK,
                     state.purpose, settings.key_0, settings.key_1);
    state.n_proposals += PROPOSALS_A_BLOCK;
#pragma unroll 1
    for (int attempt = 0; attempt < PROPOSALS_A_BLOCK; attempt++) {
        unsigned int first = attempt ? words.r2 : words.r0, second = attempt ? words.r3 : words.r1;
        float down = settings.cone_height * (((float)(first >> 12) + 0.5f) * UNIT_20);
        Turn azimuth = turn_of(((float)(second >> 12) + 0.5f) * UNIT_20 - 0.5f);
        float chance = (float)(((first & 4095u) << 12) | (second & 4095u)) * UNIT_24;
        float least = chance;
        for (int k = 0; k < settings.parts; k++) least = least * chance;
        Arc arc = try_arc(field, settings, state, axes, state.bound, down, azimuth, least);
        if (arc.reason) continue;
        face(state, arc.chord.x, arc.chord.y, arc.chord.z);
        return 0;
    }
    return state.n_proposals >= MAX_PROPOSALS ? LOW_AMPLITUDE : AGAIN;
}
