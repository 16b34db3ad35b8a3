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
    long long n_rows;
    int n_points;
};

DEVICE Vector point(const Rows& rows, int j)
{
    const float* points = rows.sphere_points;
    Vector v = {points[j], points[rows.n_points + j], points[2 * rows.n_points + j]};
    return v;
}

// Write the coefficients of a row, rounded to half floats, and return them as they are read.
DEVICE Fod write_coefficients(const Rows& rows, long long row)
{
    const float* values = rows.values + row * N_COEFFICIENTS;
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
    rows.masses[row] = sum.partial[LEVELS] / (float)rows.n_points;
}
