"""A run as its client sees it: tasks on their way out, results on their way in.

It knows neither `Diffusion` nor `Results`, so that these can be collected when the program drops them, and the run
ends. SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import itertools
import logging
import math
import os
import struct
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any, NamedTuple

from thalweg.diffusion.after_collection import when_collected
from thalweg.diffusion.arguments import label
from thalweg.diffusion.backend import Backend
from thalweg.diffusion.call_digest import Definitions, SentDefinitions, Shipped
from thalweg.diffusion.calls import Apart, Call, Reference, Value, packed, unsendable
from thalweg.diffusion.evidence import Evidence, Inspector
from thalweg.diffusion.failure import Failure, InputFailed
from thalweg.diffusion.feeder import Feeder
from thalweg.diffusion.futures import Scattered, TaskFuture
from thalweg.diffusion.journal import Journal
from thalweg.diffusion.messages import Event, Failed, Folders, NoWorker, Result, Task, Tasks, Update
from thalweg.diffusion.options import Options
from thalweg.diffusion.pickling import captured, dumps
from thalweg.diffusion.repeated_pickling import RepeatedPickling
from thalweg.diffusion.report.record import Record
from thalweg.diffusion.results import Sink
from thalweg.diffusion.values import SentValues
from thalweg.diffusion.waiter import Waiter
from thalweg.error_code import RUN_LOST, Coded, code_of, misuse, without_code

_log = logging.getLogger("thalweg.diffusion")

# Tasks in a message; in the first one few, so that a worker begins while the others are made ready.
_CHUNK = 2000
_FIRST_CHUNK = 100
# After waiting so long a warning says that an iterator's results are not read.
_WARN_AFTER_S = 10.0


class RunLost(Coded, ConnectionError):
    """The coordinator is gone, with Dask's scheduler or by a fault of ours; a new start with the same run folder goes
    on where this one ended."""

    code = RUN_LOST


class Function(NamedTuple):
    """`digest` is its code's, for the journal; `definitions` are those of the user's modules when it was taken."""

    value: Value
    label: str
    digest: bytes
    definitions: Definitions


class Calls(NamedTuple):
    """The calls of one map or submit. `apart` remembers what was pickled of those arguments that are all there: `is_held`
    says it of each iterable."""

    sink: Sink | TaskFuture[Any]
    function: Function
    keywords: dict[str, Any]
    apart: Apart
    is_held: tuple[bool, ...]

    def packed(self, arguments: tuple[Any, ...]) -> Call:
        apart = self.apart if all(self.is_held) else self.apart.copy()
        call = _packed(self.function, arguments, self.keywords, apart)
        if apart is not self.apart:
            for is_held, argument in zip(self.is_held, arguments):
                if is_held:
                    self.apart.keep(argument, apart)
        return call


class Run:
    """Thread-safe."""

    def __init__(
        self, options: Options, record: Record, journal: Journal | None, begin: Callable[[Any, Any], Backend]
    ) -> None:
        self._record, self._journal = record, journal
        self._inspector = None if journal is None else Inspector(options)
        self._version = options.version
        self._sent = SentDefinitions()
        self._repeated = RepeatedPickling()
        self._process = os.getpid()
        # Workers and names that were warned of.
        self._warned: set[tuple[str, tuple[str, ...]]] = set()
        self._changed = threading.Condition()
        self._waiters: dict[int, Waiter] = {}
        # Tasks that wait for futures, and iterators that are being read.
        self._blocked: set[Waiter] = set()
        self._feeders: set[Feeder] = set()
        # Maps whose iterator raised.
        self._faulty: list[Sink] = []
        self._waiting = 0
        self._naming = threading.Lock()
        self._repeats: dict[bytes, int] = {}
        self._numbers = itertools.count()
        self._lost: BaseException | None = None
        self._is_closed = False
        self._backend = begin(self._on_updates, self._on_backend_lost)
        self._values = SentValues(self._backend)

    # Tasks.

    def function(self, function: Callable[..., Any]) -> Function:
        """As it is now, with all that it captured."""
        self.check()
        if not callable(function):
            raise misuse(TypeError, f"{function!r} cannot be called: the first argument is the function")
        name = label(function)
        definitions, digest = Definitions(), b""
        if self._journal is not None:
            digest = definitions.function_digest(function, name + self._version)
        try:
            value = self._shipped(function, definitions)
        except TypeError as error:
            raise misuse(TypeError, f"{name}: {error}") from error
        return Function(value, name, digest, definitions)

    def _shipped(self, function: Any, definitions: Definitions) -> Value:
        """With what workers are to have in the user's modules."""
        pickled = captured(function)
        if self._journal is not None:
            return Value.of(dumps(Shipped.of(pickled, definitions.of(function), True)))
        value = Value.of(pickled)
        found = self._sent.of(function, value.digest)
        return Value.of(dumps(Shipped.of(pickled, found, False))) if found else value

    def scatter(self, value: Any) -> Scattered:
        self.check()
        pickled = Value.of(captured(value))
        scattered = Scattered(pickled, pickled.digest if self._journal is None else Definitions().digest_of(value))
        digests = self._values.use([pickled])
        when_collected(scattered, self._values.release, digests)
        return scattered

    def submit(self, future: TaskFuture[Any], function: Function, arguments: tuple[Any, ...], keywords: Any) -> None:
        calls = Calls(future, function, keywords, Apart(), (True,))
        call = _packed(function, arguments, keywords)
        self._repeated.note(function.label, call)
        with _Batch(self._backend) as batch:
            self._add(calls, batch, 0, arguments, arguments, call)

    def map(self, calls: Calls, numbered: Iterable[tuple[int, tuple[Any, ...], Any]]) -> None:
        """Sends all at once. A call that cannot be sent fails its task alone."""
        assert isinstance(calls.sink, Sink)
        numbered = iter(numbered)
        with _Batch(self._backend) as batch:
            size = _FIRST_CHUNK
            while chunk := list(itertools.islice(numbered, size)):
                self._submit_chunk(calls, chunk, batch)
                batch.flush()
                size = min(2 * size, _CHUNK)
        calls.sink.complete()

    def feed(self, calls: Calls, numbered: Iterator[tuple[int, tuple[Any, ...], Any]]) -> None:
        """As tasks end, in a thread of its own."""
        feeder = Feeder(self, calls, numbered)
        with self._changed:
            self._feeders.add(feeder)
        threading.Thread(target=feeder.run, name="thalweg-feeder", daemon=True).start()

    def submit_chunk(self, calls: Calls, chunk: list[tuple[int, tuple[Any, ...], Any]]) -> None:
        with _Batch(self._backend) as batch:
            self._submit_chunk(calls, chunk, batch)

    def _submit_chunk(self, calls: Calls, chunk: list[tuple[int, tuple[Any, ...], Any]], batch: _Batch) -> None:
        self.check()
        assert isinstance(calls.sink, Sink)
        ready = []
        for index, arguments, shown in chunk:
            calls.sink.count()
            try:
                ready.append((index, arguments, shown, calls.packed(arguments)))
            except Exception as error:
                Waiter(calls.sink, index, shown, False).resolve(0, None, Failure.of(error))
        self._prefetch(calls, ready)
        for one in ready:
            self._add(calls, batch, *one)

    def _add(self, calls: Calls, batch: _Batch, index: int, arguments: tuple[Any, ...], shown: Any, call: Call) -> None:
        waiter = Waiter(calls.sink, index, shown, bool(call.outputs))
        futures = [one for one in call.values if isinstance(one, TaskFuture) and not one.done()]
        if not futures:
            self._enter(calls, waiter, arguments, call, batch)
            return
        with self._changed:
            self._blocked.add(waiter)
        unblock = partial(self._unblock, calls, waiter, arguments, call)
        _Unblocking(len(futures), lambda: self._apart(unblock)).wait_for(futures)

    def _apart(self, act: Callable[[], None]) -> None:
        """Not in the back-end's thread, where it may have to ask a store."""
        if self._journal is not None and self._journal.has_any:
            threading.Thread(target=act, name="thalweg-submit", daemon=True).start()
        else:
            act()

    def _unblock(self, calls: Calls, waiter: Waiter, arguments: tuple[Any, ...], call: Call) -> None:
        with self._changed:
            if waiter not in self._blocked:
                # Cancelled, or the run has ended.
                return
        try:
            with _Batch(self._backend) as batch:
                self._enter(calls, waiter, arguments, call, batch)
        except BaseException as error:
            waiter.abandon(error)
        with self._changed:
            self._blocked.discard(waiter)
            self._changed.notify_all()

    def _enter(self, calls: Calls, waiter: Waiter, arguments: tuple[Any, ...], call: Call, batch: _Batch) -> None:
        """Nothing is to be done for what the journal has."""
        try:
            values = [one.value() if isinstance(one, Reference) else one for one in call.values]
        except BaseException as error:
            # Also one that was cancelled.
            failed = InputFailed(f"{calls.function.label}: a task that was to compute an argument failed: {error!r}")
            failed.__cause__ = error
            waiter.resolve(0, None, Failure.of(failed))
            return
        waiter.name = self._name(calls, arguments)
        known = self._known(waiter.name)
        if known is not None:
            waiter.resolve(0, known, None)
            return
        if self._inspector is not None:
            self._inspector.will_write(call.outputs)
        waiter.keywords = calls.keywords
        waiter.values = self._values.use([calls.function.value, *values])
        number = next(self._numbers)
        with self._changed:
            self._waiters[number] = waiter
        function, *rest = waiter.values
        name = calls.function.label
        replaced = tuple(url for url in call.outputs if url in call.replaced or self._has_folder(url))
        batch.add(Task(number, function, name, call.payload, tuple(rest), call.inputs, call.outputs, replaced))

    # The journal.

    def _name(self, calls: Calls, arguments: tuple[Any, ...]) -> bytes | None:
        """Of equal calls, the first, the second, … of a run are the same ones when it is started again."""
        if self._journal is None:
            return None
        function = calls.function
        name = function.definitions.call_digest(function.digest, arguments, calls.keywords)
        with self._naming:
            repeat = self._repeats.get(name, 0)
            self._repeats[name] = repeat + 1
        return name + struct.pack("<I", repeat)

    def _prefetch(self, calls: Calls, ready: list[Any]) -> None:
        """Asks the stores for what all of them read and wrote, together."""
        if self._journal is None or self._inspector is None or not self._journal.has_any:
            return
        named = partial(calls.function.definitions.call_digest, calls.function.digest)
        names = {named(one[1], calls.keywords) for one in ready if not one[3].values}
        found = [self._journal.find(name + struct.pack("<I", 0)) for name in names]
        self._inspector.prefetch(one[0] for one in found if one is not None)

    def _has_folder(self, url: str) -> bool:
        return self._journal is not None and self._journal.has_folder(url)

    def _known(self, name: bytes | None) -> bytes | None:
        if self._journal is None or self._inspector is None or name is None:
            return None
        found = self._journal.find(name)
        return found[1] if found is not None and self._inspector.holds(found[0]) else None

    # From the back-end, in its thread.

    def _on_updates(self, updates: list[Update]) -> None:
        done: list[tuple[bytes, Evidence, bytes]] = []
        ended: list[tuple[Waiter, Result | Failed]] = []
        for one in updates:
            if isinstance(one, Event):
                self._record.event(one, self._arguments_of)
                continue
            if isinstance(one, NoWorker):
                _note_workers(one)
                continue
            if isinstance(one, Folders):
                if self._journal is not None:
                    self._journal.write_folders(one.urls)
                continue
            with self._changed:
                waiter = self._waiters.pop(one.number, None)
            if waiter is not None:
                ended.append((waiter, one))
                if isinstance(one, Result) and one.differing:
                    self._warn_of(one)
                elif isinstance(one, Result) and waiter.name is not None:
                    done.append((waiter.name, Evidence.of(one), one.result))
        if self._journal is not None and done:
            self._journal.write(done)
        for waiter, one in ended:
            self._values.release(waiter.values)
            if isinstance(one, Result):
                waiter.resolve(one.attempts, one.result, None)
            else:
                waiter.resolve(one.attempts, None, one.failure)
        with self._changed:
            self._changed.notify_all()
            feeders = list(self._feeders)
        for feeder in feeders:
            if feeder.is_due():
                self._apart(feeder.flush_quietly)

    def _warn_of(self, result: Result) -> None:
        """A worker called other code than this process has."""
        if (result.worker, result.differing) not in self._warned:
            self._warned.add((result.worker, result.differing))
            _log.warning(
                "worker %s has imported other versions of %s than this process, and called those%s. Where this process "
                "has the old ones, reload them here; otherwise restart the workers",
                *(result.worker, ", ".join(result.differing)),
                "" if self._journal is None else "; the results of these calls are not kept in the journal",
            )

    def _arguments_of(self, number: int) -> tuple[Any, dict[str, Any]]:
        with self._changed:
            waiter = self._waiters[number]
        return waiter.arguments, waiter.keywords

    def _on_backend_lost(self, error: BaseException) -> None:
        lost = RunLost(f"the run ended early: {without_code(str(error))}")
        # What ended it says more than that it ended.
        lost.code = code_of(error, RunLost.code)
        lost.__cause__ = error
        with self._changed:
            if self._lost is not None:
                return
            self._lost = lost
        self._abandon(lost)

    def _abandon(self, error: BaseException) -> None:
        with self._changed:
            waiters = [*self._waiters.values(), *self._blocked]
            self._waiters, self._blocked = {}, set()
            feeders = list(self._feeders)
            self._changed.notify_all()
        for waiter in waiters:
            waiter.abandon(error)
        for feeder in feeders:
            feeder.sink.abandon(error)

    def check(self) -> None:
        """Raises if no worker is left to run anything."""
        if self._is_forked:
            raise misuse(
                RuntimeError,
                f"this Diffusion belongs to process {self._process}, of which this one is a fork; make one here",
            )
        if self._is_closed:
            raise misuse(RuntimeError, "this run has ended")
        if self._lost is None:
            self._backend.check()
        if self._lost is not None:
            raise self._lost

    # The end.

    def cancel(self, sink: Sink | TaskFuture[Any]) -> None:
        self._stop_feeding(sink, None)
        self._withdraw(lambda waiter: waiter.sink is sink)

    def leave(self, sink: Sink) -> None:
        """Handles results that the program has dropped."""
        if sink.leave() and not self._is_closed:
            self._give_up(sink)

    def _give_up(self, sink: Sink, error: BaseException | None = None) -> None:
        """Withdraws its tasks, but for those with outputs."""
        self._stop_feeding(sink, error)
        self._withdraw(lambda waiter: waiter.sink is sink and not waiter.has_outputs)

    def _stop_feeding(self, sink: Sink | TaskFuture[Any], error: BaseException | None) -> None:
        """Before its tasks are withdrawn, that no more follow. The iterator may never return."""
        with self._changed:
            feeders = [feeder for feeder in self._feeders if feeder.sink is sink]
        for feeder in feeders:
            feeder.stop(error)
        with self._changed:
            self._feeders.difference_update(feeders)
            self._changed.notify_all()

    def _withdraw(self, is_unwanted: Callable[[Waiter], bool]) -> None:
        with self._changed:
            numbers = [number for number, waiter in self._waiters.items() if is_unwanted(waiter)]
            withdrawn = [self._waiters.pop(number) for number in numbers]
            blocked = [waiter for waiter in self._blocked if is_unwanted(waiter)]
            self._blocked.difference_update(blocked)
            self._changed.notify_all()
        if numbers and not self._is_closed:
            self._backend.cancel(numbers)
        for waiter in withdrawn + blocked:
            self._values.release(waiter.values)
            if isinstance(waiter.sink, Sink):
                waiter.sink.withdraw()

    def is_waited_for(self) -> bool:
        return self._waiting > 0

    def fed(self, feeder: Feeder, has_failed: bool) -> None:
        with self._changed:
            self._feeders.discard(feeder)
            if has_failed:
                self._faulty.append(feeder.sink)
            self._changed.notify_all()

    def wait(self, is_end: bool = False) -> None:
        """Waits until all submitted tasks have ended. Raises an unread exception of an iterator of arguments. At
        the end of the run an iterator is given up whose results were read in part and are read no more."""
        self.check()
        with self._changed:
            self._waiting += 1
            taken = {feeder: feeder.sink.taken for feeder in self._feeders}
        warn_at = time.monotonic() + _WARN_AFTER_S
        try:
            while True:
                with self._changed:
                    is_over = self._changed.wait_for(
                        lambda: not (self._waiters or self._blocked or self._feeders), timeout=1.0
                    )
                if is_over:
                    break
                self.check()
                if time.monotonic() > warn_at and self._warn_of_abandoned(taken, is_end):
                    warn_at = math.inf
        finally:
            with self._changed:
                self._waiting -= 1
        while self._faulty:
            error = self._faulty.pop().take_error()
            if error is not None:
                raise error

    def _warn_of_abandoned(self, taken: dict[Feeder, int], is_end: bool) -> bool:
        """Whether there are iterators whose results were read in part, and not since."""
        with self._changed:
            sinks = [
                feeder.sink
                for feeder in self._feeders
                if feeder.sink.is_left_unread and feeder.sink.taken == taken.get(feeder)
            ]
        if sinks:
            _log.warning(
                "%s %d iterator(s) of arguments, of which %d tasks have been submitted and whose results "
                "were not read to their end; results.cancel() before the end of the with block stops reading one",
                "giving up" if is_end else "still waiting for",
                *(len(sinks), sum(sink.submitted for sink in sinks)),
            )
        for sink in sinks if is_end else []:
            self._give_up(sink, RuntimeError("the with block was left before these results were read to their end"))
        return bool(sinks)

    @property
    def _is_forked(self) -> bool:
        return os.getpid() != self._process

    @property
    def is_lost(self) -> bool:
        return self._lost is not None

    @property
    def is_closed(self) -> bool:
        return self._is_closed

    def close(self) -> None:
        """Gives up tasks that have not ended. In a forked process all is the parent's, and stays."""
        if self._is_forked:
            return
        with self._changed:
            if self._is_closed:
                return
            self._is_closed = True
        self._values.close()
        self._backend.close()
        self._abandon(RuntimeError("the run was closed before this task ended"))
        self._record.close()
        if self._journal is not None:
            self._journal.close()


