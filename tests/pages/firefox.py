"""Firefox for tests of pages, by Marionette, which is a part of it: on the screen there is.

Its WebGL takes the screen's, so that it is not headless.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import time
from pathlib import Path
from typing import Any

from browser import PATIENCE_S

NAMES = ("firefox-esr", "firefox")
PREFERENCES = {
    "webgl.force-enabled": True,  # drawn by software, too
    "network.proxy.type": 1,  # no network: a proxy that is not there
    "network.proxy.http": "127.0.0.1",
    "network.proxy.http_port": 9,
    "network.proxy.share_proxy_settings": True,
}


def why_none() -> str:
    """Return why there is no Firefox to test with, or ""."""
    if not os.environ.get("DISPLAY"):
        return "Firefox draws on a screen, and there is none"
    return "" if program() else "no Firefox on this machine"


def program() -> str | None:
    """Return the path of Firefox."""
    return next((path for name in NAMES if (path := shutil.which(name))), None)


class Firefox:
    """One Firefox with one page."""

    def __init__(self, folder: Path) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        preferences = {**PREFERENCES, "marionette.port": port}
        lines = (f"user_pref({json.dumps(n)}, {json.dumps(v)});" for n, v in preferences.items())
        (folder / "user.js").write_text("\n".join(lines), "utf-8")
        path = program()
        assert path is not None
        self._process = subprocess.Popen(
            [path, "--marionette", "--no-remote", "--profile", str(folder)],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        self._rest = b""
        self._number = 0
        try:
            self._socket = self._connected(port)
            self._read()
            self.call("WebDriver:NewSession")
        except BaseException:
            self._process.kill()
            self._process.wait()
            raise

    def _connected(self, port: int) -> socket.socket:
        ended = time.monotonic() + PATIENCE_S
        while True:
            try:
                return socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S)
            except ConnectionRefusedError:
                assert time.monotonic() < ended, "Firefox does not answer"
                time.sleep(0.2)

    def close(self) -> None:
        """End Firefox."""
        self._socket.close()
        self._process.terminate()
        self._process.wait()

    def call(self, name: str, **parameters: Any) -> Any:
        """Call a command of Marionette; return its result."""
        self._number += 1
        message = json.dumps([0, self._number, name, parameters]).encode()
        self._socket.sendall(b"%d:%b" % (len(message), message))
        _, _, error, result = self._read()
        assert error is None, error
        return result

    def _read(self) -> Any:
        while b":" not in self._rest:
            self._rest += self._part()
        length, _, self._rest = self._rest.partition(b":")
        while len(self._rest) < int(length):
            self._rest += self._part()
        message, self._rest = self._rest[: int(length)], self._rest[int(length) :]
        return json.loads(message)

    def _part(self) -> bytes:
        part = self._socket.recv(1 << 20)
        assert part, "Firefox has ended"
        return part

    def evaluate(self, expression: str) -> Any:
        """Return the value of an expression of JavaScript."""
        script = f"return {expression};"
        return self.call("WebDriver:ExecuteScript", script=script, args=[])["value"]

    def wait_for(self, expression: str) -> Any:
        """Return the value of an expression once it has one."""
        ended = time.monotonic() + PATIENCE_S
        while not (found := self.evaluate(expression)):
            assert time.monotonic() < ended, expression
            time.sleep(0.05)
        return found

    def open(self, path: Path) -> str:
        """Open a page; return the state that it comes to."""
        self.call("WebDriver:Navigate", url=path.as_uri())
        return str(self.wait_for("document.documentElement.dataset.state"))

    def drag(self, start: tuple[int, int], end: tuple[int, int]) -> None:
        """Press the mouse, move it, and let it go."""
        places = [{"type": "pointerMove", "x": x, "y": y, "duration": 0} for x, y in (start, end)]
        down, up = ({"type": f"pointer{name}", "button": 0} for name in ("Down", "Up"))
        actions = [places[0], down, places[1], up]
        mouse = {"type": "pointer", "id": "mouse", "actions": actions}
        self.call("WebDriver:PerformActions", actions=[mouse])
