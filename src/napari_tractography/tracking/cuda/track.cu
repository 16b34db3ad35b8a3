// The CUDA kernels: one thread a streamline, twin of kernel.py.
//
// The same names, the same order of float32 operations and no fused multiply-add (--fmad=false),
// hence the same bits. A first pass counts the points of every streamline; because random numbers
// replay, a second one writes them where they belong: along the directions that the first has
// logged and, where a streamline has more steps than its log has room for, by drawing them again.
//
// Lanes are refilled: a thread whose streamline is done takes the next seed, so that no lane waits
// for the longest streamline of its warp. A lane whose proposal is rejected proposes again while
// others step on, and what takes long is deferred until several lanes of the warp want it.
//
// Plain C: the same source also compiles for the host, which is how it is tested without a GPU.
// ALGORITHM, INTERPOLATION and EVALUATION may be defined, so that a kernel holds what it needs
// and no more; everything else is an argument. source.py makes codes.h and algorithms.h.

#include "codes.h"
#include "structs.h"
#include "starts.h"
#include "regions.h"
#include "algorithms.h"
#include "tiles.h"

#ifndef ALGORITHM
#define ALGORITHM settings.algorithm
#endif
#ifndef INTERPOLATION
#define INTERPOLATION settings.interpolation
#endif
#ifndef EVALUATION
#define EVALUATION settings.evaluation
#endif

// What is defined is known when compiling, and all that depends on it is left out.
#define SPECIALISE(settings)                \
    settings.algorithm = ALGORITHM;         \
    settings.interpolation = INTERPOLATION; \
    settings.evaluation = EVALUATION

// How the halves of a streamline ended.
struct Halves {
    int forward_steps, backward_steps;
    float forward_length, backward_length;
    int forward_reason, backward_reason;
};

DEVICE int opposite(const Field& field, int i)
{
    return i >= field.n_half ? i - field.n_half : i + field.n_half;
}

// Turn into direction i.
DEVICE void face(const Field& field, Walk& walk, int i)
{
    const float* unit = field.directions + 3 * i;
    walk.i = i;
    walk.ux = unit[0];
    walk.uy = unit[1];
    walk.uz = unit[2];
}

// Go to the first entry of a seed's log: both passes track its halves in the same order.
DEVICE void begin_log(const Batch& batch, Walk& walk, int seed)
{
    walk.log_entry = batch.direction_log + (long long)seed * batch.log_length;
    walk.log_left = batch.log_length;
}

DEVICE void begin_half(const Field& field, const Settings& settings, const Regions& regions,
                       const Batch& batch, Visits& visits, Walk& walk, int seed, int half,
                       int max_steps, float max_length, bool replay)
{
    const float* position = batch.positions + 3ll * seed;
    walk.x = position[0];
    walk.y = position[1];
    walk.z = position[2];
    to_voxel(field.to_voxel, walk.x, walk.y, walk.z, walk.vx, walk.vy, walk.vz);
    if (!replay && regions.n)
        visit_regions(regions, visits, half, true, walk.x, walk.y, walk.z, 0.0f, 0.0f, 0.0f);
    face(field, walk, half == 0 ? batch.starts[seed] : opposite(field, batch.starts[seed]));
    walk.step = settings.step;
    walk.length = 0.0f;
    walk.steps = 0;
    walk.n_rejected = 0;
    walk.half = half;
    walk.max_steps = max_steps;
    walk.max_length = max_length;
    walk.forced = settings.start != START_GIVEN && (half == 0 || settings.direction == BACKWARD);
}

