"""Outputs of a command that leaves a recipe: they and the recipe are one commit.

The command has run on copies of its inputs (`recorded_command.py`); what it left lies in the folder of its attempt, with the
recipe, whose inputs are named here as versions of the store. SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import errno
import os
import pickle
from typing import Any

import fsspec

from thalweg._thalweg import store_run
from thalweg.connections import using
from thalweg.diffusion.stores.origin import Origin
from thalweg.diffusion.stores.outputs import Outputs
from thalweg.diffusion.stores.stall_timeout import with_stall_timeout
from thalweg.disk_cache.tree import files_of, size_of
from thalweg.error_code import Coded

# A store that takes less than this a second is taken to be silent.
_SLOWEST_BYTES_PER_S = 1e6


class NotRecorded(Coded, ValueError):
    """The store refused outputs with their recipe: an input is not any more what the command read."""

    code = "TW-858"


def put(outputs: Outputs, storage_options: dict[str, Any], stall_timeout_s: float | None = None) -> None:
    """Puts all outputs in their places, with the recipe. Files of older folders in their places go after that."""
    if stall_timeout_s is not None:
        stall_timeout_s += sum(map(size_of, outputs.paths.values())) / _SLOWEST_BYTES_PER_S
    with_stall_timeout(lambda: _put(outputs, storage_options), stall_timeout_s, next(iter(outputs.paths)))


def _put(outputs: Outputs, storage_options: dict[str, Any]) -> None:
    with open(outputs.recipe_path, "rb") as file:
        record, programs = pickle.load(file)
    fs, _ = fsspec.core.url_to_fs(next(iter(outputs.paths)), **storage_options)
    places = {fs._strip_protocol(url): path for url, path in outputs.paths.items()}
    older = {place: set(fs.find(place)) for place, path in places.items() if os.path.isdir(path) and fs.exists(place)}
    roots = _roots(fs, outputs.input_versions, Origin(storage_options))
    try:
        with using(fs.location) as store:
            store_run(store, record, programs, [(os.fsencode(place), path) for place, path in places.items()], roots)
    except OSError as error:
        # What the store refuses now, it refuses later too.
        if error.errno == errno.EINVAL:
            raise NotRecorded(error.args[1]) from None
        raise
    for place, names in older.items():
        gone = names - {f"{place}/{file.path}" for file in files_of(places[place])}
        if gone:
            fs.rm(sorted(gone))


def _roots(fs: Any, versions: dict[str, str | None], origin: Origin) -> list[tuple[bytes, bytes]]:
    """Returns what names the contents of inputs that have no digest in the store, where they are as the cache has them: they
    need not be read again."""
    roots = []
    for url, version in versions.items():
        before = _without_digest(fs, url)
        if before and origin.stat(url).version == version and _without_digest(fs, url) == before:
            roots.append((os.fsencode(fs._strip_protocol(url)), before))
    return roots


def _without_digest(fs: Any, url: str) -> bytes | None:
    with using(fs.location) as store:
        entry = store.entry(os.fsencode(fs._strip_protocol(url)))
    return None if entry is None or entry.content_digest is not None else entry.root
