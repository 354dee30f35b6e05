"""A plain file, synced with each phase or written behind by the kernel, and Thalweg: each on a throttled disk made anew.

SPDX-License-Identifier: Apache-2.0
"""

import contextlib
import hashlib
import subprocess
from pathlib import Path

from ddiha.job import PHASE_BYTES
from demonstration.disks import ThrottledDisk
from demonstration.store import find_thalweg

PLAIN, BEHIND, OURS = "plain", "plain, written behind", "thalweg"
CONTENDERS = (PLAIN, BEHIND, OURS)
# Beside the file: what the file system and a store need.
SPARE_BYTES = 512 << 20
BACKGROUND_BYTES = 16 << 20
VM = Path("/proc/sys/vm")


@contextlib.contextmanager
def disk(scratch, rate_mb_per_s, phases):
    """An empty one that holds so many phases."""
    made = ThrottledDisk(scratch / "disk", rate_mb_per_s * 1_000_000, phases * PHASE_BYTES * 9 // 8 + SPARE_BYTES)
    try:
        yield made
    finally:
        made.leave()
        made.folder.rmdir()


def run(contender, job, folder, phases, seed):
    if contender == OURS:
        return job.through_a_node(folder, phases, seed)
    if contender == PLAIN:
        return job.plain(folder, phases, seed, "phase")
    with written_behind():
        return job.plain(folder, phases, seed, "file")


@contextlib.contextmanager
def written_behind():
    """Has the kernel write from 16 MiB of dirty pages on: it would wait for a tenth of the memory, or half a minute.
    Of the two settings one is zero."""
    amount, ratio = VM / "dirty_background_bytes", VM / "dirty_background_ratio"
    before = [(setting, setting.read_text()) for setting in (amount, ratio)]
    amount.write_text(str(BACKGROUND_BYTES))
    try:
        yield
    finally:
        for setting, value in before:
            if int(value):
                setting.write_text(value)


def digest(contender, folder):
    """Of the content that was written."""
    if contender != OURS:
        with open(folder / "file", "rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    command = [find_thalweg(), "cat", f"{folder / 'store'}::file"]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as reading:
        found = hashlib.file_digest(reading.stdout, "sha256").hexdigest()
    if reading.returncode != 0:
        raise RuntimeError(f"{' '.join(command)} ended with {reading.returncode}")
    return found
