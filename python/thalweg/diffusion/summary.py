"""A run in a few lines of text: for terminals and logs. SPDX-License-Identifier: Apache-2.0"""

from __future__ import annotations

import os

from thalweg.diffusion.events import read
from thalweg.diffusion.picture import SOURCES, Picture
from thalweg.diffusion.plot import amount_written, seconds_written

# Where inputs come from, in words.
SOURCE_NAMES = {"local": "this worker's copies", "peer": "other workers' copies", "store": "the store"}


def summary(run_folder: str | os.PathLike[str]) -> str:
    """Of the events in a run folder."""
    picture = Picture()
    for record in read(run_folder):
        picture.fold(record)
    return in_words(picture)


def in_words(picture: Picture) -> str:
    first = f"{picture.done:,} tasks in {seconds_written(picture.end_s)}"
    if picture.failed:
        first += f", {picture.failed:,} failed"
    return "\n".join([first, *(_source(picture, source) for source in SOURCES)])


def _source(picture: Picture, source: str) -> str:
    amount = amount_written(picture.bytes[source], "B")
    return f"{picture.inputs[source]:8,} inputs {amount:>8} {picture.share(source):6.1%}  from {SOURCE_NAMES[source]}"
