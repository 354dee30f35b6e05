"""Dask's side of a worker: agents, which are long tasks in Dask's eyes and run ours one after another.

One station serves all agents of a worker process and speaks with the coordinator over the comm that Dask keeps between
worker and scheduler. SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import os
import pickle
import threading
import time
import weakref
from typing import Any

from distributed import Worker, get_worker
from distributed.core import Status

from thalweg.diffusion.berth import Berth
from thalweg.diffusion.execution import ProcessSlot, ThreadSlot
from thalweg.diffusion.messages import Report
from thalweg.diffusion.options import Options
from thalweg.diffusion.shelf import Shelf, Tls
from thalweg.diffusion.station import Station


def channel(run: str) -> str:
    """The name of the run's messages in Dask's streams."""
    return f"thalweg-diffusion-{run}"


def _unheard(**_: Any) -> None:
    """What comes after the end of a run: Dask closes the stream over a message that nobody takes."""


# Messages cost the scheduler more than what is in them: what can wait does so for others, this long.
_GATHER_S = 0.05
# How often an agent that has nothing to do looks whether its worker is to close.
_LOOK_S = 0.5


def _host(address: str) -> str:
    """Where peers find this worker. Workers that are threads of one process (`inproc`) have no address of a machine."""
    scheme, _, rest = address.rpartition("://")
    return "127.0.0.1" if scheme == "inproc" else rest.rsplit(":", 1)[0].strip("[]")


def _tls(worker: Worker) -> Tls | None:
    """What Dask's workers speak with each other."""
    if not worker.address.startswith("tls://"):
        return None
    server = worker.security.get_listen_args("worker")["ssl_context"]
    return Tls(server, worker.security.get_connection_args("worker")["ssl_context"])


class Post:
    """A station in a Dask worker, and how many agents it still has."""

    def __init__(self, worker: Worker, options: Options, slots: int) -> None:
        self._worker = worker
        self._channel = channel(options.run)
        self._slots = slots
        base = options.cache_folder or os.path.join(os.path.dirname(worker.local_directory), "thalweg-cache")
        self._berth = Berth(base)
        host = _host(worker.address)
        shelf = Shelf(
            self._berth.folder,
            options.cache_bytes,
            token=options.token,
            serve=host,
            peer_bytes_per_s=options.peer_bytes_per_s,
            storage_options=options.storage_options,
            silence_s=options.store_silence_s,
            tls=_tls(worker),
        )
        self.station = Station(shelf, options, self._send, os.path.join(self._berth.folder, "scratch"))
        self._agents = 0
        self._turn = threading.Lock()
        self._unsent: list[Report] = []
        # The event loop knows that there is something to send.
        self._is_told = False

    def join(self) -> None:
        self._worker.stream_handlers[self._channel] = self._receive
        self._send([self.station.hello(self._slots)], False)

    def agent_came(self) -> None:
        self._agents += 1

    def agent_left(self) -> bool:
        """Whether it was the last."""
        self._agents -= 1
        return self._agents == 0

    def close(self) -> None:
        self.station.close()
        self._berth.leave()
        self._worker.stream_handlers[self._channel] = _unheard

    def _receive(self, orders: bytes | None) -> None:
        """In the worker's event loop."""
        if orders is None:
            self.station.close()
        else:
            self.station.receive(pickle.loads(orders))

    def _send(self, reports: list[Report], can_wait: bool) -> None:
        with self._turn:
            self._unsent += reports
            is_told, self._is_told = self._is_told, True
        if not can_wait:
            self._worker.loop.add_callback(self._send_all)
        elif not is_told:
            self._worker.loop.add_callback(self._send_later)

    def _send_later(self) -> None:
        self._worker.loop.call_later(_GATHER_S, self._send_all)

    def _send_all(self) -> None:
        with self._turn:
            reports, self._unsent = self._unsent, []
            self._is_told = False
        stream = self._worker.batched_stream
        if reports and stream is not None and not stream.closed():
            body = pickle.dumps(reports, protocol=5)
            stream.send({"op": self._channel, "reports": body, "sent_s": time.monotonic()})


_turn = threading.Lock()
_posts: weakref.WeakKeyDictionary[Worker, dict[str, Post]] = weakref.WeakKeyDictionary()


def _post(worker: Worker, options: Options, slots: int) -> Post:
    with _turn:
        posts = _posts.setdefault(worker, {})
        post = posts.get(options.run)
        if post is None:
            post = posts[options.run] = Post(worker, options, slots)
            post.join()
        post.agent_came()
        return post


def _leave(worker: Worker, options: Options, post: Post) -> None:
    with _turn:
        if post.agent_left():
            _posts[worker].pop(options.run, None)
            post.close()


def agent(options: Options, slots: int) -> None:
    """A task of Dask's: one slot's agent, until the run ends."""
    worker: Any = get_worker()
    post = _post(worker, options, slots)
    values = post.station.values
    slot = ThreadSlot(values) if options.timeout_s is None else ProcessSlot(values, options.timeout_s)
    try:
        while not post.station.is_closed and worker.status == Status.running:
            job = post.station.take(_LOOK_S)
            if job is not None:
                post.station.finish(job, slot.run(job.calling()))
    finally:
        slot.close()
        _leave(worker, options, post)
