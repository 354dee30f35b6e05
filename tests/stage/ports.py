"""Ports for servers that need a fixed one."""

import random
import socket
from pathlib import Path

from .registry import Failure

EPHEMERAL = Path("/proc/sys/net/ipv4/ip_local_port_range")


def free_port():
    """A free port that the system gives to no connection before the server takes it."""
    first_ephemeral = int(EPHEMERAL.read_text().split()[0])
    for port in random.SystemRandom().sample(range(10_000, first_ephemeral), 100):
        try:
            socket.create_server(("127.0.0.1", port)).close()
        except OSError:
            continue
        return port
    raise Failure(f"none of 100 ports below {first_ephemeral} is free")
