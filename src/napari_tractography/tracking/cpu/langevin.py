"""Diffusion and transport: Langevin dynamics of the direction on the sphere.

The direction u follows du = gamma grad log f dt + sqrt(2 gamma) gamma_noise dW while the position
follows dx = u dt, t in mm; transport is the same without noise. Where f does not depend on the
position, the stationary law of u is f^(1 / gamma_noise^2). As in Tractography.jl, but for the
scheme: an explicit one is unstable where gamma times the step exceeds 0.1 on a sharp FOD.

Each step is cut into parts of gamma dt <= LONGEST_PART, shorter where there is much noise. In each,
log f is taken as the quadratic function of the tangent plane that its gradient and second
derivatives give, for which the dynamics is solved exactly: local linearisation (Ozaki, Statistica
Sinica 2, 1992), stable for any step. The FOD is that at the beginning of the step.

With `min_roundness`, transport does not turn along the wide side of a lobe, see `keeps_its_side`,
unless the top of that turns fast along the way, see `top_turns`;
among crossings, see :mod:`.crossings`, that is the side in their plane, see `keeps_in_plane`.

With `look_ahead`, f is that at x + look_ahead u, to first order: a turn by a small angle leads
aside by look_ahead times it, so that look_ahead times the gradient in space is added to that on the
sphere. Lines are then held where f is large, as those are that are drawn by whole arcs (Tournier,
Calamante & Connelly, "Improved probabilistic streamlines tractography by 2nd order integration over
fibre orientation distributions", ISMRM 2010).
"""

from __future__ import annotations

import math

import numpy as np

from ...model.algorithms.diffusion import ROW
from ...runtime.compiling import compiled, inlined, kept
from ..codes import (
    LN_2,
    LONGEST_PART,
    LOW_AMPLITUDE,
    LOW_PROBABILITY,
    MOST_NOISE,
    UNIT_24,
)
from .cells import HALF, ONE, ZERO, slopes_in_space
from .crossings import see_roundness
from .deterministic import prepare
from .draw import lanes_below_cone_mass, philox_block
from .drift import (
    adaptive_step,
    growth,
    keeps_in_plane,
    keeps_its_side,
    log_fod,
    stride,
    tilted,
    top_turns,
    turned,
    turned_into_plane,
)
from .lanes import (
    CLIMBERS,
    N_LANES,
    booleans_of,
    filled_some,
    load,
    load_some,
    some_booleans_of,
)
from .llvm import bits_of, floors, lowest_bit, roots, select
from .memory import stay, store, store_to
from .sphere.cones import log_of_one_and
from .sphere.tangents import onto_border, turn_of

DIFFUSION = ROW.code
BIT, NONE, SOME = np.uint32(1), np.uint32(0), np.uint32((1 << CLIMBERS) - 1)
TWO = np.float32(2)
SHIFT_8 = np.uint64(8)


@inlined
def gaussians(settings, stream, step, part, purpose):
    """Return two standard normal numbers, after Box and Muller (1958)."""
    r0, r1, _, _ = philox_block(
        np.uint64(stream),
        np.uint64(step),
        np.uint64(part),
        np.uint64(purpose),
        settings.key_0,
        settings.key_1,
    )
    first = (np.float32(r0 >> SHIFT_8) + ONE) * UNIT_24  # in (0, 1]
    digits, exponent = math.frexp(first)  # from 1/2 to 1, times a power of two
    log = np.float32(exponent - 1) * LN_2 + log_of_one_and(TWO * np.float32(digits) - ONE)
    radius = roots(np.float32(-2) * min(log, ZERO))
    cosine, sine = turn_of(np.float32(r1 >> SHIFT_8) * UNIT_24 - HALF)
    return radius * cosine, radius * sine


@kept
def turn_directions(field, settings, scratch, state, n_corners, drawing):
    """Turn a set of lanes by one step of the dynamics; see `draw_directions`."""
    chosen, ended, work = prepare(field, settings, scratch, state, n_corners, drawing)
    if not work:
        return chosen, ended
    little = NONE
    if settings.min_probability > ZERO:
        little = lanes_below_cone_mass(field, settings, scratch, state, n_corners, work)
    looks = n_corners > 1 and settings.look_ahead > ZERO
    if looks:
        directions = load(state.ux), load(state.uy), load(state.uz)
        slopes_in_space(field, scratch, state, work, *directions)
    see_roundness(field, settings, scratch, state, work)
    low = NONE
    for first in range(0, N_LANES, CLIMBERS):
        some = work >> np.uint32(first) & SOME
        if some:
            few = turn_some(field, settings, scratch, state, first, some, looks)
            low |= few << np.uint32(first)
    reason = select(booleans_of(little), np.int32(LOW_PROBABILITY), load(state.reason))
    store(state.reason, select(booleans_of(low), np.int32(LOW_AMPLITUDE), reason))
    stopped = low | little
    return chosen | (work & ~stopped), ended | stopped


