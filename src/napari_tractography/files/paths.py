"""Paths in and out: what can be read, and files that appear whole or not at all.

Called by the readers and writers of this folder and by everything else that writes a file.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import sys
import threading
import unicodedata
from collections.abc import Callable, Iterable, Iterator
from contextvars import ContextVar
from functools import lru_cache
from os import PathLike
from pathlib import Path

from ..errors import FileError
from ..runtime.processes import UNFINISHED, is_left_over, unfinished_name
from .inflating import MAGIC, PACKED

HEAD_BYTES = 100  # that tell pointers from content
KEPT_OF_NAMES = 40  # characters, of up to four bytes each, in the name of a temporary file
LFS, ANNEX = b"version https://git-lfs.github.com/", "annex/objects/"

_given_up: ContextVar[threading.Event | None] = ContextVar("given_up", default=None)


class GivenUpError(Exception):
    """The file that was being read or written is no longer wanted."""


@contextlib.contextmanager
def dropped_after(given_up: threading.Event) -> Iterator[None]:
    """Once an event is set, delete files that this thread has written instead of keeping them."""
    token = _given_up.set(given_up)
    try:
        yield
    finally:
        _given_up.reset(token)


def ending_of(path: Path, known: Iterable[str], what: str) -> str:
    """Return which of the `known` endings a file name has, longest first, in any case.

    Raises FileError when it has none of them; `what` says what was looked for: "a volume", or
    "a volume to write".
    """
    endings = tuple(known)
    for ending in sorted(endings, key=len, reverse=True):
        if path.name.lower().endswith(ending):
            return ending
    other = "" if what.endswith(" to write") else " or convert it first"
    raise FileError(f"{path} does not end like {what}; use one of {', '.join(endings)}{other}.")


def at_home(path: str | PathLike[str]) -> Path:
    """Return a path whose leading ~ is the folder of the user.

    One that no user has, as in the name of a file "~draft.trk", stays as it is; pathlib's own
    method raises. Raises FileError when it is no path.
    """
    if not isinstance(path, str | PathLike):
        raise FileError(f"{path!r} is of type {type(path).__name__}; give the path of a file.")
    return Path(with_home(os.fspath(path)))


def with_home(text: str) -> str:
    """Return the text of a path with the folder of the user for a leading ~, as :func:`at_home`.

    Windows has no folders of other users to look up: Python would take ~draft.trk for one beside
    the folder of this user.
    """
    if sys.platform == "win32" and not re.match(r"~([\\/]|$)", text):
        return text
    return os.path.expanduser(text)


def quoted(name: str, refused: str) -> str:
    """Return a name as a part of a file's name, without the characters of a pattern.

    What is replaced is found again by :func:`unquoted`.
    """
    return re.sub(refused, lambda found: f"%{ord(found[0]):02X}", name)


def unquoted(text: str) -> str:
    """Return the name that :func:`quoted` was given."""
    return re.sub("%([0-9A-F]{2})", lambda found: chr(int(found[1], 16)), text)


def existing_file(path: str | PathLike[str]) -> Path:
    """Return the path of a file that is there.

    Raises FileError when there is none, it is a folder, or a link to what is not here.
    """
    file = at_home(path)
    try:
        is_file, is_folder = file.is_file(), file.is_dir()
        target = os.readlink(file) if file.is_symlink() else ""
    except (OSError, ValueError) as error:  # a name too long for the system, a NUL character
        raise FileError(f"{file} cannot be looked up ({error}); check the path.") from None
    if is_file:
        return file
    if is_folder:
        raise FileError(f"{file} is a folder; give a file inside it.")
    if ANNEX in target.replace("\\", "/"):
        raise FileError(f"The content of {file} is not here; get it: datalad get {file.name}.")
    if target:
        raise FileError(f"{file} is a link to {target}, which does not exist; check both paths.")
    raise FileError(f"{file} does not exist; check the path.")


@contextlib.contextmanager
def explained(file: Path) -> Iterator[None]:
    """Say what a file that cannot be read is, where it is a pointer or packed under another name.

    Raises FileError then, and as it came where it is neither.
    """
    try:
        yield
    except FileError:
        _check_content(file)
        raise


def _check_content(file: Path) -> None:
    """Raise FileError where a file is a pointer to its content, or is packed and not called so."""
    try:
        with file.open("rb") as stream:
            head = stream.read(HEAD_BYTES)
    except OSError:  # which whoever reads it tells
        return
    if head.startswith(LFS):
        raise FileError(f"{file} is a pointer of Git LFS; get its content: git lfs pull.")
    if head.startswith(f"/{ANNEX}".encode()):
        raise FileError(
            f"{file} is a pointer of git-annex; get its content: datalad get {file.name}."
        )
    is_called_packed = file.name.lower().endswith(PACKED)
    if is_called_packed and len(head) > len(MAGIC) and not head.startswith(MAGIC):
        raise FileError(f"{file} is not compressed, although its name says so; rename it.")
    if not is_called_packed and head.startswith(MAGIC):
        raise FileError(f"{file} is compressed by gzip; call it {file.name}.gz.")


def check_writable(path: str | PathLike[str]) -> None:
    """Check that a file can be put there, without touching one that is there.

    Raises FileError when it is a folder, its folder is missing or cannot be written, or its name is
    too long.
    """
    with contextlib.suppress(GivenUpError), written_whole(path) as temporary:
        temporary.touch()  # what a writer does first; it is deleted instead of put there
        raise GivenUpError


def check_apart(
    *paths: str | PathLike[str] | None, read: Iterable[str | PathLike[str] | None] = ()
) -> None:
    """Raise FileError when two files that are to be written are the same, or one that is `read`."""
    sources = {_real(path) for path in read if path is not None}
    seen: set[str] = set()
    for path in paths:
        if path is None:
            continue
        real = _real(path)
        if real in sources:
            raise FileError(
                f"{path} is read, and would be overwritten; give the output another name."
            )
        if real in seen:
            raise FileError(f"{path} is to be written twice; give another name to one of them.")
        seen.add(real)


def _real(path: str | PathLike[str]) -> str:
    real = os.path.normcase(os.path.realpath(at_home(path)))
    if sys.platform == "darwin":  # whose disks tell neither case nor spellings of é apart
        real = unicodedata.normalize("NFC", real).casefold()
    return real


@contextlib.contextmanager
def written_whole(
    path: str | PathLike[str], name_in_the_end: Callable[[str], str] = str
) -> Iterator[Path]:
    """Yield a temporary path to write to; put it where it shall be only when all is written.

    The temporary file lies in the same folder and has the same ending, so that the last step is one
    rename. After any failure an older file of that name is untouched and nothing else is left
    behind. A process that is killed cannot clean up: what those of this machine have left is
    deleted when another writes into the folder for the first time. Raises FileError when the folder
    is missing or cannot be written, or the disk is full; GivenUpError when it is no longer wanted,
    see :func:`dropped_after`.

    A symbolic link is followed, not replaced. `name_in_the_end` is asked when all is written:
    another name in the same folder, where it shall not be this one.
    """
    wanted = at_home(path)
    try:
        target = wanted.resolve()
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            os.lstat(target)  # raises for a name that is too long, which pathlib may not
        is_folder, has_parent = target.is_dir(), target.parent.is_dir()
        is_special = target.exists() and not (is_folder or target.is_file())
    except (OSError, ValueError, RuntimeError) as error:
        is_long = getattr(error, "errno", None) == errno.ENAMETOOLONG
        raise FileError(
            f"{wanted} cannot be written ({getattr(error, 'strerror', None) or error}); "
            f"{'give a shorter name' if is_long else 'check the path'}."
        ) from None
    if is_folder:
        raise FileError(f"{wanted} is a folder; give the name of a file inside it.")
    if is_special:  # which would be replaced
        raise FileError(f"{wanted} is no plain file; give the name of one.")
    if not has_parent:
        link = f", to which {wanted} leads," if wanted.is_symlink() else ""
        folder = target.parent if link else wanted.parent
        raise FileError(f"The folder {folder}{link} does not exist; create it first.")
    _clear(target.parent)
    # The end of the name keeps endings such as .nii.gz, by which writers choose a format.
    temporary = target.with_name(f".{unfinished_name()}-{target.name[-KEPT_OF_NAMES:]}")
    try:
        yield temporary
        given_up = _given_up.get()
        if given_up is not None and given_up.is_set():
            raise GivenUpError(wanted.name)
        os.replace(temporary, target.with_name(name_in_the_end(target.name)))
    except FileError:
        raise
    except OSError as error:
        raise FileError(
            f"{wanted} cannot be written ({error.strerror or error}); {_remedy(error, target)}."
        ) from error
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink()


def _remedy(error: OSError, target: Path) -> str:
    """Return what to do where a file could not be put into a folder that is there."""
    if sys.platform == "win32":
        if isinstance(error, PermissionError) and target.exists():  # or mapped, by us
            return "close it where it is open, or give another name"
        if isinstance(error, FileNotFoundError):  # the folder is there: paths are limited
            return "give a shorter name"
    if error.errno == errno.ENAMETOOLONG:
        return "give a shorter name"
    return "choose another folder or make room"


@lru_cache(maxsize=1024)
def _clear(folder: Path) -> None:
    """Delete the unfinished files of processes that were killed, once for each folder."""
    with contextlib.suppress(OSError):
        for left in folder.glob(f".{UNFINISHED}-*"):
            if is_left_over(left.name):
                left.unlink()
