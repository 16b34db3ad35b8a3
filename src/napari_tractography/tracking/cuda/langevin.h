// Diffusion and transport: Langevin dynamics of the direction on the sphere. Twin of langevin.py.
//
// Sines, cosines, logarithms and exponentials are the machine's own, which differ in the last bits
// between machines: here, and only here, results agree within a tolerance.
#pragma once

#include "cones.h"
#include "philox.h"

struct Slope {
    float value, gx, gy, gz;  // the FOD and its gradient
};

// The direction of the set nearest to a unit vector: uphill in cosine from i.
DEVICE int nearest_index(const Field& field, int i, float ux, float uy, float uz)
{
    const float* unit = field.directions + 3 * i;
    float best = unit[0] * ux + unit[1] * uy + unit[2] * uz;
    for (;;) {
        int start = i;
        for (int n = 0; n < N_NEIGHBOURS; n++) {
            int j = field.neighbours[start * N_NEIGHBOURS + n];
            unit = field.directions + 3 * j;
            float cosine = unit[0] * ux + unit[1] * uy + unit[2] * uz;
            if (cosine > best) {
                best = cosine;
                i = j;
            }
        }
        if (i == start) return i;
    }
}

// The interpolated amplitude of one direction of the full set.
DEVICE float amplitude_of(const Field& field, const Settings& settings, const Scratch& scratch,
                          int i)
{
    return mixed(field.quantised, field.n_patches * PATCH_SIZE, scratch.corners,
                 n_corners(settings), i >= field.n_half ? i - field.n_half : i);
}

// FOD and gradient at a unit vector near direction i, from the table, to second order. The gradient
// is that of a function of space that agrees with the FOD on the sphere.
DEVICE Slope tabulated_fod(const Field& field, const Settings& settings, const Scratch& scratch,
                           int i, float ux, float uy, float uz)
{
    float centre = amplitude_of(field, settings, scratch, i);
    float fa = 0.0f, fb = 0.0f, faa = 0.0f, fab = 0.0f, fbb = 0.0f;
    for (int m = 0; m < N_NEIGHBOURS; m++) {
        int neighbour = field.neighbours[i * N_NEIGHBOURS + m];
        float difference = amplitude_of(field, settings, scratch, neighbour) - centre;
        const float* slopes = field.slopes + (i * N_NEIGHBOURS + m) * 5;
        fa += slopes[0] * difference;
        fb += slopes[1] * difference;
        faa += slopes[2] * difference;
        fab += slopes[3] * difference;
        fbb += slopes[4] * difference;
    }
    const float* tangent = field.tangents + 6 * i;
    float a = tangent[0] * ux + tangent[1] * uy + tangent[2] * uz;
    float b = tangent[3] * ux + tangent[4] * uy + tangent[5] * uz;
    float along_a = fa + faa * a + fab * b;
    float along_b = fb + fab * a + fbb * b;
    float value = centre + 0.5f * (a * (fa + along_a) + b * (fb + along_b));
    Slope slope;
    slope.gx = along_a * tangent[0] + along_b * tangent[3];
    slope.gy = along_a * tangent[1] + along_b * tangent[4];
    slope.gz = along_a * tangent[2] + along_b * tangent[5];
    slope.value = value > 0.0f ? value : 0.0f;
    return slope;
}

// An interpolated SH coefficient.
DEVICE float mixed_harmonic(const Field& field, const Settings& settings, const Scratch& scratch,
                            int c)
{
    float total = 0.0f;
#pragma unroll
    for (int k = 0; k < 8; k++) {
        if (k < n_corners(settings) && scratch.weights[k] > 0.0f)
            total += scratch.weights[k] *
                     field.harmonics[(long long)scratch.corners.rows[k] * field.n_coefficients + c];
    }
    return total;
}

// One step up in degree of a derivative of order `order` of the Legendre polynomials.
DEVICE float next_legendre(int degree, int order, float z, float below, float below_that)
{
    if (degree == order) return 1.0f;
    if (degree == order + 1) return (float)(2 * order + 1) * z;
    return ((float)(2 * degree - 1) * z * below - (float)(degree + order - 1) * below_that) /
           (float)(degree - order);
}

// Even harmonics and their gradient in space at a unit vector, in the basis of polynomials.py.
DEVICE Slope evaluate_harmonics(const Field& field, const Settings& settings,
                                const Scratch& scratch, float x, float y, float z)
{
    Slope slope = {0.0f, 0.0f, 0.0f, 0.0f};
    float cos_m = 1.0f, sin_m = 0.0f;  // Re and Im of (x + i y)^m
    float cos_below = 0.0f, sin_below = 0.0f;  // of the power m - 1
    for (int m = 0; m <= field.lmax; m++) {
        float polar = 0.0f, polar_below = 0.0f;  // derivative of order m, by degree
        float steep = 0.0f, steep_below = 0.0f;  // of order m + 1
        for (int degree = m; degree <= field.lmax; degree++) {
            float next = next_legendre(degree, m, z, polar, polar_below);
            polar_below = polar;
            polar = next;
            if (degree > m) {
                next = next_legendre(degree, m + 1, z, steep, steep_below);
                steep_below = steep;
                steep = next;
            }
            if (degree & 1) continue;
            int centre = degree * (degree + 1) / 2;
            float cosine = mixed_harmonic(field, settings, scratch, centre + m);
            float sine = m > 0 ? mixed_harmonic(field, settings, scratch, centre - m) : 0.0f;
            float angular = cosine * cos_m + sine * sin_m;
            slope.value += polar * angular;
            if (m > 0) {
                float scaled = (float)m * polar;
                slope.gx += scaled * (cosine * cos_below + sine * sin_below);
                slope.gy += scaled * (sine * cos_below - cosine * sin_below);
            }
            if (degree > m) slope.gz += (float)(2 * m + 1) * steep * angular;
        }
        cos_below = cos_m;
        sin_below = sin_m;
        cos_m = x * cos_below - y * sin_below;
        sin_m = x * sin_below + y * cos_below;
    }
    return slope;
}

