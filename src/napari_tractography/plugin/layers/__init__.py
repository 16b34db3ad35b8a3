"""The layers beside the streamlines: volumes, glyphs, peaks, spheres, figures."""
