"""universal_pathlib's paths of a store. SPDX-License-Identifier: Apache-2.0"""

import pickle
import subprocess
import sys

import pytest
from upath import UPath

from thalweg.upath import ThalwegPath


def test_a_path_is_written_with_its_store(store, fs, folder, place):
    path = UPath(place) / "sub" / "x.txt"
    assert repr(path) == f"ThalwegPath('{place}/sub/x.txt')"
    assert isinstance(path, ThalwegPath) and str(path) == f"{place}/sub/x.txt" == path.as_uri()
    path.parent.mkdir(parents=True)
    path.write_text("content")
    assert fs.cat_file(f"{folder}/sub/x.txt") == b"content"
    for other in (
        UPath(str(path)),
        pickle.loads(pickle.dumps(path)),
        UPath(path.path, protocol="thalweg", store=store),
    ):
        assert str(other) == str(path) and other.read_text() == "content"
    assert [str(one) for one in path.parent.iterdir()] == [str(path)]
    assert str(path.parent) == f"{place}/sub" and str(path.relative_to(path.parent)) == "x.txt"
    with pytest.raises(KeyError), path.open("w") as file:
        file.write("half")
        raise KeyError
    renamed = path.rename(path.with_name("y.txt"))
    assert str(renamed) == f"{place}/sub/y.txt" and renamed.read_text() == "content" and not path.exists()


def test_a_path_is_found_before_the_package_is_imported(place):
    UPath(f"{place}/x").write_text("content")
    program = f"from upath import UPath; path = UPath({place!r}) / 'x'; print(path, path.read_text())"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == f"{place}/x content\n"


def test_a_store_may_be_named_by_the_environment(fs, store, folder, monkeypatch):
    monkeypatch.delenv("THALWEG_STORE", raising=False)
    path = UPath(f"thalweg:///{folder}/x")
    assert str(path).startswith("thalweg://")
    monkeypatch.setenv("THALWEG_STORE", store)
    assert str(path) == fs.unstrip_protocol(f"{folder}/x")
