"""Tables and figures of what `thalweg codecs --json` found.

SPDX-License-Identifier: Apache-2.0
"""

from measuring import rows, svg

# What the chooser promises in mode `performance` is held against these.
STATIC = {"lz4:fast": "lz4fast", "lz4": "lz4", "zstd:1": "zstd:1", "zstd:3": "zstd:3"}
# Where a document does not say what a busy core took.
CORE_WATTS = 10
NANOJOULES_PER_STORED_BYTE = 200
MODES = ["performance", "balanced", "archival", "energy"]


def publish(folder, found):
    encodings = [encoding(found, row) for row in sorted(found["candidates"] + found["references"], key=size)]
    adaptive = [row for mode in modes(found) for row in choice_rows(found, *mode)]
    links = [row for link in found["links"] for row in link_rows(found, link)]
    rows.write(folder / "encodings.csv", encodings)
    rows.write(folder / "choices.csv", adaptive)
    rows.write(folder / "links.csv", links)
    svg.write(folder / "throughput.svg", [panel(links, way) for way in WAYS])
    (folder / "codecs.md").write_text(summary(found, encodings, adaptive, links))


def size(row):
    return row["stored_bytes"]


def encoding(found, row):
    gigabytes = found["original_bytes"] / 1e9
    cpu = row["compress_seconds"] + row["decompress_seconds"]
    return {
        "encoding": row["name"],
        "ratio": round(row["ratio"], 3),
        "compress MB/s": round(row["compress_mb_per_s"], 1),
        "decompress MB/s": round(row["decompress_mb_per_s"], 1),
        "CPU s/GB": round(cpu / gigabytes, 2),
        "J/GB": round(joules(found, row, cpu) / gigabytes),
    }


def joules(found, row, cpu_seconds):
    """The model of mode `energy`: see crates/policy/src/compression/mode.rs."""
    return found.get("core_watts", CORE_WATTS) * cpu_seconds + NANOJOULES_PER_STORED_BYTE * row["stored_bytes"] / 1e9


def modes(found):
    """(name, comparison) of each mode; `performance` over a link that makes it choose, of 100 MiB/s."""
    for name in MODES:
        if name == "performance":
            for link in found["links"]:
                if link["link_bytes_per_s"] in (100 << 20, 1 << 30):
                    yield f"performance, {link['link_bytes_per_s'] >> 20} MiB/s", link
        else:
            yield name, found["modes"][name]


def choice_rows(found, name, mode):
    """The best single encoding, what was chosen, and the oracle."""
    chosen = mode | {"name": "auto", "stored_bytes": mode["chosen_bytes"]}
    for title, row in (("static", mode["best_single"]), ("adaptive", chosen), ("oracle", mode["oracle"])):
        cpu = row["compress_seconds"] + row["decompress_seconds"]
        yield {
            "mode": name,
            "choice": title,
            "encoding": row["name"],
            "ratio": round(found["original_bytes"] / row["stored_bytes"], 3),
            "compress MB/s": round(found["original_bytes"] / row["compress_seconds"] / 1e6, 1),
            "decompress MB/s": round(found["original_bytes"] / row["decompress_seconds"] / 1e6, 1),
            "J/GB": round(joules(found, row, cpu) / found["original_bytes"] * 1e9),
            "cost / oracle's": round(row["cost"] / mode["oracle"]["cost"], 4),
        }


WAYS = {
    "encoded, then sent": lambda seconds, sending: seconds + sending,
    "encoded while sent": max,
}


def link_rows(found, link):
    """Raw bytes a second of one core and a link, uncompressed, by single codecs, and as mode `performance` chose there."""
    auto = {"name": "auto", "stored_bytes": link["chosen_bytes"], "compress_seconds": link["compress_seconds"]}
    oracle = link["oracle"] | {"name": "oracle"}
    named = [row for row in found["candidates"] + found["references"] if row["name"] in STATIC]
    rate = link["link_bytes_per_s"]
    for row in [*named, auto, oracle]:
        sending = row["stored_bytes"] / rate
        for way, total in WAYS.items():
            # What the oracle takes is best for the first way alone.
            if row is oracle and total is max:
                continue
            yield {
                "link MB/s": round(rate / 1e6, 1),
                "way": way,
                "encoding": STATIC.get(row["name"], row["name"]),
                "effective MB/s": round(found["original_bytes"] / total(row["compress_seconds"], sending) / 1e6, 1),
                "of the link": round(found["original_bytes"] / total(row["compress_seconds"], sending) / rate, 3),
            }


