"""Names with glob characters are names where one name is asked for. SPDX-License-Identifier: Apache-2.0"""

import pytest

# Each with a name that it matches as a pattern.
NAMES = {"e[1].txt": "e1.txt", "a*b": "axb", "q?": "qq", "[!x]": "y"}


@pytest.fixture(params=NAMES)
def names(request, fs, folder):
    """A name that does not exist, and one that does, which it matches."""
    name, other = f"{folder}/{request.param}", f"{folder}/{NAMES[request.param]}"
    fs.pipe_file(other, b"other")
    return name, other


def test_a_name_that_is_not_there_is_missing(fs, names):
    name, other = names
    assert not (fs.exists(name) or fs.isfile(name) or fs.isdir(name))
    operations = [
        lambda: fs.rm_file(name),
        lambda: fs._rm(name),
        lambda: fs.info(name),
        lambda: fs.cat_file(name),
        lambda: fs.open(name),
        lambda: fs.cp_file(name, f"{name}.copy"),
        lambda: fs.versions(name),
        lambda: fs.head(name),
    ]
    for operation in operations:
        with pytest.raises(FileNotFoundError):
            operation()
    assert fs.find(name) == []
    assert fs.cat_file(other) == b"other"


def test_a_name_that_is_there_is_meant(fs, names, tmp_path):
    name, other = names
    parent = fs._parent(name)
    with fs.open(name, "wb") as file:
        file.write(b"mine")
    assert fs.info(name)["name"] == name and fs.find(name) == [name] and fs.du(name) == 4
    assert fs.cat(name) == b"mine" and fs.cat([name]) == {name: b"mine"} and fs.expand_path(name) == [name]
    fs.touch(name, truncate=False)
    fs.get(name, str(tmp_path / "got"))
    assert (tmp_path / "got").read_bytes() == b"mine"
    fs.copy(name, f"{parent}/copy")
    assert fs.cat(f"{parent}/copy") == b"mine"
    fs.mv(name, f"{parent}/moved")
    assert fs.cat(f"{parent}/moved") == b"mine" and not fs.exists(name)
    fs.mv([f"{parent}/moved"], [name])
    for remove in (fs.rm, lambda one: fs.rm([one]), fs.rm_file, lambda one: fs.rm(one, recursive=True)):
        fs.pipe_file(name, b"mine")
        remove(name)
        assert fs.find(parent) == sorted([other, f"{parent}/copy"])
    assert fs.cat_file(other) == b"other"


def test_a_directory_with_such_a_name_is_meant(fs, folder):
    fs.pipe({f"{folder}/d[1]/x": b"1", f"{folder}/d1/x": b"2"})
    assert fs.expand_path(f"{folder}/d[1]", recursive=True) == [f"{folder}/d[1]", f"{folder}/d[1]/x"]
    fs.copy(f"{folder}/d[1]", f"{folder}/copy", recursive=True)
    assert fs.cat(f"{folder}/copy/x") == b"1"
    fs.rm(f"{folder}/d[1]", recursive=True)
    assert fs.find(folder) == [f"{folder}/copy/x", f"{folder}/d1/x"]


def test_patterns_are_patterns_where_many_are_asked_for(fs, folder):
    fs.pipe({f"{folder}/{name}": name.encode() for name in ("a1", "a2", "b1")})
    assert fs.cat(f"{folder}/a*") == {f"{folder}/a1": b"a1", f"{folder}/a2": b"a2"}
    fs.mkdir(f"{folder}/into")
    fs.mv(f"{folder}/a*", f"{folder}/into/")
    assert fs.find(folder) == [f"{folder}/b1", f"{folder}/into/a1", f"{folder}/into/a2"]
    fs.rm(f"{folder}/*1")
    assert fs.find(folder) == [f"{folder}/into/a1", f"{folder}/into/a2"]
    with pytest.raises(FileNotFoundError):
        fs.rm(f"{folder}/z*")


def test_what_is_moved_into_a_match_of_its_own_pattern_survives(fs, folder):
    fs.pipe({f"{folder}/a1": b"1", f"{folder}/a2": b"2"})
    fs.mv(f"{folder}/a*", f"{folder}/all/", recursive=True)
    assert fs.find(folder) == [f"{folder}/all/a1", f"{folder}/all/a2"]
    with pytest.raises(OSError, match="into itself"):
        fs.mv(f"{folder}/a*", f"{folder}/all/", recursive=True)
    assert fs.find(folder) == [f"{folder}/all/a1", f"{folder}/all/a2"]
