"""Charts as SVG text that needs nothing else: areas over time, and rows of cells. SPDX-License-Identifier: Apache-2.0"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from html import escape
from typing import NamedTuple

_WIDTH, _HEIGHT = 860, 190
_LEFT, _RIGHT, _TOP, _BOTTOM = 64, 12, 10, 26
_ROW, _LABEL = 16, 170
_TICKS = 5
_SHADES = 20
_CLOCK_S = [60 * minutes for minutes in (0.5, 1, 2, 5, 10, 15, 30, 60, 120, 180, 360, 720, 1440)]


class Series(NamedTuple):
    """Rates in equal bins. `style` is a class of the page's style sheet."""

    label: str
    style: str
    values: Sequence[float]


class Axis(NamedTuple):
    """`step` between its ticks, up to `most`."""

    most: float
    step: float


def stacked(series: Sequence[Series], edges_s: Sequence[float], unit: str, line: Series | None = None) -> str:
    """Areas above each other between the edges of their bins, and a line that is not one of them."""
    sums = [sum(values) for values in zip(*(one.values for one in series))]
    axis = axis_to(max([*sums, *(line.values if line else []), 0]))
    parts = [_frame(axis, edges_s[-1], unit)]
    floor = [0.0] * len(sums)
    for one in series:
        ceiling = [low + value for low, value in zip(floor, one.values)]
        parts.append(_area(floor, ceiling, one, edges_s, axis))
        floor = ceiling
    if line is not None:
        points = " ".join(_steps(line.values, edges_s, axis))
        parts.append(f'<polyline class="{line.style}" points="{points}"><title>{escape(line.label)}</title></polyline>')
    return _svg(_HEIGHT, parts)


def cells(rows: Sequence[tuple[str, Sequence[float]]], edges_s: Sequence[float]) -> str:
    """A row for each name, with cells from 0 (empty) to 1 (full)."""
    height = _TOP + len(rows) * _ROW + _BOTTOM
    span = _WIDTH - _LABEL - _RIGHT
    parts = []
    for number, (name, values) in enumerate(rows):
        y = _TOP + number * _ROW
        parts.append(f'<text class="label" x="{_LABEL - 6}" y="{y + 11}">{escape(_cut(name))}</text>')
        parts.append(f'<rect class="track" x="{_LABEL}" y="{y}" width="{span}" height="{_ROW - 3}"/>')
        for begin, end, shade in _runs(values, edges_s):
            x, width = _LABEL + begin / edges_s[-1] * span, (end - begin) / edges_s[-1] * span
            size = f'x="{x:.1f}" y="{y}" width="{width:.1f}" height="{_ROW - 3}"'
            parts.append(f'<rect class="cell" {size} fill-opacity="{shade / _SHADES:.2f}"/>')
    parts.append(_times(edges_s[-1], _LABEL, span, height))
    return _svg(height, parts)


def _runs(values: Sequence[float], edges_s: Sequence[float]) -> Iterator[tuple[float, float, int]]:
    """Neighbours of one shade, from when to when; without empty ones."""
    shades = [round(min(1.0, value) * _SHADES) for value in values]
    begin = 0
    for place in range(1, len(shades) + 1):
        if place == len(shades) or shades[place] != shades[begin]:
            if shades[begin]:
                yield edges_s[begin], edges_s[place], shades[begin]
            begin = place


def axis_to(most: float) -> Axis:
    """A few round ticks that hold `most`."""
    if not (most > 0 and math.isfinite(most)):
        return Axis(1, 1)
    rough = most / _TICKS
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= rough * 0.999)
    return Axis(step * math.ceil(most / step * 0.999), step)


def seconds_written(seconds: float) -> str:
    """`20 ms`, `1.5 s`, `90 s`, `12:30`, `3:05:00`."""
    if 0 < seconds < 0.9995:
        return f"{seconds * 1000:.0f} ms" if seconds >= 0.0005 else "< 1 ms"
    return f"{seconds:.3g} s" if seconds <= 90 else _clock(seconds)


def _clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def amount_written(amount: float, unit: str = "") -> str:
    """`950 B`, `1.5 kB`, `20/s`, `20 M/s`."""
    for prefix, factor in (("T", 1e12), ("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if amount >= 0.9995 * factor:
            return f"{amount / factor:.3g} {prefix}{unit}"
    return f"{amount:.3g} {unit}" if unit[:1].isalpha() else f"{amount:.3g}{unit}"


def _svg(height: int, parts: Sequence[str]) -> str:
    return f'<svg viewBox="0 0 {_WIDTH} {height}" role="img">{"".join(parts)}</svg>'


def _frame(axis: Axis, end_s: float, unit: str) -> str:
    parts = []
    for number in range(round(axis.most / axis.step) + 1):
        value = number * axis.step
        y = _y(value, axis)
        parts.append(f'<line class="grid" x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>')
        written = amount_written(value, unit) if number else "0"
        parts.append(f'<text class="label" x="{_LEFT - 6}" y="{y + 4:.1f}">{escape(written)}</text>')
    return "".join(parts) + _times(end_s, _LEFT, _WIDTH - _LEFT - _RIGHT, _HEIGHT)


def _times(end_s: float, left: int, span: int, height: int) -> str:
    step = _time_step(end_s)
    parts = []
    for number in range(math.floor(end_s / step) + 1):
        x = left + number * step / end_s * span
        written = _clock(number * step) if step >= _CLOCK_S[0] else seconds_written(number * step)
        place = "last" if x > _WIDTH - 40 else "time"
        parts.append(f'<text class="{place}" x="{x:.1f}" y="{height - 8}">{escape(written)}</text>')
    return "".join(parts)


def _time_step(end_s: float) -> float:
    """As clocks have them: whole minutes and hours."""
    rough = end_s / _TICKS
    return (
        axis_to(end_s).step if rough < 20 else next((step for step in _CLOCK_S if step >= rough), axis_to(end_s).step)
    )


def _area(floor: Sequence[float], ceiling: Sequence[float], one: Series, edges_s: Sequence[float], axis: Axis) -> str:
    above = _steps(ceiling, edges_s, axis)
    below = _steps(floor, edges_s, axis)[::-1]
    points = " ".join(above + below)
    return f'<polygon class="{one.style}" points="{points}"><title>{escape(one.label)}</title></polygon>'


def _steps(values: Sequence[float], edges_s: Sequence[float], axis: Axis) -> list[str]:
    scale = (_WIDTH - _LEFT - _RIGHT) / edges_s[-1]
    points = []
    for value, begin, end in zip(values, edges_s, edges_s[1:]):
        y = _y(value, axis)
        points.extend([f"{_LEFT + begin * scale:.1f},{y:.1f}", f"{_LEFT + end * scale:.1f},{y:.1f}"])
    return points


def _y(value: float, axis: Axis) -> float:
    return _TOP + (1 - value / axis.most) * (_HEIGHT - _TOP - _BOTTOM)


def _cut(name: str) -> str:
    return name if len(name) <= 26 else f"{name[:10]}…{name[-15:]}"
