"""Files written in a `with fs.transaction:` block get their names in one commit at its end, or none does.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fsspec.transaction import Transaction

from thalweg.connections import using

if TYPE_CHECKING:
    from thalweg.filesystem import ThalwegFileSystem


class ThalwegTransaction(Transaction):  # type: ignore[misc]
    """Only what is written takes part: `rm`, `mv` and `mkdir` act at once, as with all of fsspec."""

    fs: Any

    def complete(self, commit: bool = True) -> None:
        fs: ThalwegFileSystem = self.fs
        files = list(self.files)
        try:
            if commit and files:
                with using(fs.location) as store:
                    store.name([file.named() for file in files])
        finally:
            for file in files:
                file.discard()
            self.files.clear()
            fs._intrans = False
            fs._transaction = None
            self.fs = None
