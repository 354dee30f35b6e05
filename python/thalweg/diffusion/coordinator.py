"""The coordinator of a run: messages in, messages out. It does no I/O and reads no clock, and runs wherever the
back-end puts it: beside Dask's scheduler, or in a thread.

What runs where is decided by the plan (`_thalweg.Plan`). Here are what the plan has no use for: what tasks are made of,
how often they may fail, and who hears what came of them.
SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from thalweg._thalweg import EvictOrder, FetchOrder, Plan, RecallOrder, RunOrder
from thalweg.diffusion.cache.item import Item
from thalweg.diffusion.failure import Failure, InputFailed, WorkerLost
from thalweg.diffusion.messages import (
    Answered,
    Arrived,
    Drop,
    Ended,
    Event,
    Evict,
    Failed,
    Fetch,
    Folders,
    Forget,
    Hello,
    Keep,
    Lost,
    Missed,
    Missing,
    NoWorker,
    Order,
    Publish,
    Published,
    Recall,
    Report,
    Result,
    Run,
    Task,
    Tasks,
    Unpublished,
    Update,
    Usage,
    Writing,
)
from thalweg.diffusion.options import Options
from thalweg.diffusion.path_tree import PathTree

# A task whose processes died so often is taken to kill them.
_DEATHS = 5
# Workers that were there at the beginning are waited for so long, that a batch be cut for all of them.
_GATHER_S = 5.0
# Tasks wait for so long without any worker before the client hears of it.
_NO_WORKER_S = 5.0
# Rates until they are measured.
_STREAM_BYTES_PER_S = 1e8
_LINK_BYTES_PER_S = 1e9
_PEER_BYTES_PER_S = 2e8
_LOCAL_BYTES_PER_S = 2e9
_GUESS_BYTES = 16 << 20
# Workers' usage goes on as events so often, together and each.
_MAX_USAGES_PER_S = 10.0
# Weight of the newest in the mean of what tasks take.
_WEIGHT = 1 / 16


class _Entry:
    """A task from its coming to its end."""

    __slots__ = (
        *("task", "failures", "deaths", "attempts", "result", "publisher"),
        *("versions", "worker", "differing", "is_cancelled"),
    )

    def __init__(self, task: Task) -> None:
        self.task = task
        self.failures = 0
        self.deaths = 0
        self.attempts = 0
        self.result: bytes | None = None
        # The worker that writes its outputs to where they belong.
        self.publisher: int | None = None
        # Of its inputs, as the attempt that counts had them.
        self.versions: list[tuple[str, str | None]] = []
        # The worker that ran it, and the definitions that it has otherwise.
        self.worker = ""
        self.differing: tuple[str, ...] = ()
        self.is_cancelled = False


class _Worker:
    """`values` are functions and large arguments that it has, by digest."""

    __slots__ = ("name", "number", "address", "values", "orders", "publishing", "usage_due_s")

    def __init__(self, name: str, number: int, address: str) -> None:
        self.name = name
        self.number = number
        self.address = address
        self.values: set[bytes] = set()
        self.orders: list[Order] = []
        # Tasks whose outputs it is writing to where they belong.
        self.publishing = 0
        # When its usage is an event again.
        self.usage_due_s = 0.0


class Coordinator:
    """Times are seconds since the run began. `expected` workers are waited for before the first task goes out."""

    def __init__(self, options: Options, expected: int = 0) -> None:
        link = float(options.peer_bytes_per_s or _LINK_BYTES_PER_S)
        self._plan = Plan(
            options.policy,
            options.eviction,
            seed=options.seed,
            store_bytes_per_s=options.store_bytes_per_s,
            stream_bytes_per_s=_STREAM_BYTES_PER_S,
            peer_bytes_per_s=min(link, _PEER_BYTES_PER_S),
            link_bytes_per_s=link,
            local_bytes_per_s=max(link, _LOCAL_BYTES_PER_S),
            guess_bytes=min(_GUESS_BYTES, max(1, options.cache_bytes // 64)),
        )
        self._options = options
        self._expected = expected
        self._values: dict[bytes, bytes] = {}
        self._entries: dict[int, _Entry] = {}
        # The plan's numbers of tasks, by the client's.
        self._numbers: dict[int, int] = {}
        # Output folders that are the run's own.
        self._folders: set[str] = set()
        self._keys: list[str] = []
        self._digests: dict[str, bytes] = {}
        # Outputs of tasks that have not ended; and all items, by URL, once a task has written any.
        self._unwritten = PathTree()
        self._known: PathTree | None = None
        self._workers: dict[str, _Worker] = {}
        self._numbered: dict[int, _Worker] = {}
        self._addresses: dict[str, int] = {}
        self._early: list[Tasks] = []
        self._updates: list[Update] = []
        # The clock of the worker that speaks, before ours.
        self._ahead_s = 0.0
        # The time a task has its slot, as soon as one has ended.
        self._task_s: float | None = None
        self._slots = options.slots or 1
        # Since when tasks wait without any worker, and whether the client has heard of it.
        self._workerless_since_s: float | None = None
        self._is_workerless_known = False

    # From the client.

    def keep(self, digest: bytes, pickled: bytes) -> None:
        """A function or a large argument of tasks that follow."""
        self._values[digest] = pickled

    def forget(self, digests: list[bytes]) -> None:
        """No task needs them any more, unless they come again."""
        for digest in digests:
            self._values.pop(digest, None)
        for worker in self._workers.values():
            gone = [digest for digest in digests if digest in worker.values]
            if gone:
                worker.values.difference_update(gone)
                worker.orders.append(Forget(gone))

    def cancel(self, now_s: float, client_numbers: Iterable[int]) -> None:
        """Cancels tasks: waiting ones do not run, also at a worker, and results of running ones are dropped."""
        cancelled = set(client_numbers)
        before = self._early_count()
        self._early = _without(self._early, cancelled)
        if self._early_count() < before:
            self._event("cancelled", t=now_s, count=before - self._early_count())
        for client_number in cancelled:
            number = self._numbers.get(client_number)
            if number is None:
                continue
            if self._entries[number].publisher is not None:
                # Its outputs are on their way.
                continue
            if self._plan.cancel(number):
                self._end_cancelled(now_s, number)
            else:
                self._entries[number].is_cancelled = True

    def _end_cancelled(self, now_s: float, number: int) -> None:
        entry = self._forgotten(number)
        self._event("cancelled", t=now_s, count=1)
        self._give_up_followers(now_s, number, f"{entry.task.name}, which was to write an input, was cancelled")

    def submit(self, now_s: float, tasks: Tasks) -> None:
        self._event("submitted", t=now_s, count=len(tasks.tasks))
        # Nothing overtakes what waits: tasks enter in the order of submission, and the last of a batch ends it.
        if self._early or self._is_gathering(now_s):
            self._early.append(tasks)
        else:
            self._enter(now_s, tasks)

    def _enter(self, now_s: float, tasks: Tasks) -> None:
        last = len(tasks.tasks) - 1
        for at, task in enumerate(tasks.tasks):
            inputs = [self._item(key) for key in task.inputs]
            # Outputs that the inputs are part of, or made of, and that others have yet to write.
            awaited = [item for key in task.inputs for item in self._unwritten.overlapping(Item.of_key(key).url)]
            outputs = [self._item(Item(url).key) for url in task.outputs]
            displaced = [item for url in task.outputs for item in self._overlapping(url)]
            is_last = tasks.is_last and at == last
            number = self._plan.submit(now_s, inputs, awaited, outputs, displaced, is_last)
            for url, item in zip(task.outputs, outputs):
                self._unwritten.add(url, item)
            self._entries[number] = _Entry(task)
            self._numbers[task.number] = number

    def _early_count(self) -> int:
        return sum(len(tasks.tasks) for tasks in self._early)

    # From workers.

    def receive(self, now_s: float, name: str, reports: Iterable[Report], sent_s: float) -> None:
        """`sent_s` is the worker's clock when it sent them: reports may have waited for others."""
        self._ahead_s = sent_s - now_s
        for report in reports:
            if isinstance(report, Hello):
                self._join(now_s, name, report)
                continue
            worker = self._workers.get(name)
            if worker is not None:
                self._on_report(now_s, worker, report)

    def gone(self, now_s: float, name: str, why: str = "", is_orderly: bool = False) -> None:
        """The worker is no more; what it had under way is for others. `is_orderly` when no task can have been the
        cause."""
        worker = self._workers.pop(name, None)
        if worker is None:
            return
        del self._numbered[worker.number]
        self._addresses.pop(worker.address, None)
        self._event("left", t=now_s, worker=name, why=why)
        lost = self._plan.leave(now_s, worker.number)
        if worker.publishing:
            lost += [number for number, entry in self._entries.items() if entry.publisher == worker.number]
        for number in lost:
            was_done = self._entries[number].publisher is not None
            self._entries[number].publisher = None
            if self._entries[number].is_cancelled:
                self._end_cancelled(now_s, number)
            else:
                self._died(now_s, number, was_done, is_orderly, name)

    # The orders that follow.

    def collect(self, now_s: float) -> tuple[dict[str, list[Order]], list[Update]]:
        """Orders for each worker, and updates for the client, since the last call."""
        if self._early and not self._is_gathering(now_s):
            early, self._early = self._early, []
            for tasks in early:
                self._enter(now_s, tasks)
        for order in self._plan.orders(now_s):
            self._add_order(order)
        orders = {}
        for worker in self._workers.values():
            if worker.orders:
                orders[worker.name], worker.orders = worker.orders, []
        self._note_workers(now_s)
        updates, self._updates = self._updates, []
        return orders, updates

    def next_wake_s(self) -> float | None:
        """When to collect again, though nothing should happen until then."""
        if self._workerless_since_s is not None:
            return None if self._is_workerless_known else self._workerless_since_s + _NO_WORKER_S
        if self._early:
            return _GATHER_S if self._workers else None
        return self._plan.next_wake_s()

    def _note_workers(self, now_s: float) -> None:
        """Clusters may take hours until they have a worker, so the run goes on; but not silently."""
        waiting = self._early_count() + len(self._entries)
        if self._workers or not waiting:
            if self._is_workerless_known:
                self._updates.append(NoWorker(0, now_s - (self._workerless_since_s or now_s)))
            self._workerless_since_s, self._is_workerless_known = None, False
            return
        if self._workerless_since_s is None:
            self._workerless_since_s = now_s
        elif not self._is_workerless_known and now_s - self._workerless_since_s >= _NO_WORKER_S:
            self._is_workerless_known = True
            self._updates.append(NoWorker(waiting, now_s - self._workerless_since_s))

    def last_copy_bytes(self, name: str) -> int:
        """The items that would be lost to all caches with this worker."""
        worker = self._workers.get(name)
        return 0 if worker is None else self._plan.last_copy_bytes(worker.number)

    def is_idle(self, name: str) -> bool:
        """Whether the worker can go without taking a task with it."""
        worker = self._workers.get(name)
        return worker is None or (worker.publishing == 0 and self._plan.is_idle(worker.number))

    def wanted_workers(self, drain_s: float, guess_s: float) -> int:
        """How many there should be, for all to be done within `drain_s`. A task takes `guess_s` until one has ended."""
        task_s = guess_s if self._task_s is None else self._task_s
        return self._plan.wanted_workers(self._early_count(), task_s, drain_s, self._slots)

    def _is_gathering(self, now_s: float) -> bool:
        # Nothing runs without a worker anyway, and a batch is best cut when all are there.
        return not self._workers or (len(self._workers) < self._expected and now_s < _GATHER_S)

    def _item(self, key: str) -> int:
        number = self._plan.item(key)
        if number == len(self._keys):
            self._keys.append(key)
            if self._known is not None:
                self._known.add(Item.of_key(key).url, number)
        return number

    def _overlapping(self, url: str) -> list[int]:
        """The items that are parts of what lies at the URL, or have it as a part."""
        if self._known is None:
            self._known = PathTree()
            for number, key in enumerate(self._keys):
                self._known.add(Item.of_key(key).url, number)
        return self._known.overlapping(url)

    def _join(self, now_s: float, name: str, hello: Hello) -> None:
        if name in self._workers:
            self.gone(now_s, name, "joined anew")
        held = []
        for key, count, digest in hello.held:
            held.append((self._item(key), count))
            self._digests.setdefault(key, digest)
        number = self._plan.join(now_s, hello.slots, hello.cache_bytes, held)
        worker = _Worker(name, number, hello.address)
        self._workers[name] = self._numbered[number] = worker
        self._addresses[hello.address] = number
        self._slots = hello.slots
        if len(self._workers) >= self._expected:
            self._expected = 0
        self._event("joined", t=now_s, worker=name, slots=hello.slots)

    def _on_report(self, now_s: float, worker: _Worker, report: Report) -> None:
        if isinstance(report, Ended):
            self._ended(now_s, worker, report)
        elif isinstance(report, Arrived):
            self._digests[report.key] = report.digest
            item = self._item(report.key)
            self._plan.arrived(now_s, worker.number, item, report.only_for, report.size, report.kept, report.seconds)
        elif isinstance(report, Missed):
            peer = self._addresses.get(report.peer)
            self._plan.missed(now_s, worker.number, self._item(report.key), report.only_for, peer)
            source = "peer" if report.peer else "store"
            self._event(
                "fetch_failed", t=now_s, worker=worker.name, item_key=report.key, source=source, error=report.why
            )
        elif isinstance(report, Missing):
            self._plan.missing(now_s, worker.number, report.task, self._item(report.key))
        elif isinstance(report, Lost):
            for key in report.keys:
                self._plan.lost(now_s, worker.number, self._item(key))
        elif isinstance(report, Writing):
            self._folders.update(report.folders)
            self._updates.append(Folders(report.folders))
        elif isinstance(report, Published):
            self._published(now_s, worker, report)
        elif isinstance(report, Unpublished):
            self._unpublished(now_s, worker, report)
        elif isinstance(report, Usage):
            self._used(now_s, worker, report)
        elif isinstance(report, Answered):
            self._answered(now_s, worker, report)

    def _answered(self, now_s: float, worker: _Worker, report: Answered) -> None:
        entry = self._entries.get(report.task)
        if report.given_back and (entry is None or not entry.is_cancelled):
            self._plan.returned(now_s, worker.number, report.task, report.attempt)
            return
        self._plan.answered(worker.number)
        if report.given_back and self._plan.ended(worker.number, report.task, report.attempt, None):
            self._end_cancelled(now_s, report.task)

    def _ended(self, now_s: float, worker: _Worker, report: Ended) -> None:
        seconds = report.seconds if report.failure is None else None
        entry = self._entries.get(report.task)
        if not self._plan.ended(worker.number, report.task, report.attempt, seconds) or entry is None:
            worker.orders.append(Drop(report.task, report.attempt))
            return
        if entry.is_cancelled:
            worker.orders.append(Drop(report.task, report.attempt))
            self._end_cancelled(now_s, report.task)
            return
        entry.attempts = report.attempt
        entry.versions = report.versions
        entry.worker, entry.differing = worker.name if report.differing else "", report.differing
        if report.failure is not None:
            self._failed(now_s, worker, report, report.failure)
            return
        self._event("done", inputs=report.inputs, **self._spent(now_s, worker, report))
        before_s = report.slot_s if self._task_s is None else self._task_s
        self._task_s = before_s + (report.slot_s - before_s) * _WEIGHT
        entry.result = report.result
        if entry.task.outputs:
            entry.publisher = worker.number
            worker.publishing += 1
            worker.orders.append(Publish(report.task, report.attempt))
        else:
            self._done(now_s, report.task)

    def _spent(self, now_s: float, worker: _Worker, report: Ended) -> dict[str, Any]:
        entry = self._entries[report.task]
        return {
            "t": max(0.0, min(now_s, report.at_s - self._ahead_s)),
            "worker": worker.name,
            "task": entry.task.number,
            "attempt": report.attempt,
            "name": entry.task.name,
            "seconds": report.slot_s,
            "fetch_s": report.fetch_s,
        }

    def _failed(self, now_s: float, worker: _Worker, report: Ended, failure: Failure) -> None:
        spent = self._spent(now_s, worker, report)
        worker.orders.append(Drop(report.task, report.attempt))
        is_final = self._is_final(self._entries[report.task], failure)
        self._event(
            "failed", inputs=report.inputs, error=failure.line, traceback=failure.trace, final=is_final, **spent
        )
        self._try_again(now_s, report.task, failure, is_final)

    def _is_final(self, entry: _Entry, failure: Failure) -> bool:
        if failure.died:
            entry.deaths += 1
            return entry.deaths > max(_DEATHS, self._options.retries)
        entry.failures += 1
        return entry.failures > self._options.retries

    def _try_again(self, now_s: float, number: int, failure: Failure, is_final: bool) -> None:
        if not is_final:
            self._plan.again(now_s, number)
            return
        name = self._entries[number].task.name
        self._give_up(number, failure)
        self._give_up_followers(now_s, number, f"{name}, which was to write an input, failed: {failure.line}")

    def _give_up_followers(self, now_s: float, number: int, why: str) -> None:
        """Tasks that would have read what the task was to write."""
        for follower in self._plan.abandon(now_s, number):
            failure = Failure.of(InputFailed(why))
            self._failed_event(now_s, follower, failure, True)
            self._give_up(follower, failure)

    def _failed_event(
        self, now_s: float, number: int, failure: Failure, is_final: bool, was_done: bool = False
    ) -> None:
        """Of a failure that is no attempt's end: there was none, its worker is gone, or it had ended well."""
        entry = self._entries[number]
        spent = {"t": now_s, "worker": "", "seconds": 0.0, "fetch_s": 0.0, "inputs": []}
        task = {"task": entry.task.number, "attempt": entry.attempts, "name": entry.task.name}
        details = {"error": failure.line, "traceback": failure.trace, "final": is_final, "was_done": was_done}
        self._event("failed", **spent, **task, **details)

    def _give_up(self, number: int, failure: Failure) -> None:
        entry = self._forgotten(number)
        self._updates.append(Failed(entry.task.number, failure, entry.attempts))

    def _forgotten(self, number: int) -> _Entry:
        entry = self._entries.pop(number)
        self._numbers.pop(entry.task.number, None)
        for url in entry.task.outputs:
            self._unwritten.remove(url, self._item(Item(url).key))
        return entry

    def _died(self, now_s: float, number: int, was_done: bool, is_orderly: bool, worker: str) -> None:
        """The task was under way, or its outputs were, on a worker that is no more."""
        entry = self._entries[number]
        failure = Failure.of(WorkerLost(_lost(entry.task.name, entry.deaths + 1, worker)), died=True)
        is_final = not is_orderly and self._is_final(entry, failure)
        if was_done or not is_orderly:
            self._failed_event(now_s, number, failure, is_final, was_done)
        self._try_again(now_s, number, failure, is_final)

    def _used(self, now_s: float, worker: _Worker, usage: Usage) -> None:
        """With many workers each says it more seldom."""
        if now_s < worker.usage_due_s:
            return
        worker.usage_due_s = now_s + len(self._workers) / _MAX_USAGES_PER_S
        longest = []
        for number, seconds in usage.longest:
            entry = self._entries.get(number)
            if entry is not None:
                longest.append({"task": entry.task.number, "name": entry.task.name, "seconds": round(seconds, 3)})
        self._event("usage", t=now_s, worker=worker.name, **{**usage._asdict(), "longest": longest})

    def _published(self, now_s: float, worker: _Worker, report: Published) -> None:
        entry = self._entries.get(report.task)
        if entry is None or entry.publisher != worker.number or entry.attempts != report.attempt:
            return
        for output in report.outputs:
            key = Item(output.url).key
            if output.digest:
                self._digests[key] = output.digest
            else:
                self._digests.pop(key, None)
            item = self._item(key)
            for other in self._overlapping(output.url):
                if other != item:
                    self._digests.pop(self._keys[other], None)
                    self._plan.outdated(now_s, other)
            self._plan.wrote(now_s, worker.number, item, output.size, output.is_adopted)
        worker.publishing -= 1
        self._done(now_s, report.task, [(one.url, one.size, one.version) for one in report.outputs])

    def _unpublished(self, now_s: float, worker: _Worker, report: Unpublished) -> None:
        entry = self._entries.get(report.task)
        if entry is not None and entry.publisher == worker.number and entry.attempts == report.attempt:
            entry.publisher = None
            worker.publishing -= 1
            is_final = self._is_final(entry, report.failure)
            self._failed_event(now_s, report.task, report.failure, is_final, was_done=True)
            self._try_again(now_s, report.task, report.failure, is_final)

    def _done(self, now_s: float, number: int, outputs: Iterable[tuple[str, int, str | None]] = ()) -> None:
        self._plan.done(now_s, number)
        entry = self._forgotten(number)
        result = entry.result or b""
        outcome = Result(entry.task.number, result, entry.attempts, entry.versions, list(outputs))
        self._updates.append(outcome._replace(worker=entry.worker, differing=entry.differing))

    def _add_order(self, order: RunOrder | FetchOrder | EvictOrder | RecallOrder) -> None:
        """Translates an order of the plan, whose items and peers are numbers, for the worker."""
        worker = self._numbered.get(order.worker)
        if worker is None:
            return
        if isinstance(order, RunOrder):
            self._add_run(worker, order)
        elif isinstance(order, FetchOrder):
            peer = self._numbered.get(order.peer) if order.peer is not None else None
            key = self._keys[order.item]
            address = "" if peer is None else peer.address
            worker.orders.append(Fetch(key, address, self._digests.get(key), order.only_for))
        elif isinstance(order, EvictOrder):
            worker.orders.append(Evict([self._keys[item] for item in order.items]))
        else:
            worker.orders.append(Recall(order.task, order.attempt))

    def _add_run(self, worker: _Worker, order: RunOrder) -> None:
        task = self._entries[order.task].task
        for digest in (task.function, *task.values):
            if digest not in worker.values:
                worker.values.add(digest)
                worker.orders.append(Keep(digest, self._values[digest]))
        keys = tuple(self._keys[item] for item in order.coming)
        replaced = tuple(url for url in task.outputs if url in task.replaced or url in self._folders)
        names = (task.function, task.payload, task.values, task.inputs, task.outputs)
        worker.orders.append(Run(order.task, order.attempt, *names, keys, replaced, task.name))

    def _event(self, kind: str, **arguments: Any) -> None:
        self._updates.append(Event(kind, arguments))


def _without(early: list[Tasks], cancelled: set[int]) -> list[Tasks]:
    """The tasks left of them. Where the last of a batch is cancelled, the one before it ends the batch."""
    left: list[Tasks] = []
    for tasks in early:
        rest = [task for task in tasks.tasks if task.number not in cancelled]
        if rest:
            left.append(Tasks(rest, tasks.is_last))
        elif tasks.is_last and left:
            left[-1] = left[-1]._replace(is_last=True)
    return left


def _lost(task: str, times: int, worker: str) -> str:
    often = "its worker was lost" if times == 1 else f"workers were lost {times} times while they ran it"
    return (
        f"{task}: {often} (last: {worker}). If the function crashes, it takes a Dask worker with it; Diffusion(timeout_s=...) "
        "runs tasks in processes of their own, and says how these end"
    )
