"""A real browser for tests of pages: Debian's Chromium, headless, by its devtools over a pipe.

No network: names of hosts lead nowhere, and every request is noted.
"""

from __future__ import annotations

import base64
import io
import itertools
import json
import os
import select
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

NAMES = ("chromium", "chromium-browser", "google-chrome")
PATIENCE_S = 600  # of whoever waits: the machine may be busy
FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--remote-debugging-pipe",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--no-first-run",
    "--host-resolver-rules=MAP * ~NOTFOUND",
)
BY_SOFTWARE = ("--use-angle=swiftshader", "--enable-unsafe-swiftshader")

# The devtools read and write there.
AS_3_AND_4 = """
import fcntl, os, sys
read, write = (fcntl.fcntl(int(number), fcntl.F_DUPFD, 10) for number in sys.argv[1:3])
os.dup2(read, 3)
os.dup2(write, 4)
os.execv(sys.argv[3], sys.argv[3:])
"""


def why_none() -> str:
    """Return why there is no browser to test with, or ""."""
    if sys.platform != "linux":
        return "the browser is driven by pipes that are passed on as on Linux"
    return "" if program() else "no Chromium on this machine"


def program() -> str | None:
    """Return the path of the browser."""
    return next((path for name in NAMES if (path := shutil.which(name))), None)


class Browser:
    """One browser with one page, whose `graphics` are flags; by default it draws by software.

    Attributes
    ----------
    requests : list of str
        The addresses of all that was asked for since the page was opened.
    complaints : list of str
        What the browser's console says: errors, and what the policy of the page forbade.
    """

    def __init__(
        self,
        folder: Path,
        *,
        size: tuple[int, int] = (900, 600),
        graphics: tuple[str, ...] = BY_SOFTWARE,
    ) -> None:
        theirs_in, ours_out = os.pipe()
        ours_in, theirs_out = os.pipe()
        path = program()
        assert path is not None
        self._process = subprocess.Popen(
            [sys.executable, "-c", AS_3_AND_4, str(theirs_in), str(theirs_out), path, *FLAGS,
             *graphics, f"--user-data-dir={folder}", f"--window-size={size[0]},{size[1]}",
             "about:blank"],
            pass_fds=(theirs_in, theirs_out),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )  # fmt: skip
        os.close(theirs_in)
        os.close(theirs_out)
        self._out, self._in = ours_out, ours_in
        self._numbers = itertools.count(1)
        self._rest = b""
        self._session: str | None = None
        self.requests: list[str] = []
        self.complaints: list[str] = []
        try:
            self._attach()
        except BaseException:
            self.close()
            raise

    def _attach(self) -> None:
        (target,) = [
            t for t in self.call("Target.getTargets")["targetInfos"] if t["type"] == "page"
        ]
        attached = self.call("Target.attachToTarget", targetId=target["targetId"], flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(f"{domain}.enable")

    def close(self) -> None:
        """End the browser."""
        self._process.kill()
        self._process.wait()
        os.close(self._out)
        os.close(self._in)

    def call(self, method: str, **parameters: Any) -> Any:
        """Call a method of the devtools; return its result."""
        number = next(self._numbers)
        message: dict[str, Any] = {"id": number, "method": method, "params": parameters}
        if self._session is not None:
            message["sessionId"] = self._session
        os.write(self._out, json.dumps(message).encode() + b"\0")
        while True:
            found = self._read()
            if found.get("id") == number:
                assert "error" not in found, (method, found["error"])
                return found["result"]
            self._note(found)

    def _read(self) -> Any:
        while b"\0" not in self._rest:
            ready, _, _ = select.select([self._in], [], [], PATIENCE_S)
            assert ready, "the browser says nothing"
            part = os.read(self._in, 1 << 20)
            assert part, "the browser has ended"
            self._rest += part
        message, _, self._rest = self._rest.partition(b"\0")
        return json.loads(message)

    def _note(self, event: Any) -> None:
        parameters = event.get("params", {})
        if event["method"] == "Network.requestWillBeSent":
            self.requests.append(parameters["request"]["url"])
        elif event["method"] == "Log.entryAdded":
            self.complaints.append(parameters["entry"]["text"])
        elif event["method"] == "Runtime.exceptionThrown":
            self.complaints.append(json.dumps(parameters["exceptionDetails"]))

    def open(self, path: Path, *, before: str = "") -> str:
        """Open a page as by a double click; return the state that it comes to.

        `before` is a script that runs before those of the page.
        """
        self.requests, self.complaints = [], []
        added = self.call("Page.addScriptToEvaluateOnNewDocument", source=before)
        self.call("Page.navigate", url=path.as_uri())
        self.call("Page.removeScriptToEvaluateOnNewDocument", identifier=added["identifier"])
        ended = time.monotonic() + PATIENCE_S
        while time.monotonic() < ended:
            state = self.evaluate(
                "document.readyState === 'complete' && document.documentElement.dataset.state"
            )
            if state:
                return str(state)
            time.sleep(0.05)
        raise AssertionError(f"the page says {self.text('status')!r}")

    def evaluate(self, expression: str) -> Any:
        """Return the value of an expression of JavaScript."""
        found = self.call(
            "Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True
        )
        assert "exceptionDetails" not in found, found
        return found["result"].get("value")

    def text(self, element: str) -> str:
        """Return the text of an element."""
        return str(self.evaluate(f"document.getElementById({element!r}).textContent"))

    def drag(self, start: tuple[int, int], end: tuple[int, int]) -> None:
        """Press the mouse, move it, and let it go."""
        for kind, (x, y), buttons in (
            ("mousePressed", start, 1), ("mouseMoved", end, 1), ("mouseReleased", end, 0)
        ):  # fmt: skip
            self.call(
                "Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", buttons=buttons,
                clickCount=1,
            )  # fmt: skip

    def press(self, key: str) -> None:
        """Press a key."""
        for kind in ("keyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=key)

    def picture(self) -> NDArray[np.uint8]:
        """Return what is on the screen, (height, width, 3)."""
        data = self.call("Page.captureScreenshot", format="png")["data"]
        with Image.open(io.BytesIO(base64.b64decode(data))) as opened:
            return np.asarray(opened.convert("RGB"))
