// The FOD tabulated over directions where its coefficients lie, twin of build_rows in tables.py.
//
// The same order of float32 operations, and sums of whole numbers, which need none: the same bits,
// but for softplus, whose exponentials and logarithms every machine has its own of. One after the
// other, since a row's levels need its largest amplitude: find_largest, write_levels and fill_lanes
// have one thread a patch, keep_largest and add_levels one a row.

#include "codes.h"

struct Rows {
    const float* values;  // (n_rows, n_coefficients)
    const float* matrix;  // (n_coefficients, n_half)
    unsigned short* levels;
    unsigned int* alias;
    unsigned short* lane_alias;
    unsigned short* shares;
    float* largest;  // of each patch: where the alias table will be
    unsigned short* tops;
    float* scales;  // until the levels are there: the largest amplitude of the row
    float* totals;
    long long n_rows;
    int n_coefficients;
    int n_half;
    int n_patches;
    int n_groups;
    float sharpness;  // of softplus; 0 clips
};

#define LEVELS 65535.0

DEVICE long long item()
{
    return (long long)blockIdx.x * blockDim.x + threadIdx.x;
}

DEVICE float positive(float amplitude, double sharpness)
{
    if (sharpness > 0.0) {
        double x = sharpness * (double)amplitude;
        double soft = (x > 0.0 ? x : 0.0) + log1p(exp(-fabs(x)));
        return (float)(soft / sharpness);
    }
    return amplitude > 0.0f ? amplitude : 0.0f;
}

// Write the amplitudes of a patch; return how many there are.
DEVICE int evaluate_patch(const Rows& rows, long long row, int patch, float* amplitudes)
{
    int first = patch * LANES;
    int n = rows.n_half - first < LANES ? rows.n_half - first : LANES;
    const float* values = rows.values + row * rows.n_coefficients;
#pragma unroll
    for (int j = 0; j < LANES; j++) amplitudes[j] = 0.0f;
    for (int k = 0; k < rows.n_coefficients; k++) {
        const float* weights = rows.matrix + (long long)k * rows.n_half + first;
        float coefficient = values[k];
#pragma unroll
        for (int j = 0; j < LANES; j++)
            if (j < n) amplitudes[j] += coefficient * weights[j];
    }
#pragma unroll
    for (int j = 0; j < LANES; j++)
        amplitudes[j] = j < n ? positive(amplitudes[j], rows.sharpness) : 0.0f;
    return n;
}

extern "C" __global__ void find_largest(Rows rows)
{
    long long index = item();
    if (index >= rows.n_rows * rows.n_patches) return;
    long long row = index / rows.n_patches;
    int patch = (int)(index % rows.n_patches);
    float amplitudes[LANES];
    evaluate_patch(rows, row, patch, amplitudes);
    float largest = 0.0f;
#pragma unroll
    for (int j = 0; j < LANES; j++) largest = amplitudes[j] > largest ? amplitudes[j] : largest;
    rows.largest[index] = largest;
}

extern "C" __global__ void keep_largest(Rows rows)
{
    long long row = item();
    if (row >= rows.n_rows) return;
    const float* of_patches = rows.largest + row * rows.n_patches;
    float largest = 0.0f;
    for (int patch = 0; patch < rows.n_patches; patch++)
        largest = of_patches[patch] > largest ? of_patches[patch] : largest;
    rows.scales[row] = largest;
}

DEVICE long long mass_of(const Rows& rows, long long row, int patch)
{
    const unsigned short* levels = rows.levels + (row * rows.n_patches + patch) * LANES;
    unsigned int mass = 0;
#pragma unroll
    for (int j = 0; j < LANES; j++) mass += levels[j];
    return (long long)mass;
}

// A share of a column in the high bits of a 32-bit number, the low ones being zero.
DEVICE unsigned int share_of(long long own, long long total)
{
    const int bits = 32 - ALIAS_BITS;
    long long most = (1ll << bits) - 1, share = ((own << bits) + total / 2) / total;
    return (unsigned int)(share < most ? share : most) << ALIAS_BITS;
}

// The levels of patches, and the whole numbers that the mass of a patch is cut into.
struct OfPatches {
    const Rows& rows;
    long long row;
    __device__ long long operator()(int patch) const { return mass_of(rows, row, patch); }
};
struct OfLanes {
    const int* units;
    __device__ long long operator()(int lane) const { return units[lane]; }
};