def panel(links, way):
    of_way = [row for row in links if row["way"] == way]
    rates = [row["link MB/s"] for row in of_way]
    ticks = [(rate, f"{rate:g}") for rate in (1, 3, 10, 30, 100, 300, 1000, 3000)]
    across = svg.Axis("link, MB/s a core", min(rates), max(rates), log=True, ticks=ticks)
    most = max(row["of the link"] for row in of_way)
    drawn = svg.Panel(f"Effective throughput, {way}", across, svg.Axis("× the link's own", 0, most * 1.08))
    for number, ((name,), found) in enumerate(rows.groups(of_way, "encoding").items()):
        points = [(row["link MB/s"], row["of the link"]) for row in found]
        colour = "#111111" if name == "auto" else svg.COLOURS[number % len(svg.COLOURS)]
        drawn.line(points, name, colour, dashed=name == "oracle", dots=name == "auto")
    drawn.line([(min(rates), 1), (max(rates), 1)], "uncompressed", "#bbbbbb", dots=False)
    return drawn


def summary(found, encodings, adaptive, links):
    return "\n\n".join([
        "# Codecs on held-out data",
        f"{found['blocks']} blocks of {found['files']} files, {found['original_bytes'] / 1e6:.1f} MB; raw documents and tables "
        "lie beside this page. Speeds and energy are by the processor time of one thread, whatever else the machine did; "
        "stored bytes have the blocks' headers in them. J/GB is the model of mode `energy`. lzjb is in no library we know of: not "
        "measured; zle is what `zero-run` does.",
        "## Each encoding, for all blocks",
        table(encodings),
        "## One encoding for all blocks against a choice for each",
        "*static* is the single candidate of least cost in the mode, known afterwards; *adaptive* what the mode chose, the "
        "time to choose included; *oracle* the best of each block, known afterwards.",
        table(adaptive),
        regrets(found),
        "## Effective throughput",
        "Computed from measured codec times and the link's rate; nothing was sent. Of one core: with n cores a link of n times "
        "the rate. *Then*: a block is encoded, then sent, which is what mode `performance` weighs. *While*: the next one is encoded "
        "meanwhile, as the lecture reckons.",
        *(f"{way}, MB/s:\n\n{link_table(links, way)}" for way in WAYS),
        "![](throughput.svg)",
        "![](codecs.svg)",
    ]) + "\n"


def table(found):
    return rows.markdown(list(found[0]), [row.values() for row in found])


def regrets(found):
    head = ["mode", "kind", "mean %", "p99 %", "worst %", "choosing % of compressing"]
    lines = []
    named = [(f"performance, {link['link_bytes_per_s'] >> 20} MiB/s", link) for link in found["links"]]
    for name, mode in named + [(name, found["modes"][name]) for name in MODES[1:]]:
        kinds = ["size_regret", "cost_regret"] if name == "archival" else ["cost_regret", "cost_regret_with_choosing"]
        kinds += ["over_uncompressed"] if name.startswith("performance") else []
        choosing = round(100 * mode["choosing_seconds"] / mode["compress_seconds"], 2)
        for kind in kinds:
            values = [round(100 * mode[kind][part], 2) for part in ("mean", "p99", "worst")]
            lines.append([name, kind.replace("_", " "), *values, choosing])
    return "Regret of a block: what its choice costs more than the oracle's.\n\n" + rows.markdown(head, lines)


def link_table(links, way):
    of_way = [row for row in links if row["way"] == way]
    encodings = list(rows.groups(of_way, "encoding"))
    lines = [[rate, *(row["effective MB/s"] for row in found)] for (rate,), found in rows.groups(of_way, "link MB/s").items()]
    return rows.markdown(["link MB/s", *(name for (name,) in encodings)], lines)
