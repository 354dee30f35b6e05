"""Running one task's function, and the processes that do it. SPDX-License-Identifier: Apache-2.0

A slot in this thread is the cheapest; one with a process of its own can be ended when a task hangs, and takes nothing
with it when a task crashes. Its child processes go with it.
"""

from __future__ import annotations

import os
import pickle
import select
import signal
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, BinaryIO, NamedTuple

from thalweg.diffusion.call_digest import Difference, Shipped
from thalweg.diffusion.calls import Places, unpacked
from thalweg.diffusion.failure import CannotStart, Failure, TaskTimeout, WorkerLost
from thalweg.diffusion.pickling import dumps
from thalweg.diffusion.running_time import RunningTime
from thalweg.diffusion.worker.own_environment import for_task_process

# Time a process may take to start and to load a function, beside the task's own time.
_LOADING_S = 120.0
# When a process did not start, what it lacked may be there again after these.
_START_PAUSES_S = (0.2, 1.0)
# Of what a process said before it was ready, which is short or endless.
_MAX_SAID_BYTES = 1 << 16
# Time one whose pipes are closed may take to be gone.
_ENDING_S = 5.0
# A process that runs a task is checked this often at least.
_POLL_S = 1.0
_LENGTH = struct.Struct("<Q")


class Outcome(NamedTuple):
    """A pickled result, or a failure."""

    result: bytes | None
    failure: Failure | None
    # Definitions in the user's modules that are others here than where the call came from.
    differing: tuple[Difference, ...] = ()


class Calling(NamedTuple):
    """A call whose files are in place."""

    function: bytes
    payload: bytes
    values: tuple[bytes, ...]
    inputs: Mapping[str, str]
    outputs: Mapping[str, str]
    name: str = "the task"


def called(function: Callable[..., Any], calling: Calling, places: Places) -> Outcome:
    try:
        arguments, keywords = unpacked(calling.payload, places)
        return Outcome(_pickled(function(*arguments, **keywords)), None)
    except (KeyboardInterrupt, SystemExit) as error:
        # The task's doing, not the worker's.
        return Outcome(None, Failure.of(RuntimeError(f"{calling.name} raised {error!r}")))
    except BaseException as error:
        return Outcome(None, Failure.of(error))


def _pickled(result: Any) -> bytes:
    """By pickle, which is ten times as fast, where that can."""
    try:
        return pickle.dumps(result, protocol=5)
    except Exception:
        return dumps(result)


class ThreadSlot:
    """Runs tasks in the calling thread. `values` are functions and large arguments by digest; what goes from there is
    not kept loaded."""

    def __init__(self, values: Mapping[bytes, bytes]) -> None:
        self._values = values
        self._loaded: dict[bytes, Any] = {}
        self._differing: dict[bytes, tuple[Difference, ...]] = {}

    def load(self, digest: bytes) -> Any:
        if digest not in self._loaded:
            for gone in [one for one in self._loaded if one not in self._values]:
                del self._loaded[gone]
                self._differing.pop(gone, None)
            loaded = pickle.loads(self._values[digest])
            if isinstance(loaded, Shipped):
                # Before it runs for the first time.
                self._differing[digest], loaded = loaded.differing(), pickle.loads(loaded.pickled)
            self._loaded[digest] = loaded
        return self._loaded[digest]

    def run(self, calling: Calling) -> Outcome:
        try:
            function = self.load(calling.function)
            values = [self._values[digest] for digest in calling.values]
        except Exception as error:
            return Outcome(None, Failure.of(error))
        shared = partial(self._shared, calling.values)
        outcome = called(function, calling, Places(calling.inputs, calling.outputs, values, shared))
        return outcome._replace(differing=self.differing(calling.function))

    def differing(self, function: bytes) -> tuple[Difference, ...]:
        """Of a function that is loaded."""
        return self._differing.get(function, ())

    def is_current(self, function: bytes, tolerated: set[Difference] | None) -> bool:
        """Loads a function. Whether it leads to no definitions that are others here but tolerated ones; None tolerates all,
        also that it cannot be loaded, which the run will say."""
        try:
            self.load(function)
        except Exception:
            return tolerated is None
        return tolerated is None or tolerated.issuperset(self.differing(function))

    def _shared(self, digests: tuple[bytes, ...], place: int) -> Any:
        return self.load(digests[place])

    def close(self) -> None:
        self._loaded.clear()


