// Deterministic tracking: the largest amplitude in the cone, or the peak nearest to the direction.
//
// Twin of cpu/deterministic.py.
#pragma once

#include "probabilistic.h"
#include "search.h"

// Turn to a peak unless too little of the FOD is in the cone, whose mean amplitude is `mean`;
// return the reason to stop, or 0.
DEVICE int turn_to(const Field& field, const Settings& settings, const Interpolant& interpolant,
                   StreamlineState& state, const Peak& peak, float mean, bool replay)
{
    if (settings.min_probability > 0.0f && !replay &&
        mean_below_cone_mass(field, settings, interpolant, state, mean))
        return LOW_PROBABILITY;
    float dx = peak.x - state.ux, dy = peak.y - state.uy, dz = peak.z - state.uz;
    bool same = dx * dx + dy * dy + dz * dz < SAME;
    state.settled = settings.interpolation == NEAREST && same;
    if (!same) face(state, peak.x, peak.y, peak.z);
    return 0;
}

// The mean amplitude of the cone, where it is asked for.
DEVICE float mean_ahead(const Field& field, const Settings& settings,
                        const Interpolant& interpolant, const StreamlineState& state, bool replay)
{
    if (!(settings.min_probability > 0.0f) || replay) return 0.0f;
    if (field.allowed) return mean_in_cone(interpolant.fod, cone_of(field, state));
    return mean_of(view_of(quadrature_of(field), interpolant.fod, state.ux, state.uy, state.uz));
}

// Choose the next direction; see the table of algorithms. In nearest voxels AGAIN, while too few
// lanes of the warp need a search: a direction that follows itself does so again.
DEVICE int deterministic_direction(const Field& field, const Settings& settings,
                                   Interpolant& interpolant, StreamlineState& state, unsigned int,
                                   bool replay)
{
    if (settings.interpolation == NEAREST && deferred(!state.settled)) return AGAIN;
    if (state.settled) return 0;
    Peak best;
    float mean = 0.0f;
    if (field.allowed) {
        best = peak_of(field, settings, interpolant, state);
        mean = mean_ahead(field, settings, interpolant, state, replay);
    } else {
        bool counts = settings.min_probability > 0.0f && !replay;
        best = search(field, interpolant.fod, state.ux, state.uy, state.uz, settings.cone_cosine,
                      settings.cone_sine, counts ? &mean : 0);
        best.value = positive(sharpness_of(settings), best.value);
    }
    if (below_cutoff(settings, best.value)) return LOW_AMPLITUDE;
    return turn_to(field, settings, interpolant, state, best, mean, replay);
}

// The same, for the peak nearest to the direction.
DEVICE int nearest_peak_direction(const Field& field, const Settings& settings,
                                  Interpolant& interpolant, StreamlineState& state, unsigned int,
                                  bool replay)
{
    if (settings.interpolation == NEAREST && deferred(!state.settled)) return AGAIN;
    if (state.settled) return 0;
    Peak peak = climb_from(interpolant.fod, state.ux, state.uy, state.uz);
    peak.value = positive(sharpness_of(settings), peak.value);
    if (below_cutoff(settings, peak.value)) return LOW_AMPLITUDE;
    if (state.ux * peak.x + state.uy * peak.y + state.uz * peak.z < settings.cone_cosine)
        return SHARP_TURN;
    float mean = mean_ahead(field, settings, interpolant, state, replay);
    return turn_to(field, settings, interpolant, state, peak, mean, replay);
}
