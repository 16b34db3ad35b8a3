"""The CUDA kernels compile for real GPUs, which takes NVIDIA's compiler and no GPU."""

from __future__ import annotations

import re

import pytest

from napari_tractography.tracking.algorithms import ALGORITHMS
from napari_tractography.tracking.cuda import source as kernels
from napari_tractography.tracking.cuda import tables as cuda_tables

SPECIAL = [
    pytest.param((), id="for everything"),
    *(
        pytest.param(
            (
                f"-DALGORITHM={algorithm}",
                f"-DINTERPOLATION={interpolation}",
                "-DEVALUATION=PRECOMPUTED",
            ),
            id=f"{algorithm.lower()}, {interpolation.lower()}",
        )
        for algorithm in (row.name.upper() for row in ALGORITHMS)
        for interpolation in ("NEAREST", "TRILINEAR")
    ),
    pytest.param(
        ("-DALGORITHM=DIFFUSION", "-DINTERPOLATION=TRILINEAR", "-DEVALUATION=DIRECT"),
        id="direct diffusion",
    ),
]
# Of 64 K of a multiprocessor: 20 warps with nearest, 11 with trilinear interpolation.
MAX_REGISTERS = {"-DINTERPOLATION=NEAREST": 96, "-DINTERPOLATION=TRILINEAR": 184}


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


def compiled(nvrtc, architecture: str, *options: str, name="track.cu") -> tuple[bytes, str]:
    """Return the machine code and what the assembler says of it."""
    program = nvrtc.createProgram(kernels.source(name), name, (), ())
    flags = (*kernels.OPTIONS, f"--gpu-architecture={architecture}", "--ptxas-options=-v", *options)
    try:
        nvrtc.compileProgram(program, flags)
    except nvrtc.NVRTCError:
        pytest.fail(nvrtc.getProgramLog(program))
    try:
        return nvrtc.getCUBIN(program), nvrtc.getProgramLog(program)
    finally:
        nvrtc.destroyProgram(program)


@pytest.mark.parametrize("options", SPECIAL)
@pytest.mark.parametrize("architecture", ["sm_80", "sm_90"])
def test_kernels_compile_and_spill_nothing(nvrtc, architecture, options):
    code, log = compiled(nvrtc, architecture, *options)
    assert code.startswith(b"\x7fELF")
    assert set(re.findall(rf"Compiling entry function '(\w+)' for '{architecture}'", log)) == set(
        kernels.NAMES
    )
    assert all(name.encode() in code for name in kernels.NAMES)
    spilled = re.findall(r"(\d+) bytes spill stores, (\d+) bytes spill loads", log)
    assert len(spilled) >= len(kernels.NAMES)
    registers = [int(n) for n in re.findall(r"Used (\d+) registers", log)]
    assert len(registers) == len(kernels.NAMES)
    if options:  # what runs; the source as it stands is for all at once
        assert set(spilled) == {("0", "0")}
        assert max(registers) <= MAX_REGISTERS[options[1]]


@pytest.mark.parametrize("architecture", ["sm_80", "sm_90"])
def test_the_kernels_of_tables_compile_and_spill_nothing(nvrtc, architecture):
    code, log = compiled(nvrtc, architecture, name=cuda_tables.SOURCE)
    assert code.startswith(b"\x7fELF")
    entries = re.findall(rf"Compiling entry function '(\w+)' for '{architecture}'", log)
    assert set(entries) == set(cuda_tables.NAMES)
    spilled = re.findall(r"(\d+) bytes spill stores, (\d+) bytes spill loads", log)
    assert set(spilled) == {("0", "0")}
    # The amplitudes of a patch are in registers, not in memory.
    frames = dict(re.findall(r"Function properties for (\w+)\s*\n.*?(\d+) bytes stack frame", log))
    assert set(frames) >= set(cuda_tables.NAMES)
    assert {frames[name] for name in cuda_tables.NAMES if name != "fill_slots"} == {"0"}


def test_no_multiplication_is_fused_with_an_addition(nvrtc):
    """It would round once where the CPU rounds twice."""

    def assembly(*options: str, name="track.cu") -> str:
        program = nvrtc.createProgram(kernels.source(name), name, (), ())
        nvrtc.compileProgram(program, ("--gpu-architecture=compute_80", "-DALGORITHM=0", *options))
        return str(nvrtc.getPTX(program))

    assert "fma.rn.f32" in assembly("--std=c++14")  # so that the line below can fail
    assert "fma.rn.f32" not in assembly(*kernels.OPTIONS)
    assert "fma.rn.f32" in assembly("--std=c++14", name=cuda_tables.SOURCE)
    assert "fma.rn.f32" not in assembly(*kernels.OPTIONS, name=cuda_tables.SOURCE)


def test_a_wrong_source_is_refused(nvrtc):
    program = nvrtc.createProgram(kernels.source() + "\nint x = ;", "track.cu", (), ())
    with pytest.raises(nvrtc.NVRTCError):
        nvrtc.compileProgram(program, kernels.OPTIONS)