class ProcessSlot:
    """Runs tasks in a process that is started with the first of them, and again after one that ended it. Raises
    `CannotStart` where there is none to be had."""

    def __init__(self, values: Mapping[bytes, bytes], timeout_s: float | None) -> None:
        self._values = values
        self._timeout_s = timeout_s
        self._process: subprocess.Popen[bytes] | None = None
        # Values that the process has.
        self._known: set[bytes] = set()
        # Definitions that are others also in a process that has just imported them.
        self._unavoidable: set[Difference] = set()

    def run(self, calling: Calling) -> Outcome:
        """In a new process, when the one that there is has imported modules before they changed."""
        is_new = self._process is None
        outcome = self._run(calling, None if is_new else self._unavoidable)
        if outcome is None:
            is_new, outcome = True, self._run(calling, None)
        assert outcome is not None
        if is_new:
            self._unavoidable.update(outcome.differing)
        return outcome

    def _run(self, calling: Calling, tolerated: set[Difference] | None) -> Outcome | None:
        """Nothing was run, and the process is gone, if it has other differences than those that are tolerated; a new one
        may have any."""
        process = self._process or self._start()
        try:
            fresh, gone = self._changes(calling)
        except KeyError as error:
            # The attempt does not count any more, and what it needed went.
            return Outcome(None, Failure.of(error))
        try:
            assert process.stdin is not None and process.stdout is not None
            _write(process.stdin, (fresh, gone, calling, tolerated))
            if fresh:
                # To start and to load what a function needs is not yet the task.
                loading_s = None if self._timeout_s is None else self._timeout_s + _LOADING_S
                if not _read_within(process.stdout, loading_s):
                    self.close()
                    return None
            answer = _read_within(process.stdout, self._timeout_s)
        except TimeoutError:
            self.close()
            return Outcome(
                None, Failure.of(TaskTimeout(f"{calling.name} took longer than timeout_s = {self._timeout_s} s"))
            )
        except (EOFError, OSError):
            how = _ending(process)
            self.close()
            return Outcome(None, Failure.of(WorkerLost(f"{calling.name}: its process {how}"), died=True))
        outcome: Outcome = answer
        return outcome

    def _changes(self, calling: Calling) -> tuple[dict[bytes, bytes], list[bytes]]:
        """Values that the process needs and does not have, and those that it has and no task needs."""
        needed = (calling.function, *calling.values)
        fresh = {digest: self._values[digest] for digest in needed if digest not in self._known}
        gone = [digest for digest in self._known if digest not in self._values] if fresh else []
        self._known.difference_update(gone)
        self._known.update(fresh)
        return fresh, gone

    def kill(self) -> None:
        """Ends the process, also while another thread runs a task in it: that thread closes what is left."""
        process = self._process
        if process is not None and process.returncode is None:
            try:
                os.killpg(process.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass

    def close(self) -> None:
        self.kill()
        process, self._process = self._process, None
        self._known.clear()
        if process is None:
            return
        process.wait()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                try:
                    pipe.close()
                except OSError:
                    pass

    def _start(self) -> subprocess.Popen[bytes]:
        for pause_s in _START_PAUSES_S:
            try:
                return self._start_once()
            except CannotStart:
                time.sleep(pause_s)
        return self._start_once()

    def _start_once(self) -> subprocess.Popen[bytes]:
        """A process that is ready. One that is not says why on standard error."""
        timeout_s = None if self._timeout_s is None else _LOADING_S
        try:
            with tempfile.TemporaryFile() as said:
                process = self._process = _spawned(said.fileno())
                try:
                    _read_within(process.stdout, timeout_s)
                except (EOFError, OSError) as error:
                    how = "was not ready in time" if isinstance(error, TimeoutError) else _ending(process)
                    self.close()
                    raise CannotStart(f"a task process {how} before it was ready: {_last_line(said)}") from None
                _pass_on(said)
        except OSError as error:
            raise CannotStart(f"a task process could not be started: {error}") from error
        return process


def _spawned(said: int) -> subprocess.Popen[bytes]:
    standard_error = os.dup(2)
    try:
        command = f"from thalweg.diffusion.worker.execution import serve; serve({standard_error})"
        return subprocess.Popen(
            [sys.executable, "-c", command],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=said,
            env=for_task_process(os.pathsep.join(path for path in sys.path if path)),
            start_new_session=True,
            bufsize=0,
            pass_fds=(standard_error,),
        )
    finally:
        os.close(standard_error)


def _said(file: BinaryIO) -> bytes:
    """The end of it."""
    end = file.seek(0, os.SEEK_END)
    file.seek(max(0, end - _MAX_SAID_BYTES))
    return file.read()


def _last_line(file: BinaryIO) -> str:
    return (_said(file).decode(errors="replace").strip().splitlines() or ["it said nothing"])[-1]


def _pass_on(file: BinaryIO) -> None:
    """Warnings of imports."""
    said = _said(file)
    if said:
        os.write(2, said)


def _ending(process: subprocess.Popen[bytes]) -> str:
    """How a process ended whose pipes are closed; that may be a moment before it is gone."""
    try:
        status = process.wait(_ENDING_S)
    except subprocess.TimeoutExpired:
        return "closed its pipes"
    if status >= 0:
        return f"ended with status {status}"
    try:
        return f"was killed by {signal.Signals(-status).name}"
    except ValueError:
        return f"was killed by signal {-status}"


def serve(standard_error: int) -> None:
    """Runs in such a process. It ends with its parent."""
    os.dup2(standard_error, 2)
    os.close(standard_error)
    # The pipes are for us alone: what tasks read is empty, and what they print is reported as errors are.
    requests, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb", buffering=0)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(2, 1)
    values: dict[bytes, bytes] = {}
    slot = ThreadSlot(values)
    _write(answers, None)
    while True:
        try:
            fresh, gone, calling, tolerated = _read(requests)
        except EOFError:
            return
        for digest in gone:
            values.pop(digest, None)
        values.update(fresh)
        try:
            if fresh:
                is_current = slot.is_current(calling.function, tolerated)
                _write(answers, is_current)
                if not is_current:
                    return
            _write(answers, slot.run(calling))
        except BrokenPipeError:
            # The answer is not waited for any more.
            return


def _write(pipe: Any, message: Any) -> None:
    body = pickle.dumps(message, protocol=5)
    rest = memoryview(_LENGTH.pack(len(body)) + body)
    while rest:
        rest = rest[pipe.write(rest) :]


def _read(pipe: BinaryIO) -> Any:
    (length,) = _LENGTH.unpack(_exactly(pipe, _LENGTH.size))
    return pickle.loads(_exactly(pipe, length))


def _exactly(pipe: BinaryIO, count: int) -> bytes:
    read = bytearray()
    while len(read) < count:
        part = pipe.read(count - len(read))
        if not part:
            raise EOFError
        read += part
    return bytes(read)


def _read_within(pipe: Any, timeout_s: float | None) -> Any:
    """The first byte within that time: what follows is on its way."""
    poll = select.poll()
    poll.register(pipe, select.POLLIN)
    if timeout_s is None:
        poll.poll()
        return _read(pipe)
    step_s = min(_POLL_S, timeout_s / 4)
    waited = RunningTime(2 * step_s)
    while not poll.poll(max(0.0, min(step_s, timeout_s - waited.seconds)) * 1000):
        if waited.look() >= timeout_s:
            raise TimeoutError
    return _read(pipe)
