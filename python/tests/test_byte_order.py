"""Both orders of bytes, with and without an error bound, wherever chunks are stored. SPDX-License-Identifier: Apache-2.0"""

import json
import pickle

import h5py
import numpy
import pytest
import zarr
from arrays import bits, same, smooth
from zarr.codecs import BytesCodec, TransposeCodec, ZstdCodec

import thalweg.zarr
from thalweg._thalweg import encode_chunk
from thalweg.hdf5 import create_dataset, filter_options
from thalweg.numcodecs import Thalweg
from thalweg.zarr import RoundingCodec, ThalwegCodec

FLOATS = ["<f4", ">f4", "<f8", ">f8"]
OTHERS = [">i4", "<i4", ">u2", "<u2"]
BOUNDS = ["absolute:0.05", "relative:1e-3"]
ORDERS = ["little", "big"]
SHAPE, CHUNKS = (41, 30), (16, 16)


pytestmark = pytest.mark.usefixtures("built_plugin")


def arrays(dtype):
    """Values that compress, and whatever bits."""
    return [smooth(SHAPE, dtype), *(bits(SHAPE, dtype, seed) for seed in range(3))]


def native(array):
    return array.astype(array.dtype.newbyteorder("="))


def assert_within(bound, before, after):
    """What changed was finite, and has changed by no more than the bound."""
    before, after = native(before), native(numpy.asarray(after))
    changed = before.view(f"u{before.itemsize}") != after.view(f"u{before.itemsize}")
    assert numpy.isfinite(before[changed]).all()
    with numpy.errstate(over="ignore"):
        error = numpy.abs(after[changed].astype("f8") - before[changed])
    kind, number = bound.split(":")
    assert (error <= float(number) * (numpy.abs(before[changed].astype("f8")) if kind == "relative" else 1)).all()


def stored(path, array, order, **options):
    """The array as a program finds it that opens it by its metadata, after parts were written twice."""
    options = {"chunks": CHUNKS, "serializer": BytesCodec(endian=order), **options}
    zarr.create_array(path, data=array, **options)
    again = zarr.open_array(path, mode="r+")
    again[3:20, 5:9] = array[3:20, 5:9]
    return zarr.open_array(path)[...]


@pytest.mark.parametrize("dtype", FLOATS + OTHERS)
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("claimed", ORDERS)
def test_zarr_format_3_keeps_every_bit_without_a_bound(dtype, order, claimed, tmp_path):
    for number, array in enumerate(arrays(dtype)):
        found = stored(tmp_path / str(number), array, order, compressors=ThalwegCodec(endian=claimed))
        assert same(native(found), native(array))


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("bound", BOUNDS)
@pytest.mark.parametrize(
    "options",
    [
        {"compressors": ThalwegCodec()},
        {"compressors": ThalwegCodec(endian="big")},
        {"compressors": [ZstdCodec(), ThalwegCodec()], "shards": (32, 32)},
        {"compressors": None},
    ],
    ids=["thalweg", "big", "shards", "alone"],
)
def test_zarr_format_3_keeps_every_value_within_its_bound(dtype, order, bound, options, tmp_path):
    for number, array in enumerate(arrays(dtype)):
        for filters in ([RoundingCodec(bound)], [RoundingCodec(bound), TransposeCodec(order=(1, 0))]):
            path = tmp_path / f"{number}-{len(filters)}"
            found = stored(path, array, order, filters=filters, **options)
            assert_within(bound, array, found)
            assert same(native(found), native(stored(f"{path}-again", found, order, filters=filters, **options)))
    assert not same(native(found), native(array))


@pytest.mark.parametrize("dtype", FLOATS + OTHERS)
@pytest.mark.parametrize("order", ORDERS)
def test_chunks_are_encoded_as_numbers_of_the_order_that_the_codec_was_given(dtype, order, tmp_path, monkeypatch):
    """By the arguments: sizes depend on what a thread has learned before."""
    calls = []

    def recorded(raw, element, record_length, codec, **options):
        calls.append((element, record_length, codec, options))
        return encode_chunk(raw, element, record_length, codec, **options)

    monkeypatch.setattr(thalweg.zarr, "encode_chunk", recorded)
    filters = [RoundingCodec("relative:1e-3"), TransposeCodec(order=(1, 0))] if dtype in FLOATS else []
    element = ("i32" if "i4" in dtype else f"{dtype[1]}{8 * int(dtype[2])}") + ("be" if order == "big" else "")
    for number in range(len(filters) + 1):
        codecs = {"filters": filters[:number], "compressors": ThalwegCodec("zstd:3", endian=order)}
        serializer = BytesCodec(endian=order)
        path = tmp_path / str(number)
        zarr.create_array(path, data=smooth(SHAPE, dtype), chunks=SHAPE, serializer=serializer, **codecs)
        # Codec `transpose` makes a plain description of chunks.
        assert calls == [(element, 0, "zstd:3", {"is_rounded": number == 1})]
        calls.clear()
        last = json.loads((path / "zarr.json").read_text())["codecs"][-1]
        expected = {"codec": "zstd:3"} if order == "little" else {"codec": "zstd:3", "endian": "big"}
        assert last == {"name": "thalweg", "configuration": expected}


