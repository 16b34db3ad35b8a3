// The rows of a table, filled all at once by one thread each: twin of fill_row in cpu/cells.py.
//
// The same order of float32 operations, hence the same bits.

#include "codes.h"
#include "structs.h"
#include "half_floats.h"
#include "peaks.h"

struct Rows {
    const float* values;           // (n_rows, N_COEFFICIENTS): the FOD's own coefficients
    const float* change;           // (N_COEFFICIENTS, N_PADDED)
    const float* sphere_points;    // (3, n_points)
    unsigned short* coefficients;  // (n_rows + 1, N_PADDED)
    float* masses;                 // (n_rows + 1,)
    unsigned int* crossings;       // (n_rows + 1,): see cpu/crossings.py
    const int* voxel_rows;         // (nx, ny, nz), -1 where there is none
    long long n_rows;
    int n_points;
    int nx;
    int ny;
    int nz;
    float to_voxel[12];  // (3, 4): RAS+ mm to voxel coordinates
};

// Where the coefficients of a row are.
#ifndef VALUES_OF
#define VALUES_OF(rows, row) ((rows).values + (row) * N_COEFFICIENTS)
#endif

DEVICE Vector point(const Rows& rows, int j)
{
    const float* points = rows.sphere_points;
    Vector v = {points[j], points[rows.n_points + j], points[2 * rows.n_points + j]};
    return v;
}

// Write the coefficients of a row, rounded to half floats, and return them as they are read.
DEVICE Fod write_coefficients(const Rows& rows, long long row)
{
    const float* values = VALUES_OF(rows, row);
    unsigned short* target = rows.coefficients + row * N_PADDED;
    Fod fod;
#pragma unroll
    for (int c = 0; c < N_PADDED; c++) {
        float total = values[0] * rows.change[c];
#pragma unroll 1
        for (int k = 1; k < N_COEFFICIENTS; k++)
            total = total + values[k] * rows.change[k * N_PADDED + c];
        unsigned short bits = to_half(total);
        if (c != N_COEFFICIENTS) target[c] = bits;
        if (c < N_COEFFICIENTS) fod.coefficients[c] = from_half(bits);
    }
    return fod;
}

extern "C" __global__ void fill_rows(const Rows rows)
{
    long long row = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows.n_rows) return;
    Fod fod = write_coefficients(rows, row);
    PairwiseSum sum = {};
    Peak largest = {0.0f, 0.0f, 0.0f, NOWHERE};
    int best_index = 0;  // of equal amplitudes the first counts
#pragma unroll 1
    for (int turn = 0; turn < POINTS_AT_ONCE; turn++) {
        float total = 0.0f;
#pragma unroll 1
        for (int j = reversed(turn); j < rows.n_points; j += POINTS_AT_ONCE) {
            Vector q = point(rows, j);
            float value = value_at(fod, q.x, q.y, q.z);
            total = total + (value > 0.0f ? value : 0.0f);
            if (value > largest.value || (value == largest.value && j < best_index)) {
                largest = {q.x, q.y, q.z, value};
                best_index = j;
            }
        }
        add_slot(sum, turn, total);
    }
    float bound = 0.0f;
    if (largest.value > 0.0f) {
        Peak peak = climb(fod, 0.0f, 0.0f, 1.0f, EVERYWHERE, 0.0f, largest, nowhere());
        bound = peak.value;
        float near = cosine_of(NEAR);
        // Other lobes, whose peaks may be higher: the opposite is one in an asymmetric FOD.
#pragma unroll 1
        for (int j = 0; j < rows.n_points; j++) {
            Vector q = point(rows, j);
            float cosine = peak.x * q.x + peak.y * q.y;
            cosine = cosine + peak.z * q.z;
            if (!(cosine < near && (ASYMMETRIC || cosine > -near))) continue;
            float value = EXCESS * value_at(fod, q.x, q.y, q.z);
            bound = value > bound ? value : bound;
        }
    }
    rows.coefficients[row * N_PADDED + N_COEFFICIENTS] = to_half(bound * ABOVE);
    rows.crossings[row] = (unsigned int)(NOT_SEEN + best_index);
    rows.masses[row] = sum.partial[LEVELS] / (float)rows.n_points;
}