// The next column from `column` on whose mass is more than a column's worth, or is not.
template <class Masses>
DEVICE int next_of(const Masses& masses, int n, int column, bool heavy, long long total)
{
    while (column < n && (masses(column) * n > total) != heavy) column++;
    return column;
}

// An alias table, by the sweep of fill_alias in tables.py.
template <class Masses>
DEVICE void fill_alias(const Masses& masses, int n, long long total, unsigned int* alias)
{
    for (int column = 0; column < n; column++) alias[column] = (unsigned int)column;
    if (total == 0) return;
    int light = next_of(masses, n, 0, false, total), heavy = next_of(masses, n, 0, true, total);
    long long left = heavy < n ? masses(heavy) * n : 0;
    while (heavy < n) {
        if (left > total) {
            long long own = masses(light) * n;
            if (own < total) alias[light] = share_of(own, total) | (unsigned int)heavy;
            left -= total - own;
            light = next_of(masses, n, light + 1, false, total);
        } else {
            int following = next_of(masses, n, heavy + 1, true, total);
            if (following < n) {
                if (left < total)
                    alias[heavy] = share_of(left, total) | (unsigned int)following;
                left += masses(following) * n - total;
            }
            heavy = following;
        }
    }
}

// The alias table of a patch, as fill_lane_alias in tables.py.
DEVICE void fill_lane_alias(const unsigned short* levels, unsigned short* lane_alias)
{
    const long long all = (long long)LANES << SHARE_BITS;
    int units[LANES];
    unsigned int entries[LANES];
    long long mass = 0, running = 0, below = 0;
    for (int lane = 0; lane < LANES; lane++) mass += levels[lane];
    for (int lane = 0; lane < LANES; lane++) {
        running += levels[lane];
        long long upto = mass ? (2 * all * running + mass) / (2 * mass) : 0;
        units[lane] = (int)(upto - below);
        below = upto;
    }
    OfLanes of_lanes = {units};
    fill_alias(of_lanes, LANES, mass ? all : 0, entries);
    for (int lane = 0; lane < LANES; lane++)
        lane_alias[lane] = (unsigned short)(((entries[lane] >> (32 - SHARE_BITS)) << LANE_BITS) |
                                            (entries[lane] & (LANES - 1u)));
}

extern "C" __global__ void write_levels(Rows rows)
{
    long long index = item();
    if (index >= rows.n_rows * rows.n_patches) return;
    long long row = index / rows.n_patches;
    int patch = (int)(index % rows.n_patches);
    float amplitudes[LANES];
    evaluate_patch(rows, row, patch, amplitudes);
    float largest = rows.scales[row];
    double factor = largest > 0.0f ? LEVELS / (double)largest : 0.0;
    unsigned short* levels = rows.levels + index * LANES;
    unsigned int top = 0;
#pragma unroll
    for (int j = 0; j < LANES; j++) {
        unsigned int level = (unsigned int)((double)amplitudes[j] * factor + 0.5);
        levels[j] = (unsigned short)level;
        top = level > top ? level : top;
    }
    rows.tops[row * rows.n_groups * LANES + patch] = (unsigned short)top;
}

extern "C" __global__ void add_levels(Rows rows)
{
    long long row = item();
    if (row >= rows.n_rows) return;
    long long total = 0;
    for (int patch = 0; patch < rows.n_patches; patch++) total += mass_of(rows, row, patch);
    OfPatches of_patches = {rows, row};
    fill_alias(of_patches, rows.n_patches, total, rows.alias + row * rows.n_patches);
    for (int patch = 0; patch < rows.n_patches; patch++)
        rows.shares[row * rows.n_patches + patch] = (unsigned short)(
            total ? mass_of(rows, row, patch) * SHARES / (2 * total) : 0);
    float scale = (float)((double)rows.scales[row] / LEVELS);
    rows.scales[row] = scale;
    rows.totals[row] = (float)(2.0 * (double)total * (double)scale);
}

// With arrays of its own that are looked up by number, hence apart from the amplitudes.
extern "C" __global__ void fill_lanes(Rows rows)
{
    long long index = item();
    if (index >= rows.n_rows * rows.n_patches) return;
    fill_lane_alias(rows.levels + index * LANES, rows.lane_alias + index * LANES);
}
