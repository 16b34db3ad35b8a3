"""The drift of diffusion and transport: how a direction turns up the gradient of log f.

All functions take numbers or vectors. Called by :mod:`.langevin`, :mod:`.lobes` and, among peaks,
:mod:`.vectors.following`.
"""

from __future__ import annotations

import numpy as np

from ...runtime.compiling import inlined
from ..codes import (
    EXPM1,
    FLAT,
    LIMIT,
    LONGEST,
    LONGEST_TURN,
    NO_SLOPE,
    OF_A_TURN,
    SIXTEENTH,
    SOFTPLUS,
    STEEPEST,
    STRIDE,
)
from .cells import HALF, ONE, ZERO
from .lanes import N_LANES, load_some
from .llvm import roots, select
from .memory import store_to
from .sphere.cones import falling, log_of_one_and
from .sphere.evaluation import derivatives_of_some
from .sphere.tangents import along_tangents, normalised, tangents, turn_of

TWO = np.float32(2)


@inlined
def growth(curvature, time):
    """Return the integral of exp(curvature t) over the time.

    By exp(2 t) - 1 = e (e + 2) with e = exp(t) - 1, four times.
    """
    product = curvature * time
    flat = select(product < ZERO, ZERO - product, product) < FLAT
    most = select(product < ONE, product, ONE)
    t = SIXTEENTH * select(most > -LIMIT, most, -LIMIT)
    power = EXPM1[0] * t + EXPM1[1]
    for k in range(2, len(EXPM1)):
        power = power * t + EXPM1[k]
    power = power * t
    for _ in range(4):
        power = power * (power + TWO)
    return select(flat, time * (ONE + HALF * product), power / select(flat, ONE, curvature))


@inlined
def adaptive_step(settings, ga, gb):
    """Return the length of a step in mm, by the slopes of log f."""
    steepness = ga * ga + gb * gb
    steepness = select(steepness > ONE, steepness, ONE)
    return settings.step * LONGEST / select(steepness < STEEPEST, steepness, STEEPEST)


@inlined
def along_axes(value, ga, gb, haa, hab, hbb, sa, sb, ax, ay, az, bx, by, bz):
    """Return gradient and second derivatives of log f along the principal axes of the latter.

    Given are f, its derivatives along two tangents a and b, and what is added to its gradient along
    them. Where f is not above 0, all that is returned but f is of no meaning.

    Returns
    -------
    value
        f.
    ax, ay, az, bx, by, bz
        The axes: unit vectors, tangents.
    ga, gb, ha, hb
        First and second derivative along each; along a it bends less.
    sa, sb
        What was added to its gradient, along each.
    """
    ga, gb = ga / value, gb / value
    haa = haa / value - ga * ga
    hab = hab / value - ga * gb
    hbb = hbb / value - gb * gb
    sa, sb = sa / value, sb / value
    ga, gb = ga + sa, gb + sb
    across, twice = haa - hbb, hab + hab
    size = roots(across * across + twice * twice)
    # Turn the tangents to the principal axes: by half the angle of (haa - hbb, 2 hab).
    far = select(across < ZERO, ZERO - across, across)
    cosine = roots(HALF * (ONE + far / size))
    sine = HALF * twice / (size * cosine)
    turned = across < ZERO
    other = select(sine >= ZERO, cosine, ZERO - cosine)
    cosine = select(turned, select(sine >= ZERO, sine, ZERO - sine), cosine)
    sine = select(turned, other, sine)
    known = size > ZERO
    cosine, sine = select(known, cosine, ONE), select(known, sine, ZERO)
    mean = HALF * (haa + hbb)
    cx, cy, cz = cosine * ax + sine * bx, cosine * ay + sine * by, cosine * az + sine * bz
    dx, dy, dz = cosine * bx - sine * ax, cosine * by - sine * ay, cosine * bz - sine * az
    return (
        value, cx, cy, cz, dx, dy, dz,
        cosine * ga + sine * gb, cosine * gb - sine * ga, mean + HALF * size, mean - HALF * size,
        cosine * sa + sine * sb, cosine * sb - sine * sa,
    )  # fmt: skip


@inlined
def turned_into_plane(px, py, pz, ax, ay, az, bx, by, bz, ga, gb, ha, hb, sa, sb):
    """Turn the axes of log f so that the first is along a vector p, where that is not 0.

    Returns where it is not; the axes; and first and second derivatives along each, but for the
    mixed one, and what was added to the gradient, along the first.
    """
    among = px * px + py * py + pz * pz > ZERO
    c, s = px * ax + py * ay + pz * az, px * bx + py * by + pz * bz
    inverse = ONE / roots(c * c + s * s + NO_SLOPE)
    c, s = select(among, inverse * c, ONE), inverse * s
    return (
        among,
        c * ax + s * bx, c * ay + s * by, c * az + s * bz,
        c * bx - s * ax, c * by - s * ay, c * bz - s * az,
        c * ga + s * gb, c * gb - s * ga,
        c * c * ha + s * s * hb, s * s * ha + c * c * hb,
        c * sa + s * sb,
    )  # fmt: skip


