// Peaks followed up the gradient of an FOD that they make. Twin of cpu/vectors/following.py.
#pragma once

#include "drift.h"
#include "interpolation.h"

// A vector, and its length.
struct Sized {
    float x, y, z, size;
};

DEVICE Sized sized(float x, float y, float z)
{
    Sized vector = {x, y, z, sqrtf(x * x + y * y + z * z)};
    return vector;
}

// Peak number j of a row.
DEVICE Sized peak_at(const Field& field, int row, int j)
{
    const float* vector = field.vectors + (long long)row * field.n_numbers + j;
    return sized(vector[0], vector[1], vector[2]);
}

// The direction of the peak of a voxel that is nearest to another, turned to that side, its length,
// 0 where none is near enough, and the cosine of the angle.
struct NearestPeak {
    float x, y, z, size, cosine;
};

DEVICE NearestPeak nearest_peak(const Field& field, int row, float ux, float uy, float uz)
{
    NearestPeak nearest = {0.0f, 0.0f, 0.0f, 0.0f, ALIGNED};
    for (int j = 0; j < field.n_numbers; j += 3) {
        Sized peak = peak_at(field, row, j);
        float ahead = ux * peak.x + uy * peak.y + uz * peak.z;
        if (peak.size > 0.0f && fabsf(ahead) > nearest.cosine * peak.size) {
            float scale = (ahead < 0.0f ? -1.0f : 1.0f) / peak.size;
            nearest.x = scale * peak.x;
            nearest.y = scale * peak.y;
            nearest.z = scale * peak.z;
            nearest.size = peak.size;
            nearest.cosine = fabsf(ahead) / peak.size;
        }
    }
    return nearest;
}

DEVICE float to_the_eighth(float cosine)
{
    float square = cosine * cosine;
    float fourth = square * square;
    return fourth * fourth;
}

// The FOD along a direction.
static __device__ __noinline__ float amplitude_along(const Field& field, const Settings& settings,
                                                     const Interpolant& interpolant, float ux,
                                                     float uy, float uz)
{
    float value = 0.0f;
    for (int k = 0; k < n_corners(settings); k++) {
        int row = interpolant.rows[k];
        if (row == field.n_rows) continue;
        NearestPeak peak = nearest_peak(field, row, ux, uy, uz);
        value += interpolant.weights[k] * (peak.size * to_the_eighth(peak.cosine));
    }
    return value;
}

// Its gradient in space along the current direction, per mm; of eight voxels.
DEVICE Vector slope_of_peaks(const Field& field, const Interpolant& interpolant,
                             const StreamlineState& state)
{
    float vx, vy, vz;
    to_voxel(field.to_voxel, state.x, state.y, state.z, vx, vy, vz);
    float fx = vx - floorf(vx), fy = vy - floorf(vy), fz = vz - floorf(vz);
    float gx = 0.0f, gy = 0.0f, gz = 0.0f;
    for (int k = 0; k < 8; k++) {
        int row = interpolant.rows[k];
        if (row == field.n_rows) continue;
        NearestPeak peak = nearest_peak(field, row, state.ux, state.uy, state.uz);
        float value = peak.size * to_the_eighth(peak.cosine);
        float wx = (k >> 2) ? fx : 1.0f - fx;
        float wy = ((k >> 1) & 1) ? fy : 1.0f - fy;
        float wz = (k & 1) ? fz : 1.0f - fz;
        gx += ((k >> 2) ? value : -value) * wy * wz;
        gy += (((k >> 1) & 1) ? value : -value) * wx * wz;
        gz += ((k & 1) ? value : -value) * wx * wy;
    }
    const float* matrix = field.to_voxel;
    Vector slope = {matrix[0] * gx + matrix[4] * gy + matrix[8] * gz,
                    matrix[1] * gx + matrix[5] * gy + matrix[9] * gz,
                    matrix[2] * gx + matrix[6] * gy + matrix[10] * gz};
    return slope;
}

