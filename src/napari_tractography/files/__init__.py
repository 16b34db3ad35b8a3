"""Formats at the edge: reading and writing FODs, images and tractograms, nothing else."""
