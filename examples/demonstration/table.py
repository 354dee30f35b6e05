"""The tables at the end. Ratios are cut off after two digits, never rounded up; MB are 10^6 bytes.

SPDX-License-Identifier: Apache-2.0
"""

import math

HEAD = ("program", "side", "written", "unique", "stored", "dedup", "compr.", "I/O wait", "end to end")
WIDTHS = (15, 18, 9, 9, 9, 6, 6, 9, 10)


def results(rows, disk):
    """One disk's rows: each program once plain, then through Thalweg."""
    lines = [f"{disk} (MB = 10^6 bytes)", _line(HEAD)]
    program = None
    for row in (row for row in rows if row["disk"] == disk):
        lines.append(_line(_cells(row, row["program"] if row["program"] != program else "")))
        program = row["program"]
    return "\n".join(lines)


def changes(rows):
    """How much of the data was new at all, and the independent count beside the store's own number."""
    head = ("program", "changed bytes", "in 8 KiB segments", "counted unique", "store's unique", "difference")
    widths = (15, 14, 18, 15, 15, 11)
    lines = ["what changes from one step to the next, and the count without Thalweg", _line(head, widths)]
    for row in (row for row in rows if row["counted_unique_bytes"] is not None):
        share = [_percent(row[key]) for key in ("changed_share", "changed_segment_share")]
        counted, unique = row["counted_unique_bytes"], row["unique_bytes"]
        difference = f"{(unique - counted) / max(counted, 1) * 100:+.3f} %"
        lines.append(_line((row["program"], *share, str(counted), str(unique), difference), widths))
    return "\n".join(lines)


def _cells(row, program):
    size = (_megabytes(row[key]) for key in ("written_bytes", "unique_bytes", "stored_bytes"))
    ratio = (_ratio(row[key]) for key in ("deduplication_ratio", "compression_ratio"))
    return (program, row["side"], *size, *ratio, f"{row['io_wait_seconds']:.2f} s", f"{row['end_to_end_seconds']:.2f} s")


def _megabytes(count):
    return "–" if count is None else f"{count / 1e6:.1f} MB"


def _percent(share):
    return "–" if share is None else f"{share * 100:.2f} %"


def _ratio(value):
    return "–" if value is None else f"{math.floor(value * 100) / 100:.2f}"


def _line(cells, widths=WIDTHS):
    left = 2 if widths is WIDTHS else 1
    padded = (f"{cell:<{width}}" if i < left else f"{cell:>{width}}" for i, (cell, width) in enumerate(zip(cells, widths)))
    return " ".join(padded).rstrip()
