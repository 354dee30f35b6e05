"""A paced link between two network namespaces: ours, where gate and clients are, and `back`, where the server is.

Both directions share one token bucket (an ifb device), as a disk's reads and writes share its arm: the server then has
one rate, whatever the mix. Its queue is small, a few ms. Reno: it needs no timers of its own, unlike BBR, and is
what a kernel lets every namespace choose.
SPDX-License-Identifier: Apache-2.0
"""

import contextlib
import subprocess

BACK = "back"
BACK_ADDRESS = "10.77.0.2"
FRONT_ADDRESS = "10.77.0.1"
BURST = "128kb"
QUEUE = "512kb"


@contextlib.contextmanager
def paced(rate_bytes_per_s):
    _ip("netns add", BACK)
    try:
        _ip(f"link add front type veth peer name back netns {BACK}")
        _ip(f"addr add {FRONT_ADDRESS}/30 dev front"), _ip("link set front up")
        (
            _ip(f"-n {BACK} addr add {BACK_ADDRESS}/30 dev back"),
            _ip(f"-n {BACK} link set back up"),
            _ip(f"-n {BACK} link set lo up"),
        )
        for prefix in ([], ["ip", "netns", "exec", BACK]):
            _run(*prefix, "sysctl", "-q", "net.ipv4.tcp_congestion_control=reno")
        _share_bucket(rate_bytes_per_s)
        yield
    finally:
        _ip("netns del", BACK)


def _share_bucket(rate_bytes_per_s):
    _ip("link add shared type ifb"), _ip("link set shared up")
    _run("tc", *f"qdisc add dev shared root tbf rate {rate_bytes_per_s * 8} burst {BURST} limit {QUEUE}".split())
    _run("tc", *"qdisc add dev front clsact".split())
    for direction in ("egress", "ingress"):
        everything = f"filter add dev front {direction} protocol all prio 1 u32 match u32 0 0"
        _run("tc", *everything.split(), *"action mirred egress redirect dev shared".split())


def _ip(*words):
    _run("ip", *" ".join(words).split())


def _run(*command):
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)}: {done.stderr.strip()}")
