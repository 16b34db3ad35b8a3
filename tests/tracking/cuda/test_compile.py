"""The CUDA kernels compile for real GPUs, which takes NVIDIA's compiler and no GPU."""

from __future__ import annotations

import pickle
import re
from importlib import metadata

import pytest
from builds import built

from napari_tractography.model.algorithms import ALGORITHMS
from napari_tractography.tracking.cuda import source as kernels
from napari_tractography.tracking.cuda import tables as cuda_tables

SPECIAL = [
    *(
        pytest.param(
            (f"-DALGORITHM={algorithm}", f"-DINTERPOLATION={interpolation}", "-DLMAX=8"),
            id=f"{algorithm.lower()}, {interpolation.lower()}",
        )
        for algorithm in (row.name.upper() for row in ALGORITHMS)
        for interpolation in ("NEAREST", "TRILINEAR")
    ),
    pytest.param(
        ("-DALGORITHM=PROBABILISTIC", "-DINTERPOLATION=TRILINEAR", "-DLMAX=12"), id="lmax 12"
    ),
    *(
        pytest.param(
            (f"-DALGORITHM={algorithm}", "-DINTERPOLATION=TRILINEAR", "-DLMAX=2", "-DVECTORS"),
            id=f"{algorithm.lower()} among vectors",
        )
        for algorithm in ("PROBABILISTIC", "DETERMINISTIC", "SD_STREAM")
    ),
    pytest.param(
        ("-DALGORITHM=PROBABILISTIC", "-DINTERPOLATION=TRILINEAR", "-DLMAX=8", "-DTISSUES=1"),
        id="probabilistic with tissues",
    ),
]
# Coefficients, 45 for lmax 8, are in registers: of 64 K of a multiprocessor, 9 warps; 8 where they
# are in axes turned to the cone as well, beside an arc, or where there are tissues.
MAX_REGISTERS = {"-DLMAX=2": 128, "-DLMAX=8": 224, "-DLMAX=12": 255}
MAX_REGISTERS_MORE = 256


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
    flags = (*kernels.OPTIONS, f"--gpu-architecture={architecture}", "--ptxas-options=-v", *options)

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


@pytest.mark.parametrize("options", SPECIAL)
@pytest.mark.parametrize("architecture", ["sm_80", "sm_90"])
def test_kernels_compile_and_spill_nothing(nvrtc, architecture, options):
    tissues = () if "-DTISSUES=1" in options else ("-DTISSUES=0",)  # as they are launched
    code, log = compiled(nvrtc, architecture, *options, *tissues)
    assert code.startswith(b"\x7fELF")
    assert set(re.findall(rf"Compiling entry function '(\w+)' for '{architecture}'", log)) == set(
        kernels.NAMES
    )
    assert all(name.encode() in code for name in kernels.NAMES)
    spilled = re.findall(r"(\d+) bytes spill stores, (\d+) bytes spill loads", log)
    assert len(spilled) >= len(kernels.NAMES)
    registers = [int(n) for n in re.findall(r"Used (\d+) registers", log)]
    assert len(registers) == len(kernels.NAMES)
    assert set(spilled) == {("0", "0")}
    takes_more = not tissues or (
        options[0] in ("-DALGORITHM=DETERMINISTIC", "-DALGORITHM=IFOD2")
        and "-DVECTORS" not in options
    )
    assert max(registers) <= (MAX_REGISTERS_MORE if takes_more else MAX_REGISTERS[options[2]])


@pytest.mark.parametrize("lmax", [2, 8, 12])
@pytest.mark.parametrize("architecture", ["sm_80", "sm_90"])
def test_the_kernel_of_tables_compiles_and_spills_nothing(nvrtc, architecture, lmax):
    code, log = compiled(nvrtc, architecture, f"-DLMAX={lmax}", name=cuda_tables.SOURCE)
    assert code.startswith(b"\x7fELF")
    entries = re.findall(rf"Compiling entry function '(\w+)' for '{architecture}'", log)
    assert entries == [cuda_tables.NAME]
    spilled = re.findall(r"(\d+) bytes spill stores, (\d+) bytes spill loads", log)
    assert set(spilled) == {("0", "0")}
    # Coefficients are in registers, not in memory.
    frames = dict(re.findall(r"Function properties for (\w+)\s*\n.*?(\d+) bytes stack frame", log))
    assert frames[cuda_tables.NAME] == "0"


def test_no_multiplication_is_fused_with_an_addition(nvrtc):
    """It would round once where the CPU rounds twice."""

    def assembly(*options: str, name="track.cu") -> str:
        program = nvrtc.createProgram(kernels.source(name), name, (), ())
        defines = ("-DALGORITHM=0", "-DLMAX=8")
        nvrtc.compileProgram(program, ("--gpu-architecture=compute_80", *defines, *options))
        return str(nvrtc.getPTX(program))

    assert "fma.rn.f32" in assembly("--std=c++14")  # so that the line below can fail
    assert "fma.rn.f32" not in assembly(*kernels.OPTIONS)
    assert "fma.rn.f32" in assembly("--std=c++14", name=cuda_tables.SOURCE)
    assert "fma.rn.f32" not in assembly(*kernels.OPTIONS, name=cuda_tables.SOURCE)


def test_a_wrong_source_is_refused(nvrtc):
    program = nvrtc.createProgram(kernels.source() + "\nint x = ;", "track.cu", (), ())
    with pytest.raises(nvrtc.NVRTCError):
        nvrtc.compileProgram(program, (*kernels.OPTIONS, "-DLMAX=2"))
