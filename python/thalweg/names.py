"""Names with glob characters. fsspec takes them for patterns wherever it takes many names; here a name that is in the store
is that name. SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import errno
import os
from typing import Any

from fsspec.callbacks import DEFAULT_CALLBACK
from fsspec.spec import AbstractFileSystem

from thalweg.store_error import store_error

_MAGIC = set("*?[")


class LiteralNames(AbstractFileSystem):  # type: ignore[misc]
    """A file system on which what exists is meant, and only other names with glob characters are patterns."""

    def expand_path(self, path: Any, recursive: bool = False, maxdepth: int | None = None, **kwargs: Any) -> list[str]:
        """Returns the paths that patterns match, and with `recursive` all below them. A name that is in the store is that
        name, whatever glob characters it has."""
        written = [path] if isinstance(path, (str, os.PathLike)) else list(path)
        literal = [self._strip_protocol(one) for one in written if _MAGIC & set(str(one)) and not self.is_pattern(one)]
        others = [one for one in written if self._strip_protocol(one) not in literal]
        found = set(super().expand_path(others, recursive, maxdepth, **kwargs)) if others or not literal else set()
        for one in literal:
            found.update(self.find(one, maxdepth=maxdepth, withdirs=True) if recursive else ())
            found.add(one)
        return sorted(found)

    def _is_literal(self, path: Any) -> bool:
        """Whether a path has glob characters, and something in the store has it for its name."""
        return isinstance(path, str) and bool(_MAGIC & set(path)) and self.exists(path)

    def is_pattern(self, path: Any) -> bool:
        """Whether a path has glob characters, and nothing in the store has it for its name."""
        return bool(_MAGIC & set(str(path))) and not self.exists(str(path))

    def copy(self, path1: Any, path2: Any, recursive: bool = False, maxdepth: int | None = None, **kwargs: Any) -> None:
        """Copies without reading any content. `path1` is a path, a pattern, or a list of them.

        Examples
        --------
        >>> fs.copy("run1", "run2", recursive=True)
        >>> fs.copy("run1/*.dat", "saved/")
        """
        if isinstance(path2, str) and self._is_literal(path1):
            path1, path2 = self._paired(path1, path2, self.isdir(path2), recursive, maxdepth)
        super().copy(path1, path2, recursive=recursive, maxdepth=maxdepth, **kwargs)

    def get(
        self,
        rpath: Any,
        lpath: Any,
        recursive: bool = False,
        callback: Any = DEFAULT_CALLBACK,
        maxdepth: int | None = None,
        **kwargs: Any,
    ) -> None:
        """Copies to this machine's files. `rpath` is a path, a pattern, or a list of them.

        Examples
        --------
        >>> fs.get("run1/x.dat", "/tmp/x.dat")
        """
        if isinstance(lpath, (str, os.PathLike)) and self._is_literal(rpath):
            local = os.fspath(lpath)
            rpath, lpath = self._paired(rpath, local, os.path.isdir(local), recursive, maxdepth)
        super().get(rpath, lpath, recursive=recursive, callback=callback, maxdepth=maxdepth, **kwargs)

    def _paired(
        self, source: str, target: str, is_directory: bool, recursive: bool, maxdepth: int | None
    ) -> tuple[list[str], list[str]]:
        """The sources and destinations of a copy from a path with glob characters: fsspec takes such a path for a pattern."""
        root = self._strip_protocol(source)
        if target.endswith("/") or (is_directory and not source.endswith("/")):
            target = f"{target.rstrip('/')}/{root.rsplit('/', 1)[-1]}"
        sources = self.expand_path(root, recursive=recursive, maxdepth=maxdepth)
        if not recursive:
            sources = [one for one in sources if not self.isdir(one)]
        return sources, [target + one[len(root) :] for one in sources]

    def _move_many(self, paths: Any, target: Any, recursive: bool, maxdepth: int | None, **kwargs: Any) -> None:
        # Before anything is copied: what is copied may match the pattern too.
        sources = self.expand_path(paths, recursive=recursive, maxdepth=maxdepth)
        targets = [self._strip_protocol(one) for one in ([target] if isinstance(target, str) else target)]
        for source in sources:
            if any(source == one or source in above(one) for one in targets):
                raise store_error(errno.EINVAL, source, "cannot be moved into itself")
        self.copy(paths, target, recursive=recursive, maxdepth=maxdepth, on_error="raise", **kwargs)
        if not recursive:
            sources = [one for one in sources if not self.isdir(one)]
        # Below a directory's depth that was copied there may be more, with which it stays.
        self._remove(sorted(sources, reverse=True), recursive and maxdepth is None)

    def _remove(self, paths: list[str], recursive: bool) -> None:
        raise NotImplementedError


def above(path: str) -> set[str]:
    """Returns the directories above a path."""
    parts = path.split("/")
    return {"/".join(parts[:count]) for count in range(1, len(parts))}
