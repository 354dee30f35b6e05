"""The gate under test: its configuration for a case, its processes, and what it says it moved.

SPDX-License-Identifier: Apache-2.0
"""

import contextlib
import re
import urllib.request
from dataclasses import dataclass, field

from gating import bricks, objects, processes

FIRST_DOOR = 25_000
FIRST_METRICS = 26_000
FIRST_EXCHANGE = 27_000


@dataclass
class Doors:
    """Where clients go instead of to the servers; empty when they go there directly."""

    addresses: list = field(default_factory=list)
    pids: list = field(default_factory=list)
    metrics: list = field(default_factory=list)

    def counters(self):
        """{(name, labels): sum over the gates}, or None where there are no gates."""
        if not self.metrics:
            return None
        sums = {}
        for address in self.metrics:
            with urllib.request.urlopen(f"http://{address}/metrics", timeout=5) as page:
                for name, value in parse(page.read().decode()):
                    sums[name] = sums.get(name, 0) + value
        return sums


def parse(page):
    """The samples of a Prometheus page, as ((name, labels), value)."""
    for name, labels, value in re.findall(r"^(\w+)(?:\{(.*)\})? (\S+)$", page, re.MULTILINE):
        yield (name, tuple(sorted(re.findall(r'(\w+)="([^"]*)"', labels)))), float(value)


def moved_bytes(counters, application):
    """Bytes of bodies that passed for an application, both directions."""
    name = "thalweg_gate_bytes_total"
    return sum(
        value
        for (family, labels), value in counters.items()
        if family == name and ("application", application) in labels
    )


def exchange_bytes(counters):
    return counters.get(("thalweg_gate_exchange_sent_bytes_total", ()), 0)


def depth_bytes(counters):
    """The bytes that may be outstanding, at all servers together; FIFO says 2^64 - 1 for each."""
    return int(sum(value for (family, _), value in counters.items() if family == "thalweg_gate_depth_bytes"))


@contextlib.contextmanager
def opened(thalweg, case, folder):
    """A gate before each server of the case."""
    servers = [objects.ADDRESS] if case.store == objects.NAME else bricks.ADDRESSES
    doors = Doors()
    with contextlib.ExitStack() as stack:
        for number, server in enumerate(servers):
            path = folder / f"gate{number}.toml"
            path.write_text(configuration(case, number, server, len(servers)))
            command = [thalweg, "gate", "--config", path]
            answers = processes.listening("127.0.0.1", FIRST_DOOR + number)
            gate = stack.enter_context(processes.running(command, folder / f"gate{number}.log", answers))
            doors.addresses.append(f"127.0.0.1:{FIRST_DOOR + number}")
            doors.metrics.append(f"127.0.0.1:{FIRST_METRICS + number}")
            doors.pids.append(gate.pid)
        yield doors


def configuration(case, number, server, count):
    lines = [f'scheduler = "{case.door}"', 'depth = "auto"', f'metrics = "127.0.0.1:{FIRST_METRICS + number}"']
    lines += [
        "[[listen]]",
        f'protocol = "{case.store}"',
        f'address = "127.0.0.1:{FIRST_DOOR + number}"',
        f'upstream = "{server}"',
    ]
    for index, application in enumerate(case.applications):
        rule = (
            f'bucket = "{application.name}"' if case.store == objects.NAME else f'client = "{bricks.address_of(index)}"'
        )
        lines += [
            "[[application]]",
            f'name = "{application.name}"',
            f"weight = {application.weight}",
            f"match = {{ {rule} }}",
        ]
    if count > 1:
        peers = ", ".join(f'"127.0.0.1:{FIRST_EXCHANGE + other}"' for other in range(count) if other != number)
        lines += ["[exchange]", f'address = "127.0.0.1:{FIRST_EXCHANGE + number}"', f"peers = [{peers}]"]
    return "\n".join(lines) + "\n"
