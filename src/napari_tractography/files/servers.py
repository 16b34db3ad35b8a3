"""Which servers may be contacted: those that a person has named, and none that only a file names.

A project or a recipe of someone else may name any. Called by the recipes, the command and the
panel.
"""

from __future__ import annotations

import re
from os import PathLike

from ..errors import FileError

PROTOCOLS = ("https", "s3")  # that a person is asked about; others are to be allowed by name

_allowed: set[str] = set()


def server_of(address: str | PathLike[str]) -> str:
    """Return protocol and host of an address, or its bucket: "https://host"."""
    protocol, _, rest = str(address).partition("://")
    host = re.split(r"[/?#\\]", rest)[0]
    return f"{protocol}://{host}".lower()


def allow_server(address: str | PathLike[str]) -> None:
    """Let a server be contacted by this process, by an address on it."""
    _allowed.add(server_of(address))


def is_allowed(address: str | PathLike[str]) -> bool:
    """Tell whether the server of an address may be contacted."""
    return server_of(address) in _allowed


def check_allowed(address: str | PathLike[str]) -> None:
    """Raise FileError where the server of an address may not be contacted."""
    if not is_allowed(address):
        server = server_of(address)
        raise FileError(
            f"{address} is on a server that is not contacted unless it is allowed: --allow-server "
            f"{server}, or allow_server({server!r}) of napari_tractography.files.servers."
        )
