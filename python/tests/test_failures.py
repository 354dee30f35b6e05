"""Failures of tasks as users see them. SPDX-License-Identifier: Apache-2.0"""

import os
import re
import sys
import time
import traceback

import pytest
from diffusion_tasks import Unfit, content, filled, open_as_folder, refuse, refuse_together, segfault, unreadable

from thalweg.diffusion import Diffusion, File, TaskTimeout, WorkerLost


@pytest.fixture
def run(tmp_path):
    with Diffusion(workers=1, cache_folder=tmp_path / "cache") as run:
        yield run


def test_an_exception_that_takes_other_arguments_than_it_keeps_comes_as_itself(run):
    with pytest.raises(Unfit, match="a key is unfit: too short") as raised:
        run.submit(refuse, "a key", why="too short").result()
    assert (raised.value.what, raised.value.why) == ("a key", "too short")


def test_a_group_of_exceptions_comes_as_itself(run):
    with pytest.raises(ExceptionGroup) as raised:  # noqa: F821
        run.submit(refuse_together, ["first", "second"]).result()
    group = raised.value
    assert [type(one) for one in group.exceptions] == [Unfit, Unfit, ValueError]
    assert (group.message, group.exceptions[0].what, group.exceptions[1].why) == ("all of them", "first", "together")


def test_a_failures_line_names_the_file_and_not_its_copy(run, tmp_path):
    (tmp_path / "in.txt").write_text("text")
    failed = run.map(open_as_folder, [File(tmp_path / "in.txt")])
    (result,) = failed
    assert str(tmp_path / "in.txt") in repr(result) and "items" not in repr(result)


def test_a_list_of_results_shows_what_went_in_and_what_came_out(run, tmp_path):
    (tmp_path / "in.txt").write_text("text")
    results = list(run.map(divmod, [(7, 2), (7, 0)]).in_order())
    assert repr(results) == (
        "[TaskResult(index=0, arguments=(7, 2), value=(3, 1)), "
        "TaskResult(index=1, arguments=(7, 0), error=ZeroDivisionError: integer division or modulo by zero)]"
    )
    (read,) = run.map(content, [File(tmp_path / "in.txt")])
    assert repr(read) == f"TaskResult(index=0, arguments={tmp_path / 'in.txt'}, value=b'text')"


def test_the_text_of_a_result_is_short_whatever_the_result_is(run):
    results = [*run.map(filled, ["x", [[1] * 50], b"x"], [60000, 50, 10**6]).in_order(), *run.map(unreadable, [1])]
    texts = [repr(result) for result in results]
    assert all(len(text) < 300 for text in texts)
    assert "(60000 characters)" in texts[0] and "… 50 in all" in texts[1]
    assert re.search(r"value=… \d{7} bytes\)$", texts[2])
    assert texts[3].endswith("value=… cannot be unpickled here (ValueError))")


def test_a_crashed_process_is_reported_with_its_signal(run):
    with pytest.raises(WorkerLost, match="^diffusion_tasks.segfault: its process was killed by SIGSEGV"):
        run.submit(segfault).result()


def test_a_failure_that_the_function_did_not_raise_names_the_function(run, tmp_path):
    with pytest.raises(WorkerLost, match=r"^posix\._exit: its process ended with status 9"):
        run.submit(os._exit, 9).result()
    with pytest.raises(RuntimeError, match=r"sys.exit raised SystemExit\(3\)"):
        run.submit(sys.exit, 3).result()
    with Diffusion(workers=1, cache_folder=tmp_path / "cache", timeout_s=0.2) as hasty:
        with pytest.raises(TaskTimeout, match="^time.sleep took longer than timeout_s = 0.2 s"):
            hasty.submit(time.sleep, 60).result()


def test_a_missing_input_is_a_line_and_not_a_walk_through_the_library(run, tmp_path):
    with pytest.raises(FileNotFoundError, match="nowhere") as raised:
        run.submit(content, File(tmp_path / "nowhere")).result()
    cause = "".join(traceback.format_exception(raised.value.__cause__))
    assert len(cause.splitlines()) < 8 and "agent.py" not in cause


def test_there_are_as_many_workers_as_cores_that_may_be_used(tmp_path):
    allowed = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(allowed)})
    try:
        with Diffusion(cache_folder=tmp_path / "cache") as run:
            assert len(run._run._backend._slots) == 1
    finally:
        os.sched_setaffinity(0, allowed)
