"""Errors of a store have the code that `thalweg explain` explains. SPDX-License-Identifier: Apache-2.0"""

import pickle

import pytest

import thalweg


@pytest.fixture
def fs(tmp_path):
    thalweg.create(tmp_path / "store")
    return thalweg.ThalwegFileSystem(tmp_path / "store")


def code_of(error):
    """The attribute, which the message ends with."""
    assert str(error).rstrip("'\")").endswith(f" [{error.code}]"), error
    return error.code


def test_exceptions_have_the_code_of_their_cause(fs, tmp_path):
    fs.pipe_file("file", b"content")
    with pytest.raises(NotADirectoryError) as caught:
        fs.pipe_file("file/below", b"")
    assert code_of(caught.value) == "TW-205"
    with pytest.raises(FileNotFoundError) as caught:
        thalweg.ThalwegFileSystem(tmp_path / "nothing").ls("")
    assert code_of(caught.value) == "TW-301"
    with pytest.raises(FileExistsError) as caught:
        thalweg.create(tmp_path / "store")
    assert code_of(caught.value) == "TW-302"


def test_paths_that_python_looks_up_itself_have_codes_too(fs):
    fs.pipe_file("folder/file", b"content")
    for call, code in [
        (lambda: fs.info("nothing"), "TW-203"),
        (lambda: fs.cat_file("folder"), "TW-204"),
        (lambda: fs.rmdir("folder/file"), "TW-205"),
        (lambda: fs.mkdir("folder"), "TW-207"),
        (lambda: fs.open("folder/file", version=99), "TW-208"),
        (lambda: fs.open("folder/file", "xb"), "TW-207"),
    ]:
        with pytest.raises(OSError) as caught:
            call()
        assert caught.value.code == code and f"[{code}]" in str(caught.value)
        assert pickle.loads(pickle.dumps(caught.value)).code == code


@pytest.mark.parametrize("name", [".thalweg-recipes/0123456789abcdef", ".thalweg-snapshots/01234567"])
def test_nothing_is_written_over_the_stores_own_files(name, fs):
    fs.pipe_file("file", b"content")

    def in_transaction():
        with fs.transaction:
            fs.pipe_file(name, b"x")

    for call in [
        lambda: fs.pipe_file(name, b"x"),
        lambda: fs.open(name, "xb").close(),
        lambda: fs.open(name, "ab").close(),
        lambda: fs.open(name, "w+b").close(),
        lambda: fs.cp_file("file", name),
        lambda: fs.mv("file", name),
        in_transaction,
    ]:
        with pytest.raises(OSError, match="for its own files") as caught:
            call()
        assert code_of(caught.value) == "TW-202"
    assert fs.cat_file("file") == b"content" and not fs.exists(name)


def test_a_wrong_word_has_a_code_too():
    with pytest.raises(ValueError) as caught:
        thalweg._thalweg.check_codec("none of them")
    assert code_of(caught.value) == "TW-807"


def test_the_code_travels_with_the_exception(tmp_path):
    with pytest.raises(OSError) as caught:
        thalweg.ThalwegFileSystem(tmp_path / "nothing").ls("")
    again = pickle.loads(pickle.dumps(caught.value))
    assert (again.code, again.errno, str(again)) == (caught.value.code, caught.value.errno, str(caught.value))
