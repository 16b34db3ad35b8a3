// The first direction of a streamline, before its halves are tracked.
#pragma once

#include "algorithms.h"

// The direction of the largest amplitude of all, its sign drawn; return whether there is one.
DEVICE bool face_largest(const Field& field, const Settings& settings,
                         const Interpolant& interpolant, StreamlineState& state,
                         unsigned int stream)
{
    Peak peak = peak_of(field, settings, interpolant, state);
    if (below_cutoff(settings, peak.value)) return false;
    Words words = philox_block(stream, 0, 0, PURPOSE_START, settings.key_0, settings.key_1);
    bool faces_down = peak.z < 0.0f;  // of the two ends of its axis the search finds either
    float sign = (bool)(words.r0 & 1u) != faces_down ? -1.0f : 1.0f;
    face(state, sign * peak.x, sign * peak.y, sign * peak.z);
    return true;
}

// Choose the first or the next direction: 0, the reason to stop, or AGAIN where there is none yet.
//
// `starts` tells whether it is the first, `seed_direction` is that of the seed. First directions are
// drawn, whatever the algorithm, by the call that also draws the next ones: so it is compiled once.
DEVICE int choose_direction(const Field& field, const Settings& settings, Interpolant& interpolant,
                            StreamlineState& state, bool starts, const float* seed_direction,
                            unsigned int stream, bool replay)
{
    int reason = arrive(field, settings, interpolant, state);
    if (reason) return reason;
    if (starts && settings.start == START_GIVEN)
        face(state, seed_direction[0], seed_direction[1], seed_direction[2]);
    else if (starts && settings.start == START_MAX)
        reason = face_largest(field, settings, interpolant, state, stream) ? 0 : LOW_AMPLITUDE;
    else
        reason = next_direction(starts ? PROBABILISTIC : settings.algorithm, field, settings,
                                interpolant, state, stream, replay);
    if (!reason && starts && starts_at_peak(settings.algorithm)) {
        Peak peak = climb_from(interpolant.fod, state.ux, state.uy, state.uz);
        face(state, peak.x, peak.y, peak.z);
    }
    return reason;
}
