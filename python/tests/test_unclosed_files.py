"""A file that is closed or collected is stored; one whose `with` block raises is not. SPDX-License-Identifier: Apache-2.0"""

import concurrent.futures
import gc
import io
import os
import pickle
import subprocess
import sys
import threading
import zipfile

import fsspec
import numpy as np
import pytest

import thalweg
import thalweg.connections

COMPRESSIONS = [None, "gzip", "bz2", "xz"]
LINES = "Ängström\n" * 10_000


class Holder:
    """Holds a file in a cycle of garbage."""

    def __init__(self, file):
        self.file, self.itself = file, self


@pytest.mark.parametrize("compression", COMPRESSIONS)
def test_a_compressed_file_is_stored_when_its_block_ends(fs, folder, compression):
    with fs.open(f"{folder}/x", "wb", compression=compression) as file:
        file.write(b"content")
    with fs.open(f"{folder}/t", "w", compression=compression, encoding="latin-1", newline="\r\n") as file:
        file.write(LINES)
    assert fs.open(f"{folder}/x", "rb", compression=compression).read() == b"content"
    expected = LINES.replace("\n", "\r\n").encode("latin-1")
    assert fs.open(f"{folder}/t", "rb", compression=compression).read() == expected


def test_an_ending_names_the_compression(fs, folder):
    with fs.open(f"{folder}/x.gz", "w", compression="infer") as file:
        file.write(LINES)
    assert fs.cat_file(f"{folder}/x.gz")[:2] == b"\x1f\x8b"
    assert fs.open(f"{folder}/x.gz", "r", compression="infer").read() == LINES
    with pytest.raises(ValueError, match="both"):
        fs.open(f"{folder}/x.gz", "r+b", compression="gzip")


def test_what_others_leave_open_is_stored(fs, folder):
    pickle.dump([1, 2], fs.open(f"{folder}/pickle", "wb"))
    assert pickle.load(fs.open(f"{folder}/pickle")) == [1, 2]
    np.save(fs.open(f"{folder}/array.npy", "wb"), np.arange(1000))
    assert np.load(fs.open(f"{folder}/array.npy")).sum() == 499_500
    archive = zipfile.ZipFile(fs.open(f"{folder}/a.zip", "wb"), "w")
    archive.writestr("member", "content")
    del archive
    assert zipfile.ZipFile(fs.open(f"{folder}/a.zip")).read("member") == b"content"
    print("line", file=fs.open(f"{folder}/text", "w"))
    assert fs.cat_file(f"{folder}/text") == b"line\n"
    fs.open(f"{folder}/both", "w+b").write(b"content")
    assert fs.cat_file(f"{folder}/both") == b"content"
    fs.open(f"{folder}/empty", "wb")
    assert fs.size(f"{folder}/empty") == 0


def possible(*modes):
    """With each compression; what is compressed is either read or written."""
    return [(mode, one) for mode in modes for one in COMPRESSIONS if not ("+" in mode and one)]


@pytest.mark.parametrize(("mode", "compression"), possible("wb", "w", "w+b", "xb"))
def test_a_file_in_a_cycle_of_garbage_is_stored_whole(fs, folder, mode, compression):
    content = LINES if mode == "w" else LINES.encode()
    holder = Holder(fs.open(f"{folder}/x", mode, compression=compression))
    holder.file.write(content)
    wrapped = Holder(io.BufferedWriter(fs.open(f"{folder}/y", "wb")))
    wrapped.file.write(b"buffered")
    zipped = Holder(zipfile.ZipFile(fs.open(f"{folder}/z", "wb"), "w"))
    zipped.file.writestr("member", "content")
    del holder, wrapped, zipped
    gc.collect()
    assert fs.open(f"{folder}/x", "rb", compression=compression).read() == LINES.encode()
    assert fs.cat_file(f"{folder}/y") == b"buffered"
    assert zipfile.ZipFile(fs.open(f"{folder}/z")).read("member") == b"content"


def test_a_file_that_is_only_collected_says_so(fs, folder):
    with pytest.warns(ResourceWarning, match="never closed"):
        fs.open(f"{folder}/x", "wb").write(b"1")
    assert fs.cat_file(f"{folder}/x") == b"1"


@pytest.mark.parametrize(("mode", "compression"), possible("w", "wb", "w+", "r+b", "x", "ab"))
def test_a_block_that_raises_stores_nothing(fs, folder, mode, compression):
    if "x" not in mode:
        fs.pipe_file(f"{folder}/x", b"before")
    with pytest.raises(KeyError), fs.open(f"{folder}/x", mode, compression=compression) as file:
        file.write(b"half" if "b" in mode else "half")
        raise KeyError
    assert file.closed
    assert not fs.exists(f"{folder}/x") if "x" in mode else fs.cat_file(f"{folder}/x") == b"before"


@pytest.mark.parametrize("compression", COMPRESSIONS)
@pytest.mark.parametrize("mode", ["w", "wb"])
def test_a_block_of_fsspec_that_raises_stores_nothing(fs, folder, place, mode, compression):
    with pytest.raises(KeyError), fsspec.open(f"{place}/x", mode, compression=compression) as file:
        file.write(b"half" if "b" in mode else "half")
        raise KeyError
    assert not fs.exists(f"{folder}/x")
    # Not every file that is closed while an exception is handled has failed.
    try:
        raise KeyError
    except KeyError:
        with fsspec.open(f"{place}/log", mode, compression=compression) as file:
            file.write(b"it failed" if "b" in mode else "it failed")
    assert fs.open(f"{folder}/log", "rb", compression=compression).read() == b"it failed"


