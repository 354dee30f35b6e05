"""What makes two calls the same one in the journal: the function's code and what it captured, and its arguments.

Code and data of the user's modules count, as far as functions and arguments lead there. Workers import them by
themselves, maybe from before a change: functions are sent with the digests of these definitions, and workers compare.
SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import hashlib
import importlib
import sys
from types import FunctionType, MethodType
from typing import Any, NamedTuple

from thalweg.diffusion.code_names import Name, resolved
from thalweg.diffusion.value_digest import DIGEST_BYTES, hashed, hashed_definition


class Definitions:
    """Of the user's modules, each looked at once, with what it refers to."""

    def __init__(self) -> None:
        self._known: dict[Name, tuple[bytes, tuple[Name, ...]]] = {}

    def digest_of(self, value: Any) -> bytes:
        names: dict[Name, None] = {}
        own = hashed(value, names)
        if not names:
            return own
        digest = hashlib.blake2b(own, digest_size=DIGEST_BYTES)
        for (module, name), known in self._reached(names):
            digest.update(f"{module} {name} ".encode() + known)
        return digest.digest()

    def of(self, function: Any) -> list[tuple[Name, bytes]]:
        """All that the function leads to."""
        names: dict[Name, None] = {}
        hashed(_parts(function), names)
        return self._reached(names)

    def call_digest(self, function: bytes, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> bytes:
        """Of a call of the function with that digest."""
        return self.digest_of((function, arguments, sorted(keywords.items())))

    def function_digest(self, function: Any, label: str) -> bytes:
        """Of its code, captured values and globals."""
        return self.digest_of((label, *_parts(function)))

    def _reached(self, names: dict[Name, None]) -> list[tuple[Name, bytes]]:
        reached: dict[Name, bytes] = {}
        following = list(names)
        while following:
            name = following.pop()
            if name not in reached:
                reached[name], further = self._definition(name)
                following += further
        return sorted(reached.items())

    def _definition(self, name: Name) -> tuple[bytes, tuple[Name, ...]]:
        if name not in self._known:
            further: dict[Name, None] = {}
            self._known[name] = hashed_definition(resolved(name), further), tuple(further)
        return self._known[name]


class Shipped(NamedTuple):
    """A function on its way to workers, with what it leads to in the user's modules."""

    function: Any
    python: tuple[int, int]
    definitions: list[tuple[Name, bytes]]

    @classmethod
    def of(cls, function: Any, definitions: Definitions) -> Shipped:
        return cls(function, sys.version_info[:2], definitions.of(function))

    def differing(self) -> tuple[str, ...]:
        """Those that this process has otherwise. Byte code of other versions of Python says nothing."""
        if self.python != sys.version_info[:2]:
            return ()
        return tuple(".".join(name) for name, digest in self.definitions if _first_digest(name) != digest)


# What this process had under each name when it was first compared: tasks may change data since.
_first: dict[Name, tuple[Any, bytes]] = {}


def _first_digest(name: Name) -> bytes:
    try:
        importlib.import_module(name[0])
    except Exception:
        # What needs it says so.
        return b""
    value = resolved(name)
    if name not in _first or _first[name][0] is not value:
        _first[name] = value, hashed_definition(value, {})
    return _first[name][1]


def _parts(function: Any) -> tuple[Any, ...]:
    """Of an object that can be called also what its class does."""
    call = None if isinstance(function, (FunctionType, MethodType, type)) else getattr(type(function), "__call__", None)
    return function, getattr(function, "__wrapped__", None), call
