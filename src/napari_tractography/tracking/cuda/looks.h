// Looks at one FOD by all lanes of a warp: each evaluates some of the directions.
//
// What is seldom wanted and takes long, such as a search of the whole cone, would let 31 lanes wait
// for one. So all of them work on the FOD of the lane that wants it, the owner, and all know the
// outcome. Nothing of it is in the loop's registers or in its code.
#pragma once

#include "peaks.h"

DEVICE float from_lane(float value, int lane)
{
    return __shfl_sync(ALL_LANES, value, lane);
}

// The FOD of a lane at a unit vector: by one code for all that ask, which the instruction cache then has.
SELDOM float amplitude_of_lane(int owner, float x, float y, float z)
{
    return value_at(fod_of_lane(owner), x, y, z);
}

// What is seen of a cone.
struct Seen {
    int index;      // of the direction of the largest amplitude; of equal ones the first
    float largest;  // NOWHERE without any that may follow
    float mean;     // over all directions, of the amplitudes that are positive and may follow
};

// Look at the directions of a cone. With `apart`, what is near a direction that was climbed to or
// from does not count.
SELDOM Seen look_around(int owner, const Cone cone, float sharpness, bool apart)
{
    const Common& here = common();
    Tangents t = tangents_of(cone.ux, cone.uy, cone.uz);
    int i = index_of(cone);
    Seen seen = {0, NOWHERE, 0.0f};
    PairwiseSum sum = {};
#pragma unroll 1
    for (int turn = 0; turn < POINTS_AT_ONCE; turn += N_LANES) {
        float total = 0.0f;  // of one of the sums side by side
        int first = N_LANES == 1 ? reversed(turn) : lane_of();
#pragma unroll 1
        for (int j = first; j < cone.n_points; j += POINTS_AT_ONCE) {
            Vector q = point_in_cone(cone, t, j);
            if (apart && (is_near(q, here.climbed[0]) || is_near(q, here.climbed[1]) ||
                          is_near(q, here.climbed[2]) || is_near(q, here.climbed[3])))
                continue;
            float value = amplitude_of_lane(owner, q.x, q.y, q.z);
            float counted = positive(sharpness, value);
            bool is_larger = counted > seen.largest || (counted == seen.largest && j < seen.index);
            if (!(is_larger || value > 0.0f) || !may_follow(cone, i, q.x, q.y, q.z)) continue;
            total = total + (value > 0.0f ? value : 0.0f);
            if (!is_larger) continue;
            seen.largest = counted;
            seen.index = j;
        }
        add_slot(sum, turn, total);
    }
    float total = N_LANES == 1 ? sum.partial[LEVELS] : sum.partial[0];
#pragma unroll 1
    for (int apart_by = N_LANES / 2; apart_by; apart_by /= 2) {
        int other = lane_of() ^ apart_by;
        total = total + from_lane(total, other);
        float largest = from_lane(seen.largest, other);
        int index = __shfl_sync(ALL_LANES, seen.index, other);
        if (largest > seen.largest || (largest == seen.largest && index < seen.index)) {
            seen.largest = largest;
            seen.index = index;
        }
    }
    seen.mean = total / (float)cone.n_points;
    return seen;
}

DEVICE Peak peak_seen(const Cone& cone, const Seen& seen)
{
    Vector q = point_in_cone(cone, tangents_of(cone.ux, cone.uy, cone.uz), seen.index);
    Peak peak = {q.x, q.y, q.z, seen.largest};
    return peak;
}

// The FOD of a lane, of which all lanes want the derivatives at one direction.
struct ViewedFod {
    int owner;
};

DEVICE float value_at(const ViewedFod& fod, float x, float y, float z)
{
    return amplitude_of_lane(fod.owner, x, y, z);
}

