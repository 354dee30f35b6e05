"""The common part of rivals: a task reads its input itself, and says where each came from.

SPDX-License-Identifier: Apache-2.0
"""

import functools

from diffusion import reading


class Rival:
    """Each task reads the store. `folder` is this turn's own."""

    def prepare(self, workload, run):
        pass

    def finish(self):
        pass

    def sources(self, results):
        """Of each input."""
        return [source for _, sources in results for source in sources]

    def reader(self, run):
        return reading.from_store


class WithFilecache:
    """Files a worker has read lie in its own folder; tasks go where they would."""

    def reader(self, run):
        return functools.partial(reading.from_filecache, str(self.folder / run))
