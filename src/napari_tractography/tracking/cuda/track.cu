// The CUDA kernels: one thread a streamline, twin of cpu/kernel.py.
//
// The same names, the same order of float32 operations and no fused multiply-add (--fmad=false),
// hence the same bits. A first pass counts the points of every streamline; because random numbers
// replay, a second one writes them where they belong: along the directions that the first has
// logged and, where a streamline has more steps than its log has room for, by choosing them again.
//
// Lanes are refilled: a thread whose streamline is done takes the next seed, so that no lane waits
// for the longest streamline of its warp. A lane whose tries are in vain tries again while others
// step on, and what takes long is deferred until several lanes of the warp want it.
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
DEVICE void go_to(const Field& field, Walk& walk, const float* position)
{
    walk.x = position[0];
    walk.y = position[1];
    walk.z = position[2];
    to_voxel(field.to_voxel, walk.x, walk.y, walk.z, walk.vx, walk.vy, walk.vz);
    walk.steps = 0;
    walk.n_tries = 0;
    walk.task = TRIES;
    walk.arrived = walk.settled = false;
}

// Go to the first entry of a seed's log: both passes track its halves in the same order.
DEVICE void begin_log(const Batch& batch, Walk& walk, int seed)
{
    walk.log_entry = batch.direction_log + 3ll * seed * batch.log_length;
    walk.log_left = batch.log_length;
}

DEVICE void begin_half(const Field& field, const Settings& settings, const Regions& regions,
                       const Batch& batch, Visits& visits, Walk& walk, int seed, int half,
                       int max_steps, float max_length, bool replay)
{
    go_to(field, walk, batch.positions + 3ll * seed);
    if (TISSUES && !replay) begin_half_in_tissues(regions, visits, walk);
    if (!replay && regions.n)
        visit_regions(regions, visits, half, true, walk.x, walk.y, walk.z, 0.0f, 0.0f, 0.0f);
    const float* start = batch.starts + 3ll * seed;
    float sign = half == 0 ? 1.0f : -1.0f;
    face(walk, sign * start[0], sign * start[1], sign * start[2]);
    head_on(walk);
    walk.purpose = half == 0 ? PURPOSE_FORWARD : PURPOSE_BACKWARD;
    walk.step = settings.step;
    walk.length = 0.0f;
    walk.half = half;
    walk.max_steps = max_steps;
    walk.max_length = max_length;
    bool starts_straight = settings.start != START_GIVEN && !settings.curved;
    walk.forced = starts_straight && (half == 0 || settings.direction == BACKWARD);
}

