// The lobe that a line follows: its axis, and which directions are of it. Twin of cpu/lobes.py, where
// the method is explained.
#pragma once

#include "drift.h"
#include "looks.h"

// A strip of the cone, through its middle, in the plane of equal areas about that, of which the
// tangents there are the axes: the unit vector across the strip, where it begins along that and how
// wide it is. Without a width there is none.
struct Strip {
    float a, b, first, width;
};

DEVICE Vector of_lane(const float (*vectors)[N_LANES], int lane)
{
    Vector v = {vectors[0][lane], vectors[1][lane], vectors[2][lane]};
    return v;
}

DEVICE void put_lanes(float (*vectors)[N_LANES], int lane, float x, float y, float z)
{
    vectors[0][lane] = x;
    vectors[1][lane] = y;
    vectors[2][lane] = z;
}

DEVICE Strip strip_of_lane(int lane)
{
    const Lobe& lobe = common().lobe;
    Strip strip = {lobe.strip[0][lane], lobe.strip[1][lane], lobe.strip[2][lane],
                   lobe.strip[3][lane]};
    return strip;
}

DEVICE void put_strip(int lane, const Strip& strip)
{
    Lobe& lobe = common().lobe;
    lobe.strip[0][lane] = strip.a;
    lobe.strip[1][lane] = strip.b;
    lobe.strip[2][lane] = strip.first;
    lobe.strip[3][lane] = strip.width;
}

// How to turn two tangents to the principal axes of second derivatives, and those there; along the
// first axis they are larger.
struct Principal {
    float cosine, sine, ha, hb;
};

DEVICE Principal principal_axes(float haa, float hab, float hbb)
{
    float across = haa - hbb, twice = hab + hab;
    float size = sqrtf(across * across + twice * twice);  // may be 0, as the next
    float far = size + fabsf(across);  // half the angle of (across, twice)
    float length = sqrtf(far * far + twice * twice);
    float inverse = 1.0f / (length > 0.0f ? length : 1.0f);
    float along = length > 0.0f ? far * inverse : 1.0f, aside = twice * inverse;
    float mean = 0.5f * (haa + hbb);
    Principal p = {along, aside, mean + 0.5f * size, mean - 0.5f * size};
    if (across < 0.0f) {
        p.cosine = fabsf(aside);
        p.sine = aside < 0.0f ? 0.0f - along : along;
    }
    return p;
}

// What is to be drawn from of the cone around u: a strip, no further from the axis v than `half` along
// the tangent w by which the lobe is wide. All of the cone where u is further from it than the lobe's
// angle.
DEVICE Strip strip_of(const Settings& settings, float half, const Vector& u, const Vector& v,
                      const Vector& w)
{
    Strip strip = {0.0f, 0.0f, 0.0f, 0.0f};
    Tangents t = tangents_of(u.x, u.y, u.z);
    float a = w.x * t.ax + w.y * t.ay + w.z * t.az, b = w.x * t.bx + w.y * t.by + w.z * t.bz;
    float size = sqrtf(a * a + b * b);
    float inverse = 1.0f / (size > 0.0f ? size : 1.0f);
    a = inverse * a;
    b = inverse * b;
    float va = v.x * t.ax + v.y * t.ay + v.z * t.az, vb = v.x * t.bx + v.y * t.by + v.z * t.bz;
    float middle = va * a + vb * b;
    if (!(u.x * v.x + u.y * v.y + u.z * v.z > ASTRAY && fabsf(middle) <= settings.lobe_width))
        return strip;
    float first = middle - half, last = middle + half;
    first = first > 0.0f - settings.cone_width ? first : 0.0f - settings.cone_width;
    last = last < settings.cone_width ? last : settings.cone_width;
    strip.a = a;
    strip.b = b;
    strip.first = first;
    strip.width = last - first;
    return strip;
}

