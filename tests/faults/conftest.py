"""A small machine on which files are opened."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator

import pytest
from guards import MACHINE_BYTES

from napari_tractography.files import stored_images
from napari_tractography.model import seeds


@pytest.fixture(autouse=True)
def small_machine(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Files are opened on a machine of little memory, of which every allocation is counted."""
    for module in (stored_images, seeds):
        monkeypatch.setattr(module, "memory_bytes", lambda: MACHINE_BYTES)
    tracemalloc.start()
    yield
    tracemalloc.stop()
