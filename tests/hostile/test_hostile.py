"""Hostile problems times every method: nothing that the library says is false, and nothing breaks.

140 problems with three methods each in the tests of every day; with -m long 10,000 runs on problems
whose solution the reference finds, and 20,000 on problems that are built round a solution. The
judge is the long-double reference of `hostile.reference`, which shares no code with the library.
"""

from __future__ import annotations

from collections import Counter

import pytest

from hostile import planted
from hostile.generator import FOUND, KINDS
from hostile.judge import NAMES, Budget, Trial, trials

EACH = -(-90 // len(FOUND))  # problems of a kind
EACH_PLANTED = -(-50 // len(planted.KINDS))
LARGE = Budget(h=300, g=3000, iterations=400, prox=20_000)
EACH_LONG = -(-10_000 // (len(FOUND) * len(NAMES)))
TWO = 2  # methods on a planted problem of the long form
EACH_PLANTED_LONG = -(-20_000 // (len(planted.KINDS) * TWO))


def told(complaints):
    count = Counter(c.what for c in complaints)
    return "\n".join([str(dict(count)), *map(str, complaints[:20])])


@pytest.mark.parametrize("kind", KINDS)
def test_hostile(kind):
    complaints = trials(kind, range(EACH if kind in FOUND else EACH_PLANTED), 3, Budget())
    assert not complaints, told(complaints)


@pytest.mark.parametrize(
    ("kind", "number", "method"),
    [
        ("wrong constants", 21, "sae"),
        ("wrong constants", 37, "sc-sae"),
        ("wrong constants", 21, "afb"),
        ("wrong constants", 50, "ags"),
        ("conditioned", 21, "similar-newton"),
        ("separable", 30, "similar-newton"),
        ("one variable", 38, "similar-newton"),
        ("planted variation", 2269, "lbfgs"),
    ],
)
def test_found_by_the_long_form(kind, number, method):
    complaints = Trial(kind, number, method, LARGE).judge()
    assert not complaints, told(complaints)


@pytest.mark.long
@pytest.mark.parametrize("kind", planted.KINDS)
def test_planted_long(kind):
    """Every other problem with a larger budget."""
    complaints = []
    for first, budget in ((0, Budget()), (1, LARGE)):
        complaints += trials(kind, range(first, EACH_PLANTED_LONG, 2), TWO, budget)
    print(f"{kind}: {EACH_PLANTED_LONG * TWO} runs, {len(complaints)} complaints")
    assert not complaints, told(complaints)


@pytest.mark.long
@pytest.mark.parametrize("kind", FOUND)
def test_hostile_long(kind):
    """Every method on every problem, numbers that the short form has not seen, larger budgets."""
    numbers = range(EACH, EACH + EACH_LONG)
    complaints = trials(kind, numbers, len(NAMES), LARGE)
    print(f"{kind}: {len(numbers) * len(NAMES)} runs, {len(complaints)} complaints")
    assert not complaints, told(complaints)
