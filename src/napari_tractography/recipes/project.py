"""Projects: many bundles as one small file, which makes all of them again.

A project names files by path, relative to itself, and SHA-256; it holds recipes, edits, colours and
views, and no streamlines. Called by the command, the plugin and scripts.
"""

from __future__ import annotations

import dataclasses
import os
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import chain, count
from os import PathLike
from pathlib import Path
from typing import Any, TypeVar

from ..errors import FileError, InvalidParameterError, MissingFilesError, TractographyError
from ..files.hashing import sha256_of
from ..files.image_files import is_remote
from ..files.paths import at_home, existing_file
from ..files.servers import is_allowed, server_of
from ..streamlines.tractogram import Tractogram
from .bundle import Bundle, Source, checked_name
from .codec import decoded, encoded, format_of, read_json, recipe_content, recipe_of, write_json
from .python_code import expression, script
from .recipe import ReadFods, Recipe
from .sources import FodSource
from .tractogram_sources import TractogramFile
from .volume_sources import located, names_of

FORMAT = "napari-tractography project"
FORMAT_VERSION = 1
ENDING = ".tracts.json"

T = TypeVar("T")
AnySource = TypeVar("AnySource", bound=Source)


@dataclass(frozen=True, slots=True)
class _StoredBundle:
    """A bundle as the file has it: either from a recipe or from a file."""

    name: str
    colour: str = "direction"
    visible: bool = True
    look: dict[str, Any] = field(default_factory=dict)
    recipe: dict[str, Any] | None = None
    file: TractogramFile | None = None


@dataclass(frozen=True, slots=True)
class _StoredProject:
    bundles: tuple[_StoredBundle, ...] = ()
    views: dict[str, Any] = field(default_factory=dict)


