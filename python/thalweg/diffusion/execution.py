"""Running one task's function, and the processes that do it. SPDX-License-Identifier: Apache-2.0

A slot in this thread is the cheapest; one with a process of its own can be ended when a task hangs, and takes nothing
with it when a task crashes. What a process started goes with it.
"""

from __future__ import annotations

import os
import pickle
import select
import signal
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any, BinaryIO, NamedTuple

import cloudpickle

from thalweg.diffusion.arguments import unpacked
from thalweg.diffusion.failure import Failure, TaskTimeout, WorkerLost

# What a process may take to start and to load a function, beside the task's own time.
_LOADING_S = 120.0
# What one whose pipes are closed may take to be gone.
_ENDING_S = 5.0
_LENGTH = struct.Struct("<Q")


class Outcome(NamedTuple):
    """A pickled result, or a failure."""

    result: bytes | None
    failure: Failure | None


class Calling(NamedTuple):
    """A call whose files are in place."""

    function: int
    payload: bytes
    inputs: Mapping[str, str]
    outputs: Mapping[str, str]


def called(function: Callable[..., Any], calling: Calling) -> Outcome:
    try:
        arguments, keywords = unpacked(calling.payload, calling.inputs, calling.outputs)
        return Outcome(_pickled(function(*arguments, **keywords)), None)
    except (KeyboardInterrupt, SystemExit) as error:
        # The task's doing, not the worker's.
        return Outcome(None, Failure.of(RuntimeError(f"the task raised {error!r}")))
    except BaseException as error:
        return Outcome(None, Failure.of(error))


def _pickled(result: Any) -> bytes:
    """By pickle, which is ten times as fast, where that can."""
    try:
        return pickle.dumps(result, protocol=5)
    except Exception:
        return bytes(cloudpickle.dumps(result, protocol=5))


class ThreadSlot:
    """Runs tasks in the calling thread."""

    def __init__(self, functions: Mapping[int, bytes]) -> None:
        self._functions = functions
        self._loaded: dict[int, Callable[..., Any]] = {}

    def load(self, number: int) -> Failure | None:
        if number not in self._loaded:
            try:
                self._loaded[number] = pickle.loads(self._functions[number])
            except Exception as error:
                return Failure.of(error)
        return None

    def run(self, calling: Calling) -> Outcome:
        failure = self.load(calling.function)
        return called(self._loaded[calling.function], calling) if failure is None else Outcome(None, failure)

    def close(self) -> None:
        self._loaded.clear()


class ProcessSlot:
    """Runs tasks in a process that is started with the first of them, and again after one that ended it."""

    def __init__(self, functions: Mapping[int, bytes], timeout_s: float | None) -> None:
        self._functions = functions
        self._timeout_s = timeout_s
        self._process: subprocess.Popen[bytes] | None = None
        self._known: set[int] = set()

    @property
    def pid(self) -> int | None:
        return None if self._process is None else self._process.pid

    def run(self, calling: Calling) -> Outcome:
        process = self._process or self._start()
        function = None if calling.function in self._known else self._functions[calling.function]
        self._known.add(calling.function)
        try:
            assert process.stdin is not None and process.stdout is not None
            _write(process.stdin, (calling.function, function, calling))
            if function is not None:
                # To start and to load what a function needs is not yet the task.
                _read_within(process.stdout, None if self._timeout_s is None else self._timeout_s + _LOADING_S)
            answer = _read_within(process.stdout, self._timeout_s)
        except TimeoutError:
            self.close()
            return Outcome(None, Failure.of(TaskTimeout(f"it took longer than timeout_s = {self._timeout_s} s")))
        except (EOFError, OSError):
            how = _ending(process)
            self.close()
            return Outcome(None, Failure.of(WorkerLost(f"the task's process {how}"), died=True))
        outcome: Outcome = answer
        return outcome

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
        command = [sys.executable, "-c", "from thalweg.diffusion.execution import serve; serve()"]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment, start_new_session=True, bufsize=0
        )
        return self._process


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


def serve() -> None:
    """What such a process does. It ends when whoever started it does."""
    # The pipes are for us alone: what tasks read is empty, and what they print is told as errors are.
    requests, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb", buffering=0)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(2, 1)
    functions: dict[int, bytes] = {}
    slot = ThreadSlot(functions)
    while True:
        try:
            number, function, calling = _read(requests)
        except EOFError:
            return
        if function is not None:
            functions[number] = function
            slot.load(number)
            _write(answers, None)
        _write(answers, slot.run(calling))


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
    deadline = None if timeout_s is None else time.monotonic() + timeout_s
    poll = select.poll()
    poll.register(pipe, select.POLLIN)
    while not poll.poll(None if deadline is None else max(0.0, deadline - time.monotonic()) * 1000):
        if deadline is not None and time.monotonic() >= deadline:
            raise TimeoutError
    return _read(pipe)
