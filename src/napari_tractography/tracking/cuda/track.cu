// The CUDA kernels: one thread a streamline, twin of cpu/kernel.py.
//
// The same names, the same order of float32 operations and no fused multiply-add (--fmad=false),
// hence the same bits. A first pass counts the points of every streamline; because random numbers
// replay, a second one writes them where they belong: along the directions that the first has
// logged and, where a streamline has more steps than its log has room for, by choosing them again.
//
// Lanes are refilled: a thread whose streamline is done takes the next seed, so that no lane waits
// for the longest streamline of its warp. A lane whose proposals are rejected proposes again while
// others take their step, and what takes long is deferred until several lanes of the warp want it.
//
// Plain C: the same source also compiles for the host, which is how it is tested without a GPU.
// LMAX, the largest degree of the FOD, is to be defined, and VECTORS where peaks or tensors are
// followed instead; ALGORITHM, INTERPOLATION and TISSUES (whether there is a tissue image) may be, so
// that a kernel holds what it needs and no more. Everything else is an argument. source.py makes
// codes.h and algorithms.h.

#include "codes.h"
#include "structs.h"
#include "tiles.h"
#include "regions.h"
// Outside of what is left out: source.py puts each header in once.
#include "philox.h"
#include "headings.h"
#ifdef VECTORS
#include "vectors.h"
#else
#include "starts.h"
#endif
// After either of them, whose `face` it calls.
#include "tissues.h"

#ifndef ALGORITHM
#define ALGORITHM settings.algorithm
#endif
#ifndef INTERPOLATION
#define INTERPOLATION settings.interpolation
#endif
#ifndef TISSUES
#define TISSUES (regions.fractions != 0)
#endif

// What is defined is known when compiling, and all that depends on it is left out.
#define SPECIALISE(settings)                \
    settings.algorithm = ALGORITHM;         \
    settings.interpolation = INTERPOLATION; \
    settings.curved = IS_CURVED(settings.algorithm)

// How the halves of a streamline ended.
struct Halves {
    int forward_steps, backward_steps;
    float forward_length, backward_length;
    int forward_reason, backward_reason;
};

// Put a thread at a seed.
DEVICE void go_to(const Field& field, StreamlineState& state, const float* position)
{
    state.x = position[0];
    state.y = position[1];
    state.z = position[2];
    to_voxel(field.to_voxel, state.x, state.y, state.z, state.vx, state.vy, state.vz);
    state.steps = 0;
    state.n_proposals = 0;
    state.task = PROPOSE;
    state.arrived = state.settled = false;
}

// Go to the first entry of a seed's log: both passes track its halves in the same order.
DEVICE void begin_log(const Batch& batch, StreamlineState& state, int seed)
{
    state.log_entry = batch.direction_log + 3ll * seed * batch.log_length;
    state.log_left = batch.log_length;
}

DEVICE void begin_half(const Field& field, const Settings& settings, const Regions& regions,
                       const Batch& batch, Visits& visits, StreamlineState& state, int seed,
                       int half, int max_steps, float max_length, bool replay)
{
    go_to(field, state, batch.positions + 3ll * seed);
    if (TISSUES && !replay) begin_half_in_tissues(regions, visits, state);
    if (!replay && regions.n_regions)
        visit_regions(regions, visits, half, true, state.x, state.y, state.z, 0.0f, 0.0f, 0.0f);
    const float* start = batch.start_directions + 3ll * seed;
    float sign = half == 0 ? 1.0f : -1.0f;
    face(state, sign * start[0], sign * start[1], sign * start[2]);
    head_on(state);
    state.purpose = half == 0 ? PURPOSE_FORWARD : PURPOSE_BACKWARD;
    state.step = settings.step;
    state.length = 0.0f;
    state.half = half;
    state.max_steps = max_steps;
    state.max_length = max_length;
    bool starts_straight = settings.start != START_GIVEN && !settings.curved;
    state.forced = starts_straight && (half == 0 || settings.direction == BACKWARD);
}

