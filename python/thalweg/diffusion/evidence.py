"""Whether what the journal says of a task still holds: its inputs are the same versions, and its outputs are there.

A file whose store says nothing that changes with its content may have changed. SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

from thalweg.diffusion.item import Item
from thalweg.diffusion.messages import Result
from thalweg.diffusion.options import Options
from thalweg.diffusion.origin import Origin, Sight
from thalweg.diffusion.patience import Patience

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
    """Looks at each input once a run. Outputs that tasks of this start write are not what they were."""

    def __init__(self, options: Options) -> None:
        self._origin = Origin(options.storage_options, options.store_silence_s)
        self._patience = Patience(options.store_patience_s)
        self._seen: dict[str, Sight | None] = {}
        self._written: set[str] = set()

    def will_write(self, urls: Iterable[str]) -> None:
        self._written.update(urls)

    def look(self, evidence: Iterable[Evidence]) -> None:
        """Asks for what several tasks had, at once."""
        wanted = set().union(*(one.urls() for one in evidence)) - self._seen.keys()
        if len(wanted) > 1:
            with ThreadPoolExecutor(min(_QUESTIONS, len(wanted)), "thalweg-look") as pool:
                self._seen.update(zip(wanted, pool.map(self._look, wanted)))

    def holds(self, evidence: Evidence) -> bool:
        if not self._written.isdisjoint(evidence.urls()):
            return False
        return all(self._is_input(key, version) for key, version in evidence.inputs) and all(
            self._is_output(*output) for output in evidence.outputs
        )

    def _is_input(self, key: str, version: str | None) -> bool:
        sight = self._sight(Item.of_key(key).url)
        return sight is not None and version is not None and sight.version == version

    def _is_output(self, url: str, size: int, version: str | None) -> bool:
        sight = self._sight(url)
        if sight is None:
            return False
        if version is None or sight.version is None:
            return sight.bytes in (None, size)
        return sight.version == version

    def _sight(self, url: str) -> Sight | None:
        if url not in self._seen:
            self._seen[url] = self._look(url)
        return self._seen[url]

    def _look(self, url: str) -> Sight | None:
        """None for what is not there, or does not answer."""
        try:
            return self._patience.keep_trying(url, lambda: self._origin.look(url))
        except Exception:
            return None
