"""The task, the same for all contenders: get its files, check every byte, sleep. It says where each file came from.

SPDX-License-Identifier: Apache-2.0
"""

import time

from diffusion import content


def run(number, addresses, seconds, read):
    """(number, sources). `read` takes an address and gives (bytes, "local", "peer" or "store")."""
    sources = []
    for address in addresses:
        found, source = read(address)
        content.check(address, found)
        sources.append(source)
    time.sleep(seconds)
    return number, sources


def on_paths(number, addresses, seconds, *paths):
    """For ours, which brings the files: they lie at `paths`. Where they came from its own events say."""
    for address, path in zip(addresses, paths):
        with open(path, "rb") as file:
            content.check(address, file.read())
    time.sleep(seconds)
    return number


def on_contents(number, addresses, seconds, *contents):
    """For rivals that bring what another task has loaded: how, they do not say."""
    for address, found in zip(addresses, contents):
        content.check(address, found)
    time.sleep(seconds)
    return number, ["local"] * len(contents)


def wait(seconds):
    """Loads what a first task would."""
    content.block()
    time.sleep(seconds)
