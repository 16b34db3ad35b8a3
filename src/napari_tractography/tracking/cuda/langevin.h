// Diffusion and transport: Langevin dynamics of the direction on the sphere. Twin of
// cpu/langevin.py.
#pragma once

#include "drift.h"
#include "probabilistic.h"

// Two standard normal numbers, after Box and Muller (1958).
DEVICE void gaussians(const Settings& settings, unsigned int stream, unsigned int step,
                      unsigned int part, unsigned int purpose, float& p, float& q)
{
    Words words = philox_block(stream, step, part, purpose, settings.key_0, settings.key_1);
    float first = ((float)(words.r0 >> 8) + 1.0f) * UNIT_24;  // in (0, 1]
    int exponent;
    float digits = frexpf(first, &exponent);  // from 1/2 to 1, times a power of two
    float log = (float)(exponent - 1) * LN_2 + log_of_one_and(2.0f * digits - 1.0f);
    float radius = sqrtf(-2.0f * (log < 0.0f ? log : 0.0f));
    Turn turn = turn_of((float)(words.r1 >> 8) * UNIT_24 - 0.5f);
    p = radius * turn.cosine;
    q = radius * turn.sine;
}

// Choose the next direction, and the length of the step; see the table of algorithms.
DEVICE int langevin_direction(const Field& field, const Settings& settings,
                              Interpolant& interpolant, StreamlineState& state,
                              unsigned int stream)
{
    float ux = state.ux, uy = state.uy, uz = state.uz;
    Vector s = {0.0f, 0.0f, 0.0f};
    if (settings.interpolation != NEAREST && settings.look_ahead > 0.0f) {
        s = slope_in_space(field, interpolant, state, ux, uy, uz);
        s.x = settings.look_ahead * s.x;
        s.y = settings.look_ahead * s.y;
        s.z = settings.look_ahead * s.z;
    }
    float before = state.step, roundness = 0.0f, time = 0.0f;
    Vector plane = {0.0f, 0.0f, 0.0f};
    int n_parts = 1;
    bool bends = false;
    // The FOD is looked at in the loop alone: written once, which makes the code a ninth smaller.
#pragma unroll 1
    for (int part = 0; part < n_parts; part++) {
        LogFod f = log_fod(settings, own_fod(), ux, uy, uz, s);
        if (part == 0) {
            if (f.value < settings.min_amplitude || !(f.value > 0.0f)) return LOW_AMPLITUDE;
            if (is_in_doubt(field, settings, interpolant, state)) {
                state.task = WEIGH;
                return AGAIN;
            }
            state.step = settings.adaptive ? adaptive_step(settings, f) : settings.step;
            float left = settings.gamma * state.step;
            float longest = LONGEST_PART;
            if (settings.algorithm == DIFFUSION) {
                float size = settings.gamma_noise * settings.gamma_noise;
                size = size < 1.0f ? size : 1.0f;
                float most = MOST_NOISE / (size > MOST_NOISE ? size : MOST_NOISE);
                longest = longest < most ? longest : most;
            }
            n_parts = (int)ceilf(left / longest);
            time = left / (float)(n_parts > 1 ? n_parts : 1);
            roundness = roundness_at(field, settings, interpolant);
            plane = plane_at(field, settings, interpolant);
        }
        if (!(f.value > 0.0f)) break;
        bool asks = part == 0 && settings.min_roundness > 0.0f;
        float up = 0.0f;
        Vector top = {0.0f, 0.0f, 0.0f};
        if (asks) {
            Vector a_axis = {f.ax, f.ay, f.az}, b_axis = {f.bx, f.by, f.bz};
            up = stride(f.ga - f.sa, f.ha);
            top = tilted(ux, uy, uz, up, stride(f.gb - f.sb, f.hb), a_axis, b_axis);
        }
        bool among = turn_into_plane(plane, f);
        if (asks) bends = top_turns(settings, !among, before, up, top, Vector{f.ax, f.ay, f.az});
        bool keeps = (!bends && keeps_its_side(roundness, f.ga, f.ha, f.hb, f.sa)) ||
                     (among && keeps_in_plane(f.ga, f.hb, f.sa));
        if (among) f.sa = settings.look_in_plane * f.sa;
        float a = (keeps ? f.sa : f.ga) * growth(keeps ? f.hb : f.ha, time);
        float b = f.gb * growth(f.hb, time);
        if (settings.algorithm == DIFFUSION) {
            float p, q;
            gaussians(settings, stream, (unsigned int)state.steps, (unsigned int)part,
                      state.purpose, p, q);
            float size = settings.gamma_noise * settings.gamma_noise;
            // Twice the integral of exp(2 h t); the noise alone is of the order of that of f.
            a += p * sqrtf(2.0f * size * growth(2.0f * f.ha, time));
            b += q * sqrtf(2.0f * size * growth(2.0f * f.hb, time));
        }
        turn_along(f, a, b, ux, uy, uz);
    }
    face_in_cone(settings, state, ux, uy, uz);
    return 0;
}
