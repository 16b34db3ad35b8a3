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

// Put the points of each block of the pool where they belong, a warp a block: those of the backward
// half from the seed downwards. The first block of a streamline brings the seed along.
extern "C" __global__ void gather_points(const Settings settings, const Batch batch)
{
    unsigned int n_asked = *batch.next_block, n_warps = gridDim.x * blockDim.x / N_LANES;
    unsigned int n_blocks = n_asked < (unsigned int)batch.n_blocks ? n_asked : batch.n_blocks;
    unsigned int block = (blockIdx.x * blockDim.x + threadIdx.x) / N_LANES;
    for (; block < n_blocks; block += n_warps) {
        int half = batch.block_halves[block] & 1, seed = batch.block_halves[block] >> 1;
        if (seed < 0 || batch.counts[seed] == 0) continue;
        int forward = batch.steps[2ll * seed], backward = batch.steps[2ll * seed + 1];
        float* at_seed = batch.points + 3 * (batch.offsets[seed] + kept(settings, backward));
        int first = batch.block_numbers[block] * BLOCK_POINTS;
        int left = kept(settings, half == 0 ? forward : backward) - first;
        if (first == 0 && (half == 0 || forward == 0))
            for (int axis = lane_of(); axis < 3; axis += N_LANES)
                at_seed[axis] = batch.positions[3ll * seed + axis];
        int n_numbers = 3 * (left < BLOCK_POINTS ? left : BLOCK_POINTS);
        const float* source = batch.pool + 3ll * block * BLOCK_POINTS;
        float* target = half == 0 ? at_seed + 3 * (1 + first) : at_seed - 3 * (1 + first);
        for (int number = lane_of(); number < n_numbers; number += N_LANES) {
            int axis = number % 3;
            target[half == 0 ? number : axis - (number - axis)] = source[number];
        }
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
