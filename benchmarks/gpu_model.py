"""What kernels would do on a GPU, worked out without one.

    python benchmarks/gpu.py --export fibercup fibercup.npz
    python benchmarks/gpu_model.py steps fibercup.npz [--cases spot-probabilistic-nearest ...]
    python benchmarks/gpu_model.py batches fibercup.npz [--cases ...]

`steps`: how many instructions of a warp a step takes, and with how many lanes. NVIDIA's compiler
makes the machine code, with the line of the source that each instruction is of; the same source
runs on the host in warps of 32 lanes, compiled for gcov, which counts how often a lane comes to
each line, and the phases how many lanes come there together. It takes g++, gcov, NVRTC
and nvdisasm (the wheel nvidia-cuda-nvdisasm, or on the PATH, or named by NVDISASM).

`batches`: how fast streamlines come to the host, by the number of batches at once and their size.
The lengths of the CPU's streamlines go through a card that shares its rate among its warps, batch
by batch as the scheduler has them. The rate of the card, the link and the share of its warps that
reach that rate are arguments.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import dataclasses
import itertools
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpu_bundle import read, with_seeds
from napari_tractography.tracking.cpu import cpu_backend as cpu
from napari_tractography.tracking.cuda import scheduler
from napari_tractography.tracking.cuda import source as kernels

TESTS = Path(__file__).parent.parent / "tests"
LANES = 32
LINES_A_LANE = 9  # as an H100 has of 409,600 streamlines
KERNEL = "track_streamlines"
FEW = 0.05  # of a block's instructions
LOOKS = "looks"
TOGETHER = {"PROPOSE", LOOKS}  # what all lanes of a warp do, also those that want nothing

# ------------------------------------------------------------------------------------ instructions

Place = tuple[str, int]  # file and line


@dataclasses.dataclass
class Block:
    """Instructions that follow each other.

    Attributes
    ----------
    places : list of tuple of (str, int)
        The line of each, and the lines of the calls that lead there, the innermost first.
    function : str
        That it is in, where that is not the kernel itself.
    goes_to : list of str
        Labels of the code that may follow.
    is_run : bool
        Not code for what does not happen: lanes that come to a vote apart, roots of extremes.
    loops : list of list of Block
        Those of the machine code that it is in.
    """

    places: list[tuple[Place, ...]]
    function: str = ""
    goes_to: list[str] = dataclasses.field(default_factory=list)
    is_run: bool = False
    loops: list[list[Block]] = dataclasses.field(default_factory=list)

    def repeats(self, chain: tuple[Place, ...]) -> bool:
        """Tell whether it is in a loop of the function that a line is in, called from there."""
        calls = chain[1:]
        for loop in self.loops:
            places = [place for block in loop for place in block.places]
            within = sum(place[len(place) - len(calls) :] == calls for place in places)
            if within > 0.9 * len(places):
                return True
        return False


def places_of_source() -> list[Place]:
    """Return file and line of each line of the source as NVRTC is given it."""

    def lines(name: str, seen: set[str]) -> Iterator[tuple[Place, str]]:
        seen.add(name)
        text = kernels.generated().get(name) or (kernels.FOLDER / name).read_text("utf-8")
        for number, line in enumerate(text.splitlines(keepends=True), 1):
            include = re.match(r'#include "(\w+\.h)"$', line)
            if include is None:
                if line != "#pragma once\n":
                    yield (name, number), line
            elif include[1] not in seen:
                yield from lines(include[1], seen)

    found = list(lines("track.cu", set()))
    assert "".join(line for _, line in found) == kernels.source()
    return [place for place, _ in found]


def functions_of_places() -> dict[Place, str]:
    """Return the function that each line of the source is in."""
    begins = re.compile(r"(?:DEVICE|SELDOM|DEVICE_MEMBER|static|extern)\b[^;]*?(\w+)\(")
    found, function = {}, ""
    for place, line in zip(places_of_source(), kernels.source().splitlines(), strict=True):
        if begun := begins.match(line.removeprefix("template <class AnyFod> ")):
            function = begun[1]
        found[place] = function
    return found


def disassembly(defines: tuple[str, ...], arch: str) -> str:
    """Return the machine code of the kernels, with lines of the source."""
    from cupy_backends.cuda.libs import nvrtc

    algorithm = next(int(d.split("=")[1]) for d in defines if d.startswith("-DALGORITHM="))
    program = nvrtc.createProgram(kernels.source(), "track.cu", [], [])
    options = [f"--gpu-architecture={arch}", "-lineinfo", *kernels.tracking_options(algorithm)]
    nvrtc.compileProgram(program, [*options, *defines])
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "track.cubin"
        file.write_bytes(nvrtc.getCUBIN(program) + b"\0")
        command = [nvdisasm() or "nvdisasm", "-c", "-gi", str(file)]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def nvdisasm() -> str | None:
    """Return NVIDIA's disassembler: that of NVDISASM, of the PATH, or of its wheel."""
    if found := os.environ.get("NVDISASM") or shutil.which("nvdisasm"):
        return found
    with contextlib.suppress(metadata.PackageNotFoundError):
        for file in metadata.files("nvidia-cuda-nvdisasm") or ():
            if file.name == "nvdisasm":
                return str(file.locate())
    return None


