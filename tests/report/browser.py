"""A real Chromium without a window, driven over a pipe by the DevTools protocol. It can reach no network: whatever it
asks for goes to a proxy that only listens, so that a test can say what was asked for."""

from __future__ import annotations

import base64
import contextlib
import fcntl
import json
import os
import select
import shutil
import signal
import socket
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
MISSING = "no Chromium here; apt-get install chromium"
DEADLINE_S = 30.0
_FLAGS = """--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --mute-audio --disable-extensions
--disable-background-networking --disable-component-update --disable-sync --disable-default-apps --disable-dev-shm-usage
--no-default-browser-check --disable-domain-reliability --disable-client-side-phishing-detection
--disable-features=OptimizationHints,MediaRouter,Translate --force-color-profile=srgb --remote-debugging-pipe"""


def installed() -> str | None:
    return next((path for name in NAMES if (path := shutil.which(name))), None)


class Browser:
    """One process, one page. Calls block until they are answered."""

    def __init__(self, folder: Path) -> None:
        self.proxy = socket.create_server(("127.0.0.1", 0))
        self._refused: list[str] = []
        theirs_in, ours_out = (_above(fd) for fd in os.pipe())
        ours_in, theirs_out = (_above(fd) for fd in os.pipe())
        program = installed()
        assert program, MISSING
        address = f"--proxy-server=127.0.0.1:{self.proxy.getsockname()[1]}"
        arguments = [
            program,
            *_FLAGS.split(),
            address,
            "--proxy-bypass-list=<-loopback>",
            f"--user-data-dir={folder}/profile",
        ]
        log = _above(os.open(folder / "browser.log", os.O_WRONLY | os.O_CREAT, 0o644))
        actions = [(os.POSIX_SPAWN_DUP2, a, b) for a, b in ((theirs_in, 3), (theirs_out, 4), (log, 1), (log, 2))]
        self.process = os.posix_spawn(program, arguments, os.environ, file_actions=actions, setsid=True)
        for fd in (theirs_in, theirs_out, log):
            os.close(fd)
        self._in, self._out = ours_in, ours_out
        self._rest, self._number, self.events, self._source = b"", 0, [], ""
        page = self._call("Target.createTarget", {"url": "about:blank"})["targetId"]
        self.session = self._call("Target.attachToTarget", {"targetId": page, "flatten": True})["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def close(self) -> None:
        os.killpg(self.process, signal.SIGKILL)
        os.waitpid(self.process, 0)
        for fd in (self._in, self._out):
            os.close(fd)
        self.proxy.close()

    # --- what a test asks for

    def open(self, path: Path, width: int = 1280, height: int = 900, dark: bool = False, phone: bool = False) -> None:
        """Load a file from disk, and wait until its charts are drawn."""
        size = {"width": width, "height": height, "deviceScaleFactor": 2 if phone else 1, "mobile": phone}
        self.call("Emulation.setDeviceMetricsOverride", size)
        self.call("Emulation.setTouchEmulationEnabled", {"enabled": phone})
        self.call("Emulation.setEmulatedMedia", {"features": [_scheme(dark)]})
        self.events.clear()
        self.asked_proxy()
        self._source = path.read_text("utf-8")
        self.call("Page.navigate", {"url": path.resolve().as_uri()})
        self._until(lambda e: e.get("method") == "Page.loadEventFired")
        self.until("document.documentElement.dataset.drawn")

    def run(self, script: str) -> Any:
        """The value of an expression, awaited."""
        asked = {"expression": script, "awaitPromise": True, "returnByValue": True}
        answer = self.call("Runtime.evaluate", asked)
        if "exceptionDetails" in answer:
            raise AssertionError(answer["exceptionDetails"])
        return answer["result"].get("value")

    def until(self, condition: str) -> None:
        """Wait until it holds in the page."""
        self.run(f"new Promise(r => {{ const f = () => {condition} ? r() : setTimeout(f, 20); f() }})")

    def mouse(self, kind: str, x: float, y: float) -> None:
        """kind: mouseMoved, or with the left button mousePressed, mouseDragged, mouseReleased."""
        held = {} if kind == "mouseMoved" else {"button": "left", "buttons": 1, "clickCount": 1}
        kind = kind.replace("Dragged", "Moved")
        self.call("Input.dispatchMouseEvent", {"type": kind, "x": x, "y": y, **held})

    def scheme(self, dark: bool) -> None:
        self.call("Emulation.setEmulatedMedia", {"features": [_scheme(dark)]})

    def complaints(self) -> list[str]:
        """Errors and warnings that the page has caused: thrown, logged, or refused by its policy."""
        self.run("1")  # what was said before the answer has been read
        found = []
        for event in self.events:
            what = event["params"]
            if event["method"] == "Runtime.exceptionThrown":
                found.append(str(what["exceptionDetails"]))
            elif event["method"] == "Runtime.consoleAPICalled" and what["type"] in ("error", "warning", "assert"):
                found.append(str(what["args"]))
            elif event["method"] == "Log.entryAdded" and what["entry"]["level"] in ("error", "warning"):
                found.append(what["entry"]["text"])
        return found

    def requests(self) -> list[str]:
        """Addresses the page has asked for, those inside it left out, and what reached the proxy for a host that the
        page names: the browser asks for updates, sign-ins and start pages of its own, whatever it is told."""
        self.run("1")
        asked = [e["params"]["request"]["url"] for e in self.events if e["method"] == "Network.requestWillBeSent"]
        foreign = [line for line in self.asked_proxy() if _host(line) in self._source]
        return [url for url in asked if not url.startswith(("data:", "blob:"))] + foreign

    def asked_proxy(self) -> list[str]:
        """First lines of the requests that have reached the proxy since the last call."""
        while select.select([self.proxy], [], [], 0.0)[0]:
            self._refuse()
        found, self._refused = self._refused, []
        return found

    def _refuse(self) -> None:
        connection, _ = self.proxy.accept()
        with connection:
            connection.settimeout(1.0)
            with contextlib.suppress(OSError):
                self._refused.append(connection.recv(200).decode("latin-1").partition("\r\n")[0])

    def screenshot(self, path: Path, whole: bool = True) -> None:
        shot = self.call("Page.captureScreenshot", {"format": "png", "captureBeyondViewport": whole})
        path.write_bytes(base64.b64decode(shot["data"]))

    def pdf(self) -> bytes:
        return base64.b64decode(self.call("Page.printToPDF", {"printBackground": True})["data"])

    # --- the protocol

    def call(self, method: str, params: dict[str, Any] | None = None) -> dict[str, Any]:
        return self._call(method, params or {}, self.session)

    def _call(self, method: str, params: dict[str, Any], session: str | None = None) -> dict[str, Any]:
        self._number += 1
        number = self._number
        message = {"id": number, "method": method, "params": params} | ({"sessionId": session} if session else {})
        data = json.dumps(message).encode() + b"\0"
        while data:
            data = data[os.write(self._out, data) :]
        answer = self._until(lambda e: e.get("id") == number, seen=False)
        if "error" in answer:
            raise AssertionError(f"{method}: {answer['error']}")
        return answer["result"]

    def _until(self, wanted: Any, seen: bool = True) -> dict[str, Any]:
        """The first message that is wanted; events are kept on the way."""
        for event in self.events if seen else ():
            if wanted(event):
                return event
        end = time.monotonic() + DEADLINE_S
        while True:
            while b"\0" in self._rest:
                text, _, self._rest = self._rest.partition(b"\0")
                message = json.loads(text)
                if "method" in message:
                    self.events.append(message)
                if wanted(message):
                    return message
            left = end - time.monotonic()
            ready = select.select([self._in, self.proxy], [], [], max(left, 0.0))[0]
            if not ready:
                raise AssertionError(f"Chromium has not answered within {DEADLINE_S:.0f} s")
            if self.proxy in ready:
                self._refuse()
                continue
            data = os.read(self._in, 1 << 20)
            assert data, "Chromium has ended"
            self._rest += data


def _scheme(dark: bool) -> dict[str, str]:
    return {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}


def _above(fd: int) -> int:
    """The same file under a number that the browser's own 3 and 4 cannot overwrite."""
    moved = fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 10)
    os.close(fd)
    return moved


def _host(line: str) -> str:
    """Of a request as a proxy sees it: CONNECT host:port HTTP/1.1, or GET http://host/path HTTP/1.1."""
    address = line.split(" ")[1] if " " in line else line
    return address.partition("://")[2].partition("/")[0] if "://" in address else address.partition(":")[0]


def picture(report: Path, out: Path, width: int = 1200, height: int = 1282) -> None:
    """The top of a report as PNG: python -m tests.report.browser RUN/report.html docs/report.png"""
    with tempfile.TemporaryDirectory() as folder:
        browser = Browser(Path(folder))
        try:
            browser.call("Emulation.setScrollbarsHidden", {"hidden": True})
            browser.open(report, width, height)
            browser.screenshot(out, whole=False)
        finally:
            browser.close()


if __name__ == "__main__":
    picture(Path(sys.argv[1]), Path(sys.argv[2]))
