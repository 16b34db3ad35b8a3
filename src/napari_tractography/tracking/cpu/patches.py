"""Sixteen directions at a time: the inner loops of the draw, as vector instructions.

Written for LLVM, which brings them to whatever vectors a processor has. As loops they were not
turned into vectors (LLVM cannot know that the arrays do not overlap) and a deterministic trilinear
step took three times as long. They read a patch of a table of quantised, (n_rows, n_patches, PATCH_SIZE),
or a group of the patch_maxima, (n_rows, n_groups, PATCH_SIZE); one writes random numbers of as many steps.
"""
# mypy: ignore-errors

from __future__ import annotations

from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

from ..codes import PATCH_SIZE

INT = ir.IntType(32)
FLOAT = ir.FloatType()
MASK = ir.IntType(PATCH_SIZE)
LANE_OF_INT = ir.VectorType(INT, PATCH_SIZE)
LANE_OF_FLOAT = ir.VectorType(FLOAT, PATCH_SIZE)
LANE_OF_BIT = ir.VectorType(ir.IntType(1), PATCH_SIZE)


def _lanes_of(context, builder, array_type, array, indices):
    """Return where the lanes at the first indices of an array are."""
    struct = context.make_array(array_type)(context, builder, array)
    indices = [*indices, context.get_constant(types.intp, 0)]
    pointer = cgutils.get_item_pointer(
        context, builder, array_type, struct, indices, wraparound=False
    )
    width = context.get_data_type(array_type.dtype)
    return builder.bitcast(pointer, ir.VectorType(width, PATCH_SIZE).as_pointer())


def _load(context, builder, array_type, array, row, patch):
    """Load a patch as floats."""
    return builder.sitofp(
        _load_whole(context, builder, array_type, array, row, patch), LANE_OF_FLOAT
    )


