"""The filter plugin, in h5py, netCDF4 and HDF5's own tools. SPDX-License-Identifier: Apache-2.0"""

import shutil
import subprocess
import sys
from pathlib import Path

import h5py
import numpy
import pytest
from arrays import DTYPES, SHAPES, bits, same, smooth

from thalweg.hdf5 import FILTER, filter_options

pytestmark = pytest.mark.usefixtures("built_plugin")


def tool(*command):
    """Runs a tool of HDF5's."""
    assert shutil.which(command[0]), f"{command[0]} is needed: ./install test"
    return subprocess.run([*map(str, command)], capture_output=True, text=True)


def client_data(dataset):
    return dataset._filters[str(FILTER)]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_h5py_reads_what_it_wrote_bit_for_bit(dtype, tmp_path):
    arrays = {}
    with h5py.File(tmp_path / "a.h5", "w") as file:
        for number, (shape, chunks) in enumerate(SHAPES):
            for make in (smooth,) if dtype == "?" else (smooth, bits):
                name = f"{number}{make.__name__}"
                arrays[name] = make(shape, dtype)
                chunks = tuple(map(min, chunks, shape))
                file.create_dataset(name, data=arrays[name], chunks=chunks, **filter_options())
    with h5py.File(tmp_path / "a.h5") as file:
        for name, array in arrays.items():
            assert same(file[name][...], array), name


def test_the_filter_knows_what_the_data_are(tmp_path):
    pair = numpy.dtype([("x", "<f4"), ("y", "<f4")])
    big_pair = numpy.dtype([("x", ">f4"), ("y", ">f4")])
    mixed_pair = numpy.dtype([("x", ">f4"), ("y", "<f4")])
    known = {"<f8": (11, 0), "<i2": (5, 0), "u1": (0, 0), "<c16": (11, 16), "S5": (0, 5), pair: (10, 8)}
    known |= {
        ">f8": (16 + 11, 0),
        ">i2": (16 + 5, 0),
        ">c16": (16 + 11, 16),
        big_pair: (16 + 10, 8),
        mixed_pair: (0, 8),
    }
    with h5py.File(tmp_path / "a.h5", "w") as file:
        for number, (dtype, expected) in enumerate(known.items()):
            dataset = file.create_dataset(str(number), (100, 10), dtype, chunks=(50, 10), **filter_options("zstd:7"))
            *choice, element, record, bytes_ = client_data(dataset)
            assert choice == [20, 7] and (element, record) == expected
            assert bytes_ == 500 * numpy.dtype(dtype).itemsize
        behind = file.create_dataset("behind", (100,), "<f8", shuffle=True, **filter_options())
        assert client_data(behind)[2:] == (0, 0, 0)
        behind[...] = numpy.arange(100)
        file.flush()
        assert same(behind[...], numpy.arange(100.0))


def test_arrays_within_values_and_strings_of_any_length(tmp_path):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        vectors = file.create_dataset("vectors", (50,), "(3,)<f4", chunks=(10,), **filter_options())
        vectors[...] = numpy.ones((50, 3))
        assert client_data(vectors)[2:] == (10, 12, 120)
        words = file.create_dataset("words", (50,), h5py.string_dtype(), chunks=(10,), **filter_options())
        words[...] = [f"word {number}" for number in range(50)]
    with h5py.File(tmp_path / "a.h5") as file:
        assert (file["vectors"][...] == 1).all()
        assert file["words"][49] == b"word 49"


@pytest.mark.parametrize("values", [(4,), (15,), (23,), (20, 99), (16, 1)])
def test_a_choice_that_does_not_exist_is_refused_when_the_dataset_is_made(values, tmp_path):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        with pytest.raises(ValueError, match="client data"):
            file.create_dataset("a", (100,), "<f8", compression=FILTER, compression_opts=values)


def test_modes_have_names(tmp_path):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        for number, mode in enumerate(["balanced", "performance", "archival", "energy"]):
            dataset = file.create_dataset(mode, (100,), "<f8", chunks=(10,), **filter_options(f"auto:{mode}"))
            assert client_data(dataset)[0] == number


def test_values_that_are_not_completed_make_nothing_unreadable(tmp_path):
    """Of strings of any length HDF5 does not ask the filter when the dataset is made; such chunks are stored as they are."""
    with h5py.File(tmp_path / "a.h5", "w") as file:
        words = file.create_dataset(
            "words", (50,), h5py.string_dtype(), chunks=(10,), compression=FILTER, compression_opts=(20, 3, 0, 0, 99)
        )
        words[...] = ["word"] * 50
    with h5py.File(tmp_path / "a.h5") as file:
        assert set(file["words"][...]) == {b"word"}


@pytest.mark.parametrize("mode", [1, 2, 3])
def test_modes_have_numbers(mode, tmp_path):
    field = numpy.sin(numpy.arange(50_000) / 1000)
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("a", data=field, chunks=(10_000,), compression=FILTER, compression_opts=(mode,))
    with h5py.File(tmp_path / "a.h5") as file:
        assert (file["a"][...] == field).all()


