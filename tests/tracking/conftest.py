"""What all tests of tracking share; their phantoms are in toys.py."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def _no_backend_from_outside(monkeypatch):
    """A backend chosen in the environment would decide what these tests test."""
    monkeypatch.delenv("NAPARI_TRACTOGRAPHY_BACKEND", raising=False)
