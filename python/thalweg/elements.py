"""What an array's bytes are made of, as chunks have it: an element type of docs/format.md, such as f64 or, big-endian, f64be, and
the length of a record.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy

# Numbers of numpy's kinds that are elements; dates are counted in i64.
KINDS = {"u": "u", "i": "i", "f": "f", "c": "f", "M": "i", "m": "i"}
LONGEST_BITS = 64


def of_dtype(dtype: numpy.dtype[Any]) -> tuple[str, int]:
    """The element type, and the bytes of a record; 0 where elements follow each other without records."""
    if dtype.kind == "T":
        # Text of any length; numpy refuses to say in which order its bytes are.
        return "u8", 0
    element = _element(dtype) or "u8"
    return element, 0 if dtype.hasobject or dtype.itemsize == _bytes(element) else dtype.itemsize


def _bytes(element: str) -> int:
    return int(element[1:].removesuffix("be")) // 8


def _element(dtype: numpy.dtype[Any]) -> str | None:
    """None where values are not numbers of one type, or do not lie as an array's items would: what is rounded relies on it."""
    if dtype.names:
        # A member with a title is twice in `fields`.
        members = [dtype.fields[name] for name in dtype.names]  # type: ignore[index]
        kinds = {_element(member[0]) for member in members}
        element = kinds.pop() if len(kinds) == 1 else None
        return element if element and _lie_in_array(members, dtype.itemsize, _bytes(element)) else None
    if dtype.subdtype:
        return _element(dtype.subdtype[0])
    bits = 8 * dtype.itemsize // (2 if dtype.kind == "c" else 1)
    if dtype.kind not in KINDS or bits > LONGEST_BITS:
        return None
    order = "" if dtype.newbyteorder("<") == dtype else "be"
    return "u8" if bits == 8 else f"{KINDS[dtype.kind]}{bits}{order}"


def _lie_in_array(members: list[Any], record: int, item: int) -> bool:
    """Whether the members of records of this length are whole items of an array that begins where the record does."""
    places = sorted((start, start + dtype.itemsize) for dtype, start, *_ in members)
    are_apart = all(one[1] <= next_[0] for one, next_ in zip(places, places[1:]))
    return are_apart and record % item == 0 and all(start % item == 0 for start, _ in places)
