"""Submission: order, time, and the form in which arguments reach the function. SPDX-License-Identifier: Apache-2.0"""

import asyncio
import collections
import dataclasses
import gc
import itertools
import os
import pickle
import subprocess
import sys
import threading
import time
import typing
import weakref
from concurrent.futures import CancelledError
from functools import partial

import numpy
import pandas
import pytest
from diffusion_tasks import content, double, fail, note_and, note_and_nap, write
from distributed import Client

from thalweg.diffusion import Diffusion, File, InputFailed, LocalPath, Output, as_completed
from thalweg.diffusion.calls import Value, packed


@pytest.fixture
def run(tmp_path):
    with Diffusion(workers=2, cache_folder=tmp_path / "cache") as run:
        yield run


def same(*arguments, **keywords):
    return arguments, keywords


# Functions.


def test_a_function_is_taken_as_it_is_when_it_is_submitted(run):
    namespace = {"K": 1}
    exec("def h(): return K", namespace)
    first = run.submit(namespace["h"])
    namespace["K"] = 2
    second = run.submit(namespace["h"])
    assert (first.result(), second.result()) == (1, 2)


CACHED = """
import functools, sys
from thalweg.diffusion import Diffusion

@functools.lru_cache(maxsize=7)
def fib(number):
    return number if number < 2 else fib(number - 1) + fib(number - 2)

def size(number):
    return fib(number), fib.cache_info().maxsize

@functools.cache
def apply(function, number):
    return function(number), function.cache_info().currsize

class Counter:
    @functools.lru_cache
    def up_to(self, number):
        return list(range(number))

with Diffusion(workers=1, cache_folder=sys.argv[1], run_folder=sys.argv[2]) as run:
    futures = [run.submit(fib, 30), run.submit(size, 10), run.submit(apply, fib, 5), run.submit(Counter().up_to, 3)]
    print([future.result() for future in futures])
"""


def test_functions_of_a_script_that_have_a_cache_run_on_workers(tmp_path):
    (tmp_path / "script.py").write_text(CACHED)
    for _ in range(2):
        command = [sys.executable, tmp_path / "script.py", tmp_path / "cache", tmp_path / "run"]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
        answer = subprocess.run(command, env=environment, capture_output=True, text=True)
        assert (answer.stdout, answer.stderr) == ("[832040, (55, 7), (5, 6), [0, 1, 2]]\n", "")


def test_a_file_that_a_function_captured_is_refused(run, tmp_path):
    file, out = File(tmp_path / "in"), Output(tmp_path / "out")
    for refused in (lambda: open(file), lambda: open(out, "w"), partial(content, file), lambda one=[file]: one):
        with pytest.raises(TypeError, match="is captured by a function.*give it as an argument"):
            run.submit(refused)
    with pytest.raises(TypeError, match="scattered value.*give it as an argument"):
        run.scatter({"file": file})
    # The class is no file.
    assert run.submit(lambda: File("/x").url).result() == "/x"


def test_functions_that_were_forgotten_come_again_and_are_not_kept(run, monkeypatch):
    monkeypatch.setattr("thalweg.diffusion.values._MAX_UNUSED", 1)

    def times(factor):
        return lambda number: factor * number

    for _ in range(3):
        assert [run.submit(times(factor), 2).result() for factor in range(4)] == [0, 2, 4, 6]
    kept = times(3)
    watched = weakref.ref(kept)
    assert run.submit(kept, 1).result() == 3
    del kept
    gc.collect()
    assert watched() is None


