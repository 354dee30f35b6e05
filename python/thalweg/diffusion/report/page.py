"""The live page: the report so far, served to browsers on this machine. SPDX-License-Identifier: Apache-2.0"""

from __future__ import annotations

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from thalweg.diffusion.report.events import Record
from thalweg.diffusion.report.report import html
from thalweg.diffusion.report.run_stats import RunStats

_REFRESH_S = 2
_OURS = ("localhost", "127.0.0.1")


class Page:
    """`listen` takes the records of `Events`; `address` is where to look."""

    def __init__(self, port: int = 0) -> None:
        self._stats = RunStats()
        self._mutex = threading.Lock()
        self._server = _Server(self, port)
        self.address = f"http://127.0.0.1:{self._server.server_address[1]}/"
        threading.Thread(target=self._server.serve_forever, name="thalweg-page", daemon=True).start()

    def listen(self, record: Record) -> None:
        with self._mutex:
            self._stats.fold(record)

    def html(self) -> str:
        with self._mutex:
            return html(self._stats, None if self._stats.ended else _REFRESH_S)

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, page: Page, port: int) -> None:
        self.page = page
        super().__init__(("127.0.0.1", port), _Handler)


class _Handler(BaseHTTPRequestHandler):
    server: _Server

    def do_GET(self) -> None:
        # Pages of other origins could give their own names this address.
        if (self.headers.get("Host") or "").rsplit(":", 1)[0] not in _OURS:
            return self.send_error(403)
        if self.path != "/":
            return self.send_error(404)
        content = self.server.page.html().encode(errors="replace")
        self.send_response(200)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.send_header("Content-Length", str(len(content)))
        self.send_header("Cache-Control", "no-store")
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *arguments: object) -> None:
        """Says nothing."""
