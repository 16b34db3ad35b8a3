"""Vectors of numbers, one of each of the streamlines that are tracked side by side.

A Numba type: within compiled code vectors are added, compared and shifted like numbers, and LLVM
brings them to whatever registers a processor has. Loops over arrays would read the same, but were
not turned into vector instructions (LLVM cannot know that the arrays do not overlap).
"""
# mypy: ignore-errors

from __future__ import annotations

import operator

from llvmlite import ir
from numba.core import cgutils, types
from numba.core.typing.templates import AbstractTemplate, infer_global, signature
from numba.extending import intrinsic, lower_builtin, models, register_model

from ...compiling import cached
from ...philox import MULTIPLIER_0, MULTIPLIER_1, ROUNDS, WEYL_0, WEYL_1

# Streamlines side by side: two registers' worth where these are widest, so that the look-ups of
# one half hide behind those of the other (trilinear steps took a seventh less time than with 16).
N_LANES = 32

INT = ir.IntType(32)
LONG = ir.IntType(64)
ELEMENTS = {
    types.float32: ir.FloatType(),
    types.int32: INT,
    types.uint32: INT,
    types.boolean: ir.IntType(1),
}
CACHE_LINE = 64  # bytes, of most processors


class Vector(types.Type):
    """N_LANES numbers of one kind."""

    def __init__(self, dtype):
        self.dtype = dtype
        super().__init__(name=f"Vector({dtype})")


FLOATS, INTS = Vector(types.float32), Vector(types.int32)
WORDS, TRUTHS = Vector(types.uint32), Vector(types.boolean)


def _kind(element):
    return ir.VectorType(element, N_LANES)


@register_model(Vector)
class VectorModel(models.PrimitiveModel):
    """A vector is one of LLVM's."""

    def __init__(self, manager, vector):
        super().__init__(manager, vector, _kind(ELEMENTS[vector.dtype]))


def _fill(builder, value):
    """Return a vector with a value everywhere."""
    undefined = ir.Constant(_kind(value.type), ir.Undefined)
    one = builder.insert_element(undefined, value, ir.Constant(INT, 0))
    return builder.shuffle_vector(one, undefined, ir.Constant(_kind(INT), [0] * N_LANES))


def _constant(value, element=INT):
    return ir.Constant(_kind(element), [value] * N_LANES)


def _vector_of(context, builder, value, given, dtype):
    """Return a vector of a vector or a number."""
    if isinstance(given, Vector):
        return value
    return _fill(builder, context.cast(builder, value, given, dtype))


# ------------------------------------------------------------------------------------- operators


def _arithmetic(of_floats, of_integers):
    def generate(builder, dtype, a, b):
        name = of_floats if dtype == types.float32 else of_integers
        return getattr(builder, name)(a, b)

    return generate


def _comparison(sign):
    def generate(builder, dtype, a, b):
        if dtype == types.float32:
            return (
                builder.fcmp_unordered(sign, a, b)
                if sign == "!="
                else builder.fcmp_ordered(sign, a, b)
            )
        compare = builder.icmp_signed if dtype == types.int32 else builder.icmp_unsigned
        return compare(sign, a, b)

    return generate


def _right(builder, dtype, a, b):
    return builder.ashr(a, b) if dtype == types.int32 else builder.lshr(a, b)


ARITHMETIC = {
    operator.add: _arithmetic("fadd", "add"),
    operator.sub: _arithmetic("fsub", "sub"),
    operator.mul: _arithmetic("fmul", "mul"),
    operator.and_: _arithmetic("", "and_"),
    operator.iand: _arithmetic("", "and_"),
    operator.or_: _arithmetic("", "or_"),
    operator.ior: _arithmetic("", "or_"),
    operator.xor: _arithmetic("", "xor"),
    operator.lshift: _arithmetic("", "shl"),
    operator.rshift: _right,
}
COMPARISONS = {
    operator.lt: _comparison("<"),
    operator.le: _comparison("<="),
    operator.gt: _comparison(">"),
    operator.ge: _comparison(">="),
    operator.eq: _comparison("=="),
    operator.ne: _comparison("!="),
}


