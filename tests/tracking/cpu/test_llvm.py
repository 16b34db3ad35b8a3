"""Each trick that leans on Numba's insides, on functions that compile quickly."""

from __future__ import annotations

import ast
import itertools
import operator
from pathlib import Path

import numpy as np
import pytest
from numba import float32, njit, types
from numba.core.errors import TypingError

import napari_tractography
from napari_tractography.runtime import compiling
from napari_tractography.tracking.cpu import llvm, memory

SOURCE = Path(napari_tractography.__file__).parent
PRIVATE = ("llvmlite", "numba.core", "numba.extending")
WIDTHS = (8, 16, 32)
LOADS = {n: memory.loader(n) for n in WIDTHS}
COUNTERS = {n: memory.counter(types.uint32, n) for n in WIDTHS}
BOOLEANS = {n: llvm.booleans_reader(n) for n in WIDTHS}
ARITHMETIC = ("add", "sub", "mul")
BITWISE = ("and_", "or_", "xor", "iand", "ior", "ixor", "lshift", "rshift")
COMPARISONS = ("lt", "le", "gt", "ge", "eq", "ne")


def imported_by(tree: ast.AST) -> set[str]:
    names = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            names |= {f"{node.module}.{alias.name}" for alias in node.names} | {str(node.module)}
    return names


def names_in(tree: ast.AST) -> set[str]:
    """All names, keywords and strings that are options or attributes of a dispatcher."""
    found = set()
    for node in ast.walk(tree):
        for field in ("id", "attr", "arg", "value"):
            value = getattr(node, field, None)
            if isinstance(value, str):
                found.add(value)
    return found


def is_private(name: str) -> bool:
    return any(name == module or name.startswith(module + ".") for module in PRIVATE)


def test_four_files_lean_on_the_insides_of_numba():
    """Two for how functions are compiled and kept, two for what they are made of."""
    leaning = set()
    for path in SOURCE.rglob("*.py"):
        tree = ast.parse(path.read_text("utf-8"))
        options = {"_nrt", "no_cpython_wrapper", "no_cfunc_wrapper"}
        if any(map(is_private, imported_by(tree))) or options & names_in(tree):
            leaning.add(path.relative_to(SOURCE).as_posix())
    assert leaning == {
        "runtime/compiling.py",
        "runtime/machine_code.py",
        "tracking/cpu/llvm.py",
        "tracking/cpu/memory.py",
    }


# ------------------------------------------------------------------------------------------ options


def code_of(function, *types_of_arguments, **options) -> str:
    """LLVM's code of a function, compiled with options."""
    fresh = njit(**options)(function)
    fresh.compile(types_of_arguments)
    return fresh.inspect_llvm(fresh.signatures[0])


def number_of_either(pair, k):
    chosen = pair[0]
    if k:
        chosen = pair[1]
    return chosen[k]


ARGUMENTS = (types.UniTuple(float32[::1], 2), types.int64)


def test_reference_counting_can_be_switched_off():
    """`_nrt` is private: a new Numba that ignores it would make the kernels ten times slower."""
    options = {**compiling.OPTIONS}
    assert options.pop("_nrt") is False
    assert "NRT_incref" not in code_of(number_of_either, *ARGUMENTS, **options, _nrt=False)
    assert "NRT_incref" in code_of(
        number_of_either, *ARGUMENTS, **options
    )  # so that the line above can fail


def test_inner_functions_have_no_wrappers_for_python():
    plain = code_of(number_of_either, *ARGUMENTS, **compiling.OPTIONS)
    inner = code_of(number_of_either, *ARGUMENTS, **compiling.WITHIN)
    for wrapper in ("@_ZN7cpython", "@cfunc."):  # as their names begin
        assert wrapper in plain
        assert wrapper not in inner


def test_small_functions_are_inlined_by_force():
    assert compiling.inlined(number_of_either).targetoptions["forceinline"] is True
    assert "alwaysinline" in code_of(number_of_either, *ARGUMENTS, forceinline=True)
    assert "alwaysinline" not in code_of(number_of_either, *ARGUMENTS)


# --------------------------------------------------------------------------------------- operators


