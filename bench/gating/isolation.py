"""The benchmark lives in namespaces of its own: network, mounts and processes. Whatever way it ends, the kernel then
ends every process it started and takes back every mount and link; loop devices go with their last mount. Only the
throttles of block devices outlive it, so the outer process clears them.

SPDX-License-Identifier: Apache-2.0
"""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

INSIDE = "THALWEG_BENCH_INSIDE"
SCRATCH = Path("/run/thalweg-bench")
BLKIO = Path("/sys/fs/cgroup/blkio")
LOOP_MAJOR = 7


def enter():
    """Returns inside the namespaces. Outside it runs this program again within, and ends with its exit code."""
    if os.environ.pop(INSIDE, None):
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
        # Where `ip netns` and GlusterFS keep their state, and all of ours lies: in memory, and gone with the namespace.
        subprocess.run(["mount", "-t", "tmpfs", "none", "/run"], check=True)
        for folder in ("/run/gluster", "/run/netns", SCRATCH):
            os.mkdir(folder)
        subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
        return
    if os.geteuid() != 0:
        sys.exit("bench/gate: only root can make network namespaces, mounts and throttled devices: run it as root")
    sys.exit(_run_inside())


def _run_inside():
    flags = ["--net", "--mount", "--pid", "--fork", "--mount-proc", "--kill-child"]
    # The inner process dies with this one, also when this one is killed outright.
    command = ["setpriv", "--pdeathsig", "KILL", "unshare", *flags, sys.executable, *sys.argv]
    clear_throttles()
    # Ctrl-C reaches the inner process too, which then cleans up; this one waits for it.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    inner = subprocess.Popen(command, env=os.environ | {INSIDE: "1"}, preexec_fn=_restore_interrupt)
    for ending in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(ending, lambda *_: inner.kill())
    try:
        return inner.wait()
    finally:
        inner.kill()
        # First: what a file system has still to write would take its time.
        clear_throttles(ours_too=True)
        _wait_for_devices()
        clear_throttles(ours_too=True)


def _wait_for_devices():
    """The kernel takes a killed namespace's mounts, and with them the loop devices, down behind our back."""
    deadline = time.monotonic() + 5
    while time.monotonic() < deadline and any(map(_is_ours, Path("/sys/block").glob("loop*"))):
        time.sleep(0.05)


def _is_ours(block):
    try:
        return str(SCRATCH) in (block / "loop" / "backing_file").read_text()
    except OSError:
        return False


def _restore_interrupt():
    signal.signal(signal.SIGINT, signal.default_int_handler)


def throttle(device, bytes_per_s):
    """Lets a block device read and write so many bytes a second each; 0 removes the limit."""
    number = (Path("/sys/block") / Path(device).name / "dev").read_text().strip()
    _write_throttles(number, bytes_per_s)


def clear_throttles(ours_too=False):
    """Of loop devices that are not in use any more, or whose images are ours."""
    for line in (BLKIO / "blkio.throttle.write_bps_device").read_text().splitlines():
        number = line.split()[0]
        major, minor = map(int, number.split(":"))
        block = Path(f"/sys/block/loop{minor}")
        if major == LOOP_MAJOR and (not (block / "loop").exists() or (ours_too and _is_ours(block))):
            _write_throttles(number, 0)


def _write_throttles(number, bytes_per_s):
    for direction in ("read", "write"):
        (BLKIO / f"blkio.throttle.{direction}_bps_device").write_text(f"{number} {bytes_per_s}\n")
