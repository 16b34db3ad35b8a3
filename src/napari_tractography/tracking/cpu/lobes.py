"""The lobe of the FOD that a line follows: its axis, and what of the cone belongs to it.

Where bundles cross, a line that draws its direction step after step changes over to the other,
sooner or later. So it knows the axis of its lobe, and draws directions of that lobe alone.

Two lobes that are apart: within one the logarithm of the FOD is concave, so that half way between
two of its directions it is above the mean of both; between two lobes it is below, be there a dip or
a shoulder. `lanes_of_another_lobe` tells by that.

Two lobes that are one, as where bundles cross at so small an angle that no dip is left: such a lobe
is wide in the plane of both, and across it as narrow as that of one bundle. With `min_roundness`
`see_lobes` sees that by the second derivatives of log f along the axis, see `keeps_its_side`. There
the axis keeps its place along the tangent by which the lobe is wide, since nothing else tells which
of the two bundles the line follows, and directions are drawn from a strip of the cone across that
tangent. In all else the axis turns to the top of the lobe, by Newton's method; so it does where the
top turns fast along the way, as that of one bundle which bends does, see `top_turns`.

Among crossings, see :mod:`.crossings`, that tangent is in their plane, whatever the derivatives
say: in a scan with noise they do not tell. Along it the axis turns to where the FOD is larger a
little ahead, which leads from the side of a bundle back into it. Strips are half as wide there: the
FOD grows towards the other bundle, and the side nearest to that would be drawn most.

Beside the axis a direction has its mirror image, as far from it on the other side. Where the FOD
fades ahead along the one, as at the side of a bundle, the other leads back into it: see `mirror`.
"""

from __future__ import annotations

import numpy as np

from ...runtime.compiling import inlined, kept
from ..codes import ASTRAY, BULGE, LOBE_PROPOSALS, NARROW_LMAX, NO_SLOPE, UNIT_20
from .cells import slopes_in_space
from .crossings import see_roundness
from .drift import keeps_its_side, made_positive, stride, tilted, top_turns
from .lanes import CLIMBERS, N_LANES, booleans_of, load, load_from, load_some, some_booleans_of
from .llvm import as_ints, bits_of, roots, select, to_floats
from .memory import stay, store_to
from .sphere.cones import positive
from .sphere.evaluation import derivatives_of_some, values_of_lanes
from .sphere.tangents import along_tangents, tangents, turn_of

ZERO, ONE, TWO, HALF = np.float32(0), np.float32(1), np.float32(2), np.float32(0.5)
NONE, SOME = np.uint32(0), np.uint32((1 << CLIMBERS) - 1)
# Where the vectors of a lane begin in ``state.lobe``: the axis; that of the next step; the FOD
# along the axis; and a strip of the cone, through its middle, in the plane of equal areas about it,
# of which the tangents there are the axes: the unit vector across the strip, where it begins along
# that and how wide it is. Without a width there is none. Last, the mirror image that is to be
# proposed, and the FOD along the direction that it is of.
AXIS, NEXT, ALONG, STRIP, IMAGE = 0, 3 * N_LANES, 6 * N_LANES, 7 * N_LANES, 11 * N_LANES


@inlined
def begin_lobe(state, lane):
    """Let the direction of a lane be the axis of its lobe."""
    state.lobe[3, lane] = state.ux[lane]
    state.lobe[4, lane] = state.uy[lane]
    state.lobe[5, lane] = state.uz[lane]
    for axis in range(3):
        state.top[axis, lane] = ZERO


