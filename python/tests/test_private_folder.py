"""A cache folder that others planted is refused, and nothing in it is touched. SPDX-License-Identifier: Apache-2.0"""

import grp
import os
import pwd
import shutil
import stat

import fsspec
import pytest

from thalweg.cached import CachedFileSystem
from thalweg.diffusion import Diffusion
from thalweg.disk_cache.cache_dir_lock import CacheDirLock, default_base
from thalweg.disk_cache.disk_cache import DiskCache


def test_a_new_folder_is_its_users_alone(tmp_path):
    cache_dir = CacheDirLock(str(tmp_path / "base"))
    for folder in (tmp_path / "base", tmp_path / "base" / "0"):
        assert os.stat(folder).st_mode & 0o777 == 0o700
    cache_dir.release()


def test_the_default_is_in_the_users_cache_directory(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "caches"))
    assert default_base() == str(tmp_path / "caches" / "thalweg" / "diffusion")
    monkeypatch.setenv("HOME", str(tmp_path))
    for ignored in ("", "relative"):
        monkeypatch.setenv("XDG_CACHE_HOME", ignored)
        assert default_base() == str(tmp_path / ".cache" / "thalweg" / "diffusion")


def test_a_folder_that_cannot_be_made_says_what_to_do(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(OSError, match="cannot be made .*name another cache folder"):
        CacheDirLock(str(tmp_path / "file" / "base"))


def planted_link(tmp_path, planted, monkeypatch):
    if planted == "base":
        # Another user's.
        owner, lstat = os.geteuid() + 1, os.lstat
        monkeypatch.setattr(os, "lstat", lambda path: with_owner(lstat(path), owner))
    return tmp_path / planted


def with_owner(found, owner):
    if not stat.S_ISLNK(found.st_mode):
        return found
    return os.stat_result([owner if place == stat.ST_UID else value for place, value in enumerate(found[:10])])


def test_a_link_of_ones_own_to_a_folder_of_ones_own_is_followed(tmp_path):
    (tmp_path / "disk").mkdir(mode=0o700)
    for name, target in (("base", "disk"), ("to-nowhere", "not-there-yet")):
        (tmp_path / name).symlink_to(tmp_path / target)
        cache_dir = CacheDirLock(str(tmp_path / name))
        assert cache_dir.folder == str(tmp_path / target / "0")
        cache_dir.release()
    (tmp_path / "shared").mkdir()
    (tmp_path / "shared").chmod(0o777)
    (tmp_path / "to-shared").symlink_to(tmp_path / "shared")
    with pytest.raises(PermissionError, match="shared may be written by others"):
        CacheDirLock(str(tmp_path / "to-shared"))


def test_a_group_of_ones_own_may_write_and_another_may_not(tmp_path, monkeypatch):
    user = pwd.getpwuid(os.geteuid())
    groups = [grp.struct_group((user.pw_name, "x", user.pw_gid, members)) for members in ([], ["somebody"])]
    (tmp_path / "base").mkdir()
    (tmp_path / "base").chmod(0o775)
    os.chown(tmp_path / "base", -1, user.pw_gid)
    monkeypatch.setattr(grp, "getgrgid", lambda group: groups[0])
    CacheDirLock(str(tmp_path / "base")).release()
    monkeypatch.setattr(grp, "getgrgid", lambda group: groups[1])
    with pytest.raises(PermissionError, match="others of its group .mode 775.; empty it"):
        CacheDirLock(str(tmp_path / "base"))


def test_thalwegcache_refuses_and_takes_the_same_folders(tmp_path):
    fs = fsspec.filesystem("file")
    (tmp_path / "base").mkdir()
    (tmp_path / "base").chmod(0o777)
    with pytest.raises(PermissionError, match="written by others"):
        CachedFileSystem(tmp_path / "base", fs=fs)
    (tmp_path / "base").chmod(0o755)
    (tmp_path / "link").symlink_to(tmp_path / "base")
    (tmp_path / "file").write_text("content")
    assert CachedFileSystem(tmp_path / "link", fs=fs).cat_file(str(tmp_path / "file")) == b"content"
    assert (tmp_path / "base" / "index.sqlite").exists()


@pytest.mark.parametrize("planted", ["base", "base/0"])
def test_a_link_is_refused_and_its_target_untouched(tmp_path, planted, monkeypatch):
    victim = tmp_path / "victim"
    (victim / "partial").mkdir(parents=True)
    (victim / "partial" / "precious").write_text("kept")
    link = planted_link(tmp_path, planted, monkeypatch)
    link.parent.mkdir(mode=0o700, exist_ok=True)
    link.symlink_to(victim)
    with pytest.raises(PermissionError, match="symbolic link"):
        CacheDirLock(str(tmp_path / "base"))
    assert (victim / "partial" / "precious").read_text() == "kept"


@pytest.mark.parametrize("planted", ["items", "partial", "scratch"])
def test_a_link_inside_a_cache_is_refused_and_its_target_untouched(tmp_path, planted):
    with Diffusion(cache="1 MB", workers=1, cache_folder=tmp_path / "base") as run:
        assert run.submit(len, "abc").result() == 3
    victim = tmp_path / "victim"
    (victim / "below").mkdir(parents=True)
    for precious in (victim / "precious", victim / "below" / "precious"):
        precious.write_text("kept")
    inside = tmp_path / "base" / "0" / planted
    shutil.rmtree(inside, ignore_errors=True)
    inside.symlink_to(victim)
    with pytest.raises(PermissionError, match=f"{planted} is a symbolic link"):
        Diffusion(cache="1 MB", workers=1, cache_folder=tmp_path / "base")
    assert sorted(os.listdir(victim)) == ["below", "precious"] and os.listdir(victim / "below") == ["precious"]


def test_what_is_behind_a_link_among_the_copies_stays(tmp_path):
    victim = tmp_path / "victim"
    victim.mkdir()
    (victim / "precious").write_text("kept")
    DiskCache(tmp_path / "cache", "1 MB")
    (tmp_path / "cache" / "items").mkdir(exist_ok=True)
    (tmp_path / "cache" / "items" / "af").symlink_to(victim)
    DiskCache(tmp_path / "cache", "1 MB")
    assert os.listdir(victim) == ["precious"]


def test_a_folder_that_others_may_write_in_is_refused(tmp_path):
    (tmp_path / "base").mkdir()
    (tmp_path / "base").chmod(0o777)
    with pytest.raises(PermissionError, match="written by others"):
        CacheDirLock(str(tmp_path / "base"))


def test_another_users_folder_is_refused(tmp_path, monkeypatch):
    (tmp_path / "base").mkdir(mode=0o700)
    owner = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: owner + 1)
    with pytest.raises(PermissionError, match=f"belongs to user {owner}"):
        CacheDirLock(str(tmp_path / "base"))


