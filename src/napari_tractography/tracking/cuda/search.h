// The largest amplitude in the cone, for deterministic tracking. Twin of cpu/sphere/search.py, where
// the method is explained; of the sampled amplitudes those are kept that are large.
#pragma once

#include "peaks.h"
#include "rings.h"

// The directions at which a cone is sampled; see tables/cone_quadrature.py.
struct ConeQuadrature {
    const float* points;     // (4, n_points)
    const int* neighbours;   // (4 n_points + 1, N_AROUND)
    const float* heights;    // (n_points, N_HEIGHTS)
    const float4* azimuths;  // (n_points, LMAX / 2)
    int n_points;
};

DEVICE ConeQuadrature quadrature_of(const Field& field)
{
    ConeQuadrature quadrature = {field.quadrature_points, field.quadrature_neighbours,
                                 field.quadrature_heights,
                                 (const float4*)field.quadrature_azimuths,
                                 field.n_quadrature_points};
    return quadrature;
}

// The cone around u, and the FOD in axes of which u is the z axis.
struct View {
    ConeQuadrature quadrature;
    float ux, uy, uz;
    float cosine, sine, radius;  // of the azimuth of u, and its distance from the z axis
    Fod fod;                     // harmonics, see rings.h
    Ahead ahead;                 // what is along u
};

DEVICE View view_of(const Field& field, float ux, float uy, float uz)
{
    View view;
    view.quadrature = quadrature_of(field);
    view.ux = ux;
    view.uy = uy;
    view.uz = uz;
    view.radius = sqrtf(ux * ux + uy * uy);
    bool off_axis = view.radius > ON_AXIS;
    view.cosine = off_axis ? divided(ux, view.radius) : 1.0f;
    view.sine = off_axis ? divided(uy, view.radius) : 0.0f;
    int number = to_harmonics(own_fod(), view.cosine, view.sine, view.fod);
    tilt(number, uz, view.radius, view.fod);
    view.ahead = along_axis(view.fod);
    return view;
}

// A vector in RAS+ axes, from axes of which u is the z axis.
DEVICE Vector around_u(const View& view, float along, float across, float up)
{
    float x = along * view.uz + up * view.radius, z = up * view.uz - along * view.radius;
    Vector q = {view.cosine * x - view.sine * across, view.sine * x + view.cosine * across, z};
    return q;
}

// Number j of the directions of the quadrature: 4 k is point k, then come its mirror images, and
// the last one is u.
DEVICE Vector point_around(const View& view, int j)
{
    float along = 0.0f, across = 0.0f, up = 1.0f;
    if (j < 4 * view.quadrature.n_points) {
        along = view.quadrature.points[j / 4];
        across = view.quadrature.points[view.quadrature.n_points + j / 4];
        up = view.quadrature.points[2 * view.quadrature.n_points + j / 4];
    }
    along = j & 2 ? -along : along;
    across = j & 1 ? -across : across;
    return around_u(view, along, across, up);
}

// Where a Newton step from u leads: u where there is none that stays in the cone.
DEVICE Vector step_from_axis(const View& view, float cosine)
{
    Step up = newton_step(view.ahead.slopes);
    const float far = FAR / degree();
    float length = root(1.0f + up.a * up.a + up.b * up.b);
    float furthest = 1.0f + 0.5f * far * far;
    float border = divided(1.0f, cosine > 1e-3f ? cosine : 1e-3f);
    furthest = furthest < border ? furthest : border;
    bool leads_up = up.bent_down && length < furthest;
    return leads_up ? around_u(view, divided(up.a, length), divided(up.b, length),
                               divided(1.0f, length))
                    : around_u(view, 0.0f, 0.0f, 1.0f);
}

// No cone has more points; see the tests. A word tells of eight of them, with their mirror images.
enum { MOST_POINTS = 3 * LMAX * LMAX / 4 + 8, N_WORDS = MOST_POINTS / 8 + 1 };

// The high amplitudes, at least PROMISING of the largest that was seen so far; that of u, the last one,
// is among them in any case.
struct High {
    struct Word {
        unsigned int bits;    // one for each direction
        unsigned int before;  // how many are high in the words before
    } words[N_WORDS];
    float values[4 * MOST_POINTS + 1];
};

// What is seen of the cone: the largest amplitude and its direction, and the mean of what is not
// negative.
struct Sampled {
    int index;
    float largest, mean;
};

// The sum of four amplitudes that count where they are not negative.
DEVICE float positive_sum(const Four& four)
{
    float total = 0.0f;
#pragma unroll
    for (int mirror = 0; mirror < 4; mirror++)
        total = total + (four.values[mirror] > 0.0f ? four.values[mirror] : 0.0f);
    return total;
}

// Tell whether enough of the FOD is in the cone. What is added is not negative: as soon as part of it
// is enough, so is all.
DEVICE bool weighs_enough(const Settings& settings, const View& view, float mass)
{
    const ConeQuadrature& quadrature = view.quadrature;
    const int n = quadrature.n_points;
    float mean = 0.0f, rest = 1.0f;
#pragma unroll 1
    for (int k = 0; k < n;) {
        Ring ring = ring_of(view.fod, quadrature.heights + k * N_HEIGHTS);
        float height = quadrature.points[2 * n + k];
#pragma unroll 1
        do {
            float fraction = quadrature.points[3 * n + k];
            mean = mean + fraction * positive_sum(around(ring, quadrature.azimuths + k * (LMAX / 2)));
            rest = rest - 4.0f * fraction;
            if (!below_cone_mass(settings, mean, mass)) return true;
            k++;
        } while (k < n && quadrature.points[2 * n + k] == height);
    }
    mean = mean + rest * (view.ahead.value > 0.0f ? view.ahead.value : 0.0f);
    return !below_cone_mass(settings, mean, mass);
}