@kept
def see_lobes(field, settings, scratch, state, n_corners, lanes):
    """Go on to the axes of this step, of a set of lanes, and look at their lobes there."""
    see_roundness(field, settings, scratch, state, lanes)
    among = NONE
    if n_corners > 1 and settings.look_ahead > ZERO:
        px, py = load_from(state.plane, 0), load_from(state.plane, N_LANES)
        pz = load_from(state.plane, 2 * N_LANES)
        among = lanes & bits_of(px * px + py * py + pz * pz > ZERO)
    if among:
        vx, vy = load_from(state.lobe, NEXT), load_from(state.lobe, NEXT + N_LANES)
        vz = load_from(state.lobe, NEXT + 2 * N_LANES)
        slopes_in_space(field, scratch, state, among, vx, vy, vz)
    for first in range(0, N_LANES, CLIMBERS):
        some = lanes >> np.uint32(first) & SOME
        if some:
            stay()
            see_some(field, settings, scratch, state, first, some, among >> np.uint32(first))


@inlined
def see_some(field, settings, scratch, state, first, lanes, looking):
    """Do so for a set of CLIMBERS lanes.

    Of those that are `looking`, gradients in space along the axes are in ``scratch.tilted``.
    """
    where = some_booleans_of(lanes)
    vx, vy, vz = (
        load_some(state.lobe, NEXT + first),
        load_some(state.lobe, NEXT + N_LANES + first),
        load_some(state.lobe, NEXT + 2 * N_LANES + first),
    )
    zero = vx - vx
    value, gx, gy, gz, hxx, hxy, hxz, hyz, hzz = derivatives_of_some(
        field.shifts, state.coefficients[:, first:], vx, vy, vz
    )
    ax, ay, az, bx, by, bz = tangents(vx, vy, vz)
    ga, gb, haa, hab, hbb = along_tangents(
        gx, gy, gz, hxx, hxy, hxz, hyz, hzz, vx, vy, vz, ax, ay, az, bx, by, bz
    )
    sa = sb = zero
    if looking & SOME:
        seeing, ahead = some_booleans_of(looking), settings.look_in_plane * settings.look_ahead
        sx = load_some(scratch.tilted, first)
        sy = load_some(scratch.tilted, N_LANES + first)
        sz = load_some(scratch.tilted, 2 * N_LANES + first)
        sa = select(seeing, ahead * (sx * ax + sy * ay + sz * az), zero)
        sb = select(seeing, ahead * (sx * bx + sy * by + sz * bz), zero)
    value, ga, gb, haa, hab, hbb, sa, sb = made_positive(
        settings, value, ga, gb, haa, hab, hbb, sa, sb
    )
    known = value > ZERO
    # Of log f, times f squared, which saves dividing by f; the gradient alone times f.
    haa, hab, hbb = value * haa - ga * ga, value * hab - ga * gb, value * hbb - gb * gb
    px = load_some(state.plane, first)
    py = load_some(state.plane, N_LANES + first)
    pz = load_some(state.plane, 2 * N_LANES + first)
    cosine, sine, ha, hb = principal_axes(haa, hab, hbb)
    among = px * px + py * py + pz * pz > ZERO
    c, s = px * ax + py * ay + pz * az, px * bx + py * by + pz * bz
    inverse = ONE / roots(c * c + s * s + NO_SLOPE)
    c, s = inverse * c, inverse * s
    cosine, sine = select(among, c, cosine), select(among, s, sine)
    bend = s * s * haa - TWO * c * s * hab + c * c * hbb  # across the plane
    hb = select(among, bend, hb)
    ax, ay, az, bx, by, bz = (
        cosine * ax + sine * bx,
        cosine * ay + sine * by,
        cosine * az + sine * bz,
        cosine * bx - sine * ax,
        cosine * by - sine * ay,
        cosine * bz - sine * az,
    )
    ga, gb = cosine * ga + sine * gb, cosine * gb - sine * ga
    up, aside = stride(value * ga, ha), stride(value * gb, hb)
    tx, ty, tz = tilted(vx, vy, vz, up, aside, ax, ay, az, bx, by, bz)
    bends = top_turns(
        settings, state, first, where, known & ~among, settings.step, up, tx, ty, tz, ax, ay, az
    )
    keeps = keeps_its_side(load_some(state.roundness, first), ga, ha, hb, zero) & ~bends
    wide = known & (among | keeps)
    half = select(among, HALF * settings.lobe_width, settings.lobe_width)
    store_strips(settings, state, first, where, wide, half, vx, vy, vz, ax, ay, az)
    seen = cosine * sa + sine * sb
    a = select(wide, stride(value * seen, hb), up)
    nx, ny, nz = tilted(vx, vy, vz, a, aside, ax, ay, az, bx, by, bz)
    store_some(state, AXIS + first, where, vx)
    store_some(state, AXIS + N_LANES + first, where, vy)
    store_some(state, AXIS + 2 * N_LANES + first, where, vz)
    store_some(state, NEXT + first, where & known, nx)
    store_some(state, NEXT + N_LANES + first, where & known, ny)
    store_some(state, NEXT + 2 * N_LANES + first, where & known, nz)
    store_some(state, ALONG + first, where, select(known, value, ZERO))


