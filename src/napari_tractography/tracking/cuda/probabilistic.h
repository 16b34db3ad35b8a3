// Probabilistic tracking: the next direction is drawn from the interpolated FOD within the cone.
//
// Twin of cpu/draw.py, where the method is explained.
#pragma once

#include "interpolation.h"
#include "peaks.h"
#include "philox.h"

// Tell whether to defer what takes long until other lanes of the warp want it as well.
//
// A warp waits for the slowest of its lanes, and hardly any of them looks at its cone at the same
// step as another.
DEVICE bool deferred(bool wanted)
{
    unsigned int lanes = __activemask();
    unsigned int wanting = __ballot_sync(lanes, wanted);
    return wanted && wanting != lanes && __popc(wanting) < SEVERAL;
}

// What there is to look at before the next step: the cone, or at a start the half sphere.
DEVICE Cone cone_of(const Field& field, const Walk& walk)
{
    bool starts = walk.purpose == PURPOSE_START;
    Cone cone;
    cone.points = starts ? field.sphere_points : field.cone_points;
    cone.n = starts ? field.n_sphere_points : field.n_cone_points;
    cone.ux = walk.ux;
    cone.uy = walk.uy;
    cone.uz = walk.uz;
    cone.allowed = starts ? 0 : field.allowed;
    cone.directions = field.directions;
    cone.neighbours = field.neighbours;
    cone.n_directions = field.n_directions;
    return cone;
}

// The largest amplitude in the cone, and its direction.
DEVICE Peak peak_of(const Field& field, const Settings& settings, const Place& place,
                    const Walk& walk)
{
    float cosine = walk.purpose == PURPOSE_START ? EVERYWHERE : settings.cone_cosine;
    return find_peak(place.fod, cone_of(field, walk), cosine, settings.cone_sine,
                     sharpness_of(settings));
}

// Tell whether an amplitude is none, or below the floor.
DEVICE bool is_low(const Settings& settings, float amplitude)
{
    return !(amplitude > 0.0f && amplitude >= settings.min_amplitude);
}

// Tell whether too small a fraction of the FOD is in the cone, of which the mean amplitude is given.
DEVICE bool is_little(const Field& field, const Settings& settings, const Place& place,
                      const Walk& walk, float mean)
{
    float mass = mean * (0.5f * settings.cone_height);
    return mass <= settings.min_probability * mean_amplitude(field, settings, place, walk);
}

DEVICE bool little_in_cone(const Field& field, const Settings& settings, const Place& place,
                           const Walk& walk)
{
    return is_little(field, settings, place, walk, mean_in_cone(place.fod, cone_of(field, walk)));
}

// Turn into a direction, a unit vector.
DEVICE void face(Walk& walk, float ux, float uy, float uz)
{
    walk.ux = ux;
    walk.uy = uy;
    walk.uz = uz;
}

// Cosine and sine of an angle.
struct Turn {
    float cosine, sine;
};

// Those of 2 pi t, for t from -1/2 to 1/2.
DEVICE Turn turn_of(float t)
{
    float square = t * t;
    float sine = SINE_0 * square + SINE_1;
    sine = sine * square + SINE_2;
    sine = sine * square + SINE_3;
    sine = t * (sine * square + SINE_4);
    float cosine = COSINE_0 * square + COSINE_1;
    cosine = cosine * square + COSINE_2;
    cosine = cosine * square + COSINE_3;
    cosine = cosine * square + COSINE_4;
    cosine = cosine * square + COSINE_5;
    Turn turn = {1.0f - 2.0f * sine * sine, 2.0f * sine * cosine};
    return turn;
}

// A uniformly distributed direction of a cone around the z axis, of which `height` is 1 minus the
// cosine of the half-angle. Takes the high 20 bits of two random words.
DEVICE Vector point_of(unsigned int word_0, unsigned int word_1, float height)
{
    float down = height * (((float)(word_0 >> 12) + 0.5f) * UNIT_20);
    Turn turn = turn_of(((float)(word_1 >> 12) + 0.5f) * UNIT_20 - 0.5f);
    float radius = sqrtf(down * (2.0f - down));
    Vector v = {radius * turn.cosine, radius * turn.sine, 1.0f - down};
    return v;
}

