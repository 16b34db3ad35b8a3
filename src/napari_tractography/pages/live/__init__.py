"""Tracking in a page: the memory that the kernel for WebAssembly works in there.

The kernel is that of :mod:`napari_tractography.tracking.wasm`. Called by
:mod:`napari_tractography.pages.page`.
"""

from __future__ import annotations

from .memory import Live as Live
from .memory import live_of as live_of
