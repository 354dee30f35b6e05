"""The shared store: a process of its own, throttled, that counts what it sends. Its count is the truth about bytes.

`GET /counters/<run>` gives {bytes, opens, unique} of a run. SPDX-License-Identifier: Apache-2.0
"""

import asyncio
import collections
import json
import subprocess
import sys
import urllib.request

from diffusion import content, server

BYTES_PER_S = 40_000_000
STREAM_BYTES_PER_S = 8_000_000
OPEN_S = 0.005


class Store:
    """The process; it listens at `base`."""

    def __init__(self, bytes_per_s=BYTES_PER_S, stream_bytes_per_s=STREAM_BYTES_PER_S):
        self.bytes_per_s, self.stream_bytes_per_s = bytes_per_s, stream_bytes_per_s
        command = [sys.executable, "-m", "diffusion.store", str(bytes_per_s), str(stream_bytes_per_s)]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        self.base = f"http://127.0.0.1:{int(self.process.stdout.readline())}"

    def close(self):
        self.process.kill()
        self.process.wait()


def counters(base, run):
    """The bytes that the store at `base` sent in a run."""
    with urllib.request.urlopen(f"{base}/counters/{run}") as answer:
        return json.load(answer)


class Synthetic:
    """The files of the server: every file there could be, and the counters."""

    def __init__(self):
        self.bytes, self.opens, self.names = (collections.defaultdict(kind) for kind in (int, int, set))

    async def size(self, path):
        if path.startswith("/counters/"):
            return len(self._counters(path))
        try:
            run, size, _ = content.parts(path)
        except ValueError:
            raise server.Missing(path) from None
        self.opens[run] += 1
        return size

    def pieces(self, path, start, end):
        if path.startswith("/counters/"):
            return [self._counters(path)]
        return content.pieces(path, start, end)

    def sent(self, path, amount):
        if not path.startswith("/counters/"):
            run, _, name = content.parts(path)
            self.bytes[run] += amount
            self.names[run].add(name)

    def _counters(self, path):
        run = path.split("/")[-1]
        found = {"bytes": self.bytes[run], "opens": self.opens[run], "unique": len(self.names[run])}
        return json.dumps(found).encode()


async def main(bytes_per_s, stream_bytes_per_s):
    content.block()
    serving = server.Server(Synthetic(), bytes_per_s, stream_bytes_per_s, OPEN_S)
    print(await serving.listen(), flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(*map(float, sys.argv[1:])))
