"""Tables and figures from the kept rows: medians with least and most, beside what no schedule beats.

SPDX-License-Identifier: Apache-2.0
"""

from measuring import rows, svg

from diffusion import contenders, surface

MIN_IDLE = 0.15
COLOURS = ("#1f6fb4", "#9ecae9", "#17a2b8", "#8c8c8c", "#e08214", "#2f9e44", "#8e44ad", "#b07d2b", "#c0392b", "#5d6d1e",
           "#d6649b", "#3f4f8f", "#7a5c3a", "#20808d", "#555555")
NUMBERS = (
    "makespan_s", "bound_s", "prepare_s", "store_bytes", "unique_bytes", "local", "peer", "store", "possible_hits", "idle",
)


def publish(folder):
    if not (folder / "runs.csv").exists() or not rows.read(folder / "runs.csv"):
        raise SystemExit(f"{folder}: no rows in runs.csv; give the folder that a run of bench/diffusion named at its end")
    found = [row | {key: float(row[key]) for key in NUMBERS} for row in rows.read(folder / "runs.csv")]
    texts = ["# Data diffusion beside Dask and Ray\n", EXPLANATION]
    for (workload,), lines in rows.groups(found, "workload").items():
        texts.append(f"## {workload}\n\n{described(lines[0])}\n\n{table(lines)}\n")
    if (folder / "surface.csv").exists():
        texts.append(surface.table(folder))
        surface.draw(folder)
    if (folder / "decisions.txt").exists():
        texts.append(f"## Decisions\n\n```\n{(folder / 'decisions.txt').read_text()}```\n")
    (folder / "runs.md").write_text("\n".join(texts))
    svg.write(folder / "runs.svg", [panel(workload, lines) for (workload,), lines in rows.groups(found, "workload").items()])
    print(f"rows, tables (runs.md) and figures: {folder}")


EXPLANATION = """Median (least–most) of the runs. *Bound*: unique bytes over the store's rate, or all work over all workers, whichever is
longer. *Store*: bytes the store counted over unique bytes. *Own*: inputs found in the own cache over those that can be.
*Idle*: the machine's, the least of the runs; under 15 % (marked !) the machine and not the schedule may have been what was measured.
"""


def described(row):
    return (
        f"{row['tasks']} tasks of {float(row['task_s']) * 1000:g} ms, {row['unique_bytes'] / 1e6:g} MB in files of "
        f"{float(row['file_bytes']) / 1e6:g} MB, caches of {float(row['cache_bytes']) / 1e6:g} MB a worker, "
        f"store {float(row['store_mb_s']):g} MB/s, seed {row['seed']}: bound {row['bound_s']:.2f} s."
    )


def table(lines):
    by_name = {name: of_one for (name,), of_one in rows.groups(lines, "contender").items()}
    ours = by_name.get("thalweg") or by_name.get("thalweg, little memory")
    head = ["contender", "makespan s", "× bound", "× thalweg", "store × unique", "own hits", "idle", "runs"]
    return rows.markdown(head, [line(name, by_name[name], ours) for name in contenders.names() if name in by_name])


def line(name, of_one, ours):
    median, least, most = rows.spread(of_one, "makespan_s")
    idle = min(row["idle"] for row in of_one)
    unique = of_one[0]["unique_bytes"]
    sent = f"{rows.spread(of_one, 'store_bytes')[0] / unique:.2f}" if unique else "–"
    return [
        name, f"{median:.2f} ({least:.2f}–{most:.2f})", f"{median / of_one[0]['bound_s']:.2f}",
        f"{median / rows.spread(ours, 'makespan_s')[0]:.2f}" if ours else "–", sent, hits(of_one),
        f"{idle:.0%}{' !' if idle < MIN_IDLE else ''}", len(of_one),
    ]


def hits(of_one):
    local, others = (sum(row[key] for row in of_one for key in keys) for keys in (("local",), ("peer", "store")))
    possible = of_one[0]["possible_hits"]
    return f"{local / (local + others) / possible:.2f}" if possible and local + others else "–"


def panel(workload, lines):
    """Medians as bars, the bound as a rule across each."""
    medians = {name: rows.spread(of_one, "makespan_s")[0] for (name,), of_one in rows.groups(lines, "contender").items()}
    x = svg.Axis("", 0, len(contenders.names()), ticks=[(0, "")])
    drawn = svg.Panel(workload, x, svg.Axis("seconds", 0, max(medians.values()) * 1.15))
    for place, (name, colour) in enumerate(zip(contenders.names(), COLOURS)):
        if name in medians:
            drawn.bar(place + 0.1, place + 0.9, medians[name], name, colour, f"{medians[name]:.3g}")
            drawn.level(place + 0.1, place + 0.9, lines[0]["bound_s"], "bound", "#111111")
    return drawn
