"""Datasets that need no plugin: each chunk with the best of HDF5's own filters. SPDX-License-Identifier: Apache-2.0"""

import os
import subprocess
import zlib

import h5py
import numpy
import pytest
from arrays import DTYPES, SHAPES, bits, same, smooth

from thalweg.hdf5 import create_dataset


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_every_reader_finds_the_same_bits(dtype, tmp_path):
    with h5py.File(tmp_path / "stock.h5", "w") as stock, h5py.File(tmp_path / "plain.h5", "w") as plain:
        for number, (shape, chunks) in enumerate(SHAPES):
            chunks = tuple(map(min, chunks, shape))
            for make in (smooth,) if dtype == "?" else (smooth, bits):
                array, name = make(shape, dtype), f"{number}{make.__name__}"
                plain[name] = array
                create_dataset(stock, name, array, chunks=chunks)
    with h5py.File(tmp_path / "stock.h5") as stock, h5py.File(tmp_path / "plain.h5") as plain:
        assert all(same(stock[name][...], plain[name][...]) for name in plain)
    without_plugins = {key: value for key, value in os.environ.items() if key != "HDF5_PLUGIN_PATH"}
    assert subprocess.run(["h5dump", tmp_path / "stock.h5"], env=without_plugins, capture_output=True).returncode == 0


def masks(dataset):
    return [dataset.id.get_chunk_info(number).filter_mask for number in range(dataset.id.get_num_chunks())]


def test_each_chunk_has_the_filters_that_pay(tmp_path):
    random = numpy.random.default_rng(1)
    noise = numpy.frombuffer(random.bytes(80_000), "<f8")
    # Whole values come again, and their planes are noise.
    repeated = random.choice(noise[:200], 10_000)
    even = numpy.arange(10_000.0)
    with h5py.File(tmp_path / "a.h5", "w") as file:
        dataset = create_dataset(file, "a", numpy.concatenate([noise, repeated, even]), chunks=(10_000,))
        assert masks(dataset) == [0b11, 0b01, 0b00]
        assert dataset.id.get_chunk_info(0).size == 80_000
        usual = file.create_dataset(
            "b", data=dataset[...], chunks=(10_000,), shuffle=True, compression="gzip", compression_opts=6
        )
        file.flush()
        assert dataset.id.get_storage_size() < usual.id.get_storage_size()


@pytest.mark.parametrize("bound", [None, "relative:1e-9"])
def test_a_dataset_of_one_chunk_is_read_at_once_as_it_was_written(bound, tmp_path):
    random = numpy.random.default_rng(1)
    arrays = {"without shuffle": random.choice(random.random(20), 1000), "as it is": random.random(4)}
    with h5py.File(tmp_path / "a.h5", "w") as file:
        for name, array in arrays.items():
            dataset = create_dataset(file, name, array, chunks=array.shape, error_bound=bound)
            assert masks(dataset)[0] in (0b01, 0b11) and abs(dataset[...] - array).max() <= 1e-9
        with pytest.raises(TypeError, match="name is None"):
            create_dataset(file, None, array)


def test_what_lies_beyond_the_edge_is_the_fill_value(tmp_path):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        dataset = create_dataset(file, "a", numpy.ones(7), chunks=(5,), maxshape=(None,), fillvalue=-3.0)
        dataset.resize((10,))
        file.flush()
    with h5py.File(tmp_path / "a.h5", "a") as file:
        assert file["a"][...].tolist() == [1] * 7 + [-3] * 3
        # Written by whoever does not know how the chunks came here.
        file["a"][0:2] = 9
    with h5py.File(tmp_path / "a.h5") as file:
        assert file["a"][...].tolist() == [9, 9] + [1] * 5 + [-3] * 3


def test_what_has_no_fixed_length_is_refused(tmp_path):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        with pytest.raises(TypeError, match="no fixed length"):
            create_dataset(file, "a", numpy.array(["a", "bc"], object))
        assert create_dataset(file, "empty", numpy.zeros((0, 3))).shape == (0, 3)


@pytest.mark.parametrize("options", [{"fletcher32": True}, {"scaleoffset": 0}, {"shuffle": True}, {"dtype": "<f4"}])
def test_what_would_not_be_true_of_the_chunks_is_refused(options, tmp_path):
    """HDF5 would take a checksum or an offset that is declared and not there for damage, or read zeros."""
    with h5py.File(tmp_path / "a.h5", "w") as file:
        with pytest.raises(TypeError, match=next(iter(options))):
            create_dataset(file, "a", numpy.arange(100.0), **options)
        with pytest.raises(ValueError, match="level is 0"):
            create_dataset(file, "a", numpy.arange(100.0), level=0)
        assert "a" not in file
        dataset = create_dataset(file, "a", numpy.arange(100.0), fletcher32=False, fillvalue=3.0)
        assert (dataset[...] == numpy.arange(100.0)).all()


def overlapping(length):
    return numpy.dtype({"names": ["a", "b"], "formats": ["<f8", "<f8"], "offsets": [0, 4], "itemsize": length})


# HDF5 has 16 bytes of those that overlap.
OTHERS = {
    "shorter": overlapping(12),
    "as long": overlapping(16),
    "within": numpy.dtype([("c", [("d", overlapping(16), (2,))])]),
    "none": numpy.dtype("S0"),
}


@pytest.mark.parametrize("dtype", OTHERS.values(), ids=OTHERS)
def test_values_that_hdf5_has_otherwise_are_refused_before_anything_is_made(dtype, tmp_path):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        with pytest.raises(TypeError, match="have other bytes in HDF5") as caught:
            create_dataset(file, "a", numpy.ndarray(10, dtype, bytes(320)))
        assert caught.value.code == "TW-112" and len(file) == 0


def test_members_in_another_order_and_with_gaps_are_written_where_they_lie(tmp_path):
    inner = numpy.dtype({"names": ["é", "z"], "formats": ["<f4", "<c8"], "offsets": [12, 0], "itemsize": 20})
    array = bits((50,), numpy.dtype([("x", "?"), ("inner", inner, (2, 3))]))
    array["x"] = True
    with h5py.File(tmp_path / "a.h5", "w") as file:
        found = create_dataset(file, "a", array)[...]
        for name in inner.names:
            assert found["inner"][name].tobytes() == array["inner"][name].tobytes()


@pytest.mark.parametrize("level", ["6", 6.0, None, 10])
def test_a_level_is_a_number_from_1_to_9(level, tmp_path):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        with pytest.raises(ValueError, match=f"level is {level!r}, and deflate has the numbers 1 to 9"):
            create_dataset(file, "a", numpy.arange(100.0), level=level)
        create_dataset(file, "a", numpy.arange(100.0), level=numpy.int64(9))


def test_gaps_within_values_beyond_the_edge_are_zero(tmp_path):
    gapped = numpy.dtype({"names": ["a", "b"], "formats": ["u1", "<u4"]}, align=True)
    with h5py.File(tmp_path / "a.h5", "w") as file:
        dataset = create_dataset(file, "a", numpy.zeros(301, gapped), chunks=(300,))
        _, chunk = dataset.id.read_direct_chunk((300,))
        assert not any(zlib.decompress(chunk))
