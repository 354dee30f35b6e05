"""The near side is a network namespace of its own, and so are the process numbers in it: whatever way the command ends,
the kernel then ends every process that was started, and takes the far side and the link down with them.

SPDX-License-Identifier: Apache-2.0
"""

import os
import signal
import subprocess
import sys

INSIDE = "THALWEG_WAN_INSIDE"
IMPOSSIBLE = 77


def enter(program):
    """Returns inside. Outside it runs this program again within, and ends with its exit code; where that cannot be, with
    a line and IMPOSSIBLE."""
    if os.environ.pop(INSIDE, None):
        subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
        return
    why = impossible()
    if why:
        print(f"{program}: no emulated link here: {why}", file=sys.stderr)
        sys.exit(IMPOSSIBLE)
    sys.exit(_run_inside())


def impossible():
    """Why this machine can have no link; None when it can."""
    if not os.path.exists("/dev/net/tun"):
        return "/dev/net/tun is missing (modprobe tun, or give the container that device)"
    flags = ["--net", "--mount", "--pid", "--fork"]
    make = ["ip", "tuntap", "add", "dev", "wan-try", "mode", "tun"]
    try:
        tried = subprocess.run(["unshare", *flags, *make], capture_output=True, text=True, timeout=60)
    except FileNotFoundError as error:
        return f"{error.filename} is not installed (Debian: util-linux, iproute2)"
    if tried.returncode != 0:
        said = (tried.stderr.strip().splitlines() or ["no reason was given"])[-1]
        return f"network namespaces with TUN devices need root with CAP_NET_ADMIN and CAP_SYS_ADMIN ({said})"
    return None


def _run_inside():
    flags = ["--net", "--mount", "--pid", "--fork", "--mount-proc", "--kill-child"]
    # The inner process dies with this one, also when this one is killed outright.
    command = ["setpriv", "--pdeathsig", "KILL", "unshare", *flags, sys.executable, *sys.argv]
    # Ctrl-C reaches the inner process too; this one waits for it.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    inner = subprocess.Popen(command, env=os.environ | {INSIDE: "1"}, preexec_fn=_restore_interrupt)
    for ending in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(ending, lambda *_: inner.kill())
    try:
        code = inner.wait()
    finally:
        inner.kill()
    return code if code >= 0 else 128 - code


def _restore_interrupt():
    signal.signal(signal.SIGINT, signal.default_int_handler)