// The FOD of a row, as it is read from the table.
DEVICE Fod fod_of_row(const Rows& rows, long long row)
{
    const unsigned short* halves = rows.coefficients + row * N_PADDED;
    Fod fod;
#pragma unroll
    for (int c = 0; c < N_COEFFICIENTS; c++) fod.coefficients[c] = from_half(halves[c]);
    return fod;
}

// What the FOD's own coefficients are multiplied by for the FOD along a unit vector.
struct Weights {
    float numbers[N_COEFFICIENTS];
};

SELDOM void weigh(const float* change, float x, float y, float z, Weights* weights)
{
    // The polynomials by which coefficients of the table are multiplied.
    float terms[N_PADDED], w = z * z;
    int at = 0;
    for (int largest = LMAX; largest >= (ASYMMETRIC ? LMAX - 1 : LMAX); largest--) {
        float re = 1.0f, im = 0.0f;
        for (int m = 0; m <= largest; m++) {
            float v = w - shift_of(m), factor = (largest - m) & 1 ? z : 1.0f;
            int n = (largest - m) / 2 + 1;
            for (int power = n - 1; power >= 0; power--) {
                if (m == 0) {
                    terms[at + power] = factor;
                } else {
                    terms[at + 2 * power] = factor * re;
                    terms[at + 2 * power + 1] = factor * im;
                }
                factor = factor * v;
            }
            at += m == 0 ? n : 2 * n;
            float next = m == 0 ? x : x * re - y * im;
            im = m == 0 ? y : x * im + y * re;
            re = next;
        }
    }
    for (int c = N_COEFFICIENTS; c < N_PADDED; c++) terms[c] = 0.0f;
#pragma unroll 1
    for (int k = 0; k < N_COEFFICIENTS; k++) {
        const float* row = change + k * N_PADDED;
        float sums[PADDING];
#pragma unroll
        for (int lane = 0; lane < PADDING; lane++) sums[lane] = row[lane] * terms[lane];
#pragma unroll 1
        for (int c = PADDING; c < N_PADDED; c += PADDING)
#pragma unroll
            for (int lane = 0; lane < PADDING; lane++)
                sums[lane] = sums[lane] + row[c + lane] * terms[c + lane];
#pragma unroll
        for (int half = PADDING / 2; half > 0; half /= 2)
#pragma unroll
            for (int lane = 0; lane < half; lane++) sums[lane] = sums[lane] + sums[lane + half];
        weights->numbers[k] = sums[0];
    }
}

// The non-negative FOD of a voxel along a direction.
DEVICE float amplitude(const float* values, const Weights& weights)
{
    enum { REST = N_COEFFICIENTS / TERMS * TERMS };
    float sums[TERMS];
#pragma unroll
    for (int term = 0; term < TERMS; term++) sums[term] = 0.0f;
#pragma unroll 1
    for (int k = 0; k < REST; k += TERMS)
#pragma unroll
        for (int term = 0; term < TERMS; term++)
            sums[term] = sums[term] + values[k + term] * weights.numbers[k + term];
#pragma unroll
    for (int half = TERMS / 2; half > 0; half /= 2)
#pragma unroll
        for (int term = 0; term < half; term++) sums[term] = sums[term] + sums[term + half];
    float total = sums[0];
#pragma unroll
    for (int k = REST; k < N_COEFFICIENTS; k++) total = total + values[k] * weights.numbers[k];
    return total > 0.0f ? total : 0.0f;
}

// The sums of the FOD along the top, and along a way, in the voxels of that; and the FOD along the way
// in the voxel itself.
struct Sums {
    float top, way, own;
};

// A voxel, and of its highest lobe the top, and what the FOD along that is made by.
struct Top {
    long long row;
    int ix, iy, iz;
    Vector v;
    Weights weights;
};

DEVICE long long row_at(const Rows& rows, int x, int y, int z)
{
    if (x < 0 || y < 0 || z < 0 || x >= rows.nx || y >= rows.ny || z >= rows.nz) return -1;
    return rows.voxel_rows[((long long)x * rows.ny + y) * rows.nz + z];
}