@pytest.mark.parametrize("kind", ["f4", "f8"])
@pytest.mark.parametrize("order", ORDERS)
def test_rounded_arrays_shrink_in_both_orders(kind, order, tmp_path):
    array = numpy.linspace(3, 9, 40_000).astype(kind) ** 2
    codecs = {"filters": RoundingCodec("relative:1e-3"), "compressors": ThalwegCodec(endian=order)}
    zarr.create_array(tmp_path / "a", data=array, chunks=(40_000,), serializer=BytesCodec(endian=order), **codecs)
    assert (tmp_path / "a/c/0").stat().st_size < array.nbytes / 10


def test_a_compressor_with_a_bound_is_refused_before_there_is_an_array():
    with pytest.raises(ValueError, match=r"filters=thalweg.zarr.RoundingCodec\('absolute:0.1'\)"):
        ThalwegCodec("auto", error_bound="absolute:0.1")
    with pytest.raises(ValueError, match="none of little, big"):
        ThalwegCodec(endian="native")


def metadata_of_earlier_builds(order, dtype="float64"):
    """What `ThalwegCodec("auto", error_bound=...)` made while it rounded bytes."""
    configuration = {"codec": "auto", "error_bound": "absolute:0.05", "missing_value": -1.0}
    return {
        "shape": [1000],
        "data_type": dtype,
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [500]}},
        "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
        "fill_value": 0.0,
        "codecs": [
            {"name": "bytes", "configuration": {"endian": order}},
            {"name": "thalweg", "configuration": configuration},
        ],
        "attributes": {},
        "zarr_format": 3,
        "node_type": "array",
        "storage_transformers": [],
    }


@pytest.mark.parametrize("order", ORDERS)
def test_arrays_of_earlier_builds_are_read_and_written_without_damage(order, tmp_path):
    (tmp_path / "c").mkdir()
    (tmp_path / "zarr.json").write_text(json.dumps(metadata_of_earlier_builds(order)))
    values = numpy.linspace(1, 2, 1000)
    rounds = Thalweg("auto", "absolute:0.05", -1.0)
    for number, chunk in enumerate(numpy.split(values.astype("<f8" if order == "little" else ">f8"), 2)):
        (tmp_path / "c" / str(number)).write_bytes(rounds.encode(chunk))
    array = zarr.open_array(tmp_path, mode="r+")
    rounded = array[...]
    assert_within("absolute:0.05", values, rounded)
    assert not same(rounded, values)
    with pytest.warns(UserWarning, match="without rounding"):
        array[250:750] = values[250:750]
    copy = pickle.loads(pickle.dumps(array))
    for found in (zarr.open_array(tmp_path)[...], copy[...]):
        assert same(found, numpy.concatenate([rounded[:250], values[250:750], rounded[750:]]))
    # What is written with the metadata has them as they were.
    array.attrs["name"] = "temperature"
    expected = {**metadata_of_earlier_builds(order), "attributes": {"name": "temperature"}}
    assert json.loads((tmp_path / "zarr.json").read_text()) == expected


@pytest.mark.parametrize("dtype", ["<i4", ">u2", "<f2", "bool"])
def test_arrays_of_other_values_have_no_bound(dtype, tmp_path):
    for shards in (None, (20,)):
        with pytest.raises(TypeError, match="is for floats"):
            options = {"chunks": (10,), "shards": shards, "filters": RoundingCodec("absolute:0.1")}
            zarr.create_array(tmp_path / "a", shape=(20,), dtype=dtype, **options)


@pytest.mark.parametrize("dtype", FLOATS + OTHERS)
@pytest.mark.parametrize("bound", [None, *BOUNDS])
def test_numcodecs_and_hdf5_know_the_order_by_the_dtype(dtype, bound, tmp_path):
    if bound is not None and dtype in OTHERS:
        return
    for number, array in enumerate(arrays(dtype)):
        compressor = Thalweg("auto", bound)
        made = zarr.create_array(
            tmp_path / str(number), data=array, chunks=CHUNKS, zarr_format=2, compressors=compressor
        )
        assert made.dtype == array.dtype
        found = [zarr.open_array(tmp_path / str(number))[...]]
        with h5py.File(tmp_path / f"{number}.h5", "w") as file:
            file.create_dataset("filter", data=array, chunks=CHUNKS, **filter_options("auto", bound))
            create_dataset(file, "stock", array, chunks=CHUNKS, error_bound=bound)
        with h5py.File(tmp_path / f"{number}.h5") as file:
            found += [file[name][...] for name in ("filter", "stock")]
        for one in found:
            assert one.dtype == array.dtype
            if bound is None:
                assert same(one, array)
            else:
                assert_within(bound, array, one)
