"""The CUDA backend: the kernels, and what drives them through CuPy."""