// A uniformly distributed direction of a strip, around the z axis; of the rectangle around it, so that
// it may be outside the cone. Takes what `point_of` takes.
DEVICE Vector point_of_strip(const Settings& settings, const Strip& strip, unsigned int word_0,
                             unsigned int word_1)
{
    float along = strip.first + strip.width * middle_of(word_0, 0.0f);
    float beside = 2.0f * settings.cone_width * middle_of(word_1, 0.5f);
    float down = 0.5f * (along * along + beside * beside);
    float radius = root(1.0f - 0.5f * down);
    Vector v = {radius * (along * strip.a - beside * strip.b),
                radius * (along * strip.b + beside * strip.a), 1.0f - down};
    return v;
}

// How round a lobe is to be where a line is, else it counts as wide: among crossings, all do.
DEVICE float roundness_at(const Field& field, const Settings& settings, const Interpolant& interpolant)
{
    if (!(settings.min_roundness > 0.0f)) return settings.min_roundness;
    ENSURE_CROSSING(field, interpolant);
    return field.crossings[interpolant.row] >= AMONG_CROSSINGS ? 1.0f : settings.min_roundness;
}

// Across the crossings that a line is among, in their plane; zeros elsewhere. Before that it is asked
// how round a lobe is to be.
DEVICE Vector plane_at(const Field& field, const Settings& settings, const Interpolant& interpolant)
{
    Vector plane = {0.0f, 0.0f, 0.0f};
    if (!(settings.min_roundness > 0.0f)) return plane;
    unsigned int seen = field.crossings[interpolant.row];
    if (seen < AMONG_CROSSINGS) return plane;
    const float* points = field.sphere_points + (seen >> PLANE_BITS & PLANE);
    plane.x = points[0];
    plane.y = points[field.n_sphere_points];
    plane.z = points[2 * field.n_sphere_points];
    return plane;
}

// Go on to the axis of this step, and look at the lobe there.
DEVICE void see_lobe(const Field& field, const Settings& settings, const Interpolant& interpolant,
                     const StreamlineState& state)
{
    Lobe& lobe = common().lobe;
    int lane = lane_of();
    float roundness = roundness_at(field, settings, interpolant);
    Vector plane = plane_at(field, settings, interpolant);
    bool among = plane.x * plane.x + plane.y * plane.y + plane.z * plane.z > 0.0f;
    Vector v = of_lane(lobe.next, lane);
    Derivatives d = derivatives_at(own_fod(), v.x, v.y, v.z);
    Tangents t = tangents_of(v.x, v.y, v.z);
    Slopes s = along_tangents(d, v.x, v.y, v.z, t);
    float value = d.value, sa = 0.0f, sb = 0.0f;
    if (among && settings.interpolation != NEAREST && settings.look_ahead > 0.0f) {
        Vector slope = slope_in_space(field, interpolant, state, v.x, v.y, v.z);
        float ahead = settings.look_in_plane * settings.look_ahead;
        sa = ahead * (slope.x * t.ax + slope.y * t.ay + slope.z * t.az);
        sb = ahead * (slope.x * t.bx + slope.y * t.by + slope.z * t.bz);
    }
    make_positive(settings, value, s, sa, sb);
    bool known = value > 0.0f;
    put_lanes(lobe.axis, lane, v.x, v.y, v.z);
    lobe.along[lane] = known ? value : 0.0f;
    Strip strip = {0.0f, 0.0f, 0.0f, 0.0f};
    if (known) {
        // Of log f, times f squared, which saves dividing by f; the gradient alone times f.
        Principal p = principal_axes(value * s.haa - s.ga * s.ga, value * s.hab - s.ga * s.gb,
                                     value * s.hbb - s.gb * s.gb);
        if (among) {
            float haa = value * s.haa - s.ga * s.ga, hab = value * s.hab - s.ga * s.gb;
            float hbb = value * s.hbb - s.gb * s.gb;
            float c = plane.x * t.ax + plane.y * t.ay + plane.z * t.az;
            float e = plane.x * t.bx + plane.y * t.by + plane.z * t.bz;
            float inverse = 1.0f / sqrtf(c * c + e * e + NO_SLOPE);
            c = inverse * c;
            e = inverse * e;
            p.hb = e * e * haa - 2.0f * c * e * hab + c * c * hbb;  // across the plane
            p.cosine = c;
            p.sine = e;
        }
        float c = p.cosine, e = p.sine;
        Vector wide_axis = {c * t.ax + e * t.bx, c * t.ay + e * t.by, c * t.az + e * t.bz};
        Vector other = {c * t.bx - e * t.ax, c * t.by - e * t.ay, c * t.bz - e * t.az};
        float ga = c * s.ga + e * s.gb, gb = c * s.gb - e * s.ga;
        float up = stride(value * ga, p.ha), aside = stride(value * gb, p.hb);
        Vector top = tilted(v.x, v.y, v.z, up, aside, wide_axis, other);
        bool bends = top_turns(settings, !among, settings.step, up, top, wide_axis);
        bool wide = among || (!bends && keeps_its_side(roundness, ga, p.ha, p.hb, 0.0f));
        float half = among ? 0.5f * settings.lobe_width : settings.lobe_width;
        if (wide) strip = strip_of(settings, half, Vector{state.ux, state.uy, state.uz}, v, wide_axis);
        float seen = c * sa + e * sb;
        float a = wide ? stride(value * seen, p.hb) : up;
        Vector next = tilted(v.x, v.y, v.z, a, aside, wide_axis, other);
        put_lanes(lobe.next, lane, next.x, next.y, next.z);
    } else {
        put_lanes(lobe.top, lane, 0.0f, 0.0f, 0.0f);
    }
    put_strip(lane, strip);
}

