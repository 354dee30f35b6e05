"""A contender's turn from outside: its process group with a store of its own, rows appended as they come, nothing left behind.

SPDX-License-Identifier: Apache-2.0
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

from measuring import rows

from diffusion import store

TIMEOUT_FACTOR = 40  # a rival without caches takes reuse × the bound; one that takes longer hangs
START_S = 60
LAST_LINES = 40
SCRATCH_BYTES = 8 << 30


def take(contender, workloads, seed, number, path, store_bytes_per_s=store.BYTES_PER_S):
    """Whether all went well."""
    folder = Path(tempfile.mkdtemp(prefix="thalweg-diffusion-", dir=scratch()))
    shop = store.Store(store_bytes_per_s, store_bytes_per_s / 5)
    wanted = {
        "contender": contender, "folder": str(folder), "base": shop.base, "seed": seed, "round": number + 1,
        "store_bytes_per_s": store_bytes_per_s, "workloads": [workload.as_json() for workload in workloads],
    }
    limit_s = START_S + sum(TIMEOUT_FACTOR * (2 + workload.bound_s(store_bytes_per_s)) for workload in workloads)
    try:
        return _converse(wanted, limit_s, path)
    finally:
        shop.close()
        shutil.rmtree(folder, ignore_errors=True)


def scratch():
    """In memory, where there is room."""
    memory = Path("/dev/shm")
    return memory if memory.is_dir() and shutil.disk_usage(memory).free > SCRATCH_BYTES else Path(tempfile.gettempdir())


def _converse(wanted, limit_s, path):
    # The description of the tasks is too long for an argument.
    command = [sys.executable, "-m", "diffusion.session"]
    with tempfile.TemporaryFile("w+") as said:
        session = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=said, text=True, start_new_session=True
        )
        alarm = threading.Timer(limit_s, os.killpg, (session.pid, signal.SIGKILL))
        alarm.start()
        try:
            session.stdin.write(json.dumps(wanted))
            session.stdin.close()
            for line in session.stdout:
                _keep(json.loads(line), path)
            return _ended_well(session, said)
        finally:
            alarm.cancel()
            _end(session)


def _ended_well(session, said):
    """Shows its output only when it failed."""
    if session.wait() == 0:
        return True
    said.seek(0)
    print("".join(said.readlines()[-LAST_LINES:]), file=sys.stderr)
    return False


def _keep(row, path):
    rows.append(path, [row])
    times = f"{row['makespan_s']:7.2f} s of {row['bound_s']:.2f}"
    bytes_ = f"store {row['store_bytes'] / max(1, row['unique_bytes']):.2f} × unique"
    hits = f"own {row['local']}, peers {row['peer']}, store {row['store']}"
    print(f"{row['contender']:24} {row['workload']:21} {times}; {bytes_}; {hits}; idle {row['idle']:.0%}", flush=True)


def _end(session):
    try:
        os.killpg(session.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    session.wait()
