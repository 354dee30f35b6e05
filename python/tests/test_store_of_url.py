"""Reading by URLs that name their stores on a file system that was made without a store, as `reference://` makes it.
SPDX-License-Identifier: Apache-2.0"""

import fsspec
import pytest

import thalweg


@pytest.fixture
def stores(tmp_path, monkeypatch):
    monkeypatch.delenv("THALWEG_STORE", raising=False)
    for name in ("one", "two"):
        thalweg.create(tmp_path / name)
        thalweg.ThalwegFileSystem(tmp_path / name).pipe_file("a/x", name.encode())
    return [f"thalweg://{tmp_path}/{name}!/a" for name in ("one", "two")]


def test_the_store_is_the_urls(stores):
    fs, (first, second) = fsspec.filesystem("thalweg"), stores
    assert fs.cat_file(f"{first}/x") == b"one" and fs.cat_file(f"{second}/x", 1) == b"wo"
    with fs.open(f"{second}/x") as file:
        assert file.read() == b"two"
    assert fs.info(f"{first}/x")["size"] == 3 and fs.ls(first, detail=False) == fs.find(second) == ["a/x"]
    assert fs.exists(f"{second}/x") and fs.isdir(second) and not fs.isfile(f"{second}/y")
    assert fs.cat_ranges([f"{first}/x", f"{second}/x", f"{first}/x"], 0, [1, 2, 3]) == [b"o", b"tw", b"one"]
    with pytest.raises(ValueError, match="no store is named"):
        fs.ls("")


def test_references_with_full_urls_need_no_store(stores):
    references = {"k": [f"{stores[0]}/x", 1, 2], "l": [f"{stores[1]}/x"]}
    fs = fsspec.filesystem("reference", fo=references, remote_protocol="thalweg")
    assert fs.cat_file("k") == b"ne" and fs.cat(["k", "l"]) == {"k": b"ne", "l": b"two"}
