"""Runs of data diffusion, against a plain map, on both back-ends: tasks that fail, hang and die, and starting again.

SPDX-License-Identifier: Apache-2.0
"""

import asyncio
import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
import traceback
from collections import Counter

import pytest
from diffusion_tasks import (
    append,
    content,
    double,
    fail,
    fail_at_first,
    hang_at_first,
    joined_length,
    kill_at_first,
    nap_and_append,
    nap_and_double,
    nap_and_write,
    note_and_nap,
    read_after,
    read_slowly,
    write,
    write_half,
)
from distributed import Client, LocalCluster

from thalweg.diffusion import (
    Command,
    CommandFailed,
    Diffusion,
    File,
    InputFailed,
    Output,
    OutputMissing,
    RunFolderBusy,
    RunLost,
    TaskTimeout,
)


@pytest.fixture(scope="module")
def cluster():
    with LocalCluster(n_workers=3, threads_per_worker=2, dashboard_address=":0") as cluster:
        yield cluster


@pytest.fixture(params=["local", "dask"])
def begin(request, tmp_path):
    """Begins a run on either back-end."""

    def begin(**options):
        options.setdefault("cache_folder", tmp_path / "cache")
        if request.param == "local":
            return Diffusion(workers=3, **options)
        return Diffusion(request.getfixturevalue("cluster"), **options)

    return begin


@pytest.fixture
def files(tmp_path):
    folder = tmp_path / "in"
    folder.mkdir()
    dice = random.Random(7)
    paths = [folder / f"{number}.bin" for number in range(12)]
    for path in paths:
        path.write_bytes(dice.randbytes(dice.randrange(100, 20_000)))
    return [str(path) for path in paths]


def test_results_are_those_of_a_plain_map(begin, files):
    dice = random.Random(3)
    pairs = [(dice.choice(files), dice.choice(files)) for _ in range(200)]
    expected = [joined_length(first, second) for first, second in pairs]
    with begin() as run:
        calls = [(File(first), File(second)) for first, second in pairs]
        came = list(run.map(joined_length, calls))
        assert sorted(result.index for result in came) == list(range(200))
        assert all(result.value == expected[result.index] for result in came)
        assert [result.value for result in run.map(joined_length, calls).in_order()] == expected
        nested = run.submit(joined_length, File(files[0]), File(files[1]), more=[File(files[2])])
        assert nested.result() == joined_length(files[0], files[1], files[2:3])


def test_an_iterator_is_read_as_tasks_end(begin, monkeypatch):
    monkeypatch.setattr("thalweg.diffusion.feeder._LOOK_AHEAD", 50)
    read = []

    def numbers():
        for number in range(300):
            read.append(number)
            yield number

    with begin() as run:
        results = run.map(double, numbers())
        came = [next(results).value]
        time.sleep(0.5)
        assert len(read) <= 51, "a slow reader is not drowned"
        came += [result.value for result in results]
    assert sorted(came) == [2 * number for number in range(300)]


def test_ranges_of_a_file_are_items_of_their_own(begin, files):
    whole = content(files[0])
    with begin() as run:
        parts = [File(files[0], start, start + 40) for start in range(0, 100, 40)]
        assert [result.value for result in run.map(content, parts).in_order()] == [
            whole[start : start + 40] for start in range(0, 100, 40)
        ]


def test_an_exception_comes_with_the_workers_traceback(begin):
    with begin() as run:
        with pytest.raises(KeyError, match="no such number: 5") as raised:
            run.submit(fail, 5).result()
        written = "".join(traceback.format_exception(raised.type, raised.value, raised.tb))
        assert "in fail" in written and "on the worker" in written
        results = {result.index: result for result in run.map(fail, [1, 2])}
        assert isinstance(results[1].error, KeyError)
        assert run.submit(double, 4).result() == 8


def test_what_fails_runs_again_as_often_as_is_said(begin, tmp_path):
    notes = tmp_path / "notes"
    notes.mkdir()
    with begin(retries=1) as run:
        assert run.submit(fail_at_first, str(notes)).result() == "at last"
        with pytest.raises(KeyError):
            run.submit(fail, 1).result()


