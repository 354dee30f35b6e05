"""Finding and ending what a scene started, wherever a launcher has put it.

Launchers make new sessions and process groups, and orphans lose their parents; but all inherit the environment. So each
scene has a mark in it, and a process belongs to the scene if it bears that mark: no other is ever touched.
"""

import os
import signal
import time
from pathlib import Path

VARIABLE = "THALWEG_TEST_SCENE"
ENDING_SECONDS = 5


def marked(mark):
    """The ids of the living processes that bear the mark, and their command lines."""
    wanted = f"{VARIABLE}={mark}".encode()
    found = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            if wanted in (entry / "environ").read_bytes().split(b"\0"):
                found[int(entry.name)] = (entry / "cmdline").read_bytes().decode(errors="replace").split("\0")[:-1]
        except OSError:
            continue  # gone meanwhile, or another user's
    return {pid: words for pid, words in found.items() if words}


def kill(pid, number=signal.SIGKILL):
    """Whether it was still there."""
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return False
    return True


def end_marked(mark):
    """Kills what bears the mark, again until nothing does: a launcher may just be starting another."""
    deadline = time.monotonic() + ENDING_SECONDS
    while time.monotonic() < deadline:
        found = marked(mark)
        if not found:
            return
        for pid in found:
            kill(pid)
        time.sleep(0.02)


def is_node(words):
    return len(words) > 1 and words[0].endswith("thalweg") and words[1] == "node"


def is_rank(words, program):
    return bool(words) and Path(words[0]).name == program
