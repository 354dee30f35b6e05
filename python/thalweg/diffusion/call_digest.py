"""What makes two calls the same one in the journal: the function's code and what it captured, and its arguments.

Values are pickled into a digest, as joblib has it, with what differs from one process to the next put in order: strings
are one object each, sets are sorted, and a function is its code without file and line. Of functions and classes that
workers import, globals count as far as they are constants, functions and classes of the same module.
SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import dis
import functools
import hashlib
import sys
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any

import cloudpickle

from thalweg.diffusion.arguments import File, Output
from thalweg.diffusion.calls import Reference

DIGEST_BYTES = 16

_CONSTANTS = (int, float, complex, str, bytes, bool, type(None))


def call_digest(function: bytes, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> bytes:
    """Of a call of the function with that digest."""
    return digest_of((function, arguments, sorted(keywords.items())))


def function_digest(function: Any, label: str) -> bytes:
    """Of its code, captured values and globals."""
    call = None if isinstance(function, (FunctionType, MethodType, type)) else getattr(type(function), "__call__", None)
    return digest_of((label, function, getattr(function, "__wrapped__", None), call))


def digest_of(value: Any) -> bytes:
    digest = hashlib.blake2b(digest_size=DIGEST_BYTES)
    _Pickler(digest).dump(value)
    return digest.digest()


class _Writer:
    def __init__(self, digest: Any) -> None:
        self.write = digest.update


class _Pickler(cloudpickle.Pickler):  # type: ignore[misc]
    def __init__(self, digest: Any) -> None:
        super().__init__(_Writer(digest), protocol=5)
        self._strings: dict[str, str] = {}

    def persistent_id(self, value: Any) -> Any:
        kind = type(value)
        if kind is str:
            # Equal ones may be one object or several, by chance.
            return self._strings.setdefault(value, value)
        if kind is set or kind is frozenset:
            return kind.__name__, sorted(digest_of(one) for one in value)
        if isinstance(value, File):
            return "file", value.item.key
        if isinstance(value, Output):
            return "output", value.url
        if isinstance(value, Reference):
            return "value", value.digest()
        return None

    def reducer_override(self, value: Any) -> Any:
        if value is _identity:
            return NotImplemented
        if isinstance(value, FunctionType):
            return _identity, (value.__qualname__, _code(value.__code__)), _captured(value)
        if isinstance(value, MethodType):
            return _identity, (value.__func__, value.__self__)
        if isinstance(value, type):
            return _identity, (value.__module__, value.__qualname__), _members(value)
        if isinstance(value, ModuleType):
            return _identity, (value.__name__,)
        return super().reducer_override(value)


def _identity(*parts: Any) -> None:
    """Stands for what the parts are of."""


def _code(code: CodeType) -> tuple[Any, ...]:
    constants = [_code(one) if isinstance(one, CodeType) else one for one in code.co_consts]
    flags = (code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_flags)
    names = (code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars)
    return code.co_code, constants, flags, names, getattr(code, "co_exceptiontable", b"")


def _captured(function: FunctionType) -> dict[str, Any]:
    cells = []
    for cell in function.__closure__ or ():
        try:
            cells.append(cell.cell_contents)
        except ValueError:
            cells.append(None)
    around = function.__globals__
    names = [name for name in _globals_of(function.__code__) if name in around]
    if _is_imported(function):
        names = [name for name in names if _is_of_module(around[name], function.__module__)]
    return {
        "globals": [(name, around[name]) for name in names],
        "closure": cells,
        "defaults": (function.__defaults__, sorted((function.__kwdefaults__ or {}).items())),
    }


@functools.lru_cache(maxsize=1024)
def _globals_of(code: CodeType) -> tuple[str, ...]:
    names = {one.argval for one in dis.get_instructions(code) if one.opname in ("LOAD_GLOBAL", "LOAD_NAME")}
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            names.update(_globals_of(constant))
    return tuple(sorted(names))


def _members(kind: type) -> dict[str, Any]:
    """The code of a class that tasks bring along; an imported one is its name."""
    if _is_imported(kind):
        return {}
    members: list[tuple[str, Any]] = []
    for name, member in sorted(vars(kind).items()):
        member = getattr(member, "__func__", member)
        if isinstance(member, property):
            members.append((name, (member.fget, member.fset)))
        elif isinstance(member, (FunctionType, *_CONSTANTS)) and name not in ("__doc__", "__module__"):
            members.append((name, member))
    return {"bases": kind.__bases__, "members": members}


def _is_imported(value: Any) -> bool:
    """Whether workers import it by its name."""
    if value.__module__ in (None, "__main__"):
        return False
    found: Any = sys.modules.get(value.__module__)
    for name in value.__qualname__.split("."):
        found = getattr(found, name, None)
    return found is not None


def _is_of_module(value: Any, module: str) -> bool:
    if isinstance(value, (FunctionType, type)):
        return value.__module__ == module
    return isinstance(value, _CONSTANTS)
