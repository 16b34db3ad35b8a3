// Tissues in the kernel: what tissue each point of a streamline lies in, and what follows from it.
// Twin of cpu/constraints/tissues.py.
//
// Nothing here runs without a tissue image, and with TISSUES defined as 0 nothing is compiled in.
#pragma once

#include "regions.h"

// The fractions of the five tissues at a point.
struct Fractions {
    bool found;
    float cortex, deep, white, fluid, lesion;
};

DEVICE int between(int low, int value, int high)
{
    return value < low ? low : value > high ? high : value;
}

SELDOM Fractions fractions_at(const Regions& regions, float x, float y, float z)
{
    Fractions f = {false, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f};
    int nx = regions.nx, ny = regions.ny, nz = regions.nz;
    float vx, vy, vz;
    to_voxel(regions.to_tissue, x, y, z, vx, vy, vz);
    int ix = nearest_voxel(vx), iy = nearest_voxel(vy), iz = nearest_voxel(vz);
    if (ix < 0 || iy < 0 || iz < 0 || ix >= nx || iy >= ny || iz >= nz) return f;
    const float* here = regions.fractions + 5 * (((long long)ix * ny + iy) * nz + iz);
    if (!(here[0] > 0.0f || here[1] > 0.0f || here[2] > 0.0f || here[3] > 0.0f || here[4] > 0.0f))
        return f;
    int jx = floor_to_int(vx), jy = floor_to_int(vy), jz = floor_to_int(vz);
    float weights[8];
    weigh_corners(vx, vy, vz, weights);
    for (int k = 0; k < 8; k++) {
        int kx = between(0, jx + (k >> 2), nx - 1);
        int ky = between(0, jy + ((k >> 1) & 1), ny - 1);
        int kz = between(0, jz + (k & 1), nz - 1);
        const float* corner = regions.fractions + 5 * (((long long)kx * ny + ky) * nz + kz);
        f.cortex = f.cortex + weights[k] * corner[0];
        f.deep = f.deep + weights[k] * corner[1];
        f.white = f.white + weights[k] * corner[2];
        f.fluid = f.fluid + weights[k] * corner[3];
        f.lesion = f.lesion + weights[k] * corner[4];
    }
    f.found = f.cortex + f.deep + f.white + f.fluid + f.lesion >= LOWEST_SUM;
    return f;
}

DEVICE bool is_fluid(const Fractions& f)
{
    return f.fluid >= f.cortex && f.fluid >= f.deep && f.fluid >= f.white && f.fluid >= f.lesion;
}

DEVICE bool is_deep(const Fractions& f)
{
    return f.deep > f.cortex && f.deep >= f.white && f.deep > f.fluid && f.deep > f.lesion;
}

DEVICE bool is_lesion(const Fractions& f)
{
    return f.found && f.lesion >= f.cortex && f.lesion >= f.deep && f.lesion >= f.white &&
           f.lesion > f.fluid;
}

// Go to a seed; tell whether a streamline may begin there.
DEVICE bool begin_in_tissues(const Regions& regions, StreamlineState& state)
{
    Tissue& t = state.tissue;
    t.is_from_deep = t.has_reached_white = t.is_one_way = false;
    t.cropped = 0.0f;
    Fractions f = fractions_at(regions, state.x, state.y, state.z);
    if (!f.found) return false;
    if (is_deep(f)) {
        t.is_from_deep = true;
        return true;
    }
    if (is_fluid(f) || !(f.white > 0.0f)) return false;
    return f.cortex + f.deep - f.white < INTERFACE_WIDTH;
}

// At the border of the cortex turn the start direction to the white matter, and go one way.
DEVICE void face_white(const Settings& settings, const Regions& regions, StreamlineState& state)
{
    if (settings.direction != BOTH) return;
    Fractions f = fractions_at(regions, state.x, state.y, state.z);
    if (is_deep(f) || f.white >= f.cortex + f.deep || f.deep >= f.cortex) return;
    float dx = PERTURBATION_MM * state.ux, dy = PERTURBATION_MM * state.uy;
    float dz = PERTURBATION_MM * state.uz;
    f = fractions_at(regions, state.x + dx, state.y + dy, state.z + dz);
    float ahead = f.found ? f.cortex + f.deep - f.white : 0.0f;
    f = fractions_at(regions, state.x - dx, state.y - dy, state.z - dz);
    float behind = f.found ? f.cortex + f.deep - f.white : 0.0f;
    if (ahead - behind > 0.0f) face(state, -state.ux, -state.uy, -state.uz);
    state.tissue.is_one_way = true;
}

