"""Names in users' code: what a function's code refers to, and what users' own modules define.

A module is the user's if its file lies neither in the standard library nor where packages are installed.
SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import dis
import functools
import hashlib
import importlib.util
import os
import sys
import sysconfig
from types import CodeType, FunctionType
from typing import Any, Tuple

# Module and qualified name.
Name = Tuple[str, str]

_PACKAGE = __name__.partition(".")[0]
_INSTALLED = tuple(
    os.path.realpath(sysconfig.get_path(kind)) + os.sep for kind in ("stdlib", "platstdlib", "purelib", "platlib")
)


def is_users(module: str | None) -> bool:
    if module in (None, "__main__"):
        return False
    file = getattr(sys.modules.get(module or ""), "__file__", None)
    return isinstance(file, str) and module != _PACKAGE and not str(module).startswith(f"{_PACKAGE}.") and _is_own(file)


@functools.lru_cache(maxsize=4096)
def _is_own(file: str) -> bool:
    path = os.path.realpath(file)
    parts = path.split(os.sep)
    return not path.startswith(_INSTALLED) and "site-packages" not in parts and "dist-packages" not in parts


def name_of(value: Any) -> Name | None:
    """By which workers import a function or class of a user's module; None for others."""
    module, name = value.__module__, value.__qualname__
    if not isinstance(module, str) or not is_users(module) or resolved((module, name)) is not value:
        return None
    return module, name


def resolved(name: Name) -> Any:
    """The object of that name in this process, None without any."""
    module, qualified = name
    found: Any = None if module in (None, "__main__") else sys.modules.get(module)
    for part in qualified.split("."):
        found = getattr(found, part, None)
    return found


def code_of(code: CodeType) -> tuple[Any, ...]:
    """Without file and lines. Lists, for equal tuples may be one object or several by chance."""
    constants = [_constant(one) for one in code.co_consts]
    flags = [code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_flags]
    names = [list(code.co_names), list(code.co_varnames), list(code.co_freevars), list(code.co_cellvars)]
    return code.co_code, constants, flags, names, getattr(code, "co_exceptiontable", b"")


def _constant(value: Any) -> Any:
    if isinstance(value, CodeType):
        return code_of(value)
    return ["tuple", *map(_constant, value)] if isinstance(value, tuple) else value


@functools.lru_cache(maxsize=1024)
def globals_of(code: CodeType) -> tuple[str, ...]:
    """Names that the code looks up in its module."""
    names = {one.argval for one in dis.get_instructions(code) if one.opname in ("LOAD_GLOBAL", "LOAD_NAME")}
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            names.update(globals_of(constant))
    return tuple(sorted(names))


@functools.lru_cache(maxsize=1024)
def names_of(code: CodeType) -> tuple[str, ...]:
    """All global names and attributes that the code uses."""
    names = set(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            names.update(names_of(constant))
    return tuple(sorted(names))


def imported_sources(function: FunctionType) -> list[tuple[str, bytes]]:
    """The modules of the user that the function imports when it runs, with the digests of their files: they may not have
    been imported yet."""
    package = function.__globals__.get("__package__") or ""
    names: set[str] = set()
    for level, parts, name in _imports_of(function.__code__):
        try:
            whole = importlib.util.resolve_name("." * level + name, package)
        except ImportError:
            continue
        names.update((whole, *(f"{whole}.{part}" for part in parts)))
    return [(name, source) for name in sorted(names) if (source := _source(name)) is not None]


@functools.lru_cache(maxsize=1024)
def _imports_of(code: CodeType) -> tuple[tuple[int, tuple[str, ...], str], ...]:
    found = []
    instructions = list(dis.get_instructions(code))
    for level, parts, one in zip(instructions, instructions[1:], instructions[2:]):
        if one.opname == "IMPORT_NAME":
            found.append((level.argval or 0, tuple(parts.argval or ()), one.argval))
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            found += _imports_of(constant)
    return tuple(found)


def _source(module: str) -> bytes | None:
    """The digest of its file; None for modules that are not the user's."""
    if module.partition(".")[0] in (_PACKAGE, "__main__", *sys.builtin_module_names):
        return None
    try:
        spec = importlib.util.find_spec(module.partition(".")[0])
        places = [spec.origin, *(spec.submodule_search_locations or ())] if spec is not None else []
        if not any(_is_own(place) for place in places if place not in (None, "built-in", "frozen")):
            return None
        spec = importlib.util.find_spec(module)
        if spec is None or spec.origin is None:
            return None
        with open(spec.origin, "rb") as file:
            return hashlib.blake2b(file.read(), digest_size=16).digest()
    except (ImportError, AttributeError, ValueError, OSError):
        return None