// FOD and gradient at a unit vector from the interpolated SH coefficients.
DEVICE Slope direct_fod(const Field& field, const Settings& settings, const Scratch& scratch,
                        float ux, float uy, float uz)
{
    const float* turn = field.to_frame;
    float vx = turn[0] * ux + turn[1] * uy + turn[2] * uz;
    float vy = turn[3] * ux + turn[4] * uy + turn[5] * uz;
    float vz = turn[6] * ux + turn[7] * uy + turn[8] * uz;
    Slope own = evaluate_harmonics(field, settings, scratch, vx, vy, vz);
    Slope slope;
    slope.value = own.value;
    slope.gx = turn[0] * own.gx + turn[3] * own.gy + turn[6] * own.gz;
    slope.gy = turn[1] * own.gx + turn[4] * own.gy + turn[7] * own.gz;
    slope.gz = turn[2] * own.gx + turn[5] * own.gy + turn[8] * own.gz;
    if (settings.positivity == SOFTPLUS) {
        float scaled = SHARPNESS * slope.value;
        float small = expf(-fabsf(scaled));
        float factor = (scaled > 0.0f ? 1.0f : small) / (1.0f + small);
        slope.value = ((scaled > 0.0f ? scaled : 0.0f) + log1pf(small)) / SHARPNESS;
        slope.gx = factor * slope.gx;
        slope.gy = factor * slope.gy;
        slope.gz = factor * slope.gz;
        return slope;
    }
    slope.value = slope.value > 0.0f ? slope.value : 0.0f;
    return slope;
}

// Two standard normal numbers, after Box and Muller (1958).
DEVICE void gaussians(const Settings& settings, unsigned int stream, unsigned int step,
                      unsigned int purpose, float& a, float& b)
{
    Words words = philox_block(stream, step, 0, purpose, settings.key_0, settings.key_1);
    float first = ((float)(words.r0 >> 8) + 1.0f) * UNIT_24;  // in (0, 1]
    float angle = TWO_PI * ((float)(words.r1 >> 8) * UNIT_24);
    float radius = sqrtf(-2.0f * logf(first));
    a = radius * cosf(angle);
    b = radius * sinf(angle);
}

// Turn the direction by one step of the dynamics.
//
// Returns the direction of the set nearest to the new one, or minus a stop reason; changes the unit
// vector, and the length of the step in mm.
DEVICE int turn_direction(const Field& field, const Settings& settings, const Scratch& scratch,
                          int i, float& ux, float& uy, float& uz, float& length, float limit,
                          unsigned int stream, unsigned int step, unsigned int purpose)
{
    Slope slope = settings.evaluation == DIRECT
                      ? direct_fod(field, settings, scratch, ux, uy, uz)
                      : tabulated_fod(field, settings, scratch, i, ux, uy, uz);
    float value = slope.value, gx = slope.gx, gy = slope.gy, gz = slope.gz;
    length = settings.step;
    if (value < settings.min_amplitude || !(value > 0.0f)) return -LOW_AMPLITUDE;
    if (amplitude_of(field, settings, scratch, i) <= limit &&
        below_cone_mass(field, settings, scratch, i, limit))
        return -LOW_PROBABILITY;
    float along = gx * ux + gy * uy + gz * uz;
    float dx = (gx - along * ux) / value, dy = (gy - along * uy) / value,
          dz = (gz - along * uz) / value;
    if (settings.adaptive) {
        float steepness = dx * dx + dy * dy + dz * dz;
        steepness = steepness > 1.0f ? steepness : 1.0f;
        length = settings.step * LONGEST / (steepness < STEEPEST ? steepness : STEEPEST);
    }
    float drift = settings.gamma * length;
    float tx = drift * dx, ty = drift * dy, tz = drift * dz;
    if (settings.algorithm == DIFFUSION) {
        float a, b;
        gaussians(settings, stream, step, purpose, a, b);
        float size = sqrtf(2.0f * drift) * settings.gamma_noise;
        a = size * a;
        b = size * b;
        float sign = uz >= 0.0f ? 1.0f : -1.0f;
        float s = -1.0f / (sign + uz);
        float t = ux * uy * s;
        tx += a * (1.0f + sign * ux * ux * s) + b * t;
        ty += a * sign * t + b * (sign + uy * uy * s);
        tz += -a * sign * ux - b * uy;
    }
    float angle = sqrtf(tx * tx + ty * ty + tz * tz);
    if (angle > 0.0f) {
        float turned = angle < settings.max_angle ? angle : settings.max_angle;
        float cosine = cosf(turned);
        float sine = sinf(turned) / angle;
        ux = cosine * ux + sine * tx;
        uy = cosine * uy + sine * ty;
        uz = cosine * uz + sine * tz;
        float norm = sqrtf(ux * ux + uy * uy + uz * uz);
        ux = ux / norm;
        uy = uy / norm;
        uz = uz / norm;
        i = nearest_index(field, i, ux, uy, uz);
    }
    return i;
}

// Choose the next direction; see the table of algorithms.
DEVICE int langevin_direction(const Field& field, const Settings& settings, Scratch& scratch,
                              Walk& walk, float limit, unsigned int stream, unsigned int purpose)
{
    return turn_direction(field, settings, scratch, walk.i, walk.ux, walk.uy, walk.uz, walk.step,
                          limit, stream, walk.steps, purpose);
}