// The row of one of the voxels of a way, or -1.
DEVICE long long row_along(const Rows& rows, const Top& top, const Vector& v, int number)
{
    enum { HALF = WAY_SAMPLES / 2 };
    float ahead = (float)(WAY_STEP * (number < HALF ? number + 1 : HALF - 1 - number));
    return row_at(rows, top.ix + (int)floorf(ahead * v.x + 0.5f),
                  top.iy + (int)floorf(ahead * v.y + 0.5f), top.iz + (int)floorf(ahead * v.z + 0.5f));
}

// A direction in voxels.
DEVICE Vector in_voxels(const Rows& rows, const Vector& d)
{
    const float* m = rows.to_voxel;
    return normalised(m[0] * d.x + m[1] * d.y + m[2] * d.z, m[4] * d.x + m[5] * d.y + m[6] * d.z,
                      m[8] * d.x + m[9] * d.y + m[10] * d.z);
}

DEVICE float sum_along_top(const Rows& rows, const Top& top)
{
    Vector v = in_voxels(rows, top.v);
    float total = amplitude(VALUES_OF(rows, top.row), top.weights);
#pragma unroll 1
    for (int number = 0; number < WAY_SAMPLES; number++) {
        long long row = row_along(rows, top, v, number);
        if (row >= 0) total = total + amplitude(VALUES_OF(rows, row), top.weights);
    }
    return total;
}

DEVICE Sums sums_along(const Rows& rows, const Top& top, const Vector& d)
{
    Vector v = in_voxels(rows, d);
    Weights way;
    weigh(rows.change, d.x, d.y, d.z, &way);
    const float* values = VALUES_OF(rows, top.row);
    float own = amplitude(values, way);
    Sums sums = {amplitude(values, top.weights), own, own};
#pragma unroll 1
    for (int number = 0; number < WAY_SAMPLES; number++) {
        long long row = row_along(rows, top, v, number);
        if (row < 0) continue;
        values = VALUES_OF(rows, row);
        sums.top = sums.top + amplitude(values, top.weights);
        sums.way = sums.way + amplitude(values, way);
    }
    return sums;
}

// By how much the ratio of the sums is larger along two ways than along two at right angles, and how
// much wider the lobe is; zeros where one does not go through.
struct Compared {
    float excess, wider;
};

DEVICE Compared compared(float least, const Sums& one, const Sums& two, const Sums& three, const Sums& four)
{
    float tops = three.top + four.top, ways = three.way + four.way, owns = three.own + four.own;
    float fewer = one.top < two.top ? one.top : two.top;
    if (!(one.way > least && two.way > least && fewer * ways > 0.0f && owns > 0.0f)) return {0.0f, 0.0f};
    float ratio = one.way * tops / (one.top * ways);
    float other = two.way * tops / (two.top * ways);
    ratio = other < ratio ? other : ratio;
    return {ratio - 1.0f, (one.own + two.own) / owns - 1.0f};
}

// Keep what has most excess; return whether ways cross.
DEVICE bool keep_most(const Compared& found, Compared* most)
{
    if (found.excess > most->excess) *most = found;
    return found.excess > WAY_EXCESS && found.wider > OWN_PART * found.excess;
}

// The direction of the way that a tangent of the top leads to, or the opposite of that.
DEVICE Vector beside(const Vector& v, float far, float ax, float ay, float az)
{
    return normalised(v.x + far * ax, v.y + far * ay, v.z + far * az);
}

// The number of the sampled direction along which a vector is, or its opposite.
SELDOM unsigned int nearest_axis(const Rows* rows, float x, float y, float z)
{
    float most = 0.0f;
    unsigned int found = 0;
#pragma unroll 1
    for (int number = 0; number < rows->n_points; number++) {
        Vector p = point(*rows, number);
        float along = fabsf(p.x * x + p.y * y + p.z * z);
        if (along > most) {
            most = along;
            found = (unsigned int)number;
        }
    }
    return found;
}

