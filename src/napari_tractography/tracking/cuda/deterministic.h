// Deterministic tracking: the direction of the largest interpolated amplitude in the cone.
//
// Twin of draw.py and deterministic.py.
#pragma once

#include "cones.h"

// The largest amplitude so far, and its direction of the half set, or -1.
struct Largest {
    float amplitude;
    int direction;
};

// Look for an amplitude of a patch, where bits are set, that is larger than the largest so far; of
// equal ones the first counts.
SELDOM Largest largest_in_patch(const unsigned short* quantised, int n_patches, Corners corners,
                                int n, int patch, unsigned int bits, Largest found)
{
    float values[PATCH_SIZE];
    mix(quantised, n_patches, corners, n, patch, values);
#pragma unroll
    for (int slot = 0; slot < PATCH_SIZE; slot++) {
        int j = patch * PATCH_SIZE + slot;
        bool better = values[slot] > found.amplitude ||
                      (values[slot] == found.amplitude && j < found.direction);
        better = better && ((bits >> slot) & 1u);
        found.direction = better ? j : found.direction;
        found.amplitude = better ? values[slot] : found.amplitude;
    }
    return found;
}

// The largest interpolated amplitude in a cone, and its direction of the half set, or -1.
//
// The patch `own` comes first, because it mostly has the largest; others are skipped where they
// cannot have a larger one.
DEVICE Largest largest_interpolated(const unsigned short* quantised,
                                    const unsigned short* patch_maxima, int n_patches,
                                    int n_groups, const Corners& corners, int n,
                                    const unsigned int* cone, int own)
{
    Largest found = {-1.0f, -1};
    for (int turn = own < n_patches ? -1 : 0; turn < n_patches; turn++) {
        int patch = turn < 0 ? own : turn;
        unsigned int bits = (cone[patch] | (cone[patch] >> PATCH_SIZE)) & ALL_SLOTS;
        if (!bits || (turn >= 0 && patch == own)) continue;
        if (turn >= 0 &&
            mixed(patch_maxima, n_groups * PATCH_SIZE, corners, n, patch) < found.amplitude)
            continue;
        found = largest_in_patch(quantised, n_patches, corners, n, patch, bits, found);
    }
    return found;
}

// Tell whether the last search was in the same voxel and cone.
DEVICE bool is_known(const Settings& settings, const Scratch& scratch, int i)
{
    return n_corners(settings) == 1 && scratch.known_row == scratch.corners.rows[0] &&
           scratch.known_i == i;
}

// The direction of the largest amplitude in the cone; minus a stop reason without.
DEVICE int best_direction(const Field& field, const Settings& settings, Scratch& scratch, int i,
                          float limit)
{
    int n_half = field.n_half, n = n_corners(settings);
    const unsigned int* cone = cone_of(field, i);
    int j = scratch.known_j;
    if (!is_known(settings, scratch, i)) {
        int own = (i >= n_half ? i - n_half : i) / PATCH_SIZE;
        j = largest_interpolated(field.quantised, field.patch_maxima, field.n_patches,
                                 field.n_groups, scratch.corners, n, cone, own)
                .direction;
        scratch.known_row = n == 1 ? scratch.corners.rows[0] : -1;
        scratch.known_i = i;
        scratch.known_j = j;
    }
    if (j < 0) return -LOW_AMPLITUDE;
    float amplitude = mixed(field.quantised, field.n_patches * PATCH_SIZE, scratch.corners, n, j);
    if (amplitude < settings.min_amplitude || !(amplitude > 0.0f)) return -LOW_AMPLITUDE;
    if (amplitude <= limit && below_cone_mass(field, settings, scratch, i, limit))
        return -LOW_PROBABILITY;
    int sides = sides_of(cone, j);
    if (sides == 3) {  // of two in the cone the one on the side of i
        const float* a = field.directions + 3 * i;
        const float* b = field.directions + 3 * j;
        sides = a[0] * b[0] + a[1] * b[1] + a[2] * b[2] >= 0.0f ? 1 : 2;
    }
    return sides == 2 ? j + n_half : j;
}

// Choose the next direction; see the table of algorithms. In nearest voxels AGAIN, while too few
// lanes of the warp need a search.
DEVICE int deterministic_direction(const Field& field, const Settings& settings, Scratch& scratch,
                                   Walk& walk, float limit, unsigned int, unsigned int)
{
    if (settings.interpolation == NEAREST && deferred(!is_known(settings, scratch, walk.i)))
        return AGAIN;
    return best_direction(field, settings, scratch, walk.i, limit);
}
