// The CUDA kernels: one thread a streamline, twin of kernel.py.
//
// The same names, the same order of float32 operations and no fused multiply-add (--fmad=false),
// hence the same bits. A first pass counts the points of every streamline; because random numbers
// replay, a second one writes them where they belong: along directions that the first jotted down
// and, where a streamline has more steps than there is room for, by drawing them again. A thread
// that is done with a streamline takes the next seed, so that no lane waits for the longest
// streamline of its warp; one whose draw was in vain draws again while others step on, and what
// takes long is put off until several lanes of the warp want it.
//
// Plain C: the same source also compiles for the host, which is how it is tested without a GPU.
// ALGORITHM, INTERPOLATION and EVALUATION may be defined, so that a kernel holds what it needs
// and no more; everything else is an argument.

#include "codes.h"
#include "draw.h"
#include "regions.h"
#include "langevin.h"

#ifndef ALGORITHM
#define ALGORITHM settings.algorithm
#endif
#ifndef INTERPOLATION
#define INTERPOLATION settings.interpolation
#endif
#ifndef EVALUATION
#define EVALUATION settings.evaluation
#endif

// Known when compiling where it is defined, and then whatever hangs on it is left out.
#define SPECIALISE(settings)                \
    settings.algorithm = ALGORITHM;         \
    settings.interpolation = INTERPOLATION; \
    settings.evaluation = EVALUATION

// One half of a streamline on its way.
struct Walk {
    float x, y, z;     // RAS+ mm
    float vx, vy, vz;  // the same in voxels
    float ux, uy, uz;
    float step;
    float length;
    float max_length;
    int i;
    int half;
    int steps;
    int max_steps;
    unsigned short* log_entry;  // of the next step, over both halves
    int log_left;
    unsigned int n_rejected;  // blocks of random numbers that the next step was drawn by in vain
    bool forced;  // the first step goes along direction i
};

// What became of the halves of a streamline.
struct Halves {
    int forward_steps, backward_steps;
    float forward_length, backward_length;
    int forward_reason, backward_reason;
};

DEVICE int opposite(const Field& field, int i)
{
    return i >= field.n_half ? i - field.n_half : i + field.n_half;
}

