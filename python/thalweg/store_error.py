"""Errors of paths and places, with the code that `thalweg explain` explains. SPDX-License-Identifier: Apache-2.0"""

from __future__ import annotations

import errno
import os

# What an error number stands for, where the place that raises it knows nothing better.
_CODES = {
    errno.ENOENT: "TW-203",
    errno.EISDIR: "TW-204",
    errno.ENOTDIR: "TW-205",
    errno.EEXIST: "TW-207",
    errno.ELOOP: "TW-212",
    errno.EINVAL: "TW-213",
    errno.EROFS: "TW-305",
    errno.EBUSY: "TW-406",
    errno.ESTALE: "TW-507",
}
# And of a path on this machine.
_LOCAL_CODES = {
    errno.ENOSPC: "TW-303",
    errno.EDQUOT: "TW-303",
    errno.EACCES: "TW-304",
    errno.EPERM: "TW-304",
    errno.EROFS: "TW-305",
    errno.ENOENT: "TW-306",
    errno.EEXIST: "TW-319",
    errno.ENOTDIR: "TW-319",
    errno.EISDIR: "TW-319",
    errno.ENOTEMPTY: "TW-319",
}
_SYSTEM_ERROR = "TW-307"


def local_error(number: int | None, path: str, why: str | None = None) -> OSError:
    """Returns the exception for an error number that the system gave for a path on this machine."""
    number = number or errno.EIO
    return store_error(number, path, why, _LOCAL_CODES.get(number, _SYSTEM_ERROR))


def store_error(number: int, path: str, why: str | None = None, code: str | None = None) -> OSError:
    """Returns the exception for an error number, as Python has it (`FileNotFoundError`, …), with the attribute `code`.

    Parameters
    ----------
    number : int
        Of `errno`.
    path : str
        The path in the store, or what else the error is about.
    why : str, optional
        Default: what the number says.
    code : str, optional
        Default: the number's.
    """
    code = code or _CODES[number]
    error = OSError(number, f"{why or os.strerror(number)} [{code}]", path)
    error.code = code  # type: ignore[attr-defined]
    return error
