"""A real browser without a screen: Debian's Chromium, spoken to in its DevTools protocol over two pipes."""

from __future__ import annotations

import base64
import itertools
import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.kit.bound import bound
from tests.kit.built import need

PROGRAM = "chromium"
QUIET = (
    "--headless=new",
    "--no-sandbox",  # tests may run as root
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--remote-debugging-pipe",
)


class Page:
    """The one page of a browser. `errors`: what it said of exceptions and faults; `requested`: all addresses that it
    asked for."""

    def __init__(self, to: int, back: int) -> None:
        self._to = to
        self._back = os.fdopen(back, "rb")
        self._numbers = itertools.count(1)
        self._session: str | None = None
        self.errors: list[str] = []
        self.requested: list[str] = []
        self._loaded: set[str] = set()
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")
        self.call("Page.setLifecycleEventsEnabled", enabled=True)

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """One command of the protocol; returns its result."""
        number = next(self._numbers)
        session = {"sessionId": self._session} if self._session else {}
        told = json.dumps({"id": number, "method": method, "params": parameters} | session).encode() + b"\0"
        while told:
            told = told[os.write(self._to, told) :]
        while True:
            message = self._read()
            if message.get("id") == number:
                assert "error" not in message, message
                result: dict[str, Any] = message["result"]
                return result

    def open(self, path: Path) -> None:
        """Show a file, until it is loaded."""
        self.visit(path.resolve().as_uri())

    def visit(self, url: str) -> None:
        """Show what is there, until it is loaded."""
        loader = self.call("Page.navigate", url=url)["loaderId"]
        while loader not in self._loaded:  # the empty page that was there may be reported as loaded only now
            self._read()

    def run(self, script: str) -> Any:
        """The value of an expression of JavaScript."""
        answer = self.call("Runtime.evaluate", expression=script, returnByValue=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def press(self, key: str, text: str = "") -> None:
        """A key of the keyboard, down and up."""
        for kind in ("keyDown", "keyUp"):
            given = {"text": text} if text and kind == "keyDown" else {}
            self.call("Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode=KEYS[key], **given)

    def look(self, width: int, scheme: str) -> None:
        """Take the shape of a window so wide, of a reader who prefers that scheme of colours."""
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=False)
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])

    def picture(self, element: str) -> bytes:
        """A screenshot of an element, a JavaScript expression, as PNG: also of what is outside of the window."""
        box = f"(e => [e.x + scrollX, e.y + scrollY, e.width, e.height])({element}.getBoundingClientRect())"
        x, y, width, height = self.run(box)
        clip = {"x": x, "y": y, "width": width, "height": height, "scale": 1}
        taken = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=True, clip=clip)
        return base64.b64decode(taken["data"])

    def close(self) -> None:
        """The end of its pipes."""
        self._back.close()
        os.close(self._to)

    def _read(self) -> dict[str, Any]:
        """The next message; what it says of errors and requests is kept."""
        text = bytearray()
        while (byte := self._back.read(1)) != b"\0":
            assert byte, "the browser has ended"
            text += byte
        message: dict[str, Any] = json.loads(text)
        told = message.get("params", {})
        match message.get("method"):
            case "Page.lifecycleEvent" if told["name"] == "load":
                self._loaded.add(told["loaderId"])
            case "Runtime.exceptionThrown":
                self.errors.append(str(told["exceptionDetails"]))
            case "Log.entryAdded" if told["entry"]["level"] == "error":
                self.errors.append(str(told["entry"]))
            case "Runtime.consoleAPICalled" if told["type"] in ("error", "assert"):
                self.errors.append(str(told["args"]))
            case "Network.requestWillBeSent":
                self.requested.append(told["request"]["url"])
        return message


KEYS = {"Tab": 9, "Enter": 13}
"""Keys by name, and their numbers."""


@contextmanager
def opened(folder: Path) -> Iterator[Page]:
    """A page in a browser of its own, whose files are in `folder`; it ends with the block. Installed where missing."""
    need(PROGRAM, PROGRAM)
    command_out, command_in = os.pipe()
    answer_out, answer_in = os.pipe()
    # The browser reads from 3 and writes to 4.
    wired = f"exec {PROGRAM} {' '.join(QUIET)} --user-data-dir=\"$0\" 3<&{command_out} 4>&{answer_in}"
    process = subprocess.Popen(
        bound(["bash", "-c", wired, str(folder)]),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=(folder / "browser.log").open("wb"),
        pass_fds=(command_out, answer_in),
        env=os.environ | {"HOME": str(folder)},
    )
    os.close(command_out)
    os.close(answer_in)
    try:
        page = Page(command_in, answer_out)
        yield page
        page.close()
    finally:
        process.kill()
        process.wait()
