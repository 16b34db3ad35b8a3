// The tangent plane at a unit vector: its axes, derivatives along them, and a step uphill; turns.
//
// Twin of cpu/sphere/tangents.py.
#pragma once

#include "evaluation.h"

struct Vector {
    float x, y, z;
};

// Two unit vectors at right angles to a unit vector and to each other.
struct Tangents {
    float ax, ay, az, bx, by, bz;
};

// First and second derivatives along two tangents, on the sphere.
struct Slopes {
    float ga, gb, haa, hab, hbb;
};

// A step along two tangents; for Newton's, whether it leads to a top.
struct Step {
    float a, b;
    bool bent_down;
};

// Cosine and sine of an angle.
struct Turn {
    float cosine, sine;
};

// Those of 2 pi t, for t from -1/2 to 1/2.
DEVICE Turn turn_of(float t)
{
    float square = t * t;
    float sine = SINE_0 * square + SINE_1;
    sine = sine * square + SINE_2;
    sine = sine * square + SINE_3;
    sine = t * (sine * square + SINE_4);
    float cosine = COSINE_0 * square + COSINE_1;
    cosine = cosine * square + COSINE_2;
    cosine = cosine * square + COSINE_3;
    cosine = cosine * square + COSINE_4;
    cosine = cosine * square + COSINE_5;
    Turn turn = {1.0f - 2.0f * sine * sine, 2.0f * sine * cosine};
    return turn;
}

DEVICE Tangents tangents_of(float x, float y, float z)
{
    float sign = z >= 0.0f ? 1.0f : -1.0f;
    float a = divided(-1.0f, sign + z);
    float b = x * y * a;
    Tangents t = {1.0f + sign * x * x * a, sign * b, -sign * x, b, sign + y * y * a, -y};
    return t;
}

DEVICE Vector normalised(float x, float y, float z)
{
    float length = root(x * x + y * y + z * z);
    Vector v = {divided(x, length), divided(y, length), divided(z, length)};
    return v;
}

// The direction of the border of the cone that is nearest to a direction outside.
DEVICE Vector onto_border(float ux, float uy, float uz, float cosine, float sine, float x, float y,
                          float z)
{
    float along = ux * x + uy * y + uz * z;
    Vector v = normalised(x - along * ux, y - along * uy, z - along * uz);
    Vector border = {cosine * ux + sine * v.x, cosine * uy + sine * v.y, cosine * uz + sine * v.z};
    return border;
}

// a H b, of the second derivatives in space.
DEVICE float bend_along(const Derivatives& d, float ax, float ay, float az, float bx, float by,
                        float bz)
{
    float ha = d.hxx * ax + d.hxy * ay + d.hxz * az;
    float hb = d.hxy * ax - d.hxx * ay + d.hyz * az;
    float hc = d.hxz * ax + d.hyz * ay + d.hzz * az;
    return ha * bx + hb * by + hc * bz;
}

// How the gradient points up at a unit vector: the sphere bends away from its tangents.
DEVICE float outward_slope(const Derivatives& d, float x, float y, float z)
{
    return d.gx * x + d.gy * y + d.gz * z;
}

DEVICE Slopes along_tangents(const Derivatives& d, float x, float y, float z, const Tangents& t)
{
    float down = outward_slope(d, x, y, z);
    Slopes s;
    s.ga = d.gx * t.ax + d.gy * t.ay + d.gz * t.az;
    s.gb = d.gx * t.bx + d.gy * t.by + d.gz * t.bz;
    s.haa = bend_along(d, t.ax, t.ay, t.az, t.ax, t.ay, t.az) - down;
    s.hab = bend_along(d, t.ax, t.ay, t.az, t.bx, t.by, t.bz);
    s.hbb = bend_along(d, t.bx, t.by, t.bz, t.bx, t.by, t.bz) - down;
    return s;
}

// The step to the top of a quadratic function, and whether it has a top.
DEVICE Step newton_step(const Slopes& s)
{
    float determinant = s.haa * s.hbb - s.hab * s.hab;
    Step step = {divided(s.hab * s.gb - s.hbb * s.ga, determinant),
                 divided(s.hab * s.ga - s.haa * s.gb, determinant),
                 s.haa < 0.0f && determinant > 0.0f};
    return step;
}

// A step uphill no longer than `far`.
DEVICE Step careful_step(Slopes s, float far)
{
    float half = 0.5f * (s.haa - s.hbb);
    float largest = 0.5f * (s.haa + s.hbb) + sqrtf(half * half + s.hab * s.hab);
    float shift = (largest > 0.0f ? largest : 0.0f) + sqrtf(s.ga * s.ga + s.gb * s.gb) / far;
    s.haa = s.haa - shift;
    s.hbb = s.hbb - shift;
    return newton_step(s);
}