DEVICE float ratio_of(float part, float whole)
{
    return whole > 0.0f ? part / whole : 0.0f;
}

// What is known of a voxel's own, whose row is filled: 0 of most; twin of ways_cross() of
// cpu/crossings.py, where the method is explained.
SELDOM unsigned int ways_cross(const Rows* table, long long row, int ix, int iy, int iz)
{
    const Rows& rows = *table;
    Fod fod = fod_of_row(rows, row);
    Vector first = point(rows, (int)(rows.crossings[row] - NOT_SEEN));
    if (!(value_at(fod, first.x, first.y, first.z) > 0.0f)) return 0;
    Peak peak = climb_from(fod, first.x, first.y, first.z);
    Top top;
    top.row = row;
    top.ix = ix;
    top.iy = iy;
    top.iz = iz;
    top.v = {peak.x, peak.y, peak.z};
    weigh(rows.change, peak.x, peak.y, peak.z, &top.weights);
    const float highest = amplitude(VALUES_OF(rows, row), top.weights);
    const float least = WAY_SHARE * (float)(WAY_SAMPLES + 1) * highest;
    if (!(sum_along_top(rows, top) > least)) return 0;
    Tangents t = tangents_of(peak.x, peak.y, peak.z), begin = t;
    bool found = false;
    Compared most = {WAY_EXCESS, 0.0f};
    float real = 0.0f, imaginary = 0.0f, cosine = 1.0f, sine = 0.0f;
#pragma unroll 1
    for (int plane = 0; plane < WAY_PLANES / 2; plane++) {  // and the planes at right angles
        Sums one = sums_along(rows, top, beside(top.v, WAY_TANGENT, t.ax, t.ay, t.az));
        Sums three = sums_along(rows, top, beside(top.v, WAY_TANGENT, t.bx, t.by, t.bz));
        if (one.way > least || three.way > least) {
            Sums two = sums_along(rows, top, beside(top.v, -WAY_TANGENT, t.ax, t.ay, t.az));
            Sums four = sums_along(rows, top, beside(top.v, -WAY_TANGENT, t.bx, t.by, t.bz));
            found = keep_most(compared(least, one, two, three, four), &most) || found;
            found = keep_most(compared(least, three, four, one, two), &most) || found;
            float ratio = ratio_of(one.way + two.way, one.top + two.top);
            ratio = ratio - ratio_of(three.way + four.way, three.top + four.top);
            real = real + ratio * cosine;
            imaginary = imaginary + ratio * sine;
        }
        float before = cosine;
        cosine = WAY_COSINE_OF_TWO * before - WAY_SINE_OF_TWO * sine;
        sine = WAY_COSINE_OF_TWO * sine + WAY_SINE_OF_TWO * before;
        Tangents old = t;
        t.ax = WAY_COSINE * old.ax + WAY_SINE * old.bx;
        t.ay = WAY_COSINE * old.ay + WAY_SINE * old.by;
        t.az = WAY_COSINE * old.az + WAY_SINE * old.bz;
        t.bx = WAY_COSINE * old.bx - WAY_SINE * old.ax;
        t.by = WAY_COSINE * old.by - WAY_SINE * old.ay;
        t.bz = WAY_COSINE * old.bz - WAY_SINE * old.az;
    }
    if (!(most.excess > WAY_EXCESS)) return 0;
    // Half the angle of what was found.
    float along = real + sqrtf(real * real + imaginary * imaginary), aside = imaginary;
    if (along * along + aside * aside == 0.0f) aside = 1.0f;
    const float widest = (float)(WIDTH >> WIDTH_BITS);
    float steps = WIDTH_STEPS * (most.wider - WIDTH_PART * most.excess) + ((float)AS_WIDE + 0.5f);
    steps = steps < 1.0f ? 1.0f : steps > widest ? widest : steps;
    unsigned int seen = (unsigned int)steps << WIDTH_BITS | (found ? WAYS_CROSS : 0);
    return seen | nearest_axis(table, along * begin.ax + aside * begin.bx,
                               along * begin.ay + aside * begin.by, along * begin.az + aside * begin.bz);
}

