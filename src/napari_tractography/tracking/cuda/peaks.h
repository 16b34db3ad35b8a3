// The largest amplitude in a cone: sampled at directions spread over it, then climbed to.
//
// Twin of cpu/sphere/peaks.py. Sampled amplitudes are not kept but worked out again.
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
DEVICE Peak climb(const Fod& fod, float ux, float uy, float uz, float cosine, float sine,
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
            rise = (d.gx * (cosine * x - ux) + d.gy * (cosine * y - uy) +
                    d.gz * (cosine * z - uz)) /
                   sine;
        bool outwards = rise > 0.0f, bent_down;
        float size, gain;
        if (outwards) {
            float ax = uy * z - uz * y, ay = uz * x - ux * z, az = ux * y - uy * x;
            ax = ax / sine;
            ay = ay / sine;
            az = az / sine;
            float slope = d.gx * ax + d.gy * ay + d.gz * az;
            float bend = bend_along(d, ax, ay, az, ax, ay, az);
            bend = bend - outward_slope(d, x, y, z) - rise * cosine / sine;
            float a = slope > 0.0f ? far : -far;
            if (bend < 0.0f) a = -slope / bend;
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

DEVICE Peak climb(const Fod& fod, float ux, float uy, float uz, float cosine, float sine,
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

DEVICE bool is_near(const Vector& q, const Peak& p)
{
    return q.x * p.x + q.y * p.y + q.z * p.z > cosine_of(NEAR);
}

// The largest amplitude seen at the directions of a cone that may follow, NOWHERE without any; of
// equal ones the first. With `climbed`, what is near one of these four directions is left out.
DEVICE Peak largest_seen(const Fod& fod, const Cone& cone, float sharpness, const Peak* climbed)
{
    Tangents t = tangents_of(cone.ux, cone.uy, cone.uz);
    int i = index_of(cone), best_index = 0;
    float best = NOWHERE;
#pragma unroll 1
    for (int j = 0; j < cone.n_points; j++) {
        Vector q = point_in_cone(cone, t, j);
        if (climbed && (is_near(q, climbed[0]) || is_near(q, climbed[1]) ||
                        is_near(q, climbed[2]) || is_near(q, climbed[3])))
            continue;
        float value = positive(sharpness, value_at(fod, q.x, q.y, q.z));
        if (value > best && may_follow(cone, i, q.x, q.y, q.z)) {
            best = value;
            best_index = j;
        }
    }
    Vector q = point_in_cone(cone, t, best_index);
    Peak seen = {q.x, q.y, q.z, best};
    return seen;
}

// The largest amplitude in a cone: the best of those that the best seen lead up to.
DEVICE Peak largest_in_cone(const Fod& fod, const Cone& cone, float cosine, float sine)
{
    Peak climbed[4] = {};  // where climbs led and began
    Peak best = {0.0f, 0.0f, 0.0f, NOWHERE};
#pragma unroll 1
    for (int lobe = 0; lobe < LOBES; lobe++) {
        Peak first = largest_seen(fod, cone, 0.0f, climbed);
        if (first.value <= PROMISING * best.value || first.value == NOWHERE) break;
        Peak peak = climb(fod, cone.ux, cone.uy, cone.uz, cosine, sine, first, nowhere());
        if (peak.value > best.value) best = peak;
        climbed[2] = climbed[0];
        climbed[3] = climbed[1];
        climbed[0] = peak;
        climbed[1] = first;
    }
    return best;
}

// The square of the FOD's slope at a direction, per radian, where it is steepest.
DEVICE float squared_slope(const Fod& fod, const Peak& at)
{
    Derivatives d = derivatives_at(fod, at.x, at.y, at.z);
    float along = d.gx * at.x + d.gy * at.y + d.gz * at.z;
    return d.gx * d.gx + d.gy * d.gy + d.gz * d.gz - along * along;
}

// The largest amplitude in a cone and its direction; of one that is a function, the largest sample.
DEVICE Peak find_peak(const Fod& fod, const Cone& cone, float cosine, float sine, float sharpness)
{
    Peak peak = cone.allowed ? largest_seen(fod, cone, 0.0f, 0)
                             : largest_in_cone(fod, cone, cosine, sine);
    // An FOD is as large along both: a cone that allows both would be followed back and forth.
    float x = -peak.x, y = -peak.y, z = -peak.z;
    if (cone.allowed && cone.ux * x + cone.uy * y + cone.uz * z > 0.0f &&
        may_follow(cone, index_of(cone), x, y, z)) {
        peak.x = x;
        peak.y = y;
        peak.z = z;
    }
    peak.value = positive(sharpness, peak.value);
    return peak;
}

// The peak that a direction leads up to, wherever it is.
DEVICE Peak climb_from(const Fod& fod, float ux, float uy, float uz)
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

// The mean over the directions of a cone of the amplitudes that are positive and may follow.
DEVICE float mean_in_cone(const Fod& fod, const Cone& cone)
{
    Tangents t = tangents_of(cone.ux, cone.uy, cone.uz);
    int i = index_of(cone);
    PairwiseSum sum = {};
#pragma unroll 1
    for (int turn = 0; turn < POINTS_AT_ONCE; turn++) {
        float total = 0.0f;
#pragma unroll 1
        for (int j = reversed(turn); j < cone.n_points; j += POINTS_AT_ONCE) {
            Vector q = point_in_cone(cone, t, j);
            float value = value_at(fod, q.x, q.y, q.z);
            bool counts = value > 0.0f && may_follow(cone, i, q.x, q.y, q.z);
            total = total + (counts ? value : 0.0f);
        }
        add_slot(sum, turn, total);
    }
    return sum.partial[LEVELS] / (float)cone.n_points;
}
