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
    element = _element(dtype)
    size = 1 if element is None else int(element[1:].removesuffix("be")) // 8
    if dtype.hasobject or dtype.itemsize == size:
        return element or "u8", 0
    return (element if element and dtype.itemsize % size == 0 else "u8"), dtype.itemsize


def _element(dtype: numpy.dtype[Any]) -> str | None:
    """None where values are not numbers of one type."""
    if dtype.fields:
        members = {_element(member[0]) for member in dtype.fields.values()}
        return members.pop() if len(members) == 1 else None
    if dtype.subdtype:
        return _element(dtype.subdtype[0])
    bits = 8 * dtype.itemsize // (2 if dtype.kind == "c" else 1)
    if dtype.kind not in KINDS or bits > LONGEST_BITS:
        return None
    order = "" if dtype.newbyteorder("<") == dtype else "be"
    return "u8" if bits == 8 else f"{KINDS[dtype.kind]}{bits}{order}"
