"""Commands that leave recipes, and what becomes of the data that these make again. SPDX-License-Identifier: Apache-2.0"""

import os
import sys

import fsspec
import pytest

import thalweg

DOUBLE = "import sys; open(sys.argv[2], 'w').write(2 * open(sys.argv[1]).read())"


@pytest.fixture
def chain(fs, folder):
    """A file, and two commands that each double what the one before left."""
    paths = [f"{folder}/{name}" for name in ("raw", "two", "four")]
    fs.pipe_file(paths[0], b"data ")
    recipes = [_doubled(fs, read, written) for read, written in zip(paths, paths[1:])]
    return paths, recipes


def _doubled(fs, read, written, **options):
    command = [sys.executable, "-c", DOUBLE, read, written]
    return thalweg.record(command, written, read, store=fs.address, **options)


def test_a_command_leaves_its_outputs_and_a_recipe(fs, chain):
    (raw, two, four), recorded = chain
    assert fs.cat_file(four) == b"data data data data "
    assert recorded[1].outputs == {four: 20} and recorded[1].seconds > 0
    listed = {recipe.id: recipe for recipe in thalweg.recipes(fs.address)}
    first = listed[recorded[0].recipe]
    assert first.command[-2:] == [raw, two] and first.inputs == [raw] and first.uid == os.getuid()
    assert first.outputs == [(two, 10, "kept")] and first.why_not is None
    assert listed[recorded[1].recipe].seconds_with_inputs >= recorded[1].seconds


def test_what_was_dropped_is_made_again_where_that_is_asked_for(fs, chain):
    (_, two, four), recorded = chain
    assert [dropped.path for dropped in thalweg.drop([two, four], store=fs.address)] == [two, four]
    assert fs.size(four) == 20
    with pytest.raises(OSError, match=f"recipe {recorded[1].recipe} makes it again") as raised:
        fs.cat_file(four)
    assert raised.value.code == "TW-808"
    with pytest.raises(OSError, match="recompute"), fs.open(two) as file:
        file.read()
    reading = fsspec.filesystem("thalweg", store=fs.address, recompute=True)
    assert reading.cat_file(four, 5, 10) == b"data "
    with reading.open(two) as file:
        assert file.read() == b"data data "
    assert reading.cat_ranges([two, four], 0, 4) == [b"data", b"data"]
    assert {recipe.outputs[0].state for recipe in thalweg.recipes(fs.address) if recipe.inputs[0] == two} == {"dropped"}


def test_dropped_files_get_their_data_back_with_each_command_once(fs, chain):
    (_, two, four), recorded = chain
    thalweg.drop([two, four], store=fs.address)
    steps = thalweg.plan_recompute([four, two], store=fs.address)
    assert [step.recipe for step in steps] == [one.recipe for one in recorded]
    assert thalweg.recompute(four, store=fs.address) == [(four, 20, True)]
    assert fs.cat_file(four) == b"data data data data "
    with pytest.raises(OSError, match="dropped"):
        fs.cat_file(two)
    with pytest.raises(OSError, match="is not dropped"):
        thalweg.recompute(four, store=fs.address)


def test_a_command_that_fails_leaves_the_store_as_before(fs, folder):
    out = f"{folder}/out"
    for source, match in [("1 / 0", "exit"), ("pass", "did not make"), ("open('other', 'w')", "did not make")]:
        with pytest.raises(RuntimeError, match=match) as raised:
            thalweg.record([sys.executable, "-c", source], out, store=fs.address)
        assert raised.value.code.startswith("TW-")
    with pytest.raises(RuntimeError, match="within 0.2 s"):
        thalweg.record(["sleep", "60"], out, store=fs.address, timeout_s=0.2)
    assert not fs.exists(out)


