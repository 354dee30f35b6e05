"""Folders as sequences of bytes: in pieces of any length, from peers, and to stores that cannot rename.

SPDX-License-Identifier: Apache-2.0
"""

import random
import struct
from pathlib import Path

import fsspec
import pytest
from fsspec.implementations.local import LocalFileSystem
from stores import Source

from thalweg.diffusion.cache.item import Item
from thalweg.diffusion.cache.worker_cache import PeerFailed, WorkerCache
from thalweg.diffusion.path_tree import PathTree
from thalweg.diffusion.stores.output_folder import put_folder
from thalweg.disk_cache.partial_file import digest_of
from thalweg.disk_cache.tree import TreeReader, TreeWriter, files_of, size_of


def make(folder, files):
    for name, content in files.items():
        path = Path(folder, name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return folder


def found(folder):
    return {str(path.relative_to(folder)): path.read_bytes() for path in Path(folder).rglob("*") if path.is_file()}


def some_files(dice):
    names = ["a", "b/c", "b/d/e", "b/empty", "z/\udcff\u00e9", "y/1"]
    return {
        name: dice.randbytes(dice.choice([0, 1, 7, 5000])) for name in dice.sample(names, dice.randrange(len(names)))
    }


@pytest.mark.parametrize("seed", range(30))
def test_a_folder_is_itself_again_in_pieces_of_any_length(tmp_path, seed):
    dice = random.Random(seed)
    files = some_files(dice)
    (tmp_path / "from").mkdir()
    make(tmp_path / "from", files)
    target = tmp_path / "to"
    target.mkdir()
    writer = TreeWriter(str(target))
    count = 0
    with TreeReader(str(tmp_path / "from")) as reader:
        while piece := reader.read(dice.choice([1, 3, 100, 4096])):
            count += len(piece)
            writer.write(piece)
    writer.close()
    assert found(target) == files and count == reader.bytes == size_of(str(target))
    assert digest_of(str(target)) == digest_of(str(tmp_path / "from"))


@pytest.mark.parametrize("name", ["../x", "/x", "a/../../x", "", "a//b", "."])
def test_a_manifest_that_leads_elsewhere_is_refused(tmp_path, name):
    manifest = f'[["{name}",1]]'.encode()
    with pytest.raises(ValueError, match="below its folder"):
        TreeWriter(str(tmp_path / "in")).write(struct.pack(">I", len(manifest)) + manifest + b"x")
    assert not list(tmp_path.iterdir())


def test_a_peer_gives_a_folder_and_keeps_what_is_damaged_to_itself(tmp_path):
    source = Source(tmp_path / "source")
    files = {"a": b"1" * 1000, "b/c": b"2" * 3_000_000, "b/empty": b""}
    for name, content in files.items():
        Path(tmp_path, "source", "d", name).parent.mkdir(parents=True, exist_ok=True)
        source.write(f"d/{name}", content)
    item = Item(source.url("d"))
    first = WorkerCache(
        tmp_path / "1", "1 GB", token="t", serve="127.0.0.1", storage_options=source.options, peer_bytes_per_s=10**9
    )
    second = WorkerCache(tmp_path / "2", "1 GB", token="t", storage_options=source.options)
    came = first.bring(item, "store", keep=True)
    got = second.bring(item, first.address, keep=True, digest=came.digest, pin=True)
    assert (got.source, found(got.path)) == ("peer", files) and got.bytes == came.bytes == second.held_bytes()
    second.release(got)
    Path(came.path, "a").write_bytes(b"0" * 1000)
    second.evict([item.key])
    with pytest.raises(PeerFailed):
        second.bring(item, first.address, keep=True, digest=came.digest)
    assert second.held_bytes() == 0 and not list(Path(second.folder, "partial").iterdir())
    for cache in (first, second):
        cache.close()


class Moving(LocalFileSystem):
    """Renames, but is no local disk to us."""

    protocol = "moving"
    cachable = False


@pytest.mark.parametrize("kind", ["memory", "moving", "file"])
def test_a_folder_replaces_an_older_one(tmp_path, kind):
    fs = {"memory": fsspec.filesystem("memory"), "moving": Moving(), "file": LocalFileSystem()}[kind]
    place = f"{tmp_path}/out/d"
    for number, files in enumerate([{"a": b"1", "b/c": b"2", "b/d": b"3"}, {"b/c": b"4", "e": b"5"}]):
        put_folder(str(make(tmp_path / str(number), files)), fs, place, "run-1-1")
        assert {name[len(place) + 1 :]: fs.cat_file(name) for name in fs.find(place)} == files
    assert [Path(name).name for name in fs.ls(f"{tmp_path}/out", detail=False)] == ["d"], "nothing is left beside it"


def test_an_upload_that_fails_leaves_nothing(tmp_path, monkeypatch):
    fs = fsspec.filesystem("memory")
    make(tmp_path / "d", {"a": b"1", "b/c": b"2"})
    whole = type(fs).put_file

    def put_file(self, source, target, **kwargs):
        if target.endswith("/a"):
            raise OSError("the store is full")
        return whole(self, source, target, **kwargs)

    monkeypatch.setattr(type(fs), "put_file", put_file)
    with pytest.raises(OSError, match="full"):
        put_folder(str(tmp_path / "d"), fs, f"{tmp_path}/out", "run-1-1")
    assert not fs.exists(f"{tmp_path}/out")


def test_paths_are_found_by_what_contains_them(tmp_path):
    dice = random.Random(5)
    tree, plain = PathTree(), []
    for _ in range(3000):
        path = "/".join(dice.choice("ab") for _ in range(dice.randrange(1, 5)))
        if plain and dice.random() < 0.5:
            one = plain.pop(dice.randrange(len(plain)))
            tree.remove(*one)
        else:
            plain.append((path, dice.randrange(100)))
            tree.add(*plain[-1])
        expected = [
            number
            for other, number in plain
            if f"{other}/".startswith(f"{path}/") or f"{path}/".startswith(f"{other}/")
        ]
        assert sorted(tree.overlapping(path)) == sorted(expected)


def test_files_of_a_folder_that_is_gone_is_an_error(tmp_path):
    with pytest.raises(FileNotFoundError):
        files_of(str(tmp_path / "gone"))
