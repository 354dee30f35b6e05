"""Tasks and their inputs, kept in a cache or not. SPDX-License-Identifier: Apache-2.0"""

import fcntl

import h5py
import numpy as np
import pytest
from diffusion_tasks import content

from thalweg.diffusion import Diffusion, File, Output


def first_number(path):
    with h5py.File(path) as file:
        return int(file["numbers"][0])


def locked_and_read(path):
    with open(path, "rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return len(file.read())


@pytest.mark.parametrize("cache", ["1 GB", "1 kB"])
def test_an_input_can_be_locked_whether_its_copy_is_kept_or_not(tmp_path, cache):
    path = tmp_path / "numbers.h5"
    with h5py.File(path, "w") as file:
        file["numbers"] = [7, 8, 9]
    with Diffusion(workers=1, cache=cache, cache_folder=tmp_path / "cache") as run:
        assert run.submit(first_number, File(path)).result() == 7
        assert run.submit(locked_and_read, File(path)).result() == path.stat().st_size
        assert run.submit(content, File(path)).result() == path.read_bytes()


def double_in_place(source, target):
    numbers = np.load(source, mmap_mode="r")
    doubled = np.lib.format.open_memmap(target, "w+", numbers.dtype, numbers.shape)
    doubled[:] = 2 * np.memmap(source, numbers.dtype, "r", offset=numbers.offset)
    doubled.flush()


def test_numpy_maps_inputs_and_outputs_into_memory(tmp_path):
    np.save(tmp_path / "numbers.npy", np.arange(1000))
    with Diffusion(workers=1, cache_folder=tmp_path / "cache") as run:
        run.submit(double_in_place, File(tmp_path / "numbers.npy"), Output(tmp_path / "doubled.npy")).result()
    assert np.array_equal(np.load(tmp_path / "doubled.npy"), 2 * np.arange(1000))