def _register(operation, generate, result):
    """Let Numba know an operator of two vectors, or of a vector and a number."""

    @infer_global(operation)
    class Typing(AbstractTemplate):
        def generic(self, args, kws):
            if len(args) != 2:
                return None
            vectors = [a for a in args if isinstance(a, Vector)]
            others = [types.unliteral(a) for a in args if not isinstance(a, Vector)]
            if not vectors or len({v.dtype for v in vectors}) > 1:
                return None
            if not all(isinstance(a, types.Number | types.Boolean) for a in others):
                return None
            return signature(result or vectors[0], *(types.unliteral(a) for a in args))

    def lower(context, builder, sig, args):
        dtype = next(a.dtype for a in sig.args if isinstance(a, Vector))
        a, b = (
            _vector_of(context, builder, value, given, dtype)
            for value, given in zip(args, sig.args, strict=True)
        )
        return generate(builder, dtype, a, b)

    for pair in ((Vector, Vector), (Vector, types.Any), (types.Any, Vector)):
        lower_builtin(operation, *pair)(lower)


for _operation, _generate in ARITHMETIC.items():
    _register(_operation, _generate, None)
for _operation, _generate in COMPARISONS.items():
    _register(_operation, _generate, TRUTHS)


@infer_global(operator.invert)
class _InvertTyping(AbstractTemplate):
    def generic(self, args, kws):
        if len(args) == 1 and isinstance(args[0], Vector):
            return signature(args[0], args[0])
        return None


@lower_builtin(operator.invert, Vector)
def _invert(context, builder, sig, args):
    return builder.not_(args[0])


# ---------------------------------------------------------------------------- choosing, converting


@intrinsic
def select(typing_context, where, a, b):
    """Return a where it holds and b elsewhere; one of them may be a number."""
    vector = a if isinstance(a, Vector) else b

    def generate(context, builder, sig, args):
        a, b = (
            _vector_of(context, builder, value, given, vector.dtype)
            for value, given in zip(args[1:], sig.args[1:], strict=True)
        )
        return builder.select(args[0], a, b)

    return vector(TRUTHS, types.unliteral(a), types.unliteral(b)), generate


def _converter(name, given, wanted, convert):
    @intrinsic
    def converted(typing_context, vector):
        def generate(context, builder, sig, args):
            return convert(builder, args[0])

        return wanted(given), generate

    converted.__name__ = name
    return converted


to_floats = _converter(
    "to_floats", INTS, FLOATS, lambda builder, v: builder.sitofp(v, _kind(ir.FloatType()))
)
to_ints = _converter("to_ints", FLOATS, INTS, lambda builder, v: builder.fptosi(v, _kind(INT)))
as_ints = _converter("as_ints", WORDS, INTS, lambda builder, v: v)
as_words = _converter("as_words", INTS, WORDS, lambda builder, v: v)


def _floor(builder, vector):
    kind = ir.FunctionType(vector.type, [vector.type])
    name = f"llvm.floor.v{N_LANES}f32"
    return builder.call(cgutils.get_or_insert_function(builder.module, kind, name), [vector])


floors = _converter("floors", FLOATS, FLOATS, _floor)


@intrinsic
def bits_of(typing_context, truths):
    """Return the truths as the bits of a number."""

    def generate(context, builder, sig, args):
        bits = builder.bitcast(args[0], ir.IntType(N_LANES))
        return builder.zext(bits, INT) if N_LANES < 32 else bits

    return types.uint32(TRUTHS), generate


@intrinsic
def truths_of(typing_context, bits):
    """Return the low bits of a number as truths."""

    def generate(context, builder, sig, args):
        low = builder.trunc(args[0], ir.IntType(N_LANES)) if N_LANES < 32 else args[0]
        return builder.bitcast(low, _kind(ir.IntType(1)))

    return TRUTHS(types.uint32), generate


# ---------------------------------------------------------------------------------------- memory


def _data(context, builder, array_type, array):
    return context.make_array(array_type)(context, builder, array).data


