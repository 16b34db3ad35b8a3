// The baseline: a plain CUDA kernel that works as Tractography.jl's does, from its description.
//
// One thread a streamline; nearest voxel; a float32 table of 401 directions of the whole sphere a
// voxel; each step scans the directions once for the total mass and the mass in the cone, and once
// more for the cumulative sum that the random number is compared with. Points go to a padded
// buffer, filled on with the last point; or the last point alone is written.

struct Baseline {
    const float* table;         // (nx, ny, nz, n_directions)
    const float* directions;    // (n_directions, 3)
    const unsigned char* cone;  // (n_directions, n_directions)
    const float* seeds;         // (n, 3): RAS+ mm
    float* points;              // (n, max_steps + 1, 3), or (n, 3) for the ends alone
    int* n_steps;               // (n,)
    int nx;
    int ny;
    int nz;
    int n_directions;
    int n;
    int max_steps;
    int endpoints;
    int deterministic;
    float step;
    float min_probability;
    float to_voxel[12];
};

static __device__ __forceinline__ float next_uniform(unsigned long long& state)
{
    state += 0x9E3779B97F4A7C15ull;
    unsigned long long z = state;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
    z = z ^ (z >> 31);
    return (float)(z >> 40) * 5.9604644775390625e-8f;
}

extern "C" __global__ void track_baseline(const Baseline b)
{
    int seed = (int)(blockIdx.x * blockDim.x + threadIdx.x);
    if (seed >= b.n) return;
    unsigned long long state = (unsigned long long)seed * 0xD1342543DE82EF95ull + 1ull;
    float x = b.seeds[3 * seed], y = b.seeds[3 * seed + 1], z = b.seeds[3 * seed + 2];
    float* line = b.points + (b.endpoints ? 3ll * seed : 3ll * seed * (b.max_steps + 1));
    if (!b.endpoints) {
        line[0] = x;
        line[1] = y;
        line[2] = z;
    }
    const float* m = b.to_voxel;
    int current = -1;
    int steps = 0;
    while (steps < b.max_steps) {
        int ix = (int)floorf(m[0] * x + m[1] * y + m[2] * z + m[3] + 0.5f);
        int iy = (int)floorf(m[4] * x + m[5] * y + m[6] * z + m[7] + 0.5f);
        int iz = (int)floorf(m[8] * x + m[9] * y + m[10] * z + m[11] + 0.5f);
        if (ix < 0 || iy < 0 || iz < 0 || ix >= b.nx || iy >= b.ny || iz >= b.nz) break;
        const float* amplitudes =
            b.table + (((long long)ix * b.ny + iy) * b.nz + iz) * b.n_directions;
        const unsigned char* allowed = b.cone + (long long)(current < 0 ? 0 : current) * b.n_directions;
        float total = 0.0f, inside = 0.0f, largest = 0.0f;
        int next = -1;
        for (int j = 0; j < b.n_directions; j++) {
            float amplitude = amplitudes[j];
            total += amplitude;
            if (current < 0 || allowed[j]) {
                inside += amplitude;
                if (amplitude > largest) {
                    largest = amplitude;
                    next = j;
                }
            }
        }
        if (inside <= b.min_probability * total) break;
        if (!b.deterministic) {
            float target = next_uniform(state) * inside;
            float cumulative = 0.0f;
            for (int j = 0; j < b.n_directions; j++) {
                if ((current < 0 || allowed[j]) && amplitudes[j] > 0.0f) {
                    next = j;
                    cumulative += amplitudes[j];
                    if (cumulative > target) break;
                }
            }
        }
        current = next;
        x += b.step * b.directions[3 * current];
        y += b.step * b.directions[3 * current + 1];
        z += b.step * b.directions[3 * current + 2];
        steps++;
        if (!b.endpoints) {
            line[3ll * steps] = x;
            line[3ll * steps + 1] = y;
            line[3ll * steps + 2] = z;
        }
    }
    b.n_steps[seed] = steps;
    if (b.endpoints) {
        line[0] = x;
        line[1] = y;
        line[2] = z;
        return;
    }
    for (int k = steps + 1; k <= b.max_steps; k++) {  // the buffer is filled to its last step
        line[3ll * k] = x;
        line[3ll * k + 1] = y;
        line[3ll * k + 2] = z;
    }
}