class Project:
    """Bundles, in an order, and the views of them.

    Attributes
    ----------
    bundles : dict of str to Bundle
        By name, in order. Change it by the methods, which keep names and keys the same.
    views : dict
        Cameras, dims and whatever else a screen needs: plain values, as JSON has them, kept as they
        are.
    path : Path or None
        The file that the project was loaded from or saved to.
    """

    def __init__(self) -> None:
        self.bundles: dict[str, Bundle] = {}
        self.views: dict[str, Any] = {}
        self.path: Path | None = None
        self._fods: ReadFods = {}

    def add(
        self,
        name: str,
        source: Source | Bundle | str | PathLike[str],
        *,
        colour: str = "direction",
        visible: bool = True,
    ) -> Bundle:
        """Add a bundle at the end; return it.

        Parameters
        ----------
        name : str
            That no other bundle has.
        source : Recipe, TractogramFile, Bundle or path-like
            Where it comes from; of a bundle everything but the name, and it stays as it is. A path
            is that of a tractogram.
        colour : str
            One colour such as "#ff8800", or a colour mode of the layer such as "direction".
        visible : bool

        Raises
        ------
        InvalidParameterError
            When the name is empty, no text or taken, or the source is a tractogram in memory.
        FileError
            When there is no such tractogram.
        """
        name = self._free(name)
        if isinstance(source, Bundle):
            bundle = source.duplicate(name)
        else:
            if isinstance(source, Tractogram):
                raise InvalidParameterError(
                    "A bundle names a file of streamlines, or a recipe; save the tractogram, and "
                    "give its path."
                )
            if not isinstance(source, Recipe | TractogramFile):
                source = TractogramFile.file(source)
            bundle = Bundle(name, source, colour=colour, visible=visible)
        bundle.fods = self._fods
        self.bundles[name] = bundle
        return bundle

    def rename(self, name: str, new: str) -> None:
        """Give a bundle another name; it stays where it is.

        Raises
        ------
        InvalidParameterError
            When there is no such bundle, or the new name is empty or taken.
        """
        bundle = self._found(name)
        new = self._free(new) if checked_name(new) != name else name
        bundle.name = new
        self.bundles = {each.name: each for each in self.bundles.values()}

    def remove(self, name: str) -> Bundle:
        """Take a bundle out; return it, so that :meth:`add` and :meth:`move` undo it."""
        self._found(name)
        return self.bundles.pop(name)

    def move(self, name: str, place: int) -> None:
        """Put a bundle at a place in the order, from 0."""
        moved = self._found(name)
        others = [bundle for bundle in self.bundles.values() if bundle is not moved]
        others.insert(place, moved)
        self.bundles = {bundle.name: bundle for bundle in others}

    def free_name(self, name: str) -> str:
        """Return a name, with a number after it where a bundle has it already."""
        wanted = checked_name(name)
        names = chain([wanted], (f"{wanted} {number}" for number in count(2)))
        return next(each for each in names if each not in self.bundles)

    def files(self) -> dict[str, str]:
        """Return the absolute paths of all files that bundles name, with their SHA-256 or ""."""
        return {
            part.path: part.sha256
            for bundle in self.bundles.values()
            for part in _parts_of_files(bundle.source)
        }

    def changed_files(self) -> list[str]:
        """Return the files that are not as they were, by their SHA-256; missing ones as well.

        All of them are read, which takes a while for large ones, but for :meth:`unasked_files`.
        """
        parts = {
            part.path: part
            for bundle in self.bundles.values()
            for part in _parts_of_files(bundle.source)
        }
        unasked = self.unasked_files()
        return [path for path, part in parts.items() if path not in unasked and _has_changed(part)]

    def unasked_files(self) -> list[str]:
        """Return the addresses on servers that nobody has allowed to be contacted.

        See :func:`~napari_tractography.files.servers.allow_server`.
        """
        return [path for path in self.files() if is_remote(path) and not is_allowed(path)]

    def content(self, folder: str | PathLike[str]) -> dict[str, Any]:
        """Return the project as plain values, with paths relative to a folder.

        Two that are equal make equal files: this tells whether something is unsaved.
        """
        base = Path(folder).absolute()
        bundles = []
        for bundle in self.bundles.values():
            source = _with_paths(bundle.source, lambda path: _relative(path, base))
            is_recipe = isinstance(source, Recipe)
            stored = _StoredBundle(
                bundle.name,
                bundle.colour,
                bundle.visible,
                bundle.look,
                recipe=recipe_content(source) if is_recipe else None,
                file=None if isinstance(source, Recipe) else source,
            )
            bundles.append(stored)
        return {
            "format": FORMAT,
            "format_version": FORMAT_VERSION,
            **encoded(_StoredProject(tuple(bundles), self.views)),
        }

    def save(self, path: str | PathLike[str]) -> None:
        """Write JSON, whole or not at all; SHA-256 that are not known yet are taken.

        Raises
        ------
        FileError
            When it cannot be written, or a file that a bundle names is gone.
        InvalidParameterError
            When views or a look are no plain values.
        """
        target = at_home(path).absolute()
        for bundle in self.bundles.values():
            hashed = with_hashes(bundle.source)
            if hashed != bundle.source:
                bundle.learn(hashed)
        try:
            write_json(self.content(target.parent), target)
        except TypeError as error:
            raise InvalidParameterError(
                f"The views or a bundle's look hold what JSON does not know ({error}); give plain "
                "numbers, texts, lists and dicts."
            ) from None
        self.path = target

    def as_python(self) -> str:
        """Return a script that makes all bundles again without a screen, and prints digests.

        Everything that a recipe says is in it: seeds, regions, weights, edits; files by their
        absolute paths.
        """
        imports: set[str] = set()
        servers = dict.fromkeys(server_of(path) for path in self.files() if is_remote(path))
        if servers:
            imports.add("from napari_tractography.files.servers import allow_server")
        lines = [*(f"allow_server({server!r})" for server in servers), "project = nt.Project()"]
        for bundle in self.bundles.values():
            source = expression(bundle.source, imports, 4)
            look = f"colour={bundle.colour!r}, visible={bundle.visible!r}"
            lines += [
                "project.add(",
                f"    {bundle.name!r},",
                f"    {source},",
                f"    {look},",
                ")",
            ]
        lines += [
            "",
            "for name, bundle in project.bundles.items():",
            "    print(bundle.tractogram().digest(), name)",
        ]
        return script(imports, lines)

    @classmethod
    def load(
        cls, path: str | PathLike[str], *, places: Mapping[str, str | PathLike[str]] | None = None
    ) -> Project:
        """Read a project. Nothing is tracked: :meth:`Bundle.tractogram` does when asked.

        Files are sought where they were, as seen from the project's file, and in its folder.

        Parameters
        ----------
        path : path-like
        places : mapping, optional
            Where files are now, by where they were, as ``MissingFilesError.paths`` has them, or by
            their names alone.

        Raises
        ------
        MissingFilesError
            When files are not there; with their paths.
        FileError
            When the project is missing, damaged, something else, or of a newer format.
        InvalidParameterError
            When a value is of the right type and impossible, or two bundles have one name.
        """
        file = existing_file(path)
        folder = file.absolute().parent
        stored = _read(file)
        moved_to = {str(old): at_home(new) for old, new in (places or {}).items()}
        missing: dict[str, None] = {}  # in order

        def found(name: str) -> str:
            if is_remote(name):
                return name
            stored_at = str(_joined(folder, name))
            new = next(
                (
                    moved_to[key]
                    for key in (stored_at, name, *names_of(stored_at))
                    if key in moved_to
                ),
                None,
            )
            try:
                return str(located(stored_at if new is None else str(new), folder).absolute())
            except FileError:
                missing[stored_at] = None
                return stored_at

        project = cls()
        for each in stored.bundles:
            source: Source | None = each.file
            if each.recipe is not None:
                source = recipe_of(Recipe, each.recipe, file)
            if source is None:
                raise FileError(
                    f"{file} is a damaged project (bundle {each.name!r} has neither recipe nor "
                    "file); save it again."
                )
            source = dataclasses.replace(_with_paths(source, found), folder=folder)
            bundle = project.add(each.name, source, colour=each.colour, visible=each.visible)
            bundle.look = dict(each.look)
        if missing:
            others = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
            raise MissingFilesError(
                f"{file.name} names {next(iter(missing))}{others}, which is not there; put it back "
                "or say where it is now.",
                tuple(missing),
            )
        project.views = dict(stored.views)
        project.path = file.absolute()
        return project

    def _free(self, name: str) -> str:
        wanted = checked_name(name)
        if wanted in self.bundles:
            raise InvalidParameterError(f"There is a bundle {wanted!r} already; give another name.")
        return wanted

    def _found(self, name: str) -> Bundle:
        if name not in self.bundles:
            there = ", ".join(self.bundles) or "none"
            raise InvalidParameterError(f"There is no bundle {name!r}; there is {there}.")
        return self.bundles[name]

    def __repr__(self) -> str:
        return f"Project({', '.join(self.bundles) or 'empty'})"


