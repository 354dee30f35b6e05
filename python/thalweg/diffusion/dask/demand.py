"""Answers Dask's `Adaptive` when it asks a scheduler how many workers there should be.

Dask counts its own tasks, and sees of a run nothing but runners, which are on workers that are there already: it would
never ask for one more, nor let one go. So as long as there are runs, they are asked how many they want, and Dask counts
what else is on the cluster. SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

from typing import Any, Callable

import dask.config
from dask.utils import parse_timedelta
from distributed import Scheduler

# How many workers a run wants, to be done within so many seconds, if tasks of which none has ended take so many.
Target = Callable[[float, float], int]

_NAME = "thalweg-diffusion-demand"
# How the keys of runners begin.
_RUNNERS = "thalweg-diffusion-"


class Demand:
    """The demand of all runs on a scheduler, there as long as there are any."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._runs: list[Target] = []

    @classmethod
    def of(cls, scheduler: Scheduler) -> Demand:
        demand: Demand = scheduler.extensions.setdefault(_NAME, cls(scheduler))
        return demand

    def join(self, target: Target) -> None:
        self._runs.append(target)
        # Deployers ask by message, or in the scheduler's process (Dask's operator for Kubernetes).
        scheduler: Any = self._scheduler
        scheduler.handlers["adaptive_target"] = scheduler.adaptive_target = self.target

    def leave(self, target: Target) -> None:
        self._runs.remove(target)
        if not self._runs:
            vars(self._scheduler).pop("adaptive_target", None)
            self._scheduler.handlers["adaptive_target"] = self._scheduler.adaptive_target
            self._scheduler.extensions.pop(_NAME, None)

    def target(self, target_duration: str | float | None = None) -> int:
        """`target_duration`: what `cluster.adapt` was given, 5 s by default."""
        if target_duration is None:
            target_duration = dask.config.get("distributed.adaptive.target-duration")
        drain_s = float(parse_timedelta(target_duration))
        guess_s = float(parse_timedelta(dask.config.get("distributed.scheduler.unknown-task-duration")))
        own = sum(run(drain_s, guess_s) for run in self._runs)
        if self._is_alone():
            return own
        return max(own, type(self._scheduler).adaptive_target(self._scheduler, drain_s))

    def _is_alone(self) -> bool:
        return all(isinstance(key, str) and key.startswith(_RUNNERS) for key in self._scheduler.tasks)
