"""Files, names and directories, on stores near and far. SPDX-License-Identifier: Apache-2.0"""

import errno
import os
import pickle
import subprocess
import time
import warnings
from datetime import datetime, timedelta, timezone

import fsspec
import pytest
from conftest import COMMAND
from fsspec.implementations.asyn_wrapper import AsyncFileSystemWrapper

import thalweg
from thalweg import url


def test_urls_name_stores_and_paths():
    assert url.split("thalweg://host:7420/a/b") == ("thalweg://host:7420", "a/b")
    assert url.split("thalweg://host:7420") == ("thalweg://host:7420", "")
    assert url.split("thalweg://[::1]:7420/a") == ("thalweg://[::1]:7420", "a")
    assert url.split("thalweg:///scratch/st!/a//b/") == ("/scratch/st", "a/b")
    assert url.split("thalweg:///scratch/st!") == ("/scratch/st", "")
    assert url.split("thalweg:///scratch/st!x!/a!/b") == ("/scratch/st!x", "a!/b")
    assert url.split("thalweg://a/b") == (None, "a/b")
    assert url.split("/a/b/") == (None, "a/b")
    with pytest.raises(ValueError):
        url.address("thalweg://host")


def test_every_way_to_name_a_store_leads_to_it(fs, store, folder, monkeypatch):
    fs.pipe_file(f"{folder}/x", b"1")
    assert fsspec.open(fs.unstrip_protocol(f"{folder}/x")).open().read() == b"1"
    assert fsspec.filesystem("thalweg", store=store).cat(f"thalweg:///{folder}/x") == b"1"
    assert fsspec.open(f"thalweg://{folder}/x", store=store).open().read() == b"1"
    monkeypatch.setenv("THALWEG_STORE", store)
    assert fsspec.open(f"thalweg:///{folder}/x").open().read() == b"1"
    monkeypatch.delenv("THALWEG_STORE")
    with pytest.raises(ValueError, match="no store is named"):
        thalweg.ThalwegFileSystem().ls("")


def test_a_url_of_another_store_is_refused(fs, directory_store, tmp_path):
    for operation in (fs.exists, fs.cat, fs.open, fs.rm, lambda one: fs.pipe_file(one, b"")):
        with pytest.raises(ValueError, match="another store"):
            operation("thalweg:///another/store!/x")
    link = tmp_path / "link"
    link.symlink_to(directory_store)
    assert thalweg.ThalwegFileSystem(directory_store).ls(f"thalweg://{link}!/") is not None


def test_seeking_in_a_file_that_is_written_front_to_end_says_what_does_it(fs, folder):
    with fs.open(f"{folder}/x", "wb") as file:
        file.write(b"12")
        assert file.tell() == 2 and not file.seekable()
        with pytest.raises(OSError, match="w\\+b"):
            file.seek(0)


def test_a_file_appears_whole_when_it_is_closed(fs, folder):
    path = f"{folder}/x"
    with fs.open(path, "wb") as file:
        file.write(b"a" * 20_000_000)
        assert not fs.exists(path)
    assert fs.size(path) == 20_000_000
    with pytest.raises(KeyError), fs.open(path, "wb") as file:
        file.write(b"half")
        raise KeyError
    assert fs.size(path) == 20_000_000


def test_what_is_read_is_one_version(fs, folder):
    path = f"{folder}/x"
    fs.pipe_file(path, b"first")
    with fs.open(path, cache_type="none") as file:
        assert file.read(1) == b"f"
        fs.pipe_file(path, b"other")
        assert file.read() == b"irst"
        copy = pickle.loads(pickle.dumps(file))
        copy.seek(0)
        assert copy.read() == b"first"
    assert [info["version"] for info in fs.versions(path)] == [1, 2]
    assert fs.cat_file(path, version=1) == b"first"
    assert fs.info(path, version=1)["size"] == 5
    with pytest.raises(FileNotFoundError):
        fs.cat_file(path, version=3)


def test_appending_goes_on_where_the_file_ends(fs, folder):
    path, expected = f"{folder}/x", b""
    for number in range(5):
        piece = bytes([number]) * (number * 30_000)
        with fs.open(path, "ab") as file:
            assert file.tell() == len(expected)
            file.write(piece)
        expected += piece
    assert fs.cat_file(path) == expected