def blocks_of(text: str) -> list[Block]:
    """Return the blocks of the tracking kernel, and of the functions that it calls.

    Of code within a function the compiler tells the line, and calls as far as they are within the
    function; what it tells beyond that is of other places.
    """
    place_at, names = places_of_source(), set(FUNCTION_OF.values())
    text = text[text.index(f"section\t.text.{KERNEL},") :]
    text = text[: text.find("\t.section\t", 10)]
    # Labels that no branch goes to, as those around shuffles, begin no block.
    targets = set(re.findall(r"(?:BRA|BRX|BSSY|CALL\S*|JMP|BREAK)\b.*?(\.L_x_\d+)", text))
    blocks, chain, begins, function = [Block([])], (), False, ""
    begin_at: dict[str, int] = {}
    loops: list[tuple[int, int]] = []

    def follow(label: str, falls: bool = True) -> None:
        if falls:
            blocks[-1].goes_to.append(label)
        begin_at[label] = len(blocks)
        blocks.append(Block([], function))

    for line in text.splitlines():
        if found := re.match(r'\s*//## File ".*?", line (\d+)( inlined)?', line):
            chain = (chain if begins else ()) + (place_at[int(found[1]) - 1],)
            begins = True
            continue
        begins = False
        label = re.match(r"(\.L_x_\d+):", line)
        typed = re.match(r"\s*\.type\s+(\S+),@function", line)
        if typed:
            function = next((name for name in names if f"{len(name)}{name}E" in typed[1]), "")
        if (label and label[1] in targets) or typed:
            follow(label[1] if label else typed[1])
        elif code := re.match(r"\s+/\*[0-9a-f]{4,}\*/\s+((?:@!?U?P\w+\s+)?)([A-Z][\w.]*)", line):
            own = [k for k, place in enumerate(chain) if FUNCTION_OF[place] == function]
            calls = own[0] + 1 if own else 1
            blocks[-1].places.append(chain[:calls] if function else chain)
            target = re.search(r"`\((\S+)\)", line)
            if target and code[2] != "BRA.DIV" and "$__internal" not in target[1]:
                blocks[-1].goes_to.append(target[1])
            if code[2].split(".")[0] in {"BRA", "EXIT", "RET", "BRX", "BREAK"}:
                if target and target[1] in begin_at:
                    loops.append((begin_at[target[1]], len(blocks)))
                always = not code[1] and ", " not in line and code[2] not in {"BRA.DIV", "BREAK"}
                follow(f"after block {len(blocks)}", falls=not always)
    for first, last in loops:
        for block in blocks[first:last]:
            block.loops.append(blocks[first:last])
    waiting = [blocks[0]]
    while waiting:
        block = waiting.pop()
        if not block.is_run:
            block.is_run = True
            waiting += [blocks[begin_at[label]] for label in block.goes_to if label in begin_at]
    return [block for block in blocks if block.places]


FUNCTION_OF = functions_of_places()

# ------------------------------------------------------------------------------------ how often

HOOKS = """
extern "C" void __gcov_reset(void);
extern "C" void __gcov_dump(void);
extern "C" void begin_counting() { __gcov_reset(); }
extern "C" void end_counting() { __gcov_dump(); }
"""


@dataclasses.dataclass
class Counts:
    """How often lanes came to each line, and warps to each phase.

    Attributes
    ----------
    lines : dict
        Lanes that came to a line of a file.
    entries : dict
        Lanes that entered the function that a line is in.
    phases : dict
        Entries of warps and of lanes, by phase.
    n_steps : int
        That were taken.
    """

    lines: dict[Place, int]
    entries: dict[Place, int]
    phases: dict[str, tuple[int, int]]
    n_steps: int

    def calls(self, place: Place) -> int:
        """How often lanes came to a line or, of a statement of several lines, to its first."""
        name, number = place
        return next(
            (n for k in range(9) if (n := self.lines.get((name, number - k))) is not None), 0
        )


