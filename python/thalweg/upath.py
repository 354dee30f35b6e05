"""`thalweg://` paths of universal_pathlib, which finds this module by its entry point.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

from fsspec import register_implementation
from upath import UPath

from thalweg import url
from thalweg.filesystem import ThalwegFileSystem

# universal_pathlib asks loaded classes alone how paths are written.
register_implementation(ThalwegFileSystem.protocol, ThalwegFileSystem, clobber=True)


class ThalwegPath(UPath):
    """A path in a Thalweg store.

    Examples
    --------
    >>> from upath import UPath
    >>> path = UPath("thalweg:///scratch/st!/run1") / "x.dat"
    >>> str(path)
    'thalweg:///scratch/st!/run1/x.dat'
    """

    __slots__ = ()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self)!r})"

    def __str__(self) -> str:
        """Returns the URL, with the store, which universal_pathlib keeps apart from the path."""
        written: str = super().__str__()
        store, path = url.split(written)
        if self._relative_base is not None or store is not None or not written.startswith(url.SCHEME):
            return written
        try:
            return url.join(url.address(self.storage_options.get("store")), path)
        except ValueError:
            # No store is named yet.
            return written