// The same bits as of derivatives_at(), by a quarter of the code: each lane works out the terms of an
// order m, and all add those up, one after the other.
SELDOM Derivatives derivatives_of_lane(int owner, float x, float y, float z)
{
    SharedFod c = fod_of_lane(owner);
    if (N_LANES == 1) return derivatives_at(c, x, y, z);
    int m = lane_of() < LMAX ? lane_of() : LMAX;
    Powers powers = first_power(x, y);
#pragma unroll 1
    for (int power = 1; power < m; power++) raise(powers, x, y);
    float w = z * z, v = w - divided(1.0f, (float)(m + 2));
    int at = 0;
    Derivatives d = {0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f};
    FOR_EACH_PARITY
    {
        // After the numbers of the orders before: a polynomial of order 0, pairs of the others.
        int mine = at, width = m > 0 ? 2 : 1;
#pragma unroll 1
        for (int order = 0; order < m; order++)
            mine += (order > 0 ? 2 : 1) * ((largest - order) / 2 + 1);
        at += (largest + 1) * (largest + 2) / 2;
        Polynomial p = {c[mine], 0.0f, 0.0f}, q = {c[mine + width - 1], 0.0f, 0.0f};
#pragma unroll 1
        for (int k = 0; k < (largest - m) / 2; k++) {
            mine += width;
            append(p, v, c[mine]);
            append(q, v, c[mine + width - 1]);
        }
        p = in_z(p, (largest - m) & 1, z, w);
        q = in_z(q, (largest - m) & 1, z, w);
        Derivatives term = terms_of(m, p, q, powers);
        d.value = d.value + from_lane(p.value, 0);
        d.gz = d.gz + from_lane(p.first, 0);
        d.hzz = d.hzz + from_lane(p.second, 0);
#pragma unroll 1
        for (int other = 1; other <= largest; other++) {
            d.value = d.value + from_lane(term.value, other);
            d.gx = d.gx + from_lane(term.gx, other);
            d.gy = d.gy + from_lane(term.gy, other);
            d.gz = d.gz + from_lane(term.gz, other);
            d.hxx = d.hxx + from_lane(term.hxx, other);
            d.hxy = d.hxy + from_lane(term.hxy, other);
            d.hxz = d.hxz + from_lane(term.hxz, other);
            d.hyz = d.hyz + from_lane(term.hyz, other);
            d.hzz = d.hzz + from_lane(term.hzz, other);
        }
    }
    return d;
}

DEVICE Derivatives derivatives_at(const ViewedFod& fod, float x, float y, float z)
{
    return derivatives_of_lane(fod.owner, x, y, z);
}

// Climb in the cone around u, of the FOD of a lane.
SELDOM Peak climb_together(int owner, float ux, float uy, float uz, float cosine, float sine, Peak first)
{
    ViewedFod fod = {owner};
    return climb(fod, ux, uy, uz, cosine, sine, first, nowhere());
}

// The square of the FOD's slope at a direction, per radian, where it is steepest.
SELDOM float squared_slope(int owner, float x, float y, float z)
{
    Derivatives d = derivatives_of_lane(owner, x, y, z);
    float along = d.gx * x + d.gy * y + d.gz * z;
    return d.gx * d.gx + d.gy * d.gy + d.gz * d.gz - along * along;
}

// Keep one of the directions that climbs led to or began at.
DEVICE void remember(int which, float x, float y, float z)
{
    float* climbed = common().climbed[which];
    climbed[0] = x;
    climbed[1] = y;
    climbed[2] = z;
}

// The largest amplitude in a cone: the best of those that the best seen lead up to.
DEVICE Peak largest_in_cone(int owner, const Cone& cone, float cosine, float sine)
{
    Peak best = nowhere();
    for (int k = 0; k < 4; k++) remember(k, 0.0f, 0.0f, 0.0f);
    __syncwarp();
#pragma unroll 1
    for (int lobe = 0; lobe < LOBES; lobe++) {
        Peak first = peak_seen(cone, look_around(owner, cone, 0.0f, true));
        if (first.value <= PROMISING * best.value || first.value == NOWHERE) break;
        Peak peak = climb_together(owner, cone.ux, cone.uy, cone.uz, cosine, sine, first);
        if (peak.value > best.value) best = peak;
        __syncwarp();
        remember(2 * (lobe & 1), peak.x, peak.y, peak.z);  // those of the last two
        remember(2 * (lobe & 1) + 1, first.x, first.y, first.z);
        __syncwarp();
    }
    __syncwarp();
    return best;
}

// The largest amplitude in a cone and its direction; of one that is a function, the largest sample.
DEVICE Peak find_peak(int owner, const Cone& cone, float cosine, float sine, float sharpness)
{
    Peak peak = cone.allowed ? peak_seen(cone, look_around(owner, cone, 0.0f, false))
                             : largest_in_cone(owner, cone, cosine, sine);
    // A symmetric FOD is as large along both: a cone that allows both would be followed back and forth.
    float x = -peak.x, y = -peak.y, z = -peak.z;
    if (!ASYMMETRIC && cone.allowed && cone.ux * x + cone.uy * y + cone.uz * z > 0.0f &&
        may_follow(cone, index_of(cone), x, y, z)) {
        peak.x = x;
        peak.y = y;
        peak.z = z;
    }
    peak.value = positive(sharpness, peak.value);
    return peak;
}
