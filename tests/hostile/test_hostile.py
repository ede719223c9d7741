"""Hostile problems times every method: nothing that the library says is false, and nothing breaks.

90 problems with three methods each in the tests of every day, 10,000 runs with -m long. The judge
is the long-double reference of `hostile.reference`, which shares no code with the library.
"""

from __future__ import annotations

from collections import Counter

import pytest

from hostile.generator import KINDS
from hostile.judge import NAMES, Budget, Trial, trials

EACH = -(-90 // len(KINDS))  # problems of a kind
LARGE = Budget(h=300, g=3000, iterations=400)
EACH_LONG = -(-10_000 // (len(KINDS) * len(NAMES)))


def told(complaints):
    count = Counter(c.what for c in complaints)
    return "\n".join([str(dict(count)), *map(str, complaints[:20])])


@pytest.mark.parametrize("kind", KINDS)
def test_hostile(kind):
    complaints = trials(kind, range(EACH), 3, Budget())
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
    ],
)
def test_found_by_the_long_form(kind, number, method):
    complaints = Trial(kind, number, method, LARGE).judge()
    assert not complaints, told(complaints)


@pytest.mark.long
@pytest.mark.parametrize("kind", KINDS)
def test_hostile_long(kind):
    """Every method on every problem, numbers that the short form has not seen, larger budgets."""
    numbers = range(EACH, EACH + EACH_LONG)
    complaints = trials(kind, numbers, len(NAMES), LARGE)
    print(f"{kind}: {len(numbers) * len(NAMES)} runs, {len(complaints)} complaints")
    assert not complaints, told(complaints)
