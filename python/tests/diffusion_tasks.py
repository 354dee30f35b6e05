"""Tasks of the tests, in a module that is loaded fast. SPDX-License-Identifier: Apache-2.0"""

import os
import signal
import time


def joined_length(first, second, more=()):
    total = 0
    for path in (first, second, *more):
        with open(path, "rb") as file:
            total += len(file.read())
    return total


def content(path):
    with open(path, "rb") as file:
        return file.read()


def filled(part, times):
    return part * times


class Unreadable:
    """Pickles well, and cannot be unpickled."""

    def __reduce__(self):
        return int, ("no number",)


def unreadable(_):
    return Unreadable()


def double(number):
    return 2 * number


def fail(number):
    raise KeyError(f"no such number: {number}")


def note_and(value, notes, name):
    """Leaves a mark for each time it runs."""
    with open(os.path.join(notes, f"{name}-{time.time_ns()}"), "x"):
        pass
    return value


def note_and_nap(notes, name, seconds):
    note_and(None, notes, name)
    time.sleep(seconds)
    return name


def fail_at_first(notes):
    if not os.listdir(notes):
        note_and(None, notes, "failed")
        raise OSError("not yet")
    return "at last"


def hang_at_first(notes, seconds):
    if not os.listdir(notes):
        note_and(None, notes, "hung")
        time.sleep(seconds)
    return os.getpid()


def read_after(path, gate, notes, number):
    note_and(None, notes, str(number))
    while not os.path.exists(gate):
        time.sleep(0.01)
    return content(path)


def write(text, path):
    with open(path, "w") as file:
        file.write(text)
    return len(text)


def write_half(path):
    with open(path, "w") as file:
        file.write("half")
        file.flush()
        raise RuntimeError("power is gone")


def nap_and_append(seconds, path, text, written):
    time.sleep(seconds)
    with open(path) as file:
        text = file.read() + text
    with open(written, "w") as file:
        file.write(text)


def nap_and_write(seconds, text, path):
    time.sleep(seconds)
    return write(text, path)


def append(path, text, written):
    with open(path) as source, open(written, "w") as target:
        target.write(source.read() + text)


def kill_at_first(notes):
    if not os.listdir(notes):
        note_and(None, notes, "killed")
        os.kill(os.getpid(), signal.SIGKILL)
    return "alive"


def read_slowly(path, number, notes):
    time.sleep(0.02)
    return len(content(path)), number


def nap_and_double(number):
    time.sleep(0.01)
    return 2 * number


def nap_and_tell(number, seconds):
    time.sleep(seconds)
    return number, os.getpid()


class Unfit(Exception):
    """Takes other arguments than it keeps."""

    def __init__(self, what, why):
        super().__init__(f"{what} is unfit: {why}")
        self.what, self.why = what, why


def refuse(what, why):
    raise Unfit(what, why)


def segfault():
    os.kill(os.getpid(), signal.SIGSEGV)


def refuse_together(whats):
    raise ExceptionGroup("all of them", [*(Unfit(what, why="together") for what in whats), ValueError("fit")])  # noqa: F821


def open_as_folder(path):
    return os.listdir(path)