// Take one step; return 0, the reason why the half ends, or AGAIN where no step was taken yet. At a
// start choose the first direction and take none.
//
// A replay takes steps that are known to be there, so it looks for no reason to stop.
DEVICE int advance(const Field& field, const Settings& settings, const Regions& regions,
                   Interpolant& interpolant, Visits& visits, StreamlineState& state,
                   const float* seed_direction, unsigned int stream, bool replay)
{
    bool starts = !replay && state.purpose == PURPOSE_START;
    if (!starts && state.steps >= state.max_steps) return MAX_LENGTH;
    bool is_logged = state.log_left > 0;
    if (replay && is_logged) {
        face(state, state.log_entry[0], state.log_entry[1], state.log_entry[2]);
    } else if (starts || !(state.forced && state.steps == 0)) {
        int reason = choose_direction(field, settings, interpolant, state, starts, seed_direction,
                                      stream, replay);
        if (reason || starts) return reason;
    }
    if (settings.curved) bend(state);
    if (!replay && settings.adaptive && state.length + state.step > state.max_length)
        return MAX_LENGTH;
    float new_x = state.x + state.step * state.ux;
    float new_y = state.y + state.step * state.uy;
    float new_z = state.z + state.step * state.uz;
    to_voxel(field.to_voxel, new_x, new_y, new_z, state.vx, state.vy, state.vz);
    if (!replay) {
        int left = enter_voxel(field, state.vx, state.vy, state.vz);
        if (left) return left;
    }
    int reason = 0;
    if (TISSUES && !replay)
        reason = visit_tissues(regions, interpolant, state, new_x, new_y, new_z);
    if (!replay && !reason && regions.n_regions)
        reason = visit_regions(regions, visits, state.half, false, new_x, new_y, new_z, state.x,
                               state.y, state.z);
    state.x = new_x;
    state.y = new_y;
    state.z = new_z;
    state.steps++;
    state.length += state.step;
    state.n_proposals = 0;
    state.arrived = !TISSUES && settings.curved && state.steps % settings.parts;  // within an arc
    if (is_logged) {
        if (!replay) put(state.log_entry, state.ux, state.uy, state.uz);
        state.log_entry += 3;
        state.log_left--;
    }
    return reason;
}

// Record the outcome of a seed.
DEVICE void conclude(const Batch& batch, int seed, int count, float length, int backward,
                     int forward)
{
    batch.counts[seed] = count;
    batch.lengths[seed] = length;
    batch.reasons[2ll * seed] = (unsigned char)backward;
    batch.reasons[2ll * seed + 1] = (unsigned char)forward;
    atomicAdd(batch.tally + forward, 1ull);
    if (count || backward != forward) atomicAdd(batch.tally + backward, 1ull);
}

// Begin the streamline of a seed; return 0, or the reason why there is none.
DEVICE int begin_streamline(const Field& field, const Regions& regions, const Batch& batch,
                            StreamlineState& state, int seed)
{
    go_to(field, state, batch.positions + 3ll * seed);
    state.purpose = PURPOSE_START;
    face(state, 0.0f, 0.0f, 1.0f);
    int left = enter_voxel(field, state.vx, state.vy, state.vz);
    if (left) return left == LEFT_IMAGE ? SEED_OUTSIDE_IMAGE : SEED_OUTSIDE_MASK;
    if (TISSUES && !begin_in_tissues(regions, state)) return SEED_IN_WRONG_TISSUE;
    return 0;
}

