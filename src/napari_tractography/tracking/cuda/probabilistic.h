// Probabilistic tracking: the next direction is drawn from the interpolated FOD within the cone.
//
// Twin of cpu/draw.py, where the method is explained.
#pragma once

#include "interpolation.h"
#include "peaks.h"
#include "philox.h"

// Tell whether to defer what takes long until other lanes of the warp want it as well.
//
// A warp waits for the slowest of its lanes, and hardly any two of them sample their cones at the
// same step.
DEVICE bool deferred(bool wanted)
{
    unsigned int lanes = __activemask();
    unsigned int wanting = __ballot_sync(lanes, wanted);
    return wanted && wanting != lanes && __popc(wanting) < SEVERAL;
}

// What is sampled before the next step: the cone, or at a start the half sphere.
DEVICE Cone cone_of(const Field& field, const StreamlineState& state)
{
    bool starts = state.purpose == PURPOSE_START;
    Cone cone;
    cone.points = starts ? field.sphere_points : field.cone_points;
    cone.n_points = starts ? field.n_sphere_points : field.n_cone_points;
    cone.ux = state.ux;
    cone.uy = state.uy;
    cone.uz = state.uz;
    cone.allowed = starts ? 0 : field.allowed;
    cone.directions = field.directions;
    cone.neighbours = field.neighbours;
    cone.n_directions = field.n_directions;
    return cone;
}

// The largest amplitude in the cone, and its direction.
DEVICE Peak peak_of(const Field& field, const Settings& settings, const Interpolant& interpolant,
                    const StreamlineState& state)
{
    float cosine = state.purpose == PURPOSE_START ? EVERYWHERE : settings.cone_cosine;
    return find_peak(interpolant.fod, cone_of(field, state), cosine, settings.cone_sine,
                     sharpness_of(settings));
}

// Tell whether an amplitude is none, or below the floor.
DEVICE bool below_cutoff(const Settings& settings, float amplitude)
{
    return !(amplitude > 0.0f && amplitude >= settings.min_amplitude);
}

// Tell whether too small a fraction of the FOD is in the cone, from the mean amplitude there.
DEVICE bool mean_below_cone_mass(const Field& field, const Settings& settings,
                                 const Interpolant& interpolant, const StreamlineState& state,
                                 float mean)
{
    float mass = mean * (0.5f * settings.cone_height);
    return mass <= settings.min_probability * mean_amplitude(field, settings, interpolant, state);
}

DEVICE bool below_cone_mass(const Field& field, const Settings& settings,
                            const Interpolant& interpolant, const StreamlineState& state)
{
    return mean_below_cone_mass(field, settings, interpolant, state,
                                mean_in_cone(interpolant.fod, cone_of(field, state)));
}

