"""The guarantees of different file systems about written files. SPDX-License-Identifier: Apache-2.0"""

from __future__ import annotations

from typing import Any

# Stores that show a file when its last byte is there, and cannot rename or do it by copying.
_WHOLE = {"s3", "s3a", "gs", "gcs", "az", "abfs", "abfss", "adl", "thalweg", "memory"}


def protocols(fs: Any) -> set[str]:
    return {fs.protocol} if isinstance(fs.protocol, str) else set(fs.protocol)


def shows_whole_files(fs: Any) -> bool:
    return bool(protocols(fs) & _WHOLE)


def is_local(fs: Any) -> bool:
    return "file" in protocols(fs)


def make_parent(fs: Any, place: str) -> str:
    """Returns the folder that is to hold `place`, which it makes."""
    parent: str = fs._parent(place)
    if parent:
        fs.makedirs(parent, exist_ok=True)
    return parent
