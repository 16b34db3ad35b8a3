// Where a point lies, and the FOD interpolated there. Twin of cpu/cells.py.
#pragma once

#include "cones.h"
#include "half_floats.h"
#include "peaks.h"

// What is done before a row of the table is read: on a GPU all of them are filled beforehand.
#ifndef ENSURE_ROW
#define ENSURE_ROW(row)
#endif
// And before it is asked whether the voxel of an interpolant's row is among crossings.
#ifndef ENSURE_CROSSING
#define ENSURE_CROSSING(field, interpolant)
#endif

// Map RAS+ mm to the voxel coordinates of a (3, 4) matrix.
DEVICE void to_voxel(const float* matrix, float x, float y, float z, float& vx, float& vy,
                     float& vz)
{
    vx = matrix[0] * x + matrix[1] * y + matrix[2] * z + matrix[3];
    vy = matrix[4] * x + matrix[5] * y + matrix[6] * z + matrix[7];
    vz = matrix[8] * x + matrix[9] * y + matrix[10] * z + matrix[11];
}

// Floats too large for an int are clamped, without branches: such voxels are outside.
DEVICE int floor_to_int(float v)
{
    return (int)floorf(fminf(fmaxf(v, -1e9f), 1e9f));
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

// The row of the table of a voxel; the last one, of zeros, where there is no FOD.
DEVICE int row_at(const Field& field, int ix, int iy, int iz)
{
    int row = -1;
    if (ix >= 0 && iy >= 0 && iz >= 0 && ix < field.nx && iy < field.ny && iz < field.nz)
        row = field.voxel_rows[voxel_index(field, ix, iy, iz)];
    return row >= 0 ? row : field.n_rows;
}

// Tell whether a voxel position may be on a streamline: 0, LEFT_IMAGE or LEFT_MASK.
DEVICE int enter_voxel(const Field& field, float vx, float vy, float vz)
{
    int ix = nearest_voxel(vx), iy = nearest_voxel(vy), iz = nearest_voxel(vz);
    if (ix < 0 || iy < 0 || iz < 0 || ix >= field.nx || iy >= field.ny || iz >= field.nz)
        return LEFT_IMAGE;
    if (field.mask && !field.mask[voxel_index(field, ix, iy, iz)]) return LEFT_MASK;
    return 0;
}

// How many corners there are to go through: a constant in a kernel compiled for one interpolation.
DEVICE int n_corners(const Settings& settings)
{
    return settings.interpolation == NEAREST ? 1 : 8;
}

// Tell whether a position is in the cell that the FOD was interpolated in.
DEVICE bool is_in_cell(const Settings& settings, const Interpolant& interpolant, float vx, float vy,
                       float vz)
{
    float half = settings.interpolation == NEAREST ? 0.5f : 0.0f;
    return floor_to_int(vx + half) == interpolant.cell[0] &&
           floor_to_int(vy + half) == interpolant.cell[1] &&
           floor_to_int(vz + half) == interpolant.cell[2];
}

// Go to the cell of a position; tell whether it may be another one. Rows of eight voxels are read
// again: to keep them would take as many registers.
DEVICE bool enter_cell(const Field& field, const Settings& settings, Interpolant& interpolant,
                       float vx, float vy, float vz)
{
    bool is_nearest = settings.interpolation == NEAREST;
    if (is_nearest && is_in_cell(settings, interpolant, vx, vy, vz)) return false;
    int ix = is_nearest ? nearest_voxel(vx) : floor_to_int(vx);
    int iy = is_nearest ? nearest_voxel(vy) : floor_to_int(vy);
    int iz = is_nearest ? nearest_voxel(vz) : floor_to_int(vz);
    interpolant.cell[0] = ix;
    interpolant.cell[1] = iy;
    interpolant.cell[2] = iz;
    // What a corner and the next have in common is worked out once.
    bool in_x[2] = {ix >= 0 && ix < field.nx, ix >= -1 && ix + 1 < field.nx};
    bool in_y[2] = {iy >= 0 && iy < field.ny, iy >= -1 && iy + 1 < field.ny};
    bool in_z[2] = {iz >= 0 && iz < field.nz, iz >= -1 && iz + 1 < field.nz};
    const int* first = field.voxel_rows + voxel_index(field, ix, iy, iz);
#pragma unroll
    for (int k = 0; k < 8; k++) {
        if (k >= n_corners(settings)) continue;
        int x = k >> 2, y = (k >> 1) & 1, z = k & 1, row = -1;
        if (in_x[x] && in_y[y] && in_z[z]) row = first[voxel_index(field, x, y, z)];
        interpolant.rows[k] = row >= 0 ? row : field.n_rows;
    }
    return true;
}

// Sixteen bytes of a row, from these of the first row on. The compiler's own instructions work the whole
// address out anew for each.
#ifdef __CUDA_ARCH__

DEVICE uint4 sixteen_bytes(const unsigned short* coefficients, int row)
{
    uint4 words;
    asm("{\n"
        " .reg .u64 at;\n"
        " mad.wide.u32 at, %4, %5, %6;\n"
        " ld.global.nc.v4.u32 {%0, %1, %2, %3}, [at];\n"
        "}"
        : "=r"(words.x), "=r"(words.y), "=r"(words.z), "=r"(words.w)
        : "r"(row), "n"(2 * N_PADDED), "l"(coefficients));
    return words;
}

#else

DEVICE uint4 sixteen_bytes(const unsigned short* coefficients, int row)
{
    return *(const uint4*)(coefficients + (unsigned long long)N_PADDED * (unsigned int)row);
}

#endif

// Eight half floats of a row, as numbers; rows lie where sixteen bytes can be read at once.
#ifndef READ_EIGHT
DEVICE void read_eight(const unsigned short* coefficients, int row, int first, float* values)
{
    const uint4 words = sixteen_bytes(coefficients + first, row);
    const unsigned int all[4] = {words.x, words.y, words.z, words.w};
#pragma unroll
    for (int word = 0; word < 4; word++) {
        values[2 * word] = from_half((unsigned short)(all[word] & 0xFFFFu));
        values[2 * word + 1] = from_half((unsigned short)(all[word] >> 16));
    }
}
#else
DEVICE void read_eight(const unsigned short* coefficients, int row, int first, float* values)
{
    READ_EIGHT(coefficients + first + (unsigned long long)N_PADDED * (unsigned int)row, values);
}
#endif

// The trilinear weights of the voxels around a position.
DEVICE void weigh_corners(float vx, float vy, float vz, float* weights)
{
    float fx = vx - floorf(vx), fy = vy - floorf(vy), fz = vz - floorf(vz);
#pragma unroll
    for (int k = 0; k < 8; k++) {
        float weight = (k >> 2) ? fx : 1.0f - fx;
        weight = weight * (((k >> 1) & 1) ? fy : 1.0f - fy);
        weights[k] = weight * ((k & 1) ? fz : 1.0f - fz);
    }
}

// Find the FOD at a position: its coefficients, their bound, which follows them, and its mean where
// that is asked for.
template <class AnyFod>
DEVICE void mix(const Field& field, const Settings& settings, Interpolant& interpolant, AnyFod& fod,
                float vx, float vy, float vz, bool with_mass = true)
{
    bool is_other = enter_cell(field, settings, interpolant, vx, vy, vz);
    int corner = 0;
    float weights[8];
    if (settings.interpolation == NEAREST) {
        if (!is_other) return;  // many small steps stay in a voxel
    } else {
        float fx = vx - floorf(vx), fy = vy - floorf(vy), fz = vz - floorf(vz);
        weigh_corners(vx, vy, vz, weights);
        corner = (fx >= 0.5f ? 4 : 0) | (fy >= 0.5f ? 2 : 0) | (fz >= 0.5f ? 1 : 0);
    }
#pragma unroll
    for (int k = 0; k < 8; k++)
        if (k < n_corners(settings)) ENSURE_ROW(interpolant.rows[k]);
#pragma unroll AnyFod::AT_ONCE
    for (int first = 0; first <= N_COEFFICIENTS; first += 8) {  // what follows is filling
        float totals[8], values[8];
        read_eight(field.coefficients, interpolant.rows[0], first, totals);
        if (settings.interpolation != NEAREST) {
#pragma unroll
            for (int c = 0; c < 8; c++) totals[c] = weights[0] * totals[c];
#pragma unroll
            for (int k = 1; k < 8; k++) {
                read_eight(field.coefficients, interpolant.rows[k], first, values);
#pragma unroll
                for (int c = 0; c < 8; c++) totals[c] = totals[c] + weights[k] * values[c];
            }
        }
#pragma unroll
        for (int c = 0; c < 8; c++) {
            if (first + c < N_COEFFICIENTS) fod.set(first + c, totals[c]);
            if (first + c == N_COEFFICIENTS) interpolant.bound = totals[c];
        }
    }
    if (settings.min_probability > 0.0f && with_mass) {
        float total = 0.0f;
        if (settings.interpolation == NEAREST) {
            total = field.masses[interpolant.rows[0]];
        } else {
#pragma unroll
            for (int k = 0; k < 8; k++) total += weights[k] * field.masses[interpolant.rows[k]];
        }
        interpolant.mass = total;
    }
    interpolant.row = interpolant.rows[0];
#pragma unroll
    for (int k = 1; k < 8; k++)
        if (k == corner) interpolant.row = interpolant.rows[k];
}

// The FOD of one voxel at a unit vector.
SELDOM float value_of_row(const unsigned short* coefficients, int row, float x, float y, float z)
{
    ENSURE_ROW(row);
    Fod fod;
    float values[8];
#pragma unroll
    for (int first = 0; first < N_COEFFICIENTS; first += 8) {
        read_eight(coefficients, row, first, values);
#pragma unroll
        for (int c = 0; c < 8; c++)
            if (first + c < N_COEFFICIENTS) fod.set(first + c, values[c]);
    }
    return value_at(fod, x, y, z);
}

// The gradient in space of the FOD along a unit vector, per mm, where a line is; of eight voxels.
DEVICE Vector slope_in_space(const Field& field, const Interpolant& interpolant,
                             const StreamlineState& state, float ux, float uy, float uz)
{
    float vx, vy, vz;
    to_voxel(field.to_voxel, state.x, state.y, state.z, vx, vy, vz);
    float fx = vx - floorf(vx), fy = vy - floorf(vy), fz = vz - floorf(vz);
    float gx = 0.0f, gy = 0.0f, gz = 0.0f;
#pragma unroll
    for (int k = 0; k < 8; k++) {
        float value = value_of_row(field.coefficients, interpolant.rows[k], ux, uy, uz);
        float wx = (k >> 2) ? fx : 1.0f - fx;
        float wy = ((k >> 1) & 1) ? fy : 1.0f - fy;
        float wz = (k & 1) ? fz : 1.0f - fz;
        gx = gx + ((k >> 2) ? value : -value) * wy * wz;
        gy = gy + (((k >> 1) & 1) ? value : -value) * wx * wz;
        gz = gz + ((k & 1) ? value : -value) * wx * wy;
    }
    const float* matrix = field.to_voxel;
    Vector slope = {matrix[0] * gx + matrix[4] * gy + matrix[8] * gz,
                    matrix[1] * gx + matrix[5] * gy + matrix[9] * gz,
                    matrix[2] * gx + matrix[6] * gy + matrix[10] * gz};
    return slope;
}
