"""What goes wrong while a file is read, as one sentence; called by all that reads files."""

from __future__ import annotations

import contextlib
import gzip
import logging
import lzma
import struct
import warnings
import zipfile
import zlib
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

from ..errors import FileError

logger = logging.getLogger(__name__)

# What libraries are known to raise on files that are not what they claim to be, besides nibabel's.
MALFORMED: tuple[type[Exception], ...] = (
    AttributeError,
    EOFError,
    KeyError,
    IndexError,
    MemoryError,
    OverflowError,
    TypeError,
    UnicodeDecodeError,
    ValueError,
    ZeroDivisionError,
    lzma.LZMAError,
    struct.error,
    zipfile.BadZipFile,
    zlib.error,
    RuntimeError,  # zipfile: an encrypted entry, an unknown compression
)


def _malformed() -> tuple[type[Exception], ...]:
    from nibabel.streamlines.tractogram_file import (  # on use: it takes a while to load
        DataError,
        HeaderError,
    )

    return *MALFORMED, DataError, HeaderError


def image_errors() -> tuple[type[Exception], ...]:
    """Return what nibabel raises on damaged headers of images."""
    from nibabel.filebasedimages import ImageFileError
    from nibabel.freesurfer.mghformat import MGHError
    from nibabel.spatialimages import HeaderDataError
    from nibabel.wrapstruct import WrapStructError

    return *MALFORMED, OSError, ImageFileError, HeaderDataError, MGHError, WrapStructError


def tell_once(file: Path, text: str) -> None:
    """Warn of what was guessed of a file, however often it is read, until it changes."""
    try:
        changed_ns = file.stat().st_mtime_ns
    except OSError:
        changed_ns = 0
    _tell(str(file.absolute()), changed_ns, text)


@lru_cache(maxsize=1024)
def _tell(file: str, changed_ns: int, text: str) -> None:
    logger.warning("%s", text)


@contextlib.contextmanager
def readable(path: Path) -> Iterator[None]:
    """Turn what the system and decompression raise while a file is read into a FileError."""
    try:
        yield
    except FileError:
        raise
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise FileError(
            f"{path} is truncated or corrupt ({error}); copy or export it again."
        ) from None
    except OSError as error:
        raise FileError(
            f"{path} cannot be read ({error.strerror or error}); check its permissions."
        ) from None


@contextlib.contextmanager
def telling(file: Path) -> Iterator[None]:
    """Turn what goes wrong while a file is read into one sentence.

    Raises FileError where anything of :data:`MALFORMED` is raised, or the system does not let it be
    read.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # nibabel's remarks on missing header entries
            yield
    except FileError:
        raise
    except _malformed() as error:
        raise FileError(
            f"{file} is truncated or corrupt ({str(error) or type(error).__name__}); "
            "copy or export it again."
        ) from None
    except OSError as error:
        remedy = "check its permissions"
        if error.filename not in (None, str(file)):  # of what it was unpacked to
            remedy = "copy or export it again"
        raise FileError(f"{file} cannot be read ({error.strerror or error}); {remedy}.") from None
