// The drift of diffusion and transport: how a direction turns up the gradient of log f. Twin of
// cpu/drift.py.
#pragma once

#include "cones.h"
#include "tangents.h"

// The FOD at a unit vector, and the first and second derivatives of its logarithm along their
// principal axes a and b, tangents there; a is that along which it bends less. `sa` and `sb` are what
// was added to its gradient, along each.
struct LogFod {
    float value, ax, ay, az, bx, by, bz, ga, gb, ha, hb, sa, sb;
};

// The integral of exp(curvature t) over the time, by exp(2 t) - 1 = e (e + 2) with e = exp(t) - 1.
DEVICE float growth(float curvature, float time)
{
    float product = curvature * time;
    if (fabsf(product) < FLAT) return time * (1.0f + 0.5f * product);
    float most = product < 1.0f ? product : 1.0f;
    float t = SIXTEENTH * (most > -LIMIT ? most : -LIMIT);
    float power = EXPM1_0;
    power = power * t + EXPM1_1;
    power = power * t + EXPM1_2;
    power = power * t + EXPM1_3;
    power = power * t + EXPM1_4;
    power = power * t + EXPM1_5;
    power = power * t + EXPM1_6;
    power = power * t;
#pragma unroll
    for (int k = 0; k < 4; k++) power = power * (power + 2.0f);
    return power / curvature;
}

// The length of a step in mm, by the slopes of log f.
DEVICE float adaptive_step(const Settings& settings, const LogFod& f)
{
    float steepness = f.ga * f.ga + f.gb * f.gb;
    steepness = steepness > 1.0f ? steepness : 1.0f;
    return settings.step * LONGEST / (steepness < STEEPEST ? steepness : STEEPEST);
}

// Of f, its derivatives along two tangents, and what is added to its gradient along them, log f along
// the principal axes of its second derivatives.
DEVICE LogFod along_axes(float value, const Slopes& s, float sa, float sb, const Tangents& t)
{
    LogFod f = {0.0f, t.ax, t.ay, t.az, t.bx, t.by, t.bz, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f};
    if (!(value > 0.0f)) return f;
    float ga = s.ga / value, gb = s.gb / value;
    float haa = s.haa / value - ga * ga;
    float hab = s.hab / value - ga * gb;
    float hbb = s.hbb / value - gb * gb;
    sa = sa / value;
    sb = sb / value;
    ga = ga + sa;
    gb = gb + sb;
    // Turn the tangents to the principal axes: by half the angle of (haa - hbb, 2 hab).
    float across = haa - hbb, twice = hab + hab;
    float size = sqrtf(across * across + twice * twice);
    float cosine = 1.0f, sine = 0.0f;
    if (size > 0.0f) {
        cosine = sqrtf(0.5f * (1.0f + fabsf(across) / size));
        sine = 0.5f * twice / (size * cosine);
        if (across < 0.0f) {
            float sign = sine >= 0.0f ? 1.0f : -1.0f;
            float turned = sign * cosine;
            cosine = fabsf(sine);
            sine = turned;
        }
    }
    float mean = 0.5f * (haa + hbb);
    f.value = value;
    f.ax = cosine * t.ax + sine * t.bx;
    f.ay = cosine * t.ay + sine * t.by;
    f.az = cosine * t.az + sine * t.bz;
    f.bx = cosine * t.bx - sine * t.ax;
    f.by = cosine * t.by - sine * t.ay;
    f.bz = cosine * t.bz - sine * t.az;
    f.ga = cosine * ga + sine * gb;
    f.gb = cosine * gb - sine * ga;
    f.ha = mean + 0.5f * size;
    f.hb = mean - 0.5f * size;
    f.sa = cosine * sa + sine * sb;
    f.sb = cosine * sb - sine * sa;
    return f;
}

// What `positivity` makes of the FOD, its derivatives along two tangents and what is added to its
// gradient there.
DEVICE void make_positive(const Settings& settings, float& value, Slopes& s, float& sa, float& sb)
{
    if (settings.positivity != SOFTPLUS) return;
    float scaled = settings.sharpness * value;
    float small = falling(fabsf(scaled));
    float slope = (scaled > 0.0f ? 1.0f : small) / (1.0f + small);
    float bend = settings.sharpness * slope * (1.0f - slope);
    value = ((scaled > 0.0f ? scaled : 0.0f) + log_of_one_and(small)) / settings.sharpness;
    s.haa = slope * s.haa + bend * s.ga * s.ga;
    s.hab = slope * s.hab + bend * s.ga * s.gb;
    s.hbb = slope * s.hbb + bend * s.gb * s.gb;
    s.ga = slope * s.ga;
    s.gb = slope * s.gb;
    sa = slope * sa;
    sb = slope * sb;
}

// The vector s is added to the gradient of the FOD: what look_ahead sees.
template <class AnyFod>
DEVICE LogFod log_fod(const Settings& settings, const AnyFod& fod, float ux, float uy, float uz,
                      Vector s)
{
    Derivatives d = derivatives_at(fod, ux, uy, uz);
    Tangents t = tangents_of(ux, uy, uz);
    float value = d.value;
    float sa = s.x * t.ax + s.y * t.ay + s.z * t.az;
    float sb = s.x * t.bx + s.y * t.by + s.z * t.bz;
    Slopes slopes = along_tangents(d, ux, uy, uz, t);
    make_positive(settings, value, slopes, sa, sb);
    return along_axes(value, slopes, sa, sb, t);
}