def numbers(kind: type, seed: int, n: int = 32) -> tuple[np.ndarray, np.ndarray]:
    """Two vectors, some of whose numbers are equal."""
    rng = np.random.default_rng(seed)
    if kind is np.float32:
        a, b = rng.normal(size=(2, n)).astype(kind)
    else:
        limits = np.iinfo(kind)
        a, b = rng.integers(limits.min, limits.max, (2, n), endpoint=True, dtype=kind)
    b[::5] = a[::5]
    return a, b


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        *itertools.product([np.float32], ARITHMETIC),
        *itertools.product([np.int32, np.uint32], ARITHMETIC + BITWISE),
    ],
)
def test_arithmetic_is_that_of_numpy(kind, name):
    operation, load = getattr(operator, name), LOADS[32]
    a, b = numbers(kind, 1)
    if name.endswith("shift"):
        b = (b & 31).astype(kind)
    expected = [operation(a.copy(), b), operation(a.copy(), b[3])]
    out = np.zeros((2, 32), kind)

    @njit
    def both(a, b, number, out):
        memory.store(out[0], operation(load(a), load(b)))
        memory.store(out[1], operation(load(a), number))

    both(a, b, b[3], out)
    np.testing.assert_array_equal(out, expected)


@pytest.mark.parametrize("kind", [np.float32, np.int32, np.uint32])
@pytest.mark.parametrize("name", COMPARISONS)
def test_comparisons_are_those_of_numpy(kind, name):
    operation, load = getattr(operator, name), LOADS[32]
    a, b = numbers(kind, 2)
    if kind is np.float32:
        a[7] = np.nan
    bits = njit(lambda a, b: llvm.bits_of(operation(load(a), load(b))))(a, b)
    wanted = operation(a, b)
    assert wanted.any()
    assert not wanted.all()
    np.testing.assert_array_equal((bits >> np.arange(32)) & 1, wanted)


def test_words_of_64_bits_multiply_and_shift():
    words, _ = numbers(np.uint32, 3)
    load, factor, shift = LOADS[32], np.uint64(0xD2511F53), np.uint64(32)
    high, low = np.zeros((2, 32), np.uint32)

    @njit
    def multiply(words, high, low):
        product = factor * llvm.widened(load(words))
        memory.store(high, llvm.narrowed(product >> shift))
        memory.store(low, llvm.narrowed(product))

    multiply(words, high, low)
    product = words.astype(np.uint64) * factor
    np.testing.assert_array_equal(high, product >> shift)
    np.testing.assert_array_equal(low, product & np.uint64(0xFFFFFFFF))


def test_vectors_of_different_widths_or_dtypes_do_not_mix():
    load, narrow = LOADS[32], LOADS[8]
    floats, ints = np.zeros(32, np.float32), np.zeros(32, np.int32)
    with pytest.raises(TypingError):
        njit(lambda a: llvm.bits_of(load(a) < narrow(a)))(floats)
    with pytest.raises(TypingError):
        njit(lambda a, b: llvm.bits_of(load(a) < load(b)))(floats, ints)
    with pytest.raises(TypingError, match="takes a vector of int32"):
        njit(lambda a: llvm.bits_of(llvm.to_floats(load(a)) < 0))(floats)
    with pytest.raises(TypingError, match="does not fit an array of int32"):
        njit(lambda a, b: memory.store(b, load(a)))(floats, ints)


# -------------------------------------------------------- selecting, converting, across the lanes


@pytest.mark.parametrize("n", WIDTHS)
def test_booleans_select(n):
    load, booleans_of = LOADS[n], BOOLEANS[n]
    a, b = numbers(np.int32, 4, n)
    out = np.zeros((2, n), np.int32)
    bits = np.uint32(0x80F00FB1)
    wanted = (int(bits) >> np.arange(n) & 1).astype(bool)

    @njit
    def choose(a, b, bits, out):
        where = booleans_of(bits)
        memory.store(out[0], llvm.select(where, load(a), load(b)))
        memory.store(out[1], llvm.select(where, load(a), np.int32(7)))
        return llvm.bits_of(~where)

    assert choose(a, b, bits, out) == ~int(bits) & ((1 << n) - 1)
    np.testing.assert_array_equal(out[0], np.where(wanted, a, b))
    np.testing.assert_array_equal(out[1], np.where(wanted, a, 7))


