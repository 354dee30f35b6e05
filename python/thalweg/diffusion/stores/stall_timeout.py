"""Calls to a store that may never return: given up when they make no progress for long enough.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import threading
from typing import Any, Callable, TypeVar

from thalweg.diffusion.running_time import RunningTime
from thalweg.error_code import Coded

Answer = TypeVar("Answer")

_POLL_S = 1.0


class StoreStalled(Coded, TimeoutError):
    """The store took a question and did not answer."""

    code = "TW-856"


def with_stall_timeout(
    act: Callable[[], Answer], stall_timeout_s: float | None, url: str, progress: Callable[[], Any] = lambda: None
) -> Answer:
    """Returns or raises as `act` does; raises `StoreStalled` when that takes longer than `stall_timeout_s` since it began, or since
    `progress()` was another one. A call given up goes on in its thread; its result is dropped."""
    if stall_timeout_s is None:
        return act()
    outcome: list[tuple[Answer | None, BaseException | None]] = []
    is_over = threading.Event()

    def carry_out() -> None:
        try:
            outcome.append((act(), None))
        except BaseException as error:
            outcome.append((None, error))
        is_over.set()

    threading.Thread(target=carry_out, name="thalweg-store", daemon=True).start()
    poll_s = min(_POLL_S, stall_timeout_s / 4)
    stalled, before = RunningTime(2 * poll_s), progress()
    while not is_over.wait(poll_s):
        state = progress()
        if state != before:
            before = state
            stalled.restart()
        elif stalled.look() > stall_timeout_s:
            raise StoreStalled(f"{url}: the store has not sent or taken anything for {stall_timeout_s:.3g} s")
    answer, error = outcome[0]
    if error is not None:
        raise error
    return answer  # type: ignore[return-value]
