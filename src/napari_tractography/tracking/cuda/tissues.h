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
DEVICE bool begin_in_tissues(const Regions& regions, Walk& walk)
{
    Tissue& t = walk.tissue;
    t.is_from_deep = t.has_reached_white = t.is_one_way = false;
    t.cropped = 0.0f;
    Fractions f = fractions_at(regions, walk.x, walk.y, walk.z);
    if (!f.found) return false;
    if (is_deep(f)) {
        t.is_from_deep = true;
        return true;
    }
    if (is_fluid(f) || !(f.white > 0.0f)) return false;
    return f.cortex + f.deep - f.white < INTERFACE_WIDTH;
}

// At the border of the cortex turn the start direction to the white matter, and go one way.
DEVICE void face_white(const Settings& settings, const Regions& regions, Walk& walk)
{
    if (settings.direction != BOTH) return;
    Fractions f = fractions_at(regions, walk.x, walk.y, walk.z);
    if (is_deep(f) || f.white >= f.cortex + f.deep || f.deep >= f.cortex) return;
    float dx = PERTURBATION_MM * walk.ux, dy = PERTURBATION_MM * walk.uy;
    float dz = PERTURBATION_MM * walk.uz;
    f = fractions_at(regions, walk.x + dx, walk.y + dy, walk.z + dz);
    float ahead = f.found ? f.cortex + f.deep - f.white : 0.0f;
    f = fractions_at(regions, walk.x - dx, walk.y - dy, walk.z - dz);
    float behind = f.found ? f.cortex + f.deep - f.white : 0.0f;
    if (ahead - behind > 0.0f) face(walk, -walk.ux, -walk.uy, -walk.uz);
    walk.tissue.is_one_way = true;
}

// Begin a half at the seed.
DEVICE void begin_half_in_tissues(const Regions& regions, const Visits& visits, Walk& walk)
{
    Tissue& t = walk.tissue;
    t.is_in_lesion = is_lesion(fractions_at(regions, walk.x, walk.y, walk.z));
    t.depth = t.n_reverts = t.furthest = 0;
    t.n_back = 1;
    t.n_from_there = 0;
    t.visited_before = visits.visited;
    t.log_left = walk.log_left;
}