def _packed(
    function: Function, arguments: tuple[Any, ...], keywords: dict[str, Any], apart: Apart | None = None
) -> Call:
    try:
        return packed(arguments, keywords, apart)
    except Exception as error:
        name = unsendable(arguments, keywords)
        if name is None:
            raise
        raise misuse(TypeError, f"{function.label}: {name} cannot be sent to workers: {error}") from error


def _note_workers(found: NoWorker) -> None:
    if found.tasks:
        _log.warning(
            "%d task(s) have waited for %.0f s, since the cluster has no worker, or none with a free thread; they run when "
            "one comes, and Diffusion.close() gives them up",
            *(found.tasks, found.seconds),
        )
    else:
        _log.info("the tasks that waited for %.0f s without a worker go on", found.seconds)


class _Batch:
    """Tasks on their way to the back-end, several in a message."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._tasks: list[Task] = []

    def add(self, task: Task) -> None:
        self._tasks.append(task)

    def flush(self) -> None:
        """Sends all but the newest: the journal may have all that follow, and some task must end the batch."""
        if len(self._tasks) > 1:
            newest = self._tasks.pop()
            self._send(False)
            self._tasks.append(newest)

    def __enter__(self) -> _Batch:
        return self

    def __exit__(self, *_: Any) -> None:
        """Also what was added before an exception: it counts as submitted."""
        if self._tasks:
            self._send(True)

    def _send(self, is_last: bool) -> None:
        tasks, self._tasks = self._tasks, []
        self._backend.submit(Tasks(tasks, is_last))


class _Unblocking:
    """Acts when the last of several futures is done."""

    def __init__(self, count: int, act: Callable[[], None]) -> None:
        self._left, self._act = count, act
        self._mutex = threading.Lock()

    def wait_for(self, futures: list[TaskFuture[Any]]) -> None:
        for future in futures:
            future.add_done_callback(self._done)

    def _done(self, _: Any) -> None:
        with self._mutex:
            self._left -= 1
            is_last = self._left == 0
        if is_last:
            self._act()
