"""The version of this package, written here alone; pyproject.toml takes it from this file."""

__version__ = "0.1.0"
