"""The options of a run; travel to the scheduler and to every worker. SPDX-License-Identifier: Apache-2.0"""

from __future__ import annotations

import math
import numbers
import secrets
from dataclasses import dataclass, field
from typing import Any

from thalweg.error_code import misuse


@dataclass(frozen=True)
class Options:
    """Rates are bytes a second; of those of the store and of peers the plan measures its own as it goes."""

    cache_bytes: int = 20 * 10**9
    policy: str = "thalweg"
    eviction: str = "lru"
    slots: int | None = None
    retries: int = 0
    timeout_s: float | None = None
    seed: int = 0
    store_bytes_per_s: float | None = None
    peer_bytes_per_s: int | None = None
    storage_options: dict[str, Any] = field(default_factory=dict)
    cache_folder: str | None = None
    # How long a store that fails is asked again before a task fails with it.
    store_timeout_s: float = 60.0
    # A call to a store of which nothing is heard for so long has failed.
    store_stall_timeout_s: float = 30.0
    # Workers report which versions of their inputs tasks had.
    is_journaled: bool = False
    # Distinguishes calls in the journal beside their code.
    version: str = ""
    # Workers report what they use of memory and processors.
    is_watched: bool = False
    run: str = field(default_factory=lambda: secrets.token_hex(8))
    # Peers serve every client that proves it.
    token: str = field(default_factory=lambda: secrets.token_hex(16))


def at_least(name: str, value: int | None, least: int) -> int | None:
    """The value of a parameter that counts something; `ValueError` for too few."""
    _check_number(name, value)
    if value is not None and value < least:
        raise misuse(ValueError, f"{name} must be {least} or more, not {value}")
    return value


def positive(name: str, value: float | None) -> float | None:
    """The value of a parameter that is a time or a rate; `ValueError` for none, less, and what is no number."""
    _check_number(name, value)
    if value is not None and not 0 < value < math.inf:
        raise misuse(ValueError, f"{name} must be more than 0, not {value}; leave it out for no limit")
    return value


def _check_number(name: str, value: object) -> None:
    if value is not None and not isinstance(value, numbers.Real):
        raise misuse(TypeError, f"{name} is a number, not {value!r}")
