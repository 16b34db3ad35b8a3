// Where a point lies, and the FOD interpolated there.
//
// Twin of draw.py and patches.py, whose order of additions it keeps.
#pragma once

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

// Find the voxels whose FODs mix at a position, and their trilinear weights; tell whether there
// are any.
DEVICE bool locate(const Field& field, int interpolation, Scratch& scratch, float vx, float vy,
                   float vz)
{
    if (interpolation == NEAREST) {
        int ix = nearest_voxel(vx), iy = nearest_voxel(vy), iz = nearest_voxel(vz);
        if (ix != scratch.cell[0] || iy != scratch.cell[1] || iz != scratch.cell[2]) {
            scratch.cell[0] = ix;  // many small steps stay in a voxel
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

// Add up the terms of the corners: pairs, then pairs of pairs.
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

// Interpolate the amplitudes of a patch.
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