def test_names_in_the_commands_directory_may_be_others(fs, folder, tmp_path):
    fs.pipe_file(f"{folder}/raw", b"3\n1\n")
    (tmp_path / "sorted.py").write_text("print(*sorted(open('a')), sep='', end='', file=open('b', 'w'))")
    recorded = thalweg.record(
        [sys.executable, "sorted.py"],
        {"b": f"{folder}/out"},
        {"a": f"{folder}/raw"},
        store=fs.address,
        directory=tmp_path,
        environment={"KIND": "ascending"},
    )
    assert fs.cat_file(f"{folder}/out") == b"1\n3\n" and recorded.outputs == {f"{folder}/out": 4}
    thalweg.drop(f"{folder}/out", store=fs.address)
    # The program is kept.
    (tmp_path / "sorted.py").unlink()
    assert thalweg.recompute(f"{folder}/out", store=fs.address)[0].is_exact


def test_results_that_differ_a_little_pass_where_that_is_allowed(fs, folder):
    source = "import os, struct; open('out', 'wb').write(struct.pack('<d', 1 + int.from_bytes(os.urandom(2), 'big') * 1e-12) * 999)"
    for tolerance in (None, (1e-6, "f64")):
        path = f"{folder}/out-{tolerance is None}"
        thalweg.record([sys.executable, "-c", source], {"out": path}, store=fs.address, tolerance=tolerance)
        thalweg.drop(path, store=fs.address)
        if tolerance is None:
            with pytest.raises(RuntimeError) as raised:
                thalweg.recompute(path, store=fs.address)
            assert raised.value.code.startswith("TW-") and fs.size(path) == 8 * 999
        else:
            assert thalweg.recompute(path, store=fs.address) == [(path, 8 * 999, False)]


def test_what_no_recipe_makes_again_is_not_dropped(fs, chain, folder):
    (raw, _, _), _ = chain
    with pytest.raises(OSError, match="raw"):
        thalweg.drop(raw, store=fs.address)
    out = f"{folder}/in-situ"
    thalweg.record(["touch", out], out, store=fs.address, inputs_not_kept=["the detector"])
    with open(os.devnull) as _, pytest.raises(OSError):
        thalweg.drop(out, store=fs.address)
    assert any(recipe.why_not == "the detector is not kept" for recipe in thalweg.recipes(fs.address))


def test_the_stores_own_files_are_not_removed_or_renamed(fs, chain):
    _, recorded = chain
    for call in (lambda name: fs.rm_file(name), lambda name: fs.mv(name, "elsewhere")):
        with pytest.raises(OSError, match="its own files"):
            call(f".thalweg-recipes/{recorded[0].recipe}")


def test_a_check_finds_what_does_not_come_out_the_same_and_another_result_can_be_accepted(fs, folder):
    path = f"{folder}/random"
    command = [sys.executable, "-c", "import os, sys; open(sys.argv[1], 'wb').write(os.urandom(9))", path]
    thalweg.record(command, path, store=fs.address)
    first = fs.cat_file(path)
    with pytest.raises(RuntimeError, match="not the same bit for bit") as raised:
        thalweg.drop(path, store=fs.address, check=True)
    assert raised.value.code == "TW-813" and fs.cat_file(path) == first
    thalweg.drop(path, store=fs.address)
    with pytest.raises(RuntimeError):
        thalweg.recompute(path, store=fs.address)
    assert thalweg.recompute(path, store=fs.address, accept_different=True) == [(path, 9, False)]
    assert len(fs.cat_file(path)) == 9 and fs.cat_file(path) != first


def test_words_in_one_string_are_refused(fs, folder):
    with pytest.raises(TypeError, match="shlex"):
        thalweg.record("touch out", f"{folder}/out", store=fs.address)
    with pytest.raises(ValueError, match="tolerance"):
        thalweg.record(["touch", "out"], f"{folder}/out", store=fs.address, tolerance=(2.0, "f64"))
    with pytest.raises(ValueError, match="above 0"):
        thalweg.record(["touch", "out"], f"{folder}/out", store=fs.address, timeout_s=-1)
