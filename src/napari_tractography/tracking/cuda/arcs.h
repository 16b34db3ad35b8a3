// Arcs, drawn by the FOD along them. Twin of cpu/arcs.py, where the method is explained.
//
// Lanes try arcs side by side, as there. In each round of the loop of track.cu a lane finds the FOD where
// it wants one: where an arc begins, or at a point of the arc that it tries, the first or the fifth.
#pragma once

#include "headings.h"
#include "probabilistic.h"

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
    angle = angle * root(square);
    return beyond ? HALF_PI - angle : angle;
}

// Find the largest bound of the voxels around a box that holds every arc: no amplitude that an arc
// may meet exceeds it. Note whether all voxels that a point of one may be in hold an FOD.
DEVICE void find_bound(const Field& field, const Settings& settings, StreamlineState& state)
{
    bool is_nearest = settings.interpolation == NEAREST;
    float length = settings.step * (float)settings.parts;
    float v[3];
    to_voxel(field.to_voxel, state.x, state.y, state.z, v[0], v[1], v[2]);
    int first[3], last[3], first_in[3], last_in[3];
#pragma unroll
    for (int axis = 0; axis < 3; axis++) {
        const float* row = field.to_voxel + 4 * axis;
        float reach = sqrtf(row[0] * row[0] + row[1] * row[1] + row[2] * row[2]) * length + NEARLY;
        first_in[axis] = nearest_voxel(v[axis] - reach);
        last_in[axis] = nearest_voxel(v[axis] + reach);
        first[axis] = is_nearest ? first_in[axis] : floor_to_int(v[axis] - reach);
        last[axis] = is_nearest ? last_in[axis] : floor_to_int(v[axis] + reach) + 1;
    }
    float largest = 0.0f;
    bool is_full = true;
    int ix = first[0], iy = first[1], iz = first[2];
#pragma unroll 1
    while (ix <= last[0]) {  // one loop, so that lanes with other boxes stay together
        int row = row_at(field, ix, iy, iz);
        bool is_in = ix >= first_in[0] && ix <= last_in[0] && iy >= first_in[1] &&
                     iy <= last_in[1] && iz >= first_in[2] && iz <= last_in[2];
        is_full = is_full && (row < field.n_rows || !is_in);
        ENSURE_ROW(row);
        float bound = from_half(field.coefficients[(long long)row * N_PADDED + N_COEFFICIENTS]);
        largest = bound > largest ? bound : largest;
        bool ends_row = iz == last[2], ends_plane = ends_row && iy == last[1];
        ix = ends_plane ? ix + 1 : ix;
        iy = ends_plane ? first[1] : ends_row ? iy + 1 : iy;
        iz = ends_row ? first[2] : iz + 1;
    }
    state.bound = positive(sharpness_of(settings), MARGIN * largest);
    state.is_full = is_full;
}

// What an arc is tried by next: the amplitude at a point, along the tangent there.
struct Trial {
    float x, y, z;   // RAS+ mm
    Vector tangent;
    Vector end;      // the tangent where the arc ends
    Vector chord;    // of the first part
    float least;     // what the density over the bounds is to exceed
    bool is_end;     // the point is that where the arc ends
};

// The trial that is next: of one of the arcs ahead, or of a proposal, the last amplitude first.
DEVICE Trial next_trial(const Settings& settings, const StreamlineState& state,
                        unsigned int stream)
{
    bool ahead = state.n_proposals < ARCS_AHEAD;
    unsigned int proposal = state.n_proposals - ARCS_AHEAD;
    Words words =
        philox_block(stream, (unsigned int)state.steps, proposal / PROPOSALS_A_BLOCK,
                     state.purpose, settings.key_0, settings.key_1);
    bool is_second = proposal % PROPOSALS_A_BLOCK;
    unsigned int first = is_second ? words.r2 : words.r0, second = is_second ? words.r3 : words.r1;
    float down = settings.cone_height * middle_of(first, 0.0f);
    float around = middle_of(second, 0.5f);
    float chance = (float)(((first & 4095u) << 12) | (second & 4095u)) * UNIT_24;
    float least = chance;
    for (int k = 0; k < settings.parts; k++) least = least * chance;
    int last = settings.parts - 1, which = state.part ? state.part - 1 : last;
    if (ahead) {
        down = state.n_proposals ? settings.ring_height : STRAIGHT;
        around = divided((float)state.n_proposals, (float)(ARCS_AHEAD - 1)) - 0.5f;
        least = -1.0f;
        which = state.part;
    }
    Turn azimuth = turn_of(around);
    float hx = state.ux, hy = state.uy, hz = state.uz;
    Tangents axes = tangents_of(hx, hy, hz);
    float nx = azimuth.cosine * axes.ax + azimuth.sine * axes.bx;
    float ny = azimuth.cosine * axes.ay + azimuth.sine * axes.by;
    float nz = azimuth.cosine * axes.az + azimuth.sine * axes.bz;
    // Each part turns by twice the angle between its chord and the tangents at its ends.
    float angle = divided(half_angle(down), (float)settings.parts);
    Turn half = turn_of(divided(angle, TWO_PI));
    float turn_cosine = 1.0f - 2.0f * half.sine * half.sine;
    float turn_sine = 2.0f * half.sine * half.cosine;
    float shortening = divided(half.sine, angle);
    // Chord, tangent and position, along the heading and across.
    float p = shortening * half.cosine, q = shortening * half.sine, s = turn_cosine, t = turn_sine;
    float along = p, across = q, to_p = p, to_q = q, to_s = s, to_t = t;
    Vector chord = {p * hx + q * nx, p * hy + q * ny, p * hz + q * nz};
#pragma unroll 1
    for (int part = 1; part < settings.parts; part++) {
        float next = p * turn_cosine - q * turn_sine;
        q = p * turn_sine + q * turn_cosine;
        p = next;
        next = s * turn_cosine - t * turn_sine;
        t = s * turn_sine + t * turn_cosine;
        s = next;
        along = along + p;
        across = across + q;
        bool is_here = part == which;
        to_p = is_here ? along : to_p;
        to_q = is_here ? across : to_q;
        to_s = is_here ? s : to_s;
        to_t = is_here ? t : to_t;
    }
    Trial trial = {state.x + settings.step * (to_p * hx + to_q * nx),
                   state.y + settings.step * (to_p * hy + to_q * ny),
                   state.z + settings.step * (to_p * hz + to_q * nz),
                   {to_s * hx + to_t * nx, to_s * hy + to_t * ny, to_s * hz + to_t * nz},
                   {s * hx + t * nx, s * hy + t * ny, s * hz + t * nz},
                   chord,
                   least,
                   which == last};
    return trial;
}