def test_a_call_that_raises_with_its_file_stores_nothing(fs, folder):
    fs.pipe_file(f"{folder}/x", b"before")
    with pytest.raises((pickle.PicklingError, AttributeError, TypeError)):
        pickle.dump([b"half" * 100_000, lambda: 0], fs.open(f"{folder}/x", "wb"))
    assert fs.cat_file(f"{folder}/x") == b"before"


def test_a_file_that_cannot_be_text_is_left_as_it_was(fs, folder):
    fs.pipe_file(f"{folder}/x", b"before")
    with pytest.raises(LookupError):
        fs.open(f"{folder}/x", "w", encoding="no such encoding")
    gc.collect()
    assert fs.cat_file(f"{folder}/x") == b"before"


def test_threads_write_one_file(fs, folder):
    with fs.open(f"{folder}/x", "wb") as file, concurrent.futures.ThreadPoolExecutor(8) as threads:
        list(threads.map(lambda number: file.write(b"%09d\n" % number * 1000), range(100)))
    assert sorted(fs.read_text(f"{folder}/x").split()) == sorted(
        f"{number:09}" for number in range(100) for _ in range(1000)
    )


def test_a_transaction_has_what_was_collected_and_not_what_failed(fs, folder):
    with fs.transaction:
        pickle.dump(1, fs.open(f"{folder}/a", "wb"))
        with fs.open(f"{folder}/b.gz", "w", compression="infer") as file:
            file.write("b")
        with pytest.raises(KeyError), fs.open(f"{folder}/c", "w") as file:
            raise KeyError
        fs.open(f"{folder}/d", "w+b").write(b"d")
        assert not fs.exists(folder)
    assert fs.find(folder) == [f"{folder}/a", f"{folder}/b.gz", f"{folder}/d"]
    assert len({info["committed"] for info in fs.find(folder, detail=True).values()}) == 1
    with pytest.raises(ValueError, match="not closed"), fs.transaction:
        left_open = fs.open(f"{folder}/e", "wb")
    assert left_open.closed and not fs.exists(f"{folder}/e")


def test_a_failure_of_what_is_collected_is_printed(fs, folder, monkeypatch):
    printed = []
    monkeypatch.setattr(sys, "unraisablehook", printed.append)
    first, second = fs.open(f"{folder}/x", "xb"), fs.open(f"{folder}/x", "xb")
    first.close()
    del second
    assert [one.exc_type for one in printed] == [FileExistsError]


AT_EXIT = """
import gzip, sys, thalweg
fs = thalweg.ThalwegFileSystem(sys.argv[1])
class Cycle: pass
cycle = Cycle(); cycle.itself = cycle
cycle.file = fs.open("cycle", "w", compression="gzip"); cycle.file.write("1" * 1000)
bytes_file = fs.open("bytes", "wb"); bytes_file.write(b"2" * 1000)
text = fs.open("text", "w"); text.write("3" * 1000)
both = fs.open("both", "w+b"); both.write(b"4" * 1000)
if sys.argv[2] == "raise":
    1 / 0
sys.exit(int(sys.argv[2]))
"""


@pytest.mark.parametrize("ending", ["0", "3", "raise"])
def test_files_open_at_the_end_of_the_program(tmp_path, ending):
    thalweg.create(tmp_path / "store")
    done = subprocess.run([sys.executable, "-c", AT_EXIT, tmp_path / "store", ending], capture_output=True, text=True)
    fs = thalweg.ThalwegFileSystem(tmp_path / "store")
    if ending == "raise":
        assert done.returncode == 1 and fs.find("") == []
    else:
        assert done.returncode == int(ending) and done.stderr == ""
        assert fs.open("cycle", "r", compression="gzip").read() == "1" * 1000
        assert fs.cat(["bytes", "text", "both"]) == {"bytes": b"2" * 1000, "text": b"3" * 1000, "both": b"4" * 1000}


def test_a_forked_child_stores_nothing_of_its_parents(fs, folder):
    file = fs.open(f"{folder}/x", "wb")
    file.write(b"parent")
    child = os.fork()
    if child == 0:
        try:
            del file
            gc.collect()
        finally:
            os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    assert not fs.exists(f"{folder}/x")
    file.close()
    assert fs.cat_file(f"{folder}/x") == b"parent"


def test_a_file_may_be_collected_in_the_midst_of_looking_for_its_store(fs, folder, monkeypatch):
    look = thalweg.connections._settings_of

    def look_and_collect(location):
        gc.collect()
        return look(location)

    holder = Holder(fs.open(f"{folder}/x", "wb"))
    holder.file.write(b"content")
    del holder
    monkeypatch.setattr("thalweg.connections._settings_of", look_and_collect)
    asking = threading.Thread(target=fs.exists, args=(f"{folder}/y",), daemon=True)
    asking.start()
    asking.join(20)
    assert not asking.is_alive() and fs.cat_file(f"{folder}/x") == b"content"


def test_stores_are_used_while_another_one_is_opened(fs, folder, monkeypatch, tmp_path):
    thalweg.create(str(tmp_path / "other"))
    is_opening, may_open = threading.Event(), threading.Event()
    open_store = thalweg.connections.Store

    def open_slowly(*arguments):
        is_opening.set()
        may_open.wait(30)
        return open_store(*arguments)

    fs.exists(folder)
    monkeypatch.setattr("thalweg.connections.Store", open_slowly)
    other = thalweg.ThalwegFileSystem(str(tmp_path / "other"))
    opening = threading.Thread(target=other.exists, args=("x",), daemon=True)
    opening.start()
    assert is_opening.wait(30)
    asking = threading.Thread(target=fs.exists, args=(f"{folder}/y",), daemon=True)
    asking.start()
    asking.join(10)
    was_held_up = asking.is_alive()
    may_open.set()
    opening.join(30)
    assert not was_held_up
