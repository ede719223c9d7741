"""Hostile problems with a third term, which changes nothing: the same judge, and every level."""

from __future__ import annotations

import numpy as np
import pytest

from hostile.generator import FOUND
from hostile.judge import Budget, Trial
from hostile.test_hostile import told

METHODS = ("auto", "pqn", "afb", "lbfgs", "fgm")
EACH = 3  # problems of a kind


class Nothing:
    """The term 0, from functions."""

    mu, convex = 0.0, True

    def __init__(self, L):
        self.L = L  # it is smooth with any L

    def value_and_grad(self, x):
        return 0.0, np.zeros_like(x)


class ThreeTerms(Trial):
    """h and nothing on two levels above g, or merged."""

    def __init__(self, *case):
        super().__init__(*case)
        if self.prices is not None:
            self.prices["nothing.grad"] = 5.0

    def _first(self):
        return {"h": self.h, "nothing": Nothing(getattr(self.h, "L", None) or 1.0)}

    def _constants(self):
        return {k: {"h": v} if k == "L_h" else v for k, v in self.case.options.items()}


@pytest.mark.parametrize("kind", FOUND)
def test_hostile_with_three_terms(kind):
    complaints = []
    for k in range(EACH):
        for j in range(2):
            complaints += ThreeTerms(kind, k, METHODS[(2 * k + j) % len(METHODS)], Budget()).judge()
    assert not complaints, told(complaints)


@pytest.mark.parametrize(
    ("kind", "number", "method"),
    [("jumping", 6, "fgm"), ("linear", 5, "auto"), ("scales", 5, "afb")],
)
def test_found_with_three_terms(kind, number, method):
    """An end above f(x0) with values that come with gradients only; a merged level without prox."""
    complaints = ThreeTerms(kind, number, method, Budget()).judge()
    assert not complaints, told(complaints)


def test_found_with_two_terms():
    complaints = Trial("jumping", 7, "afb", Budget()).judge()
    assert not complaints, told(complaints)
