"""Every case there is: who asks for what through which door. `--only` chooses among all of them, the default run takes
the `usual` ones, which fit into an hour and a quarter.

SPDX-License-Identifier: Apache-2.0
"""

from dataclasses import dataclass

KIB, MIB = 1 << 10, 1 << 20
ALL_BRICKS = (0, 1, 2, 3)
RATIOS = (1, 2, 4, 8, 16, 32)
# Servers over which a client stripes: so many requests it keeps outstanding, one at each.
WIDTH = {"gluster": len(ALL_BRICKS), "s3": 1}
MIXES = {"write": ("write",), "read": ("read",), "mixed": ("read", "write")}
# Of the link's rate: where each rival came nearest to its ratio.
BEST_CONFIGURED = {"nginx": 0.8, "envoy": 0.7}
SCHEDULERS = ("fifo", "sfq-depth", "anticipating")


@dataclass(frozen=True)
class Part:
    """So many outstanding requests of one size, in a closed loop. Periods are (begin, end) in seconds after warm-up."""

    operations: tuple
    bytes: int
    outstanding: int
    periods_s: tuple = ()
    pause_ms: int = 0
    random: bool = False


@dataclass(frozen=True)
class Application:
    name: str
    weight: int
    parts: tuple
    servers: tuple = ALL_BRICKS


@dataclass(frozen=True)
class Case:
    """`door` is direct, a scheduler of the gate, or a rival."""

    store: str
    group: str
    name: str
    door: str
    applications: tuple
    usual: bool = False
    # Of the seconds asked for; baselines that only have to be seen need no full minute.
    share_of_time: float = 1.0
    interval_ms: int = 100
    # The part of the link's rate that a rival is configured with; above what passes it, the link decides and not the rival.
    configured_rate: float = 0.9

    def title(self):
        return f"{self.store} {self.group} {self.name} {self.door}"


def size(count):
    return f"{count // MIB} MiB" if count >= MIB else f"{count // KIB} KiB"


def everything(seconds):
    """All cases; `seconds` is the measured time, which those that come and go fill with their periods."""
    found = []
    for store in ("gluster", "s3"):
        found += [*overhead(store), *ratios(store), *few(store), *idle_return(store, seconds), *mixes(store, seconds)]
    found += [*unequal(), *server_sets(), *partition(seconds), *equal(), *crowd(), *database(), *rivals(seconds)]
    return found


def overhead(store):
    """One application alone: what the gate costs in throughput and in processor time."""
    for clients in (1, 8, 32):
        for door in ("direct", "fifo", "anticipating"):
            alone = Application("heavy", 1, (Part(("write",), 256 * KIB, clients * WIDTH[store]),))
            usual = door != "fifo" or clients == 32
            yield Case(store, "overhead", f"{clients} clients", door, (alone,), usual, 0.5)


def two(store, weights, operations, request, clients=(32, 32)):
    names = ("heavy", "light")
    return tuple(
        Application(name, weight, (Part(operations, request, count * WIDTH[store]),))
        for name, weight, count in zip(names, weights, clients)
    )


def ratios(store):
    """The source's figure: two applications, desired ratio on one axis, achieved on the other."""
    for ratio in RATIOS:
        for mix, operations in MIXES.items():
            for request in (256 * KIB, 64 * KIB):
                for door in SCHEDULERS:
                    name = f"{ratio}:1 {mix} {size(request)}"
                    usual = _usual_ratio(store, ratio, mix, request, door)
                    yield Case(store, "ratio", name, door, two(store, (ratio, 1), operations, request), usual)


def _usual_ratio(store, ratio, mix, request, door):
    if door == "fifo":
        return ratio == 16 and mix == "write" and request == 256 * KIB
    if door == "sfq-depth":
        return ratio == 16 and mix == "write" and (store == "gluster" or request == 256 * KIB)
    if mix != "write":
        return ratio == 16 and request == 64 * KIB
    if request == 256 * KIB:
        return ratio > 1
    return ratio >= (4 if store == "gluster" else 8)


def few(store):
    """The heavy application keeps few requests outstanding at each server; alone it shows what it could get at most."""
    for outstanding in (1, 2, 4, 8, 16):
        alone = two(store, (16, 1), ("write",), 64 * KIB, (outstanding, 32))[:1]
        yield Case(store, "few", f"alone with {outstanding} outstanding", "fifo", alone, outstanding == 4, 0.5)
        for door in SCHEDULERS:
            usual = (
                outstanding == 4
                and door != "fifo"
                or outstanding == 8
                and store == "gluster"
                and door == "anticipating"
            )
            both = two(store, (16, 1), ("write",), 64 * KIB, (outstanding, 32))
            yield Case(store, "few", f"16:1 with {outstanding} outstanding", door, both, usual)


def unequal():
    """The source's asymmetric figure (40:20, 48:12, 56:7, 48:3 clients), with half the clients."""
    for count in (1, 3):
        alone = two("gluster", (1, 1), ("write",), 256 * KIB, (24, count))[1:]
        yield Case("gluster", "unequal", f"light alone with {count} clients", "fifo", alone, True, 0.5)
    for counts in ((20, 10), (24, 6), (28, 3), (24, 1)):
        for door in SCHEDULERS:
            both = two("gluster", (1, 1), ("write",), 256 * KIB, counts)
            yield Case("gluster", "unequal", f"{counts[0]}:{counts[1]} clients", door, both, door == "anticipating")