def test_a_task_that_hangs_is_ended_and_its_slot_goes_on(begin, tmp_path):
    notes = tmp_path / "notes"
    notes.mkdir()
    with begin(timeout_s=1.0) as run:
        begun = time.monotonic()
        hung = run.submit(hang_at_first, str(notes), 60)
        others = list(run.map(double, range(40)))
        assert sorted(result.value for result in others) == [2 * number for number in range(40)]
        with pytest.raises(TaskTimeout):
            hung.result()
        assert time.monotonic() - begun < 30
        assert all(result.error is None for result in run.map(double, range(40)))


def test_a_process_that_dies_takes_no_task_with_it(tmp_path):
    notes = tmp_path / "notes"
    notes.mkdir()
    with Diffusion(workers=2, cache_folder=tmp_path / "cache") as run:
        assert run.submit(kill_at_first, str(notes)).result() == "alive"


def test_outputs_appear_whole_or_not_at_all(begin, tmp_path):
    out = tmp_path / "out"
    with begin() as run:
        written = [run.submit(write, "x" * number, Output(out / f"{number}.txt")) for number in (0, 10, 100_000)]
        assert [future.result() for future in written] == [0, 10, 100_000]
        with pytest.raises(RuntimeError, match="power is gone"):
            run.submit(write_half, Output(out / "half.txt")).result()
        with pytest.raises(OutputMissing):
            run.submit(double, Output(out / "never.txt")).result()
        # The former folder is replaced as a whole, too.
        assert run.submit(write, "new", Output(out / "10.txt")).result() == 3
    assert sorted(os.listdir(out)) == ["0.txt", "10.txt", "100000.txt"]
    assert (out / "100000.txt").read_text() == "x" * 100_000 and (out / "10.txt").read_text() == "new"


def test_chains_read_locally_what_was_just_written(begin, tmp_path):
    links = [[str(tmp_path / f"chain-{chain}-{link}") for link in range(4)] for chain in range(6)]
    folder = tmp_path / "run"
    with begin(run_folder=folder) as run:
        for chain in links:
            run.submit(write, "0", Output(chain[0]))
        for link in range(1, 4):
            for chain in links:
                run.submit(append, File(chain[link - 1]), str(link), Output(chain[link]))
        run.wait()
    assert all(content(chain[3]) == b"0123" for chain in links)
    sources = Counter(source for record in events(folder, "done") for source, _ in record["inputs"])
    assert sources["local"] == 18 and sources["store"] == 0


def test_a_file_is_written_anew_after_tasks_have_read_the_old_one_and_read_anew_then(begin, tmp_path):
    """The new content is larger than the cache, so that no worker keeps it."""
    file, gate, notes = tmp_path / "file", tmp_path / "gate", tmp_path / "notes"
    notes.mkdir()
    file.write_text("old")
    with begin(cache=1000) as run:
        readers = [run.submit(read_after, File(file), str(gate), str(notes), number) for number in range(2)]
        while len(os.listdir(notes)) < 2:
            time.sleep(0.01)
        written = run.submit(write, "new" * 1000, Output(file))
        read_anew = run.submit(content, File(file))
        time.sleep(0.3)
        assert not written.done()
        gate.touch()
        assert [reader.result() for reader in readers] == [b"old", b"old"]
        assert read_anew.result() == b"new" * 1000


def test_tasks_that_read_and_write_one_file_run_in_the_order_of_their_submission(begin, tmp_path):
    file = tmp_path / "file"
    file.write_text("")
    with begin() as run:
        read = []
        for number in range(5):
            run.submit(nap_and_append, 0.1 / (1 + number), File(file), str(number), Output(file))
            read.append(run.submit(content, File(file)))
        run.submit(nap_and_write, 0.3, "first", Output(file))
        run.submit(write, "second", Output(file))
        read.append(run.submit(content, File(file)))
        assert [one.result(60) for one in read] == [b"0", b"01", b"012", b"0123", b"01234", b"second"]


def test_a_folder_is_read_before_what_is_written_in_it_later(begin, tmp_path):
    folder = tmp_path / "folder"
    with begin() as run:
        first = run.submit(nap_and_write, 0.2, "1", Output(folder / "1"))
        listed = run.submit(os.listdir, File(folder))
        run.submit(write, "2", Output(folder / "2"))
        both = run.submit(os.listdir, File(folder))
        assert first.result(60) == 1 and listed.result(60) == ["1"] and sorted(both.result(60)) == ["1", "2"]


