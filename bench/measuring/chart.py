"""Line charts as SVG, for results over a parameter.

SPDX-License-Identifier: Apache-2.0
"""

import math
from html import escape

COLOURS = ["#1f5fa8", "#c0392b", "#3f8f3d", "#b7861f", "#7d3c98", "#555555"]
WIDTH, HEIGHT = 720, 420
LEFT, RIGHT, TOP, BOTTOM = 80, 180, 50, 60


def draw(path, title, x_title, y_title, series, *, logarithmic_x=False):
    """`series`: name → [(x, y)], in the order of x."""
    xs = [x for points in series.values() for x, _ in points]
    most_y = max(y for points in series.values() for _, y in points) * 1.05 or 1
    along = (lambda x: math.log10(x)) if logarithmic_x else (lambda x: x)
    least, most = along(min(xs)), along(max(xs))
    across = WIDTH - LEFT - RIGHT
    up = HEIGHT - TOP - BOTTOM

    def place(x, y):
        share = (along(x) - least) / (most - least or 1)
        return f"{LEFT + share * across:.1f},{HEIGHT - BOTTOM - y / most_y * up:.1f}"

    parts = [_text(LEFT, 28, "start", title)]
    for value in _ticks(most_y):
        y = HEIGHT - BOTTOM - value / most_y * up
        parts.append(f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}" stroke="#dddddd"/>')
        parts.append(_text(LEFT - 8, y + 4, "end", f"{value:g}"))
    for x in sorted(set(xs)):
        at = place(x, 0).split(",")[0]
        parts.append(_text(at, HEIGHT - BOTTOM + 18, "middle", f"{x:g}"))
    parts.append(_text(LEFT + across / 2, HEIGHT - 14, "middle", x_title))
    parts.append(_text(LEFT, TOP - 8, "start", y_title))
    for number, (name, points) in enumerate(series.items()):
        colour = COLOURS[number % len(COLOURS)]
        line = " ".join(place(x, y) for x, y in points)
        parts.append(f'<polyline fill="none" stroke="{colour}" stroke-width="2" points="{line}"/>')
        for x, y in points:
            at, height = place(x, y).split(",")
            parts.append(f'<circle cx="{at}" cy="{height}" r="3" fill="{colour}"/>')
        key = TOP + 10 + 20 * number
        parts.append(f'<rect x="{WIDTH - RIGHT + 20}" y="{key - 9}" width="14" height="9" fill="{colour}"/>')
        parts.append(_text(WIDTH - RIGHT + 40, key, "start", name))
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{HEIGHT}" viewBox="0 0 {WIDTH} {HEIGHT}" '
        'font-family="Helvetica, Arial, sans-serif" font-size="12">'
    )
    path.write_text("\n".join([head, '<rect width="100%" height="100%" fill="white"/>', *parts, "</svg>", ""]))


def _text(x, y, anchor, text):
    return f'<text x="{x}" y="{y}" text-anchor="{anchor}" fill="#222222">{escape(text)}</text>'


def _ticks(most):
    rough = most / 5
    power = 10 ** math.floor(math.log10(rough))
    step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= rough * 0.999)
    return [count * step for count in range(int(most / step + 1e-9) + 1)]
