"""Figures and tables from the kept rows; of a case that was run more than once, the newest rows count.

SPDX-License-Identifier: Apache-2.0
"""

from pathlib import Path

from gating import edges
from measuring import rows, svg

COLOURS = {
    "direct": "#8c8c8c",
    "fifo": "#b07d2b",
    "sfq-depth": "#e08214",
    "anticipating": "#1f6fb4",
    "nginx": "#2f9e44",
    "envoy": "#8e44ad",
    "source": "#c0392b",
    "wanted": "#111111",
}
APPLICATIONS = ("#1f6fb4", "#e08214", "#2f9e44", "#8e44ad")
# vPFS (PDSW 2010): achieved for desired 2, 4, 8, 16 : 1, sequential writes; and for unequal clients, desired 1 : 1.
SOURCE_RATIOS = {"256 KiB": {2: 1.90, 4: 3.32, 8: 4.33, 16: 5.84}, "64 KiB": {2: 1.96, 4: 3.74, 8: 6.33, 16: 10.13}}
SOURCE_UNEQUAL = {"20:10": 1.01, "24:6": 1.03, "28:3": 1.01, "24:1": 1.23}
STORES = {"gluster": "GlusterFS, four bricks", "s3": "S3"}


def publish(folder: Path):
    found = newest(rows.read(folder / "gate.csv"))
    if not found:
        print(f"there are no rows in {folder / 'gate.csv'}")
        return
    requests = newest(rows.read(folder / "gate-requests.csv"))
    series = newest(rows.read(folder / "gate-series.csv"))
    text = tables(found, requests, series)
    (folder / "gate.md").write_text(text)
    for name, panels in figures(found, requests, series):
        if panels:
            svg.write(folder / f"gate-{name}.svg", panels)
    print(f"rows, tables (gate.md) and figures (gate-*.svg): {folder}")


def newest(found):
    """{(store, group, case, door): rows}. A repeated case begins again with a row that was there: those before go."""
    kept = {}
    for row in found:
        key = (row["store"], row["group"], row["case"], row["door"])
        identity = tuple(row.get(part, "") for part in ("application", "operation", "time_ms")) + (
            row["bytes"] if "answered" in row else "",
        )
        seen = kept.setdefault(key, {})
        if identity in seen:
            seen.clear()
        seen[identity] = row
    return {key: list(seen.values()) for key, seen in kept.items()}


def group(found, name):
    return {key: lines for key, lines in found.items() if key[1] == name}


def number(row, key):
    return float(row[key]) if row[key] != "" else None


def achieved(lines):
    """Heavy over light."""
    heavy, light = (number(row, "megabytes_per_s") for row in lines[:2])
    return heavy / light if light else None


def figures(found, requests, series):
    yield "ratios", list(ratio_panels(found))
    yield "overhead", list(overhead_panels(found))
    yield "few", list(few_panels(found))
    yield "unequal", list(unequal_panels(found))
    yield "shares", list(share_panels(found))
    yield "latency", list(latency_panels(requests))
    yield "return", list(return_panels(series))


def ratio_panels(found):
    curves = {}
    for (store, _, case, door), lines in group(found, "ratio").items():
        ratio, mix, size = case.split(" ", 2)
        desired = int(ratio.split(":")[0])
        if achieved(lines):
            curves.setdefault((store, mix, size), {}).setdefault(door, {})[desired] = achieved(lines) / desired
    for (store, mix, size), doors in sorted(
        curves.items(), key=lambda item: (item[0][0], item[0][1] != "write", item[0])
    ):
        ticks = [(ratio, f"{ratio}:1") for ratio in (1, 2, 4, 8, 16, 32)]
        x = svg.Axis("desired ratio", 0.9, 36, log=True, ticks=ticks)
        panel = svg.Panel(f"{STORES[store]}, {mix} {size}", x, svg.Axis("achieved ÷ desired", 0, 1.2))
        panel.line([(0.9, 1), (36, 1)], "", "#bbbbbb", dots=False)
        if mix == "write":
            source = {ratio: got / ratio for ratio, got in SOURCE_RATIOS[size].items()}
            panel.line(sorted(source.items()), "vPFS 2010, SFQ(D)", COLOURS["source"], dashed=True)
        for door in sorted(doors):
            panel.line(sorted(doors[door].items()), door, COLOURS[door])
        yield panel


def overhead_panels(found):
    for store in STORES:
        lines = {key: rows_ for key, rows_ in group(found, "overhead").items() if key[0] == store}
        values = {(case, door): number(got[0], "megabytes_per_s") for (_, _, case, door), got in lines.items()}
        yield from bar_panel(f"{STORES[store]}: one application, 256 KiB writes", "MB/s", values)