def test_a_writer_runs_also_after_one_that_failed_and_its_readers_do_not(begin, tmp_path):
    file = tmp_path / "file"
    with begin() as run:
        failing = run.submit(write_half, Output(file))
        reader = run.submit(content, File(file))
        written = run.submit(write, "new", Output(file))
        assert written.result(60) == 3 and file.read_text() == "new"
        assert failing.exception() is not None
        with pytest.raises(InputFailed):
            reader.result(60)


def events(folder, kind):
    with open(os.path.join(folder, "events.jsonl")) as file:
        records = [json.loads(line) for line in file]
    return [record for record in records if record["kind"] == kind]


def test_what_waits_for_a_failed_task_fails_with_it(begin, tmp_path):
    with begin() as run:
        first = run.submit(write_half, Output(tmp_path / "a"))
        second = run.submit(append, File(tmp_path / "a"), "b", Output(tmp_path / "b"))
        third = run.submit(append, File(tmp_path / "b"), "c", Output(tmp_path / "c"))
        for future, error in ((first, RuntimeError), (second, InputFailed), (third, InputFailed)):
            with pytest.raises(error, match="power is gone"):
                future.result()


def test_a_missing_input_fails_its_task_alone(begin, tmp_path, files):
    with begin() as run:
        lost = run.submit(content, File(tmp_path / "nowhere"))
        assert run.submit(content, File(files[0])).result() == content(files[0])
        with pytest.raises(FileNotFoundError, match="nowhere"):
            lost.result()


def test_command_lines_are_tasks(begin, files, tmp_path):
    with begin() as run:
        counted = run.submit(Command("wc", "-c", 0), File(files[0])).result()
        assert int(counted.split()[0]) == os.path.getsize(files[0])
        copy = Command("cp", 0, "{1}")
        for result in run.map(copy, [(File(files[at]), Output(tmp_path / f"{at}")) for at in range(3)]):
            assert result.value == ""
            assert content(tmp_path / str(result.index)) == content(files[result.index])
        with pytest.raises(CommandFailed, match="status 3"):
            run.submit(Command("sh", "-c", "echo no >&2; exit 3")).result()


def test_a_run_that_is_started_again_skips_what_is_done(begin, tmp_path):
    notes, folder = tmp_path / "notes", tmp_path / "run"
    notes.mkdir()
    calls = [(str(notes), number % 25, 0.01) for number in range(40)]
    with pytest.raises(InterruptedError), begin(run_folder=folder) as run:
        with pytest.raises(RunFolderBusy):
            Diffusion(workers=1, run_folder=folder)
        for taken, _ in enumerate(run.map(note_and_nap, calls)):
            if taken == 15:
                raise InterruptedError
    with open(folder / "journal", "ab") as journal:
        journal.write(b"\x40\0\0\0torn")
    before = Counter(name.split("-")[0] for name in os.listdir(notes))
    with begin(run_folder=folder) as run:
        results = list(run.map(note_and_nap, calls))
    assert sorted(result.value for result in results) == sorted(number for _, number, _ in calls)
    skipped = sum(result.attempts == 0 for result in results)
    assert skipped >= 16
    assert len(os.listdir(notes)) == sum(before.values()) + 40 - skipped
    with begin(run_folder=folder) as run:
        assert all(result.attempts == 0 for result in run.map(note_and_nap, calls))


def test_killed_workers_cost_no_task_and_none_counts_twice(tmp_path, files):
    notes = tmp_path / "notes"
    notes.mkdir()
    with LocalCluster(n_workers=4, threads_per_worker=1, dashboard_address=":0") as cluster, Client(cluster) as client:
        with Diffusion(client, cache_folder=tmp_path / "cache", run_folder=tmp_path / "run") as run:
            calls = [(File(files[number % 12]), number, str(notes)) for number in range(300)]
            results, killed = [], 0
            for result in run.map(read_slowly, calls):
                results.append(result)
                if len(results) in (40, 80):
                    killed += kill_one_worker(client)
            # All may be done before the scheduler misses the second.
            give_up = time.monotonic() + 30
            while (tmp_path / "run/events.jsonl").read_text().count('"left"') < killed and time.monotonic() < give_up:
                time.sleep(0.05)
    assert killed == 2
    assert sorted(result.index for result in results) == list(range(300))
    assert all(result.value == (len(content(files[result.index % 12])), result.index) for result in results)
    assert len(events(tmp_path / "run", "done")) == 300 and len(events(tmp_path / "run", "left")) >= 2