def count(plan: Any, defines: tuple[str, ...], folder: Path) -> Counts:
    """Track on the host in warps, a warp a block, and count; in a process of its own."""
    sys.path[:0] = [str(TESTS), str(TESTS / "tracking"), str(TESTS / "tracking" / "cuda")]
    import ctypes

    import host

    here = Path(host.__file__).parent
    for name, text in kernels.generated().items():
        (folder / name).write_text(text, "utf-8")
    (folder / "hooks.cpp").write_text(HOOKS, "utf-8")
    flags = [flag for flag in host.FLAGS if not flag.startswith("-O")]
    includes = [f"-I{path}" for path in (kernels.FOLDER, here, folder)]
    sources = [str(here / host.ENTRY), "hooks.cpp"]
    build = ["g++", *flags, "-O0", "--coverage", "-DWARP", *defines, *includes, *sources]
    subprocess.run([*build, "-o", "kernels.so"], check=True, cwd=folder)
    library = ctypes.CDLL(str(folder / "kernels.so"))
    device = host.HostDevice(library, plan, grid=1, block=LANES)
    tasks = re.findall(
        r"^    ([A-Z_]+)\b",
        re.search(r"enum Task \{(.*?)\};", kernels.source(), re.DOTALL)[1],
        re.MULTILINE,
    )
    phases = np.zeros((2, 16), np.uint64)
    library.count_phases(host.pointer(phases[0]), host.pointer(phases[1]))
    library.begin_counting()
    device.count(0, 0, plan.n_seeds)
    library.end_counting()
    library.count_phases(host.pointer(phases[0]), host.pointer(phases[1]))
    device.n_points(0)
    device.write(0)
    found = device.collect(0)
    data = next(folder.glob("*host_entry.gcda"))
    report = subprocess.run(
        ["gcov", "--json-format", "--stdout", data.name],
        check=True,
        cwd=folder,
        capture_output=True,
        text=True,
    ).stdout
    lines: collections.Counter[Place] = collections.Counter()
    entries: collections.Counter[Place] = collections.Counter()  # of all instances of a template
    for file in json.loads(report)["files"]:
        name = Path(file["file"]).name
        functions = {f["name"]: f["execution_count"] for f in file["functions"]}
        for line in file["lines"]:
            place = (name, line["line_number"])
            lines[place] += line["count"]
            entries[place] += functions.get(line.get("function_name"), 0)
    counted = {t: (int(phases[0, k]), int(phases[1, k])) for k, t in enumerate(tasks)}
    return Counts(lines, entries, counted, found.n_points - len(found))


def phase_of_line() -> dict[int, str]:
    """Return the phase of each line of the loop in track.cu, by what is noted before it."""
    found, phase = {}, ""
    for number, line in enumerate((kernels.FOLDER / "track.cu").read_text("utf-8").splitlines(), 1):
        if noted := re.match(r"\s*NOTE\((\w+)", line):
            phase = noted[1]
        elif "looking =" in line:
            phase = LOOKS
        found[number] = phase
    return found


def runs_of(block: Block, chain: tuple[Place, ...], counts: Counts) -> float:
    """Return how many lanes run a block, as a line of it and the calls that lead there say."""
    while len(chain) > 1 and chain[0] not in counts.lines:
        chain = chain[1:]  # the host has other code there, and comes to the call
    n = float(counts.lines.get(chain[0], np.inf))
    if not block.repeats(chain):
        n = min(n, float(counts.entries.get(chain[0], np.inf)))
    outer = chain[-1]
    if block.function:
        own = max(n for at, n in counts.entries.items() if FUNCTION_OF.get(at) == block.function)
        if FUNCTION_OF[outer] != block.function:
            # Called from there, the compiler does not say in which line: once each time.
            n *= min(1.0, own / max(counts.entries.get(outer, 0), 1))
        if not any(loop[0].function == block.function for loop in block.loops):
            n = min(n, own)
    for inner, call in itertools.pairwise(chain):
        # A call behind a condition in its line is made less often than the line is reached.
        n *= min(1.0, counts.calls(call) / max(counts.entries.get(inner, 0), 1))
    return n


