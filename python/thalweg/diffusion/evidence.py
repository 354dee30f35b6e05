"""Whether what the journal says of a task still holds: its inputs are the same versions, and its outputs are there.

A file whose store says nothing that changes with its content may have changed. SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

from thalweg.diffusion.cache.item import Item
from thalweg.diffusion.messages import Result
from thalweg.diffusion.options import Options
from thalweg.diffusion.path_tree import PathTree
from thalweg.diffusion.stores.origin import FileInfo, Origin
from thalweg.diffusion.stores.store_retry import StoreRetry

# Questions to stores at once.
_QUESTIONS = 16


class Evidence(NamedTuple):
    """Of a task that is done: keys and versions of its inputs; URLs, sizes and versions of its outputs."""

    inputs: list[tuple[str, "str | None"]]
    outputs: list[tuple[str, int, "str | None"]]

    @classmethod
    def of(cls, result: Result) -> Evidence:
        return cls(sorted(result.inputs), result.outputs)

    def urls(self) -> set[str]:
        return {Item.of_key(key).url for key, _ in self.inputs} | {url for url, _, _ in self.outputs}


class Inspector:
    """Checks each input once a run. Outputs that tasks of this start write are not what they were."""

    def __init__(self, options: Options) -> None:
        self._origin = Origin(options.storage_options, options.store_stall_timeout_s)
        self._store_retry = StoreRetry(options.store_timeout_s)
        self._known: dict[str, FileInfo | None] = {}
        self._written = PathTree()

    def will_write(self, urls: Iterable[str]) -> None:
        for url in urls:
            self._written.add(url, 0)

    def prefetch(self, evidence: Iterable[Evidence]) -> None:
        """Asks for what several tasks had, at once."""
        unknown = set().union(*(one.urls() for one in evidence)) - self._known.keys()
        if len(unknown) > 1:
            with ThreadPoolExecutor(min(_QUESTIONS, len(unknown)), "thalweg-look") as pool:
                self._known.update(zip(unknown, pool.map(self._stat, unknown)))

    def holds(self, evidence: Evidence) -> bool:
        if any(self._written.overlapping(url) for url in evidence.urls()):
            return False
        return all(self._is_input(key, version) for key, version in evidence.inputs) and all(
            self._is_output(*output) for output in evidence.outputs
        )

    def _is_input(self, key: str, version: str | None) -> bool:
        info = self._file_info(Item.of_key(key).url)
        return info is not None and version is not None and info.version == version

    def _is_output(self, url: str, size: int, version: str | None) -> bool:
        info = self._file_info(url)
        if info is None:
            return False
        if version is None or info.version is None:
            return info.bytes in (None, size)
        return info.version == version

    def _file_info(self, url: str) -> FileInfo | None:
        if url not in self._known:
            self._known[url] = self._stat(url)
        return self._known[url]

    def _stat(self, url: str) -> FileInfo | None:
        """None for what is not there, or does not answer."""
        try:
            return self._store_retry.call(url, lambda: self._origin.stat(url))
        except Exception:
            return None
