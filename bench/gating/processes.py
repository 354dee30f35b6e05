"""Programs that run beside the measurement: started, waited for until they answer, watched, and ended.

SPDX-License-Identifier: Apache-2.0
"""

import contextlib
import os
import socket
import subprocess
import time
from pathlib import Path

START_SECONDS = 20
TICKS = os.sysconf("SC_CLK_TCK")


@contextlib.contextmanager
def running(command, log: Path, answers=None, environment=None, within=None):
    """A process, until the block ends. `answers` says when it is ready; `within` names a network namespace."""
    command = ["ip", "netns", "exec", within, *command] if within else command
    with open(log, "wb") as file:
        everything = os.environ | (environment or {})
        words = [str(word) for word in command]
        # Ctrl-C is for the driver, which ends the others in their order.
        alone = {"stdin": subprocess.DEVNULL, "start_new_session": True}
        child = subprocess.Popen(words, stdout=file, stderr=file, env=everything, **alone)
    try:
        if answers:
            wait_until(answers, child, log)
        yield child
    finally:
        stop(child)


def wait_until(answers, child, log):
    deadline = time.monotonic() + START_SECONDS
    while not answers():
        if child.poll() is not None:
            raise RuntimeError(f"{child.args[0]} ended with code {child.returncode}: {log.read_text()[-2000:]}")
        if time.monotonic() > deadline:
            raise RuntimeError(f"{child.args[0]} did not answer within {START_SECONDS} s: {log.read_text()[-2000:]}")
        time.sleep(0.02)


def stop(child):
    child.terminate()
    try:
        child.wait(timeout=5)
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait()


def listening(host, port):
    """For `answers`: something accepts connections there."""

    def answers():
        try:
            socket.create_connection((host, port), timeout=1).close()
            return True
        except OSError:
            return False

    return answers


def cpu_seconds(pid):
    """User and system time of a process, all of its threads."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def peak_bytes(pid):
    line = next(line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1]) * 1024


def processor_times():
    """(idle, all) of the machine's processors, in ticks since it started; steal counts as busy."""
    fields = [int(field) for field in Path("/proc/stat").read_text().splitlines()[0].split()[1:9]]
    return fields[3] + fields[4], sum(fields)


def idle_share(before, after):
    return (after[0] - before[0]) / max(1, after[1] - before[1])
