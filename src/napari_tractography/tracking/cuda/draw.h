// Drawing directions: random numbers, where a point lies, and the exact draw.
//
// Twin of draw.py, where the method is explained, of max_proposals.py and of lanes.py, whose order of
// additions it keeps.

#define UNIT_24 5.9604644775390625e-8f  // 2^-24
#define MARGIN 1.0001f

struct Words {
    unsigned int r0, r1, r2, r3;
};

// The largest amplitude so far, and its direction of the half set, or -1.
struct Largest {
    float amplitude;
    int direction;
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

// Turn values into their running sum, in the order of Hillis and Steele.
template <int N>
DEVICE void add_up(float* values)
{
#pragma unroll
    for (int by = 1; by < N; by *= 2) {
#pragma unroll
        for (int lane = N - 1; lane >= by; lane--) values[lane] += values[lane - by];
    }
}

// Find the voxels whose FODs mix at a position, with weights; tell whether there are any.
DEVICE bool locate(const Field& field, int interpolation, Scratch& scratch, float vx, float vy,
                   float vz)
{
    if (interpolation == NEAREST) {
        int ix = nearest_voxel(vx), iy = nearest_voxel(vy), iz = nearest_voxel(vz);
        if (ix != scratch.cell[0] || iy != scratch.cell[1] || iz != scratch.cell[2]) {
            scratch.cell[0] = ix;  // small steps stay for long
            scratch.cell[1] = iy;
            scratch.cell[2] = iz;
            int row = field.voxel_rows[voxel_index(field, ix, iy, iz)];
            scratch.corners.rows[0] = row >= 0 ? row : 0;
            scratch.total = row >= 0 ? field.totals[row] : 0.0f;
            scratch.corners.quanta[0] = row >= 0 ? field.quanta[row] : 0.0f;
            scratch.weights[0] = 1.0f;
        }
        return scratch.total > 0.0f;
    }
    float fx = floorf(vx), fy = floorf(vy), fz = floorf(vz);
    int ix = floor_to_int(vx), iy = floor_to_int(vy), iz = floor_to_int(vz);
    if (ix != scratch.cell[0] || iy != scratch.cell[1] || iz != scratch.cell[2]) {
        scratch.cell[0] = ix;
        scratch.cell[1] = iy;
        scratch.cell[2] = iz;
#pragma unroll
        for (int k = 0; k < 8; k++) {
            int cx = ix + (k >> 2), cy = iy + ((k >> 1) & 1), cz = iz + (k & 1);
            int row = -1;
            if (cx >= 0 && cy >= 0 && cz >= 0 && cx < field.nx && cy < field.ny && cz < field.nz)
                row = field.voxel_rows[voxel_index(field, cx, cy, cz)];
            scratch.corners.rows[k] = row >= 0 ? row : 0;
            scratch.corner_totals[k] = row >= 0 ? field.totals[row] : 0.0f;
            scratch.corner_quanta[k] = row >= 0 ? field.quanta[row] : 0.0f;
        }
    }
    float wx = vx - fx, wy = vy - fy, wz = vz - fz;
#pragma unroll
    for (int k = 0; k < 8; k++) {
        float weight = (k >> 2) ? wx : 1.0f - wx;
        weight = weight * (((k >> 1) & 1) ? wy : 1.0f - wy);
        weight = weight * ((k & 1) ? wz : 1.0f - wz);
        scratch.masses[k] = weight * scratch.corner_totals[k];
        scratch.weights[k] = scratch.corner_totals[k] > 0.0f ? weight : 0.0f;
        scratch.corners.quanta[k] = weight * scratch.corner_quanta[k];
    }
    scratch.total = scratch.masses[0];
#pragma unroll
    for (int k = 1; k < 8; k++) scratch.total += scratch.masses[k];
    return scratch.total > 0.0f;
}

// How many corners there are to go through: a constant in a kernel compiled for one interpolation.
DEVICE int n_corners(const Settings& settings)
{
    return settings.interpolation == NEAREST ? 1 : 8;
}

// Add up what the corners give: pairs, then pairs of pairs.
DEVICE float sum_of_corners(const float* terms)
{
    return ((terms[0] + terms[1]) + (terms[2] + terms[3])) +
           ((terms[4] + terms[5]) + (terms[6] + terms[7]));
}

// Interpolate one number of a table with `width` numbers a row.
template <typename Number>
DEVICE float mixed(const Number* table, int width, const Corners& corners, int n, int at)
{
    if (n == 1) return corners.quanta[0] * (float)table[(long long)corners.rows[0] * width + at];
    float terms[8];
#pragma unroll
    for (int k = 0; k < 8; k++)
        terms[k] = corners.quanta[k] > 0.0f
                       ? corners.quanta[k] * (float)table[(long long)corners.rows[k] * width + at]
                       : 0.0f;
    return sum_of_corners(terms);
}

// Interpolate the quantised of a patch.
DEVICE void mix(const unsigned short* quantised, int n_patches, const Corners& corners, int n,
                int patch, float* values)
{
    if (n == 1) {  // read sixteen bytes at a time
        long long first = ((long long)corners.rows[0] * n_patches + patch) * PATCH_SIZE;
        const uint4* source = (const uint4*)(quantised + first);
        uint4 low = source[0], high = source[1];
        unsigned int words[PATCH_SIZE / 2] = {low.x,  low.y,  low.z,  low.w,
                                         high.x, high.y, high.z, high.w};
#pragma unroll
        for (int word = 0; word < PATCH_SIZE / 2; word++) {
            values[2 * word] = corners.quanta[0] * (float)(words[word] & 0xFFFFu);
            values[2 * word + 1] = corners.quanta[0] * (float)(words[word] >> 16);
        }
        return;
    }
#pragma unroll
    for (int word = 0; word < PATCH_SIZE / 2; word++) {  // whole words, for the sake of registers
        float even[8], odd[8];
#pragma unroll
        for (int k = 0; k < 8; k++) {
            long long first = ((long long)corners.rows[k] * n_patches + patch) * PATCH_SIZE;
            unsigned int both = ((const unsigned int*)(quantised + first))[word];
            even[k] = corners.quanta[k] * (float)(both & 0xFFFFu);
            odd[k] = corners.quanta[k] * (float)(both >> 16);
        }
        values[2 * word] = sum_of_corners(even);
        values[2 * word + 1] = sum_of_corners(odd);
    }
}

// Keep the values from `floor` on that are in a cone, twice what is on both sides; zeros elsewhere.
DEVICE void keep_in_cone(float* values, unsigned int bits, float floor)
{
#pragma unroll
    for (int lane = 0; lane < PATCH_SIZE; lane++) {
        float value = values[lane] >= floor ? values[lane] : 0.0f;
        values[lane] = ((bits >> lane) & 1u ? value : 0.0f) +
                       ((bits >> (PATCH_SIZE + lane)) & 1u ? value : 0.0f);
    }
}

// The mass of a patch in a cone, from `floor` on.
SELDOM float mass_in_patch(const unsigned short* quantised, int n_patches, Corners corners, int n,
                           int patch, unsigned int bits, float floor)
{
    float values[PATCH_SIZE];
    mix(quantised, n_patches, corners, n, patch, values);
    keep_in_cone(values, bits, floor);
#pragma unroll
    for (int by = PATCH_SIZE / 2; by > 0; by /= 2) {
#pragma unroll
        for (int lane = 0; lane < by; lane++) values[lane] += values[lane + by];
    }
    return values[0];
}

// Tell whether the mass of a cone is at most `limit`.
SELDOM bool is_cone_mass_below(const unsigned short* quantised, int n_patches, Corners corners, int n,
                         const unsigned int* cone, float limit)
{
    float mass = 0.0f;
    for (int patch = 0; patch < n_patches; patch++) {
        if (!cone[patch]) continue;
        mass += mass_in_patch(quantised, n_patches, corners, n, patch, cone[patch], 0.0f);
        if (mass > limit) return false;
    }
    return true;
}

DEVICE const unsigned int* cone_of(const Field& field, int i)
{
    return field.cone + (long long)i * field.n_patches;
}

DEVICE bool below_cone_mass(const Field& field, const Settings& settings, const Scratch& scratch, int i,
                    float limit)
{
    return is_cone_mass_below(field.quantised, field.n_patches, scratch.corners, n_corners(settings),
                        cone_of(field, i), limit);
}

// Bit 0 where half-set direction j lies in a cone, bit 1 where its antipode does.
DEVICE int sides_of(const unsigned int* cone, int j)
{
    unsigned int pair = cone[j / PATCH_SIZE] >> (j % PATCH_SIZE);
    return (int)((pair & 1u) | ((pair >> (PATCH_SIZE - 1)) & 2u));
}

// Draw from the interpolated FOD within a cone by its cumulative sum; minus a stop reason.
SELDOM int scan_draw(const unsigned short* quantised, int n_patches, int n_half, Corners corners,
                     int n, const unsigned int* cone, float floor, float limit,
                     unsigned int word_0, unsigned int word_1)
{
    float total = 0.0f;
    for (int patch = 0; patch < n_patches; patch++)
        if (cone[patch])
            total += mass_in_patch(quantised, n_patches, corners, n, patch, cone[patch], floor);
    if (!(total > 0.0f)) return -LOW_AMPLITUDE;
    if (total <= MARGIN * limit && is_cone_mass_below(quantised, n_patches, corners, n, cone, limit))
        return -LOW_PROBABILITY;
    float left = (float)(word_0 >> 8) * UNIT_24 * total;
    int drawn = 0;
    float goal = 0.0f;
    for (int patch = 0; patch < n_patches; patch++) {
        if (!cone[patch]) continue;
        float mass = mass_in_patch(quantised, n_patches, corners, n, patch, cone[patch], floor);
        if (!(mass > 0.0f)) continue;
        drawn = patch;
        goal = left;
        if (left < mass) break;
        left -= mass;
    }
    float values[PATCH_SIZE];
    mix(quantised, n_patches, corners, n, drawn, values);
    keep_in_cone(values, cone[drawn], floor);
    int last = 0;
#pragma unroll
    for (int k = 0; k < PATCH_SIZE; k++)
        if (values[k] > 0.0f) last = k;
    add_up<PATCH_SIZE>(values);
    int lane = 0;
#pragma unroll
    for (int k = 0; k < PATCH_SIZE; k++) lane += values[k] <= goal;
    int j = drawn * PATCH_SIZE + (lane > last ? last : lane);  // rounding may lead beyond the last
    int sides = sides_of(cone, j);
    if (sides == 2 || (sides == 3 && (word_1 & 1u))) return j + n_half;
    return j;
}

// How many blocks of random numbers there are to try with: one serves two max_proposals in a nearest voxel.
DEVICE unsigned int n_blocks(const Field& field, const Settings& settings, int i)
{
    // At a start all directions are allowed, whatever the cone.
    unsigned int max_proposals = i == 2 * field.n_half ? (unsigned int)MAX_PROPOSALS : (unsigned int)field.max_proposals;
    return n_corners(settings) == 1 ? max_proposals / 2 : max_proposals;
}

// At least how much of the mass amid corners a patch holds, in parts of MASS_UNITS.
DEVICE float held_in_corners(const Field& field, const Scratch& scratch, int patch)
{
    float held = 0.0f;
#pragma unroll
    for (int k = 0; k < 8; k++) {
        long long at = (long long)scratch.corners.rows[k] * field.n_patches + patch;
        held += scratch.masses[k] * (float)field.mass_fractions[at];
    }
    return held;
}

// Try to draw the next direction by one block of random numbers; minus a stop reason where there is
// none, AGAIN where that was in vain.
//
// `i` is the current direction, or n_directions where any may follow; `limit` the cone mass at or
// below which to stop.
DEVICE int propose_direction(const Field& field, const Settings& settings, const Scratch& scratch,
                         int i, bool two_sided, float limit, unsigned int stream,
                         unsigned int step, unsigned int block, unsigned int purpose)
{
    int n = n_corners(settings), n_patches = field.n_patches;
    const unsigned int* cone = cone_of(field, i);
    Words words = philox_block(stream, step, block, purpose, settings.key_0, settings.key_1);
    int row = scratch.corners.rows[0], main_row = row;
    float quantum = scratch.corners.quanta[0];
    float main_mass = n == 1 ? scratch.total : scratch.masses[0];
    if (n > 1) {
        float goal = (float)(words.r2 >> 8) * UNIT_24 * scratch.total;
        float mass = scratch.masses[0], running = scratch.masses[0];
#pragma unroll
        for (int k = 1; k < 8; k++) {
            bool past = running <= goal, larger = scratch.masses[k] > main_mass;
            row = past ? scratch.corners.rows[k] : row;
            quantum = past ? scratch.corners.quanta[k] : quantum;
            mass = past ? scratch.masses[k] : mass;
            running += scratch.masses[k];
            main_row = larger ? scratch.corners.rows[k] : main_row;
            main_mass = larger ? scratch.masses[k] : main_mass;
        }
        if (!(mass > 0.0f)) return AGAIN;  // rounding may lead to a corner of weight zero
    }
#pragma unroll 1
    for (int turn = 0; turn < (n == 1 ? 2 : 1); turn++) {
        unsigned int of_patch = turn ? words.r2 : words.r0;
        unsigned int of_slot = turn ? words.r3 : words.r1;
        unsigned long long product = (unsigned long long)of_patch * (unsigned int)n_patches;
        int patch = (int)(product >> 32);
        unsigned int entry = field.alias[(long long)row * n_patches + patch];
        if (((unsigned int)product >> ALIAS_BITS) >= (entry >> ALIAS_BITS))
            patch = (int)(entry & ((1u << ALIAS_BITS) - 1u));
        unsigned int bits = cone[patch];
        if (!bits) continue;
        long long first = ((long long)row * n_patches + patch) * PATCH_SIZE;
        int lane = (int)(of_slot >> (32 - SLOT_BITS));
        unsigned int rest = (of_slot >> (32 - SLOT_BITS - THRESHOLD_BITS)) & ((1u << THRESHOLD_BITS) - 1u);
        unsigned int of_column = field.slot_alias[first + lane];
        if (rest >= (of_column >> SLOT_BITS)) lane = (int)(of_column & (PATCH_SIZE - 1u));
        int j = patch * PATCH_SIZE + lane;
        int sides = sides_of(cone, j);
        // Draw from the full sphere: a random sign, then the cone.
        if (two_sided) sides &= (of_slot & 1u) ? 2 : 1;
        if (!sides) continue;
        // Mostly what one corner holds is enough.
        float amplitude = quantum * (float)field.quantised[first + lane];
        if (n > 1 && !(amplitude >= settings.min_amplitude))
            amplitude = mixed(field.quantised, n_patches * PATCH_SIZE, scratch.corners, n, j);
        if (!(amplitude >= settings.min_amplitude) || !(amplitude > 0.0f)) continue;
        // Mostly a patch of the cone in one voxel holds more than enough, or that in all corners.
        float needed = MARGIN * limit * (float)MASS_UNITS, held = 0.0f;
        int contained = field.contained_patches[i];
        if (contained >= 0) {
            held = main_mass * (float)field.mass_fractions[(long long)main_row * n_patches + contained];
            if (n > 1 && held <= needed) held = held_in_corners(field, scratch, contained);
        }
        if (held <= needed && amplitude <= MARGIN * limit &&
            mass_in_patch(field.quantised, n_patches, scratch.corners, n, patch,
                          (bits | (bits >> PATCH_SIZE)) & 0xFFFFu, 0.0f) <= MARGIN * limit &&
            below_cone_mass(field, settings, scratch, i, limit))
            return -LOW_PROBABILITY;
        return (sides & 1) ? j : j + field.n_half;
    }
    return AGAIN;
}

// Draw the next direction by a scan of the cone; minus a stop reason where there is none.
DEVICE int scan_direction(const Field& field, const Settings& settings, const Scratch& scratch,
                          int i, float limit, unsigned int stream, unsigned int step,
                          unsigned int purpose)
{
    Words words = philox_block(stream, step, MAX_PROPOSALS, purpose, settings.key_0, settings.key_1);
    return scan_draw(field.quantised, field.n_patches, field.n_half, scratch.corners,
                     n_corners(settings), cone_of(field, i), settings.min_amplitude, limit,
                     words.r0, words.r1);
}

// Tell whether to put off what takes long until other lanes of the warp want it as well.
//
// A warp waits for the slowest of its lanes. In FiberCup with 45 degrees a lane scans a cone at one
// step of a hundred, but one lane or another of 32 at every fourth.
DEVICE bool deferred(bool wanted)
{
    unsigned int lanes = __activemask();
    unsigned int wanting = __ballot_sync(lanes, wanted);
    return wanted && wanting != lanes && __popc(wanting) < SEVERAL;
}

// Look for an amplitude of a patch, where bits are set, that is larger than the largest so far; of
// equal ones the first counts.
SELDOM Largest largest_in_patch(const unsigned short* quantised, int n_patches, Corners corners, int n,
                                int patch, unsigned int bits, Largest found)
{
    float values[PATCH_SIZE];
    mix(quantised, n_patches, corners, n, patch, values);
#pragma unroll
    for (int lane = 0; lane < PATCH_SIZE; lane++) {
        int j = patch * PATCH_SIZE + lane;
        bool better = values[lane] > found.amplitude ||
                      (values[lane] == found.amplitude && j < found.direction);
        better = better && ((bits >> lane) & 1u);
        found.direction = better ? j : found.direction;
        found.amplitude = better ? values[lane] : found.amplitude;
    }
    return found;
}

// The half-set direction of the largest interpolated amplitude in a cone, or -1.
//
// The patch `own` comes first, because it mostly holds the largest; others are passed over where
// they cannot hold a larger one.
DEVICE Largest largest_interpolated(const unsigned short* quantised, const unsigned short* patch_maxima,
                             int n_patches, int n_groups, const Corners& corners, int n,
                             const unsigned int* cone, int own)
{
    Largest found = {-1.0f, -1};
    for (int turn = own < n_patches ? -1 : 0; turn < n_patches; turn++) {
        int patch = turn < 0 ? own : turn;
        unsigned int bits = (cone[patch] | (cone[patch] >> PATCH_SIZE)) & 0xFFFFu;
        if (!bits || (turn >= 0 && patch == own)) continue;
        if (turn >= 0 && mixed(patch_maxima, n_groups * PATCH_SIZE, corners, n, patch) < found.amplitude)
            continue;
        found = largest_in_patch(quantised, n_patches, corners, n, patch, bits, found);
    }
    return found;
}

// Tell whether the last search was in the same voxel and cone.
DEVICE bool is_known(const Settings& settings, const Scratch& scratch, int i)
{
    return n_corners(settings) == 1 && scratch.known_row == scratch.corners.rows[0] &&
           scratch.known_i == i;
}

// The direction of the largest amplitude in the cone; minus a stop reason without.
DEVICE int best_direction(const Field& field, const Settings& settings, Scratch& scratch, int i,
                          float limit)
{
    int n_half = field.n_half, n = n_corners(settings);
    const unsigned int* cone = cone_of(field, i);
    int j = scratch.known_j;
    if (!is_known(settings, scratch, i)) {
        j = largest_interpolated(field.quantised, field.patch_maxima, field.n_patches, field.n_groups,
                          scratch.corners, n, cone, (i >= n_half ? i - n_half : i) / PATCH_SIZE)
                .direction;
        scratch.known_row = n == 1 ? scratch.corners.rows[0] : -1;
        scratch.known_i = i;
        scratch.known_j = j;
    }
    if (j < 0) return -LOW_AMPLITUDE;
    float amplitude = mixed(field.quantised, field.n_patches * PATCH_SIZE, scratch.corners, n, j);
    if (amplitude < settings.min_amplitude || !(amplitude > 0.0f)) return -LOW_AMPLITUDE;
    if (amplitude <= limit && below_cone_mass(field, settings, scratch, i, limit)) return -LOW_PROBABILITY;
    int sides = sides_of(cone, j);
    if (sides == 3) {  // of two in the cone the one on the side of i
        const float* a = field.directions + 3 * i;
        const float* b = field.directions + 3 * j;
        sides = a[0] * b[0] + a[1] * b[1] + a[2] * b[2] >= 0.0f ? 1 : 2;
    }
    return sides == 2 ? j + n_half : j;
}

// The direction of the largest amplitude of all, its sign drawn; -1 where it is too small.
SELDOM int largest_start(const unsigned short* quantised, const unsigned short* patch_maxima, int n_patches,
                         int n_groups, Corners corners, int n, const unsigned int* everywhere,
                         int n_half, float min_amplitude, unsigned int word)
{
    Largest found =
        largest_interpolated(quantised, patch_maxima, n_patches, n_groups, corners, n, everywhere, n_patches);
    if (found.amplitude < min_amplitude || !(found.amplitude > 0.0f)) return -1;
    return (word & 1u) ? found.direction + n_half : found.direction;
}

// A first direction at the seed, or a negative number.
DEVICE int start_direction(const Field& field, const Settings& settings, const Scratch& scratch,
                           unsigned int stream)
{
    if (settings.start == START_SAMPLED) {
        int any = 2 * field.n_half, j = AGAIN;
        for (unsigned int block = 0; j == AGAIN && block < n_blocks(field, settings, any); block++)
            j = propose_direction(field, settings, scratch, any, true, -1.0f, stream, 0, block,
                              PURPOSE_START);
        if (j != AGAIN) return j;
        return scan_direction(field, settings, scratch, any, -1.0f, stream, 0, PURPOSE_START);
    }
    Words words = philox_block(stream, 0, 0, PURPOSE_START, settings.key_0, settings.key_1);
    return largest_start(field.quantised, field.patch_maxima, field.n_patches, field.n_groups,
                         scratch.corners, n_corners(settings), cone_of(field, 2 * field.n_half),
                         field.n_half, settings.min_amplitude, words.r0);
}
