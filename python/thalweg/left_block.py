"""Whether a file is closed because the block of a `with` statement raised.

After `with gzip.open(fs.open(p, "wb"), "wb")` `gzip` closes the file, without a reason for it. The user's frame
has the reason: the interpreter stands at the instruction there that calls `__exit__` for an exception.
SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import opcode
import sys
from types import FrameType

from fsspec.core import OpenFile

_LEAVES_BY_EXCEPTION = opcode.opmap["WITH_EXCEPT_START"]
# Modules that close the files they were given when their own `with` block ends. A program's own classes and
# `finally: file.close()` may mean what was written to be kept.
_LIBRARIES = frozenset({"bz2", "codecs", "contextlib", "fsspec.core", "gzip", "lzma", "zipfile"})


def frames_being_left() -> frozenset[int]:
    """Returns the callers with a `with` statement that is being left by an exception; asked when a file is opened, since
    what is opened then is none that the exception left."""
    if sys.exc_info()[0] is None:
        return frozenset()
    left, frame = set(), sys._getframe(1)
    while frame.f_back is not None:
        frame = frame.f_back
        if _is_being_left(frame):
            left.add(id(frame))
    return frozenset(left)


def is_block_left(left_at_opening: frozenset[int]) -> bool:
    """Returns whether the end of a `with` statement, through nothing but libraries, led here, since its block raised."""
    frame: FrameType | None = sys._getframe(1) if sys.exc_info()[0] is not None else None
    while frame is not None:
        if frame.f_code is OpenFile.__exit__.__code__:
            return bool(frame.f_locals["args"][0] is not None)
        if _is_being_left(frame):
            return id(frame) not in left_at_opening
        module = str(frame.f_globals.get("__name__"))
        if module not in _LIBRARIES and module.partition(".")[0] != __name__.partition(".")[0]:
            return False
        frame = frame.f_back
    return False


def _is_being_left(frame: FrameType) -> bool:
    return frame.f_lasti >= 0 and frame.f_code.co_code[frame.f_lasti] == _LEAVES_BY_EXCEPTION
