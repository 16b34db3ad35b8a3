"""Choosing among streamlines by where they run, without tracking again."""
