"""The report of a run: one HTML file that needs nothing else, and the same page for browsers that follow the run.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import base64
import hashlib
import os
from functools import cache
from html import escape
from importlib.resources import files

from thalweg.diffusion.report.events import read
from thalweg.diffusion.report.run_stats import RunStats
from thalweg.diffusion.report.sections import sections, title
from thalweg.disk_cache.partial_file import PartialFile

FILE = "report.html"


def write(run_folder: str | os.PathLike[str]) -> str:
    """Makes `report.html` of the events in a run folder, and returns its path."""
    stats = RunStats()
    for record in read(run_folder):
        stats.fold(record)
    folder = os.path.abspath(run_folder)
    path = os.path.join(folder, FILE)
    partial_file = PartialFile(folder, FILE)
    try:
        partial_file.write(html(stats).encode(errors="replace"))
        os.chmod(partial_file.path, 0o644)
        partial_file.rename_to(path)
    except BaseException:
        partial_file.discard()
        raise
    return path


def html(stats: RunStats, is_live: bool = False) -> str:
    """The page; a live one asks where it came from for what changes."""
    parts = "".join(f'<section id="{name}">{content}</section>' for name, content in sections(stats).items())
    style, script = _source("page.css"), _source("page.js") if is_live else ""
    allowed = f"default-src 'none'; style-src {_hash(style)}; base-uri 'none'; form-action 'none'"
    if is_live:
        allowed += f"; script-src {_hash(script)}; connect-src 'self'"
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{allowed}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1"><meta name="referrer" content="no-referrer">'
        f"<title>{escape(title(stats))}</title><style>{style}</style></head><body>"
        f'<p id="status" class="faint" role="status"></p><main>{parts}</main>'
        f"{f'<script>{script}</script>' if is_live else ''}</body></html>\n"
    )


@cache
def _source(name: str) -> str:
    return (files(__package__) / name).read_text(encoding="utf-8")


@cache
def _hash(source: str) -> str:
    """The digest that the page's policy names it by: no other script or style runs, whatever the page shows."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(source.encode()).digest()).decode()}'"
