"""Probabilistic tracking in NumPy alone: what it does, in short, and at work before any compiler.

The streamlines are those of the kernels, bit for bit: every operation on numbers is one of IEEE 754
in the same order, and arrays have one number for each streamline. It needs no compiling, so it
tracks what is wanted first while the kernel is compiled, and it is what the tests compare kernels
with.
"""
