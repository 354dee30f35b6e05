"""A task's arguments as they travel: pickled as they are, and made again on the worker with paths for files.

The pickler meets each `File`, `Output`, future and scattered value wherever it stands, and writes a reference in its
place, so that containers of any kind keep their type and one object stays one. It is not asked about plain numbers and
strings, of which there may be millions. Large values go apart, under their digests, and travel once.
SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import hashlib
import io
import pickle
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from thalweg.diffusion.arguments import File, LocalPath, Output
from thalweg.diffusion.cache.item import Item
from thalweg.diffusion.pickling import Pickler
from thalweg.error_code import misuse

DIGEST_BYTES = 16
# Values that pickle to so much go apart.
_LARGE_BYTES = 64 << 10
# Plain containers of so many elements at most, and so deep, are looked through for what is large.
_MAX_ELEMENTS = 64
_MAX_DEPTH = 3
_CONTAINERS = (dict, list, tuple)
_NEVER_LARGE = (int, float, complex, type(None))


class Value(NamedTuple):
    """A function, or a large argument, pickled."""

    digest: bytes
    pickled: bytes

    @classmethod
    def of(cls, pickled: bytes) -> Value:
        return cls(hashlib.blake2b(pickled, digest_size=DIGEST_BYTES).digest(), pickled)


class Reference:
    """An argument whose value is elsewhere: a future's, or a scattered one."""

    # The same object for all tasks of a slot, or a new one for each.
    is_shared = False

    def value(self) -> Value:
        """Raises when there is none yet."""
        raise NotImplementedError

    def digest(self) -> bytes:
        """For the journal."""
        return self.value().digest


class Call(NamedTuple):
    """`values` are those that the payload refers to by place; `replaced` are outputs that may replace any folder."""

    payload: bytes
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    values: tuple[Value | Reference, ...]
    replaced: tuple[str, ...]


class _Part(NamedTuple):
    value: Value
    inputs: tuple[str, ...]
    outputs: tuple[Output, ...]


class Apart:
    """Arguments that calls had before, and what of them went apart; by identity. The objects are kept, that no others get
    their numbers."""

    def __init__(self) -> None:
        self.parts: dict[int, tuple[Any, _Part | None]] = {}
        # The parts of each that go apart: nothing, it as a whole, or what it contains.
        self.large: dict[int, list[Any]] = {}
        # Whether the first contains any of the others.
        self.contains: dict[tuple[int, ...], bool] = {}

    def copy(self) -> Apart:
        other = Apart()
        other.parts, other.large, other.contains = dict(self.parts), dict(self.large), dict(self.contains)
        return other

    def keep(self, argument: Any, other: Apart) -> None:
        """Remembers of an argument what `other` does."""
        for one in (argument, *other.large.get(id(argument), ())):
            if id(one) in other.large:
                self.parts[id(one)], self.large[id(one)] = other.parts[id(one)], other.large[id(one)]

    def known(self, argument: Any, depth: int = 0) -> list[Any]:
        """The parts of it that go apart, as far as calls had it before."""
        if id(argument) in self.large:
            return self.large[id(argument)]
        return [one for element in _elements(argument, depth) for one in self.known(element, depth + 1)]

    def count(self, argument: Any) -> int:
        """Returns the bytes of what goes apart, or 0."""
        part = self.parts[id(argument)][1]
        return 0 if part is None else len(part.value.pickled)


def _elements(argument: Any, depth: int) -> Iterable[Any]:
    """The parts of a plain container that may go apart, as several calls may have it in containers of their own."""
    if type(argument) not in _CONTAINERS or len(argument) > _MAX_ELEMENTS or depth == _MAX_DEPTH:
        return ()
    elements = argument.values() if isinstance(argument, dict) else argument
    return [one for one in elements if not isinstance(one, _NEVER_LARGE)]


