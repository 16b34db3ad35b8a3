"""Sixteen directions at a time: the inner loops of the draw, as vector instructions.

Written for LLVM, which brings them to whatever vectors a processor has. As loops they were not
turned into vectors (LLVM cannot know that the arrays do not overlap) and a deterministic trilinear
step took three times as long. They read a patch of a table of levels, (n_rows, n_patches, LANES),
or a group of the sums, (n_rows, n_groups, LANES).
"""
# mypy: ignore-errors

from __future__ import annotations

from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

from .codes import LANES

INT = ir.IntType(32)
FLOAT = ir.FloatType()
MASK = ir.IntType(LANES)
LANE_OF_INT = ir.VectorType(INT, LANES)
LANE_OF_FLOAT = ir.VectorType(FLOAT, LANES)
LANE_OF_BIT = ir.VectorType(ir.IntType(1), LANES)


def _lanes_of(context, builder, array_type, array, indices):
    """Return where the lanes at the first indices of an array are."""
    struct = context.make_array(array_type)(context, builder, array)
    indices = [*indices, context.get_constant(types.intp, 0)]
    pointer = cgutils.get_item_pointer(
        context, builder, array_type, struct, indices, wraparound=False
    )
    width = context.get_data_type(array_type.dtype)
    return builder.bitcast(pointer, ir.VectorType(width, LANES).as_pointer())


