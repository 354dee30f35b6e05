"""Amounts over a time whose end nobody knows yet, in a bounded number of bins. SPDX-License-Identifier: Apache-2.0"""

from __future__ import annotations

_FIRST_WIDTH_S = 0.05
# Twice as many at most, then half of them, twice as wide.
_BINS = 100


class Timeline:
    """Adds up what happened, by name and bin."""

    def __init__(self) -> None:
        self.width_s = _FIRST_WIDTH_S
        self._bins: dict[str, list[float]] = {}

    def add(self, name: str, t: float, amount: float) -> None:
        self.spread(name, t, t, amount)

    def spread(self, name: str, begin: float, end: float, amount: float) -> None:
        """Evenly from `begin` to `end`."""
        begin, end = max(0.0, begin), max(0.0, end)
        while end >= 2 * _BINS * self.width_s:
            self._halve()
        bins = self._bins.setdefault(name, [])
        first, last = int(begin / self.width_s), int(end / self.width_s)
        bins.extend([0.0] * (last + 1 - len(bins)))
        if first >= last:
            bins[last] += amount
            return
        for place in range(first, last + 1):
            inside = min(end, (place + 1) * self.width_s) - max(begin, place * self.width_s)
            bins[place] += amount * inside / (end - begin)

    def edges(self, end: float) -> list[float]:
        """The bins until `end`, the last of which is neither much shorter nor much longer than the others."""
        count = min(max(1, round(end / self.width_s)), 2 * _BINS)
        return [place * self.width_s for place in range(count)] + [max(end, count * self.width_s / 2)]

    def rates(self, name: str, end: float) -> list[float]:
        """Amounts a second, for each bin until `end`."""
        edges = self.edges(end)
        bins = self._bins.get(name, [])
        last = len(edges) - 2
        amounts = [*bins[:last], *[0.0] * (last - len(bins)), sum(bins[last:])]
        return [amount / (after - before) for amount, before, after in zip(amounts, edges, edges[1:])]

    def _halve(self) -> None:
        for bins in self._bins.values():
            bins[:] = [sum(bins[place : place + 2]) for place in range(0, len(bins), 2)]
        self.width_s *= 2
