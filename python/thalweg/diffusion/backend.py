"""The interface of back-ends: one runs a coordinator somewhere and workers elsewhere.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

from typing import Callable, Protocol

from thalweg.diffusion.messages import Tasks, Update

# Update come in the back-end's thread. After a loss nothing more comes.
UpdateHandler = Callable[[list[Update]], None]
LossHandler = Callable[[BaseException], None]


class Backend(Protocol):
    def keep(self, digest: bytes, pickled: bytes) -> None:
        """A function or a large argument that tasks will name by its digest."""

    def forget(self, digests: list[bytes]) -> None:
        """No task that is submitted needs them any more."""

    def cancel(self, numbers: list[int]) -> None:
        """Nothing is to come of these tasks."""

    def submit(self, tasks: Tasks) -> None: ...

    def check(self) -> None:
        """Reports the loss of the back-end, if it is gone."""

    def close(self) -> None:
        """Nothing is heard of it afterwards."""