// Turn into a direction, a unit vector.
DEVICE void face(StreamlineState& state, float ux, float uy, float uz)
{
    state.ux = ux;
    state.uy = uy;
    state.uz = uz;
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

// Propose the directions of a block of random numbers; tell whether one is accepted.
DEVICE bool propose_directions(const Field& field, const Settings& settings,
                               const Interpolant& interpolant, StreamlineState& state,
                               unsigned int stream)
{
    bool starts = state.purpose == PURPOSE_START;
    float height = starts ? 2.0f : settings.cone_height;
    float sharpness = sharpness_of(settings);
    float bound = positive(sharpness, state.bound);
    Tangents t = tangents_of(state.ux, state.uy, state.uz);
    Words words =
        philox_block(stream, (unsigned int)state.steps, state.n_proposals / PROPOSALS_A_BLOCK,
                     state.purpose, settings.key_0, settings.key_1);
    state.n_proposals += PROPOSALS_A_BLOCK;
#pragma unroll
    for (int attempt = 0; attempt < PROPOSALS_A_BLOCK; attempt++) {
        unsigned int first = attempt ? words.r2 : words.r0, second = attempt ? words.r3 : words.r1;
        Vector p = point_of(first, second, height);
        float qx = p.x * t.ax + p.y * t.bx + p.z * state.ux;
        float qy = p.x * t.ay + p.y * t.by + p.z * state.uy;
        float qz = p.x * t.az + p.y * t.bz + p.z * state.uz;
        float amplitude = positive(sharpness, value_at(interpolant.fod, qx, qy, qz));
        float chance = (float)(((first & 4095u) << 12) | (second & 4095u)) * UNIT_24;
        if (!(amplitude >= settings.min_amplitude && chance * bound < amplitude)) continue;
        if (field.allowed && !starts) {
            Cone cone = cone_of(field, state);
            if (!may_follow(cone, index_of(cone), qx, qy, qz)) continue;
        }
        float length = sqrtf(qx * qx + qy * qy + qz * qz);
        state.tx = qx / length;
        state.ty = qy / length;
        state.tz = qz / length;
        return true;
    }
    return false;
}

// Sample the cone: 1 where an amplitude reaches the floor, -1 where none can, 0 where the samples
// do not tell; see sample_cone() of cpu/draw.py.
DEVICE int sample_cone(const Field& field, const Settings& settings,
                       const Interpolant& interpolant, const StreamlineState& state)
{
    Cone cone = cone_of(field, state);
    Peak seen = largest_seen(interpolant.fod, cone, sharpness_of(settings), 0);
    if (!below_cutoff(settings, seen.value)) return 1;
    float missing = settings.min_amplitude - seen.value;
    if (state.purpose == PURPOSE_START || field.allowed || settings.positivity != CLIP ||
        !(missing > 0.0f))
        return 0;
    float area = TWO_PI * settings.cone_height / (float)cone.n_points;  // of the cone, for each
    return missing * missing > squared_slope(interpolant.fod, seen) * area ? -1 : 0;
}

// Find out why all proposals were rejected: 0 where that of the largest amplitude is taken,
// AGAIN where there is something to be drawn, maybe with a tighter bound.
DEVICE int after_rejections(const Field& field, const Settings& settings,
                            const Interpolant& interpolant, StreamlineState& state, bool replay)
{
    if (state.n_proposals == FIRST_PROPOSALS) {
        int seen = sample_cone(field, settings, interpolant, state);
        if (seen) return seen < 0 ? LOW_AMPLITUDE : AGAIN;
    }
    Peak peak = peak_of(field, settings, interpolant, state);
    if (below_cutoff(settings, peak.value)) return LOW_AMPLITUDE;
    if (state.n_proposals < MAX_PROPOSALS) {
        float tighter = peak.value * MARGIN;
        if (settings.positivity == CLIP && !field.allowed && tighter < state.bound)
            state.bound = tighter;
        return AGAIN;
    }
    if (settings.min_probability > 0.0f && !replay && state.purpose != PURPOSE_START &&
        below_cone_mass(field, settings, interpolant, state))
        return LOW_PROBABILITY;
    face(state, peak.x, peak.y, peak.z);
    return 0;
}

// Choose the next direction; see the table of algorithms. AGAIN where proposals are rejected.
DEVICE int probabilistic_direction(const Field& field, const Settings& settings,
                                   Interpolant& interpolant, StreamlineState& state,
                                   unsigned int stream, bool replay)
{
    if (deferred(state.task != PROPOSE)) return AGAIN;
    if (state.task == PROPOSE) {
        bool accepted = propose_directions(field, settings, interpolant, state, stream);
        if (!accepted) {
            if (state.n_proposals == FIRST_PROPOSALS || state.n_proposals == SECOND_PROPOSALS ||
                state.n_proposals >= MAX_PROPOSALS)
                state.task = SAMPLE_CONE;
            return AGAIN;
        }
        if (settings.min_probability > 0.0f && !replay && state.purpose != PURPOSE_START) {
            state.task = CHECK_MASS;
            return AGAIN;
        }
    } else if (state.task == SAMPLE_CONE) {
        state.task = PROPOSE;
        return after_rejections(field, settings, interpolant, state, replay);
    } else {
        state.task = PROPOSE;
        if (below_cone_mass(field, settings, interpolant, state)) return LOW_PROBABILITY;
    }
    face(state, state.tx, state.ty, state.tz);
    return 0;
}
