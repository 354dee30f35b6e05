"""The codec of Zarr's format 3. SPDX-License-Identifier: Apache-2.0"""

import json

import numpy
import pytest
import zarr
from arrays import NUMBERS, SHAPES, bits, same, smooth

from thalweg.zarr import RoundingCodec, ThalwegCodec


def stored(path, array, chunks, codec="auto", **options):
    made = zarr.create_array(
        path, shape=array.shape, dtype=array.dtype, chunks=chunks, compressors=ThalwegCodec(codec), **options
    )
    made[...] = array
    return made


@pytest.mark.parametrize("dtype", [*NUMBERS, "<c8", ">c16"])
def test_arrays_of_every_type_come_back_bit_for_bit(dtype, tmp_path):
    for number, (shape, chunks) in enumerate(SHAPES):
        for make in (smooth,) if dtype == "?" else (smooth, bits):
            array = make(shape, dtype)
            path = tmp_path / f"{number}{make.__name__}"
            stored(path, array, chunks)
            # Zarr's data type has no order of bytes: where the codecs say big, little comes back.
            assert same(zarr.open_array(path)[...].astype(array.dtype), array)


def test_metadata_name_the_codec_and_nothing_of_the_dtype(tmp_path):
    stored(tmp_path / "a", smooth((10, 10), "<f8"), (5, 5), "zstd:5")
    codecs = json.loads((tmp_path / "a/zarr.json").read_text())["codecs"]
    assert codecs[-1] == {"name": "thalweg", "configuration": {"codec": "zstd:5"}}
    assert zarr.open_array(tmp_path / "a").compressors == (ThalwegCodec("zstd:5"),)
    assert ThalwegCodec.from_dict({"name": "thalweg"}) == ThalwegCodec("auto")


def test_chunks_know_their_elements(tmp_path):
    array = numpy.random.default_rng(1).normal(size=1000)
    stored(tmp_path / "a", array, (1000,), "none")
    chunk = (tmp_path / "a/c/0").read_bytes()
    assert chunk[:6] == b"TWGCHK" and chunk[8 + 36] == 11
    assert chunk[72:] == array.tobytes()


def test_shards_and_other_codecs_go_together(tmp_path):
    array = smooth((64, 64), "<i4")
    stored(tmp_path / "a", array, (8, 8), shards=(32, 32))
    assert same(zarr.open_array(tmp_path / "a")[...], array)
    compressors = [ThalwegCodec("lz4"), zarr.codecs.Crc32cCodec(), zarr.codecs.ZstdCodec()]
    made = zarr.create_array(tmp_path / "b", data=array, chunks=(8, 8), compressors=compressors)
    assert same(made[...], array)


def test_a_damaged_chunk_is_an_error(tmp_path):
    stored(tmp_path / "a", smooth((100,), "<f8"), (100,))
    path = tmp_path / "a/c/0"
    chunk = path.read_bytes()
    for damaged in (chunk[:-1], chunk[:20], chunk[:50] + b"?" + chunk[51:], b"nothing of ours"):
        path.write_bytes(damaged)
        with pytest.raises(OSError, match="chunk|cut short"):
            zarr.open_array(tmp_path / "a")[...]


def test_a_codec_that_does_not_exist_is_refused():
    with pytest.raises(ValueError, match="is none of"):
        ThalwegCodec("auto:fastest")


def test_big_endian_arrays_are_stored_as_codec_bytes_says_in_as_few_bytes(tmp_path):
    """Which is little-endian, unless somebody asks for something else."""
    walk = numpy.random.default_rng(1).integers(-9, 10, 40_000).cumsum() + 3000
    for order in "<>":
        stored(tmp_path / order, walk.astype(f"{order}f8"), (40_000,))
    assert (tmp_path / "<" / "c/0").read_bytes() == (tmp_path / ">" / "c/0").read_bytes()


def test_text_of_any_length_is_stored_as_bytes(tmp_path):
    array = zarr.create_array(tmp_path / "a", shape=(4,), dtype=str, chunks=(2,), compressors=ThalwegCodec())
    array[:] = numpy.array(["a", "", "bb", "α" * 100], dtype=object)
    assert list(zarr.open_array(tmp_path / "a")[:]) == ["a", "", "bb", "α" * 100]


@pytest.mark.parametrize(
    ("fill", "bound"), [(1e20, "relative:0.01"), (-999.9, "absolute:0.5"), (numpy.nan, "relative:1e-3")]
)
def test_what_was_never_written_equals_what_was_written_as_missing(fill, bound, tmp_path):
    array = zarr.create_array(
        tmp_path / "a", shape=(100,), dtype="f4", chunks=(50,), fill_value=fill, filters=RoundingCodec(bound)
    )
    array[:3] = [1.2345, 2.3456, 3.4567]
    found = zarr.open_array(tmp_path / "a")[:]
    assert found[3:].tobytes() == numpy.full(97, fill, "f4").tobytes()
    assert (found[:3] != numpy.array([1.2345, 2.3456, 3.4567], "f4")).any()


@pytest.mark.parametrize("missing", ["x", numpy.nan, numpy.inf])
def test_a_missing_value_is_a_finite_number(missing):
    with pytest.raises(ValueError, match="no finite number"):
        RoundingCodec("absolute:1", missing_value=missing)
    assert RoundingCodec("absolute:1", numpy.float32(-9999)).to_dict()["configuration"]["missing_value"] == -9999.0
    with pytest.raises(ValueError, match="rounds nothing"):
        ThalwegCodec(missing_value=-9999.0)
