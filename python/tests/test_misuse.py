"""Errors of a run that is misused. SPDX-License-Identifier: Apache-2.0"""

import asyncio
import gc
import itertools
import os
import signal
import socket
import subprocess
import sys
import threading
import time

import pytest
from distributed import Client, LocalCluster
from upath import UPath

import thalweg.diffusion.run
from thalweg.diffusion import Diffusion, File, Output, RunFolderBusy, as_completed


@pytest.fixture
def run(tmp_path):
    with Diffusion(workers=1, cache_folder=tmp_path / "cache") as run:
        yield run


def test_what_is_collected_starts_no_thread_there_and_is_ended_all_the_same(tmp_path, monkeypatch):
    """Collection may happen in the midst of starting or ending a thread, which a new one waits for."""
    run = Diffusion(workers=1, cache_folder=tmp_path / "cache", run_folder=tmp_path / "run")
    results = run.map(time.sleep, [0.01] * 1000)
    next(results)
    inner, here, start, started = run._run, threading.get_ident(), threading.Thread.start, []

    def note_start(thread):
        if threading.get_ident() == here:
            started.append(thread.name)
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", note_start)
    cycle = [run, results, run.scatter(1)]
    cycle.append(cycle)
    del run, results, cycle
    gc.collect()
    assert not started
    give_up = time.monotonic() + 20
    while not (inner.is_closed and (tmp_path / "run" / "report.html").exists()):
        assert time.monotonic() < give_up
        time.sleep(0.01)


UNCLOSED = """
import sys
from distributed import Client, LocalCluster
from thalweg.diffusion import Diffusion

if __name__ == "__main__":
    client = Client(LocalCluster(n_workers=1, dashboard_address=None)) if sys.argv[1] == "dask" else None
    run = Diffusion(client, run_folder=sys.argv[2], cache_folder=sys.argv[3])
    print(run.submit(abs, -1).result())
"""