// Take one step; return 0, the reason why the half ends, or AGAIN where no step was taken yet.
//
// A replay takes steps that are known to be there, so it looks for no reason to stop: with a
// negative limit every draw ends as it did.
DEVICE int advance(const Field& field, const Settings& settings, const Regions& regions,
                   Scratch& scratch, Visits& visits, Walk& walk, unsigned int stream, bool replay)
{
    if (walk.steps >= walk.max_steps) return MAX_LENGTH;
    bool is_logged = is_on_set(settings.algorithm) && walk.log_left > 0;
    if (replay && is_logged) {
        face(field, walk, *walk.log_entry);
    } else if (!(walk.forced && walk.steps == 0)) {
        if (!locate(field, settings.interpolation, scratch, walk.vx, walk.vy, walk.vz))
            return NO_FOD;
        float limit = replay ? -1.0f : settings.min_probability * scratch.total;
        int i = next_direction(field, settings, scratch, walk, limit, stream,
                               walk.half == 0 ? PURPOSE_FORWARD : PURPOSE_BACKWARD);
        if (i == AGAIN) return AGAIN;
        if (i < 0) return -i;
        if (is_on_set(settings.algorithm))
            face(field, walk, i);
        else
            walk.i = i;
    }
    if (!replay && settings.adaptive && walk.length + walk.step > walk.max_length)
        return MAX_LENGTH;
    float new_x = walk.x + walk.step * walk.ux;
    float new_y = walk.y + walk.step * walk.uy;
    float new_z = walk.z + walk.step * walk.uz;
    to_voxel(field.to_voxel, new_x, new_y, new_z, walk.vx, walk.vy, walk.vz);
    if (!replay) {
        int left = place(field, walk.vx, walk.vy, walk.vz);
        if (left) return left;
    }
    int reason = 0;
    if (!replay && regions.n)
        reason = visit_regions(regions, visits, walk.half, false, new_x, new_y, new_z, walk.x,
                               walk.y, walk.z);
    walk.x = new_x;
    walk.y = new_y;
    walk.z = new_z;
    walk.steps++;
    walk.length += walk.step;
    if (is_logged) {
        if (!replay) *walk.log_entry = (unsigned short)walk.i;
        walk.log_entry++;
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
DEVICE int begin_streamline(const Field& field, const Settings& settings, const Regions& regions,
                            const Batch& batch, Scratch& scratch, Visits& visits, Walk& walk,
                            Halves& halves, int seed)
{
    const float* position = batch.positions + 3ll * seed;
    float x = position[0], y = position[1], z = position[2];
    float vx, vy, vz;
    to_voxel(field.to_voxel, x, y, z, vx, vy, vz);
    int left = place(field, vx, vy, vz);
    if (left) return left == LEFT_IMAGE ? SEED_OUTSIDE_IMAGE : SEED_OUTSIDE_MASK;
    if (!locate(field, settings.interpolation, scratch, vx, vy, vz)) return SEED_WITHOUT_FOD;
    int i = batch.given[seed];
    if (settings.start != START_GIVEN) {
        i = start_direction(field, settings, scratch, batch.first_stream + seed);
        if (i < 0) return SEED_WITHOUT_FOD;
    }
    batch.starts[seed] = i;
    forget_visits(regions, visits);
    if (regions.n &&
        visit_regions(regions, visits, 0, true, x, y, z, 0.0f, 0.0f, 0.0f) == EXCLUDED)
        return EXCLUDED;
    halves.forward_steps = halves.backward_steps = 0;
    halves.forward_length = halves.backward_length = 0.0f;
    halves.forward_reason = halves.backward_reason = SEED;
    if (settings.endpoints) {
        put(batch.ends + 6ll * seed, x, y, z);
        put(batch.ends + 6ll * seed + 3, x, y, z);
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
    if (reason == EXCLUDED) {
        conclude(batch, seed, 0, 0.0f, EXCLUDED, EXCLUDED);
        return true;
    }
    float length = settings.adaptive ? walk.length : (float)walk.steps * settings.step;
    if (settings.endpoints && walk.steps)
        put(batch.ends + 6ll * seed + (walk.half == 0 ? 3 : 0), walk.x, walk.y, walk.z);
    if (walk.half == 0) {
        halves.forward_steps = walk.steps;
        halves.forward_length = length;
        halves.forward_reason = reason;
        if (settings.direction != FORWARD) {
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
    int rejected = 0;
    if (steps == 0) {
        conclude(batch, seed, 0, 0.0f, halves.backward_reason, halves.forward_reason);
        return true;
    }
    if (settings.adaptive ? length < settings.min_length : steps < settings.min_steps)
        rejected = TOO_SHORT;
    else if (!includes_met(regions, visits))
        rejected = NOT_INCLUDED;
    else if (regions.n_ends &&
             ((settings.direction != BACKWARD && halves.forward_reason != END_REGION) ||
              (settings.direction != FORWARD && halves.backward_reason != END_REGION)))
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
    Scratch scratch = {};
    Visits visits = {};
    scratch.cell[0] = scratch.cell[1] = scratch.cell[2] = -2147483647;
    scratch.known_row = -1;
    Walk walk = {};
    Halves halves = {};
    int seed = -1;
    for (;;) {
        if (seed < 0) {
            seed = (int)atomicAdd(batch.next, 1u);
            if (seed >= batch.n) return;
            int reason = begin_streamline(field, settings, regions, batch, scratch, visits, walk,
                                          halves, seed);
            if (reason) {
                conclude(batch, seed, 0, 0.0f, reason, reason);
                seed = -1;
            }
        } else {
            int reason = advance(field, settings, regions, scratch, visits, walk,
                                 batch.first_stream + seed, false);
            if (reason == AGAIN) continue;
            if (reason && end_half(field, settings, regions, batch, visits, walk, halves, seed,
                                   reason))
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
    Scratch scratch = {};
    Visits visits = {};
    scratch.cell[0] = scratch.cell[1] = scratch.cell[2] = -2147483647;
    scratch.known_row = -1;
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
            int reason = advance(field, settings, regions, scratch, visits, walk,
                                 batch.first_stream + seed, true);
            if (reason == AGAIN) continue;
            until--;
            bool done = walk.steps == walk.max_steps;
            if (until == 0 || done) {
                put(target, walk.x, walk.y, walk.z);
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
