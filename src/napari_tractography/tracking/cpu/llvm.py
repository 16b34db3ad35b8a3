"""All that leans on the insides of Numba and llvmlite in code: vectors and memory.

The kernels are Numba functions. What Numba has no functions for is here, a small vocabulary:
vectors of any width as a Numba type, whose operators and functions become vector instructions;
copies and prefetches. Plain loops over arrays would read the same, but LLVM did not turn them into
vector instructions, since it cannot know that the arrays do not overlap. How functions are
compiled, with Numba's private option and the names of its cache, is in
:mod:`napari_tractography.runtime.compiling`.

Together with :mod:`.memory` and ``compiling`` this is the only file of the package that imports
llvmlite, ``numba.core`` or ``numba.extending``. A new Numba that renames something private breaks
here, and test_llvm.py has a test for each trick.
"""

from __future__ import annotations

import inspect
import operator
from types import FunctionType

from llvmlite import binding, ir
from numba import config, types
from numba.core import cgutils
from numba.core.errors import TypingError
from numba.core.typing.templates import AbstractTemplate, infer_global, signature
from numba.extending import intrinsic, lower_builtin, models, overload, register_model

from ...runtime.compiling import WITHIN

BIT, BYTE_ADDRESS = ir.IntType(1), ir.PointerType()
INT, LONG, FLOAT = ir.IntType(32), ir.IntType(64), ir.FloatType()
ELEMENTS = {
    types.float32: FLOAT,
    types.int32: INT,
    types.uint32: INT,
    types.uint64: LONG,
    types.boolean: BIT,
}
CACHE_LINE = 64  # bytes, of most processors


def target_features():
    """Return what the processor can do that is compiled for, as LLVM names it: {"avx2", ...}."""
    features = config.CPU_FEATURES
    if features is None and config.CPU_NAME in (None, binding.get_host_cpu_name()):
        features = binding.get_host_cpu_features().flatten()
    return {name[1:] for name in (features or "").split(",") if name.startswith("+")}


def register_width():
    """Return how many float32 a vector register of that processor holds."""
    features = target_features()
    return 16 if "avx512f" in features else 8 if "avx" in features else 4


def converts_half_floats():
    """Tell whether that processor converts half floats itself; LLVM calls a function where not.

    Numba does not bring that function, and LLVM ends the process where it is missing.
    """
    is_x86 = binding.get_process_triple().startswith(("x86_64", "i686", "i386"))
    return not is_x86 or "f16c" in target_features()


# ------------------------------------------------------------------------------------------- types


class Vector(types.Type):  # type: ignore[misc]
    """A Numba type: `n` numbers of one dtype, in the vector registers of the processor."""

    def __init__(self, dtype, n):
        self.dtype, self.n = dtype, n
        super().__init__(name=f"Vector({dtype}, {n})")


@register_model(Vector)
class VectorModel(models.PrimitiveModel):  # type: ignore[misc]
    """Vectors are passed and stored as LLVM's."""

    def __init__(self, manager, vector):
        super().__init__(manager, vector, ir.VectorType(ELEMENTS[vector.dtype], vector.n))


def constant(numbers, element=INT):
    return ir.Constant(ir.VectorType(element, len(numbers)), numbers)


def undefined(kind):
    return ir.Constant(kind, ir.Undefined)


def fill(builder, value, n):
    """Return a vector with the same value in every lane."""
    nothing = undefined(ir.VectorType(value.type, n))
    first = builder.insert_element(nothing, value, ir.Constant(INT, 0))
    return builder.shuffle_vector(first, nothing, constant([0] * n))


def _vector_of(context, builder, value, argument_type, vector):
    """Return a vector as it is, a number filled into all lanes."""
    if isinstance(argument_type, Vector):
        return value
    return fill(builder, context.cast(builder, value, argument_type, vector.dtype), vector.n)


# --------------------------------------------------------------------------------------- operators


def _shift_right(builder, dtype, a, b):
    return builder.ashr(a, b) if dtype == types.int32 else builder.lshr(a, b)


def _compare(sign):
    def generate(builder, dtype, a, b):
        if dtype == types.float32:
            compare = builder.fcmp_unordered if sign == "!=" else builder.fcmp_ordered
        else:
            compare = builder.icmp_signed if dtype == types.int32 else builder.icmp_unsigned
        return compare(sign, a, b)

    return generate


def _combine(of_integers, of_floats=""):
    def generate(builder, dtype, a, b):
        name = of_floats if dtype == types.float32 else of_integers
        return getattr(builder, name)(a, b)

    return generate


