"""Reads and writes files of a store in a directory through fsspec, beside plain files through fsspec: one thread, bytes
that do not compress, everything on the same file system. Rounds alternate over the contenders.

    write     one new file in pieces, from open to close (a file of a store is committed then)
    read      the file from start to end, in pieces
    random    4 KiB at random from the open file, a read

SPDX-License-Identifier: Apache-2.0
"""

import argparse
import os
import random
import shutil
import sys
import tempfile
import time
from pathlib import Path

import fsspec
import thalweg

from measuring import machine, rows

PIECE_BYTES = 4 << 20
SMALL_BYTES = 4 << 10
SMALL_READS = 2000


def main():
    arguments = read_arguments()
    scratch = Path(tempfile.mkdtemp(prefix="thalweg-bench.", dir=arguments.scratch))
    try:
        measured = measure_all(arguments, scratch)
        publish(arguments, scratch, measured)
    finally:
        shutil.rmtree(scratch)


def read_arguments():
    parser = argparse.ArgumentParser(prog="fsspec", description="files of a store through fsspec beside plain files")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--megabytes", type=int, default=100)
    parser.add_argument("--scratch", type=Path, default=Path("/dev/shm"))
    parser.add_argument("--results", type=Path, default=Path(__file__).resolve().parents[1] / "results")
    return parser.parse_args()


def measure_all(arguments, scratch):
    content = os.urandom(arguments.megabytes * 1_000_000)
    thalweg.create(str(scratch / "store"))
    measured = []
    for number in range(arguments.rounds):
        turns = [("thalweg", f"thalweg://{scratch}/store!/{number}", {}), ("file", f"file://{scratch}/{number}", {})]
        for contender, url, options in turns if number % 2 else reversed(turns):
            measured += measure(contender, url, options, content, number)
        cache = {"thalwegcache": {"folder": str(scratch / "cache")}}
        url = f"thalwegcache::thalweg://{scratch}/store!/{number}"
        read_whole(url, cache, content)
        measured.append(row("thalweg, warm thalwegcache", "random", number, random_reads(url, cache, content, number)))
        os.unlink(scratch / str(number))
    return measured


def measure(contender, url, options, content, number):
    start = time.perf_counter()
    with fsspec.open(url, "wb", **options) as file:
        for offset in range(0, len(content), PIECE_BYTES):
            file.write(content[offset : offset + PIECE_BYTES])
    written = time.perf_counter()
    read_whole(url, options, content)
    read = time.perf_counter()
    return [
        row(contender, "write", number, written - start, len(content)),
        row(contender, "read", number, read - written, len(content)),
        row(contender, "random", number, random_reads(url, options, content, number)),
    ]


def read_whole(url, options, content):
    length = 0
    with fsspec.open(url, "rb", **options) as file:
        while piece := file.read(PIECE_BYTES):
            length += len(piece)
    if length != len(content):
        raise RuntimeError(f"{url}: {length} bytes came back of {len(content)}")


def random_reads(url, options, content, seed):
    """Seconds a read; what is read is compared."""
    offsets = random.Random(seed).choices(range(len(content) - SMALL_BYTES), k=SMALL_READS)
    with fsspec.open(url, "rb", **options) as file:
        start = time.perf_counter()
        for offset in offsets:
            file.seek(offset)
            if file.read(SMALL_BYTES) != content[offset : offset + SMALL_BYTES]:
                raise RuntimeError(f"{url}: other bytes at {offset}")
        return (time.perf_counter() - start) / SMALL_READS


def row(contender, operation, number, seconds, length=0):
    speed = round(length / 1e6 / seconds, 1) if length else ""
    return dict(contender=contender, operation=operation, round=number, seconds=round(seconds, 7), mb_per_s=speed)


def publish(arguments, scratch, measured):
    folder = machine.results_folder(arguments.results)
    command = ["bench/fsspec", *sys.argv[1:]]
    rows.write(folder / "fsspec.csv", measured)
    versions = [[sys.executable, "--version"], [sys.executable, "-m", "pip", "list"]]
    (folder / "fsspec-machine.txt").write_text(machine.describe(scratch, command, versions))
    summary = "\n\n".join(summarise(measured)) + "\n"
    title = f"# Files through fsspec, {arguments.megabytes} MB, {arguments.rounds} rounds, `{machine.command(command)}`"
    (folder / "fsspec.md").write_text(f"{title}\n\n{summary}")
    print(f"{summary}\nraw rows, machine and this table: {folder}")


def summarise(measured):
    for (operation,), group in rows.groups(measured, "operation").items():
        head = ("contender", "median ms", "least", "most", "MB/s")
        lines = [line(contender, found) for (contender,), found in rows.groups(group, "contender").items()]
        yield f"{operation}\n\n{rows.markdown(head, lines)}"


def line(contender, group):
    median, least, most = (f"{1e3 * seconds:.3f}" for seconds in rows.spread(group, "seconds"))
    speed = f"{rows.spread(group, 'mb_per_s')[0]:.0f}" if group[0]["mb_per_s"] else "–"
    return (contender, median, least, most, speed)


if __name__ == "__main__":
    main()