def test_functions_of_many_threads_are_not_mistaken(run):
    came = {}

    def submit(factor):
        came[factor] = run.submit(lambda number: factor * number, 1).result()

    threads = [threading.Thread(target=submit, args=(factor,)) for factor in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert came == {factor: factor for factor in range(16)}


# Arguments.


class MyList(list):
    pass


Point = collections.namedtuple("Point", "x y")


class Pair(typing.NamedTuple):
    path: typing.Any
    number: int


@dataclasses.dataclass(frozen=True)
class Described:
    path: typing.Any
    what: str


def kinds_and_files(value):
    """Its type, and what the paths in it hold."""
    if isinstance(value, Described):
        parts = [value.path]
    elif isinstance(value, (dict, collections.UserDict, collections.ChainMap)):
        parts = list(value.values())
    else:
        parts = list(value)
    return type(value).__name__, [content(part) for part in parts if isinstance(part, LocalPath)]


def test_files_are_replaced_in_containers_of_any_kind_which_stay_what_they_are(run, tmp_path):
    path = tmp_path / "in"
    path.write_bytes(b"content")
    file = File(path)
    ordinary = [[file], (file, 1), {"a": file}, {file}, frozenset([file])]
    special = [
        *[collections.OrderedDict(a=file), collections.defaultdict(int, a=file), collections.deque([file])],
        *[collections.UserDict(a=file), collections.ChainMap({"a": file}), MyList([file]), Pair(file, 1)],
        Described(file, "a"),
    ]
    for value in ordinary + special:
        name, found = run.submit(kinds_and_files, value).result()
        assert (name, found) == (type(value).__name__, [b"content"])
    assert run.submit(same, collections.Counter("aab")).result()[0] == (collections.Counter("aab"),)


def test_named_tuples_are_one_argument_and_tuples_are_several(run):
    table = pandas.DataFrame({"a": [1, 2], "b": [3, 4]})
    came = [result.value[0][0] for result in run.map(same, table.itertuples()).in_order()]
    assert [(row.Index, row.a, row.b) for row in came] == [(0, 1, 3), (1, 2, 4)]
    assert next(run.map(same, [Point(1, 2)])).value == ((Point(1, 2),), {})
    assert next(run.map(same, [(1, 2)])).value == ((1, 2), {})


def is_one_object(first, second):
    return first is second[0] and second[0] is second[1]


def nested(levels):
    value = []
    for _ in range(levels):
        value = [value, value]
    return value


def test_identity_is_kept_and_deep_nesting_costs_nothing(run):
    thing = ["thing"]
    assert run.submit(is_one_object, thing, [thing, thing]).result()
    large = numpy.zeros(100_000)
    assert run.submit(is_one_object, large, [large, large]).result()
    begun = time.monotonic()
    assert run.submit(len, nested(40)).result() == 2
    assert time.monotonic() - begun < 10


def test_classes_and_functions_of_a_script_are_arguments(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        "import dataclasses, sys\n"
        "from thalweg.diffusion import Diffusion\n"
        "@dataclasses.dataclass\n"
        "class Setting:\n    factor: int\n"
        "def twice(number): return 2 * number\n"
        "def use(setting, function, number): return setting.factor * function(number)\n"
        "with Diffusion(workers=1, cache_folder=sys.argv[1]) as run:\n"
        "    print(run.submit(use, Setting(3), twice, 5).result())\n"
        "    print(run.submit(use, Setting(3), lambda number: -number, 5).result())\n"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    ran = subprocess.run([sys.executable, script, tmp_path], capture_output=True, text=True, env=environment)
    assert ran.stdout.split() == ["30", "-15"], ran.stderr


def weigh(number, model, path=None):
    return number + len(model) + (len(content(path)) if path else 0)


def test_large_equal_arguments_travel_once(run, tmp_path, monkeypatch):
    sent = []
    keep, submit = run._run._backend.keep, run._run._backend.submit
    monkeypatch.setattr(run._run._backend, "keep", lambda *value: (sent.append(len(value[1])), keep(*value)))
    monkeypatch.setattr(
        run._run._backend,
        "submit",
        lambda tasks: (sent.extend(len(task.payload) for task in tasks.tasks), submit(tasks)),
    )
    size = 2 << 20
    model = numpy.random.default_rng(1).bytes(size)
    path = tmp_path / "in"
    path.write_bytes(b"12345")
    assert {result.value for result in run.map(weigh, [1] * 50, model=model)} == {size + 1}
    assert {result.value for result in run.map(weigh, [(1, model, File(path))] * 50)} == {size + 6}
    assert {result.value for result in run.map(weigh, iter(range(50)), model=model)} == set(range(size, size + 50))
    assert {run.submit(weigh, 1, bytes(bytearray(model))).result() for _ in range(3)} == {size + 1}
    holding = {"path": File(path), "model": model}
    assert run.submit(lambda held: len(content(held["path"])) + len(held["model"]), holding).result() == size + 5
    assert sum(sent) < 1.2 * size


def sum_of(number, held):
    return number + sum(len(one) for one in held.values())


def test_large_arguments_in_containers_and_beside_others_travel_once(run, monkeypatch):
    sent, pickled = [], []
    keep, submit, of = run._run._backend.keep, run._run._backend.submit, Value.of
    monkeypatch.setattr(run._run._backend, "keep", lambda *value: (sent.append(len(value[1])), keep(*value)))
    monkeypatch.setattr(
        run._run._backend,
        "submit",
        lambda tasks: (sent.extend(len(task.payload) for task in tasks.tasks), submit(tasks)),
    )
    monkeypatch.setattr(Value, "of", lambda content: (pickled.append(len(content)), of(content))[1])
    size = 2 << 20
    model, other = (numpy.random.default_rng(seed).bytes(size) for seed in (1, 2))
    results = run.map(weigh, range(50), [model] * 50)
    assert {result.value for result in results} == set(range(size, size + 50))
    results = run.map(weigh, iter(range(50)), itertools.repeat(model))
    assert {result.value for result in results} == set(range(size, size + 50))
    assert sum(sent) < 1.2 * size and sum(pickled) < 2.2 * size
    calls = [(number, {"model": model, "other": other, "few": [number]}) for number in range(50)]
    assert {result.value for result in run.map(sum_of, calls)} == set(range(2 * size + 1, 2 * size + 51))
    assert {run.submit(sum_of, 1, {"a": (), "m": model}).result() for _ in range(3)} == {size + 1}
    assert sum(sent) < 2.2 * size


def test_a_large_container_of_small_values_travels_once(run, monkeypatch):
    sent, submit = [], run._run._backend.submit
    monkeypatch.setattr(
        run._run._backend,
        "submit",
        lambda tasks: (sent.extend(len(task.payload) for task in tasks.tasks), submit(tasks)),
    )
    table = {"numbers": list(range(100_000)), "words": [str(number) for number in range(50)]}
    assert {result.value for result in run.map(sum_of, [(1, table)] * 20)} == {100_051}
    assert sum(sent) < 100_000


def count_and_add(seen):
    seen.append(1)
    return len(seen)


def test_a_scattered_value_is_one_object_in_a_slot_and_others_are_not(tmp_path):
    with Diffusion(workers=1, cache_folder=tmp_path / "cache") as run:
        shared = run.scatter([])
        assert [run.submit(count_and_add, shared).result() for _ in range(3)] == [1, 2, 3]
        large = [0] * 100_000
        assert [run.submit(count_and_add, large).result() for _ in range(3)] == [100_001] * 3


# Maps.


def test_several_iterables_keywords_and_lengths(run):
    results = run.map(same, [1, 2, 3], (4, 5, 6), ordered=7, function=8)
    assert len(results) == 3
    assert [result.value for result in results.in_order()] == [
        ((one, two), {"ordered": 7, "function": 8}) for one, two in zip([1, 2, 3], [4, 5, 6])
    ]
    assert next(run.map(same, [(1, 2)], [3])).value == (((1, 2), 3), {})
    with pytest.raises(TypeError, match="length is unknown"):
        len(run.map(double, iter([1])))


class Counted:
    """Counts how often any of its kind was pickled."""

    pickled = 0

    def __reduce__(self):
        Counted.pickled += 1
        return int, ()


def test_the_first_tasks_of_a_list_go_out_before_the_others_are_pickled(run, monkeypatch):
    sent, submit = [], run._run._backend.submit
    monkeypatch.setattr(
        run._run._backend, "submit", lambda tasks: (sent.append((Counted.pickled, tasks.is_last)), submit(tasks))
    )
    Counted.pickled = 0
    results = run.map(double, [Counted() for _ in range(3000)])
    assert sent[0] == (100, False) and [is_last for _, is_last in sent].count(True) == 1 and sent[-1][1]
    assert sum(result.value for result in results) == 0


def test_an_iterator_whose_results_nobody_reads_runs_all_the_same(tmp_path):
    notes = tmp_path / "notes"
    notes.mkdir()
    with Diffusion(workers=2, cache_folder=tmp_path / "cache") as run:
        run.map(note_and, ((1, str(notes), f"{number}") for number in range(300)))
        run.wait()
        assert len(os.listdir(notes)) == 300
        kept = run.map(note_and, ((1, str(notes), f"kept-{number}") for number in range(20)))
        run.wait()
        assert sum(result.value for result in kept) == 20


def test_what_a_slow_iterator_gave_does_not_wait_for_what_it_will_give(run):
    go_on = threading.Event()

    def slow():
        yield 1
        yield 2
        go_on.wait(60)
        yield 3

    results = run.map(double, slow())
    assert sorted([next(results).value, next(results).value]) == [2, 4]
    go_on.set()
    assert [result.value for result in results] == [6]


def endless(notes):
    """Also when the next is not asked for: then it does not return."""
    for number in itertools.count():
        if number == 300:
            threading.Event().wait()
        yield str(notes), number, 0.1


@pytest.mark.parametrize("arguments", ["list", "iterator", "stuck iterator"])
@pytest.mark.parametrize("ordered", [False, True])
def test_a_loop_that_is_left_cancels_what_nobody_can_ask_for(tmp_path, arguments, ordered):
    notes = tmp_path / "notes"
    notes.mkdir()
    of = {
        "list": [(str(notes), number, 0.1) for number in range(5000)],
        "iterator": ((str(notes), number, 0.1) for number in itertools.count()),
        "stuck iterator": endless(notes),
    }[arguments]
    with Diffusion(workers=2, cache_folder=tmp_path / "cache") as run:
        results = run.map(note_and_nap, of)
        for _ in results.in_order() if ordered else results:
            break
        del results
    assert len(os.listdir(notes)) < 250


def test_tasks_with_outputs_run_after_a_loop_that_is_left(tmp_path):
    outs = [tmp_path / f"out-{number}" for number in range(200)]
    with Diffusion(workers=2, cache_folder=tmp_path / "cache") as run:
        for result in run.map(write, [("text", Output(out)) for out in outs]):
            assert result.value == 4
            break
    assert all(out.read_text() == "text" for out in outs)


def test_an_endless_iterator_whose_results_are_kept_ends_with_the_block(tmp_path, monkeypatch, caplog):
    monkeypatch.setattr("thalweg.diffusion.run._WARN_AFTER_S", 1.0)
    with Diffusion(workers=2, cache_folder=tmp_path / "cache") as run:
        results = run.map(double, itertools.count())
        first = next(results)
        read_meanwhile = run.map(double, iter(range(100)))
        assert next(read_meanwhile).value % 2 == 0
    assert first.error is None and "giving up 1 iterator" in caplog.text
    with pytest.raises(RuntimeError, match="before these results were read to their end"):
        list(results)
    assert len(list(read_meanwhile)) == 99


@pytest.mark.parametrize("whole", [True, False])
def test_an_argument_that_cannot_be_pickled_fails_its_task_alone(tmp_path, whole):
    arguments = [1, threading.Lock(), 3]
    with Diffusion(workers=1, cache_folder=tmp_path / "cache") as run:
        results = list(run.map(double, arguments if whole else iter(arguments)).in_order())
        assert [results[0].value, results[2].value] == [2, 6] and isinstance(results[1].error, TypeError)
        with pytest.raises(TypeError):
            run.submit(double, threading.Lock())
        run.wait()
        assert run.submit(double, 4).result() == 8


def test_an_iterator_that_raises_ends_its_map_and_nothing_else(tmp_path):
    def broken():
        yield 1
        yield 2
        raise LookupError("no more")

    with Diffusion(workers=1, cache_folder=tmp_path / "cache") as run:
        results, came = run.map(double, broken()), []
        with pytest.raises(LookupError, match="no more"):
            came.extend(result.value for result in results)
        assert sorted(came) == [2, 4] and list(results) == []
        run.wait()
        run.map(double, broken())
        with pytest.raises(LookupError, match="no more"):
            run.wait()
        run.wait()


def test_a_task_that_names_an_output_twice_fails_alone(tmp_path):
    out = Output(tmp_path / "out")
    with Diffusion(workers=1, cache_folder=tmp_path / "cache") as run:
        (result,) = run.map(same, [(out, Output(tmp_path / "out"))])
        assert isinstance(result.error, ValueError)
        with pytest.raises(ValueError, match="each of its outputs once"):
            run.submit(same, out, out)
        run.wait()


# Futures.


def test_futures_are_arguments(run):
    first = run.submit(double, 3)
    second = run.submit(double, first)
    assert run.submit(same, [first, {"second": second}]).result() == (([6, {"second": 12}],), {})
    results = run.map(same, [first, second]).in_order()
    assert [result.value[0][0] for result in results] == [6, 12]
    with pytest.raises(InputFailed, match="no such number: 1"):
        run.submit(double, run.submit(fail, 1)).result()
    run.wait()


def test_futures_are_waited_for_as_they_end_and_in_coroutines(run):
    futures = [run.submit(double, number) for number in range(10)]
    assert sorted(future.result() for future in as_completed(futures)) == list(range(0, 20, 2))

    async def main():
        came = [result.value async for result in run.map(double, [1, 2, 3])]
        return sorted(came), await run.submit(double, 21)

    assert asyncio.run(main()) == ([2, 4, 6], 42)


def test_what_is_cancelled_does_not_run(tmp_path):
    notes = tmp_path / "notes"
    notes.mkdir()
    with Diffusion(workers=1, cache_folder=tmp_path / "cache") as run:
        blocking = run.submit(note_and_nap, str(notes), 0, 3.0)
        while not os.listdir(notes):
            time.sleep(0.01)
        future = run.submit(note_and_nap, str(notes), 1, 0)
        follower = run.submit(double, future)
        results = run.map(note_and_nap, [(str(notes), number, 0) for number in range(2, 500)])
        fed = run.map(note_and_nap, ((str(notes), number, 0) for number in itertools.count(500)))
        assert future.cancel() and future.cancel() and future.cancelled()
        results.cancel()
        fed.cancel()
        with pytest.raises(CancelledError):
            future.result()
        with pytest.raises(InputFailed):
            follower.result()
        assert blocking.result() == 0 and not blocking.cancel()
        assert list(results) == []
        assert run.submit(double, 4).result() == 8
        run.wait()
    assert len(os.listdir(notes)) == 1


# The end.


def test_workers_are_refused_with_a_cluster():
    with pytest.raises(ValueError, match="a cluster has its own"):
        Diffusion("tcp://127.0.0.1:1", workers=3)


def test_a_run_that_nobody_has_any_more_ends(tmp_path):
    run = Diffusion(workers=1, cache_folder=tmp_path / "cache")
    inner = run._run
    assert run.submit(double, 2).result() == 4
    run = None
    gc.collect()
    end = time.monotonic() + 30
    while not inner.is_closed and time.monotonic() < end:
        time.sleep(0.05)
    assert inner.is_closed
    # As long as a caller waits for something, it goes on.
    assert sorted(result.value for result in Diffusion(workers=1, cache_folder=tmp_path).map(double, [1, 2])) == [2, 4]
    assert Diffusion(workers=1, cache_folder=tmp_path).submit(double, 4).result() == 8


def test_a_future_of_dask_is_refused_where_it_is_submitted(run):
    with Client(n_workers=1, threads_per_worker=1, processes=False, dashboard_address=None) as client:
        future = client.submit(pow, 2, 3)
        for argument in (future, [future], {"a": (1, future)}):
            with pytest.raises(TypeError, match=r"Dask's.*result\(\)"):
                run.submit(same, argument)
        with pytest.raises(TypeError, match="Dask's"):
            run.submit(same, key=future)
        (result,) = run.map(same, [future])
        assert isinstance(result.error, TypeError)
        assert run.submit(same, future.result()).result() == ((8,), {})


def test_a_large_argument_of_many_submissions_is_warned_of_once_with_what_to_do(run, caplog, monkeypatch):
    monkeypatch.setattr("thalweg.diffusion.repeated_pickling._MAX_REPEATED_BYTES", 8 << 20)
    model = numpy.zeros(1 << 18)
    scattered = run.scatter(model)
    for _ in range(10):
        run.submit(len, scattered)
        run.submit(same, bytes(100_000))
    assert list(run.map(len, [model] * 20)) and not caplog.records
    for number in range(12):
        run.submit(same, number, model=model)
    (warning,) = caplog.records
    assert "test_submission.same was pickled 5 times, 2 MB" in warning.getMessage()
    assert "scatter" in warning.getMessage()


def test_a_list_of_many_numbers_takes_not_much_longer_than_to_pickle_it():
    numbers = [float(number) for number in range(200_000)]

    def seconds(act):
        begun = time.perf_counter()
        act()
        return time.perf_counter() - begun

    plain_s = min(seconds(lambda: pickle.dumps(numbers, protocol=5)) for _ in range(5))
    # Twice pickled, and its digest taken; to ask about each number takes thirty times as long.
    assert min(seconds(lambda: packed((numbers,), {})) for _ in range(5)) < 12 * plain_s