def _load_whole(context, builder, array_type, array, row, patch):
    """Load a patch as 32-bit whole numbers."""
    pointer = _lanes_of(context, builder, array_type, array, [row, patch])
    loaded = builder.load(pointer, align=array_type.dtype.bitwidth // 8)
    return builder.zext(loaded, LANE_OF_INT)


def _fill(builder, value, n=PATCH_SIZE):
    """Return a vector that holds a value in every lane."""
    kind = ir.VectorType(value.type, n)
    one = builder.insert_element(ir.Constant(kind, ir.Undefined), value, ir.Constant(INT, 0))
    zeros = ir.Constant(ir.VectorType(INT, n), [0] * n)
    return builder.shuffle_vector(one, ir.Constant(kind, ir.Undefined), zeros)


def _rotated(builder, vector, by):
    """Return a vector whose lanes are those `by` lanes further on."""
    lanes = ir.Constant(LANE_OF_INT, [(lane + by) % PATCH_SIZE for lane in range(PATCH_SIZE)])
    return builder.shuffle_vector(vector, ir.Constant(vector.type, ir.Undefined), lanes)


def _in_all(builder, vector, combine):
    """Combine all lanes into one value."""
    by = PATCH_SIZE // 2
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


def _mix(context, builder, n, levels_type, quantised, rows_type, rows, scales_type, quanta, patch):
    """Return sum_k quanta[k] * quantised[rows[k], patch] over the first n: pairs, pairs of pairs."""
    rows = context.make_array(rows_type)(context, builder, rows)
    quanta = context.make_array(scales_type)(context, builder, quanta)
    terms = []
    for k in range(n):
        index = context.get_constant(types.intp, k)
        row = builder.load(builder.gep(rows.data, [index]))
        quantum = _fill(builder, builder.load(builder.gep(quanta.data, [index])))
        terms.append(
            builder.fmul(quantum, _load(context, builder, levels_type, quantised, row, patch))
        )
    while len(terms) > 1:
        terms = [builder.fadd(a, b) for a, b in zip(terms[::2], terms[1::2], strict=True)]
    return terms[0]


def _running_sum(builder, vector, add):
    """Return sum_0..k of a vector in lane k, in the order of Hillis and Steele (1986)."""
    n = vector.type.count
    zeros = ir.Constant(vector.type, [0] * n)
    by = 1
    while by < n:
        # Lane k takes lane k - by; those without one take a zero.
        lanes = [lane - by if lane >= by else n for lane in range(n)]
        lanes = ir.Constant(ir.VectorType(INT, n), lanes)
        moved = builder.shuffle_vector(vector, zeros, lanes)
        vector = add(vector, moved)
        by *= 2
    return vector


def _where(builder, bits, vector, otherwise=0.0):
    """Return a vector with lanes replaced where the low bits of a number are not set."""
    return builder.select(
        _mask(builder, bits), vector, ir.Constant(LANE_OF_FLOAT, [otherwise] * PATCH_SIZE)
    )


def _in_cone(builder, vector, bits):
    """Keep the lanes with bit k set, and again those with bit PATCH_SIZE + k; zeros elsewhere."""
    back = builder.lshr(bits, ir.Constant(INT, PATCH_SIZE))
    return builder.fadd(_where(builder, bits, vector), _where(builder, back, vector))


def _from(builder, vector, floor):
    """Keep the lanes that are at least `floor`; zeros elsewhere."""
    kept = builder.fcmp_ordered(">=", vector, _fill(builder, floor))
    return builder.select(kept, vector, ir.Constant(LANE_OF_FLOAT, [0.0] * PATCH_SIZE))


@intrinsic
def weigh_corners(typing_context, wx, wy, wz, totals, quanta, weights, weighed):
    """Write the trilinear weights of eight corners, and them times the quanta.

    Where the total is zero the weight is, too. Returns the sum of weights times totals.
    """
    kind = ir.VectorType(FLOAT, 8)

    def generate(context, builder, signature, arguments):
        of_axes, arrays = arguments[:3], arguments[3:]
        kinds = signature.args[3:]
        totals, quanta, *written = [
            builder.bitcast(context.make_array(of)(context, builder, array).data, kind.as_pointer())
            for of, array in zip(kinds, arrays, strict=True)
        ]
        weight = None
        for axis, along in enumerate(of_axes):
            across = builder.fsub(ir.Constant(FLOAT, 1.0), along)
            factor = ir.Constant(kind, ir.Undefined)
            for k in range(8):
                value = along if k >> (2 - axis) & 1 else across
                factor = builder.insert_element(factor, value, ir.Constant(INT, k))
            weight = factor if weight is None else builder.fmul(weight, factor)
        totals, quanta = builder.load(totals, align=4), builder.load(quanta, align=4)
        zeros = ir.Constant(kind, [0.0] * 8)
        some = builder.select(builder.fcmp_ordered(">", totals, zeros), weight, zeros)
        values = (some, builder.fmul(weight, quanta))
        for pointer, value in zip(written, values, strict=True):
            builder.store(value, pointer, align=4)
        masses = builder.fmul(weight, totals)
        total = builder.extract_element(masses, ir.Constant(INT, 0))
        for k in range(1, 8):  # in the order of max_proposals.py
            mass = builder.extract_element(masses, ir.Constant(INT, k))
            total = builder.fadd(total, mass)
        return total

    number = types.float32
    arrays = (totals, quanta, weights, weighed)
    return number(number, number, number, *arrays), generate


def _draw_weighed_of(n):
    @intrinsic
    def draw_weighed(typing_context, quantised, rows, quanta, patch, bits, floor, goal):
        """Draw a lane of a patch in a cone by its interpolated amplitude, from `floor` on.

        `goal` is a random number below the mass of these lanes; the last of them is taken where
        rounding leads beyond it.
        """

        def generate(context, builder, signature, arguments):
            quantised, rows, quanta, patch, bits, floor, goal = arguments
            kinds = signature.args
            mixed = _mix(
                context, builder, n, kinds[0], quantised, kinds[1], rows, kinds[2], quanta, patch
            )
            weights = _in_cone(builder, _from(builder, mixed, floor), bits)
            running = _running_sum(builder, weights, builder.fadd)
            lane = _count(builder, builder.fcmp_ordered("<=", running, _fill(builder, goal)))
            some = builder.fcmp_ordered(
                ">", weights, ir.Constant(LANE_OF_FLOAT, [0.0] * PATCH_SIZE)
            )
            beyond = builder.ctlz(builder.bitcast(some, MASK), ir.Constant(ir.IntType(1), 0))
            last = builder.sub(ir.Constant(INT, PATCH_SIZE - 1), builder.zext(beyond, INT))
            outside = builder.icmp_signed(">", lane, last)
            return builder.select(outside, last, lane)

        arguments = (
            quantised,
            rows,
            quanta,
            types.intp,
            types.uint32,
            types.float32,
            types.float32,
        )
        return types.int32(*arguments), generate

    return draw_weighed


def _mass_of(n):
    @intrinsic
    def mass_in_patch(typing_context, quantised, rows, quanta, patch, bits, floor):
        """Return the mass of a patch in a cone, from `floor` on, twice what is on both sides."""

        def generate(context, builder, signature, arguments):
            quantised, rows, quanta, patch, bits, floor = arguments
            kinds = signature.args
            mixed = _mix(
                context, builder, n, kinds[0], quantised, kinds[1], rows, kinds[2], quanta, patch
            )
            weights = _in_cone(builder, _from(builder, mixed, floor), bits)
            return _in_all(builder, weights, builder.fadd)

        arguments = (quantised, rows, quanta, types.intp, types.uint32, types.float32)
        return types.float32(*arguments), generate

    return mass_in_patch


def _largest_of(n):
    @intrinsic
    def largest_slot(typing_context, quantised, rows, quanta, patch, bits):
        """Return the largest interpolated amplitude of a patch where bits are set, and its lane."""
        result = types.Tuple((types.float32, types.int32))

        def generate(context, builder, signature, arguments):
            quantised, rows, quanta, patch, bits = arguments
            kinds = signature.args
            mixed = _mix(
                context, builder, n, kinds[0], quantised, kinds[1], rows, kinds[2], quanta, patch
            )
            mixed = _where(builder, bits, mixed, otherwise=-1.0)

            def larger(a, b):
                return builder.select(builder.fcmp_ordered(">", a, b), a, b)

            largest = _in_all(builder, mixed, larger)
            equal = builder.fcmp_ordered("==", mixed, _fill(builder, largest))
            first = builder.cttz(builder.bitcast(equal, MASK), ir.Constant(ir.IntType(1), 0))
            values = [largest, builder.zext(first, INT)]
            return context.make_tuple(builder, result, values)

        arguments = (quantised, rows, quanta, types.intp, types.uint32)
        return result(*arguments), generate

    return largest_slot


def _at_least_of(n):
    @intrinsic
    def slots_at_least(typing_context, patch_maxima, rows, quanta, group, smallest):
        """Return a bit for each patch of a group whose interpolated maximum is at least `smallest`."""

        def generate(context, builder, signature, arguments):
            patch_maxima, rows, quanta, group, smallest = arguments
            kinds = signature.args
            mixed = _mix(
                context, builder, n, kinds[0], patch_maxima, kinds[1], rows, kinds[2], quanta, group
            )
            bits = builder.fcmp_ordered(">=", mixed, _fill(builder, smallest))
            return builder.zext(builder.bitcast(bits, MASK), INT)

        arguments = (patch_maxima, rows, quanta, types.intp, types.float32)
        return types.uint32(*arguments), generate

    return slots_at_least


draw_weighed_nearest, draw_weighed_trilinear = _draw_weighed_of(1), _draw_weighed_of(8)
mass_in_patch_nearest, mass_in_patch_trilinear = _mass_of(1), _mass_of(8)
largest_slot_nearest, largest_slot_trilinear = _largest_of(1), _largest_of(8)
slots_at_least_nearest, slots_at_least_trilinear = _at_least_of(1), _at_least_of(8)