def instructions(blocks: list[Block], counts: Counts) -> dict[str, tuple[float, float]]:
    """Return instructions of warps and of lanes for each step, by phase.

    How often a block runs is how often its rarest lines do, since a loop that is written out has
    many instructions of one line, but for those very few that the compiler moved there; of a
    function in several places, each has the share of its call. A phase's lanes come to a block
    independently of each other.
    """
    phases = phase_of_line()
    found: dict[str, list[float]] = collections.defaultdict(lambda: [0.0, 0.0])
    for block in blocks:
        runs = sorted((runs_of(block, chain, counts), chain) for chain in block.places if chain)
        lanes, chain = runs[int(FEW * len(runs))] if runs else (0.0, ())
        if not block.is_run or not lanes or not np.isfinite(lanes):
            continue
        name, number = chain[-1]
        phase = phases[number] if name == "track.cu" else "functions"
        n_warps, n_lanes = counts.phases.get(phase, (0, 0))
        if n_warps and phase not in TOGETHER:
            each = n_lanes / n_warps
            share = min(lanes / n_lanes, 1.0)
            warps = max(lanes / each, n_warps * (1 - (1 - share) ** each))
        else:  # all lanes of a warp do it
            warps = lanes / LANES
        found[phase][0] += warps * len(block.places) / counts.n_steps
        found[phase][1] += lanes * len(block.places) / counts.n_steps
    return {phase: (warps, lanes) for phase, (warps, lanes) in found.items()}


@dataclasses.dataclass
class Work:
    """What a step takes.

    Attributes
    ----------
    phases : dict
        Instructions of warps and of lanes a step, by phase.
    n_bytes : int
        Of the kernel's machine code.
    n_steps : int
        That were counted.
    """

    phases: dict[str, tuple[float, float]]
    n_bytes: int
    n_steps: int

    @property
    def instructions(self) -> float:
        """Of warps, a step."""
        return sum(warps for warps, _ in self.phases.values())

    @property
    def lanes(self) -> float:
        """That are active in one, on average."""
        return sum(lanes for _, lanes in self.phases.values()) / self.instructions


def work_a_step(plan: Any, arch: str = "sm_90") -> Work:
    """Return what a step takes: of so many seeds as a warp of a GPU would have."""
    settings = plan.settings
    defines = (
        *kernels.defines(settings.algorithm, settings.interpolation, plan.table.lmax),
        *kernels.variant(plan.field, settings, False),
    )
    blocks = blocks_of(disassembly(defines, arch))
    with tempfile.TemporaryDirectory() as folder:
        counts = count(with_seeds(plan, LANES * LINES_A_LANE), defines, Path(folder))
    n_bytes = 16 * sum(len(block.places) for block in blocks)
    return Work(instructions(blocks, counts), n_bytes, counts.n_steps)


def steps(plan: Any, arch: str) -> None:
    """Print how many instructions a step takes."""
    work = work_a_step(plan, arch)
    print(
        f"  {work.instructions:.0f} instructions of a warp a step, {work.lanes:.1f} lanes; "
        f"{work.n_bytes / 1024:.0f} kB of machine code; {work.n_steps:,} steps"
    )
    for phase, (warps, lanes) in sorted(work.phases.items(), key=lambda item: -item[1][0]):
        print(f"    {phase or 'between phases':<15} {warps:6.1f}  lanes {lanes / warps:4.1f}")


# ---------------------------------------------------------------------------------------- batches

MULTIPROCESSORS, WARPS = 132, 12  # of an H100, and those that a multiprocessor holds of our kernels
BLOCK_WARPS = 2
ROUNDS = 6  # steps of a warp that are taken at once here
N_LINES = 8 * 409_600  # as benchmarks/gpu.py streams
PAUSE = 60e-6  # seconds from the end of a batch until the host knows
SIZES = ((25, 2, 1), (26, 2, 1), (27, 2, 1))  # measured: bits of points, batches at once, parts


