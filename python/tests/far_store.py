"""A store at the other end of a socket, which can be gone in the four ways in which stores are: no server listens, or
one does and says nothing, or that it is busy, or hangs up halfway. SPDX-License-Identifier: Apache-2.0"""

import threading
import urllib.error
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import fsspec
from fsspec.spec import AbstractFileSystem


class FarFileSystem(AbstractFileSystem):
    """`far://host:port/name`, over plain HTTP, with no timeouts of its own."""

    protocol = "far"
    cachable = False

    @classmethod
    def _strip_protocol(cls, path):
        return path.removeprefix("far://")

    def info(self, path, **kwargs):
        with self._ask("HEAD", path) as answer:
            return {"name": path, "size": int(answer.headers["Content-Length"]), "type": "file", "etag": "always"}

    def get_file(self, path, target, **kwargs):
        with self._ask("GET", path) as answer, open(target, "wb") as file:
            file.write(answer.read())

    def put_file(self, path, place, **kwargs):
        with open(path, "rb") as file:
            self._ask("PUT", place, file.read()).close()

    def mv(self, path, place, **kwargs):
        self._ask("MOVE", path, place.encode()).close()

    def makedirs(self, path, exist_ok=False):
        pass

    def exists(self, path, **kwargs):
        return False

    def _ask(self, verb, path, body=None):
        request = urllib.request.Request(f"http://{self._strip_protocol(path)}", body, method=verb)
        try:
            return urllib.request.urlopen(request)
        except urllib.error.URLError as error:
            # As fsspec's own file system for HTTP has it, whatever the answer was.
            raise FileNotFoundError(path) from error


fsspec.register_implementation("far", FarFileSystem, clobber=True)


class _Handler(BaseHTTPRequestHandler):
    def do_HEAD(self):
        self._answer(self._content(), False)

    def do_GET(self):
        self._answer(self._content(), True)

    def do_PUT(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self._wait()
        if self.server.store.is_busy:
            return self._answer(None, False)
        self.server.store.files[self.path] = body
        self._answer(b"", True)

    def do_MOVE(self):
        place = self.rfile.read(int(self.headers["Content-Length"])).decode()
        self._wait()
        if self.server.store.is_busy:
            return self._answer(None, False)
        files = self.server.store.files
        files[place[place.index("/") :]] = files.pop(self.path)
        self._answer(b"", True)

    def _content(self):
        self._wait()
        return self.server.store.files.get(self.path)

    def _wait(self):
        if self.server.store.is_silent.is_set():
            # A request made while the store was silent never gets an answer.
            self.server.store.is_over.wait()
            raise ConnectionAbortedError

    def _answer(self, content, with_body):
        # Read once: it may change at any time.
        is_busy = self.server.store.is_busy
        if is_busy:
            content = None
        self.send_response(503 if is_busy else 404 if content is None else 200)
        self.send_header("Content-Length", str(len(content or b"")))
        self.end_headers()
        if with_body and content:
            self.wfile.write(content[: len(content) // 2] if self.server.store.is_cutting else content)

    def log_message(self, *arguments):
        pass


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request, client_address):
        pass


class FarStore:
    """`silent`, `refusing`, `busy` and `cutting` switch it off, `there` on again."""

    def __init__(self):
        self.files = {}
        self.is_silent, self.is_over = threading.Event(), threading.Event()
        self.is_busy = self.is_cutting = False
        self.port = 0
        self.server = None
        self.there()

    def url(self, name, scheme="far"):
        return f"{scheme}://127.0.0.1:{self.port}/{name}"

    def there(self):
        self.is_silent.clear()
        self.is_busy = self.is_cutting = False
        if self.server is None:
            self.server = _Server(("127.0.0.1", self.port), _Handler)
            self.server.store = self
            self.port = self.server.server_port
            threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True).start()

    def silent(self):
        self.is_silent.set()

    def busy(self):
        self.is_busy = True

    def cutting(self):
        self.is_cutting = True

    def refusing(self):
        server, self.server = self.server, None
        if server is not None:
            server.shutdown()
            server.server_close()

    def close(self):
        self.is_over.set()
        self.refusing()
