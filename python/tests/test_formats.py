"""The libraries people come with, writing and reading through the file system. SPDX-License-Identifier: Apache-2.0"""

import dask
import dask.bag
import dask.dataframe
import distributed
import h5py
import numpy as np
import pandas as pd
import pyarrow.dataset
import pyarrow.parquet
import pytest
import xarray as xr
import zarr


@pytest.fixture
def frame():
    random = np.random.default_rng(4)
    return pd.DataFrame({"day": np.arange(20_000), "value": random.normal(size=20_000), "name": ["a", "b"] * 10_000})


def test_xarray_and_zarr(place):
    random = np.random.default_rng(3)
    temperature = xr.DataArray(random.normal(size=(30, 60, 90)), dims=("time", "y", "x"), name="temperature")
    written = xr.Dataset({"temperature": temperature, "time": np.arange(30)})
    chunks = {"temperature": {"chunks": (10, 30, 45)}}
    written.to_zarr(f"{place}/set.zarr", mode="w", encoding=chunks, consolidated=False)
    written.isel(time=slice(0, 5)).to_zarr(f"{place}/set.zarr", append_dim="time", consolidated=False)
    read = xr.open_zarr(f"{place}/set.zarr", consolidated=False)
    assert read.sizes["time"] == 35
    xr.testing.assert_identical(read.isel(time=slice(0, 30)).compute().drop_encoding(), written)
    assert np.array_equal(read["temperature"][3, 10:20, 50], temperature[3, 10:20, 50])


def test_zarr_alone(place):
    array = zarr.create_array(f"{place}/array.zarr", shape=(1000, 100), chunks=(100, 100), dtype="i8")
    array[:] = np.arange(100_000).reshape(1000, 100)
    again = zarr.open_array(f"{place}/array.zarr", mode="r+")
    again[500] = -1
    read = zarr.open_array(f"{place}/array.zarr", mode="r")
    assert read[499, 99] == 49_999 and (read[500] == -1).all()


def test_pandas_and_parquet(fs, folder, place, frame):
    frame.to_parquet(f"{place}/frame.parquet")
    pd.testing.assert_frame_equal(pd.read_parquet(f"{place}/frame.parquet"), frame)
    columns = pd.read_parquet(f"{place}/frame.parquet", columns=["value"], filters=[("day", "<", 10)])
    assert len(columns) == 10
    frame.to_csv(f"{place}/frame.csv.gz", index=False)
    pd.testing.assert_frame_equal(pd.read_csv(f"{place}/frame.csv.gz"), frame)
    table = pyarrow.Table.from_pandas(frame)
    pyarrow.parquet.write_to_dataset(table, f"{folder}/set", partition_cols=["name"], filesystem=fs)
    read = pyarrow.dataset.dataset(f"{folder}/set", filesystem=fs, partitioning="hive")
    assert read.count_rows() == 20_000 and read.to_table(columns=["day"])["day"].to_pylist()[:2] == [0, 2]


def test_h5py(fs, folder):
    numbers = np.arange(1_000_000).reshape(1000, 1000)
    with fs.open(f"{folder}/x.h5", "w+b") as file, h5py.File(file, "w") as out:
        out.create_dataset("numbers", data=numbers, chunks=(100, 100))
    with fs.open(f"{folder}/x.h5", "r+b") as file, h5py.File(file, "r+") as both:
        both["numbers"][3, 4] = -1
        both.attrs["note"] = "changed"
    with fs.open(f"{folder}/x.h5") as file, h5py.File(file) as read:
        assert read["numbers"][3, 4] == -1 and read.attrs["note"] == "changed"
        assert np.array_equal(read["numbers"][500:510, 3:5], numbers[500:510, 3:5])


@pytest.fixture(scope="module")
def cluster():
    with distributed.LocalCluster(n_workers=2, threads_per_worker=2, dashboard_address=None) as cluster:
        with distributed.Client(cluster) as client:
            yield client


def test_dask_in_processes(cluster, place, frame):
    parts = dask.dataframe.from_pandas(frame, npartitions=8)
    parts.to_parquet(f"{place}/frame", write_index=False)
    read = dask.dataframe.read_parquet(f"{place}/frame")
    assert len(read) == 20_000
    assert np.isclose(read["value"].sum().compute(), frame["value"].sum())
    lines = dask.bag.from_sequence([str(number) for number in range(1000)], npartitions=5)
    lines.to_textfiles(f"{place}/lines/*.txt")
    assert sorted(dask.bag.read_text(f"{place}/lines/*.txt").map(int).compute()) == list(range(1000))


def test_xarray_over_dask(cluster, place):
    numbers = dask.array.random.default_rng(2).normal(size=(400, 400), chunks=(100, 100))
    xr.Dataset({"n": (("y", "x"), numbers)}).to_zarr(f"{place}/n.zarr", consolidated=False)
    read = xr.open_zarr(f"{place}/n.zarr", consolidated=False)
    assert read["n"].sizes["x"] == 400 and abs(float(read["n"].mean())) < 0.1