def is_project(path: str | PathLike[str]) -> bool:
    """Tell whether a file is there and is a project, of whatever version."""
    return format_of(path) == FORMAT


def _read(file: Path) -> _StoredProject:
    content = read_json(file)
    if not isinstance(content, dict) or content.pop("format", None) != FORMAT:
        raise FileError(f"{file} is no project; give a JSON file that Project.save wrote.")
    version = content.pop("format_version", 0)
    if version != FORMAT_VERSION:
        raise FileError(
            f"{file} has format version {version!r}, this program knows {FORMAT_VERSION}; update "
            "napari-tractography."
        )
    return decoded(_StoredProject, content, f"{file} is a damaged project", "save it again")


def _relative(path: str, folder: Path) -> str:
    """Return a path as seen from a folder, with slashes; absolute on another drive."""
    if is_remote(path):
        return path
    try:
        return Path(os.path.relpath(path, folder)).as_posix()
    except ValueError:
        return path


def _joined(folder: Path, path: str) -> Path:
    """Return where a path, as seen from a folder, leads; links are left as they are."""
    return Path(os.path.normpath(folder / path))


def _mapped(value: T, change: Callable[[Any], Any]) -> T:
    """Return a dataclass with every part in it that names a file changed, in tuples too."""
    if isinstance(value, tuple):
        return typing.cast(T, tuple(_mapped(each, change) for each in value))
    if not dataclasses.is_dataclass(value) or isinstance(value, type):
        return value
    old = {f.name: getattr(value, f.name) for f in dataclasses.fields(value) if f.compare}
    new = {name: _mapped(each, change) for name, each in old.items()}
    changed = {name: each for name, each in new.items() if each is not old[name]}
    whole = dataclasses.replace(value, **changed) if changed else value
    return typing.cast(T, change(whole) if getattr(whole, "path", "") else whole)


def _with_paths(source: Source, change: Callable[[str], str]) -> Source:
    """Return a source with the path of every file in it changed."""
    return _mapped(source, lambda part: dataclasses.replace(part, path=change(part.path)))


def _parts_of_files(source: Source) -> list[Any]:
    found: list[Any] = []

    def note(part: Any) -> Any:
        found.append(part)
        return part

    _mapped(source, note)
    return found


def with_hashes(source: AnySource) -> AnySource:
    """Return a source in which every file has its SHA-256."""

    def hashed(part: Any) -> Any:
        sha256 = part.sha256
        if not sha256 and not (is_remote(part.path) and not is_allowed(part.path)):
            sha256 = _sha256_now(part, source.folder)
        return dataclasses.replace(part, sha256=sha256)

    return _mapped(source, hashed)


def _sha256_now(part: Any, folder: Path | None = None) -> str:
    if isinstance(part, FodSource):
        return part.sha256_now(folder)
    return sha256_of(located(part.path, folder))


def _has_changed(part: Any) -> bool:
    """Tell whether a file is no longer as it was, or cannot be read."""
    try:
        now = _sha256_now(part)
        return part.sha256 not in ("", now)
    except TractographyError:
        return True
