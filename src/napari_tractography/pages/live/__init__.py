"""Tracking in a page: the CUDA kernel, compiled for WebAssembly, and the memory that it works in.

The kernel is ``track_LMAX.wasm``, made of ``entry.cpp`` by ``scripts/wasm.py``. Called by
:mod:`napari_tractography.pages.page`.
"""

from __future__ import annotations

from .memory import Live as Live
from .memory import live_of as live_of
