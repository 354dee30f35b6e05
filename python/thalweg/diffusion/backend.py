"""What a back-end is to `Diffusion`: it runs a coordinator somewhere and workers elsewhere.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

from typing import Callable, Protocol

from thalweg.diffusion.messages import News, Tasks

# News come in the back-end's thread. Without news but with an exception the run is over.
Listener = Callable[[list[News]], None]
Mourner = Callable[[BaseException], None]


class Backend(Protocol):
    def keep(self, digest: bytes, pickled: bytes) -> None:
        """A function or a large argument that tasks will name by its digest."""

    def forget(self, digests: list[bytes]) -> None:
        """No task that is submitted needs them any more."""

    def cancel(self, numbers: list[int]) -> None:
        """Nothing is to come of these tasks."""

    def submit(self, tasks: Tasks) -> None: ...

    def check(self) -> None:
        """Tells the mourner if nothing more will come."""

    def close(self) -> None:
        """Nothing is heard of it afterwards."""
