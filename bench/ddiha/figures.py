"""Figures 12 and 13: seconds against what is written, and beside them, dashed, what the equations say.

SPDX-License-Identifier: Apache-2.0
"""

import statistics

from ddiha.contenders import CONTENDERS, OURS, PLAIN
from ddiha.model import Model
from measuring import svg

COLOURS = dict(zip(CONTENDERS, svg.COLOURS))
SECONDS = (0.2, 0.5, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)


def draw(path, by_case, models):
    visible = {PLAIN: Model.plain_io_s, OURS: Model.deduplicated_io_s}
    whole = {PLAIN: Model.plain_s, OURS: Model.deduplicated_s}
    svg.write(path, [
        panel("visible I/O (DDiHA's figure 12)", by_case, "io_seconds", models, visible),
        panel("end to end (DDiHA's figure 13)", by_case, "seconds", models, whole),
    ])


def panel(title, by_case, key, models, predicted):
    medians = {case: statistics.median(row[key] for row in group) for case, group in by_case.items()}
    drawn = svg.Panel(title, size_axis(models), seconds_axis(medians.values()))
    for contender, colour in COLOURS.items():
        drawn.line([(written(model), medians[size, contender]) for size, model in models.items()], contender, colour)
    for contender, seconds in predicted.items():
        points = [(written(model), seconds(model)) for model in models.values()]
        drawn.line(points, None, COLOURS[contender], dashed=True, dots=False)
    return drawn


def written(model):
    return model.phases * model.output_mb


def size_axis(models):
    ticks = [(written(model), size) for size, model in models.items()]
    return svg.Axis("written", ticks[0][0], ticks[-1][0], log=True, ticks=ticks)


def seconds_axis(values):
    ticks = [(seconds, f"{seconds:g}") for seconds in SECONDS if seconds < 1.5 * max(values)]
    return svg.Axis("seconds; dashed: the equations", SECONDS[0], 1.5 * max(values), log=True, ticks=ticks)
