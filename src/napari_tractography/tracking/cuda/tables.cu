// The FOD tabulated over directions on the GPU that its coefficients lie on, twin of build_rows in
// tables.py.
//
// The same order of float32 operations, and sums of whole numbers, which need none: the same bits,
// but for softplus, whose exponentials and logarithms are the machine's own. Five kernels, since
// the quantised amplitudes of a row need its largest: find_largest, write_quantised and fill_slots
// have one thread a patch, keep_largest and add_masses one a row.

#include "codes.h"
#include "structs.h"

struct Rows {
    const float* values;  // (n_rows, n_coefficients)
    const float* matrix;  // (n_coefficients, n_half)
    unsigned short* quantised;
    unsigned int* alias;
    unsigned short* slot_alias;
    unsigned short* mass_fractions;
    float* largest;  // amplitude of each patch, where the alias table will be
    unsigned short* patch_maxima;
    float* quanta;  // the largest amplitude of the row, until amplitudes are quantised
    float* totals;
    long long n_rows;
    int n_coefficients;
    int n_half;
    int n_patches;
    int n_groups;
    float sharpness;  // of softplus; 0 clips
};

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
    int first = patch * PATCH_SIZE;
    int n = rows.n_half - first < PATCH_SIZE ? rows.n_half - first : PATCH_SIZE;
    const float* values = rows.values + row * rows.n_coefficients;
#pragma unroll
    for (int j = 0; j < PATCH_SIZE; j++) amplitudes[j] = 0.0f;
    for (int k = 0; k < rows.n_coefficients; k++) {
        const float* weights = rows.matrix + (long long)k * rows.n_half + first;
        float coefficient = values[k];
#pragma unroll
        for (int j = 0; j < PATCH_SIZE; j++)
            if (j < n) amplitudes[j] += coefficient * weights[j];
    }
#pragma unroll
    for (int j = 0; j < PATCH_SIZE; j++)
        amplitudes[j] = j < n ? positive(amplitudes[j], rows.sharpness) : 0.0f;
    return n;
}

extern "C" __global__ void find_largest(Rows rows)
{
    long long index = item();
    if (index >= rows.n_rows * rows.n_patches) return;
    long long row = index / rows.n_patches;
    int patch = (int)(index % rows.n_patches);
    float amplitudes[PATCH_SIZE];
    evaluate_patch(rows, row, patch, amplitudes);
    float largest = 0.0f;
#pragma unroll
    for (int j = 0; j < PATCH_SIZE; j++)
        largest = amplitudes[j] > largest ? amplitudes[j] : largest;
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
    rows.quanta[row] = largest;
}

DEVICE long long mass_of(const Rows& rows, long long row, int patch)
{
    const unsigned short* quantised = rows.quantised + (row * rows.n_patches + patch) * PATCH_SIZE;
    unsigned int mass = 0;
#pragma unroll
    for (int j = 0; j < PATCH_SIZE; j++) mass += quantised[j];
    return (long long)mass;
}

// The threshold of a column, own / total, in the high bits of an entry, the low ones being zero.
DEVICE unsigned int threshold_of(long long own, long long total)
{
    const int bits = 32 - ALIAS_BITS;
    long long most = (1ll << bits) - 1, threshold = ((own << bits) + total / 2) / total;
    return (unsigned int)(threshold < most ? threshold : most) << ALIAS_BITS;
}

// Masses to make an alias table of: of the patches of a row, and of the slots of a patch.
struct OfPatches {
    const Rows& rows;
    long long row;
    __device__ long long operator()(int patch) const { return mass_of(rows, row, patch); }
};
struct OfSlots {
    const int* units;
    __device__ long long operator()(int slot) const { return units[slot]; }
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
            if (own < total) alias[light] = threshold_of(own, total) | (unsigned int)heavy;
            left -= total - own;
            light = next_of(masses, n, light + 1, false, total);
        } else {
            int following = next_of(masses, n, heavy + 1, true, total);
            if (following < n) {
                if (left < total)
                    alias[heavy] = threshold_of(left, total) | (unsigned int)following;
                left += masses(following) * n - total;
            }
            heavy = following;
        }
    }
}

// The alias table of a patch, as fill_slot_alias in tables.py.
DEVICE void fill_slot_alias(const unsigned short* quantised, unsigned short* slot_alias)
{
    const long long all = (long long)PATCH_SIZE << THRESHOLD_BITS;
    int units[PATCH_SIZE];
    unsigned int entries[PATCH_SIZE];
    long long mass = 0, running = 0, below = 0;
    for (int slot = 0; slot < PATCH_SIZE; slot++) mass += quantised[slot];
    for (int slot = 0; slot < PATCH_SIZE; slot++) {
        running += quantised[slot];
        long long upto = mass ? (2 * all * running + mass) / (2 * mass) : 0;
        units[slot] = (int)(upto - below);
        below = upto;
    }
    OfSlots of_slots = {units};
    fill_alias(of_slots, PATCH_SIZE, mass ? all : 0, entries);
    for (int slot = 0; slot < PATCH_SIZE; slot++)
        slot_alias[slot] =
            (unsigned short)(((entries[slot] >> (32 - THRESHOLD_BITS)) << SLOT_BITS) |
                             (entries[slot] & (PATCH_SIZE - 1u)));
}

extern "C" __global__ void write_quantised(Rows rows)
{
    long long index = item();
    if (index >= rows.n_rows * rows.n_patches) return;
    long long row = index / rows.n_patches;
    int patch = (int)(index % rows.n_patches);
    float amplitudes[PATCH_SIZE];
    evaluate_patch(rows, row, patch, amplitudes);
    float largest = rows.quanta[row];
    double factor = largest > 0.0f ? FULL_SCALE / (double)largest : 0.0;
    unsigned short* quantised = rows.quantised + index * PATCH_SIZE;
    unsigned int maximum = 0;
#pragma unroll
    for (int j = 0; j < PATCH_SIZE; j++) {
        unsigned int value = (unsigned int)((double)amplitudes[j] * factor + 0.5);
        quantised[j] = (unsigned short)value;
        maximum = value > maximum ? value : maximum;
    }
    rows.patch_maxima[row * rows.n_groups * PATCH_SIZE + patch] = (unsigned short)maximum;
}

extern "C" __global__ void add_masses(Rows rows)
{
    long long row = item();
    if (row >= rows.n_rows) return;
    long long total = 0;
    for (int patch = 0; patch < rows.n_patches; patch++) total += mass_of(rows, row, patch);
    OfPatches of_patches = {rows, row};
    fill_alias(of_patches, rows.n_patches, total, rows.alias + row * rows.n_patches);
    for (int patch = 0; patch < rows.n_patches; patch++)
        rows.mass_fractions[row * rows.n_patches + patch] = (unsigned short)(
            total ? mass_of(rows, row, patch) * MASS_UNITS / (2 * total) : 0);
    float quantum = (float)((double)rows.quanta[row] / FULL_SCALE);
    rows.quanta[row] = quantum;
    rows.totals[row] = (float)(2.0 * (double)total * (double)quantum);
}

// With arrays of its own that are looked up by number, hence apart from the amplitudes.
extern "C" __global__ void fill_slots(Rows rows)
{
    long long index = item();
    if (index >= rows.n_rows * rows.n_patches) return;
    fill_slot_alias(rows.quantised + index * PATCH_SIZE, rows.slot_alias + index * PATCH_SIZE);
}
