"""The next directions of all lanes, drawn from the interpolated FOD within their cones.

Rejection sampling: a direction that is uniform in the cone is proposed, and accepted with the
probability of its amplitude over a bound that no amplitude exceeds, so that accepted directions
have exactly the distribution of the FOD in the cone. The bound is that of the voxels around. After
FIRST_PROPOSALS the cone is sampled, to see whether any amplitude reaches the floor; after
SECOND_PROPOSALS the largest amplitude of the cone becomes the bound; and after MAX_PROPOSALS, by
which time a cone has next to nothing above the floor, the direction of the largest is taken.

With `lobe` directions that are not of the line's own lobe are drawn anew, see :mod:`.lobes`: where
another bundle crosses its own a line does not change over. Where that is a third of them, a pass
takes 19 of 32 lanes on if they draw anew at once, and 12 if in the next pass.

With `look_ahead` the first direction that is drawn may be passed over, see `lanes_that_fade`. With
both its mirror image in the lobe is proposed before another is drawn.

Masked SIMD with lane refill: a lane whose proposals are rejected proposes again in the next pass,
while other lanes take their step. Sets of lanes are the bits of a uint32.
"""

from __future__ import annotations

import numpy as np

from ...model.philox import MULTIPLIER_0, MULTIPLIER_1, ROUNDS, WEYL_0, WEYL_1
from ...runtime.compiling import inlined, kept
from ..codes import (
    CLIP,
    EDGE_VOXEL,
    EVERYWHERE,
    FADED,
    FIRST_PROPOSALS,
    LOOK_BLOCK,
    LOW_AMPLITUDE,
    LOW_PROBABILITY,
    MARGIN,
    MAX_PROPOSALS,
    NO_FOD,
    PROPOSALS_A_BLOCK,
    PURPOSE_START,
    SECOND_PROPOSALS,
    SURELY,
    TWO_PI,
    UNIT_20,
    UNIT_24,
)
from .cells import ask_ahead, find_ahead, find_rows_of, mean_amplitude, mix
from .lanes import (
    AWAY,
    FADING,
    MIRRORED,
    MOVED,
    N_LANES,
    WEIGHED,
    booleans_of,
    filled,
    filled_words,
    load,
    load_from,
    numbers_of_lanes,
    sum_of_positive,
)
from .llvm import (
    as_ints,
    as_words,
    bits_of,
    count_bits,
    lowest_bit,
    narrowed,
    roots,
    select,
    to_floats,
    widened,
)
from .lobes import IMAGE, lanes_of_another_lobe, mirror, point_of_lobe, see_lobes
from .memory import stay, store, store_to
from .sphere.cones import (
    allowed_lanes,
    allowed_of,
    face,
    face_ahead,
    keep_allowed,
    make_positive,
    positive,
)
from .sphere.evaluation import convolved_of_lanes, values_at, values_of_lanes
from .sphere.peaks import (
    largest_in_cone,
    largest_value,
    point_in_cone,
    sample_amplitudes,
    squared_slope,
)
from .sphere.tangents import tangents, turn_of

