"""What each application should get: the weighted max-min fair allocation that is feasible, given which servers it uses.

A set of applications can get no more than all servers that any of them uses. The set for which this is least for its
weight is the bottleneck: it gets exactly that, and the others share what is left (Megiddo 1974, lexicographic
optima of flows).
SPDX-License-Identifier: Apache-2.0
"""

import itertools


def shares(weights, servers):
    """Parts of the total for applications of these weights that use these sets of equally fast servers."""
    classes = {}
    for index, used in enumerate(servers):
        classes.setdefault(frozenset(used), []).append(index)
    left, taken, got = dict(classes), frozenset(), {}
    while left:
        level, chosen = min(_levels(left, weights, taken), key=lambda found: (found[0], -len(found[1])))
        for used in chosen:
            got |= {index: weights[index] * level for index in left.pop(used)}
            taken |= used
    total = sum(got.values())
    return [got[index] / total for index in range(len(weights))]


def _levels(classes, weights, taken):
    for count in range(1, len(classes) + 1):
        for chosen in itertools.combinations(classes, count):
            capacity = len(frozenset().union(*chosen) - taken)
            yield capacity / sum(weights[index] for used in chosen for index in classes[used]), chosen
