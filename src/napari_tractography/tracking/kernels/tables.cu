// The FOD tabulated over directions where its coefficients lie, twin of build_rows in tables.py.
//
// The same order of float32 operations, and sums of whole numbers, which need none: the same bits,
// but for softplus, whose exponentials and logarithms every machine has its own of. One after the
// other, since a row's levels need its largest amplitude: find_largest and write_levels have one
// thread a patch, keep_largest and add_levels one a row.

#include "codes.h"

struct Rows {
    const float* values;  // (n_rows, n_coefficients)
    const float* matrix;  // (n_coefficients, n_half)
    unsigned short* levels;
    float* sums;  // until the levels are there: the largest amplitude of each patch
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
    rows.sums[row * rows.n_groups * LANES + patch] = largest;
}

extern "C" __global__ void keep_largest(Rows rows)
{
    long long row = item();
    if (row >= rows.n_rows) return;
    const float* of_patches = rows.sums + row * rows.n_groups * LANES;
    float largest = 0.0f;
    for (int patch = 0; patch < rows.n_patches; patch++)
        largest = of_patches[patch] > largest ? of_patches[patch] : largest;
    rows.scales[row] = largest;
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
    unsigned int mass = 0, top = 0;
#pragma unroll
    for (int j = 0; j < LANES; j++) {
        unsigned int level = (unsigned int)((double)amplitudes[j] * factor + 0.5);
        levels[j] = (unsigned short)level;
        mass += level;
        top = level > top ? level : top;
    }
    rows.sums[row * rows.n_groups * LANES + patch] = (float)mass;
    rows.tops[row * rows.n_groups * LANES + patch] = (unsigned short)top;
}

extern "C" __global__ void add_levels(Rows rows)
{
    long long row = item();
    if (row >= rows.n_rows) return;
    const float* sums = rows.sums + row * rows.n_groups * LANES;
    long long total = 0;  // of whole numbers below 2^24
    for (int patch = 0; patch < rows.n_patches; patch++) total += (long long)sums[patch];
    float scale = (float)((double)rows.scales[row] / LEVELS);
    rows.scales[row] = scale;
    rows.totals[row] = (float)(2.0 * (double)total * (double)scale);
}