def kill_one_worker(client):
    address, pid = next(iter(client.run(os.getpid).items()))
    os.kill(pid, signal.SIGKILL)
    return 1


def test_down_scaling_asks_the_policy(cluster, tmp_path, files):
    with Client(cluster) as client, Diffusion(client, cache_folder=tmp_path / "cache") as run:
        list(run.map(content, [File(path) for path in files]))
        held = client.run_on_scheduler(last_copies)
        willing = client.run_on_scheduler(lambda dask_scheduler: dask_scheduler.workers_to_close(n=1))
        assert len(willing) == 1 and held[willing[0]] <= sorted(held.values())[1]


def last_copies(dask_scheduler):
    (plugin,) = (plugin for name, plugin in dask_scheduler.plugins.items() if name.startswith("thalweg-diffusion"))
    return {address: plugin._coordinator.last_copy_bytes(address) for address in dask_scheduler.workers}


async def awaited(future):
    return await asyncio.wait_for(asyncio.wrap_future(future), 30)


@pytest.mark.parametrize("await_it", [False, True])
def test_who_waits_for_one_result_is_told_that_the_scheduler_is_gone(await_it, tmp_path):
    scheduler, worker, address = start_by_hand(tmp_path)
    try:
        with Diffusion(address, cache_folder=tmp_path / "cache") as run:
            future = run.submit(time.sleep, 60)
            threading.Timer(0.5, scheduler.kill).start()
            with pytest.raises(RunLost):
                if await_it:
                    asyncio.run(awaited(future))
                else:
                    future.result(30)
    finally:
        stop(scheduler, worker)


def test_a_run_survives_the_schedulers_death(tmp_path):
    folder = tmp_path / "run"
    calls = list(range(300))
    scheduler, worker, address = start_by_hand(tmp_path)
    with pytest.raises(RunLost), Diffusion(address, cache_folder=tmp_path / "cache", run_folder=folder) as run:
        for taken, _ in enumerate(run.map(nap_and_double, calls)):
            if taken == 20:
                scheduler.kill()
    stop(scheduler, worker)
    scheduler, worker, address = start_by_hand(tmp_path)
    try:
        with Diffusion(address, cache_folder=tmp_path / "cache", run_folder=folder) as run:
            results = list(run.map(nap_and_double, calls))
        assert sorted(result.value for result in results) == [2 * number for number in calls]
        assert sum(result.attempts == 0 for result in results) >= 20
    finally:
        stop(scheduler, worker)


def start_by_hand(folder):
    """A scheduler and a worker as processes of their own."""
    found = folder / f"scheduler-{time.time_ns()}.json"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}

    def start(module, *arguments):
        command = [sys.executable, "-m", module, "--scheduler-file", str(found), "--no-dashboard", *arguments]
        return subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)

    scheduler = start("distributed.cli.dask_scheduler", "--port", "0")
    worker = start("distributed.cli.dask_worker", "--no-nanny", "--nthreads", "2", "--local-directory", str(folder))
    deadline = time.monotonic() + 30
    # It is there before it is whole.
    while not (found.exists() and found.read_text().rstrip().endswith("}")) and time.monotonic() < deadline:
        time.sleep(0.05)
    return scheduler, worker, json.loads(found.read_text())["address"]


def stop(*processes):
    for process in processes:
        process.kill()
        process.wait()


def test_without_dask_installed_local_processes_do(tmp_path):
    """Nothing of the local back-end imports Dask."""
    script = (
        "import sys; sys.modules['distributed'] = sys.modules['dask'] = None\n"
        "from thalweg.diffusion import Diffusion\n"
        "with Diffusion(workers=1) as run: print(run.submit(abs, -3).result())\n"
    )
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, env=environment)
    assert ran.stdout == "3\n", ran.stderr
