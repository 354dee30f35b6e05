"""Raw rows, and the summary made from them: median, least and most, and the ratio of medians to Thalweg's.

SPDX-License-Identifier: Apache-2.0
"""

import csv
import statistics
from pathlib import Path


def write(path: Path, rows):
    with open(path, "w", newline="") as file:
        writer = csv.DictWriter(file, fieldnames=list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def append(path: Path, rows):
    """Below what the file has already; a new file gets its head first."""
    if not rows:
        return
    with open(path, "a", newline="") as file:
        writer = csv.DictWriter(file, fieldnames=list(rows[0]), lineterminator="\n")
        if file.tell() == 0:
            writer.writeheader()
        writer.writerows(rows)


def read(path: Path):
    """The rows as text, in order; none where there is no file."""
    if not path.exists():
        return []
    with open(path, newline="") as file:
        return list(csv.DictReader(file))


def groups(rows, *keys):
    """The rows by the values of `keys`, in order of appearance."""
    found = {}
    for row in rows:
        found.setdefault(tuple(row[key] for key in keys), []).append(row)
    return found


def spread(rows, key):
    """(median, least, most)."""
    values = [row[key] for row in rows]
    return statistics.median(values), min(values), max(values)


def markdown(head, lines):
    """A table whose first column is text and whose other columns are numbers."""
    cells = [list(map(str, line)) for line in [head, *lines]]
    widths = [max(len(line[i]) for line in cells) for i in range(len(head))]
    padded = [[_pad(cell, width, i) for i, (cell, width) in enumerate(zip(line, widths))] for line in cells]
    texts = ["| " + " | ".join(line) + " |" for line in padded]
    rule = "|" + "|".join("-" * (width + 1) + (":" if i else "-") for i, width in enumerate(widths)) + "|"
    return "\n".join([texts[0], rule, *texts[1:]])


def _pad(cell, width, column):
    return cell.rjust(width) if column else cell.ljust(width)
