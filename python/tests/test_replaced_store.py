"""A store that is removed, and another that is made in its place, in one process. SPDX-License-Identifier: Apache-2.0"""

import errno
import shutil
import tempfile

import pytest
from conftest import Node

import thalweg
from thalweg._thalweg import Store
from thalweg.connections import close_all


@pytest.fixture
def place(tmp_path):
    thalweg.create(tmp_path / "store")
    return tmp_path / "store"


def remove(place):
    # First out of the way, to a place of its own: threads that are writing in it stay in it, wherever it is, and may keep
    # some of it there. None makes anything at the old place.
    away = tempfile.mkdtemp(dir=place.parent)
    place.rename(away)
    shutil.rmtree(away, ignore_errors=True)


def make_again(place):
    remove(place)
    thalweg.create(place)


def what_others_see(place, path):
    """By a store of its own, as another process would."""
    store = Store(bytes(place))
    try:
        return store.entry(path)
    finally:
        store.close()


def test_a_store_made_again_is_the_one_that_is_written(place):
    fs = thalweg.ThalwegFileSystem(place)
    for round in range(3):
        fs.pipe_file(f"x{round}", b"content")
        assert fs.find("") == [f"x{round}"]
        assert what_others_see(place, b"x%d" % round) is not None
        make_again(place)
    assert fs.find("") == []


def test_a_store_that_is_removed_is_missing(place):
    fs = thalweg.ThalwegFileSystem(place)
    fs.pipe_file("x", b"content")
    remove(place)
    for operation in (lambda: fs.pipe_file("y", b""), lambda: fs.find(""), lambda: fs.cat_file("x")):
        with pytest.raises(FileNotFoundError, match="thalweg init"):
            operation()
    thalweg.create(place)
    assert fs.find("") == []


def test_files_of_a_removed_store_say_so(place):
    fs = thalweg.ThalwegFileSystem(place)
    fs.pipe_file("x", b"content" * 100_000)
    reading, writing, both = fs.open("x", block_size=1000), fs.open("y", "wb"), fs.open("z", "w+b")
    writing.write(b"content" * 100_000)
    both.write(b"content")
    assert reading.read(1) == b"c"
    make_again(place)
    fs.pipe_file("x", b"other")
    with pytest.raises(OSError) as failed:
        writing.close()
    assert failed.value.errno == errno.ESTALE
    with pytest.raises(OSError) as failed:
        reading.seek(300_000)
        reading.read(1)
    assert failed.value.errno == errno.ESTALE
    # Nothing of this one is in the store before it is closed.
    both.close()
    assert fs.find("") == ["x", "z"] and fs.cat_file("z") == b"content"


def test_a_transaction_over_two_stores_fails(place):
    fs = thalweg.ThalwegFileSystem(place)
    with pytest.raises(OSError) as failed, fs.transaction:
        fs.pipe_file("x", b"first")
        make_again(place)
        fs.pipe_file("y", b"second")
    assert failed.value.errno == errno.ESTALE and fs.find("") == []


def test_another_store_at_the_address_of_a_node_is_begun_with_after_one_error(tmp_path):
    for name in ("first", "second"):
        thalweg.create(tmp_path / name)
    node = Node(str(tmp_path / "first"))
    fs = thalweg.ThalwegFileSystem(node.address)
    fs.pipe_file("x", b"content")
    reading, writing = fs.open("x", block_size=5), fs.open("y", "wb")
    writing.write(b"content" * 100_000)
    node.stop()
    node = Node(str(tmp_path / "second"), node.address)
    try:
        with pytest.raises(OSError, match="another store is served") as failed:
            fs.find("")
        assert failed.value.errno == errno.ESTALE
        assert fs.find("") == []
        fs.pipe_file("z", b"content")
        assert fs.find("") == ["z"]
        for file, operation in [(reading, reading.read), (writing, writing.close)]:
            with pytest.raises(OSError) as failed:
                operation()
            assert failed.value.errno == errno.ESTALE, file
    finally:
        close_all()
        node.stop()
