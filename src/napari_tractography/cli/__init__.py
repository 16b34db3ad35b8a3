"""The command ``napari-tractography``, one file a sub-command."""

from .command import main as main
