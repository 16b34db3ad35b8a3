"""Tracking on a cluster, over Dask: seed ranges as tasks, chunks in seed order."""