// Record what a point lies in, to which a step leads; return the reason to stop, or 0.
DEVICE int visit_tissues(const Regions& regions, const Place& place, Walk& walk, float x, float y,
                         float z)
{
    Tissue& t = walk.tissue;
    if (t.depth) {
        // Of the FOD where the last point is: the step was chosen by it.
        float value = value_at(place.fod, t.arrival_x, t.arrival_y, t.arrival_z);
        if (t.depth == 1 || value < t.least) {
            t.least = value;
            t.least_at = walk.steps;
            t.least_x = walk.x;
            t.least_y = walk.y;
            t.least_z = walk.z;
        }
    }
    t.arrival_x = walk.ux;
    t.arrival_y = walk.uy;
    t.arrival_z = walk.uz;
    t.last_x = walk.x;
    t.last_y = walk.y;
    t.last_z = walk.z;
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
DEVICE void cut(Walk& walk, int steps, float x, float y, float z)
{
    int n_logged = walk.tissue.log_left - walk.log_left;
    if (steps < n_logged) {
        walk.log_entry -= 3 * (n_logged - steps);
        walk.log_left += n_logged - steps;
    }
    walk.steps = steps;
    walk.x = x;
    walk.y = y;
    walk.z = z;
}

// Move the last point of a half, in cortex, back along the last step to white matter.
DEVICE void crop(const Regions& regions, Walk& walk)
{
    float ex = walk.x, ey = walk.y, ez = walk.z;
    float lx = walk.tissue.last_x, ly = walk.tissue.last_y, lz = walk.tissue.last_z;
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
    walk.x = lx + high * (ex - lx);
    walk.y = ly + high * (ey - ly);
    walk.z = lz + high * (ez - lz);
    float dx = ex - walk.x, dy = ey - walk.y, dz = ez - walk.z;
    walk.tissue.cropped += sqrtf(dx * dx + dy * dy + dz * dz);
}

// Take a half back a few steps, to be tracked anew from there; tell whether it may be.
//
// All of its steps are in the log, so that its points are found again from the seed on.
DEVICE bool revert(const Field& field, const Settings& settings, const Regions& regions,
                   const float* seed, Visits& visits, Walk& walk)
{
    Tissue& t = walk.tissue;
    if (walk.steps > t.furthest) {
        t.furthest = walk.steps;
        t.n_back = t.n_from_there = 1;
    } else if (t.n_from_there == REVERTS_FROM_ONE_POINT) {
        t.n_back++;
        t.n_from_there = 1;
    } else {
        t.n_from_there++;
    }
    int parts = settings.parts;  // a whole arc is drawn anew
    int to = ((t.furthest + parts - 1) / parts - t.n_back) * parts;
    if (to < 0) return false;
    const float* log = walk.log_entry - 3 * walk.steps;
    float x = seed[0], y = seed[1], z = seed[2], bx = x, by = y, bz = z;  // b: the point before
    visits.visited = regions.n ? t.visited_before : visits.visited;
    for (int q = 0; regions.rule == RULE_ORDERED && q < regions.n_includes + 1; q++) {
        visits.ups[walk.half][q] = (signed char)q;
        visits.downs[walk.half][q] = (signed char)(q - 1);
    }
    for (int k = 0; k <= to; k++) {
        if (k > 0) {
            bx = x;
            by = y;
            bz = z;
            x = x + walk.step * log[3 * k - 3];
            y = y + walk.step * log[3 * k - 2];
            z = z + walk.step * log[3 * k - 1];
        }
        if (regions.n) visit_regions(regions, visits, walk.half, k == 0, x, y, z, bx, by, bz);
    }
    if (walk.steps > to) {
        const float* next = log + 3 * to;
        Vector v = normalised(x + walk.step * next[0] - bx, y + walk.step * next[1] - by,
                              z + walk.step * next[2] - bz);
        face(walk, v.x, v.y, v.z);
        head_on(walk);
        cut(walk, to, x, y, z);
    }
    t.n_reverts++;
    unsigned int purpose = walk.half == 0 ? PURPOSE_FORWARD : PURPOSE_BACKWARD;
    walk.purpose = purpose + PURPOSES * (unsigned int)t.n_reverts;  // other random numbers
    t.is_in_lesion = false;
    t.depth = 0;
    t.arrival_x = walk.ux;
    t.arrival_y = walk.uy;
    t.arrival_z = walk.uz;
    // Ready for the next step.
    to_voxel(field.to_voxel, walk.x, walk.y, walk.z, walk.vx, walk.vy, walk.vz);
    walk.n_tries = 0;
    walk.task = TRIES;
    walk.arrived = walk.settled = walk.forced = false;
    return true;
}

// Apply the rules to the end of a half: its reason may become another. Return what becomes of it.
DEVICE int end_in_tissues(const Field& field, const Settings& settings, const Regions& regions,
                          const float* seed, Visits& visits, Walk& walk, int& reason)
{
    const Tissue& t = walk.tissue;
    bool is_poor = reason == ENTERED_FLUID;
    if (reason == LOW_AMPLITUDE || reason == LOW_PROBABILITY || reason == SHARP_TURN) {
        if (t.depth) {
            reason = ENDED_IN_DEEP_GREY;
        } else if (!t.is_in_lesion) {
            reason = ENDED_IN_WHITE;
            is_poor = true;
        }
    } else if (reason == NO_FOD && t.depth) {
        reason = ENDED_IN_DEEP_GREY;
    } else if (reason == MAX_LENGTH) {
        reason = TOO_LONG;
        return REFUSED;
    } else if (reason == LEFT_TISSUES) {
        cut(walk, walk.steps - 1, t.last_x, t.last_y, t.last_z);
    } else if (reason == LEFT_DEEP_GREY) {
        cut(walk, t.least_at, t.least_x, t.least_y, t.least_z);
    } else if (reason == ENTERED_CORTEX && regions.crop) {
        crop(regions, walk);
    }
    if (!is_poor) return KEPT;
    bool is_back = regions.backtrack && revert(field, settings, regions, seed, visits, walk);
    return is_back ? TRACKED_ANEW : REFUSED;
}