def server_sets():
    """Applications that use different servers: the total counts, so far as the servers allow."""
    for label, weights, sets in (
        ("all and half", (1, 1), (ALL_BRICKS, (0, 1))),
        ("all and one", (1, 1), (ALL_BRICKS, (0,))),
        ("overlapping halves", (2, 1), ((0, 1, 2), (2, 3))),
    ):
        for door in SCHEDULERS:
            both = tuple(
                Application(name, weight, (Part(("write",), 64 * KIB, 32 * len(used)),), used)
                for name, weight, used in zip(("heavy", "light"), weights, sets)
            )
            yield Case(
                "gluster", "server sets", f"{label} {weights[0]}:{weights[1]}", door, both, door == "anticipating"
            )


def partition(seconds):
    """Three bricks for one and one for the other, against 3:1 by the gate, while the other works half of the time."""
    away = periods(seconds, 10, 5)
    for label, door, sets in (
        ("bricks divided 3:1", "direct", ((0, 1, 2), (3,))),
        ("bricks shared 3:1", "anticipating", (ALL_BRICKS, ALL_BRICKS)),
    ):
        heavy = Application("heavy", 3, (Part(("write",), 64 * KIB, 32 * len(sets[0])),), sets[0])
        light = Application("light", 1, (Part(("write",), 64 * KIB, 32 * len(sets[1]), away),), sets[1])
        yield Case("gluster", "partition", label, door, (heavy, light), True, interval_ms=100)


def idle_return(store, seconds):
    """One works all the time, the other a second on and a second off."""
    toggled = periods(seconds, 2, 1)
    for door in SCHEDULERS:
        steady = Application("heavy", 1, (Part(("read",), 64 * KIB, 32 * WIDTH[store]),))
        coming = Application("light", 1, (Part(("read",), 64 * KIB, 32 * WIDTH[store], toggled),))
        yield Case(
            store, "idle and return", "1 s on, 1 s off", door, (steady, coming), door == "anticipating", interval_ms=10
        )


def periods(seconds, every_s, on_s):
    """(begin, end) after warm-up; the first begins with the run, so that warm-up is warm-up for both."""
    return tuple((begin, begin + on_s) for begin in range(0, int(seconds) + every_s, every_s))


def mixes(store, seconds):
    """Like the source's applications: bursts of large checkpoints, a database's reads, many small objects."""
    large = 64 * MIB if store == "s3" else 256 * KIB
    bursts = periods(seconds, 10, 5)
    for door in SCHEDULERS:
        applications = (
            Application("checkpoint", 2, (Part(("write",), large, 16, bursts),)),
            Application("database", 4, (Part(("read",), 4 * KIB, 4, random=True),)),
            Application("small", 2, (Part(("write", "read"), 64 * KIB, 16),)),
        )
        yield Case(store, "workloads", "checkpoints, database, small", door, applications, door != "sfq-depth")


def equal():
    """Sixteen applications of one weight."""
    for door in SCHEDULERS:
        all_of_them = tuple(Application(f"equal{n}", 1, (Part(("write",), 64 * KIB, 4),)) for n in range(16))
        yield Case("s3", "equal", "16 applications", door, all_of_them, door == "anticipating")


def crowd():
    """A thousand connections for minutes: is anybody left out, and how much does the gate hold?"""
    for door in SCHEDULERS:
        both = two("s3", (4, 1), MIXES["mixed"], 64 * KIB, (500, 500))
        yield Case("s3", "crowd", "1000 connections 4:1", door, both, door == "anticipating", 3)


def database():
    """4 KiB reads beside sixteen large writers, every application of the same weight."""
    reader = Application("database", 1, (Part(("read",), 4 * KIB, 1, random=True),))
    yield Case("s3", "database", "4 KiB reads alone", "fifo", (reader,), True, 0.5)
    for door in SCHEDULERS:
        writers = tuple(Application(f"equal{n}", 1, (Part(("write",), 64 * MIB, 1),)) for n in range(16))
        yield Case("s3", "database", "4 KiB reads, 16 large writers", door, (reader, *writers), door != "sfq-depth")


def rivals(seconds):
    """Others' limiters, each configured with the link's rate, at 16:1 and when one application comes and goes."""
    toggled = periods(seconds, 2, 1)
    for door in ("nginx", "envoy"):
        # nginx limits answers only.
        for mix in ("read",) if door == "nginx" else ("read", "write"):
            both = two("s3", (16, 1), MIXES[mix], 256 * KIB)
            for rate in (0.7, 0.8, 0.9, 1.0):
                name = f"16:1 {mix} 256 KiB, configured {rate:.0%}"
                yield Case("s3", "rivals", name, door, both, rate == BEST_CONFIGURED[door], configured_rate=rate)
        steady = Application("heavy", 1, (Part(("read",), 64 * KIB, 32),))
        coming = Application("light", 1, (Part(("read",), 64 * KIB, 32, toggled),))
        yield Case(
            "s3",
            "rivals",
            "1 s on, 1 s off",
            door,
            (steady, coming),
            door == "envoy",
            interval_ms=10,
            configured_rate=BEST_CONFIGURED[door],
        )
    yield Case("s3", "rivals", "16:1 read 256 KiB", "anticipating", two("s3", (16, 1), MIXES["read"], 256 * KIB), True)
