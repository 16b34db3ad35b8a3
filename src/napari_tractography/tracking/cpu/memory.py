"""Memory as vectors: loads, stores, half floats, transposed blocks, prefetches and fences.

More of the vocabulary of :mod:`.llvm`. Indices are of ``array.flat``, without bounds checks.
"""

from __future__ import annotations

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.errors import TypingError
from numba.extending import intrinsic

from .llvm import (
    BYTE_ADDRESS,
    CACHE_LINE,
    FLOAT,
    INT,
    LONG,
    Vector,
    constant,
    converts_half_floats,
    fill,
    library,
)


def _data(context, builder, array_type, array):
    return context.make_array(array_type)(context, builder, array).data


def loader(n):
    """Return a function that loads the first `n` numbers of an array."""

    @intrinsic
    def load(typing_context, array):
        def generate(context, builder, sig, args):
            return _load(context, builder, array, args[0], None, n)

        return Vector(array.dtype, n)(array), generate

    return load


def loader_from(n):
    """Return a function that loads ``array.flat[at : at + n]``."""

    @intrinsic
    def load_from(typing_context, array, at):
        def generate(context, builder, sig, args):
            return _load(context, builder, array, args[0], args[1], n)

        return Vector(array.dtype, n)(array, types.unliteral(at)), generate

    return load_from