@intrinsic
def load(typing_context, array):
    """Return the first N_LANES numbers of an array."""

    def generate(context, builder, sig, args):
        kind = _kind(ELEMENTS[sig.return_type.dtype])
        pointer = _data(context, builder, sig.args[0], args[0])
        return builder.load(builder.bitcast(pointer, kind.as_pointer()), align=4)

    return Vector(array.dtype)(array), generate


@intrinsic
def store(typing_context, array, vector):
    """Write the first N_LANES numbers of an array."""

    def generate(context, builder, sig, args):
        pointer = _data(context, builder, sig.args[0], args[0])
        pointer = builder.bitcast(pointer, args[1].type.as_pointer())
        builder.store(args[1], pointer, align=4)
        return context.get_dummy_value()

    assert vector.dtype == array.dtype
    return types.void(array, vector), generate


@intrinsic
def gather(typing_context, array, at):
    """Return array.flat[at], whose numbers must exist; of 8 and 16 bits as INTS."""
    width = array.dtype.bitwidth
    dtype = array.dtype if width == 32 else types.int32

    def generate(context, builder, sig, args):
        pointer, at = _data(context, builder, sig.args[0], args[0]), args[1]
        element = ELEMENTS[dtype]
        kind, pointers = _kind(element), _kind(ir.PointerType())
        everywhere = _constant(1, ir.IntType(1))
        if width < 32:  # there are gathers of whole words only
            pointer = builder.bitcast(pointer, element.as_pointer())
            per_word = 32 // width
            shift = builder.mul(builder.and_(at, _constant(per_word - 1)), _constant(width))
            at = builder.lshr(at, _constant(per_word.bit_length() - 1))
        places = builder.gep(pointer, [at], source_etype=element)
        places.type = pointers
        function = cgutils.get_or_insert_function(
            builder.module,
            ir.FunctionType(kind, [pointers, INT, everywhere.type, kind]),
            f"llvm.masked.gather.v{N_LANES}{'f' if dtype == types.float32 else 'i'}32.v{N_LANES}p0",
        )
        result = builder.call(
            function, [places, ir.Constant(INT, 4), everywhere, ir.Constant(kind, ir.Undefined)]
        )
        if width == 32:
            return result
        result = builder.lshr(result, shift)
        return builder.and_(result, _constant((1 << width) - 1))

    return Vector(dtype)(array, INTS), generate


@intrinsic
def prefetch(typing_context, array, row):
    """Ask for a row of an array, all lines of the cache that it lies in, ahead of its use."""

    def generate(context, builder, sig, args):
        struct = context.make_array(sig.args[0])(context, builder, args[0])
        address = builder.ptrtoint(struct.data, LONG)
        stride = builder.extract_value(struct.strides, 0)
        first = builder.add(address, builder.mul(args[1], stride))
        last = builder.add(first, stride)
        line = ir.Constant(LONG, CACHE_LINE)
        function = cgutils.get_or_insert_function(
            builder.module,
            ir.FunctionType(ir.VoidType(), [ir.PointerType(), INT, INT, INT]),
            "llvm.prefetch.p0",
        )
        with cgutils.for_range_slice(builder, first, last, line, LONG) as (place, _):
            pointer = builder.inttoptr(place, ir.PointerType())
            builder.call(function, [pointer, *(ir.Constant(INT, n) for n in (0, 3, 1))])
        return context.get_dummy_value()

    return types.void(array, types.int64), generate


@intrinsic
def put_points(typing_context, points, slot, x, y, z):
    """Write a point of every lane at its slot of a (N_LANES, n, 3) array.

    The coordinates and slots are arrays of N_LANES numbers.
    """

    def generate(context, builder, sig, args):
        struct = context.make_array(sig.args[0])(context, builder, args[0])
        a_row = builder.mul(builder.extract_value(struct.shape, 1), ir.Constant(LONG, 3))
        slot, *axes = (
            _data(context, builder, kind, array)
            for kind, array in zip(sig.args[1:], args[1:], strict=True)
        )
        for lane in range(N_LANES):
            which = ir.Constant(LONG, lane)
            at = builder.zext(builder.load(builder.gep(slot, [which])), LONG)
            at = builder.add(builder.mul(at, ir.Constant(LONG, 3)), builder.mul(a_row, which))
            target = builder.gep(struct.data, [at])
            for axis, numbers in enumerate(axes):
                number = builder.load(builder.gep(numbers, [which]))
                builder.store(number, builder.gep(target, [ir.Constant(LONG, axis)]))
        return context.get_dummy_value()

    return types.void(points, slot, x, y, z), generate


