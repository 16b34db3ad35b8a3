// The first direction of a streamline, where it is not given.
#pragma once

#include "deterministic.h"
#include "probabilistic.h"

// The direction of the largest amplitude of all, its sign drawn; -1 where it is too small.
SELDOM int largest_start(const unsigned short* quantised, const unsigned short* patch_maxima,
                         int n_patches, int n_groups, Corners corners, int n,
                         const unsigned int* everywhere, int n_half, float min_amplitude,
                         unsigned int word)
{
    Largest found = largest_interpolated(quantised, patch_maxima, n_patches, n_groups, corners, n,
                                         everywhere, n_patches);
    if (found.amplitude < min_amplitude || !(found.amplitude > 0.0f)) return -1;
    return (word & 1u) ? found.direction + n_half : found.direction;
}

// A first direction at the seed, or a negative number.
DEVICE int start_direction(const Field& field, const Settings& settings, const Scratch& scratch,
                           unsigned int stream)
{
    if (settings.start == START_SAMPLED) {
        int any = 2 * field.n_half, j = AGAIN;
        for (unsigned int block = 0; j == AGAIN && block < n_blocks(field, settings, any); block++)
            j = propose_direction(field, settings, scratch, any, true, -1.0f, stream, 0, block,
                              PURPOSE_START);
        if (j != AGAIN) return j;
        return scan_direction(field, settings, scratch, any, -1.0f, stream, 0, PURPOSE_START);
    }
    Words words = philox_block(stream, 0, 0, PURPOSE_START, settings.key_0, settings.key_1);
    return largest_start(field.quantised, field.patch_maxima, field.n_patches, field.n_groups,
                         scratch.corners, n_corners(settings), cone_of(field, 2 * field.n_half),
                         field.n_half, settings.min_amplitude, words.r0);
}
