"""Runs whose files lie in a Thalweg store, and runs whose caches are damaged, cut short and deleted under way.

SPDX-License-Identifier: Apache-2.0
"""

import os
import random

import pytest
from diffusion_tasks import append, content, write

from thalweg.diffusion import Diffusion, File, Output


@pytest.fixture
def begin(tmp_path):
    return lambda **options: Diffusion(workers=2, cache_folder=tmp_path / "cache", **options)


def test_inputs_and_outputs_lie_in_a_thalweg_store(begin, fs, place, folder):
    fs.pipe({f"{folder}/{number}": bytes([number]) * (number * 1000) for number in range(8)})
    with begin() as run:
        came = run.map(content, [File(f"{place}/{number}") for number in range(8)]).in_order()
        assert [result.value for result in came] == [bytes([number]) * (number * 1000) for number in range(8)]
        part = run.submit(content, File(f"{place}/7", 6990, 7000))
        assert part.result() == b"\x07" * 10
        first = run.submit(write, "one", Output(f"{place}/out/first"))
        second = run.submit(append, File(f"{place}/out/first"), " two", Output(f"{place}/out/second"))
        assert (first.result(), second.result()) == (3, None)
        with pytest.raises(FileNotFoundError, match="nowhere"):
            run.submit(content, File(f"{place}/nowhere")).result()
    assert fs.cat_file(f"{folder}/out/second") == b"one two"
    assert sorted(os.path.basename(name) for name in fs.ls(f"{folder}/out", detail=False)) == ["first", "second"]


def damage(path):
    with open(path, "r+b") as file:
        file.write(b"other")


def test_caches_that_are_damaged_cut_short_and_deleted_under_way_give_no_wrong_byte(begin, tmp_path):
    dice = random.Random(5)
    contents = [dice.randbytes(5000) for _ in range(12)]
    paths = [tmp_path / f"{number}.bin" for number in range(12)]
    for path, whole in zip(paths, contents, strict=True):
        path.write_bytes(whole)
    with begin() as run:
        for operation in (damage, lambda path: os.truncate(path, 3), os.unlink, None):
            came = run.map(content, [File(str(path)) for path in paths]).in_order()
            assert [result.value for result in came] == contents
            copies = [
                path for path in (tmp_path / "cache").rglob("*") if path.is_file() and path.stat().st_size == 5000
            ]
            assert len(copies) >= 12, "nothing was cached: the test says nothing"
            if operation is not None:
                for path in copies:
                    operation(path)
