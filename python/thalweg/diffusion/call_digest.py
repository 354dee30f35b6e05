"""The identity of a call in the journal: the function's code and what it captured, and its arguments.

Code and data of the user's modules count, as far as functions and arguments lead there. Workers import them by
themselves, maybe from before a change: functions are sent with the digests of these definitions, and workers compare.
SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import hashlib
import importlib
import os
import sys
from types import FunctionType, MethodType
from typing import Any, NamedTuple, Tuple

from thalweg.diffusion.code_names import Name, resolved
from thalweg.diffusion.value_digest import DIGEST_BYTES, hashed, hashed_definition

# Functions without a journal whose definitions are kept.
_MAX_SENT = 256
# A definition's name, and its digest in the process that sent the function.
Difference = Tuple[str, bytes]


class Definitions:
    """Of the user's modules, each read once, with what it refers to."""

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


class SentDefinitions:
    """The definitions that functions lead to which were sent before, by the functions' digests. They are checked again
    when a module has other objects, as it does after `importlib.reload`; thread-safe."""

    def __init__(self) -> None:
        self._known: dict[bytes, tuple[list[tuple[Name, bytes]], list[Any]]] = {}

    def of(self, function: Any, digest: bytes) -> list[tuple[Name, bytes]]:
        known = self._known.get(digest)
        if known is None or any(_code(name) is not code for (name, _), code in zip(*known)):
            found = _definitions_of(function)
            if len(self._known) >= _MAX_SENT:
                self._known = {}
            known = self._known[digest] = found, [_code(name) for name, _ in found]
        return known[0]


def _definitions_of(function: Any) -> list[tuple[Name, bytes]]:
    try:
        return Definitions().of(function)
    except Exception:
        # Workers may be able to have what has no digest.
        return []


def _code(name: Name) -> Any:
    value = resolved(name)
    return getattr(value, "__code__", value)


class Shipped(NamedTuple):
    """A function on its way to workers, pickled, with what it leads to in the user's modules. Without a journal data counts only
    where the module's file was changed: programs change their data as they run."""

    pickled: bytes
    python: tuple[int, int]
    definitions: list[tuple[Name, bytes]]
    is_journaled: bool

    @classmethod
    def of(cls, pickled: bytes, definitions: list[tuple[Name, bytes]], is_journaled: bool) -> Shipped:
        return cls(pickled, sys.version_info[:2], definitions, is_journaled)

    def differing(self) -> tuple[Difference, ...]:
        """Those that this process has otherwise. Byte code of other versions of Python says nothing."""
        if self.python != sys.version_info[:2]:
            return ()
        differing = [one for one in self.definitions if _first_digest(one[0]) != one[1]]
        return tuple((".".join(name), digest) for name, digest in differing if self._counts(name))

    def _counts(self, name: Name) -> bool:
        return self.is_journaled or isinstance(resolved(name), (FunctionType, type)) or _is_edited(name[0])


# The value under each name when it was first compared: tasks may change data since.
_first: dict[Name, tuple[Any, bytes]] = {}
# And the state of the modules' files then.
_first_files: dict[str, tuple[int, int] | None] = {}


def _first_digest(name: Name) -> bytes:
    try:
        importlib.import_module(name[0])
    except Exception:
        # A function that needs it says so.
        return b""
    _first_files.setdefault(name[0], _file_of(name[0]))
    value = resolved(name)
    if name not in _first or _first[name][0] is not value:
        _first[name] = value, hashed_definition(value, {})
    return _first[name][1]


def _is_edited(module: str) -> bool:
    """Whether its file has changed since this process first compared what it had of it."""
    return module in _first_files and _first_files[module] != _file_of(module)


def _file_of(module: str) -> tuple[int, int] | None:
    try:
        found = os.stat(str(sys.modules[module].__file__))
    except (KeyError, AttributeError, OSError):
        return None
    return found.st_mtime_ns, found.st_size


def _parts(function: Any) -> tuple[Any, ...]:
    """Of an object that can be called also what its class does."""
    call = None if isinstance(function, (FunctionType, MethodType, type)) else getattr(type(function), "__call__", None)
    return function, getattr(function, "__wrapped__", None), call