def test_files_open_for_both_are_written_anywhere(fs, folder):
    path = f"{folder}/x"
    with fs.open(path, "w+b") as file:
        file.write(b"0123456789")
        file.seek(3)
        assert file.read(2) == b"34"
    with fs.open(path, "r+b") as file:
        file.seek(8)
        file.write(b"abc")
        file.seek(0)
        file.truncate(9)
    assert fs.cat_file(path) == b"01234567a"
    with pytest.raises(FileExistsError):
        fs.open(path, "x+b")
    with fs.open(path, "r+") as text:
        assert text.readline() == "01234567a"


def test_renaming_replaces_as_the_systems_own_does(fs, folder):
    fs.pipe({f"{folder}/a": b"new", f"{folder}/b": b"old"})
    fs.mv(f"{folder}/a", f"{folder}/b")
    assert fs.cat_file(f"{folder}/b") == b"new" and not fs.exists(f"{folder}/a")


def test_a_store_that_is_there_is_not_made_again(tmp_path):
    thalweg.create(tmp_path / "store")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine").touch()
    for taken in ("store", "full"):
        with pytest.raises(FileExistsError, match=taken):
            thalweg.create(tmp_path / taken)
    with pytest.raises(OSError, match="lies in the store") as refused:
        thalweg.create(tmp_path / "store" / "inner")
    assert not isinstance(refused.value, FileExistsError)


def test_one_of_two_that_create_a_file_fails(fs, folder):
    first, second = (fs.open(f"{folder}/x", "xb") for _ in "12")
    for number, file in enumerate([first, second]):
        file.write(b"%d" % number)
    first.close()
    with pytest.raises(FileExistsError):
        second.close()
    assert fs.cat_file(f"{folder}/x") == b"0"


def test_in_a_transaction_a_file_that_is_written_already_is_not_appended_to(fs, folder):
    fs.pipe_file(f"{folder}/x", b"0")
    with fs.transaction:
        with fs.open(f"{folder}/x", "ab") as file:
            file.write(b"1")
        for mode in ("ab", "a"):
            with pytest.raises(OSError, match="in this transaction") as failed:
                fs.open(f"{folder}/x", mode)
            assert failed.value.errno == errno.EBUSY
        fs.pipe_file(f"{folder}/y", b"y")
    assert fs.cat_file(f"{folder}/x") == b"01" and fs.cat_file(f"{folder}/y") == b"y"


def test_each_version_has_its_own_time(fs, folder):
    before = time.time()
    for number in range(3):
        fs.pipe_file(f"{folder}/x", b"%d" % number)
        time.sleep(0.02)
    times = [version["mtime"] for version in fs.versions(f"{folder}/x")]
    assert before - 1 < times[0] < times[1] < times[2]
    assert fs.info(f"{folder}/x", version=1)["mtime"] == times[0] and fs.info(f"{folder}/x")["mtime"] == times[2]


def test_a_mode_of_other_letters_is_named(fs, folder):
    for mode in ("U", "zz"):
        with pytest.raises(ValueError, match="is none of rb"):
            fs.open(f"{folder}/x", mode)


def test_a_transaction_is_one_commit(fs, folder):
    with fs.transaction:
        for name in "ab":
            with fs.open(f"{folder}/{name}", "wb") as file:
                file.write(name.encode())
        fs.pipe_file(f"{folder}/c", b"c")
        assert not fs.exists(folder)
    commits = {fs.info(f"{folder}/{name}")["committed"] for name in "abc"}
    assert len(commits) == 1
    with pytest.raises(KeyError), fs.transaction:
        fs.pipe_file(f"{folder}/d", b"d")
        raise KeyError
    assert fs.ls(folder, detail=False) == [f"{folder}/{name}" for name in "abc"]
    # One name that cannot be given: none is.
    with pytest.raises(NotADirectoryError), fs.transaction:
        fs.pipe_file(f"{folder}/d", b"d")
        fs.pipe_file(f"{folder}/a/below", b"")
    assert not fs.exists(f"{folder}/d")


