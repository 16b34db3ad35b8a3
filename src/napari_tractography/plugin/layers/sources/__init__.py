"""Layers of others as sources: vectors and images that become FODs, tracks, streamlines."""
