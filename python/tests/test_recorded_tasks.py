"""Tasks that leave recipes with their outputs, on this machine's processes and on Dask. SPDX-License-Identifier: Apache-2.0"""

import os
import signal
import sys
import time
from pathlib import Path

import pytest
from test_diffusion import begin, cluster  # noqa: F401

import thalweg
from thalweg._thalweg import store_run
from thalweg.diffusion import CommandFailed, File, NotRecorded, Output, RecordedCommand
from thalweg.diffusion.stores import recorded
from thalweg.diffusion.worker.local import Local

DOUBLE = RecordedCommand(
    sys.executable, "-c", "import sys; open(sys.argv[2], 'w').write(2 * open(sys.argv[1]).read())", 0, 1
)


def recipes_of(fs, path):
    return [recipe for recipe in thalweg.recipes(fs.address) if path in [output.path for output in recipe.outputs]]


def test_outputs_of_tasks_are_dropped_and_come_back_without_dask(begin, fs, place, folder):  # noqa: F811
    fs.pipe_file(f"{folder}/raw", b"data ")
    with begin() as run:
        names = ["raw", "two", "four"]
        futures = [
            run.submit(DOUBLE, File(f"{place}/{one}"), Output(f"{place}/{after}"))
            for one, after in zip(names, names[1:])
        ]
        assert [future.result() for future in futures] == ["", ""]
        # What reads a task's output waits for it, and finds it in the cache.
        assert run.submit(os.path.getsize, File(f"{place}/four")).result() == 20
    made = [f"{folder}/two", f"{folder}/four"]
    recipe = recipes_of(fs, made[1])[0]
    assert recipe.inputs == [made[0]] and recipe.command[-2:] == made and recipe.why_not is None
    assert [dropped.path for dropped in thalweg.drop(made, store=fs.address)] == made
    with pytest.raises(OSError, match="dropped"):
        fs.cat_file(made[1])
    assert thalweg.recompute(made[1], store=fs.address) == [(made[1], 20, True)]
    assert fs.cat_file(made[1]) == b"data data data data "


def test_a_folder_in_and_a_folder_out_are_files_of_one_recipe(begin, fs, place, folder):  # noqa: F811
    fs.pipe({f"{folder}/in/{name}": name.encode() for name in ("a", "b/c")})
    copy = RecordedCommand("sh", "-c", "cp -r $0/. $1 && echo $2", 0, 1, 2)
    with begin() as run:
        printed = run.submit(copy, File(f"{place}/in"), Output(f"{place}/out"), "copied").result()
        assert printed == "copied\n"
        fs.pipe_file(f"{folder}/in/d", b"new")
        fs.rm_file(f"{folder}/in/a")
    assert fs.cat_file(f"{folder}/out/b/c") == b"b/c"
    (recipe,) = recipes_of(fs, f"{folder}/out/a")
    assert [output.path for output in recipe.outputs] == [f"{folder}/out/a", f"{folder}/out/b/c"]


@pytest.mark.parametrize("begin", ["local"], indirect=True)
def test_an_input_is_not_read_from_the_store_again(begin, fs, place, folder, monkeypatch):  # noqa: F811
    with fs.open(f"{folder}/raw", "wb") as file:
        file.write(b"appended ")
    with fs.open(f"{folder}/raw", "ab") as file:
        file.write(b"to")
    # The store has no digest to compare with: its manifest says that the file is what the cache has.
    assert fs.ukey(f"{folder}/raw").startswith("root-")
    known = []
    monkeypatch.setattr(recorded, "store_run", lambda *all: (known.append(all[-1]), store_run(*all)))
    with begin() as run:
        calls = [(File(f"{place}/raw"), Output(f"{place}/out-{number}")) for number in range(6)]
        assert [result.value for result in run.map(DOUBLE, calls)] == [""] * 6
    assert {fs.cat_file(f"{folder}/out-{number}") for number in range(6)} == {b"appended toappended to"}
    assert [[path for path, _ in roots] for roots in known] == [[os.fsencode(f"{folder}/raw")]] * 6
    monkeypatch.setattr(recorded, "store_run", lambda *all: store_run(*all[:-1], []))
    with begin() as run:
        run.submit(DOUBLE, File(f"{place}/raw"), Output(f"{place}/out")).result()