@pytest.mark.parametrize("kind", ["processes", "dask"])
def test_a_run_that_is_open_when_the_program_ends_has_its_report(tmp_path, kind):
    (tmp_path / "script.py").write_text(UNCLOSED)
    command = [sys.executable, tmp_path / "script.py", kind, tmp_path / "run", tmp_path / "cache"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.stdout == "1\n" and (tmp_path / "run" / "report.html").exists(), done.stderr


def test_a_forked_child_keeps_neither_the_cache_nor_the_run_folder_of_its_parents_run(tmp_path):
    folders = {"cache_folder": tmp_path / "cache", "run_folder": tmp_path / "run"}
    with Diffusion(workers=1, **folders) as run:
        assert run.submit(abs, -1).result() == 1
        child = os.fork()
        if child == 0:
            time.sleep(60)
            os._exit(0)
    try:
        with Diffusion(workers=1, **folders) as again:
            assert again.submit(abs, -1).result() == 1
        assert sorted(os.listdir(tmp_path / "cache")) == ["0", "0.lock"]
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def test_a_fork_gets_an_error_that_names_the_parents_run(run):
    child = os.fork()
    if child == 0:
        status = 1
        try:
            run.close()
            run.submit(abs, -1)
        except RuntimeError as error:
            status = 0 if "fork" in str(error) else 2
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert run.submit(abs, -2).result() == 2


def test_a_future_of_ones_parent_does_not_keep_a_fork_waiting(run):
    future = run.submit(time.sleep, 3)
    child = os.fork()
    if child == 0:
        status = 0
        try:
            for ask in (future.result, future.exception, lambda: next(as_completed([future]))):
                try:
                    ask()
                    status = 1
                except RuntimeError as error:
                    status = status or (0 if "is a fork" in str(error) else 2)
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert future.result() is None


def test_what_is_no_function_or_no_iterable_is_refused_at_once(run):
    with pytest.raises(TypeError, match="map takes iterables of arguments, which 5 is not"):
        run.map(abs, 5)
    with pytest.raises(TypeError, match="which None is not"):
        run.map(pow, [1, 2], None)
    with pytest.raises(TypeError, match="5 cannot be called"):
        run.submit(5, 1)


def test_leaving_says_which_iterator_it_waits_for(tmp_path, monkeypatch, caplog):
    monkeypatch.setattr(thalweg.diffusion.run, "_WARN_AFTER_S", 1.0)
    with Diffusion(workers=1, cache_folder=tmp_path / "cache") as run:
        results = run.map(abs, itertools.count())
        next(results)
        stop = threading.Timer(5.0, results.cancel)
        stop.start()
    assert "results.cancel()" in caplog.text


def test_half_written_outputs_of_a_killed_run_go_with_the_next_start(tmp_path):
    left = tmp_path / "cache" / "0" / "scratch" / "tasks-x"
    (tmp_path / "cache").mkdir(mode=0o700)
    (tmp_path / "cache" / "0").mkdir(mode=0o700)
    left.mkdir(parents=True)
    (left / "half").write_text("half")
    with Diffusion(workers=1, cache_folder=tmp_path / "cache"):
        assert not left.exists()


def test_an_argument_that_cannot_be_sent_is_named(run):
    with pytest.raises(TypeError, match=r"pow: argument 2 \(lock\) cannot be sent"):
        run.submit(pow, 1, threading.Lock())
    with pytest.raises(TypeError, match=r"pow: mod \(lock\) cannot be sent"):
        run.submit(pow, 1, 2, mod=threading.Lock())
    with pytest.raises(TypeError, match="a Diffusion cannot be sent"):
        run.submit(len, run)
    future = run.submit(abs, -1)
    with pytest.raises(TypeError, match="give it as an argument"):
        run.submit(lambda: future.result())


def test_a_run_folder_and_a_port_in_use_are_named(tmp_path):
    folder = tmp_path / "run"
    with Diffusion(workers=1, cache_folder=tmp_path / "cache", run_folder=folder) as run:
        assert str(folder) in repr(run) and "running" in repr(run)
        with pytest.raises(RunFolderBusy, match=r"this process runs there; close\(\)"):
            Diffusion(workers=1, run_folder=folder)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(OSError, match=f"page cannot be served: .*{port}"):
            Diffusion(workers=1, page=port)


def test_a_task_process_whose_parent_died_ends_without_a_word(tmp_path):
    script = (
        "import os, time; from thalweg.diffusion import Diffusion\n"
        f"d = Diffusion(workers=1, cache_folder={str(tmp_path / 'cache')!r})\n"
        "d.submit(abs, -1).result(); d.submit(time.sleep, 1); time.sleep(0.5); os._exit(0)"
    )
    # Ends when the last process has closed its standard error.
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert ran.stderr == ""


def test_calls_without_arguments_are_recorded(tmp_path):
    with Diffusion(workers=1, cache_folder=tmp_path / "cache", run_folder=tmp_path / "run") as run:
        run.submit(os.getpid).result()
    assert "not recorded" not in (tmp_path / "run" / "report.html").read_text()


def test_paths_of_universal_pathlib_are_files():
    assert File(UPath("memory://a/b")).url == "memory://a/b"
    assert Output(UPath("/tmp/a")).url == "/tmp/a"


@pytest.mark.parametrize("kind", [Client, LocalCluster])
def test_an_asynchronous_client_or_cluster_is_refused_with_what_does_it(kind, tmp_path):
    async def main():
        where = {"processes": False, "n_workers": 1, "threads_per_worker": 1, "dashboard_address": None}
        async with kind(asynchronous=True, **where) as dask:
            with pytest.raises(TypeError, match="asynchronous=True"):
                Diffusion(dask)
            cluster = getattr(dask, "cluster", None) or dask
            run = await asyncio.to_thread(Diffusion, cluster.scheduler_address, cache_folder=tmp_path / "cache")
            three = await run.submit(len, "abc")
            await asyncio.to_thread(run.close)
            return three

    assert asyncio.run(main()) == 3
