"""Which calls a run that is started again skips, and which it must not. SPDX-License-Identifier: Apache-2.0"""

import functools
import importlib
import os
import subprocess
import sys
import textwrap
from functools import partial

import pytest
from diffusion_tasks import append, content, write
from distributed import LocalCluster

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


def test_functions_that_captured_other_values_are_others(again):
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


class Adder:
    """Has no name of its own."""

    def __init__(self, more):
        self.more = more

    def __call__(self, number):
        return number + self.more


def test_objects_that_can_be_called_are_known_by_their_class_and_state(again):
    assert again(Adder(1), 5) == (6, True)
    assert again(Adder(2), 5) == (7, True)
    assert again(partial(Adder(1)), 5) == (6, True)
    assert again(functools.lru_cache(Adder(3)), 5) == (8, True)
    assert again(Adder(1), 5) == (6, False)
    assert again(partial(Adder(1)), 5) == (6, False)
    assert again(functools.lru_cache(Adder(3)), 5) == (8, False)


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


MODULE_SCRIPT = """
import sys
import mymod
from thalweg.diffusion import Diffusion
{script}
with Diffusion(workers=1, cache_folder=sys.argv[1], run_folder=sys.argv[2]) as run:
    (result,) = run.map({function}, [{argument}])
    print(result.value, result.attempts)
"""
KEEPS_DATA = (
    "import functools, enum, collections, logging, threading\nlog = logging.getLogger()\nlock = threading.Lock()\n"
)


@pytest.mark.parametrize(
    ("module", "other", "script", "function", "argument"),
    [
        ("def g(x): return x * {n}", "", "def f(x): return mymod.g(x)", "f", "3"),
        ("def g(x):\n with lock: log.debug(1)\n return x * {n}", "", "f = mymod.g", "f", "3"),
        ("K = {{'a': {n}}}\ndef g(x): return K['a'] * x", "", "", "mymod.g", "3"),
        ("import numpy as np\nK = np.array([{n}])\ndef g(x): return int(K[0] * x)", "", "", "mymod.g", "3"),
        ("import othermod\ndef g(x): return othermod.h(x)", "def h(x): return x * {n}", "", "mymod.g", "3"),
        ("from othermod import h\ndef g(x): return h(x)", "def h(x): return x * {n}", "", "mymod.g", "3"),
        ("from othermod import K\ndef g(x): return K[0] * x", "K = [{n}]", "", "mymod.g", "3"),
        ("class A:\n def h(self, x): return x * {n}", "", "", "mymod.A().h", "3"),
        ("class A:\n K = {{'a': {n}}}\ndef g(x): return A().K['a'] * x", "", "", "mymod.g", "3"),
        ("class A:\n class B:\n  K = ({n},)\ndef g(x): return A.B.K[0] * x", "", "", "mymod.g", "3"),
        ("class E(enum.Enum):\n A = {n}", "", "def f(e): return e.value * 3", "f", "mymod.E.A"),
        ("class A:\n def v(self): return 3 * {n}", "", "def f(a): return a.v()", "f", "mymod.A()"),
        ("class A:\n def h(self, k, x): return k * x\n g = functools.partialmethod(h, {n})", "", "", "mymod.A().g", "3"),
        ("class A:\n @functools.cached_property\n def k(self): return {n}\ndef g(x): return A().k * x", "", "", "mymod.g", "3"),
        ("@functools.lru_cache\ndef h(x): return x * {n}\ndef g(x): return h(x)", "", "", "mymod.g", "3"),
        ("OPS = {{'a': lambda x: x * {n}}}\ndef g(x): return OPS['a'](x)", "", "", "mymod.g", "3"),
        ("def g(x): return x * {n}", "", "def f(x):\n    import mymod\n    return mymod.g(x)", "f", "3"),
        ("", "", "class A:\n    K = {{'a': {n}}}\ndef f(x): return A().K['a'] * x", "f", "3"),
        ("", "", "import enum\nclass E(enum.Enum):\n    A = {n}\ndef f(x): return E.A.value * x", "f", "3"),
    ],
)  # fmt: skip
def test_code_and_data_of_the_users_modules_count(tmp_path, module, other, script, function, argument):
    def started(number):
        (tmp_path / "mymod.py").write_text(KEEPS_DATA + module.format(n=number))
        (tmp_path / "othermod.py").write_text(other.format(n=number))
        filled = MODULE_SCRIPT.format(script=script.format(n=number), function=function, argument=argument)
        (tmp_path / "script.py").write_text(filled)
        command = [sys.executable, tmp_path / "script.py", tmp_path / "cache", tmp_path / "run"]
        ran = subprocess.run(command, capture_output=True, text=True)
        assert ran.stderr == ""
        return ran.stdout

    assert started(1) == "3 1\n"
    assert started(1) == "3 0\n"
    assert started(2) == "6 1\n"
    assert started(2) == "6 0\n"


