"""Digests of values, functions and classes that are the same in every process.

Values are pickled into a digest, as joblib does, with everything ordered that differs from one process to the next:
equal strings are one object, sets are sorted, and a function is its code without file and line. A reference to what a
module of the user defines is its name; the definition has a digest of its own (`call_digest.py`).
SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import functools
import hashlib
from types import FunctionType, GetSetDescriptorType, MemberDescriptorType, MethodType, ModuleType
from typing import Any

import cloudpickle

from thalweg.diffusion.arguments import File, Output
from thalweg.diffusion.calls import Reference
from thalweg.diffusion.code_names import (
    Name,
    code_of,
    globals_of,
    imported_sources,
    is_users,
    name_of,
    names_of,
    resolved,
)
from thalweg.diffusion.pickling import LruCached

DIGEST_BYTES = 16
# Data of a user's module counts up to here by its content, larger data by its type only.
_MAX_DATA_BYTES = 1 << 20

_CONSTANTS = (int, float, complex, str, bytes, bool, type(None))
# Attributes of classes that say nothing of what they do, or differ between processes.
_NOT_MEMBERS = {
    *("__dict__", "__weakref__", "__doc__", "__module__", "__qualname__", "__firstlineno__", "__static_attributes__"),
    *("_abc_impl", "__slotnames__", "__annotations__", "__annotate_func__", "__annotations_cache__"),
}


class _TooLarge(Exception):
    """Not worth its digest."""


def hashed(value: Any, names: dict[Name, None], limit: int | None = None) -> bytes:
    """Of a value by itself; `names` gets what it refers to in users' modules. Raises for what cannot be pickled."""
    return _hashed(value, names, {}, limit)


def hashed_definition(value: Any, names: dict[Name, None]) -> bytes:
    """Of what a user's module has under a name: also of what cannot be pickled, then of its type."""
    digest = hashlib.blake2b(digest_size=DIGEST_BYTES)
    pickler = _Pickler(digest, names, {}, None)
    expands = isinstance(value, (FunctionType, type))
    pickler.dump(pickler.expanded(value) if expands else pickler.data(value, _MAX_DATA_BYTES))
    return digest.digest()


def _hashed(value: Any, names: dict[Name, None], met: dict[int, Any], limit: int | None) -> bytes:
    digest = hashlib.blake2b(digest_size=DIGEST_BYTES)
    _Pickler(digest, names, met, limit).dump(value)
    return digest.digest()


class _Writer:
    def __init__(self, digest: Any, limit: int | None) -> None:
        self._update, self._left = digest.update, limit

    def write(self, part: Any) -> None:
        if self._left is not None:
            self._left -= memoryview(part).nbytes
            if self._left < 0:
                raise _TooLarge
        self._update(part)


