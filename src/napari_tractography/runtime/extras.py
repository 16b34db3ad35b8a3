"""Packages that not everybody needs: where one is missing, a sentence says which extra brings it.

They are imported where they are used, in a block of :func:`needs_extra`; which extra brings what
is in pyproject.toml.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from ..errors import MissingPackageError

DISTRIBUTIONS = {"skimage": "scikit-image"}  # whose name is not that of what is imported


@contextmanager
def needs_extra(extra: str, what: str) -> Iterator[None]:
    """Turn an import that fails in this block into one sentence.

    `extra`, of pyproject.toml, brings what the block imports; `what` takes it: "Plots take". Raises
    MissingPackageError when a package is not installed, or cannot be loaded.
    """
    try:
        yield
    except ImportError as error:
        module = (error.name or extra).partition(".")[0]
        package = DISTRIBUTIONS.get(module, module.replace("_", "-"))
        is_missing = isinstance(error, ModuleNotFoundError)
        why = "is not installed" if is_missing else f"cannot be loaded ({error})"
        raise MissingPackageError(
            f'{what} {package}, which {why}; pip install "napari-tractography[{extra}]".'
        ) from error
