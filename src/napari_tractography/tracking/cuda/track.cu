// The CUDA kernel: one lane a streamline, twin of cpu/kernel.py.
//
// The same names, the same order of float32 operations and no fused multiply-add (--fmad=false),
// hence the same bits. Points go to blocks of a pool as they are made; gather_points() puts them in
// order.
//
// The lanes of a warp go through the phases of a step together: find the FOD, propose directions,
// check one, move. A lane takes part in a phase where its task says so. Lanes are refilled: where a
// streamline is done the lane takes the next seed, so that none waits for the longest of its warp.
// Proposals are repeated until few lanes are without one, and those that are left propose again while
// the others go on; what is rare but takes long is either done by all lanes for one of them
// (looks.h), or put off until several want it.
//
// The same source also compiles for the host, which is how it is tested without a GPU. LMAX, the
// largest degree of the FOD, is to be defined, ASYMMETRIC where it has odd degrees, too, and VECTORS
// where peaks or tensors are followed instead; ALGORITHM, INTERPOLATION, TISSUES (whether there is a
// tissue image), PLAIN (whether amplitudes are clipped and no cone is a function), AHEAD (whether
// lines look ahead) and ONE_LOBE (whether they keep to their lobe) may be, so that a kernel holds what
// it needs and no more. Everything else is an argument. source.py makes codes.h and algorithms.h.

#include "codes.h"
#include "structs.h"
#include "tiles.h"
#include "regions.h"
// Outside of what is left out: source.py puts each header in once.
#include "philox.h"
#include "drift.h"
#include "headings.h"
#ifdef VECTORS
#include "vectors.h"
#else
#include "starts.h"
#endif
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

// How long lanes wait for each other, as measured: proposals are repeated while more lanes than one of
// MOST are without one, and steps along directions that stay while more than MOVERS take them; so many
// lanes are enough to read other voxels' FODs, or to search in them.
#ifndef MOST
#define MOST 32
#endif
#ifndef ENOUGH_TO_READ
#define ENOUGH_TO_READ 4
#endif
#ifndef ENOUGH_TO_SEARCH
#define ENOUGH_TO_SEARCH 16
#endif
#ifndef MOVERS
#define MOVERS 4
#endif
// Of arcs, one lane of so many that has found one is enough to go along it.
#ifndef ENOUGH_TO_GO
#define ENOUGH_TO_GO 4
#endif
#ifndef NOTE
#define NOTE(phase, takes_part)  // counted by the tests
#endif

// What is defined is known when compiling, and all that depends on it is left out.
#define SPECIALISE(settings)                                  \
    settings.algorithm = ALGORITHM;                           \
    settings.interpolation = INTERPOLATION;                   \
    settings.positivity = PLAIN ? CLIP : settings.positivity; \
    settings.look_ahead = AHEAD ? settings.look_ahead : 0.0f; \
    settings.lobe_cosine = ONE_LOBE ? settings.lobe_cosine : 0.0f; \
    settings.curved = IS_CURVED(settings.algorithm);          \
    settings.adaptive = settings.adaptive && IS_ADAPTIVE(settings.algorithm)

// How the halves of a streamline ended; kept with the batch, since it is seldom wanted.
struct Halves {
    int forward_steps, backward_steps;
    float forward_length;
    int forward_reason, backward_reason;
};

DEVICE Halves halves_of(const Batch& batch, int seed)
{
    Halves halves = {batch.steps[2ll * seed], batch.steps[2ll * seed + 1], batch.lengths[seed],
                     batch.reasons[2ll * seed + 1], batch.reasons[2ll * seed]};
    return halves;
}

DEVICE void keep_halves(const Batch& batch, int seed, const Halves& halves)
{
    batch.steps[2ll * seed] = halves.forward_steps;
    batch.steps[2ll * seed + 1] = halves.backward_steps;
    batch.lengths[seed] = halves.forward_length;
    batch.reasons[2ll * seed + 1] = (unsigned char)halves.forward_reason;
    batch.reasons[2ll * seed] = (unsigned char)halves.backward_reason;
}

