"""Folders that only their user may write in: their content is read, trusted and removed.

A folder that another user made there first, or a symbolic link to somewhere else, would have a run delete or read what
is not its own. SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import grp
import os
import pwd
import stat

from thalweg.error_code import coded
from thalweg.store_error import local_error

# As many as Linux follows.
MAX_LINKS = 40


def user_cache(name: str) -> str:
    """Where the caches of that name are, of the user who runs this process."""
    base = os.environ.get("XDG_CACHE_HOME", "")
    # The specification has relative ones ignored.
    base = base if os.path.isabs(base) else os.path.join(os.path.expanduser("~"), ".cache")
    return os.path.join(base, "thalweg", name)


def private_base(folder: str | os.PathLike[str]) -> str:
    """Makes or checks a folder that a user names, as `make_private` does, and returns it. A symbolic link there is
    followed when it is the user's own or root's; what is returned is where it leads."""
    path = os.path.abspath(folder)
    try:
        found = os.lstat(path)
    except OSError:
        found = None
    if found is not None and stat.S_ISLNK(found.st_mode) and found.st_uid in (0, os.geteuid()):
        path = os.path.realpath(path)
    make_private(path)
    return path


def make_private(folder: str) -> None:
    """Makes the folder with mode 0700, or checks the one that is there. Raises PermissionError where it is a link, no
    folder, another user's, where others may write in it, or where the link of another user is on the way to it."""
    _refuse_strangers_links(folder)
    try:
        os.makedirs(os.path.dirname(folder), mode=0o700, exist_ok=True)
        try:
            os.mkdir(folder, mode=0o700)
        except FileExistsError:
            pass
        found = os.lstat(folder)
    except OSError as error:
        raise local_error(
            error.errno, folder, f"cannot be made ({error.strerror}); name another cache folder"
        ) from error
    why = _why_not(found, folder)
    if why:
        raise coded(PermissionError(f"{folder} {why}, or name another cache folder"), "TW-304")


def refuse_link(folder: str) -> None:
    """Raises PermissionError where something that is no folder stands in the place of one inside a private folder: what is
    behind a symbolic link would be removed as the cache's own."""
    try:
        found = os.lstat(folder)
    except FileNotFoundError:
        return
    if not stat.S_ISDIR(found.st_mode):
        raise coded(
            PermissionError(f"{folder} is a symbolic link or no folder; remove it, or name another cache folder"),
            "TW-304",
        )


def _refuse_strangers_links(folder: str) -> None:
    """Follows the path to the folder step by step: the owner of a link on the way may have it lead elsewhere at any time."""
    done, left, links = "/", _names(os.path.dirname(os.path.abspath(folder))), 0
    while left and links <= MAX_LINKS:
        step = os.path.normpath(os.path.join(done, left.pop(0)))
        try:
            found = os.lstat(step)
            target = os.readlink(step) if stat.S_ISLNK(found.st_mode) else None
        except OSError:
            # Missing folders are made by this user; making them reports any other error.
            return
        if target is None:
            done = step
            continue
        if found.st_uid not in (0, os.geteuid()):
            why = f"{step}, on the way to {folder}, is a symbolic link of user {found.st_uid}"
            raise coded(PermissionError(f"{why}; name another cache folder"), "TW-304")
        links += 1
        done, left = "/" if os.path.isabs(target) else done, _names(target) + left


def _names(path: str) -> list[str]:
    return [name for name in path.split("/") if name]


def _why_not(found: os.stat_result, folder: str) -> str:
    if not stat.S_ISDIR(found.st_mode):
        return "is a symbolic link or no folder; remove it"
    if found.st_uid != os.geteuid():
        return f"belongs to user {found.st_uid}; remove it"
    mode = f"(mode {stat.S_IMODE(found.st_mode):o}); empty it and `chmod go-w` it"
    if found.st_mode & stat.S_IWOTH:
        return f"may be written by others {mode}"
    if found.st_mode & stat.S_IWGRP and not (_is_users_own(found.st_gid) and not _has_acl(folder)):
        return f"may be written by others of its group {mode}"
    return ""


def _is_users_own(group: int) -> bool:
    """Whether no other user is in it: where each user has a group of the same name, umask 002 is usual."""
    try:
        user, found = pwd.getpwuid(os.geteuid()), grp.getgrgid(group)
    except KeyError:
        return False
    return group == user.pw_gid and found.gr_name == user.pw_name and set(found.gr_mem) <= {user.pw_name}


def _has_acl(folder: str) -> bool:
    """Then the bits of the group say what any of its entries may."""
    try:
        return "system.posix_acl_access" in os.listxattr(folder)
    except OSError:
        return False