def bar_panel(title, label, values, most=None, log=False, least=0, wanted=None, text="{:.3g}"):
    """Clusters of bars: `values` by (cluster, series); `wanted` by the same, drawn as rules."""
    values = {key: value for key, value in values.items() if value is not None}
    if not values:
        return
    clusters, members = list(dict.fromkeys(c for c, _ in values)), list(dict.fromkeys(s for _, s in values))
    ticks = [(index + 0.5, cluster) for index, cluster in enumerate(clusters)]
    most = most or max(values.values()) * 1.15
    panel = svg.Panel(title, svg.Axis("", 0, len(clusters), ticks=ticks), svg.Axis(label, least, most, log=log))
    width = 0.8 / len(members)
    for (cluster, member), value in values.items():
        begin = clusters.index(cluster) + 0.1 + width * members.index(member)
        colour = COLOURS.get(member, APPLICATIONS[members.index(member) % len(APPLICATIONS)])
        panel.bar(begin, begin + width * 0.9, value, member, colour, text.format(value))
        if wanted and (cluster, member) in wanted:
            panel.level(begin, begin + width * 0.9, wanted[cluster, member], "due", COLOURS["wanted"])
    yield panel


def few_panels(found):
    """The trade-off: what the heavy application gets, and what the server loses by waiting for it."""
    for store in STORES:
        shares, totals = {}, {}
        for (place, _, case, door), lines in group(found, "few").items():
            if place == store and case.startswith("16:1"):
                outstanding = int(case.split()[2])
                shares.setdefault(door, {})[outstanding] = number(lines[0], "share")
                totals.setdefault(door, {})[outstanding] = number(lines[0], "total_megabytes_per_s")
        if not shares:
            continue
        for label, curves, most in (
            ("heavy's part of the total (due: 0.94)", shares, 1.05),
            ("total MB/s", totals, 90),
        ):
            ticks = [(count, str(count)) for count in (1, 2, 4, 8, 16)]
            x = svg.Axis(
                "heavy's outstanding requests of 64 KiB at each server (light: 32)", 0.9, 18, log=True, ticks=ticks
            )
            panel = svg.Panel(f"{STORES[store]}, 16:1", x, svg.Axis(label, 0, most))
            for door, curve in curves.items():
                panel.line(sorted(curve.items()), door, COLOURS[door])
            yield panel


def unequal_panels(found):
    values = {}
    for (_, _, case, door), lines in group(found, "unequal").items():
        if "alone" not in case:
            counts = case.split()[0]
            values[counts, door] = achieved(lines)
            if counts in SOURCE_UNEQUAL:
                values[counts, "source"] = SOURCE_UNEQUAL[counts]
    yield from bar_panel("GlusterFS: unequal numbers of clients, desired 1:1", "achieved ratio", values)


def share_panels(found):
    for name in ("server sets", "partition", "workloads", "rivals"):
        by_store = {}
        for key, lines in group(found, name).items():
            by_store.setdefault(key[0], {})[key] = lines
        for store, lots in by_store.items():
            values, due = {}, {}
            for (_, _, case, door), lines in lots.items():
                for row in lines:
                    cluster = door if name == "workloads" else f"{case.replace(' 256 KiB', '')} {door}"
                    values[cluster[:34], row["application"]] = number(row, "megabytes_per_s")
                    if name == "server sets":
                        wanted = number(row, "wanted_share") * number(row, "total_megabytes_per_s")
                        due[cluster[:34], row["application"]] = wanted
            clusters = list(dict.fromkeys(cluster for cluster, _ in values))
            for start in range(0, len(clusters), 2):
                chosen = {key: value for key, value in values.items() if key[0] in clusters[start : start + 2]}
                yield from bar_panel(f"{STORES[store]}: {name}", "MB/s", chosen, wanted=due)
    for (store, _, case, door), lines in group(found, "equal").items():
        values = {("", row["application"]): number(row, "megabytes_per_s") for row in lines}
        for panel in bar_panel(f"{case}, {door}: Jain {jain(lines):.5f}", "MB/s", values, text=""):
            panel.legend = {}
            yield panel


def jain(lines):
    """Jain's index of bandwidth over weight: 1 when all get what they should."""
    got = [number(row, "megabytes_per_s") / number(row, "weight") for row in lines]
    return sum(got) ** 2 / (len(got) * sum(value * value for value in got)) if any(got) else 0


def latency_panels(requests):
    values = {}
    for (store, name, case, door), lines in requests.items():
        for row in lines:
            if name in ("database", "workloads") and row["application"] == "database":
                where = case if name == "database" else f"{STORES[store].split(',')[0]} workloads"
                values[where.replace("4 KiB reads", "").strip(", "), door] = int(row["p99_us"]) / 1000
    yield from bar_panel("4 KiB reads, 99th percentile", "ms", values, most=10_000, log=True, least=0.1)