ARITHMETIC = {
    operator.add: _combine("add", "fadd"),
    operator.sub: _combine("sub", "fsub"),
    operator.mul: _combine("mul", "fmul"),
    operator.truediv: _combine("", "fdiv"),
    operator.lshift: _combine("shl"),
    operator.rshift: _shift_right,
}
for _name in ("and_", "or_", "xor"):  # &, |, ^ and &=, |=, ^=
    ARITHMETIC[getattr(operator, _name)] = _combine(_name)
    ARITHMETIC[getattr(operator, "i" + _name.rstrip("_"))] = _combine(_name)
SIGNS = {"lt": "<", "le": "<=", "gt": ">", "ge": ">=", "eq": "==", "ne": "!="}
COMPARISONS = {getattr(operator, name): _compare(sign) for name, sign in SIGNS.items()}


def _register(operation, generate, *, to_booleans):
    """Teach Numba an operator of two vectors, or of a vector and a number."""

    @infer_global(operation)
    class Typing(AbstractTemplate):  # type: ignore[misc]
        def generic(self, args, kws):
            vectors = [a for a in args if isinstance(a, Vector)]
            others = [types.unliteral(a) for a in args if not isinstance(a, Vector)]
            if len(args) != 2 or len(set(vectors)) != 1:
                return None
            if not all(isinstance(a, types.Number | types.Boolean) for a in others):
                return None
            result = Vector(types.boolean, vectors[0].n) if to_booleans else vectors[0]
            return signature(result, *(types.unliteral(a) for a in args))

    def lower(context, builder, sig, args):
        vector = next(a for a in sig.args if isinstance(a, Vector))
        a, b = (
            _vector_of(context, builder, value, argument_type, vector)
            for value, argument_type in zip(args, sig.args, strict=True)
        )
        return generate(builder, vector.dtype, a, b)

    for pair in ((Vector, Vector), (Vector, types.Any), (types.Any, Vector)):
        lower_builtin(operation, *pair)(lower)


for _operation, _generate in ARITHMETIC.items():
    _register(_operation, _generate, to_booleans=False)
for _operation, _generate in COMPARISONS.items():
    _register(_operation, _generate, to_booleans=True)


@infer_global(operator.invert)
class _InvertTyping(AbstractTemplate):  # type: ignore[misc]
    def generic(self, args, kws):
        if len(args) == 1 and isinstance(args[0], Vector):
            return signature(args[0], args[0])
        return None


@lower_builtin(operator.invert, Vector)
def _invert(context, builder, sig, args):
    return builder.not_(args[0])


# -------------------------------------------------------------------------- selecting, converting


def _select_number(where, a, b):
    def generate(context, builder, sig, args):
        return builder.select(*args)

    if where != types.boolean or a != b:
        raise TypingError(f"one of {a} and {b} cannot be selected by {where}")
    return a(where, a, b), generate


@intrinsic
def select(typing_context, where, a, b):
    """Return a in the lanes where a condition holds, b elsewhere; each may be a number.

    Of a condition that is no vector, one of two numbers.
    """
    vectors = [each for each in (a, b) if isinstance(each, Vector)]
    if not isinstance(where, Vector):
        return _select_number(where, types.unliteral(a), types.unliteral(b))
    vector = vectors[0] if vectors else Vector(types.unliteral(a), where.n)

    def generate(context, builder, sig, args):
        a, b = (
            _vector_of(context, builder, value, argument_type, vector)
            for value, argument_type in zip(args[1:], sig.args[1:], strict=True)
        )
        return builder.select(args[0], a, b)

    condition = Vector(types.boolean, vector.n)
    return vector(condition, types.unliteral(a), types.unliteral(b)), generate


def _of_vector(dtype, result_of, generate):
    """Return a function of one vector, of any width and the dtype `dtype`.

    `result_of` is called with the Vector type, `generate` with LLVM's builder, the vector and the
    LLVM type of the result.
    """

    @intrinsic
    def function(typing_context, vector):
        if not isinstance(vector, Vector) or vector.dtype != dtype:
            raise TypingError(f"this takes a vector of {dtype}, not {vector}")
        result = result_of(vector)

        def lower(context, builder, sig, args):
            return generate(builder, args[0], context.get_value_type(result))

        return result(vector), lower

    return function


def _converter(source, target, convert):
    return _of_vector(source, lambda vector: Vector(target, vector.n), convert)


