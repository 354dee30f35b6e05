"""Content that an output folder may replace: what the run wrote itself, and nothing else unless it is asked. On both back-ends.
SPDX-License-Identifier: Apache-2.0"""

import os
import shutil
import uuid
from pathlib import Path

import fsspec
import pytest
from test_diffusion import begin, cluster  # noqa: F401

from thalweg.diffusion import File, Output


def make(name, folder):
    os.makedirs(folder)
    Path(folder, name).write_text(name)


@pytest.fixture
def thesis(tmp_path):
    folder = tmp_path / "thesis"
    make("chapter", folder)
    return folder


@pytest.mark.parametrize("kind", [File, Output])
def test_an_empty_url_is_refused(kind):
    with pytest.raises(ValueError, match="empty"):
        kind("")


@pytest.mark.parametrize("url", [".", "..", "/", os.curdir + "/", "file:///", "s3://bucket", "s3://bucket/"])
def test_an_output_is_no_root_and_not_where_one_works(url):
    with pytest.raises(ValueError, match="needs a name of its own"):
        Output(url)


@pytest.mark.parametrize(
    "url", ["thalweg:///tmp/st!/", "thalweg:///tmp/st!", "thalweg://node:7000", "thalweg://", "memory://", "memory:///"]
)
def test_an_output_is_no_root_of_a_store(url):
    with pytest.raises(ValueError, match="root"):
        Output(url)


def test_names_below_a_root_are_outputs(tmp_path):
    for url in ("s3://bucket/a", "thalweg:///tmp/st!/a", "thalweg://node:7000/a", "memory://a", "a", tmp_path / "b"):
        assert Output(url).url.endswith(("a", "b"))


def test_the_folder_above_is_none_also_by_another_name(tmp_path, monkeypatch):
    (tmp_path / "work").mkdir()
    os.symlink(tmp_path, tmp_path.parent / "other")
    monkeypatch.chdir(tmp_path / "work")
    with pytest.raises(ValueError, match="above the current directory"):
        Output(tmp_path.parent / "other")


def test_a_folder_that_no_run_wrote_stays(begin, thesis):  # noqa: F811
    with begin() as run:
        for url in (thesis, f"{thesis}/"):
            with pytest.raises(FileExistsError, match="replace=True"):
                run.submit(make, "result", Output(url)).result()
        assert os.listdir(thesis) == ["chapter"]
        run.submit(make, "result", Output(thesis, replace=True)).result()
    assert os.listdir(thesis) == ["result"]


def test_a_folder_of_a_store_that_no_run_wrote_stays(begin, directory_store):  # noqa: F811
    fs = fsspec.filesystem("thalweg", store=directory_store)
    folder = f"thesis-{uuid.uuid4()}"
    fs.pipe_file(f"{folder}/chapter", b"years of work")
    url = f"thalweg://{directory_store}!/{folder}"
    with begin() as run:
        with pytest.raises(FileExistsError, match="replace=True"):
            run.submit(make, "result", Output(url)).result()
        assert fs.find(folder) == [f"{folder}/chapter"]
        run.submit(make, "result", Output(url, replace=True)).result()
        run.submit(make, "another", Output(url)).result()
    assert fs.find(folder) == [f"{folder}/another"]


@pytest.mark.parametrize("is_local", [True, False])
def test_a_file_stays_where_a_task_writes_a_folder(begin, directory_store, tmp_path, is_local):  # noqa: F811
    url = f"{tmp_path}/precious" if is_local else f"thalweg://{directory_store}!/{uuid.uuid4()}"
    fs, place = fsspec.core.url_to_fs(url)
    fs.pipe_file(place, b"years of work")
    with begin() as run:
        with pytest.raises(FileExistsError, match="replace=True"):
            run.submit(make, "result", Output(url)).result()
        assert fs.cat_file(place) == b"years of work"
        run.submit(make, "result", Output(url, replace=True)).result()
        run.submit(make, "another", Output(url)).result()
    assert fs.find(place) == [f"{place}/another"]


def test_it_is_refused_before_the_task_runs(begin, thesis, tmp_path):  # noqa: F811
    def noting(folder):
        (tmp_path / "ran").touch()
        make("result", folder)

    with begin() as run, pytest.raises(FileExistsError):
        run.submit(noting, Output(thesis)).result()
    assert not (tmp_path / "ran").exists()


def test_a_run_replaces_what_it_wrote_and_an_empty_folder(begin, tmp_path):  # noqa: F811
    place = tmp_path / "out"
    place.mkdir()
    with begin() as run:
        run.submit(make, "one", Output(place)).result()
        last = [run.submit(make, name, Output(place)) for name in ("two", "three")][-1]
        last.result()
    assert os.listdir(place) == ["three"]


def test_a_start_with_the_same_run_folder_replaces_what_the_one_before_wrote(begin, tmp_path):  # noqa: F811
    place, run_folder = tmp_path / "out", tmp_path / "run"
    with begin(run_folder=run_folder) as run:
        run.submit(make, "one", Output(place)).result()
    with begin(run_folder=run_folder) as run:
        run.submit(make, "two", Output(place)).result()
    assert os.listdir(place) == ["two"]
    shutil.rmtree(run_folder)
    with begin(run_folder=run_folder) as run, pytest.raises(FileExistsError):
        run.submit(make, "three", Output(place)).result()
