"""Files written in a `with fs.transaction:` block get their names in one commit at its end, or none does.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fsspec.transaction import Transaction

from thalweg.connections import using

if TYPE_CHECKING:
    from thalweg.filesystem import ThalwegFileSystem
    from thalweg.upload import Upload


class ThalwegTransaction(Transaction):  # type: ignore[misc]
    """Only what is written takes part: `rm`, `mv` and `mkdir` act at once, as with all of fsspec."""

    fs: Any

    def complete(self, commit: bool = True) -> None:
        fs: ThalwegFileSystem = self.fs
        uploads: list[Upload] = list(self.files)
        try:
            # One whose `with` block was left by an exception takes no part.
            chosen = [upload for upload in uploads if not upload.discarded]
            if commit and chosen:
                for upload in chosen:
                    # Raises if the store was replaced since this one was begun.
                    store = upload.store()
                with using(fs.location):
                    store.commit_drafts([upload.commit_entry() for upload in chosen])
        finally:
            for upload in uploads:
                upload.discard()
            self.files.clear()
            fs._intrans = False
            fs._transaction = None
            self.fs = None
