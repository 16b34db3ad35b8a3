// Probabilistic tracking: the next direction is drawn from the interpolated FOD within the cone.
//
// Twin of draw.py, where the method is explained, of rejection.py and of stepping.py.
#pragma once

#include "cones.h"
#include "philox.h"

// Turn values into their running sum, in the order of Hillis and Steele.
template <int N>
DEVICE void add_up(float* values)
{
#pragma unroll
    for (int by = 1; by < N; by *= 2) {
#pragma unroll
        for (int k = N - 1; k >= by; k--) values[k] += values[k - by];
    }
}

// Draw from the interpolated FOD within a cone by its cumulative sum; minus a stop reason.
SELDOM int scan_draw(const unsigned short* quantised, int n_patches, int n_half, Corners corners,
                     int n, const unsigned int* cone, float floor, float limit,
                     unsigned int word_0, unsigned int word_1)
{
    float total = 0.0f;
    for (int patch = 0; patch < n_patches; patch++)
        if (cone[patch])
            total += mass_in_patch(quantised, n_patches, corners, n, patch, cone[patch], floor);
    if (!(total > 0.0f)) return -LOW_AMPLITUDE;
    if (total <= MARGIN * limit &&
        is_cone_mass_below(quantised, n_patches, corners, n, cone, limit))
        return -LOW_PROBABILITY;
    float left = (float)(word_0 >> 8) * UNIT_24 * total;
    int drawn = 0;
    float goal = 0.0f;
    for (int patch = 0; patch < n_patches; patch++) {
        if (!cone[patch]) continue;
        float mass = mass_in_patch(quantised, n_patches, corners, n, patch, cone[patch], floor);
        if (!(mass > 0.0f)) continue;
        drawn = patch;
        goal = left;
        if (left < mass) break;
        left -= mass;
    }
    float values[PATCH_SIZE];
    mix(quantised, n_patches, corners, n, drawn, values);
    keep_in_cone(values, cone[drawn], floor);
    int last = 0;
#pragma unroll
    for (int k = 0; k < PATCH_SIZE; k++)
        if (values[k] > 0.0f) last = k;
    add_up<PATCH_SIZE>(values);
    int slot = 0;
#pragma unroll
    for (int k = 0; k < PATCH_SIZE; k++) slot += values[k] <= goal;
    int j = drawn * PATCH_SIZE + (slot > last ? last : slot);  // rounding may lead beyond the last
    int sides = sides_of(cone, j);
    if (sides == 2 || (sides == 3 && (word_1 & 1u))) return j + n_half;
    return j;
}

// How many blocks of random numbers there are to propose with: in a nearest voxel a block serves
// two proposals.
DEVICE unsigned int n_blocks(const Field& field, const Settings& settings, int i)
{
    // At a start all directions are allowed, whatever the cone.
    bool starts = i == 2 * field.n_half;
    unsigned int n = starts ? (unsigned int)MAX_PROPOSALS : (unsigned int)field.max_proposals;
    return n_corners(settings) == 1 ? n / 2 : n;
}

// The least mass that a patch has amid the corners, in units of 1 / MASS_UNITS.
DEVICE float mass_in_corners(const Field& field, const Scratch& scratch, int patch)
{
    float mass = 0.0f;
#pragma unroll
    for (int k = 0; k < 8; k++) {
        long long at = (long long)scratch.corners.rows[k] * field.n_patches + patch;
        mass += scratch.masses[k] * (float)field.mass_fractions[at];
    }
    return mass;
}