DEVICE void put(float* target, float x, float y, float z)
{
    target[0] = x;
    target[1] = y;
    target[2] = z;
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

// Go to the first of a seed's direction_log: both passes take its halves in the same order.
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

// Take one step; return 0, or the reason why the half ends, or AGAIN where it is yet to be taken:
// a lane whose draw was in vain max_proposals again while others of its warp go on.
//
// A replay takes the steps that are known to be there, so it asks for no reason to stop: with a
// negative limit every draw ends as it did.
DEVICE int advance(const Field& field, const Settings& settings, const Regions& regions,
                   Scratch& scratch, Visits& visits, Walk& walk, unsigned int stream, bool replay)
{
    if (walk.steps >= walk.max_steps) return MAX_LENGTH;
    unsigned int purpose = walk.half == 0 ? PURPOSE_FORWARD : PURPOSE_BACKWARD;
    bool direction_log = settings.algorithm <= DETERMINISTIC && walk.log_left > 0;
    if (replay && direction_log) {
        face(field, walk, *walk.log_entry);
    } else if (!(walk.forced && walk.steps == 0)) {
        if (!locate(field, settings.interpolation, scratch, walk.vx, walk.vy, walk.vz))
            return NO_FOD;
        float limit = replay ? -1.0f : settings.min_probability * scratch.total;
        int i;
        if (settings.algorithm > DETERMINISTIC) {
            i = turn_direction(field, settings, scratch, walk.i, walk.ux, walk.uy, walk.uz,
                               walk.step, limit, stream, walk.steps, purpose);
        } else if (settings.algorithm == PROBABILISTIC) {
            bool scans = walk.n_rejected >= n_blocks(field, settings, walk.i);
            if (deferred(scans && field.max_proposals)) return AGAIN;
            i = scans ? scan_direction(field, settings, scratch, walk.i, limit, stream, walk.steps,
                                       purpose)
                      : propose_direction(field, settings, scratch, walk.i, field.two_sided != 0, limit,
                                      stream, walk.steps, walk.n_rejected, purpose);
            if (i == AGAIN) {
                walk.n_rejected++;
                return AGAIN;
            }
            walk.n_rejected = 0;
        } else {
            if (settings.interpolation == NEAREST &&
                deferred(!is_known(settings, scratch, walk.i)))
                return AGAIN;
            i = best_direction(field, settings, scratch, walk.i, limit);
        }
        if (i < 0) return -i;
        if (settings.algorithm <= DETERMINISTIC)
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
    if (direction_log) {
        if (!replay) *walk.log_entry = (unsigned short)walk.i;
        walk.log_entry++;
        walk.log_left--;
    }
    return reason;
}

// Note what became of a seed.
DEVICE void conclude(const Batch& batch, int seed, int count, float length, int back, int ahead)
{
    batch.counts[seed] = count;
    batch.lengths[seed] = length;
    batch.reasons[2ll * seed] = (unsigned char)back;
    batch.reasons[2ll * seed + 1] = (unsigned char)ahead;
    atomicAdd(batch.tally + ahead, 1ull);
    if (count || back != ahead) atomicAdd(batch.tally + back, 1ull);
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

// Note the end of a half and begin the other; return whether the streamline is done.
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
    int count = settings.endpoints
                    ? 2
                    : kept(settings, halves.backward_steps) + 1 + kept(settings, halves.forward_steps);
    conclude(batch, seed, count, length, halves.backward_reason, halves.forward_reason);
    return true;
}

// First pass: what becomes of each seed, and how many points its streamline has.
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

// Second pass: walk the steps again and write the points in place; the half back from its seed.
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
    int until = 0;             // steps until the next point is kept
    float* target = 0;         // where it goes
    for (;;) {
        if (seed < 0) {
            seed = (int)atomicAdd(batch.next, 1u);
            if (seed >= batch.n) return;
            if (batch.counts[seed] == 0) {
                seed = -1;
            } else {
                int ahead = batch.steps[2ll * seed], back = batch.steps[2ll * seed + 1];
                target = batch.points + 3 * (batch.offsets[seed] + kept(settings, back));
                const float* position = batch.positions + 3ll * seed;
                put(target, position[0], position[1], position[2]);
                int half = ahead > 0 ? 0 : 1;
                target += half == 0 ? 3 : -3;
                until = settings.record_every;
                begin_log(batch, walk, seed);
                begin_half(field, settings, regions, batch, visits, walk, seed, half,
                           half == 0 ? ahead : back, 0.0f, true);
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
                int back = batch.steps[2ll * seed + 1];
                if (walk.half == 0 && back > 0) {
                    target = batch.points + 3 * (batch.offsets[seed] + kept(settings, back) - 1);
                    begin_half(field, settings, regions, batch, visits, walk, seed, 1, back, 0.0f,
                               true);
                } else {
                    seed = -1;
                }
            }
        }
    }
}

// Between the passes: points and streamlines of TILE seeds, one thread a tile.
extern "C" __global__ void add_tiles(const Batch batch)
{
    int tile = (int)(blockIdx.x * blockDim.x + threadIdx.x);
    int first = tile * TILE;
    if (first >= batch.n) return;
    int last = first + TILE < batch.n ? first + TILE : batch.n;
    long long n_points = 0, n_lines = 0;
    for (int seed = first; seed < last; seed++) {
        n_points += batch.counts[seed];
        n_lines += batch.counts[seed] > 0;
    }
    batch.tile_points[tile] = n_points;
    batch.tile_lines[tile] = n_lines;
}

// The running sum over the tiles, by one thread: there are few.
extern "C" __global__ void scan_tiles(const Batch batch)
{
    if (blockIdx.x || threadIdx.x) return;
    long long n_points = 0, n_lines = 0;
    for (int tile = 0; tile * (long long)TILE < batch.n; tile++) {
        long long points = batch.tile_points[tile], lines = batch.tile_lines[tile];
        batch.tile_points[tile] = n_points;
        batch.tile_lines[tile] = n_lines;
        n_points += points;
        n_lines += lines;
    }
    batch.totals[0] = n_points;
    batch.totals[1] = n_lines;
    batch.line_offsets[0] = 0;
    *batch.next = 0;  // for the second pass
}

// Where each seed's points go, and what is known of each streamline, without the seeds in between.
extern "C" __global__ void place_streamlines(const Batch batch)
{
    int tile = (int)(blockIdx.x * blockDim.x + threadIdx.x);
    int first = tile * TILE;
    if (first >= batch.n) return;
    int last = first + TILE < batch.n ? first + TILE : batch.n;
    long long point = batch.tile_points[tile], line = batch.tile_lines[tile];
    for (int seed = first; seed < last; seed++) {
        int count = batch.counts[seed];
        batch.offsets[seed] = point;
        if (count == 0) continue;
        point += count;
        batch.line_offsets[line + 1] = point;
        batch.line_lengths[line] = batch.lengths[seed];
        batch.line_reasons[2 * line] = batch.reasons[2ll * seed];
        batch.line_reasons[2 * line + 1] = batch.reasons[2ll * seed + 1];
        batch.line_sources[line] = (long long)batch.first_stream + seed;
        line++;
    }
}

// Second pass where only the ends are wanted: they are known already.
extern "C" __global__ void write_endpoints(const Batch batch)
{
    int seed = (int)(blockIdx.x * blockDim.x + threadIdx.x);
    if (seed >= batch.n || batch.counts[seed] == 0) return;
    const float* ends = batch.ends + 6ll * seed;
    float* target = batch.points + 3 * batch.offsets[seed];
    put(target, ends[0], ends[1], ends[2]);
    put(target + 3, ends[3], ends[4], ends[5]);
}
