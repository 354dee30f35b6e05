"""Plain SVG figures: panels with labelled axes, lines and bars, a legend. Nothing to install, and the same bytes for the
same rows.

SPDX-License-Identifier: Apache-2.0
"""

import math
from html import escape
from pathlib import Path

WIDTH, HEIGHT = 430, 300
LEFT, RIGHT, TOP, BOTTOM = 58, 14, 30, 46
LEGEND_LINE = 16
FONT = "font-family='DejaVu Sans, Helvetica, sans-serif'"
COLOURS = ["#1f5fa8", "#c0392b", "#3f8f3d", "#b7861f", "#7d3c98", "#555555"]


class Axis:
    """From values to 0…1. `ticks` are (value, text)."""

    def __init__(self, label, least, most, log=False, ticks=None):
        self.label, self.least, self.most, self.log = label, least, most, log
        self.ticks = ticks or (_decades(least, most) if log else _round_ticks(least, most))

    def at(self, value):
        if self.log:
            value, least, most = (math.log(max(number, self.least / 10)) for number in (value, self.least, self.most))
        else:
            least, most = self.least, self.most
        return min(1.02, max(-0.02, (value - least) / (most - least)))


class Panel:
    def __init__(self, title, x, y):
        self.title, self.x, self.y = title, x, y
        self.marks, self.legend = [], {}

    def line(self, points, label, colour, dashed=False, dots=True):
        """`points` are (x, y); those without a y are left out."""
        places = [self._place(x, y) for x, y in points if y is not None]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
        dash = " stroke-dasharray='5 4'" if dashed else ""
        self.marks.append(f"<polyline points='{path}' fill='none' stroke='{colour}' stroke-width='1.8'{dash}/>")
        if dots:
            self.marks += [f"<circle cx='{x:.1f}' cy='{y:.1f}' r='3' fill='{colour}'/>" for x, y in places]
        self._explain(label, colour)

    def bar(self, begin, end, value, label, colour, text=None):
        """Between two x, from the axis to the value."""
        (left, top), (right, bottom) = self._place(begin, value), self._place(end, self.y.least)
        size = f"width='{right - left:.1f}' height='{max(0, bottom - top):.1f}'"
        self.marks.append(f"<rect x='{left:.1f}' y='{top:.1f}' {size} fill='{colour}'/>")
        if text:
            self.marks.append(_text((left + right) / 2, top - 3, text, 9, "middle"))
        self._explain(label, colour)

    def level(self, begin, end, value, label, colour):
        """A short rule across a bar: what it should be."""
        (left, y), (right, _) = self._place(begin, value), self._place(end, value)
        self.marks.append(
            f"<line x1='{left:.1f}' x2='{right:.1f}' y1='{y:.1f}' y2='{y:.1f}' stroke='{colour}' stroke-width='2'/>"
        )
        self._explain(label, colour)

    def _explain(self, label, colour):
        if label:
            self.legend[label] = colour

    def _place(self, x, y):
        across = LEFT + self.x.at(x) * (WIDTH - LEFT - RIGHT)
        return across, HEIGHT - BOTTOM - self.y.at(y) * (HEIGHT - TOP - BOTTOM)

    def height(self):
        return HEIGHT + LEGEND_LINE * math.ceil(len(self.legend) / 2)

    def draw(self):
        return [_text(WIDTH / 2, 18, self.title, 12, "middle", bold=True), *self._axes(), *self.marks, *self._legend()]

    def _axes(self):
        right, bottom = WIDTH - RIGHT, HEIGHT - BOTTOM
        for value, text in self.y.ticks:
            _, y = self._place(self.x.least, value)
            yield f"<line x1='{LEFT}' x2='{right}' y1='{y:.1f}' y2='{y:.1f}' stroke='#e4e4e4'/>"
            yield _text(LEFT - 6, y + 4, text, 10, "end")
        for value, text in self.x.ticks:
            x, _ = self._place(value, self.y.least)
            yield f"<line x1='{x:.1f}' x2='{x:.1f}' y1='{bottom}' y2='{bottom + 4}' stroke='#444'/>"
            yield _text(x, bottom + 16, text, 10, "middle")
        yield f"<path d='M{LEFT} {TOP} V{bottom} H{right}' fill='none' stroke='#444'/>"
        yield _text((LEFT + right) / 2, bottom + 34, self.x.label, 11, "middle")
        yield f"<g transform='translate(13 {(TOP + bottom) / 2}) rotate(-90)'>{_text(0, 0, self.y.label, 11, 'middle')}</g>"

    def _legend(self):
        for number, (label, colour) in enumerate(self.legend.items()):
            x, y = LEFT + (number % 2) * (WIDTH - LEFT) / 2, HEIGHT + (number // 2) * LEGEND_LINE
            yield f"<rect x='{x:.0f}' y='{y:.0f}' width='12' height='8' fill='{colour}'/>"
            yield _text(x + 17, y + 8, label, 10, "start")


def write(path: Path, panels, columns=2):
    """The panels side by side, row by row."""
    columns = min(columns, len(panels))
    rows = [panels[start : start + columns] for start in range(0, len(panels), columns)]
    body, top = [], 0
    for row in rows:
        for column, panel in enumerate(row):
            body.append(f"<g transform='translate({column * WIDTH} {top})'>{''.join(panel.draw())}</g>")
        top += max(panel.height() for panel in row) + 10
    head = f"<svg xmlns='http://www.w3.org/2000/svg' width='{columns * WIDTH}' height='{top}' {FONT}>"
    path.write_text(f"{head}<rect width='100%' height='100%' fill='white'/>{chr(10).join(body)}</svg>\n")


def write_lines(path: Path, title, x_title, y_title, series, *, logarithmic_x=False):
    """One panel with a line for each of `series`: name → [(x, y)]."""
    xs = sorted({x for points in series.values() for x, _ in points})
    most = max(y for points in series.values() for _, y in points) * 1.05 or 1
    ticks = [(x, f"{x:g}") for x in xs]
    panel = Panel(title, Axis(x_title, xs[0], xs[-1], log=logarithmic_x, ticks=ticks), Axis(y_title, 0, most))
    for number, (name, points) in enumerate(series.items()):
        panel.line(points, name, COLOURS[number % len(COLOURS)])
    write(path, [panel])


def _text(x, y, text, size, anchor, bold=False):
    weight = " font-weight='bold'" if bold else ""
    return f"<text x='{x:.1f}' y='{y:.1f}' font-size='{size}' text-anchor='{anchor}'{weight}>{escape(text)}</text>"


def _round_ticks(least, most):
    step = 10 ** math.floor(math.log10((most - least) / 4))
    step *= next(factor for factor in (1, 2, 5, 10) if (most - least) / (step * factor) <= 6)
    first = math.ceil(least / step - 1e-9)
    return [(number * step, f"{number * step:g}") for number in range(first, math.floor(most / step + 1e-9) + 1)]


def _decades(least, most):
    return [
        (10.0**power, f"{10.0**power:g}")
        for power in range(math.ceil(math.log10(least)), math.floor(math.log10(most)) + 1)
    ]
