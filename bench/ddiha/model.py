"""DDiHA's model: how long a program of k phases takes, and how much of that it waits for its output.

The equations are the source's, by its numbers. They give every node the same rate to the storage, b, also the two that
deduplicate. Before one disk these two have all of it, so their rate is a field of its own; `as_written` makes it b again.
SPDX-License-Identifier: Apache-2.0
"""

import dataclasses


@dataclasses.dataclass(frozen=True)
class Model:
    """Rates in MB/s of one node."""

    nodes: int  # n
    deduplicating_share: float  # r
    phases: int  # k
    output_mb: float  # W, of one phase
    stored_mb: float  # W', of one phase
    compute_rate: float  # C
    storage_rate: float  # b in (2)
    nodes_storage_rate: float  # b in (4) and (5)
    hand_over_rate: float  # b_h
    deduplication_rate: float  # C'

    def as_written(self):
        return dataclasses.replace(self, nodes_storage_rate=self.storage_rate)

    def plain_io_s(self):
        return self.phases * self.output_mb / (self.nodes * self.storage_rate)

    def plain_s(self):
        """Equation (2)."""
        return self.phases * self.output_mb / (self.nodes * self.compute_rate) + self.plain_io_s()

    def hand_over_s(self):
        """Of one phase, while the nodes keep up."""
        return self.output_mb / (self._computing_nodes() * self.hand_over_rate)

    def deduplicated_io_s(self):
        return self.phases * self.hand_over_s()

    def computing_cycle_s(self):
        """The right side of (5)."""
        return self.output_mb / (self._computing_nodes() * self.compute_rate) + self.hand_over_s()

    def deduplication_cycle_s(self):
        """The left side of (5)."""
        nodes = self.nodes * self.deduplicating_share
        return self.output_mb / (nodes * self.deduplication_rate) + self.stored_mb / (nodes * self.nodes_storage_rate)

    def overlaps(self):
        """Equation (5)."""
        return self.deduplication_cycle_s() <= self.computing_cycle_s()

    def deduplicated_s(self):
        """Equation (4) where (5) holds. Where it does not, the longer cycle is the one that repeats."""
        computing, deduplication = self.computing_cycle_s(), self.deduplication_cycle_s()
        return computing + (self.phases - 1) * max(computing, deduplication) + deduplication

    def gain(self):
        """Equation (6): (2) over (4) with many phases."""
        b, c, fast = self.storage_rate, self.compute_rate, self.hand_over_rate / self.storage_rate
        return fast * (c + b) * (1 - self.deduplicating_share) / (fast * b + c)

    def _computing_nodes(self):
        return self.nodes * (1 - self.deduplicating_share)
