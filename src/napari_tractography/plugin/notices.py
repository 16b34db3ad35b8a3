"""Errors and warnings for a person: as napari's notifications, which cut them, and kept whole.

Called by whatever refuses something; the panel shows below its results what was told last.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from napari.utils import notifications
from napari.utils.notifications import NotificationSeverity

from ..errors import TractographyError
from .words import labelled

ROOT = re.compile(r"(/|[A-Za-z]:[\\/])")  # that a path from the root begins with
ENDS = re.compile(r"(?=[\s:;,]|\.?$)")  # where a path in a sentence may end


class Told(str):
    """A sentence of ours among the notifications of others."""


def show_error(text: str) -> None:
    """Show why something could not be done."""
    notifications.show_error(Told(labelled(reason_first(text))))


def show_warning(text: str) -> None:
    """Show what a person should know of what was done."""
    notifications.show_warning(Told(labelled(reason_first(text))))


def reason_first(text: str) -> str:
    """Return a sentence that begins with a path with the folder at its end.

    napari shows the first line alone: "fod.nii.gz is truncated (in /data/subject)".
    """
    if not ROOT.match(text):
        return text
    paths = [Path(text[: end.start()]) for end in ENDS.finditer(text)]
    missing = [path for path in paths if path.suffix and path.parent.is_dir()][:1]
    known = [path for path in paths if path.exists()] or missing
    if not known:
        return text
    path = known[-1]
    rest = text[len(str(path)) :].rstrip().removesuffix(".")
    return f"{path.name}{rest} (in {path.parent})."


def told_by(notification: Any) -> str:
    """Return the sentence of a notification of ours that is to be kept whole, or ""."""
    if notification.severity < NotificationSeverity.WARNING:
        return ""
    error = getattr(notification, "exception", None)
    is_ours = isinstance(notification.message, Told) or isinstance(error, TractographyError)
    return reason_first(str(notification.message)) if is_ours else ""