def packed(arguments: tuple[Any, ...], keywords: dict[str, Any], apart: Apart | None = None) -> Call:
    """Of arguments that are the same objects in many calls, `apart` remembers what was pickled already."""
    apart = Apart() if apart is None else apart
    parts = (*arguments, *keywords.values())
    _refuse_dask_futures(parts)
    call = _Packing(apart)
    for part in parts:
        call.weigh(part)
    known = call.separable([one for part in parts for one in apart.known(part)])
    payload = call.pickled((arguments, keywords), known)
    if len(payload) > _LARGE_BYTES:
        large = call.separable([one for part in parts for one in call.large(part)])
        if {id(one) for one in large} != {id(one) for one in known}:
            call = _Packing(apart)
            payload = call.pickled((arguments, keywords), large)
    outputs = tuple(one.url for one in call.outputs)
    if len(set(outputs)) < len(outputs):
        raise misuse(ValueError, f"a task writes each of its outputs once: {list(outputs)}")
    replaced = tuple(one.url for one in call.outputs if one.replace)
    return Call(payload, tuple(dict.fromkeys(call.inputs)), outputs, tuple(call.values), replaced)


def _refuse_dask_futures(parts: tuple[Any, ...]) -> None:
    """They would reach the function as futures of a client that its worker does not have."""
    future: Any = getattr(sys.modules.get("distributed"), "Future", None)
    waiting = [(one, 0) for one in parts] if future is not None else []
    while waiting:
        one, depth = waiting.pop()
        if isinstance(one, future):
            raise misuse(
                TypeError, f"{one!r} is Dask's, not this run's: give its result(), or what Diffusion.submit returns"
            )
        waiting += [(element, depth + 1) for element in _elements(one, depth)]


def unsendable(arguments: tuple[Any, ...], keywords: dict[str, Any]) -> str | None:
    """Names the first argument that cannot be pickled."""
    named = [*((f"argument {place}", one) for place, one in enumerate(arguments, 1)), *keywords.items()]
    for name, one in named:
        try:
            _Packing(Apart()).pickled(one, ())
        except Exception:
            return f"{name} ({type(one).__name__})"
    return None


class _Packing:
    """Collects the large values and files that pickling one call meets."""

    def __init__(self, apart: Apart) -> None:
        self._apart = apart
        self.inputs: list[str] = []
        self.outputs: list[Output] = []
        self.values: list[Value | Reference] = []
        self._places: dict[int | bytes, int] = {}

    def pickled(self, value: Any, large: Sequence[Any]) -> bytes:
        stream = io.BytesIO()
        if not large:
            _Pickler(stream, self).dump(value)
            if not self.outputs:
                return stream.getvalue()
            # It meets an object once, however often it comes; outputs are counted.
            self.inputs, self.outputs, stream = [], [], io.BytesIO()
        _PartingPickler(stream, self, {id(one) for one in large}).dump(value)
        return stream.getvalue()

    def weigh(self, argument: Any, depth: int = 0) -> None:
        """Pickles what is large without a doubt by itself, before it is pickled with all the rest."""
        if type(argument) in _CONTAINERS:
            for element in _elements(argument, depth):
                self.weigh(element, depth + 1)
        elif _is_bulky(argument):
            self.large(argument)

    def large(self, argument: Any, depth: int = 0) -> list[Any]:
        """The parts of an argument that go apart: what is large in it, unless all the rest is large as well."""
        if id(argument) not in self._apart.large:
            inner = [one for element in _elements(argument, depth) for one in self.large(element, depth + 1)]
            is_large = self.is_large(argument)
            of_inner = sum(self._apart.count(one) for one in {id(one): one for one in inner}.values())
            if is_large and self._apart.count(argument) > of_inner + _LARGE_BYTES:
                inner = [argument]
            self._apart.large[id(argument)] = inner
        return self._apart.large[id(argument)]

    def is_large(self, argument: Any) -> bool:
        """Pickles it by itself, if that was not done yet. One that refers to others' values stays in its place."""
        if id(argument) not in self._apart.parts:
            alone = _Packing(Apart())
            pickled = alone.pickled(argument, ())
            is_plain = not isinstance(argument, (File, Output, Reference))
            is_part = is_plain and len(pickled) > _LARGE_BYTES and not alone.values
            part = _Part(Value.of(pickled), tuple(alone.inputs), tuple(alone.outputs)) if is_part else None
            self._apart.parts[id(argument)] = argument, part
        return self._apart.count(argument) > 0

    def separable(self, large: list[Any]) -> list[Any]:
        """Those that contain none of the others: what is one object is to stay one."""
        others = {id(one): one for one in large}
        if len(others) < 2:
            return large
        return [
            one for one in large if not self._contains(one, [other for other in others.values() if other is not one])
        ]

    def _contains(self, argument: Any, others: list[Any]) -> bool:
        name = (id(argument), *(id(other) for other in others))
        if name not in self._apart.contains:
            alone = _Packing(self._apart)
            alone.pickled(argument, others)
            self._apart.contains[name] = bool(alone.values)
        return self._apart.contains[name]

    def place_of_large(self, argument: Any) -> int:
        part = self._apart.parts[id(argument)][1]
        assert part is not None
        place = self._place(part.value.digest, part.value)
        self.inputs += part.inputs
        self.outputs += part.outputs
        return place

    def place(self, reference: Reference) -> int:
        return self._place(id(reference), reference)

    def _place(self, name: int | bytes, value: Value | Reference) -> int:
        place = self._places.setdefault(name, len(self.values))
        if place == len(self.values):
            self.values.append(value)
        return place


