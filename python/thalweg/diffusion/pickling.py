"""Pickling for workers: what cloudpickle does, and functions with a cache of their own (`functools.lru_cache`).

The standard library pickles those by their name, which workers do not know of a script's, a notebook's or a function's.
SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import functools
import io
from typing import Any, Callable

import cloudpickle

from thalweg.diffusion.arguments import File, Output
from thalweg.diffusion.code_names import resolved
from thalweg.error_code import misuse

_PROTOCOL = 5
LruCached = type(functools.lru_cache(len))


class Pickler(cloudpickle.Pickler):  # type: ignore[misc]
    def __init__(self, stream: io.BytesIO) -> None:
        super().__init__(stream, protocol=_PROTOCOL)

    def reducer_override(self, value: Any) -> Any:
        if isinstance(value, LruCached) and not _is_importable(value):
            # Filled later: a function that calls itself refers to its cache.
            return _empty, (value.cache_parameters(),), value.__wrapped__, None, None, _fill
        return super().reducer_override(value)


class _CapturedPickler(Pickler):
    """Pickles values sent apart from a task's arguments. Files named there would not be fetched."""

    def persistent_id(self, value: Any) -> Any:
        if isinstance(value, (File, Output)):
            kind = type(value).__name__
            raise misuse(
                TypeError,
                f"{kind}({value.url!r}) is captured by a function or in a scattered value, where no path can take its "
                "place; give it as an argument",
            )
        return None


def dumps(value: Any) -> bytes:
    return _dumped(Pickler, value)


def captured(value: Any) -> bytes:
    """Of a function, or of a value that is scattered."""
    return _dumped(_CapturedPickler, value)


def _dumped(pickler: Callable[[io.BytesIO], Pickler], value: Any) -> bytes:
    stream = io.BytesIO()
    pickler(stream).dump(value)
    return stream.getvalue()


def _is_importable(cached: Any) -> bool:
    module, name = getattr(cached, "__module__", None), getattr(cached, "__qualname__", None)
    return isinstance(module, str) and isinstance(name, str) and resolved((module, name)) is cached


class _Late:
    """Calls what it gets later."""

    function: Callable[..., Any]

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        return self.function(*arguments, **keywords)


def _empty(parameters: dict[str, Any]) -> Any:
    return functools.lru_cache(**parameters)(_Late())


def _fill(cached: Any, function: Callable[..., Any]) -> None:
    cached.__wrapped__.function = function
    functools.update_wrapper(cached, function)
