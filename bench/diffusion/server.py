"""A small HTTP server with a rate for all and a rate for each stream. The store is one; so is a worker of the striped
cache. GET (with Range) and HEAD, connections kept alive: what fsspec's http needs.

SPDX-License-Identifier: Apache-2.0
"""

import asyncio
import re

from diffusion.throttle import Throttle

PIECE_BYTES = 128 << 10


class Missing(Exception):
    """There is nothing of this path."""


class Server:
    """`content.size(path)` and `content.pieces(path, start, end)` say what is served (await), `sent` counts."""

    def __init__(self, content, bytes_per_s, stream_bytes_per_s, open_s):
        self.content, self.open_s = content, open_s
        self.all, self.stream_bytes_per_s = Throttle(bytes_per_s), stream_bytes_per_s

    async def listen(self, port=0):
        """The port."""
        self.listener = await asyncio.start_server(self.converse, "127.0.0.1", port)
        return self.listener.sockets[0].getsockname()[1]

    async def converse(self, reader, writer):
        try:
            while True:
                await self.answer(await reader.readuntil(b"\r\n\r\n"), writer)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    async def answer(self, request, writer):
        verb, path, _ = request.split(b"\r\n", 1)[0].decode().split(" ")
        await asyncio.sleep(self.open_s)
        try:
            size = await self.content.size(path)
        except Missing:
            writer.write(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n")
            return
        asked = re.search(rb"\r\nrange: *bytes=(\d*)-(\d*)", request, re.IGNORECASE)
        start, end = _range(asked, size)
        writer.write(_head(path, size, start, end, asked))
        if verb == "GET":
            await self.send(path, start, end, writer)

    async def send(self, path, start, end, writer):
        stream = Throttle(self.stream_bytes_per_s)
        for begin in range(start, end, PIECE_BYTES):
            until = min(end, begin + PIECE_BYTES)
            await asyncio.sleep(max(stream.take(until - begin), self.all.take(until - begin)))
            for piece in self.content.pieces(path, begin, until):
                writer.write(piece)
            self.content.sent(path, until - begin)
            await writer.drain()


def _range(asked, size):
    if not asked:
        return 0, size
    first, last = asked[1], asked[2]
    if not first:
        return max(0, size - int(last)), size
    return min(int(first), size), min(int(last) + 1, size) if last else size


def _head(path, size, start, end, asked):
    lines = ["HTTP/1.1 206 Partial Content" if asked else "HTTP/1.1 200 OK"]
    lines += [f"Content-Length: {end - start}", "Accept-Ranges: bytes", f'ETag: "{path}"']
    lines += [f"Content-Range: bytes {start}-{end - 1}/{size}"] if asked else []
    return ("\r\n".join(lines) + "\r\n\r\n").encode()
