// The next direction among the peaks, or by the tensors, of the voxels around a point.
//
// Twin of cpu/vectors/choice.py; stands for starts.h where VECTORS is defined.
#pragma once

#include "eigenvectors.h"
#include "following.h"
#include "interpolation.h"
#include "philox.h"

DEVICE float along(const StreamlineState& state, const Sized& vector)
{
    return state.ux * vector.x + state.uy * vector.y + state.uz * vector.z;
}

// Find the voxels around the last point; return the reason to stop there, or 0.
DEVICE int arrive(const Field& field, const Settings& settings, Interpolant& interpolant,
                   StreamlineState& state, unsigned int)
{
    float vx, vy, vz;
    to_voxel(field.to_voxel, state.x, state.y, state.z, vx, vy, vz);
    enter_cell(field, settings, interpolant, vx, vy, vz);
    state.elsewhere = false;
    int nearest = 0;
    interpolant.weights[0] = 1.0f;
    if (settings.interpolation != NEAREST) {
        float fx = vx - floorf(vx), fy = vy - floorf(vy), fz = vz - floorf(vz);
        weigh_corners(vx, vy, vz, interpolant.weights);
        nearest = (fx >= 0.5f ? 4 : 0) | (fy >= 0.5f ? 2 : 0) | (fz >= 0.5f ? 1 : 0);
    }
    bool has_any = false, has_nearest = false;
    for (int k = 0; k < n_corners(settings); k++) {
        if (interpolant.rows[k] == field.n_rows) continue;
        has_any = true;
        if (k == nearest) has_nearest = true;
    }
    return has_any && (settings.edge != EDGE_VOXEL || has_nearest) ? 0 : NO_FOD;
}

// The random number of the next step, from 0 to 1.
DEVICE float random_word(const Settings& settings, const StreamlineState& state,
                         unsigned int stream)
{
    Words words = philox_block(stream, (unsigned int)state.steps, 0, state.purpose, settings.key_0,
                               settings.key_1);
    return (float)(words.r0 >> 8) * UNIT_24;
}

// The weighted sum of the peaks nearest to a direction, one of each voxel.
//
// Peaks further from it than the cone is wide, or than 60 degrees where that is more, are left out.
static __device__ __noinline__ Sized sum_along(const Field& field, const Settings& settings,
                                               const Interpolant& interpolant, float cosine,
                                               float rx, float ry, float rz)
{
    float sx = 0.0f, sy = 0.0f, sz = 0.0f;
    for (int k = 0; k < n_corners(settings); k++) {
        int row = interpolant.rows[k];
        if (row == field.n_rows) continue;
        float weight = interpolant.weights[k], nearest = cosine < ALIGNED ? cosine : ALIGNED;
        float px = 0.0f, py = 0.0f, pz = 0.0f;
        for (int j = 0; j < field.n_numbers; j += 3) {
            Sized peak = peak_at(field, row, j);
            float near = rx * peak.x + ry * peak.y + rz * peak.z;
            if (peak.size > 0.0f && fabsf(near) > nearest * peak.size) {
                nearest = fabsf(near) / peak.size;
                float scale = near < 0.0f ? -weight : weight;
                px = scale * peak.x;
                py = scale * peak.y;
                pz = scale * peak.z;
            }
        }
        sx = sx + px;
        sy = sy + py;
        sz = sz + pz;
    }
    return sized(sx, sy, sz);
}

// Turn along a sum of peaks; `total` is what all of them weigh. Returns the reason to stop, or 0.
DEVICE int turn_to_sum(const Settings& settings, StreamlineState& state, const Sized& sum,
                       float cosine, float total)
{
    if (!(sum.size > 0.0f) || along(state, sum) < cosine * sum.size) return SHARP_TURN;
    if (sum.size < settings.min_amplitude) return LOW_AMPLITUDE;
    if (!(sum.size > settings.min_probability * total)) return LOW_PROBABILITY;
    face(state, sum.x / sum.size, sum.y / sum.size, sum.z / sum.size);
    return 0;
}