@pytest.fixture
def edit(tmp_path, monkeypatch):
    """Gives a module that `edit` writes anew and reloads."""
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    module = tmp_path / "edited_module.py"

    def edit(line):
        module.write_text(f"{line}\nMEMO = {{}}\ndef f(x):\n    MEMO[x] = x\n    return g(x)\n")
        importlib.invalidate_caches()
        found = sys.modules.get("edited_module")
        return importlib.import_module("edited_module") if found is None else importlib.reload(found)

    yield edit
    del sys.modules["edited_module"]


@pytest.mark.parametrize("is_journaled", [False, True])
def test_a_module_that_is_reloaded_is_imported_anew_by_processes_for_tasks(tmp_path, edit, caplog, is_journaled):
    folders = {"cache_folder": tmp_path / "cache", "run_folder": tmp_path / "run" if is_journaled else None}
    with Diffusion(workers=1, **folders) as run:
        edited = edit("def g(x): return x, 'first'")
        assert run.submit(edited.f, 3).result() == (3, "first")
        # Data that tasks have changed since is no other code.
        pid = run.submit(os.getpid).result()
        assert run.submit(edited.f, 4).result() == (4, "first") and run.submit(os.getpid).result() == pid
        if not is_journaled:
            # Nor is what this process has.
            assert edited.f(5) == (5, "first")
            assert run.submit(partial(edited.f), 4).result() == (4, "first") and run.submit(os.getpid).result() == pid
        edited = edit("def g(x): return x, 'the second'")
        assert run.submit(edited.f, 3).result() == (3, "the second")
        assert run.submit(lambda x: edited.f(x), 3).result() == (3, "the second")
        edited = edit("K = 1\ndef g(x): return x, K")
        assert run.submit(edited.f, 3).result() == (3, 1)
        edited = edit("K = 12\ndef g(x): return x, K")
        assert run.submit(edited.f, 3).result() == (3, 12)
    assert not caplog.records


@pytest.mark.parametrize("is_journaled", [False, True])
def test_a_worker_that_keeps_older_code_is_warned_of(tmp_path, edit, caplog, is_journaled):
    edited = edit("def g(x): return x, 'first'")
    folders = {"cache_folder": tmp_path / "cache", "run_folder": tmp_path / "run" if is_journaled else None}
    with LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address=":0") as cluster:
        with Diffusion(cluster, **folders) as run:
            assert run.submit(edited.f, 3).result() == (3, "first")
            assert not [one for one in caplog.records if one.name == "thalweg.diffusion"]
            edited = edit("def g(x): return x, 'the second'")
            assert [run.submit(edited.f, 3).result() for _ in range(2)] == [(3, "first")] * 2
        (warning,) = [one for one in caplog.records if one.name == "thalweg.diffusion"]
        assert "edited_module.g" in warning.getMessage() and "estart the workers" in warning.getMessage()
        assert ("journal" in warning.getMessage()) == is_journaled
    with Diffusion(workers=1, **folders) as run:
        (result,) = run.map(edited.f, [3])
        assert (result.value, result.attempts) == ((3, "the second"), 1)


def test_code_that_was_edited_and_not_reloaded_here_is_warned_of_and_costs_one_process(tmp_path, edit, caplog):
    edited = edit("def g(x): return x, 'first'")
    (tmp_path / "edited_module.py").write_text("import os\ndef f(x): return x, os.getpid()\n")
    with Diffusion(workers=1, cache_folder=tmp_path / "cache") as run:
        (pid,) = {run.submit(edited.f, number).result()[1] for number in range(3)}
        assert run.submit(partial(edited.f), 3).result() == (3, pid)
    (warning,) = caplog.records
    assert "edited_module.f" in warning.getMessage()


def test_another_version_runs_calls_again(tmp_path):
    for version, attempts in (("", 1), ("", 0), ("2", 1), ("2", 0)):
        with Diffusion(workers=1, cache_folder=tmp_path / "cache", run_folder=tmp_path / "run", version=version) as run:
            (result,) = run.map(add, [(1, 2)])
            assert (result.value, result.attempts) == (3, attempts)
