"""The two namespaces and the process that joins them (`bench/link`).

SPDX-License-Identifier: Apache-2.0
"""

import contextlib
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

NEAR, FAR = "10.78.0.1", "10.78.0.2"
NEAR_DEVICE, FAR_DEVICE = "wan-near", "wan-far"
PROBE_PORT = 7471
MIN_QUEUE_KIB = 64
# Packets that an interface holds for the link's process: the queue that counts is the link's own.
DEVICE_PACKETS = "20000"
READY_TIMEOUT_S = 30
HERE = Path(__file__).resolve().parent.parent
PROGRAM = Path(os.environ.get("CARGO_TARGET_DIR") or HERE.parent / "target").resolve() / "release" / "thalweg-link"


@contextlib.contextmanager
def between_namespaces(arguments):
    """Gives the environment of a command on the near side, which is this process's namespace."""
    if not PROGRAM.exists():
        sys.exit(f"bench/wan: {PROGRAM} is missing: run make test-bed")
    far = subprocess.Popen(["unshare", "--net", "sleep", "infinity"], stdin=subprocess.DEVNULL)
    _wait_for_namespace(far.pid)
    with tempfile.TemporaryDirectory(prefix="thalweg-wan.") as folder:
        control = os.path.join(folder, "control")
        os.mkfifo(control)
        # Opened for both, so that the link sees no end while nobody writes.
        with open(os.open(control, os.O_RDWR), "w") as commands:
            forwarder = _start_link(arguments, commands)
            _configure(arguments, far.pid)
            environment = {"WAN_NEAR": NEAR, "WAN_FAR": FAR, "WAN_CONTROL": control}
            environment["WAN_ON_FAR"] = f"nsenter --net=/proc/{far.pid}/ns/net"
            try:
                yield os.environ | environment
            finally:
                commands.write("stop\n"), commands.flush()
                counted = forwarder.communicate(timeout=READY_TIMEOUT_S)[0]
                if arguments.report:
                    arguments.report.write_text(counted)
                far.kill(), far.wait()


def settings(arguments):
    """The link's words."""
    words = [f"delay-ms={arguments.delay_ms}", f"rate-mbit={arguments.rate_mbit}", f"loss={arguments.loss}"]
    queue = arguments.queue_kib or default_queue_kib(arguments.delay_ms, arguments.rate_mbit)
    return [f"seed={arguments.seed}", *words, f"queue-kib={queue}"]


def default_queue_kib(delay_ms, rate_mbit):
    """The bytes each direction carries in a round trip."""
    rates, delays = both(rate_mbit), both(delay_ms)
    return ",".join(str(max(MIN_QUEUE_KIB, round(rate * sum(delays) * 1000 / 8 / 1024))) for rate in rates)


def run(command, environment):
    try:
        code = subprocess.call(command, env=environment)
    except OSError as error:
        sys.exit(f"bench/wan: {command[0]} cannot be run: {error.strerror}")
    return code if code >= 0 else 128 - code


def calibrate(arguments, environment):
    """Prints what the link does, as small datagrams, floods and one TCP stream find it, in each direction."""
    print(" ".join(settings(arguments)))
    on_far = environment["WAN_ON_FAR"].split()
    rates = both(arguments.rate_mbit)
    for name, here, there, address, rate in (
        ("near to far", [], on_far, FAR, rates[0]),
        ("far to near", on_far, [], NEAR, rates[1]),
    ):
        print(f"-- {name}", flush=True)
        echo = subprocess.Popen([*there, PROGRAM, "echo", f"{address}:{PROBE_PORT}"], stdout=subprocess.PIPE)
        try:
            echo.stdout.readline()
            code = subprocess.call([*here, PROGRAM, "probe", f"{address}:{PROBE_PORT}", str(rate)])
        finally:
            echo.kill(), echo.wait()
        if code:
            return code
    return 0


def both(text):
    values = [float(value) for value in text.split(",")]
    return values * 2 if len(values) == 1 else values


def _wait_for_namespace(pid):
    deadline = time.monotonic() + READY_TIMEOUT_S
    ours = os.readlink("/proc/self/ns/net")
    while os.readlink(f"/proc/{pid}/ns/net") == ours:
        if time.monotonic() > deadline:
            sys.exit("bench/wan: the far namespace is not made")
        time.sleep(0.01)


def _start_link(arguments, commands):
    """Before all other processes: a link does not slow down because its machine computes."""
    command = ["chrt", "--fifo", "10", PROGRAM, "forward", NEAR_DEVICE, FAR_DEVICE, *settings(arguments)]
    forwarder = subprocess.Popen(command, stdin=commands, stdout=subprocess.PIPE, text=True)
    if forwarder.stdout.readline() != "ready\n":
        sys.exit("bench/wan: the link does not start")
    return forwarder


def _configure(arguments, far_pid):
    _run("ip", "link", "set", FAR_DEVICE, "netns", str(far_pid))
    for prefix, device, address in (
        ([], NEAR_DEVICE, NEAR),
        (["nsenter", f"--net=/proc/{far_pid}/ns/net"], FAR_DEVICE, FAR),
    ):
        _run(*prefix, "ip", "link", "set", "lo", "up")
        _run(*prefix, "ip", "addr", "add", f"{address}/30", "dev", device)
        _run(*prefix, *"ip link set dev".split(), device, "mtu", str(arguments.mtu), "txqueuelen", DEVICE_PACKETS, "up")


def _run(*command):
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"bench/wan: {' '.join(command)}: {done.stderr.strip()}")
