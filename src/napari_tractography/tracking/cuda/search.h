// The largest amplitude in the cone, for deterministic tracking. Twin of cpu/sphere/search.py, where
// the method is explained; amplitudes seen are not kept but worked out again.
#pragma once

#include "peaks.h"

// The cone around u, and the FOD, in axes in which u lies in the plane of x and z.
struct View {
    const float* points;     // (4, n): see tables/builders.py
    const int* neighbours;   // (2 n + 1, N_AROUND)
    int n;
    float ux, uy, uz;
    float cosine, sine, radius;  // of the azimuth of u, and its distance from the z axis
    float ahead;                 // the amplitude along u
    Fod fod;
};

// What is seen: the largest amplitude, and the mean over the cone of what is not negative.
struct Seen {
    Peak best;
    float mean;
};

DEVICE View view_of(const Field& field, const Fod& fod, float ux, float uy, float uz)
{
    View view;
    view.points = field.look_points;
    view.neighbours = field.look_neighbours;
    view.n = field.n_look_points;
    view.ux = ux;
    view.uy = uy;
    view.uz = uz;
    view.radius = sqrtf(ux * ux + uy * uy);
    bool off_axis = view.radius > ON_AXIS;
    view.cosine = off_axis ? ux / view.radius : 1.0f;
    view.sine = off_axis ? uy / view.radius : 0.0f;
    view.fod = turned(fod, view.cosine, view.sine);
    view.ahead = value_at(view.fod, view.radius, 0.0f, uz);
    return view;
}

// The amplitudes at point k and at its mirror image.
DEVICE Mirrored seen_at(const View& view, int k)
{
    float along = view.points[k], across = view.points[view.n + k];
    float up = view.points[2 * view.n + k];
    return mirrored_values(view.fod, along * view.uz + up * view.radius, across,
                           up * view.uz - along * view.radius);
}

// Number j of the directions that are looked at: 2 k is point k, 2 k + 1 its mirror image, and the
// last one u.
DEVICE Vector point_around(const View& view, int j)
{
    float along = 0.0f, across = 0.0f, up = 1.0f;
    if (j < 2 * view.n) {
        along = view.points[j / 2];
        across = view.points[view.n + j / 2];
        up = view.points[2 * view.n + j / 2];
    }
    across = j & 1 ? -across : across;
    float x = along * view.uz + up * view.radius, z = up * view.uz - along * view.radius;
    Vector q = {view.cosine * x - view.sine * across, view.sine * x + view.cosine * across, z};
    return q;
}

DEVICE float amplitude_of(const View& view, int j)
{
    if (j == 2 * view.n) return view.ahead;
    Mirrored both = seen_at(view, j / 2);
    return j & 1 ? both.mirrored : both.value;
}

DEVICE Seen look_around(const View& view)
{
    int place = 2 * view.n;
    float best = view.ahead, mean = 0.0f, rest = 1.0f;
#pragma unroll 1
    for (int k = 0; k < view.n; k++) {
        Mirrored both = seen_at(view, k);
        float fraction = view.points[3 * view.n + k];
        float positive = (both.value > 0.0f ? both.value : 0.0f) +
                         (both.mirrored > 0.0f ? both.mirrored : 0.0f);
        mean = mean + fraction * positive;
        rest = rest - (fraction + fraction);
        if (both.value > best) {
            best = both.value;
            place = 2 * k;
        }
        if (both.mirrored > best) {
            best = both.mirrored;
            place = 2 * k + 1;
        }
    }
    mean = mean + rest * (view.ahead > 0.0f ? view.ahead : 0.0f);
    Vector q = point_around(view, place);
    Seen seen = {{q.x, q.y, q.z, best}, mean};
    return seen;
}

// Tell whether what is seen in one direction may lead higher than the peak that is known.
DEVICE bool is_promising(const View& view, int j, float value, const Peak& known)
{
    float enough = PROMISING * known.value;
    if (!(value >= enough)) return false;
    float most = value + ABREAST * (value - enough);
    const int* neighbours = view.neighbours + j * N_AROUND;
#pragma unroll 1
    for (int i = 0; i < N_AROUND; i++)
        if (!(amplitude_of(view, neighbours[i]) <= most)) return false;
    Vector q = point_around(view, j);
    bool is_beside = q.x * known.x + q.y * known.y + q.z * known.z > cosine_of(BESIDE);
    return !(is_beside && value <= known.value);
}

// The largest amplitude in the cone, and the mean over it.
DEVICE Seen search(const Field& field, const Fod& fod, float ux, float uy, float uz, float cosine,
                   float sine)
{
    View view = view_of(field, fod, ux, uy, uz);
    Seen found = look_around(view);
    Peak known = climb(fod, ux, uy, uz, cosine, sine, found.best, nowhere());
    found.best = known;
#pragma unroll 1
    for (int j = 0; j <= 2 * view.n; j++) {
        float value = amplitude_of(view, j);
        if (!is_promising(view, j, value, known)) continue;
        Vector q = point_around(view, j);
        Peak first = {q.x, q.y, q.z, value};
        Peak peak = climb(fod, ux, uy, uz, cosine, sine, first, known);
        if (peak.value > found.best.value) found.best = peak;
    }
    return found;
}
