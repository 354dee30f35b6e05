"""The codec of numcodecs, alone and in Zarr's format 2. SPDX-License-Identifier: Apache-2.0"""

from pathlib import Path

import numcodecs
import numpy
import pytest
import zarr
from arrays import BIG_COMPOUND, COMPOUND, DTYPES, SHAPES, bits, same, smooth

from thalweg import elements
from thalweg._thalweg import MAX_CHUNK_BYTES
from thalweg.numcodecs import Thalweg


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("codec", ["auto", "none", "lz4:fast", "zstd:9", "gzip", "xz:1"])
def test_an_array_comes_back_bit_for_bit(dtype, codec):
    for make in (smooth, bits):
        for shape in [(1,), (7, 13), (0,), (64, 65)]:
            array = make(shape, dtype) if dtype != "?" or make is smooth else smooth(shape, dtype, 2)
            chunk = Thalweg(codec).encode(array)
            raw = Thalweg().decode(chunk)
            assert same(numpy.frombuffer(raw, array.dtype).reshape(shape), array)
            out = numpy.empty(shape, array.dtype)
            Thalweg().decode(chunk, out)
            assert same(out, array)


def test_golden_chunks_decode_to_the_golden_records():
    golden = Path(__file__).parent.parent.parent / "testdata" / "v0"
    records = (golden / "records.bin").read_bytes()[40:5001]
    chunks = sorted((golden / "chunks").iterdir())
    assert chunks and all(bytes(Thalweg().decode(chunk.read_bytes())) == records for chunk in chunks)


def test_elements_are_what_the_dtype_says():
    known = {
        "<f8": ("f64", 0),
        ">f8": ("f64be", 0),
        "<f2": ("f16", 0),
        "i1": ("u8", 0),
        "?": ("u8", 0),
        "<c16": ("f64", 16),
        "<M8[s]": ("i64", 0),
        "S5": ("u8", 5),
        "O": ("u8", 0),
        "<f16": ("u8", 16),
    }
    assert {dtype: elements.of_dtype(numpy.dtype(dtype)) for dtype in known} == known
    assert elements.of_dtype(COMPOUND) == ("u8", 31)
    assert elements.of_dtype(BIG_COMPOUND) == ("f32be", 8)
    assert elements.of_dtype(numpy.dtype([("x", "<f4"), ("y", "<f4")])) == ("f32", 8)
    assert elements.of_dtype(numpy.dtype([(("title", "x"), "<f4"), ("y", "<f4")])) == ("f32", 8)
    assert elements.of_dtype(numpy.dtype([])) == ("u8", 0)
    assert elements.of_dtype(numpy.dtype([("x", "<f4", (2,)), ("y", [("z", "<f4")])])) == ("f32", 12)


@pytest.mark.parametrize("kind", ["f8", "f4", "i4", "u2"])
def test_big_endian_numbers_take_as_many_bytes_as_little_endian_ones(kind):
    walk = numpy.random.default_rng(1).integers(-9, 10, 40_000).cumsum() + 3000
    little, big = (len(Thalweg("auto:archival").encode(walk.astype(order + kind))) for order in "<>")
    assert big < 1.01 * little


def test_the_registry_finds_the_codec_by_its_name():
    codec = numcodecs.get_codec({"id": "thalweg", "codec": "zstd:5"})
    assert codec == Thalweg("zstd:5")
    assert codec.get_config() == {"id": "thalweg", "codec": "zstd:5"}
    assert codec.decode(codec.encode(b"abc" * 100)) == b"abc" * 100


def test_a_codec_that_does_not_exist_is_refused():
    for codec in ("zstd:99", "auto:fastest", ""):
        with pytest.raises(ValueError, match="is none of"):
            Thalweg(codec)


def test_damaged_chunks_are_errors_and_nothing_else():
    array = smooth((100, 100), "<f8")
    chunk = Thalweg("zlib").encode(array)
    random = numpy.random.default_rng(3)
    for _ in range(500):
        damaged = bytearray(chunk)
        at = int(random.integers(len(chunk)))
        if random.integers(2):
            damaged[at] ^= 1 << int(random.integers(8))
        else:
            del damaged[at:]
        with pytest.raises(OSError, match="chunk|damaged|cut short"):
            Thalweg().decode(bytes(damaged))


def test_a_chunk_of_another_length_than_expected_is_refused():
    chunk = Thalweg().encode(smooth((100,), "<f8"))
    with pytest.raises(OSError, match="at most 792"):
        Thalweg().decode(chunk, numpy.empty(99))
    with pytest.raises(ValueError, match="808 are expected"):
        Thalweg().decode(chunk, numpy.empty(101))


def test_chunks_beyond_64_mib_are_refused():
    with pytest.raises(ValueError):
        Thalweg("none").encode(numpy.zeros(MAX_CHUNK_BYTES + 1, "u1"))


# Zarr has no compound types with arrays in them.
@pytest.mark.parametrize("dtype", [dtype for dtype in DTYPES if dtype is not COMPOUND], ids=str)
def test_zarr_stores_arrays_of_format_2(dtype, tmp_path):
    for number, (shape, chunks) in enumerate(SHAPES):
        array = smooth(shape, dtype)
        path = tmp_path / str(number)
        made = zarr.create_array(
            path, zarr_format=2, shape=shape, dtype=array.dtype, chunks=chunks, compressors=Thalweg()
        )
        made[...] = array
        assert same(zarr.open_array(path)[...], array)
        assert '"id": "thalweg"' in (path / ".zarray").read_text()