def library(builder, name, result, arguments):
    """Return one of LLVM's own functions."""
    kind = ir.FunctionType(result, arguments)
    return cgutils.get_or_insert_function(builder.module, kind, name)


def _rounding(name):
    def generate(builder, vector, kind):
        function = library(builder, f"llvm.{name}.v{kind.count}f32", kind, [kind])
        return builder.call(function, [vector])

    return generate


@intrinsic
def roots(typing_context, value):
    """Return the square roots of a vector of float32, or that of a number."""

    def generate(context, builder, sig, args):
        kind = args[0].type
        name = f"v{kind.count}f32" if isinstance(value, Vector) else "f32"
        return builder.call(library(builder, f"llvm.sqrt.{name}", kind, [kind]), args)

    if getattr(value, "dtype", value) != types.float32:
        raise TypingError(f"this takes a float32 or a vector of them, not {value}")
    return value(value), generate


to_floats = _converter(types.int32, types.float32, lambda builder, v, to: builder.sitofp(v, to))
to_ints = _converter(types.float32, types.int32, lambda builder, v, to: builder.fptosi(v, to))
as_ints = _converter(types.uint32, types.int32, lambda builder, v, to: v)
as_words = _converter(types.int32, types.uint32, lambda builder, v, to: v)
widened = _converter(types.uint32, types.uint64, lambda builder, v, to: builder.zext(v, to))
narrowed = _converter(types.uint64, types.uint32, lambda builder, v, to: builder.trunc(v, to))
floors = _converter(types.float32, types.float32, _rounding("floor"))


# -------------------------------------------------------------------------------- across the lanes


def _reduction(combine):
    """Return a function that combines all lanes: those half a width apart, then a quarter, ..."""

    def generate(builder, vector, kind):
        n = vector.type.count
        by = n // 2
        while by:
            lanes = constant([(lane + by) % n for lane in range(n)])
            moved = builder.shuffle_vector(vector, undefined(vector.type), lanes)
            vector = combine(builder, vector, moved)
            by //= 2
        return builder.extract_element(vector, ir.Constant(INT, 0))

    return _of_vector(types.float32, lambda vector: vector.dtype, generate)


def _larger(builder, a, b):
    return builder.select(builder.fcmp_ordered(">", a, b), a, b)


sum_of = _reduction(lambda builder, a, b: builder.fadd(a, b))
largest_of = _reduction(_larger)


# -------------------------------------------------------------------------------- booleans as bits


def _bits(builder, booleans, kind):
    n = booleans.type.count
    bits = builder.bitcast(booleans, ir.IntType(n))
    return builder.zext(bits, kind) if n < 32 else bits


# At most 32 booleans as the low bits of a uint32, lane 0 the lowest.
bits_of = _of_vector(types.boolean, lambda vector: types.uint32, _bits)


def _of_bits(result, generate, kind=types.uint32):
    """Return a function of a uint32, or of another kind."""

    @intrinsic
    def function(typing_context, bits):
        def lower(context, builder, sig, args):
            return generate(builder, args[0])

        return result(kind), lower

    return function


def booleans_reader(n):
    """Return a function of a uint32 that returns its `n` low bits as a vector of booleans."""

    def generate(builder, bits):
        low = builder.trunc(bits, ir.IntType(n)) if n < 32 else bits
        return builder.bitcast(low, ir.VectorType(BIT, n))

    return _of_bits(Vector(types.boolean, n), generate)


def _counter(count):
    return _of_bits(types.int64, lambda builder, bits: builder.zext(count(builder, bits), LONG))


count_bits = _counter(lambda builder, bits: builder.ctpop(bits))
count_bits_of_64 = _of_bits(types.int64, lambda builder, bits: builder.ctpop(bits), types.uint64)
# The number of the lowest bit that is set; there must be one, which spares a branch.
lowest_bit = _counter(lambda builder, bits: builder.cttz(bits, ir.Constant(BIT, 1)))


# ---------------------------------------------------------------------------- compiling by length


def by_length(function, make):
    """Return a function that is compiled from ``make(length)``, of its first argument, a tuple.

    `function` gives name, documentation and the other arguments; it is not run.
    """

    def typing(*args):
        return make(args[0].count)

    stub = FunctionType(function.__code__, function.__globals__, function.__name__)
    typing.__signature__ = inspect.signature(stub)  # type: ignore[attr-defined]
    overload(stub, jit_options={"forceinline": True, **WITHIN}, strict=False)(typing)
    return stub
