"""A worker's agent: brings what tasks need, hands them to their executor, and reports to the coordinator.

Orders come in by `receive`, reports go out through `send`; runners, one a slot, `take` a job that has all its input, run
it and `finish` it. Transfers and pins happen in threads of the agent, so that inputs come while others compute.
SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import collections
import heapq
import logging
import os
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

from thalweg.diffusion.cache.item import Item
from thalweg.diffusion.cache.worker_cache import Arrival, PeerFailed, WorkerCache
from thalweg.diffusion.failure import Failure
from thalweg.diffusion.messages import (
    Answered,
    Arrived,
    Drop,
    Ended,
    Evict,
    Fetch,
    Forget,
    Hello,
    Keep,
    Lost,
    Missed,
    Missing,
    Order,
    Publish,
    Published,
    PublishedOutput,
    Recall,
    Report,
    Run,
    Unpublished,
    Usage,
    Writing,
)
from thalweg.diffusion.options import Options
from thalweg.diffusion.stores import outputs, recorded
from thalweg.diffusion.stores.outputs import Outputs
from thalweg.diffusion.stores.store_retry import StoreRetry
from thalweg.diffusion.worker.execution import Calling, Outcome
from thalweg.diffusion.worker.usage import process_tree_usage
from thalweg.disk_cache.index import Row
from thalweg.disk_cache.private_folder import refuse_link
from thalweg.disk_cache.tree import size_of

_log = logging.getLogger("thalweg.diffusion")

# Transfers at once at most (how many the store and peers bear is the plan's to say), and whatever else waits for a disk.
_TRANSFERS = 16
_CHORES = 4
# A peer that serves as many as it can is asked again after these.
_BUSY_PAUSES_S = (0.1, 0.3, 1.0)
# How often the cache is asked what it lost by itself.
_LOSSES_INTERVAL_S = 0.5
# How often what the worker uses is measured and reported, but for the first time; and how many tasks it names then.
_USAGE_INTERVAL_S = 2.0
_FIRST_USAGE_S = 0.5
_MAX_LONGEST = 3


class _Shared:
    """An arrival, and how many jobs use it."""

    def __init__(self, arrival: Arrival) -> None:
        self.arrival = arrival
        self.users = 0


class Job:
    """An attempt of a task here."""

    def __init__(self, run: Run, folder: str, now: float) -> None:
        self.run = run
        self.outputs = Outputs(os.path.join(folder, f"{run.task}-{run.attempt}"), run.outputs, run.replaced)
        self.paths: dict[str, str] = {}
        self.missing_keys = set(run.inputs)
        self.pinned: list[Row] = []
        self.shared: list[_Shared] = []
        self.sources: list[tuple[str, int]] = []
        self.versions: list[tuple[str, str | None]] = []
        self.came = now
        self.slot_since = now
        self.begun = 0.0

    def supply(self, key: str, path: str, source: str, count: int, version: str | None) -> None:
        self.paths[key] = path
        self.missing_keys.discard(key)
        self.sources.append((source, count))
        self.versions.append((key, version))

    def names(self) -> dict[str, str]:
        """The users' names of the files whose copies and places here have these paths."""
        inputs = {path: Item.of_key(key).url for key, path in self.paths.items()}
        return {**inputs, **{path: url for url, path in self.outputs.paths.items()}}

    def calling(self) -> Calling:
        run = self.run
        return Calling(run.function, run.payload, run.values, self.paths, self.outputs.paths, run.name)


