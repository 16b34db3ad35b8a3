// The largest amplitude in the cone, for deterministic tracking. Twin of cpu/sphere/search.py, where
// the method is explained; sampled amplitudes are not kept but worked out again.
#pragma once

#include "peaks.h"
#include "rings.h"

// The directions at which a cone is sampled; see tables/cone_quadrature.py.
struct ConeQuadrature {
    const float* points;     // (4, n_points)
    const int* neighbours;   // (4 n_points + 1, N_AROUND)
    const float* heights;    // (n_points, N_HEIGHTS)
    const float* azimuths;   // (n_points, 2 LMAX)
    const float* axis;       // (4, LMAX / 2 + 1)
    const float* turning;
    int n_points;
};

DEVICE ConeQuadrature quadrature_of(const Field& field)
{
    ConeQuadrature quadrature = {field.quadrature_points,  field.quadrature_neighbours,
                                 field.quadrature_heights, field.quadrature_azimuths,
                                 field.quadrature_axis,    field.turning,
                                 field.n_quadrature_points};
    return quadrature;
}

// The cone around u, and the FOD in axes of which u is the z axis.
struct View {
    ConeQuadrature quadrature;
    float ux, uy, uz;
    float cosine, sine, radius;  // of the azimuth of u, and its distance from the z axis
    Ahead ahead;                 // what is along u
    Harmonics fod;
};

template <class AnyFod>
DEVICE View view_of(const ConeQuadrature& quadrature, const AnyFod& fod, float ux, float uy,
                    float uz)
{
    View view;
    view.quadrature = quadrature;
    view.ux = ux;
    view.uy = uy;
    view.uz = uz;
    view.radius = sqrtf(ux * ux + uy * uy);
    bool off_axis = view.radius > ON_AXIS;
    view.cosine = off_axis ? ux / view.radius : 1.0f;
    view.sine = off_axis ? uy / view.radius : 0.0f;
    view.fod = tilted(turned(fod, view.cosine, view.sine), quadrature.turning, uz, view.radius);
    view.ahead = along_axis(view.fod, quadrature.axis);
    return view;
}

// The amplitudes at point k and at its mirror images.
DEVICE Four seen_at(const View& view, int k)
{
    return four_values(view.fod, view.quadrature.heights + k * N_HEIGHTS,
                       view.quadrature.azimuths + k * 2 * LMAX);
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

DEVICE float amplitude_of(const View& view, int j)
{
    return j == 4 * view.quadrature.n_points ? view.ahead.value
                                             : seen_at(view, j / 4).values[j & 3];
}

// Where a Newton step from u leads: u where there is none that stays in the cone.
DEVICE Vector step_from_axis(const View& view, float cosine)
{
    Step up = newton_step(view.ahead.slopes);
    const float far = FAR / degree();
    float length = sqrtf(1.0f + up.a * up.a + up.b * up.b);
    float furthest = 1.0f + 0.5f * far * far;
    float border = 1.0f / (cosine > 1e-3f ? cosine : 1e-3f);
    furthest = furthest < border ? furthest : border;
    bool leads_up = up.bent_down && length < furthest;
    return leads_up ? around_u(view, up.a / length, up.b / length, 1.0f / length)
                    : around_u(view, 0.0f, 0.0f, 1.0f);
}

// What is seen of the cone: the largest amplitude and its direction, and the mean of what is not
// negative.
struct Sampled {
    int index;
    float largest, mean;
};

DEVICE Sampled sampled(const View& view)
{
    Sampled found = {4 * view.quadrature.n_points, view.ahead.value, 0.0f};
    float rest = 1.0f;
#pragma unroll 1
    for (int k = 0; k < view.quadrature.n_points; k++) {
        Four four = seen_at(view, k);
        float fraction = view.quadrature.points[3 * view.quadrature.n_points + k], total = 0.0f;
#pragma unroll
        for (int mirror = 0; mirror < 4; mirror++) {
            total = total + (four.values[mirror] > 0.0f ? four.values[mirror] : 0.0f);
            if (four.values[mirror] > found.largest) {
                found.largest = four.values[mirror];
                found.index = 4 * k + mirror;
            }
        }
        found.mean = found.mean + fraction * total;
        rest = rest - 4.0f * fraction;
    }
    found.mean = found.mean + rest * (view.ahead.value > 0.0f ? view.ahead.value : 0.0f);
    return found;
}

// Climb from the largest sampled amplitude.
template <class AnyFod>
DEVICE Peak climb_from_best(const View& view, const AnyFod& fod, float cosine, float sine,
                            const Sampled& seen)
{
    bool is_ahead = seen.index == 4 * view.quadrature.n_points;
    Vector q = is_ahead ? step_from_axis(view, cosine) : point_around(view, seen.index);
    Peak first = {q.x, q.y, q.z, seen.largest};
    if (is_ahead) {
        first.x = view.ux;
        first.y = view.uy;
        first.z = view.uz;
    }
    return climb(fod, view.ux, view.uy, view.uz, cosine, sine, first, q, nowhere());
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

// Tell whether what is seen in one direction may lead higher than the peak that is known, whose
// direction in axes of which u is the z axis is `there`.
DEVICE bool is_promising(const View& view, int j, float value, const Peak& known,
                         const Vector& there)
{
    float enough = PROMISING * known.value;
    if (!(value >= enough && cosine_to(view, j, there) <= cosine_of(BESIDE))) return false;
    float most = value + ABREAST * (value - enough);
    const int* neighbours = view.quadrature.neighbours + j * N_AROUND;
#pragma unroll 1
    for (int i = 0; i < N_AROUND; i++)
        if (!(amplitude_of(view, neighbours[i]) <= most)) return false;
    return true;
}

// The largest amplitude in the cone, and the mean over it.
template <class AnyFod>
DEVICE Peak search(const Field& field, const AnyFod& fod, float ux, float uy, float uz, float cosine,
                   float sine, float& mean)
{
    View view = view_of(quadrature_of(field), fod, ux, uy, uz);
    Sampled seen = sampled(view);
    mean = seen.mean;
    Peak known = climb_from_best(view, fod, cosine, sine, seen), best = known;
    float x = view.cosine * known.x + view.sine * known.y;
    Vector there = {x * uz - known.z * view.radius, view.cosine * known.y - view.sine * known.x,
                    x * view.radius + known.z * uz};
    float enough = PROMISING * known.value;
#pragma unroll 1
    for (int k = 0; k <= view.quadrature.n_points; k++) {
        bool is_ahead = k == view.quadrature.n_points;
        Four four = {{view.ahead.value, NOWHERE, NOWHERE, NOWHERE}};
        if (!is_ahead) four = seen_at(view, k);
        unsigned int high = 0;
#pragma unroll
        for (int mirror = 0; mirror < 4; mirror++)
            high |= (four.values[mirror] >= enough ? 1u : 0u) << mirror;
        while (high) {
            int mirror = __ffs((int)high) - 1;
            high &= high - 1;
            float value = mirror & 2 ? (mirror & 1 ? four.values[3] : four.values[2])
                                     : (mirror & 1 ? four.values[1] : four.values[0]);
            int j = 4 * k + mirror;
            if (!is_promising(view, j, value, known, there)) continue;
            Vector q = point_around(view, j);
            Peak first = {q.x, q.y, q.z, value};
            Peak peak = climb(fod, ux, uy, uz, cosine, sine, first, known);
            if (peak.value > best.value) best = peak;
        }
    }
    return best;
}