@intrinsic
def copy_points(typing_context, source, first, target, at, n):
    """Copy n points of three numbers, from the `first` of one array to the `at`-th of another."""

    def generate(context, builder, sig, args):
        source, first, target, at, n = args
        source = _data(context, builder, sig.args[0], source)
        target = _data(context, builder, sig.args[2], target)
        three = ir.Constant(LONG, 3)
        cgutils.raw_memcpy(
            builder,
            builder.gep(target, [builder.mul(at, three)]),
            builder.gep(source, [builder.mul(first, three)]),
            builder.mul(n, three),
            4,
        )
        return context.get_dummy_value()

    whole = types.int64
    return types.void(source, whole, target, whole, whole), generate


@cached(nogil=True)
def in_order(points, firsts, counts, ordered):
    """Copy the points of streamlines in the order of their seeds, from `points` to `ordered`."""
    at = 0
    for seed in range(len(counts)):
        copy_points(points, firsts[seed], ordered, at, counts[seed])
        at += counts[seed]


# ------------------------------------------------------------------------------------ random words


@intrinsic
def scaled(typing_context, words, factor):
    """Multiply words, fractions of 2^32, by a number below 2^31: whole parts and the rest."""
    result = types.UniTuple(WORDS, 2)

    def generate(context, builder, sig, args):
        wide = _kind(LONG)
        factor = builder.zext(builder.trunc(args[1], INT), LONG)
        product = builder.mul(builder.zext(args[0], wide), _fill(builder, factor))
        whole = builder.trunc(builder.lshr(product, _constant(32, LONG)), _kind(INT))
        return context.make_tuple(builder, result, [whole, builder.trunc(product, _kind(INT))])

    return result(WORDS, types.int64), generate


@intrinsic
def philox(typing_context, stream, step, block, purpose, key_0, key_1):
    """Return four random words of a counter, or WORDS of one of each lane; see philox.py."""
    several = isinstance(stream, Vector)
    words = WORDS if several else types.uint32
    result = types.UniTuple(words, 4)
    long, short = (_kind(LONG), _kind(INT)) if several else (LONG, INT)

    def constant(value):
        return _constant(value, LONG) if several else ir.Constant(LONG, value)

    def generate(context, builder, sig, args):
        key_0, key_1 = args[4:]
        half = constant(32)

        def wide(words):
            many = _fill(builder, words) if several and words.type == INT else words  # a key
            return builder.zext(many, long)

        def product(factor, words):
            return builder.mul(builder.and_(words, constant(0xFFFFFFFF)), constant(factor))

        # In 64 bits each, of which only the low half counts.
        c0, c1, c2, c3 = (wide(words) for words in args[:4])
        for _ in range(ROUNDS):
            product_0, product_1 = product(MULTIPLIER_0, c0), product(MULTIPLIER_1, c2)
            c0 = builder.xor(builder.lshr(product_1, half), c1)
            c0 = builder.xor(c0, wide(key_0))
            c2 = builder.xor(builder.lshr(product_0, half), c3)
            c2 = builder.xor(c2, wide(key_1))
            c1, c3 = product_1, product_0
            key_0 = builder.add(key_0, ir.Constant(INT, WEYL_0))
            key_1 = builder.add(key_1, ir.Constant(INT, WEYL_1))
        found = [builder.trunc(c, short) for c in (c0, c1, c2, c3)]
        return context.make_tuple(builder, result, found)

    key = types.uint32
    return result(words, words, words, words, key, key), generate
