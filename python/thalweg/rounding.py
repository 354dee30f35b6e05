"""Floats rounded so that no value changes by more than an error bound, which makes them compress.

A bound is written `absolute:E` (in the values' unit), `relative:E` (a share of each value) or `range:E` (a share of the greatest
value less the least one).

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from thalweg import elements
from thalweg._thalweg import parse_error_bound, round_values
from thalweg.error_code import coded, misuse

if TYPE_CHECKING:
    import numpy
    from numpy.typing import ArrayLike


def rounded(
    array: ArrayLike, error_bound: str, missing_value: float | None = None
) -> tuple[numpy.ndarray[Any, numpy.dtype[Any]], str]:
    """The rounded array, and a note that names the bound and the largest error that was met.

    Parameters
    ----------
    array
        Floats of 32 or 64 bits, or records of one kind of them, each at a multiple of its size; it is not changed.
    missing_value
        A number that stands for missing ones: it stays, and is not in the range.
    """
    import numpy

    given = numpy.asarray(array)
    check_floats(given.dtype, error_bound)
    packed = _without_gaps(given.dtype)
    has_gaps = packed.itemsize != given.dtype.itemsize
    numbers = given.astype(packed) if has_gaps else given
    element, _ = elements.of_dtype(numbers.dtype)
    values, note = round_values(numbers.tobytes(), element, error_bound, missing_number(missing_value))
    found = numpy.frombuffer(values, numbers.dtype).reshape(given.shape)
    if not has_gaps:
        return found, note
    with_gaps = numpy.zeros(given.shape, given.dtype)
    with_gaps[...] = found
    return with_gaps, note


def _without_gaps(dtype: numpy.dtype[Any]) -> numpy.dtype[Any]:
    """The same members, and nothing between them: what lies there is no value, and in no range."""
    import numpy

    if dtype.subdtype:
        return numpy.dtype((_without_gaps(dtype.subdtype[0]), dtype.shape))
    if not dtype.names:
        return dtype
    formats = [_without_gaps(dtype[name]) for name in dtype.names]
    return numpy.dtype({"names": list(dtype.names), "formats": formats})


def missing_number(value: object, name: str = "missing_value") -> float | None:
    """The number that stands for missing ones; None where that is NaN, which stays anyway."""
    import numpy

    if value is None:
        return None
    try:
        # `float` reads text, too, and keeps half of a complex number.
        is_other = isinstance(value, (str, bytes, complex, numpy.complexfloating))
        number = math.inf if is_other else float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        number = math.inf
    if math.isinf(number):
        raise misuse(ValueError, f"{name}={value!r} is no finite number; others stay as they are without it")
    return None if math.isnan(number) else number


def check_floats(dtype: numpy.dtype[Any], error_bound: str) -> None:
    """Raises TypeError where a bound has no meaning for the values."""
    element, _ = elements.of_dtype(dtype)
    round_values(b"", element, error_bound)


def check_chunk_bound(error_bound: str | None) -> tuple[str, float] | None:
    """The kind and number of a bound for codecs, which see one chunk at a time, and see it again when a part of it is written:
    its range is not the array's, and changes.
    """
    if error_bound is None:
        return None
    kind, number = parse_error_bound(error_bound)
    if kind == "range":
        raise coded(
            ValueError(
                f"{error_bound}: chunks have other ranges than their array; give absolute:E with E = {number} * numpy.ptp(array)"
            ),
            "TW-807",
        )
    return kind, number