// Take one step; return 0, the reason why the half ends, or AGAIN where no step was taken yet. At a
// start choose the first direction and take none.
//
// A replay takes steps that are known to be there, so it looks for no reason to stop.
DEVICE int advance(const Field& field, const Settings& settings, const Regions& regions,
                   Place& place, Visits& visits, Walk& walk, const float* given,
                   unsigned int stream, bool replay)
{
    bool starts = !replay && walk.purpose == PURPOSE_START;
    if (!starts && walk.steps >= walk.max_steps) return MAX_LENGTH;
    bool is_logged = walk.log_left > 0;
    if (replay && is_logged) {
        face(walk, walk.log_entry[0], walk.log_entry[1], walk.log_entry[2]);
    } else if (starts || !(walk.forced && walk.steps == 0)) {
        int reason = choose_direction(field, settings, place, walk, starts, given, stream,
                                      replay);
        if (reason || starts) return reason;
    }
    if (settings.curved) bend(walk);
    if (!replay && settings.adaptive && walk.length + walk.step > walk.max_length)
        return MAX_LENGTH;
    float new_x = walk.x + walk.step * walk.ux;
    float new_y = walk.y + walk.step * walk.uy;
    float new_z = walk.z + walk.step * walk.uz;
    to_voxel(field.to_voxel, new_x, new_y, new_z, walk.vx, walk.vy, walk.vz);
    if (!replay) {
        int left = enter_voxel(field, walk.vx, walk.vy, walk.vz);
        if (left) return left;
    }
    int reason = 0;
    if (TISSUES && !replay) reason = visit_tissues(regions, place, walk, new_x, new_y, new_z);
    if (!replay && !reason && regions.n)
        reason = visit_regions(regions, visits, walk.half, false, new_x, new_y, new_z, walk.x,
                               walk.y, walk.z);
    walk.x = new_x;
    walk.y = new_y;
    walk.z = new_z;
    walk.steps++;
    walk.length += walk.step;
    walk.n_tries = 0;
    walk.arrived = !TISSUES && settings.curved && walk.steps % settings.parts;  // within an arc
    if (is_logged) {
        if (!replay) put(walk.log_entry, walk.ux, walk.uy, walk.uz);
        walk.log_entry += 3;
        walk.log_left--;
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
                            Walk& walk, int seed)
{
    go_to(field, walk, batch.positions + 3ll * seed);
    walk.purpose = PURPOSE_START;
    face(walk, 0.0f, 0.0f, 1.0f);
    int left = enter_voxel(field, walk.vx, walk.vy, walk.vz);
    if (left) return left == LEFT_IMAGE ? SEED_OUTSIDE_IMAGE : SEED_OUTSIDE_MASK;
    if (TISSUES && !begin_in_tissues(regions, walk)) return SEED_IN_WRONG_TISSUE;
    return 0;
}

// Begin the first half along the direction that was found; return 0, or the reason why there is no
// streamline.
DEVICE int begin_halves(const Field& field, const Settings& settings, const Regions& regions,
                        const Batch& batch, Visits& visits, Walk& walk, Halves& halves, int seed)
{
    forget_visits(regions, visits);
    if (regions.n && visit_regions(regions, visits, 0, true, walk.x, walk.y, walk.z, 0.0f, 0.0f,
                                   0.0f) == EXCLUDED)
        return EXCLUDED;
    if (TISSUES) face_white(settings, regions, walk);
    put(batch.starts + 3ll * seed, walk.ux, walk.uy, walk.uz);
    halves.forward_steps = halves.backward_steps = 0;
    halves.forward_length = halves.backward_length = 0.0f;
    halves.forward_reason = halves.backward_reason = SEED;
    if (settings.endpoints) {
        put(batch.ends + 6ll * seed, walk.x, walk.y, walk.z);
        put(batch.ends + 6ll * seed + 3, walk.x, walk.y, walk.z);
    }
    begin_log(batch, walk, seed);
    begin_half(field, settings, regions, batch, visits, walk, seed,
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
                     const Batch& batch, Visits& visits, Walk& walk, Halves& halves, int seed,
                     int reason)
{
    if (TISSUES) {
        int outcome = end_in_tissues(field, settings, regions, batch.positions + 3ll * seed,
                                     visits, walk, reason);
        if (outcome == TRACKED_ANEW) return false;
        if (outcome == REFUSED) {
            conclude(batch, seed, 0, 0.0f, reason, reason);
            return true;
        }
    }
    bool one_way = TISSUES && walk.tissue.is_one_way;
    if (reason == EXCLUDED) {
        conclude(batch, seed, 0, 0.0f, EXCLUDED, EXCLUDED);
        return true;
    }
    float length = settings.adaptive ? walk.length : (float)walk.steps * settings.step;
    bool is_cropped = TISSUES && regions.crop;
    if ((settings.endpoints || is_cropped) && walk.steps)
        put(batch.ends + 6ll * seed + (walk.half == 0 ? 3 : 0), walk.x, walk.y, walk.z);
    if (walk.half == 0) {
        halves.forward_steps = walk.steps;
        halves.forward_length = length;
        halves.forward_reason = reason;
        if (settings.direction != FORWARD && !one_way) {
            begin_half(field, settings, regions, batch, visits, walk, seed, 1,
                       settings.max_steps - halves.forward_steps,
                       settings.max_length - halves.forward_length, false);
            return false;
        }
    } else {
        halves.backward_steps = walk.steps;
        halves.backward_length = length;
        halves.backward_reason = reason;
    }
    int steps = halves.forward_steps + halves.backward_steps;
    length = settings.adaptive ? halves.forward_length + halves.backward_length
                               : (float)steps * settings.step;
    if (is_cropped) length = length - walk.tissue.cropped;
    int rejected = 0;
    if (steps == 0) {
        conclude(batch, seed, 0, 0.0f, halves.backward_reason, halves.forward_reason);
        return true;
    }
    if (settings.adaptive ? length < settings.min_length : steps < settings.min_steps)
        rejected = TOO_SHORT;
    else if (is_cropped && length < settings.min_length)
        rejected = TOO_SHORT;
    else if (TISSUES && walk.tissue.is_from_deep && !walk.tissue.has_reached_white)
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
    Place place = {};
    Visits visits = {};
    place.cell[0] = place.cell[1] = place.cell[2] = -2147483647;
    Walk walk = {};
    Halves halves = {};
    int seed = -1;
    for (;;) {
        int reason = 0;
        bool begins = seed < 0 || walk.purpose == PURPOSE_START;  // there are no halves yet
        if (seed < 0) {
            seed = (int)atomicAdd(batch.next, 1u);
            if (seed >= batch.n) return;
            reason = begin_streamline(field, regions, batch, walk, seed);
        } else {
            reason = advance(field, settings, regions, place, visits, walk,
                             batch.given + 3ll * seed, batch.first_stream + seed, false);
            if (begins && reason != AGAIN)
                reason = reason ? SEED_WITHOUT_FOD
                                : begin_halves(field, settings, regions, batch, visits, walk,
                                               halves, seed);
        }
        if (reason == 0 || reason == AGAIN) continue;
        if (begins) {
            conclude(batch, seed, 0, 0.0f, reason, reason);
            seed = -1;
        } else if (end_half(field, settings, regions, batch, visits, walk, halves, seed, reason)) {
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
    Place place = {};
    Visits visits = {};
    place.cell[0] = place.cell[1] = place.cell[2] = -2147483647;
    Walk walk = {};
    int seed = -1;
    int until = 0;      // steps until the next point is kept
    float* target = 0;  // where it goes
    for (;;) {
        if (seed < 0) {
            seed = (int)atomicAdd(batch.next, 1u);
            if (seed >= batch.n) return;
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
                begin_log(batch, walk, seed);
                begin_half(field, settings, regions, batch, visits, walk, seed, half,
                           half == 0 ? forward : backward, 0.0f, true);
            }
        } else {
            int reason = advance(field, settings, regions, place, visits, walk, 0,
                                 batch.first_stream + seed, true);
            if (reason == AGAIN) continue;
            until--;
            bool done = walk.steps == walk.max_steps;
            if (until == 0 || done) {
                if (TISSUES && regions.crop && done) {
                    const float* end = batch.ends + 6ll * seed + (walk.half == 0 ? 3 : 0);
                    put(target, end[0], end[1], end[2]);
                } else {
                    put(target, walk.x, walk.y, walk.z);
                }
                target += walk.half == 0 ? 3 : -3;
                until = settings.record_every;
            }
            if (done) {
                int backward = batch.steps[2ll * seed + 1];
                if (walk.half == 0 && backward > 0) {
                    int last = kept(settings, backward) - 1;
                    target = batch.points + 3 * (batch.offsets[seed] + last);
                    begin_half(field, settings, regions, batch, visits, walk, seed, 1, backward,
                               0.0f, true);
                } else {
                    seed = -1;
                }
            }
        }
    }
}