@dataclasses.dataclass
class Card:
    """A GPU whose warps share a rate, and the link to its host."""

    steps: float  # a second, of the whole card
    link: float  # points a second
    enough: float  # share of its warps that reach the rate

    def seconds(
        self, lengths: NDArray[np.int64], n_points: float, at_once: int, parts: int, n_lines: int
    ) -> tuple[float, int]:
        """Return how long so many streamlines take, and the points of them that came to the host.

        `at_once` batches of `n_points` are under way, each on one of so many parts of the card.
        """
        random = np.random.default_rng(0)
        n_blocks = MULTIPROCESSORS * WARPS // BLOCK_WARPS
        rate = self.steps / LANES  # of rounds of warps
        fastest = rate / (MULTIPROCESSORS * WARPS * self.enough)
        size = max(1, int(n_points / lengths.mean()))
        left = np.zeros((n_blocks, BLOCK_WARPS, LANES), np.int64)  # steps of each lane
        owner = np.full(n_blocks, -1)  # the batch that has a block
        batches: list[dict[str, Any]] = []
        queue: collections.deque[int] = collections.deque()
        now = arrived = 0.0
        begun = points = 0
        while begun < n_lines or queue:
            while begun < n_lines and len(queue) < at_once:
                least = max(scheduler.LAST_BATCH, (n_lines - begun) // scheduler.AT_ONCE)
                n = min(size, n_lines - begun, least if parts > 1 else size)
                steps = random.choice(lengths, n)
                begun += len(steps)
                grid = min(-(-len(steps) // (LANES * BLOCK_WARPS)), n_blocks // parts)
                batches.append({"steps": steps, "next": 0, "unplaced": grid, "live": 0})
                queue.append(len(batches) - 1)
            free = np.flatnonzero(owner < 0)
            for number in queue:
                batch = batches[number]
                placed, free = free[: batch["unplaced"]], free[batch["unplaced"] :]
                owner[placed] = number
                batch["unplaced"] -= len(placed)
                batch["live"] += len(placed)
            for number in queue:
                batch = batches[number]
                wants = np.argwhere((left <= 0) & (owner == number)[:, None, None])
                taken = batch["steps"][batch["next"] : batch["next"] + len(wants)]
                left[tuple(wants[: len(taken)].T)] = taken
                batch["next"] += len(taken)
            active = (left > 0).any(2)
            for number in np.unique(owner[(owner >= 0) & ~active.any(1)]):
                over = (owner == number) & ~active.any(1)
                batches[number]["live"] -= int(over.sum())
                owner[over] = -1
            first = batches[queue[0]]
            if not first["live"] and not first["unplaced"]:
                n = int(first["steps"].sum()) + len(first["steps"])
                arrived = max(arrived, now + PAUSE) + n / self.link
                points += n
                queue.popleft()
            if active.any():
                left[active] -= ROUNDS
                now += ROUNDS / min(fastest, rate / active.sum())
        return max(arrived, now), points


def batches(plan: Any, card: Card) -> None:
    """Print how fast points come to the host by the scheduler of before, and by that of now."""
    chunks = cpu.iter_chunks(with_seeds(plan, 20_000))
    lengths = np.concatenate([np.diff(chunk.offsets) for chunk in chunks]) - 1
    print(f"  {lengths.mean():.0f} steps a line, {lengths.max()} at most")
    now = np.log2(0.7 * scheduler.MAX_POINTS), scheduler.SLOTS - 1, scheduler.AT_ONCE
    for bits, at_once, parts in (*((b + np.log2(0.7), n, p) for b, n, p in SIZES), now):
        n_points = 2.0**bits
        seconds, points = card.seconds(lengths, n_points, at_once, parts, N_LINES)
        print(
            f"  {n_points / 1e6:.0f} million points a batch, {at_once} under way, each on "
            f"1/{parts} of the card: {points / seconds / 1e9:.2f} G points/s, "
            f"{12e-9 * points / seconds:.1f} of {12e-9 * card.link:.0f} GB/s",
            flush=True,
        )


def main() -> None:
    """Work it out for the runs of a file."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=("steps", "batches"))
    parser.add_argument("bundle", type=Path, help="file of benchmarks/gpu.py --export")
    parser.add_argument("--cases", nargs="*", default=["spot-probabilistic-nearest"])
    parser.add_argument("--arch", default="sm_90")
    parser.add_argument("--rate", type=float, default=4.6e9, help="steps a second of a full card")
    parser.add_argument("--link", type=float, default=55e9, help="bytes a second")
    parser.add_argument("--enough", type=float, default=1.0, help="share of warps with that rate")
    options = parser.parse_args()
    runs = read(options.bundle)
    for case in options.cases:
        print(case)
        if options.what == "steps":
            steps(runs[case].plan, options.arch)
        else:
            batches(runs[case].plan, Card(options.rate, options.link / 12, options.enough))


if __name__ == "__main__":
    main()