// Try the directions of a block of random numbers; tell whether one is accepted.
DEVICE bool try_directions(const Field& field, const Settings& settings, const Place& place,
                           Walk& walk, unsigned int stream)
{
    bool starts = walk.purpose == PURPOSE_START;
    float height = starts ? 2.0f : settings.cone_height;
    float sharpness = sharpness_of(settings);
    float bound = positive(sharpness, walk.bound);
    Tangents t = tangents_of(walk.ux, walk.uy, walk.uz);
    Words words = philox_block(stream, (unsigned int)walk.steps, walk.n_tries / TRIES_A_BLOCK,
                               walk.purpose, settings.key_0, settings.key_1);
    walk.n_tries += TRIES_A_BLOCK;
#pragma unroll
    for (int attempt = 0; attempt < TRIES_A_BLOCK; attempt++) {
        unsigned int first = attempt ? words.r2 : words.r0, second = attempt ? words.r3 : words.r1;
        Vector p = point_of(first, second, height);
        float qx = p.x * t.ax + p.y * t.bx + p.z * walk.ux;
        float qy = p.x * t.ay + p.y * t.by + p.z * walk.uy;
        float qz = p.x * t.az + p.y * t.bz + p.z * walk.uz;
        float amplitude = positive(sharpness, value_at(place.fod, qx, qy, qz));
        float chance = (float)(((first & 4095u) << 12) | (second & 4095u)) * UNIT_24;
        if (!(amplitude >= settings.min_amplitude && chance * bound < amplitude)) continue;
        if (field.allowed && !starts) {
            Cone cone = cone_of(field, walk);
            if (!may_follow(cone, index_of(cone), qx, qy, qz)) continue;
        }
        float length = sqrtf(qx * qx + qy * qy + qz * qz);
        walk.tx = qx / length;
        walk.ty = qy / length;
        walk.tz = qz / length;
        return true;
    }
    return false;
}

// Look at the cone: 1 where an amplitude reaches the floor, -1 where none can, 0 where the
// directions that are looked at do not tell; see glance() of cpu/draw.py.
DEVICE int glance(const Field& field, const Settings& settings, const Place& place,
                  const Walk& walk)
{
    Cone cone = cone_of(field, walk);
    Peak seen = largest_seen(place.fod, cone, sharpness_of(settings), 0);
    if (!is_low(settings, seen.value)) return 1;
    float missing = settings.min_amplitude - seen.value;
    if (walk.purpose == PURPOSE_START || field.allowed || settings.positivity != CLIP ||
        !(missing > 0.0f))
        return 0;
    float area = TWO_PI * settings.cone_height / (float)cone.n;  // of the cone, for each
    return missing * missing > squared_slope(place.fod, seen) * area ? -1 : 0;
}

// Find out why all tries were in vain: 0 where the direction of the largest amplitude is taken,
// AGAIN where there is something to be drawn, maybe with a tighter bound.
DEVICE int reconsider(const Field& field, const Settings& settings, const Place& place, Walk& walk,
                      bool replay)
{
    if (walk.n_tries == FIRST_TRIES) {
        int seen = glance(field, settings, place, walk);
        if (seen) return seen < 0 ? LOW_AMPLITUDE : AGAIN;
    }
    Peak peak = peak_of(field, settings, place, walk);
    if (is_low(settings, peak.value)) return LOW_AMPLITUDE;
    if (walk.n_tries < MAX_TRIES) {
        float tighter = peak.value * MARGIN;
        if (settings.positivity == CLIP && !field.allowed && tighter < walk.bound)
            walk.bound = tighter;
        return AGAIN;
    }
    if (settings.min_probability > 0.0f && !replay && walk.purpose != PURPOSE_START &&
        little_in_cone(field, settings, place, walk))
        return LOW_PROBABILITY;
    face(walk, peak.x, peak.y, peak.z);
    return 0;
}

// Choose the next direction; see the table of algorithms. AGAIN where tries are in vain.
DEVICE int probabilistic_direction(const Field& field, const Settings& settings, Place& place,
                                   Walk& walk, unsigned int stream, bool replay)
{
    if (deferred(walk.task != TRIES)) return AGAIN;
    if (walk.task == TRIES) {
        bool accepted = try_directions(field, settings, place, walk, stream);
        if (!accepted) {
            if (walk.n_tries == FIRST_TRIES || walk.n_tries == SECOND_TRIES ||
                walk.n_tries >= MAX_TRIES)
                walk.task = LOOKS;
            return AGAIN;
        }
        if (settings.min_probability > 0.0f && !replay && walk.purpose != PURPOSE_START) {
            walk.task = CHECKS;
            return AGAIN;
        }
    } else if (walk.task == LOOKS) {
        walk.task = TRIES;
        return reconsider(field, settings, place, walk, replay);
    } else {
        walk.task = TRIES;
        if (little_in_cone(field, settings, place, walk)) return LOW_PROBABILITY;
    }
    face(walk, walk.tx, walk.ty, walk.tz);
    return 0;
}