@compiled
def turn_some(field, settings, scratch, state, first, lanes, looks):
    """Turn a set of CLIMBERS lanes; return those whose amplitude is too low."""
    numbers = scratch.tried
    first_x, first_y, first_z = (
        load_some(state.ux, first),
        load_some(state.uy, first),
        load_some(state.uz, first),
    )
    ux, uy, uz = first_x, first_y, first_z
    sx = sy = sz = ux - ux
    if looks:
        sx = settings.look_ahead * load_some(scratch.tilted, first)
        sy = settings.look_ahead * load_some(scratch.tilted, N_LANES + first)
        sz = settings.look_ahead * load_some(scratch.tilted, 2 * N_LANES + first)
    longest = LONGEST_PART
    noise = settings.algorithm == DIFFUSION
    size_of_noise = settings.gamma_noise * settings.gamma_noise
    if noise:
        # Else LONGEST_TURN would cut the noise, and directions would be distributed too narrowly.
        size = min(size_of_noise, ONE)
        longest = min(longest, MOST_NOISE / max(size, MOST_NOISE))
    roundness = load_some(state.roundness, first)
    px = load_some(state.plane, first)
    py = load_some(state.plane, N_LANES + first)
    pz = load_some(state.plane, 2 * N_LANES + first)
    n_parts, time = parts_of(settings.gamma * filled_some(settings.step), longest)
    low, turning, part = NONE, lanes, 0
    before, tops, up, bends = load_some(state.step, first), (ux, uy, uz), ux, ux < ux
    while turning:
        stay()
        value, ax, ay, az, bx, by, bz, ga, gb, ha, hb, sa, sb = log_fod(
            field.shifts, settings, state.coefficients[:, first:], ux, uy, uz, sx, sy, sz
        )
        if part == 0:
            low = lanes & ~bits_of((value >= settings.min_amplitude) & (value > ZERO))
            turning &= ~low
            if settings.adaptive:
                length = adaptive_step(settings, ga, gb)
                n_parts, time = parts_of(settings.gamma * length, longest)
                where = some_booleans_of(lanes)
                store_to(state.step, first, select(where, length, load_some(state.step, first)))
        turning &= bits_of(value > ZERO)
        if part == 0 and settings.min_roundness > ZERO:
            up, aside = stride(ga - sa, ha), stride(gb - sb, hb)
            tops = tilted(ux, uy, uz, up, aside, ax, ay, az, bx, by, bz)
        among, ax, ay, az, bx, by, bz, ga, gb, ha, hb, sa = turned_into_plane(
            px, py, pz, ax, ay, az, bx, by, bz, ga, gb, ha, hb, sa, sb
        )
        if part == 0 and settings.min_roundness > ZERO:
            where, known = some_booleans_of(lanes), (value > ZERO) & ~among
            bends = top_turns(settings, state, first, where, known, before, up, *tops, ax, ay, az)
        keeps = keeps_its_side(roundness, ga, ha, hb, sa) & ~bends
        keeps = keeps | (among & keeps_in_plane(ga, hb, sa))
        sa = select(among, settings.look_in_plane * sa, sa)
        a = select(keeps, sa, ga) * growth(select(keeps, hb, ha), time)
        b = gb * growth(hb, time)
        if noise:
            some = turning
            while some:
                lane = first + lowest_bit(some)
                some &= some - BIT
                numbers[0, lane], numbers[1, lane] = gaussians(
                    settings, state.stream[lane], state.steps[lane], part, state.purpose[lane]
                )
            p, q = load_some(numbers, first), load_some(numbers, N_LANES + first)
            # Twice the integral of exp(2 h t); the noise alone is of the order of that of f.
            a = a + p * roots(TWO * size_of_noise * growth(TWO * ha, time))
            b = b + q * roots(TWO * size_of_noise * growth(TWO * hb, time))
        tx, ty, tz = a * ax + b * bx, a * ay + b * by, a * az + b * bz
        nx, ny, nz, angle = turned(ux, uy, uz, tx, ty, tz)
        where = some_booleans_of(turning) & (angle > ZERO)
        ux, uy, uz = select(where, nx, ux), select(where, ny, uy), select(where, nz, uz)
        part += 1
        turning &= bits_of(n_parts > np.float32(part))
    beyond = first_x * ux + first_y * uy + first_z * uz < settings.cone_cosine
    if lanes & bits_of(beyond):
        nx, ny, nz = onto_border(
            first_x, first_y, first_z, settings.cone_cosine, settings.cone_sine, ux, uy, uz
        )
        ux, uy, uz = select(beyond, nx, ux), select(beyond, ny, uy), select(beyond, nz, uz)
    where = some_booleans_of(lanes & ~low)
    store_to(state.ux, first, select(where, ux, first_x))
    store_to(state.uy, first, select(where, uy, first_y))
    store_to(state.uz, first, select(where, uz, first_z))
    return low


@inlined
def parts_of(whole, longest):
    """Return in how many parts of a length at most vectors are cut, and the length of each."""
    n_parts = ZERO - floors(ZERO - whole / longest)
    return n_parts, whole / select(n_parts > ONE, n_parts, ONE)
