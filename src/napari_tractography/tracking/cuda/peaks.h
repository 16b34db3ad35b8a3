// Directions of a cone, climbs to the peaks of its lobes, and sums in the order of the CPU.
//
// Twin of cpu/sphere/peaks.py.
#pragma once

#include "cones.h"
#include "tangents.h"

// A direction and its amplitude.
struct Peak {
    float x, y, z, value;
};

// The largest degree of the FOD, at least 2.
DEVICE float degree()
{
    return (float)(LMAX > 2 ? LMAX : 2);
}

// The cosine at a distance from 1, which is in units of 1 / lmax squared.
DEVICE float cosine_of(float distance)
{
    return 1.0f - distance / (degree() * degree());
}

// No peak: what every climb exceeds.
DEVICE Peak nowhere()
{
    Peak peak = {0.0f, 0.0f, 0.0f, NOWHERE};
    return peak;
}

// Climb from a direction to the peak of its lobe within the cone, by Newton's method.
//
// What is reached is no lower than `first`. A climb that cannot exceed a known peak ends.
template <class AnyFod>
DEVICE Peak climb(const AnyFod& fod, float ux, float uy, float uz, float cosine, float sine,
                  Peak first, const Vector& from, const Peak& known)
{
    float x = from.x, y = from.y, z = from.z;
    bool on_border = false;
    const float far = FAR / degree();
#pragma unroll 1
    for (int step = 0; step < CLIMBS; step++) {
        Derivatives d = derivatives_at(fod, x, y, z);
        float rise = 0.0f;
        if (on_border)
            rise = divided(d.gx * (cosine * x - ux) + d.gy * (cosine * y - uy) +
                               d.gz * (cosine * z - uz),
                           sine);
        bool outwards = rise > 0.0f, bent_down;
        float size, gain;
        if (outwards) {
            float ax = uy * z - uz * y, ay = uz * x - ux * z, az = ux * y - uy * x;
            ax = divided(ax, sine);
            ay = divided(ay, sine);
            az = divided(az, sine);
            float slope = d.gx * ax + d.gy * ay + d.gz * az;
            float bend = bend_along(d, ax, ay, az, ax, ay, az);
            bend = bend - outward_slope(d, x, y, z) - divided(rise * cosine, sine);
            float a = slope > 0.0f ? far : -far;
            if (bend < 0.0f) a = divided(-slope, bend);
            a = a > -far ? a : -far;
            a = a < far ? a : far;
            x = x + a * ax;
            y = y + a * ay;
            z = z + a * az;
            size = a * a;
            gain = slope * a;
            bent_down = bend < 0.0f;
        } else {
            Tangents t = tangents_of(x, y, z);
            Slopes s = along_tangents(d, x, y, z, t);
            Step up = newton_step(s);
            bent_down = up.bent_down;
            gain = s.ga * up.a + s.gb * up.b;
            size = up.a * up.a + up.b * up.b;
            if (size > far * far || !bent_down) {
                up = careful_step(s, far);
                size = up.a * up.a + up.b * up.b;
            }
            if (!(size > 0.0f)) break;
            x = x + up.a * t.ax + up.b * t.bx;
            y = y + up.a * t.ay + up.b * t.by;
            z = z + up.a * t.az + up.b * t.bz;
        }
        Vector v = normalised(x, y, z);
        on_border = outwards || ux * v.x + uy * v.y + uz * v.z < cosine;
        if (on_border) v = onto_border(ux, uy, uz, cosine, sine, v.x, v.y, v.z);
        x = v.x;
        y = v.y;
        z = v.z;
        if (size < STILL) break;
        if (x * known.x + y * known.y + z * known.z > cosine_of(BESIDE) &&
            d.value <= known.value)
            break;
        if (bent_down && d.value + HOPE * gain < known.value) break;
    }
    Peak reached = {x, y, z, value_at(fod, x, y, z)};
    return reached.value >= first.value ? reached : first;
}

template <class AnyFod>
DEVICE Peak climb(const AnyFod& fod, float ux, float uy, float uz, float cosine, float sine,
                  const Peak& first, const Peak& known)
{
    Vector from = {first.x, first.y, first.z};
    return climb(fod, ux, uy, uz, cosine, sine, first, from, known);
}

// The j-th of directions spread around the z axis, turned to lie around u.
DEVICE Vector point_in_cone(const Cone& cone, const Tangents& t, int j)
{
    float a = cone.points[j], b = cone.points[cone.n_points + j],
          c = cone.points[2 * cone.n_points + j];
    Vector v = {a * t.ax + b * t.bx + c * cone.ux, a * t.ay + b * t.by + c * cone.uy,
                a * t.az + b * t.bz + c * cone.uz};
    return v;
}

DEVICE bool is_near(const Vector& q, const float* p)
{
    return q.x * p[0] + q.y * p[1] + q.z * p[2] > cosine_of(NEAR);
}

// The peak that a direction leads up to, wherever it is.
template <class AnyFod> DEVICE Peak climb_from(const AnyFod& fod, float ux, float uy, float uz)
{
    Peak first = {ux, uy, uz, value_at(fod, ux, uy, uz)};
    return climb(fod, ux, uy, uz, EVERYWHERE, 0.0f, first, nowhere());
}

// The number whose POINTS_AT_ONCE-th binary digits are those of `turn`, reversed.
DEVICE int reversed(int turn)
{
    int slot = 0;
#pragma unroll
    for (int bit = 1; bit < POINTS_AT_ONCE; bit *= 2) slot = 2 * slot + (turn & bit ? 1 : 0);
    return slot;
}

// A sum in the order of the CPU, which adds POINTS_AT_ONCE numbers side by side and these sums in
// pairs half the width apart, then a quarter, ... Slots are added in the order of their reversed
// digits, where those pairs follow each other: few partial sums are kept at a time.
struct PairwiseSum {
    float partial[LEVELS + 1];
};

// Add the sum of slot `reversed(turn)`; after the last one, partial[LEVELS] is the total.
DEVICE void add_slot(PairwiseSum& sum, int turn, float total)
{
    bool carried = true;
#pragma unroll
    for (int level = 0; level <= LEVELS; level++) {
        bool full = (turn >> level) & 1;
        if (carried && !full) sum.partial[level] = total;
        if (carried && full) total = sum.partial[level] + total;
        carried = carried && full;
    }
}