// Begin a half at the seed.
DEVICE void begin_half_in_tissues(const Regions& regions, const Visits& visits,
                                  StreamlineState& state)
{
    Tissue& t = state.tissue;
    t.is_in_lesion = is_lesion(fractions_at(regions, state.x, state.y, state.z));
    t.depth = t.n_reverts = t.furthest = 0;
    t.n_back = 1;
    t.n_from_there = 0;
    t.visited_before = visits.visited;
    t.log_left = state.log_left;
}

// Record what a point lies in, to which a step leads; return the reason to stop, or 0.
DEVICE int visit_tissues(const Settings& settings, const Regions& regions, StreamlineState& state,
                         float x, float y, float z)
{
    Tissue& t = state.tissue;
    if (t.depth) {
        // Of the FOD where the last point is: the step was chosen by it.
        float value = settings.curved
                          ? t.arrival_value
                          : value_at(own_fod(), t.arrival_x, t.arrival_y, t.arrival_z);
        if (t.depth == 1 || value < t.least) {
            t.least = value;
            t.least_at = state.steps;
            t.least_x = state.x;
            t.least_y = state.y;
            t.least_z = state.z;
        }
    }
    t.arrival_x = state.ux;
    t.arrival_y = state.uy;
    t.arrival_z = state.uz;
    t.last_x = state.x;
    t.last_y = state.y;
    t.last_z = state.z;
    Fractions f = fractions_at(regions, x, y, z);
    t.is_in_lesion = is_lesion(f);
    if (!f.found) return LEFT_TISSUES;
    if (is_fluid(f)) return t.depth ? LEFT_DEEP_GREY : ENTERED_FLUID;
    float grey = f.cortex + f.deep;
    if (grey >= f.white && grey > f.fluid && grey > f.lesion) {
        if (f.cortex >= f.deep) return ENTERED_CORTEX;
        t.depth++;
    } else if (t.depth) {
        if (!t.is_from_deep || t.has_reached_white) return LEFT_DEEP_GREY;
        t.has_reached_white = true;
        t.depth = 0;
    }
    return 0;
}

// Shorten a half to so many steps, the last of which leads to a point.
DEVICE void cut(StreamlineState& state, int steps, float x, float y, float z)
{
    int n_logged = state.tissue.log_left - state.log_left;
    if (steps < n_logged) {
        state.log_entry -= 3 * (n_logged - steps);
        state.log_left += n_logged - steps;
    }
    state.steps = steps;
    state.x = x;
    state.y = y;
    state.z = z;
}

// Move the last point of a half, in cortex, back along the last step to white matter.
DEVICE void crop(const Regions& regions, StreamlineState& state)
{
    float ex = state.x, ey = state.y, ez = state.z;
    float lx = state.tissue.last_x, ly = state.tissue.last_y, lz = state.tissue.last_z;
    Fractions f = fractions_at(regions, lx, ly, lz);
    if (!(f.found && f.cortex + f.deep < f.white)) return;
    f = fractions_at(regions, ex, ey, ez);
    if (!(f.found && f.cortex + f.deep - f.white >= INTERFACE_WIDTH)) return;
    float low = 0.0f, high = 1.0f;
    for (int n = 0; n < CROPPINGS; n++) {
        float part = 0.5f * (low + high);
        f = fractions_at(regions, lx + part * (ex - lx), ly + part * (ey - ly),
                         lz + part * (ez - lz));
        if (f.white > f.cortex + f.deep) {
            low = part;
            continue;
        }
        high = part;
        if (f.cortex + f.deep - f.white < INTERFACE_WIDTH) break;
    }
    state.x = lx + high * (ex - lx);
    state.y = ly + high * (ey - ly);
    state.z = lz + high * (ez - lz);
    float dx = ex - state.x, dy = ey - state.y, dz = ez - state.z;
    state.tissue.cropped += sqrtf(dx * dx + dy * dy + dz * dz);
}