class Agent:
    """Thread-safe. `send` must not call back; beside reports it gets whether they can wait for others."""

    def __init__(
        self, cache: WorkerCache, options: Options, send: Callable[[list[Report], bool], None], scratch: str
    ) -> None:
        self.values: dict[bytes, bytes] = {}
        self._cache = cache
        self._options = options
        self._send = send
        self._store_retry = StoreRetry(options.store_timeout_s)
        refuse_link(scratch)
        # The holder of the folder's lock is alone there: the rest is of processes that were killed.
        shutil.rmtree(scratch, ignore_errors=True)
        os.makedirs(scratch, mode=0o700)
        self._folder = tempfile.mkdtemp(prefix="tasks-", dir=scratch)
        self._changed = threading.Condition()
        self._jobs: dict[int, Job] = {}
        self._ready: collections.deque[Job] = collections.deque()
        # Ended tasks need not be reported at once while half of that is left.
        self._max_ready = 2
        self._waiting: dict[str, list[Job]] = {}
        # Outputs of tasks, until they are in their places.
        self._written: dict[tuple[int, int], Outputs] = {}
        # Items that came to be kept: whether each is here still. One that came and went was reported as here, so a job may be
        # sent that counts on it: then its job reports that it is missing. Items of ordered fetches are not in it.
        self._here: dict[str, bool] = {}
        self._is_closed = False
        # Called, with the lock, when a job has become ready.
        self.on_ready: Callable[[], None] = lambda: None
        self._running = 0
        self._asked_losses = 0.0
        self._transfers = ThreadPoolExecutor(_TRANSFERS, "thalweg-transfer")
        self._chores = ThreadPoolExecutor(_CHORES, "thalweg-chore")
        self._closing = threading.Event()
        if options.is_watched:
            threading.Thread(target=self._watch, name="thalweg-usage", daemon=True).start()

    def hello(self, slots: int) -> Hello:
        held = [(one.item.key, one.bytes, one.digest) for one in self._cache.contents()]
        self._here.update((key, True) for key, _, _ in held)
        self._cache.allow([key for key, _, _ in held])
        return Hello(slots, self._options.cache_bytes, self._cache.address, held)

    # The coordinator's orders.

    def receive(self, orders: Iterable[Order]) -> None:
        for order in orders:
            if isinstance(order, Run):
                self._accept(order)
            elif isinstance(order, Fetch):
                self._begin_fetching(order)
            elif isinstance(order, Evict):
                self._evict(order.keys)
            elif isinstance(order, Keep):
                self.values[order.digest] = order.pickled
            elif isinstance(order, Forget):
                for digest in order.digests:
                    self.values.pop(digest, None)
            elif isinstance(order, Recall):
                self._recall(order)
            elif isinstance(order, Publish):
                self._submit(self._chores, self._publish, order)
            elif isinstance(order, Drop):
                self._drop(order)

    def _submit(self, pool: ThreadPoolExecutor, act: Callable[..., None], *arguments: Any) -> None:
        try:
            pool.submit(self._guarded, act, *arguments)
        except RuntimeError:
            # Closed meanwhile.
            pass

    def _guarded(self, act: Callable[..., None], *arguments: Any) -> None:
        try:
            act(*arguments)
        except Exception:
            if not self._is_closed:
                _log.exception("a worker's agent failed")

    def _accept(self, run: Run) -> None:
        job = Job(run, self._folder, time.monotonic())
        pins: list[str] = []
        missing: list[Report] = []
        with self._changed:
            self._jobs[run.task] = job
            for key in run.inputs:
                if key in run.coming and not self._here.get(key):
                    self._waiting.setdefault(key, []).append(job)
                    if key in self._here:
                        missing.append(Missing(run.task, key))
                elif not self._pin_again(job, key):
                    pins.append(key)
            self._ready_if_complete(job)
        for key in pins:
            self._submit(self._chores, self._pin, job, key)
        if missing:
            self._report(*missing)

    def _pin_again(self, job: Job, key: str) -> bool:
        """With the lock held: whether it is pinned at once, since another job here has it pinned."""
        row = self._cache.pin_again(Item.of_key(key))
        if row is None:
            return False
        job.pinned.append(row)
        job.supply(key, row.path, "local", row.bytes, row.version)
        return True

    def _pin(self, job: Job, key: str) -> None:
        row = self._cache.pin(Item.of_key(key))
        with self._changed:
            if row is None:
                self._mark_gone([key])
                self._waiting.setdefault(key, []).append(job)
            else:
                job.pinned.append(row)
                self._supply(job, key, row.path, "local", row.bytes, row.version)
        if row is None:
            self._report(Missing(job.run.task, key))

    def _supply(self, job: Job, key: str, path: str, source: str, count: int, version: str | None) -> None:
        """With the lock held."""
        job.supply(key, path, source, count, version)
        self._ready_if_complete(job)

    def _ready_if_complete(self, job: Job) -> None:
        if self._jobs.get(job.run.task) is not job:
            # Recalled or failed: no task will take it.
            self._release(job)
        elif not job.missing_keys:
            self._ready.append(job)
            self._max_ready = max(self._max_ready, len(self._ready))
            self._changed.notify()
            self.on_ready()

    def _release(self, job: Job) -> None:
        for row in job.pinned:
            self._cache.unpin(row)
        for shared in job.shared:
            shared.users -= 1
            if shared.users == 0 and not self._is_closed:
                self._cache.release(shared.arrival)
        job.pinned, job.shared = [], []

    def _mark_gone(self, keys: Iterable[str]) -> None:
        """With the lock held."""
        self._here.update((key, False) for key in keys if key in self._here)

    def _evict(self, keys: list[str]) -> None:
        with self._changed:
            self._mark_gone(keys)
            # At once, for the orders that follow.
            self._cache.begin_evicting(keys)
        self._submit(self._chores, self._cache.finish_evicting)

    def _recall(self, order: Recall) -> None:
        with self._changed:
            job = self._jobs.get(order.task)
            is_mine = job is not None and job.run.attempt == order.attempt and not job.begun
            if job is not None and is_mine:
                self._remove(job)
        self._report(Answered(order.task, order.attempt, is_mine))

    def _remove(self, job: Job) -> None:
        """With the lock held: an attempt that has not begun."""
        del self._jobs[job.run.task]
        if job in self._ready:
            self._ready.remove(job)
        for waiting in self._waiting.values():
            if job in waiting:
                waiting.remove(job)
        self._release(job)

    # Transfers.

    def _begin_fetching(self, order: Fetch) -> None:
        if order.only_for is None:
            with self._changed:
                if not self._here.get(order.key):
                    self._here.pop(order.key, None)
        self._submit(self._transfers, self._fetch, order)

    def _fetch(self, order: Fetch) -> None:
        begun = time.monotonic()
        item = Item.of_key(order.key)
        is_kept = order.only_for is None
        try:
            arrival = self._bring(item, order, is_kept)
        except PeerFailed as error:
            # Of a busy one the copy is good: then the plan does not learn whose it was to be.
            self._report(Missed(order.key, order.only_for, "" if error.is_busy else order.peer, str(error)))
            return
        except Exception as error:
            self._fail_all(order, error)
            return
        if self._is_closed:
            self._cache.release(arrival)
            return
        count = arrival.bytes
        arrived = Arrived(order.key, order.only_for, count, arrival.digest, time.monotonic() - begun, arrival.kept)
        with self._changed:
            if not self._cache.is_current(arrival):
                # Written anew since: who waits for it by now is to have what is in the store.
                self._cache.release(arrival)
                self._submit(self._transfers, self._fetch, order._replace(peer=""))
                return
            if arrival.kept or is_kept:
                self._here[order.key] = arrival.kept
            # With the lock, so that no job says before that it is missing.
            self._send([arrived], False)
            self._share(order.key, arrival, self._awaiting(order))

    def _bring(self, item: Item, order: Fetch, is_kept: bool) -> Arrival:
        if order.peer:
            try:
                return self._bring_from_peer(item, order, is_kept)
            except PeerFailed as error:
                if not error.is_busy:
                    raise
                busy = error
            try:
                return self._cache.bring(item, "store", keep=is_kept, pin=is_kept)
            except Exception:
                # It may have what the store has lost.
                raise busy from None
        return self._store_retry.call(
            item.url, lambda: self._cache.bring(item, "store", keep=is_kept, pin=is_kept), lambda: self._is_closed
        )

    def _bring_from_peer(self, item: Item, order: Fetch, is_kept: bool) -> Arrival:
        """A peer that is busy is asked again a few times."""
        for pause_s in _BUSY_PAUSES_S:
            try:
                return self._cache.bring(item, order.peer, keep=is_kept, digest=order.digest, pin=is_kept)
            except PeerFailed as error:
                if not error.is_busy or self._is_closed:
                    raise
            time.sleep(pause_s)
        return self._cache.bring(item, order.peer, keep=is_kept, digest=order.digest, pin=is_kept)

    def _awaiting(self, order: Fetch) -> list[Job]:
        """Takes those out that wait for it."""
        waiting = self._waiting.get(order.key, [])
        mine = [job for job in waiting if order.only_for in (None, (job.run.task, job.run.attempt))]
        rest = [job for job in waiting if job not in mine]
        if rest:
            self._waiting[order.key] = rest
        else:
            self._waiting.pop(order.key, None)
        return mine

    def _share(self, key: str, arrival: Arrival, jobs: list[Job]) -> None:
        """It stays until the last of them has ended."""
        shared = _Shared(arrival)
        source = arrival.source
        for job in jobs:
            shared.users += 1
            job.shared.append(shared)
            self._supply(job, key, arrival.path, source, arrival.bytes, arrival.version)
            # It came once: the others found it here.
            source = "local"
        if shared.users == 0:
            self._cache.release(arrival)

    def _fail_all(self, order: Fetch, error: Exception) -> None:
        """The store does not have it: tasks that wait for it fail with that."""
        failure = Failure.of_fetch(error)
        with self._changed:
            jobs = self._awaiting(order)
            for job in jobs:
                self._remove(job)
        now = time.monotonic()
        ended: list[Report] = [
            Ended(job.run.task, job.run.attempt, None, failure, 0.0, 0.0, 0.0, job.sources, now) for job in jobs
        ]
        self._report(*ended, Missed(order.key, order.only_for, order.peer, failure.line))

    # Running.

    def take(self, timeout_s: float | None = None) -> Job | None:
        """A job with all its input; nothing when there is none in that time, or no more at all."""
        while (job := self._take(timeout_s)) is not None:
            try:
                job.outputs.prepare()
            except OSError as error:
                self.finish(job, Outcome(None, Failure.of(error)))
            else:
                break
        return job

    def _take(self, timeout_s: float | None) -> Job | None:
        since = time.monotonic()
        with self._changed:
            self._changed.wait_for(lambda: self._ready or self._is_closed, timeout_s)
            if self._is_closed or not self._ready:
                return None
            job = self._ready.popleft()
            self._running += 1
            job.begun = time.monotonic()
            job.slot_since = max(since, job.came) if job.run.coming else job.begun
        return job

    def runnable(self) -> int:
        """Jobs that run, or could."""
        with self._changed:
            return len(self._ready) + self._running

    @property
    def is_closed(self) -> bool:
        return self._is_closed

    def finish(self, job: Job, outcome: Outcome) -> None:
        ended = time.monotonic()
        run = job.run
        if outcome.failure is None:
            try:
                job.outputs.check()
            except OSError as error:
                outcome = Outcome(None, Failure.of(error))
        if outcome.failure is not None:
            outcome = outcome._replace(failure=outcome.failure.named(job.names()))
        with self._changed:
            self._running -= 1
            if self._jobs.get(run.task) is job:
                del self._jobs[run.task]
            self._release(job)
            if outcome.failure is None and run.outputs:
                job.outputs.input_versions = {key: version for key, version in job.versions if Item.of_key(key).whole}
                self._written[(run.task, run.attempt)] = job.outputs
            else:
                job.outputs.remove()
        fetch_s = job.begun - job.slot_since
        spent = (ended - job.begun, ended - job.slot_since, fetch_s)
        can_wait = outcome.failure is None and not run.outputs and len(self._ready) > self._max_ready // 2
        versions = job.versions if self._options.is_journaled else []
        report = Ended(run.task, run.attempt, outcome.result, outcome.failure, *spent, job.sources, ended, versions)
        report = report._replace(differing=tuple(name for name, _ in outcome.differing))
        self._report(report, can_wait=can_wait)

    def _watch(self) -> None:
        """Reports what the worker uses while it runs tasks, and once more when it has none."""
        then, before = time.monotonic(), process_tree_usage()
        was_running, interval_s = 0, _FIRST_USAGE_S
        while not self._closing.wait(interval_s):
            interval_s = _USAGE_INTERVAL_S
            now, used = time.monotonic(), process_tree_usage()
            running, longest = self._longest(now)
            if running or was_running:
                cores = max(0.0, used.processor_s - before.processor_s) / (now - then)
                self._report(Usage(now - then, cores, used.memory_bytes, running, longest), can_wait=True)
            then, before, was_running = now, used, running

    def _longest(self, now: float) -> tuple[int, list[tuple[int, float]]]:
        """How many tasks run, and which of them since when."""
        with self._changed:
            begun = [(job.run.task, now - job.begun) for job in self._jobs.values() if job.begun]
        return len(begun), heapq.nlargest(_MAX_LONGEST, begun, key=lambda one: one[1])

    def _publish(self, order: Publish) -> None:
        """The attempt counts: its outputs go where they belong, and into the cache."""
        with self._changed:
            written = self._written.pop((order.task, order.attempt), None)
        if written is None:
            return
        try:
            self._claim_folders(order, written)
            if written.has_recipe():
                self._put_with_recipe(written)
            else:
                for url, path in written.paths.items():
                    self._put(url, path, order)
            published = [self._adopt(url, path) for url, path in written.paths.items()]
        except Exception as error:
            self._report(Unpublished(order.task, order.attempt, Failure.of(error)))
        else:
            self._report(Published(order.task, order.attempt, published))
        finally:
            written.remove()

    def _claim_folders(self, order: Publish, written: Outputs) -> None:
        """Before anything of them appears, as the next attempt may find them half there."""
        folders = written.folders()
        options = self._options
        for url in folders:
            if url not in written.replaced:
                self._store_retry.call(
                    url,
                    lambda: outputs.check_free_for_folder(url, options.storage_options, options.store_stall_timeout_s),
                    lambda: self._is_closed,
                )
        if folders:
            self._report(Writing(order.task, order.attempt, folders))

    def _put_with_recipe(self, written: Outputs) -> None:
        """All outputs at once: they are of one store."""
        options = self._options
        act = partial(recorded.put, written, options.storage_options, options.store_stall_timeout_s)
        self._store_retry.call(next(iter(written.paths)), act, lambda: self._is_closed)

    def _put(self, url: str, path: str, order: Publish) -> None:
        mark = f"{self._options.run}-{order.task}-{order.attempt}"
        options = self._options
        self._store_retry.call(
            url,
            lambda: outputs.put(path, url, mark, options.storage_options, options.store_stall_timeout_s),
            lambda: self._is_closed,
        )

    def _adopt(self, url: str, path: str) -> PublishedOutput:
        """Puts an output, which is in its place, into the cache."""
        count, is_folder, options = size_of(path), os.path.isdir(path), self._options
        item = Item(url)
        with self._changed:
            self._mark_gone([item.key])
        self._cache.evict([item.key])
        held = self._cache.adopt(item, path) if count <= options.cache_bytes else None
        if held is None:
            version = self._cache.version(item) if options.is_journaled else None
            return PublishedOutput(url, count, b"", False, version, is_folder)
        with self._changed:
            self._here[item.key] = True
        return PublishedOutput(url, count, held.digest, True, held.version, is_folder)

    def _drop(self, order: Drop) -> None:
        with self._changed:
            written = self._written.pop((order.task, order.attempt), None)
        if written is not None:
            self._submit(self._chores, written.remove)

    def _report(self, *reports: Report, can_wait: bool = False) -> None:
        if self._is_closed:
            return
        lost = self._lost()
        if lost:
            with self._changed:
                self._mark_gone(lost)
            self._send([Lost(lost), *reports], can_wait)
        else:
            self._send(list(reports), can_wait)

    def _lost(self) -> list[str]:
        now = time.monotonic()
        if now < self._asked_losses + _LOSSES_INTERVAL_S:
            return []
        self._asked_losses = now
        return self._cache.lost()

    def close(self) -> None:
        """Runners that wait get nothing; what is under way ends by itself."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()
        self._closing.set()
        self._transfers.shutdown(wait=False, cancel_futures=True)
        self._chores.shutdown(wait=False, cancel_futures=True)
        self._cache.close()
        shutil.rmtree(self._folder, ignore_errors=True)
