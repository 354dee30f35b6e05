"""A cache folder that others planted is refused, and nothing in it is touched."""

import os

import pytest

from thalweg.disk_cache.cache_dir_lock import CacheDirLock


def test_a_new_folder_is_its_users_alone(tmp_path):
    cache_dir = CacheDirLock(str(tmp_path / "base"))
    for folder in (tmp_path / "base", tmp_path / "base" / "0"):
        assert os.stat(folder).st_mode & 0o777 == 0o700
    cache_dir.release()


@pytest.mark.parametrize("planted", ["base", "base/0"])
def test_a_link_is_refused_and_its_target_untouched(tmp_path, planted):
    victim = tmp_path / "victim"
    (victim / "partial").mkdir(parents=True)
    (victim / "partial" / "precious").write_text("kept")
    link = tmp_path / planted
    link.parent.mkdir(mode=0o700, exist_ok=True)
    link.symlink_to(victim)
    with pytest.raises(PermissionError, match="symbolic link"):
        CacheDirLock(str(tmp_path / "base"))
    assert (victim / "partial" / "precious").read_text() == "kept"


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
