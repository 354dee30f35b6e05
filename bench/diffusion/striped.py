"""A cache striped over the workers by hash, as MemFS (FGCS 54, 2016) has it: each file lies in the memory of the one worker
that its name's hash says, others that want it read it there, and tasks go where Dask sends them.

SPDX-License-Identifier: Apache-2.0
"""

import asyncio
import concurrent.futures
import functools
import threading

import fsspec

from diffusion import content, on_dask, placing, server

PEER_BYTES_PER_S = 20_000_000


class Striped(on_dask.Dask):
    name = "dask, hash-striped"

    def start(self, folder, base):
        super().start(folder, base)
        self.ports = sorted(self.client.run(serve, base).values())

    def reader(self, run):
        return functools.partial(read, self.ports)


def serve(base):
    """Called once in each worker: its port."""
    global _memory
    _memory = Memory(base)
    return _memory.port


def read(ports, address):
    port = ports[placing.owner(address, len(ports))]
    if port == _memory.port:
        return _memory.get(address)
    run, size, name = content.parts(address)
    return fsspec.filesystem("http").cat_file(f"http://127.0.0.1:{port}/{run}/{size}/{name}"), "peer"


class Memory:
    """A worker's part of the files, and the server that others read it from."""

    def __init__(self, base):
        self.base, self.files, self.lock = base, {}, threading.Lock()
        self.fetching = concurrent.futures.ThreadPoolExecutor(8)
        self.loop = asyncio.new_event_loop()
        threading.Thread(target=self.loop.run_forever, daemon=True).start()
        serving = server.Server(self, PEER_BYTES_PER_S, PEER_BYTES_PER_S, 0)
        self.port = asyncio.run_coroutine_threadsafe(serving.listen(), self.loop).result()

    def get(self, address):
        """The file's bytes and whether they were here."""
        path = address[len(self.base) :]
        source = "local" if path in self.files else "store"
        return self.hold(path).result(), source

    def hold(self, path):
        """The file's future: the first who asks fetches it."""
        with self.lock:
            if path not in self.files:
                self.files[path] = self.fetching.submit(fsspec.filesystem("http").cat_file, self.base + path)
            return self.files[path]

    async def size(self, path):
        return len(await asyncio.wrap_future(self.hold(path)))

    def pieces(self, path, start, end):
        return [memoryview(self.files[path].result())[start:end]]

    def sent(self, path, amount):
        pass