def returning(series):
    """{key: (interval ms, mean cycle by application)} of the cases where one comes and goes each second."""
    found = {}
    for key, lines in series.items():
        if key[2] != "1 s on, 1 s off":
            continue
        moved = {}
        for row in lines:
            moved.setdefault(row["application"], []).append(int(row["bytes"]))
        interval = int(lines[1]["time_ms"]) - int(lines[0]["time_ms"])
        found[key] = interval, {name: edges.cycle(values, 2000, interval) for name, values in moved.items()}
    return {key: value for key, value in found.items() if all(value[1].values())}


def return_panels(series):
    for (store, _, case, door), (interval, cycles) in returning(series).items():
        x = svg.Axis("ms after the other application's return (mean of all cycles)", 0, 2000)
        most = max(edges.rate(max(cycle), interval) for cycle in cycles.values())
        panel = svg.Panel(f"{STORES[store]}, {door}: {case}", x, svg.Axis("MB/s", 0, min(most, 200)))
        for (name, cycle), colour in zip(cycles.items(), APPLICATIONS):
            panel.line(
                [(n * interval, edges.rate(value, interval)) for n, value in enumerate(cycle)], name, colour, dots=False
            )
        yield panel


def tables(found, requests, series):
    parts = [
        '# The gate\'s measurements\n\nMB are 10^6 bytes, s the seconds measured. "÷ due" is the share got over the share due; 1 is right.'
    ]
    for name in dict.fromkeys(key[1] for key in found):
        head = (
            "store, case, door",
            "s",
            "MB/s",
            "by application",
            "÷ due",
            "idle",
            "CPU-s/GB",
            "MiB",
            "counters",
            "exchange",
        )
        lines = [table_line(key, got) for key, got in group(found, name).items()]
        parts.append(f"## {name}\n\n{rows.markdown(head, lines)}")
    parts += [latency_table(requests), return_table(series)]
    return "\n\n".join(part for part in parts if part) + "\n"


def table_line(key, lines):
    first = lines[0]
    shown = lines if len(lines) < 5 else []
    rates = " / ".join(f"{number(row, 'megabytes_per_s'):.2f}" for row in shown) or f"Jain {jain(lines):.5f}"
    due = " / ".join(f"{number(row, 'share') / number(row, 'wanted_share'):.3f}" for row in shown)
    failures = sum(int(row["failures"]) for row in lines)
    title = f"{key[0]}, {key[2]}, {key[3]}" + (f" ({failures} failed)" if failures else "")
    idle = f"{number(first, 'idle'):.0%}"
    seconds, total = f"{number(first, 'seconds'):.0f}", f"{number(first, 'total_megabytes_per_s'):.2f}"
    return (title, seconds, total, rates, due, idle, first["door_cpu_s_per_gb"], first["door_peak_mib"],
            counters(lines), exchange(lines))  # fmt: skip


def counters(lines):
    """The gate's bytes over the clients', less one."""
    gate, clients = (sum(int(row[key] or 0) for row in lines) for key in ("gate_bytes", "client_bytes"))
    return f"{gate / clients - 1:+.2%}" if lines[0]["gate_bytes"] != "" and clients else ""


def exchange(lines):
    if not number(lines[0], "exchange_bytes"):
        return ""
    return f"{number(lines[0], 'exchange_bytes') / max(1, sum(int(row['client_bytes']) for row in lines)):.3%}"


def latency_table(requests):
    head = ("store, case, door, application, request", "answered", "median ms", "p95", "p99", "most")
    lines = []
    for (store, name, case, door), got in requests.items():
        if name in ("database", "workloads", "overhead"):
            for row in got:
                if row["application"].startswith("equal"):
                    continue
                what = f"{store}, {case}, {door}, {row['application']}, {row['operation']} {row['bytes']}"
                times = (f"{int(row[key]) / 1000:.2f}" for key in ("p50_us", "p95_us", "p99_us", "most_us"))
                lines.append((what, row["answered"], *times))
    return f"## latencies\n\n{rows.markdown(head, lines)}" if lines else ""


def return_table(series):
    lines = []
    for (store, _, case, door), (interval, cycles) in returning(series).items():
        stayer, comer = cycles.values()
        times = edges.measure(stayer, comer, 1000, interval, 0.5)
        lines.append((f"{store}, {door}", *("never" if found is None else f"{found:.0f}" for found in times)))
    head = ("store, door", "ms to reclaim", "ms until the share is back")
    return f"## idle and return\n\n{rows.markdown(head, lines)}" if lines else ""
