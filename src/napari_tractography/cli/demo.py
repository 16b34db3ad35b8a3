"""``napari-tractography demo``: napari with the plugin, and streamlines to look at."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from ..errors import BackendError, MissingPackageError
from .flags import add_path

ON_SCREENS = ("xcb", "wayland")  # Qt's platforms that need one; offscreen, minimal, vnc do not


HELP = "open napari with the plugin and streamlines on a phantom"


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Add the flags of the sub-command."""
    add_path(parser, "--fod", "FOD", "use this FOD volume instead of the phantom")
    add_path(
        parser,
        "--output",
        "FOLDER",
        "write demo.png and demo.trk there and end, instead of staying open",
    )


def run(options: argparse.Namespace) -> int:
    """Open napari; return the exit code.

    Raises BackendError without a screen, where Qt would abort; MissingPackageError without a Qt
    binding, which a plugin must not choose for its users.
    """
    if not _has_screen():
        raise BackendError(
            "The demonstration needs a screen, and neither DISPLAY nor WAYLAND_DISPLAY names one; "
            "run it on a desktop, or on a virtual screen: xvfb-run -a napari-tractography demo."
        )
    try:
        from ..plugin.demo import run_demo  # the only command that needs a screen
    except ImportError as error:
        raise MissingPackageError(
            "The demonstration needs napari with a Qt binding; install one, such as with "
            f'pip install "napari-tractography[all]" ({error}).'
        ) from None

    return run_demo(options.fod, None if options.output is None else Path(options.output))


def _has_screen() -> bool:
    """Tell whether Qt can open windows; of other systems than Linux it is taken for granted."""
    platform = os.environ.get("QT_QPA_PLATFORM", "")
    if not sys.platform.startswith("linux") or (platform and not platform.startswith(ON_SCREENS)):
        return True
    return any(os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY"))