def test_chunks_beyond_64_mib_are_refused_when_the_dataset_is_made(tmp_path):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        with pytest.raises(ValueError, match="make the dataset's chunks smaller"):
            file.create_dataset("a", (1 << 26,), "<f8", chunks=((8 << 20) + 1,), **filter_options())


def test_damaged_chunks_are_errors_and_the_process_lives_on(tmp_path):
    array = smooth((1000,), "<f8")
    random = numpy.random.default_rng(5)
    with h5py.File(tmp_path / "a.h5", "w") as file:
        dataset = file.create_dataset("a", data=array, chunks=(1000,), **filter_options("zlib"))
        file.flush()
        _, chunk = dataset.id.read_direct_chunk((0,))
        shorter = file.create_dataset("b", data=array[:999], chunks=(999,), **filter_options("zlib"))
        file.flush()
        foreign = shorter.id.read_direct_chunk((0,))[1]
        for number in range(200):
            at = int(random.integers(len(chunk)))
            flipped = bytes([chunk[at] ^ 1 << int(random.integers(8))])
            damaged = chunk[: at + 1] if number % 2 else chunk[:at] + flipped + chunk[at + 1 :]
            if number == 0:
                damaged = foreign
            if damaged == chunk:
                continue
            dataset.id.write_direct_chunk((0,), damaged)
            with pytest.raises(OSError):
                dataset[...]
        dataset.id.write_direct_chunk((0,), chunk)
        assert same(dataset[...], array)


def test_hdf5_tools_read_and_write_with_the_filter(tmp_path):
    arrays = {
        "little": smooth((100, 30), "<f8"),
        "big": smooth((100, 30), ">i4"),
        "compound": smooth((50, 9), DTYPES[-2]),
    }
    with h5py.File(tmp_path / "plain.h5", "w") as file:
        for name, array in arrays.items():
            file.create_dataset(name, data=array, chunks=tuple(length // 3 for length in array.shape))
    steps = [
        ("plain.h5", "auto.h5", f"UD={FILTER},0,0"),
        ("auto.h5", "zstd.h5", f"UD={FILTER},0,2,20,9"),
        ("zstd.h5", "back.h5", "NONE"),
    ]
    for source, target, filters in steps:
        ran = tool("h5repack", "-f", filters, tmp_path / source, tmp_path / target)
        assert ran.returncode == 0, ran.stdout + ran.stderr
        assert tool("h5diff", tmp_path / "plain.h5", tmp_path / target).returncode == 0
        with h5py.File(tmp_path / target) as file:
            assert all(same(file[name][...], array) for name, array in arrays.items())
    with h5py.File(tmp_path / "zstd.h5") as file:
        assert client_data(file["little"])[:2] == (20, 9)
    shown = tool("h5dump", "-p", "-d", "/big", "-c", "1,1", tmp_path / "zstd.h5")
    assert shown.returncode == 0 and f"FILTER_ID {FILTER}" in shown.stdout and ": 2" in shown.stdout


def test_h5repack_is_told_what_it_cannot_do(tmp_path):
    with h5py.File(tmp_path / "plain.h5", "w") as file:
        file.create_dataset("a", data=numpy.arange(100.0), chunks=(10,))
    ran = tool(
        "h5repack", "--enable-error-stack", "-f", f"UD={FILTER},0,1,4", tmp_path / "plain.h5", tmp_path / "to.h5"
    )
    # It returns 0 with that option.
    assert "thalweg: client data [4" in ran.stderr


def test_a_file_that_needs_the_filter_cannot_be_read_without(tmp_path, monkeypatch):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("a", data=numpy.arange(100.0), chunks=(10,), **filter_options())
    monkeypatch.delenv("HDF5_PLUGIN_PATH")
    assert tool("h5dump", tmp_path / "a.h5").returncode != 0


def test_netcdf_reads_and_writes_with_the_filter(tmp_path):
    """In a process of its own: netCDF looks for plugins where they were when it was loaded."""
    script = Path(__file__).parent / "netcdf_filter.py"
    ran = tool(sys.executable, script, tmp_path)
    assert ran.returncode == 0, ran.stderr
    shown = tool("h5dump", "-d", "/b", "-s", "99,32", "-c", "1,1", tmp_path / "2.nc")
    assert shown.returncode == 0, shown.stderr


def test_options_are_numbers_of_the_format():
    assert filter_options()["compression_opts"] == (0,)
    assert filter_options("zstd:-7")["compression_opts"] == (20, (1 << 32) - 7)
    assert filter_options("lz4:fast")["compression_opts"] == (18,)
    assert filter_options("gzip:9")["compression_opts"] == (21, 9)
    with pytest.raises(ValueError, match="is none of"):
        filter_options("brotli")
