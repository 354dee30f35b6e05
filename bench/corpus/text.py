"""Text: sources of programs, logs, JSON, XML, tables of numbers, sequences.

SPDX-License-Identifier: Apache-2.0
"""

import json
from pathlib import Path
from xml.sax.saxutils import escape

import numpy

FILE_BYTES = 4_000_000
PATHS = [
    "/",
    "/index.html",
    "/api/v1/jobs",
    "/api/v1/jobs/{n}",
    "/static/app.js",
    "/data/run-{n}/field.nc",
    "/login",
    "/search?q={n}",
]
AGENTS = [
    "curl/7.88.1",
    "Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0",
    "python-requests/2.31.0",
    "rclone/v1.60.1",
]
WORDS = "alpha beta gamma delta node queue job field mesh solver checkpoint restart failed finished waiting link store".split()


def system_text(output, folders, patterns):
    """Text files of the system, chosen at random, one after the other in files of 4 MB."""
    paths = sorted(
        path
        for folder in folders
        for pattern in patterns
        for path in Path(folder).rglob(pattern)
        if path.is_file() and not path.is_symlink()
    )
    left, gathered, number, seen = output.bytes, b"", 0, set()
    for index in output.random.permutation(len(paths)):
        content = paths[index].read_bytes()
        if hash(content) in seen or len(content) > FILE_BYTES:
            continue
        seen.add(hash(content))
        gathered += content
        left -= len(content)
        if len(gathered) > FILE_BYTES or left <= 0:
            output.write(f"part-{number}.txt", gathered, "text", format=patterns[0])
            gathered, number = b"", number + 1
        if left <= 0:
            return
    if gathered:
        output.write(f"part-{number}.txt", gathered, "text", format=patterns[0])


def headers(output):
    """Headers of C and C++ below /usr/include."""
    system_text(output, ["/usr/include"], ["*.h", "*.hpp"])


def python_sources(output):
    """Sources in Python of Debian's packages."""
    system_text(output, ["/usr/lib/python3.11", "/usr/lib/python3"], ["*.py"])


def server_log(output):
    """The access log of a web server and the messages of its system."""
    random, lines, size, second = output.random, [], 0, 0.0
    hosts = [".".join(map(str, random.integers(1, 255, 4))) for _ in range(300)]
    while size < output.bytes * 0.6:
        second += random.exponential(0.4)
        path = PATHS[min(random.zipf(1.5) - 1, len(PATHS) - 1)].replace("{n}", str(random.integers(1, 9000)))
        status = 200 if random.random() < 0.9 else random.choice([304, 404, 500])
        when = f"{int(second // 86400) + 1:02}/Nov/2026:{clock(second)} +0000"
        agent = AGENTS[min(random.zipf(1.6) - 1, len(AGENTS) - 1)]
        host = hosts[min(random.zipf(1.3) - 1, 299)]
        lines.append(
            f'{host} - - [{when}] "GET {path} HTTP/1.1" {status} {int(random.pareto(1) * 900)} "-" "{agent}"\n'
        )
        size += len(lines[-1])
    output.write("access.log", "".join(lines).encode(), "text", format="access log")
    lines, size, second = [], 0, 0.0
    while size < output.bytes * 0.4:
        second += random.exponential(0.8)
        program = ["kernel", "sshd", "slurmd", "systemd", "chronyd"][min(random.zipf(1.6) - 1, 4)]
        number, words = random.integers(300, 9000), " ".join(random.choice(WORDS, random.integers(3, 9)))
        lines.append(
            f"Nov {int(second // 86400) + 1:2} {clock(second)} node{random.integers(0, 16):03} {program}[{number}]: {words} {random.integers(0, 1 << 32):08x}\n"
        )
        size += len(lines[-1])
    output.write("messages.log", "".join(lines).encode(), "text", format="syslog")


def clock(second):
    whole = int(second) % 86400
    return f"{whole // 3600:02}:{whole // 60 % 60:02}:{whole % 60:02}"


def job_records(output):
    """JSON: one object a line, as a scheduler's accounting exports them, and one indented document."""
    random, lines, size = output.random, [], 0
    users = [f"{random.choice(WORDS)}{n}" for n in range(60)]
    while size < output.bytes * 0.7:
        lines.append(json.dumps(job(random, users, len(lines))) + "\n")
        size += len(lines[-1])
    output.write("jobs.jsonl", "".join(lines).encode(), "text", format="JSON lines")
    whole = [job(random, users, len(lines) + n) for n in range(int(len(lines) * 0.25))]
    output.write("jobs.json", json.dumps(whole, indent=2).encode(), "text", format="JSON")