MUL_0 = np.uint64(MULTIPLIER_0)
MUL_1 = np.uint64(MULTIPLIER_1)
BUMP_0 = np.uint64(WEYL_0)
BUMP_1 = np.uint64(WEYL_1)
LOW_32 = np.uint64(0xFFFFFFFF)
BITS_32 = np.uint64(32)
BIT, NONE, EVERY = np.uint32(1), np.uint32(0), np.uint32((1 << N_LANES) - 1)
ZERO, ONE, TWO, HALF = np.float32(0), np.float32(1), np.float32(2), np.float32(0.5)
# Blocks of start directions that one lane proposes at once.
AT_ONCE = min(N_LANES, FIRST_PROPOSALS // PROPOSALS_A_BLOCK)
FIRST_OF_ALL = np.uint32((1 << AT_ONCE) - 1)
# Lanes that propose again in the next pass, of all and of those on their way; more do so at once.
# A pass costs those on their way more than a proposal; others propose many times.
FEW, FEW_ON_THEIR_WAY = 5 * N_LANES // 8, 5 * N_LANES // 16


@inlined
def philox_block(c0, c1, c2, c3, k0, k1):
    """Return four random numbers of 32 bits, as uint64; see philox.py for the specification.

    The counter c0 to c3 is of numbers or of vectors, uint64 below 2^32; the key is of numbers. Both
    factors are masked right where they are multiplied, so that LLVM sees that a product of 32 bits
    each is enough for vectors.
    """
    for _ in range(ROUNDS):
        p0 = MUL_0 * (c0 & LOW_32)
        p1 = MUL_1 * (c2 & LOW_32)
        c0 = (p1 >> BITS_32) ^ c1 ^ k0
        c2 = (p0 >> BITS_32) ^ c3 ^ k1
        c1, c3 = p1, p0
        k0 = (k0 + BUMP_0) & LOW_32
        k1 = (k1 + BUMP_1) & LOW_32
    return c0 & LOW_32, c1 & LOW_32, c2 & LOW_32, c3 & LOW_32


@inlined
def random_words(settings, state, block):
    """Return four random words (uint32) for the next step of every lane; `block` counts draws."""
    w0, w1, w2, w3 = philox_block(
        widened(load(state.stream)),
        widened(as_words(load(state.steps))),
        widened(block),
        widened(load(state.purpose)),
        settings.key_0,
        settings.key_1,
    )
    return narrowed(w0), narrowed(w1), narrowed(w2), narrowed(w3)


@inlined
def point_of(word_0, word_1, height):
    """Return a uniformly distributed direction of a cone around the z axis; vectors.

    `height` is 1 minus the cosine of the half-angle. Takes the high 20 bits of two random words;
    the low 12 of each are left.
    """
    down = height * ((to_floats(as_ints(word_0 >> 12)) + HALF) * UNIT_20)
    cosine, sine = turn_of((to_floats(as_ints(word_1 >> 12)) + HALF) * UNIT_20 - HALF)
    radius = roots(down * (TWO - down))
    return radius * cosine, radius * sine, ONE - down


@kept
def draw_directions(field, settings, scratch, state, n_corners, drawing):
    """Draw the next directions of a set of lanes.

    Returns two sets: the lanes that have one now, in ``state.ux``, ``uy`` and ``uz``, and those
    that stop, for ``state.reason``. The others are to propose again.
    """
    # Rows that were asked for in the last pass are there by now; those asked for in this one are
    # for the next.
    expected = drawing & np.uint32(state.progress[AWAY])
    ended = arrive(field, settings, scratch, state, n_corners, drawing & ~expected)
    find_rows_of(field, state, n_corners, expected)
    trying = drawing & ~(ended | expected)
    ux, uy, uz = load(state.ux), load(state.uy), load(state.uz)
    starting = load(state.purpose) == np.uint32(PURPOSE_START)
    height = select(starting, TWO, filled(settings.cone_height))
    ax, ay, az, bx, by, bz = tangents(ux, uy, uz)
    n_proposals, bound = load(state.n_proposals), positive(settings, load(state.bound))
    if field.allowed.size:
        turned = trying & bits_of(~starting & (n_proposals == 0))
        face(field, scratch, state, turned, ux, uy, uz)
    x, y, z, here, chosen, rejected = ux, uy, uz, bound, NONE, NONE
    # Lanes with a direction that may be of another lobe, and those whose direction was.
    untested = astray = NONE
    on_their_way = ~bits_of(starting)
    if settings.lobe_cosine > ZERO:
        looking = trying & on_their_way & bits_of(n_proposals == 0)
        see_lobes(field, settings, scratch, state, n_corners, looking)
    mirrored = trying & np.uint32(state.progress[MIRRORED])
    state.progress[MIRRORED] &= ~np.int64(mirrored | ended)
    while True:
        stay()  # else all coefficients would be loaded ahead of the loop, and put on the stack
        drawn = booleans_of(chosen)
        words = random_words(settings, state, n_proposals >> 1)
        for attempt in range(PROPOSALS_A_BLOCK):
            first, second = words[2 * attempt], words[2 * attempt + 1]
            if settings.lobe_cosine > ZERO:
                a, b, c = point_of_lobe(settings, state, starting, first, second, height)
                inside = ~drawn & (c >= ONE - height)
            else:
                a, b, c = point_of(first, second, height)
                inside = ~drawn
            qx, qy, qz = (
                a * ax + b * bx + c * ux,
                a * ay + b * by + c * uy,
                a * az + b * bz + c * uz,
            )
            limit = bound
            if mirrored:
                where = booleans_of(mirrored)
                qx = select(where, load_from(state.lobe, IMAGE), qx)
                qy = select(where, load_from(state.lobe, IMAGE + N_LANES), qy)
                qz = select(where, load_from(state.lobe, IMAGE + 2 * N_LANES), qz)
                limit = select(where, load_from(state.lobe, IMAGE + 3 * N_LANES), bound)
                inside = inside | where & ~drawn
                mirrored = NONE
            amplitude = values_of_lanes(field.shifts, state.coefficients, qx, qy, qz)
            amplitude = positive(settings, amplitude)
            chance = to_floats(as_ints(((first & 4095) << 12) | (second & 4095))) * UNIT_24
            taken = (amplitude >= settings.min_amplitude) & (chance * limit < amplitude) & inside
            if field.allowed.size:
                asked = trying & bits_of(taken & ~starting)
                allowed = allowed_lanes(field, scratch, state, asked, qx, qy, qz)
                taken = taken & (starting | booleans_of(allowed))
            x, y, z = select(taken, qx, x), select(taken, qy, y), select(taken, qz, z)
            here = select(taken, amplitude, here)
            drawn = drawn | taken
        n_proposals = select(
            booleans_of(trying), n_proposals + np.uint32(PROPOSALS_A_BLOCK), n_proposals
        )
        accepted = trying & bits_of(drawn)
        chosen |= accepted
        trying &= ~accepted
        at_limit = (n_proposals == np.uint32(FIRST_PROPOSALS)) | (
            n_proposals == np.uint32(SECOND_PROPOSALS)
        )
        at_limit = trying & bits_of(at_limit | (n_proposals >= np.uint32(MAX_PROPOSALS)))
        rejected |= at_limit
        trying &= ~at_limit
        untested |= accepted & on_their_way
        if few_are(trying, on_their_way):
            store(state.n_proposals, n_proposals)
            if settings.lobe_cosine > ZERO:
                keep_tried(scratch, x, y, z, here)
                other = lanes_of_another_lobe(field, settings, scratch, state, untested)
                untested = NONE
                chosen &= ~other
                trying |= other
                astray |= other
            if few_are(trying, on_their_way):
                break
    if settings.min_probability > ZERO:  # first, and once a step: it is of the cone alone
        weighed = (chosen | astray) & on_their_way & ~np.uint32(state.progress[WEIGHED])
        little = lanes_below_cone_mass(field, settings, scratch, state, n_corners, weighed)
        reason = select(booleans_of(little), np.int32(LOW_PROBABILITY), load(state.reason))
        store(state.reason, reason)
        state.progress[WEIGHED] |= np.int64(weighed)
        chosen &= ~little
        rejected &= ~little
        ended |= little
    if settings.look_ahead > ZERO:
        keep_tried(scratch, x, y, z, here)
        looking = chosen & on_their_way & ~np.uint32(state.progress[FADING])
        looking &= bits_of(n_proposals < np.uint32(MAX_PROPOSALS))
        look_far(field, settings, scratch, state, n_corners, looking)
        chosen &= ~lanes_that_fade(field, settings, scratch, state, looking)
    length = roots(x * x + y * y + z * z)
    where = booleans_of(chosen)
    store(state.ux, select(where, x / length, ux))
    store(state.uy, select(where, y / length, uy))
    store(state.uz, select(where, z / length, uz))
    while rejected:
        lane = lowest_bit(rejected)
        rejected &= rejected - BIT
        found = after_rejections(field, settings, scratch, state, n_corners, lane)
        if found < 0:
            ended |= BIT << np.uint32(lane)
        elif found > 0:
            chosen |= BIT << np.uint32(lane)
    state.progress[FADING] &= ~np.int64(chosen | ended)
    state.progress[WEIGHED] &= ~np.int64(chosen | ended)
    return chosen, ended


@inlined
def few_are(trying, on_their_way):
    """Tell whether so few lanes are trying that they had better do so in the next pass."""
    few = count_bits(trying) <= FEW
    return few and count_bits(trying & on_their_way) <= FEW_ON_THEIR_WAY


@inlined
def keep_tried(scratch, x, y, z, here):
    """Write the directions that lanes drew, and the amplitudes there, to ``scratch.tried``."""
    for number, new in enumerate((x, y, z, here)):
        store_to(scratch.tried, number * N_LANES, new)


@inlined
def look_far(field, settings, scratch, state, n_corners, lanes):
    """Ask for what `lanes_that_fade` needs, of a set of lanes."""
    if lanes:
        words = random_words(settings, state, filled_words(np.uint32(LOOK_BLOCK)))
        store_to(scratch.tried, 4 * N_LANES, to_floats(as_ints(words[0] >> 8)) * UNIT_24)
        ask_ahead(field, settings, scratch, state, n_corners, words[1:], lanes)


@kept
def lanes_that_fade(field, settings, scratch, state, lanes):
    """Return those of a set of lanes that are to draw once more: the FOD fades ahead.

    The directions that they drew first, and the amplitudes along them, are in ``scratch.tried``.
    Each is kept with the probability of the amplitude in a voxel `look_ahead` further on over FADED
    times that here; the second one is kept in any case, so that a direction is drawn by
    f (w + 1 - the mean of w in the cone), w being the mean of that probability, 1 at most, over the
    voxels around, by their weights. To draw one of eight takes an eighth of what their mixture
    would.

    Of lines in a lobe the second one is the mirror image of the first, should that be accepted.
    """
    if not lanes:
        return NONE
    find_ahead(field, scratch, state, lanes)
    x, y = load_from(scratch.tried, 0), load_from(scratch.tried, N_LANES)
    z, here = load_from(scratch.tried, 2 * N_LANES), load_from(scratch.tried, 3 * N_LANES)
    ahead = positive(settings, values_of_lanes(field.shifts, scratch.turned, x, y, z))
    fading = lanes & ~bits_of(load_from(scratch.tried, 4 * N_LANES) * (FADED * here) < ahead)
    state.progress[FADING] |= np.int64(fading)
    if settings.lobe_cosine > ZERO:
        state.progress[MIRRORED] |= np.int64(mirror(settings, state, fading, x, y, z, here))
    return fading


@inlined
def draw_starts(field, settings, scratch, state, n_corners, starting):
    """Draw the start directions of a set of lanes, one lane after the other.

    As `draw_directions`, bit for bit, where all other lanes would wait meanwhile: the proposals of
    a lane are evaluated side by side.
    """
    expected = starting & np.uint32(state.progress[AWAY])
    ended = arrive(field, settings, scratch, state, n_corners, starting & ~expected)
    find_rows_of(field, state, n_corners, expected)
    chosen, left = NONE, starting & ~(ended | expected)
    while left:
        lane = lowest_bit(left)
        found = 1
        if not propose_starts(field, settings, scratch, state, lane):
            at_limit = state.n_proposals[lane] == np.uint32(FIRST_PROPOSALS)
            at_limit = at_limit or state.n_proposals[lane] == np.uint32(SECOND_PROPOSALS)
            found = 0
            if at_limit or state.n_proposals[lane] >= np.uint32(MAX_PROPOSALS):
                found = after_rejections(field, settings, scratch, state, n_corners, lane)
        if found > 0:
            chosen |= BIT << np.uint32(lane)
        elif found < 0:
            ended |= BIT << np.uint32(lane)
        if found:
            left &= left - BIT
    return chosen, ended


@inlined
def propose_starts(field, settings, scratch, state, lane):
    """Propose start directions of one lane; return whether one is accepted."""
    ux, uy, uz = state.ux[lane], state.uy[lane], state.uz[lane]
    ax, ay, az, bx, by, bz = tangents(ux, uy, uz)
    bound = positive(settings, filled(state.bound[lane]))
    mixed, tried = state.lane_coefficients[lane], scratch.tried
    words = philox_block(
        widened(filled_words(state.stream[lane])),
        widened(filled_words(state.steps[lane])),
        widened(numbers_of_lanes() + (state.n_proposals[lane] >> np.uint32(1))),
        widened(filled_words(state.purpose[lane])),
        settings.key_0,
        settings.key_1,
    )
    drawn = bound < ZERO
    x, y, z = bound, bound, bound
    for attempt in range(PROPOSALS_A_BLOCK):
        first, second = narrowed(words[2 * attempt]), narrowed(words[2 * attempt + 1])
        a, b, c = point_of(first, second, filled(TWO))
        qx, qy, qz = a * ax + b * bx + c * ux, a * ay + b * by + c * uy, a * az + b * bz + c * uz
        amplitude = positive(settings, values_at(field.shifts, mixed, qx, qy, qz))
        chance = to_floats(as_ints(((first & 4095) << 12) | (second & 4095))) * UNIT_24
        taken = (amplitude >= settings.min_amplitude) & (chance * bound < amplitude) & ~drawn
        x, y, z = select(taken, qx, x), select(taken, qy, y), select(taken, qz, z)
        drawn = drawn | taken
    # No more than there are up to the next limit; all limits are multiples of the first.
    state.n_proposals[lane] += np.uint32(PROPOSALS_A_BLOCK * AT_ONCE)
    found = bits_of(drawn) & FIRST_OF_ALL
    if not found:
        return False
    length = roots(x * x + y * y + z * z)
    store_to(tried, 0, x / length)
    store_to(tried, N_LANES, y / length)
    store_to(tried, 2 * N_LANES, z / length)
    which = lowest_bit(found)
    state.ux[lane], state.uy[lane] = tried[0, which], tried[1, which]
    state.uz[lane] = tried[2, which]
    return True


@kept
def after_rejections(field, settings, scratch, state, n_corners, lane):
    """Find out why all proposals of one lane were rejected.

    Returns 1 where the direction of the largest amplitude is taken, 0 where the lane is to propose
    again, maybe with a tighter bound, and -1 where it stops, for ``state.reason``.
    """
    state.reason[lane] = LOW_AMPLITUDE
    n_proposals = state.n_proposals[lane]
    tightens = settings.positivity == CLIP and not field.allowed.size
    is_second = n_proposals == np.uint32(SECOND_PROPOSALS)
    if n_proposals == np.uint32(FIRST_PROPOSALS) or (is_second and not tightens):
        seen = sample_cone(field, settings, scratch, state, lane)  # mostly that is enough
        if seen:
            return -1 if seen < 0 else 0
    largest = find_peak(field, settings, scratch, state, lane)
    if not (largest > ZERO and largest >= settings.min_amplitude):
        return -1
    if n_proposals < np.uint32(MAX_PROPOSALS):
        if tightens:
            state.bound[lane] = min(state.bound[lane], largest * MARGIN)
        return 0
    counts = settings.min_probability > ZERO
    counts = counts and state.purpose[lane] != np.uint32(PURPOSE_START)
    if counts and below_cone_mass(field, settings, scratch, state, n_corners, lane):
        state.reason[lane] = LOW_PROBABILITY
        return -1
    peak = scratch.peak
    state.ux[lane], state.uy[lane], state.uz[lane] = peak[0], peak[1], peak[2]
    return 1


@inlined
def sample_cone(field, settings, scratch, state, lane):
    """Sample the cone of one lane: 1 where an amplitude reaches the floor, -1 where none can.

    Returns 0 where the samples do not tell. None can where the FOD, as steep
    as it is at the best of them, would not reach the floor at the next.
    """
    starts = state.purpose[lane] == np.uint32(PURPOSE_START)
    points = field.sphere_points if starts else field.cone_points
    mixed, amplitudes, n_points = state.lane_coefficients[lane], scratch.amplitudes, points.shape[1]
    ux, uy, uz = state.ux[lane], state.uy[lane], state.uz[lane]
    ax, ay, az, bx, by, bz = tangents(ux, uy, uz)
    any_will_do = starts or not field.allowed.size
    for j in range(0, n_points, N_LANES):
        a, b = load_from(points, j), load_from(points, n_points + j)
        c = load_from(points, 2 * n_points + j)
        x, y, z = a * ax + b * bx + c * ux, a * ay + b * by + c * uy, a * az + b * bz + c * uz
        amplitude = positive(settings, values_at(field.shifts, mixed, x, y, z))
        high = bits_of((amplitude > ZERO) & (amplitude >= settings.min_amplitude))
        if high and not any_will_do:
            high = allowed_of(field, scratch, state.facing[lane], high, x, y, z)
        if high:
            return 1
        store_to(amplitudes, j, amplitude)
    if not any_will_do:
        return -1 if settings.positivity == CLIP else 0
    largest, j = largest_value(amplitudes, n_points)
    missing = settings.min_amplitude - largest
    if starts or settings.positivity != CLIP or not missing > ZERO:
        return 0
    x, y, z = point_in_cone(points, j, ux, uy, uz)
    area = TWO_PI * settings.cone_height / np.float32(n_points)  # of the cone, for each
    steepness = squared_slope(field.shifts, mixed, x, y, z)
    return -1 if missing * missing > steepness * area else 0


@kept
def arrive(field, settings, scratch, state, n_corners, lanes):
    """Find the FOD where lanes have moved to; return those that stop there, for their reason."""
    moved = lanes & np.uint32(state.progress[MOVED])
    if not moved:
        return NONE
    state.progress[MOVED] &= ~np.int64(moved)
    mix(field, scratch, state, n_corners, moved)
    bound = load(state.bound)
    ended = moved & bits_of(~(bound > ZERO))
    if settings.edge == EDGE_VOXEL:
        ended |= moved & bits_of(load(state.row) == field.values.shape[0])
    low = moved & ~ended & bits_of(positive(settings, bound) < settings.min_amplitude)
    reason = select(booleans_of(ended), np.int32(NO_FOD), load(state.reason))
    store(state.reason, select(booleans_of(low), np.int32(LOW_AMPLITUDE), reason))
    return ended | low


@inlined
def find_peak(field, settings, scratch, state, lane):
    """Find the largest amplitude in the cone of one lane; its direction is in ``scratch.peak``."""
    starts = state.purpose[lane] == np.uint32(PURPOSE_START)
    ux, uy, uz = state.ux[lane], state.uy[lane], state.uz[lane]
    mixed, amplitudes, peak = state.lane_coefficients[lane], scratch.amplitudes, scratch.peak
    if field.allowed.size and not starts:
        points = field.cone_points
        sample_amplitudes(field.shifts, mixed, amplitudes, points, ux, uy, uz)
        keep_allowed(field, scratch, ux, uy, uz)
        largest, j = largest_value(amplitudes, points.shape[1])
        peak[0], peak[1], peak[2] = point_in_cone(points, j, ux, uy, uz)
        face_ahead(field, peak, ux, uy, uz)
    else:
        largest = largest_in_cone(
            field.shifts,
            mixed,
            amplitudes,
            peak,
            field.sphere_points if starts else field.cone_points,
            ux,
            uy,
            uz,
            EVERYWHERE if starts else settings.cone_cosine,
            settings.cone_sine,
        )
    amplitudes[0] = largest
    make_positive(settings, amplitudes, 1)
    return amplitudes[0]


@inlined
def lanes_below_cone_mass(field, settings, scratch, state, n_corners, lanes):
    """Return those of a set of lanes in whose cones there is too small a fraction of the FOD."""
    lanes, little = lanes_in_doubt(
        field, settings, scratch, state, n_corners, lanes, field.cone_mass
    )
    while lanes:
        lane = lowest_bit(lanes)
        lanes &= lanes - BIT
        if below_cone_mass(field, settings, scratch, state, n_corners, lane):
            little |= BIT << np.uint32(lane)
    return little


@inlined
def lanes_in_doubt(field, settings, scratch, state, n_corners, lanes, numbers):
    """Tell in which lanes' cones there may be, and surely is, too small a fraction of the FOD.

    In others even a lower bound of the mass is enough, which there is of whole cones alone; where
    it surely is too small an upper bound, the largest amplitude, is too low. `numbers` are those of
    :mod:`...tables.cone_mass`.
    """
    if not lanes:
        return NONE, NONE
    stay()
    bound = filled(ZERO)
    if not field.allowed.size:
        ux, uy, uz = load(state.ux), load(state.uy), load(state.uz)
        bound = convolved_of_lanes(field.shifts, state.coefficients, numbers, ux, uy, uz)
    enough = settings.min_probability * (SURELY * TWO / settings.cone_height) + numbers[0]
    # No mean is above the bound of all amplitudes, which is at hand: mostly that is enough.
    most = load(state.coefficients[field.values.shape[1]])
    lanes &= ~bits_of(bound > enough * most)
    left = lanes
    while left:
        lane = lowest_bit(left)
        left &= left - BIT
        scratch.tried[0, lane] = mean_amplitude(field, state, n_corners, lane)
    mean = load(scratch.tried[0])
    lanes &= ~bits_of(bound > enough * mean)
    share = settings.min_probability * (TWO / settings.cone_height)
    little = lanes & bits_of(SURELY * most <= share * mean)
    return lanes & ~little, little


@inlined
def below_cone_mass(field, settings, scratch, state, n_corners, lane):
    """Tell whether too small a fraction of the FOD is in the cone of one lane.

    The mean amplitude of the cone is that of directions spread over it.
    """
    ux, uy, uz = state.ux[lane], state.uy[lane], state.uz[lane]
    points = field.cone_points
    sample_amplitudes(
        field.shifts, state.lane_coefficients[lane], scratch.amplitudes, points, ux, uy, uz
    )
    if field.allowed.size:
        keep_allowed(field, scratch, ux, uy, uz)
    total = sum_of_positive(scratch.amplitudes, points.shape[1])
    mass = total / np.float32(points.shape[1]) * (HALF * settings.cone_height)
    return mass <= settings.min_probability * mean_amplitude(field, state, n_corners, lane)
