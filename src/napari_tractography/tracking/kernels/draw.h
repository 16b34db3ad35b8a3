// Drawing directions: random numbers, where a point lies, and the exact draw in O(1).
//
// Twin of draw.py, where the method is explained. Corners are not compacted, so that they stay in
// registers: one without mass has the weight zero and is passed over, which changes no bit.

#define UNIT_24 5.9604644775390625e-8f  // 2^-24

struct Words {
    unsigned int r0, r1, r2, r3;
};

// Four random numbers; see philox.py for the specification.
DEVICE Words philox_block(unsigned int c0, unsigned int c1, unsigned int c2, unsigned int c3,
                          unsigned int k0, unsigned int k1)
{
#pragma unroll
    for (int round = 0; round < 10; round++) {
        unsigned long long p0 = 0xD2511F53ull * c0;
        unsigned long long p1 = 0xCD9E8D57ull * c2;
        c0 = (unsigned int)(p1 >> 32) ^ c1 ^ k0;
        c2 = (unsigned int)(p0 >> 32) ^ c3 ^ k1;
        c1 = (unsigned int)p1;
        c3 = (unsigned int)p0;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    Words words = {c0, c1, c2, c3};
    return words;
}

DEVICE const float* amplitudes_of(const Field& field, int row)
{
    return field.amplitudes + (long long)row * field.n_half;
}

// Draw a direction of the half set from the FOD of one voxel with one random word.
DEVICE int draw_alias(const Field& field, int row, unsigned int word)
{
    unsigned long long product = (unsigned long long)word * (unsigned int)field.n_half;
    unsigned int cell = (unsigned int)(product >> 32);
    unsigned int entry = field.alias[(long long)row * field.n_half + cell];
    if (((unsigned int)product >> field.alias_bits) < (entry >> field.alias_bits)) return (int)cell;
    return (int)(entry & ((1u << field.alias_bits) - 1u));
}

// Map RAS+ mm to the voxel coordinates of a (3, 4) matrix.
DEVICE void to_voxel(const float* matrix, float x, float y, float z, float& vx, float& vy,
                     float& vz)
{
    vx = matrix[0] * x + matrix[1] * y + matrix[2] * z + matrix[3];
    vy = matrix[4] * x + matrix[5] * y + matrix[6] * z + matrix[7];
    vz = matrix[8] * x + matrix[9] * y + matrix[10] * z + matrix[11];
}

// Floats too large for an int are clamped by GPUs and overflow on hosts: such voxels are outside.
DEVICE int floor_to_int(float v)
{
    v = floorf(v);
    return v >= 1e9f ? 1000000000 : v <= -1e9f ? -1000000000 : (int)v;
}

// The voxel that a voxel coordinate belongs to.
DEVICE int nearest_voxel(float v)
{
    return floor_to_int(v + 0.5f);
}

DEVICE long long voxel_index(const Field& field, int ix, int iy, int iz)
{
    return ((long long)ix * field.ny + iy) * field.nz + iz;
}

// Tell whether a voxel position may be on a streamline: 0, LEFT_IMAGE or LEFT_MASK.
DEVICE int place(const Field& field, float vx, float vy, float vz)
{
    int ix = nearest_voxel(vx), iy = nearest_voxel(vy), iz = nearest_voxel(vz);
    if (ix < 0 || iy < 0 || iz < 0 || ix >= field.nx || iy >= field.ny || iz >= field.nz)
        return LEFT_IMAGE;
    if (field.mask && !field.mask[voxel_index(field, ix, iy, iz)]) return LEFT_MASK;
    return 0;
}

// Find the voxels whose FODs mix at a position, with weights; tell whether there are any.
DEVICE bool locate(const Field& field, int interpolation, Scratch& scratch, float vx, float vy,
                   float vz)
{
    if (interpolation == NEAREST) {
        int row = field.voxel_rows[voxel_index(field, nearest_voxel(vx), nearest_voxel(vy),
                                               nearest_voxel(vz))];
        if (row < 0) return false;
        float total = field.totals[row];
        if (!(total > 0.0f)) return false;
        scratch.corners.rows[0] = row;
        scratch.corners.weights[0] = 1.0f;
        scratch.cumulative[0] = total;
        scratch.total = total;
        return true;
    }
    float fx = floorf(vx), fy = floorf(vy), fz = floorf(vz);
    int ix = floor_to_int(vx), iy = floor_to_int(vy), iz = floor_to_int(vz);
    if (ix != scratch.cell[0] || iy != scratch.cell[1] || iz != scratch.cell[2]) {
        scratch.cell[0] = ix;  // small steps stay in a cell for long
        scratch.cell[1] = iy;
        scratch.cell[2] = iz;
#pragma unroll
        for (int k = 0; k < 8; k++) {
            int cx = ix + (k >> 2), cy = iy + ((k >> 1) & 1), cz = iz + (k & 1);
            int row = -1;
            if (cx >= 0 && cy >= 0 && cz >= 0 && cx < field.nx && cy < field.ny && cz < field.nz)
                row = field.voxel_rows[voxel_index(field, cx, cy, cz)];
            scratch.corners.rows[k] = row;
        }
#pragma unroll
        for (int k = 0; k < 8; k++) {
            int row = scratch.corners.rows[k];
            scratch.corner_totals[k] = row >= 0 ? field.totals[row] : 0.0f;
        }
    }
    float wx = vx - fx, wy = vy - fy, wz = vz - fz;
    float total = 0.0f;
#pragma unroll
    for (int k = 0; k < 8; k++) {
        float weight = (k >> 2) ? wx : 1.0f - wx;
        weight = weight * (((k >> 1) & 1) ? wy : 1.0f - wy);
        weight = weight * ((k & 1) ? wz : 1.0f - wz);
        float mass = weight * scratch.corner_totals[k];
        bool counts = mass > 0.0f;
        if (counts) total = total + mass;
        scratch.corners.weights[k] = counts ? weight : 0.0f;
        scratch.cumulative[k] = total;
    }
    scratch.total = total;
    return total > 0.0f;
}

// How many corners there are to go through: a constant in a kernel compiled for one interpolation.
DEVICE int n_corners(const Settings& settings)
{
    return settings.interpolation == NEAREST ? 1 : 8;
}

// Add up the mass of a cone in one voxel and keep it; -1 stands for zero, as 0 for unknown.
SELDOM float add_cone_mass(float* place, const unsigned char* cone_row, const float* amplitudes,
                           int n_half)
{
    float known = 0.0f;
    for (int j = 0; j < n_half; j++) {
        unsigned char side = cone_row[j];
        if (side) {
            float amplitude = amplitudes[j];
            known += amplitude;
            if (side == 3) known += amplitude;
        }
    }
    if (known == 0.0f) known = -1.0f;
    *place = known;  // whichever thread comes first: all write the same
    return known;
}

// The mass of the cone around direction i in one voxel, computed once.
DEVICE float cone_mass_of(const Field& field, int row, int i)
{
    int column = field.n_mass > field.n_half || i < field.n_half ? i : i - field.n_half;
    float* place = field.cone_mass + (long long)row * field.n_mass + column;
    float known = *place;
    if (known == 0.0f)
        known = add_cone_mass(place, field.cone + (long long)i * field.n_half,
                              amplitudes_of(field, row), field.n_half);
    return known > 0.0f ? known : 0.0f;
}

// The mass of the cone around direction i at a position.
DEVICE float mixed_cone_mass(const Field& field, const Settings& settings, const Scratch& scratch,
                             int i)
{
    float mass = 0.0f;
#pragma unroll
    for (int k = 0; k < 8; k++) {
        if (k < n_corners(settings) && scratch.corners.weights[k] > 0.0f)
            mass += scratch.corners.weights[k] * cone_mass_of(field, scratch.corners.rows[k], i);
    }
    return mass;
}

// The interpolated amplitude of a direction of the half set: what `mix` makes of all at once.
DEVICE float mixed(const float* amplitudes, int n_half, const Corners& corners, int n, int j)
{
    float amplitude = 0.0f;
#pragma unroll
    for (int k = 0; k < 8; k++) {
        if (k < n && corners.weights[k] > 0.0f)
            amplitude += corners.weights[k] * amplitudes[(long long)corners.rows[k] * n_half + j];
    }
    return amplitude;
}

// Draw from the interpolated FOD within a cone by its cumulative sum; -1 where it is empty.
SELDOM int scan_draw(const float* amplitudes, int n_half, Corners corners, int n,
                     const unsigned char* cone_row, float min_amplitude, unsigned int word_0,
                     unsigned int word_1)
{
    float mass = 0.0f;
    for (int j = 0; j < n_half; j++) {
        unsigned char side = cone_row[j];
        if (!side) continue;
        float amplitude = mixed(amplitudes, n_half, corners, n, j);
        if (!(amplitude >= min_amplitude)) continue;
        mass += amplitude;
        if (side == 3) mass += amplitude;
    }
    if (!(mass > 0.0f)) return -1;
    float target = (float)(word_0 >> 8) * UNIT_24 * mass;
    mass = 0.0f;
    int last = -1;
    for (int j = 0; j < n_half; j++) {
        unsigned char side = cone_row[j];
        if (!side) continue;
        float amplitude = mixed(amplitudes, n_half, corners, n, j);
        if (!(amplitude >= min_amplitude) || !(amplitude > 0.0f)) continue;
        last = j;
        mass += amplitude;
        if (side == 3) mass += amplitude;
        if (mass > target) break;
    }
    if (cone_row[last] == 2 || (cone_row[last] == 3 && (word_1 & 1u))) return last + n_half;
    return last;
}

// Draw the next direction; minus a stop reason where there is none.
//
// `i` is the current direction, `limit` the cone mass at or below which to stop.
DEVICE int draw_direction(const Field& field, const Settings& settings, const Scratch& scratch,
                          int i, const unsigned char* cone_row, bool two_sided, float limit,
                          unsigned int stream, unsigned int step, unsigned int purpose)
{
    float lowest = settings.min_amplitude;
    float need = lowest > limit ? lowest : limit;
    float total = scratch.total;
    for (unsigned int block = 0; block < DRAW_BLOCKS; block++) {
        Words words = philox_block(stream, step, block, purpose, settings.key_0, settings.key_1);
#pragma unroll
        for (int attempt = 0; attempt < 2; attempt++) {
            unsigned int where = attempt == 0 ? words.r0 : words.r2;
            unsigned int which = attempt == 0 ? words.r1 : words.r3;
            int row = scratch.corners.rows[0];
            if (settings.interpolation != NEAREST) {
                float target = (float)(where >> 8) * UNIT_24 * total;
                bool found = false;  // the first corner beyond the target, else the last with mass
#pragma unroll
                for (int k = 0; k < 8; k++) {
                    if (!found && scratch.corners.weights[k] > 0.0f) {
                        row = scratch.corners.rows[k];
                        found = scratch.cumulative[k] > target;
                    }
                }
            }
            int j = draw_alias(field, row, which);
            unsigned char side = cone_row[j];
            if (side == 0) continue;
            bool flip = side == 2;
            if (two_sided) {
                // Draw from the full sphere: a random sign first, then the cone.
                flip = (where & 1u) == 1u;
                if (!(side & (flip ? 2 : 1))) continue;
            }
            float amplitude = 0.0f;
#pragma unroll
            for (int k = 0; k < 8; k++) {
                if (k < n_corners(settings) && scratch.corners.weights[k] > 0.0f && !(amplitude > need))
                    amplitude += scratch.corners.weights[k] * amplitudes_of(field, scratch.corners.rows[k])[j];
            }
            if (amplitude < lowest) continue;
            // The amplitude is part of the cone's mass: only a small one needs the whole mass.
            if (amplitude <= limit && mixed_cone_mass(field, settings, scratch, i) <= limit)
                return -LOW_PROBABILITY;
            return flip ? j + field.n_half : j;
        }
    }
    Words words = philox_block(stream, step, DRAW_BLOCKS, purpose, settings.key_0, settings.key_1);
    int j = scan_draw(field.amplitudes, field.n_half, scratch.corners, n_corners(settings), cone_row,
                      lowest, words.r0, words.r1);
    if (j < 0) return -LOW_AMPLITUDE;
    if (limit >= 0.0f && mixed_cone_mass(field, settings, scratch, i) <= limit)
        return -LOW_PROBABILITY;
    return j;
}

// The half-set direction of the largest interpolated amplitude in a cone, or -1.
//
// Of equal amplitudes the first counts.
DEVICE int largest_mixed(const float* amplitudes, int n_half, const Corners& corners, int n,
                         const unsigned char* cone_row, float& largest)
{
    int best = -1;
    largest = -1.0f;
    for (int j = 0; j < n_half; j++) {
        if (!cone_row[j]) continue;
        float amplitude = mixed(amplitudes, n_half, corners, n, j);
        if (amplitude > largest) {
            largest = amplitude;
            best = j;
        }
    }
    return best;
}

// Which of half-set direction j and its antipode lies in the cone around i.
//
// Of two that do, the one on the side of i.
DEVICE int in_cone(const unsigned char* cone_row, const float* directions, int n_half, int i, int j)
{
    int side = cone_row[j];
    if (side == 3) {
        const float* a = directions + 3 * i;
        const float* b = directions + 3 * j;
        side = a[0] * b[0] + a[1] * b[1] + a[2] * b[2] >= 0.0f ? 1 : 2;
    }
    return side == 2 ? j + n_half : j;
}

// Find the direction of the largest amplitude in the cone around i in one voxel, and keep it plus
// one; 0 without.
SELDOM int find_largest(unsigned short* place, const unsigned char* cone_row,
                        const float* directions, const float* amplitudes, int n_half, int i)
{
    int best = -1;
    float largest = -1.0f;
    for (int j = 0; j < n_half; j++) {
        if (cone_row[j] && amplitudes[j] > largest) {
            largest = amplitudes[j];
            best = j;
        }
    }
    if (best < 0) return 0;
    int known = in_cone(cone_row, directions, n_half, i, best) + 1;
    *place = (unsigned short)known;
    return known;
}

// The direction of the largest amplitude in the cone around i in one voxel, computed once.
DEVICE int largest_in_voxel(const Field& field, int row, int i)
{
    int n_half = field.n_half;
    bool folded = field.n_mass == n_half && i >= n_half;
    int column = folded ? i - n_half : i;
    unsigned short* place = field.best + (long long)row * field.n_mass + column;
    int known = *place;
    if (known == 0)
        known = find_largest(place, field.cone + (long long)column * n_half, field.directions,
                             amplitudes_of(field, row), n_half, column);
    if (known == 0) return -1;
    int j = known - 1;
    if (folded) j = j >= n_half ? j - n_half : j + n_half;
    return j;
}

// The direction of the largest amplitude in the cone; minus a stop reason without.
DEVICE int best_direction(const Field& field, const Settings& settings, const Scratch& scratch,
                          int i, float limit)
{
    int n_half = field.n_half;
    int j;
    float amplitude;
    if (settings.interpolation == NEAREST) {
        j = largest_in_voxel(field, scratch.corners.rows[0], i);
        if (j < 0) return -LOW_AMPLITUDE;
        amplitude = amplitudes_of(field, scratch.corners.rows[0])[j >= n_half ? j - n_half : j];
    } else {
        const unsigned char* cone_row = field.cone + (long long)i * n_half;
        int half = largest_mixed(field.amplitudes, n_half, scratch.corners, n_corners(settings),
                                 cone_row, amplitude);
        if (half < 0) return -LOW_AMPLITUDE;
        j = in_cone(cone_row, field.directions, n_half, i, half);
    }
    if (amplitude < settings.min_amplitude || !(amplitude > 0.0f)) return -LOW_AMPLITUDE;
    if (amplitude <= limit && mixed_cone_mass(field, settings, scratch, i) <= limit)
        return -LOW_PROBABILITY;
    return j;
}

// The direction of the largest amplitude of all, its sign drawn; -1 where it is too small.
SELDOM int largest_start(const float* amplitudes, int n_half, Corners corners, int n,
                         const unsigned char* everywhere, float min_amplitude, unsigned int word)
{
    float largest;
    int j = largest_mixed(amplitudes, n_half, corners, n, everywhere, largest);
    if (largest < min_amplitude || !(largest > 0.0f)) return -1;
    return (word & 1u) ? j + n_half : j;
}

// A first direction at the seed, or a negative number.
DEVICE int start_direction(const Field& field, const Settings& settings, const Scratch& scratch,
                           unsigned int stream)
{
    if (settings.start == START_SAMPLED)
        return draw_direction(field, settings, scratch, 0, field.everywhere, true, -1.0f, stream, 0,
                              PURPOSE_START);
    Words words = philox_block(stream, 0, 0, PURPOSE_START, settings.key_0, settings.key_1);
    return largest_start(field.amplitudes, field.n_half, scratch.corners, n_corners(settings),
                         field.everywhere, settings.min_amplitude, words.r0);
}
