"""The CPU backend: streamlines side by side as vectors, in a thread each block."""