def _load(context, builder, array_type, array, at, n):
    element = context.get_data_type(array_type.dtype)
    pointer = _data(context, builder, array_type, array)
    if at is not None:
        pointer = builder.gep(pointer, [at])
    pointer = builder.bitcast(pointer, ir.VectorType(element, n).as_pointer())
    return builder.load(pointer, align=array_type.dtype.bitwidth // 8)


def half_loader_from(n):
    """Return a function that loads ``array.flat[at : at + n]``, the bits of half floats."""

    @intrinsic
    def load_from(typing_context, array, at):
        def generate(context, builder, sig, args):
            numbers = _load(context, builder, array, args[0], args[1], n)
            if not converts_half_floats():
                return _from_half_floats(builder, numbers)
            half_floats = builder.bitcast(numbers, ir.VectorType(ir.HalfType(), n))
            return builder.fpext(half_floats, ir.VectorType(FLOAT, n))

        return Vector(types.float32, n)(array, types.unliteral(at)), generate

    return load_from


# Half floats where the processor does not convert them. Their bits are the sign, 5 of the exponent,
# 15 of which stands for 0, and 10 of the fraction (IEEE 754); those of float32 are 8, 127 and 23.
SIGN, REST, DROPPED = 0x8000, 0x7FFF, 23 - 10
LARGEST, INFINITE = 65520.0, 0x7C00  # from the former on, the nearest half float is the latter
SMALLEST = 2.0**-14  # normal; those below are multiples of 2^-24, as is the sum with AS_FRACTION
AS_FRACTION = 0.5


def _from_half_floats(builder, numbers):
    """Return the float32 that the bits of half floats stand for: exact."""
    n = numbers.type.count
    floats, ints = ir.VectorType(FLOAT, n), ir.VectorType(INT, n)

    def number(value):
        return constant([value] * n)

    wide = builder.zext(numbers, ints)
    sign = builder.shl(builder.and_(wide, number(SIGN)), number(16))
    size = builder.shl(builder.and_(wide, number(REST)), number(DROPPED))
    scale = ir.Constant(floats, [2.0 ** (127 - 15)] * n)
    size = builder.bitcast(builder.fmul(builder.bitcast(size, floats), scale), ints)
    return builder.bitcast(builder.or_(size, sign), floats)


def _to_half_floats(builder, vector):
    """Return the bits of the nearest half floats, the even one of two as near; no NaN."""
    n = vector.type.count
    floats, ints = ir.VectorType(FLOAT, n), ir.VectorType(INT, n)

    def number(value):
        return constant([value] * n)

    def real(value):
        return ir.Constant(floats, [value] * n)

    bits = builder.bitcast(vector, ints)
    sign = builder.and_(builder.lshr(bits, number(16)), number(SIGN))
    size = builder.and_(bits, number(0x7FFFFFFF))
    as_real = builder.bitcast(size, floats)
    odd = builder.and_(builder.lshr(size, number(DROPPED)), number(1))
    half = builder.add(odd, number((1 << (DROPPED - 1)) - 1))  # rounds, ties to even
    shifted = builder.sub(builder.add(size, half), number((127 - 15) << 23))
    normal = builder.lshr(shifted, number(DROPPED))
    small = builder.bitcast(builder.fadd(as_real, real(AS_FRACTION)), ints)
    small = builder.sub(small, builder.bitcast(real(AS_FRACTION), ints))
    found = builder.select(builder.fcmp_ordered("<", as_real, real(SMALLEST)), small, normal)
    too_large = builder.fcmp_ordered(">=", as_real, real(LARGEST))
    found = builder.select(too_large, number(INFINITE), found)
    return builder.trunc(builder.or_(found, sign), ir.VectorType(ir.IntType(16), n))


@intrinsic
def store_half_floats(typing_context, array, at, vector):
    """Write a vector of float32, rounded to half floats, to ``array.flat[at : at + n]``."""

    def generate(context, builder, sig, args):
        if converts_half_floats():
            half_floats = builder.fptrunc(args[2], ir.VectorType(ir.HalfType(), vector.n))
            numbers = builder.bitcast(half_floats, ir.VectorType(ir.IntType(16), vector.n))
        else:
            numbers = _to_half_floats(builder, args[2])
        pointer = builder.gep(_data(context, builder, array, args[0]), [args[1]])
        pointer = builder.bitcast(pointer, numbers.type.as_pointer())
        builder.store(numbers, pointer, align=2)
        return context.get_dummy_value()

    if array.dtype != types.uint16:
        raise TypingError(f"the bits of half floats do not fit an array of {array.dtype}")
    return types.void(array, types.unliteral(at), vector), generate


def filler(dtype, n):
    """Return a function that fills a vector of `n` with a number of this dtype."""

    @intrinsic
    def filled(typing_context, number):
        def generate(context, builder, sig, args):
            return fill(builder, context.cast(builder, args[0], sig.args[0], dtype), n)

        return Vector(dtype, n)(types.unliteral(number)), generate

    return filled


def counter(dtype, n):
    """Return a function that returns the vector 0, 1, ..., n - 1."""

    @intrinsic
    def numbers(typing_context):
        def generate(context, builder, sig, args):
            return constant(list(range(n)), context.get_value_type(dtype))

        return Vector(dtype, n)(), generate

    return numbers


def transposer(size):
    """Return a function that copies a block of float32 to another matrix, rows becoming columns.

    ``transpose(source, first, row_length, target, at, other_length)`` copies
    ``source.flat[first + i * row_length + j]`` to ``target.flat[at + j * other_length + i]``, for i
    and j below `size`, a power of two.
    """

    def generate(context, builder, sig, args):
        row = ir.VectorType(FLOAT, size)

        def row_pointer(array_type, array, first, stride, k):
            pointer = _data(context, builder, array_type, array)
            at = builder.add(first, builder.mul(stride, ir.Constant(LONG, k)))
            return builder.bitcast(builder.gep(pointer, [at]), row.as_pointer())

        rows = [
            builder.load(row_pointer(sig.args[0], args[0], args[1], args[2], k), align=4)
            for k in range(size)
        ]
        half = 1
        while half < size:  # swap the blocks off the diagonal, of 1, 2, 4, ... numbers
            lower = constant([i if not i & half else i - half + size for i in range(size)])
            upper = constant([i + half if not i & half else i + size for i in range(size)])
            for k in range(size):
                if not k & half:
                    a, b = rows[k], rows[k + half]
                    rows[k] = builder.shuffle_vector(a, b, lower)
                    rows[k + half] = builder.shuffle_vector(a, b, upper)
            half *= 2
        for k in range(size):
            builder.store(rows[k], row_pointer(sig.args[3], args[3], args[4], args[5], k), align=4)
        return context.get_dummy_value()

    @intrinsic
    def transpose(typing_context, source, first, row_length, target, at, other_length):
        long = types.int64
        return types.void(source, long, long, target, long, long), generate

    return transpose


@intrinsic
def store_to(typing_context, array, at, vector):
    """Write a vector to ``array.flat[at : at + n]``, an array of the same dtype."""

    def generate(context, builder, sig, args):
        pointer = builder.gep(_data(context, builder, array, args[0]), [args[1]])
        pointer = builder.bitcast(pointer, args[2].type.as_pointer())
        builder.store(args[2], pointer, align=4)
        return context.get_dummy_value()

    if vector.dtype != array.dtype:
        raise TypingError(f"a vector of {vector.dtype} does not fit an array of {array.dtype}")
    return types.void(array, types.unliteral(at), vector), generate


def _fence(ordering, scope=None):
    @intrinsic
    def fence(typing_context):
        def generate(context, builder, sig, args):
            builder.fence(ordering, scope)
            return context.get_dummy_value()

        return types.void(), generate

    return fence


# What one thread writes before `publish` another sees that reads it after `acquire`, once it has
# seen what was written after `publish`.
publish = _fence("release")
acquire = _fence("acquire")
# Keeps the compiler from loading ahead what is read after: no instruction.
stay = _fence("seq_cst", "singlethread")


@intrinsic
def align_stack(typing_context):
    """Let vectors that do not fit into the registers of this function lie in one cache line each.

    LLVM aligns what it puts on the stack itself only where something of the function's own asks for
    that: without, nine of ten such vectors lay across two lines. Adds no instruction to the loop.
    """

    def generate(context, builder, sig, args):
        with builder.goto_entry_block():
            line = builder.alloca(ir.ArrayType(ir.IntType(8), CACHE_LINE))
        line.align = CACHE_LINE
        taken = ir.FunctionType(ir.VoidType(), [line.type])
        builder.asm(taken, "", "r", [line], side_effect=True)  # else it would be left out
        return context.get_dummy_value()

    return types.void(), generate


@intrinsic
def store(typing_context, array, vector):
    """Write a vector to the first numbers of an array of the same dtype."""

    def generate(context, builder, sig, args):
        pointer = _data(context, builder, array, args[0])
        pointer = builder.bitcast(pointer, args[1].type.as_pointer())
        builder.store(args[1], pointer, align=4)
        return context.get_dummy_value()

    if vector.dtype != array.dtype:
        raise TypingError(f"a vector of {vector.dtype} does not fit an array of {array.dtype}")
    return types.void(array, vector), generate


def _prefetch(builder, address):
    arguments = [BYTE_ADDRESS, INT, INT, INT]
    function = library(builder, "llvm.prefetch.p0", ir.VoidType(), arguments)
    # To read, to be kept in all levels of the cache, data.
    pointer = builder.inttoptr(address, BYTE_ADDRESS)
    builder.call(function, [pointer, *(ir.Constant(INT, flag) for flag in (0, 3, 1))])


@intrinsic
def prefetch_at(typing_context, array, at):
    """Ask for ``array.flat[at]``, which need not exist, ahead of its use."""

    def generate(context, builder, sig, args):
        struct = context.make_array(array)(context, builder, args[0])
        address = builder.ptrtoint(struct.data, LONG)
        size = ir.Constant(LONG, array.dtype.bitwidth // 8)
        _prefetch(builder, builder.add(address, builder.mul(args[1], size)))
        return context.get_dummy_value()

    return types.void(array, types.int64), generate


@intrinsic
def number_at(typing_context, array, at):
    """Return ``array.flat[at]``: to reshape an array takes a call of a library function."""

    def generate(context, builder, sig, args):
        pointer = builder.gep(_data(context, builder, array, args[0]), [args[1]])
        return builder.load(pointer, align=array.dtype.bitwidth // 8)

    return array.dtype(array, types.int64), generate


@intrinsic
def copy_numbers(typing_context, source, first, target, at, n):
    """Copy ``source.flat[first : first + n]`` to ``target.flat[at : at + n]``, of one dtype."""

    def generate(context, builder, sig, args):
        taken = builder.gep(_data(context, builder, source, args[0]), [args[1]])
        pointer = builder.gep(_data(context, builder, target, args[2]), [args[3]])
        cgutils.raw_memcpy(builder, pointer, taken, args[4], source.dtype.bitwidth // 8)
        return context.get_dummy_value()

    whole = types.int64
    return types.void(source, whole, target, whole, whole), generate
