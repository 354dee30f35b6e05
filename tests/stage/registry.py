"""The list of tests. A test is a function of a scene, named by the sentence it proves; it fails by raising Failure."""

from dataclasses import dataclass
from typing import Callable

TESTS = []
SECONDS = 60


class Failure(Exception):
    """The test's sentence does not hold."""


@dataclass
class Test:
    name: str
    act: Callable
    seconds: float


def test(act=None, *, each=None, seconds=SECONDS):
    """Registers a function; with `each`, one test for each of these values, given as the second argument.
    `seconds` is the longest it may take."""
    if act is None:
        return lambda act: test(act, each=each, seconds=seconds)
    sentence = act.__name__.replace("_", " ")
    if each is None:
        TESTS.append(Test(sentence, act, seconds))
    for value in each or []:
        TESTS.append(Test(f"{sentence}: {shown(value)}", lambda scene, value=value: act(scene, value), seconds))
    return act


def shown(value):
    return " ".join(map(str, value)) if isinstance(value, tuple) else str(value)


def check(condition, why):
    if not condition:
        raise Failure(why)
