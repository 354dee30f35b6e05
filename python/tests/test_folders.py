"""Folders, ranges and patterns as inputs, folders as outputs, and tasks that wait for what others write in them, on both
back-ends. SPDX-License-Identifier: Apache-2.0"""

import os
import shutil
import time
from pathlib import Path

import fsspec
import numpy as np
import pytest
import zarr
from diffusion_tasks import content, write, write_half
from test_diffusion import begin, cluster, events  # noqa: F401

from thalweg.diffusion import Diffusion, File, InputFailed, Output


def names_and_sizes(folder):
    found = [path for path in Path(folder).rglob("*") if path.is_file()]
    return sorted((str(path.relative_to(folder)), path.stat().st_size) for path in found)


def make_folder(names, folder):
    for name in names:
        path = os.path.join(folder, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w") as file:
            file.write(name)


def make_half(folder):
    make_folder(["a"], folder)
    raise RuntimeError("power is gone")


def sum_of_array(folder):
    return int(zarr.open_array(folder, mode="r")[:].sum())


def write_array(folder, count):
    zarr.create_array(folder, shape=(count,), chunks=(10,), dtype="i8", overwrite=True)[:] = np.arange(count)


def write_late(text, path):
    time.sleep(0.3)
    write(text, path)


NAMES = ["one", "b/two", "b/c/three", "b/empty"]


@pytest.fixture
def data(tmp_path):
    data = tmp_path / "in" / "data.d"
    make_folder(NAMES, data)
    (data / "b" / "empty").write_text("")
    return data


def test_a_folder_is_an_input_whose_files_come_together(begin, data, tmp_path):  # noqa: F811
    with begin(run_folder=tmp_path / "run") as run:
        results = list(run.map(names_and_sizes, [File(data)] * 6 + [File(f"{data}/")] * 6))
        assert all(result.value == names_and_sizes(data) for result in results)
        path = run.submit(str, File(data)).result()
        assert path.endswith("data.d") and not path.startswith(str(tmp_path / "in"))
        with pytest.raises(IsADirectoryError, match="no ranges"):
            run.submit(names_and_sizes, File(data, 1, 2)).result()
    fetched = [source for one in events(tmp_path / "run", "done") for source, _ in one["inputs"] if source == "store"]
    assert len(fetched) <= 3, "once by each worker at most"


def change(data):
    (data / "one").write_text("changed")


def add(data):
    (data / "b" / "another").write_text("new")


def remove(data):
    (data / "b" / "two").unlink()


@pytest.mark.parametrize("act", [change, add, remove])
def test_a_folder_that_changed_between_two_runs_is_fetched_again(data, tmp_path, act):
    for _ in range(2):
        with Diffusion(workers=1, cache_folder=tmp_path / "cache", run_folder=tmp_path / "run") as run:
            assert run.submit(names_and_sizes, File(data)).result() == names_and_sizes(data)
    assert len(events(tmp_path / "run", "done")) == 1, "the journal has it as long as it is the same"
    act(data)
    with Diffusion(workers=1, cache_folder=tmp_path / "cache", run_folder=tmp_path / "run") as run:
        assert run.submit(names_and_sizes, File(data)).result() == names_and_sizes(data)
    assert len(events(tmp_path / "run", "done")) == 2


def test_a_copy_of_a_folder_survives_the_run_and_is_dropped_when_it_is_damaged(data, tmp_path):
    def sources():
        with Diffusion(workers=1, cache_folder=tmp_path / "cache", run_folder=tmp_path / "run") as run:
            assert run.submit(names_and_sizes, File(data)).result() == names_and_sizes(data)
        last = (tmp_path / "run" / "events.jsonl").read_text().count('"store"')
        shutil.rmtree(tmp_path / "run")
        return last

    assert (sources(), sources()) == (1, 0)
    (copy,) = (path for path in (tmp_path / "cache").rglob("*-data.d") if path.is_dir())
    (copy / "one").write_text("damaged")
    assert (sources(), sources()) == (1, 0)


def test_a_zarr_store_is_written_as_an_output_and_read_as_an_input(begin, tmp_path):  # noqa: F811
    store = tmp_path / "out" / "numbers.zarr"
    with begin() as run:
        for count in (100, 50):
            written = run.submit(write_array, Output(store), count)
            total = run.submit(sum_of_array, File(store))
            assert (written.result(), total.result()) == (None, sum(range(count)))
            assert sum_of_array(str(store)) == sum(range(count))
    assert len(list((store / "c").iterdir())) == 5, "what was there is replaced as a whole"
    assert os.listdir(store.parent) == ["numbers.zarr"], "no temporary folder is left"


def test_a_folder_of_a_task_that_fails_is_not_there(begin, tmp_path):  # noqa: F811
    with begin() as run:
        with pytest.raises(RuntimeError, match="power is gone"):
            run.submit(make_half, Output(tmp_path / "out")).result()
    assert not (tmp_path / "out").exists()


def test_a_folder_waits_for_what_tasks_write_in_it_and_a_file_for_its_folder(begin, tmp_path):  # noqa: F811
    parts = tmp_path / "parts"
    parts.mkdir()
    (parts / "0").write_text("old")
    with begin() as run:
        assert run.submit(names_and_sizes, File(parts)).result() == [("0", 3)]
        writing = run.map(write_late, [(str(number) * 5, Output(parts / str(number))) for number in range(4)])
        every = run.submit(names_and_sizes, File(parts))
        part = run.submit(content, File(parts / "2", 1, 3))
        whole = run.submit(make_folder, NAMES, Output(tmp_path / "whole"))
        inner = run.submit(content, File(tmp_path / "whole" / "b" / "two"))
        assert every.result() == [(str(number), 5) for number in range(4)]
        assert (part.result(), inner.result(), whole.result()) == (b"22", b"b/two", None)
        assert len(list(writing)) == 4


def test_what_waits_for_a_part_that_fails_fails_with_it(begin, tmp_path):  # noqa: F811
    with begin() as run:
        run.submit(write_half, Output(tmp_path / "parts" / "0"))
        with pytest.raises(InputFailed, match="power is gone"):
            run.submit(names_and_sizes, File(tmp_path / "parts")).result()


def test_a_pattern_gives_what_fits_it(begin, data, tmp_path):  # noqa: F811
    assert File.glob(f"{data}/b/*") == [File(f"{data}/b/{name}") for name in ("c", "empty", "two")]
    assert File.glob(tmp_path / "in" / "**" / "t*") == [File(data / "b/c/three"), File(data / "b/two")]
    assert File.glob(f"{data}/nothing*") == []
    with begin() as run:
        came = [result.value for result in run.map(content, File.glob(f"{data}/*e")).in_order()]
    assert came == [b"one"]


def test_patterns_of_other_stores(data):
    memory = fsspec.filesystem("memory")
    memory.pipe({"/pattern/1.nc": b"1", "/pattern/2.nc": b"2", "/pattern/3.txt": b"3"})
    assert File.glob("memory://pattern/*.nc") == [File("memory:///pattern/1.nc"), File("memory:///pattern/2.nc")]
    archive = shutil.make_archive(str(data), "zip", data)
    assert File.glob(f"zip://b/*::{archive}") == [File(f"zip://b/{name}::{archive}") for name in ("c", "empty", "two")]
    assert File.glob(f"simplecache::file://{data}/on*") == [File(f"simplecache::file://{data}/one")]


def test_folders_in_a_thalweg_store(fs, place, folder, tmp_path):
    fs.pipe({f"{folder}/in/{name}": name.encode() for name in NAMES})
    with Diffusion(workers=2, cache_folder=tmp_path / "cache") as run:
        assert run.submit(names_and_sizes, File(f"{place}/in")).result() == sorted((one, len(one)) for one in NAMES)
        for names in (NAMES, ["one", "b/else"]):
            run.submit(make_folder, names, Output(f"{place}/out")).result()
            found = run.submit(names_and_sizes, File(f"{place}/out")).result()
            assert found == sorted((name, len(name)) for name in names)
        infos = [fs.info(f"{place}/out/{name}") for name in ("one", "b/else")]
        assert infos[0]["committed"] == infos[1]["committed"], "one commit"


def test_a_link_to_nothing_in_a_folder_is_called_that(begin, data):  # noqa: F811
    os.symlink("nowhere", data / "link")
    with begin() as run, pytest.raises(FileNotFoundError, match="link to nothing"):
        run.submit(names_and_sizes, File(data)).result()