// Tell why there is no FOD at a voxel position, or 0.
DEVICE int missing_at(const Field& field, const Settings& settings, float vx, float vy, float vz)
{
    int ix = nearest_voxel(vx), iy = nearest_voxel(vy), iz = nearest_voxel(vz);
    if (ix < 0 || iy < 0 || iz < 0 || ix >= field.nx || iy >= field.ny || iz >= field.nz)
        return LEFT_IMAGE;
    if (settings.edge != EDGE_VOXEL) return 0;
    return field.voxel_rows[voxel_index(field, ix, iy, iz)] < 0 ? NO_FOD : 0;
}

// Go on after a trial, for which the lane has the FOD unless it is missing: to the next amplitude, to
// the next arc, or along this one. Return the reason to stop, or 0.
DEVICE int judge(const Field& field, const Settings& settings, StreamlineState& state,
                 const Trial& trial, int missing)
{
    bool ahead = state.n_proposals < ARCS_AHEAD, is_first = state.part == 0, good = false;
    float density = is_first ? 1.0f : state.density, end = is_first ? 1.0f : state.end;
    if (!missing) {
        float amplitude = positive(
            sharpness_of(settings),
            amplitude_of_lane(lane_of(), trial.tangent.x, trial.tangent.y, trial.tangent.z));
        float ratio = amplitude / state.bound;
        if (trial.is_end)
            end = sqrtf(ratio);
        else
            density = density * ratio;
        good = !below_cutoff(settings, amplitude) && density * end > trial.least;
    }
    state.density = density;
    state.end = end;
    state.part++;
    if (good && state.part < settings.parts) return 0;
    state.part = 0;
    state.n_proposals++;
    if (good) {
        Cone cone = cone_of(field, state);
        good = may_follow(cone, index_of(cone), trial.end.x, trial.end.y, trial.end.z);
    }
    if (ahead) {
        if (missing) return missing;
        state.has_arcs = state.has_arcs || good;
        if (state.has_arcs && state.is_full) state.n_proposals = ARCS_AHEAD;
        return state.n_proposals == ARCS_AHEAD && !state.has_arcs ? LOW_AMPLITUDE : 0;
    }
    if (good) {
        face(state, trial.chord.x, trial.chord.y, trial.chord.z);
        state.task = MOVE;
        return 0;
    }
    return state.n_proposals == ARCS_AHEAD + MAX_PROPOSALS ? LOW_AMPLITUDE : 0;
}

// Take the next part of an arc, or begin to try arcs; see the table of algorithms.
DEVICE int arc_direction(const Field& field, const Settings& settings, Interpolant& interpolant,
                         StreamlineState& state, unsigned int)
{
    Tissue& tissue = state.tissue;
    if (tissue.depth)  // trials take the place of the FOD here
        tissue.arrival_value =
            amplitude_of_lane(lane_of(), tissue.arrival_x, tissue.arrival_y, tissue.arrival_z);
    if (state.steps % settings.parts) {
        turn_within_arc(state);
        return 0;
    }
    face(state, state.hx, state.hy, state.hz);
    if (is_in_doubt(field, settings, interpolant, state)) {
        state.task = WEIGH;
        return AGAIN;
    }
    find_bound(field, settings, state);
    state.part = 0;
    state.has_arcs = false;
    state.task = TRY;
    return AGAIN;
}
