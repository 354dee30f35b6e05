"""A real browser, driven over its debugging pipe: NUL-separated JSON, without a port or a package for it.

SPDX-License-Identifier: Apache-2.0
"""

import base64
import itertools
import json
import os
import select
import shutil
import subprocess
import time

NAMES = ("chromium-headless-shell", "chromium", "google-chrome")
TIMEOUT_S = 60


def find():
    """The browser's command; None where there is none. `make test` installs one."""
    return os.environ.get("THALWEG_BROWSER") or next(filter(None, map(shutil.which, NAMES)), None)


class Browser:
    """One tab."""

    def __init__(self, folder):
        # The browser reads descriptor 3 and writes 4.
        from_us, to_browser = os.pipe()
        from_browser, to_us = os.pipe()
        flags = [
            *("--headless", "--remote-debugging-pipe", "--no-first-run", "--disable-gpu", "--disable-dev-shm-usage"),
            *("--disable-background-networking", "--hide-scrollbars", f"--user-data-dir={folder}/profile"),
            # Of pages that this test makes itself; and root has no other choice.
            "--no-sandbox",
        ]
        script = f'exec 3<&{from_us} 4>&{to_us}; exec "$@"'
        self._log = open(f"{folder}/browser.log", "wb")
        self._process = subprocess.Popen(
            ["bash", "-c", script, "bash", find(), *flags, "about:blank"],
            pass_fds=(from_us, to_us),
            stdout=self._log,
            stderr=self._log,
        )
        os.close(from_us)
        os.close(to_us)
        self._out, self._in = to_browser, from_browser
        self._numbers = itertools.count(1)
        self._unread = b""
        # Messages of the console, and requests that failed.
        self.console = []
        targets = self.call("Target.getTargets")["targetInfos"]
        tab = next(one["targetId"] for one in targets if one["type"] == "page")
        self._session = None
        self._session = self.call("Target.attachToTarget", targetId=tab, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self.call(f"{domain}.enable")

    def view(self, width, height=900, dark=False):
        """As large as a screen of so many CSS pixels."""
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500}
        self.call("Emulation.setDeviceMetricsOverride", **size)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])

    def open(self, address):
        self.call("Page.navigate", url=address)
        self.wait_for(f"location.href === {json.dumps(address)} && document.readyState === 'complete'")

    def evaluate(self, expression):
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def wait_for(self, expression, timeout_s=TIMEOUT_S):
        deadline = time.monotonic() + timeout_s
        while not self.evaluate(f"!!({expression})"):
            assert time.monotonic() < deadline, f"not in {timeout_s} s: {expression}"
            time.sleep(0.05)

    def screenshot(self, path, whole=True):
        picture = self.call("Page.captureScreenshot", captureBeyondViewport=whole)
        with open(path, "wb") as file:
            file.write(base64.b64decode(picture["data"]))

    def close(self):
        """Not by a signal: its children are to be gone before its folder is removed."""
        os.write(self._out, json.dumps({"id": 0, "method": "Browser.close"}).encode() + b"\0")
        try:
            self._process.wait(TIMEOUT_S)
        finally:
            self._process.kill()
        for descriptor in (self._out, self._in):
            os.close(descriptor)
        self._log.close()

    def call(self, method, **parameters):
        number = next(self._numbers)
        message = {"id": number, "method": method, "params": parameters}
        if getattr(self, "_session", None):
            message["sessionId"] = self._session
        os.write(self._out, json.dumps(message).encode() + b"\0")
        deadline = time.monotonic() + TIMEOUT_S
        while True:
            answer = self._read(deadline)
            if answer.get("id") == number:
                assert "error" not in answer, f"{method}: {answer['error']}"
                return answer["result"]
            self._note(answer)

    def _note(self, event):
        kind, parameters = event.get("method"), event.get("params", {})
        if kind == "Log.entryAdded":
            self.console.append(parameters["entry"]["text"])
        elif kind == "Runtime.exceptionThrown":
            self.console.append(str(parameters["exceptionDetails"]))
        elif kind == "Runtime.consoleAPICalled":
            self.console.append(str([one.get("value") for one in parameters["args"]]))

    def _read(self, deadline):
        while b"\0" not in self._unread:
            readable, _, _ = select.select([self._in], [], [], max(0.0, deadline - time.monotonic()))
            assert readable, "the browser does not answer"
            part = os.read(self._in, 1 << 20)
            assert part, "the browser ended"
            self._unread += part
        message, self._unread = self._unread.split(b"\0", 1)
        return json.loads(message)