def test_many_files_are_piped_in_one_commit(fs, folder):
    fs.pipe({f"{folder}/{number}": b"%d" % number for number in range(300)})
    infos = fs.find(folder, detail=True).values()
    assert len(infos) == 300 and len({info["committed"] for info in infos}) == 1
    contents = fs.cat(folder, recursive=True)
    assert contents[f"{folder}/77"] == b"77" and len(contents) == 300


def test_ranges_are_slices_and_errors_are_kept_apart(fs, folder):
    content = os.urandom(300_000)
    fs.pipe_file(f"{folder}/x", content)
    slices = [(None, None), (10, 20), (-10, None), (5, -5), (20, 10), (299_999, 400_000), (500_000, 600_000)]
    for start, end in slices:
        assert fs.cat_file(f"{folder}/x", start, end) == content[start:end]
    paths = [f"{folder}/x"] * len(slices) + [f"{folder}/none", folder]
    starts, ends = zip(*slices, (0, 1), (0, 1))
    *found, missing, directory = fs.cat_ranges(paths, list(starts), list(ends))
    assert found == [content[start:end] for start, end in slices]
    assert isinstance(missing, FileNotFoundError) and isinstance(directory, IsADirectoryError)
    with pytest.raises(FileNotFoundError):
        fs.cat_ranges(paths, 0, 1, on_error="raise")


def test_errors_are_pythons_own(fs, folder):
    fs.pipe_file(f"{folder}/x", b"")
    fs.mkdir(f"{folder}/d/e")
    failures = [
        (FileNotFoundError, lambda: fs.open(f"{folder}/none")),
        (FileNotFoundError, lambda: fs.info(f"{folder}/none")),
        (FileNotFoundError, lambda: fs.ls(f"{folder}/none")),
        (FileNotFoundError, lambda: fs.rm(f"{folder}/none")),
        (FileNotFoundError, lambda: fs.mv(f"{folder}/none", f"{folder}/y")),
        (FileNotFoundError, lambda: fs.mkdir(f"{folder}/no/ne", create_parents=False)),
        (FileExistsError, lambda: fs.mkdir(f"{folder}/d")),
        (FileExistsError, lambda: fs.makedirs(f"{folder}/d")),
        (IsADirectoryError, lambda: fs.open(f"{folder}/d", "wb")),
        (IsADirectoryError, lambda: fs.cat_file(f"{folder}/d")),
        (IsADirectoryError, lambda: fs.rm(f"{folder}/d")),
        (NotADirectoryError, lambda: fs.pipe_file(f"{folder}/x/y", b"")),
        (NotADirectoryError, lambda: fs.rmdir(f"{folder}/x")),
        (ValueError, lambda: fs.info(f"{folder}/../x")),
        (ValueError, lambda: fs.open(f"{folder}/x", "q")),
    ]
    for kind, operation in failures:
        with pytest.raises(kind):
            operation()
    with pytest.raises(OSError) as failed:
        fs.rmdir(f"{folder}/d")
    assert failed.value.errno == errno.ENOTEMPTY
    with pytest.raises(FileNotFoundError, match="thalweg init"):
        thalweg.ThalwegFileSystem("/no/such/store").ls("")


def test_names_are_moved_copied_and_removed(fs, folder):
    fs.pipe({f"{folder}/a/{name}": name.encode() for name in ("1", "2", "sub/3")})
    fs.mv(f"{folder}/a", f"{folder}/b")
    assert fs.find(folder) == [f"{folder}/b/{name}" for name in ("1", "2", "sub/3")]
    fs.mv(f"{folder}/b/1", f"{folder}/b/sub/")
    fs.cp(f"{folder}/b", f"{folder}/c", recursive=True)
    assert fs.cat(f"{folder}/c/sub/1") == b"1"
    assert fs.ukey(f"{folder}/c/sub/1") == fs.ukey(f"{folder}/b/sub/1") != fs.ukey(f"{folder}/b/2")
    fs.rm([f"{folder}/b", f"{folder}/b/sub"], recursive=True)
    fs.rm(f"{folder}/c/sub/*")
    assert fs.find(folder, withdirs=True) == [folder, f"{folder}/c", f"{folder}/c/2", f"{folder}/c/sub"]
    fs.rmdir(f"{folder}/c/sub")
    assert fs.glob(f"{folder}/**") == [folder, f"{folder}/c", f"{folder}/c/2"]
    assert [names for _, *names in fs.walk(folder)] == [[["c"], []], [[], ["2"]]]


