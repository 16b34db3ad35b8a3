// Probabilistic tracking: the next direction is drawn from the interpolated FOD within the cone.
//
// Twin of cpu/draw.py, where the method is explained.
#pragma once

#include "interpolation.h"
#include "lobes.h"
#include "philox.h"

// What is sampled before the next step: the cone around u, or at a start the half sphere, of an
// asymmetric FOD the whole.
DEVICE Cone cone_in(const Field& field, bool starts, float ux, float uy, float uz)
{
    Cone cone;
    cone.points = starts ? field.sphere_points : field.cone_points;
    cone.n_points = starts ? field.n_sphere_points : field.n_cone_points;
    cone.ux = ux;
    cone.uy = uy;
    cone.uz = uz;
    cone.allowed = starts ? 0 : allowed_of(field);
    cone.directions = field.directions;
    cone.neighbours = field.neighbours;
    cone.n_directions = field.n_directions;
    return cone;
}

DEVICE Cone cone_of(const Field& field, const StreamlineState& state)
{
    return cone_in(field, state.purpose == PURPOSE_START, state.ux, state.uy, state.uz);
}

// Tell whether an amplitude is none, or below the floor.
DEVICE bool below_cutoff(const Settings& settings, float amplitude)
{
    return !(amplitude > 0.0f && amplitude >= settings.min_amplitude);
}

// Tell whether too small a fraction of the FOD is in the cone, from the mean amplitudes there and
// over the sphere.
DEVICE bool below_cone_mass(const Settings& settings, float in_cone, float mass)
{
    return in_cone * (0.5f * settings.cone_height) <= settings.min_probability * mass;
}

// Tell whether a lower bound of what is in the cone shows that it is enough. The numbers are those of
// tables/cone_mass.py.
DEVICE bool surely_weighs_enough(const Field& field, const Settings& settings, const float* numbers,
                                 const Interpolant& interpolant, const StreamlineState& state)
{
    if (allowed_of(field)) return false;
    float enough = settings.min_probability * (SURELY * 2.0f / settings.cone_height) + numbers[0];
    return convolved_at(own_fod(), numbers, state.ux, state.uy, state.uz) >
           enough * interpolant.mass;
}

// Tell whether the cone is to be weighed before the next direction is chosen.
DEVICE bool is_in_doubt(const Field& field, const Settings& settings,
                        const Interpolant& interpolant, const StreamlineState& state)
{
    return settings.min_probability > 0.0f && !state.weighed &&
           !surely_weighs_enough(field, settings, field.cone_mass, interpolant, state);
}

// A uniformly distributed direction of a cone around the z axis, of which `height` is 1 minus the
// cosine of the half-angle. Takes the high 20 bits of two random words.
DEVICE Vector point_of(unsigned int word_0, unsigned int word_1, float height)
{
    float down = height * middle_of(word_0, 0.0f);
    Turn turn = turn_of(middle_of(word_1, 0.5f));
    float radius = root(down * (2.0f - down));
    Vector v = {radius * turn.cosine, radius * turn.sine, 1.0f - down};
    return v;
}

// How many directions are proposed before the cone is looked at next.
DEVICE unsigned int limit_after(unsigned int n_proposals)
{
    return n_proposals < FIRST_PROPOSALS    ? FIRST_PROPOSALS
           : n_proposals < SECOND_PROPOSALS ? SECOND_PROPOSALS
                                            : MAX_PROPOSALS;
}

