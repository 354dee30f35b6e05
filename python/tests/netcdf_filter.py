"""netcdf_filter.py FOLDER — netCDF4 and h5py write with the filter plugin and read what the other wrote, in turns: each brings
an HDF5 of its own into the process, and the plugin must ask the one that called. SPDX-License-Identifier: Apache-2.0"""

import ctypes
import sys
from pathlib import Path

import h5py
import netCDF4
from arrays import same, smooth

from thalweg.hdf5 import FILTER, filter_options

ARRAYS = {name: smooth((100, 33), dtype) for name, dtype in (("a", "<f8"), ("b", "<i2"), ("c", "<f4"))}
F64_ELEMENT = 11


def netcdf_library():
    """The library of netCDF4's wheel: in Python there is no function for filters by their number."""
    maps = Path("/proc/self/maps").read_text().splitlines()
    [path] = {line.split()[-1] for line in maps if "libnetcdf" in line}
    return ctypes.CDLL(path)


def add_variable(file, name, array):
    variable = file.createVariable(name, array.dtype, ("x", "y"), chunksizes=(30, 33))
    ids = ctypes.c_int(variable._grpid), ctypes.c_int(variable._varid)
    status = netcdf_library().nc_def_var_filter(*ids, FILTER, ctypes.c_size_t(1), (ctypes.c_uint * 1)(0))
    assert status == 0, f"nc_def_var_filter: {status}"
    variable[...] = array


def netcdf_writes(path):
    with netCDF4.Dataset(path, "w") as file:
        file.createDimension("x", 100)
        file.createDimension("y", 33)
        for name, array in ARRAYS.items():
            add_variable(file, name, array)
    with netCDF4.Dataset(path, "a") as file:
        assert all(same(file[name][...].data, array) for name, array in ARRAYS.items())
        file["a"][50:] = 0
    with h5py.File(path) as file:
        assert file["a"]._filters[str(FILTER)][2:] == (F64_ELEMENT, 0, 30 * 33 * 8)
        assert same(file["a"][:50], ARRAYS["a"][:50]) and not file["a"][50:].any()


def h5py_writes(path):
    with h5py.File(path, "w") as file:
        dataset = file.create_dataset("a", data=ARRAYS["a"].astype(">f8"), chunks=(10, 33), **filter_options())
        assert dataset._filters[str(FILTER)][2:] == (16 + 11, 0, 10 * 33 * 8)
    with netCDF4.Dataset(path) as file:
        assert (file["a"][...] == ARRAYS["a"]).all()


for number in range(3):
    h5py_writes(Path(sys.argv[1], f"{number}.h5"))
    netcdf_writes(Path(sys.argv[1], f"{number}.nc"))