@inlined
def principal_axes(haa, hab, hbb):
    """Return how to turn two tangents to the principal axes of second derivatives, and those there.

    Returns
    -------
    cosine, sine, ha, hb
        Of the angle; along the first axis they are larger.
    """
    across, twice = haa - hbb, hab + hab
    size = roots(across * across + twice * twice)
    # By half the angle of (across, twice).
    far = size + select(across < ZERO, ZERO - across, across)
    length = roots(far * far + twice * twice)
    inverse = ONE / select(length > ZERO, length, ONE)
    long, short = select(length > ZERO, far * inverse, ONE), twice * inverse
    other, sign = select(short < ZERO, ZERO - short, short), select(short < ZERO, ZERO - long, long)
    turned, mean = across < ZERO, HALF * (haa + hbb)
    cosine, sine = select(turned, other, long), select(turned, sign, short)
    return cosine, sine, mean + HALF * size, mean - HALF * size


@inlined
def store_strips(settings, state, first, where, wide, half, vx, vy, vz, wx, wy, wz):
    """Keep what is to be drawn from of the cones of CLIMBERS lanes where lobes are wide: a strip.

    It is no further from the axis v than `half` along w, the tangent by which the lobe is wide. All
    of the cone where the direction itself is further from it than the angle of the lobe.
    """
    ux, uy, uz = load_some(state.ux, first), load_some(state.uy, first), load_some(state.uz, first)
    ax, ay, az, bx, by, bz = tangents(ux, uy, uz)
    a, b = wx * ax + wy * ay + wz * az, wx * bx + wy * by + wz * bz
    size = roots(a * a + b * b)
    inverse = ONE / select(size > ZERO, size, ONE)
    a, b = inverse * a, inverse * b
    va, vb = vx * ax + vy * ay + vz * az, vx * bx + vy * by + vz * bz
    middle = va * a + vb * b
    far = select(middle < ZERO, ZERO - middle, middle)
    there = wide & (ux * vx + uy * vy + uz * vz > ASTRAY) & (far <= settings.lobe_width)
    begin, end = middle - half, middle + half
    begin = select(begin > ZERO - settings.cone_width, begin, ZERO - settings.cone_width)
    end = select(end < settings.cone_width, end, settings.cone_width)
    store_some(state, STRIP + first, where, a)
    store_some(state, STRIP + N_LANES + first, where, b)
    store_some(state, STRIP + 2 * N_LANES + first, where, begin)
    store_some(state, STRIP + 3 * N_LANES + first, where, select(there, end - begin, ZERO))


@inlined
def store_some(state, at, where, new):
    """Keep numbers of those of CLIMBERS lanes for which `where` is true."""
    store_to(state.lobe, at, select(where, new, load_some(state.lobe, at)))