class _Pickler(cloudpickle.Pickler):  # type: ignore[misc]
    """`met` are functions and classes that the digest has already, by identity, with their places in it."""

    def __init__(self, digest: Any, names: dict[Name, None], met: dict[int, Any], limit: int | None) -> None:
        super().__init__(_Writer(digest, limit), protocol=5)
        self._names, self._met = names, met
        self._equal: dict[Any, Any] = {}

    def persistent_id(self, value: Any) -> Any:
        kind = type(value)
        if kind is str or kind is bytes:
            # Equal ones may be one object or several, by chance.
            return self._equal.setdefault((kind, value), value)
        if kind is set or kind is frozenset:
            return kind.__name__, sorted(_hashed(one, self._names, dict(self._met), None) for one in value)
        if isinstance(value, (FunctionType, type)):
            return self._known(value)
        if isinstance(value, File):
            return "file", value.item.key
        if isinstance(value, Output):
            return "output", value.url
        if isinstance(value, Reference):
            return "value", value.digest()
        return None

    def _known(self, value: Any) -> Any:
        name = None if value is _identity else name_of(value)
        if name is not None:
            self._names[name] = None
            return "user", *name
        return ("met", self._met[id(value)][0]) if id(value) in self._met else None

    def reducer_override(self, value: Any) -> Any:
        if value is _identity:
            return NotImplemented
        if isinstance(value, (FunctionType, type)):
            self._met[id(value)] = len(self._met), value
            return _identity, self.expanded(value)
        if isinstance(value, MethodType):
            return _identity, (value.__func__, value.__self__)
        if isinstance(value, LruCached):
            return _identity, (value.__wrapped__,)
        if isinstance(value, ModuleType):
            return _identity, (value.__name__,)
        return super().reducer_override(value)

    def data(self, value: Any, limit: int | None = None) -> Any:
        """Its digest; of what has none, its type."""
        if type(value) in _CONSTANTS:
            return value
        try:
            return _hashed(value, self._names, self._met, limit)
        except Exception:
            return f"{type(value).__module__}.{type(value).__qualname__}"

    def expanded(self, value: Any) -> tuple[Any, ...]:
        if isinstance(value, FunctionType):
            return value.__qualname__, code_of(value.__code__), *self._captured(value)
        return value.__module__, value.__qualname__, *self._members(value)

    def _captured(self, function: FunctionType) -> tuple[Any, ...]:
        """The values that a function captures."""
        around, names = function.__globals__, names_of(function.__code__)
        used = [name for name in globals_of(function.__code__) if name in around]
        module = function.__module__
        if is_users(module):
            found = [(name, self._of_module(module, name, around[name], names)) for name in used]
        elif _is_imported(function):
            found = [(name, around[name]) for name in used if _is_of_module(around[name], module)]
        else:
            found = [(name, self._of_script(around[name], names)) for name in used]
        cells = [self._plain_or_data(cell) for cell in function.__closure__ or ()]
        defaults = self.data(function.__defaults__), self.data(sorted((function.__kwdefaults__ or {}).items()))
        is_library = _is_imported(function) and not is_users(module)
        return found, cells, defaults, None if is_library else imported_sources(function)

    def _plain_or_data(self, cell: Any) -> Any:
        try:
            value = cell.cell_contents
        except ValueError:
            return None
        return value if isinstance(value, (FunctionType, type)) else self.data(value)

    def _of_script(self, value: Any, names: tuple[str, ...]) -> Any:
        if isinstance(value, ModuleType):
            return self._attributes(value, names)
        return value if isinstance(value, (FunctionType, type)) else self.data(value)

    def _of_module(self, module: str, name: str, value: Any, names: tuple[str, ...]) -> Any:
        if isinstance(value, ModuleType):
            return self._attributes(value, names)
        if isinstance(value, (FunctionType, type)):
            return value
        self._names[(module, name)] = None
        return "data", module, name

    def _attributes(self, module: ModuleType, names: tuple[str, ...]) -> Any:
        """Of a user's module what the code names."""
        if not is_users(module.__name__) or id(module) in self._met:
            return module.__name__
        self._met[id(module)] = len(self._met), module
        has = vars(module)
        return [(name, self._of_module(module.__name__, name, has[name], names)) for name in names if name in has]

    def _members(self, kind: type) -> tuple[Any, ...]:
        """A class that is the user's; one of a library is its name."""
        if _is_imported(kind) and not is_users(kind.__module__):
            return ()
        members = []
        for name, member in sorted(vars(kind).items()):
            if name in _NOT_MEMBERS or isinstance(member, (GetSetDescriptorType, MemberDescriptorType)):
                continue
            members.append((name, self._member(getattr(member, "__func__", member))))
        return type(kind), kind.__bases__, members

    def _member(self, member: Any) -> Any:
        if isinstance(member, property):
            return member.fget, member.fset, member.fdel
        if isinstance(member, functools.cached_property):
            return (member.func,)
        return member if isinstance(member, (FunctionType, type)) else self.data(member)


def _identity(*parts: Any) -> None:
    """Stands for what the parts are of."""


def _is_imported(value: Any) -> bool:
    """Whether workers import it by its name."""
    return resolved((value.__module__, value.__qualname__)) is not None


def _is_of_module(value: Any, module: str) -> bool:
    if isinstance(value, (FunctionType, type)):
        return value.__module__ == module
    return isinstance(value, _CONSTANTS)
