"""What the package raises has a code that `thalweg explain` knows. SPDX-License-Identifier: Apache-2.0"""

import ast
import pickle
import sys
from pathlib import Path

import pytest

import thalweg
from thalweg.diffusion import Command, Diffusion, File, Output, RecordedCommand, RunLost
from thalweg.diffusion.failure import Failure, TaskTimeout
from thalweg.disk_cache.private_folder import make_private
from thalweg.error_code import coded, misuse
from thalweg.rounding import check_chunk_bound, rounded

PACKAGE = Path(__file__).parent.parent / "thalweg"
CODES = {line.split()[0] for line in (PACKAGE.parent.parent / "testdata/error_codes.txt").read_text().splitlines()}
GIVING_CODES = {"coded", "misuse", "store_error", "local_error"}
# Answered inside the package: another peer or the store is asked, and a copy is fetched again.
INTERNAL = {"PeerFailed", "PeerBusy", "Refused", "Outdated", "_TooLarge", "pickle.UnpicklingError"}
# The protocol between two peers, whose errors become `PeerFailed`.
BETWEEN_PEERS = {"peers/message.py", "peers/handshake.py"}
# What Python itself asks for.
OF_PROTOCOLS = {"NotImplementedError", "AttributeError", "StopIteration", "KeyError"}

TREES = {path: ast.parse(path.read_text()) for path in sorted(PACKAGE.rglob("*.py"))}


def raised_names():
    """Where something is raised that is made there, and the name of what makes it."""
    for path, tree in TREES.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call):
                function = node.exc.func
                yield path, node.lineno, function.id if isinstance(function, ast.Name) else ast.unparse(function)


def coded_classes():
    return {
        node.name
        for tree in TREES.values()
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef) and any(ast.unparse(base) == "Coded" for base in node.bases)
    }


def test_what_is_raised_has_a_code():
    known = GIVING_CODES | INTERNAL | OF_PROTOCOLS | coded_classes()
    found = list(raised_names())
    without = [
        f"{path.relative_to(PACKAGE)}:{line}: {name}"
        for path, line, name in found
        if name not in known and not name.startswith("self.") and not any(path.match(one) for one in BETWEEN_PEERS)
    ]
    assert len(found) > 80 and not without, "\n".join(without)


def test_what_rust_raises_has_a_code():
    for path in (PACKAGE.parent / "src").glob("*.rs"):
        assert "Error::new_err(" not in path.read_text() or path.name == "error.rs", path


def test_the_codes_are_those_of_the_command():
    texts = [
        node.value
        for tree in TREES.values()
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and node.value.startswith("TW-")
        and node.value != "TW-"
    ]
    assert len(texts) > 20 and set(texts) <= CODES, set(texts) - CODES


def test_a_sentence_has_one_code_at_its_end():
    inner = misuse(ValueError, "no such thing")
    outer = coded(TypeError(f"task: {inner}"), "TW-201")
    assert (str(inner), str(outer)) == ("no such thing [TW-112]", "task: no such thing [TW-201]")
    assert (inner.code, outer.code) == ("TW-112", "TW-201")


def test_what_the_package_checks_itself_has_a_code(tmp_path):
    for call, code in [
        (lambda: Diffusion(policy="none"), "TW-112"),
        (lambda: Diffusion(cache="1.2.3 GB"), "TW-112"),
        (lambda: Diffusion(workers=1, page=70000), "TW-112"),
        (lambda: RecordedCommand("true", tolerance=5.0), "TW-112"),
        (lambda: RecordedCommand("sort", 1.5), "TW-112"),
        (lambda: Command("sort", 1)(), "TW-112"),
        (lambda: Diffusion(workers="two"), "TW-112"),
        (lambda: Diffusion(run_folder="/proc/nothing/there"), "TW-859"),
        (lambda: Diffusion(run_folder="/etc/passwd"), "TW-859"),
        (lambda: File(5), "TW-112"),
        (lambda: Output(5), "TW-112"),
        (lambda: thalweg.record([1, 2], "out", store=tmp_path), "TW-112"),
        (lambda: thalweg.record(["true"], None, store=tmp_path), "TW-112"),
        (lambda: thalweg.record(["true"], "out", store=tmp_path, environment={"A": 5}), "TW-112"),
        (lambda: thalweg.record(["true"], "out", store=tmp_path, tolerance={"out": "relative"}), "TW-112"),
        (lambda: thalweg.record(["true"], "out", store=tmp_path, kept_program_bytes=-1), "TW-112"),
        (lambda: thalweg.drop(5, store=tmp_path), "TW-112"),
        (lambda: thalweg.recompute("out", store=tmp_path, jobs=-1), "TW-112"),
        (lambda: thalweg.recipes(5), "TW-102"),
        (lambda: rounded([1, 2], "absolute:1"), "TW-807"),
        (lambda: check_chunk_bound("range:1e-3"), "TW-807"),
        (lambda: make_private("/proc/nothing/there"), "TW-306"),
    ]:
        with pytest.raises((ValueError, TypeError, IndexError, OSError)) as caught:
            call()
        assert caught.value.code == code and f"[{code}]" in str(caught.value), repr(caught.value)


def test_a_run_that_ends_early_has_the_code_of_its_cause(monkeypatch):
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    with Diffusion(workers=1) as run, pytest.raises(RunLost) as caught:
        run.submit(abs, -1).result()
    assert caught.value.code == "TW-853" and str(caught.value).count("[TW-") == 1


@pytest.mark.parametrize("error", [TaskTimeout("too long"), misuse(TypeError, "no list")])
def test_a_code_travels_from_a_worker(error):
    again = Failure.of(error).exception()
    assert (type(again), str(again), again.code) == (type(error), str(error), error.code)
    assert str(pickle.loads(pickle.dumps(again))) == str(error)