DEVICE Sampled sampled(const View& view, High& high)
{
    const ConeQuadrature& quadrature = view.quadrature;
    const int n = quadrature.n_points;
    Sampled found = {4 * n, view.ahead.value, 0.0f};
    float rest = 1.0f, enough = PROMISING * found.largest;
    unsigned int bits = 0;
    unsigned int n_high = 0, before = 0;
    int k = 0;
#pragma unroll 1
    while (k < n) {
        Ring ring = ring_of(view.fod, quadrature.heights + k * N_HEIGHTS);
        float height = quadrature.points[2 * n + k];
#pragma unroll 1
        do {
            Four four = around(ring, quadrature.azimuths + k * (LMAX / 2));
            float fraction = quadrature.points[3 * n + k];
            found.mean = found.mean + fraction * positive_sum(four);
            rest = rest - 4.0f * fraction;
            float most = fmaxf(fmaxf(four.values[0], four.values[1]),
                               fmaxf(four.values[2], four.values[3]));
            if (most > found.largest) {
                found.largest = most;
                found.index = 4 * k + (four.values[0] == most   ? 0
                                       : four.values[1] == most ? 1
                                       : four.values[2] == most ? 2
                                                                : 3);
                enough = PROMISING * most;
            }
            bits = bits >> 4;
            if (most >= enough) {
#pragma unroll
                for (int mirror = 0; mirror < 4; mirror++) {
                    if (!(four.values[mirror] >= enough)) continue;
                    high.values[n_high++] = four.values[mirror];
                    bits |= 1u << (28 + mirror);
                }
            }
            if (++k % 8 == 0) {
                high.words[k / 8 - 1] = {bits, before};
                before = n_high;
            }
        } while (k < n && quadrature.points[2 * n + k] == height);
    }
    bits = n % 8 ? bits >> 4 * (8 - n % 8) : 0;
    high.words[n / 8] = {bits | 1u << 4 * (n % 8), before};
    high.values[n_high] = view.ahead.value;
    found.mean = found.mean + rest * (view.ahead.value > 0.0f ? view.ahead.value : 0.0f);
    return found;
}

// The cosine between direction number j and a peak, in axes of which u is the z axis.
DEVICE float cosine_to(const View& view, int j, const Vector& peak)
{
    if (j == 4 * view.quadrature.n_points) return peak.z;
    const float* point = view.quadrature.points + j / 4;
    float along = point[0] * peak.x, across = point[view.quadrature.n_points] * peak.y;
    float up = point[2 * view.quadrature.n_points] * peak.z;
    up = j & 2 ? up - along : up + along;
    return j & 1 ? up - across : up + across;
}

// What was seen in direction number j; NOWHERE where that is not high.
DEVICE float amplitude_of(const High& high, unsigned int j)
{
    High::Word word = high.words[j / 32];
    unsigned int bits = word.bits << (31 - j % 32);  // down to that of j, the first bit
    return bits >> 31 ? high.values[word.before + __popc(bits) - 1] : NOWHERE;
}

// Tell whether what is seen in one direction may lead higher than the peak that is known, whose
// direction in axes of which u is the z axis is `there`. A neighbour that is not high is lower.
DEVICE bool is_promising(const View& view, const High& high, int j, float value,
                         const Peak& known, const Vector& there)
{
    float enough = PROMISING * known.value;
    if (!(value >= enough && cosine_to(view, j, there) <= cosine_of(BESIDE))) return false;
    float most = value + ABREAST * (value - enough);
    const int* neighbours = view.quadrature.neighbours + j * N_AROUND;
    bool stands_out = true;
#pragma unroll 3  // these are read at once
    for (int i = 0; i < N_AROUND && stands_out; i++)
        stands_out = amplitude_of(high, (unsigned int)neighbours[i]) <= most;
    return stands_out;
}

// The largest amplitude in the cone, and the mean over it.
DEVICE Peak search(const Field& field, float ux, float uy, float uz, float cosine, float sine,
                   float& mean)
{
    View view = view_of(field, ux, uy, uz);
    High high;
    Sampled seen = sampled(view, high);
    mean = seen.mean;
    const int last = 4 * view.quadrature.n_points;
    bool is_ahead = seen.index == last;
    Vector from = is_ahead ? step_from_axis(view, cosine) : point_around(view, seen.index);
    Peak first = {is_ahead ? ux : from.x, is_ahead ? uy : from.y, is_ahead ? uz : from.z,
                  seen.largest};
    Peak best = nowhere(), known = nowhere();
    Vector there;
    // The first climb begins at the largest amplitude, others where more is promising.
    int j = -1, word = 0, rank = 0;
    unsigned int left = high.words[0].bits;
#pragma unroll 1
    for (;;) {
        Peak peak = climb(own_fod(), ux, uy, uz, cosine, sine, first, from, known);
        if (peak.value > best.value) best = peak;
        if (j < 0) {
            known = peak;
            float x = view.cosine * known.x + view.sine * known.y;
            there.x = x * uz - known.z * view.radius;
            there.y = view.cosine * known.y - view.sine * known.x;
            there.z = x * view.radius + known.z * uz;
        }
        bool found = false;
#pragma unroll 1
        while (!found && j < last) {
            while (!left) left = high.words[++word].bits;
            j = 32 * word + __ffs((int)left) - 1;
            left &= left - 1;
            first.value = high.values[rank++];
            found = is_promising(view, high, j, first.value, known, there);
        }
        if (!found) return best;
        from = point_around(view, j);
        first.x = from.x;
        first.y = from.y;
        first.z = from.z;
    }
}