// The FOD along a direction, and derivatives of its logarithm. The vector s is added to its gradient:
// what look_ahead sees.
static __device__ __noinline__ LogFod log_of_peaks(const Field& field, const Settings& settings,
                                                   const Interpolant& interpolant, float ux,
                                                   float uy, float uz, Vector s)
{
    Tangents t = tangents_of(ux, uy, uz);
    float value = 0.0f;
    Slopes sums = {0.0f, 0.0f, 0.0f, 0.0f, 0.0f};
    for (int k = 0; k < n_corners(settings); k++) {
        int row = interpolant.rows[k];
        if (row == field.n_rows) continue;
        float weight = interpolant.weights[k];
        NearestPeak peak = nearest_peak(field, row, ux, uy, uz);
        float square = peak.cosine * peak.cosine;
        float sixth = square * square * square;
        value += weight * (peak.size * to_the_eighth(peak.cosine));
        float first = weight * peak.size * (sixth * peak.cosine);
        float second = weight * peak.size * sixth;
        float pa = peak.x * t.ax + peak.y * t.ay + peak.z * t.az;
        float pb = peak.x * t.bx + peak.y * t.by + peak.z * t.bz;
        sums.ga += first * pa;
        sums.gb += first * pb;
        sums.haa += second * pa * pa;
        sums.hab += second * pa * pb;
        sums.hbb += second * pb * pb;
    }
    float down = 8.0f * value;  // the sphere bends away from its tangents
    Slopes slopes = {8.0f * sums.ga, 8.0f * sums.gb, 56.0f * sums.haa - down, 56.0f * sums.hab,
                     56.0f * sums.hbb - down};
    float sa = s.x * t.ax + s.y * t.ay + s.z * t.az;
    float sb = s.x * t.bx + s.y * t.by + s.z * t.bz;
    return along_axes(value, slopes, sa, sb, t);
}

// Turn by one step of the dynamics, and choose its length; return the reason to stop, or 0.
DEVICE int follow(const Field& field, const Settings& settings, const Interpolant& interpolant,
                  StreamlineState& state)
{
    float ux = state.ux, uy = state.uy, uz = state.uz;
    Vector s = {0.0f, 0.0f, 0.0f};
    if (settings.interpolation != NEAREST && settings.look_ahead > 0.0f) {
        s = slope_of_peaks(field, interpolant, state);
        s.x = settings.look_ahead * s.x;
        s.y = settings.look_ahead * s.y;
        s.z = settings.look_ahead * s.z;
    }
    LogFod f = log_of_peaks(field, settings, interpolant, ux, uy, uz, s);
    if (f.value < settings.min_amplitude || !(f.value > 0.0f)) return LOW_AMPLITUDE;
    state.step = settings.adaptive ? adaptive_step(settings, f) : settings.step;
    float left = settings.gamma * state.step;
    int n_parts = (int)ceilf(left / LONGEST_PART);
    float time = left / (float)(n_parts > 1 ? n_parts : 1);
    for (int part = 0; part < n_parts; part++) {
        if (part) {
            f = log_of_peaks(field, settings, interpolant, ux, uy, uz, s);
            if (!(f.value > 0.0f)) break;
        }
        float a = f.ga * growth(f.ha, time), b = f.gb * growth(f.hb, time);
        turn_along(f, a, b, ux, uy, uz);
    }
    face_in_cone(settings, state, ux, uy, uz);
    return 0;
}

// Turn to a peak around along which the FOD is large enough, drawn in proportion to its amplitude
// times the weight of its voxel, or that along which it is largest; tell whether there is one.
DEVICE bool begin_to_follow(const Field& field, const Settings& settings,
                            const Interpolant& interpolant, StreamlineState& state, float word)
{
    float ux = state.ux, uy = state.uy, uz = state.uz;
    float total = 0.0f, most = 0.0f, until = 0.0f;
    bool found = false;
    for (int again = 0; again < 2; again++) {
        float so_far = 0.0f;
        for (int k = 0; k < n_corners(settings); k++) {
            int row = interpolant.rows[k];
            if (row == field.n_rows) continue;
            for (int j = 0; j < field.n_numbers; j += 3) {
                Sized peak = peak_at(field, row, j);
                float mass = interpolant.weights[k] * peak.size;
                if (found || !(mass > 0.0f)) continue;
                float ahead = ux * peak.x + uy * peak.y + uz * peak.z;
                float scale = (ahead < 0.0f ? -1.0f : 1.0f) / peak.size;
                float x = scale * peak.x, y = scale * peak.y, z = scale * peak.z;
                float value = amplitude_along(field, settings, interpolant, x, y, z);
                if (value < settings.min_amplitude || !(value > 0.0f)) continue;
                so_far += mass;
                if (settings.start == START_MAX) {
                    if (!(value > most)) continue;
                    most = value;
                    face(state, x, y, z);
                } else if (again) {
                    face(state, x, y, z);
                    found = so_far > until;
                }
            }
        }
        if (settings.start == START_MAX) return most > 0.0f;
        if (!again) total = so_far;
        until = word * total;
    }
    return total > 0.0f;
}
