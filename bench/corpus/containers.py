"""Files that hold other files' content, or many kinds of it: programs, archives, encrypted data, pickles, databases.

SPDX-License-Identifier: Apache-2.0
"""

import pickle
import sqlite3
import subprocess
from pathlib import Path

import numpy

from corpus.text import WORDS

ARCHIVED = {"training": ["/usr/share/doc", "/usr/include"], "held-out": ["/usr/lib/python3.11", "/usr/share/perl"]}


def binaries(output, paths, largest):
    """ELF files, the large ones cut off, chosen at random until there is enough."""
    left = output.bytes
    for index in output.random.permutation(len(paths)):
        content = paths[index].read_bytes()[:largest]
        if left > 0 and content[:4] == b"\x7fELF" and len(content) > 60_000:
            left -= len(content)
            output.write(f"{paths[index].name}", content, "executable", format="ELF")


def shared_libraries(output):
    """Shared libraries of the system, each up to 3 MB (a third of it in a small corpus)."""
    folder = Path("/usr/lib/x86_64-linux-gnu")
    paths = sorted(path for path in folder.glob("*.so*") if path.is_file() and not path.is_symlink())
    binaries(output, paths, min(3_000_000, output.bytes // 3))


def programs(output):
    """Programs of the system, each up to 3 MB (a third of it in a small corpus)."""
    folder = Path("/usr/bin")
    paths = sorted(path for path in folder.iterdir() if path.is_file() and not path.is_symlink())
    binaries(output, paths, min(3_000_000, output.bytes // 3))


def archives(output, compressors, expected_ratio):
    """Archives of the system's files, in the order of their names, by each of the compressors."""
    with output.scratch() as scratch:
        for number, (suffix, command) in enumerate(compressors.items()):
            folder = ARCHIVED[output.source.split][number % 2]
            names = sorted(str(path) for path in Path(folder).rglob("*") if path.is_file() and not path.is_symlink())
            content, wanted = bytearray(), output.bytes / len(compressors) * expected_ratio
            for index in output.random.permutation(len(names)):
                if len(content) >= wanted:
                    break
                content += Path(names[index]).read_bytes()[:400_000]
            plain = Path(scratch) / "plain"
            plain.write_bytes(content)
            packed = subprocess.run([*command, plain], check=True, capture_output=True).stdout
            output.write(f"archive.{suffix}", packed, "compressed", format=suffix)


def gzip_archives(output):
    """Documentation and headers packed by gzip and bzip2."""
    archives(output, {"gz": ["gzip", "-nc"], "bz2": ["bzip2", "-c"]}, 3.5)


def zstd_archives(output):
    """Python's and Perl's libraries packed by zstd and xz."""
    archives(output, {"zst": ["zstd", "-qc"], "xz": ["xz", "-3c"]}, 4)


def encrypted(output):
    """Zeros and text encrypted by openssl, AES-256 in counter mode: no codec finds anything."""
    for number, plain in enumerate((bytes(output.bytes // 2), b"the same line again\n" * (output.bytes // 40))):
        key = output.random.bytes(32).hex()
        command = ["openssl", "enc", "-aes-256-ctr", "-K", key, "-iv", "0" * 32]
        content = subprocess.run(command, input=plain, check=True, capture_output=True).stdout
        output.write(f"volume-{number}.enc", content, "random")


def random_bytes(output):
    """Bytes of a random generator, and random doubles between 0 and 1, whose exponents say a little."""
    output.write("random.bin", output.random.bytes(output.bytes // 2), "random")
    output.write("uniform.f64", output.random.random(output.bytes // 16), "floating")


def sparse_files(output):
    """Preallocated files: mostly zeros, with islands of doubles and of counters, as a job leaves them that was stopped."""
    for number, share in enumerate((0.02, 0.1, 0.3)):
        content = numpy.zeros(output.bytes // 3 // 8)
        for start in output.random.integers(0, len(content) - 4096, int(share * len(content) / 4096) + 1):
            island = output.random.standard_normal(4096).cumsum() if start % 2 else numpy.arange(4096.0)
            content[start : start + 4096] = island
        output.write(f"preallocated-{number}.dat", content, "mixed records", element="f64")


def half_random(output):
    """Text, counters, zeros and walks in turn with random bytes, 8 KiB to 256 KiB each."""
    for number in range(2):
        parts, size = [], 0
        while size < output.bytes / 2:
            length = 1 << int(output.random.integers(13, 19))
            parts.append(region(output.random, length) if len(parts) % 2 else output.random.bytes(length))
            size += length
        output.write(f"mixture-{number}.dat", b"".join(parts), "mixed records")


def region(random, length):
    choice = random.integers(0, 4)
    if choice == 0:
        return " ".join(random.choice(WORDS, length // 3)).encode()[:length]
    if choice == 1:
        return (numpy.arange(length // 4) + random.integers(0, 10**6)).astype("u4").tobytes()
    if choice == 2:
        return bytes(length)
    return random.standard_normal(length // 8).cumsum().tobytes()


def pickles(output):
    """Python's pickles: a list of dictionaries as tasks return them, and dictionaries of small arrays, in protocol 5."""
    random = output.random
    count = int(output.bytes / 2 / 110)
    results = [
        {
            "task": f"{random.choice(WORDS)}-{n}",
            "seconds": float(random.exponential(3)),
            "worker": int(random.integers(0, 64)),
            "keys": list(map(int, random.integers(0, 10**6, 6))),
        }
        for n in range(count)
    ]
    output.write("results.pickle", pickle.dumps(results, protocol=5), "mixed records", format="pickle")
    arrays = {
        f"block-{n}": random.standard_normal(500).cumsum().astype("f4") for n in range(int(output.bytes / 2 / 2100))
    }
    output.write("arrays.pickle", pickle.dumps(arrays, protocol=5), "mixed records", format="pickle")


def numpy_archive(output):
    """NumPy's npz, not compressed: fields, indices, flags and names of an analysis."""
    random, count = output.random, int(output.bytes / 34)
    path = output.folder / "analysis.npz"
    numpy.savez(
        path,
        energy=random.gamma(3, 1.5, count),
        phase=(random.standard_normal(count).cumsum() % (2 * numpy.pi)).astype("f4"),
        event=numpy.sort(random.integers(0, 10**8, count)),
        good=random.random(count) < 0.97,
        counts=random.poisson(3, count).astype("u1"),
        name=random.choice(WORDS, count // 4).astype("S12"),
        detector=random.integers(0, 48, count).astype("i4"),
    )
    output.add(path.name, "mixed records", format="npz")


def database(output):
    """A SQLite database of runs and their measurements, with an index."""
    random = output.random
    path = output.folder / "runs.sqlite"
    with sqlite3.connect(path) as base:
        base.execute("CREATE TABLE run (id INTEGER PRIMARY KEY, name TEXT, machine TEXT, began TEXT)")
        base.execute("CREATE TABLE measured (run INTEGER, step INTEGER, quantity TEXT, value REAL)")
        runs = max(20, int(output.bytes / 60_000))
        for run in range(runs):
            names = "-".join(random.choice(WORDS, 3))
            base.execute(
                "INSERT INTO run VALUES (?, ?, ?, ?)", (run, names, f"node{run % 40:03}", f"2026-11-{run % 28 + 1:02}")
            )
            values = 300 + random.standard_normal(1000).cumsum()
            quantity = WORDS[run % 5]
            base.executemany(
                "INSERT INTO measured VALUES (?, ?, ?, ?)",
                [(run, step, quantity, value) for step, value in enumerate(values)],
            )
        base.execute("CREATE INDEX by_step ON measured (step, run)")
    base.close()
    output.add(path.name, "mixed records", format="SQLite")
