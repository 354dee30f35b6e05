"""Calls to a store that may never return: given up when nothing was heard of them for long enough.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import threading
import time
from typing import Any, Callable, TypeVar

Answer = TypeVar("Answer")

_LOOK_S = 1.0


class StoreSilent(TimeoutError):
    """The store took a question and did not answer."""


def unless_silent(
    act: Callable[[], Answer], silence_s: float | None, url: str, heard: Callable[[], Any] = lambda: None
) -> Answer:
    """What `act` returns or raises; `StoreSilent` when that takes longer than `silence_s` since it began, or since
    `heard()` was another one. What was given up goes on in its thread, for nobody."""
    if silence_s is None:
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
    since, before = time.monotonic(), heard()
    while not is_over.wait(min(_LOOK_S, silence_s / 4)):
        now, state = time.monotonic(), heard()
        if state != before:
            since, before = now, state
        elif now - since > silence_s:
            raise StoreSilent(f"{url}: the store has not sent or taken anything for {silence_s:.3g} s")
    answer, error = outcome[0]
    if error is not None:
        raise error
    return answer  # type: ignore[return-value]