// The largest sum in the cone of the peaks nearest to each.
DEVICE Sized largest_sum(const Field& field, const Settings& settings,
                         const Interpolant& interpolant, const StreamlineState& state,
                         float cosine)
{
    Sized best = {0.0f, 0.0f, 0.0f, 0.0f};
    float aligned = cosine < ALIGNED ? cosine : ALIGNED;
    for (int k = 0; k < n_corners(settings); k++) {
        int row = interpolant.rows[k];
        if (row == field.n_rows) continue;
        for (int j = 0; j < field.n_numbers; j += 3) {
            Sized peak = peak_at(field, row, j);
            float ahead = along(state, peak);
            if (!(peak.size > 0.0f) || fabsf(ahead) < aligned * peak.size) continue;
            float scale = (ahead < 0.0f ? -1.0f : 1.0f) / peak.size;
            Sized sum = sum_along(field, settings, interpolant, cosine, scale * peak.x,
                                  scale * peak.y, scale * peak.z);
            if (sum.size > best.size && along(state, sum) >= cosine * sum.size) best = sum;
        }
    }
    return best;
}

// Turn to the peak in the cone at which the sum of the weights exceeds a number.
DEVICE void turn_to_drawn(const Field& field, const Settings& settings,
                          const Interpolant& interpolant, StreamlineState& state, float cosine,
                          float until)
{
    float so_far = 0.0f;
    bool found = false;
    Sized drawn = {0.0f, 0.0f, 0.0f, 1.0f};
    for (int k = 0; k < n_corners(settings); k++) {
        int row = interpolant.rows[k];
        if (row == field.n_rows) continue;
        for (int j = 0; j < field.n_numbers; j += 3) {
            Sized peak = peak_at(field, row, j);
            float mass = interpolant.weights[k] * peak.size, ahead = along(state, peak);
            if (found || !(mass > 0.0f) || fabsf(ahead) < cosine * peak.size) continue;
            so_far += mass;
            float scale = (ahead < 0.0f ? -1.0f : 1.0f) / peak.size;
            drawn.x = scale * peak.x;
            drawn.y = scale * peak.y;
            drawn.z = scale * peak.z;
            found = so_far > until;
        }
    }
    face(state, drawn.x, drawn.y, drawn.z);
}

// Turn to the main eigenvector of the interpolated tensor, whose amplitude is its FA.
DEVICE int turn_to_eigenvector(const Field& field, const Settings& settings,
                               const Interpolant& interpolant, StreamlineState& state,
                               float cosine)
{
    float xx = 0.0f, yy = 0.0f, zz = 0.0f, xy = 0.0f, xz = 0.0f, yz = 0.0f;
    for (int k = 0; k < n_corners(settings); k++) {
        int row = interpolant.rows[k];
        if (row == field.n_rows) continue;
        float weight = interpolant.weights[k];
        const float* tensor = field.vectors + (long long)row * field.n_numbers;
        xx += weight * tensor[0];
        yy += weight * tensor[1];
        zz += weight * tensor[2];
        xy += weight * tensor[3];
        xz += weight * tensor[4];
        yz += weight * tensor[5];
    }
    float trace = xx + yy + zz;
    if (!(trace > 0.0f)) return NO_FOD;
    xx = xx / trace;
    yy = yy / trace;
    zz = zz / trace;
    xy = xy / trace;
    xz = xz / trace;
    yz = yz / trace;
    float squares = xx * xx + yy * yy + zz * zz;
    squares = squares + (xy * xy + xz * xz + yz * yz) + (xy * xy + xz * xz + yz * yz);
    float anisotropy = 1.5f * (1.0f - (float)(1.0 / 3.0) / squares);  // the square of the FA
    if (!(anisotropy > 0.0f) || sqrtf(anisotropy) < settings.min_amplitude) return LOW_AMPLITUDE;
    float vector[3];
    main_eigenvector(xx, yy, zz, xy, xz, yz, vector);
    float ahead = state.ux * vector[0] + state.uy * vector[1] + state.uz * vector[2];
    if (fabsf(ahead) < cosine) return SHARP_TURN;
    float sign = ahead < 0.0f ? -1.0f : 1.0f;
    face(state, sign * vector[0], sign * vector[1], sign * vector[2]);
    return 0;
}

// What all peaks weigh, what those in the cone do, and the mean over the voxels of the largest of
// these.
struct Masses {
    float total, ahead, amplitude;
};

DEVICE Masses masses_of(const Field& field, const Settings& settings,
                        const Interpolant& interpolant, const StreamlineState& state,
                        float cosine)
{
    Masses masses = {0.0f, 0.0f, 0.0f};
    for (int k = 0; k < n_corners(settings); k++) {
        int row = interpolant.rows[k];
        if (row == field.n_rows) continue;
        float weight = interpolant.weights[k], largest = 0.0f;
        for (int j = 0; j < field.n_numbers; j += 3) {
            Sized peak = peak_at(field, row, j);
            masses.total += weight * peak.size;
            if (!(peak.size > 0.0f) || fabsf(along(state, peak)) < cosine * peak.size) continue;
            masses.ahead += weight * peak.size;
            if (peak.size > largest) largest = peak.size;
        }
        masses.amplitude += weight * largest;
    }
    return masses;
}