// Propose a direction by a block of random numbers: the direction, where it is accepted; minus a
// stop reason, where there is none; AGAIN, where it is rejected.
//
// `i` is the current direction, or n_directions where any may follow; `limit` the cone mass at or
// below which to stop.
DEVICE int propose_direction(const Field& field, const Settings& settings, const Scratch& scratch,
                         int i, bool two_sided, float limit, unsigned int stream,
                         unsigned int step, unsigned int block, unsigned int purpose)
{
    int n = n_corners(settings), n_patches = field.n_patches;
    const unsigned int* cone = cone_of(field, i);
    Words words = philox_block(stream, step, block, purpose, settings.key_0, settings.key_1);
    int row = scratch.corners.rows[0], main_row = row;
    float quantum = scratch.corners.quanta[0];
    float main_mass = n == 1 ? scratch.total : scratch.masses[0];
    if (n > 1) {
        float goal = (float)(words.r2 >> 8) * UNIT_24 * scratch.total;
        float mass = scratch.masses[0], running = scratch.masses[0];
#pragma unroll
        for (int k = 1; k < 8; k++) {
            bool past = running <= goal, larger = scratch.masses[k] > main_mass;
            row = past ? scratch.corners.rows[k] : row;
            quantum = past ? scratch.corners.quanta[k] : quantum;
            mass = past ? scratch.masses[k] : mass;
            running += scratch.masses[k];
            main_row = larger ? scratch.corners.rows[k] : main_row;
            main_mass = larger ? scratch.masses[k] : main_mass;
        }
        if (!(mass > 0.0f)) return AGAIN;  // rounding may lead to a corner of weight zero
    }
#pragma unroll 1
    for (int turn = 0; turn < (n == 1 ? 2 : 1); turn++) {
        unsigned int of_patch = turn ? words.r2 : words.r0;
        unsigned int of_slot = turn ? words.r3 : words.r1;
        unsigned long long product = (unsigned long long)of_patch * (unsigned int)n_patches;
        int patch = (int)(product >> 32);
        unsigned int entry = field.alias[(long long)row * n_patches + patch];
        if (((unsigned int)product >> ALIAS_BITS) >= (entry >> ALIAS_BITS))
            patch = (int)(entry & ((1u << ALIAS_BITS) - 1u));
        unsigned int bits = cone[patch];
        if (!bits) continue;
        long long first = ((long long)row * n_patches + patch) * PATCH_SIZE;
        int slot = (int)(of_slot >> (32 - SLOT_BITS));
        unsigned int rest = of_slot >> (32 - SLOT_BITS - THRESHOLD_BITS);
        unsigned int of_column = field.slot_alias[first + slot];
        if ((rest & ((1u << THRESHOLD_BITS) - 1u)) >= (of_column >> SLOT_BITS))
            slot = (int)(of_column & (PATCH_SIZE - 1u));
        int j = patch * PATCH_SIZE + slot;
        int sides = sides_of(cone, j);
        // Draw from the full sphere: a random sign, then the cone.
        if (two_sided) sides &= (of_slot & 1u) ? 2 : 1;
        if (!sides) continue;
        // Mostly one corner is enough.
        float amplitude = quantum * (float)field.quantised[first + slot];
        if (n > 1 && !(amplitude >= settings.min_amplitude))
            amplitude = mixed(field.quantised, n_patches * PATCH_SIZE, scratch.corners, n, j);
        if (!(amplitude >= settings.min_amplitude) || !(amplitude > 0.0f)) continue;
        // Mostly a patch that the cone contains has more than enough mass in one voxel, or in all
        // corners.
        float needed = MARGIN * limit * (float)MASS_UNITS, mass = 0.0f;
        int contained = field.contained_patches[i];
        if (contained >= 0) {
            long long at = (long long)main_row * n_patches + contained;
            mass = main_mass * (float)field.mass_fractions[at];
            if (n > 1 && mass <= needed) mass = mass_in_corners(field, scratch, contained);
        }
        if (mass <= needed && amplitude <= MARGIN * limit &&
            mass_in_patch(field.quantised, n_patches, scratch.corners, n, patch,
                          (bits | (bits >> PATCH_SIZE)) & ALL_SLOTS, 0.0f) <= MARGIN * limit &&
            below_cone_mass(field, settings, scratch, i, limit))
            return -LOW_PROBABILITY;
        return (sides & 1) ? j : j + field.n_half;
    }
    return AGAIN;
}

// Draw the next direction by a scan of the cone; minus a stop reason where there is none.
DEVICE int scan_direction(const Field& field, const Settings& settings, const Scratch& scratch,
                          int i, float limit, unsigned int stream, unsigned int step,
                          unsigned int purpose)
{
    Words words =
        philox_block(stream, step, MAX_PROPOSALS, purpose, settings.key_0, settings.key_1);
    return scan_draw(field.quantised, field.n_patches, field.n_half, scratch.corners,
                     n_corners(settings), cone_of(field, i), settings.min_amplitude, limit,
                     words.r0, words.r1);
}

// Choose the next direction; see the table of algorithms. AGAIN where a proposal is rejected.
DEVICE int probabilistic_direction(const Field& field, const Settings& settings, Scratch& scratch,
                                   Walk& walk, float limit, unsigned int stream,
                                   unsigned int purpose)
{
    bool scans = walk.n_rejected >= n_blocks(field, settings, walk.i);
    if (deferred(scans && field.max_proposals)) return AGAIN;
    int i = scans ? scan_direction(field, settings, scratch, walk.i, limit, stream, walk.steps,
                                   purpose)
                  : propose_direction(field, settings, scratch, walk.i, field.two_sided != 0,
                                      limit, stream, walk.steps, walk.n_rejected, purpose);
    walk.n_rejected = i == AGAIN ? walk.n_rejected + 1 : 0;
    return i;
}