// Propose directions for the lanes that wait for one, by all lanes of the warp: each takes a block of
// random numbers of one of them, the next ones where there are more lanes than that wait. Of what is
// accepted the first counts, as if the blocks had been tried one after the other.
DEVICE void propose_directions(const Field& field, const Settings& settings,
                               StreamlineState& state, unsigned int stream, unsigned int waiting)
{
    Common& shared = common();
    bool waits = state.task == PROPOSE;
    int lane = lane_of(), n = __popc(waiting), rank = __popc(waiting & ((1u << lane) - 1u));
    __syncwarp();
    if (waits) {
        shared.askers[rank] = lane;
        shared.winners[rank] = N_LANES;
    }
    __syncwarp();
    int scale = 65536 / n + 1;  // for quotients by n
    int turn = (lane * scale) >> 16, which = lane - turn * n;
    int asker = shared.askers[which];
    unsigned int purpose = __shfl_sync(ALL_LANES, state.purpose, asker);
    unsigned int steps = __shfl_sync(ALL_LANES, (unsigned int)state.steps, asker);
    unsigned int n_before = __shfl_sync(ALL_LANES, state.n_proposals, asker);
    float ux = from_lane(state.ux, asker), uy = from_lane(state.uy, asker);
    float uz = from_lane(state.uz, asker), bound = from_lane(state.bound, asker);
    // The image is proposed first, and accepted by what it is beside the direction that it is of.
    bool mirrors = settings.lobe_cosine > 0.0f && settings.look_ahead > 0.0f;
    bool mirrored = mirrors && __shfl_sync(ALL_LANES, (int)state.mirrored, asker) && turn == 0;
    float ix = 0.0f, iy = 0.0f, iz = 0.0f, of_image = 0.0f;
    if (mirrors) {
        ix = from_lane(state.tx, asker);
        iy = from_lane(state.ty, asker);
        iz = from_lane(state.tz, asker);
        of_image = from_lane(state.height, asker);
        if (waits) state.mirrored = false;
    }
    stream = __shfl_sync(ALL_LANES, stream, asker);
    unsigned int number = n_before + PROPOSALS_A_BLOCK * turn;
    bool starts = purpose == PURPOSE_START;
    float height = starts ? 2.0f : settings.cone_height, sharpness = sharpness_of(settings);
    bound = positive(sharpness, bound);
    Tangents t = tangents_of(ux, uy, uz);
    Words words = philox_block(stream, steps, number / PROPOSALS_A_BLOCK, purpose, settings.key_0,
                               settings.key_1);
    bool accepted = false;
    float x = 0.0f, y = 0.0f, z = 0.0f, tall = 0.0f;
    const unsigned int first[] = {words.r0, words.r2}, second[] = {words.r1, words.r3};
    float qx[PROPOSALS_A_BLOCK], qy[PROPOSALS_A_BLOCK], qz[PROPOSALS_A_BLOCK];
    float amplitudes[PROPOSALS_A_BLOCK];
    bool inside[PROPOSALS_A_BLOCK], has_strip = false;
    Strip strip = {};
    if (settings.lobe_cosine > 0.0f && !starts) {
        strip = strip_of_lane(asker);
        has_strip = strip.width > 0.0f;
    }
#pragma unroll
    for (int k = 0; k < PROPOSALS_A_BLOCK; k++) {
        Vector p = has_strip ? point_of_strip(settings, strip, first[k], second[k])
                             : point_of(first[k], second[k], height);
        inside[k] = !has_strip || p.z >= 1.0f - height;
        qx[k] = p.x * t.ax + p.y * t.bx + p.z * ux;
        qy[k] = p.x * t.ay + p.y * t.by + p.z * uy;
        qz[k] = p.x * t.az + p.y * t.bz + p.z * uz;
    }
    if (mirrored) {
        inside[0] = true;
        qx[0] = ix;
        qy[0] = iy;
        qz[0] = iz;
    }
    // Side by side, so that each coefficient is read once: a seventh of the instructions of a round less.
    values_at<PROPOSALS_A_BLOCK>(fod_of_lane(asker), qx, qy, qz, amplitudes);
#pragma unroll
    for (int k = 0; k < PROPOSALS_A_BLOCK; k++) {
        float amplitude = positive(sharpness, amplitudes[k]);
        float chance = (float)(((first[k] & 4095u) << 12) | (second[k] & 4095u)) * UNIT_24;
        float most = k == 0 && mirrored ? of_image : bound;
        bool taken =
            !accepted && inside[k] && amplitude >= settings.min_amplitude && chance * most < amplitude;
        if (taken && allowed_of(field) && !starts) {
            Cone cone = cone_in(field, starts, ux, uy, uz);
            taken = may_follow(cone, index_of(cone), qx[k], qy[k], qz[k]);
        }
        x = taken ? qx[k] : x;
        y = taken ? qy[k] : y;
        z = taken ? qz[k] : z;
        tall = taken ? amplitude : tall;
        accepted = accepted || taken;
    }
    if (accepted && number < limit_after(n_before)) atomicMin(&shared.winners[which], lane);
    __syncwarp();
    int winner = waits ? shared.winners[rank] : N_LANES;
    bool wins = winner < N_LANES;
    x = from_lane(x, wins ? winner : lane);
    y = from_lane(y, wins ? winner : lane);
    z = from_lane(z, wins ? winner : lane);
    if (settings.lobe_cosine > 0.0f || settings.look_ahead > 0.0f)
        tall = from_lane(tall, wins ? winner : lane);
    if (!waits) return;
    if (wins) {
        // After the block that it is from, should more be drawn.
        state.n_proposals += PROPOSALS_A_BLOCK * (((winner * scale) >> 16) + 1);
        state.tx = x;
        state.ty = y;
        state.tz = z;
        state.height = tall;
        state.task = CHECK;
        return;
    }
    unsigned int n_tried = PROPOSALS_A_BLOCK * ((((N_LANES - 1 - rank) * scale) >> 16) + 1);
    unsigned int limit = limit_after(state.n_proposals);
    state.n_proposals = state.n_proposals + n_tried < limit ? state.n_proposals + n_tried : limit;
    if (state.n_proposals == FIRST_PROPOSALS)
        state.task = SAMPLE_CONE;
    else if (state.n_proposals == SECOND_PROPOSALS || state.n_proposals >= MAX_PROPOSALS)
        state.task = FIND_PEAK;
}

