"""A short text of a call's arguments or result, for reports and `repr`: bounded in size and time whatever they are.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import dataclasses
import os
import time
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from typing import Any

from thalweg.diffusion.arguments import File, Output
from thalweg.diffusion.report.markup import shortened

MAX_ARGUMENTS = 200
_MAX_DEPTH = 3
_MAX_ELEMENTS = 6
# Longer texts are cut before they are quoted.
_MAX_VALUE = 80
# A type whose `repr` took so long is not asked again.
_SLOW_S = 0.005
_slow: set[type] = set()
# Their own text is quick and short.
_PLAIN = (bool, float, complex, type(None), type(Ellipsis))


def describe_arguments(arguments: Any, keywords: Mapping[str, Any] | None = None) -> str:
    """Those of one call: a tuple's elements, or the one argument; and its keywords."""
    try:
        parts = _elements(arguments, 0) if type(arguments) is tuple else _value(arguments, 0)
        named = _named(keywords, 0) if keywords else ""
        return shortened(", ".join(part for part in (parts, named) if part), MAX_ARGUMENTS)
    except Exception:
        return "?"


def describe_value(value: Any) -> str:
    try:
        return shortened(_value(value, 0), MAX_ARGUMENTS)
    except Exception:
        return "?"


def _elements(values: Any, depth: int) -> str:
    parts = []
    for number, one in enumerate(values):
        if number == _MAX_ELEMENTS:
            parts.append(f"… {len(values)} in all")
            break
        parts.append(_value(one, depth + 1))
    return ", ".join(parts)


def _value(value: Any, depth: int) -> str:
    if isinstance(value, _PLAIN):
        return repr(value)
    if isinstance(value, int):
        # Text of a very long one takes very long.
        return repr(value) if value.bit_length() < 256 else f"{type(value).__name__} of {value.bit_length()} bits"
    if isinstance(value, (str, bytes, bytearray)):
        return _quoted(value)
    if isinstance(value, (File, Output)):
        return _file(value)
    if isinstance(value, os.PathLike):
        return shortened(os.fspath(value), _MAX_VALUE)
    if isinstance(value, type) or callable(value) and hasattr(value, "__qualname__"):
        return shortened(value.__qualname__, _MAX_VALUE)
    if depth >= _MAX_DEPTH:
        return type(value).__name__
    return _container(value, depth)


def _quoted(value: Any) -> str:
    if len(value) <= _MAX_VALUE:
        return repr(value)
    return f"{value[: _MAX_VALUE // 2]!r}… ({len(value)} {'characters' if isinstance(value, str) else 'bytes'})"


def _file(value: File | Output) -> str:
    url = shortened(value.url, MAX_ARGUMENTS)
    if isinstance(value, File) and (value.start or value.end is not None):
        return f"{url} bytes {value.start}–{'' if value.end is None else value.end}"
    return url


def _container(value: Any, depth: int) -> str:
    kind = type(value)
    if kind in (list, tuple) or isinstance(value, (set, frozenset)):
        opening, closing = "[]" if kind is list else "()" if kind is tuple else "{}"
        return f"{opening}{_elements(value, depth)}{closing}"
    if kind is dict:
        return "{" + _pairs(value, depth) + "}"
    if hasattr(kind, "shape") and hasattr(value, "shape"):
        return _array(value)
    if dataclasses.is_dataclass(value):
        fields = {field.name: getattr(value, field.name, "?") for field in dataclasses.fields(value) if field.repr}
        return f"{kind.__name__}({_named(fields, depth)})"
    if isinstance(value, tuple) and hasattr(kind, "_fields"):
        return f"{kind.__name__}({_named(dict(zip(kind._fields, value)), depth)})"
    if isinstance(value, (Mapping, AbstractSet, list, tuple)):
        return f"{kind.__name__} of {len(value)}"
    return _own(value)


def _pairs(values: Mapping[Any, Any], depth: int) -> str:
    parts = []
    for number, (key, one) in enumerate(values.items()):
        if number == _MAX_ELEMENTS:
            parts.append(f"… {len(values)} in all")
            break
        parts.append(f"{_value(key, depth + 1)}: {_value(one, depth + 1)}")
    return ", ".join(parts)


def _named(values: Mapping[str, Any], depth: int) -> str:
    few = list(values.items())[:_MAX_ELEMENTS]
    more = [f"… {len(values)} in all"] if len(values) > len(few) else []
    return ", ".join([*(f"{name}={_value(one, depth + 1)}" for name, one in few), *more])


def _array(value: Any) -> str:
    """Its contents may be large, or not computed yet. Numbers of such types have no extent."""
    shape = value.shape
    if shape == ():
        return shortened(repr(value), _MAX_VALUE)
    kind = getattr(value, "dtype", "")
    extent = " × ".join(str(one) for one in shape) if isinstance(shape, tuple) else str(shape)
    return shortened(f"{type(value).__name__} {extent} {kind}".rstrip(), _MAX_VALUE)


def _own(value: Any) -> str:
    kind = type(value)
    if kind in _slow or getattr(kind, "__repr__", None) is object.__repr__:
        return kind.__name__
    begun = time.perf_counter()
    try:
        written = repr(value)
    except Exception:
        written = kind.__name__
    if time.perf_counter() - begun > _SLOW_S:
        _slow.add(kind)
    return shortened(" ".join(written[: 10 * _MAX_VALUE].split()), _MAX_VALUE)
