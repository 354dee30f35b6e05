"""How stores and paths in them are written.

    thalweg://HOST:PORT/path            a node
    thalweg:///abs/dir/of/store!/path   a directory on this machine: the store ends at the first `!/`, or a last `!`
    thalweg:///path, thalweg://path     in the store that storage_options={"store": ...} or $THALWEG_STORE names

The command's `STORE::PATH` cannot be used: fsspec chains file systems with `::`. SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import os
import re

from thalweg.error_code import coded

SCHEME = "thalweg://"

_NODE = re.compile(r"(\[[^\]/]*\]|[^/:\[\]]+):[0-9]{1,5}(?=/|$)")
_DIRECTORY = re.compile(r"(/.*?)!(?=/|$)", re.DOTALL)


def split(url: str) -> tuple[str | None, str]:
    """The store a URL names, if it does, and the path below its root, without slashes at its ends."""
    if not url.startswith(SCHEME):
        return None, _plain(url)
    rest = url[len(SCHEME) :]
    node = _NODE.match(rest)
    if node:
        return SCHEME + node[0], _plain(rest[node.end() :])
    directory = _DIRECTORY.match(rest)
    if directory:
        return directory[1], _plain(rest[directory.end() :])
    return None, _plain(rest)


def join(store: str, path: str) -> str:
    """The URL of a path in a store."""
    start = store if store.startswith(SCHEME) else f"{SCHEME}{store}!"
    return f"{start}/{path}"


def address(store: str | os.PathLike[str] | None) -> str:
    """A store as it was written, made independent of this process's folder; without one, `$THALWEG_STORE`."""
    if not isinstance(store, (str, os.PathLike, type(None))):
        raise coded(TypeError(f"{store!r}: a store is named by a directory or a URL"), "TW-102")
    written = os.fspath(store) if store else os.environ.get("THALWEG_STORE", "")
    if not written:
        raise coded(
            ValueError(
                "no store is named: write thalweg://HOST:PORT/path or thalweg:///directory/of/the/store!/path, "
                'give store="..." or set $THALWEG_STORE'
            ),
            "TW-102",
        )
    if written.startswith(SCHEME):
        named, path = split(written.rstrip("/"))
        if named is None or path:
            raise coded(ValueError(f"{written}: a node's address is written thalweg://HOST:PORT"), "TW-102")
        return named
    return os.path.abspath(os.path.expanduser(written))


def is_same_store(named: str, other: str) -> bool:
    """Returns whether two names of stores, neither of them empty, mean the same store."""
    first, second = address(named), address(other)
    if first == second or SCHEME in first + second:
        return first == second
    return os.path.realpath(first) == os.path.realpath(second)


def _plain(path: str) -> str:
    return "/".join(filter(None, path.split("/")))