// Take a half back a few steps, to be tracked again from there; tell whether it may be.
//
// All of its steps are in the log, so that its points are found again from the seed on.
DEVICE bool revert(const Settings& settings, const Regions& regions,
                   const float* seed, Visits& visits, StreamlineState& state)
{
    Tissue& t = state.tissue;
    if (state.steps > t.furthest) {
        t.furthest = state.steps;
        t.n_back = t.n_from_there = 1;
    } else if (t.n_from_there == REVERTS_FROM_ONE_POINT) {
        t.n_back++;
        t.n_from_there = 1;
    } else {
        t.n_from_there++;
    }
    int parts = settings.parts;  // a whole arc is drawn again
    int to = ((t.furthest + parts - 1) / parts - t.n_back) * parts;
    if (to < 0) return false;
    const float* log = state.log_entry - 3 * state.steps;
    float x = seed[0], y = seed[1], z = seed[2], bx = x, by = y, bz = z;  // b: the point before
    visits.visited = regions.n_regions ? t.visited_before : visits.visited;
    for (int q = 0; regions.rule == RULE_ORDERED && q < regions.n_includes + 1; q++) {
        visits.ups[state.half][q] = (signed char)q;
        visits.downs[state.half][q] = (signed char)(q - 1);
    }
    for (int k = 0; k <= to; k++) {
        if (k > 0) {
            bx = x;
            by = y;
            bz = z;
            x = x + state.step * log[3 * k - 3];
            y = y + state.step * log[3 * k - 2];
            z = z + state.step * log[3 * k - 1];
        }
        if (regions.n_regions)
            visit_regions(regions, visits, state.half, k == 0, x, y, z, bx, by, bz);
    }
    if (state.steps > to) {
        const float* next = log + 3 * to;
        Vector v = normalised(x + state.step * next[0] - bx, y + state.step * next[1] - by,
                              z + state.step * next[2] - bz);
        face(state, v.x, v.y, v.z);
        head_on(state);
        cut(state, to, x, y, z);
    }
    t.n_reverts++;
    unsigned int purpose = state.half == 0 ? PURPOSE_FORWARD : PURPOSE_BACKWARD;
    state.purpose = purpose + PURPOSES * (unsigned int)t.n_reverts;  // other random numbers
    t.is_in_lesion = false;
    t.depth = 0;
    t.arrival_x = state.ux;
    t.arrival_y = state.uy;
    t.arrival_z = state.uz;
    state.settled = state.forced = false;
    return true;
}

// Apply the rules to the end of a half: its reason may become another. Return what becomes of it.
DEVICE int end_in_tissues(const Settings& settings, const Regions& regions, const float* seed,
                          Visits& visits, StreamlineState& state, int& reason)
{
    const Tissue& t = state.tissue;
    bool is_implausible = reason == ENTERED_FLUID;
    if (reason == LOW_AMPLITUDE || reason == LOW_PROBABILITY || reason == SHARP_TURN) {
        if (t.depth) {
            reason = ENDED_IN_DEEP_GREY;
        } else if (!t.is_in_lesion) {
            reason = ENDED_IN_WHITE;
            is_implausible = true;
        }
    } else if (reason == NO_FOD && t.depth) {
        reason = ENDED_IN_DEEP_GREY;
    } else if (reason == MAX_LENGTH) {
        reason = TOO_LONG;
        return REFUSED;
    } else if (reason == LEFT_TISSUES) {
        cut(state, state.steps - 1, t.last_x, t.last_y, t.last_z);
    } else if (reason == LEFT_DEEP_GREY) {
        cut(state, t.least_at, t.least_x, t.least_y, t.least_z);
    } else if (reason == ENTERED_CORTEX && regions.crop) {
        crop(regions, state);
    }
    if (!is_implausible) return KEPT;
    bool is_back = regions.backtrack && revert(settings, regions, seed, visits, state);
    return is_back ? TRACKED_AGAIN : REFUSED;
}
