"""The live page: the report so far, served to browsers of this machine, which then ask for what has changed.

Only connections of this machine reach it, only under a path that cannot be guessed (the machine may have other users), and
only with a `Host` of this machine's own: pages of other origins could give their own names its address.
SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import errno
import hmac
import json
import secrets
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

from thalweg.diffusion.report.events import Record
from thalweg.diffusion.report.report import html
from thalweg.diffusion.report.run_stats import RunStats
from thalweg.diffusion.report.sections import sections, title
from thalweg.error_code import misuse
from thalweg.store_error import store_error

_OWN_NAMES = ("localhost", "127.0.0.1", "[::1]")
# A page is made so often at most, and takes such a part of the time at most.
_MIN_INTERVAL_S = 1.0
_MAX_SHARE = 0.05
# A browser that asks for changes gets an answer after so long, also without any.
_ANSWER_TIMEOUT_S = 10.0
# Time a browser may take to send its request, and the end of a run to reach browsers that ask just then.
_REQUEST_TIMEOUT_S = 30
_CLOSE_TIMEOUT_S = 1.0
_MAX_REQUESTS = 32


class Page:
    """`listen` takes the records of `Events`; `address` is where to look."""

    def __init__(self, port: int = 0) -> None:
        self._stats = RunStats()
        self._changed = threading.Condition()
        self._heard_at = time.monotonic()
        self._is_closed = False
        # Requests that wait for changes.
        self._asking = 0
        self._versions = _Versions()
        self.path = f"/{secrets.token_urlsafe(16)}/"
        self._server = _Server(self, port)
        self.address = f"http://127.0.0.1:{self._server.server_address[1]}{self.path}"
        threading.Thread(target=self._server.serve_forever, args=(0.1,), name="thalweg-page", daemon=True).start()

    def listen(self, record: Record) -> None:
        with self._changed:
            self._stats.fold(record)
            self._heard_at = time.monotonic()
            if record["kind"] == "ended":
                self._changed.notify_all()

    def html(self) -> str:
        with self._changed:
            self._advance()
            return html(self._stats, is_live=True)

    def changes(self, since: int) -> str:
        """JSON of the sections that changed after version `since`, as soon as there are any."""
        deadline = time.monotonic() + _ANSWER_TIMEOUT_S
        with self._changed:
            self._asking += 1
            try:
                while True:
                    now = time.monotonic()
                    is_last = self._stats.ended or self._is_closed
                    if is_last or now >= self._versions.due_at:
                        self._advance()
                        self._versions.add(sections(self._stats), now)
                    if is_last or self._versions.last > since or now >= deadline:
                        return self._versions.answer(since, title(self._stats), is_last)
                    self._changed.wait(max(0.01, self._versions.due_at - now))
            finally:
                self._asking -= 1
                self._changed.notify_all()

    def _advance(self) -> None:
        """Time passes while tasks run, also when none of them ends."""
        if self._stats.tasks_left and not self._stats.ended:
            now = time.monotonic()
            self._stats.advance(self._stats.end_s + now - self._heard_at)
            self._heard_at = now

    def close(self) -> None:
        """Sends the end of the run to browsers that follow it."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()
        self._server.shutdown()
        with self._changed:
            self._changed.wait_for(lambda: not self._asking, _CLOSE_TIMEOUT_S)
        self._server.server_close()


class _Versions:
    """The sections as they were last made, and in which version each changed."""

    def __init__(self) -> None:
        # Versions of one page are not those of another on its port.
        self.last = 0
        self.due_at = float("-inf")
        self._parts: dict[str, tuple[int, str]] = {}

    def add(self, parts: dict[str, str], begun: float) -> None:
        changed = {name: one for name, one in parts.items() if self._parts.get(name, (0, None))[1] != one}
        if changed:
            self.last += 1
            self._parts.update((name, (self.last, one)) for name, one in changed.items())
        now = time.monotonic()
        self.due_at = now + max(_MIN_INTERVAL_S, (now - begun) / _MAX_SHARE)

    def answer(self, since: int, page_title: str, is_last: bool) -> str:
        parts = {name: one for name, (version, one) in self._parts.items() if version > since}
        return json.dumps({"version": self.last, "title": page_title, "ended": is_last, "parts": parts})


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, page: Page, port: int) -> None:
        self.page = page
        self.requests = threading.BoundedSemaphore(_MAX_REQUESTS)
        if not 0 <= port < 1 << 16:
            raise misuse(ValueError, f"page is True or a port of at most 65535, not {port}")
        try:
            super().__init__(("127.0.0.1", port), _Handler)
        except OSError as error:
            why = f"the run's page cannot be served: {error.strerror}"
            raise store_error(error.errno or errno.EIO, f"127.0.0.1:{port}", why, "TW-510") from None

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A browser that leaves or reloads the page while it is answered is no error, least of all in the user's notebook."""
        if not isinstance(sys.exc_info()[1], OSError):
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    timeout = _REQUEST_TIMEOUT_S
    server_version, sys_version = "thalweg", ""

    def do_GET(self) -> None:
        asked = urlsplit(self.path)
        page = self.server.page
        if not self._is_for_us():
            self.send_error(403)
        elif hmac.compare_digest(asked.path.encode(), page.path.encode()):
            self._answer("text/html; charset=utf-8", page.html())
        elif hmac.compare_digest(asked.path.encode(), f"{page.path}state".encode()):
            self._answer_changes(asked.query)
        else:
            self.send_error(404)

    def _is_for_us(self) -> bool:
        """One `Host`, of this machine's own names."""
        hosts = self.headers.get_all("Host") or []
        return len(hosts) == 1 and _without_port(hosts[0]).lower() in _OWN_NAMES

    def _answer_changes(self, query: str) -> None:
        since = parse_qs(query).get("since", ["0"])[0]
        if not (since.isascii() and since.isdigit() and len(since) < 16):
            return self.send_error(400)
        if not self.server.requests.acquire(blocking=False):
            return self.send_error(503)
        try:
            self._answer("application/json", self.server.page.changes(int(since)))
        finally:
            self.server.requests.release()

    def _answer(self, kind: str, content: str) -> None:
        body = content.encode(errors="replace")
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        for name, value in (
            ("Cache-Control", "no-store"),
            ("X-Content-Type-Options", "nosniff"),
            ("X-Frame-Options", "DENY"),
            ("Referrer-Policy", "no-referrer"),
        ):
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *arguments: object) -> None:
        """Logs nothing."""


def _without_port(host: str) -> str:
    return host.rsplit(":", 1)[0] if not host.endswith("]") else host
