"""Comparing trees of files: names, kinds, modes, owners, times, and contents."""

import hashlib
import os
import stat

from .registry import check


def described(folder, with_attributes=True):
    """The properties that must be equal of each file, by its path below the folder."""
    found = {}
    for parent, folders, files in os.walk(folder):
        for name in folders + files:
            path = os.path.join(parent, name)
            found[os.path.relpath(path, folder)] = description(path, with_attributes)
    return found


def description(path, with_attributes):
    status = os.lstat(path)
    attributes = (stat.S_IMODE(status.st_mode), status.st_uid, status.st_gid) if with_attributes else ()
    if stat.S_ISLNK(status.st_mode):
        return ("link", os.readlink(path), *attributes[1:])
    if stat.S_ISDIR(status.st_mode):
        return ("folder", *attributes)
    modified = (status.st_mtime_ns,) if with_attributes else ()
    return ("file", status.st_size, digest(path), *attributes, *modified)


def digest(path):
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "blake2b").hexdigest()


def check_equal(wanted, found, with_attributes=True):
    one, other = described(wanted, with_attributes), described(found, with_attributes)
    check(one, f"{wanted} is empty")
    different = sorted(name for name in one.keys() | other.keys() if one.get(name) != other.get(name))
    shown = ", ".join(f"{name}: {one.get(name)} and {other.get(name)}" for name in different[:3])
    check(not different, f"{wanted} and {found} differ in {len(different)} of {len(one)} files: {shown}")
