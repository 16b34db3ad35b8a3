"""The CUDA kernels compile for real GPUs, which takes NVIDIA's compiler and no GPU."""

from __future__ import annotations

import pickle
import re
import struct
from importlib import metadata

import pytest
from builds import built

from napari_tractography.model.algorithms import ALGORITHMS, BY_NAME
from napari_tractography.tracking.cuda import source as kernels
from napari_tractography.tracking.cuda import tables as cuda_tables

# The largest machine code of the kernel that tracks, and how much local memory it may take, both in
# bytes: what caches of instructions hold decides how fast it runs. Counted, with 5 % more. Around
# functions that are seldom called registers are kept in local memory.
LARGEST = {
    "probabilistic, nearest": (74_500, 76),
    "probabilistic, trilinear": (78_000, 76),
    "deterministic, nearest": (127_500, 1386),
    "deterministic, trilinear": (130_500, 1319),
    "sd_stream, nearest": (145_000, 118),
    "sd_stream, trilinear": (148_000, 84),
    "ifod2, nearest": (90_000, 76),
    "ifod2, trilinear": (95_500, 76),
    "diffusion, nearest": (126_000, 110),
    "diffusion, trilinear": (129_500, 110),
    "transport, nearest": (118_500, 110),
    "transport, trilinear": (122_000, 110),
}
SPECIAL = [
    *(
        pytest.param(
            (f"-DALGORITHM={name.upper()}", f"-DINTERPOLATION={interpolation}", "-DLMAX=8"),
            *LARGEST[f"{name}, {interpolation.lower()}"],
            id=f"{name}, {interpolation.lower()}",
        )
        for name in (row.name for row in ALGORITHMS)
        for interpolation in ("NEAREST", "TRILINEAR")
    ),
    pytest.param(
        ("-DALGORITHM=PROBABILISTIC", "-DINTERPOLATION=TRILINEAR", "-DLMAX=8", "-DPLAIN=0"),
        93_500,
        76,
        id="cones of directions that may follow each other",
    ),
    pytest.param(
        ("-DALGORITHM=PROBABILISTIC", "-DINTERPOLATION=TRILINEAR", "-DLMAX=12"),
        89_500,
        76,
        id="lmax 12",
    ),
    *(
        pytest.param(
            (f"-DALGORITHM={algorithm}", "-DINTERPOLATION=TRILINEAR", "-DLMAX=2", "-DVECTORS"),
            size,
            168,
            id=f"{algorithm.lower()} among vectors",
        )
        for algorithm, size in (
            ("PROBABILISTIC", 85_000),
            ("DETERMINISTIC", 85_000),
            ("SD_STREAM", 85_000),
            ("TRANSPORT", 63_000),
        )
    ),
    pytest.param(
        (
            "-DALGORITHM=PROBABILISTIC",
            "-DINTERPOLATION=TRILINEAR",
            "-DLMAX=8",
            "-DAHEAD=1",
            "-DONE_LOBE=1",
        ),
        113_500,
        76,
        id="probabilistic, as for_fod has it",
    ),
    pytest.param(
        ("-DALGORITHM=PROBABILISTIC", "-DINTERPOLATION=TRILINEAR", "-DLMAX=8", "-DTISSUES=1"),
        109_500,
        96,  # with 128 registers a few numbers are kept there
        id="probabilistic with tissues",
    ),
]

GPUS = ["sm_80", "sm_90"]
# Compiled for both in every run; the others for the second alone, unless slow tests are asked for.
OFTEN = {"probabilistic, trilinear", "deterministic, nearest", "probabilistic among vectors"}


def on(architecture, is_often, *values, of=None):
    """Parameters of a test of what is compiled for a GPU."""
    marks = () if is_often or architecture == GPUS[-1] else pytest.mark.slow
    name = f"{architecture}-{of or values[0]}"
    return pytest.param(architecture, *values, marks=marks, id=name)


@pytest.fixture(scope="module")
def nvrtc():
    """NVIDIA's run-time compiler, or skip."""
    pytest.importorskip("cupy", reason="no CuPy to find the CUDA compiler with")
    from cupy.cuda import nvrtc as module

    try:
        module.getVersion()
    except RuntimeError as error:
        pytest.skip(f"the CUDA compiler does not load: {error}")
    return module


def packages_with(name: str) -> list[str]:
    """Installed packages with something in their names, and their versions."""
    found = ((str(d.metadata["Name"]), d.version) for d in metadata.distributions())
    return sorted(f"{package} {version}" for package, version in found if name in package)


def compiled(nvrtc, architecture: str, *options: str, name="track.cu") -> tuple[bytes, str]:
    """Return the machine code and what the assembler says of it; both are kept."""
    source = kernels.source(name)
    flags = (f"--gpu-architecture={architecture}", "--ptxas-options=-v", *options)

    def build() -> bytes:
        program = nvrtc.createProgram(source, name, (), ())
        try:
            nvrtc.compileProgram(program, flags)
            return pickle.dumps((nvrtc.getCUBIN(program), nvrtc.getProgramLog(program)))
        except nvrtc.NVRTCError:
            pytest.fail(nvrtc.getProgramLog(program))
        finally:
            nvrtc.destroyProgram(program)

    key = (nvrtc.getVersion(), packages_with("nvrtc"), source, flags)
    return pickle.loads(built(key, ".cubin", build).read_bytes())