// One of the two voxels around a voxel coordinate, with its linear weight, by a random word; the nearest
// one where voxels are not mixed.
DEVICE int either(const Settings& settings, float v, unsigned int word)
{
    float share = settings.interpolation == NEAREST ? 0.5f : (float)(word >> 8) * UNIT_24;
    return floor_to_int(v + share);
}

// Tell whether one more direction is to be drawn, since the FOD fades along the first; see
// lanes_that_fade() of cpu/draw.py.
DEVICE bool fades(const Field& field, const Settings& settings, StreamlineState& state,
                  unsigned int stream)
{
    if (settings.algorithm != PROBABILISTIC || !(settings.look_ahead > 0.0f)) return false;
    if (state.looked || state.n_proposals >= MAX_PROPOSALS) return false;
    state.looked = true;
    float far = settings.look_ahead, sharpness = sharpness_of(settings);
    Words words = philox_block(stream, state.steps, LOOK_BLOCK, state.purpose, settings.key_0,
                               settings.key_1);
    float vx, vy, vz;
    to_voxel(field.to_voxel, state.x + far * state.tx, state.y + far * state.ty,
             state.z + far * state.tz, vx, vy, vz);
    int row = row_at(field, either(settings, vx, words.r1), either(settings, vy, words.r2),
                     either(settings, vz, words.r3));
    float ahead =
        positive(sharpness, value_of_row(field.coefficients, row, state.tx, state.ty, state.tz));
    float chance = (float)(words.r0 >> 8) * UNIT_24;
    bool fading = !(chance * (FADED * state.height) < ahead);
    if (fading && settings.lobe_cosine > 0.0f) mirror(settings, state);
    return fading;
}

// Turn to the direction that was accepted, unless it is in doubt whether enough of the FOD is in the
// cone.
DEVICE void check(const Field& field, const Settings& settings, const Interpolant& interpolant,
                  StreamlineState& state, unsigned int stream)
{
    bool starts = settings.curved || state.purpose == PURPOSE_START;  // arcs are drawn elsewhere
    if (!starts && (is_of_another_lobe(settings, state) || fades(field, settings, state, stream))) {
        state.task = PROPOSE;
        return;
    }
    if (!starts && is_in_doubt(field, settings, interpolant, state)) {
        state.task = WEIGH;
        return;
    }
    Vector u = normalised(state.tx, state.ty, state.tz);
    face(state, u.x, u.y, u.z);
    state.task = starts ? START : MOVE;
}

// What a lane learns from a look.
struct Found {
    int reason;  // to stop; 0 where the peak is to be followed, AGAIN where directions are proposed
    float mean;  // of the cone, where it was weighed
    Peak peak;
};

// Sample the cone: 1 where an amplitude reaches the floor, -1 where none can, 0 where the samples
// do not tell; see sample_cone() of cpu/draw.py.
DEVICE int sample_cone(const Settings& settings, int owner, const Cone& cone, bool starts)
{
    Seen seen = look_around(owner, cone, sharpness_of(settings), false);
    if (!below_cutoff(settings, seen.largest)) return 1;
    float missing = settings.min_amplitude - seen.largest;
    if (starts || cone.allowed || settings.positivity != CLIP || !(missing > 0.0f)) return 0;
    float area = TWO_PI * settings.cone_height / (float)cone.n_points;  // of the cone, for each
    Peak peak = peak_seen(cone, seen);
    return missing * missing > squared_slope(owner, peak.x, peak.y, peak.z) * area ? -1 : 0;
}

