// Cones: the amplitudes and the mass of an interpolated FOD within them.
//
// Twin of draw.py and patches.py, whose order of additions it keeps.
#pragma once

#include "interpolation.h"

// Keep the amplitudes of a patch from `floor` on that are in a cone, twice those on both sides.
DEVICE void keep_in_cone(float* values, unsigned int bits, float floor)
{
#pragma unroll
    for (int slot = 0; slot < PATCH_SIZE; slot++) {
        float value = values[slot] >= floor ? values[slot] : 0.0f;
        values[slot] = ((bits >> slot) & 1u ? value : 0.0f) +
                       ((bits >> (PATCH_SIZE + slot)) & 1u ? value : 0.0f);
    }
}

// The mass of a patch in a cone, from `floor` on.
SELDOM float mass_in_patch(const unsigned short* quantised, int n_patches, Corners corners, int n,
                           int patch, unsigned int bits, float floor)
{
    float values[PATCH_SIZE];
    mix(quantised, n_patches, corners, n, patch, values);
    keep_in_cone(values, bits, floor);
#pragma unroll
    for (int by = PATCH_SIZE / 2; by > 0; by /= 2) {
#pragma unroll
        for (int slot = 0; slot < by; slot++) values[slot] += values[slot + by];
    }
    return values[0];
}

// Tell whether the mass of a cone is at most `limit`.
SELDOM bool is_cone_mass_below(const unsigned short* quantised, int n_patches, Corners corners,
                               int n, const unsigned int* cone, float limit)
{
    float mass = 0.0f;
    for (int patch = 0; patch < n_patches; patch++) {
        if (!cone[patch]) continue;
        mass += mass_in_patch(quantised, n_patches, corners, n, patch, cone[patch], 0.0f);
        if (mass > limit) return false;
    }
    return true;
}

DEVICE const unsigned int* cone_of(const Field& field, int i)
{
    return field.cone + (long long)i * field.n_patches;
}

DEVICE bool below_cone_mass(const Field& field, const Settings& settings, const Scratch& scratch,
                            int i, float limit)
{
    return is_cone_mass_below(field.quantised, field.n_patches, scratch.corners,
                              n_corners(settings), cone_of(field, i), limit);
}

// Bit 0 where half-set direction j lies in a cone, bit 1 where its antipode does.
DEVICE int sides_of(const unsigned int* cone, int j)
{
    unsigned int pair = cone[j / PATCH_SIZE] >> (j % PATCH_SIZE);
    return (int)((pair & 1u) | ((pair >> (PATCH_SIZE - 1)) & 2u));
}

// Tell whether to defer what takes long until other lanes of the warp want it as well.
//
// A warp waits for the slowest of its lanes. In FiberCup with 45 degrees a lane scans a cone at one
// step of a hundred, but one lane or another of 32 at every fourth.
DEVICE bool deferred(bool wanted)
{
    unsigned int lanes = __activemask();
    unsigned int wanting = __ballot_sync(lanes, wanted);
    return wanted && wanting != lanes && __popc(wanting) < SEVERAL;
}
