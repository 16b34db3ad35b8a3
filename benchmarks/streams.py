"""The peak memory of writing many streamlines as they come, and of reading them where they lie.

    python benchmarks/streams.py [--streamlines N] [--points N] [--ending .trx] [--dtype float16]

Streamlines are made by code, block after block; each measurement is a process of its own, whose
peak memory (resident set) the system tells. Pages of a file that is mapped count as resident while
they are in use, and are given back when memory is short.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

import napari_tractography as nt

BLOCK = 1 << 14  # streamlines
KB = 1024 if sys.platform != "darwin" else 1  # of ru_maxrss


def blocks(n_streamlines: int, n_points: int) -> Iterator[nt.Tractogram]:
    """Yield smooth random curves inside a brain's box."""
    random = np.random.default_rng(0)
    for first in range(0, n_streamlines, BLOCK):
        n = min(BLOCK, n_streamlines - first)
        starts = random.uniform(-80, 80, (n, 1, 3)).astype(np.float32)
        steps = random.standard_normal((n, n_points, 3), np.float32)
        steps *= np.float32(0.3)
        steps += random.standard_normal((n, 1, 3), np.float32)
        points = starts + np.float32(0.5) * np.cumsum(steps, axis=1)
        yield nt.Tractogram(
            points.reshape(-1, 3),
            np.arange(n + 1) * n_points,
            seed_index=np.arange(first, first + n),
            lengths_mm=np.full(n, 0.5 * n_points, np.float32),
        )


def write(path: Path, n_streamlines: int, n_points: int, dtype: str = "float32") -> str:
    """Write a file; return what was written."""
    grid = nt.Grid((160, 160, 160), np.eye(4))
    saved = nt.save_chunks(blocks(n_streamlines, n_points), path, reference=grid, dtype=dtype)
    return f"{len(saved):,} streamlines, {path.stat().st_size / 1e9:.2f} GB"


def read(path: Path, n_drawn: int = 100_000) -> str:
    """Open a file and gather an even part of it."""
    tractogram = nt.load_tractogram(path)
    part = tractogram[:: max(len(tractogram) // n_drawn, 1)]
    told = f"{len(tractogram):,} streamlines opened, {len(part):,} gathered"
    status = Path("/proc/self/status")
    if status.exists():  # Linux: what is not pages of files
        own = next(row for row in status.read_text().splitlines() if row.startswith("RssAnon"))
        told += f", {int(own.split()[1]) / 1e6:.2f} GB held besides the file's pages"
    return told


def peak(what: str, options: argparse.Namespace, path: Path) -> str:
    """Do something in a process of its own; return what it says, with its peak memory."""
    words = [__file__, "--streamlines", options.streamlines, "--points", options.points]
    words += ["--dtype", options.dtype]
    done = subprocess.run(
        [sys.executable, *map(str, words), "--only", what, "--file", str(path)],
        check=True,
        capture_output=True,
        text=True,
    )
    return done.stdout.strip()


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description="Measure the memory of streams.")
    parser.add_argument("--streamlines", type=int, default=10_000_000)
    parser.add_argument("--points", type=int, default=20, help="of each streamline")
    parser.add_argument("--ending", default=".trx")
    parser.add_argument("--dtype", default="float32", help="of points in a .trx file")
    parser.add_argument("--folder", type=Path, help="where there is room; temporary by default")
    parser.add_argument("--only", choices=("nothing", "write", "read"), help=argparse.SUPPRESS)
    parser.add_argument("--file", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.only:
        told = {
            "nothing": lambda: "imports alone",
            "write": lambda: write(
                options.file, options.streamlines, options.points, options.dtype
            ),
            "read": lambda: read(options.file),
        }[options.only]()
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * KB / 1e9
        print(f"{options.only}: {told}; peak memory {memory:.2f} GB")
        return
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        for what in ("nothing", "write", "read"):
            print(peak(what, options, Path(folder) / f"whole{options.ending}"), flush=True)


if __name__ == "__main__":
    main()