// Let the mirror image of the direction that was drawn, at the axis of its lobe, be proposed next,
// where there is one; twin of mirror() of cpu/lobes.py.
DEVICE void mirror(const Settings& settings, StreamlineState& state)
{
    int lane = lane_of();
    const Lobe& lobe = common().lobe;
    Vector v = of_lane(lobe.axis, lane);
    float cosine = state.tx * v.x + state.ty * v.y + state.tz * v.z, twice = cosine + cosine;
    float x = twice * v.x - state.tx, y = twice * v.y - state.ty, z = twice * v.z - state.tz;
    float ahead = state.ux * x + state.uy * y + state.uz * z;
    state.mirrored = cosine > ASTRAY && ahead >= 1.0f - settings.cone_height &&
                     !(lobe.strip[3][lane] > 0.0f);
    state.tx = x;
    state.ty = y;
    state.tz = z;
}

// Tell whether one more direction is to be drawn, since this one is of another lobe; twin of
// lanes_of_another_lobe() of cpu/lobes.py.
DEVICE bool is_of_another_lobe(const Settings& settings, const StreamlineState& state)
{
    if (!(settings.lobe_cosine > 0.0f) || state.n_proposals >= LOBE_PROPOSALS) return false;
    int lane = lane_of();
    Vector u = of_lane(common().lobe.axis, lane);
    float x = state.tx, y = state.ty, z = state.tz;
    float cosine = x * u.x + y * u.y + z * u.z;
    float mx = x + u.x, my = y + u.y, mz = z + u.z;
    float inverse = 1.0f / root(mx * mx + my * my + mz * mz);
    float between = fmaxf(positive(sharpness_of(settings),
                                   amplitude_of_lane(lane, inverse * mx, inverse * my, inverse * mz)),
                          0.0f);
    float kept = cosine;
    if (LMAX >= NARROW_LMAX) kept = state.ux * u.x + state.uy * u.y + state.uz * u.z;
    return between * between < BULGE * common().lobe.along[lane] * state.height && kept > ASTRAY &&
           cosine < settings.lobe_cosine;
}
