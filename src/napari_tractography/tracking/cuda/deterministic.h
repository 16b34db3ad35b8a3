// Deterministic tracking: the largest amplitude in the cone, or the peak nearest to the direction.
//
// Twin of cpu/deterministic.py.
#pragma once

#include "probabilistic.h"
#include "search.h"

// Turn to a peak unless too little of the FOD is in the cone, of which the mean amplitude is given;
// return the reason to stop, or 0.
DEVICE int turn_to(const Field& field, const Settings& settings, const Place& place, Walk& walk,
                   const Peak& peak, float mean, bool replay)
{
    if (settings.min_probability > 0.0f && !replay &&
        is_little(field, settings, place, walk, mean))
        return LOW_PROBABILITY;
    float dx = peak.x - walk.ux, dy = peak.y - walk.uy, dz = peak.z - walk.uz;
    bool same = dx * dx + dy * dy + dz * dz < SAME;
    walk.settled = settings.interpolation == NEAREST && same;
    if (!same) face(walk, peak.x, peak.y, peak.z);
    return 0;
}

// The mean amplitude of the cone, where it is asked for.
DEVICE float mean_ahead(const Field& field, const Settings& settings, const Place& place,
                        const Walk& walk, bool replay)
{
    if (!(settings.min_probability > 0.0f) || replay) return 0.0f;
    if (field.allowed) return mean_in_cone(place.fod, cone_of(field, walk));
    return mean_of(view_of(looks_of(field), place.fod, walk.ux, walk.uy, walk.uz));
}

// Choose the next direction; see the table of algorithms. In nearest voxels AGAIN, while too few
// lanes of the warp need a search: a direction that follows itself does so again.
DEVICE int deterministic_direction(const Field& field, const Settings& settings, Place& place,
                                   Walk& walk, unsigned int, bool replay)
{
    if (settings.interpolation == NEAREST && deferred(!walk.settled)) return AGAIN;
    if (walk.settled) return 0;
    Peak best;
    float mean = 0.0f;
    if (field.allowed) {
        best = peak_of(field, settings, place, walk);
        mean = mean_ahead(field, settings, place, walk, replay);
    } else {
        bool counts = settings.min_probability > 0.0f && !replay;
        best = search(field, place.fod, walk.ux, walk.uy, walk.uz, settings.cone_cosine,
                      settings.cone_sine, counts ? &mean : 0);
        best.value = positive(sharpness_of(settings), best.value);
    }
    if (is_low(settings, best.value)) return LOW_AMPLITUDE;
    return turn_to(field, settings, place, walk, best, mean, replay);
}

// The same, for the peak nearest to the direction.
DEVICE int nearest_peak_direction(const Field& field, const Settings& settings, Place& place,
                                  Walk& walk, unsigned int, bool replay)
{
    if (settings.interpolation == NEAREST && deferred(!walk.settled)) return AGAIN;
    if (walk.settled) return 0;
    Peak peak = climb_from(place.fod, walk.ux, walk.uy, walk.uz);
    peak.value = positive(sharpness_of(settings), peak.value);
    if (is_low(settings, peak.value)) return LOW_AMPLITUDE;
    if (walk.ux * peak.x + walk.uy * peak.y + walk.uz * peak.z < settings.cone_cosine)
        return SHARP_TURN;
    float mean = mean_ahead(field, settings, place, walk, replay);
    return turn_to(field, settings, place, walk, peak, mean, replay);
}
