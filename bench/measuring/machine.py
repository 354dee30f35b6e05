"""The machine a number was measured on: without it a number says nothing.

SPDX-License-Identifier: Apache-2.0
"""

import datetime
import os
import platform
import re
import subprocess
from pathlib import Path


def name():
    """The processor and how many of them, fit for a folder's name."""
    model = _field(_output("lscpu"), "Model name") or platform.machine()
    short = re.sub(r"\(R\)|\(TM\)|@.*|CPU|Processor|[0-9]+-Core", "", model, flags=re.IGNORECASE)
    return re.sub(r"[^a-z0-9]+", "-", short.lower()).strip("-") + f"-{os.cpu_count()}cpu"


def results_folder(base: Path):
    """bench/results/<date>-<machine>/, made if it is not there."""
    folder = base / f"{datetime.date.today().isoformat()}-{name()}"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def describe(scratch: Path, command, versions):
    """A text for the results' folder. `versions` are command lines that print a version."""
    sections = [("command", " ".join(command))]
    sections += [("scratch", _output("df", "-hT", str(scratch))), ("kernel", _output("uname", "-a"))]
    sections += [("memory", _output("free", "-h")), ("processor", _output("lscpu"))]
    sections += [("source", _output("git", "-C", str(Path(__file__).parent), "describe", "--always", "--dirty"))]
    sections += [(" ".join(map(str, version)), _output(*map(str, version))) for version in versions]
    return "\n".join(f"## {title}\n{text}\n" for title, text in sections)


def _field(text, key):
    found = re.search(rf"^{key}:\s*(.+)$", text, re.MULTILINE)
    return found and found[1]


def _output(*command):
    try:
        done = subprocess.run(command, capture_output=True, text=True)
    except FileNotFoundError:
        return f"({command[0]} is not installed)"
    return (done.stdout or done.stderr).strip()
