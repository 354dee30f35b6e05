"""A file is not stored whose function an exception has left, however late it is collected; others are.

SPDX-License-Identifier: Apache-2.0
"""

import bz2
import contextlib
import csv
import gc
import gzip
import io
import json
import lzma
import sys
import threading
import zipfile

import pandas as pd
import pytest

BAD = [1, object()]


class Unwritable:
    def __str__(self):
        raise TypeError("it cannot be written")


FRAME = pd.DataFrame({"a": ["x"] * 1000 + [Unwritable()]})


def zip_member(file):
    archive = zipfile.ZipFile(file, "w")
    archive.writestr("first", "1" * 1000)
    archive.writestr("second", BAD)


def compress(file):
    compressed = gzip.GzipFile(fileobj=file, mode="wb")
    compressed.write(b"1" * 1000)
    json.dump(BAD, io.TextIOWrapper(compressed))


def write_rows(file):
    rows = csv.writer(file)
    rows.writerow([1, 2])
    rows.writerow([Unwritable()])


def nest(depth, file):
    json.dump(BAD, file) if depth == 0 else nest(depth - 1, file)


WRITERS = {
    "json": ("w", lambda file: json.dump(BAD, file)),
    "json, far below": ("w", lambda file: nest(30, file)),
    "json, nested": ("w", lambda file: json.dump(json.loads("[" * 300 + "]" * 300) + BAD, file)),
    "to_csv": ("w", lambda file: FRAME.to_csv(file, chunksize=10)),
    "to_csv, bytes": ("wb", lambda file: FRAME.to_csv(file, chunksize=10)),
    "text": ("wb", lambda file: json.dump(BAD, io.TextIOWrapper(file))),
    "buffered": ("wb", lambda file: json.dump(BAD, io.TextIOWrapper(io.BufferedWriter(file)))),
    "gzip": ("wb", compress),
    "zip": ("wb", zip_member),
    "csv": ("w", write_rows),
    "scratch": ("w+", lambda file: json.dump(BAD, file)),
}


@pytest.fixture(params=WRITERS)
def raise_in_writer(request, fs, folder):
    mode, write = WRITERS[request.param]

    def raise_in_writer():
        write(fs.open(f"{folder}/x", mode))

    return raise_in_writer


@pytest.fixture
def is_stored(fs, folder):
    def is_stored():
        gc.collect()
        return fs.exists(f"{folder}/x")

    return is_stored


def test_one_that_was_handled(raise_in_writer, is_stored):
    try:
        raise_in_writer()
    except TypeError:
        pass
    assert not is_stored()


def test_one_that_was_suppressed(raise_in_writer, is_stored):
    with contextlib.suppress(TypeError):
        raise_in_writer()
    assert not is_stored()


def test_one_that_is_kept_and_replaced_later_as_notebooks_do(raise_in_writer, is_stored):
    try:
        raise_in_writer()
    except TypeError as error:
        kept = [error]
    assert not is_stored()
    kept.clear()
    assert not is_stored()


def test_one_that_ends_a_thread(raise_in_writer, is_stored, monkeypatch):
    monkeypatch.setattr(threading, "excepthook", lambda arguments: None)
    thread = threading.Thread(target=raise_in_writer)
    thread.start()
    thread.join()
    assert not is_stored()


def test_what_is_collected_while_another_exception_is_handled_is_stored(fs, folder, is_stored):
    try:
        raise KeyError
    except KeyError:
        json.dump([1], fs.open(f"{folder}/x", "w"))
        io.TextIOWrapper(fs.open(f"{folder}/y", "wb")).write("text")
    assert is_stored() and fs.cat_file(f"{folder}/y") == b"text"


def test_what_a_function_has_that_ends_well_is_stored(fs, folder, is_stored):
    def write():
        file = fs.open(f"{folder}/x", "w")
        with contextlib.suppress(KeyError):
            raise KeyError
        file.write("text")
        return sys._getframe().f_code

    assert write() is not None and is_stored()


def test_a_file_that_a_handler_closes_is_stored(fs, folder, is_stored):
    file = fs.open(f"{folder}/x", "w")
    try:
        json.dump(BAD, file)
    except TypeError:
        file.close()
    assert is_stored()


WRAPPERS = {
    "gzip": lambda file: gzip.open(file, "wb"),
    "bz2": lambda file: bz2.open(file, "wb"),
    "lzma": lambda file: lzma.open(file, "wb"),
    "text in gzip": lambda file: gzip.open(file, "wt"),
    "zip": lambda file: zipfile.ZipFile(file, "w"),
    "buffered": io.BufferedWriter,
    "text": io.TextIOWrapper,
    "closing": contextlib.closing,
}


def fill(wrapped):
    if isinstance(wrapped, zipfile.ZipFile):
        wrapped.writestr("first", "1" * 1000)
    else:
        wrapped.write("1" if isinstance(wrapped, io.TextIOWrapper) else b"1")


@pytest.fixture(params=WRAPPERS)
def wrapper(request):
    return WRAPPERS[request.param]


def test_a_block_of_what_wraps_a_file_left_by_an_exception(fs, folder, wrapper, is_stored):
    with pytest.raises(ValueError), wrapper(fs.open(f"{folder}/x", "wb")) as wrapped:
        fill(wrapped)
        raise ValueError
    assert not is_stored()


def test_a_block_within_another_that_is_left(fs, folder, wrapper, is_stored):
    with contextlib.suppress(ValueError), contextlib.ExitStack() as stack:
        fill(stack.enter_context(wrapper(fs.open(f"{folder}/x", "wb"))))
        raise ValueError
    assert not is_stored()


class Report:
    """Writes a file when its block raises."""

    def __init__(self, make):
        self.make = make

    def __enter__(self):
        return self

    def __exit__(self, kind, value, traceback):
        with self.make() as made:
            fill(made)
        return True


def test_a_file_made_while_a_block_is_left_is_stored(fs, folder, wrapper, is_stored):
    with Report(lambda: wrapper(fs.open(f"{folder}/x", "wb"))):
        raise ValueError
    assert is_stored()


def test_a_file_that_the_program_itself_closes_when_a_block_is_left_is_stored(fs, folder, is_stored):
    @contextlib.contextmanager
    def as_far_as_it_goes():
        file = fs.open(f"{folder}/x", "wb")
        with contextlib.suppress(ValueError):
            yield file
        file.close()

    with as_far_as_it_goes() as file:
        file.write(b"1")
        raise ValueError
    assert is_stored()