def job(random, users, number):
    began = 1_795_000_000 + number * 7 + int(random.integers(0, 60))
    return {
        "id": 4_200_000 + number,
        "user": users[min(random.zipf(1.4) - 1, 59)],
        "name": "-".join(random.choice(WORDS, 2)),
        "state": "COMPLETED" if random.random() < 0.85 else "FAILED",
        "nodes": [f"node{n:03}" for n in random.integers(0, 512, min(random.zipf(1.8), 8))],
        "time": {
            "start": began,
            "elapsed": round(random.exponential(3600), 3),
            "limit": int(random.choice([3600, 86400])),
        },
        "energy_j": int(random.exponential(2e6)),
        "exit": {"status": 0, "signal": None},
    }


def tables(output):
    """CSV: measurements with a time, numbers with fixed decimals, and numbers as Python prints doubles."""
    random, rows = output.random, int(output.bytes / 2 / 62)
    level = random.standard_normal((rows, 4)).cumsum(0)
    lines = ["time,sensor,a,b,c,d\n"]
    for n, (a, b, c, d) in enumerate(level):
        lines.append(
            f"2026-11-{n // 86400 % 28 + 1:02}T{clock(n)}Z,s{n % 12:02},{a:.3f},{b:.3f},{20 + 0.01 * c:.2f},{abs(d):.1f}\n"
        )
    output.write("measured.csv", "".join(lines).encode(), "text", format="CSV")
    values = numpy.exp(random.standard_normal((int(output.bytes / 2 / 60), 3)))
    content = "".join(f"{a!r},{b!r},{c:.6e}\n" for a, b, c in values.tolist())
    output.write("computed.csv", content.encode(), "text", format="CSV")


def unstructured_grid(output):
    """XML as visualisation programs write it: points and cells in ASCII, and a document of records with attributes."""
    random = output.random
    points = random.normal(0, 1, (int(output.bytes * 0.5 / 36), 3)).cumsum(0) * 0.01
    values = "\n".join(f"{x:.8g} {y:.8g} {z:.8g}" for x, y, z in points)
    grid = f'<VTKFile type="UnstructuredGrid">\n<DataArray type="Float64" Name="Points" format="ascii">\n{values}\n</DataArray>\n</VTKFile>\n'
    output.write("grid.vtu", grid.encode(), "text", format="VTK XML")
    parts, size = ["<catalogue>\n"], 0
    while size < output.bytes * 0.5:
        title = escape(" ".join(random.choice(WORDS, random.integers(3, 8))))
        parts.append(
            f'  <dataset id="d{len(parts):06}" size="{random.integers(1, 1 << 34)}">\n    <title>{title}</title>\n'
        )
        parts.append(
            "".join(f'    <variable name="{word}" unit="m"/>\n' for word in random.choice(WORDS, random.integers(1, 5)))
        )
        parts.append("  </dataset>\n")
        size += sum(map(len, parts[-3:]))
    output.write("catalogue.xml", "".join([*parts, "</catalogue>\n"]).encode(), "text", format="XML")


def sequences(output):
    """FASTQ: reads of 150 bases from one genome with errors and qualities."""
    random = output.random
    genome = random.integers(0, 4, 400_000, dtype="u1")
    genome[200_000:230_000] = genome[10_000:40_000]
    letters = numpy.frombuffer(b"ACGT", "u1")
    reads = []
    for number in range(int(output.bytes / 350)):
        start = random.integers(0, len(genome) - 150)
        quality = (40 - random.gamma(1.2, 2.0, 150) - numpy.linspace(0, 8, 150)).clip(2, 40).astype("u1")
        bases = genome[start : start + 150].copy()
        wrong = random.random(150) < 10 ** (-quality / 10)
        bases[wrong] = random.integers(0, 4, wrong.sum())
        head = f"@SIM:1:FC7:{number // 20000 + 1}:{number % 20000}:{random.integers(1000, 30000)} 1:N:0\n".encode()
        reads.append(head + letters[bases].tobytes() + b"\n+\n" + (quality + 33).tobytes() + b"\n")
    output.write("reads.fastq", b"".join(reads), "text", format="FASTQ")
