"""The filter plugin: where it lies, how this process gets it, and how datasets ask for it.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import os
import shutil
import struct
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Optional

from thalweg import rounding
from thalweg._thalweg import check_codec
from thalweg.error_code import coded

#: Of the numbers for filters that the HDF Group has not registered.
FILTER = 305

LIBRARY = "libh5z_thalweg.so"

# The first value of the filter's client data, as docs/format.md has it.
MODES = {"auto:balanced": 0, "auto:performance": 1, "auto:archival": 2, "auto:energy": 3}
CODECS = {"auto": 0, "none": 16, "lz4": 17, "lz4:fast": 18, "lz4hc": 19, "zstd": 20, "zlib": 21, "gzip": 21, "xz": 22}
# Values 1 and 5: a codec's own level, and the kinds of bounds.
OWN_LEVEL = 2**31 - 1
BOUNDS = {"absolute": 1, "relative": 2}


def plugin_path() -> str:
    """The folder of the filter plugin: what `HDF5_PLUGIN_PATH` names for other programs."""
    folders = list(_folders())
    for folder in folders:
        if (folder / LIBRARY).exists():
            return str(folder)
    tried = ", ".join(map(str, folders))
    raise coded(
        FileNotFoundError(
            f"{LIBRARY} is in none of {tried}: install the wheel of `make package`, run `make install`, or name its folder in HDF5_PLUGIN_PATH"
        ),
        "TW-306",
    )


def _folders() -> Iterator[Path]:
    """As HDF5 itself is told, of this environment, beside the command, as built, and of the system."""
    named = os.environ.get("HDF5_PLUGIN_PATH", "")
    yield from (Path(folder) for folder in named.split(os.pathsep) if folder)
    yield Path(sys.prefix, "lib/hdf5/plugin")
    command = shutil.which("thalweg")
    if command:
        yield Path(command).resolve().parent.parent / "lib/hdf5/plugin"
        yield Path(command).resolve().parent / "hdf5/plugin"
    yield Path("/usr/local/lib/hdf5/plugin")
    yield Path("/usr/lib/hdf5/plugin")


def load_plugin() -> None:
    """Lets h5py find the filter plugin, in this process."""
    import h5py

    path = plugin_path().encode()
    if path not in [h5py.h5pl.get(at) for at in range(h5py.h5pl.size())]:
        h5py.h5pl.prepend(path)


def filter_options(codec: str = "auto", error_bound: Optional[str] = None) -> dict[str, Any]:
    """What h5py's `create_dataset` takes to write with the filter; loads the plugin.

    Parameters
    ----------
    codec
        `auto`, a mode such as `auto:archival`, or one that `thalweg init --codec` takes, such as `zstd:9`.
    error_bound
        `absolute:E` or `relative:E`: floats of 32 or 64 bits are rounded, and none changes by more, but for the
        fill value of real numbers, which stays.
    """
    check_codec(codec)
    bound = rounding.check_chunk_bound(error_bound)
    load_plugin()
    choice = _client_data(codec)
    if bound is not None:
        kind, number = bound
        # The filter makes the three values between, of the dataset.
        choice = (
            choice[0],
            *(choice[1:] or (OWN_LEVEL,)),
            0,
            0,
            0,
            BOUNDS[kind],
            *struct.unpack("<2I", struct.pack("<d", number)),
        )
    return {"compression": FILTER, "compression_opts": choice}


def _client_data(codec: str) -> tuple[int, ...]:
    known = CODECS | MODES
    if codec in known:
        return (known[codec],)
    name, level = codec.split(":")
    # A level below zero is the unsigned number with its bits.
    return CODECS[name], int(level) % (1 << 32)
