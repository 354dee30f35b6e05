"""How fast idle bandwidth is taken up and given back, from the series of a case in which one application comes and goes.

Cycles are laid over each other and averaged: a single one is as rough as its requests are large. Reclaimed: from the
leaver's last byte until the stayer has, over 20 ms, 95 % of what it gets alone. Back: from the return until the
comer has, over 20 ms, 95 % of its share.
SPDX-License-Identifier: Apache-2.0
"""

from gating.judging import MEGABYTE

CLOSE_ENOUGH = 0.95
WIDTH_MS = 20


def cycle(series, period_ms, interval_ms):
    """The mean bytes of each interval of a period; whole periods only, without the first, which is warm-up."""
    length = period_ms // interval_ms
    whole = [series[start : start + length] for start in range(length, len(series) - length + 1, length)]
    return [sum(column) / len(whole) for column in zip(*whole)] if whole else []


def measure(stayer, comer, on_ms, interval_ms, share):
    """(ms to reclaim, ms until the share is back), each None when it never was. Mean cycles, the comer on first."""
    width = WIDTH_MS // interval_ms
    on, length = on_ms // interval_ms, len(stayer)
    # The middle of each half is settled.
    alone = sum(stayer[(on + length) // 2 : length - 2]) / max(1, length - 2 - (on + length) // 2)
    together = [stayer[n] + comer[n] for n in range(on // 2, on - 2)]
    due = share * sum(together) / max(1, len(together))
    last = max((n for n in range(on, length) if comer[n] > 0.02 * due), default=on - 1) + 1
    reclaimed = _first(stayer, last, alone * CLOSE_ENOUGH, width)
    back = _first(comer, 0, due * CLOSE_ENOUGH, width)
    return tuple(
        None if found is None else found * interval_ms
        for found in (None if reclaimed is None else reclaimed - last, back)
    )


def _first(series, start, level, width):
    """The first interval at whose end the mean of `width` intervals reached the level, counted from the series' start."""
    for end in range(start + width, len(series) + 1):
        if sum(series[end - width : end]) / width >= level:
            return end - width
    return None


def rate(bytes_, interval_ms):
    return bytes_ / MEGABYTE * 1000 / interval_ms