// Turn up the gradient of the FOD that peaks make; return the reason to stop, or 0.
DEVICE int follow_peaks(const Field& field, const Settings& settings,
                        const Interpolant& interpolant, StreamlineState& state)
{
    bool is_little = false;
    if (settings.min_probability > 0.0f) {
        Masses masses = masses_of(field, settings, interpolant, state, settings.cone_cosine);
        is_little = !(masses.ahead > settings.min_probability * masses.total);
    }
    int reason = follow(field, settings, interpolant, state);
    return is_little && !reason ? LOW_PROBABILITY : reason;
}

// Turn to the next direction; return the reason to stop, or 0.
DEVICE int choose_among(const Field& field, const Settings& settings,
                        const Interpolant& interpolant, StreamlineState& state, int among,
                        float cosine, float word)
{
    if (field.is_tensor) return turn_to_eigenvector(field, settings, interpolant, state, cosine);
    Masses masses = masses_of(field, settings, interpolant, state, cosine);
    float total = masses.total, ahead = masses.ahead, amplitude = masses.amplitude;
    if (!(total > 0.0f)) return NO_FOD;
    if (among == AMONG_DRAWN) {
        if (!(ahead > settings.min_probability * total)) return LOW_PROBABILITY;
        if (amplitude < settings.min_amplitude) return LOW_AMPLITUDE;
        turn_to_drawn(field, settings, interpolant, state, cosine, word * ahead);
        return 0;
    }
    Sized sum = among == AMONG_NEAREST
                    ? sum_along(field, settings, interpolant, cosine, state.ux, state.uy, state.uz)
                    : largest_sum(field, settings, interpolant, state, cosine);
    return turn_to_sum(settings, state, sum, cosine, total);
}

// Turn a start direction round, or not.
DEVICE void draw_sign(const Settings& settings, StreamlineState& state, unsigned int stream)
{
    Words words = philox_block(stream, 0, 1, state.purpose, settings.key_0, settings.key_1);
    if (words.r0 & 1u) face(state, -state.ux, -state.uy, -state.uz);
}

// Choose the first or the next direction: 0, or the reason to stop. `seed_direction` is that of the
// seed.
DEVICE int direction_among(const Field& field, const Settings& settings,
                           const Interpolant& interpolant, StreamlineState& state,
                           const float* seed_direction, unsigned int stream)
{
    bool starts = state.purpose == PURPOSE_START;
    if (starts && settings.start == START_GIVEN) {
        face(state, seed_direction[0], seed_direction[1], seed_direction[2]);
        return 0;
    }
    if (IS_FOLLOWED(settings.algorithm)) {
        if (!starts) return follow_peaks(field, settings, interpolant, state);
        float word = random_word(settings, state, stream);
        if (!begin_to_follow(field, settings, interpolant, state, word)) return NO_FOD;
        draw_sign(settings, state, stream);
        return 0;
    }
    int among = settings.among_vectors;
    if (starts) among = settings.start == START_MAX ? AMONG_LARGEST : AMONG_DRAWN;
    float cosine = starts ? -1.0f : settings.cone_cosine;
    int reason = choose_among(field, settings, interpolant, state, among, cosine,
                              random_word(settings, state, stream));
    if (reason || !starts) return reason;
    draw_sign(settings, state, stream);
    if (!field.is_tensor && settings.among_vectors == AMONG_NEAREST)
        return choose_among(field, settings, interpolant, state, AMONG_NEAREST, -1.0f, 0.0f);
    return 0;
}

DEVICE void prepare_choice(const Field&, const Settings&, const Interpolant&,
                           StreamlineState& state, const float*)
{
    state.task = CHOOSE;
}

DEVICE void choose(const Field& field, const Settings& settings, const Interpolant& interpolant,
                   StreamlineState& state, const float* seed_direction, unsigned int stream)
{
    int reason =
        direction_among(field, settings, interpolant, state, seed_direction, stream);
    if (reason)
        end(state, reason);
    else
        state.task = state.purpose == PURPOSE_START ? START : MOVE;
}

DEVICE void climb_to_start(const Settings&, StreamlineState&) {}
