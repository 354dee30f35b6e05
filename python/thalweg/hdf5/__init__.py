"""Thalweg's compression in HDF5 files: by its filter, or by the filters that every HDF5 has.

`filter_options` makes `h5py` write with the filter plugin, which readers need too; `create_dataset` writes each chunk with
the best of the stock filters, which need no plugin.

SPDX-License-Identifier: Apache-2.0
"""

from thalweg.hdf5.bounds import error_bound
from thalweg.hdf5.plugin import FILTER, filter_options, load_plugin, plugin_path
from thalweg.hdf5.stock_filters import create_dataset

__all__ = ["FILTER", "create_dataset", "error_bound", "filter_options", "load_plugin", "plugin_path"]