// Begin the first half along the direction that was found; return 0, or the reason why there is no
// streamline.
DEVICE int begin_halves(const Field& field, const Settings& settings, const Regions& regions,
                        const Batch& batch, Visits& visits, StreamlineState& state, Halves& halves,
                        int seed)
{
    forget_visits(regions, visits);
    if (regions.n_regions && visit_regions(regions, visits, 0, true, state.x, state.y, state.z,
                                           0.0f, 0.0f, 0.0f) == EXCLUDED)
        return EXCLUDED;
    if (TISSUES) face_white(settings, regions, state);
    put(batch.start_directions + 3ll * seed, state.ux, state.uy, state.uz);
    halves.forward_steps = halves.backward_steps = 0;
    halves.forward_length = halves.backward_length = 0.0f;
    halves.forward_reason = halves.backward_reason = SEED;
    if (settings.endpoints) {
        put(batch.ends + 6ll * seed, state.x, state.y, state.z);
        put(batch.ends + 6ll * seed + 3, state.x, state.y, state.z);
    }
    begin_log(batch, state, seed);
    begin_half(field, settings, regions, batch, visits, state, seed,
               settings.direction == BACKWARD ? 1 : 0, settings.max_steps, settings.max_length,
               false);
    return 0;
}

// Points that a half keeps of its steps.
DEVICE int kept(const Settings& settings, int steps)
{
    if (settings.endpoints) return steps > 0 ? 1 : 0;
    return steps / settings.record_every + (steps % settings.record_every ? 1 : 0);
}

// Record the end of a half and begin the other; return whether the streamline is done.
DEVICE bool end_half(const Field& field, const Settings& settings, const Regions& regions,
                     const Batch& batch, Visits& visits, StreamlineState& state, Halves& halves,
                     int seed, int reason)
{
    if (TISSUES) {
        int outcome = end_in_tissues(field, settings, regions, batch.positions + 3ll * seed,
                                     visits, state, reason);
        if (outcome == TRACKED_AGAIN) return false;
        if (outcome == REFUSED) {
            conclude(batch, seed, 0, 0.0f, reason, reason);
            return true;
        }
    }
    bool one_way = TISSUES && state.tissue.is_one_way;
    if (reason == EXCLUDED) {
        conclude(batch, seed, 0, 0.0f, EXCLUDED, EXCLUDED);
        return true;
    }
    float length = settings.adaptive ? state.length : (float)state.steps * settings.step;
    bool is_cropped = TISSUES && regions.crop;
    if ((settings.endpoints || is_cropped) && state.steps)
        put(batch.ends + 6ll * seed + (state.half == 0 ? 3 : 0), state.x, state.y, state.z);
    if (state.half == 0) {
        halves.forward_steps = state.steps;
        halves.forward_length = length;
        halves.forward_reason = reason;
        if (settings.direction != FORWARD && !one_way) {
            begin_half(field, settings, regions, batch, visits, state, seed, 1,
                       settings.max_steps - halves.forward_steps,
                       settings.max_length - halves.forward_length, false);
            return false;
        }
    } else {
        halves.backward_steps = state.steps;
        halves.backward_length = length;
        halves.backward_reason = reason;
    }
    int steps = halves.forward_steps + halves.backward_steps;
    length = settings.adaptive ? halves.forward_length + halves.backward_length
                               : (float)steps * settings.step;
    if (is_cropped) length = length - state.tissue.cropped;
    int rejected = 0;
    if (steps == 0) {
        conclude(batch, seed, 0, 0.0f, halves.backward_reason, halves.forward_reason);
        return true;
    }
    if (settings.adaptive ? length < settings.min_length : steps < settings.min_steps)
        rejected = TOO_SHORT;
    else if (is_cropped && length < settings.min_length)
        rejected = TOO_SHORT;
    else if (TISSUES && state.tissue.is_from_deep && !state.tissue.has_reached_white)
        rejected = NO_WHITE;
    else if (!includes_met(regions, visits))
        rejected = NOT_INCLUDED;
    else if (regions.n_ends &&
             ((settings.direction != BACKWARD && halves.forward_reason != END_REGION) ||
              (settings.direction != FORWARD && !one_way &&
               halves.backward_reason != END_REGION)))
        rejected = NOT_ENDED;
    if (rejected) {
        conclude(batch, seed, 0, 0.0f, rejected, rejected);
        return true;
    }
    batch.steps[2ll * seed] = halves.forward_steps;
    batch.steps[2ll * seed + 1] = halves.backward_steps;
    int count = 2;
    if (!settings.endpoints)
        count = kept(settings, halves.backward_steps) + 1 + kept(settings, halves.forward_steps);
    conclude(batch, seed, count, length, halves.backward_reason, halves.forward_reason);
    return true;
}