def test_names_may_be_any_bytes(fs, folder):
    path = f"{folder}/" + os.fsdecode(b"\xff \n*")
    fs.pipe_file(path, b"1")
    assert fs.ls(folder, detail=False) == [path] and fs.cat_file(path) == b"1"


def test_times_are_of_the_last_change_and_the_first_commit(fs, folder):
    path = f"{folder}/x"
    fs.touch(path)
    created = fs.created(path)
    assert abs(datetime.now(timezone.utc) - created) < timedelta(minutes=1)
    time.sleep(0.01)
    fs.pipe_file(path, b"1")
    modified = fs.modified(path)
    fs.touch(path, truncate=False)
    assert fs.cat_file(path) == b"1" and fs.created(path) == created < modified < fs.modified(path)


def test_checksums_tell_contents_apart(fs, folder):
    fs.pipe({f"{folder}/{name}": content for name, content in (("a", b"1"), ("b", b"1"), ("c", b"2"))})
    a, b, c = (fs.checksum(f"{folder}/{name}") for name in "abc")
    assert a == b != c


def test_files_come_and_go_through_local_ones(fs, folder, tmp_path):
    content = os.urandom(9_000_000)
    (tmp_path / "in").write_bytes(content)
    fs.put_file(str(tmp_path / "in"), f"{folder}/x")
    fs.get_file(f"{folder}/x", str(tmp_path / "out"))
    assert (tmp_path / "out").read_bytes() == content


async def _use(fs, folder):
    asynchronous = AsyncFileSystemWrapper(fs, asynchronous=True)
    await asynchronous._pipe_file(f"{folder}/x", b"0123")
    return await asynchronous._cat_ranges([f"{folder}/x"] * 2, [0, 2], [2, 4])


def test_asynchronous_users_get_it_through_the_wrapper(fs, folder):
    import asyncio

    assert asyncio.run(_use(fs, folder)) == [b"01", b"23"]


def test_other_writers_are_seen_at_once(fs, store, folder):
    from thalweg._thalweg import Store

    other = Store(os.fsencode(store))
    assert not fs.exists(f"{folder}/x")
    writer = other.writer()
    writer.write(b"theirs")
    other.commit_drafts([(os.fsencode(f"{folder}/x"), (0o600, 1, 2, 3), "create", writer.finish())])
    assert fs.cat_file(f"{folder}/x") == b"theirs"
    assert fs.info(f"{folder}/x")["mode"] == 0o600
    other.close()


def test_what_the_command_put_is_read_links_included(fs, store, folder, tmp_path):
    tree = tmp_path / "tree"
    (tree / "sub").mkdir(parents=True)
    (tree / "sub" / "file").write_bytes(b"content")
    os.utime(tree / "sub" / "file", (1, 10**9))
    for name, target in (
        ("near", "sub/file"),
        ("twice", "near"),
        ("far", "/etc/passwd"),
        ("loop", "loop"),
        ("up", ".."),
    ):
        (tree / name).symlink_to(target)
    subprocess.run([COMMAND, "--quiet", "put", tree, f"{store}::{folder}"], check=True)
    assert fs.info(f"{folder}/twice")["destination"] == "near" and fs.info(f"{folder}/twice")["type"] == "link"
    assert fs.cat([f"{folder}/near", f"{folder}/twice"]) == dict.fromkeys(
        [f"{folder}/near", f"{folder}/twice"], b"content"
    )
    assert fs.modified(f"{folder}/sub/file").timestamp() == 10**9
    for name, kind in (("far", FileNotFoundError), ("loop", OSError), ("up", IsADirectoryError)):
        with pytest.raises(kind):
            fs.open(f"{folder}/{name}")
    fs.pipe_file(f"{folder}/sub/mine", b"back")
    subprocess.run([COMMAND, "--quiet", "get", f"{store}::{folder}/sub/mine", tmp_path / "mine"], check=True)
    assert (tmp_path / "mine").read_bytes() == b"back"


def test_the_package_is_typed():
    assert os.path.exists(os.path.join(os.path.dirname(thalweg.__file__), "py.typed"))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert fsspec.get_filesystem_class("thalweg") is thalweg.ThalwegFileSystem
