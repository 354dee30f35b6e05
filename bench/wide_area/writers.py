"""MPI jobs that write over the link for longer than they are watched, and what arrives of each meanwhile.

SPDX-License-Identifier: Apache-2.0
"""

import contextlib
import os
import re
import shutil
import signal
import subprocess
import time

from demonstration.store import find_thalweg
from measuring import mpi
from wide_area import link
from wide_area.far_side import FarSide, NODE_PORT

# More than the link carries while a job is watched.
MEGABYTES = 1536
PIECE_KILOBYTES = 1024
BEGIN_TIMEOUT_S = 60
END_TIMEOUT_S = 20


class Writers:
    def __init__(self, scratch):
        self.scratch = scratch
        self.far = FarSide(scratch, BEGIN_TIMEOUT_S)
        self.fresh = mpi.build("mpich", "fresh", scratch)

    def node(self, environment):
        return self.far.node(environment)

    @contextlib.contextmanager
    def job(self, environment, ranks, streams, seed):
        """A job that writes a file of its own, until it is left."""
        # By its name its connections are told from another job's.
        program = shutil.copy(self.fresh, self.scratch / f"writer-{seed}")
        job = mpi.launch("mpich", ranks, program, f"SD:/{seed}", MEGABYTES // ranks, PIECE_KILOBYTES, seed + 1)
        command = [find_thalweg(), "run", "-q", "--node", f"{link.FAR}:{NODE_PORT}", "--", *job]
        environment = environment | {"THALWEG_STREAMS": streams}
        said = self.scratch / f"writer-{seed}.log"
        with open(said, "w") as into:
            channels = {"stdin": subprocess.DEVNULL, "stdout": into, "stderr": into}
            process = subprocess.Popen(command, env=environment, start_new_session=True, **channels)
        try:
            yield Job(process, program.name, said)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGTERM)
            process.wait(END_TIMEOUT_S)


class Job:
    def __init__(self, process, program, said):
        self.process, self.program, self.said = process, program, said

    def wait_for_bytes(self):
        """Until a piece has arrived."""
        deadline = time.monotonic() + BEGIN_TIMEOUT_S
        while self.acknowledged_bytes() < PIECE_KILOBYTES << 10:
            if time.monotonic() > deadline or self.process.poll() is not None:
                raise RuntimeError(f"the job does not write: {self.said.read_text()}")
            time.sleep(0.05)

    def watch(self, seconds):
        """The rate in that time (bytes a second)."""
        return watch_all([self], seconds)[0]

    def acknowledged_bytes(self):
        """Of all its processes' connections to the far side, by its kernel."""
        listing = subprocess.run(
            ["ss", "-tinpHO", "dst", link.FAR], capture_output=True, text=True, check=True
        ).stdout
        lines = (line for line in listing.splitlines() if f'"{self.program}"' in line)
        return sum(int(found[1]) for line in lines if (found := re.search(r"bytes_acked:(\d+)", line)))


def watch_all(jobs, seconds):
    """The rates of jobs in the same time (bytes a second)."""
    begun, before = time.monotonic(), [job.acknowledged_bytes() for job in jobs]
    time.sleep(seconds)
    after = [job.acknowledged_bytes() for job in jobs]
    if any(job.process.poll() is not None for job in jobs):
        raise RuntimeError("a job ended while it was watched")
    elapsed = time.monotonic() - begun
    return [(last - first) / elapsed for first, last in zip(before, after)]
