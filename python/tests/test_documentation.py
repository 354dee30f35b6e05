"""What `help()` and type checkers show is there. SPDX-License-Identifier: Apache-2.0"""

import ast
import doctest
import importlib.metadata
import inspect
import os
from pathlib import Path

import pytest

import thalweg
from thalweg import _thalweg, cached, diffusion, file, listing, names, upload
from thalweg.disk_cache import block_cache

CLASSES = [
    thalweg.ThalwegFileSystem,
    listing.Listing,
    names.LiteralNames,
    cached.CachedFileSystem,
    block_cache.BlockCache,
    file.ThalwegFile,
    file.WrittenFile,
    file.ScratchFile,
]
# Of `thalweg.diffusion`: exceptions and what users are given need no example.
SHOWN = {
    *("Command", "Diffusion", "File", "Output", "RecordedCommand", "Results", "TaskFuture", "TaskResult"),
    "as_completed",
}


def test_the_version_is_the_packages():
    assert thalweg.__version__ == importlib.metadata.version("thalweg")


@pytest.mark.parametrize("kind", CLASSES)
def test_every_public_name_says_what_it_does(kind):
    undocumented = [
        name
        for name, member in vars(kind).items()
        if not name.startswith("_") and callable(member) and not inspect.getdoc(getattr(kind, name))
    ]
    assert undocumented == []


RECIPES = [thalweg.record, thalweg.drop, thalweg.plan_recompute, thalweg.recompute, thalweg.recipes]


@pytest.mark.parametrize("shown", [thalweg, thalweg.create, *RECIPES, *CLASSES[:1], *CLASSES[3:]])
def test_public_names_have_an_example(shown):
    assert "Examples\n--------\n>>> " in inspect.getdoc(shown)


@pytest.mark.parametrize("name", ["result", "exception", "cancel"])
def test_what_one_does_with_a_future_has_an_example(name):
    assert "Examples\n--------\n>>> " in inspect.getdoc(getattr(diffusion.TaskFuture, name))


@pytest.mark.parametrize("shown", [getattr(diffusion, name) for name in diffusion.__all__])
def test_examples_of_data_diffusion_run(shown, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    found = doctest.DocTestFinder().find(shown, shown.__name__, globs={**vars(diffusion), "os": os})
    has_example = any(test.examples for test in found)
    assert has_example == (shown.__name__ in SHOWN)
    with diffusion.Diffusion(workers=2, cache_folder=tmp_path / "cache") as run:
        for test in found:
            test.globs["d"] = run
            failed = doctest.DocTestRunner().run(test).failed
            assert failed == 0


def test_the_stub_of_the_extension_module_is_true():
    tree = ast.parse(Path(thalweg.__file__).with_name("_thalweg.pyi").read_text())
    stated = {}
    for node in tree.body:
        if isinstance(node, ast.ClassDef):
            stated[node.name] = {one.name for one in node.body if isinstance(one, ast.FunctionDef)} - {"__new__"}
        elif isinstance(node, ast.FunctionDef):
            stated[node.name] = set()
        elif isinstance(node, ast.AnnAssign) and node.target.id != "__version__":
            stated[node.target.id] = set()
    found = {
        name: {one for one in vars(member) if not one.startswith("_")} if inspect.isclass(member) else set()
        for name, member in vars(_thalweg).items()
        if not name.startswith("_")
    }
    assert found == stated and set(upload.WriteMode.__args__) == {"replace", "create", "append"}