def test_a_command_that_fails_says_why_and_leaves_the_store_as_before(begin, fs, place, folder):  # noqa: F811
    fs.pipe_file(f"{folder}/raw", b"data ")
    source, target = File(f"{place}/raw"), Output(f"{place}/out")
    failing = [
        (("sh", "-c", "echo no such luck >&2; exit 3"), r"exited with 3\nno such luck \[TW-812\]"),
        (("true",), f"did not make {folder}/out"),
        (("sh", "-c", "echo > other; echo > $0", 1), "left other"),
        (("sh", "-c", "chmod u+w $0; echo > $0; echo > $1", 0, 1), f"changed {folder}/raw"),
    ]
    with begin() as run:
        for words, said in failing:
            with pytest.raises(CommandFailed, match=said) as raised:
                run.submit(RecordedCommand(*words), source, target).result()
            assert raised.value.code == "TW-812"
        for call, said in [
            ((source,), "at least one Output"),
            ((File("/etc/hosts"), target), "lies in no Thalweg store"),
            ((File(f"{place}/raw", 1, 2), target), "whole files"),
            (([source], target), "arguments of their own"),
        ]:
            with pytest.raises((TypeError, ValueError), match=said):
                run.submit(RecordedCommand("true"), *call).result()
    assert fs.ls(folder, detail=False) == [f"{folder}/raw"] and fs.cat_file(f"{folder}/raw") == b"data "
    assert recipes_of(fs, f"{folder}/out") == []


def test_an_input_that_is_not_kept_any_more_leaves_the_store_as_before(begin, fs, place, folder, tmp_path):  # noqa: F811
    fs.pipe_file(f"{folder}/raw", b"data ")
    go_on = tmp_path / "go-on"
    wait = RecordedCommand("sh", "-c", "while ! [ -e $2 ]; do sleep 0.05; done; cp $0 $1", 0, 1, 2)
    with begin() as run:
        future = run.submit(wait, File(f"{place}/raw"), Output(f"{place}/out"), str(go_on))
        while not run.submit(os.path.isfile, File(f"{place}/raw")).result():
            pass
        fs.rm_file(f"{folder}/raw")
        fs.pipe_file(f"{folder}/raw", b"other")
        go_on.touch()
        with pytest.raises(NotRecorded, match="changed or removed in the store"):
            future.result()
    assert not fs.exists(f"{folder}/out") and recipes_of(fs, f"{folder}/out") == []


def processes(token):
    """The processes of a command that has this word, and their parents."""
    found = {}
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
            if token.encode() in words:
                found[int(pid)] = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
        except OSError:
            pass
    return found


def test_a_worker_that_is_killed_leaves_the_store_as_before(begin, fs, place, folder, tmp_path):  # noqa: F811
    fs.pipe_file(f"{folder}/raw", b"data ")
    go_on, token = tmp_path / "go-on", f"token-{folder}"
    wait = RecordedCommand("sh", "-c", "while ! [ -e $2 ]; do sleep 0.05; done; cp $0 $1", 0, 1, str(go_on), token)
    with begin() as run:
        future = run.submit(wait, File(f"{place}/raw"), Output(f"{place}/out"))
        while not (first := processes(token)):
            time.sleep(0.05)
        os.kill(*first.values(), signal.SIGKILL)
        # The command ends with the worker, and begins anew elsewhere.
        while not (second := processes(token)) or first.keys() & second.keys():
            time.sleep(0.05)
        assert fs.ls(folder, detail=False) == [f"{folder}/raw"]
        go_on.touch()
        assert future.result() == ""
    assert fs.cat_file(f"{folder}/out") == b"data " and len(recipes_of(fs, f"{folder}/out")) == 1
    if isinstance(run._run._backend, Local):
        assert list((tmp_path / "cache").rglob("thalweg-recipe-*")) == []
