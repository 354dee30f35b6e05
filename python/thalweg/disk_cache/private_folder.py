"""Folders that nobody but their user may write in: what lies there is read, trusted and removed.

`$TMPDIR` is everybody's. A folder that another user made there first, or a symbolic link to somewhere else, would have a
run delete or read what is not its own. SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import os
import stat

_OTHERS_MAY_WRITE = stat.S_IWGRP | stat.S_IWOTH


def make_private(folder: str) -> None:
    """Makes the folder with mode 0700, or checks the one that is there. Raises PermissionError where it is a link, no
    folder, another user's, or where others may write in it."""
    os.makedirs(os.path.dirname(folder), mode=0o700, exist_ok=True)
    try:
        os.mkdir(folder, mode=0o700)
    except FileExistsError:
        pass
    found = os.lstat(folder)
    why = _why_not(found)
    if why:
        raise PermissionError(f"{folder} {why}; remove it, or name another cache folder")


def _why_not(found: os.stat_result) -> str:
    if not stat.S_ISDIR(found.st_mode):
        return "is a symbolic link or no folder"
    if found.st_uid != os.geteuid():
        return f"belongs to user {found.st_uid}"
    if found.st_mode & _OTHERS_MAY_WRITE:
        return f"may be written by others (mode {stat.S_IMODE(found.st_mode):o})"
    return ""
