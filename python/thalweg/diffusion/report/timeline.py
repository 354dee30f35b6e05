"""Amounts and levels over a time whose end is not known yet, in a bounded number of bins. SPDX-License-Identifier: Apache-2.0"""

from __future__ import annotations

from collections.abc import Callable

_FIRST_WIDTH_S = 0.05
# Twice as many at most, then half of them, twice as wide.
_BINS = 100


class Timeline:
    """Adds up what happened, by name and bin; of levels it keeps the highest in each bin."""

    def __init__(self) -> None:
        self.width_s = _FIRST_WIDTH_S
        self._bins: dict[str, list[float]] = {}
        self._levels: dict[str, list[float]] = {}

    def add(self, name: str, t: float, amount: float) -> None:
        self.spread(name, t, t, amount)

    def spread(self, name: str, begin: float, end: float, amount: float) -> None:
        """Evenly from `begin` to `end`."""
        begin, end = max(0.0, begin), max(0.0, end)
        bins, last = self._bins_until(self._bins, name, end)
        first = int(begin / self.width_s)
        if first >= last:
            bins[last] += amount
            return
        for place in range(first, last + 1):
            inside = min(end, (place + 1) * self.width_s) - max(begin, place * self.width_s)
            bins[place] += amount * inside / (end - begin)

    def level(self, name: str, begin: float, end: float, value: float) -> None:
        """It was as high as that from `begin` to `end`."""
        begin, end = max(0.0, begin), max(0.0, end)
        bins, last = self._bins_until(self._levels, name, end)
        for place in range(min(last, int(begin / self.width_s)), last + 1):
            bins[place] = max(bins[place], value)

    def edges(self, end: float) -> list[float]:
        """The bins until `end`, the last of which is neither much shorter nor much longer than the others."""
        count = min(max(1, round(end / self.width_s)), 2 * _BINS)
        return [place * self.width_s for place in range(count)] + [max(end, count * self.width_s / 2)]

    def rates(self, name: str, end: float) -> list[float]:
        """Amounts a second, for each bin until `end`."""
        edges = self.edges(end)
        amounts = _until(self._bins.get(name, []), len(edges) - 1, sum)
        return [amount / (after - before) for amount, before, after in zip(amounts, edges, edges[1:])]

    def levels(self, name: str, end: float) -> list[float]:
        """The highest level in each bin until `end`."""
        return _until(self._levels.get(name, []), len(self.edges(end)) - 1, lambda values: max(values, default=0.0))

    def _bins_until(self, kept: dict[str, list[float]], name: str, end: float) -> tuple[list[float], int]:
        """The bins of a name, and which of them `end` is in."""
        while end >= 2 * _BINS * self.width_s:
            self._halve()
        bins = kept.setdefault(name, [])
        last = int(end / self.width_s)
        bins.extend([0.0] * (last + 1 - len(bins)))
        return bins, last

    def _halve(self) -> None:
        for bins in self._bins.values():
            bins[:] = [sum(bins[place : place + 2]) for place in range(0, len(bins), 2)]
        for bins in self._levels.values():
            bins[:] = [max(bins[place : place + 2]) for place in range(0, len(bins), 2)]
        self.width_s *= 2


def _until(bins: list[float], count: int, join: Callable[[list[float]], float]) -> list[float]:
    """So many bins; what comes after the last of them is joined to it."""
    last = count - 1
    return [*bins[:last], *[0.0] * (last - len(bins)), join(bins[last:])]
