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


def command(words):
    """A command of bench/ as one repeats it from a checkout, wherever this one lies and its results went."""
    program = Path(words[0])
    kept = [f"bench/{program.name}" if program.is_absolute() else str(program)]
    rest = iter(words[1:])
    for word in rest:
        if word == "--results":
            next(rest, None)
        elif not word.startswith("--results="):
            kept.append(word)
    return " ".join(kept)


def describe(scratch: Path, words, versions):
    """A text for the results' folder. `versions` are command lines that print a version."""
    sections = [("command", command(words))]
    sections += [("scratch", _output("df", "-hT", str(scratch))), ("kernel", _output("uname", "-a"))]
    sections += [("memory", _output("free", "-h")), ("processor", _output("lscpu"))]
    sections += [("source", _output("git", "-C", str(Path(__file__).parent), "describe", "--always", "--dirty"))]
    for program, *options in versions:
        short, words = Path(program).name, list(map(str, options))
        sections.append((" ".join([short, *words]), _output(program, *words).replace(str(program), short)))
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
