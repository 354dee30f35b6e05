"""What `help()` and type checkers show is there. SPDX-License-Identifier: Apache-2.0"""

import ast
import importlib.metadata
import inspect
from pathlib import Path

import pytest

import thalweg
from thalweg import _thalweg, cache, cached, file, listing, names, upload

CLASSES = [
    thalweg.ThalwegFileSystem,
    listing.Listing,
    names.LiteralNames,
    cached.CachedFileSystem,
    cache.Cache,
    file.ThalwegFile,
    file.WrittenFile,
    file.ScratchFile,
]


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


@pytest.mark.parametrize("shown", [thalweg, thalweg.create, *CLASSES[:1], *CLASSES[3:]])
def test_public_names_have_an_example(shown):
    assert "Examples\n--------\n>>> " in inspect.getdoc(shown)


def test_the_stub_of_the_extension_module_is_true():
    tree = ast.parse(Path(thalweg.__file__).with_name("_thalweg.pyi").read_text())
    stated = {}
    for node in tree.body:
        if isinstance(node, ast.ClassDef):
            stated[node.name] = {one.name for one in node.body if isinstance(one, ast.FunctionDef)} - {"__new__"}
        elif isinstance(node, ast.FunctionDef):
            stated[node.name] = set()
    found = {
        name: {one for one in vars(member) if not one.startswith("_")} if inspect.isclass(member) else set()
        for name, member in vars(_thalweg).items()
        if not name.startswith("_")
    }
    assert found == stated and set(upload.WriteMode.__args__) == {"replace", "create", "append"}