def test_links_on_the_way_are_followed_when_they_are_ones_own_and_refused_when_a_strangers(tmp_path, monkeypatch):
    (tmp_path / "disk" / "deep").mkdir(parents=True, mode=0o700)
    (tmp_path / "to-disk").symlink_to("disk")
    (tmp_path / "disk" / "back").symlink_to("../to-disk/deep")
    CacheDirLock(str(tmp_path / "to-disk" / "back" / "base")).release()
    assert (tmp_path / "disk" / "deep" / "base" / "0").is_dir()
    owner, lstat = os.geteuid() + 1, os.lstat
    monkeypatch.setattr(os, "lstat", lambda path: with_owner(lstat(path), owner))
    for way in (("to-disk", "other"), ("disk", "back", "other"), ("to-disk", "new", "other")):
        with pytest.raises(PermissionError, match=f"symbolic link of user {owner}; name another cache folder"):
            CacheDirLock(str(tmp_path.joinpath(*way)))
    assert not (tmp_path / "disk" / "new").exists()


def test_links_in_a_circle_are_an_error_and_no_endless_walk(tmp_path):
    (tmp_path / "one").symlink_to("two")
    (tmp_path / "two").symlink_to("one")
    with pytest.raises(OSError, match="name another cache folder"):
        CacheDirLock(str(tmp_path / "one" / "base"))
