"""The target of each application: the weighted max-min fair allocation that is feasible, given which servers it uses
and what it can use at most.

A set of applications can get no more than all servers that any of them uses, or what they can use. The set for which
this is least for its weight is the bottleneck: it gets exactly that, and the others share what is left (Megiddo 1974,
lexicographic optima of flows).
SPDX-License-Identifier: Apache-2.0
"""

import itertools
import math


def shares(weights, servers, bounds=None):
    """Parts of all that is given out, for applications of these weights that use these sets of equally fast servers,
    each up to its bound: so many servers' worth."""
    bounds = bounds or [math.inf] * len(weights)
    classes = {}
    for index, key in enumerate(zip(map(frozenset, servers), bounds)):
        # An application with a bound of its own reaches it alone.
        classes.setdefault(key + (() if key[1] == math.inf else (index,)), []).append(index)
    done, got = (), {}
    while len(done) < len(classes):
        level, chosen = min(_levels(classes, weights, done), key=lambda found: (found[0], -len(found[1])))
        got |= {index: weights[index] * level for key in chosen for index in classes[key]}
        done += chosen
    total = sum(got.values())
    return [got[index] / total for index in range(len(weights))]


def _levels(classes, weights, done):
    left = [key for key in classes if key not in done]
    for count in range(1, len(left) + 1):
        for chosen in itertools.combinations(left, count):
            weight = sum(weights[index] for key in chosen for index in classes[key])
            yield (_most(done + chosen) - _most(done)) / weight, chosen


def _most(keys):
    """The most that these can get together: some reach their bounds, the others have all their servers."""
    least = math.inf
    for count in range(len(keys) + 1):
        for on_servers in itertools.combinations(keys, count):
            used = frozenset().union(*(key[0] for key in on_servers))
            least = min(least, len(used) + sum(key[1] for key in keys if key not in on_servers))
    return least