def _is_bulky(argument: Any) -> bool:
    if type(argument) in (bytes, bytearray, str):
        return len(argument) > _LARGE_BYTES
    array: Any = getattr(sys.modules.get("numpy"), "ndarray", None)
    return array is not None and type(argument) is array and argument.nbytes > _LARGE_BYTES


class _Pickler(Pickler):
    def __init__(self, stream: io.BytesIO, packing: _Packing) -> None:
        super().__init__(stream)
        self._packing = packing

    def reducer_override(self, value: Any) -> Any:
        if isinstance(value, File):
            key = value.item.key
            self._packing.inputs.append(key)
            return _place, ("file", key, value.url)
        if isinstance(value, Output):
            self._packing.outputs.append(value)
        if isinstance(value, Reference):
            return _place, ("shared" if value.is_shared else "value", self._packing.place(value))
        return super().reducer_override(value)


class _PartingPickler(_Pickler):
    """Without what goes apart, by identity."""

    def __init__(self, stream: io.BytesIO, packing: _Packing, large: set[int]) -> None:
        super().__init__(stream, packing)
        self._large = large

    def persistent_id(self, value: Any) -> Any:
        if id(value) in self._large:
            return "value", self._packing.place_of_large(value)
        if isinstance(value, Output):
            self._packing.outputs.append(value)
            return "output", value.url
        return None


def _place(*_: Any) -> Any:
    """Stands in a payload for what the worker has at that place (`_Unpickler`)."""
    raise pickle.UnpicklingError("a task's arguments are unpickled where its files are")


class Places(NamedTuple):
    """Where a call's files and values are on the worker. `shared` gives the one object that all calls of a slot have of
    a value."""

    inputs: Mapping[str, str]
    outputs: Mapping[str, str]
    values: Sequence[bytes]
    shared: Callable[[int], Any]


def unpacked(payload: bytes, places: Places) -> tuple[Any, dict[str, Any]]:
    """Arguments and keywords."""
    arguments, keywords = _Unpickler(payload, places, {}).load()
    return arguments, keywords


class _Unpickler(pickle.Unpickler):
    def __init__(self, payload: bytes, places: Places, made: dict[Any, Any]) -> None:
        super().__init__(io.BytesIO(payload))
        self._places, self._made = places, made

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) == (_place.__module__, _place.__qualname__):
            return self._placed
        return super().find_class(module, name)

    def _placed(self, *name: Any) -> Any:
        return self.persistent_load(name)

    def persistent_load(self, name: Any) -> Any:
        if name not in self._made:
            self._made[name] = self._make(*name)
        return self._made[name]

    def _make(self, kind: str, which: Any, url: str = "") -> Any:
        if kind == "file":
            return LocalPath(self._places.inputs[which], url, "file" if Item.of_key(which).whole else "range")
        if kind == "output":
            return LocalPath(self._places.outputs[which], which, "output")
        if kind == "shared":
            return self._places.shared(which)
        return _Unpickler(self._places.values[which], self._places, self._made).load()
