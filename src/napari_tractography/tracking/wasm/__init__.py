"""The CUDA source, compiled for WebAssembly: what tracks where nothing has been compiled yet.

``scripts/wasm.py`` makes the modules of ``entry.cpp``. :mod:`.wasm_backend` runs them by Wasmtime,
pages by a browser.
"""