// How far to turn along a principal axis: to the top, or uphill by STRIDE where that is further.
DEVICE float stride(float slope, float bend)
{
    float steep = fabsf(slope), far = STRIDE * (0.0f - bend);
    float size = far > steep ? far : steep;
    return STRIDE * slope / (size > NO_SLOPE ? size : NO_SLOPE);
}

// A unit vector turned along two tangents, by about a and b.
DEVICE Vector tilted(float ux, float uy, float uz, float a, float b, const Vector& first,
                     const Vector& second)
{
    float x = ux + a * first.x + b * second.x, y = uy + a * first.y + b * second.y;
    float z = uz + a * first.z + b * second.z;
    float inverse = 1.0f / root(x * x + y * y + z * z);
    Vector v = {inverse * x, inverse * y, inverse * z};
    return v;
}

// Tell whether the top of the lobe, now at `top`, `up` along a tangent, has turned fast along that over
// the last step; see top_turns() of cpu/drift.py.
DEVICE bool top_turns(const Settings& settings, bool known, float step, float up, const Vector& top,
                      const Vector& tangent)
{
    known = known && up * up < STRIDE * STRIDE;
    float(*tops)[N_LANES] = common().lobe.top;
    int lane = lane_of();
    float x = tops[0][lane], y = tops[1][lane], z = tops[2][lane];
    tops[0][lane] = known ? top.x : 0.0f;
    tops[1][lane] = known ? top.y : 0.0f;
    tops[2][lane] = known ? top.z : 0.0f;
    float along = (top.x - x) * tangent.x + (top.y - y) * tangent.y + (top.z - z) * tangent.z;
    float most = settings.fastest_turn * step;
    return known && x * x + y * y + z * z > 0.0f && along * along > most * most;
}

// Tell whether a lobe is so wide that a direction keeps its place along its wide side; see
// keeps_its_side() of cpu/drift.py.
DEVICE bool keeps_its_side(float roundness, float ga, float ha, float hb, float sa)
{
    float own = ga - sa, wide = 0.0f - ha, narrow = 0.0f - hb;
    return wide >= 0.0f && wide < roundness * narrow && own * own <= narrow;
}

// Tell where a direction keeps its place in the plane of the crossings that it is among; see
// keeps_in_plane() of cpu/drift.py.
DEVICE bool keeps_in_plane(float ga, float hb, float sa)
{
    float own = ga - sa;
    return own * own <= 2.0f * (0.0f - hb);
}

// Turn the axes of log f so that the first is along a vector, where that is not 0: tell whether it is
// not. The mixed second derivative is left out.
DEVICE bool turn_into_plane(const Vector& plane, LogFod& f)
{
    bool among = plane.x * plane.x + plane.y * plane.y + plane.z * plane.z > 0.0f;
    float c = plane.x * f.ax + plane.y * f.ay + plane.z * f.az;
    float s = plane.x * f.bx + plane.y * f.by + plane.z * f.bz;
    float inverse = 1.0f / sqrtf(c * c + s * s + NO_SLOPE);
    c = among ? inverse * c : 1.0f;
    s = inverse * s;
    LogFod g = f;
    f.ax = c * g.ax + s * g.bx;
    f.ay = c * g.ay + s * g.by;
    f.az = c * g.az + s * g.bz;
    f.bx = c * g.bx - s * g.ax;
    f.by = c * g.by - s * g.ay;
    f.bz = c * g.bz - s * g.az;
    f.ga = c * g.ga + s * g.gb;
    f.gb = c * g.gb - s * g.ga;
    f.ha = c * c * g.ha + s * s * g.hb;
    f.hb = s * s * g.ha + c * c * g.hb;
    f.sa = c * g.sa + s * g.sb;
    return among;
}

// A unit vector turned along a tangent by its length, `angle`, but by no more than LONGEST_TURN.
DEVICE Vector turned(float ux, float uy, float uz, float tx, float ty, float tz, float angle)
{
    Turn turn = turn_of(OF_A_TURN * (angle < LONGEST_TURN ? angle : LONGEST_TURN));
    float cosine = turn.cosine, sine = turn.sine / angle;
    return normalised(cosine * ux + sine * tx, cosine * uy + sine * ty, cosine * uz + sine * tz);
}

// Turn a unit vector along the two axes of log f there, by a and b.
DEVICE void turn_along(const LogFod& f, float a, float b, float& ux, float& uy, float& uz)
{
    float tx = a * f.ax + b * f.bx, ty = a * f.ay + b * f.by, tz = a * f.az + b * f.bz;
    float angle = sqrtf(tx * tx + ty * ty + tz * tz);
    if (!(angle > 0.0f)) return;
    Vector v = turned(ux, uy, uz, tx, ty, tz, angle);
    ux = v.x;
    uy = v.y;
    uz = v.z;
}

// Face a direction, or from beyond the cone the border that is nearest to it.
DEVICE void face_in_cone(const Settings& settings, StreamlineState& state, float ux, float uy,
                         float uz)
{
    Vector v = {ux, uy, uz};
    if (state.ux * ux + state.uy * uy + state.uz * uz < settings.cone_cosine) {
        v = onto_border(state.ux, state.uy, state.uz, settings.cone_cosine, settings.cone_sine, ux,
                        uy, uz);
    }
    face(state, v.x, v.y, v.z);
}
