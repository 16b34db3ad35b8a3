// Where the points of each seed go, and the way there, after track.cu.
#pragma once

// Write a point.
DEVICE void put(float* target, float x, float y, float z)
{
    target[0] = x;
    target[1] = y;
    target[2] = z;
}

// Points and streamlines of TILE seeds, one thread a tile.
extern "C" __global__ void add_tiles(const Batch batch)
{
    int tile = (int)(blockIdx.x * blockDim.x + threadIdx.x);
    int first = tile * TILE;
    if (first >= batch.n_seeds) return;
    int last = first + TILE < batch.n_seeds ? first + TILE : batch.n_seeds;
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
    for (int tile = 0; tile * (long long)TILE < batch.n_seeds; tile++) {
        long long points = batch.tile_points[tile], lines = batch.tile_lines[tile];
        batch.tile_points[tile] = n_points;
        batch.tile_lines[tile] = n_lines;
        n_points += points;
        n_lines += lines;
    }
    batch.totals[0] = n_points;
    batch.totals[1] = n_lines;
    batch.totals[2] = *batch.next_block;
    batch.line_offsets[0] = 0;
}

// Where each seed's points go, and what is known of each streamline, without the seeds in between.
extern "C" __global__ void place_streamlines(const Batch batch)
{
    int tile = (int)(blockIdx.x * blockDim.x + threadIdx.x);
    int first = tile * TILE;
    if (first >= batch.n_seeds) return;
    int last = first + TILE < batch.n_seeds ? first + TILE : batch.n_seeds;
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

// Points that a half keeps of its steps.
DEVICE int kept(const Settings& settings, int steps)
{
    if (settings.endpoints) return steps > 0 ? 1 : 0;
    return steps / settings.record_every + (steps % settings.record_every ? 1 : 0);
}

// Put the points of each block of the pool where they belong, one number a thread: those of the
// backward half from the seed downwards. The first block of a streamline brings the seed along.
extern "C" __global__ void gather_points(const Settings settings, const Batch batch)
{
    const int n_numbers = 3 * BLOCK_POINTS;
    unsigned int n_asked = *batch.next_block;
    int n_blocks = n_asked < (unsigned int)batch.n_blocks ? (int)n_asked : batch.n_blocks;
    long long n_threads = (long long)gridDim.x * blockDim.x;
    long long k = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    for (; k < (long long)n_blocks * n_numbers; k += n_threads) {
        int block = (int)(k / n_numbers), number = (int)(k % n_numbers);
        int half = batch.block_halves[block] & 1, seed = batch.block_halves[block] >> 1;
        if (seed < 0 || batch.counts[seed] == 0) continue;
        const int* steps = batch.steps + 2ll * seed;
        int which = batch.block_numbers[block] * BLOCK_POINTS + number / 3, axis = number % 3;
        long long at_seed = batch.offsets[seed] + kept(settings, steps[1]);
        if (which == 0 && (half == 0 || steps[0] == 0))
            batch.points[3 * at_seed + axis] = batch.positions[3ll * seed + axis];
        if (which >= kept(settings, steps[half])) continue;
        long long at = half == 0 ? at_seed + 1 + which : at_seed - 1 - which;
        batch.points[3 * at + axis] = batch.pool[k];
    }
}

// The same where only the ends are wanted.
extern "C" __global__ void write_endpoints(const Batch batch)
{
    int seed = (int)(blockIdx.x * blockDim.x + threadIdx.x);
    if (seed >= batch.n_seeds || batch.counts[seed] == 0) return;
    const float* ends = batch.ends + 6ll * seed;
    float* target = batch.points + 3 * batch.offsets[seed];
    put(target, ends[0], ends[1], ends[2]);
    put(target + 3, ends[3], ends[4], ends[5]);
}
