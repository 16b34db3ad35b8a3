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

DEVICE long long from_lane(long long value, int lane)
{
    unsigned int low = __shfl_sync(ALL_LANES, (unsigned int)value, lane);
    unsigned int high = __shfl_sync(ALL_LANES, (unsigned int)(value >> 32), lane);
    return (long long)((unsigned long long)high << 32 | low);
}

// Put the points of each block of the pool where they belong: those of the backward half from the seed
// downwards. The first block of a streamline brings the seed along. A warp looks up as many blocks as
// it has lanes at once, and then copies them one after the other: memory is waited for once.
extern "C" __global__ void gather_points(const Settings settings, const Batch batch)
{
    unsigned int n_asked = *batch.next_block, n_threads = gridDim.x * blockDim.x;
    unsigned int n_blocks = n_asked < (unsigned int)batch.n_blocks ? n_asked : batch.n_blocks;
    unsigned int first = (blockIdx.x * blockDim.x + threadIdx.x) / N_LANES * N_LANES;
    for (; first < n_blocks; first += n_threads) {
        unsigned int block = first + lane_of();
        int n_mine = 0;  // numbers of the block of this lane; less than none if they go downwards
        long long mine = 0;  // where the first of them belongs
        int seed = block < n_blocks ? batch.block_halves[block] >> 1 : -1;
        if (seed >= 0 && batch.counts[seed] != 0) {
            bool is_forward = (batch.block_halves[block] & 1) == 0;
            int forward = batch.steps[2ll * seed], backward = batch.steps[2ll * seed + 1];
            int number = batch.block_numbers[block] * BLOCK_POINTS;
            int left = kept(settings, is_forward ? forward : backward) - number;
            n_mine = 3 * (left < 0 ? 0 : left < BLOCK_POINTS ? left : BLOCK_POINTS);
            mine = 3 * (batch.offsets[seed] + kept(settings, backward));
            if (number == 0 && (is_forward || forward == 0)) {
                const float* at = batch.positions + 3ll * seed;
                put(batch.points + mine, at[0], at[1], at[2]);
            }
            mine += is_forward ? 3 * (1 + number) : -3 * (1 + number);
            if (!is_forward) n_mine = -n_mine;
        }
        for (int lane = 0; lane < N_LANES; lane++) {
            int n = __shfl_sync(ALL_LANES, n_mine, lane);
            float* target = batch.points + from_lane(mine, lane);
            const float* source = batch.pool + 3ll * (first + lane) * BLOCK_POINTS;
            bool is_forward = n > 0;
            if (!is_forward) n = -n;
            for (int begin = lane_of(); begin < n; begin += 3 * N_LANES) {
                float numbers[3];  // all are on their way before the first is written
#pragma unroll
                for (int k = 0; k < 3; k++)
                    if (begin + k * N_LANES < n) numbers[k] = source[begin + k * N_LANES];
#pragma unroll
                for (int k = 0; k < 3; k++) {
                    int number = begin + k * N_LANES;
                    if (number < n) target[is_forward ? number : 2 * (number % 3) - number] = numbers[k];
                }
            }
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