// What is done before it is asked whether ways cross in a voxel: on a GPU all are seen by then.
#ifndef ENSURE_WAYS
#define ENSURE_WAYS(rows, row, ix, iy, iz)
#endif

// Every other voxel is looked at; others have no crossing of their own.
DEVICE bool is_looked_at(int ix, int iy, int iz)
{
    return !((ix + iy + iz) & 1);
}

// What is known of a voxel's own, once it is looked at; of every other one nothing is.
DEVICE unsigned int own_of(const Rows& rows, int ix, int iy, int iz)
{
    long long row = row_at(rows, ix, iy, iz);
    if (row < 0 || !is_looked_at(ix, iy, iz)) return 0;
    ENSURE_WAYS(rows, row, ix, iy, iz);
    return rows.crossings[row] & OWN_BITS;
}

// The sum of what lobes up to WIDTHS_AROUND voxels away are wider by, in steps.
DEVICE int width_around(const Rows& rows, int ix, int iy, int iz)
{
    enum { SIDE = 2 * WIDTHS_AROUND + 1 };
    int total = 0;
#pragma unroll 1
    for (int number = 0; number < SIDE * SIDE * SIDE; number++) {
        int dx = number / (SIDE * SIDE) - WIDTHS_AROUND, dy = number / SIDE % SIDE - WIDTHS_AROUND;
        int dz = number % SIDE - WIDTHS_AROUND;
        int width = (int)((own_of(rows, ix + dx, iy + dy, iz + dz) & WIDTH) >> WIDTH_BITS);
        if (width) total += width - AS_WIDE;
    }
    return total;
}

// What is known of a voxel once it is looked around, but for what is its own.
DEVICE unsigned int crossings_around(const Rows& rows, int ix, int iy, int iz)
{
    int n_crossings = 0;
    Vector sum = {0.0f, 0.0f, 0.0f};
#pragma unroll 1
    for (int number = 0; number < 27; number++) {
        int x = ix + number / 9 - 1, y = iy + number / 3 % 3 - 1, z = iz + number % 3 - 1;
        unsigned int seen = own_of(rows, x, y, z);
        if (!(seen & WAYS_CROSS)) continue;
        n_crossings++;
        Vector p = point(rows, (int)(seen & PLANE));
        bool opposite = p.x * sum.x + p.y * sum.y + p.z * sum.z < 0.0f;
        sum.x = sum.x + (opposite ? 0.0f - p.x : p.x);
        sum.y = sum.y + (opposite ? 0.0f - p.y : p.y);
        sum.z = sum.z + (opposite ? 0.0f - p.z : p.z);
    }
    if (n_crossings < FEWEST_CROSSINGS || width_around(rows, ix, iy, iz) <= 0) return NOT_AMONG;
    return AMONG_CROSSINGS | nearest_axis(&rows, sum.x, sum.y, sum.z) << PLANE_BITS;
}

// The row of a voxel that a thread is for, or -1; and where the voxel is.
DEVICE long long row_of_thread(const Rows& rows, int& ix, int& iy, int& iz)
{
    long long voxel = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    iz = (int)(voxel % rows.nz);
    iy = (int)(voxel / rows.nz % rows.ny);
    ix = (int)(voxel / rows.nz / rows.ny);
    return ix < rows.nx ? rows.voxel_rows[voxel] : -1;
}

// Find where two ways cross, by one thread a voxel, once all rows are filled; and then which voxels are
// among crossings.
extern "C" __global__ void follow_ways(const Rows rows)
{
    int ix, iy, iz;
    long long row = row_of_thread(rows, ix, iy, iz);
    if (row < 0) return;
    rows.crossings[row] = is_looked_at(ix, iy, iz) ? ways_cross(&rows, row, ix, iy, iz) : 0;
}

extern "C" __global__ void look_around(const Rows rows)
{
    int ix, iy, iz;
    long long row = row_of_thread(rows, ix, iy, iz);
    if (row < 0) return;
    unsigned int around = crossings_around(rows, ix, iy, iz);
    rows.crossings[row] = around | (rows.crossings[row] & OWN_BITS);
}