def section_sizes(code: bytes) -> dict[str, int]:
    """Return the bytes of each section of machine code, which is an ELF file, by name."""
    (at,) = struct.unpack_from("<Q", code, 0x28)
    size, n_sections, names = struct.unpack_from("<HHH", code, 0x3A)
    headers = [struct.unpack_from("<IIQQQQ", code, at + k * size) for k in range(n_sections)]
    begins = [headers[names][4] + header[0] for header in headers]
    return {
        code[begin : code.index(b"\0", begin)].decode(): header[5]
        for begin, header in zip(begins, headers, strict=True)
    }


def stack_frames(log: str) -> dict[str, int]:
    """Return the bytes of local memory of each function."""
    frames = re.findall(r"Function properties for (\w+)\s*\n.*?(\d+) bytes stack frame", log)
    return {name: int(n) for name, n in frames}


@pytest.mark.parametrize(
    ("architecture", "options", "n_bytes", "stack"),
    [on(name, row.id in OFTEN, *row.values, of=row.id) for name in GPUS for row in SPECIAL],
)
def test_kernels_compile_to_little_code_and_few_registers(
    nvrtc, architecture, options, n_bytes, stack
):
    row = BY_NAME[options[0].removeprefix("-DALGORITHM=").lower()]
    given = " ".join(options)
    left = [each for each in kernels.usual() if each.partition("=")[0] not in given]
    code, log = compiled(nvrtc, architecture, *kernels.tracking_options(row.code), *options, *left)
    assert set(re.findall(rf"Compiling entry function '(\w+)' for '{architecture}'", log)) == set(
        kernels.NAMES
    )
    sizes = section_sizes(code)
    assert {f".text.{name}" for name in kernels.NAMES} <= set(sizes)
    assert 0.8 * n_bytes < sizes[".text.track_streamlines"] <= n_bytes
    registers = [int(n) for n in re.findall(r"Used (\d+) registers", log)]
    assert len(registers) == len(kernels.NAMES)
    assert max(registers) <= row.cuda_registers
    frames = stack_frames(log)
    assert frames["track_streamlines"] <= stack
    assert max(n for name, n in frames.items() if name != "track_streamlines") <= stack
    # What follows tracking needs no local memory at all.
    assert {frames[name] for name in kernels.NAMES if name != "track_streamlines"} == {0}


@pytest.mark.parametrize(
    ("architecture", "lmax"), [on(name, lmax == 8, lmax) for name in GPUS for lmax in (2, 8, 12)]
)
def test_the_kernel_of_tables_compiles_and_spills_nothing(nvrtc, architecture, lmax):
    code, log = compiled(
        nvrtc, architecture, *kernels.OPTIONS, f"-DLMAX={lmax}", name=cuda_tables.SOURCE
    )
    assert code.startswith(b"\x7fELF")
    entries = re.findall(rf"Compiling entry function '(\w+)' for '{architecture}'", log)
    assert sorted(entries) == sorted(cuda_tables.NAMES)
    spilled = re.findall(r"(\d+) bytes spill stores, (\d+) bytes spill loads", log)
    assert set(spilled) == {("0", "0")}
    # Coefficients are in registers, not in memory.
    assert stack_frames(log)["fill_rows"] == 0


def test_no_multiplication_is_fused_with_an_addition_unless_it_says_so(nvrtc):
    """It would round once where the CPU rounds twice."""
    apart = "#define __fmaf_rn(a, b, c) ((a) * (b) + (c))\n"

    def assembly(text: str, *options: str) -> str:
        program = nvrtc.createProgram(text, "kernels.cu", (), ())
        defines = ("-DALGORITHM=0", "-DLMAX=8")
        nvrtc.compileProgram(program, ("--gpu-architecture=compute_80", *defines, *options))
        return str(nvrtc.getPTX(program))

    for name in ("track.cu", cuda_tables.SOURCE):
        text = apart + kernels.source(name)
        assert "fma.rn.f32" in assembly(text, "--std=c++14")  # so that the line below can fail
        assert "fma.rn.f32" not in assembly(text, *kernels.OPTIONS)
    assert "fma.rn.f32" in assembly(kernels.source(), *kernels.OPTIONS)


def test_multiplications_are_fused_where_that_is_exact_or_compared_with_room_to_spare():
    """Roots and quotients, which are rounded correctly so, and the bound of a cone's mass."""
    text = kernels.source()
    functions = re.findall(
        r"^(?:DEVICE|SELDOM) [\w ]+ (\w+)\((.*?)^}", text, re.MULTILINE | re.DOTALL
    )
    assert len(functions) > 100

    def users(call: str) -> list[str]:
        return [name for name, body in functions for _ in range(body.count(call))]

    assert set(users("__fmaf_rn(")) == {"root", "divided", "fused"}
    assert set(users("fused(")) == {"convolved_at"}
    assert set(users("convolved_at(")) == {"surely_weighs_enough"}
    assert text.count("__fmaf_rn(") == len(users("__fmaf_rn("))
    assert text.count("fused(") == len(users("fused(")) + 1


def test_a_wrong_source_is_refused(nvrtc):
    program = nvrtc.createProgram(kernels.source() + "\nint x = ;", "track.cu", (), ())
    with pytest.raises(nvrtc.NVRTCError):
        nvrtc.compileProgram(program, (*kernels.OPTIONS, "-DLMAX=2"))