// Put a lane at a seed.
DEVICE void go_to(StreamlineState& state, const float* position)
{
    state.x = position[0];
    state.y = position[1];
    state.z = position[2];
    state.steps = 0;
    state.n_proposals = 0;
    state.settled = state.weighed = state.looked = state.mirrored = false;
    state.elsewhere = true;
}

// Go to the first entry of a seed's log.
DEVICE void begin_log(const Batch& batch, StreamlineState& state)
{
    state.log_entry = batch.direction_log + 3ll * state.seed * batch.log_length;
    state.log_left = batch.log_length;
}

// What is next on a half that goes on.
DEVICE void go_on(StreamlineState& state)
{
    if (state.steps >= state.max_steps)
        end(state, MAX_LENGTH);
    else
        state.task = state.forced && state.steps == 0 ? MOVE : ARRIVE;
}

// Begin a half at the seed.
DEVICE void begin_half(const Settings& settings, const Regions& regions, const Batch& batch,
                       Visits& visits, StreamlineState& state)
{
    int half = state.half;
    go_to(state, batch.positions + 3ll * state.seed);
    if (TISSUES) begin_half_in_tissues(regions, visits, state);
    if (regions.n_regions)
        visit_regions(regions, visits, half, true, state.x, state.y, state.z, 0.0f, 0.0f, 0.0f);
    const float* start = batch.start_directions + 3ll * state.seed;
    float sign = half == 0 ? 1.0f : -1.0f;
    face(state, sign * start[0], sign * start[1], sign * start[2]);
    head_on(state);
    if (settings.lobe_cosine > 0.0f || settings.min_roundness > 0.0f) begin_lobe(state);
    state.purpose = half == 0 ? PURPOSE_FORWARD : PURPOSE_BACKWARD;
    state.step = settings.step;
    state.length = 0.0f;
    state.until = settings.record_every;
    state.n_kept = 0;
    state.block = -1;
    bool starts_straight = settings.start != START_GIVEN && !settings.curved;
    state.forced = starts_straight && (half == 0 || settings.direction == BACKWARD);
    go_on(state);
}

// Keep the point that was reached. Of a pool that is full nothing is kept: the host sees how many
// blocks were asked for.
DEVICE void keep(const Batch& batch, StreamlineState& state)
{
    int place = state.n_kept % BLOCK_POINTS;
    if (place == 0) {
        int before = state.block;
        unsigned int next = atomicAdd(batch.next_block, 1u);
        bool is_full = next >= (unsigned int)batch.n_blocks;
        state.block = is_full ? batch.n_blocks : (int)next;
        if (!is_full) {
            batch.block_halves[next] = 2 * state.seed + state.half;
            batch.block_numbers[next] = state.n_kept / BLOCK_POINTS;
            if (batch.block_before) batch.block_before[next] = before;
        }
    }
    if (state.block < batch.n_blocks)
        put(batch.pool + 3 * ((long long)state.block * BLOCK_POINTS + place), state.x, state.y,
            state.z);
    state.n_kept++;
}

// Forget all but the first n points of a half.
DEVICE void keep_only(const Batch& batch, StreamlineState& state, int n)
{
    int last = (n + BLOCK_POINTS - 1) / BLOCK_POINTS;
    int now = (state.n_kept + BLOCK_POINTS - 1) / BLOCK_POINTS;
    for (; now > last && state.block < batch.n_blocks; now--) {
        batch.block_halves[state.block] = -1;
        state.block = batch.block_before[state.block];
    }
    state.n_kept = n;
}

