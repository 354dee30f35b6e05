"""A cached item: a file, or a range of one. SPDX-License-Identifier: Apache-2.0"""

from __future__ import annotations

import re
from typing import NamedTuple

_RANGE = re.compile(r"(\d+)-(\d*) (.+)", re.DOTALL)


class Item(NamedTuple):
    """Bytes `start` to `end` of what lies at `url`; to its end without `end`."""

    url: str
    start: int = 0
    end: int | None = None

    @property
    def whole(self) -> bool:
        return self.start == 0 and self.end is None

    @property
    def key(self) -> str:
        """Its name in messages and in caches: the URL, for a range with `START-END ` before it."""
        if self.whole and _RANGE.fullmatch(self.url) is None:
            return self.url
        return f"{self.start}-{'' if self.end is None else self.end} {self.url}"

    @classmethod
    def of_key(cls, key: str) -> Item:
        found = _RANGE.fullmatch(key)
        if found is None:
            return cls(key)
        return cls(found[3], int(found[1]), int(found[2]) if found[2] else None)