// First pass: the outcome of each seed, and how many points its streamline has.
extern "C" __global__ void count_streamlines(const Field field, Settings settings,
                                             const Regions regions, const Batch batch)
{
    SPECIALISE(settings);
    Interpolant interpolant = {};
    Visits visits = {};
    interpolant.cell[0] = interpolant.cell[1] = interpolant.cell[2] = -2147483647;
    StreamlineState state = {};
    Halves halves = {};
    int seed = -1;
    for (;;) {
        int reason = 0;
        bool begins = seed < 0 || state.purpose == PURPOSE_START;  // there are no halves yet
        if (seed < 0) {
            seed = (int)atomicAdd(batch.next, 1u);
            if (seed >= batch.n_seeds) return;
            reason = begin_streamline(field, regions, batch, state, seed);
        } else {
            reason = advance(field, settings, regions, interpolant, visits, state,
                             batch.seed_directions + 3ll * seed, batch.first_stream + seed, false);
            if (begins && reason != AGAIN)
                reason = reason ? SEED_WITHOUT_FOD
                                : begin_halves(field, settings, regions, batch, visits, state,
                                               halves, seed);
        }
        if (reason == 0 || reason == AGAIN) continue;
        if (begins) {
            conclude(batch, seed, 0, 0.0f, reason, reason);
            seed = -1;
        } else if (end_half(field, settings, regions, batch, visits, state, halves, seed,
                            reason)) {
            seed = -1;
        }
    }
}

// Second pass: take the steps again and write each point where it belongs, those of the backward
// half from the seed downwards.
extern "C" __global__ void write_streamlines(const Field field, Settings settings,
                                             const Regions regions, const Batch batch)
{
    SPECIALISE(settings);
    Interpolant interpolant = {};
    Visits visits = {};
    interpolant.cell[0] = interpolant.cell[1] = interpolant.cell[2] = -2147483647;
    StreamlineState state = {};
    int seed = -1;
    int until = 0;      // steps until the next point is kept
    float* target = 0;  // where it goes
    for (;;) {
        if (seed < 0) {
            seed = (int)atomicAdd(batch.next, 1u);
            if (seed >= batch.n_seeds) return;
            if (batch.counts[seed] == 0) {
                seed = -1;
            } else {
                int forward = batch.steps[2ll * seed], backward = batch.steps[2ll * seed + 1];
                target = batch.points + 3 * (batch.offsets[seed] + kept(settings, backward));
                const float* position = batch.positions + 3ll * seed;
                put(target, position[0], position[1], position[2]);
                int half = forward > 0 ? 0 : 1;
                target += half == 0 ? 3 : -3;
                until = settings.record_every;
                begin_log(batch, state, seed);
                begin_half(field, settings, regions, batch, visits, state, seed, half,
                           half == 0 ? forward : backward, 0.0f, true);
            }
        } else {
            int reason = advance(field, settings, regions, interpolant, visits, state, 0,
                                 batch.first_stream + seed, true);
            if (reason == AGAIN) continue;
            until--;
            bool done = state.steps == state.max_steps;
            if (until == 0 || done) {
                if (TISSUES && regions.crop && done) {
                    const float* end = batch.ends + 6ll * seed + (state.half == 0 ? 3 : 0);
                    put(target, end[0], end[1], end[2]);
                } else {
                    put(target, state.x, state.y, state.z);
                }
                target += state.half == 0 ? 3 : -3;
                until = settings.record_every;
            }
            if (done) {
                int backward = batch.steps[2ll * seed + 1];
                if (state.half == 0 && backward > 0) {
                    int last = kept(settings, backward) - 1;
                    target = batch.points + 3 * (batch.offsets[seed] + last);
                    begin_half(field, settings, regions, batch, visits, state, seed, 1, backward,
                               0.0f, true);
                } else {
                    seed = -1;
                }
            }
        }
    }
}