def _load(context, builder, array_type, array, row, patch):
    """Load a patch as floats."""
    pointer = _lanes_of(context, builder, array_type, array, [row, patch])
    loaded = builder.load(pointer, align=array_type.dtype.bitwidth // 8)
    if array_type.dtype == types.float32:
        return loaded
    return builder.sitofp(builder.zext(loaded, LANE_OF_INT), LANE_OF_FLOAT)


def _fill(builder, value):
    """Return a vector that holds a value in every lane."""
    kind = ir.VectorType(value.type, LANES)
    one = builder.insert_element(ir.Constant(kind, ir.Undefined), value, ir.Constant(INT, 0))
    zeros = ir.Constant(LANE_OF_INT, [0] * LANES)
    return builder.shuffle_vector(one, ir.Constant(kind, ir.Undefined), zeros)


def _rotated(builder, vector, by):
    """Return a vector whose lanes are those `by` lanes further on."""
    lanes = ir.Constant(LANE_OF_INT, [(lane + by) % LANES for lane in range(LANES)])
    return builder.shuffle_vector(vector, ir.Constant(vector.type, ir.Undefined), lanes)


def _in_all(builder, vector, combine):
    """Combine all lanes into one value."""
    by = LANES // 2
    while by:
        vector = combine(vector, _rotated(builder, vector, by))
        by //= 2
    return builder.extract_element(vector, ir.Constant(INT, 0))


def _count(builder, bits):
    """Return how many of the lanes of a comparison hold."""
    return builder.zext(builder.ctpop(builder.bitcast(bits, MASK)), INT)


def _mask(builder, bits):
    """Return the low bits of a number as lanes."""
    return builder.bitcast(builder.trunc(bits, MASK), LANE_OF_BIT)


@intrinsic
def lowest_bit(typing_context, bits):
    """Return the place of the lowest bit that is set; there must be one."""

    def generate(context, builder, signature, arguments):
        place = builder.cttz(arguments[0], ir.Constant(ir.IntType(1), 1))
        return builder.zext(place, ir.IntType(64))

    return types.int64(types.uint32), generate


def _mix(context, builder, n, levels_type, levels, rows_type, rows, scales_type, scales, patch):
    """Return sum_k scales[k] * levels[rows[k], patch] over the first n: pairs, pairs of pairs."""
    rows = context.make_array(rows_type)(context, builder, rows)
    scales = context.make_array(scales_type)(context, builder, scales)
    terms = []
    for k in range(n):
        index = context.get_constant(types.intp, k)
        row = builder.load(builder.gep(rows.data, [index]))
        scale = _fill(builder, builder.load(builder.gep(scales.data, [index])))
        terms.append(builder.fmul(scale, _load(context, builder, levels_type, levels, row, patch)))
    while len(terms) > 1:
        terms = [builder.fadd(a, b) for a, b in zip(terms[::2], terms[1::2], strict=True)]
    return terms[0]


def _running_sum(builder, vector):
    """Return sum_0..k of a vector in lane k, in the order of Hillis and Steele (1986)."""
    zeros = ir.Constant(vector.type, [0.0] * LANES)
    by = 1
    while by < LANES:
        # Lane k takes lane k - by; those without one take a zero.
        lanes = [lane - by if lane >= by else LANES for lane in range(LANES)]
        moved = builder.shuffle_vector(vector, zeros, ir.Constant(LANE_OF_INT, lanes))
        vector = builder.fadd(vector, moved)
        by *= 2
    return vector


def _lane(builder, vector, lane):
    return builder.extract_element(vector, lane)


def _where(builder, bits, vector, otherwise=0.0):
    """Return a vector with lanes replaced where the low bits of a number are not set."""
    return builder.select(
        _mask(builder, bits), vector, ir.Constant(LANE_OF_FLOAT, [otherwise] * LANES)
    )


def _mass(builder, vector, bits):
    """Return the sum over the lanes with bit k set, and again over those with bit LANES + k."""
    ahead = _in_all(builder, _where(builder, bits, vector), builder.fadd)
    back = builder.lshr(bits, ir.Constant(INT, LANES))
    return builder.fadd(ahead, _in_all(builder, _where(builder, back, vector), builder.fadd))


@intrinsic
def count_at_most(typing_context, sums, group, target):
    """Return how many lanes of a row of a 2-D array are at most `target`."""

    def generate(context, builder, signature, arguments):
        array, group, target = arguments
        vector = builder.load(
            _lanes_of(context, builder, signature.args[0], array, [group]), align=4
        )
        return _count(builder, builder.fcmp_ordered("<=", vector, _fill(builder, target)))

    return types.int32(sums, types.intp, types.float32), generate


def _patch_sums_of(n):
    @intrinsic
    def sum_patches(typing_context, sums, rows, scales, group, bits, before, running):
        """Write the running sum over the patches of a group with bits set; return the last.

        It starts from `before`, the last of the group before.
        """

        def generate(context, builder, signature, arguments):
            sums, rows, scales, group, bits, before, running = arguments
            kinds = signature.args
            mixed = _mix(
                context, builder, n, kinds[0], sums, kinds[1], rows, kinds[2], scales, group
            )
            vector = _running_sum(builder, _where(builder, bits, mixed))
            vector = builder.fadd(_fill(builder, before), vector)
            place = _lanes_of(context, builder, kinds[6], running, [group])
            builder.store(vector, place, align=4)
            return _lane(builder, vector, ir.Constant(INT, LANES - 1))

        arguments = (sums, rows, scales, types.intp, types.uint32, types.float32, running)
        return types.float32(*arguments), generate

    return sum_patches


def _draw_lane_of(n):
    @intrinsic
    def draw_lane(typing_context, levels, rows, scales, patch, share, bits):
        """Draw a lane of a patch with its interpolated amplitudes as weights.

        `share` is a random number in [0, 1).

        Returns the lane, LANES where rounding leads beyond the last, its amplitude and the mass of
        what is in the cone.
        """
        result = types.Tuple((types.int32, types.float32, types.float32))

        def generate(context, builder, signature, arguments):
            levels, rows, scales, patch, share, bits = arguments
            kinds = signature.args
            mixed = _mix(
                context, builder, n, kinds[0], levels, kinds[1], rows, kinds[2], scales, patch
            )
            running = _running_sum(builder, mixed)
            whole = _lane(builder, running, ir.Constant(INT, LANES - 1))
            goal = _fill(builder, builder.fmul(share, whole))
            lane = _count(builder, builder.fcmp_ordered("<=", running, goal))
            inside = builder.and_(lane, ir.Constant(INT, LANES - 1))
            amplitude = _lane(builder, mixed, inside)
            either = builder.or_(bits, builder.lshr(bits, ir.Constant(INT, LANES)))
            mass = _in_all(builder, _where(builder, either, mixed), builder.fadd)
            return context.make_tuple(builder, result, [lane, amplitude, mass])

        arguments = (levels, rows, scales, types.intp, types.float32, types.uint32)
        return result(*arguments), generate

    return draw_lane


def _mass_of(n):
    @intrinsic
    def mass_in_patch(typing_context, levels, rows, scales, patch, bits):
        """Return the mass of a patch that is in a cone, twice what is on both sides."""

        def generate(context, builder, signature, arguments):
            levels, rows, scales, patch, bits = arguments
            kinds = signature.args
            mixed = _mix(
                context, builder, n, kinds[0], levels, kinds[1], rows, kinds[2], scales, patch
            )
            return _mass(builder, mixed, bits)

        return types.float32(levels, rows, scales, types.intp, types.uint32), generate

    return mass_in_patch


def _largest_of(n):
    @intrinsic
    def largest_lane(typing_context, levels, rows, scales, patch, bits):
        """Return the largest interpolated amplitude of a patch where bits are set, and its lane."""
        result = types.Tuple((types.float32, types.int32))

        def generate(context, builder, signature, arguments):
            levels, rows, scales, patch, bits = arguments
            kinds = signature.args
            mixed = _mix(
                context, builder, n, kinds[0], levels, kinds[1], rows, kinds[2], scales, patch
            )
            mixed = _where(builder, bits, mixed, otherwise=-1.0)

            def larger(a, b):
                return builder.select(builder.fcmp_ordered(">", a, b), a, b)

            largest = _in_all(builder, mixed, larger)
            equal = builder.fcmp_ordered("==", mixed, _fill(builder, largest))
            first = builder.cttz(builder.bitcast(equal, MASK), ir.Constant(ir.IntType(1), 0))
            values = [largest, builder.zext(first, INT)]
            return context.make_tuple(builder, result, values)

        arguments = (levels, rows, scales, types.intp, types.uint32)
        return result(*arguments), generate

    return largest_lane


def _at_least_of(n):
    @intrinsic
    def lanes_at_least(typing_context, tops, rows, scales, group, smallest):
        """Return a bit for each patch of a group whose interpolated top is at least `smallest`."""

        def generate(context, builder, signature, arguments):
            tops, rows, scales, group, smallest = arguments
            kinds = signature.args
            mixed = _mix(
                context, builder, n, kinds[0], tops, kinds[1], rows, kinds[2], scales, group
            )
            bits = builder.fcmp_ordered(">=", mixed, _fill(builder, smallest))
            return builder.zext(builder.bitcast(bits, MASK), INT)

        arguments = (tops, rows, scales, types.intp, types.float32)
        return types.uint32(*arguments), generate

    return lanes_at_least


sum_patches_near, sum_patches_mixed = _patch_sums_of(1), _patch_sums_of(8)
draw_lane_near, draw_lane_mixed = _draw_lane_of(1), _draw_lane_of(8)
mass_in_patch_near, mass_in_patch_mixed = _mass_of(1), _mass_of(8)
largest_lane_near, largest_lane_mixed = _largest_of(1), _largest_of(8)
lanes_at_least_near, lanes_at_least_mixed = _at_least_of(1), _at_least_of(8)
