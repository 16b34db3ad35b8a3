"""Recipes: everything that makes a tractogram again, as data."""
