"""From the load generator's report and the gates' counters to the rows that are kept.

A row of `gate.csv` is one application in one case; one of `gate-requests.csv` one kind of request of it; one of
`gate-series.csv` one interval. Megabytes are 10^6 bytes.
SPDX-License-Identifier: Apache-2.0
"""

import math

from gating import allocation, gates

MEGABYTE, GIGABYTE = 1e6, 1e9


def rows(case, report, watched, kept=()):
    """The case's rows of gate.csv. `kept` are those of earlier cases: who was measured alone is due no more than that."""
    measured = {a["name"]: sum(window(report, a)) for a in report["applications"]}
    total = sum(measured.values())
    seconds = report["measured_ms"] / 1000
    wanted = due(case, total / seconds / MEGABYTE, kept)
    found = []
    for application, share in zip(case.applications, wanted):
        reported = next(a for a in report["applications"] if a["name"] == application.name)
        found.append(
            named(case)
            | {
                "application": application.name,
                "weight": application.weight,
                "outstanding": sum(part.outstanding for part in application.parts),
                "servers": len(application.servers) if case.store == "gluster" else 1,
                "seconds": seconds,
                "megabytes_per_s": round(measured[application.name] / seconds / MEGABYTE, 3),
                "share": round(measured[application.name] / max(total, 1), 5),
                "wanted_share": round(share, 5),
                "failures": reported["failures"],
                "total_megabytes_per_s": round(total / seconds / MEGABYTE, 3),
                "client_bytes": sum(reported["bytes"]),
                "gate_bytes": watched.moved_bytes(application.name),
                "load_cpu_s": report["cpu_s"],
            }
            | watched.columns(total)
        )
    return found


def due(case, total_megabytes_per_s, kept):
    """The feasible allocation, as parts of the total, with what was measured alone as bounds."""
    used = frozenset().union(*(application.servers for application in case.applications))
    server = total_megabytes_per_s / len(used)
    bounds = [alone(case, application, kept) / max(server, 1e-9) for application in case.applications]
    return allocation.shares([a.weight for a in case.applications], [a.servers for a in case.applications], bounds)


def alone(case, application, kept):
    """Megabytes a second of the same application alone, with as many requests outstanding; without such a row no bound.
    Of several rows the newest counts."""
    bound = math.inf
    for row in kept:
        is_alone = row["store"] == case.store and row["group"] == case.group and "alone" in row["case"]
        if is_alone and "alone" not in case.name and row["application"] == application.name:
            if int(row["outstanding"]) == sum(part.outstanding for part in application.parts):
                bound = float(row["megabytes_per_s"])
    return bound


def named(case):
    return {"store": case.store, "group": case.group, "case": case.name, "door": case.door}


def window(report, application):
    """The bytes of each interval that was measured."""
    begin = report["warm_ms"] // report["interval_ms"]
    return application["bytes"][begin : begin + report["measured_ms"] // report["interval_ms"]]


def request_rows(case, report):
    for application in report["applications"]:
        for kind in application["requests"]:
            yield named(case) | {"application": application["name"]} | kind


def series_rows(case, report):
    for application in report["applications"]:
        for number, moved in enumerate(window(report, application)):
            time_ms = number * report["interval_ms"]
            yield named(case) | {"application": application["name"], "time_ms": time_ms, "bytes": moved}


class Watched:
    """Processor and memory of the machine and the doors while a case was measured, and while it ran at all."""

    def __init__(self):
        self.counters_before = self.counters_after = None
        self.idle = self.door_cpu_s = self.door_peak_bytes = None

    def moved_bytes(self, application):
        if self.counters_after is None:
            return ""
        after, before = (gates.moved_bytes(c, application) for c in (self.counters_after, self.counters_before))
        return int(after - before)

    def columns(self, total_bytes):
        exchanged = ""
        if self.counters_after is not None:
            exchanged = int(gates.exchange_bytes(self.counters_after) - gates.exchange_bytes(self.counters_before))
        cpu = "" if self.door_cpu_s is None else round(self.door_cpu_s / max(total_bytes, 1) * GIGABYTE, 4)
        peak = "" if self.door_peak_bytes is None else round(self.door_peak_bytes / (1 << 20), 1)
        depth = "" if self.counters_after is None else gates.depth_bytes(self.counters_after)
        return {
            "idle": round(self.idle, 3),
            "door_cpu_s_per_gb": cpu,
            "door_peak_mib": peak,
            "exchange_bytes": exchanged,
            "depth_bytes": depth,
        }


def disagreement(row):
    """By how much, as a part of the clients' bytes, the gate counted other bytes than the clients; None without a gate.

    Requests under way when the clients stop are known to one side only: what was outstanding is allowed for by the
    caller, who knows the sizes.
    """
    if row["gate_bytes"] == "" or not int(row["client_bytes"]):
        return None
    return int(row["gate_bytes"]) / int(row["client_bytes"]) - 1
