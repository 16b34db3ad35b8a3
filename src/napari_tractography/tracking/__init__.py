"""Advancing streamlines; knows no screen."""
