"""Folders that tasks write, on their way to where they belong.

On a file system that renames, a folder appears whole or not at all, and replaces an older one at once; in a Thalweg
store its files are one commit. Object stores have neither: there the files that lie directly in the folder (of a Zarr
store its metadata) go first when an older one is replaced and come last, so that no reader can open it in between; what an
upload that fails has put is removed. SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import ctypes
import errno
import os
import shutil
from typing import Any

from thalweg.diffusion.stores.protocols import is_local, make_parent, protocols, shows_whole_files
from thalweg.disk_cache.tree import files_of
from thalweg.store_error import local_error

_AT_FDCWD = -100
_RENAME_EXCHANGE = 2


def is_filled_folder(fs: Any, place: str) -> bool:
    if is_local(fs):
        # Of a link only the link is replaced.
        return os.path.isdir(place) and not os.path.islink(place) and bool(os.listdir(place))
    try:
        listed = fs.ls(place, detail=False)
    except (FileNotFoundError, NotADirectoryError):
        return False
    return any(one.rstrip("/") != place.rstrip("/") for one in listed)


def is_file(fs: Any, place: str) -> bool:
    if is_local(fs):
        return os.path.isfile(place) and not os.path.islink(place)
    found: bool = fs.isfile(place)
    return found


def put_folder(source: str, fs: Any, place: str, suffix: str) -> None:
    """Puts the folder at `source` in its place; `suffix` distinguishes temporary folders of different attempts."""
    parent = make_parent(fs, place)
    if "thalweg" in protocols(fs):
        _put_in_store(source, fs, place, f"{parent}/.{os.path.basename(place)}.{suffix}".lstrip("/"))
    elif shows_whole_files(fs):
        _put_objects(source, fs, place)
    else:
        temporary = f"{parent}/.{os.path.basename(place)}.{suffix}"
        if is_local(fs):
            _put_local(source, place, temporary)
        else:
            _put_and_move(source, fs, place, temporary)


def _put_local(source: str, place: str, temporary: str) -> None:
    try:
        shutil.copytree(source, temporary)
        if not os.path.lexists(place):
            os.rename(temporary, place)
        elif not _exchange(temporary, place):
            older = f"{temporary}.older"
            os.rename(place, older)
            os.rename(temporary, place)
            shutil.rmtree(older, ignore_errors=True)
    finally:
        # The failed upload, or the former folder.
        if os.path.isdir(temporary):
            shutil.rmtree(temporary, ignore_errors=True)
        elif os.path.lexists(temporary):
            os.unlink(temporary)


def _exchange(first: str, second: str) -> bool:
    """Exchanges two names at once; False where the system or the disk cannot."""
    try:
        renameat2 = ctypes.CDLL(None, use_errno=True).renameat2
    except AttributeError:
        return False
    if renameat2(_AT_FDCWD, os.fsencode(first), _AT_FDCWD, os.fsencode(second), _RENAME_EXCHANGE) == 0:
        return True
    code = ctypes.get_errno()
    if code in (errno.ENOSYS, errno.EINVAL, errno.EOPNOTSUPP):
        return False
    raise local_error(code, second)


def _put_and_move(source: str, fs: Any, place: str, temporary: str) -> None:
    try:
        _put_files(source, [file.path for file in files_of(source)], fs, temporary)
        if fs.exists(place):
            fs.rm(place, recursive=True)
        fs.mv(temporary, place, recursive=True)
    except BaseException:
        if fs.exists(temporary):
            fs.rm(temporary, recursive=True)
        raise


def _put_in_store(source: str, fs: Any, place: str, aside: str) -> None:
    """A file that is to be replaced waits under another name."""
    if not is_file(fs, place):
        _put_in_one_commit(source, fs, place)
        return
    fs.mv(place, aside)
    try:
        _put_in_one_commit(source, fs, place)
    except BaseException:
        fs.mv(aside, place)
        raise
    fs.rm_file(aside)


def _put_in_one_commit(source: str, fs: Any, place: str) -> None:
    older = _objects(fs, place)
    with fs.transaction:
        for file in files_of(source):
            fs.put_file(os.path.join(source, file.path), f"{place}/{file.path}")
    gone = older - {f"{place}/{file.path}" for file in files_of(source)}
    if gone:
        fs.rm(sorted(gone))


def _put_objects(source: str, fs: Any, place: str) -> None:
    older = _objects(fs, place)
    paths = [file.path for file in files_of(source)]
    first = [path for path in paths if "/" in path]
    last = [path for path in paths if "/" not in path]
    top = [name for name in older if "/" not in name[len(place) + 1 :]]
    try:
        if top:
            fs.rm(sorted(top))
        _put_files(source, first, fs, place)
        gone = older - set(top) - {f"{place}/{path}" for path in paths}
        if gone:
            fs.rm(sorted(gone))
        _put_files(source, last, fs, place)
    except BaseException:
        _remove(fs, place)
        raise


def _put_files(source: str, paths: list[str], fs: Any, place: str) -> None:
    """Several at once, where the file system can."""
    if not paths:
        fs.makedirs(place, exist_ok=True)
        return
    for folder in sorted({os.path.dirname(f"{place}/{path}") for path in paths}):
        fs.makedirs(folder, exist_ok=True)
    fs.put([os.path.join(source, path) for path in paths], [f"{place}/{path}" for path in paths])


def _objects(fs: Any, place: str) -> set[str]:
    try:
        return set(fs.find(place))
    except FileNotFoundError:
        return set()


def _remove(fs: Any, place: str) -> None:
    """A store that fails in the midst of an upload may also fail here: the error of the upload is what counts."""
    try:
        fs.rm(place, recursive=True)
    except Exception:
        pass
