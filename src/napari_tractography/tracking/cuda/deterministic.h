// Deterministic tracking: the largest amplitude in the cone, or the peak nearest to the direction.
//
// Twin of cpu/deterministic.py.
#pragma once

#include "probabilistic.h"

// Turn to a peak unless too little of the FOD is in the cone; return the reason to stop, or 0.
DEVICE int turn_to(const Field& field, const Settings& settings, const Place& place, Walk& walk,
                   const Peak& peak, bool replay)
{
    if (settings.min_probability > 0.0f && !replay && little_in_cone(field, settings, place, walk))
        return LOW_PROBABILITY;
    float dx = peak.x - walk.ux, dy = peak.y - walk.uy, dz = peak.z - walk.uz;
    bool same = dx * dx + dy * dy + dz * dz < SAME;
    walk.settled = settings.interpolation == NEAREST && same;
    if (!same) face(walk, peak.x, peak.y, peak.z);
    return 0;
}

// Choose the next direction; see the table of algorithms. In nearest voxels AGAIN, while too few
// lanes of the warp need a search: a direction that follows itself does so again.
DEVICE int deterministic_direction(const Field& field, const Settings& settings, Place& place,
                                   Walk& walk, unsigned int, bool replay)
{
    if (settings.interpolation == NEAREST && deferred(!walk.settled)) return AGAIN;
    if (walk.settled) return 0;
    Peak peak = peak_of(field, settings, place, walk);
    if (is_low(settings, peak.value)) return LOW_AMPLITUDE;
    return turn_to(field, settings, place, walk, peak, replay);
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
    return turn_to(field, settings, place, walk, peak, replay);
}
