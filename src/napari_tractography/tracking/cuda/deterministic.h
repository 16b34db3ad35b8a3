// Deterministic tracking: the largest amplitude in the cone, or the peak nearest to the direction.
//
// Twin of cpu/deterministic.py.
#pragma once

#include "probabilistic.h"
#include "search.h"

// Choose the next direction; see the table of algorithms. In nearest voxels a direction that follows
// itself does so again.
DEVICE int deterministic_direction(const Field& field, const Settings& settings,
                                   Interpolant& interpolant, StreamlineState& state, unsigned int)
{
    if (state.settled) return 0;
    if (ASYMMETRIC || allowed_of(field)) {  // rings are of even degrees
        state.task = FIND_PEAK;
        return AGAIN;
    }
    float mean;
    Peak best = search(field, state.ux, state.uy, state.uz, settings.cone_cosine, settings.cone_sine,
                       mean);
    best.value = positive(sharpness_of(settings), best.value);
    if (below_cutoff(settings, best.value)) return LOW_AMPLITUDE;
    if (settings.min_probability > 0.0f && below_cone_mass(settings, mean, interpolant.mass))
        return LOW_PROBABILITY;
    turn_to(settings, state, best);
    return 0;
}

// The same, for the peak nearest to the direction.
DEVICE int nearest_peak_direction(const Field& field, const Settings& settings,
                                  Interpolant& interpolant, StreamlineState& state, unsigned int)
{
    if (state.settled) return 0;
    Peak peak = climb_from(own_fod(), state.ux, state.uy, state.uz);
    peak.value = positive(sharpness_of(settings), peak.value);
    if (below_cutoff(settings, peak.value)) return LOW_AMPLITUDE;
    if (state.ux * peak.x + state.uy * peak.y + state.uz * peak.z < settings.cone_cosine)
        return SHARP_TURN;
    if (settings.min_probability > 0.0f && !state.weighed) {
        if (ASYMMETRIC || allowed_of(field)) {
            state.task = WEIGH;
            return AGAIN;
        }
        if (!surely_weighs_enough(field, settings, field.quadrature_mass, interpolant, state) &&
            !weighs_enough(settings, view_of(field, state.ux, state.uy, state.uz),
                           interpolant.mass))
            return LOW_PROBABILITY;
    }
    turn_to(settings, state, peak);
    return 0;
}
