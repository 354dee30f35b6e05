"""Which calls a run that is started again skips, and which it must not. SPDX-License-Identifier: Apache-2.0"""

import os
import subprocess
import sys
import textwrap
from functools import partial

import pytest
from diffusion_tasks import append, content, write

from thalweg.diffusion import Diffusion, File, Output


class Scale:
    def __init__(self, factor):
        self.factor = factor

    def times(self, number):
        return self.factor * number

    def plus(self, number):
        return self.factor + number


def add(first, second):
    return first + second


@pytest.fixture
def again(tmp_path):
    """One call in a start of its own: its value, and whether it ran."""

    def again(function, *arguments):
        with Diffusion(workers=1, cache_folder=tmp_path / "cache", run_folder=tmp_path / "run") as run:
            (result,) = run.map(function, [arguments])
            return result.value, result.attempts > 0

    return again


def test_functions_are_told_apart_by_what_they_captured(again):
    assert again(partial(add, 1), 5) == (6, True)
    assert again(partial(add, 2), 5) == (7, True)
    assert again(lambda number: number + 1, 5) == (6, True)
    assert again(lambda number: number * 7, 5) == (35, True)
    assert again(Scale(3).times, 5) == (15, True)
    assert again(Scale(3).plus, 5) == (8, True)
    assert again(Scale(4).plus, 5) == (9, True)
    for factor in (10, 20):
        assert again(lambda number: factor * number, 5) == (5 * factor, True)
    # And each of them is known now.
    assert again(partial(add, 1), 5) == (6, False)
    assert again(lambda number: number * 7, 5) == (35, False)
    assert again(Scale(3).plus, 5) == (8, False)


SCRIPT = """
import collections, sys
from thalweg.diffusion import Diffusion
FACTOR = {factor}
def helper(number):
    return {body}
def task(number, words, **options):
    return helper(number) * FACTOR
with Diffusion(workers=1, cache_folder=sys.argv[1], run_folder=sys.argv[2]) as run:
    words = {{"one", "two", "three", "four", "five"}}
    call = dict(mapping=collections.OrderedDict(a=frozenset(words)), names=["".join(["o", "ne"]), "one"])
    (result,) = run.map(task, [(3, words)], **call)
    print(result.value, result.attempts)
"""


def test_code_and_globals_count_across_processes_and_the_place_in_the_file_does_not(tmp_path):
    def started(factor, body, before=""):
        script = tmp_path / "script.py"
        script.write_text(before + textwrap.dedent(SCRIPT.format(factor=factor, body=body)))
        command = [sys.executable, script, tmp_path / "cache", tmp_path / "run"]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
        ran = subprocess.run(command, capture_output=True, text=True, env=environment)
        assert ran.returncode == 0, ran.stderr
        return tuple(map(int, ran.stdout.split()))

    assert started(2, "number + 1") == (8, 1)
    for _ in range(3):
        assert started(2, "number + 1", "# moved\n\n") == (8, 0)
    assert started(5, "number + 1") == (20, 1)
    assert started(2, "number + 2") == (10, 1)


def test_a_changed_input_and_a_missing_output_are_seen(again, tmp_path):
    source, middle, end = (tmp_path / name for name in ("source", "middle", "end"))
    source.write_text("first")
    assert again(content, File(source)) == (b"first", True)
    assert again(content, File(source)) == (b"first", False)
    source.write_text("second!")
    assert again(content, File(source)) == (b"second!", True)

    def chain():
        with Diffusion(workers=1, cache_folder=tmp_path / "cache", run_folder=tmp_path / "chain") as run:
            (first,) = run.map(append, [(File(source), "+", Output(middle))])
            (second,) = run.map(append, [(File(middle), "+", Output(end))])
            assert first.error is None and second.error is None
            return first.attempts, second.attempts

    assert chain() == (1, 1) and end.read_text() == "second!++"
    assert chain() == (0, 0)
    end.unlink()
    assert chain() == (0, 1) and end.read_text() == "second!++"
    middle.unlink()
    assert chain() == (1, 1)
    source.write_text("third")
    assert chain() == (1, 1) and end.read_text() == "third++"
    end.write_text("by another hand")
    assert chain() == (0, 1) and end.read_text() == "third++"


def test_a_task_whose_input_this_start_writes_anew_runs_again(tmp_path):
    middle, end = tmp_path / "middle", tmp_path / "end"

    def started(text):
        with Diffusion(workers=1, cache_folder=tmp_path / "cache", run_folder=tmp_path / "run") as run:
            run.submit(write, text, Output(middle))
            run.submit(append, File(middle), "+", Output(end))

    started("one")
    started("two")
    assert end.read_text() == "two+"
