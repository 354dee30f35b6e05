"""The workloads: tasks that name files and then sleep. Orders and draws come from a seed that every row repeats.

SPDX-License-Identifier: Apache-2.0
"""

import dataclasses
import itertools
import random

WORKERS = 8
LITTLE_MEMORY_BYTES = 300_000_000  # of a worker, of which its programs take two thirds
SMALL_CACHES = "stacked pairs, small caches"
SHORT_TASKS = "short tasks"
CHURNED = "reuse 10, half killed"
SECOND_RUN = "reuse 10, second run"
LARGE_FILES = "16 MB files"
LARGER_THAN_MEMORY = "16 MB files, more than fit in memory"
LARGER_THAN_MEMORY_AGAIN = "16 MB files, more than fit in memory, second run"


@dataclasses.dataclass(frozen=True)
class Workload:
    name: str
    files: int
    file_bytes: int
    tasks: tuple  # of tuples of file numbers
    task_s: float
    cache_bytes: int  # of a worker
    killed: int = 0  # workers killed midway, and replaced
    runs: int = 1  # on the same files, of which the last is timed

    def unique_bytes(self):
        return len(set(itertools.chain.from_iterable(self.tasks))) * self.file_bytes

    def bound_s(self, store_bytes_per_s, workers=WORKERS):
        """No schedule is faster: every file leaves the store once, all the work is done."""
        return max(self.unique_bytes() / store_bytes_per_s, len(self.tasks) * self.task_s / workers)

    def possible_hits(self):
        """Of all inputs the share that can be found in the own cache: all but the first of each file."""
        inputs = sum(map(len, self.tasks))
        return 1 - len(set(itertools.chain.from_iterable(self.tasks))) / inputs if inputs else 0.0

    def as_json(self):
        return dataclasses.asdict(self)

    def scaled(self, share):
        """The first part of the tasks, for trying things out."""
        return dataclasses.replace(self, tasks=self.tasks[: max(1, round(len(self.tasks) * share))])


def from_json(fields):
    return Workload(**fields | {"tasks": tuple(map(tuple, fields["tasks"]))})


def one_input(name, files, file_bytes, reuse, task_s, seed, caches=2.0):
    """`caches`: all caches together, in multiples of the files."""
    tasks = [(file,) for file in range(files) for _ in range(reuse)]
    return _shuffled(name, files, file_bytes, tasks, task_s, seed, caches)


def all_pairs(side, file_bytes, task_s, seed, caches=4.0):
    tasks = [(row, side + column) for row in range(side) for column in range(side)]
    return _shuffled(f"all pairs {side}²", 2 * side, file_bytes, tasks, task_s, seed, caches)


def stacked_pairs(files, reach, file_bytes, task_s, seed, caches=4.0, name="stacked pairs"):
    """Each tile with the `reach` tiles after it, round the sky."""
    tasks = [(file, (file + step) % files) for file in range(files) for step in range(1, reach + 1)]
    return _shuffled(name, files, file_bytes, tasks, task_s, seed, caches)


def zipf_pairs(files, tasks, file_bytes, task_s, seed, caches=4.0):
    """Both drawn by Zipf's law with exponent 1."""
    dice = random.Random(seed)
    weights = [1 / rank for rank in range(1, files + 1)]
    drawn = [tuple(dice.choices(range(files), weights, k=2)) for _ in range(tasks)]
    pairs = [(first, second if second != first else (first + 1) % files) for first, second in drawn]
    return _shuffled("zipf pairs", files, file_bytes, pairs, task_s, seed, caches)


def short_tasks(count, task_s):
    """Without any input: what is left is what the machinery costs."""
    return Workload(SHORT_TASKS, 0, 0, ((),) * count, task_s, 1_000_000)


def churned(workload):
    """Half the workers are killed midway."""
    return dataclasses.replace(workload, name=CHURNED, killed=WORKERS // 2)


def second_run(workload, name):
    """Another session on the same files: what outlives the first?"""
    return dataclasses.replace(workload, name=name, runs=2)


def _shuffled(name, files, file_bytes, tasks, task_s, seed, caches):
    random.Random(seed).shuffle(tasks)
    cache = max(round(caches * files * file_bytes / WORKERS), 2 * file_bytes)
    return Workload(name, files, file_bytes, tuple(tasks), task_s, cache)


def usual(seed):
    """In the order they are run."""
    return [
        one_input("reuse 10", 100, 2_000_000, 10, 0.02, seed),
        all_pairs(60, 1_000_000, 0.02, seed),
        stacked_pairs(100, 5, 2_000_000, 0.04, seed),
        stacked_pairs(100, 5, 2_000_000, 0.04, seed, caches=2.0, name=SMALL_CACHES),
        zipf_pairs(200, 1000, 1_000_000, 0.02, seed),
        one_input("reuse 1", 100, 2_000_000, 1, 0.02, seed),
        one_input("compute-bound", 8, 100_000, 40, 0.1, seed, 16.0),
        one_input("one file for all", 1, 500_000, 200, 0.1, seed, 16.0),
        short_tasks(4000, 0.01),
        second_run(one_input("reuse 10", 100, 2_000_000, 10, 0.02, seed), SECOND_RUN),
        one_input(LARGE_FILES, 32, 16_000_000, 8, 0.05, seed),
        one_input(LARGER_THAN_MEMORY, 64, 16_000_000, 8, 0.05, seed),
        second_run(one_input(LARGER_THAN_MEMORY, 64, 16_000_000, 8, 0.05, seed), LARGER_THAN_MEMORY_AGAIN),
        churned(one_input("reuse 10", 100, 2_000_000, 10, 0.02, seed)),
    ]
