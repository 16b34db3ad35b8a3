"""Layers of others that become FODs: vectors on a grid, and images in which fibres are seen."""
