"""Values over time as SVG that needs nothing else.

Each series has a strip of its own with its name beside it, so that no two colours have to be distinguished. Places are
percentages and lettering is not scaled: it is as large on a telephone as on a wide screen.
SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape
from typing import NamedTuple

from thalweg.diffusion.report.units import format_amount, format_seconds

# Bins of a small strip in a table.
_SMALL_BINS = 50
_TIMES = 4
_CLOCK_S = [60 * minutes for minutes in (0.5, 1, 2, 5, 10, 15, 30, 60, 120, 180, 360, 720, 1440)]


class Series(NamedTuple):
    """Values in the bins of a time axis. `style` is a class of the page's style sheet."""

    label: str
    style: str
    values: Sequence[float]


class TimeAxis(NamedTuple):
    """The edges of bins; pauses were cut out at `cuts_s`."""

    edges_s: Sequence[float]
    cuts_s: Sequence[float] = ()

    @property
    def end_s(self) -> float:
        return self.edges_s[-1]


class Axis(NamedTuple):
    """`step` between its ticks, up to `most`."""

    most: float
    step: float


def strips(series: Sequence[Series], axis: TimeAxis, unit: str) -> str:
    """One above the other on one scale, with their time below."""
    most = axis_to(max((value for one in series for value in one.values), default=0.0)).most
    parts = [_strip(one, most, axis, unit) for one in series]
    scale = (
        f"up to {format_amount(most, unit)}"
        if len(series) == 1
        else f"all of one scale, up to {format_amount(most, unit)}"
    )
    return f'<div class="strips">{"".join(parts)}{_times(axis)}<p class="scale">Height: {escape(scale)}</p></div>'


def _strip(one: Series, most: float, axis: TimeAxis, unit: str) -> str:
    highest, mean = max(one.values, default=0.0), _mean(one.values, axis.edges_s)
    numbers = f"{format_amount(mean, unit)} on average, {format_amount(highest, unit)} at most"
    label = f'<p class="label"><i class="{one.style}"></i>{escape(one.label)} <span class="faint">{numbers}</span></p>'
    area = _area(one.values, axis, most, one.style)
    named = f'role="img" aria-label="{escape(one.label)} over time: {numbers}"'
    return f'{label}<svg class="strip" width="100%" height="48" {named}>{area}</svg>'


def small_strip(one: Series, axis: TimeAxis, most: float) -> str:
    """For a cell of a table: fewer bins and no lettering."""
    values, edges = _coarser(one.values, axis.edges_s)
    coarse = axis._replace(edges_s=edges)
    area = _area(values, coarse, most if most > 0 else 1.0, one.style)
    return (
        f'<svg class="small" width="110" height="22" role="img" aria-label="{escape(one.label)} over time">{area}</svg>'
    )


def share_bar(shares: Sequence[tuple[str, float]]) -> str:
    """Parts of a whole beside each other; the table below it has their names and numbers."""
    parts, begin = [], 0.0
    for style, share in shares:
        parts.append(f'<rect class="{style}" x="{begin:.2%}" width="{share:.2%}" height="100%"/>')
        begin += share
    return f'<svg class="bar" width="100%" height="14" aria-hidden="true">{"".join(parts)}</svg>'


def axis_to(most: float) -> Axis:
    """A few round ticks that hold `most`."""
    if not (most > 0 and math.isfinite(most)):
        return Axis(1, 1)
    rough = most / 5
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= rough * 0.999)
    return Axis(step * math.ceil(most / step * 0.999), step)


def _area(values: Sequence[float], axis: TimeAxis, most: float, style: str) -> str:
    """Steps from bin to bin, in a picture that is stretched to the strip's size."""
    path, last = ["M0 100"], 100
    for value, begin in zip(values, axis.edges_s):
        y = round(100 * (1 - min(1.0, value / most)))
        if y != last:
            path.append(f"H{_x(begin, axis)}V{y}")
            last = y
    cuts = "".join(f'<path class="cut" d="M{_x(cut, axis)} 0V100"/>' for cut in axis.cuts_s)
    return (
        f'<svg viewBox="0 0 1000 100" preserveAspectRatio="none" width="100%" height="100%">'
        f'<path class="{style}" d="{"".join(path)}H1000V100Z"/>{cuts}</svg>'
    )


def _x(t: float, axis: TimeAxis) -> int:
    return round(1000 * t / axis.end_s)


def _coarser(values: Sequence[float], edges_s: Sequence[float]) -> tuple[list[float], list[float]]:
    step = max(1, math.ceil(len(values) / _SMALL_BINS))
    places = range(0, len(values), step)
    return [max(values[place : place + step]) for place in places], [*(edges_s[place] for place in places), edges_s[-1]]


def _mean(values: Sequence[float], edges_s: Sequence[float]) -> float:
    whole = sum(value * (end - begin) for value, begin, end in zip(values, edges_s, edges_s[1:]))
    return whole / edges_s[-1] if edges_s[-1] > 0 else 0.0


def _times(axis: TimeAxis) -> str:
    step = _time_step(axis.end_s)
    parts = []
    for number in range(math.floor(axis.end_s / step) + 1):
        place = number * step / axis.end_s
        anchor = "first" if number == 0 else "last" if place > 0.85 else "middle"
        parts.append(f'<text class="{anchor}" x="{place:.1%}" y="13">{escape(format_seconds(number * step))}</text>')
    return f'<svg class="times" width="100%" height="18" aria-hidden="true">{"".join(parts)}</svg>'


def _time_step(end_s: float) -> float:
    """As clocks have them: whole minutes and hours. No more than a narrow screen has room for."""
    rough = end_s / _TIMES
    if rough >= 20:
        return next((step for step in _CLOCK_S if step >= rough), axis_to(end_s * 5 / _TIMES).step)
    return axis_to(end_s * 5 / _TIMES).step