def test_vectors_are_converted():
    load = LOADS[32]
    a, _ = numbers(np.float32, 5)
    a *= 100
    floors, ints, floats = (np.zeros(32, kind) for kind in (np.float32, np.int32, np.float32))

    @njit
    def convert(a, floors, ints, floats):
        floor = llvm.floors(load(a))
        memory.store(floors, floor)
        memory.store(ints, llvm.as_ints(llvm.as_words(llvm.to_ints(floor))))
        memory.store(floats, llvm.to_floats(llvm.to_ints(load(a))))

    convert(a, floors, ints, floats)
    np.testing.assert_array_equal(floors, np.floor(a))
    np.testing.assert_array_equal(ints, np.floor(a).astype(int))
    np.testing.assert_array_equal(floats, np.trunc(a))


@pytest.mark.parametrize("n", WIDTHS)
def test_lanes_are_combined_in_a_stated_order(n):
    load = LOADS[n]
    a, _ = numbers(np.float32, 6, n)
    total, largest = njit(lambda a: (llvm.sum_of(load(a)), llvm.largest_of(load(a))))(a)
    halves = a.copy()
    while len(halves) > 1:
        halves = halves[: len(halves) // 2] + halves[len(halves) // 2 :]
    assert (total, largest) == (halves[0], a.max())


def test_bits_are_counted():
    counts = njit(lambda bits: (llvm.count_bits(bits), llvm.lowest_bit(bits)))
    assert counts(np.uint32(1)) == (1, 0)
    assert counts(np.uint32(0b1011000)) == (3, 3)
    assert counts(np.uint32(0x80000000)) == (1, 31)


@pytest.mark.parametrize("length", [1, 3, 9])
def test_functions_are_compiled_for_the_length_of_a_tuple(length):
    def of_length(n):
        return lambda numbers, x: n * x

    def form(numbers, x): ...

    scaled = llvm.by_length(form, of_length)
    assert njit(lambda numbers, x: scaled(numbers, x))((1.0,) * length, 2.5) == 2.5 * length


# ------------------------------------------------------------------------------------------ memory


@pytest.mark.parametrize("n", WIDTHS)
def test_vectors_are_loaded_from_any_place_and_stored(n):
    load, load_from = LOADS[n], memory.loader_from(n)
    table = np.random.default_rng(7).integers(0, 2**31 - 1, (3, 5, 32)).astype(np.int32)
    out = np.full(80, -1, np.int32)

    @njit
    def move(t, out):
        memory.store(out[3:], load(t[2, 1]))
        memory.store_to(out, 40, load_from(t, 165))

    move(table, out)
    np.testing.assert_array_equal(out[3 : 3 + n], table[2, 1, :n])
    np.testing.assert_array_equal(out[40 : 40 + n], table.ravel()[165 : 165 + n])
    assert (np.delete(out, np.r_[3 : 3 + n, 40 : 40 + n]) == -1).all()


@pytest.mark.parametrize("n", WIDTHS)
@pytest.mark.parametrize(
    "by_processor", [pytest.param(True, id="processor"), pytest.param(False, id="our own")]
)
def test_half_floats_are_read_and_rounded_as_by_numpy(monkeypatch, n, by_processor):
    if by_processor and not llvm.converts_half_floats():
        pytest.skip("this processor does not convert half floats")
    monkeypatch.setattr(memory, "converts_half_floats", lambda: by_processor)
    load, load_half_floats = LOADS[n], memory.half_loader_from(n)
    rng = np.random.default_rng(8)
    numbers = (rng.normal(size=n) * 10.0 ** rng.uniform(-8, 4.5, n)).astype(np.float32)
    numbers[:4] = 0.0, 65504.0, 2.0**-24, -(2.0**-14)
    half_floats, back = np.zeros(n + 5, np.uint16), np.zeros(n, np.float32)

    @njit
    def convert(numbers, half_floats, back):
        memory.store_half_floats(half_floats, 5, load(numbers))
        memory.store(back, load_half_floats(half_floats, 5))

    convert(numbers, half_floats, back)
    np.testing.assert_array_equal(half_floats[5:].view(np.float16), numbers.astype(np.float16))
    np.testing.assert_array_equal(back, numbers.astype(np.float16).astype(np.float32))
    assert not half_floats[:5].any()


def test_half_floats_of_our_own_are_right_for_all_bits(monkeypatch):
    """Of every half float that is a number, those beside it, and what lies in the middle."""
    monkeypatch.setattr(memory, "converts_half_floats", lambda: False)
    half_floats = np.arange(2**16, dtype=np.uint16).view(np.float16)
    exact = np.sort(half_floats[np.isfinite(half_floats)]).astype(np.float32)
    middle = (exact[1:] + exact[:-1]) / np.float32(2)
    tried = [exact, middle, np.nextafter(middle, np.float32(0)), middle * np.float32(1 + 2.0**-23)]
    tried = np.concatenate([*tried, np.float32([65519.0, 65520.0, 1e6, -1e30])])
    tried = np.concatenate([tried, np.zeros(-len(tried) % 8, np.float32)])
    load, load_half_floats = memory.loader_from(8), memory.half_loader_from(8)
    half_floats, back = np.zeros(len(tried), np.uint16), np.zeros(len(tried), np.float32)

    @njit
    def convert(numbers, half_floats, back):
        for at in range(0, len(numbers), 8):
            memory.store_half_floats(half_floats, at, load(numbers, at))
            memory.store_to(back, at, load_half_floats(half_floats, at))

    convert(tried, half_floats, back)
    with np.errstate(over="ignore"):
        expected = tried.astype(np.float16)
    np.testing.assert_array_equal(half_floats, expected.view(np.uint16))
    finite = np.isfinite(expected)
    np.testing.assert_array_equal(back[finite], expected[finite].astype(np.float32))


@pytest.mark.parametrize(
    ("features", "width"),
    [("+avx512f,+avx2,+avx", 16), ("+avx2,+avx,-avx512f", 8), ("+sse4.2", 4), ("+neon", 4)],
)
def test_register_width_is_that_of_the_processor_compiled_for(monkeypatch, features, width):
    monkeypatch.setattr(llvm.config, "CPU_FEATURES", features)
    assert llvm.register_width() == width


def test_features_of_this_processor_count_unless_another_is_named(monkeypatch):
    here = {name for name, has in llvm.binding.get_host_cpu_features().items() if has}
    monkeypatch.setattr(llvm.config, "CPU_FEATURES", None)
    monkeypatch.setattr(llvm.config, "CPU_NAME", None)
    assert llvm.target_features() == here
    monkeypatch.setattr(llvm.config, "CPU_NAME", "generic")
    assert llvm.target_features() == set()


@pytest.mark.parametrize("n", [4, 16])
def test_blocks_are_transposed(n):
    transpose = memory.transposer(n)
    source = np.arange(40 * 24, dtype=np.float32).reshape(40, 24)
    target = np.zeros((20, 48), np.float32)
    njit(lambda s, t: transpose(s, 24 * 3 + 2, 24, t, 48 * 2 + 5, 48))(source, target)
    np.testing.assert_array_equal(target[2 : 2 + n, 5 : 5 + n], source[3 : 3 + n, 2 : 2 + n].T)
    target[2 : 2 + n, 5 : 5 + n] = 0
    assert not target.any()


def test_a_number_is_prefetched_and_left_as_it_is():
    table = np.arange(60, dtype=np.float32).reshape(3, 20)

    def ask(table, at):
        memory.prefetch_at(table, at)

    njit(ask)(table, 20)
    np.testing.assert_array_equal(table.ravel(), np.arange(60))
    assert "llvm.prefetch" in code_of(ask, float32[:, ::1], types.int64)


@pytest.mark.parametrize(
    ("name", "ordering"), [("publish", "release"), ("acquire", "acquire"), ("stay", "singlethread")]
)
def test_fences_stand_in_the_code(name, ordering):
    fence = getattr(memory, name)

    def read(a):
        fence()
        return a[0]

    code = code_of(read, float32[::1]).splitlines()
    assert ordering in next(line for line in code if line.strip().startswith("fence"))


@pytest.mark.parametrize("kind", [np.float32, np.uint8])
def test_numbers_are_copied(kind):
    source = np.arange(60).astype(kind).reshape(4, 15)
    target = np.zeros((9, 3), kind)
    njit(lambda s, t: memory.copy_numbers(s, 18, t, 6, 12))(source, target)
    np.testing.assert_array_equal(target.ravel()[6:18], source.ravel()[18:30])
    assert not target.ravel()[:6].any()
    assert not target.ravel()[18:].any()


@pytest.mark.parametrize("n", WIDTHS)
def test_a_counter_counts_from_0(n):
    numbers, store = COUNTERS[n], memory.store

    @njit
    def write(found):
        store(found, numbers())

    found = np.full(n, 99, np.uint32)
    write(found)
    assert found.tolist() == list(range(n))
