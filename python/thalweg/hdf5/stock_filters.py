"""Datasets whose chunks are stored with the best of the filters that every HDF5 has: readers need no plugin.

The dataset declares shuffle and deflate; each chunk's filter mask says which of them it passed by. HDF5 itself applies all
filters to every chunk, also where that stores more.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import itertools
import zlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from numbers import Integral
from typing import TYPE_CHECKING, Any, Optional

from thalweg.error_code import misuse
from thalweg.hdf5.bounds import NOTE
from thalweg.rounding import missing_number, rounded

if TYPE_CHECKING:
    import h5py
    import numpy
    from numpy.typing import ArrayLike

    Array = numpy.ndarray[Any, numpy.dtype[Any]]

# Bits of a chunk's filter mask, each for a filter that the chunk passed by.
WITHOUT_SHUFFLE = 1
WITHOUT_DEFLATE = 2

# Deflate is kept where it saves at least 1/64: less does not pay for decoding.
MIN_SAVING = 64

# Options of h5py's `create_dataset` that would not be true of the chunks written here, or are said otherwise.
REFUSED = {
    "fletcher32": "chunks are written without its checksums",
    "scaleoffset": "chunks are written without it",
    "shuffle": "it is chosen for each chunk",
    "compression": "it is deflate where that saves something",
    "compression_opts": "give level",
    "shape": "it is the data's",
    "dtype": "it is the data's; convert them with numpy.asarray(data, dtype)",
}

# Chunks that are in memory at once, encoded and not.
CHUNKS_AT_ONCE = 16


def create_dataset(
    group: h5py.Group,
    name: str,
    data: ArrayLike,
    *,
    level: int = 6,
    chunks: tuple[int, ...] | bool = True,
    error_bound: Optional[str] = None,
    **options: Any,
) -> h5py.Dataset:
    """Makes a dataset and writes it, each chunk with the filters that store it shortest.

    Parameters
    ----------
    data
        Numbers, compound values or strings of fixed length, of one dimension at least.
    level
        Of deflate, 1 to 9.
    error_bound
        `absolute:E`, `relative:E` or `range:E` (of the data's range): floats of 32 or 64 bits are rounded, and none
        changes by more, but for the fill value of real numbers, which stays. The dataset's attribute
        `thalweg_error_bound` says so.
    options
        What else h5py's `create_dataset` takes; `fletcher32`, `scaleoffset` and what this one decides are refused.
    """
    import numpy

    _check(name, level, options)
    array: Array = numpy.asarray(data)
    if array.dtype.hasobject:
        raise misuse(TypeError, f"{name}: values of {array.dtype} have no fixed length; use h5py's create_dataset")
    _check_layout(name, array.dtype)
    filters = {"shuffle": True, "compression": "gzip", "compression_opts": level}
    note = None
    if error_bound is not None:
        array, note = rounded(array, error_bound, _missing(array.dtype, options.get("fillvalue")))
    dataset = group.create_dataset(name, array.shape, array.dtype, chunks=chunks, **filters, **options)
    if note is not None:
        dataset.attrs[NOTE] = note
    if array.size > 0:
        for offsets, (mask, stored) in _encoded(array, dataset.chunks, dataset.fillvalue, level):
            dataset.id.write_direct_chunk(offsets, stored, mask)
    # HDF5 2.0 reads a dataset of one chunk without its mask, wrongly, until it is opened again.
    del dataset
    return group[name]


def _check(name: str, level: int, options: dict[str, Any]) -> None:
    if name is None:
        raise misuse(TypeError, "name is None: the dataset is opened by its name once it is written")
    if not isinstance(level, Integral) or level not in range(1, 10):
        raise misuse(ValueError, f"{name}: level is {level!r}, and deflate has the numbers 1 to 9")
    for option in options.keys() & REFUSED.keys():
        if options[option] is not None and options[option] is not False:  # 0 is a value of scaleoffset
            raise misuse(
                TypeError, f"{name}: {option} cannot be given to thalweg.hdf5.create_dataset: {REFUSED[option]}"
            )
        del options[option]


def _check_layout(name: str, dtype: numpy.dtype[Any]) -> None:
    """Chunks are written as numpy has them; HDF5 has nothing of no bytes, and moves members apart that overlap."""
    import h5py

    if dtype.itemsize == 0 or not _is_laid_out(dtype, h5py.h5t.py_create(dtype, logical=True)):
        raise misuse(TypeError, f"{name}: values of {dtype} have other bytes in HDF5; use h5py's create_dataset")


def _is_laid_out(dtype: numpy.dtype[Any], kind: Any) -> bool:
    """Whether HDF5's type has the bytes of each number where numpy has them."""
    if dtype.subdtype:
        return _is_laid_out(dtype.base, kind.get_super())
    for name in dtype.names or ():
        at = kind.get_member_index(name.encode())
        is_there = kind.get_member_offset(at) == dtype.fields[name][1]  # type: ignore[index]
        if not is_there or not _is_laid_out(dtype[name], kind.get_member_type(at)):
            return False
    return bool(kind.get_size() == dtype.itemsize)


def _missing(dtype: numpy.dtype[Any], fill: Any) -> float | None:
    """The fill value of real numbers, where it would not stay anyway; the filter plugin rounds others, too."""
    import numpy

    number = numpy.asarray(fill)
    is_infinite = number.dtype.kind == "f" and bool(numpy.isinf(number).all())
    return None if dtype.kind != "f" or is_infinite else missing_number(fill, "fillvalue")


def _encoded(
    array: Array, chunk: tuple[int, ...], fill: Any, level: int
) -> Iterator[tuple[tuple[int, ...], tuple[int, bytes]]]:
    """Each chunk's offsets, filter mask and stored bytes; on all cores, since zlib leaves the interpreter to others."""

    def encode(offsets: tuple[int, ...]) -> tuple[int, bytes]:
        return _shortest(_chunk(array, offsets, chunk, fill), array.dtype.itemsize, level)

    offsets = _offsets(array.shape, chunk)
    with ThreadPoolExecutor() as pool:
        while some := list(itertools.islice(offsets, CHUNKS_AT_ONCE)):
            yield from zip(some, pool.map(encode, some))


def _offsets(shape: tuple[int, ...], chunk: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    return itertools.product(*(range(0, length, step) for length, step in zip(shape, chunk)))


def _chunk(array: Array, offsets: tuple[int, ...], shape: tuple[int, ...], fill: Any) -> bytes:
    """The bytes of a chunk; beyond the array's edge it has the fill value."""
    import numpy

    piece = array[tuple(slice(at, at + length) for at, length in zip(offsets, shape))]
    if piece.shape != shape:
        # Gaps within values are no field: they would keep what was in memory before.
        whole = numpy.zeros(shape, array.dtype)
        whole[...] = fill
        whole[tuple(slice(length) for length in piece.shape)] = piece
        piece = whole
    return piece.tobytes()


def _shortest(raw: bytes, item_bytes: int, level: int) -> tuple[int, bytes]:
    """The filter mask and the stored bytes."""
    tried = [(WITHOUT_SHUFFLE, zlib.compress(raw, level))]
    if item_bytes > 1:
        tried.append((0, zlib.compress(_shuffled(raw, item_bytes), level)))
    mask, stored = min(tried, key=lambda one: len(one[1]))
    if len(stored) > len(raw) - len(raw) // MIN_SAVING:
        return WITHOUT_SHUFFLE | WITHOUT_DEFLATE, raw
    return mask, stored


def _shuffled(raw: bytes, item_bytes: int) -> bytes:
    """First bytes of all items, then all second bytes, and so on."""
    import numpy

    return numpy.frombuffer(raw, numpy.uint8).reshape(-1, item_bytes).T.tobytes()