// Take a step along the direction that was chosen.
DEVICE void move(const Field& field, const Settings& settings, const Regions& regions,
                 const Batch& batch, const Interpolant& interpolant, Visits& visits,
                 StreamlineState& state)
{
    if (settings.curved) bend(state);
    if (settings.adaptive && state.length + state.step > state.max_length)
        return end(state, MAX_LENGTH);
    float new_x = state.x + state.step * state.ux;
    float new_y = state.y + state.step * state.uy;
    float new_z = state.z + state.step * state.uz;
    float vx, vy, vz;
    to_voxel(field.to_voxel, new_x, new_y, new_z, vx, vy, vz);
    int reason = enter_voxel(field, vx, vy, vz);
    if (reason) return end(state, reason);
    if (TISSUES) reason = visit_tissues(settings, regions, state, new_x, new_y, new_z);
    if (!reason && regions.n_regions)
        reason = visit_regions(regions, visits, state.half, false, new_x, new_y, new_z, state.x,
                               state.y, state.z);
    state.x = new_x;
    state.y = new_y;
    state.z = new_z;
    state.steps++;
    state.length += state.step;
    state.n_proposals = 0;
    state.weighed = state.looked = false;
    state.elsewhere = !is_in_cell(settings, interpolant, vx, vy, vz);
    if (TISSUES && state.log_left > 0) {
        put(state.log_entry, state.ux, state.uy, state.uz);
        state.log_entry += 3;
        state.log_left--;
    }
    if (--state.until == 0) {
        state.until = settings.record_every;
        if (!settings.endpoints) keep(batch, state);
    }
    if (reason)
        end(state, reason);
    else
        go_on(state);
    bool within_arc = !TISSUES && settings.curved && state.steps % settings.parts;
    if (within_arc && state.task == ARRIVE) {
        turn_within_arc(state);
        state.task = MOVE;
    }
    bool goes_on = settings.interpolation == NEAREST && state.settled && !state.elsewhere;
    if (goes_on && state.task == ARRIVE) state.task = MOVE;
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

// Begin the streamline of a seed.
DEVICE void begin_streamline(const Field& field, const Regions& regions, const Batch& batch,
                             StreamlineState& state)
{
    go_to(state, batch.positions + 3ll * state.seed);
    state.purpose = PURPOSE_START;
    face(state, 0.0f, 0.0f, 1.0f);
    float vx, vy, vz;
    to_voxel(field.to_voxel, state.x, state.y, state.z, vx, vy, vz);
    int left = enter_voxel(field, vx, vy, vz);
    if (left)
        refuse(state, left == LEFT_IMAGE ? SEED_OUTSIDE_IMAGE : SEED_OUTSIDE_MASK);
    else if (TISSUES && !begin_in_tissues(regions, state))
        refuse(state, SEED_IN_WRONG_TISSUE);
    else
        state.task = ARRIVE;
}

// Go on to the first half, along the direction that was found.
DEVICE void begin_halves(const Settings& settings, const Regions& regions, const Batch& batch,
                         Visits& visits, StreamlineState& state)
{
    forget_visits(regions, visits);
    if (regions.n_regions && visit_regions(regions, visits, 0, true, state.x, state.y, state.z,
                                           0.0f, 0.0f, 0.0f) == EXCLUDED)
        return refuse(state, EXCLUDED);
    if (TISSUES) face_white(settings, regions, state);
    put(batch.start_directions + 3ll * state.seed, state.ux, state.uy, state.uz);
    Halves halves = {0, 0, 0.0f, SEED, SEED};
    keep_halves(batch, state.seed, halves);
    if (settings.endpoints) {
        put(batch.ends + 6ll * state.seed, state.x, state.y, state.z);
        put(batch.ends + 6ll * state.seed + 3, state.x, state.y, state.z);
    }
    begin_log(batch, state);
    state.half = settings.direction == BACKWARD ? 1 : 0;
    state.max_steps = settings.max_steps;
    state.max_length = settings.max_length;
    state.task = HALF;
}

// Tell why a streamline is not wanted, of which both halves have ended; 0 where it is.
DEVICE int unwanted(const Settings& settings, const Regions& regions, const Visits& visits,
                    const StreamlineState& state, const Halves& halves, bool one_way, int steps,
                    float length)
{
    if (settings.adaptive ? length < settings.min_length : steps < settings.min_steps)
        return TOO_SHORT;
    if (TISSUES && regions.crop && length < settings.min_length) return TOO_SHORT;
    if (TISSUES && state.tissue.is_from_deep && !state.tissue.has_reached_white) return NO_WHITE;
    if (!includes_met(regions, visits)) return NOT_INCLUDED;
    bool ended = settings.direction == BACKWARD || halves.forward_reason == END_REGION;
    if (settings.direction != FORWARD && !one_way)
        ended = ended && halves.backward_reason == END_REGION;
    return regions.n_ends && !ended ? NOT_ENDED : 0;
}

// Record the end of a half, and go on to the other or, where both are done, to the next seed.
DEVICE void end_half(const Settings& settings, const Regions& regions, const Batch& batch,
                     Visits& visits, StreamlineState& state)
{
    int seed = state.seed, reason = state.reason;
    bool refused = state.purpose == PURPOSE_START;
    if (TISSUES && !refused) {
        int outcome = end_in_tissues(settings, regions, batch.positions + 3ll * seed,
                                     visits, state, reason);
        if (outcome == TRACKED_AGAIN) {
            state.until = settings.record_every - state.steps % settings.record_every;
            state.n_proposals = 0;
            state.weighed = state.looked = false;
            if (settings.lobe_cosine > 0.0f || settings.min_roundness > 0.0f) begin_lobe(state);
            if (!settings.endpoints)
                keep_only(batch, state, state.steps / settings.record_every);
            return go_on(state);
        }
        refused = outcome == REFUSED;
    }
    refused = refused || reason == EXCLUDED;
    Halves halves = {0, 0, 0.0f, reason, reason};
    int count = 0;
    float length = 0.0f;
    if (!refused) {
        bool one_way = TISSUES && state.tissue.is_one_way;
        length = settings.adaptive ? state.length : (float)state.steps * settings.step;
        if (settings.endpoints && state.steps) {
            put(batch.ends + 6ll * seed + (state.half == 0 ? 3 : 0), state.x, state.y, state.z);
        } else if (!settings.endpoints) {
            // The last point is kept in any case; in tissues it was moved, or others came after it.
            if (TISSUES && state.steps) keep_only(batch, state, kept(settings, state.steps) - 1);
            if (TISSUES && !state.steps) keep_only(batch, state, 0);
            if (state.n_kept < kept(settings, state.steps)) keep(batch, state);
        }
        halves = halves_of(batch, seed);
        if (state.half == 0) {
            halves.forward_steps = state.steps;
            halves.forward_length = length;
            halves.forward_reason = reason;
            length = 0.0f;
            keep_halves(batch, seed, halves);
            if (settings.direction != FORWARD && !one_way) {
                state.half = 1;
                state.max_steps = settings.max_steps - halves.forward_steps;
                state.max_length = settings.max_length - halves.forward_length;
                state.task = HALF;
                return;
            }
        } else {
            halves.backward_steps = state.steps;
            halves.backward_reason = reason;
        }
        int steps = halves.forward_steps + halves.backward_steps;
        length = settings.adaptive ? halves.forward_length + length
                                   : (float)steps * settings.step;
        if (TISSUES && regions.crop) length = length - state.tissue.cropped;
        if (steps) {
            int why = unwanted(settings, regions, visits, state, halves, one_way, steps, length);
            if (why) {
                halves.forward_reason = halves.backward_reason = why;
            } else {
                keep_halves(batch, seed, halves);
                count = settings.endpoints ? 2
                                           : kept(settings, halves.backward_steps) + 1 +
                                                 kept(settings, halves.forward_steps);
            }
        }
    }
    conclude(batch, seed, count, count ? length : 0.0f, halves.backward_reason,
             halves.forward_reason);
    state.task = BEGIN;
}

// Tell whether a lane waits for others that want the same: for another voxel's FOD, or a search in it.
DEVICE bool is_patient(const Settings& settings, const StreamlineState& state)
{
    if (settings.interpolation != NEAREST) return false;
    return (state.task == ARRIVE && state.elsewhere) || (state.task == CHOOSE && !state.settled);
}

// Tell whether what a lane wants is done now: several want it, or no lane has anything else to do.
DEVICE bool is_time(const Settings& settings, const StreamlineState& state, Task task)
{
    if (settings.interpolation != NEAREST || settings.curved) return state.task == task;
    bool patient = is_patient(settings, state);
    int enough = task == ARRIVE ? ENOUGH_TO_READ : ENOUGH_TO_SEARCH;
    unsigned int wanting = __ballot_sync(ALL_LANES, patient && state.task == task);
    bool others = __ballot_sync(ALL_LANES, !patient && state.task != IDLE) != 0;
    return state.task == task && (!patient || __popc(wanting) >= enough || !others);
}

// Tell whether enough of the active lanes have found an arc to go along it; the others try on.
DEVICE bool are_enough_to_go(const StreamlineState& state, int n_active)
{
    return __popc(__ballot_sync(ALL_LANES, state.task == MOVE)) * ENOUGH_TO_GO >= n_active;
}

// Tell whether there is nothing to do but to try more amplitudes of arcs.
DEVICE bool only_tries(const StreamlineState& state, int n_active)
{
    bool others = state.task != TRY && state.task != MOVE && state.task != IDLE;
    return !__ballot_sync(ALL_LANES, others) && !are_enough_to_go(state, n_active);
}

// Tell whether one more step is taken at once: along an arc, or where many lanes keep their direction.
DEVICE bool goes_on(const Settings& settings, const StreamlineState& state)
{
    if (!settings.curved && settings.interpolation != NEAREST) return false;
    int enough = settings.curved ? 0 : MOVERS;
    return __popc(__ballot_sync(ALL_LANES, state.task == MOVE)) > enough;
}

// Track: the outcome of each seed, and the points of its streamline in blocks of the pool.
extern "C" __global__ void track_streamlines(const __grid_constant__ Field field,
                                             Settings settings,
                                             const __grid_constant__ Regions regions,
                                             const __grid_constant__ Batch batch)
{
    SPECIALISE(settings);
    Interpolant interpolant = {};
    Visits visits = {};
    interpolant.cell[0] = interpolant.cell[1] = interpolant.cell[2] = -2147483647;
    StreamlineState state = {};
    for (;;) {
        // What is short and seldom: by the lanes that want it, at once.
        if (state.task == END) end_half(settings, regions, batch, visits, state);
        if (state.task == BEGIN) {
            state.seed = (int)atomicAdd(batch.next, 1u);
            if (state.seed >= batch.n_seeds)
                state.task = IDLE;
            else
                begin_streamline(field, regions, batch, state);
        }
        if (state.task == START) {
            climb_to_start(settings, state);
            begin_halves(settings, regions, batch, visits, state);
        }
        if (state.task == HALF) begin_half(settings, regions, batch, visits, state);
        int n_active = __popc(__ballot_sync(ALL_LANES, state.task != IDLE));
        if (n_active == 0) return;
        unsigned int stream = batch.first_stream + state.seed;
        if (batch.streams && state.task != IDLE) stream = batch.streams[state.seed];

        do {
            bool tries = settings.curved && state.task == TRY;
            bool arrives = is_time(settings, state, ARRIVE) || tries;
            NOTE(ARRIVE, arrives);
            if (arrives) {
                int reason = arrive(field, settings, interpolant, state, stream);
                if (reason)
                    end(state, reason);
                else if (!tries)
                    prepare_choice(field, settings, interpolant, state,
                                   batch.seed_directions + 3ll * state.seed);
            }
        } while (settings.curved && only_tries(state, n_active));
#ifndef VECTORS
        unsigned int waiting = __ballot_sync(ALL_LANES, state.task == PROPOSE);
        while (waiting) {
            NOTE(PROPOSE, state.task == PROPOSE);
            propose_directions(field, settings, state, stream, waiting);
            waiting = __ballot_sync(ALL_LANES, state.task == PROPOSE);
            if (__popc(waiting) * MOST <= n_active) break;
        }
        NOTE(CHECK, state.task == CHECK);
        if (state.task == CHECK) check(field, settings, interpolant, state, stream);
        unsigned int looking = __ballot_sync(
            ALL_LANES, state.task == SAMPLE_CONE || state.task == FIND_PEAK || state.task == WEIGH);
        if (looking) look_for_lanes(field, settings, interpolant, state, stream, looking);
#endif
        bool chooses = is_time(settings, state, CHOOSE);
        NOTE(CHOOSE, chooses);
        if (chooses)
            choose(field, settings, interpolant, state, batch.seed_directions + 3ll * state.seed,
                   stream);
        bool goes = !settings.curved || are_enough_to_go(state, n_active);
        do {
            NOTE(MOVE, goes && state.task == MOVE);
            if (goes && state.task == MOVE)
                move(field, settings, regions, batch, interpolant, visits, state);
        } while (goes && goes_on(settings, state));
        __syncwarp();  // or those that did not move would go through the next round apart
    }
}