// Look for what a lane wants to know; all lanes of the warp do, with the same arguments.
DEVICE Found look(const Settings& settings, int owner, const Cone& cone, Task task, bool starts,
                  unsigned int n_proposals, float mass)
{
    Found found = {AGAIN, 0.0f, {0.0f, 0.0f, 0.0f, 0.0f}};
    bool weighs = task == WEIGH;
    if (task == SAMPLE_CONE) {
        int seen = sample_cone(settings, owner, cone, starts);
        if (seen) {
            found.reason = seen < 0 ? LOW_AMPLITUDE : AGAIN;
            return found;
        }
    }
    if (!weighs) {
        float cosine = starts ? EVERYWHERE : settings.cone_cosine;
        found.peak = find_peak(owner, cone, cosine, settings.cone_sine, sharpness_of(settings));
        if (below_cutoff(settings, found.peak.value)) {
            found.reason = LOW_AMPLITUDE;
            return found;
        }
        bool is_last = n_proposals == 0 || n_proposals >= MAX_PROPOSALS;  // 0 where none are made
        if (!is_last) return found;
        weighs = settings.min_probability > 0.0f && !starts;
    }
    found.reason = 0;
    if (weighs) {
        found.mean = look_around(owner, cone, 0.0f, false).mean;
        if (below_cone_mass(settings, found.mean, mass)) found.reason = LOW_PROBABILITY;
    }
    return found;
}

// Follow the largest amplitude of the half sphere; of its axis the search finds either end, so that
// the sign is drawn. In an asymmetric FOD, that of the sphere.
DEVICE void face_largest(const Settings& settings, StreamlineState& state, const Peak& peak,
                         unsigned int stream)
{
    Words words = philox_block(stream, 0, 0, PURPOSE_START, settings.key_0, settings.key_1);
    bool faces_down = peak.z < 0.0f;
    float sign = !ASYMMETRIC && (bool)(words.r0 & 1u) != faces_down ? -1.0f : 1.0f;
    face(state, sign * peak.x, sign * peak.y, sign * peak.z);
}

// Turn to a peak, and settle where that is the direction already.
DEVICE void turn_to(const Settings& settings, StreamlineState& state, const Peak& peak)
{
    float dx = peak.x - state.ux, dy = peak.y - state.uy, dz = peak.z - state.uz;
    bool same = dx * dx + dy * dy + dz * dz < SAME;
    state.settled = settings.interpolation == NEAREST && same;
    if (!same) face(state, peak.x, peak.y, peak.z);
}

// Go on with what a look has found.
DEVICE void learn(const Field& field, const Settings& settings, StreamlineState& state,
                  const Found& found, unsigned int stream)
{
    bool starts = state.purpose == PURPOSE_START;
    if (found.reason == AGAIN) {
        float tighter = found.peak.value * MARGIN;
        if (found.peak.value > 0.0f && settings.positivity == CLIP && !allowed_of(field) &&
            tighter < state.bound)
            state.bound = tighter;
        state.task = PROPOSE;
    } else if (found.reason) {
        end(state, found.reason);
    } else if (state.task == WEIGH) {
        state.weighed = true;
        state.task = settings.algorithm == PROBABILISTIC ? CHECK : CHOOSE;
    } else {
        if (starts && state.n_proposals == 0)
            face_largest(settings, state, found.peak, stream);
        else if (settings.algorithm == DETERMINISTIC)
            turn_to(settings, state, found.peak);
        else
            face(state, found.peak.x, found.peak.y, found.peak.z);
        state.task = starts ? START : MOVE;
    }
}

// Look for what each lane wants to know, one after the other, and apply it.
DEVICE void look_for_lanes(const Field& field, const Settings& settings,
                           const Interpolant& interpolant, StreamlineState& state,
                           unsigned int stream, unsigned int wanting)
{
    __syncwarp();  // all FODs are there
    while (wanting) {
        int owner = __ffs((int)wanting) - 1;
        wanting &= wanting - 1;
        unsigned int purpose = __shfl_sync(ALL_LANES, state.purpose, owner);
        unsigned int n_proposals = __shfl_sync(ALL_LANES, state.n_proposals, owner);
        Task task = (Task)__shfl_sync(ALL_LANES, (int)state.task, owner);
        Cone cone = cone_in(field, purpose == PURPOSE_START, from_lane(state.ux, owner),
                            from_lane(state.uy, owner), from_lane(state.uz, owner));
        Found found = look(settings, owner, cone, task, purpose == PURPOSE_START, n_proposals,
                           from_lane(interpolant.mass, owner));
        if (lane_of() == owner) learn(field, settings, state, found, stream);
    }
}

// Choose the next direction: among proposals, see track.cu.
DEVICE int probabilistic_direction(const Field&, const Settings&, const Interpolant&,
                                   StreamlineState& state, unsigned int)
{
    state.task = PROPOSE;
    return AGAIN;
}
