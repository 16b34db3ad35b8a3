"""Starting and giving up, again and again, leaves neither threads nor memory behind."""

from __future__ import annotations

import gc
import threading
import tracemalloc

import nibabel as nib
import psutil
import pytest

import napari_tractography as nt
from napari_tractography.files.fods import FodReader
from napari_tractography.files.paths import GivenUpError
from napari_tractography.model.phantoms import make_phantom

N_CYCLES = 30
# What may be more after many cycles than after a few: the odd cache of a library, far less than
# one chunk a cycle; and a thread that waits for something else, as for a compiler.
SLACK_BYTES = 1 << 19
SLACK_THREADS = 2


def held() -> tuple[int, int]:
    """Threads of this process, and bytes that Python and NumPy hold."""
    gc.collect()
    return psutil.Process().num_threads(), tracemalloc.get_traced_memory()[0]


def test_streamlines_started_and_given_up() -> None:
    fod = make_phantom("cross", lmax=6)
    seeds = nt.Seeds.in_sphere((0, 0, 0), 4.0, 20_000)
    parameters = nt.TrackingParameters(max_length_mm=60.0)

    def cycle() -> None:
        chunks = nt.iter_track(fod, seeds, parameters, n_threads=2, block=200)
        assert len(next(chunks))
        chunks.close()

    for _ in range(4):
        cycle()
    threads, memory = held()
    for _ in range(N_CYCLES):
        cycle()
    more_threads, more_memory = held()
    assert more_threads <= threads + SLACK_THREADS
    assert more_memory < memory + SLACK_BYTES
    assert not [t for t in threading.enumerate() if t.name.startswith("tractography")]


def test_files_opened_and_given_up(tmp_path) -> None:
    path = tmp_path / "fod.nii.gz"
    fod = make_phantom("cross", lmax=6)
    nib.save(nib.Nifti1Image(fod.coefficients, fod.grid.affine), path)
    process = psutil.Process()

    def cycle() -> None:
        reader = FodReader(path)
        reader.cancelled.set()
        with pytest.raises(GivenUpError):
            reader.read()

    for _ in range(4):
        cycle()
    (threads, memory), files = held(), process.num_fds()
    for _ in range(N_CYCLES):
        cycle()
    more_threads, more_memory = held()
    assert more_threads <= threads + SLACK_THREADS
    assert more_memory < memory + SLACK_BYTES
    assert process.num_fds() <= files
