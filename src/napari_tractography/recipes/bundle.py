"""Bundles: named streamlines, and everything that makes them again.

A bundle comes from a recipe or from a tractogram file, with edits; its streamlines are made when
they are asked for. Called by :mod:`.project`, the command and the plugin.
"""

from __future__ import annotations

import dataclasses
import logging
import typing
from collections.abc import Sequence
from typing import Any, TypeVar, Unpack

from numpy.typing import ArrayLike

from ..errors import InvalidParameterError
from ..model.parameters import TrackingParameters
from ..model.sides import mirrored_name
from ..streamlines.tractogram import Tractogram
from ..tracking.engine import track_all
from ..tracking.inputs import Execution, ExecutionKeywords
from ..tracking.report import Report
from .edits import Edit
from .mirror import mirrored_recipe, mirrored_streamlines
from .recipe import ReadFods, Recipe
from .sources import FodSource
from .tractogram_sources import TractogramFile, WeightsSource
from .warp_sources import WarpSource

logger = logging.getLogger(__name__)

Source = Recipe | TractogramFile
T = TypeVar("T")
# What Recipe.read has read, and learnt the SHA-256 of.
READ_FIELDS = ("fod", "mask", "tissues", "seeds", "regions", "between", "warp")


class Bundle:
    """Streamlines with a name, and what makes them.

    Raises InvalidParameterError when the name is empty.

    Parameters
    ----------
    source : Recipe or TractogramFile
        Where the streamlines come from, with their edits and weights.
    colour : str
        One colour such as "#ff8800", or a colour mode of the layer such as "direction".
    look : mapping, optional
        What else a layer needs to look the same: plain values, as JSON has them, kept as they are.
    """

    def __init__(
        self,
        name: str,
        source: Source,
        *,
        colour: str = "direction",
        visible: bool = True,
        look: dict[str, Any] | None = None,
    ) -> None:
        self.name = checked_name(name)
        self.colour = colour
        self.visible = visible
        self.look: dict[str, Any] = dict(look or {})
        self.fods: ReadFods = {}  # shared by the bundles of a project
        self._source = source
        self._whole: Tractogram | None = None
        self._tractogram: Tractogram | None = None
        self._backend = ""
        self._is_proven: bool | None = None
        self._changed: Source | None = None  # the source as it was read, where files had changed

    @property
    def source(self) -> Source:
        """Where the streamlines come from; setting it forgets those that were made."""
        return self._source

    @source.setter
    def source(self, source: Source) -> None:
        self._source, self._changed = source, None
        self.forget()

    @property
    def is_tracked(self) -> bool:
        """Whether the source is a recipe, not a file."""
        return isinstance(self._source, Recipe)

    @property
    def edits(self) -> tuple[Edit, ...]:
        """What was kept, cut or filtered, one after the other; setting it keeps what was tracked.

        Undo leaves the last one out, redo puts it back.
        """
        return self._source.edits

    @edits.setter
    def edits(self, edits: Sequence[Edit]) -> None:
        if tuple(edits) != self._source.edits:
            self._source = dataclasses.replace(self._source, edits=tuple(edits), digest="")
            self._tractogram = self._is_proven = None

    def edit(self, *edits: Edit) -> None:
        """Add edits after those that are there."""
        self.edits = (*self.edits, *edits)

    @property
    def weights(self) -> WeightsSource | None:
        """Where weights come from, one for each streamline before edits; None without."""
        return self._source.weights

    @weights.setter
    def weights(self, weights: WeightsSource | None) -> None:
        self.source = dataclasses.replace(self._source, weights=weights, digest="")

    @property
    def digest(self) -> str:
        """:meth:`Tractogram.digest` of the streamlines, edits included; "" if not known yet."""
        return self._source.digest

    @property
    def is_made(self) -> bool:
        """Whether the streamlines are in memory."""
        return self._tractogram is not None

    @property
    def is_proven(self) -> bool | None:
        """Whether the streamlines that were made have the digest that was known; None: not yet."""
        return self._is_proven

    def tractogram(self, **execution: Unpack[ExecutionKeywords]) -> Tractogram:
        """Return the streamlines, made when first asked for; warn when they are not as they were.

        Raises TractographyError when a file is gone or something is wrong with the input.

        Parameters
        ----------
        **execution
            How to track: the fields of :class:`~napari_tractography.tracking.inputs.Execution`.
        """
        if self._tractogram is None:
            self._finish(self._source.edit(self.whole(**execution)))
        assert self._tractogram is not None
        return self._tractogram

    def whole(self, **execution: Unpack[ExecutionKeywords]) -> Tractogram:
        """Return the streamlines before all edits; see :meth:`tractogram`."""
        if self._whole is None:
            source = self._source
            if isinstance(source, Recipe):
                report = Report()
                inputs, found = source.read(fods=self.fods)
                self.learn(found)
                tracked = track_all(inputs, Execution(**execution), report=report)
                self._whole = source.weighted(tracked)
                self._backend = report.backend
            else:
                self._whole = source.read()
        return self._whole

    def adopt(self, whole: Tractogram, backend: str = "") -> Tractogram:
        """Take over streamlines that were made of the source elsewhere; return them edited.

        They are as before all edits; `backend` is what tracked them, such as "cpu".
        """
        source = self._source
        self._whole = source.weighted(whole) if isinstance(source, Recipe) else whole
        self._backend = backend
        self._finish(source.edit(self._whole))
        assert self._tractogram is not None
        return self._tractogram

    def learn(self, source: Source) -> None:
        """Take over the same source with more known of it, such as SHA-256; keep streamlines.

        SHA-256 that are recorded stay until streamlines are made of the files as they are now and
        the digest is theirs: a changed file is reported as long as the digest is the recorded one.
        """
        recorded = _as_recorded(source, self._source)
        if recorded != source:
            self._changed = source
        self._source = recorded

    def forget(self) -> None:
        """Drop the streamlines from memory; they are made again when asked for."""
        self._whole = self._tractogram = self._is_proven = None

    def duplicate(self, name: str) -> Bundle:
        """Return a bundle of the same source and look; streamlines that were made are shared."""
        other = self._of(name, self._source)
        other._whole, other._tractogram = self._whole, self._tractogram
        other._backend, other._is_proven = self._backend, self._is_proven
        other._changed = self._changed
        return other

    def split_off(self, numbers: ArrayLike, name: str) -> Bundle:
        """Return a bundle of some streamlines of this one, by their numbers after all edits."""
        other = self.duplicate(name)
        other.edit(Edit.keep(numbers))
        return other

    def mirrored(self, x_mm: float, name: str = "") -> Bundle:
        """Return the bundle of the other side, named left for right.

        Seeds, regions and planes are mirrored; what is known by streamline numbers is left out,
        and weights.

        Parameters
        ----------
        x_mm : float
            Where the midsagittal plane lies, RAS+ mm; see
            :func:`~napari_tractography.recipes.mirror.midsagittal_x_mm`.
        name : str
            By default this one's with left for right.
        """
        source = self._source
        other: Source
        if isinstance(source, Recipe):
            other = mirrored_recipe(source, x_mm)
        else:
            other = mirrored_streamlines(source, x_mm)
        return self._of(name or mirrored_name(self.name), other)

    def on_fod(self, fod: FodSource, warp: WarpSource | None = None) -> Bundle:
        """Return the same bundle in another FOD, such as another subject's; see
        :meth:`.Recipe.on_fod`.

        Raises InvalidParameterError when it comes from a file of streamlines.
        """
        source = self._source
        if not isinstance(source, Recipe):
            raise InvalidParameterError(
                f"{self.name} comes from the file {source.path}, not from tracking; leave it out."
            )
        return self._of(self.name, source.on_fod(fod, warp))

    def _of(self, name: str, source: Source) -> Bundle:
        """Return a bundle of another source that looks the same."""
        other = Bundle(name, source, colour=self.colour, visible=self.visible, look=self.look)
        other.fods = self.fods
        return other

    @property
    def parameters(self) -> TrackingParameters | None:
        """How it is tracked; None of a file."""
        return self._source.parameters if isinstance(self._source, Recipe) else None

    def _finish(self, tractogram: Tractogram) -> None:
        """Keep streamlines; compare their digest, or learn it."""
        source, digest = self._source, tractogram.digest()
        self._tractogram = tractogram
        if source.digest:
            self._is_proven = source.digest == digest
            if isinstance(source, Recipe):
                source.check(tractogram, self._backend)
            elif not self._is_proven:
                logger.warning(
                    "The streamlines of %s are not as they were: digest %s now, %s then.",
                    self.name, digest, source.digest,
                )  # fmt: skip
        elif isinstance(source, Recipe):
            self._source = source.with_result(tractogram, self._backend)
        else:
            self._source = dataclasses.replace(source, digest=digest)
        if isinstance(self._changed, Recipe) and self._is_proven is not False:
            read = {name: getattr(self._changed, name) for name in READ_FIELDS}
            self._source, self._changed = dataclasses.replace(self._source, **read), None

    def __repr__(self) -> str:
        n = "" if self._tractogram is None else f", {len(self._tractogram)} streamlines"
        return f"Bundle({self.name!r}{n})"


def _as_recorded(now: T, then: T) -> T:
    """Return a source with the SHA-256 that were known of it before; `now` has the same parts."""
    if isinstance(now, tuple) and now and dataclasses.is_dataclass(now[0]):
        pairs = zip(now, typing.cast(tuple[Any, ...], then), strict=True)
        return typing.cast(T, tuple(_as_recorded(*pair) for pair in pairs))
    if not dataclasses.is_dataclass(now) or isinstance(now, type):
        return now
    kept = {
        f.name: _as_recorded(getattr(now, f.name), getattr(then, f.name))
        for f in dataclasses.fields(now)
        if f.init and f.compare
    }
    if kept.get("sha256") is not None:
        kept["sha256"] = getattr(then, "sha256", "") or kept["sha256"]
    return dataclasses.replace(now, **kept)


def checked_name(name: str) -> str:
    """Return a name without space around it.

    Raises InvalidParameterError when nothing is left, or it is no text.
    """
    if not (isinstance(name, str) and name.strip()):
        raise InvalidParameterError(f"A bundle is called {name!r}; give it a name.")
    return name.strip()