@inlined
def log_fod(shifts, settings, coefficients, ux, uy, uz, sx, sy, sz):
    """Return the FOD at unit vectors, and gradient and second derivatives of its logarithm.

    All are vectors of lanes. The vector s is added to the gradient of the FOD: what `look_ahead`
    sees. Where the FOD is not above 0, all but its value is of no meaning.

    Returns
    -------
    value
        The FOD.
    ax, ay, az, bx, by, bz
        The principal axes of the second derivatives: unit vectors, tangents at u.
    ga, gb, ha, hb, sa, sb
        See `along_axes`.
    """
    value, gx, gy, gz, hxx, hxy, hxz, hyz, hzz = derivatives_of_some(
        shifts, coefficients, ux, uy, uz
    )
    ax, ay, az, bx, by, bz = tangents(ux, uy, uz)
    sa, sb = sx * ax + sy * ay + sz * az, sx * bx + sy * by + sz * bz
    ga, gb, haa, hab, hbb = along_tangents(
        gx, gy, gz, hxx, hxy, hxz, hyz, hzz, ux, uy, uz, ax, ay, az, bx, by, bz
    )
    value, ga, gb, haa, hab, hbb, sa, sb = made_positive(
        settings, value, ga, gb, haa, hab, hbb, sa, sb
    )
    return along_axes(value, ga, gb, haa, hab, hbb, sa, sb, ax, ay, az, bx, by, bz)


@inlined
def made_positive(settings, value, ga, gb, haa, hab, hbb, sa, sb):
    """Return the FOD, its derivatives along two tangents and what is added to its gradient there.

    As `positivity` makes them of those given.
    """
    if settings.positivity == SOFTPLUS:
        scaled = settings.sharpness * value
        rises = scaled > ZERO
        small = falling(select(rises, scaled, ZERO - scaled))
        slope = select(rises, ONE, small) / (ONE + small)
        bend = settings.sharpness * slope * (ONE - slope)
        value = (select(rises, scaled, ZERO) + log_of_one_and(small)) / settings.sharpness
        haa = slope * haa + bend * ga * ga
        hab = slope * hab + bend * ga * gb
        hbb = slope * hbb + bend * gb * gb
        ga, gb = slope * ga, slope * gb
        sa, sb = slope * sa, slope * sb
    return value, ga, gb, haa, hab, hbb, sa, sb


@inlined
def stride(slope, bend):
    """Return how far to turn along a principal axis of log f.

    To the top, or uphill by STRIDE where that is further or there is none.
    """
    steep = select(slope < ZERO, ZERO - slope, slope)
    far = STRIDE * (ZERO - bend)
    size = select(far > steep, far, steep)
    return STRIDE * slope / select(size > NO_SLOPE, size, NO_SLOPE)


@inlined
def tilted(vx, vy, vz, a, b, ax, ay, az, bx, by, bz):
    """Return unit vectors turned along two tangents, by about a and b."""
    x, y, z = vx + a * ax + b * bx, vy + a * ay + b * by, vz + a * az + b * bz
    inverse = ONE / roots(x * x + y * y + z * z)
    return inverse * x, inverse * y, inverse * z


@inlined
def top_turns(settings, state, first, where, known, step, up, x, y, z, ax, ay, az):
    """Tell of CLIMBERS lanes where the top of the lobe turns fast along a tangent a.

    Over the last step. Where two bundles cross at so small an angle that their lobes are one, its
    top hardly turns along the way; where one bundle bends it turns as the bundle does. The top is
    (x, y, z) now, by `up` along the tangent: by less than STRIDE, else it is not known. It is kept
    for the next step where `where` is true.
    """
    tx = load_some(state.top, first)
    ty = load_some(state.top, N_LANES + first)
    tz = load_some(state.top, 2 * N_LANES + first)
    known = known & (up * up < STRIDE * STRIDE)
    store_to(state.top, first, select(where, select(known, x, ZERO), tx))
    store_to(state.top, N_LANES + first, select(where, select(known, y, ZERO), ty))
    store_to(state.top, 2 * N_LANES + first, select(where, select(known, z, ZERO), tz))
    along = (x - tx) * ax + (y - ty) * ay + (z - tz) * az
    most = settings.fastest_turn * step
    return known & (tx * tx + ty * ty + tz * tz > ZERO) & (along * along > most * most)


@inlined
def keeps_its_side(roundness, ga, ha, hb, sa):
    """Tell where a lobe is so wide that a direction keeps its place along its wide side.

    As where two bundles cross at so small an angle that their lobes are one, wide in the plane of
    both. Its top leads to neither; where a line came from is all that tells which of the two it
    follows, and only what it sees ahead turns it there. But it turns out of a dip between lobes,
    where log f bends up, and where the slope is steeper than at one standard deviation from the top
    of a round lobe: such a direction is of neither bundle.
    """
    own, wide, narrow = ga - sa, ZERO - ha, ZERO - hb
    is_wide = (wide >= ZERO) & (wide < roundness * narrow)
    return is_wide & (own * own <= narrow)


@inlined
def keeps_in_plane(ga, hb, sa):
    """Tell where a direction keeps its place in the plane of the crossings that it is among.

    Be there a dip or not; but for where the slope is steeper than at 1.4 standard deviations from
    the top of a round lobe.
    """
    own = ga - sa
    return own * own <= TWO * (ZERO - hb)


@inlined
def turned(ux, uy, uz, tx, ty, tz):
    """Return a unit vector turned along a tangent, by its length, and that; of 0 it is NaN.

    By no more than LONGEST_TURN.
    """
    angle = roots(tx * tx + ty * ty + tz * tz)
    cosine, sine = turn_of(OF_A_TURN * select(angle < LONGEST_TURN, angle, LONGEST_TURN))
    sine = sine / angle
    x, y, z = normalised(cosine * ux + sine * tx, cosine * uy + sine * ty, cosine * uz + sine * tz)
    return x, y, z, angle