@inlined
def point_of_lobe(settings, state, starting, word_0, word_1, height):
    """Return uniformly distributed directions of cones around the z axis, or of their strips.

    Of the rectangle around a strip, so that they may be outside the cone. Takes what `point_of`
    takes, and returns what it does where there is no strip.
    """
    a, b = load_from(state.lobe, STRIP), load_from(state.lobe, STRIP + N_LANES)
    begin, width = (
        load_from(state.lobe, STRIP + 2 * N_LANES),
        load_from(state.lobe, STRIP + 3 * N_LANES),
    )
    is_strip = (width > ZERO) & ~starting
    first, second = (
        (to_floats(as_ints(word_0 >> 12)) + HALF) * UNIT_20,
        (to_floats(as_ints(word_1 >> 12)) + HALF) * UNIT_20 - HALF,
    )
    along, beside = begin + width * first, TWO * settings.cone_width * second
    down = select(is_strip, HALF * (along * along + beside * beside), height * first)
    radius = roots(select(is_strip, ONE - HALF * down, down * (TWO - down)))
    cosine, sine = turn_of(second)
    x = select(is_strip, along * a - beside * b, cosine)
    y = select(is_strip, along * b + beside * a, sine)
    return radius * x, radius * y, ONE - down


@inlined
def mirror(settings, state, lanes, x, y, z, here):
    """Return those of a set of lanes that are to propose mirror images, and keep these.

    Of unit vectors (x, y, z), along which the FOD is `here`, at the axis of their lobe. There are
    none of directions that have left the lobe, where it is wide, and of those that would leave the
    cone. An image d' of d is to be accepted with the probability min(1, f(d') / f(d)).
    """
    vx, vy = load_from(state.lobe, AXIS), load_from(state.lobe, AXIS + N_LANES)
    vz, width = (
        load_from(state.lobe, AXIS + 2 * N_LANES),
        load_from(state.lobe, STRIP + 3 * N_LANES),
    )
    cosine = x * vx + y * vy + z * vz
    twice = cosine + cosine
    qx, qy, qz = twice * vx - x, twice * vy - y, twice * vz - z
    ahead = load(state.ux) * qx + load(state.uy) * qy + load(state.uz) * qz
    there = (cosine > ASTRAY) & (ahead >= ONE - settings.cone_height) & ~(width > ZERO)
    lanes &= bits_of(there)
    where = booleans_of(lanes)
    for number, new in enumerate((qx, qy, qz, here)):
        old = load_from(state.lobe, IMAGE + number * N_LANES)
        store_to(state.lobe, IMAGE + number * N_LANES, select(where, new, old))
    return lanes


@kept
def lanes_of_another_lobe(field, settings, scratch, state, lanes):
    """Return those of a set of lanes that are to draw again, since they drew from another lobe.

    What they drew is in ``scratch.tried``, and the amplitude there.
    """
    lanes &= bits_of(load(state.n_proposals) < np.uint32(LOBE_PROPOSALS))
    if not lanes:
        return NONE
    x, y = load_from(scratch.tried, 0), load_from(scratch.tried, N_LANES)
    z, here = load_from(scratch.tried, 2 * N_LANES), load_from(scratch.tried, 3 * N_LANES)
    ux, uy = load_from(state.lobe, AXIS), load_from(state.lobe, AXIS + N_LANES)
    uz, along = load_from(state.lobe, AXIS + 2 * N_LANES), load_from(state.lobe, ALONG)
    mx, my, mz = x + ux, y + uy, z + uz
    inverse = ONE / roots(mx * mx + my * my + mz * mz)
    between = values_of_lanes(
        field.shifts, state.coefficients, inverse * mx, inverse * my, inverse * mz
    )
    between = positive(settings, between)
    between = select(between > ZERO, between, ZERO)
    cosine = x * ux + y * uy + z * uz
    is_other = (between * between < BULGE * along * here) & (cosine < settings.lobe_cosine)
    kept = cosine
    if len(field.shifts) > NARROW_LMAX:
        kept = load(state.ux) * ux + load(state.uy) * uy + load(state.uz) * uz
    return lanes & bits_of(is_other & (kept > ASTRAY))
